//! What a pod says about its application: how its health is asked, and which container it is.

use serde_json::{Value, json};

use super::leader_elector;
use super::problem::Problem;
use super::room::{CONTAINERS, PORTS, goes_on};
use super::settings::{PREFIX, Settings};
use crate::health::{
    HEALTH_INTERVAL, HEALTH_TIMEOUT, health_path, health_period, health_port, health_threshold,
};

/// The annotations about an application, checked one by one. What is not there is left to the sidecar.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Application {
    port: Option<u16>,
    /// The others, by their names and as they are written.
    texts: Vec<(&'static str, String)>,
}

/// The annotations, and the variables that the sidecar has them in.
const SETTINGS: [(&str, &str); 6] = [
    (PORT, "CONCLAVE_APP_HEALTH_PORT"),
    ("app-health-path", "CONCLAVE_APP_HEALTH_PATH"),
    (INTERVAL, "CONCLAVE_APP_HEALTH_INTERVAL"),
    (TIMEOUT, "CONCLAVE_APP_HEALTH_TIMEOUT"),
    ("app-health-threshold", "CONCLAVE_APP_HEALTH_THRESHOLD"),
    (CONTAINER, "CONCLAVE_APP_CONTAINER"),
];

const PORT: &str = "app-health-port";
const INTERVAL: &str = "app-health-interval";
const TIMEOUT: &str = "app-health-timeout";
const CONTAINER: &str = "app-container";

impl Application {
    /// Takes an annotation, if it is one of these; says whether it is.
    pub(super) fn set(&mut self, setting: &str, text: &str) -> Result<bool, String> {
        let Some((name, _)) = SETTINGS.iter().find(|(name, _)| *name == setting) else {
            return Ok(false);
        };
        match *name {
            PORT => self.port = Some(health_port(text)?),
            "app-health-path" => drop(health_path(text)?),
            INTERVAL | TIMEOUT => drop(health_period(text)?),
            "app-health-threshold" => drop(health_threshold(text)?),
            _ => {}
        }
        self.texts.push((name, text.to_owned()));
        Ok(true)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(other, _)| *other == name).map(|(_, text)| text.as_str())
    }

    /// The sidecar's variables.
    pub(super) fn environment(&self) -> impl Iterator<Item = Value> {
        SETTINGS.iter().filter_map(|(name, variable)| {
            Some(json!({"name": variable, "value": self.text(name)?}))
        })
    }
}

/// Whether the annotations go together, and with the pod.
pub(super) fn check(spec: &Value, settings: &Settings) -> Result<(), Problem> {
    let application = &settings.application;
    let problem = |name: &str, problem: String| {
        Problem::new(format!("metadata.annotations[{PREFIX}{name}]"), problem)
    };
    let Some(port) = application.port else {
        let mut others = application.texts.iter().filter(|(name, _)| *name != CONTAINER);
        if let Some((name, _)) = others.next() {
            return Err(problem(name, format!("says nothing without `{PREFIX}{PORT}`")));
        }
        return check_container(spec, application, problem);
    };
    if PORTS.into_iter().chain(leader_elector::port(settings)).any(|(ours, _)| ours == port) {
        return Err(problem(
            PORT,
            format!("must be a port of the application, and {port} is the sidecar's"),
        ));
    }
    let period = |name, otherwise| health_period(application.text(name).unwrap_or(otherwise));
    if period(TIMEOUT, HEALTH_TIMEOUT) > period(INTERVAL, HEALTH_INTERVAL) {
        let longest = application.text(INTERVAL).unwrap_or(HEALTH_INTERVAL);
        let is = application.text(TIMEOUT).unwrap_or(HEALTH_TIMEOUT);
        return Err(problem(
            TIMEOUT,
            format!(
                "must be at most the interval (`{PREFIX}{INTERVAL}`), {longest}, and is `{is}`"
            ),
        ));
    }
    check_container(spec, application, problem)
}

fn check_container(
    spec: &Value,
    application: &Application,
    problem: impl Fn(&str, String) -> Problem,
) -> Result<(), Problem> {
    let Some(wanted) = application.text(CONTAINER) else { return Ok(()) };
    let found = CONTAINERS.iter().any(|list| {
        spec[*list]
            .as_array()
            .into_iter()
            .flatten()
            .any(|container| container["name"] == wanted && goes_on(list, container))
    });
    if found {
        return Ok(());
    }
    Err(problem(
        CONTAINER,
        format!("must name a container that goes on, and there is no `{wanted}`"),
    ))
}

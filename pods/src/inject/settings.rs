//! What a pod's annotations say about its sidecar.

use conclave_protocols::zone::{ZONE, is_zone};
use serde_json::Value;
use tracing_subscriber::filter::Targets;

use super::application::Application;
use super::problem::Problem;
use super::resources::Wanted;

/// The annotations `config.conclave.dev/...` of a pod, and those of its application, checked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Settings {
    /// The image of the sidecar.
    pub(super) image: Option<String>,
    /// What it logs.
    pub(super) log_level: Option<String>,
    /// What it asks for and may use.
    pub(super) resources: Wanted,
    /// The containers that see its Unix socket.
    pub(super) mount_socket: Vec<String>,
    /// Whether its API has that socket alone.
    pub(super) socket_only: bool,
    /// The Secret with the file of tokens that its API asks for.
    pub(super) api_tokens: Option<String>,
    /// The elections that its application stands in from the beginning.
    pub(super) elections: Vec<String>,
    /// Its priority in the election of the group's leader.
    pub(super) priority: Option<i32>,
    /// How fit it is to lead, for an election by capacity.
    pub(super) capacity: Option<u32>,
    /// In which zone it is, whatever its label states.
    pub(super) zone: Option<String>,
    /// The election that is shown to an application that was written for leader-elector.
    pub(super) leader_elector: Option<String>,
    /// Whether its application reads group time from a clock page.
    pub(super) clock_page: bool,
    /// How the application's health is asked, and which container it is.
    pub(super) application: Application,
}

impl Settings {
    /// Reads them. One that is unknown is refused: it is a typing error.
    pub(super) fn read(pod: &Value) -> Result<Self, Problem> {
        let mut settings = Self::default();
        let annotations = pod.pointer("/metadata/annotations").and_then(Value::as_object);
        for (key, value) in annotations.into_iter().flatten() {
            let is_ours = key.starts_with(PREFIX) || OF_APPLICATION.contains(&key.as_str());
            if is_ours {
                let field = format!("metadata.annotations[{key}]");
                let text = value.as_str().ok_or_else(|| Problem::new(&field, "must be a text"))?;
                settings.take(key, text).map_err(|problem| Problem::new(&field, problem))?;
            }
        }
        Ok(settings)
    }

    fn take(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            ELECTIONS => self.elections = elections(text)?,
            CLOCK_PAGE => self.clock_page = truth(text)?,
            PRIORITY => self.priority = Some(priority(text)?),
            CAPACITY => self.capacity = Some(capacity(text)?),
            OWN_ZONE => self.zone = Some(zone(text)?),
            _ => self.set(key.strip_prefix(PREFIX).unwrap_or(key), text)?,
        }
        Ok(())
    }

    fn set(&mut self, setting: &str, text: &str) -> Result<(), String> {
        if self.application.set(setting, text)? || self.resources.set(setting, text)? {
            return Ok(());
        }
        match setting {
            "image" => self.image = Some(image(text)?),
            "log-level" => self.log_level = Some(log_level(text)?),
            "mount-socket" => self.mount_socket = list(text),
            "socket-only" => self.socket_only = truth(text)?,
            "api-tokens" => self.api_tokens = Some(secret(text)?),
            "leader-elector" => self.leader_elector = Some(election(text)?),
            _ => return Err(format!("is unknown; there are {}", KNOWN.join(", "))),
        }
        Ok(())
    }
}

/// What stands between commas.
fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

fn elections(text: &str) -> Result<Vec<String>, String> {
    let names = list(text);
    if names.is_empty() || !names.iter().all(|name| is_election(name)) {
        return Err(format!("must be names of elections, separated by commas, and is `{text}`"));
    }
    if names.iter().any(|name| name == "default") {
        return Err("may not name `default`: every member stands in it".to_owned());
    }
    Ok(names)
}

fn election(text: &str) -> Result<String, String> {
    if !is_election(text) {
        return Err(format!("must be `default` or the name of an election, and is `{text}`"));
    }
    Ok(text.to_owned())
}

fn is_election(name: &str) -> bool {
    is_label(name) && name.len() <= LABEL_MAX
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("must be the name of an image".to_owned());
    }
    Ok(text.to_owned())
}

fn log_level(text: &str) -> Result<String, String> {
    let filter = if text.is_empty() {
        "it is empty".to_owned()
    } else {
        match text.parse::<Targets>() {
            Ok(_) => return Ok(text.to_owned()),
            Err(error) => error.to_string(),
        }
    };
    Err(format!("must be a level or directives such as `info,kube=warn`: {filter}"))
}

/// The name of a Secret: a DNS subdomain.
fn secret(text: &str) -> Result<String, String> {
    if text.len() > SECRET_NAME_MAX || !text.split('.').all(is_label) {
        return Err(format!("must be the name of a Secret, and is `{text}`"));
    }
    Ok(text.to_owned())
}

/// A DNS label, but for its length.
fn is_label(label: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(is_inner)
}

fn priority(text: &str) -> Result<i32, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    let range =
        || format!("must be a whole number from {} to {}, and is `{text}`", i32::MIN, i32::MAX);
    number.ok_or_else(range)
}

fn capacity(text: &str) -> Result<u32, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| format!("must be a whole number from 0 to {}, and is `{text}`", u32::MAX))
}

fn zone(text: &str) -> Result<String, String> {
    if !is_zone(text) {
        return Err(format!("must be {ZONE}, and is `{text}`"));
    }
    Ok(text.to_owned())
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("must be `true` or `false`, and is `{text}`"))
}

pub(super) const PREFIX: &str = "config.conclave.dev/";

/// The annotation that puts an application forward without a call of its own.
const ELECTIONS: &str = "conclave.dev/elections";

/// The annotation by which an application has group time on a page of memory.
const CLOCK_PAGE: &str = "conclave.dev/clock-page";

/// The annotation that states the priority of a pod in the election of the group's leader.
const PRIORITY: &str = "conclave.dev/priority";

/// The annotation that states how fit a pod is to lead.
const CAPACITY: &str = "conclave.dev/capacity";

/// The annotation that states in which zone a pod is.
const OWN_ZONE: &str = "conclave.dev/zone";

/// What a pod says of its application.
pub(super) const OF_APPLICATION: [&str; 5] = [ELECTIONS, PRIORITY, CAPACITY, OWN_ZONE, CLOCK_PAGE];

const LABEL_MAX: usize = 63;

pub(super) const KNOWN: [&str; 16] = [
    "image",
    "log-level",
    "cpu-request",
    "cpu-limit",
    "memory-request",
    "memory-limit",
    "mount-socket",
    "socket-only",
    "api-tokens",
    "leader-elector",
    "app-health-port",
    "app-health-path",
    "app-health-interval",
    "app-health-timeout",
    "app-health-threshold",
    "app-container",
];

const SECRET_NAME_MAX: usize = 253;

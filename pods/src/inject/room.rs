//! Whether a pod has room for the sidecar: its names, ports and paths must be free.

use conclave_crds::{PEER_PORT, PEER_PORT_NAME, PROBE_PORT_NAME, SIDECAR_CONTAINER};
use serde_json::Value;

use super::container::{
    ADMIN_PORT, ADMIN_PORT_NAME, API_PORT, API_PORT_NAME, CLOCK_PATH, RUN_PATH,
};
use super::pod::VOLUMES;
use super::problem::Problem;
use super::settings::Settings;
use super::{application, leader_elector};

/// Whether the sidecar has its place in the pod, which has none yet.
pub(super) fn check(pod: &Value, settings: &Settings) -> Result<(), Problem> {
    let spec = &pod["spec"];
    if spec["hostNetwork"] == true {
        let problem = "must not be true: ports are shared with the node there";
        return Err(Problem::new("spec.hostNetwork", problem));
    }
    let items = |list: &str| spec[list].as_array().into_iter().flatten().enumerate();
    for list in CONTAINERS {
        for (index, container) in items(list) {
            check_container(container, settings)
                .map_err(|p| p.below(&format!("spec.{list}[{index}]")))?;
        }
    }
    for (index, volume) in items("volumes") {
        if VOLUMES.iter().any(|name| volume["name"] == *name) {
            return Err(in_use(&format!("spec.volumes[{index}].name"), &volume["name"]));
        }
    }
    leader_elector::check(settings)?;
    application::check(spec, settings)?;
    check_mounts(spec, settings)
}

fn check_container(container: &Value, settings: &Settings) -> Result<(), Problem> {
    let ports = || PORTS.into_iter().chain(leader_elector::port(settings));
    if container["name"] == SIDECAR_CONTAINER {
        return Err(in_use("name", &container["name"]));
    }
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        if ports().any(|(number, _)| port["containerPort"] == number) {
            let field = format!("ports[{index}].containerPort");
            return Err(in_use(&field, &port["containerPort"]));
        }
        if ports().any(|(_, name)| port["name"] == name) {
            return Err(in_use(&format!("ports[{index}].name"), &port["name"]));
        }
    }
    Ok(())
}

/// Whether the containers that want the socket exist and have nothing in its place.
fn check_mounts(spec: &Value, settings: &Settings) -> Result<(), Problem> {
    if settings.clock_page {
        check_clock_path(spec)?;
    }
    for name in &settings.mount_socket {
        let lists = CONTAINERS.iter().filter_map(|list| spec[list].as_array());
        let Some(container) = lists.flatten().find(|container| container["name"] == **name) else {
            let field = "metadata.annotations[config.conclave.dev/mount-socket]";
            return Err(Problem::new(field, format!("names `{name}`, which is no container")));
        };
        let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
        if mounts.any(|mount| mount["mountPath"] == RUN_PATH) {
            let problem = format!("has something at {RUN_PATH}, where the socket belongs");
            return Err(Problem::new(format!("volumeMounts of the container `{name}`"), problem));
        }
    }
    Ok(())
}

/// Whether the containers that have the clock page have nothing in its place.
fn check_clock_path(spec: &Value) -> Result<(), Problem> {
    for list in CONTAINERS {
        let containers = spec[list].as_array().into_iter().flatten();
        for container in containers.filter(|container| goes_on(list, container)) {
            let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
            if mounts.any(|mount| mount["mountPath"] == CLOCK_PATH) {
                let name = container["name"].as_str().unwrap_or_default();
                let problem =
                    format!("has something at {CLOCK_PATH}, where the clock page belongs");
                return Err(Problem::new(
                    format!("volumeMounts of the container `{name}`"),
                    problem,
                ));
            }
        }
    }
    Ok(())
}

/// Whether a container of that list goes on beside the others, and does not end before them.
pub(super) fn goes_on(list: &str, container: &Value) -> bool {
    list == "containers" || container["restartPolicy"] == "Always"
}

fn in_use(field: &str, value: &Value) -> Problem {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Problem::new(field, format!("may not be `{value}`, which the sidecar uses"))
}

/// The lists of containers in a pod.
pub(super) const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// The ports that every sidecar has.
pub(super) const PORTS: [(u16, &str); 4] = [
    (API_PORT, API_PORT_NAME),
    (PEER_PORT, PEER_PORT_NAME),
    (PEER_PORT, PROBE_PORT_NAME),
    (ADMIN_PORT, ADMIN_PORT_NAME),
];

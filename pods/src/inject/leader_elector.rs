//! What an application has that was written for leader-elector, or for the elector of NAIS, with this sidecar in
//! their place.

use conclave_crds::SIDECAR_CONTAINER;
use serde_json::{Value, json};

use super::problem::Problem;
use super::settings::{PREFIX, Settings};

/// The port that those sidecars had, on the loopback addresses only.
pub const LEADER_ELECTOR_PORT: u16 = 4040;

/// The name of [`LEADER_ELECTOR_PORT`] in the container.
pub const LEADER_ELECTOR_PORT_NAME: &str = "conclave-leader";

/// The port, if the pod wants it.
pub(super) fn port(settings: &Settings) -> Option<(u16, &'static str)> {
    settings.leader_elector.as_ref().map(|_| (LEADER_ELECTOR_PORT, LEADER_ELECTOR_PORT_NAME))
}

/// The sidecar's variable, if the pod wants the port.
pub(super) fn setting(settings: &Settings) -> Option<Value> {
    let election = settings.leader_elector.as_ref()?;
    Some(json!({"name": SETTING, "value": election}))
}

/// Whether a pod has a sidecar with that variable.
pub(super) fn is_in(pod: &Value) -> bool {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let sidecars = containers.filter(|container| container["name"] == SIDECAR_CONTAINER);
    let mut variables = sidecars.filter_map(|sidecar| sidecar["env"].as_array()).flatten();
    variables.any(|variable| variable["name"] == SETTING)
}

/// What the platform NAIS gives its applications, in the same forms.
pub(super) fn variables() -> [Value; 3] {
    let variable = |name: &str, value: String| json!({"name": name, "value": value});
    let host = format!("localhost:{LEADER_ELECTOR_PORT}");
    [
        variable("ELECTOR_SSE_URL", format!("http://{host}/sse")),
        variable("ELECTOR_GET_URL", format!("http://{host}/")),
        variable("ELECTOR_PATH", host),
    ]
}

/// Whether the pod restricts who may call: the port is open to all of it, and those applications have no token.
pub(super) fn check(settings: &Settings) -> Result<(), Problem> {
    let other = match settings {
        Settings { leader_elector: None, .. } => return Ok(()),
        Settings { api_tokens: Some(_), .. } => "api-tokens",
        Settings { socket_only: true, .. } => "socket-only",
        _ => return Ok(()),
    };
    let field = format!("metadata.annotations[{PREFIX}leader-elector]");
    let problem =
        format!("opens a port that asks for no token, and does not go with `{PREFIX}{other}`");
    Err(Problem::new(field, problem))
}

const SETTING: &str = "CONCLAVE_LEADER_ELECTOR";

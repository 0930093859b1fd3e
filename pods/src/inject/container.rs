//! The sidecar as a container, and what it needs of the pod.

use conclave_crds::{PEER_PORT, PEER_PORT_NAME, PROBE_PORT_NAME, SIDECAR_CONTAINER};
use serde_json::{Value, json};

use super::problem::Problem;
use super::settings::Settings;
use super::{Options, leader_elector};

/// The port of the API, on the loopback addresses only.
pub const API_PORT: u16 = 7070;

/// The name of [`API_PORT`] in the container.
pub const API_PORT_NAME: &str = "conclave-http";

/// The port of probes and metrics.
pub const ADMIN_PORT: u16 = 7072;

/// The name of [`ADMIN_PORT`] in the container: what a PodMonitor selects.
pub const ADMIN_PORT_NAME: &str = "conclave-admin";

/// The variable by which a sidecar has the group that it was injected for.
pub const GROUP_VARIABLE: &str = "CONCLAVE_GROUP";

/// Where applications find the API; they have it as `CONCLAVE_URL`.
pub const API_URL: &str = "http://127.0.0.1:7070";

/// The API's Unix socket; containers that mount it have the path as `CONCLAVE_SOCKET`.
pub const SOCKET_PATH: &str = "/run/conclave/conclave.sock";

/// Where the sidecar finds the token by which its pod gets a certificate.
pub const CERTIFICATE_TOKEN_PATH: &str =
    "/var/run/secrets/kubernetes.io/serviceaccount/conclave-token";

/// The volume of the socket.
pub(super) const RUN_VOLUME: &str = "conclave-run";

/// Where [`RUN_VOLUME`] is mounted.
pub(super) const RUN_PATH: &str = "/run/conclave";

/// The volume of the sidecar's own token: an application may do without one
/// (`automountServiceAccountToken: false`).
pub(super) const TOKEN_VOLUME: &str = "conclave-token";

/// The volume of the file of tokens that the API asks for, where a pod wants one.
pub(super) const API_TOKENS_VOLUME: &str = "conclave-api-tokens";

/// The volume of the clock page, where a pod wants one.
pub(super) const CLOCK_VOLUME: &str = "conclave-clock";

/// Where [`CLOCK_VOLUME`] is mounted.
pub(super) const CLOCK_PATH: &str = "/run/conclave/clock";

/// The clock page; the sidecar and the containers that read it have the path as `CONCLAVE_CLOCK_PAGE`.
pub const CLOCK_PAGE_PATH: &str = "/run/conclave/clock/page";

/// The native sidecar: an init container that goes on. The application starts once its API is
/// bound, and it ends after the application.
pub(super) fn container(
    group: &str,
    options: &Options,
    settings: &Settings,
) -> Result<Value, Problem> {
    let probe = |path: &str| json!({"path": path, "port": ADMIN_PORT_NAME});
    Ok(json!({
        "name": SIDECAR_CONTAINER,
        "image": settings.image.as_deref().unwrap_or(&options.image),
        "command": ["/conclave"],
        "args": ["sidecar"],
        "restartPolicy": "Always",
        "env": environment(group, settings),
        "ports": ports(settings),
        "startupProbe": {"httpGet": probe("/startupz"), "periodSeconds": 1, "failureThreshold": 120},
        "readinessProbe": {"httpGet": probe("/readyz"), "periodSeconds": 5},
        "livenessProbe": {"httpGet": probe("/livez"), "periodSeconds": 10, "failureThreshold": 6},
        // The port for the platform takes this from the pod alone, and a kubelet is outside of it.
        "lifecycle": {"preStop": {"exec": {"command": ["/conclave", "drain"]}}},
        "resources": options.resources.of_pod(&settings.resources)?,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsGroup": USER,
            "runAsNonRoot": true,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(settings),
    }))
}

fn mounts(settings: &Settings) -> Vec<Value> {
    let mut mounts = vec![
        json!({"name": TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": true}),
        json!({"name": RUN_VOLUME, "mountPath": RUN_PATH}),
    ];
    if settings.api_tokens.is_some() {
        let tokens =
            json!({"name": API_TOKENS_VOLUME, "mountPath": API_TOKENS_PATH, "readOnly": true});
        mounts.push(tokens);
    }
    if settings.clock_page {
        mounts.push(json!({"name": CLOCK_VOLUME, "mountPath": CLOCK_PATH}));
    }
    mounts
}

/// What is listened on.
fn ports(settings: &Settings) -> Vec<Value> {
    let port = |name: &str, number: u16| json!({"name": name, "containerPort": number});
    let api = (!settings.socket_only).then(|| port(API_PORT_NAME, API_PORT));
    let probes = json!({"name": PROBE_PORT_NAME, "containerPort": PEER_PORT, "protocol": "UDP"});
    let others = [port(PEER_PORT_NAME, PEER_PORT), probes, port(ADMIN_PORT_NAME, ADMIN_PORT)];
    let elector = leader_elector::port(settings).map(|(number, name)| port(name, number));
    api.into_iter().chain(others).chain(elector).collect()
}

fn environment(group: &str, settings: &Settings) -> Vec<Value> {
    let of_pod = |name: &str, path: &str| json!({"name": name, "valueFrom": from_field(path)});
    let mut environment = vec![
        of_pod("POD_NAME", "metadata.name"),
        of_pod("POD_NAMESPACE", "metadata.namespace"),
        of_pod("POD_UID", "metadata.uid"),
        of_pod("POD_IPS", "status.podIPs"),
        of_pod("HOST_IP", "status.hostIP"),
        of_pod("NODE_NAME", "spec.nodeName"),
        zone(settings),
        json!({"name": GROUP_VARIABLE, "value": group}),
        json!({"name": "CONCLAVE_SOCKET", "value": SOCKET_PATH}),
    ];
    if settings.socket_only {
        environment.push(json!({"name": "CONCLAVE_API_SOCKET_ONLY", "value": "true"}));
    }
    if settings.api_tokens.is_some() {
        let path = format!("{API_TOKENS_PATH}/{API_TOKENS_FILE}");
        environment.push(json!({"name": "CONCLAVE_API_TOKEN_PATH", "value": path}));
    }
    if !settings.elections.is_empty() {
        let names = settings.elections.join(",");
        environment.push(json!({"name": "CONCLAVE_ELECTIONS", "value": names}));
    }
    if let Some(priority) = settings.priority {
        environment.push(json!({"name": "CONCLAVE_PRIORITY", "value": priority.to_string()}));
    }
    if let Some(capacity) = settings.capacity {
        environment.push(json!({"name": "CONCLAVE_CAPACITY", "value": capacity.to_string()}));
    }
    environment.extend(settings.clock_page.then(clock_page_variable));
    environment.extend(settings.application.environment());
    environment.extend(leader_elector::setting(settings));
    if let Some(level) = &settings.log_level {
        environment.push(json!({"name": "CONCLAVE_LOG", "value": level}));
    }
    environment
}

/// The zone that the pod states, or that of its node: from 1.35 on Kubernetes copies that label to the pod. Without
/// the label the variable is empty.
fn zone(settings: &Settings) -> Value {
    match &settings.zone {
        Some(zone) => json!({"name": ZONE_VARIABLE, "value": zone}),
        None => json!({"name": ZONE_VARIABLE, "valueFrom": from_field(ZONE_FIELD)}),
    }
}

/// The volumes that the sidecar brings.
pub(super) fn volumes(settings: &Settings) -> Vec<Value> {
    let certificate =
        json!({"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]});
    let namespace = json!({"items": [{
        "path": "namespace",
        "fieldRef": {"fieldPath": "metadata.namespace"},
    }]});
    // As the API server's own plugin makes it for a pod that wants a token: an hour, and seven
    // seconds by which such tokens are distinguished from others.
    let token = json!({"path": "token", "expirationSeconds": 3_607});
    // For the operator's authority and for nobody else, and for the shortest time that there is.
    let own = json!({"audience": AUDIENCE, "path": "conclave-token", "expirationSeconds": 600});
    let mut volumes = vec![
        json!({"name": TOKEN_VOLUME, "projected": {"sources": [
            {"serviceAccountToken": token},
            {"serviceAccountToken": own},
            {"configMap": certificate},
            {"downwardAPI": namespace},
        ]}}),
        in_memory(RUN_VOLUME),
    ];
    // One of its own: applications may read it, and what else the sidecar has is not theirs.
    volumes.extend(settings.clock_page.then(|| in_memory(CLOCK_VOLUME)));
    if let Some(secret) = &settings.api_tokens {
        // Of the Secret this file alone: it may hold what applications are given, too.
        let items = json!([{"key": API_TOKENS_FILE, "path": API_TOKENS_FILE}]);
        let secret = json!({"secretName": secret, "items": items});
        volumes.push(json!({"name": API_TOKENS_VOLUME, "secret": secret}));
    }
    volumes
}

fn in_memory(name: &str) -> Value {
    json!({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
}

/// Where the clock page is.
pub(super) fn clock_page_variable() -> Value {
    json!({"name": "CONCLAVE_CLOCK_PAGE", "value": CLOCK_PAGE_PATH})
}

fn from_field(path: &str) -> Value {
    json!({"fieldRef": {"fieldPath": path}})
}

/// Where Kubernetes' clients look for a token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Where the file of tokens is, in the sidecar alone.
const API_TOKENS_PATH: &str = "/var/run/secrets/conclave.dev";

/// What it is called, there and in its Secret.
const API_TOKENS_FILE: &str = "tokens";

/// The variable by which a sidecar knows in which zone it is.
const ZONE_VARIABLE: &str = "CONCLAVE_ZONE";

/// Where a pod has the zone of its node.
const ZONE_FIELD: &str = "metadata.labels['topology.kubernetes.io/zone']";

/// Whom the token is for by which a pod gets its certificate.
const AUDIENCE: &str = "conclave";

/// The user and the group of the image.
const USER: u32 = 65_532;

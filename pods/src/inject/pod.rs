//! Adds the sidecar to one pod, or to one template of pods.

use conclave_crds::{GROUP_LABEL, SIDECAR_CONTAINER};
use serde_json::{Map, Value, json};

use super::container::{
    API_TOKENS_VOLUME, API_URL, CLOCK_PATH, CLOCK_VOLUME, RUN_PATH, RUN_VOLUME, SOCKET_PATH,
    TOKEN_VOLUME, clock_page_variable, container, volumes,
};
use super::problem::Problem;
use super::room::{self, CONTAINERS, goes_on};
use super::settings::Settings;
use super::{Options, leader_elector};

/// The pod label that says that the sidecar was injected, with the value `true`. The PodMonitor of
/// the chart selects it.
pub const INJECTED_LABEL: &str = "conclave.dev/injected";

/// Adds the sidecar to a pod, if it belongs to a group; says whether it does. The value has
/// `metadata` and `spec`, as a pod and a template of pods have. After an error it is spoilt.
pub fn inject_pod(pod: &mut Value, options: &Options) -> Result<bool, Problem> {
    let Some(group) = group_of(pod, options)? else { return Ok(false) };
    let settings = Settings::read(pod)?;
    if label(pod, INJECTED_LABEL) == Some("true") {
        take_out(pod);
    }
    room::check(pod, &settings)?;
    let container = container(&group, options, &settings)?;
    put_in(pod, &group, &settings, container)?;
    Ok(true)
}

/// Whether this can be the name of a group: of a `Conclave`, and of `conclave-NAME` beside it.
pub(super) fn check_group(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(inner);
    if is_label && name.len() <= GROUP_LENGTH_MAX {
        return Ok(());
    }
    Err(format!(
        "must be a DNS-1035 label of at most {GROUP_LENGTH_MAX} characters, and is `{name}`"
    ))
}

/// The group that the pod's label or the options name. A pod is in one group only.
fn group_of(pod: &Value, options: &Options) -> Result<Option<String>, Problem> {
    let wrong = |problem: String| Problem::new(format!("metadata.labels[{GROUP_LABEL}]"), problem);
    let labelled = label(pod, GROUP_LABEL);
    if let (Some(labelled), Some(wanted)) = (labelled, &options.group)
        && labelled != wanted
    {
        return Err(wrong(format!("must be `{wanted}` as --group says, and is `{labelled}`")));
    }
    let Some(group) = labelled.or(options.group.as_deref()) else { return Ok(None) };
    check_group(group).map_err(wrong)?;
    Ok(Some(group.to_owned()))
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// Takes out what was injected before.
fn take_out(pod: &mut Value) {
    let had_elector = leader_elector::is_in(pod);
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    drop_items(spec, "initContainers", |container| container["name"] == SIDECAR_CONTAINER);
    drop_items(spec, "volumes", |volume| VOLUMES.iter().any(|name| volume["name"] == *name));
    containers_mut(spec).for_each(|(_, container)| take_out_of(container, had_elector));
}

/// Takes out of a container what was injected before, or was written as if it had been. The variables of
/// leader-elector are ours only where this sidecar is in its place: else they are those of another.
fn take_out_of(container: &mut Map<String, Value>, with_elector: bool) {
    drop_items(container, "volumeMounts", |mount| {
        [RUN_VOLUME, CLOCK_VOLUME].iter().any(|name| mount["name"] == *name)
    });
    let mut ours = vec![url_variable(), socket_variable(), clock_page_variable()];
    if with_elector {
        ours.extend(leader_elector::variables());
    }
    drop_items(container, "env", |variable| ours.contains(variable));
}

/// Drops some items of a list, and the list if it is empty then.
fn drop_items(object: &mut Map<String, Value>, list: &str, is_ours: impl Fn(&Value) -> bool) {
    let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) else { return };
    items.retain(|item| !is_ours(item));
    if items.is_empty() {
        object.remove(list);
    }
}

fn put_in(
    pod: &mut Value,
    group: &str,
    settings: &Settings,
    sidecar: Value,
) -> Result<(), Problem> {
    let labels = field(pod, &["metadata", "labels"])?;
    labels.insert(GROUP_LABEL.to_owned(), json!(group));
    labels.insert(INJECTED_LABEL.to_owned(), json!("true"));
    let spec = field(pod, &["spec"])?;
    for (goes_on, container) in containers_mut(spec) {
        let wants_socket = settings.mount_socket.iter().any(|wanted| wanted == name(container));
        let path = format!("spec.containers[{}]", name(container));
        // Nobody can know later who wrote it, so it must not stay where it is now.
        take_out_of(container, settings.leader_elector.is_some());
        let reads_clock = settings.clock_page && goes_on;
        tell(container, wants_socket, reads_clock, settings)
            .map_err(|problem| problem.below(&path))?;
    }
    let below_spec = |problem: Problem| problem.below("spec");
    // First, so that the application's own init containers find it running.
    list(spec, "initContainers").map_err(below_spec)?.insert(0, sidecar);
    list(spec, "volumes").map_err(below_spec)?.extend(volumes(settings));
    Ok(())
}

/// Tells an application where the API is. First, so that its other variables may refer to it; a
/// variable that it sets itself stays.
fn tell(
    container: &mut Map<String, Value>,
    wants_socket: bool,
    reads_clock: bool,
    settings: &Settings,
) -> Result<(), Problem> {
    if wants_socket {
        let mount = json!({"name": RUN_VOLUME, "mountPath": RUN_PATH});
        list(container, "volumeMounts")?.push(mount);
    }
    if reads_clock {
        let mount = json!({"name": CLOCK_VOLUME, "mountPath": CLOCK_PATH, "readOnly": true});
        list(container, "volumeMounts")?.push(mount);
    }
    let mut wanted = Vec::new();
    if settings.leader_elector.is_some() {
        wanted.extend(leader_elector::variables());
    }
    wanted.extend(reads_clock.then(clock_page_variable));
    wanted.extend(wants_socket.then(socket_variable));
    wanted.extend((!settings.socket_only).then(url_variable));
    if wanted.is_empty() {
        return Ok(());
    }
    let variables = list(container, "env")?;
    for variable in wanted {
        if variables.iter().all(|other| other["name"] != variable["name"]) {
            variables.insert(0, variable);
        }
    }
    Ok(())
}

/// The containers of the application, those for its initialisation too, and whether each goes on beside the others.
fn containers_mut(
    spec: &mut Map<String, Value>,
) -> impl Iterator<Item = (bool, &mut Map<String, Value>)> {
    let lists = spec.iter_mut().filter(|(key, _)| CONTAINERS.contains(&key.as_str()));
    let items = lists.flat_map(|(key, list)| {
        let items = list.as_array_mut().into_iter().flatten();
        items.map(move |container| (goes_on(key, container), container))
    });
    items.filter_map(|(goes_on, container)| Some((goes_on, container.as_object_mut()?)))
}

fn name(container: &Map<String, Value>) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// An object below another, made if it is missing.
fn field<'a>(object: &'a mut Value, path: &[&str]) -> Result<&'a mut Map<String, Value>, Problem> {
    let wrong = || Problem::new(path.join("."), "must be an object");
    let mut found = object;
    for key in path {
        found = found.as_object_mut().ok_or_else(wrong)?.entry(*key).or_insert(Value::Null);
        if found.is_null() {
            *found = json!({});
        }
    }
    found.as_object_mut().ok_or_else(wrong)
}

/// A list in an object, made if it is missing.
fn list<'a>(object: &'a mut Map<String, Value>, key: &str) -> Result<&'a mut Vec<Value>, Problem> {
    let list = object.entry(key).or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().ok_or_else(|| Problem::new(key, "must be a list"))
}

fn url_variable() -> Value {
    json!({"name": "CONCLAVE_URL", "value": API_URL})
}

fn socket_variable() -> Value {
    json!({"name": "CONCLAVE_SOCKET", "value": SOCKET_PATH})
}

/// The volumes that the sidecar may bring.
pub(super) const VOLUMES: [&str; 4] = [TOKEN_VOLUME, RUN_VOLUME, API_TOKENS_VOLUME, CLOCK_VOLUME];

/// What the schema of a `Conclave` allows.
const GROUP_LENGTH_MAX: usize = 40;

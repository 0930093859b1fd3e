//! Where a workload has its pods.

use serde_json::Value;

use super::Options;
use super::pod::inject_pod;
use super::problem::Problem;

/// Adds the sidecar to an object, or to every object of a list; says to how many. An error comes
/// with kind and name of the object.
pub(super) fn inject(object: &mut Value, options: &Options) -> Result<usize, (String, Problem)> {
    if text(object, "/kind") == "List" && text(object, "/apiVersion") == "v1" {
        let items = object.get_mut("items").and_then(Value::as_array_mut);
        return items.into_iter().flatten().map(|item| inject(item, options)).sum();
    }
    let Some(path) = path_to_pod(object) else { return Ok(0) };
    let name = format!("{} `{}`", text(object, "/kind"), text(object, "/metadata/name"));
    let mut keys = path.split('.').filter(|key| !key.is_empty());
    let pod = keys.try_fold(object, |object, key| object.get_mut(key));
    let injected = match pod {
        Some(pod) => inject_pod(pod, options).map_err(|problem| problem.below(path)),
        None => Err(Problem::new(path, "is missing")),
    };
    injected.map(usize::from).map_err(|problem| (name, problem))
}

/// The path of the pod, or of the template of the pods, in a workload.
fn path_to_pod(object: &Value) -> Option<&'static str> {
    let version = text(object, "/apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match (group, text(object, "/kind")) {
        ("", "Pod") => Some(""),
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => {
            Some("spec.template")
        }
        ("batch", "Job") => Some("spec.template"),
        ("batch", "CronJob") => Some("spec.jobTemplate.spec.template"),
        _ => None,
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

//! Calls of kubectl in the documents.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::commands::{has_field, names_of_the_kind};

/// Whether verb, flags and types of resources are known, and what is asked of a `Conclave` is in its definition.
pub(crate) fn check(arguments: &[&str]) -> Result<()> {
    let (named, flags) = take_apart(arguments)?;
    let (verb, named) = named.split_first().context("kubectl does what?")?;
    let resource = match *verb {
        "apply" => {
            let has_file = flags.iter().any(|(name, _)| ["-f", "--filename"].contains(name));
            ensure!(has_file, "`apply` has no file");
            return Ok(());
        }
        "explain" => return explained(named),
        "auth" => named.get(2),
        "get" | "describe" | "patch" | "annotate" | "delete" | "label" | "scale" | "wait"
        | "create" => named.first(),
        "rollout" => named.get(1),
        // What is named is a pod.
        "exec" | "logs" | "port-forward" => named.first().filter(|named| named.contains('/')),
        other => bail!("who checks `kubectl {other}`?"),
    };
    let own = names_of_the_kind();
    for kind in resource.iter().flat_map(|resource| resource.split(',')) {
        let kind = kind.split('/').next().unwrap_or_default();
        ensure!(own.contains(kind) || KINDS.contains(&kind), "there is no resource `{kind}`");
    }
    let asks_the_kind = resource.is_some_and(|resource| own.contains(*resource));
    if *verb == "delete" && resource.is_some_and(|kind| *kind == "crd") {
        let which = named.get(1).copied().unwrap_or_default();
        ensure!(own.contains(which) && which.contains('.'), "there is no definition {which}");
    }
    for (name, value) in flags {
        let value = value.unwrap_or_default();
        match name {
            "-p" | "--patch" => {
                drop(serde_json::from_str::<Value>(value).context(value.to_owned())?);
            }
            "-o" | "--output" if asks_the_kind => printed(value)?,
            _ => {}
        }
    }
    Ok(())
}

type Flags<'a> = Vec<(&'a str, Option<&'a str>)>;

/// What is named, and the flags with their values. What stands after `--` is run in a container.
fn take_apart<'a>(arguments: &[&'a str]) -> Result<(Vec<&'a str>, Flags<'a>)> {
    let (mut named, mut flags) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().copied();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        if !argument.starts_with('-') || argument == "-" {
            named.push(argument);
            continue;
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if WITH_VALUE.contains(&argument) => (argument, rest.next()),
            None => (argument, None),
        };
        let is_known = WITH_VALUE.contains(&name) || ALONE.contains(&name);
        ensure!(is_known, "does kubectl know `{name}`?");
        ensure!(value.is_some() || ALONE.contains(&name), "`{name}` has no value");
        flags.push((name, value));
    }
    Ok((named, flags))
}

/// `kubectl explain conclaves.spec.timing`: the field is there.
fn explained(named: &[&str]) -> Result<()> {
    // A sentence may name the verb alone.
    let Some(path) = named.first() else { return Ok(()) };
    let (kind, field) = path.split_once('.').unwrap_or((path, ""));
    ensure!(names_of_the_kind().contains(kind), "there is no resource `{kind}`");
    ensure!(field.is_empty() || has_field(field)?, "there is no field {field}");
    Ok(())
}

/// `jsonpath={.status.epoch}`: the field is there.
fn printed(format: &str) -> Result<()> {
    let Some(path) = format.strip_prefix("jsonpath={.").and_then(|path| path.split('}').next())
    else {
        ensure!(["name", "wide", "yaml", "json"].contains(&format), "how is `{format}` printed?");
        return Ok(());
    };
    // A filter chooses an entry.
    let path: String =
        path.split('[').map(|part| part.rsplit(']').next().unwrap_or(part)).collect();
    ensure!(path.starts_with("metadata") || has_field(&path)?, "there is no field {path}");
    Ok(())
}

/// Flags with a value.
const WITH_VALUE: &[&str] = &[
    "-n",
    "--namespace",
    "-l",
    "--selector",
    "-o",
    "--output",
    "-c",
    "--container",
    "-f",
    "--filename",
    "--type",
    "-p",
    "--patch",
    "--replicas",
    "--image",
    "--for",
    "--timeout",
    "--tail",
    "--since",
    "--field-selector",
    "--as",
    "--raw",
];

/// Flags without one.
const ALONE: &[&str] = &[
    "--overwrite",
    "--all",
    "--all-namespaces",
    "-A",
    "--server-side",
    "-i",
    "-t",
    "-it",
    "--stdin",
    "--recursive",
    "--previous",
    "-w",
    "--watch",
    "--show-labels",
    "--show-managed-fields",
];

/// Kinds of Kubernetes itself, of cert-manager, and of the Prometheus Operator.
const KINDS: &[&str] = &[
    "certificate",
    "clusterrole",
    "configmap",
    "crd",
    "daemonset",
    "deploy",
    "deployment",
    "deployments",
    "endpointslice",
    "endpointslices",
    "events",
    "lease",
    "leases",
    "mutatingwebhookconfiguration",
    "namespace",
    "networkpolicies",
    "networkpolicy",
    "node",
    "nodes",
    "pod",
    "podmonitors",
    "pods",
    "prometheusrules",
    "role",
    "rolebinding",
    "secret",
    "service",
    "serviceaccount",
    "servicemonitors",
    "services",
    "statefulset",
];

#[test]
fn a_call_that_names_what_is_not_there_is_refused() {
    let check = |line: &str| check(&line.split(' ').collect::<Vec<_>>());
    for good in [
        "get ccv orders -n shop",
        "get conclaves,pods --all-namespaces",
        "get ccv orders -o jsonpath={.status.authority.address}",
        "get ccv orders -o jsonpath={.status.conditions[?(@.type==\"Ready\")].message}",
        "explain conclaves.spec.elections.leaseName",
        "exec deploy/till -c till -- anything --at-all",
        "delete crd conclaves.conclave.dev",
        "rollout status deployment till",
    ] {
        check(good).unwrap_or_else(|error| panic!("{good}: {error:#}"));
    }
    for wrong in [
        "get ccvs",
        "get ccv orders --namespaces shop",
        "get ccv orders -o jsonpath={.status.authority.adress}",
        "explain conclaves.spec.elections.lease",
        "delete crd conclave.conclave.dev",
        "patch deployment till --patch {",
        "apply",
        "rollout status deploymnt till",
        "fetch ccv",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}

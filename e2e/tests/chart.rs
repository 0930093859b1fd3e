//! The chart says what the code says. These tests read its files, and its default rendering that is
//! committed beside it; `chart_rendering.rs` keeps that one current, with helm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use conclave_operator::authority::SECRET_NAME;
use conclave_operator::config::{Config, Flags};
use conclave_operator::rbac::{CLUSTER, OWN_NAMESPACE, PERMISSIONS, Permission};
use conclave_testbed::cache;
use serde_json::{Value, json};

#[test]
fn the_operator_may_do_what_its_code_needs_and_nothing_else() -> Result<()> {
    let everywhere = object("ClusterRole", "conclave-operator")?;
    assert_eq!(rights_of_role(&everywhere), rights(PERMISSIONS));

    let own = object("Role", "conclave-operator-own")?;
    assert_eq!(rights_of_role(&own), rights(OWN_NAMESPACE));
    let lease = argument("--lease-name=")?;
    let service = argument("--service-name=")?;
    let expected = [lease.as_str(), SECRET_NAME, service.as_str()];
    assert_eq!(names_of_role(&own), expected, "but for `create`, which knows no names");

    let trust = object("ClusterRole", "conclave-operator-trust")?;
    assert_eq!(rights_of_role(&trust), rights(CLUSTER));
    assert_eq!(names_of_role(&trust), [argument("--webhook-name=")?]);
    Ok(())
}

/// What the operator may write, and the API server does not look at.
const UNGUARDED: &[(&str, &str)] = &[
    ("conclaves/finalizers", "UPDATE"),
    ("conclaves/status", "UPDATE"),
    ("events", "CREATE"),
    ("events", "UPDATE"),
    ("leases", "CREATE"),
    ("mutatingwebhookconfigurations", "UPDATE"),
    ("tokenreviews", "CREATE"),
];

#[test]
fn every_right_to_write_is_guarded_or_listed() -> Result<()> {
    let guard = &object("ValidatingAdmissionPolicy", "conclave-operator")?["spec"];
    let rules = guard["matchConstraints"]["resourceRules"].as_array().context("rules")?;
    let mut unguarded = BTreeSet::new();
    for Permission { group, resource, verbs, .. } in PERMISSIONS.iter().chain(CLUSTER) {
        for verb in *verbs {
            let operation = match *verb {
                "create" => "CREATE",
                "update" | "patch" => "UPDATE",
                "delete" => "DELETE",
                _ => continue,
            };
            let has = |list: &Value, text: &str| texts(list).iter().any(|one| one == text);
            let is_guarded = rules.iter().any(|rule| {
                has(&rule["apiGroups"], group)
                    && has(&rule["resources"], resource)
                    && has(&rule["operations"], operation)
            });
            if !is_guarded {
                unguarded.insert((*resource, operation));
            }
        }
    }
    assert!(unguarded.iter().eq(UNGUARDED), "{unguarded:?}");

    let conditions = guard["matchConditions"].to_string();
    let account = object("ServiceAccount", "conclave-operator")?["metadata"]["name"].clone();
    let account = account.as_str().context("a name")?;
    for part in [format!(":conclave-system:{account}"), argument("--lease-name=")?] {
        ensure!(conditions.contains(&part), "{part} is not in {conditions}");
    }
    let binding = object("ValidatingAdmissionPolicyBinding", "conclave-operator")?["spec"].clone();
    assert_eq!(binding["policyName"], "conclave-operator");
    assert_eq!(binding["validationActions"], json!(["Deny"]));
    Ok(())
}

#[test]
fn the_webhook_sees_labelled_pods_of_the_users_and_nothing_else() -> Result<()> {
    let hook = object("MutatingWebhookConfiguration", "conclave-operator")?["webhooks"][0].clone();
    let service = json!({
        "name": argument("--service-name=")?, "namespace": "conclave-system",
        "path": "/v1/inject", "port": 443,
    });
    // Without `caBundle`: what the chart does not have, no upgrade takes away.
    assert_eq!(hook["clientConfig"], json!({ "service": service }));
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
        "operations": ["CREATE"], "scope": "Namespaced",
    });
    assert_eq!(hook["rules"], json!([rule]));
    let labelled = json!([{ "key": "conclave.dev/group", "operator": "Exists" }]);
    assert_eq!(hook["objectSelector"], json!({ "matchExpressions": labelled }));
    let not =
        |key: &str, values: &[&str]| json!({ "key": key, "operator": "NotIn", "values": values });
    let system = ["kube-system", "kube-node-lease", "kube-public", "conclave-system"];
    let expected = [
        not("kubernetes.io/metadata.name", &system),
        not("conclave.dev/admission-webhooks", &["disabled"]),
    ];
    assert_eq!(hook["namespaceSelector"], json!({ "matchExpressions": expected }));
    assert_eq!(
        (&hook["failurePolicy"], &hook["sideEffects"]),
        (&json!("Fail"), &json!("NoneOnDryRun"))
    );
    assert_eq!(
        (&hook["timeoutSeconds"], &hook["reinvocationPolicy"]),
        (&json!(5), &json!("IfNeeded"))
    );
    Ok(())
}

#[test]
fn the_service_leads_to_the_port_of_the_operator() -> Result<()> {
    let port = object("Service", "conclave-operator")?["spec"]["ports"][0].clone();
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(443), &json!("https")));
    let pod = &object("Deployment", "conclave-operator")?["spec"]["template"]["spec"];
    let ports = pod["containers"][0]["ports"].as_array().context("ports")?;
    let https = ports.iter().find(|port| port["name"] == "https").context("https")?;
    let flags = Flags::try_parse_from(["conclave-operator"])?;
    assert_eq!(https["containerPort"], Config::try_from(flags)?.authority_address.port());
    Ok(())
}

#[test]
fn every_rule_has_a_comment_that_says_which_code_needs_it() -> Result<()> {
    let rules = read("templates/rbac.yaml")? + &read("templates/cluster.yaml")?;
    // Those of the webhook are no rights, and are indented.
    let lines: Vec<_> = rules.lines().collect();
    let rules = lines.iter().enumerate().filter(|(_, line)| line.starts_with("- apiGroups:"));
    for (at, rule) in rules {
        // One comment may stand over two rules about the same resource.
        let before: Vec<_> = lines[..at].iter().rev().take(4).collect();
        ensure!(before.iter().any(|line| line.starts_with("# ")), "line {}: {rule}", at + 1);
    }
    Ok(())
}

#[test]
fn the_operator_understands_the_arguments_of_the_chart() -> Result<()> {
    let program = "conclave-operator".to_owned();
    let flags = Flags::try_parse_from([program].into_iter().chain(arguments()?))?;
    Config::try_from(flags)?;
    Ok(())
}

#[test]
fn the_versions_of_chart_and_program_are_the_same() -> Result<()> {
    let chart = yaml(&read("Chart.yaml")?)?;
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
    Ok(())
}

#[test]
fn the_schema_has_exactly_the_values_that_there_are() -> Result<()> {
    let schema: Value = serde_json::from_str(&read("values.schema.json")?)?;
    let mut in_schema = BTreeSet::new();
    collect_schema("", &schema, &mut in_schema)?;
    // Helm gives it to every chart that is part of another.
    in_schema.remove("global");
    // What Kubernetes knows and the defaults do not use.
    in_schema.remove("operator.resources.claims");

    let mut in_values = BTreeSet::new();
    collect_values("", &yaml(&read("values.yaml")?)?, &in_schema, &mut in_values);
    assert_eq!(in_values, in_schema);
    Ok(())
}

#[test]
fn every_value_has_a_sentence() -> Result<()> {
    let text = read("values.yaml")?;
    let mut is_described = false;
    let mut described_at = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        // What is below a described key is its default.
        described_at = described_at.filter(|at| indent > *at);
        if line.trim_start().starts_with('#') {
            is_described = is_described || line.contains("# -- ");
        } else if described_at.is_none() && !line.is_empty() {
            let is_section = line.ends_with(':');
            ensure!(is_described || is_section, "no sentence for `{line}`");
            described_at = is_described.then_some(indent);
            is_described = false;
        }
    }
    Ok(())
}

#[test]
fn the_operators_pods_keep_the_restricted_standard() -> Result<()> {
    let pod = &object("Deployment", "conclave-operator")?["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in pod["containers"].as_array().context("containers")? {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        assert!(container["resources"]["limits"]["memory"].is_string());
        assert!(container["livenessProbe"].is_object() && container["readinessProbe"].is_object());
    }
    Ok(())
}

#[test]
fn every_object_says_what_it_belongs_to() -> Result<()> {
    let marks = ["name", "instance", "version", "component", "part-of", "managed-by"];
    for object in snapshot()? {
        let labels = &object["metadata"]["labels"];
        let has = |mark: &&str| labels[format!("app.kubernetes.io/{mark}")].is_string();
        ensure!(marks.iter().all(has) && labels["helm.sh/chart"].is_string(), "{object}");
        let kind = object["kind"].as_str().unwrap_or_default();
        let is_in_namespace = object["metadata"]["namespace"].is_string();
        let is_of_cluster = ["Cluster", "MutatingWebhook", "ValidatingAdmissionPolicy"];
        let is_of_cluster = is_of_cluster.iter().any(|begin| kind.starts_with(begin));
        assert_eq!(is_in_namespace, !is_of_cluster, "{object}");
    }
    Ok(())
}

#[test]
fn nothing_in_the_chart_belongs_to_a_group() -> Result<()> {
    // What is not in the release is not removed with it. The definition of the kind is, and is kept.
    let kinds: BTreeMap<String, usize> =
        snapshot()?.iter().fold(BTreeMap::new(), |mut kinds, object| {
            *kinds.entry(object["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            kinds
        });
    let expected = [
        ("ClusterRole", 4),
        ("ClusterRoleBinding", 2),
        ("Deployment", 1),
        ("MutatingWebhookConfiguration", 1),
        ("PodDisruptionBudget", 1),
        ("Role", 1),
        ("RoleBinding", 1),
        ("Service", 2),
        ("ServiceAccount", 1),
        ("ValidatingAdmissionPolicy", 1),
        ("ValidatingAdmissionPolicyBinding", 1),
    ];
    assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
    Ok(())
}

#[test]
fn the_page_for_operators_names_every_right() -> Result<()> {
    let page = read("../../docs/operating.md")?;
    for Permission { resource, .. } in PERMISSIONS {
        ensure!(page.contains(&format!("`{resource}`")), "{resource} is missing");
    }
    Ok(())
}

#[test]
fn the_dockerfile_has_the_pinned_toolchain_and_the_user_of_the_pods() -> Result<()> {
    let dockerfile = read("../../Dockerfile")?;
    let toolchain = read("../../rust-toolchain.toml")?;
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = "));
    let channel = channel.context("no toolchain is pinned")?.trim_matches('"');
    for line in [
        format!("FROM rust:{channel}-slim-bookworm AS build"),
        format!("ENV RUSTUP_TOOLCHAIN={channel}"),
        format!("ARG VERSION={}", env!("CARGO_PKG_VERSION")),
    ] {
        ensure!(dockerfile.lines().any(|found| found == line), "the Dockerfile has no `{line}`");
    }
    let pod = &object("Deployment", "conclave-operator")?["spec"]["template"]["spec"];
    let user = pod["securityContext"]["runAsUser"].to_string();
    ensure!(dockerfile.contains(&format!("USER {user}:{user}\n")), "another user than {user}");
    Ok(())
}

/// API group, resource and verb.
type Right = (String, String, String);

fn rights(permissions: &[Permission]) -> BTreeSet<Right> {
    let each = |permission: &Permission| {
        let Permission { group, resource, verbs, .. } = *permission;
        verbs.iter().map(move |verb| (group.to_owned(), resource.to_owned(), (*verb).to_owned()))
    };
    permissions.iter().flat_map(each).collect()
}

fn rights_of_role(role: &Value) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let right = |verb| (group.clone(), resource.clone(), verb);
                rights.extend(texts(&rule["verbs"]).into_iter().map(right));
            }
        }
    }
    rights
}

/// The names that the rules of a role are about, in their order.
fn names_of_role(role: &Value) -> Vec<String> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.flat_map(|rule| texts(&rule["resourceNames"])).collect()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn arguments() -> Result<Vec<String>> {
    let operator = object("Deployment", "conclave-operator")?;
    Ok(texts(&operator["spec"]["template"]["spec"]["containers"][0]["args"]))
}

/// The value of an argument.
fn argument(name: &str) -> Result<String> {
    let arguments = arguments()?;
    let value = arguments.iter().find_map(|argument| argument.strip_prefix(name));
    Ok(value.with_context(|| format!("{name} is not given"))?.to_owned())
}

/// The paths of all leaves of the schema; objects must refuse what they do not know.
fn collect_schema(path: &str, schema: &Value, leaves: &mut BTreeSet<String>) -> Result<()> {
    let Some(properties) = schema["properties"].as_object() else {
        leaves.insert(path.to_owned());
        return Ok(());
    };
    ensure!(schema["additionalProperties"] == false, "`{path}` takes unknown keys");
    properties.iter().try_for_each(|(key, schema)| collect_schema(&join(path, key), schema, leaves))
}

/// The paths of all values down to where the schema ends.
fn collect_values(
    path: &str,
    value: &Value,
    schema: &BTreeSet<String>,
    leaves: &mut BTreeSet<String>,
) {
    match value.as_object() {
        Some(fields) if !schema.contains(path) => {
            for (key, value) in fields {
                collect_values(&join(path, key), value, schema, leaves);
            }
        }
        Some(_) | None => {
            leaves.insert(path.to_owned());
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// An object of the default rendering.
fn object(kind: &str, name: &str) -> Result<Value> {
    let mut objects = snapshot()?.into_iter();
    let found = objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.with_context(|| format!("there is no {kind} `{name}`"))
}

fn snapshot() -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(&read("snapshots/default.yaml")?)?)
}

fn yaml(text: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(text)?)
}

fn read(file: &str) -> Result<String> {
    let path = cache::workspace().join("charts/conclave").join(file);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

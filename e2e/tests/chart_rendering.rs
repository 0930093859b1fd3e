//! The chart, rendered by each helm that it is for. No cluster is asked, but they are built with the
//! cluster's programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use conclave_e2e::monitoring;
use conclave_testbed::binaries::{Binary, HELM_3, HELMS};
use conclave_testbed::{cache, command};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

#[test]
fn lint_has_nothing_to_say_about_any_set_of_values() -> Result<()> {
    for values in all_values()? {
        let options = options(values.as_deref());
        for version in HELMS {
            helm(version, &[&["lint", "--strict", CHART], KUBERNETES, &options].concat())?;
        }
    }
    Ok(())
}

#[test]
fn two_renderings_are_the_same_byte_for_byte() -> Result<()> {
    for values in all_values()? {
        let options = options(values.as_deref());
        for version in HELMS {
            assert!(render_by(version, &options)? == render_by(version, &options)?, "{values:?}");
        }
    }
    Ok(())
}

#[test]
fn each_helm_renders_the_same_objects() -> Result<()> {
    for values in all_values()? {
        let options = options(values.as_deref());
        // The order of kinds that Kubernetes does not know, and empty lines, are helm's own.
        let [three, four] = HELMS.map(|version| -> Result<BTreeSet<String>> {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&render_by(version, &options)?)?;
            Ok(objects.iter().map(Value::to_string).collect())
        });
        let (three, four) = (three?, four?);
        ensure!(three == four, "{values:?}: {:#?}", three.symmetric_difference(&four));
    }
    Ok(())
}

#[test]
fn the_committed_rendering_is_current() -> Result<()> {
    // The definition has a file of its own, and a test of its own below.
    let rendered = render(&["--set", "crds.enabled=false"])?;
    let file = chart().join("snapshots/default.yaml");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &rendered)?;
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    ensure!(
        committed == rendered,
        "{} is out of date: UPDATE=1 cargo test -p conclave-e2e --features cluster \
         --test chart_rendering",
        file.display()
    );
    Ok(())
}

#[test]
fn the_definition_is_installed_as_generated_and_kept_on_uninstall() -> Result<()> {
    let rendered = &of_kind(&[], "CustomResourceDefinition")?[0];
    let generated = fs::read_to_string(chart().join("files/crds/conclave.dev_conclaves.yaml"))?;
    let generated: CustomResourceDefinition = serde_saphyr::from_str(&generated)?;
    let installed: CustomResourceDefinition = serde_json::from_value(rendered.clone())?;
    ensure!(installed.spec == generated.spec, "helm has changed the definition");
    assert_eq!(installed.metadata.name, generated.metadata.name);
    assert_eq!(rendered["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");

    let dropped = &of_kind(&["--set", "crds.keep=false"], "CustomResourceDefinition")?[0];
    assert!(dropped["metadata"]["annotations"].is_null());
    assert!(of_kind(&["--set", "crds.enabled=false"], "CustomResourceDefinition")?.is_empty());
    Ok(())
}

#[test]
fn a_misspelt_or_impossible_value_is_refused_with_its_name() -> Result<()> {
    for (value, expected) in [
        ("operator.replica=3", "'replica'"),
        ("metrics.podMonitors.enabled=true", "'podMonitors'"),
        ("operator.replicas=many", "/operator/replicas"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("operator.leaderElection.leaseDuration=15", "/operator/leaderElection/leaseDuration"),
    ] {
        for version in HELMS {
            let error = render_by(version, &["--set", value]).err().context(value)?.to_string();
            ensure!(error.contains(expected), "{value}: {error}");
        }
    }
    Ok(())
}

/// Values that fit the schema one by one, and with which the operator would end again and again.
#[test]
fn lengths_of_time_that_do_not_fit_each_other_are_refused_with_the_rule() -> Result<()> {
    let election = "operator.leaderElection";
    for (values, expected) in [
        (
            "authority.lifetime=1h".to_owned(),
            "authority.lifetime must be at least six times authority.overlap (1h) and \
             authority.certificateLifetime (24h) together, which is 150h0m0s, and is 1h",
        ),
        ("authority.lifetime=149h59m59s999ms".to_owned(), "which is 150h0m0s"),
        (
            "authority.certificateLifetime=9s999ms".to_owned(),
            "must be at least 10s, and is 9s999ms",
        ),
        ("authority.overlap=0s".to_owned(), "authority.overlap must not be 0"),
        (
            format!("{election}.renewDeadline=15s"),
            "operator.leaderElection.leaseDuration must be longer than renewDeadline (15s), and is 15s",
        ),
        (
            format!("{election}.retryPeriod=9s"),
            "operator.leaderElection.renewDeadline must be more than 1.2 times retryPeriod (9s)",
        ),
        (format!("{election}.retryPeriod=0s"), "must not be 0"),
    ] {
        for version in HELMS {
            let error = render_by(version, &["--set", &values]).err().context(values.clone())?;
            let error = error.to_string();
            ensure!(error.contains(expected), "{values}: {error}");
        }
    }
    for fits in ["authority.lifetime=150h", "authority.lifetime=9000m,authority.overlap=59m60s"] {
        render(&["--set", fits]).context(fits)?;
    }
    Ok(())
}

#[test]
fn what_sidecars_ask_for_and_may_use_is_handed_to_the_operator_within_bounds() -> Result<()> {
    let key = "injector.resources";
    let set = format!("{key}.limits.cpu=0.2,{key}.requests.cpu=200m,{key}.limits.memory=1Gi");
    let arguments = |options: &[&str]| {
        let operator = &of_kind(options, "Deployment")?[0];
        Ok::<_, anyhow::Error>(
            operator["spec"]["template"]["spec"]["containers"][0]["args"].to_string(),
        )
    };
    let given = arguments(&["--set-string", &set])?;
    for flag in ["cpu-request=200m", "cpu-limit=0.2", "memory-request=16Mi", "memory-limit=1Gi"] {
        ensure!(given.contains(&format!("\"--sidecar-{flag}\"")), "{flag}: {given}");
    }
    ensure!(!arguments(&[])?.contains("cpu-limit"), "none by default");
    for (values, expected) in [
        ("requests.cpu=16001m", "requests.cpu must be between 1m and 16, and is 16001m"),
        ("requests.cpu=0.000", "requests.cpu must be between 1m and 16, and is 0.000"),
        ("limits.cpu=49m", "limits.cpu must be between 50m and 16, and is 49m"),
        (
            "requests.cpu=51m,injector.resources.limits.cpu=0.05",
            "at most limits.cpu (0.05), and is 51m",
        ),
        ("requests.memory=4095Ki", "requests.memory must be between 4Mi and 16Gi"),
        ("limits.memory=31Mi", "limits.memory must be between 32Mi and 16Gi, and is 31Mi"),
        (
            "requests.memory=129Mi",
            "requests.memory must be at most limits.memory (128Mi), and is 129Mi",
        ),
        ("limits.memory=64", "/injector/resources/limits/memory"),
        ("limits.cpus=1", "'cpus'"),
    ] {
        for version in HELMS {
            let set = format!("{key}.{values}");
            let error = render_by(version, &["--set-string", &set]).err().context(set)?;
            let error = error.to_string();
            ensure!(error.contains(expected), "{values}: {error}");
        }
    }
    Ok(())
}

#[test]
fn only_several_replicas_have_a_disruption_budget() -> Result<()> {
    assert_eq!(of_kind(&[], "PodDisruptionBudget")?.len(), 1);
    assert!(of_kind(&["--set", "operator.replicas=1"], "PodDisruptionBudget")?.is_empty());
    Ok(())
}

#[test]
fn monitors_are_made_when_they_are_wanted_and_known() -> Result<()> {
    let [wanted, known] = [
        ["--set", "metrics.podMonitor.enabled=true,metrics.serviceMonitor.enabled=true"],
        ["--api-versions", "monitoring.coreos.com/v1/PodMonitor"],
    ];
    let made = |options: &[&[&str]]| {
        Ok::<_, anyhow::Error>(of_kind(&options.concat(), POD_MONITOR)?.len())
    };
    assert_eq!(made(&[&known])?, 0, "not wanted");
    assert_eq!(made(&[&wanted])?, 0, "not known");
    assert_eq!(made(&[&wanted, &known])?, 1);
    let always = ["--set", "metrics.podMonitor.renderMode=alwaysRender"];
    assert_eq!(made(&[&wanted, &always])?, 1);
    let fail = ["--set", "metrics.podMonitor.renderMode=failIfMissing"];
    let error = render(&[wanted, fail].concat()).err().context("rendered")?.to_string();
    ensure!(error.contains("does not know the kind PodMonitor"), "{error}");
    Ok(())
}

#[test]
fn the_alerts_are_those_of_the_file_in_the_namespace_of_the_release() -> Result<()> {
    let wanted = "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=mine";
    let known = ["--api-versions", "monitoring.coreos.com/v1/PrometheusRule"];
    assert!(of_kind(&["--set", wanted], "PrometheusRule")?.is_empty(), "not known");
    let rule = &of_kind(&[&["--set", wanted], &known[..]].concat(), "PrometheusRule")?[0];
    assert_eq!(rule["metadata"]["labels"]["release"], "mine");
    let text = fs::read_to_string(monitoring::rules())?;
    assert_eq!(rule["spec"], serde_saphyr::from_str::<Value>(&text)?);

    let elsewhere = ["template", "conclave", CHART, "--namespace", "coordination"];
    let options = [&elsewhere[..], KUBERNETES, &["--set", wanted], &known].concat();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&helm(HELM_3, &options)?)?;
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").context("none")?;
    let here = text.replace(NAMESPACE, "coordination");
    assert_eq!(rule["spec"], serde_saphyr::from_str::<Value>(&here)?);
    assert!(here.contains(r#"namespace="coordination""#), "no alert is about the operator");
    Ok(())
}

#[test]
fn each_dashboard_is_a_config_map_that_grafana_finds() -> Result<()> {
    assert!(of_kind(&[], "ConfigMap")?.is_empty(), "not wanted");
    let maps = of_kind(&["--set", "metrics.dashboards.enabled=true"], "ConfigMap")?;
    let dashboards = monitoring::dashboards()?;
    assert_eq!(maps.len(), dashboards.len());
    for (file, dashboard) in dashboards {
        let map = maps.iter().find(|map| map["data"][&file].is_string()).context("none")?;
        let text = map["data"][&file].as_str().unwrap_or_default();
        assert_eq!(serde_json::from_str::<Value>(text)?, dashboard, "{file}");
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        assert_eq!(map["metadata"]["name"], file.trim_end_matches(".json"));
    }
    let folder = "metrics.dashboards.enabled=true,metrics.dashboards.annotations.folder=Locks";
    let map = &of_kind(&["--set", folder], "ConfigMap")?[0];
    assert_eq!(map["metadata"]["annotations"]["folder"], "Locks");
    Ok(())
}

#[test]
fn an_operator_for_some_namespaces_has_no_right_in_others() -> Result<()> {
    let only = ["--set", "watchNamespaces={shop,till}", "--set", "clusterScoped.create=false"];
    for kind in ["ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"] {
        assert!(of_kind(&only, kind)?.is_empty(), "{kind}");
    }
    for kind in ["Role", "RoleBinding"] {
        let objects = of_kind(&only, kind)?;
        let namespace = |object: &Value| object["metadata"]["namespace"].to_string();
        let mut namespaces: Vec<_> = objects.iter().map(namespace).collect();
        namespaces.sort();
        assert_eq!(namespaces, [format!("\"{NAMESPACE}\"").as_str(), "\"shop\"", "\"till\""]);
    }
    let all = of_kind(&[], "ClusterRole")?;
    let everywhere = all.iter().find(|role| role["metadata"]["name"] == "conclave-operator");
    let here = of_kind(&only, "Role")?;
    let in_shop = here.iter().find(|role| role["metadata"]["namespace"] == "shop");
    assert_eq!(in_shop.context("shop")?["rules"], everywhere.context("all")?["rules"]);

    let operator = &of_kind(&only, "Deployment")?[0];
    let arguments = operator["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    ensure!(arguments.contains("\"--namespaces=shop,till\""), "{arguments}");
    Ok(())
}

#[test]
fn an_administrator_can_render_what_belongs_to_the_cluster_alone() -> Result<()> {
    let alone = ["--set", "watchNamespaces={shop,till}", "--show-only", "templates/cluster.yaml"];
    let objects: Vec<Value> = serde_saphyr::from_multiple(&render(&alone)?)?;
    let kinds: Vec<_> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    let roles = ["ClusterRole", "ClusterRole", "ClusterRole"];
    let others = ["ClusterRoleBinding", "MutatingWebhookConfiguration"];
    let guard = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    assert_eq!(kinds, [&roles[..], &others, &guard].concat());
    let expressions = &objects[4]["webhooks"][0]["namespaceSelector"]["matchExpressions"];
    assert_eq!(expressions[2]["values"], serde_json::json!(["shop", "till"]));

    let without = ["--set", "injector.enabled=false"];
    assert!(of_kind(&without, "MutatingWebhookConfiguration")?.is_empty());
    let operator = of_kind(&without, "Deployment")?[0].to_string();
    ensure!(!operator.contains("--webhook-name"), "{operator}");
    let roles = of_kind(&without, "ClusterRole")?;
    let of_webhooks = |role: &Value| role["rules"].to_string().contains("webhookconfigurations");
    ensure!(!roles.iter().any(of_webhooks), "it may change a webhook that is not there");
    Ok(())
}

#[test]
fn the_operator_is_guarded_where_the_cluster_can_and_unless_that_is_not_wanted() -> Result<()> {
    const GUARD: &str = "ValidatingAdmissionPolicy";
    // The last one counts.
    for (options, made) in [
        (&[][..], 1),
        (&["--kube-version", "1.30.0"], 1),
        (&["--kube-version", "1.29.9"], 0),
        (&["--set", "rbac.guard=false"], 0),
    ] {
        assert_eq!(of_kind(options, GUARD)?.len(), made, "{options:?}");
    }
    let elsewhere = ["--namespace", "team", "--set", "serviceAccount.name=bot,nameOverride=ccv"];
    let guard = of_kind(&elsewhere, GUARD)?.pop().context("no policy")?;
    let conditions = guard["spec"]["matchConditions"].to_string();
    for part in ["system:serviceaccount:team:bot", r#"\"team\""#, r#"\"conclave-ccv-operator\""#] {
        ensure!(conditions.contains(part), "{part} is not in {conditions}");
    }
    Ok(())
}

#[test]
fn an_image_is_named_by_its_digest_or_else_by_its_tag() -> Result<()> {
    let digest = format!("sha256:{}", "0".repeat(64));
    for (values, expected) in [
        (String::new(), format!("ghcr.io/conclave-dev/conclave:{}", env!("CARGO_PKG_VERSION"))),
        (
            "image.registry=conclave.local,image.repository=conclave,image.tag=dev".to_owned(),
            conclave_testbed::image::PRODUCT.to_owned(),
        ),
        (
            format!("image.registry=,image.repository=a.test/b,image.tag=v1,image.digest={digest}"),
            format!("a.test/b@{digest}"),
        ),
    ] {
        let operator = &of_kind(&["--set", &values], "Deployment")?[0];
        let image = &operator["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, expected);
    }
    Ok(())
}

/// The default values, and each set that comes with the chart for tests.
fn all_values() -> Result<Vec<Option<String>>> {
    let mut all = vec![None];
    for entry in fs::read_dir(chart().join("ci"))? {
        all.push(Some(entry?.path().to_string_lossy().into_owned()));
    }
    ensure!(all.len() > 2, "the values for tests are gone");
    Ok(all)
}

fn options(values: Option<&str>) -> Vec<&str> {
    values.into_iter().flat_map(|file| ["--values", file]).collect()
}

fn of_kind(options: &[&str], kind: &str) -> Result<Vec<Value>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&render(options)?)?;
    Ok(objects.into_iter().filter(|object| object["kind"] == kind).collect())
}

fn render(options: &[&str]) -> Result<String> {
    render_by(HELM_3, options)
}

fn render_by(version: Binary, options: &[&str]) -> Result<String> {
    let release = ["template", "conclave", CHART, "--namespace", NAMESPACE];
    helm(version, &[&release[..], KUBERNETES, options].concat())
}

fn helm(version: Binary, arguments: &[&str]) -> Result<String> {
    command::output(version.command().args(arguments).current_dir(cache::workspace()))
}

fn chart() -> PathBuf {
    cache::workspace().join(CHART)
}

const CHART: &str = "charts/conclave";

const NAMESPACE: &str = "conclave-system";

/// Without a cluster helm takes a version of its own for the cluster's.
const KUBERNETES: &[&str] = &["--kube-version", "1.34.4"];

const POD_MONITOR: &str = "PodMonitor";

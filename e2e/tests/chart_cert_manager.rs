//! The chart with cert-manager, rendered by helm. No cluster is asked.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use conclave_operator::config::{Config, Flags};
use conclave_testbed::{binaries, cache, command};
use serde_json::{Value, json};

#[test]
fn cert_manager_certifies_the_service_that_the_api_server_calls() -> Result<()> {
    let objects = render(WITH)?;
    let certificate = one(&objects, "Certificate")?;
    let issuer = json!({ "name": "platform", "kind": "ClusterIssuer", "group": "cert-manager.io" });
    assert_eq!(certificate["spec"]["issuerRef"], issuer);

    let hook = one(&objects, "MutatingWebhookConfiguration")?;
    let client = &hook["webhooks"][0]["clientConfig"];
    ensure!(client["caBundle"].is_null(), "cert-manager writes that field");
    let [name, namespace] = ["name", "namespace"].map(|key| text(&client["service"][key]));
    assert_eq!(certificate["spec"]["dnsNames"], json!([format!("{name}.{namespace}.svc")]));
    assert_eq!(
        hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
        format!("{namespace}/{}", text(&certificate["metadata"]["name"]))
    );
    assert_eq!(certificate["metadata"]["namespace"], namespace);
    Ok(())
}

#[test]
fn the_operator_serves_what_cert_manager_makes_and_writes_nothing_of_it() -> Result<()> {
    let objects = render(WITH)?;
    let pod = &one(&objects, "Deployment")?["spec"]["template"]["spec"];
    let secret = &one(&objects, "Certificate")?["spec"]["secretName"];
    assert_eq!(pod["volumes"], json!([{ "name": "webhook", "secret": { "secretName": secret } }]));
    let container = &pod["containers"][0];
    let mount = container["volumeMounts"][0].clone();
    assert_eq!((&mount["name"], &mount["readOnly"]), (&json!("webhook"), &json!(true)));

    let arguments = container["args"].as_array().context("arguments")?;
    let program = "conclave-operator".to_owned();
    let flags = [program].into_iter().chain(arguments.iter().map(text));
    let config = Config::try_from(Flags::try_parse_from(flags)?)?;
    let path = config.webhook_certificate_path.context("no path")?;
    assert_eq!(path, Path::new(&text(&mount["mountPath"])));
    assert_eq!(config.webhook_name, None);

    let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole");
    let granted = json!(roles.map(|role| &role["rules"]).collect::<Vec<_>>()).to_string();
    ensure!(granted.contains("tokenreviews"), "{granted}");
    ensure!(!granted.contains("mutatingwebhookconfigurations"), "{granted}");
    Ok(())
}

#[test]
fn nothing_of_cert_manager_is_there_unless_it_is_wanted_and_there_is_a_webhook() -> Result<()> {
    let without_webhook = [WITH, &["--set", "injector.enabled=false"]].concat();
    for options in [&[][..], &without_webhook] {
        let objects = render(options)?;
        ensure!(one(&objects, "Certificate").is_err(), "{options:?}");
        let pod = one(&objects, "Deployment")?["spec"]["template"]["spec"].clone();
        ensure!(pod["volumes"].is_null(), "{options:?}");
        let all = json!(objects).to_string();
        ensure!(!all.contains("cert-manager.io") && !all.contains("certificate-path"), "{all}");
    }
    Ok(())
}

#[test]
fn an_issuer_must_be_named_and_a_provider_known() -> Result<()> {
    for (value, expected) in [
        ("certificates.provider=CertManager", "certificates.issuerRef.name must name an issuer"),
        ("certificates.provider=Vault", "/certificates/provider"),
        ("certificates.issuerRef.names=platform", "'names'"),
    ] {
        let error = render(&["--set", value]).err().context(value)?.to_string();
        ensure!(error.contains(expected), "{value}: {error}");
    }
    Ok(())
}

/// The only object of a kind.
fn one<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let one = found.next().with_context(|| format!("there is no {kind}"))?;
    ensure!(found.next().is_none(), "there are several of {kind}");
    Ok(one)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn render(options: &[&str]) -> Result<Vec<Value>> {
    let release = ["template", "conclave", "charts/conclave", "--namespace", "conclave-system"];
    let version = ["--kube-version", "1.34.4"];
    let arguments = [&release[..], &version, options].concat();
    let rendered = command::output(
        binaries::HELM_3.command().args(arguments).current_dir(cache::workspace()),
    )?;
    Ok(serde_saphyr::from_multiple(&rendered)?)
}

const WITH: &[&str] = &["--values", "charts/conclave/ci/cert-manager-values.yaml"];

//! The alerts that report what an operator does not do, in a Prometheus that scrapes real pods.

use anyhow::Result;
use conclave_e2e::faults::BRIEF;
use conclave_e2e::monitoring::impatient_rules;
use conclave_e2e::product::{self, Group, SYSTEM};
use conclave_e2e::prometheus::Prometheus;
use conclave_e2e::rotation;
use conclave_testbed::cluster::{Cluster, Namespace};
use conclave_testbed::skipped;
use rcgen::{CertificateParams, KeyPair};

use super::operator::without_operator;
use super::pasted::{CERTIFICATES, define};

/// Certificates run out, and a damaged record stays as it is, until an operator is back.
#[test]
fn alerts_report_that_no_operator_acts_and_what_it_does_not_mend() -> Result<()> {
    watched("monitoring-operator", |namespace, prometheus| {
        let cluster = namespace.cluster();
        let short = "authority.overlap=10s,authority.certificateLifetime=40s";
        product::helm_install(cluster, &["--set", short])?;
        let group = Group::form(namespace, BRIEF, 3)?;
        // The group's leader has one of its own.
        prometheus.await_value("leader_election_master_status{group=\"\"} == 1", "1")?;
        prometheus.await_no_alert("Conclave.+", "")?;
        let without = ["Operator.+", "RecordUnreadable", "CertificateExpires"];
        without_operator(cluster, || {
            let damage =
                ["annotate", "--overwrite", "lease/conclave-orders", "conclave.dev/record={"];
            namespace.kubectl(&damage)?;
            without
                .iter()
                .try_for_each(|what| prometheus.await_alert(&format!("Conclave{what}"), ""))
        })?;
        prometheus.await_alert("ConclaveRecordLost", "")?;
        prometheus.await_no_alert("Conclave.+", "")?;
        group.await_members(3)
    })
}

/// Somebody takes the operator's right to read and write its own Secret.
#[test]
fn an_alert_reports_that_the_authority_is_not_looked_after() -> Result<()> {
    watched("monitoring-authority", |namespace, prometheus| {
        let cluster = namespace.cluster();
        prometheus.await_some("conclave_authority_kept_timestamp_seconds > 0")?;
        prometheus.await_no_alert("Conclave.+", "")?;
        let own = "rolebinding/conclave-operator-own";
        let right = cluster.kubectl(&["--namespace", SYSTEM, "get", own, "--output=json"])?;
        cluster.kubectl(&["--namespace", SYSTEM, "delete", own])?;
        let fired = prometheus.await_alert("ConclaveAuthorityNotKept", "");
        cluster.kubectl_with_input(&["apply", "--filename=-"], &right)?;
        fired?;
        prometheus.await_no_alert("Conclave.+", "")
    })
}

/// There is no cert-manager here: the test makes the Secret that one would make.
#[test]
fn an_alert_reports_that_the_certificate_of_the_webhook_is_not_renewed() -> Result<()> {
    watched("monitoring-webhook", |namespace, prometheus| {
        let cluster = namespace.cluster();
        define(cluster, "apply", &CERTIFICATES)?;
        let tested = a_certificate_ends_and_is_renewed(cluster, prometheus);
        // While the kind of what it deletes is there.
        let restored = product::helm_install(cluster, &["--reset-values"]);
        let forgotten = delete_webhook_secret(cluster);
        let deleted = define(cluster, "delete", &CERTIFICATES);
        tested.and(restored).and(forgotten).and(deleted)
    })
}

fn a_certificate_ends_and_is_renewed(cluster: &Cluster, prometheus: &Prometheus) -> Result<()> {
    make_webhook_secret(cluster, 3)?;
    let by = "certificates.provider=CertManager,certificates.issuerRef.name=platform";
    product::helm_install(cluster, &["--set", by])?;
    prometheus.await_alert("ConclaveWebhookCertificateExpires", "")?;
    make_webhook_secret(cluster, 48)?;
    prometheus.await_no_alert("Conclave.+", "")
}

/// The certificate by which the operator serves its webhook, for so many hours.
pub(super) fn make_webhook_secret(cluster: &Cluster, hours: i64) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut certificate = CertificateParams::new([format!("conclave-operator.{SYSTEM}.svc")])?;
    let now = std::time::SystemTime::now();
    certificate.not_before = now.into();
    certificate.not_after =
        (now + std::time::Duration::from_secs(hours.unsigned_abs() * 3600)).into();
    let certificate = certificate.self_signed(&key)?.pem();
    let secret = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "conclave-operator-webhook", "namespace": SYSTEM },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": certificate, "tls.key": key.serialize_pem() },
    });
    cluster.kubectl_with_input(&["apply", "--filename=-"], &secret.to_string()).map(drop)
}

pub(super) fn delete_webhook_secret(cluster: &Cluster) -> Result<()> {
    let secret = ["--namespace", SYSTEM, "delete", "secret/conclave-operator-webhook"];
    cluster.kubectl(&secret).map(drop)
}

/// Runs a test beside a Prometheus, with the operator as the chart installs it. Other tests find it so, also after one that
/// has failed.
fn watched(name: &str, test: impl FnOnce(&Namespace<'_>, &Prometheus) -> Result<()>) -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a Prometheus beside the cluster") {
        return Ok(());
    }
    if rotation::pastes()? {
        skipped::note(&format!("{name} has its turn on one day of two, and this is the other"));
        return Ok(());
    }
    product::install(&cluster)?;
    cluster.in_namespace(name, |namespace| {
        let prometheus = Prometheus::with_rules(&cluster, namespace.name(), &impatient_rules()?)?;
        let tested = test(namespace, &prometheus);
        let restored = product::helm_install(&cluster, &["--reset-values"]);
        tested.and(restored)
    })
}

//! What the operator counts.

mod definitions;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus::{
    Encoder, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

pub use definitions::Definition;
use definitions::Definitions;

use crate::conditions;
use crate::status::CONDITIONS;

/// All metrics of the operator, in a registry of their own.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    definitions: Vec<Definition>,
    reconciles: IntCounterVec,
    failures: IntCounterVec,
    durations: HistogramVec,
    active: IntGaugeVec,
    uninjected: IntGaugeVec,
    conditions: IntGaugeVec,
    losses: IntCounterVec,
    master: IntGaugeVec,
    authority: IntGauge,
    lacking: IntGauge,
    maintained: IntGauge,
    webhook: IntGauge,
}

impl Metrics {
    /// Registers everything once.
    pub fn new() -> prometheus::Result<Self> {
        let mut define = Definitions::default();
        let build = define.gauges(
            "conclave_build_info",
            "The version that runs; always 1.",
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            reconciles: define.counters(
                "conclave_operator_reconcile_total",
                "Reconciliations, by their result.",
                &["controller", "result"],
            )?,
            failures: define.counters(
                "conclave_operator_reconcile_errors_total",
                "Reconciliations that failed.",
                &["controller"],
            )?,
            durations: define.histograms(
                "conclave_operator_reconcile_duration_seconds",
                "How long a reconciliation took.",
                &["controller"],
                &[0.01, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0],
            )?,
            active: define.gauges(
                "conclave_operator_active_workers",
                "Reconciliations that are under way.",
                &["controller"],
            )?,
            uninjected: define.gauges(
                "conclave_uninjected_pods",
                "Pods that have the label of a group and no sidecar.",
                GROUP,
            )?,
            conditions: define.gauges(
                "conclave_group_condition",
                "Whether a condition in the status of a group is True; none while it is Unknown.",
                &["namespace_name", "group", "condition"],
            )?,
            losses: define.counters(
                "conclave_register_losses_total",
                "How often a mark was put in the place of a group's record, because the Lease was \
                 deleted or its record taken off or not to be read.",
                GROUP,
            )?,
            master: define.gauges(
                "leader_election_master_status",
                "Whether this replica of the operator is the one that acts.",
                &["name"],
            )?,
            authority: define.gauge(
                "conclave_authority_expiry_timestamp_seconds",
                "When the certificate that signs for members ends; 0 while there is none.",
            )?,
            lacking: define.gauge(
                "conclave_authority_lacking",
                "Groups, and the webhook, that have not got the next certificate of the authority.",
            )?,
            maintained: define.gauge(
                "conclave_authority_kept_timestamp_seconds",
                "When the authority was last read, and all done that was due; 0 before.",
            )?,
            webhook: define.gauge(
                "conclave_webhook_certificate_expiry_timestamp_seconds",
                "When the mounted certificate of the webhook ends; 0 while there is none.",
            )?,
            registry: define.registry,
            definitions: define.list,
        };
        metrics.begin();
        let process = prometheus::process_collector::ProcessCollector::for_self();
        metrics.registry.register(Box::new(process))?;
        Ok(metrics)
    }

    /// Every metric that there is, in the order of the documentation.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// Counts from 0 on.
    fn begin(&self) {
        for outcome in [Outcome::Success, Outcome::Requeue, Outcome::Error] {
            self.reconciles.with_label_values(&[CONTROLLER, outcome.as_str()]);
        }
        self.failures.with_label_values(&[CONTROLLER]);
        self.durations.with_label_values(&[CONTROLLER]);
        self.active.with_label_values(&[CONTROLLER]);
    }

    /// A reconciliation that has begun; it is under way until the value is dropped.
    pub fn reconciling(&self) -> Reconciling {
        self.active.with_label_values(&[CONTROLLER]).inc();
        Reconciling { metrics: self.clone() }
    }

    /// A reconciliation has ended.
    pub fn reconciled(&self, outcome: Outcome, took: Duration) {
        self.reconciles.with_label_values(&[CONTROLLER, outcome.as_str()]).inc();
        self.durations.with_label_values(&[CONTROLLER]).observe(took.as_secs_f64());
        if outcome == Outcome::Error {
            self.failures.with_label_values(&[CONTROLLER]).inc();
        }
    }

    /// How many pods of a group have no sidecar.
    pub fn uninjected(&self, namespace: &str, group: &str, pods: usize) {
        let pods = i64::try_from(pods).unwrap_or(i64::MAX);
        self.uninjected.with_label_values(&[namespace, group]).set(pods);
    }

    /// How a group stands, as its status reports it. A condition that is not there is not known.
    pub fn stands(&self, namespace: &str, group: &str, conditions: &[Condition]) {
        for kind in CONDITIONS {
            let labels = [namespace, group, kind];
            match conditions::find(conditions, kind).map(|found| found.status.as_str()) {
                Some("True") => self.conditions.with_label_values(&labels).set(1),
                Some("False") => self.conditions.with_label_values(&labels).set(0),
                // Of one that never was known there is nothing to remove.
                Some(_) | None => drop(self.conditions.remove_label_values(&labels)),
            }
        }
    }

    /// This group's register is looked after: its losses are counted from zero, so that the first one
    /// is seen as a rise.
    pub fn keeps(&self, namespace: &str, group: &str) {
        self.losses.with_label_values(&[namespace, group]).inc_by(0);
    }

    /// A group's record was lost.
    pub fn register_lost(&self, namespace: &str, group: &str) {
        self.losses.with_label_values(&[namespace, group]).inc();
    }

    /// A group is gone.
    pub fn forget(&self, namespace: &str, group: &str) {
        // A group that was never counted has no series.
        self.stands(namespace, group, &[]);
        drop(self.uninjected.remove_label_values(&[namespace, group]));
        drop(self.losses.remove_label_values(&[namespace, group]));
    }

    /// Whether this replica acts.
    pub fn leads(&self, lease: &str, leads: bool) {
        self.master.with_label_values(&[lease]).set(i64::from(leads));
    }

    /// When the certificate of the authority ends.
    pub fn authority_ends(&self, at: Timestamp) {
        self.authority.set(at.as_second());
    }

    /// How many have not got the next certificate of the authority.
    pub fn authority_lacking(&self, count: usize) {
        self.lacking.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The authority was read, and all was done that was due.
    pub fn authority_maintained(&self, at: Timestamp) {
        self.maintained.set(at.as_second());
    }

    /// When the mounted certificate of the webhook ends.
    pub fn webhook_certificate_ends(&self, at: Timestamp) {
        self.webhook.set(at.as_second());
    }

    /// Everything, as Prometheus reads it.
    pub fn text(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The group is as it should be.
    Success,
    /// Somebody else wrote first: it is tried again at once.
    Requeue,
    /// A call failed.
    Error,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Requeue => "requeue",
            Self::Error => "error",
        }
    }
}

/// One reconciliation that is under way.
pub struct Reconciling {
    metrics: Metrics,
}

impl Drop for Reconciling {
    fn drop(&mut self) {
        self.metrics.active.with_label_values(&[CONTROLLER]).dec();
    }
}

/// The only controller that there is yet.
const CONTROLLER: &str = "conclave";

/// The labels of what is about a group. Those that Prometheus gives to a target have other names.
const GROUP: &[&str] = &["namespace_name", "group"];

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: "Tested".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                Timestamp::UNIX_EPOCH,
            ),
        }
    }

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.text().expect("text")).expect("UTF-8")
    }

    #[test]
    fn every_metric_has_a_place_in_the_documentation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics-operator.md");
        let mut page = String::from(
            "# Metrics of the operator\n\n\
             `GET :8080/metrics` of every replica; those of sidecars are in [metrics.md](metrics.md). What is about a \
             group names its namespace `namespace_name`, because Prometheus calls that of the operator's own \
             pod `namespace`. The usual `process_*` metrics are there too. This page is made from the \
             definitions in `operator/src/metrics.rs`; a test compares them.\n\n\
             | Metric | Type | Labels | What it says |\n| --- | --- | --- | --- |\n",
        );
        for Definition { name, kind, help, labels } in
            Metrics::new().expect("metrics").definitions()
        {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
            page.push_str(&row);
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &page).expect("the page can be written");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page,
            "{path} is out of date: UPDATE=1 cargo test -p conclave-operator"
        );
    }

    #[test]
    fn all_is_there_from_the_start_but_what_is_of_a_group_or_a_turn() {
        let metrics = Metrics::new().expect("metrics");
        let text = text(&metrics);
        let is_missing = |name: &&str| !text.contains(&format!("# TYPE {name} "));
        let names = metrics.definitions().iter().map(|definition| definition.name);
        let missing: Vec<_> = names.filter(is_missing).collect();
        let expected = [
            "conclave_uninjected_pods",
            "conclave_group_condition",
            "conclave_register_losses_total",
            "leader_election_master_status",
        ];
        assert_eq!(missing, expected);
    }

    #[test]
    fn a_condition_is_1_or_0_or_not_there() {
        let metrics = Metrics::new().expect("metrics");
        let shown = |status: &str| {
            metrics.stands("shop", "orders", &[condition("PolicyInForce", status)]);
            let text = text(&metrics);
            let mut lines =
                text.lines().filter(|line| line.starts_with("conclave_group_condition"));
            lines.next().map(str::to_owned)
        };
        let series = "conclave_group_condition{condition=\"PolicyInForce\",group=\"orders\",\
                      namespace_name=\"shop\"}";
        for (status, number) in [("Unknown", None), ("False", Some(0)), ("True", Some(1))] {
            assert_eq!(shown(status), number.map(|number| format!("{series} {number}")));
        }
        assert_eq!(shown("Unknown"), None);
    }

    #[test]
    fn a_failed_reconciliation_is_counted_twice_and_a_deleted_group_is_not() {
        let metrics = Metrics::new().expect("metrics");
        metrics.uninjected("shop", "orders", 2);
        metrics.uninjected("shop", "tills", 1);
        for group in ["orders", "tills"] {
            metrics.keeps("shop", group);
        }
        metrics.register_lost("shop", "orders");
        metrics.stands("shop", "tills", &[condition("Ready", "True")]);
        metrics.forget("shop", "tills");
        let under_way = metrics.reconciling();
        metrics.reconciled(Outcome::Error, Duration::from_millis(20));
        drop(under_way);
        metrics.leads("conclave-operator", true);
        metrics.authority_ends(Timestamp::from_second(1_800_000_000).expect("a time"));
        metrics.authority_lacking(3);
        let text = text(&metrics);
        for line in [
            "conclave_operator_reconcile_total{controller=\"conclave\",result=\"error\"} 1",
            "conclave_operator_reconcile_errors_total{controller=\"conclave\"} 1",
            "conclave_operator_active_workers{controller=\"conclave\"} 0",
            "conclave_uninjected_pods{group=\"orders\",namespace_name=\"shop\"} 2",
            "conclave_register_losses_total{group=\"orders\",namespace_name=\"shop\"} 1",
            "leader_election_master_status{name=\"conclave-operator\"} 1",
            "conclave_authority_expiry_timestamp_seconds 1800000000",
            "conclave_authority_lacking 3",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("tills"));
    }
}

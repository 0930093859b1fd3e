//! What the operator counts.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// All metrics of the operator, in a registry of their own.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    failures: IntCounterVec,
    durations: HistogramVec,
    active: IntGaugeVec,
    uninjected: IntGaugeVec,
    losses: IntCounterVec,
    master: IntGaugeVec,
    authority: IntGauge,
    lacking: IntGauge,
    kept: IntGauge,
    webhook: IntGauge,
}

impl Metrics {
    /// Registers everything once.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("conclave_operator_reconcile_total", "Reconciliations, by their result."),
                &["controller", "result"],
            )?,
            failures: IntCounterVec::new(
                Opts::new(
                    "conclave_operator_reconcile_errors_total",
                    "Reconciliations that failed.",
                ),
                &["controller"],
            )?,
            durations: HistogramVec::new(
                HistogramOpts::new(
                    "conclave_operator_reconcile_duration_seconds",
                    "How long a reconciliation took.",
                )
                .buckets(vec![0.01, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0]),
                &["controller"],
            )?,
            active: IntGaugeVec::new(
                Opts::new(
                    "conclave_operator_active_workers",
                    "Reconciliations that are under way.",
                ),
                &["controller"],
            )?,
            uninjected: IntGaugeVec::new(
                Opts::new(
                    "conclave_uninjected_pods",
                    "Pods that have the label of a group and no sidecar.",
                ),
                &["namespace_name", "group"],
            )?,
            losses: IntCounterVec::new(
                Opts::new(
                    "conclave_register_losses_total",
                    "How often a mark was put in the place of a group's record, because the Lease was \
                     deleted or its record taken off or not to be read.",
                ),
                &["namespace_name", "group"],
            )?,
            master: IntGaugeVec::new(
                Opts::new(
                    "leader_election_master_status",
                    "Whether this replica of the operator is the one that acts.",
                ),
                &["name"],
            )?,
            authority: IntGauge::new(
                "conclave_authority_expiry_timestamp_seconds",
                "When the certificate that signs for members ends; 0 while there is none.",
            )?,
            lacking: IntGauge::new(
                "conclave_authority_lacking",
                "Groups, and the webhook, that have not got the next certificate of the authority.",
            )?,
            kept: IntGauge::new(
                "conclave_authority_kept_timestamp_seconds",
                "When the authority was last read, and all done that was due; 0 before.",
            )?,
            webhook: IntGauge::new(
                "conclave_webhook_certificate_expiry_timestamp_seconds",
                "When the mounted certificate of the webhook ends; 0 while there is none.",
            )?,
            registry,
        };
        metrics.register()?;
        Ok(metrics)
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
    pub fn authority_kept(&self, at: Timestamp) {
        self.kept.set(at.as_second());
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

    fn register(&self) -> prometheus::Result<()> {
        let build = IntGaugeVec::new(
            Opts::new("conclave_build_info", "The version that runs."),
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        self.registry.register(Box::new(build))?;
        self.registry.register(Box::new(self.reconciles.clone()))?;
        self.registry.register(Box::new(self.failures.clone()))?;
        self.registry.register(Box::new(self.durations.clone()))?;
        self.registry.register(Box::new(self.active.clone()))?;
        self.registry.register(Box::new(self.uninjected.clone()))?;
        self.registry.register(Box::new(self.losses.clone()))?;
        self.registry.register(Box::new(self.master.clone()))?;
        self.registry.register(Box::new(self.authority.clone()))?;
        self.registry.register(Box::new(self.lacking.clone()))?;
        self.registry.register(Box::new(self.kept.clone()))?;
        self.registry.register(Box::new(self.webhook.clone()))?;
        let process = prometheus::process_collector::ProcessCollector::for_self();
        self.registry.register(Box::new(process))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_reconciliation_is_counted_twice_and_a_deleted_group_is_not() {
        let metrics = Metrics::new().expect("metrics");
        metrics.uninjected("shop", "orders", 2);
        metrics.uninjected("shop", "tills", 1);
        for group in ["orders", "tills"] {
            metrics.keeps("shop", group);
        }
        metrics.register_lost("shop", "orders");
        metrics.forget("shop", "tills");
        let under_way = metrics.reconciling();
        metrics.reconciled(Outcome::Error, Duration::from_millis(20));
        drop(under_way);
        metrics.leads("conclave-operator", true);
        metrics.authority_ends(Timestamp::from_second(1_800_000_000).expect("a time"));
        metrics.authority_lacking(3);
        let text = String::from_utf8(metrics.text().expect("text")).expect("UTF-8");
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

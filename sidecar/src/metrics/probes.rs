//! Clock probes.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::ClockCost;
use super::definitions::{Definitions, begin};
use crate::probes::{Check, Probed, Source};

/// Clock probes: the thread that sends and takes them counts.
#[derive(Clone)]
pub(crate) struct ProbeMetrics {
    /// What the group clock takes of processors, of which clock probes are the greater part.
    pub(crate) cost: ClockCost,
    /// Whether the port is open.
    pub(crate) socket: IntGauge,
    /// Beacons to peers.
    pub(crate) sent: IntCounter,
    /// Beacons of peers that were believed.
    pub(crate) received: IntCounter,
    timestamps: IntCounterVec,
    refused: IntCounterVec,
    /// Samples that nobody took in time.
    pub(crate) dropped: IntCounter,
    rtt_min: GaugeVec,
    bound: GaugeVec,
    contradictions: GaugeVec,
    violations: IntCounterVec,
    outlier: IntGaugeVec,
}

impl ProbeMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let probes = define.counters(
            "conclave_clock_probes_total",
            "Clock probes, which are UDP packets to and from other members.",
            &["direction"],
        );
        let metrics = Self {
            cost: ClockCost::new(define),
            socket: define.count(
                "conclave_clock_probe_socket_open",
                "Whether the UDP port of clock probes is open.",
            ),
            sent: probes.with_label_values(&["sent"]),
            received: probes.with_label_values(&["received"]),
            timestamps: define.counters(
                "conclave_clock_timestamps_total",
                "Clock probes by what stamped them: the kernel, or this program where the kernel did not.",
                &["source", "direction"],
            ),
            refused: define.counters(
                "conclave_clock_probes_refused_total",
                "UDP packets on the port of clock probes that were not taken, by why.",
                &["reason"],
            ),
            dropped: define.counter(
                "conclave_clock_samples_dropped_total",
                "What clock probes showed and nobody took in time: departure and arrival of a packet, of which both are known.",
            ),
            rtt_min: define.gauges(
                "conclave_clock_peer_rtt_min_seconds",
                "The shortest round trip of clock probes with a member in the last one or two minutes.",
                &["peer"],
            ),
            bound: define.gauges(
                "conclave_clock_peer_error_bound_seconds",
                "How far the estimate of a member's raw clock is off at most, by clock probes.",
                &["peer"],
            ),
            contradictions: define.gauges(
                "conclave_clock_peer_contradictions",
                "How often the clock probes with a member contradicted what is assumed of raw clocks, as long as it is probed.",
                &["peer"],
            ),
            violations: define.counters(
                "conclave_clock_audit_violations_total",
                "What other members stated of their clocks and cannot be true, by what it was held against: the relation of \
                 a raw clock that both read, or what this member knows of group time.",
                &["kind"],
            ),
            outlier: define.counts(
                "conclave_clock_host_outlier",
                "Whether the wall clock of this machine is off by what more than half of the members known here state; absent \
                 as long as group time is not known.",
                &[],
            ),
        };
        begin(&metrics.violations, &VIOLATIONS.map(|check| [kind(check)]));
        begin(&metrics.timestamps, &TIMESTAMPS);
        begin(&metrics.refused, &REFUSED.map(|reason| [reason]));
        metrics
    }

    /// The departure of a beacon is known, by this.
    pub(crate) fn departed(&self, source: Source) {
        self.timestamps.with_label_values(&[label(source), "sent"]).inc();
    }

    /// A beacon arrived, by this.
    pub(crate) fn arrived(&self, source: Source) {
        self.timestamps.with_label_values(&[label(source), "received"]).inc();
    }

    /// A packet was not taken.
    pub(crate) fn refuse(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }

    /// A check of what a peer stated has failed.
    pub(crate) fn violated(&self, check: Check) {
        self.violations.with_label_values(&[kind(check)]).inc();
    }

    /// Takes over what is known of the peers. Those that are none any more are forgotten. A pod has one label: of two
    /// processes of it, of which the one is new and the other a member still, the one is shown that was heard last.
    pub(super) fn observe(&self, probed: &Probed) {
        for gauges in [&self.rtt_min, &self.bound, &self.contradictions] {
            gauges.reset();
        }
        let none: [&str; 0] = [];
        self.outlier.reset();
        if let Some(host) = probed.host {
            self.outlier.with_label_values(&none).set(i64::from(host.is_outlier));
        }
        let mut shown = BTreeMap::new();
        for figures in &probed.peers {
            let one = shown.entry(&figures.peer.name).or_insert(figures);
            if figures.last > one.last {
                *one = figures;
            }
        }
        for (name, figures) in shown {
            if let Some(shortest) = figures.rtt_min_ns {
                let seconds = Duration::from_nanos(shortest).as_secs_f64();
                self.rtt_min.with_label_values(&[name]).set(seconds);
            }
            if let Ok(relation) = figures.relation {
                let seconds = Duration::from_nanos(relation.offset.error_ns()).as_secs_f64();
                self.bound.with_label_values(&[name]).set(seconds);
            }
            // Few enough for a gauge to be exact.
            let contradictions = u32::try_from(figures.contradictions).unwrap_or(u32::MAX);
            self.contradictions.with_label_values(&[name]).set(f64::from(contradictions));
        }
    }
}

fn label(source: Source) -> &'static str {
    match source {
        Source::Kernel => "kernel",
        Source::User => "user",
    }
}

fn kind(check: Check) -> &'static str {
    match check {
        Check::Relation => "relation",
        Check::Time => "time",
    }
}

const VIOLATIONS: [Check; 2] = [Check::Relation, Check::Time];

const TIMESTAMPS: [[&str; 2]; 4] =
    [["kernel", "sent"], ["kernel", "received"], ["user", "sent"], ["user", "received"]];

/// Why a packet is not taken.
pub(super) const REFUSED: [&str; 7] =
    ["forged", "group", "malformed", "no-key", "replayed", "stranger", "too-often"];

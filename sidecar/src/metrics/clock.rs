//! The group clock.

use std::time::Duration;

use conclave_protocols::clock::{Params, Reading, Source, State, Verdict};
use conclave_protocols::policy::ClockPolicy;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::definitions::{Definitions, begin, doubling};
use crate::os_clock::{Host, Synchronization};

/// The group clock: read at every scrape; what the daemon learns is counted by the group task.
#[derive(Clone)]
pub(crate) struct ClockMetrics {
    synchronized: IntGauge,
    error_bound: Gauge,
    textbook_error: Gauge,
    by_messages: Gauge,
    resync_interval: Gauge,
    interval: Gauge,
    age: Gauge,
    slewing: Gauge,
    host_offset: Gauge,
    host_max_error: GaugeVec,
    host_synchronized: IntGaugeVec,
    answers: IntCounterVec,
    contradictions: IntCounter,
    disruptions: IntCounter,
    error: Histogram,
    wait: Histogram,
    /// Publications on the clock page.
    pub(crate) page_published: IntCounter,
    /// Those that would have let time go back.
    pub(crate) page_refused: IntCounter,
}

impl ClockMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let metrics = Self {
            synchronized: define.count(
                "conclave_clock_synchronized",
                "Whether this member's group clock was compared recently.",
            ),
            error_bound: define.gauge(
                "conclave_clock_error_bound_seconds",
                "How far group time is from this member's clock at most; +Inf before it is known.",
            ),
            textbook_error: define.gauge(
                "conclave_clock_textbook_error_seconds",
                "How far group time by the algorithm's own messages is wrong at most by the formula of its source, which \
                 leaves out what the leader's clock is wrong by; NaN where there is none.",
            ),
            by_messages: define.gauge(
                "conclave_clock_by_messages_offset_seconds",
                "Group time by the algorithm's own messages, without clock probes, less this member's clock; NaN before \
                 there were any, and at a leader that asks nobody.",
            ),
            resync_interval: define.gauge(
                "conclave_clock_resync_interval_seconds",
                "How often clocks are to be compared by the textbook, for the precision and the drift of the policy.",
            ),
            interval: define.gauge(
                "conclave_clock_interval_seconds",
                "How often clocks are compared: at least once a second.",
            ),
            age: define.gauge(
                "conclave_clock_age_seconds",
                "Since when this member's clock was last compared; +Inf if it never was.",
            ),
            slewing: define.gauge(
                "conclave_clock_slewing_seconds",
                "What is still to be slewed; positive if this member's clock is behind.",
            ),
            host_offset: define.gauge(
                "conclave_clock_host_offset_seconds",
                "The wall clock of this machine less group time.",
            ),
            host_max_error: define.gauges(
                "conclave_clock_host_max_error_seconds",
                "How far the daemon of this machine lets its wall clock be wrong at most; absent if the kernel does not say.",
                &[],
            ),
            host_synchronized: define.counts(
                "conclave_clock_host_synchronized",
                "Whether a daemon of this machine says that its wall clock is synchronized; absent if the kernel does not say.",
                &[],
            ),
            answers: define.counters(
                "conclave_clock_answers_total",
                "Members asked for their time by this one, by what came of it.",
                &["verdict"],
            ),
            contradictions: define.counter(
                "conclave_clock_contradictions_total",
                "Rounds in which an answer could not be true together with this member's own bound.",
            ),
            disruptions: define.counter(
                "conclave_clock_disruptions_total",
                "How often what was heard of the leader's clock, or by the leader of most others', could not be true if all raw \
                 clocks are as is assumed.",
            ),
            error: define.histogram(
                "conclave_clock_exchange_error_seconds",
                "What an exchange with another member leaves unknown: half its round trip, and of a time server \
                 its own bound too.",
                &doubling(1e-6, 20),
            ),
            wait: define.histogram(
                "conclave_clock_wait_seconds",
                "How long calls of /v1/time/wait waited that were answered with the time.",
                &doubling(100e-6, 18),
            ),
            page_published: define.counter(
                "conclave_clock_page_published_total",
                "Publications on the clock page; 0 if there is no page.",
            ),
            page_refused: define.counter(
                "conclave_clock_page_refused_total",
                "Publications on the clock page that were put off, because readers would have seen the time go back, or \
                 change too soon.",
            ),
        };
        begin(&metrics.answers, &VERDICTS.map(|one| [verdict(one)]));
        metrics.error_bound.set(f64::INFINITY);
        metrics.textbook_error.set(f64::NAN);
        metrics.by_messages.set(f64::NAN);
        metrics.age.set(f64::INFINITY);
        metrics.slewing.set(f64::NAN);
        metrics.host_offset.set(f64::NAN);
        metrics
    }

    /// What this member learned of others in a round. If its own clock was stopped, all contradict it: that is one
    /// event.
    pub(crate) fn compared<'a>(&self, sources: impl Iterator<Item = &'a Source>) {
        let mut is_contradicted = false;
        for source in sources {
            is_contradicted |= source.contradicts;
            self.answers.with_label_values(&[verdict(source.verdict)]).inc();
            if let Some(offset) = source.offset {
                self.error.observe(Duration::from_nanos(offset.error_ns).as_secs_f64());
            }
        }
        self.contradictions.inc_by(u64::from(is_contradicted));
    }

    /// What was heard cannot be true.
    pub(crate) fn disrupted(&self) {
        self.disruptions.inc();
    }

    /// A caller has waited for the clock, and not in vain.
    pub(crate) fn waited(&self, took: Duration) {
        self.wait.observe(took.as_secs_f64());
    }

    /// Takes over how the clock stands, and what the machine's wall clock shows.
    pub(super) fn observe(&self, reading: &Reading, host: Host, policy: &ClockPolicy) {
        let params = Params::from(policy);
        self.resync_interval.set(params.resync_interval().as_secs_f64());
        self.interval.set(params.interval().as_secs_f64());
        let by_messages = reading.by_messages;
        self.textbook_error.set(by_messages.map_or(f64::NAN, |one| known(Some(one.textbook_ns))));
        let offset = |ns: i64| signed(ns.saturating_sub(reading.now_ns));
        self.by_messages.set(by_messages.map_or(f64::NAN, |one| offset(one.now_ns)));
        self.synchronized.set(i64::from(reading.state == State::Synchronised));
        self.error_bound.set(known(reading.error_ns));
        self.age.set(known(reading.age_ns));
        self.slewing.set(signed(reading.slewing_ns));
        self.host_offset.set(signed(host.wall.ns.saturating_sub(reading.now_ns)));
        self.synchronization(host.synchronization);
    }

    /// Takes over how the machine's wall clock is kept.
    fn synchronization(&self, synchronization: Option<Synchronization>) {
        let none: [&str; 0] = [];
        if let Some(synchronization) = synchronization {
            let synchronized = i64::from(synchronization.synchronized);
            self.host_max_error
                .with_label_values(&none)
                .set(known(Some(synchronization.max_error_ns)));
            self.host_synchronized.with_label_values(&none).set(synchronized);
        } else {
            self.host_max_error.reset();
            self.host_synchronized.reset();
        }
    }
}

fn known(nanos: Option<u64>) -> f64 {
    nanos.map_or(f64::INFINITY, |nanos| Duration::from_nanos(nanos).as_secs_f64())
}

fn signed(nanos: i64) -> f64 {
    let size = Duration::from_nanos(nanos.unsigned_abs()).as_secs_f64();
    if nanos < 0 { -size } else { size }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Averaged => "averaged",
        Verdict::Taken => "taken",
        Verdict::Agrees => "agrees",
        Verdict::Outlier => "outlier",
        Verdict::Vague => "vague",
        Verdict::Joining => "joining",
        Verdict::Silent => "silent",
    }
}

/// All of them.
const VERDICTS: [Verdict; 7] = [
    Verdict::Averaged,
    Verdict::Taken,
    Verdict::Agrees,
    Verdict::Outlier,
    Verdict::Vague,
    Verdict::Joining,
    Verdict::Silent,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_say_of_the_wall_clock_is_absent() {
        let mut definitions = Definitions::new("orders");
        let metrics = ClockMetrics::new(&mut definitions);
        let shown = || {
            let families = definitions.registry.gather();
            let named = |name: &str| families.iter().filter(|family| family.name() == name).count();
            ["max_error_seconds", "synchronized"]
                .map(|name| named(&format!("conclave_clock_host_{name}")))
        };
        assert_eq!(shown(), [0, 0]);
        let synchronization =
            Synchronization { synchronized: false, max_error_ns: 1, estimated_error_ns: 1 };
        metrics.synchronization(Some(synchronization));
        assert_eq!(shown(), [1, 1]);
        metrics.synchronization(None);
        assert_eq!(shown(), [0, 0]);
    }
}

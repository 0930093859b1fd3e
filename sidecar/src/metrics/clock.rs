//! The group clock.

use std::time::Duration;

use conclave_protocols::clock::{Reading, Source, State, Verdict};
use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge};

use super::definitions::{Definitions, begin, doubling};

/// The group clock: read at every scrape; what the daemon learns is counted by the group task.
#[derive(Clone)]
pub(crate) struct ClockMetrics {
    synchronized: IntGauge,
    error_bound: Gauge,
    age: Gauge,
    slewing: Gauge,
    host_offset: Gauge,
    answers: IntCounterVec,
    contradictions: IntCounter,
    error: Histogram,
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
            answers: define.counters(
                "conclave_clock_answers_total",
                "Members asked for their time by this one as the daemon, by what came of it.",
                &["verdict"],
            ),
            contradictions: define.counter(
                "conclave_clock_contradictions_total",
                "Answers that cannot be true together with this member's own bound.",
            ),
            error: define.histogram(
                "conclave_clock_exchange_error_seconds",
                "Half the round trip of the daemon's exchanges: what one of them leaves unknown.",
                &doubling(1e-6, 20),
            ),
        };
        begin(&metrics.answers, &VERDICTS.map(|one| [verdict(one)]));
        metrics.error_bound.set(f64::INFINITY);
        metrics.age.set(f64::INFINITY);
        metrics.slewing.set(f64::NAN);
        metrics.host_offset.set(f64::NAN);
        metrics
    }

    /// What this member learned of another in a round.
    pub(crate) fn asked(&self, source: &Source) {
        self.answers.with_label_values(&[verdict(source.verdict)]).inc();
        self.contradictions.inc_by(u64::from(source.contradicts));
        if let Some(offset) = source.offset {
            self.error.observe(Duration::from_nanos(offset.error_ns).as_secs_f64());
        }
    }

    /// Takes over how the clock stands, and what the machine's wall clock shows.
    pub(super) fn observe(&self, reading: &Reading, wall_ns: i64) {
        self.synchronized.set(i64::from(reading.state == State::Synchronised));
        self.error_bound.set(known(reading.error_ns));
        self.age.set(known(reading.age_ns));
        self.slewing.set(signed(reading.slewing_ns));
        self.host_offset.set(signed(wall_ns.saturating_sub(reading.now_ns)));
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
        Verdict::Outlier => "outlier",
        Verdict::Vague => "vague",
        Verdict::Joining => "joining",
        Verdict::Silent => "silent",
    }
}

/// All of them.
const VERDICTS: [Verdict; 5] =
    [Verdict::Averaged, Verdict::Outlier, Verdict::Vague, Verdict::Joining, Verdict::Silent];

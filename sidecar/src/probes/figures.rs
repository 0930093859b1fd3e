//! What is shown of clock probes, peer by peer.

use std::collections::HashMap;
use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link, Missing, Relation};
use conclave_protocols::{Incarnation, LocalTime};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::audit::{Audited, Auditor, Check, Past};
use super::report::{Report, Reporter};
use super::{Heard, Peer, SAMPLES, Sample, Source};
use crate::metrics::ProbeMetrics;

/// What came of the probes with one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerFigures {
    pub(crate) peer: Peer,
    /// Packets of which both ends are known.
    pub(crate) samples: u64,
    /// The shortest round trip of the last one or two minutes, in nanoseconds.
    pub(crate) rtt_min_ns: Option<u64>,
    /// Who stamped the latest packet to the peer; the kernel only if it did so at both ends.
    pub(crate) there: Option<Source>,
    /// Who stamped the latest packet from the peer.
    pub(crate) back: Option<Source>,
    /// When the latest sample was taken, by this member's raw clock.
    pub(crate) last: Option<LocalTime>,
    /// What follows for the two clocks.
    pub(crate) relation: Result<Relation, Missing>,
    /// How often the samples contradicted what is assumed of the clocks.
    pub(crate) contradictions: u64,
    /// Whether the peer reads the raw clock that this member reads, by its word; nothing before it has said.
    pub(crate) same_clock: Option<bool>,
    /// What became of what it states of its clocks.
    pub(crate) audit: Audited,
}

/// Takes samples, and says what came of them.
pub(crate) struct Figures {
    heard: Heard,
    peers: watch::Receiver<Vec<Peer>>,
    shown: watch::Sender<Vec<PeerFigures>>,
    reporter: Reporter,
    metrics: ProbeMetrics,
    past: Past,
    of: HashMap<Incarnation, Course>,
}

/// What is known of one peer.
#[derive(Debug)]
struct Course {
    link: Link,
    max_drift_ppm: u32,
    samples: u64,
    there: Option<Source>,
    back: Option<Source>,
    last: Option<LocalTime>,
    trips: Trips,
    /// What the peer stated last.
    report: Option<Report>,
    audit: Audited,
    /// When a violation was logged last.
    warned: Option<LocalTime>,
}

/// Round trips, by samples of both ways.
#[derive(Debug, Default)]
struct Trips {
    /// A packet there, with no packet back after it yet: when it departed, and how long it took by two clocks.
    there: Option<(i128, i128)>,
    /// The latest packet back: when it arrived, and how long it took by two clocks.
    back: Option<(i128, i128)>,
    /// The shortest of this minute, and of the minute before.
    shortest: [Option<u64>; 2],
    /// When this minute began.
    since: LocalTime,
}

/// For how long samples count in the relation of two clocks: with four a second each way, and packets that are late by
/// up to 100 µs, a longer window makes the estimate no better.
const WINDOW: Duration = Duration::from_mins(1);

/// By how much the rate of a clock, as another shows it, may be off some constant within two windows, in parts per
/// billion. This is chosen and not proven: no standard bounds how fast a rate changes (PHI of RFC 5905, of the same size,
/// bounds the rate). A crystal changes its rate by less when its temperature changes by ten degrees, which a machine takes
/// minutes for. A machine whose clock changes more, one that is moved to another host say, makes the bounds wrong until
/// the samples contradict them.
pub(crate) const WANDER_PPB: u64 = 15_000;

/// What stamps may be off by to the wrong side: conversion rounds outwards, and each clock shows whole nanoseconds.
const SLACK_NS: u64 = 4;

/// How often samples are taken.
const TAKEN: Duration = Duration::from_millis(500);

/// Of one peer a violation is logged no more often than this.
const WARNED: Duration = Duration::from_mins(1);

/// For how long a shortest round trip counts.
const MINUTE: Duration = Duration::from_mins(1);

impl Figures {
    pub(crate) fn new(
        heard: Heard,
        peers: watch::Receiver<Vec<Peer>>,
        shown: watch::Sender<Vec<PeerFigures>>,
        reporter: Reporter,
        metrics: ProbeMetrics,
    ) -> Self {
        let (past, of) = (Past::default(), HashMap::new());
        Self { heard, peers, shown, reporter, metrics, past, of }
    }

    /// Runs until the thread of beacons has ended.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(TAKEN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.heard.samples.is_closed() {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = self.peers.changed() => if changed.is_err() { break },
                () = self.reporter.changed() => {
                    self.note();
                    continue;
                }
            }
            self.take();
        }
        self.shown.send_replace(Vec::new());
    }

    /// Notes what is known of group time, for readings from now on.
    fn note(&mut self) {
        let map = self.reporter.map_of_all();
        self.past.note(self.reporter.clock().raw(), map);
    }

    pub(super) fn take(&mut self) {
        self.note();
        let now = self.reporter.clock().raw();
        let peers = self.peers.borrow_and_update().clone();
        // What is assumed of a clock has changed: what was found by it counts no more.
        self.of.retain(|known, course| {
            let peer = peers.iter().find(|peer| peer.incarnation == *known);
            peer.is_some_and(|peer| peer.max_drift_ppm == course.max_drift_ppm)
        });
        for peer in &peers {
            let course = || Course::new(peer.max_drift_ppm);
            self.of.entry(peer.incarnation).or_insert_with(course);
        }
        // No more than may wait: a member that sends without a pause must not keep this from ending.
        for _ in 0..SAMPLES {
            let Ok(sample) = self.heard.samples.try_recv() else { break };
            // One of a peer that is none any more says nothing to anybody.
            if let Some(course) = self.of.get_mut(&sample.peer()) {
                course.take(now, &sample);
            }
        }
        self.audit(now, &peers);
        let domain = self.reporter.domain();
        let mut figures = Vec::with_capacity(peers.len());
        for peer in peers {
            if let Some(course) = self.of.get_mut(&peer.incarnation) {
                course.trips.look(now);
                figures.push(course.figures(now, domain, peer));
            }
        }
        self.shown.send_replace(figures);
    }

    /// Holds what peers stated against what is known.
    fn audit(&mut self, now: LocalTime, peers: &[Peer]) {
        let auditor = Auditor { domain: self.reporter.domain(), now, past: &self.past };
        for _ in 0..SAMPLES {
            let Ok((from, report)) = self.heard.reports.try_recv() else { break };
            let peer = peers.iter().find(|peer| peer.incarnation == from);
            if let Some((peer, course)) = peer.zip(self.of.get_mut(&from)) {
                let failed = course.audit(&auditor, report);
                failed.iter().for_each(|check| self.metrics.violated(*check));
                course.warn(now, peer, &failed);
            }
        }
    }
}

impl Course {
    fn new(max_drift_ppm: u32) -> Self {
        let assumptions = Assumptions {
            max_drift_ppm,
            wander_ppb: WANDER_PPB,
            min_delay_ns: 0,
            stamp_slack_ns: SLACK_NS,
        };
        Self {
            link: Link::new(assumptions, WINDOW),
            max_drift_ppm,
            samples: 0,
            there: None,
            back: None,
            last: None,
            trips: Trips::default(),
            report: None,
            audit: Audited::default(),
            warned: None,
        }
    }

    /// Says which of the checks of a report have failed.
    fn audit(&mut self, auditor: &Auditor, report: Report) -> Vec<Check> {
        let relation = self.link.relation(auditor.now.0).ok();
        let checks = auditor.audit(&report, relation.as_ref());
        self.report = Some(report);
        self.audit.add(&checks);
        checks.into_iter().filter(|(_, holds)| !holds).map(|(check, _)| check).collect()
    }

    fn warn(&mut self, now: LocalTime, peer: &Peer, failed: &[Check]) {
        let (false, Some(report)) = (failed.is_empty(), self.report) else { return };
        if self.warned.is_some_and(|warned| now - warned < WARNED) {
            return;
        }
        self.warned = Some(now);
        warn!(
            peer = peer.name,
            checks = ?failed,
            raw_ns = report.raw.0,
            time_ns = report.time_ns,
            bound_ns = report.bound_ns,
            "what a member states of its clocks contradicts what is known here: a clock or a bound is wrong, or it lies"
        );
    }

    fn take(&mut self, now: LocalTime, sample: &Sample) {
        let (departed, arrived) = sample.ends();
        let by_kernel = departed.source == Source::Kernel && arrived.source == Source::Kernel;
        let source = if by_kernel { Source::Kernel } else { Source::User };
        let took = i128::from(arrived.raw.0) - i128::from(departed.raw.0);
        self.samples += 1;
        self.last = Some(now);
        self.trips.look(now);
        match sample {
            Sample::Sent { .. } => {
                self.there = Some(source);
                self.link.sent(departed.raw.0, arrived.raw.0);
                self.trips.there(i128::from(departed.raw.0), took);
            }
            Sample::Received { .. } => {
                self.back = Some(source);
                self.link.received(departed.raw.0, arrived.raw.0);
                self.trips.back(i128::from(arrived.raw.0), took);
            }
        }
    }

    fn figures(&self, now: LocalTime, domain: u64, peer: Peer) -> PeerFigures {
        PeerFigures {
            peer,
            samples: self.samples,
            rtt_min_ns: self.trips.shortest.into_iter().flatten().min(),
            there: self.there,
            back: self.back,
            last: self.last,
            relation: self.link.relation(now.0),
            contradictions: self.link.refused().contradictions,
            same_clock: self.report.map(|report| report.domain == domain),
            audit: self.audit,
        }
    }
}

impl Trips {
    fn there(&mut self, departed: i128, took: i128) {
        self.there = Some((departed, took));
    }

    /// With the packet back before it and this one after it, a packet there makes a round trip: the clocks' offset is in
    /// each of the ways, once added and once taken off, and as it was at the same moment if what the two took is
    /// weighted by how far they are from it. Else a drift of 50 parts per million would be 12 µs of a round trip.
    fn back(&mut self, arrived: i128, took: i128) {
        let before = self.back.replace((arrived, took));
        let Some(((began, first), (departed, there))) = before.zip(self.there) else { return };
        if departed > arrived {
            return;
        }
        self.there = None;
        let whole = arrived - began;
        if departed < began || whole <= 0 {
            return;
        }
        let back = first + (took - first) * (departed - began) / whole;
        let Ok(trip) = u64::try_from(there + back) else { return };
        let shortest = &mut self.shortest[0];
        *shortest = Some(shortest.map_or(trip, |shortest| shortest.min(trip)));
    }

    /// Forgets what is of the minute before the last.
    fn look(&mut self, now: LocalTime) {
        if now - self.since >= MINUTE {
            self.since = now;
            self.shortest = [None, self.shortest[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use conclave_protocols::PodUid;
    use conclave_protocols::clock::Refused;
    use tokio::sync::mpsc;

    use super::*;
    use crate::http::tests::double::Double;
    use crate::probes::Stamp;

    const PEER: Incarnation = Incarnation { pod: PodUid(2), run: 1 };
    const QUARTER: u64 = 250_000_000;

    fn kernel(raw: u64) -> Stamp {
        Stamp { raw: LocalTime(raw), source: Source::Kernel }
    }

    /// What the peer's clock reads when ours does: 7 s ahead, and 500 parts per million fast.
    fn there(raw: u64) -> u64 {
        7_000_000_000 + raw + raw / 2_000
    }

    /// Packets take 20 µs there and 30 µs back.
    #[test]
    fn the_offset_and_the_drift_of_a_clock_are_in_no_round_trip_but_in_the_relation() {
        let mut course = Course::new(1_000);
        for beacon in 1..200_u64 {
            let departed = beacon * QUARTER;
            let arrived = departed + 30_000;
            let (departed_there, arrived) = (kernel(there(departed)), kernel(arrived));
            let back = Sample::Received { peer: PEER, departed_there, arrived };
            course.take(arrived.raw, &back);
            let departed = departed + 100_000_000;
            let arrived = departed + 20_000;
            let (departed, arrived_there) = (kernel(departed), kernel(there(arrived)));
            course.take(departed.raw, &Sample::Sent { peer: PEER, departed, arrived_there });
        }
        let shortest = course.trips.shortest.into_iter().flatten().min().expect("some");
        // By a packet back of another moment alone it would be off by 50 or 75 µs.
        assert!((49_900..50_100).contains(&shortest), "{shortest}");
        let now = 200 * QUARTER;
        let relation = course.link.relation(now).expect("packets both ways");
        let truth = i64::try_from(there(now) - now).expect("seconds");
        assert!(
            (relation.offset.least_ns..=relation.offset.most_ns).contains(&truth),
            "{relation:?}"
        );
        assert!((relation.offset.ns - truth).abs() < 6_000, "{truth}: {relation:?}");
        assert!(relation.offset.error_ns() < 60_000, "{relation:?}");
        assert_eq!(course.link.refused(), Refused::default());
    }

    /// A clock that steps by a millisecond cannot be one that only drifts.
    #[test]
    fn a_clock_that_steps_contradicts_what_is_assumed() {
        let mut course = Course::new(100);
        for beacon in 1..100_u64 {
            let arrived = beacon * QUARTER;
            let departed_there = kernel(arrived - 20_000 + 1_000_000 * (beacon / 50));
            let back = Sample::Received { peer: PEER, departed_there, arrived: kernel(arrived) };
            course.take(LocalTime(arrived), &back);
            let departed = kernel(arrived + 1_000);
            let arrived_there = kernel(arrived + 21_000 + 1_000_000 * (beacon / 50));
            course.take(departed.raw, &Sample::Sent { peer: PEER, departed, arrived_there });
        }
        assert!(course.link.refused().contradictions > 0);
    }

    #[test]
    fn what_was_found_counts_no_more_for_another_policy_or_another_process() {
        let peer = |incarnation, max_drift_ppm| Peer {
            incarnation,
            name: "pod-2".to_owned(),
            addresses: Vec::new(),
            max_drift_ppm,
            counts: Arc::default(),
        };
        let (peers, probed) = watch::channel(vec![peer(PEER, 100)]);
        let (samples, taken) = mpsc::channel(8);
        let (shown, seen) = watch::channel(Vec::new());
        let (double, (_reports, reports)) = (Double::new(), mpsc::channel(8));
        let (clock, heard) = (double.group.os_clock(), Heard { samples: taken, reports });
        let reporter = Reporter::new(&double.group, PEER);
        let metrics = double.metrics.probes.clone();
        let mut figures = Figures::new(heard, probed, shown, reporter, metrics);
        let mut found = |peer| {
            let now = clock.raw().0;
            let (departed, arrived_there) = (kernel(now - 50_000), kernel(there(now - 30_000)));
            samples.try_send(Sample::Sent { peer, departed, arrived_there }).expect("room");
            let (departed_there, arrived) = (kernel(there(now - 20_000)), kernel(now));
            samples.try_send(Sample::Received { peer, departed_there, arrived }).expect("room");
            figures.take();
            seen.borrow().iter().map(|one| (one.samples, one.relation.is_ok())).collect::<Vec<_>>()
        };
        assert_eq!(found(PEER), [(2, true)]);
        assert_eq!(found(PEER), [(4, true)]);
        peers.send_replace(vec![peer(PEER, 200)]);
        assert_eq!(found(PEER), [(2, true)], "the policy is another one");
        let next = Incarnation { run: 2, ..PEER };
        peers.send_replace(vec![peer(next, 200)]);
        assert_eq!(found(PEER), [(0, false)], "the process is another one");
        assert_eq!(found(next), [(2, true)]);
        peers.send_replace(vec![peer(next, 200), peer(PEER, 200)]);
        assert_eq!(found(next), [(4, true), (0, false)], "nothing is left of the first");
    }

    #[test]
    fn a_round_trip_is_forgotten_after_two_minutes_at_most() {
        let mut trips = Trips::default();
        let minute = 60_000_000_000;
        trips.look(LocalTime(10 * minute));
        trips.back(0, 30);
        trips.there(5, 20);
        trips.back(10, 30);
        assert_eq!(trips.shortest, [Some(50), None]);
        trips.look(LocalTime(11 * minute));
        assert_eq!(trips.shortest, [None, Some(50)]);
        trips.look(LocalTime(12 * minute));
        assert_eq!(trips.shortest, [None, None]);
    }

    #[test]
    fn a_packet_there_that_no_packet_back_surrounds_makes_no_round_trip() {
        let mut trips = Trips::default();
        trips.there(5, 20);
        trips.back(10, 30);
        assert_eq!(trips.shortest, [None, None], "none came before it");
        trips.there(20, 20);
        assert_eq!(trips.shortest, [None, None], "none came after it");
        trips.back(30, 30);
        assert_eq!(trips.shortest, [Some(50), None]);
    }
}

//! What is shown of clock probes, peer by peer.

use std::collections::HashMap;
use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link, Missing, Relation};
use conclave_protocols::policy::ClockPolicy;
use conclave_protocols::{Incarnation, LocalTime};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::audit::{Audited, Auditor, Check, Past};
use super::hosts::{HostClock, Hosts, Outliers, Owner};
use super::report::{Report, Reporter};
use super::trips::Trips;
use super::{Heard, Peer, SAMPLES, Sample, Source};
use crate::metrics::ProbeMetrics;

/// What came of the probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probed {
    pub(crate) peers: Vec<PeerFigures>,
    /// The wall clock of this member's machine; nothing as long as group time is not known.
    pub(crate) host: Option<HostClock>,
}

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
    /// Whether the peer reads the raw clock that this member reads, as it states; nothing before it has stated any.
    pub(crate) same_clock: Option<bool>,
    /// What became of what it states of its clocks.
    pub(crate) audit: Audited,
    /// The wall clock of its machine; nothing as long as it states none together with group time.
    pub(crate) host: Option<HostClock>,
}

/// Takes samples, and says what came of them.
pub(crate) struct Figures {
    heard: Heard,
    peers: watch::Receiver<Vec<Peer>>,
    shown: watch::Sender<Probed>,
    reporter: Reporter,
    metrics: ProbeMetrics,
    past: Past,
    outliers: Outliers,
    of: HashMap<Incarnation, Course>,
}

/// What is known of one peer.
#[derive(Debug)]
struct Course {
    link: Link,
    assumptions: Assumptions,
    samples: u64,
    there: Option<Source>,
    back: Option<Source>,
    last: Option<LocalTime>,
    trips: Trips,
    /// What the peer has stated since samples were taken last.
    reports: Vec<Report>,
    /// What it stated last, and when that was looked at.
    report: Option<(LocalTime, Report)>,
    audit: Audited,
    /// How often the packets had contradicted what is assumed when samples were taken last.
    contradictions: u64,
    /// When a violation was logged last.
    warned: Option<LocalTime>,
}

/// For how long samples count in the relation of two clocks: with four a second each way, and packets that are late by
/// up to 100 µs, a longer window makes the estimate no better. The policy's limit of wander is for two of these.
const WINDOW: Duration = Duration::from_mins(1);

/// What stamps may be off by to the wrong side: conversion rounds outwards, and each clock shows whole nanoseconds.
const SLACK_NS: u64 = 4;

/// How often samples are taken.
const TAKEN: Duration = Duration::from_millis(500);

/// What a peer stated of its machine counts for that long.
const STATED: Duration = Duration::from_secs(5);

/// Of one peer a violation is logged no more often than this.
const WARNED: Duration = Duration::from_mins(1);

/// What a policy assumes of the raw clocks of two members, and what is assumed of the packets between them.
pub(crate) fn assumptions(policy: &ClockPolicy) -> Assumptions {
    Assumptions {
        max_drift_ppm: policy.max_drift_ppm,
        wander_ppb: u64::from(policy.max_wander_ppb),
        min_delay_ns: 0,
        stamp_slack_ns: SLACK_NS,
    }
}

impl Figures {
    pub(crate) fn new(
        heard: Heard,
        peers: watch::Receiver<Vec<Peer>>,
        shown: watch::Sender<Probed>,
        reporter: Reporter,
        metrics: ProbeMetrics,
    ) -> Self {
        let (past, outliers, of) = (Past::default(), Outliers::default(), HashMap::new());
        Self { heard, peers, shown, reporter, metrics, past, outliers, of }
    }

    /// Runs until the thread of beacons has ended.
    pub(crate) async fn run(mut self) {
        let cost = self.metrics.cost.clone();
        let mut ticks = tokio::time::interval(TAKEN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.heard.samples.is_closed() {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = self.peers.changed() => if changed.is_err() { break },
                () = self.reporter.changed() => {
                    cost.of(|| self.note());
                    continue;
                }
            }
            cost.of(|| self.take());
        }
        self.shown.send_replace(Probed::default());
    }

    /// Notes what is known of group time, for readings from now on.
    fn note(&mut self) {
        let map = self.reporter.map_of_all();
        self.past.note(self.reporter.clock().raw(), map.as_ref());
    }

    pub(super) fn take(&mut self) {
        self.note();
        let now = self.reporter.clock().raw();
        let peers = self.peers.borrow_and_update().clone();
        // What is assumed of a clock has changed: what was found by it counts no more.
        self.of.retain(|known, course| {
            let peer = peers.iter().find(|peer| peer.incarnation == *known);
            peer.is_some_and(|peer| peer.assumptions == course.assumptions)
        });
        for peer in &peers {
            let course = || Course::new(peer.assumptions);
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
        for _ in 0..SAMPLES {
            let Ok((from, report)) = self.heard.reports.try_recv() else { break };
            if let Some(course) = self.of.get_mut(&from) {
                course.reports.push(report);
            }
        }
        let auditor = Auditor { domain: self.reporter.domain(), now, past: &self.past };
        let mut figures = Vec::with_capacity(peers.len());
        for peer in peers {
            if let Some(course) = self.of.get_mut(&peer.incarnation) {
                course.trips.look(now);
                let relation = course.relation(now);
                let failed = course.audit(&auditor, relation.as_ref().ok());
                for check in &failed {
                    self.metrics.violated(*check);
                }
                course.warn(now, &peer, &failed);
                figures.push(course.figures(relation, auditor.domain, peer));
            }
        }
        let host = self.judge_hosts(now, &mut figures);
        self.shown.send_replace(Probed { peers: figures, host });
    }

    /// Finds the machines whose wall clock is off. How this member's own is.
    fn judge_hosts(&mut self, now: LocalTime, figures: &mut [PeerFigures]) -> Option<HostClock> {
        let of_peers = self.of.iter().filter_map(|(peer, course)| {
            let (since, report) = course.report?;
            let age = now - since;
            let aged = || report.aged(age + TAKEN, course.assumptions.max_drift_ppm);
            (age < STATED).then(|| (Some(*peer), aged()))
        });
        let hosts = Hosts::judge(of_peers.chain([(None, self.reporter.report())]));
        for one in &mut *figures {
            one.host = hosts.of(Some(one.peer.incarnation));
        }
        for (owner, clock) in self.outliers.new_among(now, &hosts) {
            warn!(
                pod = name(owner, figures),
                offset_ns = clock.offset_ns,
                max_error_ns = clock.max_error_ns,
                "the wall clock of this pod's node is off, by what most members of the group state"
            );
        }
        hosts.of(None)
    }
}

/// The name of a pod.
fn name(owner: Owner, figures: &[PeerFigures]) -> &str {
    let Some(peer) = owner else { return "this one" };
    let one = figures.iter().find(|one| one.peer.incarnation == peer);
    one.map_or("", |one| &one.peer.name)
}

impl Course {
    fn new(assumptions: Assumptions) -> Self {
        Self {
            link: Link::new(assumptions, WINDOW),
            assumptions,
            samples: 0,
            there: None,
            back: None,
            last: None,
            trips: Trips::default(),
            reports: Vec::new(),
            report: None,
            audit: Audited::default(),
            contradictions: 0,
            warned: None,
        }
    }

    /// Holds what the peer has stated against what is known, and says which checks have failed.
    fn audit(&mut self, auditor: &Auditor, relation: Option<&Relation>) -> Vec<Check> {
        let mut failed = Vec::new();
        for report in self.reports.drain(..) {
            let checks = auditor.audit(&report, relation);
            self.audit.add(&checks);
            failed.extend(checks.into_iter().filter(|(_, holds)| !holds).map(|(check, _)| check));
            self.report = Some((auditor.now, report));
        }
        failed
    }

    fn warn(&mut self, now: LocalTime, peer: &Peer, failed: &[Check]) {
        let (false, Some((_, report))) = (failed.is_empty(), self.report) else { return };
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

    /// The relation to the peer's clock. A contradiction since samples were taken last shows, also if there were enough
    /// samples after it.
    fn relation(&mut self, now: LocalTime) -> Result<Relation, Missing> {
        let contradictions = self.link.refused().contradictions;
        let before = std::mem::replace(&mut self.contradictions, contradictions);
        if contradictions > before { Err(Missing::Broken) } else { self.link.relation(now.0) }
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

    fn figures(&self, relation: Result<Relation, Missing>, domain: u64, peer: Peer) -> PeerFigures {
        PeerFigures {
            peer,
            samples: self.samples,
            rtt_min_ns: self.trips.shortest.into_iter().flatten().min(),
            there: self.there,
            back: self.back,
            last: self.last,
            relation,
            contradictions: self.link.refused().contradictions,
            same_clock: self.report.map(|(_, report)| report.domain == domain),
            audit: self.audit,
            host: None,
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

    fn assumed(max_drift_ppm: u32, max_wander_ppb: u32) -> Assumptions {
        assumptions(&ClockPolicy { max_drift_ppm, max_wander_ppb, ..ClockPolicy::default() })
    }

    /// Packets take 20 µs there and 30 µs back.
    #[test]
    fn the_offset_and_the_drift_of_a_clock_are_in_no_round_trip_but_in_the_relation() {
        let mut course = Course::new(assumed(1_000, 15_000));
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
        let mut course = Course::new(assumed(100, 15_000));
        let mut broken = Vec::new();
        for beacon in 1..100_u64 {
            let arrived = beacon * QUARTER;
            let departed_there = kernel(arrived - 20_000 + 1_000_000 * (beacon / 50));
            let back = Sample::Received { peer: PEER, departed_there, arrived: kernel(arrived) };
            course.take(LocalTime(arrived), &back);
            let departed = kernel(arrived + 1_000);
            let arrived_there = kernel(arrived + 21_000 + 1_000_000 * (beacon / 50));
            course.take(departed.raw, &Sample::Sent { peer: PEER, departed, arrived_there });
            if course.relation(departed.raw) == Err(Missing::Broken) {
                broken.push(beacon);
            }
        }
        // It shows, also if there were packets both ways again before anybody looked.
        assert_eq!((course.link.refused().contradictions, broken), (1, vec![50]));
    }

    #[test]
    fn what_was_found_counts_no_more_for_another_policy_or_another_process() {
        let peer = |incarnation, drift, wander| Peer {
            incarnation,
            name: "pod-2".to_owned(),
            addresses: Vec::new(),
            assumptions: assumed(drift, wander),
            counts: Arc::default(),
        };
        let (peers, probed) = watch::channel(vec![peer(PEER, 100, 15_000)]);
        let (samples, taken) = mpsc::channel(8);
        let (shown, seen) = watch::channel(Probed::default());
        let (double, (_reports, reports)) = (Double::new(), mpsc::channel(8));
        let (clock, heard) = (double.group.os_clock(), Heard { samples: taken, reports });
        let reporter = Reporter::new(&double.group, PEER);
        let metrics = double.metrics.probes;
        let mut figures = Figures::new(heard, probed, shown, reporter, metrics);
        let mut found = |peer| {
            let now = clock.raw().0;
            let (departed, arrived_there) = (kernel(now - 50_000), kernel(there(now - 30_000)));
            samples.try_send(Sample::Sent { peer, departed, arrived_there }).expect("room");
            let (departed_there, arrived) = (kernel(there(now - 20_000)), kernel(now));
            samples.try_send(Sample::Received { peer, departed_there, arrived }).expect("room");
            figures.take();
            seen.borrow()
                .peers
                .iter()
                .map(|one| (one.samples, one.relation.is_ok()))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(PEER), [(2, true)]);
        assert_eq!(found(PEER), [(4, true)]);
        for (drift, wander) in [(200, 15_000), (200, 1_000)] {
            peers.send_replace(vec![peer(PEER, drift, wander)]);
            assert_eq!(found(PEER), [(2, true)], "the policy is another one");
            peers.send_replace(vec![peer(PEER, drift, wander)]);
            assert_eq!(found(PEER), [(4, true)], "the policy is the same");
        }
        let next = Incarnation { run: 2, ..PEER };
        peers.send_replace(vec![peer(next, 200, 1_000)]);
        assert_eq!(found(PEER), [(0, false)], "the process is another one");
        assert_eq!(found(next), [(2, true)]);
        peers.send_replace(vec![peer(next, 200, 1_000), peer(PEER, 200, 1_000)]);
        assert_eq!(found(next), [(4, true), (0, false)], "nothing is left of the first");
    }
}

//! The group time that applications read, and what holds of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::clock::{Reading, State};
use conclave_protocols::member::Node;
use conclave_protocols::policy::Arbiter;
use conclave_protocols::record::Record;
use conclave_protocols::{Epoch, Incarnation};

use super::world::World;

/// Which group time each view has, and what each process showed of it.
#[derive(Default)]
pub(super) struct Times {
    /// What each process showed last, and when if it stated a time then.
    shown: BTreeMap<Node, (i64, Option<Duration>)>,
    lines: BTreeMap<ViewId, Line>,
    /// The view of each pod.
    entered: BTreeMap<usize, ViewId>,
    /// Who had the group time that began in which view.
    had: BTreeSet<(Node, ViewId)>,
}

/// Two views that number themselves may have one number; no process leads two of that number.
type ViewId = (Epoch, Option<Incarnation>);

fn id_of(record: &Record) -> ViewId {
    (record.epoch, record.leader.filter(|_| record.epoch.is_unarbitrated()))
}

/// A view, and the group time of it.
struct Line {
    /// The view in which that began.
    begun: ViewId,
    /// The view that this one was made from, of whose members some are left, if something arbitrated between them and others.
    base: Option<ViewId>,
    members: BTreeSet<Node>,
    /// Else its members go on with its time, whatever view is made from it.
    is_arbitrated: bool,
}

impl World {
    /// A view goes on with the group time of the one that it was made from, if it has a member that had that.
    pub(super) fn note_line(&mut self, pod: usize, record: &Record) {
        let (id, from) = (id_of(record), self.times.entered.get(&pod).copied());
        let is_arbitrated = record.policy.arbiter == Arbiter::Quorum;
        if is_arbitrated && from.is_some_and(|(epoch, _)| epoch.is_unarbitrated()) {
            self.count("back to an arbiter");
            let stated = self.reading(pod).and_then(|reading| reading.error_ns);
            let (seed, now) = (self.seed, self.sim.now());
            assert!(
                stated.is_none(),
                "seed {seed} at {now:?}: pod {pod} states what it had without"
            );
        }
        if !self.times.lines.contains_key(&id) {
            let members: BTreeSet<Node> = record.incarnations().map(Node::Member).collect();
            // The first to enter a view leads it. Where nothing arbitrates, it may come from another view than that.
            let base = record.base.map(|base| (base, None)).filter(|base| {
                self.times.lines.get(base).is_some_and(|line| {
                    let goes_on = from == Some(*base) && line.members.is_subset(&members);
                    !line.members.is_disjoint(&members) && (line.is_arbitrated || goes_on)
                })
            });
            let goes_on = base.map(|base| self.times.lines[&base].begun).filter(|line| {
                members.iter().any(|member| self.times.had.contains(&(*member, *line)))
            });
            let line = match (goes_on, base) {
                (Some(begun), Some(base)) => {
                    Line { begun, members, is_arbitrated, ..self.times.lines[&base] }
                }
                (_, base) => {
                    self.count(if base.is_some() {
                        "time lost by the living"
                    } else {
                        "time began"
                    });
                    // Where nothing arbitrates, nobody waits until the former one is stated no more.
                    let base = base.filter(|_| is_arbitrated);
                    Line { begun: id, base, members, is_arbitrated }
                }
            };
            self.times.lines.insert(id, line);
        }
        self.times.entered.insert(pod, id);
    }

    /// What an application on that pod reads, if the pod lives.
    pub(super) fn reading(&self, pod: usize) -> Option<Reading> {
        let (_, clock) = self.pods[pod];
        Some(self.pod(pod)?.group_time(clock.read(self.sim.now())))
    }

    /// Group time goes on wherever an application reads it, and any two clocks that state a time are no farther apart than
    /// their bounds allow, whatever views their members are in. Only a view in which nobody has group time begins another,
    /// and then no member of the view that it was made from states the former one any more, if any of these is in it.
    pub(super) fn check_clocks(&mut self) {
        let (seed, now) = (self.seed, self.sim.now());
        let mut stated: Vec<(usize, ViewId, i64, u64)> = Vec::new();
        for index in self.living() {
            let (node, _) = self.pods[index];
            let Some(reading) = self.reading(index) else { continue };
            let (time, is_known) = (reading.now_ns, reading.error_ns.is_some());
            let before = self.times.shown.get(&node).copied();
            if let Some((shown, since)) = before {
                assert!(shown <= time, "seed {seed} at {now:?}: pod {index} went back to {time}");
                if let Some(since) = since.filter(|_| is_known) {
                    let passed =
                        i64::try_from(now.saturating_sub(since).as_nanos()).expect("292 years");
                    assert!(
                        time - shown <= passed + passed / FASTEST + GRAIN_NS,
                        "seed {seed} at {now:?}: pod {index} was set forward by {} ns",
                        time - shown - passed
                    );
                }
            }
            if is_known || before.is_some() {
                self.times.shown.insert(node, (time, is_known.then_some(now)));
            }
            let Some(error) = reading.error_ns else { continue };
            let Some(view) = self.times.entered.get(&index).copied() else { continue };
            let line = &self.times.lines[&view];
            self.times.had.insert((node, line.begun));
            assert!(
                line.is_arbitrated || !self.has_arbiter(index),
                "seed {seed} at {now:?}: pod {index} states a time from before there was an arbiter"
            );
            // Raw clocks are as they are assumed to be, and what a clock states contradicts nothing.
            assert_ne!(reading.state, State::Disrupted, "seed {seed} at {now:?}: pod {index}");
            stated.push((index, view, time, error));
        }
        for (place, (pod, view, time, error)) in stated.iter().enumerate() {
            for (peer, other_view, other, others) in &stated[..place] {
                let (one, two) = (&self.times.lines[view], &self.times.lines[other_view]);
                let is_of_base = one.base == Some(*other_view) || two.base == Some(*view);
                let (apart, bounds) = (time.abs_diff(*other), error.saturating_add(*others));
                assert!(
                    apart <= bounds || !(one.begun == two.begun || is_of_base),
                    "seed {seed} at {now:?}: pods {peer} and {pod} are {apart} ns apart, not {bounds}"
                );
            }
        }
    }
}

/// Clocks that are slewed run ahead by no more than this part of the time that passed: the slew, that of the leader, and what
/// raw clocks drift.
const FASTEST: i64 = 1_000;

/// Readings are rounded.
const GRAIN_NS: i64 = 1_000;

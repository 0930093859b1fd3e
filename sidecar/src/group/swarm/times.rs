//! The group time that applications read, and what holds of it.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::Epoch;
use conclave_protocols::clock::{Reading, State};
use conclave_protocols::member::Node;
use conclave_protocols::policy::Arbiter;
use conclave_protocols::record::Record;

use super::world::World;

/// Which group time each view has, and what each process showed of it.
#[derive(Default)]
pub(super) struct Times {
    /// The latest that each process showed.
    shown: BTreeMap<Node, i64>,
    lines: BTreeMap<Epoch, Line>,
    /// The view of each pod.
    entered: BTreeMap<usize, Epoch>,
    /// Who had the group time that began in which view.
    had: BTreeSet<(Node, Epoch)>,
}

/// A view, and the group time of it.
struct Line {
    /// The view in which that began.
    begun: Epoch,
    /// The view that this one was made from, of whose members some are left, if something arbitrated between them and others.
    base: Option<Epoch>,
    members: BTreeSet<Node>,
    /// Else its members go on with its time, whatever view is made from it.
    is_arbitrated: bool,
}

impl World {
    /// A view goes on with the group time of the one that it was made from, if it has a member that had that.
    pub(super) fn note_line(&mut self, pod: usize, record: &Record) {
        if !self.times.lines.contains_key(&record.epoch) {
            let members: BTreeSet<Node> = record.incarnations().map(Node::Member).collect();
            let base = record.base.filter(|base| {
                self.times.lines.get(base).is_some_and(|line| {
                    !line.members.is_disjoint(&members)
                        && (line.is_arbitrated || line.members.is_subset(&members))
                })
            });
            let goes_on = base.map(|base| self.times.lines[&base].begun).filter(|line| {
                members.iter().any(|member| self.times.had.contains(&(*member, *line)))
            });
            let is_arbitrated = record.policy.arbiter == Arbiter::Quorum;
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
                    Line { begun: record.epoch, base, members, is_arbitrated }
                }
            };
            self.times.lines.insert(record.epoch, line);
        }
        self.times.entered.insert(pod, record.epoch);
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
        let mut stated: Vec<(usize, Epoch, i64, u64)> = Vec::new();
        for index in self.living() {
            let (node, _) = self.pods[index];
            let Some(reading) = self.reading(index) else { continue };
            let Some(error) = reading.error_ns else { continue };
            let time = reading.now_ns;
            let before = self.times.shown.insert(node, time);
            assert!(
                before <= Some(time),
                "seed {seed} at {now:?}: pod {index} went back to {time}"
            );
            let Some(view) = self.times.entered.get(&index).copied() else { continue };
            self.times.had.insert((node, self.times.lines[&view].begun));
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

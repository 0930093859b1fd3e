//! How often others go first, once a member stands in line where the algorithm keeps one.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::MemberId;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::sim::Simulator;

use crate::any::Lock;
use crate::support::Subject;
use crate::view;

/// How often somebody entered before one that had come to stand in line, at most. A critical section takes so
/// long, and everybody asks again as soon as it has left; no time, only where it takes a message to enter again.
pub(crate) fn most_overtaken<P: Subject + Mutex>(
    lock: &Lock<P>,
    seed: u64,
    section: Duration,
    is_in_line: impl Fn(&Simulator<P>, MemberId) -> bool,
) -> u32 {
    let size = 3 + u32::try_from(seed % 6).expect("a small number");
    let mut sim = Simulator::new(seed);
    sim.set_delay(Duration::from_millis(1), LONGEST_DELAY);
    for me in view(size).members() {
        sim.add(me, lock.member(me, view(size), &Carried::default()));
    }
    // Some have been in often before the others come, and their clocks, if any, are ahead.
    let (mut most, mut patience) = (0, Patience::default());
    let mut leaves: Option<(Duration, MemberId)> = None;
    for late in 0..size {
        for other in (0..size).rev().filter(|other| *other >= late) {
            sim.command(MemberId(other), Command::Enter);
        }
        let end = sim.now() + Duration::from_secs(2) + section * 50;
        while sim.now() < end {
            let until = leaves.map_or(end, |(at, _)| at.min(end));
            if !sim.step_until(until) {
                sim.run_for(until.saturating_sub(sim.now()));
            }
            if let Some((_, member)) = leaves.take_if(|(at, _)| *at <= sim.now()) {
                sim.command(member, Command::Exit);
                if member.0 >= late {
                    sim.command(member, Command::Enter);
                }
            }
            for (at, member, event) in sim.take_notified() {
                if event == Event::Entered {
                    patience.entered(member);
                    most = most.max(patience.most());
                    leaves = Some((at + section, member));
                }
            }
            patience.look(&sim, &is_in_line);
        }
    }
    most
}

/// The members that have come to stand in line, and how often each other was admitted since.
#[derive(Default)]
struct Patience(BTreeMap<MemberId, BTreeMap<MemberId, u32>>);

impl Patience {
    fn look<P: Mutex>(
        &mut self,
        sim: &Simulator<P>,
        is_in_line: impl Fn(&Simulator<P>, MemberId) -> bool,
    ) {
        for (member, protocol) in sim.nodes() {
            if protocol.phase() != Phase::Waiting {
                self.0.remove(&member);
            } else if is_in_line(sim, member) {
                self.0.entry(member).or_default();
            }
        }
    }

    fn entered(&mut self, member: MemberId) {
        self.0.remove(&member);
        self.0.values_mut().for_each(|others| *others.entry(member).or_default() += 1);
    }

    fn most(&self) -> u32 {
        self.0.values().flat_map(BTreeMap::values).copied().max().unwrap_or_default()
    }
}

/// How long a message takes, at most.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(30);

//! What the applications of a group know of a lock.

use std::collections::BTreeMap;

use conclave_protocols::MemberId;
use conclave_protocols::mutex::{Carried, Command, Event, Phase};

/// Where each application thinks that it stands, and how often it saw others go first.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Ledger {
    /// Who waits or is in the critical section.
    phases: BTreeMap<MemberId, Phase>,
    /// How often each other was admitted, for each of those of whom it is counted.
    overtaken: BTreeMap<MemberId, BTreeMap<MemberId, u32>>,
    given_up: u32,
    misled: bool,
}

/// From when on it is counted how often others are admitted before a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Since {
    /// From when it asked.
    Asked,
    /// From when it was notified that it waits.
    Queued,
}

impl Ledger {
    /// At the start of a view.
    pub(crate) fn new(carried: &Carried, since: Option<Since>) -> Self {
        let in_section = carried.holder.map(|holder| (holder, Phase::InSection));
        let waiting = carried.waiting.iter().map(|waiting| (*waiting, Phase::Waiting));
        let overtaken = match since {
            Some(Since::Asked | Since::Queued) => {
                carried.waiting.iter().map(|waiting| (*waiting, BTreeMap::new())).collect()
            }
            None => BTreeMap::new(),
        };
        let phases = in_section.into_iter().chain(waiting).collect();
        Self { phases, overtaken, given_up: 0, misled: false }
    }

    /// An application asks.
    pub(crate) fn asks(&mut self, member: MemberId, command: Command, since: Option<Since>) {
        match command {
            Command::Enter => {
                self.phases.insert(member, Phase::Waiting);
                if since == Some(Since::Asked) {
                    self.overtaken.insert(member, BTreeMap::new());
                }
            }
            Command::Exit => {
                if self.phases.remove(&member) == Some(Phase::Waiting) {
                    self.given_up += 1;
                }
                self.overtaken.remove(&member);
            }
        }
    }

    /// An application is notified.
    pub(crate) fn hears(&mut self, member: MemberId, event: Event, since: Option<Since>) {
        self.misled |= self.phase(member) != Phase::Waiting;
        match event {
            Event::Entered => {
                self.phases.insert(member, Phase::InSection);
                self.overtaken.remove(&member);
                for others in self.overtaken.values_mut() {
                    *others.entry(member).or_default() += 1;
                }
            }
            Event::Queued => {
                if since == Some(Since::Queued) {
                    self.overtaken.entry(member).or_default();
                }
            }
        }
    }

    /// Where a member's application thinks that it stands.
    pub(crate) fn phase(&self, member: MemberId) -> Phase {
        self.phases.get(&member).copied().unwrap_or(Phase::Idle)
    }

    /// Whether applications were notified only of what made sense, and that is how it is.
    pub(crate) fn is_so(&self, mut phases: impl Iterator<Item = (MemberId, Phase)>) -> bool {
        !self.misled && phases.all(|(member, phase)| phase == self.phase(member))
    }

    /// How often somebody gave up while it waited.
    pub(crate) fn given_up(&self) -> u32 {
        self.given_up
    }

    /// How often one other was admitted before a member that waits, at most.
    pub(crate) fn most_overtaken(&self) -> u32 {
        self.overtaken.values().flat_map(BTreeMap::values).copied().max().unwrap_or_default()
    }

    /// How often all others together were admitted before a member that waits, at most.
    pub(crate) fn most_overtaken_in_all(&self) -> u32 {
        self.overtaken.values().map(|others| others.values().sum()).max().unwrap_or_default()
    }
}

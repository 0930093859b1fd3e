//! What applications do with a lock, and what must hold.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::mutex::central::{Central, Message};
use conclave_protocols::mutex::{Carried, Command, Coordinated, Event, Mutex, Phase};
use conclave_protocols::{MemberId, View};
use stateright::Property;

use crate::support::Subject;
use crate::support::world::{Fact, Group, Laws, World};
use crate::wrong::Fault;

/// A lock with a coordinator whose queue can be looked at.
pub(crate) trait Line: Subject + Mutex + Protocol {
    fn make(me: MemberId, view: View, carried: &Carried, fault: Fault) -> Self;

    /// The coordinator's queue, the first in line first.
    fn line(&self) -> Vec<MemberId>;
}

/// A lock whose messages are those of the central coordinator.
pub(crate) trait Protocol: conclave_protocols::Protocol<Message = Message> {}
impl<P: conclave_protocols::Protocol<Message = Message>> Protocol for P {}

impl Line for Central {
    fn make(me: MemberId, view: View, carried: &Carried, _fault: Fault) -> Self {
        Self::new(me, view, carried)
    }

    fn line(&self) -> Vec<MemberId> {
        self.queue()
    }
}

/// Members that enter and leave.
pub(crate) struct Sections {
    /// How often each asks.
    pub(crate) each: u8,
    /// How often in all somebody gives up while it waits.
    pub(crate) withdrawals: u8,
    /// Who was in the critical section and who waited in the view before.
    pub(crate) carried: Carried,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Memory {
    asked: BTreeMap<MemberId, u8>,
    entered: BTreeMap<MemberId, u8>,
    withdrawn: u8,
    /// The members that waited in the view before, then those that were notified that they wait: the order of arrival.
    arrived: Option<Vec<MemberId>>,
    /// The members that were in the line when somebody behind was admitted.
    passed: BTreeSet<MemberId>,
}

type State<P> = Group<P, Memory>;
type Law<P> = Property<World<P, Sections>>;

impl<P: Line> Laws<P> for Sections {
    type Memory = Memory;

    fn commands(&self, group: &State<P>, member: MemberId) -> Vec<Command> {
        let asked = group.memory.asked.get(&member).copied().unwrap_or_default();
        match phase(group, member) {
            Phase::Idle if asked < self.each => vec![Command::Enter],
            Phase::Waiting if group.memory.withdrawn < self.withdrawals => vec![Command::Exit],
            Phase::InSection => vec![Command::Exit],
            Phase::Idle | Phase::Waiting => vec![],
        }
    }

    fn remember(&self, memory: &mut Memory, member: MemberId, fact: Fact<'_, P>) {
        memory.arrived.get_or_insert_with(|| self.carried.waiting.clone());
        match fact {
            Fact::Asked(Command::Enter) => *memory.asked.entry(member).or_default() += 1,
            Fact::Asked(Command::Exit) => {
                let asked = memory.asked.get(&member).copied().unwrap_or_default();
                let entered = memory.entered.get(&member).copied().unwrap_or_default();
                if entered < asked {
                    // It gave up. Should it have been admitted at the same time, nobody will know.
                    memory.withdrawn += 1;
                    *memory.entered.entry(member).or_default() += 1;
                }
            }
            Fact::Notified(Event::Entered) => {
                *memory.entered.entry(member).or_default() += 1;
                if member == crate::LEADER {
                    memory.admitted(member);
                }
            }
            Fact::Notified(Event::Queued) => {
                if member == crate::LEADER {
                    memory.arrives(member);
                }
            }
            Fact::Sent { to, message: Message::Queued(_) } => memory.arrives(to),
            Fact::Sent { to, message: Message::Grant(_) } => memory.admitted(to),
            Fact::Sent {
                message:
                    Message::Request(_) | Message::Release(_) | Message::Wanted(_) | Message::InUse(_),
                ..
            }
            | Fact::Crashed => {}
        }
    }

    fn properties(&self) -> Vec<Law<P>> {
        let mut laws = vec![
            Property::always("at most one is in the critical section", |_, group: &State<P>| {
                members(group).filter(|m| phase(group, *m) == Phase::InSection).count() <= 1
            }),
            Property::always("a member that waits enters", |_, group: &State<P>| {
                let at_rest = group.links.is_empty()
                    && members(group).all(|m| phase(group, m) != Phase::InSection);
                !at_rest || members(group).all(|m| phase(group, m) == Phase::Idle)
            }),
            Property::always("the queue is in order of arrival", |_, group: &State<P>| {
                let line = line(group);
                let arrived = group.memory.arrived.iter().flatten().filter(|m| line.contains(m));
                let known: Vec<MemberId> = arrived.copied().collect();
                line.iter().filter(|m| known.contains(m)).eq(&known)
            }),
            Property::always("nobody is in the queue twice", |_, group: &State<P>| {
                let line = line(group);
                let distinct: BTreeSet<_> = line.iter().collect();
                distinct.len() == line.len()
            }),
            Property::always("nobody is overtaken in the queue", |_, group: &State<P>| {
                !line(group).iter().any(|m| group.memory.passed.contains(m))
            }),
            Property::sometimes(
                "two wait while one is in the critical section",
                |_, group: &State<P>| line(group).len() == 2,
            ),
            Property::sometimes(
                "everybody got in as often as it asked",
                |world: &World<P, Self>, group| {
                    let asked = members(group).map(|m| group.memory.asked.get(&m));
                    world.is_at_rest(group)
                        && asked.into_iter().all(|asked| asked == Some(&world.laws.each))
                },
            ),
        ];
        if self.withdrawals > 0 {
            laws.push(Property::sometimes("somebody gives up", |_, group: &State<P>| {
                group.memory.withdrawn > 0
            }));
        }
        laws
    }
}

impl Memory {
    fn arrives(&mut self, member: MemberId) {
        self.goes(member);
        self.arrived.get_or_insert_default().push(member);
    }

    fn admitted(&mut self, member: MemberId) {
        let before = self.arrived.iter().flatten().take_while(|other| **other != member);
        self.passed.extend(before);
        self.goes(member);
    }

    fn goes(&mut self, member: MemberId) {
        self.passed.remove(&member);
        self.arrived.get_or_insert_default().retain(|other| *other != member);
    }
}

fn members<P: Line>(group: &State<P>) -> impl Iterator<Item = MemberId> {
    group.living().map(|(id, _)| id)
}

fn phase<P: Line>(group: &State<P>, member: MemberId) -> Phase {
    group.members[member.0 as usize].protocol.phase()
}

fn line<P: Line>(group: &State<P>) -> Vec<MemberId> {
    group.members[crate::LEADER.0 as usize].protocol.line()
}

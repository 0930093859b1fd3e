//! What holds of any lock that has a token, over all interleavings, whatever else its members send.

use std::collections::BTreeMap;

use conclave_protocols::MemberId;
use conclave_protocols::mutex::{Command, Event, Mutex, Phase};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::support::Subject;
use crate::support::world::{Fact, Group, Laws, World};

/// A lock whose member that has the token, and no other, may be in the critical section.
pub(crate) trait Token: Subject + Mutex {
    fn has_token(&self) -> bool;

    /// Whether a message brings the token.
    fn is_token(message: &Self::Message) -> bool;
}

/// Members that enter and leave, and the laws of one algorithm beside those of all.
pub(crate) struct OneToken<P: Token> {
    /// How often each asks.
    pub(crate) each: u8,
    /// How often in all somebody gives up while it waits.
    pub(crate) withdrawals: u8,
    /// Whether it may be lost; then nobody enters any more.
    pub(crate) may_be_lost: bool,
    /// What else must always hold.
    pub(crate) laws: &'static [(&'static str, Condition<P>)],
}

/// Whether a state is as it must be.
pub(crate) type Condition<P> = fn(&State<P>) -> bool;

/// A group, and what is remembered of it.
pub(crate) type State<P> = Group<P, Memory>;

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Memory {
    asked: BTreeMap<MemberId, u8>,
    given_up: u8,
    /// How often the token was sent since each that waits asked for it.
    pub(crate) steps: BTreeMap<MemberId, usize>,
}

impl<P: Token> Laws<P> for OneToken<P> {
    type Memory = Memory;

    fn commands(&self, group: &State<P>, member: MemberId) -> Vec<Command> {
        let asked = group.memory.asked.get(&member).copied().unwrap_or_default();
        match group.members[member.0 as usize].protocol.phase() {
            Phase::Idle if asked < self.each => vec![Command::Enter],
            Phase::Waiting if group.memory.given_up < self.withdrawals => vec![Command::Exit],
            Phase::InSection => vec![Command::Exit],
            Phase::Idle | Phase::Waiting => vec![],
        }
    }

    fn remember(&self, memory: &mut Memory, member: MemberId, fact: Fact<'_, P>) {
        match fact {
            Fact::Asked(Command::Enter) => {
                *memory.asked.entry(member).or_default() += 1;
                memory.steps.insert(member, 0);
            }
            Fact::Asked(Command::Exit) => {
                memory.given_up += u8::from(memory.steps.remove(&member).is_some());
            }
            Fact::Notified(Event::Entered) => {
                memory.steps.remove(&member);
            }
            Fact::Sent { message, .. } if P::is_token(message) => {
                memory.steps.values_mut().for_each(|steps| *steps += 1);
            }
            Fact::Sent { .. } | Fact::Notified(Event::Queued) | Fact::Crashed => {}
        }
    }

    fn properties(&self) -> Vec<Property<World<P, Self>>> {
        let mut laws = vec![
            Property::always("there is one token", |world: &World<P, Self>, group: &State<P>| {
                tokens(group) == 1 || (world.laws.may_be_lost && tokens(group) == 0)
            }),
            Property::always(
                "only with the token is one in the critical section",
                |_, group: &State<P>| {
                    let members = group.members.iter().map(|member| &member.protocol);
                    members.filter(|m| m.phase() == Phase::InSection).all(P::has_token)
                },
            ),
            Property::always(
                "a member that waits enters before any timer goes off",
                |_, group: &State<P>| {
                    let at_rest = group.links.is_empty() && !is_any(group, Phase::InSection);
                    let is_lost = tokens(group) == 0;
                    !at_rest || is_lost || !is_any(group, Phase::Waiting)
                },
            ),
            Property::always(
                "the laws of this lock hold",
                |world: &World<P, Self>, group: &State<P>| {
                    world.laws.laws.iter().all(|(_, holds)| holds(group))
                },
            ),
            Property::sometimes("all wait for a token that is under way", |_, group: &State<P>| {
                group.members.iter().all(|m| m.protocol.phase() == Phase::Waiting)
            }),
            Property::sometimes(
                "everybody has asked and is out again",
                |world: &World<P, Self>, group: &State<P>| {
                    let each = group.living().map(|(id, _)| group.memory.asked.get(&id).copied());
                    let all_have = each.into_iter().all(|asked| asked == Some(world.laws.each));
                    all_have && !is_any(group, Phase::Waiting) && !is_any(group, Phase::InSection)
                },
            ),
        ];
        if self.withdrawals > 0 {
            laws.push(Property::sometimes(
                "all that give up have",
                |world: &World<P, Self>, group: &State<P>| {
                    group.memory.given_up == world.laws.withdrawals
                },
            ));
        }
        laws
    }
}

/// Asserts that the laws hold in every state.
pub(crate) fn check<P: Token>(world: World<P, OneToken<P>>) {
    let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    if let Some(path) = checker.discovery("the laws of this lock hold") {
        let last = path.last_state();
        let laws = checker.model().laws.laws.iter();
        let broken: Vec<_> = laws.filter(|(_, holds)| !holds(last)).map(|(law, _)| law).collect();
        panic!("{broken:?} broken: {last:#?}");
    }
    checker.assert_properties();
}

/// Asserts that one of the algorithm's own laws is broken in some state.
pub(crate) fn assert_breaks<P: Token>(world: World<P, OneToken<P>>) {
    let law = "the laws of this lock hold";
    let finish = HasDiscoveries::AnyOf([law].into());
    let found = world.checker().threads(2).finish_when(finish).spawn_bfs().join();
    assert!(found.discovery(law).is_some(), "`{law}`");
}

fn tokens<P: Token>(group: &State<P>) -> usize {
    let held = group.living().filter(|(_, member)| member.protocol.has_token()).count();
    held + group.links.values().flatten().filter(|message| P::is_token(message)).count()
}

fn is_any<P: Token>(group: &State<P>, phase: Phase) -> bool {
    group.living().any(|(_, member)| member.protocol.phase() == phase)
}

//! The laws of elections, over all interleavings.
//!
//! They are those of the textbooks: exactly one member is elected, it is the highest that lives, and
//! everybody gets to know. They hold in a synchronous system. Without synchrony the algorithms
//! promise nothing of the kind, which is why a winner is only a nominee; what they keep even then is
//! searched too.

mod support;
#[path = "election_laws/unmarked.rs"]
mod unmarked;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::election::chang_roberts::Message as ChangRobertsMessage;
use conclave_protocols::election::ring::Message as RingMessage;
use conclave_protocols::election::{Bully, ChangRoberts, Command, Election, Event, Ring, Timing};
use conclave_protocols::{Epoch, MemberId, View};
use stateright::{Checker, HasDiscoveries, Model, Property};
use support::Subject;
use support::endless::assert_every_run_ends;
use support::world::{Fact, Group, Laws, Order, Timers, World};

/// An election whose messages can be looked at.
trait Candidate: Subject + Election {
    /// Whether a member of a view of this size may write this.
    fn makes_sense(message: &Self::Message, size: u32) -> bool;

    /// Whether a member may ever follow this one.
    fn may_follow(me: MemberId, leader: MemberId) -> bool;

    /// Whether this message elects the member that it arrives at.
    fn comes_back(_message: &Self::Message, _to: MemberId) -> bool {
        false
    }
}

impl Candidate for Bully {
    fn makes_sense(_message: &Self::Message, _size: u32) -> bool {
        true
    }

    fn may_follow(me: MemberId, leader: MemberId) -> bool {
        leader >= me && leader.0 < SIZE
    }
}

impl Candidate for Ring {
    fn makes_sense(message: &Self::Message, size: u32) -> bool {
        let is_list = |list: &[MemberId]| {
            let distinct: BTreeSet<_> = list.iter().filter(|member| member.0 < size).collect();
            distinct.len() == list.len()
        };
        match message {
            RingMessage::Election { living } => is_list(living),
            RingMessage::Coordinator { leader, living, notified } => {
                is_list(living) && is_list(notified) && living.contains(leader)
            }
            RingMessage::Inquiry { asked, .. } => is_list(asked),
            RingMessage::Ack => true,
        }
    }

    fn may_follow(_me: MemberId, leader: MemberId) -> bool {
        leader.0 < SIZE
    }
}

impl Candidate for ChangRoberts {
    fn makes_sense(message: &Self::Message, size: u32) -> bool {
        match message {
            ChangRobertsMessage::Election { candidate: one }
            | ChangRobertsMessage::Elected { leader: one }
            | ChangRobertsMessage::Inquiry { by: one, .. } => one.0 < size,
            ChangRobertsMessage::Ack => true,
        }
    }

    fn may_follow(_me: MemberId, leader: MemberId) -> bool {
        leader.0 < SIZE
    }

    fn comes_back(message: &Self::Message, to: MemberId) -> bool {
        *message == ChangRobertsMessage::Election { candidate: to }
    }
}

/// Members that notice, each at some time or other, that the leader is gone. One that follows a
/// member that died since notices too: the textbook take the detection of crashes for granted.
struct Elections {
    /// Who elects.
    initiators: BTreeSet<MemberId>,
    /// Who is back from a crash, and asks.
    inquirers: BTreeSet<MemberId>,
    promises: Promises,
}

/// What is promised, beyond what always is.
#[derive(Clone, Copy)]
enum Promises {
    /// The textbooks' promises, in the synchronous system that they assume.
    Textbook,
    /// The same, and that no member crashes.
    NobodyCrashes,
    /// None: no bound on messages is known.
    Nothing,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Memory {
    /// Who was asked to elect, or to inquire.
    asked: BTreeSet<MemberId>,
    /// Of which member each application was last notified.
    notified: BTreeMap<MemberId, MemberId>,
    /// A message that makes no sense was sent.
    nonsense: bool,
}

type State<P> = Group<P, Memory>;
type Law<P> = Property<World<P, Elections>>;

impl<P: Candidate> Laws<P> for Elections {
    type Memory = Memory;

    fn commands(&self, group: &State<P>, member: MemberId) -> Vec<Command> {
        let is_new = !group.memory.asked.contains(&member);
        let elected = group.members[member.0 as usize].protocol.elected();
        if elected.is_some_and(|leader| !group.lives(leader))
            || is_new && self.initiators.contains(&member)
        {
            vec![Command::Elect]
        } else if is_new && self.inquirers.contains(&member) {
            vec![Command::Inquire]
        } else {
            vec![]
        }
    }

    fn remember(&self, memory: &mut Memory, member: MemberId, fact: Fact<'_, P>) {
        match fact {
            Fact::Asked(Command::Elect | Command::Inquire) => {
                memory.asked.insert(member);
            }
            Fact::Notified(Event::Elected(leader)) => {
                memory.notified.insert(member, *leader);
            }
            Fact::Sent { message, .. } => memory.nonsense |= !P::makes_sense(message, SIZE),
            Fact::Crashed => {}
        }
    }

    fn properties(&self) -> Vec<Law<P>> {
        let mut laws = kept_without_synchrony();
        match self.promises {
            Promises::Textbook => laws.extend(promised_by_the_textbook()),
            Promises::NobodyCrashes => {
                laws.extend(promised_by_the_textbook());
                laws.push(Property::always(COMES_BACK_ONCE, |_, group: &State<P>| {
                    group.links.iter().all(|((_, to), link)| {
                        let waits = group.members[to.0 as usize].protocol.is_electing();
                        waits || !link.front().is_some_and(|first| P::comes_back(first, *to))
                    })
                }));
            }
            Promises::Nothing => laws.push(Property::sometimes(
                "two members take themselves for elected",
                |_, group: &State<P>| {
                    followed(group).filter(|(id, leader)| id == leader).count() > 1
                },
            )),
        }
        laws
    }
}

fn kept_without_synchrony<P: Candidate>() -> Vec<Law<P>> {
    vec![
        Property::always(
            "a member that follows another was told of it last",
            |_, group: &State<P>| {
                followed(group).all(|(id, leader)| group.memory.notified.get(&id) == Some(&leader))
            },
        ),
        Property::always("nobody follows whom it must never follow", |_, group: &State<P>| {
            followed(group).all(|(id, leader)| P::may_follow(id, leader))
        }),
        Property::always(
            "a member that waits has a timer, and does not wait for ever",
            |_, group: &State<P>| {
                let mut waiting =
                    group.living().filter(|(_, member)| member.protocol.is_electing());
                waiting.all(|(_, member)| !member.timers.is_empty())
            },
        ),
        Property::always("messages make sense", |_, group: &State<P>| !group.memory.nonsense),
        Property::sometimes("several elect at the same time", |_, group: &State<P>| {
            group.living().filter(|(_, member)| member.protocol.is_electing()).count() > 1
        }),
    ]
}

fn promised_by_the_textbook<P: Candidate>() -> Vec<Law<P>> {
    vec![
        Property::always(
            "only the highest living member is followed, or one that died since",
            |_, group: &State<P>| {
                let highest = group.highest_living();
                followed(group).all(|(_, leader)| Some(leader) == highest || !group.lives(leader))
            },
        ),
        Property::always(
            "in the end all follow the highest living member",
            |world: &World<P, Elections>, group| {
                !world.is_at_rest(group) || all_follow_the_highest(group) || nobody_knows(group)
            },
        ),
        Property::sometimes(
            "all follow one member in the end",
            |world: &World<P, Elections>, group| {
                world.is_at_rest(group) && all_follow_the_highest(group)
            },
        ),
    ]
}

/// Who follows whom.
fn followed<P: Candidate>(group: &State<P>) -> impl Iterator<Item = (MemberId, MemberId)> {
    group.living().filter_map(|(id, member)| Some((id, member.protocol.elected()?)))
}

fn all_follow_the_highest<P: Candidate>(group: &State<P>) -> bool {
    group.living().all(|(_, member)| member.protocol.elected() == group.highest_living())
}

/// The member that was asked to elect crashed before anybody heard of it.
fn nobody_knows<P: Candidate>(group: &State<P>) -> bool {
    group.living().all(|(id, member)| {
        !group.memory.asked.contains(&id)
            && member.protocol.elected().is_none()
            && !member.protocol.is_electing()
    })
}

fn world<P: Candidate>(
    promises: Promises,
    initiators: &[u32],
    inquirers: &[u32],
) -> World<P, Elections> {
    let view = View { epoch: Epoch(1), size: SIZE, leader: MemberId(SIZE - 1) };
    let timing = Timing { answer: Duration::from_secs(1), announcement: Duration::from_secs(2) };
    let ids = |ids: &[u32]| ids.iter().copied().map(MemberId).collect();
    let laws = Elections { initiators: ids(initiators), inquirers: ids(inquirers), promises };
    World::new(SIZE, |me| P::new(me, view, timing), laws)
}

fn check<P: Candidate>(world: World<P, Elections>) {
    let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    checker.spawn_bfs().join().assert_properties();
}

/// One test for each law and each algorithm that keeps it.
macro_rules! election_laws {
    ($($module:ident: $Algorithm:ty;)+) => {$(
        mod $module {
            use super::*;

            #[test]
            fn with_the_top_dead_and_one_more_dying_the_highest_living_wins() {
                let world = world::<$Algorithm>(Promises::Textbook, &[0, 1, 2], &[]);
                check(world.with_dead(3).with_crashes(1));
            }

            #[test]
            fn the_same_holds_if_links_reorder() {
                let world = world::<$Algorithm>(Promises::Textbook, &[0, 1, 2], &[]);
                check(world.with_dead(3).with_crashes(1).with_order(Order::Any));
            }

            #[test]
            fn with_anybody_dying_during_two_elections_the_highest_living_wins() {
                let world = world::<$Algorithm>(Promises::Textbook, &[1, 2], &[]);
                check(world.with_crashes(1));
            }

            #[test]
            fn a_member_that_comes_back_and_asks_while_others_elect_gets_to_know() {
                let world = world::<$Algorithm>(Promises::Textbook, &[1, 2], &[0]);
                check(world.with_dead(3).with_crashes(1));
            }

            #[test]
            fn without_synchrony_two_may_be_elected_but_nobody_waits_for_ever() {
                let world = world::<$Algorithm>(Promises::Nothing, &[1, 2], &[]);
                check(world.with_timers(Timers::AtAnyTime(1)));
            }

            #[test]
            fn every_election_ends() {
                let world = world::<$Algorithm>(Promises::Textbook, &[0, 1, 2], &[]);
                assert_every_run_ends(&world.with_dead(3).with_crashes(1));
            }

            #[test]
            fn without_synchrony_no_message_goes_round_for_ever() {
                let world = world::<$Algorithm>(Promises::Nothing, &[1, 2], &[]);
                let timers = Timers::AtAnyTime(2);
                assert_every_run_ends(&world.with_dead(3).with_crashes(1).with_timers(timers));
            }
        }
    )+};
}

election_laws! {
    bully: Bully;
    ring: Ring;
    chang_roberts: ChangRoberts;
}

/// A member that has won waits no longer.
const COMES_BACK_ONCE: &str = "an identifier comes back only to a member that waits for it";

#[test]
fn with_marks_a_winner_wins_once_however_many_begin() {
    for initiators in [&[0][..], &[0, 1], &[0, 3], &[1, 2], &[0, 1, 2, 3]] {
        check(world::<ChangRoberts>(Promises::NobodyCrashes, initiators, &[]));
    }
    let order = Order::Any;
    check(world::<ChangRoberts>(Promises::NobodyCrashes, &[0, 1, 3], &[]).with_order(order));
    check(world::<ChangRoberts>(Promises::NobodyCrashes, &[0, 1, 2], &[]).with_dead(3));
}

const SIZE: u32 = 4;

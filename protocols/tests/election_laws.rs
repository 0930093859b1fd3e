//! The laws of elections, over all interleavings.
//!
//! They are those of the textbooks: exactly one member is elected, it is the best that lives, and
//! everybody gets to know. The best is the one of the highest rank; where members have capacities, the one of the
//! greatest, and where not all are neighbours, the best of those that can be reached. They hold in a synchronous system. Without synchrony the algorithms
//! promise nothing of the kind, which is why a winner is only a nominee; what they keep even then is
//! searched too.

#[path = "election_laws/spanning_tree.rs"]
mod spanning_tree;
mod support;
#[path = "election_laws/unmarked.rs"]
mod unmarked;
#[path = "election_laws/untagged.rs"]
mod untagged;
#[path = "election_laws/weather.rs"]
mod weather;
#[path = "election_laws/zones.rs"]
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::election::chang_roberts::Message as ChangRobertsMessage;
use conclave_protocols::election::ring::Message as RingMessage;
use conclave_protocols::election::{
    Bully, ChangRoberts, Command, Election, Event, Place, Ring, SpanningTree, Timing,
};
use conclave_protocols::policy::Topology;
use conclave_protocols::{Epoch, MemberId, View};
use stateright::{Checker, HasDiscoveries, Model, Property};
use support::Subject;
use support::endless::assert_every_run_ends;
use support::graph::Graph;
use support::world::{Fact, Group, Laws, Order, Timers, World};

/// An election whose messages can be looked at.
trait Candidate: Subject + Election {
    /// Whether a member of a view of this size may write this.
    fn makes_sense(message: &Self::Message, size: u32) -> bool;

    /// Whether a member may ever follow this one of the view.
    fn may_follow(_me: MemberId, _leader: MemberId) -> bool {
        true
    }

    /// Whether nobody but the best is ever followed while members crash: else only in the end.
    const NEVER_PREMATURE: bool = true;

    /// How many members there are where all live in the beginning: as many as can be searched.
    const ALL_LIVING: u32 = SIZE;

    /// Whether this message goes to none but neighbours.
    fn keeps_to_edges(_message: &Self::Message) -> bool {
        false
    }

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
        leader >= me
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

    fn comes_back(message: &Self::Message, to: MemberId) -> bool {
        *message == ChangRobertsMessage::Election { candidate: to }
    }
}

impl Candidate for SpanningTree {
    fn makes_sense(message: &Self::Message, size: u32) -> bool {
        message.makes_sense_in(view(size))
    }

    /// In a wide computation all members are neighbours.
    fn keeps_to_edges(message: &Self::Message) -> bool {
        !message.of().wide
    }

    const NEVER_PREMATURE: bool = false;

    const ALL_LIVING: u32 = 3;
}

/// Members that notice, each at some time or other, that the leader is gone. One that follows a
/// member that died since, or cannot be reached any more, notices too: the textbook take the detection
/// of crashes for granted.
struct Elections {
    /// Who elects.
    initiators: BTreeSet<MemberId>,
    /// Who is back from a crash, and asks.
    inquirers: BTreeSet<MemberId>,
    promises: Promises,
    /// Who is whose neighbour, and how fit they are.
    graph: Graph,
    capacities: Vec<u64>,
    /// In which zone each is, by letters: then all can send to all, and the neighbours are chosen.
    zones: Option<&'static str>,
    /// Who is a neighbour of whom by that.
    edges: BTreeSet<(MemberId, MemberId)>,
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
    /// In zones: how often somebody was asked again.
    again: u8,
    /// Of which member each application was last notified.
    notified: BTreeMap<MemberId, MemberId>,
    /// A message that makes no sense was sent.
    nonsense: bool,
    /// A message was sent to somebody who is no neighbour.
    strayed: bool,
}

type State<P> = Group<P, Memory>;
type Law<P> = Property<World<P, Elections>>;

impl<P: Candidate> Laws<P> for Elections {
    type Memory = Memory;

    fn commands(&self, group: &State<P>, member: MemberId) -> Vec<Command> {
        let is_new = !group.memory.asked.contains(&member);
        let elected = group.members[member.0 as usize].protocol.elected();
        if elected.is_some_and(|leader| !self.is_reached(group, member, leader))
            || is_new && self.initiators.contains(&member)
            || self.zones.is_some() && self.came_to_nothing(group, member)
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
                let is_new = memory.asked.insert(member);
                memory.again += u8::from(self.zones.is_some() && !is_new);
            }
            Fact::Notified(Event::Elected(leader)) => {
                memory.notified.insert(member, *leader);
            }
            Fact::Sent { to, message } => {
                memory.nonsense |= !P::makes_sense(message, self.graph.size);
                memory.strayed |= P::keeps_to_edges(message) && !self.edges.contains(&(member, to));
            }
            Fact::Crashed => {}
        }
    }

    fn properties(&self) -> Vec<Law<P>> {
        let mut laws = kept_without_synchrony();
        match self.promises {
            Promises::Textbook => {
                laws.extend(promised_by_the_textbook());
                if P::NEVER_PREMATURE {
                    laws.push(only_the_best());
                }
            }
            Promises::NobodyCrashes => {
                laws.extend(promised_by_the_textbook());
                laws.push(only_the_best());
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
            let size = u32::try_from(group.members.len()).unwrap_or(0);
            followed(group).all(|(id, leader)| leader.0 < size && P::may_follow(id, leader))
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
        Property::always("messages travel only along edges", |_, group: &State<P>| {
            !group.memory.strayed
        }),
        Property::sometimes("several elect at the same time", |_, group: &State<P>| {
            group.living().filter(|(_, member)| member.protocol.is_electing()).count() > 1
        }),
    ]
}

fn only_the_best<P: Candidate>() -> Law<P> {
    Property::always(
        "only the best living member is followed, or one that died since",
        |world: &World<P, Elections>, group| {
            followed(group)
                .all(|(id, leader)| leader == world.laws.best(group, id) || !group.lives(leader))
        },
    )
}

fn promised_by_the_textbook<P: Candidate>() -> Vec<Law<P>> {
    vec![
        Property::always(
            "in the end all follow the best living member",
            |world: &World<P, Elections>, group| {
                !world.is_at_rest(group)
                    || group.living().all(|(id, _)| {
                        world.laws.follows_the_best(group, id) || world.laws.nobody_knows(group, id)
                    })
            },
        ),
        Property::sometimes(
            "all follow one member in the end",
            |world: &World<P, Elections>, group| {
                world.is_at_rest(group)
                    && group.living().all(|(id, _)| world.laws.follows_the_best(group, id))
            },
        ),
    ]
}

/// Who follows whom.
fn followed<P: Candidate>(group: &State<P>) -> impl Iterator<Item = (MemberId, MemberId)> {
    group.living().filter_map(|(id, member)| Some((id, member.protocol.elected()?)))
}

impl Elections {
    fn places(&self) -> Vec<Place> {
        let place = |me| {
            let view = view(self.graph.size);
            let place = Place::new(me, view).with_capacity(self.capacities[me.0 as usize]);
            match self.zones {
                Some(zones) => {
                    place.in_topology(Topology::Zones, letters(zones), Some(view.leader))
                }
                None => place.with_neighbours(self.graph.neighbours(me)),
            }
        };
        (0..self.graph.size).map(MemberId).map(place).collect()
    }

    /// The living that a member reaches by way of the living, itself included.
    fn component<P: Candidate>(&self, group: &State<P>, of: MemberId) -> BTreeSet<MemberId> {
        self.graph.reached(of, |one| group.lives(one))
    }

    fn is_reached<P: Candidate>(&self, group: &State<P>, from: MemberId, to: MemberId) -> bool {
        group.lives(to) && self.component(group, from).contains(&to)
    }

    fn best<P: Candidate>(&self, group: &State<P>, of: MemberId) -> MemberId {
        let capacity = |one: &MemberId| (self.capacities.get(one.0 as usize), *one);
        self.component(group, of).into_iter().max_by_key(capacity).unwrap_or(of)
    }

    fn follows_the_best<P: Candidate>(&self, group: &State<P>, member: MemberId) -> bool {
        let elected = group.members[member.0 as usize].protocol.elected();
        elected == Some(self.best(group, member))
    }

    /// Nothing is under way, and not all that live follow one that lives: the first of them sees that, since no nominee
    /// becomes the leader. It sees it no more than [`AGAIN`] times, so that a search ends also where nobody agrees ever.
    fn came_to_nothing<P: Candidate>(&self, group: &State<P>, seen_by: MemberId) -> bool {
        let mut living = group.living();
        let is_first = living.next().is_some_and(|(first, _)| first == seen_by);
        let waits = group.living().any(|(_, member)| !member.timers.is_empty());
        let outcomes: BTreeSet<_> =
            group.living().map(|(_, member)| member.protocol.elected()).collect();
        let one = outcomes.first().copied().flatten().filter(|_| outcomes.len() == 1);
        let agreed = one.is_some_and(|leader| group.lives(leader));
        let mut initiators = self.initiators.iter().filter(|one| group.lives(**one));
        let begun = initiators.all(|one| group.memory.asked.contains(one));
        is_first
            && begun
            && group.links.is_empty()
            && !waits
            && !agreed
            && group.memory.again < AGAIN
    }

    /// No member that this one reaches has heard of an election: the one that was asked to elect crashed before, or is
    /// cut off.
    fn nobody_knows<P: Candidate>(&self, group: &State<P>, member: MemberId) -> bool {
        self.component(group, member).into_iter().all(|id| {
            let member = &group.members[id.0 as usize].protocol;
            !group.memory.asked.contains(&id) && member.elected().is_none() && !member.is_electing()
        })
    }
}

/// The third election is wide; and the member that begins it may die, which begins the count anew.
const AGAIN: u8 = 6;

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(size - 1) }
}

fn world<P: Candidate>(
    promises: Promises,
    initiators: &[u32],
    inquirers: &[u32],
) -> World<P, Elections> {
    world_on(Graph::full(SIZE), &[0; SIZE as usize], promises, initiators, inquirers)
}

fn all_living<P: Candidate>(promises: Promises, initiators: &[u32]) -> World<P, Elections> {
    let size = P::ALL_LIVING;
    world_on(Graph::full(size), &vec![0; size as usize], promises, initiators, &[])
}

/// The zones that letters name; a dash is none.
fn letters(zones: &str) -> impl Iterator<Item = Option<&str>> {
    (0..zones.len()).map(move |at| Some(&zones[at..=at]).filter(|zone| *zone != "-"))
}

fn world_on<P: Candidate>(
    graph: Graph,
    capacities: &[u64],
    promises: Promises,
    initiators: &[u32],
    inquirers: &[u32],
) -> World<P, Elections> {
    let ids = |ids: &[u32]| ids.iter().copied().map(MemberId).collect();
    let (initiators, inquirers) = (ids(initiators), ids(inquirers));
    let capacities = capacities.to_vec();
    let (zones, edges) = (None, [].into());
    world_of(Elections { initiators, inquirers, promises, graph, capacities, zones, edges })
}

fn world_of<P: Candidate>(laws: Elections) -> World<P, Elections> {
    let timing = Timing { answer: Duration::from_secs(1), announcement: Duration::from_secs(2) };
    let places = laws.places();
    let size = laws.graph.size;
    let edges = |place: &Place| {
        let me = place.me;
        place.neighbours.clone().into_iter().map(move |to| (me, to))
    };
    let laws = Elections { edges: places.iter().flat_map(edges).collect(), ..laws };
    World::new(size, |me| P::new(places[me.0 as usize].clone(), timing), laws)
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
                let world = all_living::<$Algorithm>(Promises::Textbook, &[1, 2]);
                check(world.with_crashes(1));
            }

            #[test]
            fn a_member_that_comes_back_and_asks_while_others_elect_gets_to_know() {
                let world = world::<$Algorithm>(Promises::Textbook, &[1, 2], &[0]);
                check(world.with_dead(3).with_crashes(1));
            }

            #[test]
            fn without_synchrony_two_may_be_elected_but_nobody_waits_for_ever() {
                let world = all_living::<$Algorithm>(Promises::Nothing, &[1, 2]);
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
    spanning_tree_of_equals: SpanningTree;
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

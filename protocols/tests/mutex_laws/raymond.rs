//! The laws of Raymond's tree, and what it costs.

use std::time::Duration;

use conclave_protocols::mutex::raymond::{Message, Raymond};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{MemberId, cost};

use crate::any::{Lock, Sections, assert_breaks, laws_of};
use crate::one_token::{OneToken, State, Token, check};
use crate::patience::{LONGEST_DELAY, most_overtaken};
use crate::selfish::Selfish;
use crate::support::walk::Walk;
use crate::support::world::{Order, World};
use crate::view;

laws_of!(lock());

fn lock() -> Lock<Raymond> {
    Lock::new(Raymond::new)
}

impl Token for Raymond {
    fn has_token(&self) -> bool {
        self.has_token()
    }

    fn is_token(message: &Message) -> bool {
        match message {
            Message::Privilege => true,
            Message::Request => false,
        }
    }
}

/// Following the pointers leads to the privilege, or to where it is under way.
fn pointers_lead_to_the_token(group: &State<Raymond>) -> bool {
    let is_under_way = |from, to| count(group, from, to, Message::Privilege) > 0;
    group.living().all(|(member, _)| {
        let next = |at: &MemberId| Some(protocol(group, *at).holder());
        let mut path = std::iter::successors(Some(member), next).take(group.members.len());
        path.any(|at| {
            protocol(group, at).has_token() || is_under_way(at, protocol(group, at).holder())
        })
    })
}

/// A member that has asked is either about to be heard, or in its neighbour's queue, or about to
/// get the privilege; and no other member is.
fn everybody_asks_once(group: &State<Raymond>) -> bool {
    group.living().all(|(member, state)| {
        let asked_at = |neighbour: MemberId| {
            let queued = protocol(group, neighbour).requests().filter(|other| *other == member);
            queued.count()
                + count(group, member, neighbour, Message::Request)
                + count(group, neighbour, member, Message::Privilege)
        };
        let others = group.living().map(|(id, _)| id).filter(|other| *other != member);
        let asked: usize = others.map(asked_at).sum();
        asked == usize::from(state.protocol.has_asked())
    })
}

fn protocol(group: &State<Raymond>, member: MemberId) -> &Raymond {
    &group.members[member.0 as usize].protocol
}

/// How many such messages are under way.
fn count(group: &State<Raymond>, from: MemberId, to: MemberId, message: Message) -> usize {
    let link = group.links.get(&(from, to)).into_iter().flatten();
    link.filter(|under_way| **under_way == message).count()
}

fn tree(size: u32, each: u8, withdrawals: u8) -> World<Raymond, OneToken<Raymond>> {
    let laws = &[
        ("pointers lead to the token", pointers_lead_to_the_token as _),
        ("everybody asks once", everybody_asks_once as _),
    ];
    let make = |me| Raymond::new(me, view(size), &Carried::default());
    World::new(size, make, OneToken { each, withdrawals, may_be_lost: false, laws })
}

#[test]
fn there_is_one_privilege_and_all_pointers_lead_to_it() {
    check(tree(3, 2, 2));
    check(tree(4, 1, 2));
    check(tree(5, 1, 0));
}

#[test]
fn the_same_holds_if_messages_overtake_each_other() {
    check(tree(3, 2, 1).with_order(Order::Any));
    check(tree(4, 1, 1).with_order(Order::Any));
}

#[test]
fn an_entry_costs_two_messages_for_each_step_to_an_idle_privilege() {
    for size in 2..=16 {
        for (holder, member) in pairs(size) {
            let carried = Carried { holder: Some(MemberId(holder)), waiting: vec![] };
            let mut walk = Walk::new(size, [], |me| Raymond::new(me, view(size), &carried));
            walk.ask(holder, Command::Exit);
            walk.ask(member, Command::Enter);
            walk.settle();
            let d = distance(holder, member);
            assert_eq!(walk.sent.len() as u64, cost::raymond(d), "{holder} to {member} of {size}");
            assert_eq!(walk.count("request", true), d);
            assert_eq!(walk.members[member as usize].phase(), Phase::InSection);
        }
    }
}

#[test]
fn if_all_ask_at_once_an_entry_costs_nearly_four_messages() {
    for size in 2..=16 {
        let mut walk = Walk::new(size, [], |me| Raymond::new(me, view(size), &Carried::default()));
        for member in 0..size {
            walk.ask(member, Command::Enter);
        }
        walk.settle();
        let in_section = |walk: &Walk<Raymond>| {
            (0..size).find(|m| walk.members[*m as usize].phase() == Phase::InSection)
        };
        let mut entered = vec![];
        while let Some(member) = in_section(&walk) {
            entered.push(member);
            walk.ask(member, Command::Exit);
            walk.settle();
        }
        assert_eq!(entered.len() as u64, u64::from(size));
        let last = distance(0, entered[entered.len() - 1]);
        assert_eq!(walk.sent.len() as u64, cost::raymond_busy(size.into(), last));
    }
}

#[test]
fn the_pointers_lead_along_the_tree_by_no_more_than_twice_the_logarithm() {
    for size in 2..=64 {
        for (from, to) in pairs(size) {
            let carried = Carried { holder: Some(MemberId(to)), waiting: vec![] };
            let next = |at: &MemberId| Raymond::new(*at, view(size), &carried).holder();
            let path = std::iter::successors(Some(MemberId(from)), |at| Some(next(at)));
            let steps = path.take(64).take_while(|at| at.0 != to).count() as u64;
            assert_eq!(steps, distance(from, to), "{from} to {to} of {size}");
            assert!(steps <= 2 * u64::from(size.ilog2()), "{from} to {to} of {size}");
        }
    }
}

#[test]
fn an_idle_privilege_comes_after_twice_the_time_of_its_way() {
    let unit = Duration::from_millis(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in view(8).members() {
        sim.add(me, Raymond::new(me, view(8), &Carried::default()));
    }
    sim.command(MemberId(7), Command::Enter);
    sim.run_for(unit * 20);
    assert_eq!(sim.take_notified(), [(unit * 6, MemberId(7), Event::Entered)]);
    assert_eq!(sim.sent_in_all(), cost::raymond(distance(0, 7)));
}

/// Whether a member that waits stands in all queues on the way to the privilege.
fn is_in_line<P: Mutex>(
    sim: &Simulator<P>,
    member: MemberId,
    raymond: impl Fn(&P) -> &Raymond,
) -> bool {
    let at = |place: MemberId| raymond(sim.node(place).expect("nobody crashes"));
    let mut place = member;
    while !at(place).has_token() {
        let next = at(place).holder();
        if !at(next).requests().any(|waiting| waiting == place) {
            return false;
        }
        place = next;
    }
    true
}

/// Of a thousand seeds with critical sections of this length, how often somebody entered before one that stood in line.
fn most_overtaken_in_line(section: Duration) -> Option<u32> {
    let is_in_line = |sim: &_, member| is_in_line(sim, member, |raymond| raymond);
    (0..1_000).map(|seed| most_overtaken(&lock(), seed, section, is_in_line)).max()
}

/// Where the privilege goes on, and somebody stays behind, a request follows it. It is there before a
/// critical section is over that takes longer than any message takes through the whole tree.
#[test]
fn nobody_enters_more_than_once_before_one_that_stands_in_all_queues_on_the_way() {
    assert_eq!(most_overtaken_in_line(A_LONG_SECTION), Some(1));
}

#[test]
fn while_a_request_follows_the_privilege_short_sections_overtake_it_again_and_again() {
    let most = most_overtaken_in_line(A_SHORT_SECTION);
    assert!(most > Some(2), "{most:?}");
}

#[test]
fn members_that_keep_the_privilege_for_themselves_are_found_out() {
    let lock = Lock::new(Selfish::<Raymond>::new);
    let is_in_line =
        |sim: &_, member| is_in_line(sim, member, |selfish: &Selfish<_>| &selfish.lock);
    let most = (0..1_000).map(|seed| most_overtaken(&lock, seed, A_LONG_SECTION, is_in_line)).max();
    assert!(most > Some(1), "{most:?}");
}

/// Of five members 0 is the root, 1 and 2 its children, 3 and 4 those of 1.
#[test]
fn the_crash_of_an_idle_leaf_is_not_noticed_and_that_of_any_other_is() {
    let [all_but_the_last, all_but_the_root] = [[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]];
    crate::any::check(lock().world(Sections::of(all_but_the_last)).with_dead(4));
    let law = "a member that waits enters";
    let with_the_privilege = Sections::of(all_but_the_last).carrying(Some(4), &[]);
    assert_breaks(lock().world(with_the_privilege).with_dead(4), law);
    let that_asked = Sections::of(all_but_the_last).carrying(Some(0), &[4]);
    assert_breaks(lock().world(that_asked).with_dead(4), law);
    let beyond_the_root = Sections::of(all_but_the_root).carrying(Some(2), &[]);
    assert_breaks(lock().world(beyond_the_root).with_dead(0), law);
}

/// As long as the fastest message.
const A_SHORT_SECTION: Duration = Duration::from_millis(1);

/// Of eight members no two are further apart than six steps.
const A_LONG_SECTION: Duration = LONGEST_DELAY.saturating_mul(6);

fn pairs(size: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..size).flat_map(move |from| (0..size).map(move |to| (from, to)))
}

/// How far apart two places of a heap are, which begins at 0: whichever is greater is deeper or as
/// deep, and goes up until they meet.
fn distance(one: u32, other: u32) -> u64 {
    let (mut low, mut high, mut steps) = (one.min(other), one.max(other), 0);
    while low != high {
        high = (high - 1) / 2;
        (low, high) = (low.min(high), low.max(high));
        steps += 1;
    }
    steps
}

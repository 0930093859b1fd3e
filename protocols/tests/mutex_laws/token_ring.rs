//! The laws of the token ring, and what it costs.

use std::time::Duration;

use conclave_protocols::mutex::token_ring::{Message, Timer, TokenRing};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Effect, MemberId, cost};

use crate::any::{Lock, laws_of};
use crate::flawed::{Flaw, Flawed};
use crate::mortal::{Heeds, Mortal};
use crate::one_token::{self, Condition, OneToken, State, Token, check};
use crate::support::walk::Walk;
use crate::support::world::{Order, Timers, World};
use crate::view;

laws_of!(lock());

fn lock() -> Lock<TokenRing> {
    let is_idle = |timer| match timer {
        Timer::Pause => true,
    };
    Lock::new(TokenRing::new).idling(is_idle)
}

impl Token for TokenRing {
    fn has_token(&self) -> bool {
        self.has_token()
    }

    fn is_token(message: &Message) -> bool {
        match message {
            Message::Token(_) | Message::IdleToken { .. } => true,
            Message::Wake(_) => false,
        }
    }
}

/// The token does not come back to anybody before it was at every member that waits.
fn waits_for_one_round_at_most<P: Token>(group: &State<P>) -> bool {
    group.memory.steps.values().all(|steps| *steps < group.members.len())
}

fn ring(size: u32, each: u8, withdrawals: u8) -> World<TokenRing, OneToken<TokenRing>> {
    let laws = &[("waits for one round at most", waits_for_one_round_at_most as _)];
    let make = |me| TokenRing::new(me, view(size), &Carried::default());
    World::new(size, make, OneToken { each, withdrawals, may_be_lost: false, laws })
}

/// The law finds fault with a ring in which the token passes by one member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct PassesByTheSecond;

impl Flaw<TokenRing> for PassesByTheSecond {
    fn spoil(
        _: &InputOf<TokenRing>,
        effects: Vec<EffectOf<TokenRing>>,
    ) -> Vec<EffectOf<TokenRing>> {
        let further = |effect| match effect {
            Effect::Send { to: MemberId(1), message } if TokenRing::is_token(&message) => {
                Effect::Send { to: MemberId(2), message }
            }
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => {
                effect
            }
        };
        effects.into_iter().map(further).collect()
    }
}

impl Token for Flawed<TokenRing, PassesByTheSecond> {
    fn has_token(&self) -> bool {
        self.lock.has_token()
    }

    fn is_token(message: &Message) -> bool {
        TokenRing::is_token(message)
    }
}

#[test]
fn a_token_that_passes_somebody_by_is_found_out() {
    let laws = &[("waits for one round at most", waits_for_one_round_at_most as _)];
    let make =
        |me| Flawed::<_, PassesByTheSecond>::around(TokenRing::new(me, view(3), &<_>::default()));
    let laws = OneToken { each: 2, withdrawals: 0, may_be_lost: false, laws };
    one_token::assert_breaks(World::new(3, make, laws));
}

/// Nobody sends the token to a member of which it knows that it is dead.
fn none_is_wasted(group: &State<Mortal>) -> bool {
    group.living().all(|(_, member)| !member.protocol.wasted)
}

/// Whether the token went on after everybody had heard of a death: never, if that is to be refuted.
fn none_is_in_section_after_a_death(group: &State<Mortal>) -> bool {
    let members = || group.members.iter().map(|member| &member.protocol);
    !group.links.is_empty()
        || !members().any(Mortal::is_dead)
        || members().all(|member| member.phase() != Phase::InSection)
}

/// One member dies at any time, and so many timers go off, of which that is one.
fn mortals(
    mortal: u32,
    heeds: Heeds,
    laws: &'static [(&'static str, Condition<Mortal>)],
) -> World<Mortal, OneToken<Mortal>> {
    let make = move |me| Mortal::make(me, view(3), MemberId(mortal), heeds);
    let laws = OneToken { each: 1, withdrawals: 1, may_be_lost: true, laws };
    World::new(3, make, laws).with_timers(Timers::AtAnyTime(2))
}

/// The token is lost if it is with the member that dies, or was sent there before that was known. If not,
/// everybody else enters.
#[test]
fn a_member_that_dies_is_passed_over_once_that_is_known() {
    let none_is_wasted = &[("no token is wasted", none_is_wasted as _)];
    for mortal in 0..3 {
        check(mortals(mortal, Heeds::Yes, none_is_wasted));
        let goes_on = &[(
            "nobody is in the critical section after a death",
            none_is_in_section_after_a_death as _,
        )];
        one_token::assert_breaks(mortals(mortal, Heeds::Yes, goes_on));
    }
}

#[test]
fn members_that_do_not_heed_a_death_are_found_out() {
    let none_is_wasted = &[("no token is wasted", none_is_wasted as _)];
    one_token::assert_breaks(mortals(1, Heeds::No, none_is_wasted));
}

#[test]
fn there_is_one_token_which_comes_within_a_round_and_waits_for_no_timer() {
    check(ring(3, 2, 1));
    check(ring(4, 1, 1));
}

#[test]
fn the_same_holds_if_pauses_end_at_any_time_and_messages_arrive_in_any_order() {
    check(ring(3, 1, 1).with_timers(Timers::AtAnyTime(3)).with_order(Order::Any));
    check(ring(2, 2, 2).with_timers(Timers::AtAnyTime(3)).with_order(Order::Any));
}

#[test]
fn an_entry_costs_a_message_for_each_step_of_the_token_and_as_many_to_wake_it() {
    for size in 2..=16 {
        let mut steps_in_all = 0;
        for member in 0..size {
            let mut walk = walk(size);
            walk.ask(member, Command::Enter);
            walk.settle();
            let steps = u64::from(member);
            assert_eq!(walk.count("token", true), cost::token_ring(steps), "{member} of {size}");
            assert_eq!(walk.count("wake", true), cost::token_ring_wakes(steps));
            assert_eq!(walk.sent.len() as u64, 2 * steps);
            steps_in_all += steps;
        }
        let n = u64::from(size);
        assert_eq!(2 * steps_in_all, n * (n - 1), "on average it is (n - 1)/2 steps away");
    }
}

#[test]
fn if_all_want_in_an_entry_costs_one_message_for_every_size() {
    for size in 2..=16 {
        let mut walk = walk(size);
        for member in 0..size {
            walk.ask(member, Command::Enter);
        }
        walk.settle();
        for member in 0..size - 1 {
            walk.ask(member, Command::Exit);
            walk.settle();
        }
        let n = u64::from(size);
        assert_eq!(walk.count("token", true), cost::token_ring_busy(n));
        assert_eq!(walk.count("wake", true), cost::token_ring_wakes(n - 1));
        assert_eq!(walk.sent.len() as u64, 2 * (n - 1));
    }
}

/// A walk does not start its members, so that the token pauses at rank 0 and stays there.
fn walk(size: u32) -> Walk<TokenRing> {
    Walk::new(size, [], |me| TokenRing::new(me, view(size), &Carried::default()))
}

#[test]
fn a_token_that_pauses_comes_after_twice_the_time_of_its_way() {
    let unit = Duration::from_millis(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in view(8).members() {
        sim.add(me, TokenRing::new(me, view(8), &Carried::default()));
    }
    sim.command(MemberId(5), Command::Enter);
    sim.run_for(unit * 20);
    assert_eq!(sim.take_notified(), [(unit * 10, MemberId(5), Event::Entered)]);
    assert_eq!(sim.sent("token"), cost::token_ring(5));
}

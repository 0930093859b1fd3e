//! Ricart and Agrawala's lock and its variants: their laws, what they cost, and the examples of the
//! textbooks.

use std::time::Duration;

use conclave_protocols::mutex::ricart_agrawala::{Message, RicartAgrawala};
use conclave_protocols::mutex::{Carried, Command, Mutex, Permissions, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Input, LamportTime, MemberId, cost};

use crate::any::{Lock, Search, Sections, assert_breaks, check, laws_of};
use crate::counted::{all_at_once, brief_section, delays, group, sent, those_in_section};
use crate::flawed::{Flaw, Flawed};
use crate::ledger::Since;
use crate::rankless::Rankless;
use crate::selfish::Selfish;
use crate::storm::{self, Broken};
use crate::support::walk::Walk;
use crate::support::world::{Order, Timers};
use crate::withheld::{Form, Insistent, PATIENCE, Silent};

mod as_published {
    super::laws_of!(super::with::<super::Silent>());
}

mod with_notices {
    super::laws_of!(super::with::<super::RicartAgrawala>(), super::Search::small());
}

mod with_denials {
    super::laws_of!(super::with::<super::Insistent>(), super::Search::small());
}

mod with_permissions_that_are_kept {
    super::laws_of!(super::kept::<super::Silent>());
}

mod with_permissions_that_are_kept_and_notices {
    super::laws_of!(super::kept::<super::RicartAgrawala>(), super::Search::small());
}

mod with_permissions_that_are_kept_and_denials {
    super::laws_of!(super::kept::<super::Insistent>(), super::Search::small());
}

/// A member that asks learns nothing of stamps from replies, so each other member may go first twice: on
/// a reply that was under way when this one asked, and once more before it hears of this one.
fn with<P: Form>() -> Lock<P> {
    in_any_order().overtaken(Since::Asked, 2)
}

fn in_any_order<P: Form>() -> Lock<P> {
    Lock::new(P::new).in_order(in_turn)
}

fn in_turn<P: Form>(in_section: &P, waiting: &P) -> bool {
    in_section.turn() < waiting.turn()
}

fn kept<P: Form>() -> Lock<P> {
    Lock::new(|me, view, carried| P::of(KEPT, me, view, carried)).idling(P::is_idle)
}

const KEPT: Permissions = Permissions::Kept { idle: Duration::from_secs(5) };

fn sections() -> Sections {
    Sections::of([2, 1, 1])
}

#[test]
fn links_need_not_keep_the_order() {
    fn holds<P: Form>(lock: &Lock<P>, sections: Sections) {
        check(lock.world(sections).with_order(Order::Any));
    }
    let two_of_three = || Sections::of([2, 1, 0]).with_withdrawals(1);
    for lock in [in_any_order::<Silent>(), kept()] {
        holds(&lock, Sections::of([1, 1, 1]));
        holds(&lock, two_of_three());
    }
    holds(&in_any_order::<RicartAgrawala>(), two_of_three());
    holds(&in_any_order::<Insistent>(), two_of_three());
}

#[test]
fn the_crash_of_any_member_lets_all_others_wait() {
    fn waits<P: Form>() {
        for (dead, asking) in [(0, [0, 1, 0]), (1, [0, 0, 1]), (2, [1, 0, 0])] {
            let world = with::<P>().world(Sections::of(asking)).with_dead(dead);
            assert_breaks(world, "a member that waits enters");
        }
    }
    waits::<Silent>();
    waits::<RicartAgrawala>();
}

/// A member that leaves replies to one of those that it has deferred, and not to all.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct RepliesToOne;

impl Flaw<RicartAgrawala> for RepliesToOne {
    fn spoil(
        input: &InputOf<RicartAgrawala>,
        effects: Vec<EffectOf<RicartAgrawala>>,
    ) -> Vec<EffectOf<RicartAgrawala>> {
        let all = match input {
            Input::Command(Command::Exit) => 1,
            Input::Command(Command::Enter) | Input::Message { .. } | Input::Timer(_) => {
                effects.len()
            }
        };
        effects.into_iter().take(all).collect()
    }
}

#[test]
fn a_member_that_replies_to_one_of_those_that_wait_leaves_the_others_short_of_a_reply() {
    let lock = Lock::new(Flawed::<RicartAgrawala, RepliesToOne>::new);
    assert_breaks(lock.world(Sections::of([1, 1, 1])), "a member that waits enters");
    let mut broken = (0..100).filter_map(|seed| storm::run(&lock, seed).err());
    assert!(broken.any(|broken| matches!(broken, Broken::Waits(_))));
}

#[test]
fn requests_that_are_repeated_too_early_harm_nobody() {
    for lock in [with::<Insistent>(), kept()] {
        let sections = Sections::of([1, 1, 0]).with_withdrawals(1);
        check(lock.world(sections).with_timers(Timers::AtAnyTime(2)));
    }
}

#[test]
fn permissions_may_be_forgotten_at_any_time() {
    let sections = Sections::of([2, 1, 0]).with_withdrawals(1);
    check(kept::<Silent>().world(sections).with_timers(Timers::AtAnyTime(2)));
    let sections = Sections::of([2, 1, 1]);
    check(kept::<Silent>().world(sections).with_timers(Timers::AtAnyTime(1)));
}

#[test]
fn each_other_member_may_go_first_twice_and_no_more() {
    let once = in_any_order::<Silent>().overtaken(Since::Asked, 1);
    let broken = (0..1_000).find_map(|seed| storm::run(&once, seed).err());
    assert_eq!(broken, Some(Broken::OvertakenTooOften));
    // One member asks so often that it could go first more often than that.
    for sections in [Sections::of([5, 1]), Sections::of([1, 5]), Sections::of([4, 1, 0])] {
        check(with::<Silent>().world(sections.clone()));
        check(with::<RicartAgrawala>().world(sections.clone()));
        check(with::<Insistent>().world(sections.clone()));
        assert_breaks(once.world(sections), OVERTAKEN);
    }
}

#[test]
fn members_that_keep_the_lock_for_themselves_are_found_out() {
    let lock = Lock::new(Selfish::<Silent>::new).overtaken(Since::Asked, 2);
    assert_breaks(lock.world(Sections::of([4, 1])), OVERTAKEN);
    let mut broken = (0..1_000).filter_map(|seed| storm::run(&lock, seed).err());
    assert!(broken.any(|broken| broken == Broken::OvertakenTooOften));
}

#[test]
fn permissions_that_are_kept_let_somebody_in_before_an_older_request() {
    let in_order = kept::<Silent>().in_order(in_turn);
    assert_breaks(in_order.world(sections()), "everybody gets in in its turn");
    let broken = (0..100).find_map(|seed| storm::run(&in_order, seed).err());
    assert_eq!(broken, Some(Broken::OutOfTurn));
}

#[test]
fn two_requests_with_the_same_time_defer_each_other_if_ranks_are_not_compared() {
    let world = Lock::new(Rankless::new).world(Sections::of([1, 1, 1]));
    assert_breaks(world, "a member that waits enters");
}

#[test]
fn an_entry_costs_what_the_formula_says_for_every_size() {
    for size in 2..=16 {
        let n = u64::from(size);
        let withheld = cost::ricart_agrawala_withheld(n * (n - 1) / 2);
        let walk = all_at_once(&with::<RicartAgrawala>(), size);
        assert_eq!(sent(&walk, "queued"), withheld, "each is withheld from all after it");
        assert_eq!(walk.sent.len() as u64 - withheld, cost::ricart_agrawala(n, n));
        assert_eq!(all_at_once(&with::<Insistent>(), size).sent, walk.sent, "nothing is lost");
        let walk = all_at_once(&with::<Silent>(), size);
        assert_eq!(walk.sent.len() as u64, cost::ricart_agrawala(n, n));
        assert_eq!(sent(&walk, "request"), sent(&walk, "reply"));
    }
    assert_eq!((cost::ricart_agrawala(3, 1), cost::ricart_agrawala(5, 1)), (4, 8));
}

#[test]
fn permissions_that_are_kept_cost_two_messages_each_time_they_change_hands() {
    for size in 2..=16 {
        let n = u64::from(size);
        let mut walk = group(&kept::<RicartAgrawala>(), size);
        let mut since = 0;
        let mut costs = |walk: &mut Walk<_>, member| {
            brief_section(walk, member);
            let all = walk.sent.len() as u64;
            all - std::mem::replace(&mut since, all)
        };
        assert_eq!(costs(&mut walk, 0), cost::carvalho_roucairol(n - 1));
        assert_eq!(costs(&mut walk, 0), cost::carvalho_roucairol(0), "all are at hand");
        assert_eq!(costs(&mut walk, 1), cost::carvalho_roucairol(n - 1));
        assert_eq!(costs(&mut walk, 0), cost::carvalho_roucairol(1), "only one has asked since");
    }
}

#[test]
fn the_first_waits_two_messages_and_the_second_one_after_the_first_has_left() {
    let unit = Duration::from_secs(1);
    assert_eq!(delays(&with::<Silent>(), 3), (unit * 2, unit));
    assert_eq!(delays(&with::<RicartAgrawala>(), 3), (unit * 2, unit));
    assert_eq!(delays(&with::<Insistent>(), 3), (unit * 2, unit));
    assert_eq!(delays(&kept::<Silent>(), 3), (unit * 2, unit));
}

/// Three members with these clocks, of which the first and the last ask at the same moment.
fn first_and_last_ask<P: Form>(clocks: [u64; 3]) -> Walk<P> {
    let clock = |me: MemberId| LamportTime::at(clocks[me.0 as usize]);
    let mut walk = Walk::new(3, [], |me| P::at(clock(me), me, crate::view(3)));
    walk.ask(0, Command::Enter);
    walk.ask(2, Command::Enter);
    walk.settle();
    walk
}

/// The figure of Tanenbaum and van Steen: the first asks at 8 and the last at 12. Others have 4 and 8.
#[test]
fn the_lower_stamp_goes_first_and_its_reply_lets_the_higher_in() {
    for [lower, higher] in [[4, 8], [8, 12]] {
        let mut walk = first_and_last_ask::<Silent>([lower - 1, 0, higher - 1]);
        let replies = |walk: &Walk<Silent>| -> Vec<_> {
            let messages = walk.sent.iter().filter_map(|sent| match sent.message {
                Message::Reply(to) => Some((sent.from.0, sent.to.0, to)),
                Message::Request(_) | Message::Queued(_) => None,
            });
            messages.collect()
        };
        let (first, last) = (LamportTime::at(lower), LamportTime::at(higher));
        assert_eq!(those_in_section(&walk), Some(0));
        let mut at_once = replies(&walk);
        at_once.sort_unstable();
        assert_eq!(at_once, [(1, 0, first), (1, 2, last), (2, 0, first)], "0 defers 2");
        walk.ask(0, Command::Exit);
        walk.settle();
        assert_eq!(replies(&walk).last(), Some(&(0, 2, last)));
        assert_eq!(those_in_section(&walk), Some(2));
        walk.ask(2, Command::Exit);
        assert_eq!(walk.sent.len() as u64, cost::ricart_agrawala(3, 2));
    }
}

#[test]
fn an_answer_at_once_makes_it_nine_messages() {
    let mut walk = first_and_last_ask::<Insistent>([3, 0, 7]);
    walk.ask(0, Command::Exit);
    walk.settle();
    walk.ask(2, Command::Exit);
    assert_eq!(sent(&walk, "queued"), 1);
    assert_eq!(walk.sent.len() as u64, cost::ricart_agrawala(3, 2) + 1);
}

#[test]
fn of_equal_times_the_lower_rank_goes_first() {
    let mut walk = first_and_last_ask::<Silent>([4, 0, 4]);
    assert_eq!(those_in_section(&walk), Some(0));
    walk.ask(0, Command::Exit);
    walk.settle();
    assert_eq!(those_in_section(&walk), Some(2));
}

/// "The dead permit" needs a detector of crashes that is never wrong. A view that leaves somebody out
/// is such a detector only because it waits until the leases of those that it leaves out are over.
#[test]
fn a_view_without_the_dead_asks_only_the_living_and_one_that_errs_lets_a_second_in() {
    let lock = with::<RicartAgrawala>();
    let before = Carried { holder: Some(MemberId(2)), waiting: vec![] };
    let left_out = lock.member(MemberId(2), crate::view(3), &before);
    let mut walk = group(&lock, 2);
    walk.ask(0, Command::Enter);
    walk.settle();
    assert_eq!(walk.sent.len() as u64, cost::ricart_agrawala(2, 1));
    assert_eq!([walk.members[0].phase(), left_out.phase()], [Phase::InSection; 2]);
}

#[test]
fn a_request_or_a_reply_that_was_lost_is_asked_for_again() {
    fn ends<P: Form>(from: MemberId, to: MemberId) -> (Option<Phase>, u64) {
        let mut sim = Simulator::new(1);
        for me in crate::view(3).members() {
            sim.add(me, with::<P>().member(me, crate::view(3), &Carried::default()));
        }
        sim.cut(from, to);
        sim.command(ASKS, Command::Enter);
        sim.run_for(PATIENCE / 2);
        let silent: Vec<_> = sim.node(ASKS).expect("it lives").lock().silent().collect();
        assert_eq!(silent, [ANSWERS]);
        sim.join(from, to);
        sim.run_for(PATIENCE * 2);
        (sim.node(ASKS).map(P::phase), sim.sent("request"))
    }
    const ASKS: MemberId = MemberId(0);
    const ANSWERS: MemberId = MemberId(1);
    for (from, to) in [(ASKS, ANSWERS), (ANSWERS, ASKS)] {
        let again = (Some(Phase::InSection), 3);
        assert_eq!(ends::<Insistent>(from, to), again, "only the silent one is asked again");
        assert_eq!(ends::<RicartAgrawala>(from, to), (Some(Phase::Waiting), 2));
    }
}

const OVERTAKEN: &str = "nobody is overtaken too often";

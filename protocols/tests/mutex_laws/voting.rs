//! Votes that are never waited for: the laws, the costs, and what forgetful coordinators break.

use std::time::Duration;

use conclave_protocols::mutex::voting::{Message, Timer, Voting};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf, OutboxOf};
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Outbox, Protocol, View, cost};
use stateright::{Checker, Model};

use crate::any::{AnyLock, Lock, Sections, assert_breaks, check, count, for_each_state};
use crate::counted::{delays_in_turn, section};
use crate::flawed::{Flaw, Flawed};
use crate::storm::{self, Broken};
use crate::support::Subject;
use crate::support::walk::{Sent, Walk};
use crate::support::world::{Order, Timers, World};
use crate::view;

/// Retries go on until they succeed, so a search has an end only if it bounds them. That everybody
/// enters is a matter of chance: the seeded runs show it.
fn bounded(sections: Sections, retries: u8) -> World<Voting, AnyLock<Voting>> {
    Lock::new(Voting::new).world(sections).with_timers(Timers::AtAnyTime(retries))
}

#[test]
fn one_at_a_time_everybody_may_enter_as_often_as_it_asks() {
    check(bounded(Sections::of([2, 1, 1]), 3));
}

#[test]
fn the_same_holds_if_members_give_up_while_they_wait() {
    check(bounded(Sections::of([2, 1, 1]).with_withdrawals(2), 2));
}

#[test]
fn the_same_holds_if_somebody_was_in_section_or_waited_in_the_view_before() {
    let carried: [(Option<u32>, &[u32]); 4] =
        [(Some(0), &[2, 1]), (Some(2), &[1, 0]), (None, &[1, 2]), (None, &[0])];
    for (holder, waiting) in carried {
        let sections = Sections::of([1, 1, 1]).with_withdrawals(1).carrying(holder, waiting);
        check(bounded(sections, 3));
    }
}

/// Other locks admit more in the same time: here most attempts of many members fail. In the end of
/// each run everybody enters all the same.
#[test]
fn a_thousand_runs_of_up_to_eight_members_keep_the_laws() {
    let least = storm::Tally { entries: 8, contended: 4, given_up: 1 };
    storm::blow_at_least(&Lock::new(Voting::new), least);
}

/// Where nothing is under way, nobody is in the critical section, and an attempt is yet to come, how many votes are not
/// free for it; nothing, if there is no such state.
fn most_kept_back<P: Subject + Mutex>(
    lock: &Lock<P>,
    sections: Sections,
    voting: impl Fn(&P) -> &Voting,
) -> Option<usize> {
    let mut most = None;
    for_each_state(&lock.world(sections).with_timers(Timers::AtAnyTime(3)), |group, _| {
        let waiting = group.living().filter(|(_, one)| one.protocol.phase() == Phase::Waiting);
        if !group.links.is_empty()
            || count(group, Phase::InSection) > 0
            || waiting.clone().count() == 0
        {
            return;
        }
        assert!(waiting.clone().all(|(_, one)| !one.timers.is_empty()), "no attempt is to come");
        let voters = group.living().map(|(_, one)| voting(&one.protocol));
        most = most.max(Some(voters.filter(|voter| voter.voted_for().is_some()).count()));
    });
    most
}

/// A search cannot show that everybody enters. It shows that nothing but another attempt keeps anybody
/// out: there is always one to come, and all votes are free for it.
#[test]
fn a_member_that_waits_tries_again_and_finds_no_vote_that_a_failed_attempt_has_left_behind() {
    let lock = Lock::new(Voting::new);
    for sections in [Sections::of([1, 1, 1]), Sections::of([2, 1, 0]).with_withdrawals(1)] {
        assert_eq!(most_kept_back(&lock, sections, |voting| voting), Some(0));
    }
}

/// A member that fails keeps the votes that it was given.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct KeepsVotes;

impl Flaw<Voting> for KeepsVotes {
    fn spoil(input: &InputOf<Voting>, effects: Vec<EffectOf<Voting>>) -> Vec<EffectOf<Voting>> {
        let fails = match input {
            Input::Message { .. } => true,
            Input::Command(_) | Input::Timer(_) => false,
        };
        let keeps = |effect: &EffectOf<Voting>| match effect {
            Effect::Send { message: Message::Release(_), .. } => !fails,
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => true,
        };
        effects.into_iter().filter(keeps).collect()
    }
}

#[test]
fn votes_that_a_failed_attempt_leaves_behind_are_found_out() {
    let lock = Lock::new(Flawed::<Voting, KeepsVotes>::new);
    let kept_back = most_kept_back(&lock, Sections::of([1, 1, 1]), |flawed| &flawed.lock);
    assert!(kept_back > Some(0), "{kept_back:?}");
    let mut broken = (0..100).filter_map(|seed| storm::run(&lock, seed).err());
    assert!(matches!(broken.next(), Some(Broken::Waits(_))));
}

/// Of five members each asks itself and the next two.
#[test]
fn the_crash_of_a_member_that_no_candidate_asks_is_not_noticed_and_that_of_another_is() {
    check(bounded(Sections::of([1, 1, 0, 0, 0]), 2).with_dead(4));
    let asks_it = bounded(Sections::of([0, 0, 1, 0, 0]), 2).with_dead(4);
    assert_breaks(asks_it, "a member that waits enters");
}

/// A release that comes before the request which it takes back leaves a vote that nobody has.
#[test]
fn where_messages_overtake_one_another_a_vote_is_lost() {
    let sections = Sections::of([1, 1, 0]).with_withdrawals(1);
    let lost = |order| {
        let mut lost = false;
        for_each_state(&bounded(sections.clone(), 1).with_order(order), |group, _| {
            let votes = group.living().filter(|(_, one)| one.protocol.voted_for().is_some());
            let is_over = group.links.is_empty()
                && group.living().all(|(_, one)| one.protocol.phase() == Phase::Idle);
            lost |= is_over && votes.count() > 0;
        });
        lost
    };
    assert_eq!([Order::Fifo, Order::Any].map(lost), [false, true]);
}

/// A coordinator that may forget its vote at any time.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Forgetful(Voting);

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum TestTimer {
    Retry,
    Forget,
}

impl Mutex for Forgetful {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self(Voting::new(me, view, carried))
    }

    fn phase(&self) -> Phase {
        self.0.phase()
    }
}

impl Protocol for Forgetful {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = TestTimer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut inner = Outbox::default();
        self.0.start(now, &mut inner);
        inner.pour_into(out, |message| message, |Timer::Retry| TestTimer::Retry);
        out.arm(TestTimer::Forget, Duration::ZERO);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let input = match input {
            Input::Command(command) => Input::Command(command),
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(TestTimer::Retry) => Input::Timer(Timer::Retry),
            Input::Timer(TestTimer::Forget) => {
                self.0.forget();
                return out.arm(TestTimer::Forget, Duration::ZERO);
            }
        };
        let mut inner = Outbox::default();
        self.0.handle(now, input, &mut inner);
        inner.pour_into(out, |message| message, |Timer::Retry| TestTimer::Retry);
    }
}

/// Members that ask once each, of whose coordinators so many forget their votes.
fn forgetting(asking: &[u8], votes: u32, forget: u8) -> World<Forgetful, AnyLock<Forgetful>> {
    let member = move |me, view: View, carried: &Carried| {
        Forgetful(Voting::with_votes(me, view, carried, votes))
    };
    let lock = Lock::new(member).idling(|timer| timer == TestTimer::Forget);
    lock.world(Sections::of(asking)).with_timers(Timers::AtAnyTime(forget))
}

/// All interleavings of two members that ask: n, m, and the least number that is too many.
#[test]
fn two_are_in_section_once_2m_minus_n_coordinators_forget() {
    let groups: [(&[u8], u32); 3] = [(&[1, 1, 0], 2), (&[1, 1, 0], 3), (&[1, 0, 1, 0], 3)];
    for (asking, votes) in groups {
        let too_many = 2 * u8::try_from(votes).unwrap() - u8::try_from(asking.len()).unwrap();
        let law = "at most one is in the critical section";
        let found = forgetting(asking, votes, too_many - 1).checker().threads(2).spawn_bfs().join();
        assert!(found.discovery(law).is_none(), "{votes} of {}", asking.len());
        assert_breaks(forgetting(asking, votes, too_many), law);
    }
}

/// A member has all its votes; so many coordinators forget them, and another asks, whose set has as
/// few in common with that of the first as possible. Whether it is admitted.
fn second_enters(size: u32, votes: u32, forget: u32) -> bool {
    let member = |me| Voting::with_votes(me, view(size), &Carried::default(), votes);
    let mut walk = Walk::new(size, [], member);
    walk.ask(0, Command::Enter);
    walk.settle();
    assert_eq!(walk.members[0].phase(), Phase::InSection);
    let second = size - votes;
    for coordinator in second..second + forget {
        walk.members[coordinator as usize].forget();
    }
    walk.ask(second, Command::Enter);
    // Questions and answers of one attempt.
    (0..2 * (votes - 1)).for_each(|_| assert!(walk.step()));
    walk.members[second as usize].phase() == Phase::InSection
}

#[test]
fn three_of_five_votes_are_worth_nothing_once_one_of_them_is_forgotten() {
    assert!(!second_enters(5, 3, 0));
    assert!(second_enters(5, 3, 1));
}

#[test]
fn so_many_may_forget_and_no_more() {
    for (size, votes, too_many) in [(3, 2, 1), (5, 3, 1), (7, 4, 1), (8, 5, 2), (8, 6, 4)] {
        assert_eq!(too_many, 2 * votes - size);
        let enters = |forget: &u32| second_enters(size, votes, *forget);
        assert_eq!((0..=votes).find(enters), Some(too_many), "{votes} of {size}");
    }
}

/// How likely it is that so many of the m coordinators that voted forget it that another has m votes
/// too, if each forgets with this likelihood: the formula of the textbook, by the line between
/// [`so_many_may_forget_and_no_more`].
fn violation(size: u32, votes: u32, forgets: f64) -> f64 {
    let ways = |k: u32| (0..k).fold(1.0, |ways, i| ways * f64::from(votes - i) / f64::from(i + 1));
    let remembers = 1.0 - forgets;
    let exactly = |k: u32| {
        let [forget, remember] = [k, votes - k].map(|n| i32::try_from(n).expect("a small number"));
        ways(k) * forgets.powi(forget) * remembers.powi(remember)
    };
    (0..=votes).filter(|k| second_enters(size, votes, *k)).map(exactly).sum()
}

/// The table of violation probabilities that later editions of Tanenbaum and van Steen's book print: n,
/// m, and below which power of ten two enter, if each coordinator is away for 3 or 30 s in an hour.
#[test]
fn two_enter_as_seldom_as_the_table_of_the_textbook_says() {
    let table = [(8, 5, 5, 3), (8, 6, 11, 7), (16, 9, 4, 2), (16, 12, 21, 13)];
    let table = table.into_iter().chain([(32, 17, 4, 2), (32, 24, 43, 27)]);
    for (size, votes, seldom, often) in table {
        for (away, power) in [(3.0, seldom), (30.0, often)] {
            let likelihood = violation(size, votes, away / 3600.0);
            assert!(likelihood < 10_f64.powi(-power), "{votes} of {size}: {likelihood:e}");
            assert!(likelihood > 10_f64.powi(-power - 2), "{votes} of {size}: {likelihood:e}");
        }
    }
}

#[test]
fn an_entry_costs_three_messages_for_each_other_coordinator_that_is_asked() {
    for size in 2..=16 {
        for member in 0..size {
            let make = |me| Voting::new(me, view(size), &Carried::default());
            let mut walk = Walk::new(size, [], make);
            section(&mut walk, member);
            let others = u64::from(size / 2);
            let sent = walk.sent.len() as u64;
            assert_eq!(sent, cost::voting_least(others, 1), "{member} of {size}");
            assert_eq!(sent, cost::voting_most(others, 1), "{member} of {size}");
        }
    }
}

#[test]
fn the_first_is_in_after_a_round_trip_and_the_second_when_it_happens_to_ask_in_time() {
    let (unit, longest_pause) = (Duration::from_secs(1), Duration::from_millis(640));
    for size in 2..=9 {
        let (entry, next) = delays_in_turn(&Lock::new(Voting::new), size);
        assert_eq!(entry, unit * 2);
        // An attempt under way may come too early for the release.
        assert!(next < unit * 4 + longest_pause, "{next:?}, n = {size}");
    }
}

#[test]
fn an_entry_at_a_later_attempt_costs_between_the_two_formulas() {
    for size in 3..=16 {
        let make = |me| Voting::new(me, view(size), &Carried::default());
        for attempts in 1..=12 {
            let mut walk = Walk::new(size, [], make);
            let (first, second) = (MemberId(0), MemberId(size / 2));
            walk.ask(first.0, Command::Enter);
            walk.settle();
            walk.ask(second.0, Command::Enter);
            let others = u64::from(size / 2);
            let tried = |walk: &Walk<Voting>| {
                let asks = walk.sent.iter().filter(|sent| {
                    sent.from == second && matches!(sent.message, Message::Request(_))
                });
                asks.count() as u64 / others
            };
            while tried(&walk) < attempts {
                assert!(walk.step());
            }
            walk.ask(first.0, Command::Exit);
            walk.settle();
            assert_eq!(walk.members[second.0 as usize].phase(), Phase::InSection);
            walk.ask(second.0, Command::Exit);
            walk.settle();
            let attempts = tried(&walk);
            let is_of_second = |sent: &&Sent<Message>| match sent.message {
                Message::Request(_) | Message::Release(_) => sent.from == second,
                Message::Grant(_) | Message::Deny(_) => sent.to == second,
            };
            let sent = walk.sent.iter().filter(is_of_second).count() as u64;
            let range = cost::voting_least(others, attempts)..=cost::voting_most(others, attempts);
            assert!(range.contains(&sent), "{sent} of {range:?}, n = {size}");
        }
    }
}

#[test]
fn the_formulas_are_those_of_the_textbook() {
    let table =
        |votes| [1, 2, 3].map(|k| (cost::voting_least(votes, k), cost::voting_most(votes, k)));
    assert_eq!(table(3), [(9, 9), (15, 18), (21, 27)]);
    assert_eq!(table(5), [(15, 15), (25, 30), (35, 45)]);
}

//! Votes that are never waited for: the laws, the costs, and what forgetful coordinators break.

use std::time::Duration;

use conclave_protocols::mutex::voting::{Message, Timer, Voting};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Outbox, Protocol, View, cost};
use stateright::{Checker, Model};

use crate::any::{AnyLock, Lock, Visits, assert_breaks, check};
use crate::counted::{delays_in_turn, visit};
use crate::support::walk::{Sent, Walk};
use crate::support::world::{Alarms, World};
use crate::{storm, view};

/// Retries go on until they succeed, so a search has an end only if it bounds them. That everybody
/// gets in is a matter of chance: the seeded runs show it.
fn bounded(visits: Visits, retries: u8) -> World<Voting, AnyLock<Voting>> {
    Lock::new(Voting::new).world(visits).with_alarms(Alarms::AtAnyTime(retries))
}

#[test]
fn one_at_a_time_everybody_may_get_in_as_often_as_it_asks() {
    check(bounded(Visits::of([2, 1, 1]), 3));
}

#[test]
fn the_same_holds_if_members_give_up_while_they_wait() {
    check(bounded(Visits::of([2, 1, 1]).with_withdrawals(2), 2));
}

#[test]
fn the_same_holds_if_somebody_was_inside_or_waited_in_the_view_before() {
    let carried: [(Option<u32>, &[u32]); 4] =
        [(Some(0), &[2, 1]), (Some(2), &[1, 0]), (None, &[1, 2]), (None, &[0])];
    for (holder, waiting) in carried {
        let visits = Visits::of([1, 1, 1]).with_withdrawals(1).carrying(holder, waiting);
        check(bounded(visits, 3));
    }
}

/// Other locks let more in in the same time: here most attempts of many members fail. In the end of
/// each run everybody gets in all the same.
#[test]
fn a_thousand_runs_of_up_to_eight_members_keep_the_laws() {
    let lock = Lock::new(Voting::new);
    for seed in 0..1_000 {
        assert_eq!(storm::run(&lock, seed).err(), None, "seed {seed}");
    }
}

/// A coordinator that may forget its vote at any time.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Forgetful(Voting);

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Alarm {
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
    type Timer = Alarm;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut inner = Outbox::default();
        self.0.start(now, &mut inner);
        inner.pour_into(out, |message| message, |Timer::Retry| Alarm::Retry);
        out.arm(Alarm::Forget, Duration::ZERO);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let input = match input {
            Input::Command(command) => Input::Command(command),
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(Alarm::Retry) => Input::Timer(Timer::Retry),
            Input::Timer(Alarm::Forget) => {
                self.0.forget();
                return out.arm(Alarm::Forget, Duration::ZERO);
            }
        };
        let mut inner = Outbox::default();
        self.0.handle(now, input, &mut inner);
        inner.pour_into(out, |message| message, |Timer::Retry| Alarm::Retry);
    }
}

/// Members that ask once each, of whose coordinators so many forget their votes.
fn forgetting(asking: &[u8], votes: u32, forget: u8) -> World<Forgetful, AnyLock<Forgetful>> {
    let member = move |me, view: View, carried: &Carried| {
        Forgetful(Voting::with_votes(me, view, carried, votes))
    };
    let lock = Lock::new(member).idling(|alarm| alarm == Alarm::Forget);
    lock.world(Visits::of(asking)).with_alarms(Alarms::AtAnyTime(forget))
}

/// All interleavings of two members that ask: n, m, and the least number that is too many.
#[test]
fn two_are_inside_once_2m_minus_n_coordinators_forget() {
    let groups: [(&[u8], u32); 3] = [(&[1, 1, 0], 2), (&[1, 1, 0], 3), (&[1, 0, 1, 0], 3)];
    for (asking, votes) in groups {
        let too_many = 2 * u8::try_from(votes).unwrap() - u8::try_from(asking.len()).unwrap();
        let law = "at most one is inside";
        let found = forgetting(asking, votes, too_many - 1).checker().threads(2).spawn_bfs().join();
        assert!(found.discovery(law).is_none(), "{votes} of {}", asking.len());
        assert_breaks(forgetting(asking, votes, too_many), law);
    }
}

/// A member has all its votes; so many coordinators forget them, and another asks, whose set has as
/// few in common with that of the first as possible. Whether it is let in.
fn second_enters(size: u32, votes: u32, forget: u32) -> bool {
    let member = |me| Voting::with_votes(me, view(size), &Carried::default(), votes);
    let mut walk = Walk::new(size, [], member);
    walk.ask(0, Command::Enter);
    walk.settle();
    assert_eq!(walk.members[0].phase(), Phase::Inside);
    let second = size - votes;
    for coordinator in second..second + forget {
        walk.members[coordinator as usize].forget();
    }
    walk.ask(second, Command::Enter);
    // Questions and answers of one attempt.
    (0..2 * (votes - 1)).for_each(|_| assert!(walk.step()));
    walk.members[second as usize].phase() == Phase::Inside
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

#[test]
fn an_entry_costs_three_messages_for_each_other_coordinator_that_is_asked() {
    for size in 2..=16 {
        for member in 0..size {
            let make = |me| Voting::new(me, view(size), &Carried::default());
            let mut walk = Walk::new(size, [], make);
            visit(&mut walk, member);
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
            assert_eq!(walk.members[second.0 as usize].phase(), Phase::Inside);
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
fn the_formulas_are_those_of_the_books() {
    let table =
        |votes| [1, 2, 3].map(|k| (cost::voting_least(votes, k), cost::voting_most(votes, k)));
    assert_eq!(table(3), [(9, 9), (15, 18), (21, 27)]);
    assert_eq!(table(5), [(15, 15), (25, 30), (35, 45)]);
}

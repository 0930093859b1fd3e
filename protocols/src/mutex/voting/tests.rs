//! One member's rules, one at a time.

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const ME: MemberId = MemberId(0);
const PEER: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(0) }
}

/// One of five, who asks itself and two more.
fn member(me: MemberId) -> Voting {
    Voting::new(me, view(5), &Carried::default())
}

fn feed(member: &mut Voting, input: InputOf<Voting>) -> Vec<EffectOf<Voting>> {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn command(member: &mut Voting, command: Command) -> Vec<EffectOf<Voting>> {
    feed(member, Input::Command(command))
}

fn hear(member: &mut Voting, from: MemberId, message: Message) -> Vec<EffectOf<Voting>> {
    feed(member, Input::Message { from, message })
}

fn send(to: MemberId, message: Message) -> EffectOf<Voting> {
    Effect::Send { to, message }
}

fn number(number: u64) -> AttemptNumber {
    AttemptNumber(number)
}

/// How long a member pauses.
fn paused(effects: &[EffectOf<Voting>]) -> Option<Duration> {
    effects.iter().find_map(|effect| match effect {
        Effect::Arm { timer: Timer::Retry, after } => Some(*after),
        Effect::Send { .. } | Effect::Disarm(_) | Effect::Tell(_) => None,
    })
}

#[test]
fn a_member_asks_itself_and_the_next_on_the_ring_until_they_are_a_majority() {
    let asked = |me, size, votes| {
        asked_by(MemberId(me), view(size), votes).map(|member| member.0).collect::<Vec<_>>()
    };
    assert_eq!(asked(0, 5, 3), [0, 1, 2]);
    assert_eq!(asked(4, 5, 3), [4, 0, 1]);
    let votes = |size, votes| Voting::with_votes(ME, view(size), &Carried::default(), votes).votes;
    assert_eq!([1, 2, 3, 4, 5, 16].map(|size| votes(size, 0)), [1, 2, 2, 3, 3, 9]);
    assert_eq!([4, 5, 9].map(|wanted| votes(8, wanted)), [5, 5, 8], "a majority, at most all");
}

#[test]
fn any_two_members_ask_somebody_in_common() {
    for size in 1..=16 {
        let [one, other] = [(); 2].map(|()| view(size).members());
        for (one, other) in one.flat_map(|one| other.clone().map(move |other| (one, other))) {
            let votes = size / 2 + 1;
            let common =
                asked_by(one, view(size), votes).filter(|c| asks(other, *c, view(size), votes));
            let least = (2 * votes - size) as usize;
            assert!(common.count() >= least, "{one} and {other} of {size}");
        }
    }
}

#[test]
fn three_of_five_votes_let_a_member_in_and_are_given_back_when_it_leaves() {
    let mut me = member(ME);
    let [request, release] = [Message::Request(number(1)), Message::Release(number(1))];
    assert_eq!(command(&mut me, Command::Enter), [send(PEER, request), send(OTHER, request)]);
    assert_eq!(me.voted_for(), Some(ME), "its own vote is no message");
    assert_eq!(hear(&mut me, OTHER, Message::Grant(number(1))), []);
    let entered = hear(&mut me, PEER, Message::Grant(number(1)));
    assert_eq!(entered, [Effect::Tell(Event::Entered)]);
    assert_eq!(command(&mut me, Command::Exit), [send(PEER, release), send(OTHER, release)]);
    assert_eq!((me.phase(), me.voted_for()), (Phase::Idle, None));
}

#[test]
fn a_coordinator_answers_at_once_and_has_one_vote() {
    let mut me = member(ME);
    let grant = |to, attempt| [send(to, Message::Grant(number(attempt)))];
    assert_eq!(hear(&mut me, PEER, Message::Request(number(1))), grant(PEER, 1));
    let deny = [send(OTHER, Message::Deny(number(1)))];
    assert_eq!(hear(&mut me, OTHER, Message::Request(number(1))), deny);
    assert_eq!(hear(&mut me, OTHER, Message::Release(number(1))), []);
    assert_eq!(me.voted_for(), Some(PEER), "who was denied has nothing to give back");
    assert_eq!(hear(&mut me, PEER, Message::Release(number(1))), []);
    assert_eq!(hear(&mut me, OTHER, Message::Request(number(2))), grant(OTHER, 2));
}

#[test]
fn an_attempt_that_fails_gives_its_votes_back_and_is_repeated() {
    let mut me = member(ME);
    command(&mut me, Command::Enter);
    assert_eq!(hear(&mut me, PEER, Message::Deny(number(1))), [], "one has not answered");
    let failed = hear(&mut me, OTHER, Message::Grant(number(1)));
    assert_eq!(
        failed[..2],
        [send(OTHER, Message::Release(number(1))), Effect::Tell(Event::Queued)]
    );
    assert!(paused(&failed).is_some_and(|pause| pause < FIRST_PAUSE));
    assert_eq!((me.phase(), me.voted_for()), (Phase::Waiting, None));
    let [to_peer, to_other] = [PEER, OTHER].map(|to| send(to, Message::Request(number(2))));
    assert_eq!(feed(&mut me, Input::Timer(Timer::Retry)), [to_peer, to_other]);
}

#[test]
fn a_vote_that_crosses_a_withdrawal_lets_nobody_in() {
    let mut me = member(ME);
    command(&mut me, Command::Enter);
    let release = Message::Release(number(1));
    assert_eq!(command(&mut me, Command::Exit), [send(PEER, release), send(OTHER, release)]);
    command(&mut me, Command::Enter);
    for voter in [PEER, OTHER] {
        assert_eq!(hear(&mut me, voter, Message::Grant(number(1))), []);
        assert_eq!(hear(&mut me, voter, Message::Deny(number(1))), []);
    }
    hear(&mut me, PEER, Message::Grant(number(2)));
    assert_eq!(me.phase(), Phase::Waiting);
    hear(&mut me, OTHER, Message::Grant(number(2)));
    assert_eq!(me.phase(), Phase::InSection);
}

#[test]
fn a_member_that_gives_up_between_two_attempts_has_nothing_to_give_back() {
    let mut me = member(ME);
    command(&mut me, Command::Enter);
    hear(&mut me, PEER, Message::Deny(number(1)));
    hear(&mut me, OTHER, Message::Deny(number(1)));
    assert_eq!(command(&mut me, Command::Exit), [Effect::Disarm(Timer::Retry)]);
    assert_eq!(feed(&mut me, Input::Timer(Timer::Retry)), []);
}

#[test]
fn pauses_differ_between_members_and_attempts_and_grow() {
    let pause = |rank, latest, failed| {
        let mut me = member(MemberId(rank));
        me.latest = number(latest);
        me.pause(failed)
    };
    let all: BTreeSet<Duration> =
        (0..5).flat_map(|rank| (1..=40).map(move |latest| pause(rank, latest, 1))).collect();
    assert_eq!(all.len(), 200, "no two are the same");
    assert!(all.iter().all(|pause| *pause < FIRST_PAUSE));
    let average = |failed: u32| (1..=200).map(|n| pause(0, n, failed)).sum::<Duration>() / 200;
    for failed in 1..=DOUBLINGS + 1 {
        let half = FIRST_PAUSE * (1 << (failed - 1)) / 2;
        let spread = average(failed).as_secs_f64() / half.as_secs_f64();
        assert!((0.8..1.2).contains(&spread), "{failed}: {spread}");
    }
    assert_eq!(pause(0, 1, u32::MAX), pause(0, 1, DOUBLINGS + 1));
    assert_eq!(pause(3, 7, 2), pause(3, 7, 2), "a run can be repeated");
}

#[test]
fn the_holder_that_was_carried_over_has_its_votes_and_waiters_try_after_a_time() {
    let carried = Carried { holder: Some(MemberId(4)), waiting: vec![OTHER] };
    let voted = |me| Voting::new(MemberId(me), view(5), &carried).voted_for().map(|one| one.0);
    assert_eq!([0, 1, 2, 3, 4].map(voted), [Some(4), Some(4), None, None, Some(4)]);
    let started = |me| {
        let mut out = Outbox::default();
        Voting::new(me, view(5), &carried).start(LocalTime(0), &mut out);
        out.drain().collect::<Vec<_>>()
    };
    assert_eq!((started(ME), started(MemberId(4))), (vec![], vec![]));
    assert!(paused(&started(OTHER)).is_some());
}

#[test]
fn the_first_that_waited_enters_when_a_view_begins_with_nobody_in_section() {
    let carried = Carried { holder: None, waiting: vec![MemberId(9), OTHER, ME] };
    let mut other = Voting::new(OTHER, view(5), &carried);
    let mut out = Outbox::default();
    other.start(LocalTime(0), &mut out);
    assert_eq!(out.drain().collect::<Vec<_>>(), [Effect::Tell(Event::Entered)]);
    assert_eq!(Voting::new(MemberId(3), view(5), &carried).voted_for(), Some(OTHER));
    assert_eq!(Voting::new(ME, view(5), &carried).phase(), Phase::Waiting);
}

#[test]
fn a_newer_attempt_says_that_the_older_is_over_and_what_makes_no_sense_is_ignored() {
    let mut me = member(ME);
    hear(&mut me, PEER, Message::Request(number(3)));
    let again = hear(&mut me, PEER, Message::Request(number(4)));
    assert_eq!(again, [send(PEER, Message::Grant(number(4)))]);
    hear(&mut me, PEER, Message::Release(number(3)));
    assert_eq!(me.voted_for(), Some(PEER));
    assert_eq!(hear(&mut me, MemberId(5), Message::Request(number(1))), [], "no member");
    assert_eq!(hear(&mut me, OTHER, Message::Grant(number(0))), [], "nobody asked");
    command(&mut me, Command::Enter);
    assert_eq!(hear(&mut me, MemberId(3), Message::Deny(number(1))), [], "it is not asked");
    assert_eq!(me.phase(), Phase::Waiting);
}

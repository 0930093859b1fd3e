use conclave_protocols::member::message::LockNote;
use conclave_protocols::member::{Lease, LockEvent, Term};
use conclave_protocols::policy::{Caching, LockAlgorithm};
use conclave_protocols::{Epoch, FencingToken, PodUid};

use super::entry::TRY;
use super::*;
use crate::claims::{Held, LostReason, Wait};
use crate::metrics::Metrics;

fn book() -> Book {
    let me = Incarnation { pod: PodUid(1), run: 1 };
    Book::new("pod", me, Metrics::new("book").locks)
}

fn name(lock: &str) -> LockName {
    LockName::try_from(lock.to_owned()).expect("a good name")
}

/// A claim that waits as long as it takes.
fn ask(book: &mut Book, lock: &LockName) -> Result<ClaimId, AskError> {
    let ask = Ask {
        lock: lock.clone(),
        claim: None,
        wait: Wait::Forever,
        ttl: None,
        max_hold: None,
        owner: None,
        metadata: None,
    };
    let asked = book.ask(LocalTime(1), ask, &Policy::default())?;
    let id = asked.claim.borrow().id.clone();
    Ok(id)
}

/// A claim that does not wait.
fn a_try(lock: &LockName) -> Ask {
    Ask {
        lock: lock.clone(),
        claim: None,
        wait: Wait::For(Duration::ZERO),
        ttl: None,
        max_hold: None,
        owner: None,
        metadata: None,
    }
}

/// The member is let into a lock, until 9.
fn enter(book: &mut Book, lock: &LockName) {
    enter_for(book, lock, 0);
}

/// The same, after so many messages.
fn enter_for(book: &mut Book, lock: &LockName, messages: u64) {
    let (token, epoch) = (FencingToken::before(Epoch(1)).successor(Epoch(1)), Epoch(1));
    let event = LockEvent::Entered {
        token,
        epoch,
        term: Term::new(LocalTime(2), LocalTime(9), true),
        messages,
    };
    book.on_event(LocalTime(2), lock, event, |member| member.pod.to_string());
}

/// Found by a pod that took calls before its timers fired when it was thawed.
#[test]
fn a_claim_that_is_given_back_after_its_deadline_was_lost() {
    let (mut book, lock) = (book(), name("a"));
    let id = ask(&mut book, &lock).expect("allowed");
    enter(&mut book, &lock);
    assert!(book.release(LocalTime(10), &lock, &id).is_err(), "others may have held it since");
}

/// Found on a cluster: pods that were recreated gave back what their applications still held.
#[test]
fn a_sidecar_that_ends_gives_back_nothing_that_is_held() {
    let (mut book, held, wanted) = (book(), name("held"), name("wanted"));
    for lock in [&held, &wanted] {
        ask(&mut book, lock).expect("allowed");
    }
    enter(&mut book, &held);
    book.intents.clear();
    book.close(LocalTime(3));
    assert_eq!(book.intents, [Intent::Exit(wanted)]);
}

#[test]
fn the_metric_has_what_entry_and_exit_cost_by_the_members_count() {
    let metrics = Metrics::new("book");
    let me = Incarnation { pod: PodUid(1), run: 1 };
    let (mut book, lock) = (Book::new("pod", me, metrics.locks.clone()), name("a"));
    let id = ask(&mut book, &lock).expect("allowed");
    enter_for(&mut book, &lock, 8);
    book.release(LocalTime(3), &lock, &id).expect("it holds");
    let (algorithm, caching) = (LockAlgorithm::Central, Caching::Disabled);
    let left = LockEvent::Left { algorithm, caching, messages: 10 };
    book.on_event(LocalTime(3), &lock, left, |member| member.pod.to_string());
    let text = metrics.scrape(&crate::http::tests::double::Double::new().group);
    let sum = r#"conclave_lock_messages_sum{algorithm="Central",group="book"} 10"#;
    assert!(text.lines().any(|line| line == sum), "{text}");
}

#[test]
fn the_metric_has_the_locks_that_claims_hold_or_wait_for_each_once() {
    let metrics = Metrics::new("book").locks;
    let count = || metrics.wanted.get();
    let me = Incarnation { pod: PodUid(1), run: 1 };
    let (mut book, held, sought) =
        (Book::new("pod", me, metrics.clone()), name("held"), name("sought"));
    let ids: Vec<_> = [&held, &held, &sought].map(|lock| ask(&mut book, lock)).into();
    let [first, second, third] = &ids[..] else { panic!("three") };
    assert_eq!(count(), 2);
    enter(&mut book, &held);
    for (lock, id) in [(&held, first), (&held, second), (&sought, third)] {
        book.release(LocalTime(3), lock, id.as_ref().expect("allowed")).expect("it waits or holds");
    }
    assert_eq!(count(), 0);
    ask(&mut book, &sought).expect("allowed");
    assert_eq!(count(), 1);
    Book::new("pod", me, metrics.clone());
    assert_eq!(count(), 0, "another life in the group begins");
}

fn full(asked: &Result<ClaimId, AskError>) -> Option<usize> {
    match asked {
        Err(AskError::Full { limit, .. }) => Some(*limit),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[test]
fn no_more_than_a_thousand_claims_wait_for_one_lock() {
    let (mut book, lock) = (book(), name("a"));
    let first = ask(&mut book, &lock).expect("allowed");
    for _ in 1..1_000 {
        ask(&mut book, &lock).expect("there is room");
    }
    assert_eq!(full(&ask(&mut book, &lock)), Some(1_000));
    ask(&mut book, &name("b")).expect("another lock has room");
    book.release(LocalTime(2), &lock, &first).expect("it waited");
    ask(&mut book, &lock).expect("there is room again");
}

#[test]
fn a_pod_has_no_more_than_ten_thousand_claims_and_ended_ones_do_not_count() {
    let mut book = book();
    let locks: Vec<LockName> = (0..10).map(|number| name(&format!("lock-{number}"))).collect();
    let mut last = None;
    for lock in &locks {
        for _ in 0..1_000 {
            last = Some((lock, ask(&mut book, lock).expect("there is room")));
        }
    }
    assert_eq!(full(&ask(&mut book, &name("another"))), Some(10_000));
    let (lock, id) = last.expect("many");
    book.release(LocalTime(2), lock, &id).expect("it waited");
    ask(&mut book, &name("another")).expect("there is room again");
}

/// It is neither that nobody was heard of, nor that somebody holds it.
#[test]
fn a_claim_that_ends_in_the_grace_period_says_until_when() {
    let (mut book, lock) = (book(), name("a"));
    let id = ask(&mut book, &lock).expect("allowed");
    book.grace(Some(LocalTime(90)));
    let state = |book: &mut Book, id: &ClaimId| {
        book.find(LocalTime(90), &lock, id).expect("it is remembered").borrow().state.clone()
    };
    book.on_due(LocalTime(80), &lock, &id);
    let grace = ClaimState::Refused(Refusal::GracePeriod { until: LocalTime(90) });
    assert_eq!(state(&mut book, &id), grace);
    let id = ask(&mut book, &lock).expect("allowed");
    book.on_due(LocalTime(90), &lock, &id);
    assert_eq!(state(&mut book, &id), ClaimState::Refused(Refusal::NoQuorum), "it was over");
}

/// What was reported of a holder before does not state who keeps others out now.
#[test]
fn a_claim_that_learned_of_a_holder_ends_in_the_grace_period_as_others_do() {
    let (mut book, lock) = (book(), name("a"));
    let now = LocalTime(1);
    let id = ask(&mut book, &lock).expect("allowed");
    let note = LockNote {
        member: Incarnation { pod: PodUid(2), run: 1 },
        note: Note::default(),
        token: None,
        held: Duration::from_secs(1),
    };
    book.on_event(now, &lock, LockEvent::Queued(Some(Box::new(note))), |_| "b".to_owned());
    let until = now.after(TRY * 2);
    book.grace(Some(until));
    let state = |claim: &watch::Receiver<Claim>| claim.borrow().state.clone();
    let grace = ClaimState::Refused(Refusal::GracePeriod { until });
    let tried = book.ask(now, a_try(&lock), &Policy::default()).expect("allowed");
    assert_eq!(state(&tried.claim), grace);
    book.on_due(now, &lock, &id);
    assert_eq!(state(&book.find(now, &lock, &id).expect("it is remembered")), grace);
}

/// A claim of this pod holds on, and others of this pod wait for it.
#[test]
fn in_the_grace_period_a_claim_waits_for_one_of_its_own_pod_as_ever() {
    let (mut book, lock) = (book(), name("a"));
    let now = LocalTime(1);
    ask(&mut book, &lock).expect("allowed");
    enter(&mut book, &lock);
    book.grace(Some(now.after(TRY * 2)));
    let tried = book.ask(now, a_try(&lock), &Policy::default()).expect("allowed");
    let state = tried.claim.borrow().state.clone();
    assert!(matches!(state, ClaimState::Refused(Refusal::Held { holder: Some(_) })), "{state:?}");
}

#[test]
fn a_try_waits_for_the_end_of_the_grace_period_only_if_that_is_near() {
    let (mut book, lock) = (book(), name("a"));
    let now = LocalTime(1);
    let (near, far) = (now.after(TRY), now.after(TRY * 2));
    let ask = a_try(&lock);
    book.grace(Some(far));
    let asked = book.ask(now, ask.clone(), &Policy::default()).expect("allowed");
    let state = asked.claim.borrow().state.clone();
    assert_eq!(state, ClaimState::Refused(Refusal::GracePeriod { until: far }));
    assert!(book.intents.is_empty(), "the member need not ask");
    book.grace(Some(near));
    let asked = book.ask(now, ask, &Policy::default()).expect("allowed");
    assert!(matches!(asked.claim.borrow().state, ClaimState::Waiting { .. }));
}

fn lease(stamp: u64, until: u64) -> Lease {
    Lease { stamp: LocalTime(stamp * SECOND), until: LocalTime(until * SECOND), ..Lease::default() }
}

const SECOND: u64 = 1_000_000_000;

fn held(claim: &watch::Receiver<Claim>) -> Held {
    let state = claim.borrow().state.clone();
    let ClaimState::Held(held) = state else { panic!("{state:?}") };
    held
}

/// The lease of the member extends all its holds at once: a caller that watches a claim is notified, and a
/// claim that nobody watches says the same when it is looked at.
#[test]
fn a_lease_extends_the_claims_that_are_watched_and_the_others_when_they_are_looked_at() {
    let (mut book, locks) = (book(), [name("a"), name("b")]);
    let ids = locks.each_ref().map(|lock| ask(&mut book, lock).expect("allowed"));
    for lock in &locks {
        enter(&mut book, lock);
    }
    let now = LocalTime(2 * SECOND);
    let mut watched = book.find(now, &locks[0], &ids[0]).expect("it holds");
    watched.mark_unchanged();
    book.extend_all(now, lease(1, 11));
    assert!(watched.has_changed().expect("it goes on"));
    assert_eq!(held(&watched).safe_until, LocalTime(11 * SECOND));
    assert_eq!(held(&watched).ends_by, LostReason::LeaseExpired);
    book.timers.clear();
    book.extend_all(LocalTime(3 * SECOND), lease(2, 12));
    let timers: Vec<_> = book.timers.iter().map(|((lock, _), _)| lock.clone()).collect();
    assert_eq!(timers, [locks[0].clone()], "what nobody watches costs nothing");
    let other = book.find(LocalTime(3 * SECOND), &locks[1], &ids[1]).expect("it holds");
    assert_eq!(held(&other).safe_until, LocalTime(12 * SECOND));
    assert!(!held(&other).jeopardy && !held(&watched).jeopardy);

    let late = LocalTime(5 * SECOND);
    book.on_due(late, &locks[0], &ids[0]);
    assert!(held(&watched).jeopardy, "it was not extended for long");
    let other = book.find(late, &locks[1], &ids[1]).expect("it holds");
    assert!(held(&other).jeopardy);
    book.extend_all(late, lease(4, 14));
    assert!(!held(&watched).jeopardy && !held(&other).jeopardy);
}

/// A hold that the view does not know runs out, and is known again perhaps.
#[test]
fn a_lease_extends_no_claim_that_its_view_does_not_know() {
    let (mut book, lock) = (book(), name("a"));
    let id = ask(&mut book, &lock).expect("allowed");
    enter(&mut book, &lock);
    book.extend_all(LocalTime(2 * SECOND), lease(1, 11));
    let now = LocalTime(3 * SECOND);
    book.on_event(now, &lock, LockEvent::Renewed { renewed: false, listed: true }, |_| {
        String::new()
    });
    book.extend_all(now, lease(2, 12));
    let until =
        |book: &mut Book, now| held(&book.find(now, &lock, &id).expect("it holds")).safe_until;
    assert_eq!(until(&mut book, now), LocalTime(11 * SECOND));
    book.on_event(
        LocalTime(4 * SECOND),
        &lock,
        LockEvent::Renewed { renewed: true, listed: true },
        |_| String::new(),
    );
    assert_eq!(until(&mut book, now), LocalTime(11 * SECOND), "no lease of before counts");
    book.extend_all(LocalTime(5 * SECOND), lease(5, 15));
    assert_eq!(until(&mut book, now), LocalTime(15 * SECOND));
}

/// The leases of a view are shorter than those of the one before: nothing is taken back, and nothing that
/// began since lasts as long as a lease of before.
#[test]
fn a_shorter_lease_takes_nothing_back_and_gives_nothing_away() {
    let (mut book, locks) = (book(), [name("a"), name("b")]);
    let ids = locks.each_ref().map(|lock| ask(&mut book, lock).expect("allowed"));
    enter(&mut book, &locks[0]);
    book.extend_all(LocalTime(2 * SECOND), lease(1, 11));
    let entered = LockEvent::Entered {
        token: None,
        epoch: Epoch(1),
        term: Term::new(LocalTime(3 * SECOND), LocalTime(6 * SECOND), true),
        messages: 0,
    };
    book.on_event(LocalTime(3 * SECOND), &locks[1], entered, |_| String::new());
    book.extend_all(LocalTime(4 * SECOND), lease(4, 8));
    let now = LocalTime(5 * SECOND);
    let until = |book: &mut Book, place: usize| {
        held(&book.find(now, &locks[place], &ids[place]).expect("it holds")).safe_until
    };
    assert_eq!(until(&mut book, 0), LocalTime(11 * SECOND));
    assert_eq!(until(&mut book, 1), LocalTime(8 * SECOND));
}

/// What the member is asked to do, by the lock's name.
fn intents(book: &mut Book) -> Vec<(&'static str, LockName)> {
    let named = |intent| match intent {
        Intent::Enter(lock, _) => ("enter", lock),
        Intent::Exit(lock) => ("exit", lock),
        Intent::Pass(lock, _) => ("pass", lock),
    };
    std::mem::take(&mut book.intents).into_iter().map(named).collect()
}

#[test]
fn a_turn_serves_the_claims_that_waited_when_it_began_and_no_other() {
    let (mut book, lock) = (book(), name("a"));
    let ids: Vec<ClaimId> = (0..3).map(|_| ask(&mut book, &lock).expect("allowed")).collect();
    assert_eq!(intents(&mut book), [("enter", lock.clone())]);
    enter(&mut book, &lock);
    let late = ask(&mut book, &lock).expect("allowed");
    for id in &ids[..2] {
        book.release(LocalTime(3), &lock, id).expect("it holds");
        assert_eq!(intents(&mut book), [("pass", lock.clone())]);
        enter(&mut book, &lock);
    }
    book.release(LocalTime(3), &lock, &ids[2]).expect("it holds");
    let begins_anew = [("exit", lock.clone()), ("enter", lock.clone())];
    assert_eq!(intents(&mut book), begins_anew, "the members' turn comes first");
    enter(&mut book, &lock);
    book.release(LocalTime(3), &lock, &late).expect("it holds");
    assert_eq!(intents(&mut book), [("exit", lock)]);
}

#[test]
fn a_turn_goes_on_if_its_member_had_to_ask_anew_and_ends_when_its_hold_is_lost() {
    let (mut book, lock) = (book(), name("a"));
    let ids: Vec<ClaimId> = (0..4).map(|_| ask(&mut book, &lock).expect("allowed")).collect();
    enter(&mut book, &lock);
    intents(&mut book);
    let lost = LockEvent::Lost(conclave_protocols::member::LostReason::LeaseExpired);
    book.on_event(LocalTime(4), &lock, lost, |member| member.pod.to_string());
    assert_eq!(intents(&mut book), [("enter", lock.clone())]);
    book.release(LocalTime(4), &lock, &ids[1]).expect("it waits");
    assert_eq!(intents(&mut book), [], "another waits for the same entry");
    enter(&mut book, &lock);
    book.release(LocalTime(4), &lock, &ids[2]).expect("it holds");
    assert_eq!(intents(&mut book), [("pass", lock.clone())]);
    book.release(LocalTime(4), &lock, &ids[3]).expect("it waits");
    assert_eq!(intents(&mut book), [("exit", lock)], "nobody is left to be served");
}

#[test]
fn a_claim_that_is_given_up_in_a_turn_makes_no_place_for_a_latecomer() {
    let (mut book, lock) = (book(), name("a"));
    let ids: Vec<ClaimId> = (0..3).map(|_| ask(&mut book, &lock).expect("allowed")).collect();
    enter(&mut book, &lock);
    book.release(LocalTime(3), &lock, &ids[1]).expect("it waits");
    ask(&mut book, &lock).expect("allowed");
    book.release(LocalTime(3), &lock, &ids[0]).expect("it holds");
    enter(&mut book, &lock);
    intents(&mut book);
    book.release(LocalTime(3), &lock, &ids[2]).expect("it holds");
    assert_eq!(intents(&mut book), [("exit", lock.clone()), ("enter", lock)]);
}

/// A member that cannot pass a lock on asks for it like anybody.
#[test]
fn a_claim_of_a_turn_that_nobody_answers_waited_for_a_quorum() {
    let (mut book, lock) = (book(), name("a"));
    let first = ask(&mut book, &lock).expect("allowed");
    let wait = Wait::For(Duration::from_mins(1));
    let second = book.ask(LocalTime(1), Ask { wait, ..a_try(&lock) }, &Policy::default());
    let second = second.expect("allowed").claim;
    enter(&mut book, &lock);
    book.release(LocalTime(3), &lock, &first).expect("it holds");
    assert_eq!(intents(&mut book).last(), Some(&("pass", lock.clone())));
    let id = second.borrow().id.clone();
    book.on_due(LocalTime(61 * SECOND), &lock, &id);
    assert_eq!(second.borrow().state, ClaimState::Refused(Refusal::NoQuorum));
}

#[test]
fn a_renewal_moves_the_deadline_and_not_the_end_of_the_longest_hold() {
    let (mut book, lock, second) = (book(), name("a"), Duration::from_secs(1));
    let ask = |max_hold| Ask {
        wait: Wait::Forever,
        ttl: Some(second * 10),
        max_hold: Some(max_hold),
        ..a_try(&lock)
    };
    let claim =
        book.ask(LocalTime(1), ask(second * 60), &Policy::default()).expect("allowed").claim;
    let since = LocalTime(2);
    let far = Term::new(since, since.after(second * 1_000), true);
    let (token, epoch) = (FencingToken::before(Epoch(1)).successor(Epoch(1)), Epoch(1));
    let entered = LockEvent::Entered { token, epoch, term: far, messages: 0 };
    book.on_event(since, &lock, entered, |member| member.pod.to_string());
    let (id, end) = (claim.borrow().id.clone(), since.after(second * 60));
    let due = |book: &mut Book| std::mem::take(&mut book.timers).pop().and_then(|(_, at)| at);
    assert_eq!(due(&mut book), Some(since.after(second)), "it would be in jeopardy then");
    for seconds in [8, 16, 24, 32, 40, 48, 56] {
        let now = since.after(second * seconds);
        let renewed = book.renew(now, &lock, &id, None).expect("it holds");
        let ClaimState::Held(held) = renewed.state else { panic!("{:?}", renewed.state) };
        assert_eq!((held.since, renewed.max_hold), (since, second * 60));
        assert_eq!(held.safe_until, now.after(second * 10).min(end));
        let by = if held.safe_until < end { LostReason::TtlExpired } else { LostReason::MaxHold };
        assert_eq!(held.ends_by, by);
        assert_eq!(due(&mut book), Some(held.safe_until));
    }
    book.on_due(end, &lock, &id);
    assert_eq!(claim.borrow().state, ClaimState::Lost(LostReason::MaxHold));
    let most = book.ask(end, ask(second * 3_600), &Policy::default()).expect("allowed").claim;
    assert_eq!(most.borrow().max_hold, Policy::default().locks[0].max_hold, "the policy's");
}

/// Found by reading: after a pause the claim was ended by its ttl before the member saw that its lease was over.
#[test]
fn after_a_pause_the_end_of_a_hold_is_what_came_first() {
    let (mut book, lock) = (book(), name("a"));
    let ttl = Some(Duration::from_secs(3));
    let ask = Ask { wait: Wait::Forever, ttl, ..a_try(&lock) };
    let claim = book.ask(LocalTime(1), ask, &Policy::default()).expect("allowed").claim;
    enter(&mut book, &lock);
    let (id, late) = (claim.borrow().id.clone(), LocalTime(5 * SECOND));
    book.on_due(late, &lock, &id);
    assert!(held(&claim).jeopardy, "that came first");
    let (_, next) = book.timers.last().expect("another timer");
    assert_eq!(
        *next,
        Some(LocalTime(2).after(Duration::from_secs(3))),
        "the end of the lease fires before"
    );
    book.on_due(late, &lock, &id);
    assert_eq!(claim.borrow().state, ClaimState::Lost(LostReason::TtlExpired));
}

/// Found by reading: the next name that was drawn was one that a client had taken, and the timer of one claim ended
/// the other.
#[test]
fn a_client_makes_no_claim_under_a_name_that_is_drawn() {
    let (mut book, lock) = (book(), name("a"));
    let drawn = ask(&mut book, &lock).expect("allowed");
    let next = drawn.as_str().strip_suffix('1').map(|maker| format!("{maker}2"));
    let next = next.and_then(|id| ClaimId::try_from(id).ok()).expect("the first is number 1");
    let mut put = |id: &ClaimId| {
        let ask = Ask { claim: Some(id.clone()), wait: Wait::Forever, ..a_try(&lock) };
        book.ask(LocalTime(1), ask, &Policy::default())
    };
    assert!(matches!(put(&drawn), Err(AskError::Differs)), "that is there, and has no such name");
    assert!(matches!(put(&next), Err(AskError::Drawn)));
    let of_another = Incarnation { pod: PodUid(2), run: 1 };
    assert!(matches!(put(&ClaimId::draw(of_another.into(), 2)), Err(AskError::Drawn)));
    let chosen = ClaimId::try_from("run-17".to_owned()).expect("a name");
    assert!(put(&chosen).is_ok());
}

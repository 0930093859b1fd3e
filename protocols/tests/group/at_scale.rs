//! Many holds: promises, heartbeats and notifications of applications cost what has changed, not what is held.

use conclave_protocols::member::message::{Note, PeerMessage, Promise};
use conclave_protocols::member::{
    Command, Event, GROUP_MAX, LockCommand, LockEvent, OfLock, OfService,
};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND, name};

/// So many locks that nobody would list them all with each promise.
const MANY: usize = 500;

fn for_all(algorithm: LockAlgorithm) -> Policy {
    let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
    Policy { locks, ..Policy::default() }
}

fn lock(owner: usize, number: usize) -> String {
    format!("lock-{owner}-{number}")
}

/// Three members, of which each holds many locks, and whose views have begun long ago.
fn laden(policy: Policy) -> Bench {
    let mut bench = Bench::group(3, policy);
    bench.wait(SECOND * 12);
    for owner in 0..3 {
        for number in 0..MANY {
            let note = Note {
                owner: format!("owner-{owner}"),
                metadata: Some(lock(owner, number).into()),
            };
            let enter = Command::Service(
                LockCommand::Enter { lock: name(&lock(owner, number)), note }.into(),
            );
            bench.command(owner, enter);
        }
    }
    bench.wait(SECOND * 3);
    assert_all_held(&bench, &[0, 1, 2]);
    bench
}

fn assert_all_held(bench: &Bench, owners: &[usize]) {
    for owner in owners {
        let held = (0..MANY).filter(|number| bench.holds(*owner, &lock(*owner, *number))).count();
        assert_eq!(held, MANY, "of member {owner}, {:?}", bench.record().policy.locks);
    }
}

fn promise_of(message: &PeerMessage) -> &Promise {
    let PeerMessage::Promise(promise) = message else { panic!("{message:?}") };
    promise
}

fn lost(bench: &Bench) -> usize {
    let lost = |(_, event): &&(usize, Event)| {
        matches!(event, Event::Service(OfService::Lock(OfLock { event: LockEvent::Lost(_), .. })))
    };
    bench.notified.iter().filter(lost).count()
}

#[test]
fn at_rest_nothing_is_listed_and_no_hold_has_an_event() {
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::RicartAgrawala] {
        let mut bench = laden(for_all(algorithm));
        bench.forget();
        bench.wait(SECOND * 20);
        assert_all_held(&bench, &[0, 1, 2]);
        let promises: Vec<_> = bench.sent(1, 0, "promise");
        assert!(promises.len() > 50);
        for message in promises {
            let promise = promise_of(message);
            assert_eq!((promise.changes.items.len(), promise.notes.len()), (0, 0), "{algorithm:?}");
        }
        let of_locks = |(_, event): &&(usize, Event)| matches!(event, Event::Service(_));
        let events: Vec<_> = bench.notified.iter().filter(of_locks).collect();
        // The leader lists some of its own, which last longer than the others.
        let listed = 64 * 20 * 5;
        assert!(events.len() <= listed, "{algorithm:?}: {}", events.len());
        assert!(events.iter().all(|(member, _)| *member == 0), "{algorithm:?}");
        bench.exit(1, &lock(1, 7));
        bench.wait(SECOND);
        let promises = bench.sent(1, 0, "promise").into_iter();
        let listed = promises.map(|message| promise_of(message).changes.items.len());
        assert_eq!(listed.max(), Some(1), "{algorithm:?}");
    }
}

/// A view is announced once to each, and what both ends know from the view before is not sent again.
#[test]
fn a_view_change_says_each_hold_once() {
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::RicartAgrawala] {
        let mut bench = laden(for_all(algorithm));
        bench.enter(2, &lock(1, 3));
        bench.wait(SECOND);
        bench.forget();
        bench.start();
        while bench.record().members.len() < 4 {
            bench.wait(SECOND / 100);
        }
        bench.wait(SECOND * 3);
        for other in [1, 2] {
            let mut named = 0;
            for message in bench.sent(0, other, "heartbeat") {
                let PeerMessage::Heartbeat(heartbeat) = message else { panic!("{message:?}") };
                let announced = heartbeat.announcement.iter().map(|new| new.carried.holds.len());
                let listed = heartbeat.list.iter().map(|list| list.changes.items.len());
                named += announced.chain(listed).sum::<usize>();
            }
            // Its own; of locks with a coordinator, the leader's in its list; of others, everybody's.
            let all = if algorithm == LockAlgorithm::Central { 2 * MANY } else { 3 * MANY };
            assert_eq!(named, all, "{algorithm:?}: to {other}");
            let promises = bench.sent(other, 0, "promise").into_iter();
            let changes: usize =
                promises.map(|message| promise_of(message).changes.items.len()).sum();
            assert!(changes <= 4, "{algorithm:?}: {other} says what is known, {changes} times");
        }
        assert_all_held(&bench, &[0, 1, 2]);
        bench.wait(SECOND * 20);
        assert_all_held(&bench, &[0, 1, 2]);
        bench.exit(1, &lock(1, 3));
        bench.wait(SECOND);
        assert!(bench.holds(2, &lock(1, 3)), "{algorithm:?}");
    }
}

/// A member that missed the announcement asks for it when it hears of the view.
#[test]
fn a_lost_announcement_comes_again_at_once() {
    let mut bench = laden(for_all(LockAlgorithm::Central));
    let heartbeat = bench.record().timing.heartbeat;
    let (leader, other) = (bench.node(0), bench.node(2));
    bench.way(leader, other, Link::Cut);
    bench.start();
    bench.wait(heartbeat / 4);
    let epoch = bench.record().epoch;
    assert_eq!(bench.record().members.len(), 4);
    bench.forget();
    bench.free(leader, other);
    bench.wait(heartbeat);
    let promises = bench.sent(2, 0, "promise");
    assert!(promises.iter().any(|message| promise_of(message).epoch == epoch), "{promises:?}");
    bench.wait(SECOND * 5);
    assert_all_held(&bench, &[0, 1, 2]);
}

/// Whatever ends the view: everybody goes on, and a waiter learns who holds and with what metadata.
#[test]
fn all_holds_go_on_in_the_next_views_and_so_does_what_people_learn_of_them() {
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::Maekawa] {
        let mut bench = laden(for_all(algorithm));
        let epoch = bench.record().epoch;
        let joiner = bench.start();
        bench.wait(SECOND * 5);
        assert!(bench.record().epoch > epoch && bench.record().members.len() == 4);
        assert_all_held(&bench, &[0, 1, 2]);
        let epoch = bench.record().epoch;
        bench.command(0, Command::Drain);
        bench.wait(SECOND * 5);
        assert!(bench.record().epoch > epoch && bench.leader() != Some(0));
        assert_all_held(&bench, &[0, 1, 2]);
        let leader = bench.leader().expect("somebody leads");
        let holder = (1..3).find(|member| *member != leader).expect("there are two");
        bench.cut_off(leader);
        bench.stop(leader);
        bench.wait(SECOND * 5);
        assert_all_held(&bench, &[0, holder]);
        assert_eq!(lost(&bench), 0, "{algorithm:?}");
        if algorithm == LockAlgorithm::Central {
            bench.enter(joiner, &lock(holder, 3));
            bench.wait(SECOND / 100);
            let note = bench.lock_events(joiner, &lock(holder, 3)).find_map(|event| {
                if let LockEvent::Queued(note) = event { note.clone() } else { None }
            });
            let note = note.expect("it is told that it waits").note;
            let owner = (note.owner, note.metadata);
            assert_eq!(owner, (format!("owner-{holder}"), Some(lock(holder, 3).into())));
        }
    }
}

/// The leader counts, and the others hear of it with a heartbeat.
#[test]
fn a_group_that_is_full_says_so_and_when_there_is_room_again() {
    let mut bench = Bench::group(2, Policy::default());
    bench.wait(SECOND * 12);
    bench.forget();
    for number in 0..GROUP_MAX {
        let enter = Command::Service(
            LockCommand::Enter { lock: name(&lock(0, number)), note: Note::default() }.into(),
        );
        bench.command(0, enter);
    }
    bench.wait(SECOND);
    let notified = |bench: &Bench, full| {
        (0..2).all(|member| bench.notified.contains(&(member, Event::Full(full))))
    };
    assert!(notified(&bench, true) && !notified(&bench, false));
    bench.exit(0, &lock(0, 0));
    bench.wait(SECOND);
    assert!(notified(&bench, false));
}

/// A leader kept note of each name that members had held among themselves for longer than a lease, as one with
/// something to work off.
#[test]
fn names_that_come_and_go_leave_nothing_to_work_off() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = Bench::group(5, for_all(algorithm));
        bench.wait(SECOND * 2);
        let epoch = bench.record().epoch;
        let names = |round| (0..10).map(move |number| lock(round, number));
        for round in 0..5 {
            names(round).for_each(|name| bench.enter(2, &name));
            bench.wait(SECOND * 11);
            for name in names(round) {
                assert!(bench.holds(2, &name), "{algorithm:?}");
                bench.exit(2, &name);
            }
            bench.wait(SECOND);
        }
        bench.wait(SECOND * 30);
        assert_eq!(bench.record().epoch, epoch);
        // What is taken back before it was heard leaves nothing either: a new leader grants nothing yet,
        // because not all have reported what they hold.
        bench.stop(0);
        bench.stop(4);
        while bench.leader() != Some(1) {
            bench.wait(SECOND / 10);
        }
        bench.wait(SECOND);
        bench.enter(3, "taken back");
        assert!(!bench.holds(3, "taken back"));
        bench.exit(3, "taken back");
        for (member, state) in bench.members.iter().enumerate() {
            let state = format!("{:?}", state.service());
            let stirred = state.split("stirred: {").nth(1).and_then(|rest| rest.split('}').next());
            assert_eq!(stirred, Some(""), "{algorithm:?}: member {member}");
        }
    }
}

//! Locks that are spread over several coordinators: a member dies at every possible moment.

use std::time::Duration;

use conclave_protocols::election::superpeers::Key;
use conclave_protocols::locks::superpeers_of;
use conclave_protocols::member::{Event, LockEvent, OfLock, OfService};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy, SuperpeersPolicy, Timing};
use conclave_protocols::{FencingToken, LocalTime};

use crate::bench::{Bench, Death, SECOND};

const MILLI: Duration = Duration::from_millis(1);

/// Who leads the group, coordinates the lock, has it first, and is the first that waits for it.
const LEADER: usize = 0;
const COORDINATOR: usize = 1;
const HOLDER: usize = 2;
const FIRST: usize = 3;

/// Each wants the lock once.
const LINE: [usize; 4] = [HOLDER, FIRST, LEADER, COORDINATOR];

/// Members that all coordinate, and a lock that one of them does which is no leader.
fn group() -> (Bench, String) {
    let superpeers = SuperpeersPolicy { share_percent: 100 };
    let locks = vec![LockPolicy { algorithm: LockAlgorithm::Superpeers, ..LockPolicy::default() }];
    let mut bench = Bench::group(LINE.len(), Policy { locks, superpeers, ..Policy::default() });
    bench.wait(SECOND * 2);
    bench.forget();
    let record = bench.record();
    let superpeers = superpeers_of(&record.policy, &record.members);
    assert_eq!(superpeers.all().len(), LINE.len());
    let coordinator = record.rank(bench.members[COORDINATOR].me());
    let mut locks = (0..100).map(|number| format!("lock-{number}"));
    let lock = locks.find(|lock| superpeers.responsible(Key::of(lock)) == coordinator);
    (bench, lock.expect("one of them is its"))
}

/// Who entered, with which token, in order.
fn entries(bench: &Bench, lock: &str) -> Vec<(usize, Option<FencingToken>)> {
    let entry = |(member, event): &(usize, Event)| {
        let Event::Service(OfService::Lock(OfLock { lock: name, event })) = event else {
            return None;
        };
        let is_entry = name.as_str() == lock;
        if let (true, LockEvent::Entered { token, .. }) = (is_entry, event) {
            Some((*member, *token))
        } else {
            None
        }
    };
    bench.notified.iter().filter_map(entry).collect()
}

fn holder(bench: &Bench, lock: &str) -> Option<usize> {
    let holders: Vec<usize> = LINE.into_iter().filter(|one| bench.holds(*one, lock)).collect();
    assert!(holders.len() <= 1, "{holders:?} hold {lock} at {:?}", bench.now);
    holders.first().copied()
}

/// All want the lock, and the holder gives it back after more than a heartbeat, until all that live had it.
/// How long that took after the death.
fn all_enter(bench: &mut Bench, lock: &str) -> Duration {
    let Timing { heartbeat, leader_lease, member_lease, .. } = bench.policy.timing;
    let turn = heartbeat + MILLI * 20;
    let death = bench.death;
    for member in LINE {
        if !bench.is_still(member) {
            bench.enter(member, lock);
        }
    }
    let mut waiting = LINE.to_vec();
    let mut held: Option<(usize, LocalTime)> = None;
    let mut since = bench.now;
    loop {
        waiting.retain(|member| !bench.is_still(*member));
        if waiting.is_empty() {
            return bench.now - since;
        }
        if bench.death.is_some() {
            since = bench.now;
        }
        let late = since.after(member_lease + leader_lease * 3 + turn * 4);
        assert!(bench.now < late, "{death:?}: {waiting:?} never entered");
        let now = holder(bench, lock).filter(|one| waiting.contains(one));
        match (now, held) {
            (Some(one), Some((of, from))) if one == of => {
                if bench.now >= from.after(turn) {
                    bench.exit(one, lock);
                    waiting.retain(|waits| *waits != one);
                }
            }
            (now, _) => held = now.map(|one| (one, bench.now)),
        }
        bench.wait(MILLI * 10);
    }
}

/// From the first request to the last release, after each input that a member is handed: a command, a message, a timer.
/// What it sent just before arrives, or is lost with it.
#[test]
fn no_two_hold_and_all_that_live_enter_if_one_dies_at_any_moment() {
    let (bench, lock) = group();
    let begin = |death| {
        let mut bench = bench.clone();
        (bench.inputs, bench.death) = (0, death);
        bench
    };
    let mut undisturbed = begin(None);
    all_enter(&mut undisturbed, &lock);
    let order: Vec<usize> = entries(&undisturbed, &lock).iter().map(|(one, _)| *one).collect();
    assert_eq!(order, LINE);
    for member in LINE {
        let mut longest = Duration::ZERO;
        for after in 1..=undisturbed.inputs {
            for loses in [false, true] {
                let mut bench = begin(Some(Death { after, member, loses }));
                longest = longest.max(all_enter(&mut bench, &lock));
                assert!(bench.death.is_none(), "{member} did not die");
                let entries = entries(&bench, &lock);
                let tokens: Vec<_> = entries.iter().map(|(_, token)| *token).collect();
                let rise = tokens.is_sorted_by(|one, next| one.is_some() && one < next);
                assert!(rise, "{member} after {after}, {loses}: {entries:?}");
            }
        }
        println!("{member} dies after 1 to {}: at most {longest:?}", undisturbed.inputs);
    }
}

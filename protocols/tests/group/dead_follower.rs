//! What a follower that dies costs the others: nothing where the leader grants the lock to all others, and
//! its lease where the members grant it to each other. That is why a coordinator may take a member out
//! without a change of view (`docs/design.md`).

use std::time::Duration;

use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, SECOND};

const MILLI: Duration = Duration::from_millis(1);

/// Five members; one of the followers dies, and another takes a lock and gives it back all the time. The longest that
/// it waits within half a minute, and by how many views the group has gone on.
fn longest_wait(algorithm: LockAlgorithm) -> (Duration, u64) {
    let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
    let mut bench = Bench::group(5, Policy { locks, ..Policy::default() });
    bench.wait(SECOND * 12);
    let view = bench.record().epoch;
    bench.stop(4);
    let (mut longest, mut waited) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..3_000 {
        if bench.holds(1, "a") {
            bench.exit(1, "a");
            waited = Duration::ZERO;
        }
        bench.enter(1, "a");
        bench.wait(MILLI * 10);
        waited += MILLI * 10;
        longest = longest.max(waited);
    }
    (longest, bench.record().epoch.0 - view.0)
}

#[test]
fn a_dead_follower_keeps_nobody_waiting_for_a_coordinator_and_everybody_for_its_permission() {
    let timing = Policy::default().timing;
    let mut waits = Vec::new();
    for algorithm in LockAlgorithm::ALL {
        let (longest, views) = longest_wait(algorithm);
        assert!(views > 0, "{algorithm:?}: it is left out when its lease is over");
        waits.push((algorithm, longest));
    }
    println!("{waits:?}");
    for (algorithm, longest) in waits {
        if algorithm.has_coordinator() {
            assert!(longest < timing.heartbeat, "{longest:?}");
        } else if matches!(algorithm, LockAlgorithm::Lamport | LockAlgorithm::RicartAgrawala) {
            // They ask everybody.
            assert!(longest > timing.member_lease, "{algorithm:?}: {longest:?}");
        }
        assert!(
            longest < timing.member_lease + timing.leader_lease * 3,
            "{algorithm:?}: {longest:?}"
        );
    }
}

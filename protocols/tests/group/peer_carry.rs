//! One algorithm in place of another on a living group: who holds and who waits is carried over.

use std::time::Duration;

use conclave_protocols::member::{Command, LockEvent};
use conclave_protocols::policy::LockAlgorithm;

use crate::bench::{Bench, SECOND};
use crate::peer_rules::policy;

/// Changes the policy, and waits until it is in force.
fn change(bench: &mut Bench, algorithm: LockAlgorithm) {
    let generation = bench.policy.generation + 1;
    bench.policy = conclave_protocols::policy::Policy { generation, ..policy(algorithm) };
    for member in 0..bench.members.len() {
        let changed = Command::Policy(Box::new(bench.policy.clone()));
        bench.command(member, changed);
    }
    let end = bench.now.after(SECOND * 3);
    while bench.record().policy.generation != generation {
        assert!(bench.now < end, "{algorithm:?} never came into force");
        bench.wait(Duration::from_millis(20));
    }
}

fn wait_for_holder(bench: &mut Bench, among: &[usize]) -> usize {
    let end = bench.now.after(SECOND * 5);
    loop {
        let holders: Vec<usize> = (0..3).filter(|member| bench.holds(*member, "a")).collect();
        assert!(holders.len() <= 1, "{holders:?} hold");
        if let Some(holder) = holders.first().filter(|holder| among.contains(holder)) {
            return *holder;
        }
        assert!(bench.now < end, "none of {among:?} got in: {:?}", bench.record().policy.locks);
        bench.wait(Duration::from_millis(10));
    }
}

#[test]
fn whoever_holds_goes_on_and_whoever_waits_gets_in_whatever_takes_the_place_of_what() {
    for from in LockAlgorithm::ALL {
        for to in LockAlgorithm::ALL {
            let mut bench = Bench::group(3, policy(from));
            bench.enter(1, "a");
            wait_for_holder(&mut bench, &[1]);
            bench.enter(2, "a");
            bench.enter(0, "a");
            bench.wait(SECOND);
            change(&mut bench, to);
            bench.wait(SECOND * 12);
            assert!(bench.holds(1, "a"), "{from:?} to {to:?}: the holder goes on");
            let lost = bench.told.iter().any(|(_, event)| {
                matches!(event, conclave_protocols::member::Event::Lock(_, LockEvent::Lost(_)))
            });
            assert!(!lost, "{from:?} to {to:?}");
            bench.exit(1, "a");
            let second = wait_for_holder(&mut bench, &[0, 2]);
            bench.exit(second, "a");
            let third = wait_for_holder(&mut bench, &[2 - second]);
            bench.exit(third, "a");
            bench.enter(1, "a");
            wait_for_holder(&mut bench, &[1]);
            let token = |member| *bench.tokens(member, "a").last().expect("it held");
            let tokens = [bench.tokens(1, "a")[0], token(second), token(third), token(1)];
            assert!(tokens.is_sorted_by(|a, b| a < b), "{from:?} to {to:?}: {tokens:?}");
        }
    }
}

/// The holder leaves while the view is changed: nobody is left out.
#[test]
fn a_lock_that_comes_free_as_the_view_changes_goes_to_whoever_waits() {
    for from in LockAlgorithm::ALL {
        for to in LockAlgorithm::ALL {
            let mut bench = Bench::group(3, policy(from));
            bench.enter(2, "a");
            wait_for_holder(&mut bench, &[2]);
            bench.enter(1, "a");
            bench.wait(SECOND);
            let waits = bench.now;
            let changed = Command::Policy(Box::new(conclave_protocols::policy::Policy {
                generation: 1,
                ..policy(to)
            }));
            bench.command(0, changed);
            while !bench.holds(1, "a") {
                bench.exit(2, "a");
                bench.wait(Duration::from_millis(1));
                assert!(bench.now < waits.after(SECOND * 5), "{from:?} to {to:?}");
            }
        }
    }
}

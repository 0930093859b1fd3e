//! A register that is slow to answer, or does not answer for a while.

use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::Policy;
use conclave_protocols::register::Message::Unknown;

use crate::bench::{Bench, Link, SECOND};
use crate::nodes::{Ask, Mood};
use crate::weather::BRIEF;
use crate::world::World;

/// A nominee gave the register a third of the leader lease, each time anew, and if that was slower, nobody ever led.
#[test]
fn a_register_that_answers_later_than_a_nominee_first_waits_has_another_lead_all_the_same() {
    for lag in [100, 250, 500, 900, 1_500].map(Duration::from_millis) {
        for dead in [1, 2] {
            let mut world = World::new(6, 3, Policy { timing: BRIEF, ..Policy::default() });
            world.run_for(SECOND * 4);
            let (leader, epoch) = (world.leaders()[0], world.record().epoch);
            world.register(Ask::Mood(Mood { lag, ..Mood::default() }));
            (0..dead).for_each(|other| world.crash((leader + other) % 3));
            world.run_for(SECOND * 30);
            assert_eq!(world.leaders().len(), 1, "{lag:?}, {dead} of three died");
            assert!(world.record().epoch > epoch);
        }
    }
}

/// One of three lives, and waits for the last promise of the others, which takes 5 s and 600 ms from now on.
fn one_that_waits() -> (Bench, usize) {
    let mut bench = Bench::group(3, Policy { timing: BRIEF, ..Policy::default() });
    let leader = bench.leader().expect("a group has one");
    let (lives, dies) = ((leader + 1) % 3, (leader + 2) % 3);
    bench.stop(leader);
    bench.stop(dies);
    wait_until(&mut bench, |bench| bench.record().closing);
    (bench, lives)
}

fn wait_until(bench: &mut Bench, is_so: impl Fn(&Bench) -> bool) {
    for _ in 0..500 {
        if is_so(bench) {
            return;
        }
        bench.wait(SECOND / 100);
    }
    panic!("not within five seconds");
}

/// A read that was not answered in time had it give up, and the wait for the last promise began anew.
#[test]
fn rule_15_a_candidate_that_waits_for_the_last_promise_needs_no_register_until_then() {
    let (mut bench, lives) = one_that_waits();
    bench.wait(SECOND);
    bench.link(bench.node(lives), Node::Register, Link::Cut);
    bench.wait(SECOND * 3);
    bench.free(bench.node(lives), Node::Register);
    assert!(bench.record().closing);
    bench.wait(SECOND * 2);
    assert_eq!(bench.leader(), Some(lives));
}

/// Though the register was silent until just now, and the answer to its write might have taken its time.
#[test]
fn rule_18_a_call_that_comes_to_nothing_at_once_is_repeated_as_soon_as_at_first() {
    let (mut bench, lives) = one_that_waits();
    bench.link(bench.node(lives), Node::Register, Link::Cut);
    bench.wait(SECOND * 7 / 2);
    // What it asked last gets no answer, and is over before it writes.
    bench.refuses = Some(Unknown);
    bench.free(bench.node(lives), Node::Register);
    bench.forget();
    wait_until(&mut bench, |bench| bench.calls(lives, "write") == 1);
    bench.wait(BRIEF.leader_lease / 3 + SECOND / 50);
    assert_eq!(bench.calls(lives, "write"), 2);
}

//! A register that answers reads and carries no write out.

use conclave_protocols::member::Command;
use conclave_protocols::policy::Policy;
use conclave_protocols::register::Message::{Declined, Unknown};

use crate::bench::{Bench, SECOND};

/// The writes of all within that many seconds.
fn writes(bench: &mut Bench, seconds: u32) -> usize {
    bench.forget();
    bench.wait(SECOND * seconds);
    (0..bench.members.len()).map(|member| bench.calls(member, "write")).sum()
}

#[test]
fn rule_18_a_write_that_comes_to_nothing_is_not_repeated_in_haste() {
    for (members, refused) in
        [(1, Declined as fn(_) -> _), (3, Declined), (1, Unknown), (3, Unknown)]
    {
        let mut bench = Bench::group(members, Policy::default());
        bench.refuses = Some(refused);
        bench.start();
        // One in a third of a leader lease, for each that tries.
        let tried = writes(&mut bench, 12);
        assert!((4..=24 * (members + 1)).contains(&tried), "{members}, {tried}");
        bench.refuses = None;
        bench.wait(SECOND * 20);
        assert!(bench.leader().is_some(), "{members}");
        assert_eq!(bench.record().members.len(), members + 1);
    }
}

/// A record with a policy that has no room in the register, say: the same is not written for ever.
#[test]
fn rule_18_a_candidate_that_was_declined_writes_what_is_wanted_later() {
    let mut bench = Bench::group(1, Policy::default());
    bench.refuses = Some(Declined);
    let policy = |generation| Box::new(Policy { generation, ..Policy::default() });
    bench.command(0, Command::Policy(policy(1)));
    assert!(writes(&mut bench, 12) > 2);
    bench.command(0, Command::Policy(policy(2)));
    bench.wait(SECOND);
    bench.refuses = None;
    bench.forget();
    bench.wait(SECOND * 5);
    assert_eq!((bench.leader(), bench.record().policy.generation), (Some(0), 2));
    assert_eq!(bench.calls(0, "write"), 1, "one view was written, that of the later policy");
}

//! What a leader shows of names: all that the others hold and wait for, while it surely leads, and nothing after that.

use conclave_protocols::policy::Policy;
use conclave_protocols::{HoldName, LockName};

use crate::bench::{Bench, SECOND};

fn orders() -> HoldName {
    LockName::try_from("orders".to_owned()).expect("a name")
}

/// It cannot know yet that another leads: its own clock says so.
#[test]
fn a_leader_whose_leader_lease_is_over_shows_nothing() {
    let mut bench = Bench::group(3, Policy::default());
    bench.enter(1, "orders");
    bench.enter(2, "orders");
    bench.wait(SECOND);
    let leader = |bench: &Bench| {
        let leader = &bench.members[0];
        let shown = leader.shown(bench.now, &orders());
        let named = leader.names_shown(bench.now).any(|name| *name == orders());
        (leader.knows_all(bench.now), named, shown)
    };
    let (knows_all, named, shown) = leader(&bench);
    assert!(knows_all && named);
    let shown = shown.expect("it leads");
    assert_eq!(shown.holder.map(|holder| holder.member), Some(bench.members[1].me()));
    let waits: Vec<_> = shown.waiting.iter().map(|(member, _)| *member).collect();
    assert_eq!(waits, [bench.members[2].me()]);

    bench.stop(0);
    bench.wait(Policy::default().timing.leader_lease);
    assert_eq!(leader(&bench), (false, false, None));
}

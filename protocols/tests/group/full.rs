//! A group has a limit: what becomes of the pod that is one too many.

use std::time::Duration;

use conclave_protocols::member::{Command, Event};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::{MEMBERS_MAX, MemberInfo};

use crate::bench::{Bench, SECOND, info};

#[test]
fn a_member_that_is_one_too_many_waits_for_a_place_and_changes_no_view() {
    let mut bench = Bench::new(Policy::default());
    bench.start();
    bench.wait(SECOND * 2);
    for _ in 1..MEMBERS_MAX {
        bench.start();
    }
    bench.wait(SECOND * 3);
    assert_eq!(bench.record().members.len(), MEMBERS_MAX);
    let epoch = bench.record().epoch;
    bench.forget();
    let refused = bench.start();
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().epoch, epoch);
    assert!(bench.members[refused].is_one_too_many());
    assert!(bench.notified.contains(&(0, Event::Ignored("full"))));
    bench.command(5, Command::Leave);
    bench.wait(SECOND * 2);
    assert!(bench.record().rank(bench.members[refused].me()).is_some(), "there is a place for it");
    assert!(!bench.members[refused].is_one_too_many());
}

/// Without an arbiter everybody chooses among those that discovery found, in whatever order.
#[test]
fn of_more_than_fit_in_the_same_are_taken_without_an_arbiter() {
    let mut bench = Bench::new(Policy { arbiter: Arbiter::None, ..Policy::default() });
    let mut found: Vec<MemberInfo> = (1..300).map(|index| info(index, 7)).collect();
    bench.start();
    bench.command(0, Command::Peers(found.clone()));
    bench.wait(SECOND * 10);
    let record = bench.members[0].record().expect("it leads").clone();
    assert_eq!((record.members.len(), bench.leader()), (MEMBERS_MAX, Some(0)));
    for _ in 0..5 {
        found.rotate_left(50);
        bench.command(0, Command::Peers(found.clone()));
        bench.wait(Duration::from_secs(2));
        let epoch = bench.members[0].record().map(|record| record.epoch);
        assert_eq!(epoch, Some(record.epoch));
    }
}

//! Since when the leader of a view may begin a group time.

use std::time::Duration;

use conclave_protocols::clock::{NextView, Succession, Transfer, VirtualClock};
use conclave_protocols::{Epoch, Incarnation, LocalTime, PodUid};

use crate::still::rates;

const SECOND: u64 = 1_000_000_000;
const LEASE: Duration = Duration::from_secs(15);

fn view(epoch: u64, base: u64, members: &[u128]) -> NextView {
    let member = |pod: &u128| Incarnation { pod: PodUid(*pod), run: 1 };
    NextView {
        epoch: Epoch(epoch),
        base: Some(Epoch(base)),
        members: members.iter().map(member).collect(),
        leads_since: Some(LocalTime(0)),
        leader_lease: LEASE,
        longest_leader_lease: LEASE,
        is_arbitrated: true,
    }
}

/// A process that enters views at these seconds: since when it may begin a time in each.
fn begins_from(views: &[(u64, NextView)]) -> Vec<u64> {
    let mut transfer = Transfer::new(VirtualClock::new(0, rates()));
    let mut succession = Succession::default();
    let enter = |(second, next): &(u64, NextView)| {
        succession.enter(LocalTime(second * SECOND), next.clone(), &mut transfer);
        succession.begins_from().0 / SECOND
    };
    views.iter().map(enter).collect()
}

#[test]
fn the_first_view_begins_its_time_at_once_and_so_does_the_group_that_grows_from_it() {
    let grows = [(10, view(1, 0, &[1])), (20, view(2, 1, &[1, 2])), (30, view(3, 2, &[1, 2, 3]))];
    assert_eq!(begins_from(&grows), [0, 0, 0]);
}

#[test]
fn a_group_that_grows_waits_once() {
    // The process is of the second pod.
    let grows = [
        (20, view(2, 1, &[1, 2])),
        (25, view(3, 2, &[1, 2, 3])),
        (30, view(4, 3, &[1, 2, 3, 4, 5])),
        (50, view(5, 4, &[1, 2, 3, 4, 5])),
    ];
    assert_eq!(begins_from(&grows), [35; 4]);
}

#[test]
fn a_view_that_leaves_a_member_out_or_that_was_missed_is_waited_for_anew() {
    let left_out = [
        (20, view(2, 1, &[1, 2])),
        (25, view(3, 2, &[2, 3])),
        (27, view(4, 3, &[2, 3, 4])),
        (28, view(5, 4, &[2, 3, 1])),
    ];
    assert_eq!(begins_from(&left_out), [35, 40, 40, 43]);
    // Nobody is missing, but the leader of the third view is not known.
    let missed = [(20, view(2, 1, &[1, 2])), (25, view(4, 3, &[1, 2, 3]))];
    assert_eq!(begins_from(&missed), [35, 40]);
    let unknown = NextView { base: None, ..view(3, 2, &[1, 2, 3]) };
    assert_eq!(begins_from(&[(20, view(2, 1, &[1, 2])), (25, unknown)]), [35, 40]);
}

/// A process need not have been in the view with the longer leases.
#[test]
fn leases_of_an_earlier_view_may_have_been_longer() {
    let brief = |view: NextView| NextView { leader_lease: LEASE / 5, ..view };
    let views = [
        (30, brief(view(3, 2, &[2, 3]))),
        (31, brief(view(4, 3, &[2, 3, 4]))),
        (32, brief(view(5, 4, &[2]))),
    ];
    assert_eq!(begins_from(&views), [45, 45, 47]);
}

/// Nobody outside the view counts. But a member of it may have missed one while there was an arbiter: it is asked before.
#[test]
fn where_nothing_arbitrates_nobody_waits() {
    let alone = |view: NextView| NextView { is_arbitrated: false, ..view };
    let views = [
        (20, alone(view(2, 1, &[1, 2, 3]))),
        (30, alone(view(3, 2, &[2, 3]))),
        (31, alone(view(4, 3, &[2, 3, 4]))),
    ];
    assert_eq!(begins_from(&views), [20, 30, 30]);
    assert_eq!(begins_from(&[(10, alone(view(1, 0, &[1])))]), [0]);
    // When something does again, those are waited for that were left in a view with an arbiter.
    let again =
        [(20, alone(view(2, 1, &[2, 3]))), (21, view(3, 2, &[2, 3])), (22, view(4, 3, &[2, 3]))];
    assert_eq!(begins_from(&again), [20, 36, 36]);
}

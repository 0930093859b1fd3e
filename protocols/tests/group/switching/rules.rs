//! The rules of a change, one by one, on a bench.

use conclave_protocols::Epoch;
use conclave_protocols::member::message::{Announced, Message, PeerMessage};
use conclave_protocols::member::{Command, LockEvent, Node};
use conclave_protocols::policy::{Arbiter, LockAlgorithm, LockPolicy, Policy};
use conclave_protocols::record::Record;

use super::policy;
use crate::bench::{Bench, SECOND, info};
use crate::kit::heartbeat_of;

/// A bench whose group had an arbiter and has none.
fn bare(members: usize) -> Bench {
    let mut bench = Bench::group(members, policy(1, Arbiter::Quorum));
    tell(&mut bench, &policy(2, Arbiter::None));
    bench.wait(SECOND * 3);
    assert!(bench.members.iter().all(|member| member.arbiter() == Arbiter::None));
    assert!(!bench.record().settled, "of a view without an arbiter nobody knows who holds what");
    bench
}

fn tell(bench: &mut Bench, policy: &Policy) {
    for member in 0..bench.members.len() {
        bench.command(member, Command::Policy(Box::new(policy.clone())));
    }
}

#[test]
fn a_register_that_was_emptied_is_not_taken_for_new() {
    let mut bench = bare(3);
    bench.register.put(None);
    bench.forget();
    bench.enter(0, "a");
    tell(&mut bench, &policy(3, Arbiter::Quorum));
    bench.wait(SECOND * 30);
    assert!(bench.calls(0, "read") > 0, "its leader asked");
    assert!(bench.holds(0, "a"));
    let lost = bench.lock_events(0, "a").any(|event| matches!(event, LockEvent::Lost(_)));
    assert!(!lost, "and does not switch in vain");
    assert!(bench.register.record().is_none(), "its keeper makes it anew");
    assert!(bench.members.iter().all(|member| member.arbiter() == Arbiter::None));
}

#[test]
fn a_closed_group_that_a_backup_brought_back_is_no_ground_to_begin_on() {
    let mut bench = bare(3);
    let present = bench.record().clone();
    let epoch = Epoch(present.epoch.0 - 30);
    let old = Record {
        epoch,
        leader: None,
        settled: true,
        policy: policy(1, Arbiter::Quorum),
        ..present
    };
    bench.register.put(Some(old));
    tell(&mut bench, &policy(3, Arbiter::Quorum));
    bench.wait(SECOND * 3);
    assert_eq!(bench.record().epoch, epoch, "a leader lease of a later view may live");
    bench.wait(SECOND * 40);
    assert!(bench.record().epoch > present.epoch);
    assert!(bench.members.iter().all(|member| member.arbiter() == Arbiter::Quorum));
}

#[test]
fn until_discovery_has_answered_the_members_of_the_last_view_elect() {
    let mut bench = bare(3);
    bench.stop(0);
    bench.wait(SECOND * 5);
    let leader = |member: usize| bench.members[member].record().and_then(|record| record.leader);
    assert_eq!(leader(1), leader(2));
    assert!(bench.members[1..].iter().any(|member| member.leader_lease() > Some(bench.now)));
}

/// What somebody sends that leads a view of that policy.
fn heartbeat(bench: &Bench, from: usize, epoch: Epoch, policy: Policy) -> PeerMessage {
    let mut record = Record { epoch, policy, ..bench.record().clone() };
    record.leader = Some(info(from, 7).incarnation);
    if record.members.len() <= from {
        record.members.push(info(from, 7));
    }
    heartbeat_of(epoch, Announced::Whole(record))
}

#[test]
fn a_member_that_promised_enters_no_view_without_an_arbiter_of_somebody_else() {
    let mut bench = Bench::group(3, policy(1, Arbiter::Quorum));
    let stranger = info(3, 7).incarnation;
    let epoch = Epoch(bench.record().epoch.0 + 50);
    let announced = heartbeat(&bench, 3, epoch, policy(2, Arbiter::None));
    for member in [0, 1] {
        bench.deliver(stranger, member, announced.clone());
        assert_eq!(bench.members[member].arbiter(), Arbiter::Quorum);
    }
    bench.cut_off(1);
    bench.wait(SECOND);
    bench.deliver(stranger, 1, announced);
    assert_eq!(bench.members[1].arbiter(), Arbiter::None, "nobody holds its promise any more");
    // A policy that is not newer changes nothing.
    let older = heartbeat(&bench, 0, Epoch(epoch.0 + 1), policy(2, Arbiter::Quorum));
    bench.deliver(info(0, 7).incarnation, 1, older);
    assert_eq!(bench.members[1].arbiter(), Arbiter::None);
}

#[test]
fn what_was_left_with_the_arbiter_stays_refused() {
    let mut bench = Bench::group(3, policy(1, Arbiter::Quorum));
    let left = bench.record().epoch;
    tell(&mut bench, &policy(2, Arbiter::None));
    bench.wait(SECOND * 3);
    let leader = info(0, 7).incarnation;
    for (epoch, arbiter) in [(left, Arbiter::None), (Epoch(left.0 + 100), Arbiter::Quorum)] {
        bench.deliver(leader, 1, heartbeat(&bench, 0, epoch, policy(3, Arbiter::Quorum)));
        assert_eq!(bench.members[1].arbiter(), arbiter);
    }
}

#[test]
fn no_process_leads_two_views_of_one_number() {
    let mut bench = bare(3);
    let led = bench.members[0].record().expect("it leads").epoch;
    let other = heartbeat(&bench, 3, Epoch(2), policy(2, Arbiter::None));
    bench.deliver(info(3, 7).incarnation, 0, other);
    assert_eq!(bench.members[0].record().map(|record| record.epoch), Some(Epoch(2)));
    bench.stop(1);
    bench.stop(2);
    bench.wait(SECOND * 10);
    let again = bench.members[0].record().expect("it leads again");
    assert_eq!(again.leader, Some(info(0, 7).incarnation));
    assert!(again.epoch > led);
}

#[test]
fn a_follower_whose_leader_is_slow_to_hear_of_an_arbiter_finds_it_in_the_register() {
    let mut bench = Bench::new(policy(1, Arbiter::None));
    for _ in 0..3 {
        bench.start();
    }
    for member in 0..3 {
        bench.command(member, Command::Discovered((0..3).map(|index| info(index, 7)).collect()));
    }
    bench.wait(SECOND * 3);
    let present = bench.members[1].record().expect("it is in a view").clone();
    let begun = Record { epoch: Epoch(20), policy: policy(3, Arbiter::Quorum), ..present };
    bench.register.put(Some(begun));
    bench.command(1, Command::Policy(Box::new(policy(3, Arbiter::Quorum))));
    bench.wait(SECOND);
    assert_eq!(bench.members[1].arbiter(), Arbiter::Quorum);
}

#[test]
fn a_member_that_was_in_no_view_goes_by_its_policy() {
    let mut bench = Bench::new(policy(1, Arbiter::Quorum));
    bench.lost = Some("read");
    bench.start();
    bench.command(0, Command::Policy(Box::new(policy(2, Arbiter::None))));
    bench.command(0, Command::Discovered(Vec::new()));
    bench.wait(SECOND * 3);
    assert_eq!(bench.members[0].arbiter(), Arbiter::None);
    assert_eq!(bench.leader(), Some(0));
    let mut bench = Bench::new(policy(1, Arbiter::None));
    bench.start();
    bench.command(0, Command::Policy(Box::new(policy(2, Arbiter::Quorum))));
    bench.wait(SECOND);
    assert_eq!(bench.record().policy.arbiter, Arbiter::Quorum);
    assert_eq!(bench.leader(), Some(0));
}

#[test]
fn a_member_that_has_no_arbiter_seals_nothing_and_asks_the_register() {
    let mut bench = bare(3);
    let epoch = bench.members[1].record().expect("it is in a view").epoch;
    bench.cut_off(1);
    bench.wait(SECOND / 2);
    bench.forget();
    bench.deliver(info(2, 7).incarnation, 1, PeerMessage::SealRequest { base: epoch });
    assert!(bench.sent(1, 2, "seal").is_empty() && bench.sent(1, 2, "seal_refused").is_empty());
    assert_eq!(bench.calls(1, "read"), 1);
}

/// Views without an arbiter number themselves. One of them had the number of a view with one, and a
/// reply from the first admitted a second member to a lock in the other.
#[test]
fn whatever_was_sent_without_an_arbiter_counts_for_nothing_with_one() {
    for algorithm in LockAlgorithm::ALL {
        let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
        let with =
            |generation, arbiter| Policy { locks: locks.clone(), ..policy(generation, arbiter) };
        let mut bench = Bench::group(3, with(1, Arbiter::Quorum));
        tell(&mut bench, &with(2, Arbiter::None));
        bench.wait(SECOND * 3);
        bench.command(0, Command::Leave);
        bench.wait(SECOND * 3);
        let begun = bench.members[1].record().expect("it is in a view").epoch;
        assert!(begun.is_unarbitrated(), "{algorithm:?}: {begun}");
        for member in [2, 1] {
            bench.enter(member, "a");
            bench.wait(SECOND);
            bench.exit(member, "a");
            bench.enter(member, "a");
            bench.wait(SECOND);
        }
        let messages: Vec<_> = std::mem::take(&mut bench.sent);
        tell(&mut bench, &with(3, Arbiter::Quorum));
        let end = bench.now.after(SECOND * 60);
        let is_safe = |bench: &Bench| bench.members[1].arbiter() == Arbiter::Quorum;
        while !(is_safe(&bench) && bench.holds(1, "a")) {
            assert!(bench.now < end, "{algorithm:?}: it never got in");
            bench.wait(SECOND / 100);
        }
        bench.enter(2, "a");
        assert!(!bench.record().epoch.is_unarbitrated());
        let leader_leases = |bench: &Bench| {
            bench.members.iter().map(|member| member.leader_lease()).collect::<Vec<_>>()
        };
        let before = leader_leases(&bench);
        for (from, to, message) in messages {
            let to = (1..3).find(|member| bench.node(*member) == to);
            if let (Node::Member(from), Some(to), Message::Peer(message)) = (from, to, message) {
                bench.deliver(from, to, message);
            }
        }
        assert!(
            bench.holds(1, "a") && !bench.holds(2, "a"),
            "{algorithm:?}: two are in the critical section"
        );
        assert_eq!(leader_leases(&bench), before, "{algorithm:?}");
        bench.exit(1, "a");
        bench.wait(SECOND);
        assert!(bench.holds(2, "a"), "{algorithm:?}: no link has a gap");
    }
}

//! Rule 14, evidence of death: the kubelet reported that the container of exactly one process has
//! terminated.

use std::time::Duration;

use conclave_protocols::member::Command;
use conclave_protocols::policy::{Evidence, Policy};
use conclave_protocols::{Incarnation, PodUid};

use crate::bench::{Bench, SECOND};
use crate::storm::Storm;
use crate::weather::{BRIEF, blow};

const MILLI: Duration = Duration::from_millis(1);

fn believing() -> Policy {
    Policy { evidence: Evidence::ContainerStatus, ..Policy::default() }
}

/// These members crash, and nobody has seen evidence yet.
fn group(members: usize, policy: Policy, dead: &[usize]) -> Bench {
    let mut bench = Bench::group(members, policy);
    bench.wait(SECOND * 2);
    for member in dead {
        bench.stop(*member);
    }
    bench
}

/// Notifies a member that these are dead.
fn tell(bench: &mut Bench, member: usize, dead: &[usize]) {
    for one in dead {
        let dead = bench.members[*one].me();
        bench.command(member, Command::Evidence(dead));
    }
}

/// Waits until the register has another view.
fn next_view(bench: &mut Bench, limit: Duration) -> Duration {
    let (begin, epoch) = (bench.now, bench.record().epoch);
    while bench.record().epoch == epoch {
        assert!(bench.now - begin < limit, "no view within {limit:?}");
        bench.wait(MILLI * 10);
    }
    bench.now - begin
}

#[test]
fn rule_14_a_dead_leader_ends_its_leader_lease_alone() {
    let mut bench = group(5, believing(), &[0, 3, 4]);
    bench.wait(SECOND * 2);
    assert!(bench.record().leader == Some(bench.members[0].me()), "two of five seals are too few");
    tell(&mut bench, 1, &[0]);
    tell(&mut bench, 2, &[0]);
    next_view(&mut bench, SECOND * 3);
    assert_eq!(bench.record().members.len(), 2);
    bench.wait(SECOND);
    assert!(bench.leader().is_some());
}

/// Its application may lead for the time of which it was notified, and that time was a P at most.
#[test]
fn rule_14_a_dead_leader_counts_only_after_the_leader_lease() {
    let wait = Policy::default().timing.leader_lease;
    let mut bench = group(3, believing(), &[0, 1]);
    bench.wait(SECOND * 2);
    let epoch = bench.record().epoch;
    tell(&mut bench, 2, &[0]);
    bench.wait(wait * 99 / 100);
    assert_eq!(bench.record().epoch, epoch);
    next_view(&mut bench, SECOND);
}

#[test]
fn rule_14_a_dead_follower_counts_as_a_seal_after_the_leader_lease() {
    let wait = Policy::default().timing.leader_lease;
    let mut bench = group(5, believing(), &[0, 3, 4]);
    bench.wait(SECOND * 2);
    let epoch = bench.record().epoch;
    tell(&mut bench, 1, &[4]);
    tell(&mut bench, 2, &[4]);
    bench.wait(wait * 99 / 100);
    assert_eq!(bench.record().epoch, epoch, "it may have promised just before it died");
    next_view(&mut bench, SECOND);
    assert_eq!(bench.record().members.len(), 2);
}

#[test]
fn rule_14_another_process_of_the_pod_proves_nothing() {
    let mut bench = group(3, believing(), &[0, 1]);
    let epoch = bench.record().epoch;
    for member in [0, 1] {
        let other = Incarnation { run: 8, ..bench.members[member].me() };
        bench.command(2, Command::Evidence(other));
    }
    bench.command(2, Command::Evidence(Incarnation { pod: PodUid(77), run: 7 }));
    bench.wait(SECOND * 60);
    assert_eq!(bench.record().epoch, epoch);
}

#[test]
fn rule_14_no_evidence_is_taken_unless_the_view_says_so() {
    assert_eq!(Policy::default().evidence, Evidence::None);
    let mut bench = group(3, Policy::default(), &[0, 1]);
    let epoch = bench.record().epoch;
    tell(&mut bench, 2, &[0, 1]);
    // The resource was edited, but the view still runs with what it had.
    let policy = Policy { generation: 1, ..believing() };
    bench.command(2, Command::Policy(Box::new(policy)));
    bench.wait(SECOND * 60);
    assert_eq!(bench.record().epoch, epoch);
}

#[test]
fn rule_14_two_of_three_dead_do_not_cost_the_register_wait() {
    for survivor in [0, 1, 2] {
        let dead: Vec<usize> = (0..3).filter(|member| *member != survivor).collect();
        let mut bench = group(3, believing(), &dead);
        let died = bench.now;
        bench.wait(SECOND);
        tell(&mut bench, survivor, &dead);
        next_view(&mut bench, SECOND * 10);
        bench.wait(SECOND);
        assert_eq!(bench.leader(), Some(survivor));
        assert!(bench.now - died < Policy::default().timing.api_outage / 4);
    }
}

/// Nobody of the view lives: a new process takes over.
#[test]
fn rule_14_a_joiner_takes_over_from_the_dead() {
    let mut bench = group(3, believing(), &[0, 1, 2]);
    let joiner = bench.start();
    tell(&mut bench, joiner, &[0, 1, 2]);
    next_view(&mut bench, SECOND * 10);
    bench.wait(SECOND);
    assert_eq!(bench.leader(), Some(joiner));
}

/// What its application holds it holds until the deadline of which it was notified.
#[test]
fn rule_14_locks_of_the_dead_stay_busy_for_their_lease() {
    let mut bench = Bench::group(3, believing());
    bench.wait(SECOND * 2);
    bench.enter(1, "a");
    bench.wait(SECOND);
    let notified = bench.deadline(1, "a").expect("it holds");
    for member in [0, 1] {
        bench.stop(member);
    }
    tell(&mut bench, 2, &[0, 1]);
    let (seen, wait) = (bench.now, bench.record().timing.member_lease);
    next_view(&mut bench, SECOND * 6);
    bench.enter(2, "a");
    while !bench.holds(2, "a") {
        assert!(bench.now < seen.after(wait + SECOND), "the wait counts from the evidence");
        bench.wait(MILLI * 10);
    }
    assert!(bench.now > notified);
}

/// Evidence that is older than any lease of the dead leaves nothing to wait for.
#[test]
fn rule_14_old_evidence_saves_the_grace_period() {
    let mut bench = group(5, believing(), &[4]);
    tell(&mut bench, 1, &[4]);
    tell(&mut bench, 2, &[4]);
    tell(&mut bench, 3, &[4]);
    bench.wait(SECOND * 10);
    assert_eq!(bench.record().members.len(), 5, "the leader has not left it out yet");
    bench.stop(0);
    next_view(&mut bench, SECOND * 4);
    bench.wait(MILLI * 50);
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "without a grace period");
}

/// Of a record that was lost nobody knows whose death would count.
#[test]
fn rule_14_evidence_says_nothing_about_a_lost_record() {
    let mut bench = group(3, believing(), &[0, 1]);
    let mut lost = bench.record().clone();
    (lost.base_unknown, lost.closing) = (true, true);
    bench.register.put(Some(lost));
    tell(&mut bench, 2, &[0, 1]);
    let took = next_view(&mut bench, SECOND * 90);
    assert!(took > bench.policy.timing.api_outage);
}

/// A storm in which many crash, and their deaths are reported.
fn deadly(members: usize, api_outage: Duration) -> Storm {
    let mut storm = Storm { deadly: true, ..Storm::of(members, BRIEF) };
    storm.policy.evidence = Evidence::ContainerStatus;
    storm.policy.timing.api_outage = api_outage;
    storm
}

#[test]
fn three_members_of_which_many_crash_with_evidence() {
    blow(&deadly(3, BRIEF.api_outage), 100);
}

#[test]
fn five_members_of_which_many_crash_with_evidence() {
    blow(&deadly(5, Duration::from_secs(20)), 100);
}

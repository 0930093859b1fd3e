//! The arbiter of a living group is taken away, and given back.

#[path = "switching/group.rs"]
mod group;
#[path = "switching/random.rs"]
mod random;
#[path = "switching/rules.rs"]
mod rules;

use conclave_protocols::member::LostReason;
use conclave_protocols::policy::{Arbiter, Policy};

use self::group::Group;
use crate::bench::SECOND;
use crate::nodes::{Ask, Mood};
use crate::weather::BRIEF;

fn policy(generation: i64, arbiter: Arbiter) -> Policy {
    Policy { generation, arbiter, timing: BRIEF, ..Policy::default() }
}

/// A group with an arbiter.
fn safe(seed: u64, members: usize) -> Group {
    let mut group = Group::new(seed, members, policy(1, Arbiter::Quorum));
    group.run_until("all follow one", SECOND * 10, |group| group.all_are(Arbiter::Quorum));
    group
}

/// A group whose arbiter was taken away.
fn advisory(seed: u64, members: usize) -> Group {
    let mut group = safe(seed, members);
    group.set_arbiter(Arbiter::None);
    group.run_until("it is advisory", SECOND * 10, |group| group.all_are(Arbiter::None));
    group.discover();
    group.run_for(SECOND * 3);
    group
}

/// Who does not lead, in the order of their numbers.
fn followers(group: &Group) -> Vec<usize> {
    let leader = group.leader().expect("one leads");
    group.living().into_iter().filter(|index| *index != leader).collect()
}

#[test]
fn what_is_held_goes_on_as_advisory_when_the_arbiter_is_taken_away() {
    for seed in 0..20 {
        let mut group = safe(seed, 5);
        let (leader, others) = (group.leader().expect("one leads"), followers(&group));
        group.enter(others[0], "a");
        group.enter(leader, "b");
        group.run_for(SECOND);
        group.enter(others[1], "a");
        group.run_for(SECOND);
        group.set_arbiter(Arbiter::None);
        let took = group.run_until("all switch", SECOND * 5, |group| group.all_are(Arbiter::None));
        assert!(took < SECOND, "seed {seed}: with the view, in {took:?}");
        assert!(!group.register().settled && group.register().policy.arbiter == Arbiter::None);
        group.run_for(SECOND * 10);
        group.discover();
        group.run_for(SECOND * 10);
        assert!(group.lost.is_empty(), "seed {seed}: {:?}", group.lost);
        assert!(group.holds(others[0], "a") && group.holds(leader, "b"), "seed {seed}");
        group.exit(others[0], "a");
        group.run_for(SECOND);
        assert!(group.holds(others[1], "a"), "seed {seed}: the next in line");
        assert!(group.is_safe_hold(others[1], "a").is_none(), "seed {seed}: without a promise");
    }
}

#[test]
fn a_member_that_missed_that_the_arbiter_was_taken_away_reads_of_it() {
    for seed in 0..20 {
        let mut group = safe(seed, 5);
        let cut_off = followers(&group)[0];
        group.world.isolate(cut_off);
        group.run_for(SECOND);
        group.set_arbiter(Arbiter::None);
        group.run_for(SECOND * 5);
        assert_eq!(group.arbiter(cut_off), Some(Arbiter::Quorum), "seed {seed}");
        group.heal();
        group.run_until("it switches", SECOND * 2, |group| {
            group.arbiter(cut_off) == Some(Arbiter::None)
        });
        group.discover();
        group.run_until("all follow one", SECOND * 5, |group| group.all_are(Arbiter::None));
    }
}

#[test]
fn advisory_holds_end_before_a_safe_grant_and_waiters_keep_their_place() {
    for seed in 0..20 {
        let mut group = advisory(seed, 5);
        let others = followers(&group);
        let line = [others[2], group.leader().expect("one leads"), others[0], others[3]];
        group.enter(others[1], "a");
        group.run_for(SECOND);
        for member in line {
            group.enter(member, "a");
            group.run_for(SECOND / 5);
        }
        group.set_arbiter(Arbiter::Quorum);
        group.run_until("all switch", SECOND * 10, |group| group.all_are(Arbiter::Quorum));
        assert_eq!(group.lost, [(others[1], LostReason::ViewChange)], "seed {seed}");
        assert!(line.iter().all(|member| group.wants(*member, "a")), "seed {seed}: they wait on");
        group.enter(others[1], "a");
        for member in line.into_iter().chain([others[1]]) {
            group.run_until("the next", SECOND * 5, |group| group.holders("a").len() == 1);
            assert_eq!(group.holders("a"), [member], "seed {seed}");
            assert!(group.is_safe_hold(member, "a").is_some(), "seed {seed}");
            group.exit(member, "a");
        }
    }
}

#[test]
fn a_safe_grant_comes_a_member_lease_after_the_arbiter_and_not_before() {
    let mut group = advisory(3, 3);
    let member = followers(&group)[0];
    group.set_arbiter(Arbiter::Quorum);
    group.run_until("all switch", SECOND * 10, |group| group.all_are(Arbiter::Quorum));
    group.enter(member, "a");
    group.run_for(BRIEF.member_lease.saturating_sub(SECOND / 2));
    assert!(group.holders("a").is_empty());
    group.run_for(SECOND);
    assert_eq!(group.holders("a"), [member]);
}

#[test]
fn a_group_that_never_had_an_arbiter_begins_with_everybody() {
    for seed in 0..20 {
        let mut group = Group::new(seed, 4, policy(1, Arbiter::None));
        group.run_until("one leads", SECOND * 10, |group| group.all_are(Arbiter::None));
        let others = followers(&group);
        group.enter(others[1], "a");
        group.run_for(SECOND);
        group.enter(others[2], "a");
        group.run_for(SECOND);
        group.enter(others[0], "a");
        group.run_for(SECOND);
        group.set_arbiter(Arbiter::Quorum);
        group.run_until("all switch", SECOND * 5, |group| group.all_are(Arbiter::Quorum));
        assert_eq!(group.register().epoch.0, group.first_epoch(), "seed {seed}: one view for all");
        group.run_until("the first in line", SECOND * 5, |g| g.holders("a") == [others[2]]);
    }
}

#[test]
fn of_two_sides_one_switches_and_the_other_joins_it() {
    for seed in 0..20 {
        let mut group = advisory(seed, 5);
        group.world.split(&[0, 1]);
        group.run_for(SECOND * 5);
        group.enter(0, "a");
        group.enter(3, "a");
        group.run_for(SECOND * 3);
        assert_eq!(group.holders("a"), [0, 3], "seed {seed}: advisory on both sides");
        group.set_arbiter(Arbiter::Quorum);
        group.run_for(SECOND * 12);
        assert!(group.lost.iter().any(|(member, _)| *member == 0), "seed {seed}");
        assert!(group.lost.iter().any(|(member, _)| *member == 3), "seed {seed}");
        group.heal();
        group.run_until("one group", SECOND * 20, |group| group.all_are(Arbiter::Quorum));
    }
}

#[test]
fn a_switch_that_meets_another_write_reads_again() {
    for seed in 0..20 {
        let mut group = advisory(seed, 3);
        let slow = Mood { slow: SECOND / 8, ..Mood::default() };
        group.ask_register(Ask::Mood(slow));
        group.set_arbiter(Arbiter::Quorum);
        for _ in 0..20 {
            group.run_for(SECOND / 20);
            group.ask_register(Ask::Touch);
        }
        group.run_until("all switch", SECOND * 20, |group| group.all_are(Arbiter::Quorum));
    }
}

#[test]
fn a_joiner_with_a_newer_policy_takes_over_from_the_dead_and_waits_for_safe_holds_of_before() {
    for seed in 0..20 {
        let mut group = safe(seed, 3);
        let holder = followers(&group)[0];
        group.enter(holder, "a");
        group.run_for(SECOND);
        group.world.isolate(holder);
        group.set_arbiter(Arbiter::None);
        group.run_until("switched", SECOND * 5, |group| {
            group.register().policy.arbiter == Arbiter::None
        });
        for index in 0..3 {
            group.world.crash(index);
        }
        group.change(Arbiter::Quorum);
        let joiner = group.join();
        group.enter(joiner, "a");
        // While the old hold may run, the group checks that nobody else is notified of one.
        group.run_until("it holds", SECOND * 12, |group| group.holds(joiner, "a"));
    }
}

#[test]
fn a_joiner_without_an_arbiter_leaves_a_group_with_one_alone() {
    for seed in 0..20 {
        let mut group = safe(seed, 3);
        let (leader, holder) = (group.leader().expect("one leads"), followers(&group)[0]);
        group.enter(holder, "a");
        group.run_for(SECOND);
        let epoch = group.register().epoch;
        group.change(Arbiter::None);
        let joiner = group.join();
        group.discover();
        group.run_for(SECOND * 20);
        assert_eq!(group.arbiter(joiner), Some(Arbiter::None), "seed {seed}");
        assert_eq!((group.register().epoch, group.leader()), (epoch, Some(leader)), "seed {seed}");
        assert!(group.is_safe_hold(holder, "a").is_some(), "seed {seed}");
        group.set_arbiter(Arbiter::None);
        group.run_for(SECOND * 2);
        group.discover();
        group.run_until("one group", SECOND * 20, |group| group.all_are(Arbiter::None));
        assert!(group.lost.is_empty(), "seed {seed}: {:?}", group.lost);
    }
}

#[test]
fn a_joiner_takes_the_arbiter_from_the_register_unless_its_own_policy_is_newer() {
    let mut group = advisory(1, 3);
    // It was slow to hear that the arbiter was taken away.
    let late = group.join_with(policy(1, Arbiter::Quorum));
    group.run_for(SECOND * 3);
    assert_eq!(group.arbiter(late), Some(Arbiter::None));
    group.discover();
    group.run_until("it belongs", SECOND * 10, |group| group.all_are(Arbiter::None));
    // It is the first to hear that there is an arbiter again.
    group.change(Arbiter::Quorum);
    let early = group.join();
    group.run_for(SECOND * 5);
    assert_eq!(group.arbiter(early), Some(Arbiter::Quorum), "it waits for the others");
    assert_eq!(group.register().policy.arbiter, Arbiter::None);
    group.set_arbiter(Arbiter::Quorum);
    group.run_until("all switch", SECOND * 10, |group| group.all_are(Arbiter::Quorum));
}

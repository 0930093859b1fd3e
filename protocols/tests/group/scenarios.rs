//! What a group does, step by step.

use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::{ElectionAlgorithm, Policy};

use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn five_members_become_one_group_with_one_leader() {
    let mut world = World::new(1, 5, Policy::default());
    world.run_for(SECOND * 4);
    assert_eq!(world.leaders().len(), 1);
    assert_eq!(world.record().members.len(), 5);
}

#[test]
fn the_ring_serves_as_well_as_the_bully() {
    let policy = Policy { election: ElectionAlgorithm::Ring, ..Policy::default() };
    let mut world = World::new(2, 5, policy);
    world.run_for(SECOND * 4);
    let first = world.leaders()[0];
    world.crash(first);
    world.run_for(SECOND * 4);
    assert_eq!(world.leaders().len(), 1);
    assert_ne!(world.leaders()[0], first);
}

#[test]
fn a_lock_is_held_by_one_at_a_time_and_tokens_rise() {
    let mut world = World::new(3, 5, Policy::default());
    world.run_for(SECOND * 4);
    for member in 0..5 {
        world.enter(member, "orders");
    }
    world.run_for(SECOND);
    for _ in 0..5 {
        let holder = world.holder("orders").expect("somebody holds");
        world.exit(holder, "orders");
        world.run_for(SECOND / 10);
    }
    assert_eq!(world.holder("orders"), None);
    assert_eq!(world.seen.grants, 5);
}

#[test]
fn after_a_crash_of_the_leader_another_leads_and_locks_of_the_living_survive() {
    for seed in 0..20 {
        let mut world = World::new(seed, 5, Policy::default());
        world.run_for(SECOND * 4);
        let leader = world.leaders()[0];
        let follower = (0..5).find(|m| *m != leader).expect("there are five");
        world.enter(follower, "kept");
        world.enter(leader, "lost");
        world.run_for(SECOND);
        assert_eq!(world.holder("kept"), Some(follower));
        let (epoch, lists) = (world.record().epoch, world.record().lists());
        world.crash(leader);
        world.run_for(SECOND * 3);
        assert_eq!(world.leaders().len(), 1, "seed {seed}");
        assert!(world.record().epoch > epoch);
        assert_eq!(world.holder("kept"), Some(follower), "seed {seed}");
        let third = (0..5).find(|m| *m != leader && *m != follower).expect("there are five");
        world.enter(third, "lost");
        world.enter(third, "free");
        world.run_for(SECOND);
        assert_eq!(world.holder("free"), Some(third), "seed {seed}");
        // If all could report it, its application was notified of a lease, like anybody's.
        let holder = if lists { leader } else { third };
        assert_eq!(world.holder("lost"), Some(holder), "seed {seed}");
        world.run_for(SECOND * 10);
        assert_eq!(world.holder("lost"), Some(third), "seed {seed}");
    }
}

#[test]
fn a_dead_followers_lock_comes_free_after_the_member_lease_and_not_before() {
    let mut world = World::new(5, 5, Policy::default());
    world.run_for(SECOND * 4);
    let leader = world.leaders()[0];
    let follower = (0..5).find(|m| *m != leader).expect("there are five");
    world.enter(follower, "orders");
    world.run_for(SECOND);
    world.crash(follower);
    world.enter(leader, "orders");
    world.run_for(SECOND * 9);
    assert!(!world.holders("orders").contains(&leader));
    world.run_for(SECOND * 2);
    assert_eq!(world.holder("orders"), Some(leader));
}

#[test]
fn a_hand_over_takes_milliseconds_and_keeps_every_lock() {
    let mut world = World::new(6, 5, Policy::default());
    world.run_for(SECOND * 4);
    let leader = world.leaders()[0];
    let follower = (0..5).find(|m| *m != leader).expect("there are five");
    world.enter(follower, "orders");
    world.run_for(SECOND);
    world.drain(leader);
    world.run_for(SECOND / 10);
    assert_eq!(world.leaders().len(), 1);
    assert_ne!(world.leaders()[0], leader);
    world.run_for(SECOND * 12);
    assert_eq!(world.holder("orders"), Some(follower));
}

/// Without a drain before it nobody can wait until the applications have taken the end.
#[test]
fn a_leader_that_leaves_without_draining_is_succeeded_at_once_and_believed_in_for_a_leader_lease() {
    let mut world = World::new(6, 5, Policy::default());
    world.run_for(SECOND * 4);
    let leader = world.leaders()[0];
    let follower = (0..5).find(|m| *m != leader).expect("there are five");
    world.leave(leader);
    world.run_for(SECOND / 10);
    let [next] = world.with_a_lease()[..] else { panic!("{:?} are leading", world.with_a_lease()) };
    assert_ne!(next, leader);
    world.enter(follower, "orders");
    world.run_for(SECOND / 10);
    assert_eq!(world.holder("orders"), Some(follower), "the group's own work does not wait");
    assert!(world.leaders().is_empty());
    world.run_for(SECOND * 2);
    assert_eq!(world.leaders(), [next]);
}

#[test]
fn a_view_change_in_which_the_leader_stays_is_no_loss() {
    let mut world = World::new(6, 3, Policy::default());
    world.run_for(SECOND * 4);
    let (leader, epoch) = (world.leaders()[0], world.record().epoch);
    let follower = (0..3).find(|m| *m != leader).expect("there are three");
    let goes_on = |world: &mut World, span: u32| {
        for _ in 0..span {
            world.run_for(SECOND / 1_000);
            assert_eq!(world.leaders(), [leader], "it leads at every moment");
        }
    };
    world.join();
    goes_on(&mut world, 3_000);
    world.leave(follower);
    goes_on(&mut world, 3_000);
    assert!(world.record().epoch.0 > epoch.0 + 1, "two views began");
    assert_eq!(world.lost_leader_leases, 0);
}

#[test]
fn the_last_to_leave_closes_the_group_and_the_next_begins_at_once() {
    let mut world = World::new(7, 3, Policy::default());
    world.run_for(SECOND * 4);
    for _ in 0..3 {
        let leader = world.leaders()[0];
        world.leave(leader);
        world.run_for(SECOND * 2);
    }
    assert_eq!(world.record().leader, None);
    let epoch = world.record().epoch;
    world.join();
    world.run_for(SECOND);
    assert_eq!(world.with_a_lease().len(), 1);
    assert!(world.leaders().is_empty(), "who asked the last leader may still go by its answer");
    assert!(world.record().epoch > epoch);
    world.run_for(SECOND);
    assert_eq!(world.leaders(), world.with_a_lease());
}

/// The highest ranks must not be elected again before the one that can begin a view had its turn.
#[test]
fn the_only_survivor_that_reaches_the_register_leads_in_the_end() {
    for seed in 0..20 {
        let mut world = World::new(seed, 7, Policy::default());
        world.run_for(SECOND * 10);
        let leader = world.leaders()[0];
        let survivors: Vec<usize> = (0..7).filter(|member| *member != leader).collect();
        let able = survivors[usize::try_from(seed).expect("small") % survivors.len()];
        for member in survivors.into_iter().filter(|member| *member != able) {
            world.part(Node::Register, world.node(member));
        }
        world.crash(leader);
        let led = |world: &World| world.leaders() == [able];
        let took = world.run_until("a leader", SECOND * 40, led);
        println!("seed {seed}: {took:?}");
    }
}

/// As when a deployment is recreated, or scaled to zero: the member that the leader hands over to has left
/// by then.
#[test]
fn all_that_leave_at_once_close_the_group_whichever_is_first() {
    for first in 0..3 {
        let mut world = World::new(17, 3, Policy::default());
        world.run_for(SECOND * 4);
        let leader = world.leaders()[0];
        let order = (0..3).map(|step| (leader + first + step) % 3);
        order.for_each(|member| world.leave(member));
        // Kubernetes leaves a sidecar two seconds after its application has ended.
        world.run_for(SECOND * 3 / 2);
        assert_eq!(world.record().leader, None, "the leader left as number {}", (3 - first) % 3);
        let epoch = world.record().epoch;
        world.join();
        world.run_for(SECOND);
        assert_eq!(world.with_a_lease().len(), 1);
        assert!(world.record().epoch > epoch);
    }
}

/// The lock of a member that left is busy for its lease, also when the group was closed meanwhile.
#[test]
fn a_closed_group_remembers_that_somebody_may_still_hold() {
    let mut world = World::new(18, 3, Policy::default());
    world.run_for(SECOND * 4);
    let leader = world.leaders()[0];
    let holder = (leader + 1) % 3;
    world.enter(holder, "orders");
    world.run_for(SECOND);
    assert_eq!(world.holder("orders"), Some(holder));
    (0..3).for_each(|step| world.leave((holder + step) % 3));
    world.run_for(SECOND * 3 / 2);
    assert_eq!(world.record().leader, None);
    let next = world.join();
    world.enter(next, "orders");
    // That nobody else holds meanwhile is checked at every step.
    world.run_until("the next holder", SECOND * 14, |world| world.holder("orders") == Some(next));
}

#[test]
fn a_whole_group_killed_at_once_comes_back_after_the_longest_wait() {
    let mut world = World::new(8, 3, Policy::default());
    world.run_for(SECOND * 4);
    for member in 0..3 {
        world.crash(member);
    }
    world.join();
    world.join();
    world.run_for(SECOND * 60);
    assert!(world.leaders().is_empty(), "a leader lease of the old view could still live");
    world.run_for(SECOND * 15);
    assert_eq!(world.leaders().len(), 1);
}

#[test]
fn the_register_may_be_away_for_a_while() {
    let mut world = World::new(9, 5, Policy::default());
    world.run_for(SECOND * 4);
    world.cut_register();
    world.run_for(SECOND * 40);
    let member = world.leaders()[0];
    world.enter(member, "orders");
    world.run_for(SECOND);
    assert_eq!(world.holder("orders"), Some(member));
    world.run_for(SECOND * 40);
    assert!(world.leaders().is_empty(), "nobody confirmed the view for longer than apiOutage");
    world.heal();
    world.run_for(SECOND * 20);
    assert_eq!(world.leaders().len(), 1);
}

#[test]
fn a_changed_algorithm_reaches_everybody() {
    let mut world = World::new(10, 5, Policy::default());
    world.run_for(SECOND * 4);
    let policy = Policy { generation: 2, election: ElectionAlgorithm::Ring, ..Policy::default() };
    world.set_policy(&policy);
    world.run_for(SECOND * 2);
    assert_eq!(world.record().policy, policy);
    assert_eq!(world.leaders().len(), 1);
}

#[test]
fn a_leader_in_the_minority_stops_before_the_majority_goes_on() {
    for election in ElectionAlgorithm::ALL {
        for seed in 0..20 {
            let mut world = World::new(seed, 5, Policy { election, ..Policy::default() });
            world.run_for(SECOND * 4);
            let (leader, epoch) = (world.leaders()[0], world.record().epoch);
            world.enter(leader, "orders");
            world.run_for(SECOND);
            world.isolate(leader);
            let other = (0..5).find(|m| *m != leader).expect("there are five");
            world.enter(other, "orders");
            world.run_for(SECOND * 15);
            assert_eq!(world.holder("orders"), Some(other), "{election:?}, seed {seed}");
            world.heal();
            world.run_for(SECOND * 15);
            assert_eq!(world.leaders().len(), 1, "{election:?}, seed {seed}");
            assert!(world.record().epoch > epoch, "{election:?}, seed {seed}");
            let members = world.record().members.len();
            assert_eq!(members, 5, "{election:?}, seed {seed}: the old leader is back");
            world.check_history();
        }
    }
}

/// Three on one side and two on the other, which led at first.
#[test]
fn in_a_partition_one_side_has_a_leader_and_after_it_heals_all_have_the_same() {
    for election in ElectionAlgorithm::ALL {
        for seed in 0..20 {
            let mut world = World::new(seed, 5, Policy { election, ..Policy::default() });
            world.run_for(SECOND * 4);
            let (leader, epoch) = (world.leaders()[0], world.record().epoch);
            let other = (0..5).rfind(|member| *member != leader).expect("there are five");
            world.split(&[leader, other]);
            for _ in 0..200 {
                world.run_for(SECOND / 10);
                let led = world.with_a_lease().len();
                assert!(led <= 1, "{election:?}, seed {seed}: {led} lead");
            }
            let next = world.leaders();
            assert_eq!(next.len(), 1, "{election:?}, seed {seed}");
            assert!(![leader, other].contains(&next[0]), "{election:?}, seed {seed}");
            world.heal();
            world.run_for(SECOND * 15);
            assert_eq!(world.leaders(), next, "{election:?}, seed {seed}: as before");
            let record = world.record();
            assert!(record.epoch > epoch && record.members.len() == 5, "{election:?}, seed {seed}");
            world.check_history();
        }
    }
}

impl World {
    /// Which of the living have a leader lease, whatever their applications believe.
    pub(crate) fn with_a_lease(&self) -> Vec<usize> {
        let leader_lease =
            |index: usize| self.member(index).and_then(|member| member.leader_lease());
        self.living().filter(|index| leader_lease(*index) > Some(self.clock(*index))).collect()
    }
}

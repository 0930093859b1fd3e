//! The arbiter `None`: as in the textbook, the elected member leads.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::{Arbiter, ElectionAlgorithm, Policy};

use crate::kit::Command;
use crate::world::{DRIFT, Variety, World};

const SECOND: Duration = Duration::from_secs(1);

fn policy(election: ElectionAlgorithm) -> Policy {
    Policy { arbiter: Arbiter::None, election, ..Policy::default() }
}

fn five(seed: u64) -> World {
    five_that_elect_by(ElectionAlgorithm::Bully, seed)
}

fn five_that_elect_by(election: ElectionAlgorithm, seed: u64) -> World {
    let mut world = World::new(seed, 5, policy(election));
    world.run_until("one leads", SECOND * 10, led_by_one);
    world
}

fn led_by_one(world: &World) -> bool {
    let Some(leader) = world.leader() else { return false };
    let leader = world.incarnation(leader);
    world.living().all(|index| {
        let record = world.member(index).and_then(|member| member.record());
        record.and_then(|record| record.leader) == Some(leader)
    })
}

#[test]
fn a_member_that_is_elected_leads_and_asks_no_register() {
    for election in ElectionAlgorithm::ALL {
        let mut world = World::new(1, 5, policy(election));
        world.run_until("one leads", SECOND * 10, led_by_one);
        world.run_for(SECOND * 20);
        assert_eq!(world.leaders().len(), 1);
        assert_eq!(world.sim.sent("read") + world.sim.sent("write"), 0);
        let asked = world.living().all(|index| world.sim.node(world.node(index)).is_some());
        assert!(asked && world.sim.sent("seal_request") == 0);
    }
}

#[test]
fn the_highest_rank_leads_and_after_its_crash_the_next() {
    let mut world = five(2);
    let highest = (0..5).max_by_key(|index| world.incarnation(*index)).expect("there are five");
    assert_eq!(world.leader(), Some(highest));
    world.crash(highest);
    world.run_until("the next leads", SECOND * 10, |world| {
        world.leader().is_some_and(|leader| leader != highest) && led_by_one(world)
    });
    let next = world.living().max_by_key(|index| world.incarnation(*index));
    assert_eq!(world.leader(), next);
}

#[test]
fn locks_are_granted_one_at_a_time_and_without_a_token() {
    let mut world = five(3);
    for member in 0..5 {
        world.enter(member, "a");
    }
    for _ in 0..5 {
        world.run_until("somebody holds", SECOND * 5, |world| world.holder("a").is_some());
        assert_eq!(world.holders("a").len(), 1);
        let holder = world.holder("a").expect("just seen");
        world.exit(holder, "a");
    }
}

#[test]
fn locks_of_the_living_survive_a_crash_of_the_leader() {
    for seed in 0..20 {
        let mut world = five(seed);
        let leader = world.leader().expect("one leads");
        let others: Vec<usize> = (0..5).filter(|index| *index != leader).collect();
        world.enter(others[0], "a");
        world.run_for(SECOND * 3);
        assert_eq!(world.holders("a"), [others[0]], "seed {seed}");
        world.enter(others[1], "a");
        world.crash(leader);
        world.run_for(SECOND * 15);
        assert_eq!(world.holders("a"), [others[0]], "seed {seed}");
        world.exit(others[0], "a");
        world.run_for(SECOND);
        assert_eq!(world.holders("a"), [others[1]], "seed {seed}");
    }
}

#[test]
fn in_a_partition_each_side_has_a_leader_and_it_heals_to_one() {
    for election in ElectionAlgorithm::ALL {
        let mut world = five_that_elect_by(election, 4);
        let mut by_rank: Vec<usize> = (0..5).collect();
        by_rank.sort_by_key(|index| world.incarnation(*index));
        let side = by_rank[3..].to_vec();
        world.split(&side);
        world.run_for(SECOND * 10);
        assert_eq!(
            world.leaders().into_iter().collect::<BTreeSet<_>>(),
            [by_rank[2], by_rank[4]].into(),
            "{election:?}: the highest of each side"
        );
        for member in [by_rank[0], by_rank[3]] {
            world.enter(member, "a");
        }
        world.run_for(SECOND * 2);
        let holders = world.holders("a").len();
        assert_eq!(holders, 2, "nothing makes it safe: that is why it is advisory");
        world.heal();
        world.run_until("one leads again", SECOND * 10, led_by_one);
        assert_eq!(world.leader(), Some(by_rank[4]), "{election:?}");
        world.run_for(SECOND * 12);
        assert_eq!(world.holders("a").len(), 1, "{election:?}: and one of them loses it");
    }
}

#[test]
fn members_come_and_go() {
    let mut world = five(5);
    let sixth = world.join();
    world.run_for(SECOND * 4);
    assert!(led_by_one(&world));
    world.enter(sixth, "a");
    world.run_for(SECOND);
    assert_eq!(world.holder("a"), Some(sixth));
    let leader = world.leader().expect("one leads");
    world.leave(leader);
    world.discover();
    world.run_for(SECOND * 4);
    assert!(led_by_one(&world));
    assert_eq!(world.holder("a"), Some(sixth));
    let record = world.member(sixth).and_then(|member| member.record()).expect("it is in a view");
    assert_eq!(record.members.len(), 5);
}

#[test]
fn a_frozen_leader_finds_another_when_it_thaws_and_one_remains() {
    for election in ElectionAlgorithm::ALL {
        let mut world = five_that_elect_by(election, 6);
        let leader = world.leader().expect("one leads");
        world.enter(leader, "a");
        world.run_for(SECOND);
        world.freeze(leader);
        world.run_for(SECOND * 6);
        assert_eq!(world.leaders().len(), 1, "{election:?}");
        assert_ne!(world.leader(), Some(leader), "{election:?}");
        world.thaw(leader);
        world.run_until("one leads", SECOND * 10, led_by_one);
    }
}

#[test]
fn a_member_that_knows_of_no_peers_waits() {
    let mut world = World::new(7, 0, policy(ElectionAlgorithm::Bully));
    world.silent_discovery = true;
    world.join();
    world.run_for(SECOND * 20);
    assert!(world.leaders().is_empty());
    world.silent_discovery = false;
    world.discover();
    world.run_until("it leads alone", SECOND * 5, |world| world.leaders().len() == 1);
}

/// Of the priorities 0, 1, 2, 0 and 1: the third leads, and the fifth those on its side of a cut, of which there are no
/// others. Discovery loses the third meanwhile.
#[test]
fn a_leader_of_a_higher_priority_is_followed_although_discovery_lost_it_and_another_has_a_higher_rank()
 {
    let variety = Variety { priorities: true, ..Variety::default() };
    let mut world = World::with_variety(8, 5, policy(ElectionAlgorithm::Bully), DRIFT, variety);
    world.run_until("one leads", SECOND * 10, led_by_one);
    assert_eq!(world.leader(), Some(2), "of the highest priority");
    world.split(&[4]);
    world.run_for(SECOND * 10);
    let leaders: BTreeSet<_> = world.leaders().into_iter().collect();
    assert_eq!(leaders, [2, 4].into(), "one on each side");
    let found: Vec<_> = [0, 1, 3, 4].map(|index| world.info(index)).into();
    for index in [0, 1, 3] {
        world.command(index, Command::Discovered(found.clone()));
    }
    world.heal();
    let [third, fifth] = [2, 4].map(|index| world.node(index));
    world.sim.cut(third, fifth);
    world.sim.cut(fifth, third);
    for _ in 0..1_000 {
        world.run_for(SECOND / 100);
        for index in [0, 1, 3] {
            let record = world.member(index).and_then(|member| member.record());
            let leader = record.and_then(|record| record.leader);
            assert_eq!(leader, Some(world.incarnation(2)), "whom {index} follows");
        }
    }
    world.heal();
    world.run_until("one leads", SECOND * 10, led_by_one);
    assert_eq!(world.leader(), Some(2));
}

/// Random faults; in the end one leads, and everybody gets every lock.
#[test]
fn after_any_weather_one_leads() {
    for seed in 0..200 {
        let mut world = World::new(seed, 4, policy(ElectionAlgorithm::Bully));
        for _ in 0..40 {
            let all = world.count() as u64;
            let one = usize::try_from(world.sim.random().up_to(all)).expect("small");
            let other = usize::try_from(world.sim.random().up_to(all)).expect("small");
            let living = world.living().count();
            match world.sim.random().up_to(12) {
                0 if living > 1 => world.crash(one),
                1 if living < 6 => {
                    world.join();
                }
                2 => world.isolate(one),
                3 => world.part(world.node(one), world.node(other)),
                4 => world.freeze(one),
                5 => world.heal(),
                6 => world.drain(one),
                7 | 8 => world.exit(one, "a"),
                0..=1 | 9.. => world.enter(one, "a"),
            }
            let span = world.sim.random().below(SECOND * 3);
            world.run_for(span);
        }
        world.heal();
        world.discover();
        world.run_until("one leads", SECOND * 20, led_by_one);
        world.run_for(SECOND * 25);
        for index in world.living().collect::<Vec<_>>() {
            world.exit(index, "a");
            world.enter(index, "a");
        }
        for _ in world.living().collect::<Vec<_>>() {
            world.run_until("a", SECOND * 20, |world| {
                world.holder("a").is_some_and(|holder| world.wants(holder, "a"))
            });
            let holder = world.holder("a").expect("just seen");
            world.exit(holder, "a");
        }
        assert!(matches!(world.node(0), Node::Member(_)));
    }
}

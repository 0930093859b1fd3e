//! A leader whose own raw clock is not what is assumed finds that out by the others, if most of them say so.

use conclave_protocols::clock::{HOLD_NS, State, Transfer, VirtualClock};
use conclave_protocols::policy::ClockAlgorithm;
use conclave_protocols::{Incarnation, LocalTime};

use crate::pods::incarnation;
use crate::still::leading;
use crate::weather::{SEEDS, converge, world};
use crate::world::{SECOND, World};

const NOW: LocalTime = LocalTime(SECOND);

fn transfer(clock: VirtualClock, leads: bool) -> Transfer {
    let mut transfer = Transfer::new(clock);
    transfer.enter(leads.then_some(LocalTime(0)), true, false);
    transfer
}

fn links(count: usize, broken: &[usize]) -> impl Iterator<Item = (Incarnation, bool)> {
    (0..count).map(|index| (incarnation(index), broken.contains(&index)))
}

fn is_disrupted(transfer: &Transfer, raw: u64) -> bool {
    transfer.map().reading(raw).state == State::Disrupted
}

#[test]
fn most_links_of_a_leader_have_to_be_broken() {
    for (count, broken, expected) in [
        (4, &[][..], false),
        (4, &[2], false),
        (4, &[1, 2], false),
        (4, &[0, 1, 3], true),
        (2, &[1], false),
        (2, &[0, 1], true),
        (1, &[0], true),
    ] {
        let mut leader = transfer(leading(0), true);
        let is_found = leader.links_of_leader(NOW, links(count, broken));
        assert_eq!(
            (is_found, is_disrupted(&leader, NOW.0)),
            (expected, expected),
            "{broken:?} of {count}"
        );
        // What its algorithm does changes nothing of that.
        leader.adjusted(NOW, &leading(0));
        assert_eq!(is_disrupted(&leader, NOW.0 + HOLD_NS - 1), expected, "{broken:?} of {count}");
        leader.links_of_leader(LocalTime(NOW.0 + SECOND), links(count, &[]));
        assert!(!is_disrupted(&leader, NOW.0 + HOLD_NS), "{broken:?} of {count}");
        let mut follower = transfer(leading(0), false);
        follower.links_of_leader(NOW, links(count, broken));
        assert!(!is_disrupted(&follower, NOW.0), "it goes by its leader's link");
    }
}

/// A clock that was stopped contradicts each of the others when its next packet comes.
#[test]
fn links_that_break_soon_after_one_another_count_together() {
    for (apart, expected) in [(SECOND, true), (HOLD_NS + 1, false)] {
        let mut leader = transfer(leading(0), true);
        let later = LocalTime(NOW.0 + apart);
        leader.links_of_leader(NOW, links(3, &[0]));
        leader.links_of_leader(later, links(3, &[2]));
        assert_eq!(is_disrupted(&leader, later.0), expected, "{apart} ns apart");
        // One that has left the view counts no more.
        let mut leader = transfer(leading(0), true);
        leader.links_of_leader(NOW, links(3, &[2]));
        leader.links_of_leader(later, links(2, &[0]));
        assert!(!is_disrupted(&leader, later.0), "{apart} ns apart");
    }
}

/// Without clock probes. The others' clocks are right, and so is all that they say.
#[test]
fn a_daemon_that_most_answers_contradict_is_disrupted_and_one_that_one_contradicts_is_not() {
    let mut runs = 0;
    for seed in 0..SEEDS {
        for (wrong, expected) in [(4, true), (2, false)] {
            let mut world = world(seed);
            if world.settings.algorithm != ClockAlgorithm::Berkeley {
                continue;
            }
            runs += 1;
            world.probes = false;
            converge(&mut world);
            let end = world.now + 10 * SECOND;
            world.run_until(end, &mut |world| assert!(!leader_is_disrupted(world), "seed {seed}"));
            world.members[wrong].rate_ppb += 10_000_000;
            let mut is_found = false;
            world.run_unchecked(end + 5 * SECOND, &mut |world| {
                is_found |= leader_is_disrupted(world);
            });
            assert_eq!(is_found, expected, "seed {seed}: m{wrong} is wrong");
        }
    }
    assert!(runs > 20, "{runs}");
}

fn leader_is_disrupted(world: &World) -> bool {
    let leader = &world.members[4];
    leader.published.reading(leader.raw(world.now)).state == State::Disrupted
}

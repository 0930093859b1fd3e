//! What a policy assumes of clocks changes on a living group.

use conclave_protocols::clock::{
    ClockMap, Correction, Params, Rates, Shown, Transfer, VirtualClock,
};
use conclave_protocols::random::Random;
use conclave_protocols::{Epoch, LocalTime};

use crate::lies::choice;
use crate::weather::{SEEDS, world};
use crate::world::{ClockSettings, MS, SECOND};

/// The policy trusts clocks more than before, while the daemon does what it was allowed to before: it makes up for what
/// two members were off that it did not hear for long.
#[test]
fn bounds_hold_while_the_policy_comes_to_assume_less_drift() {
    for seed in (0..SEEDS).chain([549]) {
        let mut world = world(seed);
        for (rank, member) in (0..).zip(&mut world.members) {
            member.rate_ppb = if [2, 3].contains(&rank) { 49_955 } else { -49_955 };
        }
        world.settings = trusting(world.settings, 1_000);
        world.change_view(2, 4, &[0, 1, 2, 3, 4]);
        let end = world.now + 10 * SECOND;
        world.run_until(end, &mut |_| {});
        for member in [2, 3] {
            world.members[member].island = 1;
        }
        let end = world.now + 50 * SECOND;
        world.run_until(end, &mut |_| {});
        for member in [2, 3] {
            world.members[member].island = 0;
        }
        let end = world.now + 1_500 * MS;
        world.run_until(end, &mut |_| {});
        world.settings = trusting(world.settings, 50);
        world.change_view(3, [4, 1][choice(&mut Random::new(seed), 2)], &[0, 1, 2, 3, 4]);
        let end = world.now + 20 * SECOND;
        world.run_until(end, &mut |_| {});
    }
}

/// A follower that does not hear the leader of a view whose policy trusts clocks less: group time may run faster now.
#[test]
fn what_a_follower_shows_fades_as_its_view_assumes() {
    let [trusting, wary] = [1, 1_000].map(|ppm| Rates::new(ppm, 500));
    let mut own = VirtualClock::new(0, trusting);
    let now = LocalTime(SECOND);
    own.enter(now, (Epoch(1), false), trusting, 3 * SECOND);
    let shown = Shown { raw: now, ns: own.map().now_ns(now.0) };
    assert!(own.adjust(now, shown, Correction { delta_ns: 0, ahead_ns: 0, error_ns: MS }));
    let mut transfer = Transfer::new(own.clone());
    transfer.adjusted(now, &own);
    own.enter(now, (Epoch(2), false), wary, 3 * SECOND);
    transfer.adjusted(now, &own);
    let error_ns = |map: ClockMap| map.error_ns(11 * SECOND);
    assert!(error_ns(own.map()) > Some(30 * MS));
    assert!(error_ns(transfer.map()) >= error_ns(own.map()));
}

fn trusting(settings: ClockSettings, max_drift_ppm: u32) -> ClockSettings {
    ClockSettings { params: Params { max_drift_ppm, ..settings.params }, ..settings }
}

/// The same where it trusts them less and more in turn.
#[test]
fn bounds_hold_whatever_the_policy_comes_to_assume() {
    for seed in (0..SEEDS).chain([507]) {
        let mut world = world(seed);
        let mut random = Random::new(seed ^ 0x7257);
        for epoch in 2..12 {
            let trusted = [50, 200, 1_000, 5_000][choice(&mut random, 4)];
            world.settings = trusting(world.settings, trusted);
            let leader = [0, 4][choice(&mut random, 2)];
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            let away = 1 + choice(&mut random, 3);
            world.members[away].island = u32::from(choice(&mut random, 2) == 0);
            let pause = [300 * MS, 2 * SECOND, 9 * SECOND][choice(&mut random, 3)];
            let end = world.now + pause;
            world.run_until(end, &mut |_| {});
            world.members[away].island = 0;
        }
    }
}

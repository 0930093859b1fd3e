/// The policy trusts clocks more than before, while the daemon does what it was allowed to before: it makes up for what
/// two members were off that it did not hear for long.
#[test]
fn bounds_hold_while_the_policy_comes_to_assume_less_drift() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        for (rank, member) in (0..).zip(&mut world.members) {
            member.rate_ppb = if [2, 3].contains(&rank) { 49_955 } else { -49_955 };
        }
        world.kept = trusting(world.kept, 1_000);
        world.change_view(2, 4, &[0, 1, 2, 3, 4]);
        let end = world.now + 10 * SECOND;
        world.run_until(end, &mut |_| {});
        [2, 3].into_iter().for_each(|member| world.members[member].island = 1);
        let end = world.now + 50 * SECOND;
        world.run_until(end, &mut |_| {});
        [2, 3].into_iter().for_each(|member| world.members[member].island = 0);
        let end = world.now + 1_500 * MS;
        world.run_until(end, &mut |_| {});
        world.kept = trusting(world.kept, 50);
        world.change_view(3, [4, 1][choice(&mut Random::new(seed), 2)], &[0, 1, 2, 3, 4]);
        let end = world.now + 20 * SECOND;
        world.run_until(end, &mut |_| {});
    }
}

fn trusting(kept: Kept, max_drift_ppm: u32) -> Kept {
    Kept { params: Params { max_drift_ppm, ..kept.params }, ..kept }
}

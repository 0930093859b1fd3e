//! What clock probes say in the swarm: the truth, as closely as packets that took their time show it.

use std::time::Duration;

use conclave_protocols::Incarnation;
use conclave_protocols::clock::{Ahead, Missing, Relation, Slope};
use conclave_protocols::member::Node;
use conclave_protocols::random::Random;

use super::pod::{Call, RAW_DRIFT_PPM};
use super::world::World;

/// How often they say something.
pub(super) const PERIOD: Duration = Duration::from_millis(500);

/// How the raw clocks of two pods stand to each other. Each runs evenly, by so many ppm too fast.
fn relation(random: &mut Random, (own, own_ppm): (u64, i64), (peer, ppm): (u64, i64)) -> Relation {
    // From a loopback to a slow network, and one way may be slower than the other.
    let unknown = 1 + [200, 20_000, 2_000_000][usize::try_from(random.up_to(3)).expect("small")];
    let mut part = || i64::try_from(random.up_to(unknown)).expect("small") + GRAIN_NS;
    let true_ns = i64::try_from(i128::from(peer) - i128::from(own)).expect("292 years");
    let (least_ns, most_ns) = (true_ns - part(), true_ns + part());
    let ns = least_ns + (most_ns - least_ns) / 2;
    let slope = |ppb: i64| Slope::of_units(ppb * UNITS_PER_1000_PPB / 1_000);
    let rate_ppb = (ppm - own_ppm) * 1_000;
    Relation {
        at: own,
        offset: Ahead { ns, least_ns, most_ns },
        rate: slope(rate_ppb),
        least_rate: slope(rate_ppb - 50),
        most_rate: slope(rate_ppb + 50),
        drift: slope(4 * RAW_DRIFT_PPM * 1_000),
        extends_for_ns: 60_000_000_000,
        round_trip_ns: unknown,
        sent: 10,
        received: 10,
    }
}

impl World {
    /// The probes of each pod say how the others' raw clocks stand to its own; now and then nothing was heard, and nothing ever is
    /// where no probe passes.
    pub(super) fn probe(&mut self) {
        let now = self.sim.now();
        let living = self.living();
        let raw = |world: &Self, index: usize| {
            let (node, clock) = world.pods[index];
            let Node::Member(who) = node else { unreachable!("a pod") };
            world.pod(index).map(|pod| (who, pod.raw(clock.read(now))))
        };
        let clocks: Vec<_> = living.iter().map(|index| (*index, raw(self, *index))).collect();
        for (index, own) in &clocks {
            let Some((me, own)) = *own else { continue };
            let peers = clocks.iter().filter_map(|(_, clock)| *clock).filter(|(who, _)| *who != me);
            let is_cut = |from, to| self.sim.is_cut(Node::Member(from), Node::Member(to));
            let peers: Vec<_> =
                peers.map(|(who, raw)| (who, raw, is_cut(me, who) || is_cut(who, me))).collect();
            // Where no probe passes, members know group time by messages alone.
            let is_blocked = self.seed % 7 == 3;
            let random = self.sim.random();
            // As much is drawn either way, so that a seed stays the run that it was.
            let relate = |(who, peer, is_cut): (Incarnation, (u64, i64), bool)| {
                let is_heard = random.up_to(8) > 0;
                let known = is_heard.then(|| relation(random, own, peer));
                (who, known.filter(|_| !is_blocked && !is_cut).ok_or(Missing::Unknown))
            };
            let relations = peers.into_iter().map(relate).collect();
            self.call(*index, Call::Relations(relations));
        }
        self.count("probes");
    }
}

/// Readings are whole nanoseconds.
const GRAIN_NS: i64 = 4;

/// 2^48 / 10^6.
const UNITS_PER_1000_PPB: i64 = 281_474_976;

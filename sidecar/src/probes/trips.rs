//! Round trips of beacons.

use std::time::Duration;

use conclave_protocols::LocalTime;

/// Round trips, by samples of both ways.
#[derive(Debug, Default)]
pub(super) struct Trips {
    /// A packet there, with no packet back after it yet: when it departed, and how long it took by two clocks.
    there: Option<(i128, i128)>,
    /// The latest packet back: when it arrived, and how long it took by two clocks.
    back: Option<(i128, i128)>,
    /// The shortest of this minute, and of the minute before.
    pub(super) shortest: [Option<u64>; 2],
    /// When this minute began.
    since: LocalTime,
}

/// For how long a shortest round trip counts.
const MINUTE: Duration = Duration::from_mins(1);

impl Trips {
    pub(super) fn there(&mut self, departed: i128, took: i128) {
        self.there = Some((departed, took));
    }

    /// With the packet back before it and this one after it, a packet there makes a round trip: the clocks' offset is in
    /// each of the ways, once added and once taken off, and as it was at the same moment if what the two took is
    /// weighted by how far they are from it. Else a drift of 50 parts per million would be 12 µs of a round trip.
    pub(super) fn back(&mut self, arrived: i128, took: i128) {
        let before = self.back.replace((arrived, took));
        let Some(((began, first), (departed, there))) = before.zip(self.there) else { return };
        if departed > arrived {
            return;
        }
        self.there = None;
        let whole = arrived - began;
        if departed < began || whole <= 0 {
            return;
        }
        let back = first + (took - first) * (departed - began) / whole;
        let Ok(trip) = u64::try_from(there + back) else { return };
        let shortest = &mut self.shortest[0];
        *shortest = Some(shortest.map_or(trip, |shortest| shortest.min(trip)));
    }

    /// Forgets what is of the minute before the last.
    pub(super) fn look(&mut self, now: LocalTime) {
        if now - self.since >= MINUTE {
            self.since = now;
            self.shortest = [None, self.shortest[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_forgotten_after_two_minutes_at_most() {
        let mut trips = Trips::default();
        let minute = 60_000_000_000;
        trips.look(LocalTime(10 * minute));
        trips.back(0, 30);
        trips.there(5, 20);
        trips.back(10, 30);
        assert_eq!(trips.shortest, [Some(50), None]);
        trips.look(LocalTime(11 * minute));
        assert_eq!(trips.shortest, [None, Some(50)]);
        trips.look(LocalTime(12 * minute));
        assert_eq!(trips.shortest, [None, None]);
    }

    #[test]
    fn a_packet_there_that_no_packet_back_surrounds_makes_no_round_trip() {
        let mut trips = Trips::default();
        trips.there(5, 20);
        trips.back(10, 30);
        assert_eq!(trips.shortest, [None, None], "none came before it");
        trips.there(20, 20);
        assert_eq!(trips.shortest, [None, None], "none came after it");
        trips.back(30, 30);
        assert_eq!(trips.shortest, [Some(50), None]);
    }
}

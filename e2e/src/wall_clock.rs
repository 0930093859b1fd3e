//! Whether the wall clock of this machine is set, as it is after a virtual machine stood still.

use std::time::{Duration, Instant, SystemTime};

/// Readings of the wall clock, between two of one that is never set.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    before: Instant,
    wall: SystemTime,
    after: Instant,
}

impl WallClock {
    /// Reads them.
    pub fn read() -> Self {
        let before = Instant::now();
        Self { before, wall: SystemTime::now(), after: Instant::now() }
    }

    /// Whether it was set between these readings and later ones, by more than the readings took and [`SMALL`].
    pub fn was_set_until(self, later: Self) -> bool {
        let least = later.before.saturating_duration_since(self.after).saturating_sub(SMALL);
        let most = later.after.saturating_duration_since(self.before) + SMALL;
        let passed = later.wall.duration_since(self.wall);
        !passed.is_ok_and(|passed| (least..=most).contains(&passed))
    }
}

/// By how much a wall clock may be set without notice here. Daemons slew both clocks alike.
const SMALL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_noticed_that_a_wall_clock_was_set_forward_or_back() {
        let now = WallClock::read();
        let begin = WallClock { after: now.before, ..now };
        let ms = Duration::from_millis;
        // Ten seconds later, in a reading that took 50 ms.
        let at = |wall: SystemTime| WallClock {
            before: begin.before + ms(10_000),
            wall,
            after: begin.after + ms(10_050),
        };
        for good in [10_000, 10_050] {
            assert!(!begin.was_set_until(at(begin.wall + ms(good))), "{good} ms");
        }
        for bad in [0, 9_995, 10_055] {
            assert!(begin.was_set_until(at(begin.wall + ms(bad))), "{bad} ms");
        }
        assert!(begin.was_set_until(at(begin.wall - ms(1_000))));
    }
}

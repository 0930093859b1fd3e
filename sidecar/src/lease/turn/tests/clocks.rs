//! Clocks that drift.

use super::world::{SECOND, True};
use super::*;

/// A clock that is off, and wrong.
pub(super) struct Clock {
    offset: u64,
    ppm: i64,
    wall: i64,
}

impl Clock {
    /// One that is wrong by so much at most.
    pub(super) fn draw(random: &mut Random, drift_ppm: u64) -> Self {
        let ppm = i64::try_from(random.up_to(2 * drift_ppm + 1)).expect("small");
        let ppm = ppm - i64::try_from(drift_ppm).expect("small");
        let offset = random.up_to(1_000 * SECOND);
        let wall = i64::try_from(random.up_to(200 * SECOND)).expect("small");
        Self { offset, ppm, wall }
    }

    pub(super) fn read(&self, at: True) -> LocalTime {
        let extra = i128::from(at) * i128::from(self.ppm) / 1_000_000;
        let read = i128::from(at) + extra + i128::from(self.offset);
        LocalTime(u64::try_from(read).expect("within the run"))
    }

    pub(super) fn when(&self, local: LocalTime) -> True {
        let since = u128::from(local.0.saturating_sub(self.offset));
        let rate = u128::try_from(1_000_000 + self.ppm).expect("it goes on");
        u64::try_from((since * 1_000_000).div_ceil(rate)).unwrap_or(u64::MAX)
    }

    pub(super) fn wall(&self, at: True) -> Timestamp {
        let at = i64::try_from(at).expect("within the run") + self.wall;
        Timestamp::from_nanosecond(1_800_000_000_000_000_000 + i128::from(at)).expect("a time")
    }
}

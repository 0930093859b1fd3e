//! A source of chance that a seed repeats.

use std::time::Duration;

/// A small source of chance: the same seed, the same numbers (Steele, Lea and Flood, *Fast
/// Splittable Pseudorandom Number Generators*, OOPSLA 2014: `SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; zero if there is none.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.draw() % limit }
    }

    /// A time below `limit`.
    pub fn below(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.up_to(nanos))
    }

    /// True once in so many times.
    #[cfg(any(test, feature = "testing"))]
    pub fn once_in(&mut self, times: u64) -> bool {
        self.up_to(times) == 0
    }
}

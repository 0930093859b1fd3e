//! How many beacons of one peer are taken: a member that sends without a pause is not to fill the queue of samples, nor
//! to keep the thread busy.

use std::time::Instant;

use super::thread::PERIOD;

/// What is taken of one peer, which sends a beacon in each period: two in each, and four of those that were held up on
/// the way and come together.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Until when those that were taken would have been enough.
    used_until: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { used_until: now }
    }

    pub(super) fn is_used_up(&self, now: Instant) -> bool {
        self.used_until > now + PERIOD * 3 / 2
    }

    /// One was taken.
    pub(super) fn take(&mut self, now: Instant) {
        self.used_until = self.used_until.max(now) + PERIOD / 2;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// How many of these are taken, by when they come.
    fn taken(times: impl Iterator<Item = Instant>, begin: Instant) -> usize {
        let mut allowance = Allowance::new(begin);
        let is_taken = |now: &Instant| {
            let is_taken = !allowance.is_used_up(*now);
            if is_taken {
                allowance.take(*now);
            }
            is_taken
        };
        times.filter(is_taken).count()
    }

    #[test]
    fn of_a_peer_that_keeps_the_pace_all_are_taken_and_what_was_held_up_for_a_second_too() {
        let begin = Instant::now();
        assert_eq!(taken((0..1_000).map(|turn| begin + PERIOD * turn), begin), 1_000);
        let held_up = (0..1_000).map(|turn| begin + PERIOD * (turn / 4 * 4));
        assert_eq!(taken(held_up, begin), 1_000);
    }

    #[test]
    fn of_a_peer_that_sends_without_a_pause_two_are_taken_in_a_period() {
        let begin = Instant::now();
        let flood = (0..10_000).map(|turn| begin + Duration::from_millis(1) * turn);
        let taken = taken(flood, begin);
        assert!((80..=84).contains(&taken), "{taken} in 40 periods");
    }
}

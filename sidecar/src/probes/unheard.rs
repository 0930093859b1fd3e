//! Notices a peer that is heard and does not hear: it may have lost the key, or never had it.

use std::time::{Duration, Instant};

/// How long a peer has acknowledged none of this member's beacons.
#[derive(Debug)]
pub(super) struct Unheard {
    since: Instant,
    patience: Duration,
}

/// After that long the key is no good. Acknowledgements come four times a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// If another key does not help, packets may be lost on the way there. The next one is tried after twice as long each time,
/// up to this.
const LONGEST: Duration = Duration::from_mins(16);

impl Unheard {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, patience: PATIENCE }
    }

    /// The peer acknowledges a beacon.
    pub(super) fn acknowledged(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// There is nothing to acknowledge: no beacon is sent for want of a key.
    pub(super) fn sends_nothing(&mut self, now: Instant) {
        self.since = now;
    }

    /// The peer sends beacons and acknowledges none. Whether that has been so for too long.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) < self.patience {
            return false;
        }
        *self = Self { since: now, patience: (self.patience * 2).min(LONGEST) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_help_is_given_up_more_and_more_rarely() {
        let begin = Instant::now();
        let mut unheard = Unheard::new(begin);
        let seconds =
            (0..3_600_u64).filter(|after| unheard.is_over(begin + Duration::from_secs(*after)));
        assert_eq!(seconds.collect::<Vec<_>>(), [30, 90, 210, 450, 930, 1_890, 2_850]);
        let later = begin + Duration::from_hours(1);
        unheard.acknowledged(later);
        assert!(!unheard.is_over(later + Duration::from_secs(29)));
        assert!(unheard.is_over(later + Duration::from_secs(30)));
    }

    #[test]
    fn a_member_that_says_nothing_is_not_unheard() {
        let begin = Instant::now();
        let mut unheard = Unheard::new(begin);
        for after in 0..100 {
            let now = begin + Duration::from_secs(after);
            unheard.sends_nothing(now);
            assert!(!unheard.is_over(now));
        }
    }
}

//! Detection by a fixed timeout: a member that was silent for so long is suspected.
//!
//! Source: Chandra and Toueg, *Unreliable Failure Detectors for Reliable Distributed Systems*, JACM 43(2), 1996,
//! the implementation for partial synchrony; Chen, Toueg and Aguilera, *On the Quality of Service of Failure
//! Detectors*, IEEE Transactions on Computers 51, 2002, "the simple algorithm".
//!
//! ```text
//! on HEARTBEAT from p:   heard := now; trust p
//! at heard + timeout:    suspect p
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | detection time | at most the timeout, and the transfer of the last heartbeat |
//! | the same, on average | half an interval less |
//! | a mistake | needs every heartbeat of a timeout to be lost or late |
//! | heartbeats that are lost with probability p, of which k are due in a timeout | (1 - p) p^k mistakes in each interval |
//! | mistake duration | until the next heartbeat |
//!
//! Deviations:
//!
//! * Chandra and Toueg lengthen the timeout at each mistake, so that in a system whose delays have a bound that
//!   nobody knows mistakes come to an end. Here it is fixed, because a suspicion that is wrong costs a ballot, and a
//!   timeout that only grows would be of no use after one bad day. [`PhiAccrual`](super::PhiAccrual) adapts.
//! * Heartbeats carry no number for it: one that was overtaken is a sign of life as well.

use std::time::Duration;

use super::Rule;
use crate::time::LocalTime;

/// The silence of one peer, by a fixed timeout.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Timeout {
    heard: LocalTime,
    timeout: Duration,
}

impl Timeout {
    /// Of a peer that was heard then.
    #[must_use]
    pub fn new(heard: LocalTime, timeout: Duration) -> Self {
        Self { heard, timeout }
    }

    /// A silence of so long is suspected.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Rule for Timeout {
    fn hear(&mut self, now: LocalTime) {
        self.heard = self.heard.max(now);
    }

    fn heard(&self) -> LocalTime {
        self.heard
    }

    fn deadline(&self) -> LocalTime {
        self.heard.after(self.timeout)
    }

    fn forgive(&mut self, silence: Duration) {
        self.heard = self.heard.after(silence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_suspected_after_the_timeout_from_the_last_heartbeat() {
        let at = |millis: u64| LocalTime(millis * 1_000_000);
        let mut rule = Timeout::new(at(1_000), Duration::from_millis(700));
        assert_eq!(rule.deadline(), at(1_700), "it is trusted at first");
        rule.hear(at(1_200));
        rule.hear(at(1_450));
        assert_eq!(rule.deadline(), at(2_150));
        rule.hear(at(1_300));
        assert_eq!(rule.deadline(), at(2_150), "time does not go back");
    }
}

//! What two members exchange: beacons each way, and what each learns from those of the other.
//!
//! A beacon says when an earlier one of its sender departed and when the latest of its addressee arrived there. So
//! with each the addressee learns both ends of a way there and of a way back, and nobody waits for an answer. NTP's
//! interleaved modes send departures after the fact for the same reason: a stamp is known once the packet is gone
//! (D. Mills, "Computer Network Time Synchronization", 2nd edition, chapter 16).

use std::collections::VecDeque;

use conclave_protocols::{Incarnation, LocalTime};

use super::packet::{Beacon, Numbered};
use super::report::Report;
use super::{Sample, Source, Stamp};

/// The beacons between this member and one peer. It does no I/O.
#[derive(Debug)]
pub(super) struct Exchange {
    peer: Incarnation,
    /// The latest that were sent, the earliest first.
    departures: VecDeque<Departure>,
    /// The latest that arrived.
    heard: Option<Numbered>,
    /// The highest of our numbers of which the peer has stated when it arrived.
    answered: u64,
}

/// A beacon that was sent.
#[derive(Clone, Copy, Debug)]
struct Departure {
    number: u64,
    stamp: Stamp,
    /// When the call that sent it returned.
    returned: LocalTime,
}

/// Departures that are remembered: those of two seconds.
const DEPARTURES: usize = 8;

/// A stamp of the kernel lies between the beginning of the call that sent the packet and its end, or little later if
/// the packet waited for the device. One that lies elsewhere is another packet's.
const WAITED_NS: u64 = 200_000;

impl Exchange {
    pub(super) fn with(peer: Incarnation) -> Self {
        Self { peer, departures: VecDeque::new(), heard: None, answered: 0 }
    }

    /// The highest number of ours that the peer has acknowledged.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// What to send next, with what its sender states of its clocks.
    pub(super) fn beacon(&self, from: Incarnation, number: u64, report: Report) -> Beacon {
        let departed = self.departures.back();
        let departed = departed.map(|one| Numbered { number: one.number, at: one.stamp });
        Beacon { from, number, departed, heard: self.heard, report }
    }

    /// A beacon was sent, by a call that began and returned then.
    pub(super) fn sent(&mut self, number: u64, began: LocalTime, returned: LocalTime) {
        if self.departures.len() == DEPARTURES {
            self.departures.pop_front();
        }
        let stamp = Stamp { raw: began, source: Source::User };
        self.departures.push_back(Departure { number, stamp, returned });
    }

    /// The kernel says when it departed. Whether that is believed.
    pub(super) fn stamped(&mut self, number: u64, kernel: LocalTime) -> bool {
        let mut departures = self.departures.iter_mut();
        let Some(departure) = departures.find(|departure| departure.number == number) else {
            return false;
        };
        // A conversion errs to the early side, also to before the call; then the call is the better stamp.
        if kernel.0 > departure.returned.0.saturating_add(WAITED_NS) {
            return false;
        }
        let raw = kernel.max(departure.stamp.raw);
        departure.stamp = Stamp { raw, source: Source::Kernel };
        true
    }

    /// A beacon of the peer arrived: what is known by it.
    pub(super) fn received(&mut self, beacon: &Beacon, arrived: Stamp) -> Vec<Sample> {
        let mut samples = Vec::new();
        if let (Some(departed), Some(heard)) = (beacon.departed, self.heard)
            && departed.number == heard.number
        {
            let (departed_there, arrived) = (departed.at, heard.at);
            samples.push(Sample::Received { peer: self.peer, departed_there, arrived });
        }
        if let Some(heard) = beacon.heard
            && heard.number > self.answered
            && let Some(departure) = self.departures.iter().find(|one| one.number == heard.number)
        {
            self.answered = heard.number;
            let (departed, arrived_there) = (departure.stamp, heard.at);
            samples.push(Sample::Sent { peer: self.peer, departed, arrived_there });
        }
        self.heard = Some(Numbered { number: beacon.number, at: arrived });
        samples
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;

    const ONE: Incarnation = Incarnation { pod: PodUid(1), run: 1 };
    const TWO: Incarnation = Incarnation { pod: PodUid(2), run: 1 };

    fn user(raw: u64) -> Stamp {
        Stamp { raw: LocalTime(raw), source: Source::User }
    }

    fn kernel(raw: u64) -> Stamp {
        Stamp { raw: LocalTime(raw), source: Source::Kernel }
    }

    /// The clock of the second runs 1000 ahead; each way takes 10.
    #[test]
    fn each_learns_both_ends_of_both_ways() {
        let (mut one, mut two) = (Exchange::with(TWO), Exchange::with(ONE));
        one.sent(1, LocalTime(100), LocalTime(104));
        assert!(one.stamped(1, LocalTime(102)));
        let first = Exchange::with(TWO).beacon(ONE, 1, Report::default());
        assert_eq!(two.received(&first, kernel(1_112)), []);
        let back = two.beacon(TWO, 1, Report::default());
        two.sent(1, LocalTime(1_200), LocalTime(1_204));
        let there = Sample::Sent { peer: TWO, departed: kernel(102), arrived_there: kernel(1_112) };
        assert_eq!(one.received(&back, user(214)), [there]);
        let second = one.beacon(ONE, 2, Report::default());
        let there =
            Sample::Received { peer: ONE, departed_there: kernel(102), arrived: kernel(1_112) };
        let back = Sample::Sent { peer: ONE, departed: user(1_200), arrived_there: user(214) };
        assert_eq!(two.received(&second, kernel(1_412)), [there, back]);
    }

    #[test]
    fn a_beacon_that_was_lost_is_in_no_sample() {
        let mut one = Exchange::with(TWO);
        let beacon = |number, of| Beacon {
            from: TWO,
            number,
            departed: Some(Numbered { number: of, at: user(50) }),
            heard: None,
            report: Report::default(),
        };
        assert_eq!(one.received(&beacon(2, 1), user(100)), [], "the first was not heard");
        assert_eq!(one.received(&beacon(4, 3), user(300)), [], "the third was not heard");
        assert_eq!(one.received(&beacon(5, 4), user(400)).len(), 1);
    }

    #[test]
    fn a_peer_that_says_the_same_again_is_believed_once_and_an_invention_not_at_all() {
        let mut one = Exchange::with(TWO);
        one.sent(3, LocalTime(100), LocalTime(101));
        let beacon = |number, heard| Beacon {
            from: TWO,
            number,
            departed: None,
            heard: Some(Numbered { number: heard, at: user(50) }),
            report: Report::default(),
        };
        assert_eq!(one.received(&beacon(1, 4), user(200)), [], "it was never sent");
        assert_eq!(one.received(&beacon(2, 3), user(300)).len(), 1);
        assert_eq!(one.received(&beacon(3, 3), user(400)), []);
    }

    #[test]
    fn a_stamp_of_another_packet_is_not_taken_and_none_is_before_its_call() {
        let mut one = Exchange::with(TWO);
        one.sent(1, LocalTime(1_000_000), LocalTime(1_001_000));
        assert!(!one.stamped(2, LocalTime(1_000_500)));
        assert!(!one.stamped(1, LocalTime(1_201_001)), "long after the call");
        assert_eq!(
            one.beacon(ONE, 2, Report::default()).departed.expect("one was sent").at,
            user(1_000_000)
        );
        assert!(one.stamped(1, LocalTime(999_900)));
        assert_eq!(
            one.beacon(ONE, 2, Report::default()).departed.expect("one was sent").at,
            kernel(1_000_000)
        );
    }
}

//! Since when group time is known to run with the leader's clock, if the leader asks nobody.
//!
//! A daemon that polls sees by the answers that no later view had a daemon when it polled. A time
//! server only answers. So each request repeats the stamp of the latest reply that its sender has: then
//! its sender was in the view after that stamp. (A packet of NTP has the same: its origin timestamp.) When
//! a majority of the view has repeated stamps not older than some moment, no later view had a leader at
//! that moment, since a later view needs somebody of that majority who has left this one.

use std::collections::{BTreeMap, BTreeSet};

use super::correction::ByOthers;
use super::discipline::VirtualClock;
use super::wants::Wants;
use crate::ids::MemberId;
use crate::time::LocalTime;
use crate::view::View;

/// What a leader that only answers knows about its place.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Reign {
    /// Nothing before this counts: the view began, or this clock was set.
    begun: LocalTime,
    /// The latest stamp that each member repeated.
    repeated: BTreeMap<MemberId, LocalTime>,
    /// The latest moment at which this leader surely led.
    confirmed: Option<LocalTime>,
    /// Who has group time, by their latest request.
    have_time: BTreeSet<MemberId>,
}

impl Reign {
    pub(super) fn new(begun: LocalTime) -> Self {
        let (repeated, have_time) = (BTreeMap::new(), BTreeSet::new());
        Self { begun, repeated, confirmed: None, have_time }
    }

    /// A request came that repeats a stamp of this leader, from a member that has group time or not.
    pub(super) fn hear(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (stamp, wants): (Option<LocalTime>, Wants),
    ) {
        if wants == Wants::Nothing {
            self.have_time.insert(from);
        } else {
            self.have_time.remove(&from);
        }
        let Some(stamp) = stamp.filter(|stamp| (self.begun..=now).contains(stamp)) else { return };
        let latest = self.repeated.entry(from).or_insert(stamp);
        *latest = stamp.max(*latest);
    }

    /// Confirms the clock as of the latest moment at which this leader surely led. Returns whether that
    /// is a later one than before, or whether all are known to have the time now.
    pub(super) fn confirm(&mut self, now: LocalTime, view: View, clock: &mut VirtualClock) -> bool {
        if !clock.is_synchronised() {
            return false;
        }
        let is_common = self.have_time.len() + 1 >= view.size as usize;
        let is_news = is_common && !clock.is_common();
        if is_common {
            clock.note_common();
        }
        let Some(at) = self.majority_at(now, view) else { return is_news };
        if self.confirmed.is_some_and(|last| at <= last) {
            return is_news;
        }
        self.confirmed = Some(at);
        clock.confirm(now, at, 0, ByOthers::default());
        true
    }

    /// The latest moment at which a majority was surely in the view, this leader among it.
    fn majority_at(&self, now: LocalTime, view: View) -> Option<LocalTime> {
        let Some(others) = view.majority().checked_sub(2) else { return Some(now) };
        let mut stamps: Vec<LocalTime> = self.repeated.values().copied().collect();
        stamps.sort_unstable();
        stamps.into_iter().rev().nth(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Rates;
    use crate::ids::Epoch;

    #[test]
    fn that_all_have_the_time_is_news_once_even_if_nobody_repeats_a_stamp() {
        let view = View { epoch: Epoch(1), size: 3, leader: MemberId(0) };
        let mut clock = VirtualClock::new(0, Rates::new(50, 500));
        let mut reign = Reign::new(LocalTime(1));
        clock.begin(LocalTime(1), 0, LocalTime(1), None);
        for (from, wants, is_news) in [
            (1, Wants::Nothing, false),
            (2, Wants::GroupTime, false),
            (2, Wants::Nothing, true),
            (2, Wants::Nothing, false),
        ] {
            reign.hear(LocalTime(2), MemberId(from), (None, wants));
            assert_eq!(reign.confirm(LocalTime(2), view, &mut clock), is_news, "{from} {wants:?}");
        }
    }
}

//! Group time as the readers of this process see it: it never goes back, and is the time of the clock page where that
//! states one, so that it does not go back for a reader of both either.
//!
//! A map agrees with the one before for [`ClockMap::SWITCH_NS`](conclave_protocols::clock::ClockMap::SWITCH_NS) from the
//! moment at which it was made. If this process was held up for longer between that moment and the publication, the map
//! before was read when it did not hold any more.

use std::sync::{Arc, Mutex, PoisonError};

use conclave_clock_page::{Status, Words};
use conclave_protocols::LocalTime;
use conclave_protocols::clock::Reading;

use super::Group;
use crate::clock_page::{ERROR_MAX_NS, VOID_NS};

/// The latest time that was read, and the clock page.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestTime(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    read: Option<LatestReading>,
    /// What is published on the page, if there is one.
    page: Option<Words>,
}

/// The latest time that was read, and when that was. It holds as long as what a page has stated, also in the next life of the
/// member, whose group may have an earlier time.
#[derive(Clone, Copy, Debug)]
struct LatestReading {
    raw: u64,
    ns: i64,
}

impl LatestReading {
    /// What is not to be gone back behind at a reading of the raw clock.
    fn at(self, raw: u64) -> Option<i64> {
        (raw <= self.raw.saturating_add(VOID_NS)).then_some(self.ns)
    }
}

impl LatestTime {
    /// Publishes on the clock page while nobody reads here. `publish` is given the latest time that was read and that nobody
    /// may see go back at a reading of the raw clock, and returns what the page states then.
    pub(crate) fn publish(&self, raw: u64, publish: impl FnOnce(Option<i64>) -> Words) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = shown.read.and_then(|seen| seen.at(raw));
        shown.page = Some(publish(read));
    }
}

/// The group clock at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeNow {
    /// The raw clock.
    pub(crate) raw: LocalTime,
    /// What the group clock reads then.
    pub(crate) reading: Reading,
    /// When this life of the member began, by the raw clock.
    pub(crate) life: LocalTime,
}

/// What is read where the page states a time, or has stated one just before.
fn by_page(reading: Reading, words: &Words, raw: u64) -> Reading {
    let page = words.at(raw);
    match page.status {
        Status::Synchronised | Status::Holdover | Status::Disrupted => {
            near(reading, reading.showing(page.time_ns))
        }
        Status::Unknown => {
            words.latest_seen(raw).map_or(reading, |ns| near(reading, reading.not_before(ns)))
        }
    }
}

/// What is shown in place of a reading. Nothing is known while it is too far from that for a page: it is the time of another
/// group.
fn near(reading: Reading, shown: Reading) -> Reading {
    let is_near = shown.now_ns.abs_diff(reading.now_ns) <= ERROR_MAX_NS;
    if is_near { shown } else { reading.unknown() }
}

impl Group {
    /// Reads the raw clock while the map is held, so that no newer map comes in between. A life sets its beginning before
    /// its map: what is read of an earlier life's map has either that life's beginning, and is from before the next, or
    /// is too young.
    pub(crate) fn read_time(&self) -> TimeNow {
        let mut shown = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        let map = self.time.borrow();
        let raw = self.clock.raw();
        let (own, life) = (map.reading(raw.0), *self.life.borrow());
        let reading = shown.page.map_or(own, |words| by_page(own, &words, raw.0));
        let seen = shown.read.and_then(|seen| seen.at(raw.0));
        let reading = seen.map_or(reading, |ns| near(own, reading.not_before(ns)));
        if reading.error_ns.is_some() {
            shown.read = Some(LatestReading { raw: raw.0, ns: reading.now_ns });
        }
        TimeNow { raw, reading, life }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_holds_for_as_long_as_what_a_page_stated() {
        let seen = LatestReading { raw: 7, ns: -3 };
        assert_eq!(
            [7, 7 + VOID_NS, 8 + VOID_NS].map(|raw| seen.at(raw)),
            [Some(-3), Some(-3), None]
        );
    }
}

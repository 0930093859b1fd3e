//! Group time as the readers of this process see it: it never goes back, and is the time of the clock page where that
//! states one, so that it does not go back for who reads both either.
//!
//! A map agrees with the one before for [`ClockMap::SWITCH_NS`](conclave_protocols::clock::ClockMap::SWITCH_NS) from the
//! moment at which it was made. If this process was held up for longer between that moment and the publication, the map
//! before was read when it did not hold any more.

use std::sync::{Arc, Mutex, PoisonError};

use conclave_clock_page::{Status, Words};
use conclave_protocols::LocalTime;
use conclave_protocols::clock::Reading;

use super::Group;
use crate::clock_page::ERROR_MAX_NS;

/// The latest time that was read, and the clock page.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestTime(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    read: Option<Seen>,
    /// What is published on the page, if there is one.
    page: Option<Words>,
}

/// What was read, in which life of the member.
#[derive(Clone, Copy, Debug)]
struct Seen {
    life: LocalTime,
    ns: i64,
}

impl LatestTime {
    /// Publishes on the clock page while nobody reads here. `publish` returns what the page states then.
    pub(crate) fn publish(&self, publish: impl FnOnce() -> Words) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.page = Some(publish());
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

/// What is read where the page states a time, or has stated one just before. Nothing is known where that is too far from
/// this clock for a page: another group had that time, and the page states none until this clock has passed it.
fn by_page(reading: Reading, words: &Words, raw: u64) -> Reading {
    let page = words.at(raw);
    let followed = match page.status {
        Status::Synchronised | Status::Holdover | Status::Disrupted => {
            reading.showing(page.time_ns)
        }
        Status::Unknown => words.latest_seen(raw).map_or(reading, |ns| reading.not_before(ns)),
    };
    let is_near = followed.now_ns.abs_diff(reading.now_ns) <= ERROR_MAX_NS;
    if is_near { followed } else { reading.unknown() }
}

impl Group {
    /// Reads the raw clock while the map is held, so that no newer map comes in between. A life sets its beginning before
    /// its map: what is read of an earlier life's map has either that life's beginning, and is from before the next, or
    /// is too young. Then the map was synchronised before the life began, and later times are not held to what it shows.
    pub(crate) fn read_time(&self) -> TimeNow {
        let mut shown = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        let map = self.time.borrow();
        let raw = self.clock.raw();
        let (reading, life) = (map.reading(raw.0), *self.life.borrow());
        let reading = shown.page.map_or(reading, |words| by_page(reading, &words, raw.0));
        let reading = match shown.read {
            Some(seen) if seen.life == life => reading.not_before(seen.ns),
            Some(_) | None => reading,
        };
        let is_known = reading.error_ns.is_some();
        if is_known && map.synced_raw.is_some_and(|synced| synced >= life.0) {
            shown.read = Some(Seen { life, ns: reading.now_ns });
        }
        TimeNow { raw, reading, life }
    }
}

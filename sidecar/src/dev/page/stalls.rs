//! For how long no lock has been granted, and for how long a member has taken no part.
//!
//! A lease ends without an event, so this is looked at often rather than heard of.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conclave_protocols::LocalTime;
use serde::Serialize;

use super::super::member::Members;
use super::snapshot::millis;
use crate::group::Leadership;
use crate::os_clock::OsClock;

/// How often they are looked at.
pub(super) const OFTEN: Duration = Duration::from_millis(20);

/// The stalls of a group and of each of its members.
#[derive(Debug)]
pub(super) struct Stalls(Mutex<Stopwatches>);

#[derive(Debug)]
struct Stopwatches {
    group: Stopwatch,
    members: Vec<Stopwatch>,
}

/// The stalls at one moment.
pub(super) struct StallViews {
    pub(super) group: StallView,
    /// By member.
    pub(super) members: Vec<StallView>,
}

/// How long something lasts, and has lasted so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct StallView {
    /// For how long it has gone on; nothing if it does not.
    pub(super) running_ms: Option<u64>,
    /// Since when, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// How long the last lasted that has ended.
    last_ms: Option<u64>,
    longest_ms: Option<u64>,
    /// How many have ended.
    count: u32,
}

impl Stalls {
    /// None so far, of a group of so many.
    pub(super) fn new(members: u16) -> Self {
        let members = vec![Stopwatch::default(); usize::from(members)];
        Self(Mutex::new(Stopwatches { group: Stopwatch::default(), members }))
    }

    /// Looks at all members.
    pub(super) fn look(&self, members: &Members) -> StallViews {
        let local = OsClock::default().now();
        let all: Vec<Part> = (0..members.count()).map(|n| Part::of(members, n, local)).collect();
        let mut watches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        watches.group.note(now, !all.contains(&Part::Grants));
        for (watch, part) in watches.members.iter_mut().zip(&all) {
            watch.note(now, *part == Part::Absent);
        }
        let views = watches.members.iter().map(|watch| watch.view(now)).collect();
        StallViews { group: watches.group.view(now), members: views }
    }
}

/// What part a member takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// It leads, and grants locks.
    Grants,
    /// It leads or follows.
    Present,
    /// It is dead, paused, or without a leader.
    Absent,
}

impl Part {
    /// A member that is paused takes none, whatever it stated before.
    fn of(members: &Members, number: u16, now: LocalTime) -> Self {
        let runs = members.outside(number).is_some_and(|outside| !outside.paused);
        let Some(group) = members.group(number).filter(|_| runs) else { return Self::Absent };
        let election = group.election();
        let election = election.borrow();
        match election.leadership {
            Leadership::Leading if election.leads_at(now) => {
                let grants = group.status().borrow().grants == Some(true);
                if grants { Self::Grants } else { Self::Present }
            }
            Leadership::Following => Self::Present,
            Leadership::Leading
            | Leadership::Isolated
            | Leadership::Electing
            | Leadership::HandingOver => Self::Absent,
        }
    }
}

/// Measures what comes and goes.
#[derive(Clone, Debug, Default)]
struct Stopwatch {
    running: Option<(Instant, u64)>,
    /// It was once not running: what ran before that is the start, and no stall.
    has_started: bool,
    last: Option<Duration>,
    longest: Option<Duration>,
    count: u32,
}

impl Stopwatch {
    /// It goes on, or it does not.
    fn note(&mut self, now: Instant, runs: bool) {
        if runs {
            self.running.get_or_insert_with(|| (now, since_1970()));
            return;
        }
        if let Some((since, _)) = self.running.take().filter(|_| self.has_started) {
            let lasted = now.duration_since(since);
            self.last = Some(lasted);
            self.longest = self.longest.max(Some(lasted));
            self.count += 1;
        }
        self.has_started = true;
    }

    fn view(&self, now: Instant) -> StallView {
        StallView {
            running_ms: self.running.map(|(since, _)| millis(now.duration_since(since))),
            since_ms: self.running.map(|(_, since_ms)| since_ms),
            last_ms: self.last.map(millis),
            longest_ms: self.longest.map(millis),
            count: self.count,
        }
    }
}

fn since_1970() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_stall_has_a_duration_while_it_goes_on_and_the_longest_is_kept() {
        let (mut watch, start) = (Stopwatch::default(), Instant::now());
        watch.note(start, false);
        for (from, to) in [(100, 150), (200, 900), (1000, 1010)] {
            watch.note(at(start, from), true);
            watch.note(at(start, from + 5), true);
            assert_eq!(watch.view(at(start, from + 7)).running_ms, Some(7));
            watch.note(at(start, to), false);
        }
        let view = watch.view(at(start, 2000));
        assert_eq!((view.running_ms, view.since_ms), (None, None));
        assert_eq!((view.last_ms, view.longest_ms, view.count), (Some(10), Some(700), 3));
    }

    #[test]
    fn the_start_of_a_group_is_shown_while_it_lasts_and_is_no_stall_of_before() {
        let (mut watch, start) = (Stopwatch::default(), Instant::now());
        watch.note(start, true);
        let view = watch.view(at(start, 1500));
        assert!(view.running_ms == Some(1500) && view.since_ms.is_some());
        watch.note(at(start, 1500), false);
        assert_eq!(watch.view(at(start, 1500)), StallView::default());
    }
}

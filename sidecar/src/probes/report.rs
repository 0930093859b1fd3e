//! What a member states of its own clocks to those that it sends beacons to.

use std::time::Duration;

use conclave_protocols::clock::{ClockMap, Interval, Params, State};
use conclave_protocols::policy::{Arbiter, ClockPolicy};
use conclave_protocols::{Incarnation, LocalTime};
use tokio::sync::watch;

use crate::group::{Group, Status};
use crate::os_clock::OsClock;

/// The clocks of a member at one reading of its raw clock. Of a peer it is what that states, and nothing more.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Report {
    /// Which raw clock that is.
    pub(crate) domain: u64,
    pub(crate) raw: LocalTime,
    /// Its group time then.
    pub(crate) time_ns: i64,
    /// How far group time is from that at most; nothing as long as that is not known, or may not hold.
    pub(crate) bound_ns: Option<u64>,
    /// Its wall clock then.
    pub(crate) wall_ns: i64,
    /// How far the wall clock is from UTC at most; nothing if nobody says that it is synchronized.
    pub(crate) wall_error_ns: Option<u64>,
}

/// Where a member's reports come from, for one life of it.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    clock: OsClock,
    domain: u64,
    time: watch::Receiver<ClockMap>,
    status: watch::Receiver<Status>,
    /// When the life began.
    since: LocalTime,
}

impl Report {
    /// The same a while later: group time may have run off UTC since then, as fast as clocks may drift and the leader may
    /// slew beside that. So far the wall clock less group time of then may be from that of now.
    pub(super) fn aged(self, age: Duration, max_drift_ppm: u32) -> Self {
        let rates = Params { max_drift_ppm, ..Params::from(&ClockPolicy::default()) }.rates();
        let off = age.as_nanos() * u128::from(rates.follower_growth()) / 1_000_000_000;
        let off_ns = u64::try_from(off).unwrap_or(u64::MAX);
        Self { bound_ns: self.bound_ns.map(|bound| bound.saturating_add(off_ns)), ..self }
    }

    /// Where group time was then, by what the member states.
    pub(super) fn group_time(&self) -> Option<Interval> {
        self.bound_ns.map(|bound| Interval::around(self.time_ns, bound))
    }
}

impl Reporter {
    /// For the life of a member that is about to begin.
    pub(crate) fn new(group: &Group, me: Incarnation) -> Self {
        let clock = group.os_clock();
        let (time, status) = (group.group_time(), group.status());
        Self { clock, domain: clock.domain(me), time, status, since: clock.raw() }
    }

    /// The clock that is reported.
    pub(super) fn clock(&self) -> OsClock {
        self.clock
    }

    /// Waits until more is known of group time. What was published before this was called may count too.
    pub(super) async fn changed(&mut self) {
        if self.time.changed().await.is_err() {
            // The process ends.
            std::future::pending::<()>().await;
        }
    }

    /// Which raw clock this member reads.
    pub(super) fn domain(&self) -> u64 {
        self.domain
    }

    /// The clocks as they are now.
    pub(super) fn report(&self) -> Report {
        // The map is taken first: it says nothing of a reading before it.
        let map = self.map();
        let raw = self.clock.raw();
        let host = self.clock.host_at(raw.0);
        let reading = map.map(|map| map.reading(raw.0));
        let sure = reading.filter(|reading| reading.state != State::Disrupted);
        let synchronization = host.synchronization.filter(|one| one.synchronized);
        Report {
            domain: self.domain,
            raw,
            time_ns: reading.map_or(0, |reading| reading.now_ns),
            bound_ns: sure.and_then(|reading| reading.error_ns),
            wall_ns: host.wall.ns,
            wall_error_ns: synchronization
                .map(|one| one.max_error_ns.saturating_add(host.wall.error_ns)),
        }
    }

    /// What is known of a group time that is the same for all members. Under the arbiter `None` parts of a group may have
    /// one each.
    pub(super) fn map_of_all(&self) -> Option<ClockMap> {
        let is_one = self.status.borrow().arbiter == Arbiter::Quorum;
        self.map().filter(|_| is_one)
    }

    /// What is known of group time in this life: an earlier one may have been in another group.
    fn map(&self) -> Option<ClockMap> {
        let map = *self.time.borrow();
        map.synced_raw.is_some_and(|synced| synced >= self.since.0).then_some(map)
    }
}

//! What there is of a group before its task, and between two: the handle, and what turns callers away.

use conclave_protocols::LocalTime;
use conclave_protocols::clock::{ClockMap, Params, VirtualClock};
use conclave_protocols::policy::Policy;
use tokio::sync::{mpsc, watch};

use super::node::requests::answered;
use super::publish::Publisher;
use super::reading::LatestTime;
use super::{Believers, ElectionError, Group, NamedElections, Request};
use crate::claims::{AskError, ClaimError};
use crate::locks::LocksError;
use crate::metrics::Metrics;
use crate::os_clock::OsClock;
use crate::probes::Probed;

/// Requests that may wait for the task.
const REQUESTS: usize = 1024;

/// Where a group task sits: what the handles to the group lead to, for as long as the process lives.
pub(crate) struct Slot {
    pub(super) asked: mpsc::Receiver<Request>,
    pub(super) publisher: Publisher,
    pub(super) map: watch::Sender<ClockMap>,
    /// What came of clock probes.
    pub(crate) probed: watch::Sender<Probed>,
    /// When the present life began.
    life: watch::Sender<LocalTime>,
    pub(super) clock: OsClock,
    pub(super) metrics: Metrics,
    pub(super) believers: Believers,
    pub(super) named: watch::Sender<NamedElections>,
    /// The pod is about to end, whatever group it comes into.
    pub(super) drained: bool,
}

/// Makes a slot and the handle to the group.
pub(crate) fn open(group: &str, pod: &str, clock: OsClock, metrics: Metrics) -> (Group, Slot) {
    let (requests, asked) = mpsc::channel(REQUESTS);
    let publisher = Publisher::new(group, pod);
    let believers = Believers::default();
    let map = watch::Sender::new(virtual_clock(clock, &Policy::default()).map());
    let life = watch::Sender::new(clock.raw());
    let named = watch::Sender::new(NamedElections::new());
    let probed = watch::Sender::new(Probed::default());
    let group = Group {
        requests,
        named: named.subscribe(),
        status: publisher.status.subscribe(),
        election: publisher.election.subscribe(),
        time: map.subscribe(),
        probed: probed.subscribe(),
        life: life.subscribe(),
        clock,
        latest: LatestTime::default(),
        believers: believers.clone(),
    };
    let drained = false;
    (group, Slot { asked, publisher, map, probed, life, clock, metrics, believers, named, drained })
}

impl Slot {
    /// Says what is missing.
    pub(crate) fn lacks(&self, what: &str) {
        self.publisher.out(what);
    }

    /// The clock of a life that begins now. The time of an earlier life, which may have been of another group, is no
    /// longer shown.
    pub(super) fn begin_clock(&self, policy: &Policy) -> VirtualClock {
        let clock = virtual_clock(self.clock, policy);
        // In this order: a reader that finds the new map finds the new beginning too.
        self.life.send_replace(self.clock.raw());
        self.map.send_replace(clock.map());
        clock
    }

    /// Turns everybody away until something has happened.
    pub(crate) async fn turn_away_until<T>(&mut self, something: impl Future<Output = T>) -> T {
        let mut something = std::pin::pin!(something);
        loop {
            tokio::select! {
                biased;
                happened = &mut something => return happened,
                Some(request) = self.asked.recv() => self.turn_away(request),
            }
        }
    }

    fn turn_away(&mut self, request: Request) {
        let missing = self.publisher.status.borrow().missing.clone().unwrap_or_default();
        match request {
            Request::Ask(_, reply) => answered(reply, Err(AskError::NotReady(missing))),
            Request::Find(_, _, reply) => answered(reply, Err(ClaimError::NotFound)),
            Request::Renew(_, _, _, reply) => answered(reply, Err(ClaimError::NotFound)),
            Request::Release(_, _, reply) => answered(reply, Err(ClaimError::NotFound)),
            Request::Locks(_, reply) => answered(reply, Err(LocksError::NotReady(missing))),
            Request::Claims(reply) => answered(reply, Vec::new()),
            Request::Election(_, request) => request.refuse(ElectionError::NotReady(missing)),
            Request::Abandon(..) => {}
            Request::Drain => self.drained = true,
        }
    }
}

/// A clock that shows the wall clock's time until it is synchronised.
fn virtual_clock(clock: OsClock, policy: &Policy) -> VirtualClock {
    let utc_offset = clock.wall_ns().saturating_sub(signed(clock.raw()));
    VirtualClock::new(utc_offset, Params::from(&policy.clock).rates())
}

fn signed(time: LocalTime) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use conclave_protocols::Epoch;
    use conclave_protocols::clock::{Correction, Shown};

    use super::*;

    #[test]
    fn a_life_shows_no_time_of_the_life_before() {
        let clock = OsClock::default();
        let (group, slot) = open("orders", "shop-0", clock, Metrics::new("orders"));
        let mut synchronised = virtual_clock(clock, &Policy::default());
        let rates = Params::from(&Policy::default().clock).rates();
        synchronised.enter(clock.raw(), (Epoch(1), true), rates, 3_000_000_000);
        let shown = Shown { raw: clock.raw(), ns: 0 };
        let correction = Correction { delta_ns: 0, ahead_ns: 0, error_ns: 2_000_000 };
        assert!(synchronised.adjust(clock.raw(), shown, correction));
        slot.map.send_replace(synchronised.map());
        let synced = |group: &Group| group.time.borrow().reading(clock.raw().0).error_ns;
        assert!(synced(&group).is_some());
        let before = clock.raw();
        assert!(*group.life.borrow() <= before);
        slot.begin_clock(&Policy::default());
        assert_eq!(synced(&group), None);
        assert!((before..=clock.raw()).contains(&*group.life.borrow()));
    }
}

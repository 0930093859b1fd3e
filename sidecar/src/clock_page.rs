//! Keeps the clock page, on which processes of the pod read group time without asking anybody.
//!
//! Each map of the group clock is published as soon as it is there. The page shows the course of the clock: a map
//! agrees with the one before for [`ClockMap::SWITCH_NS`], and so does the page. If that moment is missed, or if this is
//! a new life whose page still states the time of the one before, the page goes on as it was and is slewed to the clock,
//! and the error that it states covers the difference. Where that is too great, the page is set if it is behind, after it has
//! stated nothing; if it is ahead, it states nothing until the clock has passed that, or what it stated would be void.

mod plan;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::time::Duration;

use conclave_clock_page::{Refused, Words, Writer};
use conclave_protocols::clock::{ClockMap, Params};
use conclave_protocols::policy::ClockPolicy;
use tracing::debug;

pub(crate) use self::plan::{ERROR_MAX_NS, VOID_NS};
use self::plan::{Plan, plan};
use crate::group::Group;
use crate::metrics::{ClockMetrics, Metrics};
use crate::os_clock::{Host, OsClock, clock_domain};

/// The clock page of one member.
#[derive(Debug)]
pub struct ClockPage {
    writer: Writer,
    clock: OsClock,
    domain: u64,
}

/// What came of a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// There is nothing to publish: the page stays as it is.
    Unchanged,
    Published,
    Refused,
    /// The page has stated a later time than the clock shows, by so many nanoseconds.
    Waits(u64),
}

/// What matters to a page besides the clock.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The latest time that others than the page have shown.
    shown: Option<i64>,
    epoch: u64,
    members: usize,
    policy: ClockPolicy,
    host: Host,
}

impl ClockPage {
    /// Opens the page at a path, or puts one there. What the life before has stated there is still in force, unless
    /// it was by another clock.
    pub fn open(path: &Path, clock: OsClock) -> io::Result<Self> {
        let mut writer = if clock.is_faulty() {
            Writer::create_with_fault(path, move || clock.raw().0)?
        } else {
            Writer::create(path)?
        };
        let domain = clock_domain();
        if writer.published().clock_domain != domain {
            state_nothing(&mut writer, domain);
        }
        Ok(Self { writer, clock, domain })
    }

    /// Publishes each map of the group clock, until there are no more.
    pub(crate) async fn keep(mut self, group: Group, metrics: Metrics) {
        let mut maps = group.group_time();
        loop {
            let map = *maps.borrow_and_update();
            let waits = metrics.probes.cost.of(|| self.offer(&map, &group, &metrics.clock));
            let disrupted = map.disrupted_until.saturating_sub(self.clock.raw().0);
            let again = [waits, disrupted].into_iter().filter(|ns| *ns > 0).min();
            tokio::select! {
                changed = maps.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(Duration::from_nanos(again.unwrap_or(0))), if again.is_some() => {}
            }
        }
    }

    /// Publishes a map, or what can be stated of it now. Returns after how many nanoseconds more can be, if that is known.
    fn offer(&mut self, map: &ClockMap, group: &Group, metrics: &ClockMetrics) -> u64 {
        let facts = {
            let status = group.status.borrow();
            Facts {
                shown: None,
                epoch: status.epoch.0,
                members: status.members.len(),
                policy: status.clock,
                host: self.clock.host_at(self.clock.raw().0),
            }
        };
        let mut outcome = Outcome::Unchanged;
        group.latest.publish(self.clock.raw().0, |shown| {
            outcome = self.publish(map, &Facts { shown, ..facts });
            *self.writer.published()
        });
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Published => metrics.page_published.inc(),
            Outcome::Refused | Outcome::Waits(_) => metrics.page_refused.inc(),
        }
        if let Outcome::Waits(ns) = outcome { ns } else { 0 }
    }

    /// Publishes a map, as it is to be read from now on.
    fn publish(&mut self, map: &ClockMap, facts: &Facts) -> Outcome {
        let now = self.clock.raw().0;
        let rates = Params::from(&facts.policy).rates();
        let (words, begins_anew) = match plan(map, self.writer.published(), facts.shown, now, rates)
        {
            Plan::Keep => return Outcome::Unchanged,
            Plan::Wait(ns) => {
                debug!(ns, "the clock page has stated a later time than the group clock shows");
                state_nothing(&mut self.writer, self.domain);
                return Outcome::Waits(ns);
            }
            Plan::Nothing => {
                state_nothing(&mut self.writer, self.domain);
                return Outcome::Published;
            }
            Plan::State { words, begins_anew } => (words, begins_anew),
        };
        if begins_anew {
            state_nothing(&mut self.writer, self.domain);
        }
        match self.writer.publish(&self.with(words, facts, now)) {
            Ok(()) => Outcome::Published,
            Err(error @ (Refused::TooLate { .. } | Refused::GoesBack)) => {
                debug!(%error, "publish on the clock page");
                Outcome::Refused
            }
        }
    }

    fn with(&self, words: Words, facts: &Facts, now: u64) -> Words {
        let Facts { shown: _, epoch, members, policy, host } = *facts;
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let utc_offset_ns = host.wall.ns.saturating_sub(words.at(now).time_ns);
        let synchronization = host.synchronization.filter(|one| one.synchronized);
        let utc_bound_ns = synchronization
            .map_or(u64::MAX, |one| one.max_error_ns.saturating_add(host.wall.error_ns));
        Words {
            epoch,
            members,
            used: members,
            max_drift_ppb: Params::from(&policy).drift_ppb(),
            wander_ppb: u64::from(policy.max_wander_ppb),
            utc_offset_ns,
            utc_bound_ns,
            clock_domain: self.domain,
            ..words
        }
    }
}

/// That nothing is known may be stated at any time.
fn state_nothing(writer: &mut Writer, clock_domain: u64) {
    let stated = writer.publish(&Words { clock_domain, ..Words::UNKNOWN });
    debug_assert_eq!(stated, Ok(()));
}

//! A model of client-go's leader election, written from its source: `tools/leaderelection/leaderelection.go` and
//! `resourcelock/leaselock.go` of v0.34.4. One call is under way at a time; names are those of the source.

use super::*;

/// When it counts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stamps {
    /// As client-go does: a record is as old as its reply, and `RenewDeadline` begins with the next turn of the loop.
    AtTheReply,
    /// As it should: both count from when the last update that succeeded was sent.
    AtTheSend,
}

/// The settings of a program; client-go's defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

pub(super) const DEFAULTS: Config = Config {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// What it decides by of a record: times by the second, as their JSON has them.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Raw {
    holder: String,
    seconds: u64,
    times: [i64; 2],
    transitions: i32,
}

/// A program.
#[derive(Clone, Debug)]
pub(super) struct ClientGo {
    pub(super) identity: String,
    config: Config,
    stamps: Stamps,
    /// `le.observedRecord` and `le.observedTime`.
    observed: Option<(Raw, LocalTime)>,
    /// `ll.lease`.
    lease: Option<Lease>,
    step: Step,
    /// `now` of `tryAcquireOrRenew`.
    begun: LocalTime,
    sent: LocalTime,
    renewing: Option<Renewing>,
    last_sent: LocalTime,
    call: u64,
    pub(super) due: Option<LocalTime>,
    pub(super) random: Random,
}

/// A turn of the loop in `renew`.
#[derive(Clone, Copy, Debug)]
struct Renewing {
    /// When `RenewDeadline` is over; nothing between two turns.
    until: Option<LocalTime>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Sleeps,
    FastUpdate,
    Get,
    SlowUpdate,
    ReleaseGet,
    ReleaseUpdate,
    Ended,
}

/// What it asks the API server for.
#[derive(Clone, Debug)]
pub(super) enum Asks {
    Get,
    Update(Box<Lease>),
}

impl ClientGo {
    pub(super) fn new(identity: &str, config: Config, stamps: Stamps, random: Random) -> Self {
        Self {
            identity: identity.to_owned(),
            config,
            stamps,
            observed: None,
            lease: None,
            step: Step::Sleeps,
            begun: LocalTime::default(),
            sent: LocalTime::default(),
            renewing: None,
            last_sent: LocalTime::default(),
            call: 0,
            due: None,
            random,
        }
    }

    /// Whether `OnStartedLeading` was called, and `OnStoppedLeading` was not.
    pub(super) fn leads(&self) -> bool {
        self.renewing.is_some()
    }

    fn is_leader(&self) -> bool {
        self.observed.as_ref().is_some_and(|(raw, _)| raw.holder == self.identity)
    }

    fn is_lease_valid(&self, now: LocalTime) -> bool {
        let valid =
            |(raw, time): &(Raw, LocalTime)| now < time.after(Duration::from_secs(raw.seconds));
        self.observed.as_ref().is_some_and(valid)
    }

    fn record(&self, wall: Timestamp) -> LeaseSpec {
        let old = self.lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let (mine, transitions) = (self.is_leader(), old.lease_transitions.unwrap_or(0));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.config.lease_duration.as_secs()).ok(),
            acquire_time: old.acquire_time.filter(|_| mine).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(transitions + i32::from(!mine)),
            ..LeaseSpec::default()
        }
    }

    /// It keeps what else it found in the Lease.
    fn update(&self, spec: LeaseSpec) -> Asks {
        let lease = self.lease.clone().unwrap_or_default();
        Asks::Update(Box::new(Lease { spec: Some(spec), ..lease }))
    }

    fn ask(&mut self, now: LocalTime, step: Step, asks: Asks) -> (u64, Asks) {
        (self.step, self.sent) = (step, now);
        self.call += 1;
        // The timeout that controllers of Kubernetes give their client.
        let timeout = now.after(self.config.renew_deadline / 2);
        self.due = Some(self.gives_up().map_or(timeout, |until| until.min(timeout)));
        (self.call, asks)
    }

    /// When it gives up.
    fn gives_up(&self) -> Option<LocalTime> {
        let renewing = self.renewing?;
        match self.stamps {
            Stamps::AtTheReply => renewing.until,
            Stamps::AtTheSend => Some(self.last_sent.after(self.config.renew_deadline)),
        }
    }

    /// Something is due.
    pub(super) fn tick(&mut self, now: LocalTime, wall: Timestamp) -> Option<(u64, Asks)> {
        if self.due.is_none_or(|due| now < due) || self.step == Step::Ended {
            return None;
        }
        if self.gives_up().is_some_and(|until| until <= now) {
            // `OnStoppedLeading`. A program starts anew.
            self.end();
            return None;
        }
        match self.step {
            Step::Sleeps => Some(self.try_acquire_or_renew(now, wall)),
            Step::FastUpdate => Some(self.ask(now, Step::Get, Asks::Get)),
            Step::Get | Step::SlowUpdate => self.returned(now, false),
            Step::ReleaseGet | Step::ReleaseUpdate => {
                self.end();
                None
            }
            Step::Ended => None,
        }
    }

    fn end(&mut self) {
        (self.step, self.renewing, self.due) = (Step::Ended, None, None);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.step == Step::Ended
    }

    fn try_acquire_or_renew(&mut self, now: LocalTime, wall: Timestamp) -> (u64, Asks) {
        self.begun = now;
        if let Some(renewing) = &mut self.renewing {
            let until = now.after(self.config.renew_deadline);
            renewing.until.get_or_insert(until);
        }
        if self.is_leader() && self.is_lease_valid(now) {
            let spec = self.record(wall);
            return self.ask(now, Step::FastUpdate, self.update(spec));
        }
        self.ask(now, Step::Get, Asks::Get)
    }

    /// `tryAcquireOrRenew` returned.
    fn returned(&mut self, now: LocalTime, succeeded: bool) -> Option<(u64, Asks)> {
        let period = self.config.retry_period;
        self.step = Step::Sleeps;
        if succeeded {
            self.renewing = Some(Renewing { until: None });
            self.last_sent = self.sent;
        }
        let jitter = if self.leads() { Duration::ZERO } else { self.random.below(period * 6 / 5) };
        let next = now.after(period + jitter);
        self.due = Some(self.gives_up().map_or(next, |until| until.min(next)));
        None
    }

    fn observe(&mut self, now: LocalTime, lease: Lease) {
        let spec = lease.spec.clone().unwrap_or_default();
        let second = |time: Option<MicroTime>| time.map_or(0, |time| time.0.as_second());
        let raw = Raw {
            holder: spec.holder_identity.unwrap_or_default(),
            seconds: u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0),
            times: [second(spec.acquire_time), second(spec.renew_time)],
            transitions: spec.lease_transitions.unwrap_or(0),
        };
        if self.observed.as_ref().map(|(known, _)| known) != Some(&raw) {
            self.observed = Some((raw, now));
        }
        self.lease = Some(lease);
    }

    /// An answer; nothing if the server refused because of the version.
    pub(super) fn answer(
        &mut self,
        now: LocalTime,
        wall: Timestamp,
        call: u64,
        answer: Option<Lease>,
    ) -> Option<(u64, Asks)> {
        if call != self.call || self.due.is_none_or(|due| due <= now) {
            return None;
        }
        match (self.step, answer) {
            (Step::FastUpdate | Step::SlowUpdate, Some(lease)) => {
                let stamp = if self.stamps == Stamps::AtTheSend { self.sent } else { now };
                self.observe(stamp, lease);
                self.returned(now, true)
            }
            (Step::FastUpdate, None) => Some(self.ask(now, Step::Get, Asks::Get)),
            (Step::SlowUpdate, None) => self.returned(now, false),
            (Step::Get, Some(lease)) => {
                self.observe(now, lease);
                let held = self.observed.as_ref().is_some_and(|(raw, _)| !raw.holder.is_empty());
                if held && self.is_lease_valid(self.begun) && !self.is_leader() {
                    return self.returned(now, false);
                }
                let spec = self.record(wall);
                Some(self.ask(now, Step::SlowUpdate, self.update(spec)))
            }
            (Step::ReleaseGet, Some(lease)) => {
                self.observe(now, lease);
                if !self.is_leader() {
                    self.end();
                    return None;
                }
                let spec = LeaseSpec {
                    holder_identity: Some(String::new()),
                    lease_duration_seconds: Some(1),
                    ..self.record(wall)
                };
                Some(self.ask(now, Step::ReleaseUpdate, self.update(spec)))
            }
            (Step::ReleaseUpdate, _) | (Step::ReleaseGet, None) => {
                self.end();
                None
            }
            (Step::Get, None) | (Step::Sleeps | Step::Ended, _) => None,
        }
    }

    /// Its context is cancelled, with `ReleaseOnCancel`: what it led has stopped before that.
    pub(super) fn cancel(&mut self, now: LocalTime) -> Option<(u64, Asks)> {
        let led = self.leads();
        self.renewing = None;
        if !led {
            self.end();
            return None;
        }
        Some(self.ask(now, Step::ReleaseGet, Asks::Get))
    }
}

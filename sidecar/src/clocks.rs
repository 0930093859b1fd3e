//! The logical clocks of an application: named values, which belong to this process of the sidecar and to nobody else.
//!
//! No other member is asked, so they need no view and no leader. A hybrid clock needs the group time.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::clock::Reading;
use conclave_protocols::logical::hybrid::PhysicalTime;
use conclave_protocols::logical::{Exhausted, Order, ProcessId, hybrid, lamport, vector};
use conclave_protocols::time::wait_for;

/// All logical clocks of one process.
#[derive(Debug)]
pub(crate) struct Clocks {
    me: ProcessId,
    /// Hybrid clocks begin then, by the raw clock.
    hybrid_from: LocalTime,
    named: BTreeMap<ClockName, Clock>,
}

/// The name of a clock: 1 to 253 bytes of UTF-8 without control characters, and another than `.` and `..`, which a
/// URL cannot have, and `compare`, which is a path of the API.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ClockName(String);

/// What kind of clock it is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Lamport,
    Vector,
    Hybrid,
}

/// The stamp of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Stamp {
    Lamport(lamport::Stamp),
    Vector(vector::Stamp),
    Hybrid(hybrid::Stamp),
}

/// An event of the application.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Something of its own, or a sending: of the clock of this kind, or the one that there is.
    Tick(Option<Kind>),
    /// The receipt of a message with this stamp.
    Receive(Stamp),
}

/// The group time at an event, for hybrid clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventTime {
    /// The raw clock.
    pub(crate) raw: LocalTime,
    /// What the group clock reads then.
    pub(crate) reading: Reading,
}

/// Why an event has no stamp.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ClockError {
    /// A clock that is not there yet, and nobody says of which kind it is to be.
    #[error("there is no clock of that name yet, so that its kind must be stated")]
    NoKind,
    /// The clock is of another kind.
    #[error("the clock is of the kind {}, not {}", .is.name(), .stated.name())]
    KindDiffers {
        /// What it is.
        is: Kind,
        /// What the call takes it for.
        stated: Kind,
    },
    /// This process has as many clocks as it may have.
    #[error("this pod has {} clocks already", CLOCKS_MAX)]
    TooMany,
    /// A hybrid clock needs the group time.
    #[error("{0}")]
    TimeUnknown(&'static str),
    /// The clock cannot go on.
    #[error("{0}")]
    Exhausted(String),
    /// The stamp is later than any clock of the group can show.
    #[error(transparent)]
    Ahead(hybrid::Ahead),
    /// The stamp cannot be true.
    #[error("{0}")]
    Untrue(String),
}

/// A clock of one of the kinds.
#[derive(Debug)]
enum Clock {
    Lamport(lamport::Clock),
    Vector(vector::Clock),
    Hybrid(hybrid::Clock),
}

/// How many clocks one process may have.
pub(crate) const CLOCKS_MAX: usize = 100;

/// A hybrid clock does without a group time that is less certain. So no true stamp is later than this and the latest
/// that group time may be.
pub(crate) const ERROR_MAX: Duration = Duration::from_millis(500);

impl Clocks {
    /// Those of a process of a pod that begins now, by the raw clock. A hybrid stamp of an earlier process of the pod
    /// is at most [`ERROR_MAX`] later than group time was then, and a clock that is as wrong shows that much less. So
    /// after twice that time every stamp is later than those.
    pub(crate) fn new(pod: &str, run: u64, now: LocalTime) -> Self {
        // The names of pods are at most 253 letters, digits, dots and dashes.
        let pod: String = pod.chars().filter(char::is_ascii_graphic).take(253).collect();
        let me = ProcessId::try_from(format!("{pod}/{run:x}"));
        let me = me.expect("it is short enough and has no control characters");
        Self { me, hybrid_from: now.after(wait_for(2 * ERROR_MAX)), named: BTreeMap::new() }
    }

    /// Who has these clocks.
    pub(crate) fn process(&self) -> &ProcessId {
        &self.me
    }

    /// How many there are of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.named.values().filter(|clock| clock.kind() == kind).count()
    }

    /// The stamp of the latest event of a clock.
    pub(crate) fn latest(&self, name: &ClockName) -> Option<Stamp> {
        self.named.get(name).map(Clock::now)
    }

    /// An event of a clock, which begins with its first. One that is refused changes nothing.
    pub(crate) fn event(
        &mut self,
        name: &ClockName,
        event: &Event,
        time: &EventTime,
    ) -> Result<Stamp, ClockError> {
        let stated = event.kind();
        let hybrid_from = self.hybrid_from;
        if let Some(clock) = self.named.get_mut(name) {
            let is = clock.kind();
            if let Some(stated) = stated.filter(|stated| *stated != is) {
                return Err(ClockError::KindDiffers { is, stated });
            }
            return clock.event(event, time, hybrid_from);
        }
        let kind = stated.ok_or(ClockError::NoKind)?;
        if self.named.len() >= CLOCKS_MAX {
            return Err(ClockError::TooMany);
        }
        let mut clock = Clock::new(kind, self.me.clone());
        let stamp = clock.event(event, time, hybrid_from)?;
        self.named.insert(name.clone(), clock);
        Ok(stamp)
    }
}

impl Clock {
    fn new(kind: Kind, me: ProcessId) -> Self {
        match kind {
            Kind::Lamport => Self::Lamport(lamport::Clock::new(me)),
            Kind::Vector => Self::Vector(vector::Clock::new(me)),
            Kind::Hybrid => Self::Hybrid(hybrid::Clock::new(me)),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Lamport(_) => Kind::Lamport,
            Self::Vector(_) => Kind::Vector,
            Self::Hybrid(_) => Kind::Hybrid,
        }
    }

    fn now(&self) -> Stamp {
        match self {
            Self::Lamport(clock) => Stamp::Lamport(clock.now()),
            Self::Vector(clock) => Stamp::Vector(clock.now()),
            Self::Hybrid(clock) => Stamp::Hybrid(clock.now()),
        }
    }

    fn event(
        &mut self,
        event: &Event,
        time: &EventTime,
        hybrid_from: LocalTime,
    ) -> Result<Stamp, ClockError> {
        let stamp = match (self, event) {
            (Self::Lamport(clock), Event::Tick(_)) => Stamp::Lamport(clock.tick()?),
            (Self::Lamport(clock), Event::Receive(Stamp::Lamport(stamp))) => {
                Stamp::Lamport(clock.receive(stamp)?)
            }
            (Self::Vector(clock), Event::Tick(_)) => Stamp::Vector(clock.tick()?),
            (Self::Vector(clock), Event::Receive(Stamp::Vector(stamp))) => {
                Stamp::Vector(clock.receive(stamp)?)
            }
            (Self::Hybrid(clock), Event::Tick(_)) => {
                let (pt, _) = time.physical(hybrid_from)?;
                Stamp::Hybrid(clock.tick(pt)?)
            }
            (Self::Hybrid(clock), Event::Receive(Stamp::Hybrid(stamp))) => {
                let (pt, latest) = time.physical(hybrid_from)?;
                Stamp::Hybrid(clock.receive(pt, latest, stamp)?)
            }
            (clock, Event::Receive(stamp)) => {
                return Err(ClockError::KindDiffers { is: clock.kind(), stated: stamp.kind() });
            }
        };
        Ok(stamp)
    }
}

impl EventTime {
    /// The physical time, and the latest that any clock of the group can show.
    fn physical(&self, hybrid_from: LocalTime) -> Result<(PhysicalTime, PhysicalTime), ClockError> {
        if self.raw < hybrid_from {
            return Err(ClockError::TimeUnknown(TOO_YOUNG));
        }
        let error = self.reading.error_ns.map(Duration::from_nanos);
        let (Some(_), Some(latest)) =
            (error.filter(|error| *error <= ERROR_MAX), self.reading.latest_ns())
        else {
            return Err(ClockError::TimeUnknown(TOO_VAGUE));
        };
        let most = i64::try_from(ERROR_MAX.as_nanos()).unwrap_or(i64::MAX);
        let latest = latest.saturating_add(most);
        Ok((PhysicalTime::of_nanos(self.reading.now_ns), PhysicalTime::of_nanos(latest)))
    }
}

impl Event {
    /// Of which kind the clock must be.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Tick(kind) => *kind,
            Self::Receive(stamp) => Some(stamp.kind()),
        }
    }

    /// As a label.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Tick(_) => "tick",
            Self::Receive(_) => "receive",
        }
    }
}

impl Stamp {
    /// The kind of its clock.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Lamport(_) => Kind::Lamport,
            Self::Vector(_) => Kind::Vector,
            Self::Hybrid(_) => Kind::Hybrid,
        }
    }

    /// How it stands to another; nothing if that is of another kind.
    pub(crate) fn compare(&self, other: &Self) -> Option<Order> {
        match (self, other) {
            (Self::Lamport(one), Self::Lamport(other)) => Some(one.compare(other)),
            (Self::Vector(one), Self::Vector(other)) => Some(one.compare(other)),
            (Self::Hybrid(one), Self::Hybrid(other)) => Some(one.compare(other)),
            (Self::Lamport(_) | Self::Vector(_) | Self::Hybrid(_), _) => None,
        }
    }
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 3] = [Self::Lamport, Self::Vector, Self::Hybrid];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lamport => "Lamport",
            Self::Vector => "Vector",
            Self::Hybrid => "Hybrid",
        }
    }

    /// The kind of that name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the order of two stamps is that of the events themselves.
    pub(crate) fn is_exact(self) -> bool {
        match self {
            Self::Vector => true,
            Self::Lamport | Self::Hybrid => false,
        }
    }
}

impl ClockName {
    /// What one looks like.
    pub(crate) const EXPECTED: &str =
        "1 to 253 bytes without control characters, and another name than `.`, `..` and `compare`";

    /// The name, if it is one.
    pub(crate) fn new(name: String) -> Option<Self> {
        let fits = (1..=253).contains(&name.len()) && !name.chars().any(char::is_control);
        (fits && ![".", "..", "compare"].contains(&name.as_str())).then_some(Self(name))
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Exhausted> for ClockError {
    fn from(error: Exhausted) -> Self {
        Self::Exhausted(error.to_string())
    }
}

impl From<vector::ReceiveError> for ClockError {
    fn from(error: vector::ReceiveError) -> Self {
        match error {
            vector::ReceiveError::Exhausted(error) => error.into(),
            vector::ReceiveError::TooMany(error) => Self::Exhausted(error.to_string()),
            vector::ReceiveError::Untrue { .. } => Self::Untrue(error.to_string()),
        }
    }
}

impl From<hybrid::ReceiveError> for ClockError {
    fn from(error: hybrid::ReceiveError) -> Self {
        match error {
            hybrid::ReceiveError::Exhausted(error) => error.into(),
            hybrid::ReceiveError::Ahead(ahead) => Self::Ahead(ahead),
        }
    }
}

/// Why a hybrid clock has no time.
const TOO_YOUNG: &str = "the sidecar has just begun: a hybrid clock waits until its stamps are later than all of an \
     earlier process of this pod";

/// The same.
const TOO_VAGUE: &str = "the group time is not known, or not to within 500 ms; see GET /v1/time";

#[cfg(test)]
mod tests;

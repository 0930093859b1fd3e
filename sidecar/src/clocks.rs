//! The logical clocks of an application: named values, which belong to this process of the sidecar and to nobody else.
//!
//! Each name is a process of its own to the algorithms: a pod, and a number that is drawn at the first event. So two
//! clocks never give one stamp, whichever names they have. What one clock stamps happened in that order; between two,
//! even of one pod, only a stamp that is received shows an order.
//!
//! No other member is asked, so they need no view and no leader. A hybrid clock needs the group time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_protocols::logical::hybrid::PhysicalTime;
use conclave_protocols::logical::{Exhausted, Order, ProcessId, hybrid, lamport, vector};
use conclave_protocols::time::wait_for;

use crate::group::TimeNow;
use crate::sidecar::draw;

/// All logical clocks of one pod.
#[derive(Debug)]
pub(crate) struct Clocks {
    pod: String,
    named: BTreeMap<ClockName, Named>,
}

/// The clocks of a pod, for all who serve them.
#[derive(Clone, Debug)]
pub(crate) struct SharedClocks(Arc<Mutex<Clocks>>);

/// A clock and whose events it stamps.
#[derive(Debug)]
struct Named {
    process: ProcessId,
    clock: Clock,
}

/// The latest event of a clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Latest {
    /// Whose event it was.
    pub(crate) process: ProcessId,
    /// Its stamp.
    pub(crate) stamp: Stamp,
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
    /// This pod has as many clocks as it may have.
    #[error("this pod has {} clocks already", CLOCKS_MAX)]
    TooMany,
    /// A hybrid clock needs the group time.
    #[error("{0}")]
    TimeUnknown(&'static str),
    /// The clock cannot go on.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The vector has no room for the processes of the stamp. It ticks on.
    #[error(transparent)]
    VectorFull(vector::TooLarge),
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

/// How many clocks one pod may have.
pub(crate) const CLOCKS_MAX: usize = 100;

/// A hybrid clock does without a group time that is less certain. So a clock that receives only stamps of such clocks
/// gives none that is later than this and group time.
pub(crate) const ERROR_MAX: Duration = Duration::from_millis(500);

/// How far the stamps of one life of a member can be from those of the next by their clocks alone. A stamp that was made
/// up is received if it is at most [`ERROR_MAX`] later than the latest that group time may be, which is twice as much
/// later than group time; and the next life may show as much less.
const BETWEEN_LIVES: Duration = Duration::from_secs(2);

impl SharedClocks {
    /// Those of a pod that has none yet.
    pub(crate) fn new(pod: &str) -> Self {
        Self(Arc::new(Mutex::new(Clocks::new(pod))))
    }

    /// The clocks, for one step.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Clocks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clocks {
    /// Those of a pod that has none yet.
    pub(crate) fn new(pod: &str) -> Self {
        // The names of pods are at most 253 letters, digits, dots and dashes. Nothing checks that of `POD_NAME`.
        let fits = |c: &char| c.is_ascii_alphanumeric() || ['.', '-'].contains(c);
        let pod = pod.chars().filter(fits).take(253).collect();
        Self { pod, named: BTreeMap::new() }
    }

    /// How many there are of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.named.values().filter(|named| named.clock.kind() == kind).count()
    }

    /// The latest event of a clock.
    pub(crate) fn latest(&self, name: &ClockName) -> Option<Latest> {
        let latest =
            |named: &Named| Latest { process: named.process.clone(), stamp: named.clock.now() };
        self.named.get(name).map(latest)
    }

    /// All clocks in the order of their names, each with its kind and whose events it stamps.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ClockName, Kind, &ProcessId)> {
        self.named.iter().map(|(name, named)| (name, named.clock.kind(), &named.process))
    }

    /// Forgets a clock. Its name may have another then, which is another process; whether there was one.
    pub(crate) fn remove(&mut self, name: &ClockName) -> bool {
        self.named.remove(name).is_some()
    }

    /// An event of a clock, which begins with its first. One that is refused changes nothing.
    pub(crate) fn event(
        &mut self,
        name: &ClockName,
        event: &Event,
        time: &TimeNow,
    ) -> Result<Latest, ClockError> {
        if let Some(named) = self.named.get_mut(name) {
            let stamp = named.clock.event(event, time)?;
            return Ok(Latest { process: named.process.clone(), stamp });
        }
        let kind = event.kind().ok_or(ClockError::NoKind)?;
        if self.named.len() >= CLOCKS_MAX {
            return Err(ClockError::TooMany);
        }
        let process = self.draw_process();
        let mut clock = Clock::new(kind, process.clone());
        let stamp = clock.event(event, time)?;
        self.named.insert(name.clone(), Named { process: process.clone(), clock });
        Ok(Latest { process, stamp })
    }

    /// A process that nobody was before.
    fn draw_process(&self) -> ProcessId {
        let process = ProcessId::try_from(format!("{}/{:x}", self.pod, draw()));
        process.expect("it is short enough, and of letters, digits, dots, dashes and a slash")
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

    /// An event of this clock, if it is of the kind that the event is for.
    fn event(&mut self, event: &Event, time: &TimeNow) -> Result<Stamp, ClockError> {
        let is = self.kind();
        let differs = |stated| Err(ClockError::KindDiffers { is, stated });
        match (self, event) {
            (_, Event::Tick(Some(kind))) if *kind != is => differs(*kind),
            (Self::Lamport(clock), Event::Tick(_)) => Ok(Stamp::Lamport(clock.tick()?)),
            (Self::Vector(clock), Event::Tick(_)) => Ok(Stamp::Vector(clock.tick()?)),
            (Self::Hybrid(clock), Event::Tick(_)) => {
                let (pt, _) = time.physical(clock)?;
                Ok(Stamp::Hybrid(clock.tick(pt)?))
            }
            (Self::Lamport(clock), Event::Receive(Stamp::Lamport(stamp))) => {
                Ok(Stamp::Lamport(clock.receive(stamp)?))
            }
            (Self::Vector(clock), Event::Receive(Stamp::Vector(stamp))) => {
                Ok(Stamp::Vector(clock.receive(stamp)?))
            }
            (Self::Hybrid(clock), Event::Receive(Stamp::Hybrid(stamp))) => {
                let (pt, latest) = time.physical(clock)?;
                Ok(Stamp::Hybrid(clock.receive(pt, latest, stamp)?))
            }
            (Self::Lamport(_) | Self::Vector(_) | Self::Hybrid(_), Event::Receive(stamp)) => {
                differs(stamp.kind())
            }
        }
    }
}

impl TimeNow {
    /// The physical time, and the latest that a clock of the group may show, for an event of this clock.
    fn physical(&self, clock: &hybrid::Clock) -> Result<(PhysicalTime, PhysicalTime), ClockError> {
        if self.raw < self.life.after(wait_for(BETWEEN_LIVES)) {
            return Err(ClockError::TimeUnknown(TOO_YOUNG));
        }
        let error = self.reading.error_ns.map(Duration::from_nanos);
        let (Some(_), Some(latest)) =
            (error.filter(|error| *error <= ERROR_MAX), self.reading.latest_ns())
        else {
            return Err(ClockError::TimeUnknown(TOO_VAGUE));
        };
        let most = i64::try_from(ERROR_MAX.as_nanos()).unwrap_or(i64::MAX);
        let latest = PhysicalTime::of_nanos(latest.saturating_add(most));
        // Group time has gone back, since the group is another, or began anew.
        if clock.now().time.l() > latest {
            return Err(ClockError::TimeUnknown(TOO_LATE));
        }
        Ok((PhysicalTime::of_nanos(self.reading.now_ns), latest))
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
    conclave_protocols::by_variant! {
        /// As it is written.
        pub(crate) fn name -> &'static str {
            Lamport => "Lamport",
            Vector => "Vector",
            Hybrid => "Hybrid",
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

impl From<vector::ReceiveError> for ClockError {
    fn from(error: vector::ReceiveError) -> Self {
        match error {
            vector::ReceiveError::Exhausted(error) => error.into(),
            vector::ReceiveError::TooLarge(error) => Self::VectorFull(error),
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
const TOO_YOUNG: &str = "the sidecar, or its life in this group, has just begun: a hybrid clock waits until its stamps \
     are later than all that this pod gave before";

/// The same.
const TOO_VAGUE: &str = "the group time is not known, or not to within 500 ms; see GET /v1/time";

/// The same.
const TOO_LATE: &str = "the latest stamp of this clock is more than 500 ms later than the group time may be, which has \
     gone back: the clock waits until that is no longer so";

#[cfg(test)]
mod tests;

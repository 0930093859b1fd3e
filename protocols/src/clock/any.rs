//! The clock algorithm that a policy names.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::berkeley::Berkeley;
use super::course::Known;
use super::cristian::Cristian;
use super::discipline::VirtualClock;
use super::ntp::Ntp;
use super::params::Params;
use super::round::Source;
use crate::ids::MemberId;
use crate::one_of::one_of;
use crate::policy::{ClockAlgorithm, ClockPolicy};
use crate::view::View;

/// One member's part in keeping the group clock.
pub trait GroupClock {
    /// This member's clock, to be carried into the next view.
    fn clock(&self) -> &VirtualClock;
}

/// What a member learns.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// The clock took another course, or its bound is another.
    Adjusted,
    /// A round or an exchange has ended, in which this was learned of the members that were asked.
    Compared(BTreeMap<MemberId, Source>),
    /// The leader states what it knows of group time, by its own raw clock.
    Stated(Box<Known>),
}

one_of! {
    /// The clock algorithm that a policy names.
    pub enum AnyClock {
        type Peer = MemberId;
        type Command = Infallible;
        type Event = Event;
        /// What its members send.
        enum Message = AnyMessage;
        /// Its timers.
        enum Timer = AnyTimer;

        /// The leader asks all, averages, and sends each its correction.
        Berkeley(Berkeley),
        /// Each member asks the leader.
        Cristian(Cristian),
        /// Each member asks several servers.
        Ntp(Ntp),
    }
}

impl AnyClock {
    /// A member's part in a view, with the clock that it had in the views before.
    #[must_use]
    pub fn new(policy: &ClockPolicy, me: MemberId, view: View, clock: VirtualClock) -> Self {
        Self::with(policy.algorithm, Params::from(policy), (me, view), clock)
    }

    /// The same with other parameters than follow from a policy.
    #[must_use]
    pub fn with(
        algorithm: ClockAlgorithm,
        params: Params,
        (me, view): (MemberId, View),
        clock: VirtualClock,
    ) -> Self {
        match algorithm {
            ClockAlgorithm::Berkeley => Self::Berkeley(Berkeley::new(me, view, params, clock)),
            ClockAlgorithm::Cristian => Self::Cristian(Cristian::new(me, view, params, clock)),
            ClockAlgorithm::Ntp => Self::Ntp(Ntp::new(me, view, params, clock)),
        }
    }
}

impl GroupClock for AnyClock {
    fn clock(&self) -> &VirtualClock {
        match self {
            Self::Berkeley(berkeley) => berkeley.clock(),
            Self::Cristian(cristian) => cristian.clock(),
            Self::Ntp(ntp) => ntp.clock(),
        }
    }
}

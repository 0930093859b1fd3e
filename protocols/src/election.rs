//! Electing one of the members.
//!
//! An election only *nominates*: the textbook algorithms assume that nobody is wrongly taken for
//! dead and that the network is whole, so two members may think themselves elected. What makes the
//! winner a leader is the office protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::MemberId;
use crate::protocol::Protocol;
use crate::view::View;

/// What a member may ask of an election.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Command {
    /// "The leader is gone: elect another."
    Elect,
}

/// What a member learns from an election.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// This one was elected, perhaps this member itself.
    Elected(MemberId),
}

/// How long an election waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Timing {
    /// For an answer of a living member, there and back: the books' Δt.
    pub answer: Duration,
    /// For the announcement of the winner by somebody who answered: the books' Δt'.
    pub announcement: Duration,
}

/// What every election is to tests, to metrics and to whoever starts it.
pub trait Election: Protocol<Peer = MemberId, Command = Command, Event = Event> + Sized {
    /// A member that takes part in no election yet.
    fn new(me: MemberId, view: View, timing: Timing) -> Self;

    /// Whom this member takes for elected.
    fn elected(&self) -> Option<MemberId>;
}

//! What a mutex can do in which one member, the leader of the view, admits all others.
//!
//! The textbook has no remedy for what such an algorithm loses. Its driver has, without a change of view: the
//! coordinator alone knows who is in the critical section and who waits, so a holder whose lease is over is taken
//! out, a request or a grant that was lost is sent again, and a member that is silent is passed over. An algorithm
//! that grants among the members lacks that, and a lost member costs a change of view.

use crate::ids::{MemberId, RequestNumber};

/// The capability, declared by the algorithms that have it ([`GroupMutex::coordinated`](super::GroupMutex::coordinated)).
pub trait Coordinated {
    /// Whether this member is the coordinator.
    fn coordinates(&self) -> bool;

    /// Who waits, the first in line first, at the coordinator.
    fn queue(&self) -> Vec<MemberId>;

    /// The first of those.
    fn first_in_line(&self) -> Option<MemberId>;

    /// The member that the coordinator admitted.
    fn in_section(&self) -> Option<MemberId>;

    /// Whether the coordinator admitted a member on this very request.
    fn is_in_section(&self, member: MemberId, number: RequestNumber) -> bool;

    /// Whether this very request is in the coordinator's queue.
    fn waits(&self, member: MemberId, number: RequestNumber) -> bool;

    /// Whether this member has a grant at hand without being in the critical section.
    fn keeps(&self) -> bool;

    /// The coordinator takes the member in the critical section out. Nobody is admitted before the next input.
    fn expel(&mut self);

    /// The coordinator takes a member out of the queue.
    fn withdraw(&mut self, member: MemberId);
}

/// What a message states between a member and its coordinator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Coordination {
    /// The member asks.
    Request(RequestNumber),
    /// The coordinator admits it.
    Grant(RequestNumber),
    /// The coordinator notifies it that it has to wait.
    Queued,
    /// The member leaves, or no longer wants in.
    Release(RequestNumber),
    /// Something of the algorithm's own.
    Other,
}

impl Coordination {
    /// By what the member asks, if it does.
    pub(crate) fn requested(self) -> Option<RequestNumber> {
        match self {
            Self::Request(number) => Some(number),
            Self::Grant(_) | Self::Queued | Self::Release(_) | Self::Other => None,
        }
    }

    /// By what the member leaves, if it does.
    pub(crate) fn released(self) -> Option<RequestNumber> {
        match self {
            Self::Release(number) => Some(number),
            Self::Request(_) | Self::Grant(_) | Self::Queued | Self::Other => None,
        }
    }
}

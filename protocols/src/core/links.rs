//! The links between the members of a view, as the messages of services see them.
//!
//! Most algorithms lean on links that lose nothing. A message that follows a gap is not heard, nor any
//! after it: the view is to be changed. What a service repairs by what promises list needs only the order.
//! Messages are numbered for each pair of members and each service, so that a gap of one is none of another.

use std::collections::BTreeMap;

use super::message::Envelope;
use super::service::PartNumber;
use crate::ids::{Epoch, Incarnation, MemberId};

/// What was sent and received in the view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Links<B> {
    /// How many messages of each service went to each member.
    sent: BTreeMap<(MemberId, PartNumber), u64>,
    received: BTreeMap<(MemberId, PartNumber), Received>,
    /// What others sent in a view that this member has yet to enter, in order.
    early: Vec<(Incarnation, Envelope<B>)>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Received {
    latest: u64,
    /// Something before that is missing.
    broken: bool,
}

/// How many messages of views to come are kept. A gap follows what is dropped.
const EARLY_MAX: usize = 4096;

impl<B> Default for Links<B> {
    fn default() -> Self {
        Self { sent: BTreeMap::new(), received: BTreeMap::new(), early: Vec::new() }
    }
}

impl<B> Links<B> {
    /// What is known when a view begins.
    pub(super) fn anew(&mut self) {
        self.sent.clear();
        self.received.clear();
    }

    /// No view without an arbiter is to come.
    pub(super) fn forget_unarbitrated(&mut self) {
        self.early.retain(|(_, envelope)| !envelope.epoch.is_unarbitrated());
    }

    /// The number of a service's next message to a member.
    pub(super) fn next(&mut self, to: MemberId, of: PartNumber) -> u64 {
        let number = self.sent.entry((to, of)).or_default();
        *number += 1;
        *number
    }

    /// Whether a message of a service is to be heard: none of its that was sent later was heard before, and none is
    /// missing, unless the service `repairs` what is.
    pub(super) fn accept(
        &mut self,
        from: MemberId,
        of: PartNumber,
        number: u64,
        repairs: bool,
    ) -> bool {
        let link = self.received.entry((from, of)).or_default();
        let is_late = number <= link.latest;
        link.broken |= number > link.latest.saturating_add(1);
        link.latest = link.latest.max(number);
        !is_late && (repairs || !link.broken)
    }

    /// A message of a view that this member has yet to enter.
    pub(super) fn keep_early(&mut self, from: Incarnation, envelope: Envelope<B>) {
        if self.early.len() < EARLY_MAX {
            self.early.push((from, envelope));
        }
    }

    /// What others sent in this view before this member entered it. What is of a later one stays.
    pub(super) fn take_early(&mut self, epoch: Epoch) -> Vec<(Incarnation, Envelope<B>)> {
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.early)
            .into_iter()
            .partition(|(_, envelope)| envelope.epoch == epoch);
        let same_kind = |of: Epoch| of.is_unarbitrated() == epoch.is_unarbitrated();
        let to_come = |of: Epoch| of > epoch || !same_kind(of);
        self.early = later.into_iter().filter(|(_, envelope)| to_come(envelope.epoch)).collect();
        now
    }
}

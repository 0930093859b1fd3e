//! The links between the members of a view, as the messages of locks see them.
//!
//! Most algorithms lean on links that lose nothing. A message that follows a gap is not heard, nor any
//! after it: the view is to be changed. A lock with a coordinator repairs what is lost by what promises
//! list, and needs only the order.

use std::collections::BTreeMap;

use super::super::message::LockMessage;
use super::{LockOut, Locks};
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::time::LocalTime;

/// What was sent and received in the view.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Links {
    /// How many messages went to each.
    sent: BTreeMap<MemberId, u64>,
    received: BTreeMap<MemberId, Received>,
    /// What others sent in a view that this member has yet to enter, in order.
    early: Vec<(Incarnation, LockMessage)>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Received {
    latest: u64,
    /// Something before that is missing.
    broken: bool,
}

/// How many messages of views to come are kept. A gap follows what is dropped.
const EARLY_MAX: usize = 4096;

impl Links {
    /// What is known when a view begins.
    pub(super) fn anew(&mut self) {
        *self = Self { early: std::mem::take(&mut self.early), ..Self::default() };
    }

    /// No view without an arbiter is to come.
    pub(super) fn forget_unarbitrated(&mut self) {
        self.early.retain(|(_, message)| !message.epoch.is_unarbitrated());
    }

    /// The number of the next message to a member.
    pub(super) fn next(&mut self, to: MemberId) -> u64 {
        let number = self.sent.entry(to).or_default();
        *number += 1;
        *number
    }

    /// Whether a message is to be heard: none that was sent later was heard before, and none is missing,
    /// unless its algorithm `repairs` what is.
    pub(super) fn is_next(&mut self, from: MemberId, number: u64, repairs: bool) -> bool {
        let link = self.received.entry(from).or_default();
        let is_late = number <= link.latest;
        link.broken |= number > link.latest.saturating_add(1);
        link.latest = link.latest.max(number);
        !is_late && (repairs || !link.broken)
    }
}

impl Locks {
    /// A message of a view that this member has yet to enter.
    pub(in crate::member) fn keep_early(&mut self, from: Incarnation, message: LockMessage) {
        if self.links.early.len() < EARLY_MAX {
            self.links.early.push((from, message));
        }
    }

    /// What others sent in this view before this member entered it.
    pub(super) fn hear_early(&mut self, now: LocalTime, epoch: Epoch, out: &mut LockOut) {
        let early = std::mem::take(&mut self.links.early);
        for (from, message) in early {
            let same_kind = message.epoch.is_unarbitrated() == epoch.is_unarbitrated();
            if message.epoch == epoch {
                self.on_message(now, from, message, out);
            } else if message.epoch > epoch || !same_kind {
                self.links.early.push((from, message));
            }
        }
    }
}

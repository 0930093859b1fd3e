//! Grants that a member keeps when it leaves, until another wants in.
//!
//! ```text
//! member:
//!   on exit:          keep the grant, if nobody was heard to want it; else send release
//!   on enter:         if the grant is kept: in the critical section, without a message
//!   on wanted:        if in the critical section: send in_use, and release on exit
//!                     if the grant is kept: send release
//!   unused for long:  send release
//! coordinator:
//!   on request(p):    if another has the grant: append p; send wanted to it, once for each grant
//!   on in_use:        notify all that wait that they are queued
//! ```

use super::{Central, Message, RequestNumber, State};
use crate::ids::MemberId;
use crate::mutex::Permissions;
use crate::protocol::OutboxOf;

/// The member's rules.
impl Central {
    pub(super) fn may_keep(&self) -> bool {
        !self.wanted && self.me != self.view.leader
    }

    pub(super) fn on_wanted(&mut self, number: RequestNumber, out: &mut OutboxOf<Self>) {
        match self.state {
            State::InSection if number == self.latest => {
                self.wanted = true;
                self.send(Message::InUse(number), out);
            }
            State::Keeping if number == self.latest => self.exit(out),
            State::Idle | State::Waiting | State::InSection | State::Keeping => {}
        }
    }
}

/// The coordinator's rules.
impl Central {
    /// The members that wait have to.
    pub(super) fn on_in_use(
        &mut self,
        from: MemberId,
        number: RequestNumber,
        out: &mut OutboxOf<Self>,
    ) {
        if self.ledger.in_section != Some((from, number)) {
            return;
        }
        self.ledger.in_use = true;
        self.tell_all_to_wait(out);
    }

    pub(super) fn tell_all_to_wait(&mut self, out: &mut OutboxOf<Self>) {
        let unanswered = std::mem::take(&mut self.ledger.unanswered);
        let waiting = self.ledger.queue.iter().filter(|(member, _)| unanswered.contains(member));
        for (member, number) in waiting.copied().collect::<Vec<_>>() {
            self.answer(member, Message::Queued(number), out);
        }
    }

    /// Asks once more for the grant that is out: its holder may not have heard, or the answer was lost.
    pub(super) fn want_again(&mut self, out: &mut OutboxOf<Self>) {
        let Some((in_section, number)) = self.ledger.in_section else { return };
        if self.may_be_kept() && self.ledger.recalled && !self.ledger.in_use {
            self.answer(in_section, Message::Wanted(number), out);
        }
    }

    /// Whether a grant is out that is valid until another member asks.
    pub(super) fn may_be_kept(&self) -> bool {
        let kept = self.permissions != Permissions::ForOneEntry;
        self.ledger.in_section.is_some_and(|(in_section, _)| kept && in_section != self.me)
    }

    /// Asks for the grant back that is out, once, if it may be kept and another waits.
    pub(super) fn recall(&mut self, out: &mut OutboxOf<Self>) {
        let Some((in_section, number)) = self.ledger.in_section else { return };
        if self.may_be_kept() && !self.ledger.recalled && !self.ledger.queue.is_empty() {
            self.ledger.recalled = true;
            self.answer(in_section, Message::Wanted(number), out);
        }
    }
}

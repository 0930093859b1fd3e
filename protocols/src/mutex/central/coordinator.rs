//! The coordinator's part: who is in the critical section, and who waits.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use super::{Central, Message, RequestNumber, State};
use crate::ids::MemberId;
use crate::mutex::Coordinated;
use crate::protocol::OutboxOf;

/// What the coordinator knows.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Ledger {
    pub(super) in_section: Option<(MemberId, RequestNumber)>,
    pub(super) queue: VecDeque<(MemberId, RequestNumber)>,
    /// The member in the critical section was notified that another wants to enter.
    pub(super) recalled: bool,
    /// And is in the critical section indeed.
    pub(super) in_use: bool,
    /// Who does not know yet whether it has to wait.
    pub(super) unanswered: BTreeSet<MemberId>,
}

impl Central {
    /// The coordinator's rules.
    pub(super) fn coordinate(
        &mut self,
        from: MemberId,
        message: Message,
        out: &mut OutboxOf<Self>,
    ) {
        match message {
            Message::Request(number) => self.on_request(from, number, out),
            Message::Release(number) => self.on_release(from, number, out),
            Message::InUse(number) => self.on_in_use(from, number, out),
            Message::Queued(_) | Message::Grant(_) | Message::Wanted(_) => {}
        }
    }

    /// Speaks as the coordinator to a member, who may be this one.
    pub(super) fn answer(&mut self, to: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if to == self.me {
            self.hear(message, out);
        } else {
            out.send(to, message);
        }
    }

    fn on_request(&mut self, from: MemberId, number: RequestNumber, out: &mut OutboxOf<Self>) {
        if let Some((_, in_section)) =
            self.ledger.in_section.filter(|(in_section, _)| *in_section == from)
        {
            match number.cmp(&in_section) {
                Ordering::Less => return,
                Ordering::Equal => return self.answer(from, Message::Grant(number), out),
                Ordering::Greater => self.ledger.in_section = None,
            }
        }
        if !self.waits(from, number) {
            self.withdraw(from);
            self.ledger.queue.push_back((from, number));
        }
        if self.ledger.in_section.is_none() {
            self.admit(out);
        } else if self.may_be_kept() && !self.ledger.in_use {
            self.ledger.unanswered.insert(from);
            self.recall(out);
        } else {
            self.answer(from, Message::Queued(number), out);
        }
    }

    fn on_release(&mut self, from: MemberId, number: RequestNumber, out: &mut OutboxOf<Self>) {
        self.ledger.queue.retain(|waiting| *waiting != (from, number));
        if self.ledger.in_section == Some((from, number)) {
            self.ledger.in_section = None;
            self.admit(out);
        }
    }

    /// Admits the head of the queue.
    pub(super) fn admit(&mut self, out: &mut OutboxOf<Self>) {
        let Some((next, number)) = self.ledger.queue.pop_front() else { return };
        self.ledger.in_section = Some((next, number));
        self.ledger.recalled = false;
        self.ledger.in_use = false;
        self.ledger.unanswered.remove(&next);
        self.answer(next, Message::Grant(number), out);
        if self.may_be_kept() {
            self.recall(out);
        } else {
            self.tell_all_to_wait(out);
        }
    }
}

/// What the driver of a coordinator may do without a change of view.
impl Coordinated for Central {
    fn coordinates(&self) -> bool {
        self.me == self.view.leader
    }

    fn queue(&self) -> Vec<MemberId> {
        self.ledger.queue.iter().map(|(member, _)| *member).collect()
    }

    fn first_in_line(&self) -> Option<MemberId> {
        self.ledger.queue.front().map(|(member, _)| *member)
    }

    fn in_section(&self) -> Option<MemberId> {
        self.ledger.in_section.map(|(member, _)| member)
    }

    fn is_in_section(&self, member: MemberId, number: RequestNumber) -> bool {
        self.ledger.in_section == Some((member, number))
    }

    fn waits(&self, member: MemberId, number: RequestNumber) -> bool {
        self.ledger.queue.contains(&(member, number))
    }

    fn keeps(&self) -> bool {
        self.state == State::Keeping
    }

    fn expel(&mut self) {
        self.ledger.in_section = None;
    }

    fn withdraw(&mut self, member: MemberId) {
        self.ledger.queue.retain(|(waiting, _)| *waiting != member);
    }
}

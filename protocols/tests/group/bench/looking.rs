//! What was sent on the bench, and what members were notified of.

use conclave_protocols::FencingToken;
use conclave_protocols::member::message::{Message, PeerMessage};
use conclave_protocols::member::{Event, Leadership, LockEvent, Node, OfLock, OfService};
use conclave_protocols::protocol::Named;

use super::Bench;

impl Bench {
    /// Whether it was notified that it holds for longer than at first.
    pub(crate) fn is_extended(&self, member: usize, lock: &str) -> bool {
        let first = self.lock_events(member, lock).filter_map(|event| match event {
            LockEvent::Entered { term, .. } => Some(term.until()),
            LockEvent::Queued(_)
            | LockEvent::Extended { .. }
            | LockEvent::Left { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Lost(_) => None,
        });
        self.deadline(member, lock) > first.last()
    }

    /// The tokens that a member was given for a lock.
    pub(crate) fn tokens(&self, member: usize, lock: &str) -> Vec<u64> {
        let token = |event: &LockEvent| match event {
            LockEvent::Entered { token, .. } => token.map(FencingToken::get),
            LockEvent::Queued(_)
            | LockEvent::Extended { .. }
            | LockEvent::Left { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Lost(_) => None,
        };
        self.lock_events(member, lock).filter_map(token).collect()
    }

    pub(crate) fn lock_events(
        &self,
        member: usize,
        lock: &str,
    ) -> impl Iterator<Item = &LockEvent> {
        events(&self.notified, member, lock)
    }

    pub(crate) fn leadership(&self, member: usize) -> Option<Leadership> {
        let of = self.notified.iter().rev().filter(|(index, _)| *index == member);
        of.into_iter().find_map(|(_, event)| {
            if let Event::Leadership(leadership) = event { Some(*leadership) } else { None }
        })
    }

    /// The messages of a name that were sent from one member to another.
    pub(crate) fn sent(&self, from: usize, to: usize, name: &str) -> Vec<&PeerMessage> {
        let (from, to) = (self.node(from), self.node(to));
        self.sent
            .iter()
            .filter(|(f, t, _)| (*f, *t) == (from, to))
            .filter_map(|(_, _, message)| match message {
                Message::Peer(message) if message.name() == name => Some(message),
                Message::Peer(_) | Message::Register(_) => None,
            })
            .collect()
    }

    /// How many calls of a name a member made to the register.
    pub(crate) fn calls(&self, member: usize, name: &str) -> usize {
        let from = self.node(member);
        let of = |(f, t, message): &&(Node, Node, Message)| {
            *f == from && *t == Node::Register && message.name() == name
        };
        self.sent.iter().filter(of).count()
    }
}

/// What a member was notified of about a lock.
fn events<'a>(
    notified: &'a [(usize, Event)],
    member: usize,
    lock: &str,
) -> impl Iterator<Item = &'a LockEvent> {
    notified.iter().filter(move |(index, _)| *index == member).filter_map(move |(_, event)| {
        if let Event::Service(OfService::Lock(OfLock { lock: name, event })) = event
            && name.as_str() == lock
        {
            Some(event)
        } else {
            None
        }
    })
}

//! The way round a ring on which members may be dead.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::MemberId;
use crate::protocol::{OutboxOf, Protocol};
use crate::view::View;

/// An election whose messages go round: how each gets to the next living member.
pub(super) trait OnRing: Protocol<Peer = MemberId, Message: Clone> {
    /// The next member has not acknowledged.
    const LATE: Self::Timer;

    fn hops(&mut self) -> &mut Hops<Self::Message>;

    /// Within this a living member acknowledges.
    fn answer(&self) -> Duration;

    /// A message is here.
    fn receive(&mut self, message: Self::Message, out: &mut OutboxOf<Self>);

    /// Takes the first in line out of it if it is not to be sent on. Returns whether it was taken out.
    fn discards(&mut self, _out: &mut OutboxOf<Self>) -> bool {
        false
    }

    fn pass_on(&mut self, message: Self::Message, out: &mut OutboxOf<Self>) {
        if self.hops().push(message) {
            self.send_first(out);
        }
    }

    fn on_ack(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if self.hops().acknowledged(from) {
            out.disarm(Self::LATE);
            self.send_first(out);
        }
    }

    fn skip_successor(&mut self, out: &mut OutboxOf<Self>) {
        self.hops().skip();
        self.send_first(out);
    }

    fn send_first(&mut self, out: &mut OutboxOf<Self>) {
        if self.discards(out) {
            return self.send_first(out);
        }
        match self.hops().next() {
            Next::Send(to, message) => {
                out.send(to, message.clone());
                out.arm(Self::LATE, self.answer());
            }
            Next::Home(message) => {
                self.receive(message, out);
                self.send_first(out);
            }
            Next::Nothing => {}
        }
    }
}

/// What one member passes on to the next that lives, one message at a time, in order.
///
/// Only the first in line is under way, so that every acknowledgement is for it, in whatever order
/// the links deliver. A successor that was skipped stays skipped for all that wait in line, or each
/// of them would wait for it anew; once the line is empty, it is tried again.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hops<M> {
    me: MemberId,
    view: View,
    line: VecDeque<M>,
    successor: MemberId,
}

/// What is to be done with the first in line.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Next<'a, M> {
    /// It goes to this member.
    Send(MemberId, &'a M),
    /// Nobody else lives: it has come round at once.
    Home(M),
    /// There is none.
    Nothing,
}

impl<M> Hops<M> {
    pub(super) fn new(me: MemberId, view: View) -> Self {
        Self { me, view, line: VecDeque::new(), successor: view.successor(me) }
    }

    /// Puts a message in line. Returns whether it is the first.
    pub(super) fn push(&mut self, message: M) -> bool {
        self.line.push_back(message);
        self.line.len() == 1
    }

    /// Takes the first out of the line, if this is whom it was sent to. Returns whether it was.
    pub(super) fn acknowledged(&mut self, by: MemberId) -> bool {
        by == self.successor && self.line.pop_front().is_some()
    }

    /// Takes the successor for dead.
    pub(super) fn skip(&mut self) {
        self.successor = self.view.successor(self.successor);
    }

    /// The first in line, if the member at which it ends was skipped: it would go on for ever.
    pub(super) fn stray(&self, ends_at: impl Fn(&M) -> Option<MemberId>) -> Option<&M> {
        let first = self.line.front()?;
        ends_at(first).filter(|end| self.has_skipped(*end)).map(|_| first)
    }

    /// Takes the first out of the line, which nobody is to get.
    pub(super) fn remove(&mut self) {
        self.line.pop_front();
    }

    fn has_skipped(&self, member: MemberId) -> bool {
        let mut next = self.view.successor(self.me);
        while next != self.successor && next != member {
            next = self.view.successor(next);
        }
        next != self.successor
    }

    pub(super) fn next(&mut self) -> Next<'_, M> {
        if self.successor == self.me
            && let Some(message) = self.line.pop_front()
        {
            return Next::Home(message);
        }
        if self.line.is_empty() {
            self.successor = self.view.successor(self.me);
        }
        self.line.front().map_or(Next::Nothing, |first| Next::Send(self.successor, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;

    fn hops() -> Hops<char> {
        Hops::new(MemberId(1), View { epoch: Epoch(1), size: 3, leader: MemberId(2) })
    }

    #[test]
    fn the_second_in_line_waits_and_does_not_try_the_dead_one_again() {
        let mut hops = hops();
        assert!(hops.push('a'));
        assert!(!hops.push('b'));
        assert_eq!(hops.next(), Next::Send(MemberId(2), &'a'));
        hops.skip();
        assert_eq!(hops.next(), Next::Send(MemberId(0), &'a'));
        assert!(!hops.acknowledged(MemberId(2)), "too late: it was skipped");
        assert!(hops.acknowledged(MemberId(0)));
        assert_eq!(hops.next(), Next::Send(MemberId(0), &'b'));
        assert!(hops.acknowledged(MemberId(0)));
        assert_eq!(hops.next(), Next::Nothing);
        assert!(hops.push('c'));
        assert_eq!(hops.next(), Next::Send(MemberId(2), &'c'));
    }

    #[test]
    fn what_ends_at_a_member_that_was_skipped_is_a_stray() {
        let mut hops = hops();
        let ends_at = |at| move |_: &char| at;
        let strays = |hops: &Hops<char>| {
            [0, 1, 2].map(|at| hops.stray(ends_at(Some(MemberId(at)))).is_some())
        };
        assert_eq!(strays(&hops), [false; 3], "nothing is in line");
        hops.push('a');
        assert_eq!(strays(&hops), [false; 3]);
        hops.skip();
        assert_eq!(strays(&hops), [false, false, true]);
        assert_eq!(hops.stray(ends_at(None)), None);
        hops.skip();
        assert_eq!(strays(&hops), [true, false, true], "its own comes home");
        hops.push('b');
        hops.remove();
        assert_eq!(hops.next(), Next::Home('b'));
    }

    #[test]
    fn with_everybody_else_dead_a_message_comes_home() {
        let mut hops = hops();
        hops.push('a');
        hops.skip();
        hops.skip();
        assert_eq!(hops.next(), Next::Home('a'));
        assert_eq!(hops.next(), Next::Nothing);
    }
}

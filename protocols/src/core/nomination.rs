//! One nomination: who takes part in it, and the nominator's own part.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Nominator, Out, PeerMessage, Service, Timer, say};
use crate::ids::{Incarnation, MemberId};
use crate::protocol::{Effect, Input, Outbox};
use crate::record::Record;
use crate::time::LocalTime;

/// A nomination among the members of the latest view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Nomination<N: Nominator> {
    /// Who takes part.
    electorate: Record,
    nominator: N,
    /// When this member began to take part; nothing while its own promise still runs.
    since: Option<LocalTime>,
    /// What arrived before.
    early: Vec<(MemberId, N::Message)>,
    /// Its timers that may fire.
    armed: BTreeSet<N::Timer>,
    /// What this member sent, as the textbook counts it.
    messages: u64,
}

/// Whether a member takes part already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Begins,
    GoesOn,
}

/// Messages that are kept while the own promise runs. What is dropped is as good as lost: nominators ask again, or
/// another nomination follows.
const EARLY_MAX: usize = 1024;

impl<N: Nominator> Nomination<N> {
    /// Nothing if this member is none of the electorate.
    pub(super) fn new(electorate: Record, me: Incarnation, in_vain: u32) -> Option<Self> {
        let me = electorate.rank(me)?;
        let nominator = N::new(&electorate, me, in_vain);
        let (early, armed) = (Vec::new(), BTreeSet::new());
        Some(Self { electorate, nominator, since: None, early, armed, messages: 0 })
    }

    pub(super) fn is_alone(&self) -> bool {
        self.electorate.members.len() == 1
    }

    pub(super) fn electorate(&self) -> &Record {
        &self.electorate
    }

    /// This member begins, or begins anew. What arrived before.
    pub(super) fn begin(&mut self, now: LocalTime) -> Vec<(MemberId, N::Message)> {
        self.since = Some(now);
        self.messages = 0;
        std::mem::take(&mut self.early)
    }

    /// This member takes part from now on at the latest.
    pub(super) fn take_part(&mut self, now: LocalTime) -> Part {
        let part = if self.since.is_none() { Part::Begins } else { Part::GoesOn };
        self.since.get_or_insert(now);
        part
    }

    /// Whether the nominator is at work.
    pub(super) fn is_at_work(&self) -> bool {
        self.nominator.is_at_work()
    }

    /// Keeps what arrives before this member takes part.
    pub(super) fn keep_early(&mut self, from: MemberId, message: N::Message) {
        if self.early.len() < EARLY_MAX {
            self.early.push((from, message));
        }
    }

    /// Lets the nominator hear something. Whom it nominates.
    pub(super) fn feed<S: Service>(
        &mut self,
        now: LocalTime,
        input: Input<MemberId, (), N::Message, N::Timer>,
        out: &mut Out<S, N>,
    ) -> Option<MemberId> {
        let mut effects = Outbox::default();
        match input {
            Input::Command(()) => self.nominator.nominate(now, &mut effects),
            Input::Message { from, message } => {
                self.nominator.receive(now, from, message, &mut effects);
            }
            Input::Timer(timer) => self.nominator.fire(now, timer, &mut effects),
        }
        let mut elected = None;
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let Some(info) = self.electorate.member(to) else { continue };
                    self.messages += u64::from(N::is_counted(&message));
                    let epoch = self.electorate.epoch;
                    say(info.incarnation, PeerMessage::Nominator { epoch, message }, out);
                }
                Effect::Arm { timer, after } => {
                    self.armed.insert(timer);
                    out.arm(Timer::Nominator(timer), after);
                }
                Effect::Disarm(timer) => {
                    self.armed.remove(&timer);
                    out.disarm(Timer::Nominator(timer));
                }
                Effect::Tell(winner) => elected = Some(winner),
            }
        }
        elected
    }

    /// Who was nominated, by how many messages of this member, and how long that took.
    pub(super) fn outcome(
        &self,
        now: LocalTime,
        winner: MemberId,
    ) -> Option<(Incarnation, u64, Duration)> {
        let winner = self.electorate.member(winner)?.incarnation;
        Some((winner, self.messages, now - self.since.unwrap_or(now)))
    }

    /// It is over: its timers fire no more.
    pub(super) fn end<S: Service>(self, out: &mut Out<S, N>) {
        for timer in self.armed {
            out.disarm(Timer::Nominator(timer));
        }
    }
}

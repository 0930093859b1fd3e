//! The nominations of a member. Of one: who takes part in it, and the nominator's own part.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Nominator, Out, PeerMessage, Service, Timer, send};
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::protocol::{Effect, Input, Outbox};
use crate::record::Record;
use crate::time::LocalTime;

/// The nominations of a member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Nominations<N: Nominator> {
    /// The one that it takes part in.
    present: Option<Nomination<N>>,
    /// The latest view in which it took part in some, and in how many since somebody led last.
    of_view: (Epoch, u32),
    /// It takes part in none before: it could not reach the register.
    abstains_until: LocalTime,
    /// How often in a row it withdrew without an answer of the register.
    withdrawals: u32,
}

impl<N: Nominator> Default for Nominations<N> {
    fn default() -> Self {
        let (of_view, abstains_until) = (Default::default(), LocalTime::default());
        Self { present: None, of_view, abstains_until, withdrawals: 0 }
    }
}

impl<N: Nominator> Nominations<N> {
    /// The one that it takes part in.
    pub(super) fn present(&self) -> Option<&Nomination<N>> {
        self.present.as_ref()
    }

    pub(super) fn present_mut(&mut self) -> Option<&mut Nomination<N>> {
        self.present.as_mut()
    }

    /// It takes part in none from now on.
    pub(super) fn take(&mut self) -> Option<Nomination<N>> {
        self.present.take()
    }

    /// It takes part in that one.
    pub(super) fn join(&mut self, nomination: Nomination<N>) {
        self.present = Some(nomination);
    }

    /// One more among these. Nothing if this member is none of them.
    pub(super) fn another(&mut self, electorate: Record, me: Incarnation) -> Option<Nomination<N>> {
        let (epoch, earlier) = self.of_view;
        let in_vain = if electorate.epoch == epoch { earlier } else { 0 };
        let nomination = Nomination::new(electorate, me, in_vain)?;
        self.of_view = (nomination.electorate().epoch, in_vain.saturating_add(1));
        Some(nomination)
    }

    /// Somebody leads: none in this view came to nothing.
    pub(super) fn succeeded(&mut self) {
        self.of_view.1 = 0;
    }

    /// Until when it takes part in none for want of the register.
    pub(super) fn abstains_until(&self) -> LocalTime {
        self.abstains_until
    }

    /// The register did not answer: it takes part in none for a leader lease, twice as long each time, and at most
    /// until each of so many has had its turn.
    pub(super) fn withdraw(&mut self, now: LocalTime, leader_lease: Duration, turns: u32) {
        let share = 1_u32.checked_shl(self.withdrawals).unwrap_or(u32::MAX).min(turns);
        self.withdrawals += 1;
        self.abstains_until = now.after(leader_lease * share);
    }

    /// The register answered.
    pub(super) fn reaches_the_register(&mut self) {
        self.withdrawals = 0;
    }
}

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
    fn new(electorate: Record, me: Incarnation, in_vain: u32) -> Option<Self> {
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
                    send(info.incarnation, PeerMessage::Nominator { epoch, message }, out);
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

//! Nominating the next leader when promises run out.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Event, Going, Member, Nominator, Out, PeerMessage, Role, Service, Timer, say};
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::protocol::{Effect, Input, Outbox};
use crate::record::Record;
use crate::time::LocalTime;

/// A nomination among the members of the latest view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Nominating<N: Nominator> {
    /// Who takes part.
    electorate: Record,
    nominator: N,
    /// When this member began to take part; nothing while its own promise still runs.
    since: Option<LocalTime>,
    /// What arrived before.
    early: Vec<(MemberId, N::Message)>,
    /// Its timers that may fire.
    armed: BTreeSet<N::Timer>,
    /// What this member said, as the textbook counts it.
    messages: u64,
}

/// Messages that are kept while the own promise runs; more come from nobody who keeps the rules.
const EARLY_MAX: usize = 1024;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Starts a nomination, or one more if the one before came to nothing.
    pub(super) fn begin_nomination(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.going == Going::Leaves {
            return;
        }
        if let Some(wait) = self.abstains(now) {
            return out.arm(Timer::Nominee, wait.max(self.pause()));
        }
        let Some(mut nominating) = self.nominating.take().or_else(|| self.new_nomination()) else {
            return;
        };
        if nominating.electorate.members.len() == 1 {
            return self.begin_candidacy(now, None, out);
        }
        nominating.since = Some(now);
        nominating.messages = 0;
        let early = std::mem::take(&mut nominating.early);
        self.nominating = Some(nominating);
        self.role = Role::Follower;
        out.arm(Timer::Nominee, self.pause() * 2);
        for (from, message) in early {
            self.feed_nominator(now, Input::Message { from, message }, out);
        }
        // What arrived early may be the outcome of one that began before.
        if self.nominating.as_ref().is_some_and(|nominating| !nominating.nominator.is_at_work()) {
            self.feed_nominator(now, Input::Command(()), out);
        }
    }

    /// For how long this member still takes part in none: it could not reach the register
    /// just now, or is about to end and lets others lead, if there are any.
    fn abstains(&self, now: LocalTime) -> Option<Duration> {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let until = match self.going {
            Going::Stays => self.abstains_until,
            Going::Drains | Going::Leaves => {
                self.abstains_until.max(self.promises.until().after(timing.leader_lease * 3))
            }
        };
        (now < until).then(|| now.until(until))
    }

    /// Takes part no longer: somebody leads, or it came to nothing.
    pub(super) fn drop_nomination(&mut self, out: &mut Out<S, N>) {
        if let Some(nominating) = self.nominating.take() {
            for timer in nominating.armed {
                out.disarm(Timer::Nominator(timer));
            }
        }
        out.disarm(Timer::Nominee);
    }

    fn new_nomination(&self) -> Option<Nominating<N>> {
        let electorate = self.electorate()?;
        let me = electorate.rank(self.me.incarnation)?;
        let leader_lease = electorate.timing.leader_lease;
        let nominator = N::new(&electorate.policy, me, electorate.view(), leader_lease);
        let (early, armed) = (Vec::new(), BTreeSet::new());
        Some(Nominating { electorate, nominator, since: None, early, armed, messages: 0 })
    }

    fn electorate(&self) -> Option<Record> {
        if self.is_advisory() { self.peers_record() } else { self.record.clone() }
    }

    /// How long the nominee may take to begin a view.
    fn pause(&self) -> Duration {
        self.record.as_ref().map_or(self.policy.timing, |record| record.timing).leader_lease / 2
    }

    /// A message of a nominator. Only members whose own promise ran out take part; what arrives
    /// before is kept.
    pub(super) fn on_nomination(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        epoch: Epoch,
        message: N::Message,
        out: &mut Out<S, N>,
    ) {
        if self.role != Role::Follower || self.abstains(now).is_some() {
            return;
        }
        if self.nominating.is_none() {
            self.nominating = self.new_nomination();
        }
        let Some(nominating) = self.nominating.as_mut().filter(|e| e.electorate.epoch == epoch)
        else {
            return out.tell(Event::Ignored("epoch"));
        };
        let Some(rank) = nominating.electorate.rank(from) else {
            return out.tell(Event::Ignored("stranger"));
        };
        if self.promises.run(now) {
            if nominating.early.len() < EARLY_MAX {
                nominating.early.push((rank, message));
            }
            return;
        }
        if nominating.since.is_none() {
            nominating.since = Some(now);
            out.arm(Timer::Nominee, self.pause() * 2);
        }
        self.feed_nominator(now, Input::Message { from: rank, message }, out);
    }

    pub(super) fn nomination_timer(
        &mut self,
        now: LocalTime,
        timer: N::Timer,
        out: &mut Out<S, N>,
    ) {
        if self.role == Role::Follower {
            self.feed_nominator(now, Input::Timer(timer), out);
        }
    }

    fn feed_nominator(
        &mut self,
        now: LocalTime,
        input: Input<MemberId, (), N::Message, N::Timer>,
        out: &mut Out<S, N>,
    ) {
        let Some(nominating) = &mut self.nominating else { return };
        let (nominator, mut effects) = (&mut nominating.nominator, Outbox::default());
        match input {
            Input::Command(()) => nominator.nominate(now, &mut effects),
            Input::Message { from, message } => {
                nominator.receive(now, from, message, &mut effects);
            }
            Input::Timer(timer) => nominator.fire(now, timer, &mut effects),
        }
        let mut elected = None;
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let Some(info) = nominating.electorate.member(to) else { continue };
                    nominating.messages += u64::from(N::is_counted(&message));
                    let message =
                        PeerMessage::Nominator { epoch: nominating.electorate.epoch, message };
                    say(info.incarnation, message, out);
                }
                Effect::Arm { timer, after } => {
                    nominating.armed.insert(timer);
                    out.arm(Timer::Nominator(timer), after);
                }
                Effect::Disarm(timer) => {
                    nominating.armed.remove(&timer);
                    out.disarm(Timer::Nominator(timer));
                }
                Effect::Tell(winner) => elected = Some(winner),
            }
        }
        if let Some(winner) = elected {
            self.elected(now, winner, out);
        }
    }

    /// Somebody was nominated, and is no more than that until the leader lease protocol says more.
    fn elected(&mut self, now: LocalTime, winner: MemberId, out: &mut Out<S, N>) {
        let Some(nominating) = &self.nominating else { return };
        let Some(winner) = nominating.electorate.member(winner).map(|info| info.incarnation) else {
            return;
        };
        let took = now - nominating.since.unwrap_or(now);
        out.tell(Event::Elected { winner, messages: nominating.messages, took });
        if winner == self.me.incarnation {
            self.begin_candidacy(now, None, out);
        } else {
            out.arm(Timer::Nominee, self.pause());
        }
    }

    /// The nominee began no view in time: once more.
    pub(super) fn nominee_is_late(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.role != Role::Follower {
            return;
        }
        if self.promises.run(now) {
            return out.arm(Timer::Nominee, now.until(self.promises.until()));
        }
        self.drop_nomination(out);
        self.begin_nomination(now, out);
    }
}

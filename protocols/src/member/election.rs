//! The election named `default`, which nominates the next leader when promises run out.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Event, Going, Member, Out, PeerMessage, Role, Timer, say};
use crate::election::{self, AnyElection, AnyMessage, AnyTimer, Command};
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::protocol::{Effect, Input, InputOf, Outbox, Protocol};
use crate::record::Record;
use crate::time::LocalTime;

/// An election of the members of the latest view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Electing {
    /// Who elects.
    electorate: Record,
    election: AnyElection,
    /// When this member began to take part; nothing while its own promise still runs.
    since: Option<LocalTime>,
    /// What arrived before.
    early: Vec<(MemberId, AnyMessage)>,
    /// Its timers that may fire.
    armed: BTreeSet<AnyTimer>,
    /// What this member said, as the textbook counts it.
    messages: u64,
}

/// Messages that are kept while the own promise runs; more come from nobody who keeps the rules.
const EARLY_MAX: usize = 1024;

impl Member {
    /// Starts an election, or one more if the one before came to nothing.
    pub(super) fn begin_election(&mut self, now: LocalTime, out: &mut Out) {
        if self.going == Going::Leaves {
            return;
        }
        if let Some(wait) = self.abstains(now) {
            return out.arm(Timer::Nominee, wait.max(self.pause()));
        }
        let Some(mut electing) = self.electing.take().or_else(|| self.new_election()) else {
            return;
        };
        if electing.electorate.members.len() == 1 {
            return self.begin_candidacy(now, None, out);
        }
        electing.since = Some(now);
        electing.messages = 0;
        let early = std::mem::take(&mut electing.early);
        self.electing = Some(electing);
        self.role = Role::Follower;
        out.arm(Timer::Nominee, self.pause() * 2);
        for (from, message) in early {
            self.feed_election(now, Input::Message { from, message }, out);
        }
        // What arrived early may be the outcome of an election that began before.
        let idle = |e: &Electing| !e.election.is_electing() && e.election.elected().is_none();
        if self.electing.as_ref().is_some_and(idle) {
            self.feed_election(now, Input::Command(Command::Elect), out);
        }
    }

    /// For how long this member still takes part in no election: it could not reach the register
    /// just now, or is about to end and lets others lead, if there are any.
    fn abstains(&self, now: LocalTime) -> Option<Duration> {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let until = match self.going {
            Going::Stays => self.abstains_until,
            Going::Drains | Going::Leaves => {
                self.abstains_until.max(self.pledge.until.after(timing.leader_lease * 3))
            }
        };
        (now < until).then(|| now.until(until))
    }

    /// Takes part no longer: somebody leads, or the election came to nothing.
    pub(super) fn drop_election(&mut self, out: &mut Out) {
        if let Some(electing) = self.electing.take() {
            for timer in electing.armed {
                out.disarm(Timer::Election(timer));
            }
        }
        out.disarm(Timer::Nominee);
    }

    fn new_election(&self) -> Option<Electing> {
        let electorate = self.electorate()?;
        let me = electorate.rank(self.me.incarnation)?;
        let answer = (electorate.timing.leader_lease / 15).min(Duration::from_millis(500));
        let timing = election::Timing { answer, announcement: answer * 3 };
        let algorithm = electorate.policy.election;
        let election = AnyElection::new(algorithm, me, electorate.view(), timing);
        let (early, armed) = (Vec::new(), BTreeSet::new());
        Some(Electing { electorate, election, since: None, early, armed, messages: 0 })
    }

    fn electorate(&self) -> Option<Record> {
        if self.is_advisory() { self.peers_record() } else { self.record.clone() }
    }

    /// How long the nominee may take to begin a view.
    fn pause(&self) -> Duration {
        self.record.as_ref().map_or(self.policy.timing, |record| record.timing).leader_lease / 2
    }

    /// A message of the election. Only members whose own promise ran out take part; what arrives
    /// before is kept.
    pub(super) fn on_election(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        epoch: Epoch,
        message: AnyMessage,
        out: &mut Out,
    ) {
        if self.role != Role::Follower || self.abstains(now).is_some() {
            return;
        }
        if self.electing.is_none() {
            self.electing = self.new_election();
        }
        let Some(electing) = self.electing.as_mut().filter(|e| e.electorate.epoch == epoch) else {
            return out.tell(Event::Ignored("epoch"));
        };
        let Some(rank) = electing.electorate.rank(from) else {
            return out.tell(Event::Ignored("stranger"));
        };
        if self.pledge.until > now {
            if electing.early.len() < EARLY_MAX {
                electing.early.push((rank, message));
            }
            return;
        }
        if electing.since.is_none() {
            electing.since = Some(now);
            out.arm(Timer::Nominee, self.pause() * 2);
        }
        self.feed_election(now, Input::Message { from: rank, message }, out);
    }

    pub(super) fn election_timer(&mut self, now: LocalTime, timer: AnyTimer, out: &mut Out) {
        if self.role == Role::Follower {
            self.feed_election(now, Input::Timer(timer), out);
        }
    }

    fn feed_election(&mut self, now: LocalTime, input: InputOf<AnyElection>, out: &mut Out) {
        let Some(electing) = &mut self.electing else { return };
        let mut effects = Outbox::default();
        electing.election.handle(now, input, &mut effects);
        let mut elected = None;
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let Some(info) = electing.electorate.member(to) else { continue };
                    electing.messages += u64::from(message.is_counted());
                    let message =
                        PeerMessage::Election { epoch: electing.electorate.epoch, message };
                    say(info.incarnation, message, out);
                }
                Effect::Arm { timer, after } => {
                    electing.armed.insert(timer);
                    out.arm(Timer::Election(timer), after);
                }
                Effect::Disarm(timer) => {
                    electing.armed.remove(&timer);
                    out.disarm(Timer::Election(timer));
                }
                Effect::Tell(election::Event::Elected(winner)) => elected = Some(winner),
            }
        }
        if let Some(winner) = elected {
            self.elected(now, winner, out);
        }
    }

    /// Somebody was elected: a nominee, until the leader lease protocol says more.
    fn elected(&mut self, now: LocalTime, winner: MemberId, out: &mut Out) {
        let Some(electing) = &self.electing else { return };
        let Some(winner) = electing.electorate.member(winner).map(|info| info.incarnation) else {
            return;
        };
        let took = now - electing.since.unwrap_or(now);
        out.tell(Event::Elected { winner, messages: electing.messages, took });
        if winner == self.me.incarnation {
            self.begin_candidacy(now, None, out);
        } else {
            out.arm(Timer::Nominee, self.pause());
        }
    }

    /// The nominee began no view in time: once more.
    pub(super) fn nominee_is_late(&mut self, now: LocalTime, out: &mut Out) {
        if self.role != Role::Follower {
            return;
        }
        if self.pledge.until > now {
            return out.arm(Timer::Nominee, now.until(self.pledge.until));
        }
        self.drop_election(out);
        self.begin_election(now, out);
    }
}

//! The Berkeley algorithm: a time daemon asks all for their time, averages, and sends each the
//! amount by which to correct its clock.
//!
//! Source: Gusella and Zatti, *The Accuracy of the Clock Synchronization Achieved by TEMPO in
//! Berkeley UNIX 4.3BSD*, IEEE TSE 15(7), 1989; Tanenbaum and van Steen, *Distributed Systems*, 2nd
//! edition, 6.1.3.
//!
//! ```text
//! the daemon, at intervals:  a := clock; send POLL to all
//! on POLL:                   send ANSWER(clock) to the daemon
//! on ANSWER(v):              b := clock; offset := v - (a + b)/2; error := (b - a)/2
//! all answered, or too late: mean := average of the offsets, its own 0 among them, without outliers
//!                            send ADJUST(mean - offset) to each that answered; adjust(mean)
//! on ADJUST(delta):          adjust(delta): advance, or run slower until the surplus is gone
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per round | 3(n - 1) |
//! | error of a member after a round | half a round trip, and 2ρ for each second after; and the daemon's own error |
//! | tolerates | loss, duplicates, crashes: a silent member is not averaged; wrong clocks, as far as the rule of averaging leaves them out |
//! | links | any; delays need not be the same both ways |
//!
//! Deviations:
//! - A correction is a difference, as in 4.3BSD, not a time, as in some lecture notes: a difference
//!   does not age on its way.
//! - The daemon is the leader of the view; there is no election of its own.
//! - A clock that was never synchronised is set, and is not averaged with those that were. The first
//!   time of a group is the average of all; the daemon waits for every member's answer for that, lest
//!   one that is silent already has a group time. A daemon without a time takes that of the others, however badly they
//!   know it, as leaders of the other algorithms do ([`beginning`](super::beginning)).
//! - An exchange that took more than twice as long as the fastest with that member is not averaged,
//!   and no clock is set by it: once set, a clock can only be slewed.
//! - A leader states ahead of time how its clock goes. So the daemon plans its own correction in one round of several, and
//!   keeps what the others bring until then, up to half of the precision. Its clock counts in an average as what it is going to be.
//! - A clock whose bound and the daemon's cannot both be right is not averaged, nor one that has moved the average by more
//!   than a raw clock may drift, and than it may be misread ([`sway`](super::sway)).
//! - A follower keeps what it knows if that is better than what a slow exchange reports to it.
//! - Answers carry the member's bound, adjustments the error of the correction, so that each member
//!   knows how wrong it may be; see [the module](super).
//!
//! The `now` of every call is the raw hardware clock that is to be disciplined, in nanoseconds, for
//! instance `CLOCK_MONOTONIC_RAW`: not a clock that somebody else slews.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::average::Mean;
use super::beginning::{Beginning, Start};
use super::by_messages::ByMessages;
use super::correction::{ByOthers, Correction, Shown};
use super::course::Known;
use super::discipline::VirtualClock;
use super::estimate::Stamps;
use super::exchange::{Exchange, saturate};
use super::params::Params;
use super::rates::as_nanos;
use super::round::{Own, Round, Sample, Source};
use super::sway::Sway;
use super::wants::Wants;
use super::{Event, GroupClock};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Berkeley {
    me: MemberId,
    view: View,
    params: Params,
    clock: VirtualClock,
    /// The number of the latest round: begun by the daemon, answered by a follower.
    latest: u64,
    /// How many rounds the daemon still does in quick succession.
    quick: u32,
    role: Role,
    /// Who has answered the daemon in this view that they keep group time.
    have_time: BTreeSet<MemberId>,
    sources: BTreeMap<MemberId, Source>,
}

/// What members send to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "What time is it?"
    Poll {
        /// The number of the round.
        round: u64,
        /// What the daemon needs.
        wants: Wants,
    },
    /// "My clock shows this."
    Answer {
        /// The round that is answered.
        round: u64,
        /// The answering member's virtual clock.
        reading_ns: i64,
        /// Its bound; nothing if it has no group time.
        error_ns: Option<u64>,
    },
    /// "When you answered you were behind by this."
    Adjust {
        /// The round that was answered.
        round: u64,
        /// The correction of the reading in the answer.
        correction: Correction,
        /// Half the round trip of the poll and the answer: the error by the textbook.
        half_trip_ns: u64,
        /// What the daemon knows of group time, by its raw clock.
        known: Option<Box<Known>>,
    },
}

/// The daemon's timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// Time for the next round.
    Round,
    /// No more waiting for answers.
    Answers,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Role {
    Follower {
        /// What was answered to the latest poll, until the adjustment comes.
        answered: Option<Shown>,
    },
    Daemon {
        /// The round in progress.
        round: Option<Round>,
        /// The error of the fastest exchange with each member.
        fastest: BTreeMap<MemberId, u64>,
        /// How far each member may still move the average.
        sway: Sway,
        /// What it was sent while it has no time.
        beginning: Beginning,
        /// By how much its clock is still to be corrected when it has done what is planned.
        pending_ns: i64,
    },
}

impl Berkeley {
    /// A member's part in a view, with the clock that it had in the views before.
    pub fn new(me: MemberId, view: View, params: Params, clock: VirtualClock) -> Self {
        let role = if view.leader == me {
            let beginning = Beginning::default();
            let (fastest, sway) = (BTreeMap::new(), Sway::default());
            Role::Daemon { round: None, fastest, sway, beginning, pending_ns: 0 }
        } else {
            Role::Follower { answered: None }
        };
        Self {
            me,
            view,
            params,
            clock,
            latest: 0,
            quick: QUICK_ROUNDS,
            role,
            have_time: BTreeSet::new(),
            sources: BTreeMap::new(),
        }
    }

    /// What the daemon knows of the other members; nothing at a follower.
    pub fn sources(&self) -> &BTreeMap<MemberId, Source> {
        &self.sources
    }

    /// "The daemon, at intervals."
    fn poll(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Daemon { round, beginning, .. } = &mut self.role else { return };
        self.latest = self.latest.saturating_add(1);
        let wants = match self.clock.wants() {
            Wants::Nothing => Wants::Nothing,
            Wants::GroupTime | Wants::AnyTime => beginning.ask(now, self.view, &self.clock),
        };
        *round = Some(Round::new(now));
        let round = self.latest;
        out.send_each(self.view.peers(self.me), &Message::Poll { round, wants });
        out.arm(Timer::Answers, self.params.answer);
        self.conclude_if_complete(now, out);
    }

    fn on_poll(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (round, wants): (u64, Wants),
        out: &mut OutboxOf<Self>,
    ) {
        let Role::Follower { answered } = &mut self.role else { return };
        if from != self.view.leader || round <= self.latest {
            return;
        }
        self.latest = round;
        let reading_ns = self.clock.map().now_ns(now.0);
        *answered = Some(Shown { raw: now, ns: reading_ns });
        let error_ns = self.clock.error_for(now, wants);
        out.send(from, Message::Answer { round, reading_ns, error_ns });
    }

    fn on_answer(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (round, reading_ns, claimed_ns): (u64, i64, Option<u64>),
        out: &mut OutboxOf<Self>,
    ) {
        let Role::Daemon { round: Some(current), fastest, beginning, .. } = &mut self.role else {
            return;
        };
        let expected = round == self.latest && from != self.me && self.view.has(from);
        if !expected || current.has(from) {
            return;
        }
        let map = self.clock.map();
        let (sent, received) = (map.now_ns(current.sent.0), map.now_ns(now.0));
        let offset = Exchange::of_one_reading(sent, reading_ns, received).offset();
        let fastest = fastest.entry(from).or_insert(u64::MAX);
        *fastest = offset.error_ns.min(*fastest);
        let known = (*fastest, map.error_ns(now.0));
        let stamps = Stamps {
            sent: current.sent,
            asked_ns: reading_ns,
            answered_ns: reading_ns,
            received: now,
        };
        let estimate = claimed_ns.map(|claimed_ns| stamps.estimate(claimed_ns));
        beginning.add(from, estimate, self.clock.rates(current.sent).follower_growth());
        current.add(from, Sample::new(now, (offset, claimed_ns), known, &self.params));
        self.conclude_if_complete(now, out);
    }

    fn conclude_if_complete(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Daemon { round: Some(round), .. } = &self.role else { return };
        if round.is_complete(self.view) {
            out.disarm(Timer::Answers);
            self.conclude(now, out);
        }
    }

    /// "All answered, or too late."
    fn conclude(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Daemon { round, beginning, sway, pending_ns, .. } = &mut self.role else {
            return;
        };
        let Some(round) = round.take() else { return };
        let map = self.clock.map();
        let bound_ns = map.error_ns(round.sent.0);
        let ahead_ns = map.slewing_ns(round.sent.0).saturating_add(*pending_ns);
        let own = Own { id: self.me, ahead_ns: bound_ns.map_or(0, |_| ahead_ns), bound_ns };
        let start = beginning.end(now, self.view, &self.params, &self.clock);
        let start = if own.bound_ns.is_none() { Some(start) } else { None };
        let mean = match start {
            None => round.average(own, self.view, &self.params, sway),
            Some(Start::Known(known)) => {
                let shown_ns = self.clock.map().now_ns(now.0);
                Some(round.agreed(known.ns.saturating_sub(shown_ns), known.error_ns))
            }
            // A clock that was set is group time as it is, if the daemon begins it.
            Some(Start::First) if round.is_complete(self.view) => {
                let keeps = self.clock.was_set();
                let mean = round.average_of_all(own, &self.params);
                mean.map(|mean| if keeps { Mean { ns: 0, ..mean } } else { mean })
            }
            Some(Start::First | Start::Unclear) => None,
        };
        self.sources = round.judge(own, self.view, mean.as_ref());
        // Most of all, and not of those that answered: it may have been one that lies.
        let contradict = self.sources.values().filter(|source| source.contradicts).count();
        if 2 * contradict > self.sources.len() {
            self.clock.note_disruption(now);
        }
        out.tell(Event::Compared(self.sources.clone()));
        if let Some(Mean { ns: mean_ns, .. }) = mean {
            let ahead_ns = match start {
                None => self.correct_own_clock(now, &round, mean_ns),
                Some(start) => self.set_own_clock(now, &round, (start, mean_ns)),
            };
            self.have_time.extend(round.have_time(own));
            if self.have_time.len() + 1 >= self.view.size as usize {
                self.clock.note_common();
            }
            self.send_adjustments(&round, mean_ns, ahead_ns, out);
            out.tell(Event::Adjusted);
        }
        out.arm(Timer::Round, self.pause(now - round.sent));
        if self.clock.is_synchronised() {
            self.quick = self.quick.saturating_sub(1);
        }
    }

    /// Gives a daemon without a time the one that is begun, or that the others know. It is not ahead of the daemon's
    /// then.
    fn set_own_clock(
        &mut self,
        now: LocalTime,
        round: &Round,
        (start, mean_ns): (Start, i64),
    ) -> i64 {
        let (since, error_ns) = match start {
            Start::Known(known) => (known.raw, Some(known.error_ns)),
            Start::First | Start::Unclear => (round.sent, None),
        };
        self.clock.begin(now, mean_ns, since, error_ns);
        let map = self.clock.map();
        self.note_average(now, (map.now_ns(now.0), mean_ns), map.error_ns(now.0));
        0
    }

    /// Corrects the daemon's clock, and keeps what that cannot take yet. Returns how far ahead of it the average is now.
    fn correct_own_clock(&mut self, now: LocalTime, round: &Round, mean_ns: i64) -> i64 {
        let (map, sent) = (self.clock.map(), round.sent.0);
        let shown_ns = map.now_ns(sent);
        if round.is_confirmed(self.view) {
            let growth = self.clock.rates(round.sent).leader_growth();
            let error_ns = round.error_by_others(self.view, growth);
            let others = ByOthers { error_ns, contradicts: round.mostly_contradicts(self.view) };
            self.clock.confirm(now, round.sent, mean_ns, others);
        } else {
            self.clock.steer(now, (round.sent, mean_ns));
        }
        if let Role::Daemon { pending_ns, .. } = &mut self.role {
            let planned_ns = self.clock.map().shown.last.at(sent).saturating_sub(shown_ns);
            let most_ns = saturate(i128::from(as_nanos(self.params.precision / 2)));
            *pending_ns = mean_ns.saturating_sub(planned_ns).clamp(-most_ns, most_ns);
        }
        if round.samples().next().is_some() {
            let average_ns = shown_ns.saturating_add(mean_ns);
            let error_ns = map.error_ns(sent).map(|own| own.saturating_add(mean_ns.unsigned_abs()));
            self.note_average(round.sent, (average_ns, mean_ns), error_ns);
        }
        mean_ns
    }

    /// Notes what the average was at a raw reading, and by how much it has the daemon's clock corrected. By the source the
    /// daemon knows it exactly then.
    fn note_average(
        &mut self,
        at: LocalTime,
        (ns, correction_ns): (i64, i64),
        error_ns: Option<u64>,
    ) {
        self.clock.note_by_messages(ByMessages {
            raw: at.0,
            ns,
            correction_ns,
            error_ns: error_ns.unwrap_or(0),
            growth_ppb: self.clock.rates(at).leader_growth(),
            textbook_ns: 0,
            textbook_growth_ppb: 2 * self.params.drift_ppb(),
        });
    }

    fn send_adjustments(
        &self,
        round: &Round,
        mean_ns: i64,
        ahead_ns: i64,
        out: &mut OutboxOf<Self>,
    ) {
        for (to, sample) in round.samples() {
            if sample.claimed_ns.is_none() && self.may_do_better(sample) {
                continue;
            }
            let own = self.clock.map().error_ns(sample.received.0).unwrap_or(0);
            let error_ns = sample.offset.error_ns.saturating_add(own);
            let delta_ns = mean_ns.saturating_sub(sample.offset.ns);
            let correction = Correction { delta_ns, ahead_ns, error_ns };
            let half_trip_ns = sample.offset.error_ns;
            let (round, known) = (self.latest, self.clock.stated(true));
            out.send(*to, Message::Adjust { round, correction, half_trip_ns, known });
        }
    }

    /// Whether a clock had better not be set by this exchange, but by one that is to follow soon: once
    /// it is set, it can only be slewed.
    fn may_do_better(&self, sample: &Sample) -> bool {
        let is_slow = sample.offset.error_ns > as_nanos(self.params.precision);
        sample.is_vague || (self.quick > 0 && is_slow)
    }

    fn on_adjust(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (round, correction, half_trip_ns): (u64, Correction, u64),
        known: Option<Box<Known>>,
        out: &mut OutboxOf<Self>,
    ) {
        let Role::Follower { answered } = &mut self.role else { return };
        if from != self.view.leader || round != self.latest {
            return;
        }
        if let Some(known) = known {
            self.clock.note_stated(now, &known);
            out.tell(Event::Stated(known));
        }
        let Some(answered) = answered.take() else { return };
        let Correction { delta_ns, ahead_ns, error_ns } = correction;
        self.clock.note_by_messages(ByMessages {
            raw: answered.raw.0,
            ns: answered.ns.saturating_add(delta_ns),
            correction_ns: delta_ns,
            error_ns: error_ns.saturating_add(ahead_ns.unsigned_abs()),
            growth_ppb: self.clock.rates(answered.raw).follower_growth(),
            textbook_ns: half_trip_ns,
            textbook_growth_ppb: 2 * self.params.drift_ppb(),
        });
        self.clock.adjust(now, answered, correction);
        out.tell(Event::Adjusted);
    }

    /// How long until the next round: the first rounds follow one another quickly.
    fn pause(&self, since_polls: Duration) -> Duration {
        let rest = self.params.rest(since_polls);
        let is_quick = self.quick > 0 || !self.clock.is_synchronised();
        if is_quick { QUICK_PAUSE.min(rest) } else { rest }
    }
}

impl GroupClock for Berkeley {
    fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

impl Protocol for Berkeley {
    type Peer = MemberId;
    type Command = Infallible;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let leads = self.view.leader == self.me;
        let fresh_for_ns = as_nanos(self.params.fresh_for());
        self.clock.enter(now, (self.view.epoch, leads), self.params.rates(), fresh_for_ns);
        out.tell(Event::Adjusted);
        self.poll(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(never) => match never {},
            Input::Timer(Timer::Round) => self.poll(now, out),
            Input::Message { from, message: Message::Poll { round, wants } } => {
                self.on_poll(now, from, (round, wants), out);
            }
            Input::Message { from, message: Message::Answer { round, reading_ns, error_ns } } => {
                self.on_answer(now, from, (round, reading_ns, error_ns), out);
            }
            Input::Timer(Timer::Answers) => self.conclude(now, out),
            Input::Message {
                from,
                message: Message::Adjust { round, correction, half_trip_ns, known },
            } => {
                self.on_adjust(now, from, (round, correction, half_trip_ns), known, out);
            }
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Poll { .. } => "poll",
            Self::Answer { .. } => "answer",
            Self::Adjust { .. } => "adjust",
        }
    }
}

/// What a round costs in a group of `n`: a poll, an answer and an adjustment for every member but
/// the daemon.
#[cfg(any(test, feature = "testing"))]
pub fn messages_per_round(n: u32) -> u32 {
    3 * n.saturating_sub(1)
}

const QUICK_ROUNDS: u32 = 8;
const QUICK_PAUSE: Duration = Duration::from_millis(50);

//! The Network Time Protocol: servers in strata; each member exchanges four stamps with several servers,
//! filters, selects and combines what it finds, and adjusts to a lower stratum only.
//!
//! Source: Mills and others, *Network Time Protocol Version 4*, RFC 5905, sections 8 to 11; Mills,
//! *Internet Time Synchronization: The Network Time Protocol*, IEEE Transactions on Communications
//! 39(10), 1991.
//!
//! ```text
//! at intervals, to each server:  send CLIENT(T1 := clock)
//! on CLIENT(T1):                 T2 := clock; send SERVER(T1, T2, T3 := clock, stratum, root delay, ...)
//! on SERVER(T1, T2, T3):         T4 := clock
//!                                θ := ((T2 - T1) + (T3 - T4)) / 2; δ := (T4 - T1) - (T3 - T2)
//!                                filter: of the last eight (θ, δ), the one with the least δ
//! select:                        the servers whose intervals θ ± λ have a place in common, if they are
//!                                more than half; the others are falsetickers
//! combine:                       of those of the lowest stratum, if it is lower than the own one:
//!                                adjust to the mean of θ, weighted by 1/λ
//!                                stratum := theirs + 1; root delay and dispersion: theirs and what is added
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per poll | 2 for each association; a member has min(n - 1, 4) |
//! | error of a member (root distance, λ) | half of the root delay, and the root dispersion, which grows by 15 ppm |
//! | tolerates | loss, duplicates; a member cut off from stratum 1 follows stratum 2; of four servers, one that lies |
//! | links | any; delays need not be the same both ways |
//!
//! Deviations:
//! - The leader of the view is the only stratum 1: group time is its clock. A member of equal or higher stratum than
//!   its own moves nobody (the sources say nothing of equal strata), but it has a vote in selection, and so have one
//!   that follows this member and one that holds over: while it has a time, its bound holds. Where the leader is cut
//!   off from all, a liar that asserts to reach it would else be without a rival. So the sources of everybody's time
//!   form a tree. A member's stratum is one above that which its reference has now, so members that came to follow one
//!   another in a ring state more with each poll, until one of them has another server or all are at 16 (RFC 5905 sees
//!   rings of two only, by the reference). A ring is rare besides: a member takes no bound that is worse than its own,
//!   and bounds grow on their way.
//! - A member that was synchronised in the view before begins as one of stratum 2: the leader goes on with the time of
//!   that view.
//! - Associations: the leader and the three members that follow in the order of ranks. A member that is cut off from
//!   the leader is left with three, of which two outvote one; four servers are what RFC 8633, section 3.2, asks for. Of
//!   two halves that disagree, the one with the leader wins, whose clock is group time; without it nobody moves, and
//!   the bound grows.
//! - In selection, a server's interval is the one that [the module](super) shows to contain group time, and not θ ± λ:
//!   λ assumes clocks that are disciplined to 15 ppm, and raw clocks are not. λ is the weight in combination, and the
//!   textbook's bound; the floor for it (MINDISP), made for coarse clocks, is left out.
//! - What the leader states of group time for later ([the module](super)) counts if it can be true where the servers
//!   agree that group time is.
//! - The filter carries an offset on by the measured rate of the clocks ([`filter`]). An exchange that still counts is
//!   followed again where group time is known better since. T2 = T3, since a message is handled in one step.
//! - When a server begins to contradict this member's bound, what was known of it before is forgotten, as the source
//!   does after a step: a raw clock was stopped. It is selected again after four exchanges.
//! - Selection runs once for each poll, when all have replied or it is too late, and not at each reply: one server that
//!   is quicker than the others would else be alone.
//! - The clustering of RFC 5905, 11.2.2, is left out: it never leaves fewer than three, and there are four.
//! - A clock counts as synchronised for as long as the exchange that counts may be old: seven polls, and as many as may
//!   be lost elsewhere.
//! - The poll interval is that of the policy's precision, and one clock discipline serves all algorithms.
//! - A request repeats the stamp of the latest reply of that server, as in symmetric modes; by this a leader knows that
//!   it still leads ([`reign`](super::reign)). A leader without a time asks all members
//!   ([`beginning`](super::beginning)).
//!
//! The `now` of every call is the raw hardware clock that is to be disciplined, in nanoseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::beginning::Beginning;
use super::course::Known;
use super::discipline::VirtualClock;
use super::estimate::{Estimate, Stamps};
use super::intersection::{Interval, intersection};
use super::params::Params;
use super::rates::{as_nanos, share};
use super::reign::Reign;
use super::round::{Source, Verdict};
use super::wants::Wants;
use super::{Event, GroupClock};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

mod association;
mod combination;
mod filter;
mod servers;
mod system;

use association::{Association, Candidate};
use combination::{Combination, combine};
use filter::PHI_PPB;
use servers::servers;
pub use servers::{associations, messages_per_poll};
pub use system::System;

/// One member's part in the protocol.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ntp {
    me: MemberId,
    view: View,
    params: Params,
    clock: VirtualClock,
    system: System,
    /// The servers that it polls.
    associations: BTreeMap<MemberId, Association>,
    /// T1 of the poll that is going on; nothing when it has ended.
    polled: Option<LocalTime>,
    /// When the latest exchange ended to which the clock was adjusted, and when it was.
    used: Option<(LocalTime, LocalTime)>,
    /// How many polls are still to follow one another quickly.
    burst: u32,
    reign: Reign,
    /// What the members replied to a leader without a time.
    beginning: Option<Beginning>,
    /// What the leader stated in this poll: group time by it, and all of it.
    stated: Option<(Estimate, Box<Known>)>,
}

/// What members send to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "This left when my clock showed T1."
    Client {
        /// The stamp of the latest reply of this server.
        origin: Option<LocalTime>,
        /// T1, by the client's raw clock.
        transmit: LocalTime,
        /// What the client needs.
        wants: Wants,
    },
    /// "It came at T2 and this left at T3; and so do I stand." A leader adds what it knows of group time, by its raw clock.
    Server(Reply, Option<Box<Known>>),
}

/// A server's reply.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Reply {
    /// T1, as the client sent it.
    pub origin: LocalTime,
    /// T2, by the server's virtual clock.
    pub receive_ns: i64,
    /// T3, by the server's virtual clock.
    pub transmit_ns: i64,
    /// The server's raw clock, for it to know its reply again.
    pub stamp: LocalTime,
    /// How the server stands.
    pub system: System,
    /// How far the server's clock is from group time at most; nothing if it has no group time.
    pub error_ns: Option<u64>,
}

/// A member's timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// Time for the next poll.
    Poll,
    /// No more waiting for replies.
    Replies,
}

impl Ntp {
    /// A member's part in a view, with the clock that it had in the views before.
    pub fn new(me: MemberId, view: View, params: Params, clock: VirtualClock) -> Self {
        let servers = if view.leader == me { Vec::new() } else { servers(me, view) };
        Self {
            me,
            view,
            params,
            clock,
            system: System::UNSYNCHRONISED,
            associations: servers.into_iter().map(|id| (id, Association::default())).collect(),
            polled: None,
            used: None,
            burst: BURST,
            reign: Reign::new(LocalTime(0)),
            beginning: None,
            stated: None,
        }
    }

    /// How this member stands.
    pub fn system(&self) -> System {
        self.system
    }

    /// "At intervals, to each server." A leader without a time polls everybody.
    fn poll(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if self.leads() && self.clock.is_synchronised() {
            self.serve(now, out);
            return;
        }
        self.polled = Some(now);
        if self.leads() {
            let beginning = self.beginning.get_or_insert_default();
            let wants = beginning.ask(now, self.view, &self.clock);
            let request = Message::Client { origin: None, transmit: now, wants };
            out.send_each(self.view.peers(self.me), &request);
        }
        for (server, association) in &mut self.associations {
            let (origin, wants) = (association.ask(), self.clock.wants());
            out.send(*server, Message::Client { origin, transmit: now, wants });
        }
        out.arm(Timer::Replies, self.params.answer);
        self.end_if_complete(now, out);
    }

    /// "On CLIENT." All members answer, since each may be a server of others.
    fn on_client(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (origin, transmit, wants): (Option<LocalTime>, LocalTime, Wants),
        out: &mut OutboxOf<Self>,
    ) {
        if self.leads() {
            self.reign.hear(now, from, (origin, wants));
            self.confirm(now, out);
        }
        let shown_ns = self.clock.map().now_ns(now.0);
        out.send(
            from,
            Message::Server(
                Reply {
                    origin: transmit,
                    receive_ns: shown_ns,
                    transmit_ns: shown_ns,
                    stamp: now,
                    system: self.system_at(now),
                    error_ns: self.clock.error_for(now, wants),
                },
                self.clock.stated(self.leads()),
            ),
        );
    }

    /// "On SERVER."
    fn on_server(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (reply, known): (Reply, Option<Box<Known>>),
        out: &mut OutboxOf<Self>,
    ) {
        if self.polled != Some(reply.origin) {
            return;
        }
        let (asked_ns, answered_ns) = (reply.receive_ns, reply.transmit_ns);
        let stamps = Stamps { sent: reply.origin, asked_ns, answered_ns, received: now };
        let estimate = reply.error_ns.map(|error_ns| stamps.estimate(error_ns));
        if from == self.view.leader {
            let by = |known: &Known| {
                let ns = known.path.at(reply.stamp.0);
                let stamps = Stamps { asked_ns: ns, answered_ns: ns, ..stamps };
                stamps.estimate(known.bound.at(reply.stamp.0))
            };
            self.stated = known.map(|known| (by(&known), known));
        }
        if let Some(beginning) = &mut self.beginning {
            beginning.add(from, estimate, self.clock.rates(reply.origin).follower_growth());
        }
        // Stratum 1 is the leader's alone.
        let is_credible = reply.system.stratum > 1 || from == self.view.leader;
        if let Some(association) = self.associations.get_mut(&from).filter(|_| is_credible) {
            association.on_reply(reply, stamps, estimate);
        }
        self.end_if_complete(now, out);
    }

    fn end_if_complete(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let is_complete = match &self.beginning {
            Some(beginning) => beginning.is_round_over(self.view),
            None => !self.associations.values().any(Association::is_asked),
        };
        if is_complete && self.polled.is_some() {
            out.disarm(Timer::Replies);
            self.end_poll(now, out);
        }
    }

    /// All have replied, or it is too late.
    fn end_poll(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Some(polled) = self.polled.take() else { return };
        if self.leads() {
            self.begin(now, out);
            return;
        }
        self.select(now, out);
        self.burst = self.burst.saturating_sub(self.clock.is_synchronised().into());
        let is_quick = self.burst > 0 || !self.clock.is_synchronised();
        let rest = self.params.rest(now - polled);
        out.arm(Timer::Poll, if is_quick { PAUSE.min(rest) } else { rest });
    }

    /// "Select": the servers that agree, if they are more than half.
    fn select(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let followed = self.system.reference.and_then(|one| self.associations.get(&one));
        let present = self.system.stratum;
        match followed.map_or(UNSYNCHRONISED, |one| one.stratum_of_follower(present)) {
            UNSYNCHRONISED.. => self.system = System::UNSYNCHRONISED,
            stratum => self.system.stratum = stratum,
        }
        let clock = &self.clock;
        let news = |(id, one): (&MemberId, &mut Association)| {
            one.begins_to_contradict(clock).then_some(*id)
        };
        let contradict = self.associations.iter_mut().filter_map(news).collect();
        let candidates = self.candidates(now);
        let intervals: Vec<_> = candidates.iter().map(|(id, one)| (*id, one.interval())).collect();
        let leader = self.view.leader;
        let agreed = intersection(&intervals, Some(leader));
        let (agreed, place) = agreed.map(|one| (one.of, one.at)).unzip();
        let agreed = agreed.unwrap_or_default();
        // Without the leader, one that is known early must not be alone.
        let voters = if candidates.contains_key(&leader) {
            candidates.len()
        } else {
            self.associations.values().filter(|one| one.votes()).count()
        };
        let is_majority = 2 * agreed.len() > voters;
        let is_tie_of_the_leader = 2 * agreed.len() == voters && agreed.contains(&leader);
        let survivors = if is_majority || is_tie_of_the_leader { agreed } else { Vec::new() };
        self.pass_on_stated(now, place.filter(|_| !survivors.is_empty()), out);
        let strata = survivors.iter().filter_map(|id| Some(candidates.get(id)?.system.stratum));
        let lowest = strata.filter(|stratum| *stratum < self.system.stratum).min();
        self.compared(&candidates, (&survivors, lowest), &contradict, out);
        let found = lowest.and_then(|lowest| combine(now, lowest, &candidates, &survivors));
        if let Some(found) = found {
            self.combine(now, &found, out);
        }
    }

    /// What the leader stated counts if it can be true where the servers agree that group time is: a leader that the others
    /// outvote states what it likes.
    fn pass_on_stated(
        &mut self,
        now: LocalTime,
        agreed: Option<Interval>,
        out: &mut OutboxOf<Self>,
    ) {
        let (Some((by, known)), Some(agreed)) = (self.stated.take(), agreed) else { return };
        let by = by.aged(now, self.clock.rates(by.raw).follower_growth());
        if Interval::around(by.ns, by.error_ns).overlaps(agreed) {
            self.clock.note_stated(now, &known);
            out.tell(Event::Stated(known));
        }
    }

    /// "Combine." An exchange is used once, and none that is older than the latest used (RFC 5905, section 10).
    fn combine(&mut self, now: LocalTime, found: &Combination, out: &mut OutboxOf<Self>) {
        let shown_ns = self.clock.map().now_ns(now.0);
        let is_slewed = self.clock.is_synchronised();
        if self.used.is_some_and(|(used, _)| !found.is_due(now, used, &self.clock)) {
            return;
        }
        let system = found.system(is_slewed.then_some(shown_ns));
        let growth = self.clock.rates(now).follower_growth();
        self.clock.note_by_messages(found.by_messages(shown_ns, growth, system));
        if self.clock.follow_to(now, found.known, (found.target_ns, found.at)) {
            (self.used, self.system) = (Some((found.at, now)), system);
        }
        out.tell(Event::Adjusted);
    }

    /// The servers that may be selected: each replied to one of the last eight polls, has a time, and is
    /// known well enough.
    fn candidates(&self, now: LocalTime) -> BTreeMap<MemberId, Candidate> {
        let fit = |association: &Association| {
            let growth = self.clock.rates(association.oldest()?).follower_growth();
            let one = association.candidate(self.me, now, growth)?;
            (one.root_distance_ns() < MAXDIST_NS).then_some(one)
        };
        self.associations.iter().filter_map(|(id, one)| Some((*id, fit(one)?))).collect()
    }

    /// What was learned of each server.
    fn compared(
        &self,
        candidates: &BTreeMap<MemberId, Candidate>,
        (survivors, lowest): (&[MemberId], Option<u8>),
        contradict: &BTreeSet<MemberId>,
        out: &mut OutboxOf<Self>,
    ) {
        let source = |id: &MemberId, association: &Association| {
            let has_replied = association.has_replied();
            let Some(one) = candidates.get(id).filter(|_| has_replied) else {
                let verdict = if has_replied { Verdict::Vague } else { Verdict::Silent };
                return Source { offset: None, verdict, contradicts: contradict.contains(id) };
            };
            let verdict = match (survivors.contains(id), Some(one.system.stratum) == lowest) {
                (true, true) => Verdict::Taken,
                (true, false) => Verdict::Agrees,
                (false, _) => Verdict::Outlier,
            };
            let source = Source::of_server(&self.clock, one.estimate, verdict);
            Source { contradicts: contradict.contains(id), ..source }
        };
        let sources = self.associations.iter().map(|(id, one)| (*id, source(id, one)));
        out.tell(Event::Compared(sources.collect()));
    }

    /// A leader without a time has all replies, or waited for long enough.
    fn begin(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Some(replies) = &self.beginning else { return };
        if replies.end(now, self.view, &self.params, &self.clock).set(now, &mut self.clock) {
            (self.reign, self.beginning) = (Reign::new(now), None);
            out.tell(Event::Adjusted);
        }
        self.serve(now, out);
    }

    /// A leader looks whether it still leads; one without a time asks again.
    fn serve(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.confirm(now, out);
        let knows = self.clock.is_synchronised();
        if knows {
            self.system = System::PRIMARY;
        }
        out.arm(Timer::Poll, if knows { self.params.interval() } else { PAUSE });
    }

    fn confirm(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if self.reign.confirm(now, self.view, &mut self.clock) {
            out.tell(Event::Adjusted);
        }
    }

    /// How it stands, with the dispersion since it last followed.
    fn system_at(&self, now: LocalTime) -> System {
        let grown = self.used.map_or(0, |(_, since)| share(as_nanos(now - since), PHI_PPB));
        let root_dispersion_ns = self.system.root_dispersion_ns.saturating_add(grown);
        System { root_dispersion_ns, ..self.system }
    }

    fn leads(&self) -> bool {
        self.view.leader == self.me
    }
}

impl GroupClock for Ntp {
    fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

impl Protocol for Ntp {
    type Peer = MemberId;
    type Command = Infallible;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let (leads, params) = (self.leads(), self.params);
        let fresh_for = if leads { params.fresh_for_polled() } else { params.fresh_for_filtered() };
        self.clock.enter(now, (self.view.epoch, leads), params.rates(), as_nanos(fresh_for));
        out.tell(Event::Adjusted);
        self.reign = Reign::new(now);
        if let Some(root_dispersion_ns) = self.clock.map().error_ns(now.0) {
            let reference = Some(self.view.leader);
            self.system = System { stratum: 2, reference, root_delay_ns: 0, root_dispersion_ns };
        }
        self.poll(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(never) => match never {},
            Input::Timer(Timer::Poll) => self.poll(now, out),
            Input::Message { from, .. } if from == self.me || !self.view.has(from) => {}
            Input::Message { from, message: Message::Client { origin, transmit, wants } } => {
                self.on_client(now, from, (origin, transmit, wants), out);
            }
            Input::Message { from, message: Message::Server(reply, known) } => {
                self.on_server(now, from, (reply, known), out);
            }
            Input::Timer(Timer::Replies) => self.end_poll(now, out),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Client { .. } => "client",
            Self::Server(..) => "server",
        }
    }
}

/// MAXSTRAT: that of a member that follows nobody.
const UNSYNCHRONISED: u8 = 16;
/// MAXDIST: a server whose root distance is longer is not selected.
const MAXDIST_NS: u64 = 1_000_000_000;
/// How many polls follow one another quickly once the clock is set in a view.
const BURST: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

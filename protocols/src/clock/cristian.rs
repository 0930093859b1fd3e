//! Cristian's algorithm: each client reads the clock of a passive time server, and repeats that until a
//! reading is good enough.
//!
//! Source: Cristian, *Probabilistic Clock Synchronization*, Distributed Computing 3, 1989.
//!
//! ```text
//! the client, at intervals:  tries := 0; attempt
//! attempt:                   t := clock; send REQUEST to the server
//! on REQUEST at the server:  send REPLY(T := clock)
//! on REPLY(T):               2D := clock - t
//!                            if 2D ≤ 2U:  adjust to T + D(1 + 2ρ) - min ρ
//!                            else:        the attempt has failed
//! too late:                  the attempt has failed
//! an attempt has failed:     tries := tries + 1; if tries < k: attempt after W; else give up
//! ```
//!
//! When the reply arrives, the server's clock shows at least T + min(1 - ρ), since the reply took min at
//! least, and at most T + 2D(1 + 2ρ) - min(1 + ρ), since the request did too, and 2D by this clock is at
//! most 2D(1 + ρ) by true time and 2D(1 + 2ρ) by the server's. The middle of that is T + D(1 + 2ρ) - min ρ,
//! and half its width D(1 + 2ρ) - min is the error. To be within ε, U = (1 - 2ρ)(ε + min).
//!
//! | property | value |
//! | --- | --- |
//! | messages per attempt | 2; so 2(n - 1) for all clients, if every first attempt succeeds |
//! | error of a reading | D(1 + 2ρ) - min, at most ε when 2D ≤ 2U; and the server's own error |
//! | tolerates | loss, duplicates, slow messages: the attempt is repeated; crash of the server: the next leader serves |
//! | links | any; delays need not be the same both ways |
//!
//! Deviations:
//! - The server is the leader of the view. There is no group of servers that the client chooses from.
//! - min is zero: nobody knows how fast a message can be.
//! - ε is half of the policy's precision, so that two clients are no farther apart than that.
//! - A client that gives up takes the best of its k readings, if there is one, with the error that it
//!   has; on a slow network it would never have the time else. The paper leaves that to its users. Before its clock
//!   is set for the first time it tries four times as often: after that, a clock can only be slewed.
//! - Group time may run 2ρ faster or slower than the server's raw clock, so the bound that is stated (not
//!   the textbook's) has the client's limit on rates where the paper has 2ρ.
//! - A request repeats the stamp of the client's latest reply, by which the server knows that it still
//!   serves; and a reply has the server's bound. See [the module](super) and [`reign`](super::reign).
//! - A server without a time asks all members for theirs ([`beginning`](super::beginning)).
//!
//! The `now` of every call is the raw hardware clock that is to be disciplined, in nanoseconds.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::beginning::Beginning;
use super::by_messages::ByMessages;
use super::course::Known;
use super::discipline::VirtualClock;
use super::estimate::{Estimate, Stamps};
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

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cristian {
    me: MemberId,
    view: View,
    params: Params,
    clock: VirtualClock,
    /// The number of the latest attempt, and when its request left; nothing when it has ended.
    attempt: u64,
    sent: Option<LocalTime>,
    /// When the latest request left.
    asked: LocalTime,
    role: Role,
}

/// What members send to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "What time is it? The latest that I have from you bears this stamp."
    Request {
        /// The number of the attempt.
        attempt: u64,
        /// The stamp of the latest reply.
        origin: Option<LocalTime>,
        /// What its sender needs.
        wants: Wants,
    },
    /// "My clock shows this."
    Reply {
        /// The attempt that is answered.
        attempt: u64,
        /// The server's raw clock, for it to know its reply again.
        stamp: LocalTime,
        /// The server's virtual clock.
        time_ns: i64,
        /// Its bound; nothing if it has no group time.
        error_ns: Option<u64>,
        /// What a leader knows of group time, by its raw clock.
        known: Option<Box<Known>>,
    },
}

/// A member's timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// Time for the next attempt.
    Attempt,
    /// No more waiting for the reply.
    Reply,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Role {
    Server {
        reign: Reign,
        /// What it has been sent while it has no time.
        beginning: Option<Beginning>,
    },
    Client {
        /// Attempts that have failed since the last success.
        tries: u32,
        /// The best reading of these.
        best: Option<Reading>,
        /// The stamp of the latest reply.
        origin: Option<LocalTime>,
        /// How often it is still to read soon after another.
        quick: u32,
    },
}

/// The server's clock as a client read it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Reading {
    /// What the server's clock shows when the reply arrives: T + D(1 + 2ρ) - min ρ.
    pub time_ns: i64,
    /// How wrong that may be: D(1 + 2ρ) - min.
    pub error_ns: u64,
    at: LocalTime,
    half_trip_ns: u64,
    claimed_ns: u64,
}

/// What the paper has of a reading: the server's clock showed `time_ns`, the exchange took from `sent` to
/// `received` by a clock that drifts `drift_ppb` at most, and no message is faster than `min_ns`.
pub fn read(
    (sent, received): (LocalTime, LocalTime),
    (time_ns, claimed_ns): (i64, u64),
    (min_ns, drift_ppb): (u64, u64),
) -> Reading {
    let stamps = Stamps { sent, asked_ns: time_ns, answered_ns: time_ns, received };
    // Half the round trip; and T + D, when the reply is here.
    let half_trip_ns = stamps.offset().error_ns;
    let middle = stamps.estimate(0).aged(received, 0).ns;
    let drifted = share(half_trip_ns, 2 * drift_ppb);
    Reading {
        time_ns: middle
            .saturating_add_unsigned(drifted)
            .saturating_sub_unsigned(share(min_ns, drift_ppb)),
        error_ns: half_trip_ns.saturating_add(drifted).saturating_sub(min_ns),
        at: received,
        half_trip_ns,
        claimed_ns,
    }
}

/// The longest round trip of an attempt that succeeds, 2U = 2(1 - 2ρ)(ε + min).
pub fn longest_trip_ns(precision_ns: u64, min_ns: u64, drift_ppb: u64) -> u64 {
    let half = (precision_ns / 2).saturating_add(min_ns);
    2 * (half - share(half, 2 * drift_ppb).min(half))
}

impl Cristian {
    /// A member's part in a view, with the clock that it had in the views before.
    pub fn new(me: MemberId, view: View, params: Params, clock: VirtualClock) -> Self {
        let role = if view.leader == me {
            Role::Server { reign: Reign::new(LocalTime(0)), beginning: None }
        } else {
            Role::Client { tries: 0, best: None, origin: None, quick: QUICK }
        };
        Self { me, view, params, clock, attempt: 0, sent: None, asked: LocalTime(0), role }
    }

    /// "Attempt", and a server without a time asks everybody.
    fn attempt(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.attempt = self.attempt.saturating_add(1);
        (self.sent, self.asked) = (Some(now), now);
        let attempt = self.attempt;
        match &mut self.role {
            Role::Client { origin, .. } => {
                let wants = self.clock.wants();
                let request = Message::Request { attempt, origin: *origin, wants };
                out.send(self.view.leader, request);
            }
            Role::Server { beginning, .. } => {
                let beginning = beginning.get_or_insert_default();
                let wants = beginning.ask(now, self.view, &self.clock);
                let request = Message::Request { attempt, origin: None, wants };
                out.send_each(self.view.peers(self.me), &request);
            }
        }
        out.arm(Timer::Reply, self.params.answer);
    }

    /// "On REQUEST at the server." A leader without a time asks the others, so all members answer.
    fn on_request(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (attempt, origin, wants): (u64, Option<LocalTime>, Wants),
        out: &mut OutboxOf<Self>,
    ) {
        if let Role::Server { reign, .. } = &mut self.role {
            reign.hear(now, from, (origin, wants));
            self.confirm(now, out);
        }
        let time_ns = self.clock.map().now_ns(now.0);
        let error_ns = self.clock.error_for(now, wants);
        let known = self.clock.stated(self.view.leader == self.me);
        out.send(from, Message::Reply { attempt, stamp: now, time_ns, error_ns, known });
    }

    /// "On REPLY."
    fn on_reply(
        &mut self,
        now: LocalTime,
        from: MemberId,
        (stamp, time_ns, claimed_ns): (LocalTime, i64, Option<u64>),
        known: Option<Box<Known>>,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(sent) = self.sent else { return };
        match &mut self.role {
            Role::Client { origin, .. } if from == self.view.leader => {
                *origin = Some(stamp);
                if let Some(known) = known {
                    self.clock.note_stated(now, &known);
                    out.tell(Event::Stated(known));
                }
                self.sent = None;
                out.disarm(Timer::Reply);
                let drift = self.params.drift_ppb();
                let reading = claimed_ns
                    .map(|claimed_ns| read((sent, now), (time_ns, claimed_ns), (MIN_NS, drift)));
                self.on_reading(now, reading, out);
            }
            Role::Server { beginning: Some(beginning), .. } => {
                let stamps =
                    Stamps { sent, asked_ns: time_ns, answered_ns: time_ns, received: now };
                let estimate = claimed_ns.map(|claimed_ns| stamps.estimate(claimed_ns));
                beginning.add(from, estimate, self.clock.rates(sent).follower_growth());
                if beginning.is_round_over(self.view) {
                    out.disarm(Timer::Reply);
                    self.begin(now, out);
                }
            }
            Role::Client { .. } | Role::Server { beginning: None, .. } => {}
        }
    }

    /// "If 2D ≤ 2U."
    fn on_reading(&mut self, now: LocalTime, reading: Option<Reading>, out: &mut OutboxOf<Self>) {
        let precision = as_nanos(self.params.precision);
        let longest = longest_trip_ns(precision, MIN_NS, self.params.drift_ppb());
        let is_good = |one: &Reading| one.half_trip_ns.saturating_mul(2) <= longest;
        match reading {
            Some(reading) if is_good(&reading) => {
                self.compared(Some(&reading), Verdict::Taken, out);
                self.adjust(now, reading, out);
                self.rest(now, out);
            }
            Some(_) | None => self.fail(now, reading, out),
        }
    }

    /// "An attempt has failed."
    fn fail(&mut self, now: LocalTime, reading: Option<Reading>, out: &mut OutboxOf<Self>) {
        let verdict = if reading.is_some() { Verdict::Vague } else { Verdict::Silent };
        self.compared(reading.as_ref(), verdict, out);
        let Role::Client { tries, best, .. } = &mut self.role else { return };
        *tries += 1;
        *best = [*best, reading].into_iter().flatten().min_by_key(|one| one.error_ns);
        let most = if self.clock.is_synchronised() { TRIES } else { TRIES_BEFORE_SET };
        if *tries < most {
            out.arm(Timer::Attempt, PAUSE.min(self.params.rest(now - self.asked)));
            return;
        }
        if let Some(best) = *best {
            self.adjust(now, best, out);
        }
        self.rest(now, out);
    }

    fn adjust(&mut self, now: LocalTime, reading: Reading, out: &mut OutboxOf<Self>) {
        let growth = self.growth_since(&reading);
        let estimate = reading.estimate(growth);
        let shown_ns = self.clock.map().now_ns(reading.at.0);
        self.clock.note_by_messages(ByMessages {
            raw: reading.at.0,
            ns: reading.time_ns,
            correction_ns: reading.time_ns.saturating_sub(shown_ns),
            error_ns: estimate.error_ns,
            growth_ppb: growth,
            textbook_ns: reading.error_ns,
            textbook_growth_ppb: 2 * self.params.drift_ppb(),
        });
        self.clock.follow(now, estimate);
        out.tell(Event::Adjusted);
    }

    /// Until the next time.
    fn rest(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Client { tries, best, quick, .. } = &mut self.role else { return };
        let is_set = self.clock.is_synchronised();
        (*tries, *best, *quick) = (0, None, quick.saturating_sub(u32::from(is_set)));
        let asked = self.asked;
        let is_quick = *quick > 0 || !is_set;
        let rest = self.params.rest(now - asked);
        out.arm(Timer::Attempt, if is_quick { PAUSE.min(rest) } else { rest });
    }

    /// How fast group time may run against this raw clock, from the request on.
    fn growth_since(&self, reading: &Reading) -> u64 {
        let asked = reading.at.0.saturating_sub(reading.half_trip_ns.saturating_mul(2));
        self.clock.rates(LocalTime(asked)).follower_growth()
    }

    /// What the client learned of the server.
    fn compared(&self, reading: Option<&Reading>, verdict: Verdict, out: &mut OutboxOf<Self>) {
        let estimate = |one: &Reading| one.estimate(self.growth_since(one));
        let source = reading.map(|one| Source::of_server(&self.clock, estimate(one), verdict));
        let source = source.unwrap_or(Source { offset: None, verdict, contradicts: false });
        out.tell(Event::Compared(BTreeMap::from([(self.view.leader, source)])));
    }

    /// A server without a time has all replies, or waited for long enough.
    fn begin(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Server { reign, beginning } = &mut self.role else { return };
        let Some(replies) = beginning else { return };
        self.sent = None;
        if replies.end(now, self.view, &self.params, &self.clock).set(now, &mut self.clock) {
            (*reign, *beginning) = (Reign::new(now), None);
            out.tell(Event::Adjusted);
        }
        self.serve(now, out);
    }

    /// A server that knows the time looks whether it still serves; one that does not asks again.
    fn serve(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.confirm(now, out);
        let knows = self.clock.is_synchronised();
        out.arm(Timer::Attempt, if knows { self.params.interval() } else { PAUSE });
    }

    fn confirm(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let Role::Server { reign, .. } = &mut self.role else { return };
        if reign.confirm(now, self.view, &mut self.clock) {
            out.tell(Event::Adjusted);
        }
    }

    fn on_attempt_timer(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let serves = matches!(self.role, Role::Server { .. }) && self.clock.is_synchronised();
        if serves { self.serve(now, out) } else { self.attempt(now, out) }
    }

    fn on_reply_timer(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if self.sent.is_none() {
            return;
        }
        match self.role {
            Role::Client { .. } => {
                self.sent = None;
                self.fail(now, None, out);
            }
            Role::Server { .. } => self.begin(now, out),
        }
    }
}

impl Reading {
    /// Group time when the reply arrived, where this raw clock and group time differ in rate by so many
    /// parts per billion at most.
    ///
    /// Group time is between T less the server's bound and T + 2D(1 + g) and that bound, and `time_ns`
    /// within 2gD of the middle.
    fn estimate(&self, growth_ppb: u64) -> Estimate {
        let drifted = share(self.half_trip_ns, 2 * growth_ppb).saturating_add(1);
        let error_ns = self.half_trip_ns.saturating_add(drifted).saturating_add(self.claimed_ns);
        Estimate { raw: self.at, ns: self.time_ns, error_ns }
    }
}

impl GroupClock for Cristian {
    fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

impl Protocol for Cristian {
    type Peer = MemberId;
    type Command = Infallible;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let leads = self.view.leader == self.me;
        let fresh_for_ns = as_nanos(self.params.fresh_for_polled());
        self.clock.enter(now, (self.view.epoch, leads), self.params.rates(), fresh_for_ns);
        out.tell(Event::Adjusted);
        if let Role::Server { reign, .. } = &mut self.role {
            *reign = Reign::new(now);
        }
        self.on_attempt_timer(now, out);
        if self.view.size == 1 {
            self.begin(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(never) => match never {},
            Input::Timer(Timer::Attempt) => self.on_attempt_timer(now, out),
            Input::Message { from, .. } if from == self.me || !self.view.has(from) => {}
            Input::Message { from, message: Message::Request { attempt, origin, wants } } => {
                self.on_request(now, from, (attempt, origin, wants), out);
            }
            Input::Message {
                from,
                message: Message::Reply { attempt, stamp, time_ns, error_ns, known },
            } => {
                if attempt == self.attempt {
                    self.on_reply(now, from, (stamp, time_ns, error_ns), known, out);
                }
            }
            Input::Timer(Timer::Reply) => self.on_reply_timer(now, out),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request { .. } => "request",
            Self::Reply { .. } => "reply",
        }
    }
}

/// What a reading by all clients of a group of `n` costs if the first attempt of each succeeds: a request
/// and a reply each.
#[cfg(any(test, feature = "testing"))]
pub fn messages_per_round(n: u32) -> u32 {
    2 * n.saturating_sub(1)
}

/// min: nothing is known.
const MIN_NS: u64 = 0;
/// k: after so many attempts a client gives up.
const TRIES: u32 = 4;
/// The same before its clock is set for the first time.
const TRIES_BEFORE_SET: u32 = 16;
/// W: between two attempts, and between the first readings in a view.
const PAUSE: Duration = Duration::from_millis(50);
/// So often a client reads in quick succession once its clock is set in a view: its second request confirms the server, and a
/// later one states that all have the time.
const QUICK: u32 = 8;

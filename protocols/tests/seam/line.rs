//! A service of the tests alone: names are held by one member after another, as they stood in line.
//!
//! One member keeps the lines: of what the leader alone grants the leader, of what the members grant among
//! themselves the one of the lowest rank. It has no algorithm of the literature, no kept grants and no notes;
//! what it asks for that the leader grants it leaves to the core's lists to report. So it uses the seam as
//! locks do not.

use std::collections::{BTreeMap, VecDeque};

use conclave_protocols::core::{CarriedHolds, Cx, Holds, Lines, Notice, Seat, Service, Taken};
use conclave_protocols::ids::RequestNumber;
use conclave_protocols::locks::{self, Event, LockEvent, LostReason};
use conclave_protocols::member::message::Note;
use conclave_protocols::policy::Policy;
use conclave_protocols::services::{self, Command};
use conclave_protocols::trace::Grants;
use conclave_protocols::{FencingToken, HoldName, Incarnation, LocalTime, MemberId, Named};
use serde::{Deserialize, Serialize};

/// One member's part.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Line {
    /// The number of each own request of this view.
    own: BTreeMap<HoldName, RequestNumber>,
    numbered: u64,
    /// Grants that arrived while nothing was to be granted.
    early: BTreeMap<HoldName, (RequestNumber, Option<FencingToken>)>,
    /// The queues of the lines that this member keeps.
    queues: BTreeMap<HoldName, Queue>,
    leaves: bool,
}

/// A line, at the member that keeps it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Queue {
    granted: Option<(MemberId, RequestNumber)>,
    waiting: VecDeque<(MemberId, RequestNumber)>,
}

/// What members send.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(crate) struct LineMessage {
    name: HoldName,
    number: RequestNumber,
    /// The highest token that the sender knows.
    highest: FencingToken,
    what: What,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
enum What {
    /// "I stand in line."
    Request,
    /// "I lead, and grant it to you."
    Grant,
    /// "It is your turn." From the member that keeps the line of what is not led.
    Turn,
    /// "I have it no more, or do not want it."
    Release,
}

impl Named for LineMessage {
    fn name(&self) -> &'static str {
        match self.what {
            What::Request => "request",
            What::Grant | What::Turn => "grant",
            What::Release => "release",
        }
    }
}

impl Grants for Line {
    fn grants(message: &LineMessage) -> bool {
        message.what == What::Grant
    }

    fn asks(command: &Command) -> Option<&locks::Command> {
        match command {
            Command::Lock(command) => Some(command),
            Command::Election(_) => None,
        }
    }

    fn notifies(event: &services::Event) -> Option<&Event> {
        match event {
            services::Event::Lock(event) => Some(event),
            services::Event::Election(_) => None,
        }
    }
}

type Call<'a> = Cx<'a, Line>;

impl Line {
    fn keeper(cx: &Call<'_>, name: &HoldName) -> Option<MemberId> {
        let view = cx.holds.seat()?.view();
        Some(if cx.holds.is_led(name) { view.leader } else { MemberId(0) })
    }

    /// Notifies the keeper of a line, which may be this member. What is led is asked for by the lists alone.
    fn tell_keeper(
        &mut self,
        cx: &mut Call<'_>,
        name: &HoldName,
        number: RequestNumber,
        what: What,
    ) {
        let Some(rank) = cx.holds.seat().map(Seat::rank) else { return };
        let Some(keeper) = Self::keeper(cx, name) else { return };
        if keeper == rank {
            self.keep(cx, rank, name, number, what);
        } else if what == What::Release || !cx.holds.is_led(name) {
            Self::send(cx, keeper, name, number, what);
        }
    }

    fn send(cx: &mut Call<'_>, to: MemberId, name: &HoldName, number: RequestNumber, what: What) {
        let highest = cx.holds.highest(name);
        cx.send(to, LineMessage { name: name.clone(), number, highest, what });
    }

    fn ask(&mut self, cx: &mut Call<'_>, name: &HoldName) {
        self.numbered += 1;
        let number = RequestNumber(self.numbered);
        self.own.insert(name.clone(), number);
        cx.holds.stands(name, Some(number), false);
        self.tell_keeper(cx, name, number, What::Request);
    }

    // ----- the keeper of a line

    fn keep(
        &mut self,
        cx: &mut Call<'_>,
        from: MemberId,
        name: &HoldName,
        number: RequestNumber,
        what: What,
    ) {
        let queue = self.queues.entry(name.clone()).or_default();
        let of_it =
            |(member, earlier): &(MemberId, RequestNumber)| *member == from && *earlier <= number;
        match what {
            What::Request => {
                // Whatever it was granted before, it has not got.
                queue.granted.take_if(|granted| of_it(granted) && granted.1 < number);
                queue.waiting.retain(|waiting| waiting.0 != from);
                if queue.granted.is_none_or(|granted| granted.0 != from) {
                    queue.waiting.push_back((from, number));
                }
            }
            What::Release => {
                queue.granted.take_if(|granted| of_it(granted));
                queue.waiting.retain(|waiting| !of_it(waiting));
            }
            What::Grant | What::Turn => {}
        }
        if queue.granted.is_none() {
            cx.holds.nobody_holds(name);
        }
        self.serve(cx, name);
    }

    /// Grants it to the first in line, if nobody has it.
    fn serve(&mut self, cx: &mut Call<'_>, name: &HoldName) {
        let Some(rank) = cx.holds.seat().map(Seat::rank) else { return };
        let Some(queue) = self.queues.get_mut(name) else { return };
        let Some((first, number)) = queue.waiting.front().copied() else { return };
        let heard = first == rank || !cx.holds.is_led(name) || cx.holds.has_heard(first);
        if queue.granted.is_some() || !heard || !cx.holds.is_open(cx.now, name) {
            return;
        }
        queue.waiting.pop_front();
        queue.granted = Some((first, number));
        self.grant(cx, name, first, number);
    }

    fn grant(&mut self, cx: &mut Call<'_>, name: &HoldName, to: MemberId, number: RequestNumber) {
        let led = cx.holds.is_led(name);
        let highest = if led {
            let Some(before) = cx.holds.grant(cx.now, name, to, number) else { return };
            before
        } else {
            cx.holds.highest(name)
        };
        if cx.holds.seat().is_some_and(|seat| seat.rank() == to) {
            self.take(cx, name, number, led.then_some(highest));
        } else {
            let what = if led { What::Grant } else { What::Turn };
            cx.send(to, LineMessage { name: name.clone(), number, highest, what });
        }
    }

    // ----- a member in line

    /// `before`: the token before, if the leader granted it.
    fn granted(
        &mut self,
        cx: &mut Call<'_>,
        name: &HoldName,
        number: RequestNumber,
        before: Option<FencingToken>,
    ) {
        if cx.holds.is_open(cx.now, name) {
            self.take(cx, name, number, before);
        } else {
            self.early.insert(name.clone(), (number, before));
        }
    }

    fn take(
        &mut self,
        cx: &mut Call<'_>,
        name: &HoldName,
        number: RequestNumber,
        granted: Option<FencingToken>,
    ) {
        if cx.holds.is_held(name) && self.own.get(name) == Some(&number) {
            return;
        }
        let wanted = cx.holds.claim_of(name).is_some() && !cx.holds.is_at_hand(name);
        let taken = if wanted && self.own.get(name) == Some(&number) {
            cx.holds.take(cx.now, name, granted)
        } else {
            None
        };
        let Some(taken) = taken else {
            self.tell_keeper(cx, name, number, What::Release);
            return;
        };
        cx.holds.stands(name, None, false);
        tell_entered(cx, name, taken);
    }

    fn enter(&mut self, cx: &mut Call<'_>, name: &HoldName, note: Note) {
        if !self.leaves && cx.holds.claim_of(name).is_none() {
            cx.holds.claim(cx.now, name, note);
            self.ask(cx, name);
        }
    }

    fn exit(&mut self, cx: &mut Call<'_>, name: &HoldName) {
        if cx.holds.withdraw(name) && !cx.holds.put_down_orphan(name) {
            cx.holds.strike_own(cx.now, name);
            cx.holds.put_down(name);
            self.release(cx, name);
        }
    }

    fn release(&mut self, cx: &mut Call<'_>, name: &HoldName) {
        self.early.remove(name);
        if let Some(number) = self.own.remove(name) {
            cx.holds.stands(name, None, false);
            self.tell_keeper(cx, name, number, What::Release);
        }
        cx.holds.forget(name);
    }

    fn each(&mut self, cx: &mut Call<'_>) {
        for (name, (number, before)) in std::mem::take(&mut self.early) {
            self.granted(cx, &name, number, before);
        }
        for name in self.queues.keys().cloned().collect::<Vec<_>>() {
            self.serve(cx, &name);
        }
    }
}

fn tell_entered(cx: &mut Call<'_>, name: &HoldName, taken: Taken) {
    let Taken { token, epoch, term } = taken;
    tell(cx, name, LockEvent::Entered { token, epoch, term, messages: 0 });
}

fn tell(cx: &mut Call<'_>, name: &HoldName, event: LockEvent) {
    cx.tell(services::Event::Lock(Event { lock: name.clone(), event }));
}

impl Service for Line {
    type Command = Command;
    type Message = LineMessage;
    type Event = services::Event;

    fn new(_me: Incarnation) -> Self {
        Self::default()
    }

    fn begin_view(&mut self, cx: &mut Call<'_>, carried: &CarriedHolds) {
        let Some(rank) = cx.holds.seat().map(Seat::rank) else { return };
        for (name, carried) in carried {
            if Self::keeper(cx, name) == Some(rank) {
                let waiting = carried.waiting.iter().map(|member| (*member, RequestNumber(0)));
                let granted = carried.holder.map(|holder| (holder, RequestNumber(0)));
                self.queues.insert(name.clone(), Queue { granted, waiting: waiting.collect() });
            }
            if carried.holder == Some(rank) {
                if cx.holds.is_held(name) {
                    self.own.insert(name.clone(), RequestNumber(0));
                } else {
                    self.tell_keeper(cx, name, RequestNumber(0), What::Release);
                }
            } else if carried.waiting.contains(&rank) && cx.holds.claim_of(name).is_none() {
                self.tell_keeper(cx, name, RequestNumber(0), What::Release);
            }
        }
        let waiting: Vec<HoldName> = cx.holds.waiting().map(|(name, _)| name.clone()).collect();
        for name in waiting {
            self.ask(cx, &name);
        }
    }

    fn end_view(&mut self, _holds: &Holds) {
        self.own.clear();
        self.early.clear();
        self.queues.clear();
    }

    fn command(&mut self, cx: &mut Call<'_>, command: Command) {
        // It has no elections.
        let Command::Lock(command) = command else { return };
        match command {
            locks::Command::Enter { lock: name, note } => self.enter(cx, &name, note),
            locks::Command::Exit { lock: name } => self.exit(cx, &name),
            locks::Command::Pass { lock: name, note } => {
                let may = cx.holds.is_open(cx.now, &name);
                let passed = may.then(|| cx.holds.pass(cx.now, &name, &note)).flatten();
                let Some(taken) = passed else {
                    self.exit(cx, &name);
                    return self.enter(cx, &name, note);
                };
                tell_entered(cx, &name, taken);
            }
        }
    }

    fn receive(&mut self, cx: &mut Call<'_>, from: MemberId, message: LineMessage) {
        let LineMessage { name, number, highest, what } = message;
        cx.holds.hear_of_token(cx.now, &name, highest);
        match what {
            What::Grant => self.granted(cx, &name, number, Some(highest)),
            What::Turn => self.granted(cx, &name, number, None),
            What::Request | What::Release => {
                // It stated the last token that it used.
                cx.holds.settle(&name, from, number, what == What::Release);
                self.keep(cx, from, &name, number, what);
            }
        }
    }

    fn notice(&mut self, cx: &mut Call<'_>, notice: Notice) {
        match notice {
            Notice::Open => self.each(cx),
            Notice::Stirred(name) => self.serve(cx, &name),
            Notice::Expelled(name) => {
                if let Some(queue) = self.queues.get_mut(&name) {
                    queue.granted = None;
                }
            }
            Notice::Lapsed { name, claimed, .. } => {
                if claimed {
                    tell(cx, &name, LockEvent::Lost(LostReason::LeaseExpired));
                }
                self.release(cx, &name);
            }
            Notice::Void(name) => tell(cx, &name, LockEvent::Lost(LostReason::ViewChange)),
            Notice::Renewed { name, renewed, listed } => {
                tell(cx, &name, LockEvent::Renewed { renewed, listed });
            }
            Notice::Doubt(class) => {
                let waiting: Vec<HoldName> =
                    cx.holds.waiting().map(|(name, _)| name.clone()).collect();
                let asks = |name: &HoldName| cx.holds.is_led(name) && cx.holds.class(name) == class;
                for name in waiting.into_iter().filter(asks).collect::<Vec<_>>() {
                    self.ask(cx, &name);
                }
            }
            Notice::Silent(member) | Notice::Left(member) => {
                for (name, queue) in &mut self.queues {
                    if cx.holds.is_led(name) {
                        queue.waiting.retain(|waiting| waiting.0 != member);
                    }
                }
            }
            Notice::Suspected(_) => {}
            Notice::Idle(name) => {
                cx.holds.forget(&name);
            }
            Notice::Leaves => self.leaves = true,
            Notice::KeptLapsed(_)
            | Notice::Extended { .. }
            | Notice::Beat { .. }
            | Notice::Rests
            | Notice::Drains => {}
        }
    }

    fn next_timer(&self) -> Option<LocalTime> {
        None
    }

    fn fire(&mut self, _cx: &mut Call<'_>) {}

    fn repairs(policy: &Policy, message: &LineMessage) -> bool {
        policy.is_led(message.name.as_str())
    }

    fn lines(&self, seat: &Seat) -> Lines {
        let led = self.queues.iter().filter(|(name, _)| seat.policy().is_led(name.as_str()));
        led.map(|(name, queue)| {
            (name.clone(), queue.waiting.iter().map(|(member, _)| *member).collect())
        })
        .collect()
    }

    fn find(
        &mut self,
        cx: &mut Call<'_>,
        member: MemberId,
        (name, number): (HoldName, RequestNumber),
        asked: LocalTime,
    ) {
        let queue = self.queues.entry(name.clone()).or_default();
        if queue.granted == Some((member, number)) {
            let holder = cx.holds.holder(cx.now, &name).filter(|holder| holder.runs);
            if let Some(holder) = holder {
                cx.holds.wait_for_holder(cx.now, &name);
                if holder.since < asked {
                    self.grant(cx, &name, member, number);
                }
            }
        } else if !queue.waiting.contains(&(member, number)) {
            self.keep(cx, member, &name, number, What::Request);
        }
    }

    fn wanted_of(&mut self, _cx: &mut Call<'_>, _holder: Incarnation) -> Vec<HoldName> {
        Vec::new()
    }

    fn adopt(&mut self, _cx: &mut Call<'_>, member: MemberId, name: &HoldName) -> bool {
        let queue = self.queues.entry(name.clone()).or_default();
        let free = queue.granted.is_none();
        if free {
            queue.granted = Some((member, RequestNumber(0)));
            queue.waiting.retain(|waiting| waiting.0 != member);
        }
        free
    }
}

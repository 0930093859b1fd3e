//! The central coordinator with a queue in the order of its members' logical clocks, as some lecture notes have it.
//!
//! The number of a request is the time of its member's clock (Lamport, *Time, Clocks, and the Ordering of Events in
//! a Distributed System*, CACM 21(7), 1978, rules IR1 and IR2), equal ones are ordered by rank, and all else is left
//! to the coordinator that groups run: each request stands in its line, and those with a higher number stand in line
//! again behind it.
//!
//! An answer must name the request that it is for, so it has no room for the coordinator's clock. That clock, and
//! those of the applications' own messages, goes with whatever carries the messages: [`Stamped::time`] with each that
//! is sent, [`Stamped::witness`] for each that comes. Clocks that do not follow each other order nobody by the time of
//! asking, and still admit one at a time, and admit everybody. An older request that arrives when another is in the
//! critical section waits; stamps call nobody back.

use std::collections::BTreeMap;

use conclave_protocols::mutex::central::{Central, Message, RequestNumber, Timer};
use conclave_protocols::mutex::{Carried, Command, Coordinated, Event, GroupMutex, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Outbox, Protocol, View};

use crate::notifying::{Clocked, Notifying};

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Stamped {
    me: MemberId,
    order: Order,
    central: Central,
    /// The highest time that this member was notified of.
    witnessed: RequestNumber,
    /// At the coordinator: the stamps of those that wait. Those that were carried over have none.
    stamps: BTreeMap<MemberId, RequestNumber>,
}

/// Which of those that wait is admitted first.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Order {
    /// The one whose request came first to the coordinator.
    Arrival,
    /// The one whose request has the lower number, which is the time of a logical clock; of equal ones, that of the
    /// lower rank.
    Stamps,
}

impl Stamped {
    pub(crate) fn of(order: Order, me: MemberId, view: View, carried: &Carried) -> Self {
        let central = Central::new(me, view, carried);
        Self { me, order, central, witnessed: RequestNumber::default(), stamps: BTreeMap::new() }
    }

    /// What this member's logical clock shows: no request that it knows of has a higher number.
    pub(crate) fn time(&self) -> RequestNumber {
        self.central.latest().max(self.witnessed)
    }

    /// Takes note of the time that came with a message: what this member asks for from now on is stamped later.
    pub(crate) fn witness(&mut self, time: RequestNumber) {
        match self.order {
            Order::Arrival => {}
            Order::Stamps => self.witnessed = self.witnessed.max(time),
        }
    }

    /// The members that wait, at the coordinator.
    pub(crate) fn queue(&self) -> Vec<MemberId> {
        self.central.queue()
    }

    /// The request that the coordinator gets with this, and its sender.
    fn request(&self, input: &InputOf<Self>) -> Option<(MemberId, RequestNumber)> {
        match input {
            Input::Command(Command::Enter) if self.phase() == Phase::Idle => {
                Some((self.me, RequestNumber(self.time().0 + 1)))
            }
            Input::Message { from, message: Message::Request(number) } => Some((*from, *number)),
            Input::Command(_) | Input::Message { .. } | Input::Timer(_) => None,
        }
    }

    /// Those that come after a request stand in line again when it has its place.
    fn line_up(
        &mut self,
        now: LocalTime,
        (from, number): (MemberId, RequestNumber),
        input: InputOf<Self>,
        out: &mut OutboxOf<Self>,
    ) {
        self.witness(number);
        let mut behind = self.queue();
        behind.retain(|member| {
            let stamp = self.stamps.get(member);
            stamp.is_some_and(|stamp| (*stamp, *member) > (number, from))
        });
        for member in &behind {
            self.central.withdraw(*member);
        }
        self.central.handle(now, input, out);
        for from in behind {
            let again = Input::Message { from, message: Message::Request(self.stamps[&from]) };
            // It knows already that it waits.
            self.central.handle(now, again, &mut Outbox::default());
        }
        self.stamps.insert(from, number);
    }
}

/// Whether nobody stands in the coordinator's line before one that asked first: members by rank, of which the last
/// coordinates.
pub(crate) fn are_in_line(members: &[&Notifying<Stamped>]) -> bool {
    let member = |rank: &MemberId| members[rank.0 as usize];
    let coordinator = &members[members.len() - 1].lock.central;
    let is_current = |rank: &MemberId| coordinator.waits(*rank, member(rank).lock.central.latest());
    let line: Vec<MemberId> = coordinator.queue().into_iter().filter(is_current).collect();
    (0..line.len()).all(|place| {
        let after = &line[place + 1..];
        after.iter().all(|behind| !member(behind).asked_before(member(&line[place])))
    })
}

impl Clocked for Stamped {
    fn time(&self) -> u64 {
        self.time().0
    }

    fn follow(&mut self, time: u64) {
        self.witness(RequestNumber(time));
    }
}

impl Mutex for Stamped {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::of(Order::Stamps, me, view, carried)
    }

    fn phase(&self) -> Phase {
        self.central.phase()
    }
}

impl Protocol for Stamped {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.central.start(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let request = self.request(&input);
        if request.is_some_and(|(from, _)| from == self.me) {
            self.central = self.central.clone().numbered_after(self.witnessed.0);
        }
        let coordinates = self.central.coordinates() && self.order == Order::Stamps;
        match request.filter(|_| coordinates) {
            Some(request) => self.line_up(now, request, input, out),
            None => self.central.handle(now, input, out),
        }
        let queue = self.queue();
        self.stamps.retain(|member, _| queue.contains(member));
    }
}

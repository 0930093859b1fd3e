//! Locks that are wrong in one thing each. If the laws let them pass, the laws are worth nothing.

use std::collections::VecDeque;

use conclave_protocols::mutex::central::{Message, RequestNumber};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Protocol, View};

use crate::laws::Line;

/// What is wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fault {
    None,
    NeverGrants,
    GrantsOnlyTo(MemberId),
    ForgetsWhoIsInSection,
    LastComeFirstServed,
    DoesNotNumberRequests,
    ForgetsWithdrawals,
    DoesNotTell,
}

/// A lock with a coordinator, as simple as it can be.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Wrong {
    me: MemberId,
    view: View,
    fault: Fault,
    phase: Phase,
    latest: RequestNumber,
    in_section: Option<(MemberId, RequestNumber)>,
    queue: VecDeque<(MemberId, RequestNumber)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Timer {}

impl Wrong {
    fn send(&mut self, to: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if to == self.me { self.hear(to, message, out) } else { out.send(to, message) }
    }

    fn hear(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Request(number) => {
                match self.fault {
                    Fault::LastComeFirstServed => self.queue.push_front((from, number)),
                    Fault::None
                    | Fault::NeverGrants
                    | Fault::GrantsOnlyTo(_)
                    | Fault::ForgetsWhoIsInSection
                    | Fault::DoesNotNumberRequests
                    | Fault::ForgetsWithdrawals
                    | Fault::DoesNotTell => self.queue.push_back((from, number)),
                }
                self.admit(out);
                if self.queue.contains(&(from, number)) {
                    self.send(from, Message::Queued(number), out);
                }
            }
            Message::Release(number) => {
                if self.fault != Fault::ForgetsWithdrawals {
                    self.queue.retain(|waiting| *waiting != (from, number));
                }
                if self.in_section == Some((from, number)) {
                    self.in_section = None;
                }
                self.admit(out);
            }
            Message::Grant(number) => {
                let mine = number == self.latest || self.fault == Fault::DoesNotNumberRequests;
                if self.phase == Phase::Waiting && mine {
                    self.phase = Phase::InSection;
                    if self.fault != Fault::DoesNotTell {
                        out.tell(Event::Entered);
                    }
                }
            }
            Message::Queued(number) => {
                if self.phase == Phase::Waiting && number == self.latest {
                    out.tell(Event::Queued);
                }
            }
            Message::Wanted(_) | Message::InUse(_) => {}
        }
    }

    /// Admits somebody if nobody is in the critical section.
    fn admit(&mut self, out: &mut OutboxOf<Self>) {
        if self.in_section.is_some() && self.fault != Fault::ForgetsWhoIsInSection {
            return;
        }
        let next = match self.fault {
            Fault::NeverGrants => None,
            Fault::GrantsOnlyTo(one) => {
                let place = self.queue.iter().position(|(member, _)| *member == one);
                place.and_then(|place| self.queue.remove(place))
            }
            Fault::None
            | Fault::LastComeFirstServed
            | Fault::ForgetsWhoIsInSection
            | Fault::DoesNotNumberRequests
            | Fault::ForgetsWithdrawals
            | Fault::DoesNotTell => self.queue.pop_front(),
        };
        let Some((member, number)) = next else { return };
        self.in_section = next;
        self.send(member, Message::Grant(number), out);
    }
}

impl Mutex for Wrong {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::make(me, view, carried, Fault::None)
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Line for Wrong {
    fn make(me: MemberId, view: View, carried: &Carried, fault: Fault) -> Self {
        let latest = RequestNumber::default();
        let phase = if carried.holder == Some(me) {
            Phase::InSection
        } else if carried.waiting.contains(&me) {
            Phase::Waiting
        } else {
            Phase::Idle
        };
        let mut lock =
            Self { me, view, fault, phase, latest, in_section: None, queue: VecDeque::new() };
        if me == view.leader {
            lock.in_section = carried.holder.map(|holder| (holder, latest));
            lock.queue = carried.waiting.iter().map(|waiting| (*waiting, latest)).collect();
        }
        lock
    }

    fn line(&self) -> Vec<MemberId> {
        self.queue.iter().map(|(member, _)| *member).collect()
    }
}

impl Protocol for Wrong {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.admit(out);
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => {
                self.latest = RequestNumber(self.latest.0 + 1);
                self.phase = Phase::Waiting;
                self.send(self.view.leader, Message::Request(self.latest), out);
            }
            Input::Command(Command::Exit) => {
                self.phase = Phase::Idle;
                self.send(self.view.leader, Message::Release(self.latest), out);
            }
            Input::Message { from, message } => self.hear(from, message, out),
            Input::Timer(never) => match never {},
        }
    }
}

//! What a group offers: the services of the core, as one.
//!
//! Locks have the engine that grants holds. Elections decide who asks it for theirs, so what becomes of a
//! lead is what becomes of any hold. A new service is another field here, and another variant of each enum.

use serde::{Deserialize, Serialize};

use crate::core::{self, CarriedHolds, Holds, Lines, Notice, PartNumber, Seat, Service};
use crate::elections::message::ElectionMessage;
use crate::elections::{self, Elections};
use crate::ids::{HoldName, Incarnation, MemberId, RequestNumber};
use crate::locks::message::LockMessage;
use crate::locks::{self, Locks};
use crate::policy::Policy;
use crate::protocol::Named;
use crate::time::LocalTime;

/// All that a member takes part in.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Services {
    locks: Locks,
    elections: Elections,
}

/// What an application asks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// Of a lock.
    Lock(locks::Command),
    /// Of an election.
    Election(elections::Command),
}

/// What members send to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum ServiceMessage {
    /// About a lock.
    Lock(LockMessage),
    /// About an election.
    Election(ElectionMessage),
}

/// What an application gets to know.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// About a lock, or the lead in an election, which is a hold like that of a lock.
    Lock(locks::Event),
    /// About an election.
    Election(elections::Event),
}

impl Named for ServiceMessage {
    fn name(&self) -> &'static str {
        match self {
            Self::Lock(message) => message.name(),
            Self::Election(message) => message.name(),
        }
    }
}

impl From<locks::Command> for Command {
    fn from(command: locks::Command) -> Self {
        Self::Lock(command)
    }
}

impl From<elections::Command> for Command {
    fn from(command: elections::Command) -> Self {
        Self::Election(command)
    }
}

type Cx<'a> = core::Cx<'a, Services>;

impl Services {
    /// Its locks.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    fn with_locks<R>(
        &mut self,
        cx: &mut Cx<'_>,
        act: impl FnOnce(&mut Locks, &mut core::Cx<'_, Locks>) -> R,
    ) -> R {
        let locks = &mut self.locks;
        cx.with_part(ServiceMessage::Lock, Event::Lock, |cx| act(locks, cx))
    }

    fn with_elections<R>(
        &mut self,
        cx: &mut Cx<'_>,
        act: impl FnOnce(&mut Elections, &mut core::Cx<'_, Elections>) -> R,
    ) -> R {
        let elections = &mut self.elections;
        cx.with_part(ServiceMessage::Election, Event::Election, |cx| act(elections, cx))
    }

    /// The lead in an election may have been given back or granted.
    fn lead_may_have_moved(&mut self, cx: &mut Cx<'_>, name: &HoldName) {
        if elections::election_of(name).is_some() {
            self.with_elections(cx, |elections, cx| elections.look(cx, false));
        }
    }
}

impl Service for Services {
    type Command = Command;
    type Message = ServiceMessage;
    type Event = Event;

    fn new(me: Incarnation) -> Self {
        Self { locks: Locks::new(me), elections: Elections::new(me) }
    }

    fn begin_view(&mut self, cx: &mut Cx<'_>, carried: &CarriedHolds) {
        self.with_locks(cx, |locks, cx| locks.begin_view(cx, carried));
        self.with_elections(cx, |elections, cx| elections.begin_view(cx, carried));
    }

    fn end_view(&mut self, holds: &Holds) {
        self.locks.end_view(holds);
        self.elections.end_view(holds);
    }

    fn command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Lock(command) => {
                let name = command.lock().clone();
                self.with_locks(cx, |locks, cx| locks.command(cx, command));
                self.lead_may_have_moved(cx, &name);
            }
            Command::Election(command) => {
                self.with_elections(cx, |elections, cx| elections.command(cx, command));
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: MemberId, message: ServiceMessage) {
        match message {
            ServiceMessage::Lock(message) => {
                let name = message.lock.clone();
                self.with_locks(cx, |locks, cx| locks.receive(cx, from, message));
                self.lead_may_have_moved(cx, &name);
            }
            ServiceMessage::Election(message) => {
                self.with_elections(cx, |elections, cx| elections.receive(cx, from, message));
            }
        }
    }

    fn notice(&mut self, cx: &mut Cx<'_>, notice: Notice) {
        let same = notice.clone();
        self.with_locks(cx, |locks, cx| locks.notice(cx, same));
        self.with_elections(cx, |elections, cx| elections.notice(cx, notice));
    }

    fn next_timer(&self) -> Option<LocalTime> {
        self.locks.next_timer().into_iter().chain(self.elections.next_timer()).min()
    }

    fn fire(&mut self, cx: &mut Cx<'_>) {
        self.with_locks(cx, Service::fire);
        self.with_elections(cx, Service::fire);
    }

    fn part(message: &ServiceMessage) -> PartNumber {
        match message {
            ServiceMessage::Lock(_) => PartNumber(0),
            ServiceMessage::Election(_) => PartNumber(1),
        }
    }

    fn repairs(policy: &Policy, message: &ServiceMessage) -> bool {
        match message {
            ServiceMessage::Lock(message) => Locks::repairs(policy, message),
            ServiceMessage::Election(message) => Elections::repairs(policy, message),
        }
    }

    fn lines(&self, seat: &Seat) -> Lines {
        self.locks.lines(seat)
    }

    fn find(
        &mut self,
        cx: &mut Cx<'_>,
        member: MemberId,
        want: (HoldName, RequestNumber),
        asked: LocalTime,
    ) {
        self.with_locks(cx, |locks, cx| locks.find(cx, member, want, asked));
    }

    fn wanted_of(&mut self, cx: &mut Cx<'_>, holder: Incarnation) -> Vec<HoldName> {
        self.with_locks(cx, |locks, cx| locks.wanted_of(cx, holder))
    }

    fn adopt(&mut self, cx: &mut Cx<'_>, member: MemberId, name: &HoldName) -> bool {
        self.with_locks(cx, |locks, cx| locks.adopt(cx, member, name))
    }
}

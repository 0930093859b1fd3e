//! Locks: holds that a mutual-exclusion algorithm hands out.
//!
//! One value has all locks of a member: the mutex of each, and what the textbook leaves out around it
//! that the core does not know (rules 23 to 28 and 31 of `docs/views.md`):
//!
//! * **Admission.** While the core does not state that locks are granted, or this member's lease does not run,
//!   its mutexes hear nothing: what arrives is kept, in order (`locks/admission.rs`).
//! * **A token.** Every message carries the highest token of the lock that its sender knows. The holder
//!   before has since sent something, by which the next is admitted; so the next knows its token, and takes
//!   the one after it.
//! * **A coordinator** grants by numbers that the core gives, and finds again what got lost
//!   (`locks/coordinator.rs`).
//!
//! Everything else (leases, tokens, who is listed and carried, what is closed) is the core's:
//! [`Holds`](crate::core::Holds).

mod admission;
mod coordinator;
mod count;
mod event;
mod keeping;
pub mod message;
mod service;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use self::coordinator::Deferred;
use self::count::Count;
pub use self::event::{Command, Event, LockEvent, LostReason};
use self::message::{LockMessage, LockNote};
use self::timers::MutexTimers;
use crate::core::{self, CarriedHolds, Seat};
use crate::election::superpeers::{Key, Superpeers};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId, RequestNumber};
use crate::mutex::{
    self, AnyMessage, AnyMutex, Coordinated, Coordination, Permissions, Phase, Waits,
};
use crate::policy::{Caching, LockAlgorithm, Policy};
use crate::protocol::{Effect, Input, Outbox, OutboxOf, Protocol};
use crate::record::MemberInfo;
use crate::time::LocalTime;
use crate::view::Carried;

/// All locks of one member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Locks {
    me: Incarnation,
    all: BTreeMap<LockName, Lock>,
    /// Those that this member holds and another wants, as its application was notified.
    contended: BTreeSet<LockName>,
    /// At the leader: those that are held and wanted.
    wanted: BTreeSet<LockName>,
    /// Those with something to work off.
    stirred: BTreeSet<LockName>,
    /// The number of no request for a forgotten lock of this view is higher.
    latest: u64,
    timers: MutexTimers,
    /// Who coordinates what, of locks that one of several coordinates.
    superpeers: Superpeers,
    /// It is about to leave the lead or the group, and keeps nothing any more.
    drains: bool,
    /// It leaves the group.
    leaves: bool,
}

/// One lock.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Lock {
    /// Nothing while this member is in no view.
    mutex: Option<AnyMutex>,
    /// The mutex knows that the view has begun.
    started: bool,
    count: Count,
    /// What the mutex has not heard yet, in order.
    deferred: VecDeque<Deferred>,
    /// The token before the coordinator's latest grant to this member.
    granted: Option<FencingToken>,
    /// The holder, as another member reports it.
    rumour: Option<Box<LockNote>>,
    /// The application knows that its claim is known and has to wait.
    notified: bool,
}

/// One call of the locks.
type Cx<'a> = core::Cx<'a, Locks>;

impl Locks {
    /// The application wants a lock.
    fn enter(&mut self, cx: &mut Cx<'_>, name: &LockName, note: core::message::Note) {
        if self.leaves || cx.holds.claim_of(name).is_some() {
            return;
        }
        self.check_kept(cx, name);
        let lock = self.lock(cx, name);
        lock.count.begin();
        lock.notified = false;
        lock.rumour = None;
        cx.holds.claim(cx.now, name, note);
        self.ask(cx, name, mutex::Command::Enter);
    }

    /// The application leaves a lock, or no longer wants it.
    fn exit(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let keeps = self.all.get(name).is_some_and(Lock::keeps);
        let entered = cx.holds.is_at_hand(name) && !keeps;
        if !cx.holds.withdraw(name) {
            return;
        }
        self.lock(cx, name).count.end(entered);
        if !cx.holds.put_down_orphan(name) {
            cx.holds.strike_own(cx.now, name);
            self.ask(cx, name, mutex::Command::Exit);
            self.keep(cx, name);
        }
        self.tell_left(cx, name);
        self.tidy(cx, name);
    }

    /// A message of a lock.
    fn hear(&mut self, cx: &mut Cx<'_>, from: MemberId, message: LockMessage) {
        let LockMessage { lock: name, highest, note, message } = message;
        cx.holds.hear_of_token(cx.now, &name, highest);
        settle(cx, &name, from, &message);
        let claims = cx.holds.claim_of(&name).is_some();
        let is_own =
            |note: &LockNote| cx.holds.seat().and_then(|s| s.member(from)) == Some(note.member);
        let own = note.as_ref().is_some_and(|note| note.token.is_none() && is_own(note));
        let lock = self.lock(cx, &name);
        if let Some(Coordination::Grant(_)) = message.coordination() {
            lock.granted = lock.granted.max(Some(highest));
        }
        lock.count.received(message.paid_by(), claims);
        match note {
            Some(note) if own => cx.holds.hear_of_waiter(&name, from, note.note),
            Some(note) => lock.rumour = Some(note),
            None => {}
        }
        self.consult(cx, &name, Deferred::Message(from, message));
        self.tidy(cx, &name);
    }

    // ----- the parts of that

    fn lock(&mut self, cx: &Cx<'_>, name: &LockName) -> &mut Lock {
        if !self.all.contains_key(name) {
            let mutex = cx.holds.seat().map(|seat| self.fresh(seat, name, &Carried::default()));
            let lock = Lock { mutex, started: true, ..Lock::default() };
            self.all.insert(name.clone(), lock);
        }
        self.all.get_mut(name).expect("it was just put there")
    }

    /// The mutex of a lock that is used for the first time in a view.
    fn fresh(&self, seat: &Seat, name: &LockName, carried: &Carried) -> AnyMutex {
        self.mutex_of(seat, name, carried).numbered_after(self.latest)
    }

    /// A member's part in the mutex of a lock.
    fn mutex_of(&self, seat: &Seat, name: &LockName, carried: &Carried) -> AnyMutex {
        let (policy, view) = (seat.policy(), seat.view());
        let (algorithm, permissions) = (algorithm(policy, name), permissions(policy, name));
        let coordinator = self.coordinator(seat, name).unwrap_or(view.leader);
        AnyMutex::new(algorithm, permissions, coordinator, seat.rank(), view, carried)
    }

    /// Who grants a lock in the view of that seat, where one member alone does.
    #[must_use]
    pub fn coordinator(&self, seat: &Seat, name: &LockName) -> Option<MemberId> {
        match algorithm(seat.policy(), name) {
            LockAlgorithm::Central => Some(seat.view().leader),
            LockAlgorithm::Superpeers => self.superpeers.responsible(Key::of_name(name)),
            LockAlgorithm::TokenRing
            | LockAlgorithm::Raymond
            | LockAlgorithm::Lamport
            | LockAlgorithm::RicartAgrawala
            | LockAlgorithm::Maekawa
            | LockAlgorithm::Voting => None,
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>, name: &LockName, command: mutex::Command) {
        self.consult(cx, name, Deferred::Command(command));
    }

    /// Hands one input to the mutex of a lock, and carries out what it wants.
    fn feed(&mut self, cx: &mut Cx<'_>, name: &LockName, deferred: Deferred) {
        let Some(mutex) = self.all.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        let input = match deferred {
            Deferred::Command(command) => Input::Command(command),
            Deferred::Message(from, message) => Input::Message { from, message },
            Deferred::Timer(timer) => Input::Timer(timer),
        };
        let mut effects = Outbox::default();
        mutex.handle(cx.now, input, &mut effects);
        self.carry_out(cx, name, effects);
        self.forget_nobody(cx, name);
        self.drop_what_went_back(cx, name);
        self.tell_contended(cx, name);
        self.note_wanted(cx, name);
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, name: &LockName, mut effects: OutboxOf<AnyMutex>) {
        self.note_place(cx, name);
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => self.send(cx, name, to, message),
                Effect::Tell(mutex::Event::Entered) => self.entered(cx, name),
                Effect::Tell(mutex::Event::Queued) => self.queued(cx, name),
                Effect::Arm { timer, after } => self.timers.set(name, timer, cx.now.after(after)),
                Effect::Disarm(timer) => self.timers.clear(name, timer),
            }
        }
    }

    /// Where this member stands with a lock, for what it lists.
    fn note_place(&self, cx: &mut Cx<'_>, name: &LockName) {
        let lock = self.all.get(name);
        let mutex = lock.and_then(|lock| lock.mutex.as_ref());
        let mutex = mutex.filter(|mutex| mutex.phase() == Phase::Waiting);
        let waits = mutex.map(|mutex| RequestNumber(mutex.latest()));
        cx.holds.stands(name, waits, lock.is_some_and(Lock::keeps));
    }

    /// The mutex admitted this member (rule 27).
    fn entered(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some((rank, leads)) = cx.holds.seat().map(|seat| (seat.rank(), seat.leads())) else {
            return;
        };
        // What this view does not know is no grant of its mutex.
        if cx.holds.is_held(name) {
            return self.enter_again(cx, name);
        }
        // The claim for which it entered was taken back: it leaves at once.
        if self.lock(cx, name).deferred.contains(&Deferred::Command(mutex::Command::Exit)) {
            return;
        }
        self.contended.remove(name);
        let lock = self.lock(cx, name);
        let coordinated = lock.mutex.as_ref().filter(|mutex| mutex.coordinated().is_some());
        let (number, by_message) = (coordinated.map(AnyMutex::latest), lock.granted);
        let granted = match number {
            Some(number) if leads => cx.holds.grant(cx.now, name, rank, RequestNumber(number)),
            Some(_) => by_message,
            None => None,
        };
        let claims = cx.holds.claim_of(name).is_some();
        let taken = if claims { cx.holds.take(cx.now, name, granted) } else { None };
        match taken {
            Some(taken) => self.tell_entered(cx, name, taken),
            None => self.decline(cx, name),
        }
    }

    fn tell_entered(&mut self, cx: &mut Cx<'_>, name: &LockName, taken: core::Taken) {
        let messages = self.lock(cx, name).count.messages();
        tell_entered(cx, name, taken, messages);
    }

    /// An entry has ended, and with it the count of its messages.
    fn tell_left(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        if let Some(messages) = self.lock(cx, name).count.close() {
            let policy = cx.holds.policy();
            let (algorithm, caching) = (algorithm(policy, name), caching(policy, name));
            tell(cx, name, LockEvent::Left { algorithm, caching, messages });
        }
    }

    /// A grant came too late, or nobody wants it any more: leaves, and asks again if somebody does.
    fn decline(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        self.ask(cx, name, mutex::Command::Exit);
        if cx.holds.claim_of(name).is_some() {
            self.ask(cx, name, mutex::Command::Enter);
        }
    }

    /// The mutex lets this member wait; the application is notified, and of the holder as far as it is known.
    fn queued(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        if cx.holds.claim_of(name).is_none() || cx.holds.is_at_hand(name) {
            return;
        }
        let knows = cx.holds.leads() && cx.holds.is_led(name);
        let holder = cx.holds.holder(cx.now, name).filter(|_| knows);
        let Some(lock) = self.all.get_mut(name) else { return };
        lock.notified = true;
        let note = holder.map(|holder| Box::new(holder.into())).or_else(|| lock.rumour.clone());
        tell(cx, name, LockEvent::Queued(note));
    }

    /// Sends something to another member.
    fn send(&mut self, cx: &mut Cx<'_>, name: &LockName, to: MemberId, message: AnyMessage) {
        let note = note_about(cx, self.me, name, &message);
        let claims = cx.holds.claim_of(name).is_some();
        let lock = self.lock(cx, name);
        let waits = lock.mutex.as_ref().is_some_and(|mutex| mutex.phase() == Phase::Waiting);
        lock.count.sent(message.paid_by(), claims, waits);
        let highest = match message.coordination() {
            Some(Coordination::Grant(number)) => cx.holds.grant(cx.now, name, to, number),
            Some(_) | None => Some(cx.holds.highest(name)),
        };
        let Some(highest) = highest else { return };
        cx.send(to, LockMessage { lock: name.clone(), highest, note, message });
    }

    /// Not every algorithm notifies a waiting member that it is known to wait. What a promise listed that the
    /// leader has acknowledged is known: `asked` is when it was sent.
    fn notify_waiting(&mut self, cx: &mut Cx<'_>, asked: LocalTime) {
        let earlier = cx.holds.waiting().filter(|(_, claim)| claim.since < asked);
        let earlier: Vec<LockName> = earlier.map(|(name, _)| name.clone()).collect();
        for name in earlier {
            let is_unnotified = self.all.get(&name).is_some_and(|lock| !lock.notified);
            if is_unnotified && !cx.holds.is_led(&name) && self.may_consult(cx, &name) {
                self.queued(cx, &name);
            }
        }
    }

    /// Forgets a lock that nobody uses. Neither its tokens nor its requests' numbers come again.
    fn tidy(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some(lock) = self.all.get(name) else {
            cx.holds.forget(name);
            return;
        };
        let unused = lock.mutex.as_ref().is_none_or(AnyMutex::is_unused);
        if unused && !lock.count.has_ended() && lock.deferred.is_empty() && cx.holds.forget(name) {
            let latest = lock.mutex.as_ref().map(AnyMutex::latest);
            self.latest = self.latest.max(latest.unwrap_or_default());
            self.timers.forget(name);
            self.stirred.remove(name);
            self.all.remove(name);
        }
    }

    /// Every mutex starts afresh, with its holder and those that wait.
    fn seed_mutexes(&mut self, cx: &mut Cx<'_>, states: &CarriedHolds) {
        let Some(seat) = cx.holds.seat().cloned() else { return };
        let rank = seat.rank();
        let mine = |state: &Carried| state.holder == Some(rank) || state.waiting.contains(&rank);
        for (name, state) in states {
            // Among the members everybody has a part in what was carried over.
            if seat.leads() || mine(state) || !is_led(seat.policy(), name) {
                self.lock(cx, name);
            }
            if seat.leads() && !state.waiting.is_empty() {
                self.stirred.insert(name.clone());
            }
        }
        let nothing = Carried::default();
        let names: Vec<LockName> = self.all.keys().cloned().collect();
        for name in names {
            let state = states.get(&name).unwrap_or(&nothing);
            let mutex = self.mutex_of(&seat, &name, state);
            let lock = self.lock(cx, &name);
            lock.mutex = Some(mutex);
            // What begins as at first, begins when it is first used.
            lock.started = !states.contains_key(&name);
            if !is_led(seat.policy(), &name) {
                self.stirred.insert(name.clone());
            }
            self.note_place(cx, &name);
        }
    }

    /// Brings every mutex to what the application wants by now.
    fn reconcile(&mut self, cx: &mut Cx<'_>) {
        let names: Vec<LockName> = self.all.keys().cloned().collect();
        for name in names {
            let lock = self.lock(cx, &name);
            let phase = lock.mutex.as_ref().map_or(Phase::Idle, AnyMutex::phase);
            let holds = cx.holds.is_held(&name);
            let wants = cx.holds.claim_of(&name).is_some() && !cx.holds.is_at_hand(&name);
            if phase == Phase::InSection && !holds || phase == Phase::Waiting && !wants {
                self.ask(cx, &name, mutex::Command::Exit);
            }
            if wants && phase != Phase::Waiting {
                self.ask(cx, &name, mutex::Command::Enter);
            }
            self.tidy(cx, &name);
        }
    }
}

impl Lock {
    /// The mutex, if it has a coordinator.
    fn coordinated(&self) -> Option<&dyn Coordinated> {
        self.mutex.as_ref().and_then(AnyMutex::coordinated)
    }

    fn coordinated_mut(&mut self) -> Option<&mut dyn Coordinated> {
        self.mutex.as_mut().and_then(AnyMutex::coordinated_mut)
    }
}

fn tell(cx: &mut Cx<'_>, lock: &LockName, event: LockEvent) {
    cx.tell(Event { lock: lock.clone(), event });
}

fn tell_entered(cx: &mut Cx<'_>, name: &LockName, taken: core::Taken, messages: u64) {
    let core::Taken { token, epoch, term } = taken;
    tell(cx, name, LockEvent::Entered { token, epoch, term, messages });
}

/// A member that was granted a lock reports that it has it no more; its message stated the last token that it
/// used.
fn settle(cx: &mut Cx<'_>, name: &LockName, from: MemberId, message: &AnyMessage) {
    match message.coordination() {
        Some(Coordination::Release(number)) => cx.holds.settle(name, from, number, true),
        Some(Coordination::Request(number)) => cx.holds.settle(name, from, number, false),
        Some(Coordination::Grant(_) | Coordination::Queued | Coordination::Other) | None => {}
    }
}

/// What goes along for people: the member that asks, with a request for itself; the holder, with the
/// answer to a member that has to wait.
fn note_about(
    cx: &Cx<'_>,
    me: Incarnation,
    name: &LockName,
    message: &AnyMessage,
) -> Option<Box<LockNote>> {
    // A coordinator knows who holds it; among the members one knows of itself alone.
    if message.coordination() == Some(Coordination::Queued) {
        return Some(Box::new(cx.holds.holder(cx.now, name)?.into()));
    }
    let note = cx.holds.claim_of(name)?.note.clone();
    let (token, held) = match (message.waiting_side(), cx.holds.entered(name)) {
        (Waits::Receiver, Some((token, entered))) => (Some(token), cx.now - entered),
        (Waits::Sender, None) => (None, Duration::ZERO),
        (_, _) => return None,
    };
    Some(Box::new(LockNote { member: me, note, token, held }))
}

// ----- what a policy states about a lock

fn algorithm(policy: &Policy, name: &LockName) -> LockAlgorithm {
    policy.algorithm(name.as_str())
}

fn is_led(policy: &Policy, name: &LockName) -> bool {
    algorithm(policy, name).has_coordinator()
}

/// The superpeers among the members of a view, which are given by rank. A policy whose locks need none has none.
#[must_use]
pub fn superpeers_of(policy: &Policy, members: &[MemberInfo]) -> Superpeers {
    if policy.locks.iter().all(|lock| lock.algorithm != LockAlgorithm::Superpeers) {
        return Superpeers::default();
    }
    let ids: Vec<Key> = members.iter().map(|info| Key::of(&info.name)).collect();
    Superpeers::among(&ids, policy.superpeers.share_percent)
}

fn caching(policy: &Policy, name: &LockName) -> Caching {
    policy.for_lock(name.as_str()).map_or(Caching::Disabled, |policy| policy.caching)
}

/// Whether a member may enter again without asking.
fn permissions(policy: &Policy, name: &LockName) -> Permissions {
    match caching(policy, name) {
        Caching::Disabled => Permissions::ForOneEntry,
        Caching::Enabled => Permissions::Kept { idle: keeping::IDLE },
    }
}

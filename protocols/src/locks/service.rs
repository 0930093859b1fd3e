//! Locks as a service of the core.

use super::coordinator::Deferred;
use super::event::{Command, Event, LockEvent, LostReason};
use super::message::LockMessage;
use super::{Cx, Lock, Locks, MutexTimers, is_led, superpeers_of, tell};
use crate::core::{CarriedHolds, Holds, Lines, Notice, Seat, Service};
use crate::election::superpeers::Superpeers;
use crate::ids::{Incarnation, LockName, MemberId, RequestNumber};
use crate::mutex;
use crate::policy::Policy;
use crate::time::LocalTime;

impl Service for Locks {
    type Command = Command;
    type Message = LockMessage;
    type Event = Event;

    fn new(me: Incarnation) -> Self {
        Self {
            me,
            all: std::collections::BTreeMap::new(),
            contended: std::collections::BTreeSet::new(),
            wanted: std::collections::BTreeSet::new(),
            stirred: std::collections::BTreeSet::new(),
            latest: 0,
            timers: MutexTimers::default(),
            superpeers: Superpeers::default(),
            drains: false,
            leaves: false,
        }
    }

    fn begin_view(&mut self, cx: &mut Cx<'_>, carried: &CarriedHolds) {
        self.latest = 0;
        self.superpeers = cx
            .holds
            .seat()
            .map(|seat| superpeers_of(seat.policy(), seat.members()))
            .unwrap_or_default();
        self.seed_mutexes(cx, carried);
        self.reconcile(cx);
    }

    fn end_view(&mut self, holds: &Holds) {
        self.contended.clear();
        self.wanted.clear();
        self.stirred.clear();
        self.timers.clear_all();
        self.all.retain(|name, _| holds.claim_of(name).is_some());
        for lock in self.all.values_mut() {
            lock.mutex = None;
            lock.deferred.clear();
            lock.granted = None;
            lock.rumour = None;
        }
    }

    fn command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Enter { lock, note } => self.enter(cx, &lock, note),
            Command::Exit { lock } => self.exit(cx, &lock),
            Command::Pass { lock, note } => self.pass(cx, &lock, note),
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: MemberId, message: LockMessage) {
        self.hear(cx, from, message);
    }

    fn notice(&mut self, cx: &mut Cx<'_>, notice: Notice) {
        match notice {
            Notice::Open => self.work_off(cx),
            Notice::Stirred(name) => {
                if self.all.contains_key(&name) {
                    self.stirred.insert(name);
                } else {
                    self.tidy(cx, &name);
                }
            }
            Notice::Expelled(name) => self.expelled(cx, &name),
            Notice::Idle(name) => self.tidy(cx, &name),
            Notice::Lapsed { name, claimed, known } => {
                if claimed {
                    tell(cx, &name, LockEvent::Lost(LostReason::LeaseExpired));
                    self.lock(cx, &name).count.end(true);
                }
                if known {
                    self.ask(cx, &name, mutex::Command::Exit);
                }
                self.tell_left(cx, &name);
                self.tidy(cx, &name);
            }
            Notice::KeptLapsed(name) => self.give_back(cx, &name),
            Notice::Void(name) => {
                tell(cx, &name, LockEvent::Lost(LostReason::ViewChange));
                self.lock(cx, &name).count.end(true);
                self.tell_left(cx, &name);
            }
            Notice::Renewed { name, renewed, listed } => {
                tell(cx, &name, LockEvent::Renewed { renewed, listed });
            }
            Notice::Doubt(class) => self.ask_again(cx, class),
            Notice::Extended { asked, wanted } => {
                self.tell_uncontended(cx, &wanted.iter().collect());
                for name in &wanted {
                    self.heed_want(cx, name);
                }
                self.notify_waiting(cx, asked);
            }
            Notice::Beat { asked } => {
                self.tell_uncontended(cx, &std::collections::BTreeSet::new());
                self.notify_waiting(cx, asked);
            }
            Notice::Silent(member) => self.pass_over(member),
            // A guess takes nobody's place in a queue.
            Notice::Suspected(_) => {}
            Notice::Left(member) => self.forget_member(member),
            Notice::Rests => self.give_back_all(cx),
            Notice::Drains => self.keep_nothing(cx),
            Notice::Leaves => {
                self.leaves = true;
                self.keep_nothing(cx);
            }
        }
    }

    fn next_timer(&self) -> Option<LocalTime> {
        self.timers.next()
    }

    fn fire(&mut self, cx: &mut Cx<'_>) {
        while let Some((name, timer)) = self.timers.pop(cx.now) {
            self.consult(cx, &name, Deferred::Timer(timer));
            self.tidy(cx, &name);
        }
    }

    fn repairs(policy: &Policy, message: &LockMessage) -> bool {
        is_led(policy, &message.lock)
    }

    fn lines(&self, seat: &Seat) -> Lines {
        let led = self.all.iter().filter(|(_, lock)| lock.coordinated().is_some());
        led.map(|(name, lock)| (name.clone(), lock.line(seat.rank()))).collect()
    }

    fn find(
        &mut self,
        cx: &mut Cx<'_>,
        member: MemberId,
        (name, number): (LockName, RequestNumber),
        asked: LocalTime,
    ) {
        self.find_again(cx, member, asked, &name, number);
    }

    fn wanted_of(&mut self, cx: &mut Cx<'_>, holder: Incarnation) -> Vec<LockName> {
        let of_it = self.wanted.iter().filter(|name| cx.holds.is_listed_by(name, holder));
        let of_it: Vec<LockName> = of_it.cloned().collect();
        for name in &of_it {
            self.recall_again(cx, name);
        }
        of_it
    }

    fn adopt(&mut self, cx: &mut Cx<'_>, member: MemberId, name: &LockName) -> bool {
        let carried = crate::view::Carried { holder: Some(member), waiting: Vec::new() };
        let Some(mutex) = cx.holds.seat().map(|seat| self.fresh(seat, name, &carried)) else {
            return false;
        };
        let lock: &mut Lock = self.lock(cx, name);
        let unused = lock.mutex.as_ref().is_some_and(mutex::AnyMutex::is_unused);
        if unused {
            lock.mutex = Some(mutex);
        }
        unused
    }
}

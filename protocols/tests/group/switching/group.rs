//! A group in the simulator whose arbiter changes. What is promised is watched by each member's
//! arbiter at the time when it was reported: a lock that was reported as safe is believed until then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::member::message::Note;
use conclave_protocols::member::{
    Command, Event, Leadership, LockCommand, LockEvent, LostReason, Node, OfLock, OfService,
};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::{FencingToken, LocalTime, LockName};

use crate::nodes::{Ask, Mood, Place};
use crate::terms::Extension;
use crate::world::{World, info, name};

pub(super) struct Group {
    /// Its own watch is not asked: it knows of one arbiter for all.
    pub(super) world: World,
    pub(super) trace: bool,
    wants: BTreeSet<(usize, LockName)>,
    /// Until when each application holds, as it was last notified.
    held: BTreeMap<(usize, LockName), LocalTime>,
    /// The same, as it was last notified with an arbiter.
    safe: BTreeMap<(usize, LockName), LocalTime>,
    /// Until when each application leads, as it was notified with an arbiter.
    leader_leases: BTreeMap<usize, LocalTime>,
    tokens: BTreeMap<LockName, FencingToken>,
    /// Whose holds ended, in order.
    pub(super) lost: Vec<(usize, LostReason)>,
    pub(super) seen: Seen,
    first_epoch: Option<u64>,
}

/// What happened, so that a run in which nothing did is not taken for a good one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) safe_grants: u64,
    pub(super) advisory_grants: u64,
    pub(super) losses: u64,
    /// Of them, those whose applications go on to believe, because of what they were notified of before.
    pub(super) kept: u64,
    pub(super) given: u64,
    pub(super) taken: u64,
}

impl Group {
    pub(super) fn new(seed: u64, members: usize, policy: Policy) -> Self {
        let mut world = World::new(seed, 0, policy);
        world.silent_discovery = true;
        // The rules of a trace are those of views with an arbiter.
        world.rules = None;
        let mut group = Self {
            world,
            trace: false,
            wants: BTreeSet::new(),
            held: BTreeMap::new(),
            safe: BTreeMap::new(),
            leader_leases: BTreeMap::new(),
            tokens: BTreeMap::new(),
            lost: Vec::new(),
            seen: Seen::default(),
            first_epoch: None,
        };
        for _ in 0..members {
            group.join();
        }
        group.discover();
        group
    }

    // ----- looking

    pub(super) fn living(&self) -> Vec<usize> {
        self.world.living().collect()
    }

    pub(super) fn arbiter(&self, member: usize) -> Option<Arbiter> {
        self.world.member(member).map(|member| member.arbiter())
    }

    pub(super) fn try_register(&self) -> Option<&Record> {
        match self.world.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.memory.record(),
            Some(Place::Member(..)) | None => unreachable!("the register does not crash"),
        }
    }

    pub(super) fn register(&self) -> &Record {
        self.try_register().expect("there was a view with an arbiter")
    }

    /// The number of the first view that was written.
    pub(super) fn first_epoch(&self) -> u64 {
        self.first_epoch.expect("a view was written")
    }

    /// Who leads, if all that live go by that arbiter, and are in one view of it.
    pub(super) fn all_are(&self, arbiter: Arbiter) -> bool {
        let Some(leader) = self.leader() else { return false };
        let living = self.living();
        let led = self.world.member(leader).and_then(|member| member.record());
        let Some(led) = led.filter(|record| record.members.len() == living.len()) else {
            return false;
        };
        living.iter().all(|index| {
            let Some(member) = self.world.member(*index) else { return false };
            let same =
                member.record().is_some_and(|r| r.epoch == led.epoch && r.leader == led.leader);
            same && member.arbiter() == arbiter && member.is_in_view()
        })
    }

    /// The one of the living that leads.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |index: &usize| {
            self.world.member(*index).and_then(|member| member.leader_lease())
                > Some(self.world.clock(*index))
        };
        let leaders: Vec<usize> = self.living().into_iter().filter(leads).collect();
        let with = |index: &usize| self.arbiter(*index) == Some(Arbiter::Quorum);
        match leaders[..] {
            [leader] => Some(leader),
            _ => leaders.into_iter().find(with),
        }
    }

    pub(super) fn holders(&self, lock: &str) -> Vec<usize> {
        let holds = |((index, held), until): (&(usize, LockName), &LocalTime)| {
            (held.as_str() == lock && *until > self.world.clock(*index)).then_some(*index)
        };
        self.held.iter().filter_map(holds).collect()
    }

    pub(super) fn holds(&self, member: usize, lock: &str) -> bool {
        self.holders(lock).contains(&member)
    }

    /// Until when that member holds, as it was notified with an arbiter, if that is not over.
    pub(super) fn is_safe_hold(&self, member: usize, lock: &str) -> Option<LocalTime> {
        let until = self.safe.get(&(member, name(lock))).copied();
        until.filter(|until| *until > self.world.clock(member))
    }

    pub(super) fn wants(&self, member: usize, lock: &str) -> bool {
        self.wants.contains(&(member, name(lock)))
    }

    // ----- doing

    pub(super) fn join(&mut self) -> usize {
        let index = self.world.join();
        self.observe();
        index
    }

    pub(super) fn join_with(&mut self, policy: Policy) -> usize {
        let usual = std::mem::replace(&mut self.world.policy, policy);
        let index = self.join();
        self.world.policy = usual;
        index
    }

    /// The resource asks for that arbiter; nobody has heard of it yet.
    pub(super) fn change(&mut self, arbiter: Arbiter) {
        let generation = self.world.policy.generation + 1;
        self.world.policy = Policy { generation, arbiter, ..self.world.policy.clone() };
    }

    /// Notifies a member of what the resource states.
    pub(super) fn tell(&mut self, member: usize) {
        let policy = Box::new(self.world.policy.clone());
        self.command(member, Command::Policy(policy));
    }

    /// The resource asks for that arbiter, and everybody hears of it.
    pub(super) fn set_arbiter(&mut self, arbiter: Arbiter) {
        if self.world.policy.arbiter != arbiter {
            self.change(arbiter);
        }
        for member in self.living() {
            self.tell(member);
        }
    }

    /// Discovery speaks to those that have no arbiter.
    pub(super) fn discover(&mut self) {
        let living = self.living();
        let infos: Vec<MemberInfo> =
            living.iter().map(|index| info(*index, self.world.incarnation(*index))).collect();
        for index in living {
            if self.arbiter(index) == Some(Arbiter::None) {
                self.command(index, Command::Discovered(infos.clone()));
            }
        }
    }

    pub(super) fn enter(&mut self, member: usize, lock: &str) {
        let frozen = self.world.sim.is_frozen(self.world.node(member));
        if frozen || !self.living().contains(&member) {
            return;
        }
        self.wants.insert((member, name(lock)));
        self.command(
            member,
            Command::Service(LockCommand::Enter { lock: name(lock), note: Note::default() }.into()),
        );
    }

    pub(super) fn exit(&mut self, member: usize, lock: &str) {
        let key = (member, name(lock));
        if self.world.sim.is_frozen(self.world.node(member)) {
            return;
        }
        self.wants.remove(&key);
        self.held.remove(&key);
        self.safe.remove(&key);
        self.command(member, Command::Service(LockCommand::Exit { lock: name(lock) }.into()));
    }

    pub(super) fn crash(&mut self, member: usize) {
        self.world.crash(member);
        self.wants.retain(|(index, _)| *index != member);
    }

    pub(super) fn ask_register(&mut self, ask: Ask) {
        self.world.sim.command(Node::Register, ask);
        self.observe();
    }

    pub(super) fn heal(&mut self) {
        self.world.sim.heal();
        self.ask_register(Ask::Mood(Mood::default()));
        for index in 0..self.world.count() {
            self.world.sim.thaw(self.world.node(index));
        }
        self.run_for(Duration::ZERO);
    }

    fn command(&mut self, member: usize, command: Command) {
        self.world.sim.command(self.world.node(member), Ask::Member(command));
        self.observe();
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let end = self.world.sim.now() + span;
        while self.world.sim.step_until(end) {
            self.observe();
        }
        self.world.sim.run_for(end.saturating_sub(self.world.sim.now()));
    }

    pub(super) fn run_until(
        &mut self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Duration {
        let begin = self.world.sim.now();
        while !is_so(self) {
            let waited = self.world.sim.now().saturating_sub(begin);
            let seed = self.world.seed;
            assert!(waited < patience, "seed {seed}: {what}: not within {patience:?}");
            self.run_for(Duration::from_millis(10));
        }
        self.world.sim.now().saturating_sub(begin)
    }

    // ----- watching

    fn observe(&mut self) {
        if self.first_epoch.is_none() {
            self.first_epoch = self.try_register().map(|record| record.epoch.0);
        }
        for (at, node, event) in self.world.sim.take_notified() {
            let Node::Member(incarnation) = node else { continue };
            let index = self.world.members.iter().rposition(|(m, _)| *m == incarnation);
            let index = index.expect("known");
            let safe = self.arbiter(index) == Some(Arbiter::Quorum);
            if self.trace {
                println!("{at:?} {index} {} {event:?}", if safe { "safe" } else { "advisory" });
            }
            let now = self.world.members[index].1.read(at);
            for Extension { key, until, .. } in self.world.terms.hear(index, now, &event) {
                let notified = self.held.get(&key).copied();
                assert!(notified <= Some(until), "seed {}: {key:?} taken back", self.world.seed);
                if notified.is_some() {
                    self.believes(&key, safe, until);
                }
            }
            match event {
                Event::Service(OfService::Lock(OfLock { lock, event })) => {
                    self.lock_event(&(index, lock), safe, &event);
                }
                Event::Leadership(Leadership::Leading(until)) if safe => {
                    self.leader_leases.insert(index, until);
                    self.check_leader_leases();
                }
                Event::Leadership(_) => {
                    self.leader_leases.remove(&index);
                }
                Event::Installed(record) => match record.policy.arbiter {
                    Arbiter::Quorum => self.seen.given += 1,
                    Arbiter::None => self.seen.taken += 1,
                },
                Event::Left => {
                    self.world.left.insert(index);
                }
                Event::Service(OfService::Election(_))
                | Event::Lease(_)
                | Event::Met(_)
                | Event::Grants(_)
                | Event::Grace(_)
                | Event::Full(_)
                | Event::Confirmed(_)
                | Event::Elected { .. }
                | Event::Suspected(_)
                | Event::Trusted { .. }
                | Event::Ignored(_)
                | Event::Undone(_) => {}
            }
        }
    }

    fn lock_event(&mut self, key: &(usize, LockName), safe: bool, event: &LockEvent) {
        match *event {
            LockEvent::Entered { token, term, .. } => {
                let deadline = term.until();
                assert_eq!(token.is_some(), safe, "seed {}: {key:?}", self.world.seed);
                self.check_token(&key.1, token);
                if self.wants.contains(key) {
                    self.world.terms.entered(key.clone(), term);
                    self.seen.safe_grants += u64::from(safe);
                    self.seen.advisory_grants += u64::from(!safe);
                    self.believes(key, safe, deadline);
                }
            }
            LockEvent::Lost(reason) => {
                self.seen.losses += 1;
                // Nobody takes back what an application was notified of: it may not look at once.
                let believes = self.is_safe_hold(key.0, key.1.as_str()).is_some();
                self.seen.kept += u64::from(believes);
                self.lost.push((key.0, reason));
                self.wants.remove(key);
                self.held.remove(key);
            }
            LockEvent::Extended { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Left { .. }
            | LockEvent::Queued(_) => {}
        }
    }

    fn believes(&mut self, key: &(usize, LockName), safe: bool, deadline: LocalTime) {
        self.held.insert(key.clone(), deadline);
        if !safe {
            return;
        }
        self.safe.insert(key.clone(), deadline);
        let holds = |((index, lock), until): (&(usize, LockName), &LocalTime)| {
            (*lock == key.1 && *until > self.world.clock(*index)).then_some(*index)
        };
        let holders: Vec<usize> = self.safe.iter().filter_map(holds).collect();
        let (seed, now) = (self.world.seed, self.world.sim.now());
        assert!(holders.len() <= 1, "seed {seed} at {now:?}: {holders:?} safely hold {}", key.1);
    }

    fn check_token(&mut self, lock: &LockName, token: Option<FencingToken>) {
        let Some(token) = token else { return };
        let last = self.tokens.insert(lock.clone(), token);
        let seed = self.world.seed;
        assert!(last < Some(token), "seed {seed}: {lock} went from {last:?} to {token}");
    }

    fn check_leader_leases(&self) {
        let leads = |(index, until): (&usize, &LocalTime)| {
            (*until > self.world.clock(*index)).then_some(*index)
        };
        let leaders: Vec<usize> = self.leader_leases.iter().filter_map(leads).collect();
        let (seed, now) = (self.world.seed, self.world.sim.now());
        assert!(leaders.len() <= 1, "seed {seed} at {now:?}: {leaders:?} lead");
    }
}

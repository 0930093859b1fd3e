//! What applications are notified of, and what must hold at every moment.
//!
//! Somebody that was notified that it holds a lock until a time by its own clock, and has not given it back,
//! holds it until then, though its member crashed or froze meanwhile. The same goes for the leader lease of a
//! leader, and there also after the member reported that the leader lease is over. What is broken is found at
//! once; the history of the whole run is checked in the end.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::history::{Operation, Scope};
use conclave_protocols::member::{
    Leadership, LockEvent, LostReason, Node, OfElection, OfLock, OfService,
};
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use conclave_protocols::record::Record;
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName};

use crate::kit::{Command, Event};
use crate::storm::Fault;
use crate::terms::Extension;
use crate::world::World;

/// What happened, so that a run in which nothing did is not taken for a good one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) grants: u64,
    /// The same, by the algorithm that granted.
    pub(crate) algorithms: BTreeMap<LockAlgorithm, u64>,
    pub(crate) losses: u64,
    /// Writes with a token that a store refused.
    pub(crate) refused: u64,
    pub(crate) views: u64,
    pub(crate) elections: u64,
    /// How often somebody was suspected.
    pub(crate) suspicions: u64,
    /// Leader leases whose end applications took at once.
    pub(crate) ends: u64,
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Who left for good.
    pub(crate) gone: BTreeSet<usize>,
    /// What happened besides faults.
    pub(crate) besides: BTreeMap<&'static str, u64>,
}

impl World {
    /// Takes note of what was reported, and checks what must hold.
    pub(crate) fn observe(&mut self) {
        self.check_trace();
        let mut handing_over = Vec::new();
        for (at, node, event) in self.sim.take_notified() {
            let Node::Member(incarnation) = node else { continue };
            let index = self.members.iter().rposition(|(m, _)| *m == incarnation).expect("known");
            if self.trace {
                println!("{at:?} {index} {event:?}");
            }
            let now = self.members[index].1.read(at);
            for extension in self.terms.hear(index, now, &event) {
                self.extended(&extension);
            }
            match event {
                Event::Service(OfService::Lock(OfLock { lock, event })) => {
                    self.lock_event(index, lock, &event);
                }
                Event::Service(OfService::Election(OfElection { election, event })) => {
                    self.election_event(index, &election, &event);
                }
                Event::Leadership(Leadership::Leading(until)) => self.leads(index, until),
                Event::Leadership(
                    leadership @ (Leadership::HandingOver
                    | Leadership::Following(..)
                    | Leadership::Electing
                    | Leadership::Isolated),
                ) => {
                    handing_over.extend((leadership == Leadership::HandingOver).then_some(index));
                    if self.leads.remove(&index).is_some() {
                        self.lost_leader_leases += 1;
                        let ends = leadership == Leadership::HandingOver && self.takes_ends();
                        if !ends && self.believed.get(&index) > Some(&self.clock(index)) {
                            self.besides("a belief that is kept past its end");
                        }
                        self.record_now(Operation::Resigned { who: format!("member {index}") });
                    }
                }
                Event::Installed(record) => {
                    self.seen.views += 1;
                    self.view(index, &record);
                }
                Event::Elected { .. } => self.seen.elections += 1,
                Event::Suspected(_) => self.seen.suspicions += 1,
                Event::Left => {
                    self.seen.gone.insert(index);
                    self.left.insert(index);
                }
                Event::Ignored("version") => {
                    panic!("seed {}: {index} heard a version that it does not speak", self.seed)
                }
                Event::Lease(_)
                | Event::Met(_)
                | Event::Grants(_)
                | Event::Grace(_)
                | Event::Full(_)
                | Event::Confirmed(_)
                | Event::Trusted { .. }
                | Event::Ignored(_)
                | Event::Undone(_) => {}
            }
        }
        for index in handing_over {
            self.end_belief(index);
        }
    }

    /// The one leader, unless there is none or there are several.
    pub(crate) fn leader(&self) -> Option<usize> {
        match self.leaders()[..] {
            [leader] => Some(leader),
            _ => None,
        }
    }

    /// In half of the runs applications listen, and take the end of a leader lease as soon as it is
    /// reported. In the others they were notified of a deadline, and go by that.
    fn takes_ends(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    fn end_belief(&mut self, index: usize) {
        if self.takes_ends() {
            let now = self.clock(index);
            self.believed.insert(index, now);
            self.seen.ends += 1;
            self.command(index, Command::Notified(now));
        }
    }

    /// A member entered a view.
    fn view(&mut self, index: usize, record: &Record) {
        let others = || record.members.iter().filter(|m| m.incarnation != self.members[index].0);
        let mine = record.members.iter().find(|m| m.incarnation == self.members[index].0);
        let rate = |one: Incarnation| {
            self.members.iter().find(|(other, _)| *other == one).map(|(_, clock)| clock.rate_ppm)
        };
        let my_rate = self.members[index].1.rate_ppm;
        let corners = self.variety.corners
            && others().any(|other| rate(other.incarnation).is_some_and(|rate| rate != my_rate));
        let ranks = mine.is_some_and(|mine| others().any(|other| other.priority != mine.priority));
        let (old, new) = (self.waits, record.policy.timing);
        self.waits = new;
        let waits = [
            (ranks, "a view of members with different priorities"),
            (corners, "a view of clocks at opposite corners"),
            (old.leader_lease != new.leader_lease, "another leaderLease"),
            (old.heartbeat != new.heartbeat, "another heartbeat"),
            (old.member_lease != new.member_lease, "another memberLease"),
            (old.api_outage != new.api_outage, "another apiOutage"),
        ];
        for (_, what) in waits.into_iter().filter(|(so, _)| *so) {
            self.besides(what);
        }
    }

    /// Every step that members and register took since the last look is one of the rules.
    fn check_trace(&mut self) {
        let taken: Vec<_> = self.entries.try_iter().collect();
        let (seed, now) = (self.seed, self.sim.now());
        let Some(rules) = &mut self.rules else { return };
        for entry in taken {
            let clock =
                |who| self.members.iter().rfind(|(m, _)| *m == who).map(|(_, clock)| *clock);
            let true_time = |who, at| clock(who).map_or(now, |clock| clock.true_time(at));
            let entry = entry.on_axis(true_time);
            if self.trace {
                println!("{now:?} {entry:?}");
            }
            if let Err(breach) = rules.step(now, &entry) {
                panic!("seed {seed} at {now:?}: {breach}: {entry:?}");
            }
        }
    }

    pub(crate) fn record_now(&mut self, operation: Operation) {
        self.history.record(self.sim.now(), operation);
    }

    /// Every law that counts in this run.
    pub(crate) fn check_history(&self) {
        if !self.laws {
            return;
        }
        let violations = self.history.check(self.scope);
        assert!(
            violations.is_empty(),
            "seed {}: {} violations, the first: {}",
            self.seed,
            violations.len(),
            violations[0]
        );
    }

    /// Whether the laws count that need clocks to keep to their bound.
    fn trusts_clocks(&self) -> bool {
        self.laws && self.scope == Scope::Everything
    }

    fn leads(&mut self, index: usize, until: LocalTime) {
        self.leads.insert(index, until);
        let believed = self.believed.entry(index).or_default();
        *believed = until.max(*believed);
        self.check_leader_leases();
        let epoch = self.member(index).and_then(|member| member.record()).map(|r| r.epoch.0);
        let until = self.members[index].1.true_time(until);
        if let (Some(epoch), Arbiter::Quorum) = (epoch, self.policy.arbiter) {
            let who = format!("member {index}");
            self.record_now(Operation::Leads { who, epoch, until });
        }
    }

    /// The lease of a member goes on, and with it what it holds; or that alone.
    fn extended(&mut self, extension: &Extension) {
        let Extension { key, before, until } = extension;
        if let Some(claim) = self.claims.get(key) {
            let (claim, until) = (claim.number, self.members[key.0].1.true_time(*until));
            self.record_now(Operation::Extended { claim, until });
        }
        let (seed, now, sure) = (self.seed, self.sim.now(), self.trusts_clocks());
        assert!(before <= until || !sure, "seed {seed} at {now:?}: {} was taken back", key.1);
        self.check_holders(&key.1);
    }

    fn lock_event(&mut self, index: usize, lock: LockName, event: &LockEvent) {
        let key = (index, lock);
        match *event {
            LockEvent::Entered { token, epoch, term, .. } => {
                let deadline = term.until();
                self.record_grant(&key, token, epoch, deadline);
                if !self.wants.contains(&key) {
                    return;
                }
                self.seen.grants += 1;
                let record = self.member(index).and_then(|member| member.record());
                if let Some(algorithm) = record.map(|r| r.policy.algorithm(key.1.as_str())) {
                    *self.seen.algorithms.entry(algorithm).or_default() += 1;
                }
                self.check_token(&key.1, token);
                self.terms.entered(key.clone(), term);
                self.check_holders(&key.1);
            }
            LockEvent::Lost(reason) => {
                self.seen.losses += 1;
                let delayed =
                    self.policy.for_lock(key.1.as_str()).is_some_and(|p| !p.lock_delay.is_zero());
                if delayed && reason == LostReason::LeaseExpired {
                    self.besides("a lock that is closed after a loss");
                }
                if let Some(claim) = self.claims.get(&key) {
                    self.record_now(Operation::Lost { claim: claim.number });
                }
                self.wants.remove(&key);
            }
            LockEvent::Extended { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Queued(_)
            | LockEvent::Left { .. } => {}
        }
    }

    fn record_grant(
        &mut self,
        key: &(usize, LockName),
        token: Option<FencingToken>,
        epoch: Epoch,
        deadline: LocalTime,
    ) {
        let until = self.members[key.0].1.true_time(deadline);
        let Some(claim) = self.claims.get_mut(key) else { return };
        claim.token = token;
        let (claim, token) = (claim.number, token.map(FencingToken::get));
        let view = Some(epoch.0);
        self.record_now(Operation::Granted { claim, token, view, until });
    }

    fn check_token(&mut self, lock: &LockName, token: Option<FencingToken>) {
        assert_eq!(token.is_some(), self.policy.arbiter == Arbiter::Quorum);
        let Some(token) = token else { return };
        let last = self.tokens.insert(lock.clone(), token);
        let (seed, now) = (self.seed, self.sim.now());
        // Without clocks that can be trusted, answers may come in another order.
        let rises = last < Some(token) || !self.trusts_clocks();
        assert!(rises, "seed {seed} at {now:?}: {lock} went from {last:?} to {token}");
    }

    fn check_holders(&self, lock: &LockName) {
        let holders = self.holders(lock.as_str());
        let (seed, now) = (self.seed, self.sim.now());
        let exempt = self.policy.arbiter == Arbiter::None || !self.trusts_clocks();
        assert!(holders.len() <= 1 || exempt, "seed {seed} at {now:?}: {holders:?} hold {lock}");
    }

    fn check_leader_leases(&self) {
        let believed =
            |(index, until): (&usize, &LocalTime)| (*until > self.clock(*index)).then_some(*index);
        let leaders: Vec<usize> = self.believed.iter().filter_map(believed).collect();
        let (seed, now) = (self.seed, self.sim.now());
        let exempt = self.policy.arbiter == Arbiter::None || !self.trusts_clocks();
        assert!(leaders.len() <= 1 || exempt, "seed {seed} at {now:?}: {leaders:?} lead");
    }
}

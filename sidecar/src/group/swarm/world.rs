//! The group, and what its applications saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use conclave_protocols::history::{History, Operation, Purpose, Scope};
use conclave_protocols::member::Node;
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::MemberInfo;
use conclave_protocols::sim::{Clock, Simulator};
use conclave_protocols::trace::{self, Log, Rules, TraceEntry, Watch};
use conclave_protocols::version;
use conclave_protocols::{Epoch, Incarnation, LocalTime, LockName, PodUid};

use super::leads::Leads;
use super::pod::{Call, Clocks, Limits, Number, Place, Pod, Question, Seen, Shows};
use super::probes;
use super::register::Register;
use super::times::Times;
use crate::metrics::Metrics;

pub(super) struct World {
    pub(super) sim: Simulator<Place>,
    pub(super) seed: u64,
    trace: bool,
    pub(super) policy: Policy,
    metrics: Metrics,
    pub(super) pods: Vec<(Node, Clock)>,
    /// What discovery has of each.
    infos: Vec<MemberInfo>,
    pub(super) claims: BTreeMap<Number, Asked>,
    /// Those of which a sidecar answered that they are given back.
    returned: BTreeSet<Number>,
    pub(super) leads: Leads,
    /// What the store of each lock took last.
    stores: BTreeMap<String, u64>,
    pub(super) history: History,
    /// What members and register did since it was last looked at, and what that is held against.
    log: Log,
    entries: Receiver<TraceEntry<LocalTime>>,
    pub(super) rules: Rules,
    /// The arbiter was taken away, of which the rules of views know nothing.
    pub(super) had_no_arbiter: bool,
    /// How often what happened.
    pub(super) seen: BTreeMap<&'static str, u64>,
    pub(super) views: u64,
    pub(super) times: Times,
    /// When clock probes were looked at last.
    probed: Duration,
}

/// A claim, as its application knows it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) pod: usize,
    pub(super) lock: String,
    pub(super) token: Option<u64>,
    pub(super) state: State,
    /// Its hold was shown as advisory: nothing is promised of it any more.
    pub(super) is_advisory: bool,
    /// When it was last renewed or given back, and the token that its application knew then.
    called: (Duration, Option<u64>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Waiting,
    Held,
    /// Given back, or given up.
    Left,
    /// Lost or refused.
    Ended,
}

impl World {
    pub(super) fn new(seed: u64, policy: Policy, trace: bool) -> Self {
        let mut sim = Simulator::new(seed);
        let (log, entries) = Log::new();
        sim.add(Node::Register, Place::Register(Box::new(Register::new(seed, log.clone()))));
        Self {
            sim,
            seed,
            trace,
            policy,
            metrics: Metrics::new("swarm"),
            pods: Vec::new(),
            infos: Vec::new(),
            claims: BTreeMap::new(),
            returned: BTreeSet::new(),
            leads: Leads::default(),
            stores: BTreeMap::new(),
            history: History::default(),
            log,
            entries,
            rules: Rules::new(trace::Clocks::Drifting),
            had_no_arbiter: false,
            seen: BTreeMap::new(),
            views: 0,
            times: Times::default(),
            probed: Duration::ZERO,
        }
    }

    pub(super) fn join(&mut self) {
        let index = self.pods.len();
        let run = self.sim.random().up_to(1 << 53);
        let incarnation = Incarnation { pod: PodUid(index as u128 + 1), run };
        let info = MemberInfo {
            incarnation,
            name: format!("pod-{index}"),
            addresses: Vec::new(),
            // Such that neither goes by the ranks.
            priority: [0, 1, 0][index % 3],
            capacity: [1, 2, 0, 2][index % 4],
            zone: None,
            seniority: 0,
            // One process in four is of the release before.
            protocol: (version::FIRST, version::NEXT - u16::from(run.is_multiple_of(4))),
        };
        let offset = Duration::from_secs(self.sim.random().up_to(1_000_000));
        let rate = i32::try_from(self.sim.random().up_to(40_001)).expect("small") - 20_000;
        let clock = Clock { offset, rate_ppm: rate };
        let node = Node::Member(incarnation);
        self.pods.push((node, clock));
        self.infos.push(info.clone());
        let metrics = self.metrics.locks.clone();
        let now = self.sim.now();
        let clocks = Clocks { rate_ppm: rate, now: clock.read(now), utc: now };
        let (status, log) = (self.epoch().into(), self.log.clone());
        let pod = Pod::new(info, self.policy.clone(), status, metrics, (clocks, log));
        self.sim.add_with_clock(node, Place::Pod(Box::new(pod)), clock);
        self.observe();
    }

    pub(super) fn register(&self) -> &Register {
        match self.sim.node(Node::Register) {
            Some(Place::Register(register)) => register,
            Some(Place::Pod(_)) | None => unreachable!("the register does not crash"),
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.register().epoch()
    }

    pub(super) fn pod(&self, index: usize) -> Option<&Pod> {
        match self.sim.node(self.pods[index].0)? {
            Place::Pod(pod) if !pod.has_left() => Some(pod),
            Place::Pod(_) | Place::Register(_) => None,
        }
    }

    /// Whether that process goes by an arbiter.
    pub(super) fn has_arbiter(&self, index: usize) -> bool {
        match self.sim.node(self.pods[index].0) {
            Some(Place::Pod(pod)) => pod.member().arbiter() == Arbiter::Quorum,
            Some(Place::Register(_)) | None => true,
        }
    }

    pub(super) fn living(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|index| self.pod(*index).is_some()).collect()
    }

    /// One of so many.
    pub(super) fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.sim.random().up_to(count as u64)).expect("small")
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub(super) fn record(&mut self, operation: Operation) {
        self.history.record(self.sim.now(), operation);
    }

    // ----- what applications do

    pub(super) fn ask(
        &mut self,
        pod: usize,
        lock: &str,
        named: bool,
        limits: Limits,
        ttl: Option<Duration>,
    ) -> Number {
        let number = self.claims.len() as Number + 1;
        let called = (self.sim.now(), None);
        let lock = lock.to_owned();
        let (token, state, is_advisory) = (None, State::Waiting, false);
        let asked = Asked { pod, lock: lock.clone(), token, state, is_advisory, called };
        self.claims.insert(number, asked);
        self.record(Operation::Asked { claim: number, lock: lock.clone() });
        let lock = LockName::try_from(lock).expect("a good name");
        self.call(pod, Call::Ask(Question { number, lock, named, limits, ttl }));
        number
    }

    pub(super) fn release(&mut self, number: Number) {
        self.give_up(number, Call::Release(number));
    }

    pub(super) fn hang_up(&mut self, number: Number) {
        self.count("hung up");
        self.give_up(number, Call::HangUp(number));
    }

    fn give_up(&mut self, number: Number, call: Call) {
        self.leaves(number);
        if let Some(pod) = self.claims.get(&number).map(|claim| claim.pod) {
            self.call(pod, call);
        }
    }

    /// Its application waits and holds no longer, if it did.
    fn leaves(&mut self, number: Number) {
        let now = self.sim.now();
        let Some(claim) = self.claims.get_mut(&number) else { return };
        if matches!(claim.state, State::Waiting | State::Held) {
            (claim.state, claim.called) = (State::Left, (now, claim.token));
            self.record(Operation::Released { claim: number });
        }
    }

    pub(super) fn renew(&mut self, number: Number) {
        let now = self.sim.now();
        let Some(claim) = self.claims.get_mut(&number) else { return };
        claim.called = (now, claim.token);
        let pod = claim.pod;
        self.call(pod, Call::Renew(number));
    }

    /// A claim's application writes to the store that its lock protects, though it may have lost it.
    pub(super) fn write(&mut self, number: Number) {
        let claim = &self.claims[&number];
        if let (Some(token), lock) = (claim.token, claim.lock.clone()) {
            self.store(lock, token);
        }
    }

    pub(super) fn store(&mut self, lock: String, token: u64) {
        let highest = self.stores.entry(lock.clone()).or_default();
        let accepted = token >= *highest;
        *highest = token.max(*highest);
        if !accepted {
            self.count("old token refused");
        }
        self.record(Operation::Stored { lock, token, accepted });
    }

    /// A pod ends in order: its application first, then its sidecar.
    pub(super) fn end(&mut self, pod: usize) {
        let of_pod = self.claims.iter().filter(|(_, claim)| claim.pod == pod);
        for number in of_pod.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.leaves(number);
        }
        self.stops(pod);
        self.terminate(pod);
    }

    /// A sidecar is asked to end, by its kubelet for example, and its application works on.
    pub(super) fn terminate(&mut self, pod: usize) {
        self.call(pod, Call::End);
    }

    pub(super) fn crash(&mut self, pod: usize) {
        let (node, _) = self.pods[pod];
        self.sim.crash(node);
        if let Node::Member(member) = node {
            Watch::ended(&self.log, member);
        }
    }

    pub(super) fn call(&mut self, pod: usize, call: Call) {
        self.sim.command(self.pods[pod].0, call);
        self.observe();
    }

    /// Members without an arbiter, and so without a register, know of one another by discovery alone. It asks the API
    /// server, as the register does: who reaches neither knows what it knew before.
    fn discover(&mut self) {
        let living = self.living();
        let found: Vec<MemberInfo> =
            living.iter().map(|index| self.infos[*index].clone()).collect();
        for index in living {
            let node = self.pods[index].0;
            let is_answered =
                !self.sim.is_cut(node, Node::Register) && !self.sim.is_cut(Node::Register, node);
            if is_answered && !self.has_arbiter(index) {
                self.call(index, Call::Found(found.clone()));
            }
        }
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let end = self.sim.now() + span;
        loop {
            let next = self.probed + probes::PERIOD;
            let until = next.min(end);
            while self.sim.step_until(until) {
                self.observe();
            }
            self.sim.run_for(until.saturating_sub(self.sim.now()));
            if self.sim.now() >= next {
                self.probed = next;
                self.probe();
                self.discover();
            }
            if self.sim.now() >= end {
                break;
            }
        }
    }

    // ----- what they see

    /// Every step that members and register took since the last look is one of the rules.
    fn check_trace(&mut self) {
        let (seed, now) = (self.seed, self.sim.now());
        for entry in self.entries.try_iter().collect::<Vec<_>>() {
            let clock = |who| self.pods.iter().rfind(|(node, _)| *node == Node::Member(who));
            let true_time = |who, at| clock(who).map_or(now, |(_, clock)| clock.true_time(at));
            let entry = entry.on_axis(true_time);
            if self.trace {
                println!("{now:?} {entry:?}");
            }
            if self.had_no_arbiter {
                continue;
            }
            if let Err(breach) = self.rules.step(now, &entry) {
                panic!("seed {seed} at {now:?}: {breach}: {entry:?}");
            }
        }
    }

    fn observe(&mut self) {
        self.check_trace();
        for (at, node, seen) in self.sim.take_notified() {
            let known = self.pods.iter().rposition(|(pod, _)| *pod == node);
            let index = known.expect("only pods tell");
            if self.trace {
                println!("{at:?} {index} {seen:?}");
            }
            self.see(index, seen);
        }
        self.check_leads();
        self.check_clocks();
    }

    fn see(&mut self, pod: usize, seen: Seen) {
        let clock = self.pods[pod].1;
        match seen {
            Seen::Claim(number, shows) => self.claim_shows(number, shows, clock),
            Seen::Renewed(number, accepted) => {
                self.count(if accepted { "renewed" } else { "renewal refused" });
                self.shown(number, Purpose::Renew, accepted);
            }
            Seen::Released(number, accepted) => {
                if accepted {
                    self.returned.insert(number);
                }
                self.shown(number, Purpose::Release, accepted);
            }
            Seen::Leads { epoch, until } => {
                let (who, until) = (format!("pod {pod}"), clock.true_time(until));
                self.record(Operation::Leads { who, epoch: epoch.0, until });
            }
            Seen::Lead(lead) => self.lead_shows(pod, lead, clock),
            Seen::Done(what) => {
                self.count(what);
                self.is_done(pod, what);
            }
            Seen::LeadsNot => self.record(Operation::Resigned { who: format!("pod {pod}") }),
            Seen::View(record) => {
                self.views += 1;
                self.note_line(pod, &record);
            }
            Seen::Adjusted => self.count("adjusted"),
            Seen::Left => {}
        }
    }

    fn claim_shows(&mut self, number: Number, shows: Shows, clock: Clock) {
        let (seed, returned) = (self.seed, self.returned.contains(&number));
        let Some(pod) = self.claims.get(&number).map(|claim| claim.pod) else { return };
        let has_arbiter = self.has_arbiter(pod);
        let Some(claim) = self.claims.get_mut(&number) else { return };
        let first = claim.token.is_none();
        match shows {
            Shows::Held { token, epoch, until, is_safe } => {
                assert!(!returned, "seed {seed}: claim {number} was given back");
                assert_eq!(is_safe, has_arbiter, "seed {seed}: claim {number} of pod {pod}");
                let before = std::mem::replace(&mut claim.token, token);
                if claim.state == State::Waiting {
                    claim.state = State::Held;
                }
                assert!(
                    !(is_safe && claim.is_advisory),
                    "seed {seed}: claim {number} was advisory, and is safe by now"
                );
                if !is_safe {
                    let was_safe = !std::mem::replace(&mut claim.is_advisory, true) && !first;
                    self.count("advisory");
                    if was_safe {
                        self.record(Operation::Lost { claim: number });
                    }
                    return;
                }
                assert!(token.is_some(), "seed {seed}: claim {number} is safe without a token");
                assert!(first || before == token, "seed {seed}: claim {number} has another token");
                let until = clock.true_time(until);
                if first {
                    self.count("held");
                    let view = Some(epoch.0);
                    self.record(Operation::Granted { claim: number, token, view, until });
                } else {
                    self.count("extended");
                    self.record(Operation::Extended { claim: number, until });
                }
            }
            Shows::Released => self.count("released"),
            Shows::Refused => {
                claim.state = State::Ended;
                self.count("refused");
            }
            Shows::Lost(reason) => {
                claim.state = State::Ended;
                let is_advisory = claim.is_advisory;
                self.count(reason);
                if !first && !is_advisory {
                    self.record(Operation::Lost { claim: number });
                }
            }
        }
    }

    /// A call that names a hold was answered; it counts from when it was made.
    fn shown(&mut self, number: Number, to: Purpose, accepted: bool) {
        let Some(claim) = self.claims.get(&number).filter(|claim| !claim.is_advisory) else {
            return;
        };
        let ((at, Some(token)), lock) = (claim.called, claim.lock.clone()) else { return };
        self.history.record(at, Operation::Shown { lock, token, to, accepted });
    }

    pub(super) fn check(&self) {
        let violations = self.history.check(Scope::Everything);
        let (seed, count) = (self.seed, violations.len());
        assert!(violations.is_empty(), "seed {seed}: {count} violations: {}", violations[0]);
    }
}

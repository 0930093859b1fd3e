//! A group in the simulator. What its applications are notified of is watched in `watch.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use conclave_protocols::elections::{DEFAULT, hold_of};
use conclave_protocols::history::{ClaimNumber, History, Operation, Scope};
use conclave_protocols::member::message::Note;
use conclave_protocols::member::{
    Candidacy, ElectionCommand, ElectionEvent, LockCommand, Node, StatusEpoch,
};
use conclave_protocols::policy::{Arbiter, Policy, Timing};
use conclave_protocols::random::Random;
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::sim::{Clock, Simulator};
use conclave_protocols::trace::{Clocks, Log, Rules, TraceEntry, Watch};
use conclave_protocols::version;
use conclave_protocols::{FencingToken, Incarnation, LocalTime, LockName, PodUid};

use crate::kit::{Command, Member};
use crate::nodes::{Ask, Place, Register};
use crate::terms::Terms;
use crate::watch::Seen;
use crate::weather::by_traces_alone;

pub(crate) struct World {
    pub(crate) sim: Simulator<Place>,
    pub(crate) seed: u64,
    pub(crate) trace: bool,
    pub(crate) policy: Policy,
    /// How far clocks' rates are off at most, in parts per million.
    drift: i32,
    pub(crate) variety: Variety,
    /// Draws in which order a member that was frozen finds what waits for it; none: as it came.
    pub(crate) orders: Option<Random>,
    /// Those of the latest view that somebody entered.
    pub(crate) waits: Timing,
    /// The longest of all waits that the resource ever had.
    pub(crate) longest: Timing,
    /// How long a leader waits that hears of a view which the register forgot (rule 39): not at all, if the
    /// register never was brought back.
    pub(crate) forgotten: Duration,
    /// All members that there ever were.
    pub(crate) members: Vec<(Incarnation, Clock)>,
    /// Who left.
    pub(crate) left: BTreeSet<usize>,
    /// What applications want, and have not given back.
    pub(crate) wants: BTreeSet<(usize, LockName)>,
    /// Until when applications hold, by their own clocks, as they were notified.
    pub(crate) terms: Terms,
    /// Until when applications lead, by their own clocks, as they were notified.
    pub(crate) leads: BTreeMap<usize, LocalTime>,
    /// The last deadlines of a leader lease of which applications were notified, whatever they were notified of since.
    pub(crate) believed: BTreeMap<usize, LocalTime>,
    /// How often somebody was notified that it leads no longer.
    pub(crate) lost_leader_leases: u64,
    pub(crate) tokens: BTreeMap<LockName, FencingToken>,
    /// The latest request of each application for each lock.
    pub(crate) claims: BTreeMap<(usize, LockName), Claim>,
    claimed: ClaimNumber,
    /// What the store of each lock has taken.
    stores: BTreeMap<LockName, FencingToken>,
    /// What the status of the resource states: the highest view.
    pub(crate) status: StatusEpoch,
    pub(crate) history: History,
    /// What members and register did since it was last looked at.
    pub(crate) log: Log,
    pub(crate) entries: Receiver<TraceEntry<LocalTime>>,
    /// What that is held against; nothing where the rules do not promise anything.
    pub(crate) rules: Option<Rules>,
    /// Whether clocks keep to their bound.
    pub(crate) scope: Scope,
    /// Whether the laws of what applications see are looked at too.
    pub(crate) laws: bool,
    pub(crate) seen: Seen,
    /// Discovery has not spoken yet.
    pub(crate) silent_discovery: bool,
}

/// What differs among the members of a run, and in what happens to them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variety {
    /// Members have different priorities.
    pub(crate) priorities: bool,
    /// Each clock runs as fast as it may, or as slowly.
    pub(crate) corners: bool,
    /// What waits for a member that was frozen comes in any order that keeps that of each source.
    pub(crate) orders: bool,
}

/// A request of an application for a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Claim {
    pub(crate) number: ClaimNumber,
    pub(crate) token: Option<FencingToken>,
}

/// Half of what `hold(x)` allows between two clocks.
pub(crate) const DRIFT: i32 = 20_000;

/// Of two clocks that are off by so many parts per million, in opposite directions, one is faster by
/// as much as `hold(x)` allows, and not a millionth more.
const CORNER: i32 = 24_390;

impl World {
    pub(crate) fn new(seed: u64, members: usize, policy: Policy) -> Self {
        Self::with_drift(seed, members, policy, DRIFT)
    }

    /// A group whose clocks are off by so many parts per million at most. More than two per cent is
    /// more than members are prepared for.
    pub(crate) fn with_drift(seed: u64, members: usize, policy: Policy, drift: i32) -> Self {
        Self::with_variety(seed, members, policy, drift, Variety::default())
    }

    /// The same, with what differs among members.
    pub(crate) fn with_variety(
        seed: u64,
        members: usize,
        policy: Policy,
        drift: i32,
        variety: Variety,
    ) -> Self {
        let mut sim = Simulator::new(seed);
        let (log, entries) = Log::new();
        let register = Register::new(seed, log.clone());
        sim.add(Node::Register, Place::Register(Box::new(register)));
        let promises = drift <= DRIFT && policy.arbiter == Arbiter::Quorum;
        let mut world = Self {
            sim,
            seed,
            trace: false,
            longest: policy.timing,
            forgotten: Duration::ZERO,
            waits: policy.timing,
            policy,
            drift,
            variety,
            orders: variety.orders.then(|| Random::new(seed ^ 0x0bde_c0de)),
            members: Vec::new(),
            left: BTreeSet::new(),
            wants: BTreeSet::new(),
            terms: Terms::default(),
            leads: BTreeMap::new(),
            believed: BTreeMap::new(),
            lost_leader_leases: 0,
            tokens: BTreeMap::new(),
            claims: BTreeMap::new(),
            claimed: 0,
            stores: BTreeMap::new(),
            status: StatusEpoch::default(),
            history: History::default(),
            log,
            entries,
            rules: promises.then(|| Rules::new(Clocks::Drifting)),
            laws: !by_traces_alone(),
            scope: if drift > DRIFT { Scope::Timeless } else { Scope::Everything },
            seen: Seen::default(),
            silent_discovery: false,
        };
        for _ in 0..members {
            world.join();
        }
        world
    }

    /// Another pod starts.
    pub(crate) fn join(&mut self) -> usize {
        self.start(PodUid(self.members.len() as u128 + 1))
    }

    /// A member's process ends, and its pod starts another, which remembers nothing.
    pub(crate) fn restart(&mut self, member: usize) -> usize {
        let pod = self.members[member].0.pod;
        self.crash(member);
        self.left.insert(member);
        self.start(pod)
    }

    fn start(&mut self, pod: PodUid) -> usize {
        let index = self.members.len();
        let incarnation = Incarnation { pod, run: self.sim.random().up_to(1 << 53) };
        // A clock that stands still is put back by that.
        let offset = Duration::from_secs(100_000 + self.sim.random().up_to(1_000_000));
        let width = u64::try_from(2 * self.drift + 1).expect("positive");
        let mut rate = i32::try_from(self.sim.random().up_to(width)).expect("small") - self.drift;
        if self.variety.corners {
            rate = if rate < 0 { -CORNER } else { CORNER };
        }
        let clock = Clock { offset, rate_ppm: rate };
        let status = self.status_epoch();
        self.members.push((incarnation, clock));
        let member = Member::new(self.info(index), self.policy.clone(), status);
        let watch = Watch::new(&member, rate, self.log.clone());
        let place = Place::Member(Box::new(member), watch);
        self.sim.add_with_clock(Node::Member(incarnation), place, clock);
        self.stand(index);
        self.discover();
        index
    }

    /// What a member states of itself.
    pub(crate) fn info(&self, index: usize) -> MemberInfo {
        let priority = if self.variety.priorities { [0, 1, 2][index % 3] } else { 0 };
        let capacity = if self.variety.priorities { [1, 2, 0, 2][index % 4] } else { 0 };
        let zone = self.variety.priorities.then(|| ["a", "a", "a", "b", "c"][index % 5].to_owned());
        MemberInfo { priority, capacity, zone, ..info(index, self.members[index].0) }
    }

    /// The application of a new member stands in all elections that there are.
    fn stand(&mut self, member: usize) {
        for policy in self.policy.elections.clone() {
            let election = hold_of(&policy.name).expect("a name");
            // Such that some outrank others.
            let priority = i32::try_from(member % 3).expect("small");
            let candidacy = Candidacy { priority, ..Candidacy::default() };
            let stand = ElectionCommand::Stand { election, candidacy };
            self.command(member, Command::Service(stand.into()));
        }
    }

    /// Nominees ask for the lead. One that was too late asks no longer; one that leads may resign, and names its
    /// successor sometimes; one that is to hand over does sooner or later.
    pub(crate) fn election_event(&mut self, member: usize, lead: &LockName, event: &ElectionEvent) {
        let me = self.members[member].0;
        let leads = self.holders(lead.as_str()).contains(&member);
        match event {
            ElectionEvent::Elected { winner, .. } if *winner == me => {
                self.enter(member, lead.as_str());
            }
            ElectionEvent::State { leader: Some(leader), .. } => {
                let exits = if *leader == me {
                    if leads && self.sim.random().once_in(4) {
                        let election = lead.clone();
                        let to = self.members[usize::try_from(self.sim.random().up_to(4))
                            .expect("small")
                            % self.members.len()]
                        .0;
                        let transfer = ElectionCommand::Transfer { election, to };
                        self.command(member, Command::Service(transfer.into()));
                    }
                    leads && self.sim.random().once_in(4)
                } else {
                    !leads && self.wants(member, lead.as_str())
                };
                if exits {
                    self.exit(member, lead.as_str());
                }
            }
            ElectionEvent::HandOver => {
                if leads && self.sim.random().once_in(2) {
                    self.exit(member, lead.as_str());
                }
            }
            ElectionEvent::Elected { .. } | ElectionEvent::State { leader: None, .. } => {}
        }
    }

    /// Under the arbiter `None`, all pods that there are become known to all.
    pub(crate) fn discover(&mut self) {
        if self.policy.arbiter == Arbiter::Quorum || self.silent_discovery {
            return;
        }
        let found: Vec<MemberInfo> = self.living().map(|index| self.info(index)).collect();
        for index in self.living().collect::<Vec<_>>() {
            self.command(index, Command::Discovered(found.clone()));
        }
    }

    /// What the operator has written into the status of the resource: it watches the register, and
    /// does not forget what was there.
    pub(crate) fn status_epoch(&mut self) -> StatusEpoch {
        match self.policy.arbiter {
            Arbiter::Quorum => {
                let used =
                    |record: &Record| StatusEpoch { epoch: record.epoch, ceiling: record.ceiling };
                let now = self.try_record().map(used).unwrap_or_default();
                self.status.epoch = self.status.epoch.max(now.epoch);
                self.status.ceiling = self.status.ceiling.max(now.ceiling);
                self.status
            }
            Arbiter::None => StatusEpoch::default(),
        }
    }

    // ----- looking

    pub(crate) fn node(&self, member: usize) -> Node {
        Node::Member(self.members[member].0)
    }

    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn incarnation(&self, member: usize) -> Incarnation {
        self.members[member].0
    }

    pub(crate) fn member(&self, index: usize) -> Option<&Member> {
        match self.sim.node(self.node(index))? {
            Place::Member(member, _) => Some(member),
            Place::Register(_) => None,
        }
    }

    /// Members that did not crash and did not leave.
    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len())
            .filter(|index| self.member(*index).is_some() && !self.left.contains(index))
    }

    fn try_record(&self) -> Option<&Record> {
        match self.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.memory.record(),
            Some(Place::Member(..)) | None => unreachable!("the register does not crash"),
        }
    }

    pub(crate) fn record(&self) -> &Record {
        self.try_record().expect("there is a view")
    }

    pub(crate) fn clock(&self, member: usize) -> LocalTime {
        self.members[member].1.read(self.sim.now())
    }

    /// The members that were notified that they lead at this moment.
    pub(crate) fn leaders(&self) -> Vec<usize> {
        let leads =
            |(index, until): (&usize, &LocalTime)| (*until > self.clock(*index)).then_some(*index);
        self.leads.iter().filter_map(leads).collect()
    }

    pub(crate) fn holders(&self, lock: &str) -> Vec<usize> {
        let holds = |(index, until)| (until > self.clock(index)).then_some(index);
        self.terms.of(lock).filter_map(holds).collect()
    }

    pub(crate) fn holder(&self, lock: &str) -> Option<usize> {
        self.holders(lock).first().copied()
    }

    pub(crate) fn wants(&self, member: usize, lock: &str) -> bool {
        self.wants.contains(&(member, name(lock)))
    }

    // ----- doing

    pub(crate) fn enter(&mut self, member: usize, lock: &str) {
        let frozen = self.sim.is_frozen(self.node(member));
        if self.left.contains(&member) || self.member(member).is_none() || frozen {
            return;
        }
        if self.wants.insert((member, name(lock))) {
            self.ask(member, lock);
        }
        let note = Note { owner: format!("app-{member}"), metadata: None };
        self.command(
            member,
            Command::Service(LockCommand::Enter { lock: name(lock), note }.into()),
        );
    }

    pub(crate) fn exit(&mut self, member: usize, lock: &str) {
        // An application outlives the membership of its sidecar, and may give back even then.
        let wanted = self.wants.remove(&(member, name(lock))) || self.left.contains(&member);
        if wanted {
            self.gave_back(member, lock);
        }
        self.terms.over(&(member, name(lock)));
        self.command(member, Command::Service(LockCommand::Exit { lock: name(lock) }.into()));
    }

    /// An application that holds gives back, and another of its pod that waits takes its place.
    pub(crate) fn pass(&mut self, member: usize, lock: &str) {
        let frozen = self.sim.is_frozen(self.node(member));
        if frozen || self.left.contains(&member) || !self.wants(member, lock) {
            return;
        }
        self.gave_back(member, lock);
        self.terms.over(&(member, name(lock)));
        self.ask(member, lock);
        let note = Note { owner: format!("app-{member}"), metadata: None };
        self.command(member, Command::Service(LockCommand::Pass { lock: name(lock), note }.into()));
    }

    fn ask(&mut self, member: usize, lock: &str) {
        self.claimed += 1;
        let claim = Claim { number: self.claimed, token: None };
        self.claims.insert((member, name(lock)), claim);
        self.record_now(Operation::Asked { claim: claim.number, lock: lock.to_owned() });
    }

    fn gave_back(&mut self, member: usize, lock: &str) {
        if let Some(claim) = self.claims.get(&(member, name(lock))) {
            self.record_now(Operation::Released { claim: claim.number });
        }
    }

    /// An application writes to the store that a lock protects, with the last token that it was
    /// given: also long after it has lost the lock, if it was held up.
    pub(crate) fn write(&mut self, member: usize, lock: &str) {
        let claim = self.claims.get(&(member, name(lock)));
        let Some(token) = claim.and_then(|claim| claim.token) else { return };
        let highest = self.stores.entry(name(lock)).or_default();
        let accepted = token >= *highest;
        *highest = token.max(*highest);
        self.seen.refused += u64::from(!accepted);
        self.record_now(Operation::Stored { lock: lock.to_owned(), token: token.get(), accepted });
    }

    pub(crate) fn leave(&mut self, member: usize) {
        self.left.insert(member);
        self.wants.retain(|(index, _)| *index != member);
        self.command(member, Command::Leave);
    }

    pub(crate) fn drain(&mut self, member: usize) {
        self.command(member, Command::Drain);
    }

    pub(crate) fn resign(&mut self, member: usize, to: Option<usize>, cooldown: Duration) {
        let to = to.map(|to| self.members[to].0);
        self.command(member, Command::Resign { to, cooldown });
    }

    /// A member asks the leader of the group to give the lead to another.
    pub(crate) fn transfer(&mut self, asks: usize, to: usize) {
        let (election, to) = (hold_of(DEFAULT).expect("a name"), self.members[to].0);
        self.command(asks, Command::Service(ElectionCommand::Transfer { election, to }.into()));
    }

    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        self.longest = self.longest.longest(policy.timing);
        self.policy = policy.clone();
        for member in 0..self.members.len() {
            self.command(member, Command::Policy(Box::new(policy.clone())));
        }
    }

    pub(crate) fn command(&mut self, member: usize, command: Command) {
        self.sim.command(self.node(member), Ask::Member(command));
        self.observe();
    }

    pub(crate) fn register(&mut self, ask: Ask) {
        self.status_epoch();
        self.sim.command(Node::Register, ask);
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.sim.now() + span;
        while self.sim.step_until(end) {
            self.observe();
        }
        self.sim.run_for(end.saturating_sub(self.sim.now()));
    }

    /// Goes on until something is so. How long that took; it fails if it is not so in time.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Duration {
        let begin = self.sim.now();
        while !is_so(self) {
            let waited = self.sim.now().saturating_sub(begin);
            assert!(waited < patience, "seed {}: {what}: not within {patience:?}", self.seed);
            self.run_for(Duration::from_millis(10));
        }
        self.sim.now().saturating_sub(begin)
    }
}

/// What a member states about itself.
pub(crate) fn info(index: usize, incarnation: Incarnation) -> MemberInfo {
    MemberInfo {
        incarnation,
        name: format!("pod-{index}"),
        addresses: Vec::new(),
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 0,
        // One process in eight is of the release before.
        protocol: (
            version::FIRST,
            if incarnation.run.is_multiple_of(8) { version::FIRST } else { version::NEXT },
        ),
    }
}

pub(crate) fn name(lock: &str) -> LockName {
    LockName::try_from(lock.to_owned()).expect("a good name")
}

//! One run: a calm beginning, faults, fair weather, and the laws.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::clock;
use conclave_protocols::elections::DEFAULT;
use conclave_protocols::member::Node;
use conclave_protocols::policy::{
    Arbiter, Averaging, Caching, ClockAlgorithm, ClockPolicy, ElectionAlgorithm, ElectionPolicy,
    LockAlgorithm, LockPolicy, Policy, Preemption, SuperpeersPolicy, Timing,
};
use conclave_protocols::random::Random;
use conclave_protocols::sim::Waiting;

use super::applications::LOCKS;
use super::leads::ELECTION;
use super::pod::{Call, Limits, Number, Place};
use super::world::{State, World};

pub(super) struct Run {
    pub(super) world: World,
    pods: usize,
    pub(super) locks: usize,
    pub(super) election: Option<ElectionPolicy>,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) operations: usize,
    pub(super) simulated: Duration,
    pub(super) seen: BTreeMap<&'static str, u64>,
    /// Too little happened.
    pub(super) void: bool,
}

/// What a test does to a group.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Crash,
    End,
    Terminate,
    Drain,
    Resign,
    Transfer,
    Freeze,
    Isolate,
    Split,
    HoldBack,
    RegisterAway,
    RegisterUnsure,
    Clocks,
    Arbiter,
}

const FAULTS: [Fault; 13] = [
    Fault::Crash,
    Fault::End,
    Fault::Terminate,
    Fault::Drain,
    Fault::Freeze,
    Fault::Isolate,
    Fault::Split,
    Fault::HoldBack,
    Fault::RegisterAway,
    Fault::RegisterUnsure,
    Fault::Resign,
    Fault::Transfer,
    Fault::Clocks,
];

const BRIEF: Timing = Timing {
    leader_lease: Duration::from_millis(600),
    heartbeat: Duration::from_millis(120),
    member_lease: Duration::from_secs(3),
    api_outage: Duration::from_secs(5),
};

impl Run {
    /// Everything, from beginning to end. It panics if a promise is broken.
    pub(super) fn all(seed: u64, trace: bool) -> Outcome {
        let mut random = Random::new(seed ^ 0x51de_ca45);
        let mut up_to = |limit: u64| usize::try_from(random.up_to(limit)).expect("small");
        let timing = [Timing::default(), Timing::FAST, BRIEF, BRIEF][up_to(4)];
        let place = usize::try_from(seed % LockAlgorithm::ALL.len() as u64).expect("small");
        let algorithm = LockAlgorithm::ALL[place];
        let cached = algorithm.may_cache() && seed.is_multiple_of(2);
        let caching = if cached { Caching::Enabled } else { Caching::Disabled };
        let locks = vec![LockPolicy { algorithm, caching, ..LockPolicy::default() }];
        let superpeers = SuperpeersPolicy { share_percent: 50 };
        let (clock, election) = (clock_policy(seed), election(seed));
        let elections = election.iter().cloned().collect();
        let policy = Policy { timing, locks, superpeers, clock, elections, ..Policy::default() };
        let (pods, locks) = (1 + up_to(5), 1 + up_to(LOCKS.len() as u64));
        let kinds: Vec<Fault> =
            (0..=up_to(4)).map(|_| FAULTS[up_to(FAULTS.len() as u64)]).collect();
        let kinds = if switches(seed) { [kinds, vec![Fault::Arbiter]].concat() } else { kinds };
        let faults: Vec<Fault> =
            (0..6 + up_to(12)).map(|_| kinds[up_to(kinds.len() as u64)]).collect();
        let mut run = Self { world: World::new(seed, policy, trace), pods, locks, election };
        run.begin();
        let calm = run.held();
        for fault in faults {
            run.fault(fault, trace);
        }
        if run.world.policy.arbiter == Arbiter::None {
            let living = run.world.living();
            run.switch_arbiter(&living);
        }
        run.heal();
        run.replace();
        run.live(timing.leader_lease * 4);
        let storm = run.held();
        run.end();
        run.world.check();
        let grew = run.world.views > pods as u64;
        Outcome {
            operations: run.world.history.len(),
            simulated: run.world.sim.now(),
            void: calm < 3 || storm == calm || !grew,
            seen: run.world.seen,
        }
    }

    fn held(&self) -> u64 {
        self.world.seen.get("held").copied().unwrap_or(0)
    }

    fn begin(&mut self) {
        for _ in 0..self.pods {
            self.world.join();
        }
        self.all_belong();
        let timing = self.world.policy.timing;
        let end = self.world.sim.now() + timing.member_lease * 8;
        while self.held() < 4 && self.world.sim.now() < end {
            self.live(timing.leader_lease);
        }
    }

    fn fault(&mut self, fault: Fault, trace: bool) {
        if trace {
            println!("{:?} {fault:?}", self.world.sim.now());
        }
        self.replace();
        let living = self.world.living();
        let one = living[self.world.any(living.len())];
        let timing = self.world.policy.timing;
        match fault {
            Fault::Crash => {
                self.world.count("crash");
                self.world.crash(one);
            }
            Fault::End => {
                self.world.count("end");
                self.world.end(one);
            }
            Fault::Terminate => {
                self.world.count("terminate");
                self.world.terminate(one);
            }
            Fault::Drain => self.world.call(one, Call::Drain),
            Fault::Resign => self.resign(&living),
            Fault::Transfer => {
                let to = living[self.world.any(living.len())];
                self.world.call(one, Call::Transfer(DEFAULT, format!("pod-{to}")));
            }
            Fault::Freeze => self.freeze(one),
            Fault::Isolate => {
                self.world.count("isolate");
                let all = (0..self.world.pods.len()).map(|pod| self.world.pods[pod].0);
                let all: Vec<Node> = all.chain([Node::Register]).collect();
                self.cut(&[self.world.pods[one].0], &all);
            }
            Fault::Split => {
                self.world.count("split");
                let (side, rest): (Vec<usize>, Vec<usize>) =
                    living.iter().partition(|_| self.world.sim.random().once_in(2));
                let nodes = |pods: &[usize]| -> Vec<Node> {
                    pods.iter().map(|pod| self.world.pods[*pod].0).collect()
                };
                let (side, rest) = (nodes(&side), nodes(&rest));
                self.cut(&side, &rest);
            }
            Fault::HoldBack => {
                self.world.count("hold back");
                let me = self.world.pods[one].0;
                for (other, _) in self.world.pods.clone() {
                    self.world.sim.hold_back(me, other);
                }
            }
            Fault::Clocks => self.keep_otherwise(&living),
            Fault::Arbiter => {
                self.world.count("arbiter");
                self.switch_arbiter(&living);
            }
            Fault::RegisterAway => {
                self.world.count("register away");
                let all: Vec<Node> = self.world.pods.iter().map(|(node, _)| *node).collect();
                self.cut(&[Node::Register], &all);
            }
            Fault::RegisterUnsure => {
                let unsure = 1 + self.world.sim.random().up_to(4);
                let before = self.world.register().unanswered;
                self.world.sim.command(Node::Register, Call::Unsure(unsure));
                self.live(timing.api_outage / 4);
                if self.world.register().unanswered > before {
                    self.world.count("register unsure");
                }
            }
        }
        let span = self.world.sim.random().below(timing.leader_lease * 8);
        self.live(span);
        if self.world.sim.random().once_in(2) {
            self.heal();
            self.live(span);
        }
    }

    /// The resource states another way to keep the clocks, and may have the election no longer, or again.
    fn keep_otherwise(&mut self, living: &[usize]) {
        self.world.count("clocks");
        let draw = self.world.sim.random().draw();
        self.world.policy.clock = clock_policy(draw);
        if draw.is_multiple_of(2) {
            let missing = self.election.iter().filter(|_| self.world.policy.elections.is_empty());
            self.world.policy.elections = missing.cloned().collect();
        }
        self.world.policy.generation += 1;
        self.show_policy(living);
    }

    /// The resource states the other arbiter; one pod in four hears of that later.
    fn switch_arbiter(&mut self, living: &[usize]) {
        self.world.had_no_arbiter = true;
        self.world.policy.generation += 1;
        self.world.policy.arbiter = match self.world.policy.arbiter {
            Arbiter::Quorum => Arbiter::None,
            Arbiter::None => Arbiter::Quorum,
        };
        for pod in living {
            if !self.world.sim.random().once_in(4) {
                self.show_policy(&[*pod]);
            }
        }
    }

    /// The resource has the election, if it ever had.
    pub(super) fn list_election(&mut self, living: &[usize]) {
        self.world.policy.elections = self.election.iter().cloned().collect();
        self.world.policy.generation += 1;
        self.show_policy(living);
    }

    /// These hear of the policy that the resource has by now.
    fn show_policy(&mut self, pods: &[usize]) {
        for pod in pods {
            let policy = Box::new(self.world.policy.clone());
            self.world.call(*pod, Call::Policy(policy));
        }
    }

    /// The leader's application has stopped, or did before another began to lead.
    fn resign(&mut self, living: &[usize]) {
        let leads = |pod: &&usize| self.world.pod(**pod).is_some_and(super::pod::Pod::leads);
        let leader = living.iter().find(leads).copied().unwrap_or(living[0]);
        let to = living[self.world.any(living.len())];
        let to = self.world.sim.random().once_in(2).then(|| format!("pod-{to}"));
        let longest = self.world.policy.timing.leader_lease * 20;
        let cooldown = self.world.sim.random().below(longest);
        self.world.call(leader, Call::Resign(DEFAULT, to, cooldown));
    }

    fn freeze(&mut self, pod: usize) {
        self.world.count("freeze");
        let timing = self.world.policy.timing;
        let longest = [timing.leader_lease, timing.member_lease * 3 / 2][self.world.any(2)];
        let span = self.world.sim.random().below(longest);
        let node = self.world.pods[pod].0;
        self.world.sim.freeze(node);
        self.live(span);
        let salt = self.world.sim.random().draw();
        self.world.sim.thaw_in_order(node, |waiting| place(salt, waiting));
        self.world.run_for(Duration::ZERO);
    }

    fn cut(&mut self, side: &[Node], other: &[Node]) {
        for one in side {
            for other in other {
                self.world.sim.cut(*one, *other);
                self.world.sim.cut(*other, *one);
            }
        }
    }

    /// Other pods come for those that are gone.
    fn replace(&mut self) {
        while self.world.living().len() < self.pods {
            self.world.join();
        }
    }

    fn heal(&mut self) {
        self.world.sim.heal();
        self.world.sim.command(Node::Register, Call::Unsure(0));
        if self.world.had_no_arbiter {
            let living = self.world.living();
            self.show_policy(&living);
        }
        self.world.run_for(Duration::ZERO);
    }

    /// All pods that live are in the latest view, and go by the arbiter that the resource states.
    pub(super) fn all_belong(&mut self) {
        let timing = self.world.policy.timing;
        let longest = timing.api_outage * 2 + timing.leader_lease * 20 + timing.member_lease * 4;
        self.wait("all belong", longest, |world| {
            let epoch = world.epoch();
            world.living().into_iter().all(|index| {
                let member = world.pod(index).map(super::pod::Pod::member);
                let record = member.and_then(|member| member.record());
                let me = member.map(|member| member.me());
                let arbiter = member.map(|member| member.arbiter());
                record.is_some_and(|record| {
                    arbiter == Some(world.policy.arbiter)
                        && record.epoch == epoch
                        && me.is_some_and(|me| record.rank(me).is_some())
                })
            })
        });
    }

    /// An application on each of them reads group time.
    fn all_have_the_time(&mut self) {
        let patience = self.world.policy.timing.leader_lease * 20;
        self.wait("group time", patience, |world| {
            let read = |index: usize| world.reading(index).map(|reading| reading.state);
            let has_it = |index| read(index) == Some(clock::State::Synchronised);
            world.living().into_iter().all(has_it)
        });
    }

    fn wait(&mut self, what: &str, patience: Duration, is_so: impl Fn(&World) -> bool) {
        let end = self.world.sim.now() + patience;
        while !is_so(&self.world) {
            let seed = self.world.seed;
            assert!(self.world.sim.now() < end, "seed {seed}: {what}: not within {patience:?}");
            self.world.run_for(Duration::from_millis(10));
        }
    }

    /// Nothing is wrong any more: every pod gets every lock.
    fn end(&mut self) {
        self.all_belong();
        self.all_have_the_time();
        let open: Vec<Number> = self
            .world
            .claims
            .iter()
            .filter(|(_, claim)| matches!(claim.state, State::Waiting | State::Held))
            .map(|(number, _)| *number)
            .collect();
        for number in open {
            self.world.release(number);
        }
        let timing = self.world.policy.timing;
        // Claims whose callers hung up hold as long as they may.
        let longest = timing.member_lease * 10 + timing.leader_lease * 10;
        let forever = Limits { wait: None, max_hold: Duration::from_secs(600) };
        for lock in &LOCKS[..self.locks] {
            let living = self.world.living();
            let asked: Vec<Number> =
                living.iter().map(|pod| self.world.ask(*pod, lock, true, forever, None)).collect();
            for _ in &asked {
                let holds = |world: &World| {
                    let holds = |number: &Number| {
                        let claim = &world.claims[number];
                        claim.state == State::Held && !claim.is_advisory
                    };
                    asked.iter().copied().find(holds)
                };
                self.wait(lock, longest, |world| holds(world).is_some());
                let holder = holds(&self.world).expect("just seen");
                self.world.write(holder);
                self.world.release(holder);
            }
        }
        if self.election.is_some() {
            self.somebody_leads(longest);
        }
    }
}

/// What waited for a process that stood still comes in any order, but for what has the same source.
fn place(salt: u64, waiting: &Waiting<'_, Place>) -> u64 {
    let source = match waiting {
        Waiting::Command(_) => 1,
        Waiting::Timer(_) => 2,
        Waiting::Message(Node::Register, _) => 3,
        Waiting::Message(Node::Member(from), _) => from.run,
    };
    Random::new(salt ^ source).draw()
}

/// Whether the arbiter is taken away and given again in the run of that seed.
fn switches(seed: u64) -> bool {
    seed / 8 % 8 == 5
}

/// Two groups of five have an election with a name, and in one of these a higher priority takes over.
fn election(seed: u64) -> Option<ElectionPolicy> {
    let place = usize::try_from(seed / 5 % ElectionAlgorithm::ALL.len() as u64).expect("small");
    let preemption = if seed % 5 == 2 { Preemption::Never } else { Preemption::Graceful };
    let policy = ElectionPolicy::new(ELECTION, ElectionAlgorithm::ALL[place]);
    matches!(seed % 5, 2 | 3).then_some(ElectionPolicy { preemption, ..policy })
}

/// One of the ways to keep clocks.
fn clock_policy(seed: u64) -> ClockPolicy {
    let place = |number: u64| usize::try_from(number % 3).expect("small");
    let (algorithm, averaging) =
        (ClockAlgorithm::ALL[place(seed)], Averaging::ALL[place(seed / 3)]);
    ClockPolicy { algorithm, averaging, ..ClockPolicy::default() }
}

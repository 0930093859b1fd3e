//! A group of real sidecars, each in a thread and in a network namespace of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use conclave_crds::AuthorityStatus;
use conclave_pods::PeerId;
use conclave_protocols::detection::Stated;
use conclave_protocols::election::Place;
use conclave_protocols::member::StatusEpoch;
use conclave_protocols::policy::{ElectionAlgorithm, Policy, Timing, Topology};
use conclave_protocols::{Epoch, MemberId, PodUid, View};
use conclave_sidecar::application::Application;
use conclave_sidecar::descriptors;
use conclave_sidecar::group::{Election, Group as Handle};
use conclave_sidecar::http::Listeners;
use conclave_sidecar::identity::{Issuer, LocalAuthority, Renewal};
use conclave_sidecar::lease::{Leases, MemoryLeases};
use conclave_sidecar::metrics::Metrics;
use conclave_sidecar::os_clock::OsClock;
use conclave_sidecar::register::{MemoryRegister, Register, Sight};
use conclave_sidecar::sidecar::{Membership, Sidecar, Sockets};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::network::{Entrance, Network, Pair, pair, peer};

/// Three zones of nine.
pub(crate) const SIZE: usize = 27;

const ZONES: [&str; 3] = ["a", "b", "c"];

/// Each of which starts when the one before is a member, so these have the highest ranks.
const SENIORS: usize = 5;

/// Waits that a busy machine does not make too short.
const TIMING: Timing = Timing {
    leader_lease: Duration::from_millis(7_500),
    heartbeat: Duration::from_millis(1_500),
    member_lease: Duration::from_secs(10),
    api_outage: Duration::from_secs(120),
};

/// For whatever is waited for.
const DEADLINE: Duration = Duration::from_secs(90);

pub(crate) fn policy() -> Policy {
    Policy {
        election: ElectionAlgorithm::SpanningTree,
        topology: Topology::Zones,
        timing: TIMING,
        ..Policy::default()
    }
}

fn zone(member: usize) -> &'static str {
    ZONES[member % ZONES.len()]
}

/// The seniors but the first have the greatest ones; that of the fourth is greater than that of the third, which has the
/// higher rank.
fn capacity(member: usize) -> u32 {
    let number = u32::try_from(member).expect("few");
    match member {
        1 => 99,
        2 => 97,
        3 => 98,
        4 => 96,
        _ => number % 7,
    }
}

pub(crate) struct Group {
    network: Network,
    members: Vec<Option<Member>>,
    shared: Shared,
    runtime: Runtime,
}

/// What members have in common besides the network.
#[derive(Clone)]
struct Shared {
    policy: Policy,
    register: MemoryRegister,
    leases: MemoryLeases,
    authority: Arc<LocalAuthority>,
}

struct Member {
    handle: Handle,
    metrics: Metrics,
    kill: CancellationToken,
    thread: JoinHandle<()>,
}

impl Group {
    /// All of them, in one view. `stands`: in which elections a member does.
    pub(crate) fn start(policy: Policy, stands: impl Fn(usize) -> Vec<String>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (_, uncut) = watch::channel(false);
        let register = runtime.block_on(async { MemoryRegister::start(uncut.clone()) });
        let leases = MemoryLeases::new(uncut);
        let authority = Arc::new(LocalAuthority::new().expect("an authority"));
        let shared = Shared { policy, register, leases, authority };
        descriptors::allow_enough();
        let network = Network::of(SIZE);
        let members = (0..SIZE).map(|_| None).collect();
        let mut group = Self { network, members, shared, runtime };
        for member in 0..SIZE {
            group.begin(member, stands(member));
            if member < SENIORS {
                group.wait_until_all_are_in();
            }
        }
        group.wait_until_all_are_in();
        group
    }

    /// Begins the life of a member that does not live.
    pub(crate) fn begin(&mut self, number: usize, elections: Vec<String>) {
        let (ready, is_ready) = oneshot::channel();
        let kill = CancellationToken::new();
        let (entrance, killed) = (self.network.entrance(number), kill.clone());
        let born = Born { number, elections, shared: self.shared.clone() };
        let thread = thread::spawn(move || born.live(entrance, &killed, ready));
        let (handle, metrics) = is_ready.blocking_recv().expect("it serves");
        self.members[number] = Some(Member { handle, metrics, kill, thread });
    }

    /// Ends a member at once: it hands nothing over.
    pub(crate) fn kill(&mut self, member: usize) {
        let member = self.members[member].take().expect("it lives");
        member.kill.cancel();
        member.thread.join().expect("its end");
    }

    /// The application of a member stands no longer.
    pub(crate) fn withdraw(&self, member: usize, election: &str) {
        let member = self.members[member].as_ref().expect("it lives");
        self.runtime.block_on(member.handle.withdraw(election)).expect("it stood");
    }

    fn living(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    /// Whom each that lives knows to lead the group, or in a named election.
    fn followed(&self, election: Option<&str>) -> Vec<Option<usize>> {
        self.living().map(|member| member.follows(election)).collect()
    }

    /// Who leads the group, or in a named election, if all that live follow it.
    fn leader(&self, election: Option<&str>) -> Option<usize> {
        let followed: BTreeSet<Option<usize>> = self.followed(election).into_iter().collect();
        followed.first().copied().flatten().filter(|_| followed.len() == 1)
    }

    /// Waits until all that live follow this one, in the group or in a named election.
    pub(crate) fn wait_until_all_follow(&self, leader: usize, election: Option<&str>) {
        let all = || self.followed(election).into_iter().all(|one| one == Some(leader));
        wait_until(all, || {
            format!("{leader} is not followed by all: {:?}", self.followed(election))
        });
    }

    /// Waits until all that live follow one that is not this one. Returns which.
    pub(crate) fn wait_until_all_follow_another(&self, than: usize, election: &str) -> usize {
        let other = || self.leader(Some(election)).filter(|leader| *leader != than);
        let followed = || self.followed(Some(election));
        wait_for(other, || format!("not all follow another than {than}: {:?}", followed()))
    }

    /// Waits until all that live know that so many stand in a named election.
    pub(crate) fn wait_until_so_many_stand(&self, many: usize, election: &str) {
        let named = || self.living().filter_map(|one| one.election(Some(election)));
        let known = || named().map(|election| election.candidates as usize).collect::<Vec<_>>();
        let all = || known().into_iter().all(|candidates| candidates == many);
        wait_until(all, || format!("not {many} stand: {:?}", known()));
    }

    /// How many messages all that live sent in the last ballot.
    pub(crate) fn sent_in(&self, election: &str) -> u64 {
        let last = self.living().filter_map(|one| one.election(Some(election))?.last);
        last.map(|ballot| ballot.messages).sum()
    }

    /// Waits until all that live are in one view, with nobody else.
    pub(crate) fn wait_until_all_are_in(&self) {
        let size = self.living().count();
        let views = || self.living().map(|one| one.handle.status().borrow().members.len());
        let all = || self.leader(None).is_some() && views().all(|members| members == size);
        wait_until(all, || format!("not all are in one view: {:?}", views().collect::<Vec<_>>()));
    }

    /// How many links of all that live gateways have passed on.
    pub(crate) fn relayed(&self) -> u64 {
        let scraped = self.living().map(|one| one.metrics.scrape(&one.handle));
        scraped.filter_map(|text| counted(&text, "conclave_peer_relayed_sessions_total")).sum()
    }

    /// By rank.
    fn ranked(&self) -> Vec<usize> {
        let status = self.living().next().expect("one lives").handle.status();
        let members = status.borrow().members.clone();
        let mut members: Vec<(u32, usize)> =
            members.iter().map(|one| (one.rank, number(&one.pod))).collect();
        members.sort_unstable();
        members.into_iter().map(|(_, number)| number).collect()
    }

    /// The pairs of neighbours among all members, when the leader is nominated that follows this one.
    pub(crate) fn links(&self, leader: usize) -> BTreeSet<Pair> {
        links(&self.ranked(), Some(leader))
    }

    /// The same among candidates, which are all but this one.
    pub(crate) fn links_of_candidates(&self, but: usize) -> BTreeSet<Pair> {
        let candidates: Vec<usize> = self.ranked().into_iter().filter(|one| *one != but).collect();
        links(&candidates, None)
    }

    /// Cuts all other pairs, which are most, and sees that they are cut.
    pub(crate) fn leave_only(&self, kept: &BTreeSet<Pair>) {
        let all = (0..SIZE).flat_map(|one| (one + 1..SIZE).map(move |other| (one, other)));
        let cut: Vec<Pair> = all.filter(|pair| !kept.contains(pair)).collect();
        assert!(cut.len() > kept.len(), "{} pairs are cut, {} left", cut.len(), kept.len());
        Network::leave_only(kept);
        for ((one, other), reaches) in [(cut[0], false), (*kept.first().expect("some"), true)] {
            for (from, to) in [(one, other), (other, one)] {
                assert_eq!(self.network.reaches(from, to), reaches, "{from} to {to}");
            }
        }
    }
}

/// What a counter without labels of its own has come to.
fn counted(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn wait_until(is_so: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    wait_for(|| is_so().then_some(()), otherwise);
}

/// Looks again and again until there is one.
fn wait_for<T>(look: impl Fn() -> Option<T>, otherwise: impl Fn() -> String) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "after {DEADLINE:?}: {}", otherwise());
        thread::sleep(Duration::from_millis(50));
    }
}

fn links(ranked: &[usize], leader: Option<usize>) -> BTreeSet<Pair> {
    let rank = |place: usize| MemberId(u32::try_from(place).expect("few"));
    let leader = leader.and_then(|leader| ranked.iter().position(|one| *one == leader)).map(rank);
    let size = u32::try_from(ranked.len()).expect("few");
    let view = View { epoch: Epoch(1), size, leader: leader.unwrap_or(MemberId(0)) };
    let mut links = BTreeSet::new();
    for (place, member) in ranked.iter().enumerate() {
        let zones = ranked.iter().map(|one| Some(zone(*one)));
        let place = Place::new(rank(place), view).in_topology(Topology::Zones, zones, leader);
        links.extend(place.neighbours.iter().map(|one| pair(*member, ranked[one.0 as usize])));
    }
    links
}

impl Member {
    /// What it knows of a named election, or of the group's.
    fn election(&self, name: Option<&str>) -> Option<Election> {
        let election = match name {
            None => self.handle.election(),
            Some(name) => self.handle.named_elections().borrow().get(name)?.clone(),
        };
        Some(election.borrow().clone())
    }

    /// Whom it knows to lead in it.
    fn follows(&self, election: Option<&str>) -> Option<usize> {
        let now = OsClock::default().now();
        self.election(election)?.leader_at(now).map(|leader| number(&leader.pod))
    }
}

/// What a member's thread begins with.
struct Born {
    number: usize,
    elections: Vec<String>,
    shared: Shared,
}

impl Born {
    fn live(
        self,
        entrance: Entrance,
        killed: &CancellationToken,
        ready: oneshot::Sender<(Handle, Metrics)>,
    ) {
        entrance.enter();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // What is left of a life is dropped with its runtime.
        runtime.block_on(killed.run_until_cancelled(self.run(ready)));
    }

    async fn run(self, ready: oneshot::Sender<(Handle, Metrics)>) {
        let pod = name(self.number);
        let listen = |port| Listeners::on_loopback(port).expect("a free port");
        let (api, admin) = (listen(7070), listen(7072));
        let peers = vec![peer(self.number)];
        let sockets = Sockets { api, peers: peers.clone(), admin, leader_elector: None };
        let metrics = Metrics::new(GROUP_NAME);
        let renewal = self.renewal(metrics.clone());
        let mut held = renewal.held();
        tokio::spawn(renewal.run());
        let clock = OsClock::default();
        let mut sidecar = Sidecar::serve(GROUP_NAME, &pod, sockets, clock, metrics.clone());
        assert!(ready.send((sidecar.group(), metrics)).is_ok(), "it is waited for");
        held.wait_for(Option::is_some).await.expect("a certificate");
        let (_still, sight) = watch::channel(Sight::default());
        let (_known, endpoints) = watch::channel(None);
        let (_alive, dead) = mpsc::channel(1);
        let (_well, application) = watch::channel(Application::default());
        let Shared { policy, register, leases, .. } = self.shared;
        let (_same, policies) = watch::channel(Some(policy.clone()));
        let (_open, uncut) = watch::channel(false);
        let membership = Membership {
            group: GROUP,
            pod: uid(self.number),
            name: pod,
            addresses: peers,
            priority: 0,
            capacity: capacity(self.number),
            zone: Some(zone(self.number).to_owned()),
            elections: self.elections,
            held,
            policy,
            status: watch::channel(StatusEpoch::default()).1,
            register: Register::Memory(register.by(uncut.clone())),
            leases: Leases::Memory(leases.by(uncut)),
            policies,
            detection: watch::channel(Stated::default()).1,
            endpoints,
            sight,
            dead,
            application,
            termination_message: None,
        };
        sidecar.live(membership, CancellationToken::new()).await.expect("a free port");
    }

    fn renewal(&self, metrics: Metrics) -> Renewal {
        let (authority, pod) = (Arc::clone(&self.shared.authority), uid(self.number));
        let (namespace, service_account) = ("tests".to_owned(), "tests".to_owned());
        let id = PeerId { namespace, service_account, group: GROUP, pod };
        let bundle = authority.bundle();
        let (_, sent) = watch::channel(Some(AuthorityStatus { address: String::new(), bundle }));
        Renewal::new(Issuer::Local(authority, id), GROUP, pod, sent, metrics)
    }
}

const GROUP_NAME: &str = "orders";

const GROUP: PodUid = PodUid(1);

fn uid(member: usize) -> PodUid {
    PodUid(100 + member as u128)
}

fn name(member: usize) -> String {
    format!("{GROUP_NAME}-{member}")
}

fn number(pod: &str) -> usize {
    pod.rsplit('-').next().and_then(|number| number.parse().ok()).expect("the number of a member")
}

//! The members of a group in one process, and what can be done to them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context;
use conclave_crds::AuthorityStatus;
use conclave_pods::PeerId;
use conclave_pods::health::HealthCheck;
use conclave_protocols::PodUid;
use conclave_protocols::member::StatusEpoch;
use conclave_protocols::policy::Policy;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::chronicle::Chronicle;
use super::elections::Elections;
use super::watch::{Journal, Listener};
use super::{ADMIN, PEERS, Settings, clock_fault};
use crate::application::{Application, look_after};
use crate::discovery::Endpoint;
use crate::group::Group;
use crate::group::task::Sent;
use crate::http::Listeners;
use crate::identity::{Issuer, LocalAuthority, Renewal};
use crate::lease::{Leases, MemoryLeases};
use crate::links::Cuts;
use crate::metrics::Metrics;
use crate::one_thread;
use crate::os_clock::{ClockFault, OsClock};
use crate::register::{MemoryRegister, Register, Sight};
use crate::sidecar::{Membership, Sidecar, Sockets, Strings};

/// All members, by their number.
pub(super) struct Members {
    settings: Settings,
    register: MemoryRegister,
    leases: MemoryLeases,
    register_cut: watch::Sender<bool>,
    authority: Arc<LocalAuthority>,
    policy: watch::Sender<Option<Policy>>,
    each: Mutex<Vec<DevMember>>,
    changed: watch::Sender<u64>,
    pub(super) journal: Arc<Journal>,
    pub(super) chronicle: Arc<Chronicle>,
    pub(super) elections: Arc<Elections>,
}

/// One member: its thread, and the strings that it hangs on.
struct DevMember {
    life: Option<Life>,
    /// The thread of a life that was asked to end: it may have the ports still.
    ending: Option<JoinHandle<()>>,
    cut: watch::Sender<bool>,
    /// On which side of a partition it is.
    split_off: bool,
    /// The members on the other side.
    apart: watch::Sender<BTreeSet<PodUid>>,
    fault: ClockFault,
}

/// A running member.
struct Life {
    thread: JoinHandle<()>,
    /// Leaves in order.
    end: CancellationToken,
    /// Ends at once.
    kill: CancellationToken,
    pause: Arc<Pause>,
    group: Group,
}

/// Holds a member's thread up, as SIGSTOP holds a process up.
#[derive(Default)]
struct Pause {
    paused: Mutex<bool>,
    changed: Condvar,
    called: Notify,
}

impl Pause {
    fn set(&self, paused: bool) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = paused;
        self.changed.notify_all();
        self.called.notify_one();
    }

    fn is_set(&self) -> bool {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks the thread whenever the member is paused, for as long as it is.
    async fn hold_up(&self) {
        loop {
            self.called.notified().await;
            self.wait();
        }
    }

    fn wait(&self) {
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(paused, |paused| *paused);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// How a member stands, seen from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Outside {
    pub(super) alive: bool,
    pub(super) paused: bool,
    pub(super) cut: bool,
    pub(super) split_off: bool,
}

impl Members {
    /// Starts all of them.
    pub(super) async fn start(settings: Settings) -> anyhow::Result<Self> {
        let (register_cut, cut) = watch::channel(false);
        let leases = MemoryLeases::new(cut.clone());
        let register = MemoryRegister::start(cut);
        let authority = LocalAuthority::new().context("make an authority")?;
        let count = settings.members;
        let members = Self {
            authority: Arc::new(authority),
            policy: watch::Sender::new(Some(settings.policy.clone())),
            register,
            leases,
            register_cut,
            each: Mutex::new((0..count).map(DevMember::new).collect()),
            changed: watch::Sender::new(0),
            journal: Arc::new(Journal::default()),
            chronicle: Arc::new(Chronicle::default()),
            elections: Arc::new(Elections::default()),
            settings,
        };
        for number in 0..count {
            members.revive(number).await?;
        }
        Ok(members)
    }

    pub(super) fn count(&self) -> u16 {
        self.settings.members
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn each(&self) -> MutexGuard<'_, Vec<DevMember>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, number: u16, act: impl FnOnce(&mut DevMember) -> T) -> Option<T> {
        self.each().get_mut(usize::from(number)).map(act)
    }

    /// How a member stands; nothing if there is none of that number.
    pub(super) fn outside(&self, number: u16) -> Option<Outside> {
        self.with(number, |member| Outside {
            alive: member.life.is_some(),
            paused: member.life.as_ref().is_some_and(|life| life.pause.is_set()),
            cut: *member.cut.borrow(),
            split_off: member.split_off,
        })
    }

    /// What is wrong with a member's clock.
    pub(super) fn fault(&self, number: u16) -> Option<ClockFault> {
        self.with(number, |member| member.fault)
    }

    /// Says when something was done to a member or to the register.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn has_changed(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// The handle to a member's group, while it lives.
    pub(super) fn group(&self, number: u16) -> Option<Group> {
        self.with(number, |member| member.life.as_ref().map(|life| life.group.clone()))?
    }

    /// Ends a member at once: it neither hands over nor leaves in order.
    pub(super) fn kill(&self, number: u16) {
        self.let_go(number, |life| life.kill.cancel());
    }

    /// Lets a member leave in order.
    pub(super) fn leave(&self, number: u16) {
        self.let_go(number, |life| life.end.cancel());
    }

    fn let_go(&self, number: u16, how: impl FnOnce(&Life)) {
        self.with(number, |member| {
            if let Some(life) = member.life.take() {
                how(&life);
                life.pause.set(false);
                member.ending = Some(life.thread);
            }
        });
        self.has_changed();
    }

    /// Holds a member up, or lets it go on.
    pub(super) fn pause(&self, number: u16, paused: bool) {
        self.with(number, |member| {
            if let Some(life) = &member.life {
                life.pause.set(paused);
            }
        });
        self.has_changed();
    }

    /// Cuts a member off from the others and from the register, or joins it again.
    pub(super) fn cut(&self, number: u16, cut: bool) {
        self.with(number, |member| member.cut.send_replace(cut));
        self.has_changed();
    }

    /// Puts a member on the one side of a partition or on the other. Nothing goes between the two; either
    /// reaches the register.
    pub(super) fn split(&self, number: u16, off: bool) {
        let mut each = self.each();
        if let Some(member) = each.get_mut(usize::from(number)) {
            member.split_off = off;
        }
        let sides: Vec<bool> = each.iter().map(|member| member.split_off).collect();
        for member in each.iter() {
            let others = (0..).zip(&sides).filter(|(_, side)| **side != member.split_off);
            member.apart.send_replace(others.map(|(number, _)| pod_uid(number)).collect());
        }
        drop(each);
        self.has_changed();
    }

    /// Cuts everybody off from the register, or joins it again.
    pub(super) fn cut_register(&self, cut: bool) {
        self.register_cut.send_replace(cut);
        self.has_changed();
    }

    pub(super) fn register_is_cut(&self) -> bool {
        *self.register_cut.borrow()
    }

    /// Starts a member that does not live: a new process of the same pod.
    pub(super) async fn revive(&self, number: u16) -> anyhow::Result<()> {
        let Some((false, cut, apart, fault)) = self
            .with(number, |m| (m.life.is_some(), m.cut.subscribe(), m.apart.subscribe(), m.fault))
        else {
            return Ok(());
        };
        if let Some(ending) = self.with(number, |member| member.ending.take()).flatten() {
            wait_for(vec![ending]).await;
        }
        let (ready, is_ready) = oneshot::channel();
        let born = Born {
            number,
            settings: self.settings.clone(),
            register: self.register.clone(),
            leases: self.leases.clone(),
            authority: Arc::clone(&self.authority),
            cut,
            apart,
            policies: self.policy.subscribe(),
            clock: OsClock::with_fault(fault),
            journal: Arc::clone(&self.journal),
            chronicle: Arc::clone(&self.chronicle),
            elections: Arc::clone(&self.elections),
            end: CancellationToken::new(),
            kill: CancellationToken::new(),
            pause: Arc::new(Pause::default()),
        };
        let (end, kill, pause) = (born.end.clone(), born.kill.clone(), Arc::clone(&born.pause));
        let thread = std::thread::Builder::new()
            .name(format!("member-{number}"))
            .spawn(move || born.live(ready))
            .context("start a thread")?;
        let group = is_ready.await.context("the member ended at once")??;
        self.with(number, |member| {
            member.life = Some(Life { thread, end, kill, pause, group });
        });
        self.has_changed();
        Ok(())
    }

    /// Lets all leave, the last first.
    pub(super) async fn end(&self) {
        let numbers = (0..self.count()).rev();
        numbers.for_each(|number| self.leave(number));
        let threads = self.each().iter_mut().filter_map(|member| member.ending.take()).collect();
        wait_for(threads).await;
    }
}

/// Waits until threads have ended. One that panicked has reported it.
async fn wait_for(threads: Vec<JoinHandle<()>>) {
    let joined = tokio::task::spawn_blocking(move || {
        threads.into_iter().filter_map(|thread| thread.join().err()).count()
    });
    let _ = joined.await;
}

impl DevMember {
    /// A member that does not live yet.
    fn new(number: u16) -> Self {
        Self {
            life: None,
            ending: None,
            cut: watch::Sender::new(false),
            split_off: false,
            apart: watch::Sender::new(BTreeSet::new()),
            fault: clock_fault(number),
        }
    }
}

/// What a member's thread begins with.
struct Born {
    number: u16,
    settings: Settings,
    register: MemoryRegister,
    leases: MemoryLeases,
    authority: Arc<LocalAuthority>,
    cut: watch::Receiver<bool>,
    apart: watch::Receiver<BTreeSet<PodUid>>,
    policies: watch::Receiver<Option<Policy>>,
    clock: OsClock,
    journal: Arc<Journal>,
    chronicle: Arc<Chronicle>,
    elections: Arc<Elections>,
    end: CancellationToken,
    kill: CancellationToken,
    pause: Arc<Pause>,
}

impl Born {
    fn live(self, ready: oneshot::Sender<anyhow::Result<Group>>) {
        let (kill, number) = (self.kill.clone(), self.number);
        let (chronicle, elections) = (Arc::clone(&self.chronicle), Arc::clone(&self.elections));
        elections.lives(number);
        // A killed member stops wherever it is: its runtime is dropped with all it holds.
        let life = async move { kill.run_until_cancelled(self.run(ready)).await };
        if let Err(error) = one_thread::live(life) {
            tracing::error!(%error, member = number, "the member did not live to its end");
        }
        let now = OsClock::default().now();
        chronicle.died(now, number);
        elections.died(now, number);
    }

    async fn run(self, ready: oneshot::Sender<anyhow::Result<Group>>) {
        let page = || self.settings.clock_page(self.number, self.clock);
        let (sockets, page) = match self.bind().and_then(|sockets| Ok((sockets, page()?))) {
            Ok(both) => both,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let pause = Arc::clone(&self.pause);
        tokio::spawn(async move { pause.hold_up().await });
        let pod = format!("{}-{}", self.settings.group, self.number);
        let metrics = Metrics::new(&self.settings.group);
        let renewal = self.renewal(metrics.clone());
        let (application, known) = watch::channel(Application::default());
        let health = self.health();
        let looking = look_after(health, application, metrics.clone());
        let _looking = AbortOnDropHandle::new(tokio::spawn(looking));
        let mut sidecar = Sidecar::serve(&self.settings.group, &pod, sockets, self.clock, metrics);
        sidecar.keep_page(page);
        let _ = ready.send(Ok(sidecar.group()));
        let sent = self.settings.observed.then(|| self.observe());
        // Nobody but the members writes to this register, and all pods are known from the start.
        let (_still, sight) = watch::channel(Sight::default());
        let (_known, endpoints) = watch::channel(Some(self.endpoints()));
        let (_alive, dead) = mpsc::channel(1);
        let (mut held, missing) = (renewal.held(), renewal.missing());
        let _renewing = AbortOnDropHandle::new(tokio::spawn(renewal.run()));
        let certified = async { held.wait_for(Option::is_some).await.is_ok() };
        let certified = self.end.run_until_cancelled(certified);
        sidecar.turn_away_until_found(certified, missing).await;
        let membership = Membership {
            group: GROUP,
            pod: pod_uid(self.number),
            held,
            name: pod,
            addresses: vec![self.peer_address()],
            priority: 0,
            capacity: 0,
            zone: None,
            elections: Vec::new(),
            policy: self.settings.policy.clone(),
            status: watch::channel(StatusEpoch::default()).1,
            register: Register::Memory(self.register.by(self.cut.clone())),
            leases: Leases::Memory(self.leases.by(self.cut.clone())),
            policies: self.policies.clone(),
            detection: watch::channel(self.settings.detection).1,
            endpoints,
            sight,
            dead,
            application: known,
            termination_message: None,
        };
        let cuts = Cuts::new(self.cut.clone(), self.apart.clone());
        let strings = Strings { cuts, sent };
        let lived = sidecar.live_on_strings(membership, self.end.clone(), strings).await;
        if let Err(error) = lived {
            let (address, ports) = (error.address, self.settings.ports());
            let error = error.source;
            tracing::error!(%address, %error, member = self.number, "listen for peers: {ports}");
        }
        sidecar.end().await;
    }

    /// Where the member reports what it sends, for the page.
    fn observe(&self) -> mpsc::Sender<Sent> {
        let (sent, heard) = mpsc::channel(1024);
        let listener = Listener {
            journal: Arc::clone(&self.journal),
            chronicle: Arc::clone(&self.chronicle),
            elections: Arc::clone(&self.elections),
        };
        tokio::spawn(listener.listen_in(self.number, heard));
        sent
    }

    /// How the health of this member's application is asked.
    fn health(&self) -> Option<HealthCheck> {
        let check = self.settings.health.clone()?;
        Some(HealthCheck { port: check.port + self.number, ..check })
    }

    /// Has certificates, as a member in a pod has them from the operator.
    fn renewal(&self, metrics: Metrics) -> Renewal {
        let pod = pod_uid(self.number);
        let id = PeerId {
            namespace: "dev".to_owned(),
            service_account: "dev".to_owned(),
            group: GROUP,
            pod,
        };
        let sent = AuthorityStatus { address: String::new(), bundle: self.authority.bundle() };
        let (_still, sent) = watch::channel(Some(sent));
        let issuer = Issuer::Local(Arc::clone(&self.authority), id);
        Renewal::new(issuer, GROUP, pod, sent, metrics)
    }

    fn peer_address(&self) -> SocketAddr {
        peer_address(&self.settings, self.number)
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |number| Endpoint {
            pod: pod_uid(number),
            addresses: vec![peer_address(&self.settings, number)],
        };
        (0..self.settings.members).map(endpoint).collect()
    }

    fn bind(&self) -> anyhow::Result<Sockets> {
        let base = self.settings.base_port + self.number;
        let listen = |port| {
            Listeners::on_loopback(port).with_context(|| {
                format!("{}, and member {} needs {port}", self.settings.ports(), self.number)
            })
        };
        let (api, admin) = (listen(base)?, listen(base + ADMIN)?);
        Ok(Sockets { api, peers: vec![self.peer_address()], admin, leader_elector: None })
    }
}

fn peer_address(settings: &Settings, number: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], settings.base_port + PEERS + number))
}

/// The group's UID: no real one.
const GROUP: PodUid = PodUid(1);

/// The pod of a number: no real one.
pub(super) fn pod_uid(number: u16) -> PodUid {
    PodUid(0xc0ff_ee00_0000_4000_8000_0000_0000_0000 + u128::from(number))
}

/// The number of a pod.
pub(super) fn number_of(pod: PodUid) -> Option<u16> {
    pod.0.checked_sub(pod_uid(0).0).and_then(|number| u16::try_from(number).ok())
}

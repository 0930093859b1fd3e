//! What a sidecar is made of, and how it lives and ends.

use std::path::PathBuf;
use std::time::Duration;

use conclave_protocols::detection::Stated;
use conclave_protocols::member::StatusEpoch;
use conclave_protocols::policy::Policy;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, PodUid};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::admin::{self, Admin};
use crate::application::Application;
use crate::clock_page::ClockPage;
use crate::clocks::SharedClocks;
use crate::discovery::{Discovery, Endpoints};
use crate::group::Group;
use crate::group::slot::{self, Slot};
use crate::group::task::{GroupInputs, Sent};
use crate::http::{self, LeaderElector, Limits, ListenError, Listeners};
use crate::identity::OwnCredentials;
use crate::kubernetes::write_termination_message;
use crate::lease::Leases;
use crate::links::{Cuts, Links, Local, Roads, Warnings};
use crate::metrics::Metrics;
use crate::os_clock::OsClock;
use crate::probes::{self, Figures, Keyring, Probes, Reporter};
use crate::register::{Register, Sight};

/// The sockets of a sidecar. Nobody has been notified of them yet.
#[derive(Debug)]
pub struct Sockets {
    /// For the application.
    pub api: Listeners,
    /// Where the other members are listened for.
    pub peers: Vec<std::net::SocketAddr>,
    /// For probes, metrics and the page.
    pub admin: Listeners,
    /// For an application that was written for leader-elector.
    pub leader_elector: Option<LeaderElector>,
}

/// A sidecar that serves its application, in a group or not.
pub struct Sidecar {
    slot: Slot,
    group: Group,
    peers: Vec<std::net::SocketAddr>,
    metrics: Metrics,
    tracker: TaskTracker,
    /// Ends the servers.
    servers: CancellationToken,
}

/// The group that a sidecar belongs to.
pub struct Membership {
    /// The UID of the group's resource.
    pub group: PodUid,
    /// The UID of this pod.
    pub pod: PodUid,
    /// The pod's name.
    pub name: String,
    /// Where the other members reach this one.
    pub addresses: Vec<std::net::SocketAddr>,
    /// Its priority in the election of the group's leader.
    pub priority: i32,
    /// How fit it is to lead, for an election by capacity.
    pub capacity: u32,
    /// In which zone its pod is, if it is in one.
    pub zone: Option<String>,
    /// The elections that its application stands in from the beginning.
    pub elections: Vec<String>,
    /// What this member shows to the others; it has a certificate.
    pub held: OwnCredentials,
    /// What the resource says.
    pub policy: Policy,
    /// What the resource's status says was used.
    pub status: watch::Receiver<StatusEpoch>,
    /// The group's register.
    pub register: Register,
    /// The Leases that elections need besides.
    pub leases: Leases,
    /// What the resource says from now on; nothing once the group is dissolved.
    pub policies: watch::Receiver<Option<Policy>>,
    /// How it guesses which members have crashed.
    pub detection: watch::Receiver<Stated>,
    /// The pods of the group; read only where no register names the members.
    pub endpoints: Endpoints,
    /// Changes when somebody else may have changed the register.
    pub sight: watch::Receiver<Sight>,
    /// Processes that are surely dead.
    pub dead: mpsc::Receiver<Incarnation>,
    /// What others report of the application.
    pub application: watch::Receiver<Application>,
    /// The file whose content is reported when this process has ended.
    pub termination_message: Option<PathBuf>,
}

/// What `conclave dev` can do to a member.
pub(crate) struct Strings {
    /// Between which members nothing goes.
    pub(crate) cuts: Cuts,
    /// What the member says.
    pub(crate) sent: Option<mpsc::Sender<Sent>>,
}

impl Sidecar {
    /// Serves the application and the probes. Calls are turned away until there is a group.
    pub fn serve(
        name: &str,
        pod: &str,
        sockets: Sockets,
        clock: OsClock,
        metrics: Metrics,
    ) -> Self {
        let (group, slot) = slot::open(name, pod, clock, metrics.clone());
        let tracker = TaskTracker::new();
        let servers = CancellationToken::new();
        // The sockets take connections already.
        let (_, bound) = watch::channel(true);
        let limits = Limits::default();
        let admin = admin::router(Admin::new(group.clone(), metrics.clone(), bound));
        let probed = Limits::of_probes();
        tracker.spawn(http::serve_router(sockets.admin, admin, probed, servers.clone()));
        let (api, metered) = (group.clone(), metrics.clone());
        let clocks = SharedClocks::new(pod);
        let shared = clocks.clone();
        tracker.spawn(http::serve(sockets.api, api, shared, metered, limits, servers.clone()));
        if let Some(elector) = sockets.leader_elector {
            let (group, metrics) = (group.clone(), metrics.clone());
            tracker.spawn(elector.serve(group, clocks, metrics, limits, servers.clone()));
        }
        Self { slot, group, peers: sockets.peers, metrics, tracker, servers }
    }

    /// Keeps a clock page, if there is one, from now on. It stays when the sidecar ends, and becomes void by itself.
    pub fn keep_page(&self, page: Option<ClockPage>) {
        let Some(page) = page else { return };
        let (group, metrics) = (self.group(), self.metrics.clone());
        let end = self.servers.clone();
        self.tracker.spawn(async move {
            // The end of the servers ends it.
            let _ = end.run_until_cancelled(page.keep(group, metrics)).await;
        });
    }

    /// The handle to the group.
    pub fn group(&self) -> Group {
        self.group.clone()
    }

    /// Tells callers what is missing.
    pub fn lacks(&self, what: &str) {
        self.slot.lacks(what);
    }

    /// Turns calls away until something has happened.
    pub async fn turn_away_until<T>(&mut self, something: impl Future<Output = T>) -> T {
        self.slot.turn_away_until(something).await
    }

    /// Turns calls away until something has happened, and says what is missing for it.
    pub async fn turn_away_until_found<T>(
        &mut self,
        something: impl Future<Output = T>,
        mut missing: watch::Receiver<String>,
    ) -> T {
        let mut something = std::pin::pin!(something);
        loop {
            let what = missing.borrow_and_update().clone();
            if !what.is_empty() {
                self.lacks(&what);
            }
            let step = async {
                tokio::select! {
                    happened = &mut something => Some(happened),
                    Ok(()) = missing.changed() => None,
                }
            };
            if let Some(happened) = self.turn_away_until(step).await {
                return happened;
            }
        }
    }

    /// Lives in a group, as a process that is new to it, until `end` or until the group is
    /// dissolved. Fails if the peer port is taken.
    pub async fn live(
        &mut self,
        membership: Membership,
        end: CancellationToken,
    ) -> Result<(), ListenError> {
        self.live_on_strings(membership, end, Strings { cuts: Cuts::none(), sent: None }).await
    }

    pub(crate) async fn live_on_strings(
        &mut self,
        membership: Membership,
        end: CancellationToken,
        strings: Strings,
    ) -> Result<(), ListenError> {
        let mut listeners = Vec::new();
        for address in &self.peers {
            listeners.push(http::listen(*address)?);
        }
        let links_end = CancellationToken::new();
        let _guard = links_end.clone().drop_guard();
        let (sender, inbox) = mpsc::channel(INBOX);
        let info = MemberInfo {
            incarnation: Incarnation { pod: membership.pod, run: draw() },
            name: membership.name,
            addresses: membership.addresses,
            priority: membership.priority,
            capacity: membership.capacity,
            zone: membership.zone,
            seniority: 0,
            protocol: crate::wire::VERSIONS,
        };
        if let Some(path) = &membership.termination_message
            && let Err(error) = write_termination_message(path, info.incarnation)
        {
            let path = path.display();
            warn!(%path, %error, "write the termination message: my death will not be evidence");
        }
        let keys = Keyring::default();
        let probes = self.probe(membership.group, info.incarnation, &keys, &strings.cuts);
        let (introduced, introductions) = mpsc::channel(INTRODUCTIONS);
        let local = Local {
            group: membership.group.0,
            info: info.clone(),
            held: membership.held,
            warnings: Warnings::default(),
            introduced,
            metrics: self.metrics.clone(),
            keys,
            cuts: strings.cuts,
            roads: Roads::default(),
            tracker: self.tracker.clone(),
            end: links_end,
        };
        let (found, is_found) = watch::channel(None);
        let discovery = Discovery {
            local: local.clone(),
            endpoints: membership.endpoints,
            introduced: introductions,
            status: self.group.status(),
            found,
        };
        let until = local.end.clone();
        self.tracker.spawn(async move {
            // The end of this life ends it.
            let _ = until.run_until_cancelled(discovery.run()).await;
        });
        let inputs = GroupInputs {
            elections: membership.elections,
            me: info,
            policy: membership.policy,
            status: membership.status,
            register: membership.register,
            group: membership.group,
            leases: membership.leases,
            links: Links::new(local, listeners, &sender),
            probes,
            inbox,
            policies: membership.policies,
            detection: membership.detection,
            found: is_found,
            sight: membership.sight,
            dead: membership.dead,
            application: membership.application,
            sent: strings.sent,
            end,
        };
        Box::pin(self.slot.live(inputs)).await;
        Ok(())
    }

    /// Starts the thread of clock probes, and shows what comes of them. A sidecar without it goes on.
    fn probe(&self, group: PodUid, me: Incarnation, keys: &Keyring, cuts: &Cuts) -> Option<Probes> {
        let reporter = Reporter::new(&self.group, me);
        let setting = probes::Setting {
            me,
            group: group.0,
            address: *self.peers.first()?,
            reporter: reporter.clone(),
            keys: keys.clone(),
            cuts: cuts.clone(),
            metrics: self.metrics.probes.clone(),
        };
        let started = Probes::start(setting);
        let started =
            started.inspect_err(|error| warn!(%error, "start the thread of clock probes"));
        let (probes, heard) = started.ok()?;
        let (shown, metrics) = (self.slot.probed.clone(), self.metrics.probes.clone());
        let figures = Figures::new(heard, probes.peers(), shown, reporter, metrics);
        self.tracker.spawn(figures.run());
        Some(probes)
    }

    /// Ends the servers, and waits until everything has ended, but not for long.
    pub async fn end(self) {
        self.servers.cancel();
        self.tracker.close();
        // What has not ended by then ends with the process.
        let _ = tokio::time::timeout(END, self.tracker.wait()).await;
    }
}

/// A process' own number.
pub(crate) fn draw() -> u64 {
    getrandom::u64().expect("the system has a source of chance") & ((1 << 53) - 1)
}

/// Messages of peers that may wait for the group task.
const INBOX: usize = 1024;

/// Introductions that may wait for discovery.
const INTRODUCTIONS: usize = 256;

/// How long the servers may take to end.
const END: Duration = Duration::from_millis(300);

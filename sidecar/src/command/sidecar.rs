//! `conclave sidecar`: one member, beside an application in a pod.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use conclave_protocols::PodUid;
use conclave_protocols::policy::Policy;
use conclave_protocols::zone::{ZONE, is_zone};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::application::{Application, HealthArgs, look_after};
use crate::clock_page::ClockPage;
use crate::descriptors;
use crate::http::{LeaderElector, Listeners, TokenFile};
use crate::identity::{AuthorityClient, Issuer, OwnCredentials, Renewal};
use crate::kubernetes::{Leaders, OwnPod, Place, PodEndpoint, Resource, Statements};
use crate::lease::{KubernetesLeases, Leases};
use crate::metrics::Metrics;
use crate::one_thread;
use crate::os_clock::{ClockFault, OsClock};
use crate::program;
use crate::register::{KubernetesRegister, Register, Sight};
use crate::sidecar::{Membership, Sidecar, Sockets};
use crate::telemetry::{self, LogFormat};
use conclave_pods::inject::{CERTIFICATE_TOKEN_PATH, LEADER_ELECTOR_PORT};

/// The settings of the sidecar, by the pod's manifest.
#[derive(Args, Debug)]
pub(super) struct SidecarArgs {
    /// The group: the name of a `Conclave` in the pod's namespace.
    #[arg(long, env = "CONCLAVE_GROUP")]
    group: String,
    /// The pod's name.
    #[arg(long, env = "POD_NAME")]
    pod_name: String,
    /// The pod's namespace.
    #[arg(long, env = "POD_NAMESPACE")]
    pod_namespace: String,
    /// The pod's UID.
    #[arg(long, env = "POD_UID")]
    pod_uid: PodUid,
    /// The pod's addresses.
    #[arg(long, env = "POD_IPS", value_delimiter = ',', required = true)]
    pod_ips: Vec<IpAddr>,
    /// The node's address: a pod in the node's network is refused.
    #[arg(long, env = "HOST_IP")]
    host_ip: Option<IpAddr>,
    /// The port of the API; peers and probes are at the next two.
    #[arg(long, env = "CONCLAVE_BASE_PORT", default_value_t = 7070)]
    base_port: u16,
    /// A Unix socket for the API.
    #[arg(long, env = "CONCLAVE_SOCKET")]
    socket: Option<PathBuf>,
    /// The API has its Unix socket alone: no port is opened for it.
    #[arg(long, env = "CONCLAVE_API_SOCKET_ONLY")]
    api_socket_only: bool,
    /// A file of tokens, `SCOPE TOKEN` on each line: without it, whatever is in the pod may call.
    #[arg(long, env = "CONCLAVE_API_TOKEN_PATH")]
    api_token_path: Option<PathBuf>,
    /// The file on which group time is published, for processes of the pod to read without a call; without it, none.
    #[arg(long, env = "CONCLAVE_CLOCK_PAGE", value_name = "PATH")]
    clock_page: Option<PathBuf>,
    /// The priority of this pod in the election of the group's leader: of those that live, the highest wins.
    #[arg(long, env = "CONCLAVE_PRIORITY", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// How fit this pod is to lead: in an election by capacity, the greatest wins.
    #[arg(long, env = "CONCLAVE_CAPACITY", default_value_t = 0)]
    capacity: u32,
    /// In which zone this pod is; if it is empty, in none.
    #[arg(long, env = "CONCLAVE_ZONE", default_value = "", hide_default_value = true)]
    zone: String,
    /// The elections that the application stands in from the beginning.
    #[arg(long, env = "CONCLAVE_ELECTIONS", value_delimiter = ',')]
    elections: Vec<String>,
    /// The election that port 4040 shows, in which the application stands: for one that was written for leader-elector.
    #[arg(long, env = "CONCLAVE_LEADER_ELECTOR", value_name = "ELECTION")]
    leader_elector: Option<String>,
    /// How the application's health is asked.
    #[command(flatten)]
    health: HealthArgs,
    /// The container that is the application; if none is named, all but the sidecar.
    #[arg(long, env = "CONCLAVE_APP_CONTAINER", value_name = "CONTAINER")]
    app_container: Option<String>,
    /// The container's termination message file: who this process was, should it die.
    #[arg(long, env = "CONCLAVE_TERMINATION_MESSAGE_PATH", default_value = "/dev/termination-log")]
    termination_message_path: PathBuf,
    /// The token that proves to the operator's authority which pod this is.
    #[arg(long, env = "CONCLAVE_TOKEN_PATH", default_value = CERTIFICATE_TOKEN_PATH)]
    token_path: PathBuf,
    /// What is logged.
    #[arg(long, env = "CONCLAVE_LOG", default_value = "info,kube=warn")]
    log: String,
    /// How it is logged.
    #[arg(long, env = "CONCLAVE_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
    /// For tests: how far the clock is off, in milliseconds.
    #[arg(long, env = "CONCLAVE_TEST_CLOCK_OFFSET_MS", default_value_t = 0, hide = true)]
    clock_offset_ms: i32,
    /// For tests: how much too fast the clock runs, in parts per million.
    #[arg(long, env = "CONCLAVE_TEST_CLOCK_DRIFT_PPM", default_value_t = 0, hide = true)]
    clock_drift_ppm: i32,
    /// For tests: by how much the rate of the clock differs from that besides, in parts per billion.
    #[arg(long, env = "CONCLAVE_TEST_CLOCK_WANDER_PPB", default_value_t = 0, hide = true)]
    clock_wander_ppb: i32,
}

impl SidecarArgs {
    fn clock_fault(&self) -> ClockFault {
        ClockFault {
            offset_ns: i64::from(self.clock_offset_ms) * 1_000_000,
            drift_ppm: self.clock_drift_ppm,
            wander_ppb: self.clock_wander_ppb,
        }
    }
}

pub(super) fn run(args: SidecarArgs) -> ExitCode {
    if let Err(error) = check(&args).and_then(|()| Ok(telemetry::init(args.log_format, &args.log)?))
    {
        super::complain(&error);
        return ExitCode::from(super::BAD_SETTINGS);
    }
    descriptors::allow_enough();
    let lived = one_thread::live(live(args)).context("run the sidecar");
    match lived.flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// All complaints at once.
fn check(args: &SidecarArgs) -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    if args.host_ip.is_some_and(|host| args.pod_ips.contains(&host)) {
        complaints.push("the pod is in the node's network (hostNetwork), where ports are shared");
    }
    if args.group.is_empty() {
        complaints.push("CONCLAVE_GROUP is empty: expected the name of a Conclave");
    }
    if args.base_port > u16::MAX - 2 {
        complaints.push("CONCLAVE_BASE_PORT leaves no room for three ports");
    }
    if args.api_socket_only && args.socket.is_none() {
        complaints.push("CONCLAVE_API_SOCKET_ONLY needs a socket: expected CONCLAVE_SOCKET");
    }
    let wrong_zone = format!("CONCLAVE_ZONE is `{}`: expected {ZONE}, or nothing", args.zone);
    if zone(args).is_some_and(|zone| !is_zone(zone)) {
        complaints.push(&wrong_zone);
    }
    if args.leader_elector.as_ref().is_some_and(String::is_empty) {
        complaints.push("CONCLAVE_LEADER_ELECTOR is empty: expected the name of an election");
    }
    if args.leader_elector.is_some() && (args.api_socket_only || args.api_token_path.is_some()) {
        complaints.push(
            "CONCLAVE_LEADER_ELECTOR opens a port that asks for no token: it goes neither with \
             CONCLAVE_API_TOKEN_PATH nor with CONCLAVE_API_SOCKET_ONLY",
        );
    }
    anyhow::ensure!(
        complaints.is_empty(),
        "{} settings are wrong: {}",
        complaints.len(),
        complaints.join("; ")
    );
    Ok(())
}

/// How long a pod that has left its group may take to take itself off the slices of elections.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// Deaths that may wait for the group task.
const DEATHS: usize = 64;

async fn live(args: SidecarArgs) -> anyhow::Result<()> {
    let end = CancellationToken::new();
    for (kind, name) in [(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT")]
    {
        let arrived = signal(kind).with_context(|| format!("listen for {name}"))?;
        tokio::spawn(end_on_signal(arrived, end.clone()));
    }
    let metrics = Metrics::new(&args.group).with_process();
    let clock = OsClock::with_fault(args.clock_fault());
    let mut sidecar = serve(&args, clock, &metrics)?;
    info!(group = args.group, pod = args.pod_name, "serving");
    tokio::spawn(program::forget_the_start());
    let application = watch::Sender::new(Application::default());
    tokio::spawn(look_after(args.health.check(), application.clone(), metrics.clone()));
    let client =
        conclave_kubernetes::client("conclave-sidecar").await.context("find the API server")?;
    let place = Place::new(client.clone(), &args.pod_namespace, &args.group);
    let leases = Leases::Kubernetes(KubernetesLeases::new(client.clone(), &args.pod_namespace));
    let mut was_deleted = false;
    while !end.is_cancelled() {
        let found = Box::pin(wait_for_group(&mut sidecar, &place, was_deleted, &end));
        let Some(resource) = found.await else { break };
        // If there is a next time.
        was_deleted = true;
        let uid = resource.uid;
        let register = KubernetesRegister::new(
            client.clone(),
            &args.pod_namespace,
            &args.group,
            uid,
            resource.status.epoch,
            metrics.clone(),
        );
        let (policy, policies) = watch::channel(Some(resource.policy.clone()));
        let (detection, detections) = watch::channel(resource.detection);
        let (authority, trusted) = watch::channel(resource.authority.clone());
        let (status, used) = watch::channel(resource.status);
        let (published, elections) = watch::channel(resource.published.clone());
        let statements = Statements { policy, status, detection, authority, published };
        let (sighted, sight) = watch::channel(Sight::default());
        let (found, endpoints) = watch::channel(None);
        let (died, dead) = mpsc::channel(DEATHS);
        let mut watches = JoinSet::new();
        watches.spawn(place.clone().follow(uid, sight.clone(), statements));
        watches.spawn(place.clone().discover(sidecar.group().status(), found));
        watches.spawn(place.clone().watch_for_evidence(sidecar.group().status(), died));
        watches.spawn(register.clone().watch(sighted));
        watches.spawn(place.clone().watch_own_pod(
            own_pod(&args),
            sidecar.group(),
            application.clone(),
        ));
        let issuer = Issuer::Authority(AuthorityClient::new(&args.group, args.token_path.clone()));
        let renewal = Renewal::new(issuer, uid, args.pod_uid, trusted, metrics.clone());
        let (held, missing) = (renewal.held(), renewal.missing());
        watches.spawn(renewal.run());
        let certified = wait_for_certificate(held.clone(), policies.clone());
        let certified = end.run_until_cancelled(certified);
        match sidecar.turn_away_until_found(certified, missing).await {
            Some(true) => {}
            Some(false) => continue,
            None => break,
        }
        let membership = Membership {
            group: resource.uid,
            pod: args.pod_uid,
            name: args.pod_name.clone(),
            addresses: peer_addresses(&args),
            priority: args.priority,
            capacity: args.capacity,
            zone: zone(&args).map(str::to_owned),
            elections: stands(&args),
            held,
            policy: resource.policy,
            status: used,
            register: Register::Kubernetes(Box::new(register)),
            leases: leases.clone(),
            policies,
            detection: detections,
            endpoints,
            sight,
            dead,
            application: application.subscribe(),
            termination_message: Some(args.termination_message_path.clone()),
        };
        let over = CancellationToken::new();
        let leaders =
            Leaders::new(place.clone(), uid, own_endpoint(&args), sidecar.group(), over.clone());
        let leaders = tokio::spawn(leaders.run(elections));
        let lived = sidecar.live(membership, end.clone()).await;
        over.cancel();
        if timeout(WITHDRAWAL, leaders).await.is_err() {
            warn!("this pod ends before it could take itself off the slice of an election");
        }
        watches.abort_all();
        metrics.certificates.is_gone();
        lived.with_context(|| port_setting(&args))?;
    }
    sidecar.end().await;
    Ok(())
}

/// Turns calls away until the group's resource and Lease are there. Nothing if the end comes first.
async fn wait_for_group(
    sidecar: &mut Sidecar,
    place: &Place,
    was_deleted: bool,
    end: &CancellationToken,
) -> Option<Resource> {
    let (missing, lacks) = watch::channel(String::new());
    let wait = end.run_until_cancelled(place.wait(&missing, was_deleted));
    Box::pin(sidecar.turn_away_until_found(wait, lacks)).await
}

fn own_endpoint(args: &SidecarArgs) -> PodEndpoint {
    PodEndpoint { name: args.pod_name.clone(), uid: args.pod_uid, ips: args.pod_ips.clone() }
}

/// Returns once there is a certificate, with true; or once the group is dissolved, with false.
async fn wait_for_certificate(
    mut held: OwnCredentials,
    mut policies: watch::Receiver<Option<Policy>>,
) -> bool {
    tokio::select! {
        certified = held.wait_for(Option::is_some) => certified.is_ok(),
        _ = policies.wait_for(Option::is_none) => false,
    }
}

async fn end_on_signal(mut signal: tokio::signal::unix::Signal, end: CancellationToken) {
    if signal.recv().await.is_some() {
        end.cancel();
    }
}

/// The sidecar without a group, and its clock page.
fn serve(args: &SidecarArgs, clock: OsClock, metrics: &Metrics) -> anyhow::Result<Sidecar> {
    let (sockets, page) = (bind(args)?, open_page(args, clock)?);
    let sidecar = Sidecar::serve(&args.group, &args.pod_name, sockets, clock, metrics.clone());
    sidecar.keep_page(page);
    Ok(sidecar)
}

fn bind(args: &SidecarArgs) -> anyhow::Result<Sockets> {
    let port = args.base_port;
    let api = bind_api(args)?;
    let anywhere = SocketAddr::from((any(&args.pod_ips), port + 2));
    let admin = Listeners::on(anywhere).with_context(|| port_setting(args))?;
    let peers = vec![SocketAddr::from((any(&args.pod_ips), port + 1))];
    Ok(Sockets { api, peers, admin, leader_elector: bind_leader_elector(args)? })
}

/// What moves the ports, for whom one of them is taken.
fn port_setting(args: &SidecarArgs) -> String {
    format!("CONCLAVE_BASE_PORT (--base-port) is {}", args.base_port)
}

fn bind_api(args: &SidecarArgs) -> anyhow::Result<Listeners> {
    let mut api = if args.api_socket_only {
        Listeners::default()
    } else {
        Listeners::on_loopback(args.base_port).with_context(|| port_setting(args))?
    };
    if let Some(path) = &args.socket {
        api = api.and_unix(path).with_context(|| format!("listen on {}", path.display()))?;
    }
    if let Some(path) = &args.api_token_path {
        let tokens = TokenFile::open(path).with_context(|| path.display().to_string())?;
        api = api.for_tokens(tokens);
    }
    Ok(api)
}

/// The clock page, if the pod has one.
fn open_page(args: &SidecarArgs, clock: OsClock) -> anyhow::Result<Option<ClockPage>> {
    let open = |path: &PathBuf| {
        ClockPage::open(path, clock)
            .with_context(|| format!("CONCLAVE_CLOCK_PAGE (--clock-page) is {}", path.display()))
    };
    args.clock_page.as_ref().map(open).transpose()
}

fn bind_leader_elector(args: &SidecarArgs) -> anyhow::Result<Option<LeaderElector>> {
    let Some(election) = args.leader_elector.clone() else { return Ok(None) };
    let listeners = Listeners::on_loopback(LEADER_ELECTOR_PORT).context(
        "CONCLAVE_LEADER_ELECTOR (--leader-elector) opens the port of leader-elector, which must \
         not be in the pod any more",
    )?;
    Ok(Some(LeaderElector { listeners, election }))
}

/// The elections that the application stands in from the beginning. In `default` every member stands.
fn stands(args: &SidecarArgs) -> Vec<String> {
    let shown = args.leader_elector.iter().filter(|name| *name != "default");
    let all: BTreeSet<_> = args.elections.iter().chain(shown).cloned().collect();
    all.into_iter().collect()
}

/// Where the pod has no label, its variable is empty.
fn zone(args: &SidecarArgs) -> Option<&str> {
    Some(args.zone.as_str()).filter(|zone| !zone.is_empty())
}

fn own_pod(args: &SidecarArgs) -> OwnPod {
    let container = args.app_container.clone();
    OwnPod { name: args.pod_name.clone(), uid: args.pod_uid, container }
}

/// Both families, unless the pod knows no IPv6.
fn any(pod_ips: &[IpAddr]) -> IpAddr {
    if pod_ips.iter().any(IpAddr::is_ipv6) {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    }
}

fn peer_addresses(args: &SidecarArgs) -> Vec<SocketAddr> {
    args.pod_ips.iter().map(|ip| SocketAddr::from((*ip, args.base_port + 1))).collect()
}

#[cfg(test)]
mod tests;

//! The one task that drives a node: it takes one thing at a time from its sources (requests, peers, the
//! register, timers, discovery, the end), hands it to the node, and carries out what the node wants.
//!
//! Whatever must come before something else is the node's affair ([`super::node`]); the sources are taken
//! in any order.

pub(crate) mod ballots;
mod others;
pub(crate) mod steps;
mod surroundings;

use std::time::Duration;

use conclave_protocols::clock::ClockMap;
use conclave_protocols::detection::Stated;
use conclave_protocols::member::{Command, Lease, StatusEpoch};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::trace::Recorder;
use conclave_protocols::{Incarnation, LockName, PodUid, register};
use futures::StreamExt;
use futures::future::join;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug_span, warn};

use self::ballots::BallotStep;
use self::others::{Happened, Others};
use self::steps::Step;
use super::Request;
use super::believers::Notified;
use super::candidacies::Candidacies;
use super::node::{Arrival, Moment, PodNode};
use super::publish::Publisher;
use super::slot::Slot;
use crate::application::Application;
use crate::lazy_sleep::LazySleep;
use crate::lease::{LeaseWays, Leases};
use crate::links::{self, Links};
use crate::metrics::Metrics;
use crate::os_clock::OsClock;
use crate::probes::Probes;
use crate::register::{Register, Sight};
use crate::telemetry::PATH;
use crate::wire::Payload;

/// What a life in a group begins with.
pub(crate) struct GroupInputs {
    pub(crate) me: MemberInfo,
    /// The elections that its application stands in from the beginning.
    pub(crate) elections: Vec<String>,
    pub(crate) policy: Policy,
    /// What the status of the group's resource says was used.
    pub(crate) status: watch::Receiver<StatusEpoch>,
    pub(crate) register: Register,
    /// The UID of the group's resource.
    pub(crate) group: PodUid,
    /// The Leases that elections need.
    pub(crate) leases: Leases,
    pub(crate) links: Links,
    /// Nothing if there is no thread for them.
    pub(crate) probes: Option<Probes>,
    pub(crate) inbox: mpsc::Receiver<(Incarnation, Payload)>,
    /// What the group's resource says; nothing once the group is dissolved.
    pub(crate) policies: watch::Receiver<Option<Policy>>,
    /// How the member guesses which others have crashed.
    pub(crate) detection: watch::Receiver<Stated>,
    /// Whom discovery found, where no register names the members.
    pub(crate) found: watch::Receiver<Option<Vec<MemberInfo>>>,
    /// Changes when somebody else may have changed the register.
    pub(crate) sight: watch::Receiver<Sight>,
    /// Processes that are surely dead.
    pub(crate) dead: mpsc::Receiver<Incarnation>,
    /// What is known of the application.
    pub(crate) application: watch::Receiver<Application>,
    /// What the member sends and does, for the page that draws it.
    pub(crate) sent: Option<mpsc::Sender<Sent>>,
    pub(crate) end: CancellationToken,
}

/// What the page that draws a member gets to know.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// It sent a message.
    Message(SentMessage),
    /// Something happened to a lock.
    Step(Step),
    /// Something happened in an election.
    Ballot(BallotStep),
    /// All that it holds goes on.
    Lease(Lease),
}

/// A message that a member sent.
#[derive(Clone, Debug)]
pub(crate) struct SentMessage {
    pub(crate) to: Incarnation,
    pub(crate) protocol: &'static str,
    pub(crate) name: &'static str,
    pub(crate) lock: Option<LockName>,
}

/// A node and the process around it.
struct Task<'a> {
    node: PodNode,
    process: Process<'a>,
}

/// What a node is in.
struct Process<'a> {
    me: Incarnation,
    /// Writes down what the member does, where somebody wants that.
    recorder: Option<Recorder>,
    links: Links,
    probes: Option<Probes>,
    /// Who is probed.
    probed: Vec<Incarnation>,
    /// Whom discovery found.
    discovered: Vec<MemberInfo>,
    register: Register,
    answers: mpsc::Sender<register::Message>,
    leases: LeaseWays,
    publisher: &'a Publisher,
    map: &'a watch::Sender<ClockMap>,
    metrics: &'a Metrics,
    clock: OsClock,
    /// What was reported to applications about this member's leadership.
    notified: watch::Receiver<Notified>,
    sent: Option<mpsc::Sender<Sent>>,
    /// Somebody wanted to join the present view and did not fit in.
    is_full: bool,
}

/// Answers of the register that may wait for the task.
const ANSWERS: usize = 64;

impl Slot {
    /// Lives in the group until it has left it.
    pub(crate) async fn live(&mut self, inputs: GroupInputs) {
        let GroupInputs { me, elections, policy, mut status, register, links, end, .. } = inputs;
        let mut application = inputs.application;
        let (answers, answered) = mpsc::channel(ANSWERS);
        let (heard, of_leases) = mpsc::channel(ANSWERS);
        self.publisher.begins(me.incarnation, &policy);
        self.metrics.list(&policy);
        let incarnation = me.incarnation;
        let clock = self.begin_clock(&policy);
        let status_epoch = *status.borrow_and_update();
        let believers = self.believers.watch();
        let named = Candidacies::new(&me.name, incarnation, self.named.clone(), &elections);
        let mut named = named.of_group(inputs.group);
        named.heed(*application.borrow_and_update());
        let node = PodNode::new(me, policy, status_epoch, self.metrics.locks.clone(), clock, named);
        let process = Process {
            me: incarnation,
            recorder: crate::telemetry::is_traced().then(|| Recorder::new(node.member())),
            links,
            probes: inputs.probes,
            probed: Vec::new(),
            discovered: Vec::new(),
            register,
            answers,
            leases: LeaseWays::new(inputs.leases, heard),
            publisher: &self.publisher,
            map: &self.map,
            metrics: &self.metrics,
            clock: self.clock,
            notified: believers.clone(),
            sent: inputs.sent,
            is_full: false,
        };
        // The member does not know it yet.
        let mut detection = inputs.detection;
        detection.mark_changed();
        let sources = Sources { asked: &mut self.asked, inbox: inputs.inbox };
        let others = Others {
            answered,
            of_leases,
            policies: inputs.policies,
            detection,
            status,
            found: inputs.found,
            sight: inputs.sight,
            dead: inputs.dead,
            application,
            believers,
            probed: self.probed.subscribe(),
            ticks: others::ticks(),
            end,
            ends: false,
        };
        let task = Task { node, process };
        let (drained, mut links, leases) = task.run(sources, others, self.drained).await;
        self.drained = drained;
        // What was sent last has arrived before the links end, and a Lease is given back.
        let last = join(leases.settled(), links.end());
        let _ = self.turn_away_until(tokio::time::timeout(LAST_CALLS, last)).await;
        self.publisher.ended();
    }
}

/// Where most of what a node serves comes from.
struct Sources<'a> {
    asked: &'a mut mpsc::Receiver<Request>,
    inbox: mpsc::Receiver<(Incarnation, Payload)>,
}

impl Task<'_> {
    /// `drained`: the pod was about to end before. Whether it is afterwards, and by what something may be on its way yet.
    async fn run(
        mut self,
        sources: Sources<'_>,
        others: Others,
        mut drained: bool,
    ) -> (bool, Links, LeaseWays) {
        let Sources { asked, mut inbox } = sources;
        self.node.start(self.process.moment(), &mut self.process);
        if drained {
            let drain = Arrival::Request(Request::Drain);
            self.node.handle(self.process.moment(), drain, &mut self.process);
        }
        let mut sleep = LazySleep::new();
        // It goes on while requests and messages come and go, and is looked at only once it was woken: to look at so
        // many each time costs more than to serve one.
        let mut other = FuturesUnordered::from_iter([others.next()]);
        while !self.node.has_left() {
            let next =
                self.node.next_due().map(|due| Instant::now() + self.process.clock.until(due));
            let arrival = tokio::select! {
                () = sleep.until(next.unwrap_or_else(Instant::now)), if next.is_some() => Arrival::Nothing,
                Some((from, payload)) = inbox.recv() => Arrival::Payload(from, payload),
                Some(request) = asked.recv() => {
                    drained |= matches!(request, Request::Drain);
                    Arrival::Request(request)
                }
                Some((others, happened)) = other.next() => {
                    other.push(others.next());
                    self.process.arrival(happened)
                }
            };
            let at = self.process.moment();
            if let Some(due) = self.node.next_due() {
                self.process.note_pause(at.now - due);
            }
            let step = debug_span!(target: PATH, "step", of = arrival.name());
            let cost = &self.process.metrics.probes.cost;
            let cost = self.node.is_for_clock(at.now, &arrival).then(|| cost.clone());
            let handle = || self.node.handle(at, arrival, &mut self.process);
            step.in_scope(|| match cost {
                Some(cost) => cost.of(handle),
                None => handle(),
            });
        }
        (drained, self.process.links, self.process.leases)
    }
}

impl Process<'_> {
    /// The raw clock is read first: what is reckoned from both is earlier by it than it is, and never later.
    fn moment(&self) -> Moment {
        let raw = self.clock.raw();
        Moment { now: self.clock.now(), raw }
    }

    /// A process that was held up for long has missed heartbeats, and deadlines may have passed.
    fn note_pause(&self, late: Duration) {
        if late >= NOTICEABLE {
            self.metrics.members.pauses.observe(late.as_secs_f64());
        }
        if late >= LONG {
            warn!(late_ms = late.as_millis(), "this process was held up");
        }
    }

    fn show_links(&mut self) {
        self.greet();
        self.publisher.connected(|peer| self.links.is_open(peer));
    }

    /// What a node is to serve of it.
    fn arrival(&mut self, happened: Happened) -> Arrival {
        match happened {
            Happened::Arrival(arrival) => *arrival,
            Happened::Tick => {
                self.show_links();
                Arrival::Nothing
            }
            Happened::Found(None) => {
                self.discovered.clear();
                Arrival::Nothing
            }
            Happened::Found(Some(found)) => {
                for info in &found {
                    self.links.meet(info);
                }
                self.discovered.clone_from(&found);
                Arrival::Command(Command::Discovered(found))
            }
        }
    }
}

/// By how much a timer may be late on a busy machine; more is a pause.
const NOTICEABLE: Duration = Duration::from_millis(50);

/// A pause that costs a leader its leader lease, or nearly.
const LONG: Duration = Duration::from_secs(1);

/// How long it may take that what a member sends as it leaves arrives: as long as a link may take to be opened. So may its calls
/// for Leases.
const LAST_CALLS: Duration = links::CONNECT;

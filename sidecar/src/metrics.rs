//! Everything that a sidecar counts, defined in one place.
//!
//! Each sidecar has a registry of its own: `conclave dev` runs several in one process. Labels come
//! from closed sets, or are the names of the few elections that the resource lists; no lock and no owner
//! is ever a label, and a peer only while it is one of the few whose clocks are compared. The table in `docs/metrics.md` is made
//! from these definitions.

mod application;
mod ballots;
mod certificates;
mod clock;
mod clock_cost;
mod definitions;
mod elections;
mod http;
mod locks;
mod logical;
mod members;
mod peers;
mod probes;

#[cfg(test)]
mod tests;

pub(crate) use application::ApplicationMetrics;
pub(crate) use ballots::{BallotMetrics, DEFAULT};
pub(crate) use certificates::CertificateMetrics;
pub(crate) use clock::ClockMetrics;
pub(crate) use clock_cost::ClockCost;
pub use definitions::{Definition, Kind};
pub(crate) use elections::ElectionMetrics;
pub(crate) use http::HttpMetrics;
pub(crate) use locks::{HoldEnd, LockMetrics};
pub(crate) use logical::LogicalMetrics;
pub(crate) use members::MemberMetrics;
pub(crate) use peers::{PeerMetrics, RegisterMetrics};
pub(crate) use probes::ProbeMetrics;

use conclave_protocols::policy::Policy;
use prometheus::{Registry, TextEncoder};

use crate::group::{Group, TimeNow};
use definitions::Definitions;

/// The metrics of one sidecar. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    definitions: Vec<Definition>,
    /// The view and its members; read from the group when they are asked for.
    pub(crate) members: MemberMetrics,
    /// Claims on locks.
    pub(crate) locks: LockMetrics,
    /// Leadership.
    pub(crate) elections: ElectionMetrics,
    /// Elections that were held, by name.
    pub(crate) ballots: BallotMetrics,
    /// The application, where its health is asked.
    pub(crate) application: ApplicationMetrics,
    /// The group clock.
    pub(crate) clock: ClockMetrics,
    /// Clock probes.
    pub(crate) probes: ProbeMetrics,
    /// The logical clocks of the application.
    pub(crate) logical: LogicalMetrics,
    /// What goes to other members and comes from them.
    pub(crate) peers: PeerMetrics,
    /// What this member shows to others.
    pub(crate) certificates: CertificateMetrics,
    /// What goes to the API server.
    pub(crate) register: RegisterMetrics,
    /// What applications ask.
    pub(crate) http: HttpMetrics,
}

impl Metrics {
    /// The metrics of a member of this group. Everything carries the group's name as label `group`.
    pub fn new(group: &str) -> Self {
        let mut definitions = Definitions::new(group);
        Self {
            members: MemberMetrics::new(&mut definitions),
            locks: LockMetrics::new(&mut definitions),
            elections: ElectionMetrics::new(&mut definitions),
            ballots: BallotMetrics::new(&mut definitions),
            application: ApplicationMetrics::new(&mut definitions),
            clock: ClockMetrics::new(&mut definitions),
            probes: ProbeMetrics::new(&mut definitions),
            logical: LogicalMetrics::new(&mut definitions),
            peers: PeerMetrics::new(&mut definitions),
            certificates: CertificateMetrics::new(&mut definitions),
            register: RegisterMetrics::new(&mut definitions),
            http: HttpMetrics::new(&mut definitions),
            registry: definitions.registry,
            definitions: definitions.list,
        }
    }

    /// Adds what the operating system says about this process, under the usual names. Not for
    /// several sidecars in one process.
    pub fn with_process(self) -> Self {
        definitions::register(
            &self.registry,
            prometheus::process_collector::ProcessCollector::for_self(),
        );
        self
    }

    /// The text that Prometheus scrapes: what was counted, and how the group stands now.
    pub fn scrape(&self, group: &Group) -> String {
        let now = group.os_clock().now();
        let status = group.status();
        self.members.observe(&status.borrow());
        self.register.observe(&status.borrow(), now);
        let (default, named) = (group.election(), group.named_elections());
        self.elections.observe(&default.borrow(), now);
        self.elections.observe_all(std::iter::once(&default).chain(named.borrow().values()), now);
        let TimeNow { raw, reading, .. } = group.read_time();
        let host = group.os_clock().host_at(raw.0);
        self.clock.observe(&reading, host, &status.borrow().clock);
        self.probes.observe(&group.probed().borrow());
        self.encode()
    }

    /// From now on the group goes by this policy. What it names is counted from 0 on.
    pub(crate) fn list(&self, policy: &Policy) {
        self.locks.list(policy);
        self.ballots.list(policy);
    }

    /// Every metric that there is, in the order of the documentation.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        TextEncoder::new()
            .encode_utf8(&self.registry.gather(), &mut text)
            .expect("gathered families are complete, and a String takes any text");
        text
    }
}

/// The media type of a scrape.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

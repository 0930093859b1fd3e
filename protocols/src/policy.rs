//! What a group's custom resource states, as the members use it. A view carries the policy, so that
//! all members switch together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

mod algorithms;

pub use algorithms::{Averaging, ClockAlgorithm, ElectionAlgorithm, LockAlgorithm};

/// The policy of a group.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The `metadata.generation` of the resource that states it.
    pub generation: i64,
    /// What makes the outcome of an algorithm safe.
    pub arbiter: Arbiter,
    /// What proves that a member is dead.
    pub evidence: Evidence,
    /// Waits and periods.
    pub timing: Timing,
    /// How the election named `default` is held.
    pub election: ElectionAlgorithm,
    /// The elections in which applications stand.
    pub elections: Vec<ElectionPolicy>,
    /// Who is whose neighbour in an election along links.
    pub topology: Topology,
    /// How locks are granted, by name pattern, the best match first.
    pub locks: Vec<LockPolicy>,
    /// Which members coordinate locks of `Superpeers`.
    pub superpeers: SuperpeersPolicy,
    /// How clocks are kept together.
    pub clock: ClockPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            generation: 0,
            arbiter: Arbiter::Quorum,
            evidence: Evidence::None,
            timing: Timing::default(),
            election: ElectionAlgorithm::Bully,
            elections: Vec::new(),
            topology: Topology::FullMesh,
            locks: vec![LockPolicy::default()],
            superpeers: SuperpeersPolicy::default(),
            clock: ClockPolicy::default(),
        }
    }
}

impl Policy {
    /// The policy for one lock: an exact name beats the longest literal prefix. `None` if no
    /// pattern allows the name, or it is that of the lead in an election.
    pub fn for_lock(&self, name: &str) -> Option<&LockPolicy> {
        if name.starts_with(ELECTION) {
            return None;
        }
        let rank =
            |policy: &LockPolicy| policy.names.iter().filter_map(|p| pattern_rank(p, name)).max();
        let fit = self.locks.iter().filter_map(|policy| Some((rank(policy)?, policy)));
        fit.max_by_key(|(rank, _)| *rank).map(|(_, policy)| policy)
    }

    /// Whether the leader alone grants the hold of that name; else the members do, among themselves.
    #[must_use]
    pub fn is_led(&self, name: &str) -> bool {
        self.algorithm(name).has_coordinator()
    }

    /// Whether the leader alone grants whatever there is, and so knows all holders at once.
    #[must_use]
    pub fn is_all_led(&self) -> bool {
        self.locks.iter().all(|lock| lock.algorithm.has_coordinator())
    }

    /// Which lease extends the hold of that name.
    #[must_use]
    pub fn lease_class(&self, name: &str) -> LeaseClass {
        if name.starts_with(ELECTION) { LeaseClass::Leader } else { LeaseClass::Member }
    }

    /// How long a name stays closed after a hold that ended without being given back.
    #[must_use]
    pub fn delay(&self, name: &str) -> Duration {
        self.for_lock(name).map_or(Duration::ZERO, |lock| lock.lock_delay)
    }

    /// The algorithm of a lock.
    #[must_use]
    pub fn algorithm(&self, name: &str) -> LockAlgorithm {
        self.for_lock(name).map_or(LockAlgorithm::Central, |lock| lock.algorithm)
    }
}

/// How long a hold lasts that is not renewed. All that a member holds is renewed at once.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum LeaseClass {
    /// A member lease: it survives a change of the group's leader.
    #[default]
    Member,
    /// As long as a leader lease: another may have it as soon as another may lead the group.
    Leader,
}

impl LeaseClass {
    crate::by_variant!(pub Member, Leader);
}

/// How the name of a hold begins that is the lead in an election.
pub const ELECTION: &str = "election/";

/// How well a pattern fits a name; nothing if it does not. `*` at the end matches any text, `/` too.
fn pattern_rank(pattern: &str, name: &str) -> Option<usize> {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix).then_some(prefix.len()),
        None => (pattern == name).then_some(usize::MAX),
    }
}

/// What makes the outcome of an algorithm safe: promises of a majority and the API server
/// (`Quorum`), or nothing, as in the textbook (`None`): then everything is advisory and no fencing
/// token is given.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Arbiter {
    /// Promises of a majority, and the register of the API server.
    #[default]
    Quorum,
    /// Nothing.
    None,
}

/// What proves that a member is dead: nothing but time (`None`), or the kubelet's report that the
/// sidecar's container has terminated (`ContainerStatus`), for which the members may read pods. A
/// report that is wrong can give a group two leaders.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Evidence {
    /// Nothing but time.
    #[default]
    None,
    /// The kubelet's report that the container of exactly this process has terminated.
    ContainerStatus,
}

/// Waits and periods of a view. Nobody uses its own configuration in their place.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// How long a member promises not to follow another leader: P.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub leader_lease: Duration,
    /// How often the leader asks for promises: h.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub heartbeat: Duration,
    /// How long a grant keeps others out without being renewed: L.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub member_lease: Duration,
    /// How long a view goes on without the API server: E.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub api_outage: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            leader_lease: Duration::from_millis(1_500),
            heartbeat: Duration::from_millis(250),
            member_lease: Duration::from_secs(10),
            api_outage: Duration::from_secs(60),
        }
    }
}

impl Timing {
    /// The fast profile: a fail-over well under a second; a pause of 0.4 s costs the leader lease.
    pub const FAST: Self = Self {
        leader_lease: Duration::from_millis(600),
        heartbeat: Duration::from_millis(120),
        member_lease: Duration::from_secs(10),
        api_outage: Duration::from_secs(60),
    };

    /// The longer of each of the waits.
    #[must_use]
    pub fn longest(self, other: Self) -> Self {
        Self {
            leader_lease: self.leader_lease.max(other.leader_lease),
            heartbeat: self.heartbeat.max(other.heartbeat),
            member_lease: self.member_lease.max(other.member_lease),
            api_outage: self.api_outage.max(other.api_outage),
        }
    }
}

/// An election in which applications stand.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElectionPolicy {
    /// Its name.
    pub name: String,
    /// How one of the candidates is nominated.
    pub algorithm: ElectionAlgorithm,
    /// When the next begins to lead after a leader that is to give the lead to another.
    pub handoff: Handoff,
    /// Whether a candidate of a higher priority takes over from a leader.
    pub preemption: Preemption,
    /// The Lease that its leader must have besides the hold, if it must.
    pub lease: Option<String>,
}

impl ElectionPolicy {
    /// An election by this algorithm, and by default otherwise.
    #[must_use]
    pub fn new(name: &str, algorithm: ElectionAlgorithm) -> Self {
        let (handoff, preemption) = (Handoff::default(), Preemption::default());
        Self { name: name.to_owned(), algorithm, handoff, preemption, lease: None }
    }
}

/// When the next begins to lead after a leader that is to give the lead to another.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub enum Handoff {
    /// When its application has stopped, and at its deadline if it does not say so.
    #[default]
    AfterStop,
    /// At once: both may believe until that deadline.
    BeforeStop,
}

/// Whether a candidate of a higher priority takes over from a leader.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Preemption {
    /// A leader leads for as long as it can.
    #[default]
    Never,
    /// A leader gives the lead to a candidate of a higher priority.
    Graceful,
}

/// Who is whose neighbour in an election along links. Nothing else goes by it.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Topology {
    /// Every two members.
    #[default]
    FullMesh,
    /// Every two members of one zone, and every two gateways: each zone has two.
    Zones,
}

/// How the locks of some names are granted.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LockPolicy {
    /// Names; a `*` at the end matches any text.
    pub names: Vec<String>,
    /// Who grants.
    pub algorithm: LockAlgorithm,
    /// The longest that one claim may hold.
    pub max_hold: Duration,
    /// How long a lock stays closed after a holder was lost.
    pub lock_delay: Duration,
    /// Whether a member that was in the critical section may enter again without asking.
    pub caching: Caching,
}

/// Whether a member may enter again without a message.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Caching {
    /// It asks for each entry.
    #[default]
    Disabled,
    /// It keeps the coordinator's grant or the others' permissions, for 5s at most.
    Enabled,
}

impl Default for LockPolicy {
    fn default() -> Self {
        Self {
            names: vec!["*".to_owned()],
            algorithm: LockAlgorithm::Central,
            max_hold: Duration::from_mins(10),
            lock_delay: Duration::ZERO,
            caching: Caching::Disabled,
        }
    }
}

/// Which members coordinate locks of [`LockAlgorithm::Superpeers`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuperpeersPolicy {
    /// How many of a hundred members do. Their number is the next power of two at or above that share, and never more
    /// than the largest power of two that fits into the group: 100 in a group of 7 gives 4.
    pub share_percent: u8,
}

impl Default for SuperpeersPolicy {
    fn default() -> Self {
        Self { share_percent: 10 }
    }
}

/// How the members' clocks are kept together.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockPolicy {
    /// Who asks whom.
    pub algorithm: ClockAlgorithm,
    /// How the daemon of `Berkeley` averages.
    pub averaging: Averaging,
    /// How far apart two clocks may be.
    pub precision: Duration,
    /// The largest rate error of a clock, in parts per million.
    pub max_drift_ppm: u32,
    /// How far the rate of a clock, as another shows it, is from some constant within two minutes, at most, in parts per
    /// billion. The default is chosen and not proven: no standard bounds how fast a rate changes (PHI of RFC 5905, of
    /// the same size, bounds the rate). A crystal changes its rate by less when its temperature changes by ten degrees,
    /// which a machine takes minutes for. A machine whose clock changes more, one that is moved to another host say,
    /// makes the bounds wrong until the samples of clock probes contradict them.
    pub max_wander_ppb: u32,
}

impl Default for ClockPolicy {
    fn default() -> Self {
        Self {
            algorithm: ClockAlgorithm::Berkeley,
            averaging: Averaging::LargestSet,
            precision: Duration::from_millis(1),
            max_drift_ppm: 100,
            max_wander_ppb: 15_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_no_sum_can_hold_is_refused() {
        let read = |secs: u64| {
            let mut timing = serde_json::to_value(Timing::default()).expect("JSON");
            timing["memberLease"]["secs"] = secs.into();
            serde_json::from_value::<Timing>(timing).is_ok()
        };
        assert!(read(86_400));
        assert!(!read(u64::MAX));
    }

    #[test]
    fn an_exact_name_beats_the_longest_prefix() {
        let lock = |name: &str, secs| LockPolicy {
            names: vec![name.to_owned()],
            max_hold: Duration::from_secs(secs),
            ..LockPolicy::default()
        };
        let policy = Policy {
            locks: vec![lock("*", 1), lock("a/*", 2), lock("a/b", 3)],
            ..Policy::default()
        };
        let secs = |name| policy.for_lock(name).map(|lock| lock.max_hold.as_secs());
        assert_eq!((secs("a/b"), secs("a/b/c"), secs("x")), (Some(3), Some(2), Some(1)));
    }
}

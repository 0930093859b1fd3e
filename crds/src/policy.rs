//! From what the user wrote to what the members run.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use conclave_protocols::detection::{Stated, Threshold};
use conclave_protocols::policy::{
    Caching, ClockPolicy, ElectionAlgorithm, ElectionPolicy, Handoff, LockAlgorithm, LockPolicy,
    Policy, Preemption, SuperpeersPolicy, Timing,
};
use conclave_protocols::record::POLICY_BYTES_MAX;

use crate::conclave::{
    ClockSpec, Conclave, ConclaveSpec, ElectionSpec, LockSpec, SuperpeersSpec, TimingSpec,
};
use crate::limits::{self, must};
use crate::publishing::service_name;

/// Why a resource is no policy. Nothing follows from it: the group keeps the policy it has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{field}` {must}")]
pub struct PolicyError {
    field: String,
    must: String,
}

impl PolicyError {
    pub(crate) fn new(field: &str, must: impl Into<String>) -> Self {
        Self { field: field.to_owned(), must: must.into() }
    }

    /// The path of the field that is wrong.
    pub fn field(&self) -> &str {
        &self.field
    }
}

/// The policy that a resource asks for, with the generation of the resource.
///
/// It checks every rule of the schema again, because a schema of another version may have let the
/// resource through, and a file given to `conclave` meets no schema.
pub fn policy(conclave: &Conclave) -> Result<Policy, PolicyError> {
    let name = conclave.metadata.name.as_deref().unwrap_or_default();
    if !limits::is_label(name) {
        return Err(PolicyError::new("metadata.name", must::BE_A_LABEL));
    }
    let spec = &conclave.spec;
    services(name, &spec.elections)?;
    detection(spec)?;
    leases(&spec.elections)?;
    has_room(Policy {
        generation: conclave.metadata.generation.unwrap_or_default(),
        arbiter: spec.arbiter,
        evidence: spec.evidence,
        timing: timing(&spec.timing)?,
        election: default_election(&spec.elections),
        elections: elections(&spec.elections)?,
        topology: spec.topology.kind,
        locks: locks(&spec.locks)?,
        superpeers: superpeers(&spec.superpeers)?,
        clock: clock(&spec.clock)?,
    })
}

/// A policy goes into the record of each view, which has to fit into a Lease with all members.
fn has_room(policy: Policy) -> Result<Policy, PolicyError> {
    let bytes = serde_json::to_string(&policy).map_or(usize::MAX, |text| text.len());
    if bytes > POLICY_BYTES_MAX {
        let must = format!(
            "must have fewer or shorter names, and so must `elections`: the group's register has \
             {POLICY_BYTES_MAX} bytes for both, and they need {bytes}"
        );
        return Err(PolicyError::new("spec.locks", must));
    }
    Ok(policy)
}

fn timing(spec: &TimingSpec) -> Result<Timing, PolicyError> {
    let path = "spec.timing";
    let timing = Timing {
        leader_lease: limits::LEADER_LEASE.check(path, &spec.leader_lease)?,
        heartbeat: limits::HEARTBEAT.check(path, &spec.heartbeat)?,
        member_lease: limits::MEMBER_LEASE.check(path, &spec.member_lease)?,
        api_outage: limits::API_OUTAGE.check(path, &spec.api_outage)?,
    };
    if timing.leader_lease < timing.heartbeat * limits::HEARTBEATS_IN_LEADER_LEASE {
        return Err(PolicyError::new("spec.timing.leaderLease", must::HOLD_FIVE_HEARTBEATS));
    }
    if timing.member_lease < timing.leader_lease + limits::MEMBER_LEASE_MARGIN {
        return Err(PolicyError::new("spec.timing.memberLease", must::OUTLAST_THE_LEADER_LEASE));
    }
    Ok(timing)
}

/// How members are to guess which of them have crashed. Each guesses for itself, so it is no part of the policy that they
/// share.
///
/// # Errors
///
/// The field that is wrong, and what was expected.
pub fn detection(spec: &ConclaveSpec) -> Result<Stated, PolicyError> {
    let path = "spec.failureDetection";
    let of = &spec.failure_detection;
    let timeout = of.timeout.as_ref().map(|timeout| limits::TIMEOUT.check(path, timeout));
    let timeout = timeout.transpose()?;
    let timing = timing(&spec.timing)?;
    let fits = |timeout: Duration| (timing.heartbeat * 2..=timing.leader_lease).contains(&timeout);
    if timeout.is_some_and(|timeout| !fits(timeout)) {
        let field = format!("{path}.timeout");
        return Err(PolicyError::new(&field, must::LIE_BETWEEN_BEATS_AND_LEASE));
    }
    let (min, max) = (limits::PHI_MIN, limits::PHI_MAX);
    let level = |phi: i32| {
        let level = u8::try_from(phi).ok().and_then(Threshold::new);
        let must = format!("must be between {min} and {max}, and is {phi}");
        level.ok_or_else(|| PolicyError::new(&format!("{path}.phi"), must))
    };
    Ok(Stated { timeout, threshold: of.phi.map(level).transpose()? })
}

/// There is one of this name whether it is listed or not.
fn default_election(specs: &[ElectionSpec]) -> ElectionAlgorithm {
    let default = specs.iter().find(|spec| spec.name == limits::DEFAULT_ELECTION);
    default.map(|spec| spec.algorithm).unwrap_or_default()
}

/// The others.
fn elections(specs: &[ElectionSpec]) -> Result<Vec<ElectionPolicy>, PolicyError> {
    let mut names = BTreeSet::new();
    for (index, spec) in specs.iter().enumerate() {
        let wrong = |field: &str, must: &str| {
            Err(PolicyError::new(&format!("spec.elections[{index}].{field}"), must))
        };
        if !limits::is_election_name(&spec.name) {
            return wrong("name", must::BE_A_NAME_OF_AN_ELECTION);
        }
        if !names.insert(&spec.name) {
            return wrong("name", must::BE_NO_OTHER_ELECTIONS);
        }
        if spec.name == limits::DEFAULT_ELECTION && spec.handoff != Handoff::default() {
            return wrong("handoff", must::BE_AFTER_STOP_IN_DEFAULT);
        }
        if spec.name == limits::DEFAULT_ELECTION && spec.preemption != Preemption::default() {
            return wrong("preemption", must::BE_NEVER_IN_DEFAULT);
        }
    }
    if specs.len() > limits::ELECTIONS_MAX {
        let must = format!("must have at most {} entries", limits::ELECTIONS_MAX);
        return Err(PolicyError::new("spec.elections", must));
    }
    let others = specs.iter().filter(|spec| spec.name != limits::DEFAULT_ELECTION);
    let policy = |spec: &ElectionSpec| {
        let (handoff, preemption) = (spec.handoff, spec.preemption);
        let lease = spec.lease_name.clone();
        let default = ElectionPolicy::new(&spec.name, spec.algorithm);
        ElectionPolicy { handoff, preemption, lease, ..default }
    };
    Ok(others.map(policy).collect())
}

/// Members do not go by the Services of elections; but a resource with a wrong one is wrong.
fn services(group: &str, specs: &[ElectionSpec]) -> Result<(), PolicyError> {
    let mut names = BTreeSet::new();
    for (index, spec) in specs.iter().enumerate() {
        let Some(service) = &spec.service else { continue };
        let wrong = |field: &str, must: &str| {
            PolicyError::new(&format!("spec.elections[{index}].service.{field}"), must)
        };
        let name = service.name.clone().unwrap_or_else(|| service_name(group, spec));
        if service.name.is_none() && !limits::has_room_for_service(group, &spec.name) {
            return Err(wrong("name", must::BE_GIVEN));
        }
        if !limits::is_service_name(&name) {
            return Err(wrong("name", must::BE_A_NAME_OF_A_SERVICE));
        }
        if !names.insert(name) {
            return Err(wrong("name", must::BE_NO_OTHER_SERVICES));
        }
        let (min, max) = (limits::PORT_MIN, limits::PORT_MAX);
        for (field, port) in [("port", service.port), ("targetPort", service.target_port)] {
            if !(min..=max).contains(&port) {
                return Err(wrong(field, &format!("must be between {min} and {max}")));
            }
        }
    }
    Ok(())
}

/// A Lease is one election's, and no group's register.
fn leases(specs: &[ElectionSpec]) -> Result<(), PolicyError> {
    let mut names = BTreeSet::new();
    for (index, spec) in specs.iter().enumerate() {
        let Some(name) = &spec.lease_name else { continue };
        let wrong = |field: &str, must: &str| {
            Err(PolicyError::new(&format!("spec.elections[{index}].{field}"), must))
        };
        if !limits::is_lease_name(name) {
            return wrong("leaseName", must::BE_A_NAME_OF_A_LEASE);
        }
        if spec.name == limits::DEFAULT_ELECTION {
            return wrong("leaseName", must::BE_OF_NO_DEFAULT);
        }
        if spec.handoff != Handoff::AfterStop {
            return wrong("handoff", must::BE_AFTER_STOP_WITH_A_LEASE);
        }
        if !names.insert(name) {
            return wrong("leaseName", must::BE_NO_OTHER_LEASES);
        }
    }
    Ok(())
}

fn locks(specs: &[LockSpec]) -> Result<Vec<LockPolicy>, PolicyError> {
    let mut patterns = BTreeSet::new();
    if !specs.iter().flat_map(|spec| &spec.names).all(|pattern| patterns.insert(pattern)) {
        return Err(PolicyError::new("spec.locks", must::BE_DISTINCT));
    }
    specs
        .iter()
        .enumerate()
        .map(|(index, spec)| lock(&format!("spec.locks[{index}]"), spec))
        .collect()
}

fn lock(path: &str, spec: &LockSpec) -> Result<LockPolicy, PolicyError> {
    let names = format!("{path}.names");
    if spec.names.is_empty() || spec.names.iter().any(String::is_empty) {
        return Err(PolicyError::new(&names, "must have at least one pattern, and no empty one"));
    }
    if !spec.names.iter().all(|pattern| limits::star_is_last(pattern)) {
        return Err(PolicyError::new(&names, must::END_WITH_THE_STAR));
    }
    let algorithm = spec.algorithm;
    Ok(LockPolicy {
        names: spec.names.clone(),
        algorithm,
        max_hold: limits::MAX_HOLD.check(path, &spec.max_hold)?,
        lock_delay: limits::LOCK_DELAY.check(path, &spec.lock_delay)?,
        caching: caching(path, algorithm, spec.caching)?,
    })
}

fn caching(path: &str, algorithm: LockAlgorithm, caching: Caching) -> Result<Caching, PolicyError> {
    if caching == Caching::Enabled && !algorithm.may_cache() {
        return Err(PolicyError::new(&format!("{path}.caching"), must::ask_each_time()));
    }
    Ok(caching)
}

fn superpeers(spec: &SuperpeersSpec) -> Result<SuperpeersPolicy, PolicyError> {
    let (min, max) = (limits::SHARE_PERCENT_MIN, limits::SHARE_PERCENT_MAX);
    let share = within("spec.superpeers.sharePercent", spec.share_percent, &(min..=max))?;
    // No more than a hundred.
    Ok(SuperpeersPolicy { share_percent: u8::try_from(share).unwrap_or(u8::MAX) })
}

fn clock(spec: &ClockSpec) -> Result<ClockPolicy, PolicyError> {
    let drift = limits::DRIFT_PPM_MIN..=limits::DRIFT_PPM_MAX;
    let max_drift_ppm = within("spec.clock.maxDriftPpm", spec.max_drift_ppm, &drift)?;
    let wander = limits::WANDER_PPB_MIN..=limits::WANDER_PPB_MAX;
    let max_wander_ppb = within("spec.clock.maxWanderPpb", spec.max_wander_ppb, &wander)?;
    let precision: Duration = limits::PRECISION.check("spec.clock", &spec.precision)?;
    if spec.averaging.is_some() && !spec.algorithm.averages() {
        return Err(PolicyError::new("spec.clock.averaging", must::AVERAGE));
    }
    let averaging = spec.averaging.unwrap_or_default();
    let algorithm = spec.algorithm;
    Ok(ClockPolicy { algorithm, averaging, precision, max_drift_ppm, max_wander_ppb })
}

/// The value of a field within limits, none of which is negative.
fn within(field: &str, value: i32, limits: &RangeInclusive<i32>) -> Result<u32, PolicyError> {
    let (min, max) = (limits.start(), limits.end());
    u32::try_from(value).ok().filter(|_| limits.contains(&value)).ok_or_else(|| {
        PolicyError::new(field, format!("must be between {min} and {max}, and is {value}"))
    })
}

#[cfg(test)]
mod tests {
    use conclave_protocols::clock::Params;
    use conclave_protocols::policy::{Evidence, Policy, Topology};
    use conclave_protocols::random::Random;

    use super::*;
    use crate::period::Period;

    #[test]
    fn an_empty_specification_is_the_default_policy() {
        let mut conclave = Conclave::new("orders", ConclaveSpec::default());
        conclave.metadata.generation = Some(3);
        assert_eq!(policy(&conclave), Ok(Policy { generation: 3, ..Policy::default() }));
    }

    #[test]
    fn evidence_is_off_unless_asked_for() {
        let evidence = |spec: &str| {
            let spec: ConclaveSpec = serde_json::from_str(spec).expect("a specification");
            policy(&Conclave::new("orders", spec)).map(|policy| policy.evidence)
        };
        assert_eq!(evidence("{}"), Ok(Evidence::None));
        assert_eq!(evidence(r#"{"evidence": "ContainerStatus"}"#), Ok(Evidence::ContainerStatus));
        assert!(serde_json::from_str::<ConclaveSpec>(r#"{"evidence": "PodGone"}"#).is_err());
    }

    #[test]
    fn all_are_neighbours_unless_zones_are_asked_for() {
        let topology = |spec: &str| {
            let spec: ConclaveSpec = serde_json::from_str(spec).expect("a specification");
            policy(&Conclave::new("orders", spec)).map(|policy| policy.topology)
        };
        for spec in ["{}", r#"{"topology": {}}"#, r#"{"topology": {"kind": "FullMesh"}}"#] {
            assert_eq!(topology(spec), Ok(Topology::FullMesh), "{spec}");
        }
        assert_eq!(topology(r#"{"topology": {"kind": "Zones"}}"#), Ok(Topology::Zones));
        assert!(serde_json::from_str::<ConclaveSpec>(r#"{"topology": {"kind": "Ring"}}"#).is_err());
    }

    #[test]
    fn failures_are_detected_as_the_resource_states() {
        let detection = |spec: &str| {
            let spec: ConclaveSpec = serde_json::from_str(spec).expect("a specification");
            detection(&spec).map_err(|error| error.to_string())
        };
        assert_eq!(detection("{}"), Ok(Stated::default()));
        let stated =
            Stated { timeout: Some(Duration::from_millis(600)), threshold: Threshold::new(8) };
        assert_eq!(
            detection(r#"{"failureDetection": {"timeout": "600ms", "phi": 8}}"#),
            Ok(stated)
        );
        let error = detection(r#"{"failureDetection": {"phi": 260}}"#).expect_err("too high");
        assert_eq!(error, "`spec.failureDetection.phi` must be between 1 and 16, and is 260");
    }

    #[test]
    fn what_is_assumed_of_clocks_has_limits() {
        let of = |field: &str, value: i32| {
            let spec = serde_json::json!({"clock": {field: value}});
            let spec: ConclaveSpec = serde_json::from_value(spec).expect("a specification");
            policy(&Conclave::new("orders", spec)).map(|policy| policy.clock)
        };
        let drift = |value| of("maxDriftPpm", value).map(|clock| clock.max_drift_ppm);
        let wander = |value| of("maxWanderPpb", value).map(|clock| clock.max_wander_ppb);
        assert_eq!([1, 10_000].map(drift), [Ok(1), Ok(10_000)]);
        assert_eq!([1, 1_000, 1_000_000].map(wander), [Ok(1), Ok(1_000), Ok(1_000_000)]);
        for wrong in [-1, 0, 10_001] {
            let error = drift(wrong).expect_err("beyond the limits").to_string();
            let must = "must be between 1 and 10000";
            assert_eq!(error, format!("`spec.clock.maxDriftPpm` {must}, and is {wrong}"));
        }
        for wrong in [-1, 0, 1_000_001] {
            let error = wander(wrong).expect_err("beyond the limits").to_string();
            let must = "must be between 1 and 1000000";
            assert_eq!(error, format!("`spec.clock.maxWanderPpb` {must}, and is {wrong}"));
        }
    }

    /// For every drift, with the precisions that are near the limits and some others each.
    #[test]
    fn clocks_are_compared_as_often_as_the_textbook_has_it_whatever_the_policy() {
        let mut random = Random::new(0);
        for max_drift_ppm in 1..=limits::DRIFT_PPM_MAX {
            let others: Vec<u64> = (0..4).map(|_| 1 + random.up_to(10_000)).collect();
            for ms in [1, 2, 10, 199, 200, 201, 10_000].into_iter().chain(others) {
                let precision = Period::new(&format!("{ms}ms"));
                let spec = ClockSpec { precision, max_drift_ppm, ..ClockSpec::default() };
                let params = Params::from(&clock(&spec).expect("a valid policy"));
                let (used, allowed) = (params.interval(), params.resync_interval());
                assert!(used <= allowed, "{ms} ms, {max_drift_ppm} ppm: {used:?}, {allowed:?}");
                assert!(used >= Duration::from_millis(50), "{ms} ms, {max_drift_ppm} ppm");
            }
        }
    }

    #[test]
    fn superpeers_are_a_share_of_the_members() {
        let share = |share: i32| {
            let spec = serde_json::json!({"superpeers": {"sharePercent": share}});
            let spec: ConclaveSpec = serde_json::from_value(spec).expect("a specification");
            policy(&Conclave::new("orders", spec)).map(|policy| policy.superpeers.share_percent)
        };
        assert_eq!([1, 25, 100].map(share), [Ok(1), Ok(25), Ok(100)]);
        for wrong in [-1, 0, 101] {
            let error = share(wrong).expect_err("beyond the limits").to_string();
            let field = "`spec.superpeers.sharePercent`";
            assert_eq!(error, format!("{field} must be between 1 and 100, and is {wrong}"));
        }
    }

    #[test]
    fn the_fast_profile_is_allowed() {
        let timing = TimingSpec {
            leader_lease: Timing::FAST.leader_lease.into(),
            heartbeat: Timing::FAST.heartbeat.into(),
            ..TimingSpec::default()
        };
        assert_eq!(super::timing(&timing), Ok(Timing::FAST));
    }
}

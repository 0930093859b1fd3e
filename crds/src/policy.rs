//! From what the user wrote to what the members run.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::policy::{
    Caching, ClockPolicy, ElectionAlgorithm, LockAlgorithm, LockPolicy, Policy, Timing,
};

use crate::conclave::{ClockSpec, Conclave, ElectionSpec, LockSpec, TimingSpec};
use crate::limits::{self, must};

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
    Ok(Policy {
        generation: conclave.metadata.generation.unwrap_or_default(),
        arbiter: spec.arbiter,
        evidence: spec.evidence,
        timing: timing(&spec.timing)?,
        election: election(&spec.elections)?,
        locks: locks(&spec.locks)?,
        clock: clock(&spec.clock)?,
    })
}

fn timing(spec: &TimingSpec) -> Result<Timing, PolicyError> {
    let path = "spec.timing";
    let timing = Timing {
        office_wait: limits::OFFICE_WAIT.check(path, &spec.office_wait)?,
        heartbeat: limits::HEARTBEAT.check(path, &spec.heartbeat)?,
        lock_wait: limits::LOCK_WAIT.check(path, &spec.lock_wait)?,
        api_outage: limits::API_OUTAGE.check(path, &spec.api_outage)?,
    };
    if timing.office_wait < timing.heartbeat * limits::HEARTBEATS_IN_OFFICE_WAIT {
        return Err(PolicyError::new("spec.timing.officeWait", must::HOLD_FIVE_HEARTBEATS));
    }
    if timing.lock_wait < timing.office_wait + limits::LOCK_WAIT_MARGIN {
        return Err(PolicyError::new("spec.timing.lockWait", must::OUTLAST_THE_OFFICE));
    }
    Ok(timing)
}

fn election(elections: &[ElectionSpec]) -> Result<ElectionAlgorithm, PolicyError> {
    match elections {
        [election] if election.name == "default" => Ok(election.algorithm),
        _ => Err(PolicyError::new("spec.elections", must::BE_THE_DEFAULT)),
    }
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
        return Err(PolicyError::new(&format!("{path}.caching"), must::ASK_EACH_TIME));
    }
    Ok(caching)
}

fn clock(spec: &ClockSpec) -> Result<ClockPolicy, PolicyError> {
    let (min, max) = (limits::DRIFT_PPM_MIN, limits::DRIFT_PPM_MAX);
    let max_drift_ppm = u32::try_from(spec.max_drift_ppm)
        .ok()
        .filter(|_| (min..=max).contains(&spec.max_drift_ppm))
        .ok_or_else(|| {
            let must = format!("must be between {min} and {max}");
            PolicyError::new("spec.clock.maxDriftPpm", must)
        })?;
    let precision: Duration = limits::PRECISION.check("spec.clock", &spec.precision)?;
    Ok(ClockPolicy { algorithm: spec.algorithm, precision, max_drift_ppm })
}

#[cfg(test)]
mod tests {
    use conclave_protocols::policy::{Evidence, Policy};

    use super::*;
    use crate::conclave::ConclaveSpec;

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

    /// Records in the register have policies, and may be older than this code.
    #[test]
    fn a_policy_that_knows_nothing_of_evidence_takes_none() {
        let evidence = Evidence::ContainerStatus;
        let mut written = serde_json::to_value(Policy { evidence, ..Policy::default() })
            .expect("a policy is JSON");
        assert_eq!(written["evidence"], "ContainerStatus");
        written.as_object_mut().and_then(|fields| fields.remove("evidence")).expect("a field");
        let read: Policy = serde_json::from_value(written).expect("an older policy");
        assert_eq!(read, Policy::default());
    }

    #[test]
    fn the_fast_profile_is_allowed() {
        let timing = TimingSpec {
            office_wait: Timing::FAST.office_wait.into(),
            heartbeat: Timing::FAST.heartbeat.into(),
            ..TimingSpec::default()
        };
        assert_eq!(super::timing(&timing), Ok(Timing::FAST));
    }
}

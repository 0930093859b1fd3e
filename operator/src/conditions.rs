//! Conditions, as the API conventions of Kubernetes have them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// One finding about a group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    pub(crate) kind: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    True,
    False,
    Unknown,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The conditions that findings make. The time of a transition stays while the status does.
pub(crate) fn conditions(
    findings: Vec<Finding>,
    before: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |finding: Finding| {
        let status = finding.verdict.as_str();
        let since = find(before, finding.kind).filter(|condition| condition.status == status);
        Condition {
            type_: finding.kind.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.to_owned(),
            message: finding.message,
            observed_generation: generation,
            // The API server keeps whole seconds.
            last_transition_time: since.map_or_else(
                || Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
                |condition| condition.last_transition_time.clone(),
            ),
        }
    };
    findings.into_iter().map(condition).collect()
}

/// The condition of a type.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn ready(verdict: Verdict, reason: &'static str) -> Vec<Finding> {
        vec![Finding { kind: "Ready", verdict, reason, message: String::new() }]
    }

    #[test]
    fn the_time_of_a_transition_changes_with_the_status_only() {
        let first = conditions(ready(Verdict::False, "NoLeader"), &[], Some(1), at(10));
        let second = conditions(ready(Verdict::False, "LeaderLost"), &first, Some(2), at(20));
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(
            (second[0].reason.as_str(), second[0].observed_generation),
            ("LeaderLost", Some(2))
        );
        let third = conditions(ready(Verdict::True, "Ready"), &second, Some(2), at(30));
        assert_eq!(third[0].last_transition_time, Time(at(30)));
    }
}

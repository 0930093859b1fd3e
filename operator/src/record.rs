//! The record on a group's Lease: the operator reads parts of it, and writes it only where it was lost.

use std::time::Duration;

use conclave_crds::{
    Conclave, ConclaveStatus, GROUP_UID_ANNOTATION, RECORD_ANNOTATION, WaitsStatus, policy,
};
use conclave_protocols::ids::{Epoch, Incarnation};
use conclave_protocols::policy::{Arbiter, Policy, Timing};
use conclave_protocols::record::{RECORD_VERSION, Record};
use conclave_protocols::version;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::Value;

/// What the operator reads of a record. Everything else in it is ignored, so that members of
/// another version can be reported too.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RecordView {
    /// The number of the view.
    pub epoch: Epoch,
    /// The highest number that a fencing token of the view begins with.
    pub ceiling: Epoch,
    /// Who belongs to the view.
    pub members: Vec<MemberView>,
    /// Who leads it.
    pub leader: Option<Incarnation>,
    /// A candidate waits for all promises to run out.
    pub closing: bool,
    /// The record was made anew after a loss: it does not know the members.
    pub base_unknown: bool,
    /// The waits of the view.
    pub timing: Timing,
    /// The policy of the view.
    pub policy: PolicyView,
}

/// What the operator reads of a member.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct MemberView {
    /// Its pod and its process.
    pub incarnation: Incarnation,
    /// The name of its pod.
    pub name: String,
}

/// What the operator reads of a policy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct PolicyView {
    /// The generation of the resource that it comes from.
    pub generation: i64,
    /// What makes outcomes safe.
    pub arbiter: Arbiter,
}

/// What there is in the place of a group's register.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Register {
    /// No Lease.
    Absent,
    /// A Lease that was not made for a group.
    Foreign,
    /// The register of an earlier resource of the same name, with its record unless no member was there. It is to be
    /// taken over.
    Earlier(Option<Box<Record>>),
    /// The register of an earlier resource of the same name that was used, and has no record that can be read: nothing
    /// shows for how long its members may go on.
    EarlierUnknown,
    /// A Lease without a record: no member was there yet.
    Empty,
    /// A record that no member can read.
    Unreadable(String),
    /// A record that cannot be read here, of members that may be of a later release.
    Later(String),
    /// A record.
    View(RecordView),
}

/// What became of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Loss {
    /// The Lease is gone.
    Deleted,
    /// The Lease has no record any more.
    Emptied,
    /// The record cannot be read.
    Unreadable(String),
}

impl Register {
    /// Reads the Lease of a group.
    pub fn read(lease: Option<&Lease>, conclave: &Conclave) -> Self {
        let Some(lease) = lease else { return Self::Absent };
        let record = lease.annotations().get(RECORD_ANNOTATION);
        match lease.annotations().get(GROUP_UID_ANNOTATION) {
            None => Self::Foreign,
            Some(uid) if Some(uid) != conclave.metadata.uid.as_ref() => {
                // A member that writes a record writes when it did so, too.
                let was_used = lease.spec.as_ref().is_some_and(|spec| spec.renew_time.is_some());
                match record.map(|text| serde_json::from_str::<Record>(text)) {
                    Some(Ok(record)) if record.version == RECORD_VERSION => {
                        Self::Earlier(Some(Box::new(record)))
                    }
                    None if !was_used => Self::Earlier(None),
                    Some(_) | None => Self::EarlierUnknown,
                }
            }
            Some(_) => record.map_or(Self::Empty, |text| Self::of(text)),
        }
    }

    /// The highest numbers that it states, and the waits.
    pub(crate) fn last(&self) -> Option<(Epoch, Epoch, &Timing)> {
        match self {
            Self::View(view) => Some((view.epoch, view.ceiling, &view.timing)),
            Self::Earlier(Some(record)) => Some((record.epoch, record.ceiling, &record.timing)),
            Self::Absent
            | Self::Foreign
            | Self::Earlier(None)
            | Self::EarlierUnknown
            | Self::Empty
            | Self::Unreadable(_)
            | Self::Later(_) => None,
        }
    }

    /// A record is good if members read it. This operator may be older than they are, so where they
    /// may know more than it does, it goes by what it knows.
    fn of(text: &str) -> Self {
        let whole = serde_json::from_str::<Record>(text).map(drop);
        let parts = serde_json::from_str(text);
        match (whole, parts) {
            (Ok(()), Ok(view)) => Self::View(view),
            (Err(error), _) if !may_be_later(text) => Self::Unreadable(brief(&error)),
            (_, Ok(view)) => Self::View(view),
            (_, Err(error)) => Self::Later(brief(&error)),
        }
    }

    /// The record, if there is one that can be read.
    pub fn view(&self) -> Option<&RecordView> {
        match self {
            Self::View(view) => Some(view),
            Self::Absent
            | Self::Foreign
            | Self::Earlier(_)
            | Self::EarlierUnknown
            | Self::Empty
            | Self::Unreadable(_)
            | Self::Later(_) => None,
        }
    }
}

/// Whether a later release may have written this: in another layout, or for members that speak a later
/// version of the protocol.
fn may_be_later(text: &str) -> bool {
    let Ok(record) = serde_json::from_str::<Value>(text) else { return false };
    let above = |number: &Value, known: u64| number.as_u64().is_some_and(|number| number > known);
    let later = |member: &Value| above(&member["protocol"][1], u64::from(version::LATEST));
    let members = record["members"].as_array();
    above(&record["version"], u64::from(RECORD_VERSION))
        || members.is_some_and(|members| members.iter().any(later))
}

/// What fits into an Event.
fn brief(error: &serde_json::Error) -> String {
    error.to_string().chars().take(200).collect()
}

/// The mark in the place of a record that was lost. Nobody knows any more who the members were and whom they
/// follow, so it says that its base is unknown and that it is closing: a member that reads it waits until
/// every promise, and then every lock, that any view may have given has run out.
///
/// The waits are the largest that are known, because the lost view may have had either. Epoch and
/// ceiling are the last that were seen. The nonce distinguishes this mark from every other.
pub fn lost_record(conclave: &Conclave, nonce: u64) -> Record {
    let status = conclave.status.clone().unwrap_or_default();
    let policy = policy(conclave).unwrap_or_else(|_| Policy {
        generation: conclave.metadata.generation.unwrap_or_default(),
        ..Policy::default()
    });
    let (epoch, ceiling) = (number(status.epoch), number(status.ceiling));
    let timing = longest(&policy.timing, &status);
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(epoch),
        ceiling: Epoch(ceiling.max(epoch)),
        members: Vec::new(),
        leader: None,
        settled: false,
        closing: true,
        base_unknown: true,
        base: None,
        held: None,
        timing,
        longest_leader_lease: timing.leader_lease,
        policy,
        nonce,
    }
}

/// A record as it stands on a Lease.
pub(crate) fn text(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is JSON")
}

/// Each wait as long as the specification or the status has it.
fn longest(spec: &Timing, status: &ConclaveStatus) -> Timing {
    let recorded = |wait: fn(&WaitsStatus) -> &conclave_crds::Period| {
        let period = status.waits.as_ref().map(wait);
        period.and_then(|period| period.duration().ok()).unwrap_or(Duration::ZERO)
    };
    Timing {
        leader_lease: spec.leader_lease.max(recorded(|waits| &waits.leader_lease)),
        heartbeat: spec.heartbeat,
        member_lease: spec.member_lease.max(recorded(|waits| &waits.member_lease)),
        api_outage: spec.api_outage.max(recorded(|waits| &waits.api_outage)),
    }
}

fn number(status: Option<i64>) -> u64 {
    status.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use conclave_crds::{ConclaveSpec, Period};

    use super::*;

    fn lost() -> Conclave {
        let mut conclave = Conclave::new("orders", ConclaveSpec::default());
        conclave.spec.timing.member_lease = Period::new("20s");
        conclave.status = Some(ConclaveStatus {
            epoch: Some(17),
            ceiling: Some(32),
            waits: Some(WaitsStatus {
                leader_lease: Period::new("2s"),
                member_lease: Period::new("10s"),
                api_outage: Period::new("3m"),
            }),
            ..ConclaveStatus::default()
        });
        conclave
    }

    #[test]
    fn a_lost_record_waits_for_whatever_may_have_been_promised() {
        let record = lost_record(&lost(), 7);
        assert!(record.base_unknown && record.closing && !record.settled);
        assert_eq!((record.epoch, record.ceiling), (Epoch(17), Epoch(32)));
        assert_eq!((record.members.len(), record.leader, record.nonce), (0, None, 7));
        let waits =
            [record.timing.leader_lease, record.timing.member_lease, record.timing.api_outage];
        assert_eq!(waits.map(|wait| wait.as_secs()), [2, 20, 180]);
    }

    #[test]
    fn the_operator_reads_what_the_members_write() {
        let record = lost_record(&lost(), 7);
        let text = serde_json::to_string(&record).expect("JSON");
        let view: RecordView = serde_json::from_str(&text).expect("a record");
        assert_eq!((view.epoch, view.ceiling, view.closing), (Epoch(17), Epoch(32), true));
        assert_eq!(view.timing, record.timing);
    }

    /// A record as members write it, with one more member that speaks up to this version.
    fn written(latest: u16) -> Value {
        let mut record = serde_json::to_value(lost_record(&lost(), 7)).expect("JSON");
        record["members"] = serde_json::json!([{
            "incarnation": { "pod": "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01", "run": 1 },
            "name": "orders-0", "addresses": [], "priority": 0, "capacity": 0, "seniority": 1,
            "protocol": [1, latest],
        }]);
        record
    }

    #[test]
    fn a_record_that_members_cannot_read_is_unreadable() {
        let good = written(version::LATEST);
        assert!(matches!(Register::of(&good.to_string()), Register::View(_)));
        for damage in ["", "{", "null", "[]", "{}"] {
            assert!(matches!(Register::of(damage), Register::Unreadable(_)), "{damage}");
        }
        for field in ["nonce", "members", "timing", "policy"] {
            let mut record = good.clone();
            record[field] = "damaged".into();
            assert!(
                matches!(Register::of(&record.to_string()), Register::Unreadable(_)),
                "{field}"
            );
        }
    }

    #[test]
    fn what_a_later_release_may_have_written_is_not_taken_for_damaged() {
        let mut record = written(version::LATEST + 1);
        record["policy"]["election"] = "Moody".into();
        assert!(matches!(Register::of(&record.to_string()), Register::View(_)));
        record["policy"]["arbiter"] = "Raft".into();
        assert!(matches!(Register::of(&record.to_string()), Register::Later(_)));
        let layout = serde_json::json!({ "version": RECORD_VERSION + 1 });
        assert!(matches!(Register::of(&layout.to_string()), Register::Later(_)));
    }

    #[test]
    fn fields_that_are_not_known_are_ignored() {
        let mut json = serde_json::to_value(lost_record(&lost(), 7)).expect("JSON");
        json["weather"] = "calm".into();
        json["policy"]["order"] = "FIFO".into();
        json["policy"]["locks"][0]["algorithm"] = "Bakery".into();
        assert!(serde_json::from_value::<RecordView>(json).is_ok());
    }
}

//! What is reported to people as Events: one for each change, none for what goes on.

use std::collections::BTreeSet;

use conclave_crds::{ConclaveStatus, DEFAULT_ELECTION, ElectionStatus, LeaderStatus, policy};
use conclave_protocols::policy::{ElectionAlgorithm, Timing, Topology};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use kube::runtime::events::{Event, EventType};

use crate::conditions;
use crate::observe::{MemberPod, Observed};
use crate::record::Loss;
use crate::relabelled::Relabelled;
use crate::status::{ACCEPTED, SERVICES_PRESENT, SIDECARS_PRESENT};

/// Something that happened to a group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Notice {
    /// A pod leads that did not before.
    LeaderChanged {
        /// The name of the pod.
        pod: String,
        /// Its UID.
        uid: String,
    },
    /// Nobody leads any more.
    LeaderLost {
        /// The name of the pod that led.
        pod: String,
        /// Its UID.
        uid: String,
    },
    /// A pod leads a named election that did not before, or leads it anew.
    LeaderElected {
        /// The name of the election.
        election: String,
        /// Who leads.
        leader: LeaderStatus,
        /// The fencing token of the lead.
        token: i64,
    },
    /// A member is new in the view.
    MemberJoined(MemberPod),
    /// A member is no longer in the view.
    MemberLeft(MemberPod),
    /// The members run the policy of another generation.
    PolicyChanged(i64),
    /// The specification is not understood.
    InvalidSpec(String),
    /// The name of an election's Service belongs to somebody else.
    NameTaken(String),
    /// The election of the leader sends too many messages for so many members.
    CostlyElection {
        /// How it is held.
        algorithm: ElectionAlgorithm,
        /// How many members the view has.
        members: i32,
    },
    /// A pod has the label and no sidecar.
    SidecarMissing(String),
    /// The label of a member's pod was changed or taken off: an Event of the pod.
    LabelChanged {
        /// Which pod, and its label.
        pod: Relabelled,
        /// The group that it is a member of.
        group: String,
    },
    /// The register of an earlier resource of the same name was taken over.
    RegisterTakenOver {
        /// What is waited for; nothing, if its members closed it in order.
        waits: Option<Timing>,
    },
    /// The record was lost, and a mark put in its place.
    RegisterLost {
        /// What became of it.
        loss: Loss,
        /// The waits that the mark says.
        waits: Timing,
    },
}

impl Notice {
    /// The Event that says so.
    pub fn event(&self, namespace: Option<String>) -> Event {
        let (type_, reason, action, note) = self.texts();
        Event {
            type_,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: Some(note),
            secondary: self.about().map(|(name, uid)| ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(name),
                namespace,
                uid: Some(uid),
                ..ObjectReference::default()
            }),
        }
    }

    fn texts(&self) -> (EventType, &'static str, &'static str, String) {
        use EventType::{Normal, Warning};
        match self {
            Self::LeaderChanged { pod, .. } => {
                (Normal, "LeaderChanged", "Elect", format!("{pod} leads"))
            }
            Self::LeaderLost { pod, .. } => {
                (Warning, "LeaderLost", "Elect", format!("{pod} does not lead any more"))
            }
            Self::LeaderElected { election, leader, token } => {
                let note = format!("{} leads `{election}` with token {token}", leader.pod);
                (Normal, "LeaderElected", "Elect", note)
            }
            Self::MemberJoined(member) => {
                (Normal, "MemberJoined", "Join", format!("{} joined", member.pod))
            }
            Self::MemberLeft(member) => {
                (Normal, "MemberLeft", "Leave", format!("{} left", member.pod))
            }
            Self::PolicyChanged(generation) => {
                let note = format!("the members run generation {generation}");
                (Normal, "PolicyChanged", "Switch", note)
            }
            Self::CostlyElection { algorithm, members } => {
                let note = format!(
                    "{members} members elect their leader by {}, which may send the square of that in messages and more: \
                     after a leader's death the group may be without one for half a minute. Above {MANY} members, set \
                     `algorithm: ChangRoberts` for the election `default`",
                    algorithm.name()
                );
                (Warning, "CostlyElection", "Elect", note)
            }
            Self::NameTaken(message) => (Warning, "NameTaken", "Publish", message.clone()),
            Self::InvalidSpec(message) => (Warning, "InvalidSpec", "Validate", message.clone()),
            Self::SidecarMissing(message) => (Warning, "SidecarMissing", "Inject", message.clone()),
            Self::LabelChanged { pod, group } => (Warning, "LabelChanged", "Join", pod.note(group)),
            Self::RegisterTakenOver { waits } => {
                (Normal, "RegisterTakenOver", "Restore", after_another(*waits))
            }
            Self::RegisterLost { loss, waits } => {
                (Warning, "RegisterLost", "Restore", after_a_loss(loss, *waits))
            }
        }
    }

    /// The pod it is about.
    fn about(&self) -> Option<(String, String)> {
        match self {
            Self::LeaderChanged { pod, uid } | Self::LeaderLost { pod, uid } => {
                Some((pod.clone(), uid.clone()))
            }
            Self::LabelChanged { pod, .. } => Some((pod.pod.clone(), pod.uid.clone())),
            Self::LeaderElected { leader, .. } => Some((leader.pod.clone(), leader.uid.clone())),
            Self::MemberJoined(member) | Self::MemberLeft(member) => {
                Some((member.pod.clone(), member.incarnation.pod.to_string()))
            }
            Self::PolicyChanged(_)
            | Self::CostlyElection { .. }
            | Self::InvalidSpec(_)
            | Self::NameTaken(_)
            | Self::SidecarMissing(_)
            | Self::RegisterTakenOver { .. }
            | Self::RegisterLost { .. } => None,
        }
    }
}

fn after_another(waits: Option<Timing>) -> String {
    let what = "there was a Conclave of this name before";
    match waits {
        None => format!(
            "{what}, whose members left in order: a member leads at once, and what was held ends as it would have"
        ),
        Some(waits) => format!(
            "{what}, and some of its members may not know that it is gone: there is a leader {:?} (apiOutage + leaderLease) \
             after a member first reads of it, and locks are granted {:?} (memberLease) later",
            waits.api_outage + waits.leader_lease,
            waits.member_lease
        ),
    }
}

fn after_a_loss(loss: &Loss, waits: Timing) -> String {
    let what = match loss {
        Loss::Deleted => "the Lease was deleted, and is made anew".to_owned(),
        Loss::Emptied => "the record was taken off the Lease".to_owned(),
        Loss::Unreadable(error) => format!("the record on the Lease cannot be read ({error})"),
    };
    let leader_lease = waits.api_outage + waits.leader_lease;
    format!(
        "{what}: a leader that lives puts its next view in its place at once, and nobody waits. If \
         none does, there is a leader {leader_lease:?} (apiOutage + leaderLease) after a member first reads \
         of it, and locks are granted {:?} (memberLease) later",
        waits.member_lease
    )
}

/// What happened between the status before and this one.
pub(crate) fn notices(observed: &Observed, after: &ConclaveStatus) -> Vec<Notice> {
    let before = observed.conclave.status.clone().unwrap_or_default();
    let mut notices = leader(&before, after);
    notices.extend(elected(&before, after));
    notices.extend(members(observed));
    if let (Some(from), Some(to)) = (before.policy_generation, after.policy_generation)
        && from != to
    {
        notices.push(Notice::PolicyChanged(to));
    }
    notices.extend(costly(observed, &before, after));
    let is_news = |pod: &&Relabelled| !observed.before.relabelled.contains(&pod.uid);
    let group = observed.conclave.name_any();
    let relabelled = observed.relabelled.iter().filter(is_news).cloned();
    notices.extend(relabelled.map(|pod| Notice::LabelChanged { pod, group: group.clone() }));
    notices.extend(turned_false(&before, after, ACCEPTED).map(Notice::InvalidSpec));
    notices.extend(turned_false(&before, after, SIDECARS_PRESENT).map(Notice::SidecarMissing));
    notices.extend(turned_false(&before, after, SERVICES_PRESENT).map(Notice::NameTaken));
    notices
}

/// The members of the view at present, if they are known.
pub(crate) fn present(observed: &Observed) -> Option<BTreeSet<MemberPod>> {
    let members = &observed.register.view().filter(|view| !view.base_unknown)?.members;
    let member = |view: &crate::record::MemberView| MemberPod {
        incarnation: view.incarnation,
        pod: view.name.clone(),
    };
    Some(members.iter().map(member).collect())
}

fn leader(before: &ConclaveStatus, after: &ConclaveStatus) -> Vec<Notice> {
    match (&before.leader, &after.leader) {
        (Some(before), None) => {
            vec![Notice::LeaderLost { pod: before.pod.clone(), uid: before.uid.clone() }]
        }
        (before, Some(after)) if before.as_ref() != Some(after) => {
            vec![Notice::LeaderChanged { pod: after.pod.clone(), uid: after.uid.clone() }]
        }
        (Some(_) | None, Some(_)) | (None, None) => Vec::new(),
    }
}

/// A group has grown, or has another policy, and elects its leader by an algorithm that is not for so many.
fn costly(observed: &Observed, before: &ConclaveStatus, after: &ConclaveStatus) -> Option<Notice> {
    let many = |status: &ConclaveStatus| status.members.filter(|members| *members > MANY);
    let is_news = many(before).is_none() || before.policy_generation != after.policy_generation;
    let (members, policy) = (many(after).filter(|_| is_news)?, policy(&observed.conclave).ok()?);
    let (algorithm, topology) = (policy.election, policy.topology);
    let is_costly = match algorithm {
        ElectionAlgorithm::Bully => true,
        // Zones have few links between them.
        ElectionAlgorithm::SpanningTree => topology == Topology::FullMesh,
        ElectionAlgorithm::Ring | ElectionAlgorithm::ChangRoberts => false,
    };
    is_costly.then_some(Notice::CostlyElection { algorithm, members })
}

/// More members than these had better elect by `ChangRoberts` (`docs/protocols.md`, "What limits a group").
const MANY: i32 = 50;

/// The leads of named elections that the status did not have. A token is given once, so what was announced is
/// not announced again, whichever replica acts.
fn elected(before: &ConclaveStatus, after: &ConclaveStatus) -> Vec<Notice> {
    let is_news = |election: &&ElectionStatus| {
        let known = before.elections.iter().find(|known| known.name == election.name);
        election.name != DEFAULT_ELECTION && known.is_none_or(|known| known.token != election.token)
    };
    let notice = |election: &ElectionStatus| {
        let (election, leader, token) =
            (election.name.clone(), election.leader.clone()?, election.token?);
        Some(Notice::LeaderElected { election, leader, token })
    };
    after.elections.iter().filter(is_news).filter_map(notice).collect()
}

/// Who joined and who left. Nothing, if this process has not seen the group before: it does not
/// know what was news.
fn members(observed: &Observed) -> Vec<Notice> {
    let (Some(before), Some(present)) = (&observed.before.members, present(observed)) else {
        return Vec::new();
    };
    let joined = present.difference(before).cloned().map(Notice::MemberJoined);
    let left = before.difference(&present).cloned().map(Notice::MemberLeft);
    joined.chain(left).collect()
}

/// The message of a condition that has become false.
fn turned_false(before: &ConclaveStatus, after: &ConclaveStatus, kind: &str) -> Option<String> {
    let is_false = |status: &ConclaveStatus| {
        conditions::find(&status.conditions, kind).is_some_and(|found| found.status == "False")
    };
    let found = conditions::find(&after.conditions, kind)?;
    (is_false(after) && !is_false(before)).then(|| found.message.clone())
}

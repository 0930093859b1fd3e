//! What a group does, as its status reports it.

use conclave_crds::{Conclave, ConclaveStatus, LeaderStatus, WaitsStatus, policy};
use conclave_protocols::ids::Epoch;
use conclave_protocols::policy::{Arbiter, Timing};

use crate::conditions::{self, Finding, Verdict};
use crate::observe::{Observed, PodSeen};
use crate::record::{RecordView, Register};
use crate::{elections, relabelled};

/// The specification is understood.
pub(crate) const ACCEPTED: &str = "Accepted";
/// Somebody leads.
pub(crate) const LEADER_ELECTED: &str = "LeaderElected";
/// The members run the policy that the specification asks for.
pub(crate) const POLICY_IN_FORCE: &str = "PolicyInForce";
/// All pods of the group have the sidecar.
pub(crate) const SIDECARS_PRESENT: &str = "SidecarsPresent";
/// All members have a pod with the label of the group. It is there only while that is not so.
pub(crate) const MEMBERS_LABELLED: &str = "MembersLabelled";
/// Every election that wants a Service has it.
pub(crate) const SERVICES_PRESENT: &str = "ServicesPresent";
/// The sum of the others.
pub(crate) const READY: &str = "Ready";

/// All of them.
pub(crate) const CONDITIONS: [&str; 7] = [
    READY,
    ACCEPTED,
    LEADER_ELECTED,
    POLICY_IN_FORCE,
    SIDECARS_PRESENT,
    MEMBERS_LABELLED,
    SERVICES_PRESENT,
];

/// The status of a group.
///
/// Epoch and ceiling never go back, and neither they nor the waits go away with the register: they
/// are what a lost register is made anew from.
pub(crate) fn status(observed: &Observed) -> ConclaveStatus {
    let before = observed.conclave.status.clone().unwrap_or_default();
    let view = observed.register.view();
    let members = view.map(|view| count(view.members.len()));
    let ready_members = view.map(|view| count(ready_members(view, &observed.pods)));
    let generation = observed.conclave.metadata.generation;
    let elections = elections::status(observed);
    let last = observed.register.last();
    ConclaveStatus {
        observed_generation: generation,
        policy_generation: in_use(&observed.register).or(before.policy_generation),
        epoch: number(observed, before.epoch, last.map(|(epoch, ..)| epoch)),
        ceiling: number(observed, before.ceiling, last.map(|(_, ceiling, _)| ceiling)),
        waits: last.map(|(.., timing)| waits(timing)).or(before.waits),
        leader: leader(observed)
            .map(|(pod, _)| LeaderStatus { pod: pod.name.clone(), uid: pod.uid.clone() }),
        members,
        ready_members,
        readiness: members.zip(ready_members).map(|(all, ready)| format!("{ready}/{all}")),
        leaders: elections::leaders(&elections),
        elections,
        authority: observed.authority.clone().or(before.authority),
        conditions: conditions::conditions(
            findings(observed),
            &before.conditions,
            generation,
            observed.now,
        ),
    }
}

/// The pod that leads and the view that says so. A record may name a leader whose pod is gone.
pub(crate) fn leader(observed: &Observed) -> Option<(&PodSeen, &RecordView)> {
    let view = observed.register.view().filter(|view| view.policy.arbiter == Arbiter::Quorum)?;
    let uid = view.leader?.pod.to_string();
    let pod = observed.pods.iter().find(|pod| pod.uid == uid && !pod.is_over)?;
    Some((pod, view))
}

/// The pods that should have a sidecar and have none.
pub(crate) fn without_sidecar(pods: &[PodSeen]) -> impl Iterator<Item = &PodSeen> {
    pods.iter().filter(|pod| !pod.has_sidecar && !pod.is_over)
}

fn findings(observed: &Observed) -> Vec<Finding> {
    let accepted = accepted(&observed.conclave);
    let elected = elected(observed);
    let in_force = in_force(&observed.conclave, &observed.register);
    let sidecars = sidecars(&observed.pods);
    let alive = alive(observed);
    let ready = ready(&[&accepted, &elected, &alive]);
    let mut findings = vec![ready, accepted, elected, in_force, sidecars];
    findings.extend(relabelled::condition(observed));
    findings.extend(elections::wants_services(&observed.conclave).then(|| services(observed)));
    findings
}

fn services(observed: &Observed) -> Finding {
    let taken = elections::taken(observed);
    if taken.is_empty() {
        let message = "every election that wants a Service has it";
        return finding(SERVICES_PRESENT, Verdict::True, "Present", message);
    }
    let names = some_of(taken.iter().map(String::as_str));
    let message = format!("these Services belong to somebody else, and are left alone: {names}");
    finding(SERVICES_PRESENT, Verdict::False, "NameTaken", message)
}

fn accepted(conclave: &Conclave) -> Finding {
    match policy(conclave) {
        Ok(_) => finding(ACCEPTED, Verdict::True, "Accepted", "the specification is understood"),
        Err(error) => finding(ACCEPTED, Verdict::False, "InvalidSpec", error.to_string()),
    }
}

fn elected(observed: &Observed) -> Finding {
    let no = |reason, message: &str| finding(LEADER_ELECTED, Verdict::False, reason, message);
    match &observed.register {
        Register::Absent => no("NoRegister", "the Lease of the group is being made"),
        Register::Foreign => {
            no("ForeignLease", "the Lease of this name was made for something else")
        }
        Register::Earlier(_) => {
            no("EarlierRegister", "the register of an earlier Conclave of this name is taken over")
        }
        Register::EarlierUnknown => no(
            "EarlierRecordUnknown",
            "there was a Conclave of this name before, whose record cannot be read, so nothing shows for how long its \
             members may lead and hold. Stop all of its pods, wait for its longest leases, and delete the Lease",
        ),
        Register::Empty if was_used(&observed.conclave) => {
            no("RecordMissing", "the Lease lost its record: a mark is put in its place")
        }
        Register::Empty => no("NoMembers", "no pod has joined the group"),
        Register::Unreadable(error) => {
            let message = format!("the record on the Lease cannot be read: {error}");
            finding(LEADER_ELECTED, Verdict::Unknown, "UnreadableRecord", message)
        }
        Register::Later(error) => {
            let message = format!("the record on the Lease is of a later release: {error}");
            finding(LEADER_ELECTED, Verdict::Unknown, "LaterRecord", message)
        }
        Register::View(view) => elected_in(view, observed),
    }
}

fn elected_in(view: &RecordView, observed: &Observed) -> Finding {
    if view.policy.arbiter == Arbiter::None {
        let message = "without an arbiter each member has its own view";
        return finding(LEADER_ELECTED, Verdict::Unknown, "LocalViews", message);
    }
    let no = |reason, message: &str| finding(LEADER_ELECTED, Verdict::False, reason, message);
    match (leader(observed), view.leader) {
        _ if view.closing => no("Closing", "all promises of the last view are waited for"),
        (Some((pod, _)), _) => {
            let message = format!("{} leads", pod.name);
            finding(LEADER_ELECTED, Verdict::True, "LeaderElected", message)
        }
        (None, Some(_)) => no("LeaderLost", "the pod that led is gone"),
        (None, None) => no("NoMembers", "all members have left"),
    }
}

fn in_force(conclave: &Conclave, register: &Register) -> Finding {
    let wanted = conclave.metadata.generation.unwrap_or_default();
    match in_use(register) {
        None => finding(POLICY_IN_FORCE, Verdict::Unknown, "NoView", "no members are known"),
        Some(runs) if runs == wanted => {
            let message = format!("the members run generation {runs}");
            finding(POLICY_IN_FORCE, Verdict::True, "InForce", message)
        }
        Some(runs) => {
            let message =
                format!("the members run generation {runs}, generation {wanted} is wanted");
            finding(POLICY_IN_FORCE, Verdict::False, "Pending", message)
        }
    }
}

/// The generation of the policy that members run. A record without members is nobody's policy.
fn in_use(register: &Register) -> Option<i64> {
    let view = register.view().filter(|view| !view.members.is_empty())?;
    Some(view.policy.generation)
}

fn sidecars(pods: &[PodSeen]) -> Finding {
    let names: Vec<_> = without_sidecar(pods).map(|pod| pod.name.as_str()).collect();
    if names.is_empty() {
        let message = "every pod of the group has the sidecar";
        return finding(SIDECARS_PRESENT, Verdict::True, "Present", message);
    }
    let message = format!("pods without the sidecar of this group: {}", some_of(names.into_iter()));
    finding(SIDECARS_PRESENT, Verdict::False, "SidecarMissing", message)
}

/// A record names its members long after they are gone. One that is ready is enough: an application may
/// want to be ready only where it leads.
fn alive(observed: &Observed) -> Finding {
    let view = observed.register.view().filter(|view| !view.members.is_empty());
    match view {
        Some(view) if ready_members(view, &observed.pods) == 0 => {
            let message = format!("none of the {} members is ready", view.members.len());
            finding(READY, Verdict::False, "NoReadyMembers", message)
        }
        Some(_) | None => finding(READY, Verdict::True, "Ready", ""),
    }
}

/// The first finding that is false, or the first that is unknown, speaks for all.
fn ready(parts: &[&Finding]) -> Finding {
    let with = |verdict| parts.iter().find(|finding| finding.verdict == verdict);
    match with(Verdict::False).or_else(|| with(Verdict::Unknown)) {
        Some(part) => finding(READY, part.verdict, part.reason, part.message.clone()),
        None => finding(READY, Verdict::True, "Ready", "the group has a leader"),
    }
}

/// The group had a view at some time.
pub(crate) fn was_used(conclave: &Conclave) -> bool {
    conclave.status.as_ref().and_then(|status| status.epoch).is_some_and(|epoch| epoch > 0)
}

fn ready_members(view: &RecordView, pods: &[PodSeen]) -> usize {
    let is_ready = |uid: String| pods.iter().any(|pod| pod.uid == uid && pod.is_ready);
    view.members.iter().filter(|member| is_ready(member.incarnation.pod.to_string())).count()
}

fn waits(timing: &Timing) -> WaitsStatus {
    WaitsStatus {
        leader_lease: timing.leader_lease.into(),
        member_lease: timing.member_lease.into(),
        api_outage: timing.api_outage.into(),
    }
}

/// The highest number that was ever seen, that of an earlier resource of this name too. There is one from just before
/// the register is created or taken over: not yet, while a Lease of somebody else is in its place. An earlier register that
/// nothing is known of counts as one: if a person deletes it too early, the group waits.
fn number(observed: &Observed, before: Option<i64>, seen: Option<Epoch>) -> Option<i64> {
    if before.is_none() && observed.register == Register::Foreign {
        return None;
    }
    let seen = seen.map_or(0, |seen| i64::try_from(seen.0).unwrap_or(i64::MAX));
    Some(before.unwrap_or(0).max(seen))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn finding(
    kind: &'static str,
    verdict: Verdict,
    reason: &'static str,
    message: impl Into<String>,
) -> Finding {
    debug_assert!(CONDITIONS.contains(&kind), "{kind} is in no metric");
    Finding { kind, verdict, reason, message: message.into() }
}

/// The first of these names, and how many more there are.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let few = names.take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { few } else { format!("{few} and {more} more") }
}

/// How many pods a message names.
const NAMES_MAX: usize = 3;

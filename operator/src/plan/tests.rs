use conclave_crds::{Conclave, ConclaveSpec, LeaderStatus, Period};
use conclave_protocols::ids::{Epoch, Incarnation, PodUid};
use conclave_protocols::policy::{Arbiter, Timing};
use conclave_protocols::record::Record;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::*;
use crate::conditions;
use crate::elections::Published;
use crate::observe::{Before, Children, MemberPod};
use crate::record::{MemberView, PolicyView, RecordView};

mod earlier;
mod in_force;
mod published;

/// A group of three pods that has settled: `a` leads.
fn settled() -> Observed {
    let mut conclave = Conclave::new("orders", ConclaveSpec::default());
    conclave.metadata.namespace = Some("shop".to_owned());
    conclave.metadata.uid = Some("group-uid".to_owned());
    conclave.metadata.generation = Some(1);
    let pods = vec![pod("a", 1), pod("b", 2), pod("c", 3)];
    let mut observed = Observed {
        register: Register::View(view(17, Some(1))),
        lease: Some(objects::new_lease(&conclave)),
        nonce: 7,
        children: Children {
            service: Some(objects::service(&conclave)),
            role: Some(objects::role(&conclave)),
            role_binding: Some(objects::role_binding(&conclave, &accounts(&pods))),
            published: Published::default(),
        },
        conclave,
        pods,
        relabelled: Vec::new(),
        before: Before::default(),
        authority: None,
        now: Timestamp::UNIX_EPOCH,
    };
    observed.conclave.status = Some(status::status(&observed));
    observed.before.members = crate::notices::present(&observed);
    observed
}

fn pod(name: &str, uid: u128) -> PodSeen {
    PodSeen {
        name: name.to_owned(),
        uid: PodUid(uid).to_string(),
        service_account: "till".to_owned(),
        is_ready: true,
        is_over: false,
        has_sidecar: true,
    }
}

fn incarnation(pod: u128) -> Incarnation {
    Incarnation { pod: PodUid(pod), run: 7 }
}

fn view(epoch: u64, leader: Option<u128>) -> RecordView {
    let member = |(name, uid): (&str, u128)| MemberView {
        incarnation: incarnation(uid),
        name: name.to_owned(),
    };
    RecordView {
        epoch: Epoch(epoch),
        ceiling: Epoch(epoch + 15),
        members: [("a", 1), ("b", 2), ("c", 3)].map(member).into(),
        leader: leader.map(incarnation),
        closing: false,
        base_unknown: false,
        timing: Timing::default(),
        policy: PolicyView { generation: 1, arbiter: Arbiter::Quorum },
    }
}

/// The status that a plan sets.
fn new_status(changes: &[Change]) -> ConclaveStatus {
    let status = changes.iter().find_map(|change| match change {
        Change::SetStatus(status) => Some(status.as_ref().clone()),
        Change::ApplyService(_)
        | Change::ApplyRole(_)
        | Change::ApplyRoleBinding(_)
        | Change::SetAuthority(_)
        | Change::CreateLease(_)
        | Change::MarkLease(_)
        | Change::TakeOverLease(_)
        | Change::ApplySlice(_)
        | Change::EmptySlice(_)
        | Change::DeleteService(_)
        | Change::DeleteSlice(_)
        | Change::Announce(_) => None,
    });
    status.expect("the status changes")
}

/// Status and reason of one condition.
fn condition(status: &ConclaveStatus, kind: &str) -> (String, String) {
    let found = conditions::find(&status.conditions, kind).expect("the condition is there");
    (found.status.clone(), found.reason.clone())
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// The names of the changes, without their details.
fn names(changes: &[Change]) -> Vec<&'static str> {
    let name = |change: &Change| match change {
        Change::SetAuthority(_) => "authority",
        Change::ApplyService(_) => "service",
        Change::ApplyRole(_) => "role",
        Change::ApplyRoleBinding(_) => "role binding",
        Change::SetStatus(_) => "status",
        Change::CreateLease(_) => "lease",
        Change::MarkLease(_) => "mark",
        Change::TakeOverLease(_) => "take over",
        Change::ApplySlice(_) => "slice",
        Change::EmptySlice(_) => "empty",
        Change::DeleteService(_) => "delete service",
        Change::DeleteSlice(_) => "delete slice",
        Change::Announce(_) => "announce",
    };
    changes.iter().map(name).collect()
}

/// The group with another register.
fn with(register: Register) -> Observed {
    let lease = settled().lease.filter(|_| register != Register::Absent);
    Observed { register, lease, ..settled() }
}

/// The record on the Lease that a plan creates, marks or takes over; `None` if it has none.
fn created_record(changes: &[Change]) -> Option<Record> {
    let lease = changes.iter().find_map(|change| match change {
        Change::CreateLease(lease) | Change::MarkLease(lease) | Change::TakeOverLease(lease) => {
            Some(lease)
        }
        Change::SetAuthority(_)
        | Change::ApplyService(_)
        | Change::ApplyRole(_)
        | Change::ApplyRoleBinding(_)
        | Change::SetStatus(_)
        | Change::ApplySlice(_)
        | Change::EmptySlice(_)
        | Change::DeleteService(_)
        | Change::DeleteSlice(_)
        | Change::Announce(_) => None,
    });
    let annotations = lease.expect("a Lease is created").metadata.annotations.as_ref()?;
    let text = annotations.get(conclave_crds::RECORD_ANNOTATION)?;
    Some(serde_json::from_str(text).expect("the members can read it"))
}

#[test]
fn a_group_that_has_settled_needs_nothing() {
    assert_eq!(plan(&settled()), []);
}

#[test]
fn a_new_group_gets_everything_and_its_epoch_before_its_register() {
    let mut observed = with(Register::Absent);
    observed.conclave.status = None;
    observed.children = Children::default();
    observed.pods = Vec::new();
    observed.before.members = None;
    let changes = plan(&observed);
    let expected = ["service", "role", "role binding", "status", "lease"];
    assert_eq!(names(&changes), expected);
    assert_eq!(new_status(&changes).epoch, Some(0));
    assert_eq!(created_record(&changes), None);
}

#[test]
fn a_register_that_is_missing_although_there_is_an_epoch_was_lost() {
    let mut observed = with(Register::Absent);
    observed.conclave.spec.timing.member_lease = Period::new("30s");
    let changes = plan(&observed);
    assert_eq!(names(&changes)[1..3], ["lease", "announce"]);
    let record = created_record(&changes).expect("a record");
    assert!(record.base_unknown && record.closing);
    assert_eq!((record.epoch, record.ceiling, record.nonce), (Epoch(17), Epoch(32), 7));
    assert_eq!(record.timing.member_lease.as_secs(), 30);
    let note = lost_note(&changes);
    assert!(note.starts_with("the Lease was deleted, and is made anew: "), "{note}");
    assert!(
        note.contains(" 61.5s (apiOutage + leaderLease) ") && note.contains(" 30s (memberLease)")
    );
}

/// What is reported to people of a loss.
fn lost_note(changes: &[Change]) -> String {
    let note = |change: &Change| {
        let Change::Announce(notice @ Notice::RegisterLost { .. }) = change else { return None };
        notice.event(None).note
    };
    let note = changes.iter().find_map(note);
    note.expect("the loss is announced")
}

#[test]
fn a_mark_is_put_in_the_place_of_a_record_that_is_gone_or_cannot_be_read() {
    let unreadable = Register::Unreadable("cut off".to_owned());
    for (register, what) in [(Register::Empty, "taken off"), (unreadable, "read (cut off): ")] {
        let mut observed = with(register);
        let lease = observed.lease.as_mut().expect("there is one");
        lease.metadata.resource_version = Some("12".to_owned());
        lease.annotations_mut().insert("example.org/by".to_owned(), "hand".to_owned());
        let changes = plan(&observed);
        let Some(Change::MarkLease(marked)) = changes.get(1) else { panic!("{changes:?}") };
        assert_eq!(marked.metadata.resource_version.as_deref(), Some("12"), "and nothing newer");
        assert_eq!(marked.annotations()["example.org/by"], "hand");
        let record = created_record(&changes).expect("a record");
        assert!(record.base_unknown && record.closing && record.nonce == 7);
        assert_eq!((record.epoch, record.ceiling), (Epoch(17), Epoch(32)));
        assert!(lost_note(&changes).contains(what));
    }
}

#[test]
fn a_register_that_vanished_before_the_first_view_was_lost_too() {
    let mut observed = with(Register::Absent);
    observed.conclave.status = Some(ConclaveStatus { epoch: Some(0), ..ConclaveStatus::default() });
    assert!(created_record(&plan(&observed)).is_some());
}

#[test]
fn the_lease_of_somebody_else_is_waited_out() {
    let mut observed = settled();
    observed.register = Register::Foreign;
    observed.conclave.status = None;
    let changes = plan(&observed);
    assert_eq!(names(&changes), ["status"]);
    let status = new_status(&changes);
    assert_eq!(status.epoch, None, "there was no register yet");
    assert_eq!(condition(&status, status::LEADER_ELECTED), is("False", "ForeignLease"));
}

#[test]
fn a_register_that_was_not_lost_is_never_written() {
    let written = |observed: &Observed| {
        names(&plan(observed)).iter().any(|name| ["lease", "mark", "take over"].contains(name))
    };
    for register in [
        Register::Foreign,
        Register::Later("no such arbiter".to_owned()),
        Register::View(view(90, None)),
        Register::View(RecordView { base_unknown: true, closing: true, ..view(90, None) }),
    ] {
        assert!(!written(&with(register)));
    }
    let mut unused = with(Register::Empty);
    unused.conclave.status = Some(ConclaveStatus { epoch: Some(0), ..ConclaveStatus::default() });
    assert!(!written(&unused), "no member was there yet");
}

#[test]
fn another_leader_is_announced_after_the_status_has_it() {
    let observed = Observed { register: Register::View(view(18, Some(2))), ..settled() };
    let changes = plan(&observed);
    let announced = Notice::LeaderChanged { pod: "b".to_owned(), uid: PodUid(2).to_string() };
    assert_eq!(changes[1..], [Change::Announce(announced)]);
    let status = new_status(&changes);
    assert_eq!((status.epoch, status.ceiling), (Some(18), Some(33)));
    let leader = LeaderStatus { pod: "b".to_owned(), uid: PodUid(2).to_string() };
    assert_eq!(status.leader, Some(leader));
}

#[test]
fn a_leader_whose_pod_is_gone_is_none() {
    let mut observed = settled();
    observed.pods.remove(0);
    let changes = plan(&observed);
    let status = new_status(&changes);
    assert_eq!(status.leader, None);
    assert_eq!(condition(&status, status::LEADER_ELECTED), is("False", "LeaderLost"));
    assert_eq!(condition(&status, status::READY), is("False", "LeaderLost"));
    assert_eq!(status.readiness.as_deref(), Some("2/3"));
    let lost = Notice::LeaderLost { pod: "a".to_owned(), uid: PodUid(1).to_string() };
    assert!(changes.contains(&Change::Announce(lost)));
}

#[test]
fn a_group_none_of_whose_members_is_ready_is_not_ready() {
    let mut observed = settled();
    observed.pods.iter_mut().for_each(|pod| pod.is_ready = false);
    let status = new_status(&plan(&observed));
    assert_eq!(status.readiness.as_deref(), Some("0/3"));
    assert_eq!(condition(&status, status::READY), is("False", "NoReadyMembers"));
    observed.pods[1].is_ready = true;
    assert_eq!(condition(&status::status(&observed), status::READY), is("True", "Ready"));
}

#[test]
fn the_epoch_never_goes_back() {
    let mut observed = settled();
    observed.register = Register::View(view(3, Some(1)));
    observed.conclave.metadata.generation = Some(2);
    let status = new_status(&plan(&observed));
    assert_eq!((status.epoch, status.ceiling), (Some(17), Some(32)));
}

#[test]
fn epoch_and_waits_outlive_the_register() {
    let observed = with(Register::Absent);
    let status = new_status(&plan(&observed));
    assert_eq!((status.epoch, status.ceiling), (Some(17), Some(32)));
    assert_eq!(status.waits, settled().conclave.status.and_then(|status| status.waits));
    assert_eq!((status.members, status.leader), (None, None));
}

#[test]
fn a_wrong_specification_is_reported_once() {
    let mut observed = settled();
    observed.conclave.spec.timing.heartbeat = Period::new("1s");
    let changes = plan(&observed);
    assert_eq!(names(&changes), ["status", "announce"]);
    let status = new_status(&changes);
    assert_eq!(condition(&status, status::ACCEPTED), is("False", "InvalidSpec"));
    assert_eq!(condition(&status, status::READY), is("False", "InvalidSpec"));
    observed.conclave.status = Some(status);
    assert_eq!(plan(&observed), []);
}

#[test]
fn a_pod_without_the_sidecar_is_reported_by_name() {
    let mut observed = settled();
    observed.pods.push(PodSeen { has_sidecar: false, ..pod("bare", 9) });
    let changes = plan(&observed);
    assert_eq!(names(&changes), ["status", "announce"]);
    let status = new_status(&changes);
    let found =
        conditions::find(&status.conditions, status::SIDECARS_PRESENT).expect("it is there");
    assert_eq!(found.message, "pods without the sidecar of this group: bare");
    assert_eq!(condition(&status, status::READY), is("True", "Ready"), "the members are fine");
}

#[test]
fn the_role_goes_to_the_accounts_of_the_pods() {
    let mut observed = settled();
    observed.pods[1].service_account = "desk".to_owned();
    observed.pods[2].service_account = "done".to_owned();
    observed.pods[2].is_over = true;
    let expected = objects::role_binding(
        &observed.conclave,
        &BTreeSet::from(["desk", "till"].map(Into::into)),
    );
    assert!(plan(&observed).contains(&Change::ApplyRoleBinding(Box::new(expected))));
}

#[test]
fn a_child_that_somebody_changed_is_put_right() {
    let mut observed = settled();
    if let Some(spec) = observed.children.service.as_mut().and_then(|s| s.spec.as_mut()) {
        spec.publish_not_ready_addresses = Some(false);
    }
    observed.children.role = None;
    assert_eq!(names(&plan(&observed)), ["service", "role"]);
}

#[test]
fn those_who_come_and_go_are_announced() {
    let mut observed = settled();
    let gone = MemberPod { incarnation: incarnation(9), pod: "z".to_owned() };
    let here = |pod: &str, uid| MemberPod { incarnation: incarnation(uid), pod: pod.to_owned() };
    observed.before.members = Some(BTreeSet::from([here("a", 1), here("b", 2), gone.clone()]));
    let joined = Change::Announce(Notice::MemberJoined(here("c", 3)));
    assert_eq!(plan(&observed), [joined, Change::Announce(Notice::MemberLeft(gone))]);
}

#[test]
fn a_replica_that_has_just_begun_does_not_announce_old_members() {
    let observed = Observed { before: Before::default(), ..settled() };
    assert_eq!(plan(&observed), []);
}

#[test]
fn a_closing_view_has_no_say() {
    let mut observed = settled();
    if let Register::View(view) = &mut observed.register {
        view.closing = true;
    }
    let status = new_status(&plan(&observed));
    assert_eq!(condition(&status, status::LEADER_ELECTED), is("False", "Closing"));
}

#[test]
fn without_an_arbiter_nobody_is_the_leader_for_all() {
    let mut observed = settled();
    if let Register::View(view) = &mut observed.register {
        view.policy.arbiter = Arbiter::None;
    }
    let changes = plan(&observed);
    let status = new_status(&changes);
    assert_eq!(condition(&status, status::LEADER_ELECTED), is("Unknown", "LocalViews"));
}

#[test]
fn a_register_without_its_record_is_reported() {
    let observed = Observed { register: Register::Empty, ..settled() };
    let status = new_status(&plan(&observed));
    assert_eq!(condition(&status, status::LEADER_ELECTED), is("False", "RecordMissing"));
}

#[test]
fn a_resource_that_is_being_deleted_is_left_alone() {
    let mut observed = settled();
    observed.children = Children::default();
    observed.conclave.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(plan(&observed), []);
}

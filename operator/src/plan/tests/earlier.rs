//! A group that is made anew under the name of one that was deleted.

use conclave_crds::GROUP_UID_ANNOTATION;
use conclave_protocols::policy::{Evidence, Policy};
use k8s_openapi::api::coordination::v1::Lease;

use super::*;

/// A record of the group before, which nobody or somebody leads.
fn record(leader: Option<u128>) -> Record {
    let policy = Policy { generation: 9, evidence: Evidence::ContainerStatus, ..Policy::default() };
    let timing = Timing { member_lease: Timing::default().member_lease * 3, ..Timing::default() };
    Record {
        epoch: Epoch(90),
        ceiling: Epoch(105),
        leader: leader.map(incarnation),
        base_unknown: false,
        closing: false,
        timing,
        policy,
        ..lost_record(&settled().conclave, 3)
    }
}

/// A group that was just made, and the Lease that it finds.
fn found(lease: Option<Lease>) -> Observed {
    let mut observed = settled();
    observed.conclave.metadata.uid = Some("later-uid".to_owned());
    observed.conclave.status = None;
    observed.register = Register::read(lease.as_ref(), &observed.conclave);
    Observed { lease, ..observed }
}

/// The register of the group before, with that on it.
fn earlier(text: Option<String>) -> Lease {
    let mut lease = settled().lease.expect("there is one");
    assert_eq!(lease.owner_references(), [], "it is not deleted with its resource");
    lease.metadata.resource_version = Some("12".to_owned());
    let text = text.map(|text| (conclave_crds::RECORD_ANNOTATION.to_owned(), text));
    lease.annotations_mut().extend(text);
    lease
}

fn taken_over(changes: &[Change]) -> &Lease {
    let lease = changes.iter().find_map(|change| {
        if let Change::TakeOverLease(lease) = change { Some(lease) } else { None }
    });
    lease.expect("it is taken over")
}

#[test]
fn a_group_that_is_made_anew_goes_on_from_the_register_of_the_one_before() {
    for leader in [None, Some(1)] {
        let before = record(leader);
        let observed = found(Some(earlier(Some(crate::record::text(&before)))));
        let changes = plan(&observed);
        let order = names(&changes);
        let at = |name| order.iter().position(|other| *other == name).expect(name);
        assert!(at("status") < at("take over"), "{order:?}");
        let status = new_status(&changes);
        assert_eq!((status.epoch, status.ceiling), (Some(90), Some(105)));
        assert_eq!(status.waits.expect("waits").member_lease, Period::new("30s"));
        let lease = taken_over(&changes);
        assert_eq!(lease.annotations()[GROUP_UID_ANNOTATION], "later-uid");
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("12"));
        let after = created_record(&changes).expect("a record");
        // Its policy is older than any of the new resource, and with a leader all promises are waited for.
        let policy = Policy { generation: 0, ..before.policy.clone() };
        assert_eq!(after, Record { policy, closing: leader.is_some(), ..before });
    }
}

#[test]
fn a_pod_that_waits_for_the_group_before_is_notified_of_it() {
    let note = |leader| {
        let changes = plan(&found(Some(earlier(Some(crate::record::text(&record(leader)))))));
        let notice = changes.iter().find_map(|change| {
            let Change::Announce(notice) = change else { return None };
            matches!(notice, Notice::RegisterTakenOver { .. }).then(|| notice.event(None))
        });
        notice.and_then(|event| event.note).expect("it is announced")
    };
    assert!(note(None).contains("whose members left in order"), "{}", note(None));
    let waits = note(Some(1));
    assert!(waits.contains(" 61.5s (apiOutage + leaderLease) "), "{waits}");
    assert!(waits.contains(" 30s (memberLease) later"), "{waits}");
}

#[test]
fn a_register_that_no_member_used_is_taken_over_as_it_is() {
    let changes = plan(&found(Some(earlier(None))));
    assert_eq!(new_status(&changes).epoch, Some(0));
    assert_eq!(taken_over(&changes).annotations().get(conclave_crds::RECORD_ANNOTATION), None);
}

/// With the record, the longest leases that may still run are lost.
#[test]
fn a_register_that_was_used_and_has_no_record_that_can_be_read_is_left_to_a_person() {
    let mut used = earlier(None);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::UNIX_EPOCH);
    used.spec.get_or_insert_default().renew_time = Some(now);
    let later = crate::record::text(&record(None)).replace("\"version\":1,", "\"version\":2,");
    for lease in [used, earlier(Some("{".to_owned())), earlier(Some(later))] {
        let changes = plan(&found(Some(lease)));
        assert!(!names(&changes).contains(&"take over"), "{changes:?}");
        let status = new_status(&changes);
        let elected = status.conditions.iter().find(|one| one.type_ == "LeaderElected");
        assert_eq!(elected.expect("a condition").reason, "EarlierRecordUnknown");
    }
}

#[test]
fn a_lease_that_was_made_for_no_group_stays() {
    let mut lease = earlier(None);
    lease.annotations_mut().clear();
    assert_eq!(found(Some(lease)).register, Register::Foreign);
    assert_eq!(found(None).register, Register::Absent);
}

//! Members and views for tests that care for a part of them alone.

use conclave_protocols::policy::{Policy, Timing};
use conclave_protocols::record::{MemberInfo, RECORD_VERSION, Record};
use conclave_protocols::{Epoch, Incarnation};

/// A member in no zone, without an address.
pub(crate) fn member(incarnation: Incarnation, name: &str) -> MemberInfo {
    MemberInfo {
        incarnation,
        name: name.to_owned(),
        addresses: Vec::new(),
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 1,
        protocol: (1, 1),
    }
}

/// A view that has settled, without a leader, by the usual policy.
pub(crate) fn view(members: Vec<MemberInfo>) -> Record {
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(4),
        ceiling: Epoch(7),
        members,
        leader: None,
        settled: true,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(0)),
        held: None,
        timing: Timing::default(),
        longest_leader_lease: Timing::default().leader_lease,
        policy: Policy::default(),
        nonce: 0,
    }
}

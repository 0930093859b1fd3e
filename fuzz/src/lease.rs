//! The annotation of a group's Lease, which anybody may edit who may edit Leases.

use std::collections::BTreeMap;

use conclave_crds::{Conclave, ConclaveSpec, RECORD_ANNOTATION};
use conclave_operator::record::Register;
use conclave_protocols::record::Record;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::frame::Pod;

/// What a member reads the operator reads too, and the same; a member lives on with any record.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let register = Register::read(Some(&lease(text)), &conclave());
    let Ok(record) = serde_json::from_str::<Record>(text) else { return };
    let seen = register.view().expect("the operator reads what members read");
    assert_eq!((seen.epoch, seen.ceiling), (record.epoch, record.ceiling));
    assert_eq!((seen.leader, seen.timing), (record.leader, record.timing));
    assert!(seen.members.iter().map(|member| member.incarnation).eq(record.incarnations()));
    let written = serde_json::to_string(&record).expect("a record is JSON");
    assert_eq!(serde_json::from_str::<Record>(&written).ok().as_ref(), Some(&record));
    Pod::begin(Some(record)).live();
}

fn lease(text: &str) -> Lease {
    let mut lease = Lease::default();
    let owner = OwnerReference { uid: UID.to_owned(), ..OwnerReference::default() };
    lease.metadata.owner_references = Some(vec![owner]);
    let record = (RECORD_ANNOTATION.to_owned(), text.to_owned());
    lease.metadata.annotations = Some(BTreeMap::from([record]));
    lease
}

fn conclave() -> Conclave {
    let mut conclave = Conclave::new("orders", ConclaveSpec::default());
    conclave.metadata.uid = Some(UID.to_owned());
    conclave
}

const UID: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";

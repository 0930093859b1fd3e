//! The annotation of a group's Lease, which anybody may edit who may edit Leases.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_crds::{Conclave, ConclaveSpec, GROUP_UID_ANNOTATION, RECORD_ANNOTATION};
use conclave_operator::record::Register;
use conclave_protocols::member::message::Message;
use conclave_protocols::member::{Event, Member, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::protocol::Outbox;
use conclave_protocols::record::Record;
use conclave_protocols::register::{self, Value, Version};
use conclave_protocols::{Effect, Epoch, Input, LocalTime, Protocol};
use k8s_openapi::api::coordination::v1::Lease;

use crate::frame::{Pod, member};

/// What a member reads the operator reads too, and the same; a member lives on with any record, and
/// takes a view that is marked as closing for no confirmation.
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
    assert!(!(record.closing && is_confirmed(&record)), "a promise would outlast {text}");
    Pod::begin(Some(record)).live();
}

/// Whether a member that has just started takes this for a confirmation of the view, after its first
/// look at the register: it may promise by that to follow a leader, for `apiOutage`.
fn is_confirmed(record: &Record) -> bool {
    let mut starting = Member::new(member(1), Policy::default(), Epoch(0));
    let now = LocalTime::default().after(Duration::from_hours(1));
    let mut out = Outbox::default();
    starting.start(now, &mut out);
    let asked = out.drain().find_map(|effect| match effect {
        Effect::Send { message: Message::Register(register::Message::Read(id)), .. } => Some(id),
        Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => None,
    });
    let id = asked.expect("who starts looks at the register");
    let version = Version("1".to_owned());
    let value = Value { version, record: Some(record.clone()), time_term: Epoch(0) };
    let message = Message::Register(register::Message::Value { id, value: Box::new(value) });
    let mut out = Outbox::default();
    starting.handle(now, Input::Message { from: Node::Register, message }, &mut out);
    out.drain().any(|effect| matches!(effect, Effect::Tell(Event::Confirmed(_))))
}

fn lease(text: &str) -> Lease {
    let mut lease = Lease::default();
    let owner = (GROUP_UID_ANNOTATION.to_owned(), UID.to_owned());
    let record = (RECORD_ANNOTATION.to_owned(), text.to_owned());
    lease.metadata.annotations = Some(BTreeMap::from([owner, record]));
    lease
}

fn conclave() -> Conclave {
    let mut conclave = Conclave::new("orders", ConclaveSpec::default());
    conclave.metadata.uid = Some(UID.to_owned());
    conclave
}

const UID: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn the_seeds_are_a_view_that_is_confirmed_and_one_that_is_not() {
        let is_confirmed = |(_, seed): (_, Vec<u8>)| {
            let record: Record = serde_json::from_slice(&seed).expect("a record");
            assert_eq!(is_confirmed(&record), !record.closing);
            record.closing
        };
        let seeds = seeds::of("lease").expect("seeds").into_iter();
        let mut closing: Vec<_> = seeds.map(is_confirmed).collect();
        closing.sort_unstable();
        assert_eq!(closing, [false, true]);
    }
}

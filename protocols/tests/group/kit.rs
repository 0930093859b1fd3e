//! The members that these tests are about: those of the product.

use conclave_protocols::Epoch;
pub(crate) use conclave_protocols::member::message::Message;
use conclave_protocols::member::message::{
    Admission, Announced, Announcement, Heartbeat, PeerMessage, Table,
};
pub(crate) use conclave_protocols::member::{Command, Event, Member, Timer};

/// What somebody sends that begins to lead a view.
pub(crate) fn heartbeat_of(epoch: Epoch, record: Announced) -> PeerMessage {
    PeerMessage::Heartbeat(Box::new(Heartbeat {
        epoch,
        seq: 1,
        admission: Admission { open: false, ceiling: epoch, full: false },
        list: None,
        listed: 0,
        extended: None,
        announcement: Some(Box::new(Announcement { record, carried: Table::default() })),
    }))
}

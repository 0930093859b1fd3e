//! The members that these tests are about: those of the product.

pub(crate) use conclave_protocols::member::message::Message;
pub(crate) use conclave_protocols::member::{Command, Event, Member, Timer};

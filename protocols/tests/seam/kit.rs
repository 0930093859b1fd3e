//! The members that these tests are about: the core of the product, with another service.

use conclave_protocols::core;
use conclave_protocols::election::{self, AnyElection};

use crate::line::{Line, LineMessage};

pub(crate) type Member = core::Member<Line, AnyElection>;
pub(crate) type Message = core::message::Message<LineMessage, election::AnyMessage>;
pub(crate) use conclave_protocols::member::{Command, Event, Timer};

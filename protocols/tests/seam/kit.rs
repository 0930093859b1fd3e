//! The members that these tests are about: the core of the product, with another service.

use conclave_protocols::core;
use conclave_protocols::election::{self, AnyElection};

use crate::line::{Line, Said};

pub(crate) type Member = core::Member<Line, AnyElection>;
pub(crate) type Message = core::message::Message<Said, election::AnyMessage>;
pub(crate) use conclave_protocols::member::{Command, Event, Timer};

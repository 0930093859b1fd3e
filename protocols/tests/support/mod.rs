//! What the laws and the worked examples run protocols in.
//!
//! - [`world`]: a group whose every interleaving is searched, with crashes and timers. A family of
//!   algorithms brings its [`world::Laws`]; an algorithm brings nothing.
//! - [`endless`]: whether any run of a model goes on for ever.
//! - [`walk`]: one run, in which every message takes equally long and is counted.
//! - [`graph`]: who is whose neighbour.

#![allow(dead_code, unreachable_pub, reason = "every test uses its part of it")]

pub mod endless;
pub mod graph;
pub mod walk;
pub mod world;

use std::fmt::Debug;
use std::hash::Hash;

use conclave_protocols::{MemberId, Protocol};

/// A protocol that can be searched: its state can be copied, compared, remembered and shared
/// between threads, and so can its parts.
pub trait Subject:
    Protocol<Peer = MemberId, Command: Part, Message: Part, Timer: Part, Event: Part> + Part
{
}

impl<P> Subject for P where
    P: Protocol<Peer = MemberId, Command: Part, Message: Part, Timer: Part, Event: Part> + Part
{
}

/// What a searched state is made of.
pub trait Part: Clone + Debug + Eq + Hash + Send + Sync + 'static {}
impl<T: Clone + Debug + Eq + Hash + Send + Sync + 'static> Part for T {}

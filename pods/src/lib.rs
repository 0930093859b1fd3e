//! What a pod of a group has, as the sidecar, the operator and the command `conclave inject` agree on: the
//! sidecar's container ([`inject`]), and the name in its certificate ([`PeerId`]).

pub mod health;
pub mod inject;
mod peer_id;

pub use peer_id::{PeerId, PeerIdError};

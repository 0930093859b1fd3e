//! What the targets of the crate `fuzz` need of the sidecar. No part of the product.

mod api;
mod peer;

pub use api::PlayedApi;
pub use peer::{conversation, framed, greeting, relay};

use bytes::Bytes;

pub use crate::probes::fuzzing::{beacon, sealed};
use crate::wire::{Frame, Payload};

/// Reads a frame and writes it again; nothing, if it is none.
pub fn frame(bytes: &[u8]) -> Option<Bytes> {
    Frame::decode(bytes).ok().map(|frame| frame.encode())
}

/// What a frame with a message says.
pub fn payload(bytes: &[u8]) -> Option<Payload> {
    match Frame::decode(bytes) {
        Ok(Frame::Data { payload, .. }) => Some(payload),
        Ok(
            Frame::Hello(_)
            | Frame::Welcome { .. }
            | Frame::Reject(_)
            | Frame::Ack { .. }
            | Frame::Introduce(_)
            | Frame::Introduced(_)
            | Frame::Relay(_)
            | Frame::Relayed(_),
        )
        | Err(_) => None,
    }
}

/// A frame with a message.
pub fn data(number: u64, payload: Payload) -> Bytes {
    Frame::Data { number, payload }.encode()
}

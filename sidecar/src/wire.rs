//! What travels between sidecars.
//!
//! A connection, which is TLS, carries frames: a length, a version byte, and a [`Frame`] in postcard.
//! Connections go one way: a member that has something to send to a peer opens one, and the peer only
//! acknowledges. A sender numbers its messages and keeps them until they are acknowledged, so that a
//! new connection goes on where the last one broke off.

use bytes::Bytes;
use conclave_protocols::clock;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::version::{self, Versions};
use conclave_protocols::{Epoch, Incarnation, LockName, Named, PodUid};
use serde::{Deserialize, Serialize};
use tokio_util::codec::LengthDelimitedCodec;

/// The protocol versions that this code speaks, lowest and highest. What a version has is stated at
/// [`conclave_protocols::version`].
pub const VERSIONS: Versions = (version::FIRST, HIGHEST);

/// A build of which the highest version is higher by one stands in for the next release, in the tests of
/// an upgrade.
const HIGHEST: u16 = version::LATEST + if cfg!(feature = "next-version") { 1 } else { 0 };

/// The layout of frames; the first byte of each.
const LAYOUT: u8 = 1;

/// The longest frame: a view of as many members and locks as a group may have, of the longest names.
const FRAME_MAX: usize = 32 << 20;

/// One frame.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Frame {
    /// Opens a connection.
    Hello(Hello),
    /// Accepts it: everything up to this number has arrived.
    Welcome {
        /// The number.
        received: u64,
    },
    /// Refuses it.
    Reject(Rejection),
    /// A message.
    Data {
        /// Counts the messages of a session, from one.
        number: u64,
        /// The message.
        payload: Payload,
    },
    /// Everything up to this number has arrived.
    Ack {
        /// The number.
        received: u64,
    },
    /// Says who the sender is, and asks a pod who it is.
    Introduce(Box<Introduction>),
    /// The answer.
    Introduced(Box<MemberInfo>),
    /// Asks a gateway to pass on all that follows, both ways.
    Relay(Relay),
    /// The answer: it does, from the next byte on.
    Relayed(Result<(), NoRelay>),
}

/// To whom it is to be passed on. What remains of the way gets shorter with each gateway.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Relay {
    /// By another gateway, or else directly.
    pub(crate) by: Option<Incarnation>,
    /// The other end.
    pub(crate) to: Incarnation,
}

/// Why nothing is passed on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
pub(crate) enum NoRelay {
    /// The view of the one that is asked has no gateways.
    #[error("the view has no gateways")]
    Topology,
    /// It does not know a member that it should connect to.
    #[error("it does not know that member")]
    Unknown,
    /// It does not reach that member.
    #[error("it does not reach that member")]
    Unreachable,
    /// It passes on as much as it may.
    #[error("it passes on as much as it may")]
    Crowded,
}

/// Who asks whom.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Introduction {
    /// The group: the UID of its resource.
    pub(crate) group: u128,
    /// The sender.
    pub(crate) from: MemberInfo,
    /// The pod that it expects.
    pub(crate) to: PodUid,
}

/// Who speaks to whom.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Hello {
    /// The versions that the sender speaks.
    pub(crate) versions: Versions,
    /// The group: the UID of its resource.
    pub(crate) group: u128,
    /// The sender.
    pub(crate) from: Incarnation,
    /// Whom the sender expects.
    pub(crate) to: Incarnation,
    /// Tells a sender's sessions with this peer apart: a higher one starts to count anew.
    pub(crate) session: u64,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Rejection {
    /// There is no version that both speak.
    Version,
    /// This is a member of another group.
    Group,
    /// This is another pod, or another process of that pod.
    Incarnation,
    /// There was a later session.
    Session,
}

/// What is sent.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Payload {
    /// By the member.
    Member(PeerMessage),
    /// By its clock.
    Clock {
        /// The view.
        epoch: Epoch,
        /// The message.
        message: clock::AnyMessage,
    },
}

impl Payload {
    /// The protocol and the message's name, for metrics and for the page.
    pub fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Member(message) => (message.protocol(), message.name()),
            Self::Clock { message, .. } => ("clock", message.name()),
        }
    }

    /// The lock that it is about, if it is about one.
    pub(crate) fn lock(&self) -> Option<&LockName> {
        match self {
            Self::Clock { .. } => None,
            Self::Member(message) => message.of_lock().map(|about| about.lock),
        }
    }

    /// Whether the message is of no use when it is late: its sender sends it again.
    pub(crate) fn is_fleeting(&self) -> bool {
        match self {
            Self::Clock { .. } => true,
            Self::Member(message) => message.is_fleeting(),
        }
    }
}

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// It has no content.
    #[error("an empty frame")]
    Empty,
    /// Its layout is unknown.
    #[error("frames of layout {0}, expected {LAYOUT}")]
    Layout(u8),
    /// Its content makes no sense.
    #[error("a malformed frame")]
    Malformed(#[source] postcard::Error),
    /// It is newer than this code.
    #[error("a message of version {0}; this program speaks up to version {HIGHEST}")]
    Version(u16),
}

impl Frame {
    /// As bytes, without the length.
    pub(crate) fn encode(&self) -> Bytes {
        postcard::to_extend(self, vec![LAYOUT]).expect("our own types have a form").into()
    }

    /// From bytes, without the length.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let (layout, content) = bytes.split_first().ok_or(FrameError::Empty)?;
        if *layout != LAYOUT {
            return Err(FrameError::Layout(*layout));
        }
        let frame = postcard::from_bytes(content).map_err(FrameError::Malformed)?;
        if let Self::Data { payload: Payload::Member(message), .. } = &frame
            && message.since() > HIGHEST
        {
            return Err(FrameError::Version(message.since()));
        }
        Ok(frame)
    }
}

/// Cuts a stream of bytes into frames; a longer one ends the connection before it is read.
pub(crate) fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(FRAME_MAX).new_codec()
}

#[cfg(test)]
mod recorded;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_what_it_writes() {
        let bytes =
            Frame::Data { number: 7, payload: Payload::Member(PeerMessage::Noted) }.encode();
        let Frame::Data { number: 7, payload: Payload::Member(PeerMessage::Noted) } =
            Frame::decode(&bytes).expect("a frame")
        else {
            panic!("another frame");
        };
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error() {
        assert!(matches!(Frame::decode(&[]), Err(FrameError::Empty)));
        assert!(matches!(Frame::decode(&[9, 1]), Err(FrameError::Layout(9))));
        assert!(matches!(Frame::decode(&[1, 77]), Err(FrameError::Malformed(_))));
    }
}

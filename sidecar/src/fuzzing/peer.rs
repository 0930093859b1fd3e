//! A peer that sends whatever it likes.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, PodUid};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio_util::codec::{Decoder, Encoder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::links::{Cuts, Local, Roads, Warnings, hear};
use crate::metrics::Metrics;
use crate::wire::{self, Frame, Hello, Introduction, NoRelay, Relay, VERSIONS};

/// Hands a whole incoming connection to a sidecar, and checks what it admits: nothing from a peer
/// that it did not welcome, nothing in another name than the peer's own, each message once.
pub async fn conversation(bytes: &[u8], metrics: &Metrics) {
    let (inbox, mut messages) = mpsc::channel(QUEUE);
    let (introduced, mut introductions) = mpsc::channel(QUEUE);
    let (_none, held) = watch::channel(None);
    let local = Local {
        group: GROUP,
        info: me(),
        held,
        warnings: Warnings::default(),
        introduced,
        metrics: metrics.clone(),
        keys: crate::probes::Keyring::default(),
        cuts: Cuts::none(),
        roads: Roads::default(),
        tracker: TaskTracker::new(),
        end: CancellationToken::new(),
    };
    let (mut far, here) = tokio::io::duplex(BUFFER);
    far.write_all(bytes).await.expect("there is room for it");
    far.shutdown().await.expect("it is connected");
    hear(local, inbox, here, peer().incarnation.pod).await;

    let answers = answers(far).await;
    let mut sent = frames(bytes).into_iter();
    let first = sent.next();
    let (hello, is_expected_here) = match &first {
        Some(Frame::Hello(hello)) if is_welcome(hello) => (Some(hello), false),
        Some(Frame::Introduce(introduction)) => (None, is_expected(introduction)),
        Some(_) | None => (None, false),
    };
    let is_welcomed = matches!(answers.first(), Some(Frame::Welcome { received: 0 }));
    assert_eq!(is_welcomed, hello.is_some(), "{first:?} was answered {answers:?}");
    if let Some(Frame::Relay(relay)) = &first {
        // It has no certificate to show to whom a gateway brings.
        let is_meant = *relay == Relay { by: None, to: me().incarnation };
        let answer = if is_meant { Ok(()) } else { Err(NoRelay::Topology) };
        let answers: Vec<Bytes> = answers.iter().map(Frame::encode).collect();
        assert_eq!(answers, [Frame::Relayed(answer).encode()], "its view has no gateways");
    }
    let is_introduced = introductions.try_recv().is_ok();
    assert_eq!(is_introduced, is_expected_here, "{first:?} was answered {answers:?}");

    let mut came_through = 0;
    while let Ok((from, _)) = messages.try_recv() {
        assert_eq!(Some(from), hello.map(|hello| hello.from), "a message in another name");
        came_through += 1;
    }
    // A number that is not above all before it is of a message that was here before.
    let (mut fresh, mut highest) = (0, 0);
    for frame in sent.take_while(|_| hello.is_some()) {
        let Frame::Data { number, .. } = frame else { break };
        fresh += u32::from(number > highest);
        highest = number.max(highest);
    }
    assert_eq!(came_through, fresh, "what came through of {bytes:?}");
    for answer in &answers {
        if let Frame::Ack { received } = answer {
            assert!(*received <= highest, "acknowledged {received}, and {highest} was sent");
        }
    }
}

/// The beginning of a connection that is welcome, or introduces its peer; the length included.
pub fn greeting(introduces: bool) -> Bytes {
    let frame = if introduces {
        Frame::Introduce(Box::new(Introduction { group: GROUP, from: peer(), to: POD }))
    } else {
        let from = peer().incarnation;
        let to = me().incarnation;
        Frame::Hello(Hello { versions: VERSIONS, group: GROUP, from, to, session: 1 })
    };
    framed(frame.encode())
}

/// The beginning of a connection that asks a gateway to pass on what follows.
pub fn relay() -> Bytes {
    let (by, to) = (Some(peer().incarnation), me().incarnation);
    framed(Frame::Relay(Relay { by, to }).encode())
}

/// A frame with its length.
pub fn framed(frame: Bytes) -> Bytes {
    let mut bytes = BytesMut::new();
    wire::codec().encode(frame, &mut bytes).expect("it is no longer than a frame may be");
    bytes.freeze()
}

fn is_welcome(hello: &Hello) -> bool {
    hello.group == GROUP
        && hello.from.pod == peer().incarnation.pod
        && hello.to == me().incarnation
        && hello.versions.0 <= VERSIONS.1
        && hello.versions.1 >= VERSIONS.0
}

fn is_expected(introduction: &Introduction) -> bool {
    introduction.group == GROUP
        && introduction.to == POD
        && introduction.from.is_sound()
        && introduction.from.incarnation.pod == peer().incarnation.pod
}

async fn answers(mut far: DuplexStream) -> Vec<Frame> {
    let mut bytes = Vec::new();
    far.read_to_end(&mut bytes).await.expect("it is connected");
    frames(&bytes)
}

/// The frames in a stream of bytes, up to what is none.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let (mut codec, mut bytes) = (wire::codec(), BytesMut::from(bytes));
    let whole = std::iter::from_fn(|| codec.decode(&mut bytes).ok().flatten());
    whole.map_while(|frame| Frame::decode(&frame).ok()).collect()
}

fn me() -> MemberInfo {
    member(POD, "shop-0", "10.1.2.3:7071")
}

fn peer() -> MemberInfo {
    member(PodUid(2), "shop-1", "10.1.2.4:7071")
}

fn member(pod: PodUid, name: &str, address: &str) -> MemberInfo {
    let address: SocketAddr = address.parse().expect("an address");
    MemberInfo {
        incarnation: Incarnation { pod, run: 7 },
        name: name.to_owned(),
        addresses: vec![address],
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 0,
        protocol: VERSIONS,
    }
}

const GROUP: u128 = 1;
const POD: PodUid = PodUid(1);

/// More than one input has messages.
const QUEUE: usize = 1 << 16;

/// More than one input and its answers have bytes.
const BUFFER: usize = 1 << 20;

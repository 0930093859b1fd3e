//! How long somebody who was admitted is heard.

use futures::{SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::stranger::{Stranger, hears};
use super::*;
use crate::identity::tests::certified;
use crate::links::inbound::{LATE, MANY, hear};
use crate::links::outbound::IDLE;
use crate::wire::{self, Frame, Hello};

/// Who is heard.
const SPEAKER: Incarnation = Incarnation { pod: PodUid(7), run: 1 };

/// A member, and a connection on which it hears [`SPEAKER`], which takes so many bytes each way
/// before somebody reads them.
async fn admitted(bytes: usize) -> (Process, Framed<DuplexStream, LengthDelimitedCodec>) {
    let me = process(1, None).await;
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (inbox, mut heard) = mpsc::channel(64);
    tokio::spawn(async move { while heard.recv().await.is_some() {} });
    tokio::spawn(hear(me.local.clone(), inbox, theirs, SPEAKER.pod));
    let to = me.info.incarnation;
    let hello = Hello { versions: wire::VERSIONS, group: GROUP, from: SPEAKER, to, session: 1 };
    let mut frames = Framed::new(ours, wire::codec());
    frames.send(Frame::Hello(hello).encode()).await.expect("sent");
    let welcome = frames.next().await.expect("an answer").expect("a frame");
    assert!(matches!(Frame::decode(&welcome), Ok(Frame::Welcome { .. })));
    (me, frames)
}

fn data(number: u64) -> bytes::Bytes {
    Frame::Data { number, payload: Payload::Member(PeerMessage::Leave(Box::default())) }.encode()
}

#[tokio::test(start_paused = true)]
async fn a_link_on_which_nothing_comes_ends() {
    let (_me, mut frames) = admitted(1024).await;
    for number in 1..=4 {
        tokio::time::sleep(IDLE).await;
        frames.send(data(number)).await.expect("sent");
        assert!(matches!(frames.next().await, Some(Ok(_))), "acknowledged");
    }
    let end = timeout(IDLE * 3, frames.next()).await;
    assert!(matches!(end, Ok(None)), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_heard_no_more() {
    let (_me, mut frames) = admitted(64).await;
    let mut number = 0;
    let sends = async {
        while frames.send(data(number + 1)).await.is_ok() {
            number += 1;
        }
    };
    assert!(timeout(IDLE, sends).await.is_ok(), "it still listens");
}

#[tokio::test]
async fn a_later_connection_ends_the_one_of_before() {
    let authority = authority();
    let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let speaker = Stranger::new(certified(&authority, &id(GROUP, SPEAKER.pod.0), |_| {}));
    let Some((Frame::Welcome { .. }, mut first)) = speaker.calls(&me, SPEAKER).await else {
        panic!("let in");
    };
    let Some((Frame::Welcome { .. }, mut second)) = speaker.calls(&me, SPEAKER).await else {
        panic!("let in again");
    };
    assert!(hears(&mut first).await.is_none());
    second.send(data(1)).await.expect("sent");
    assert!(matches!(hears(&mut second).await, Some(Frame::Ack { received: 1 })));
}

/// Up to which message the next frame acknowledges.
async fn acknowledged(frames: &mut Framed<DuplexStream, LengthDelimitedCodec>) -> u64 {
    let bytes = frames.next().await.expect("an answer").expect("a frame");
    let frame = Frame::decode(&bytes);
    let Ok(Frame::Ack { received }) = frame else { panic!("{frame:?}") };
    received
}

/// One acknowledgement stands for all that came since the last: soon, or as soon as they are many.
#[tokio::test(start_paused = true)]
async fn several_messages_are_acknowledged_as_one() {
    let (_me, mut frames) = admitted(1 << 16).await;
    let begun = tokio::time::Instant::now();
    for number in 1..=3 {
        frames.send(data(number)).await.expect("sent");
    }
    assert_eq!(acknowledged(&mut frames).await, 3);
    assert_eq!(begun.elapsed(), LATE);
    for number in 4..=4 + u64::from(MANY) {
        frames.send(data(number)).await.expect("sent");
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(acknowledged(&mut frames).await, 3 + u64::from(MANY));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(acknowledged(&mut frames).await, 4 + u64::from(MANY));
}

//! How many come in at a time.

use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};

use super::stranger::{Stranger, sends_on};
use super::*;
use crate::identity::tests::{PATIENCE, certified};
use crate::links::crowd::FROM_ONE;
use crate::wire::{self, Frame, Hello};

fn hello(to: &Process, from: Incarnation) -> Frame {
    let (versions, to) = (wire::VERSIONS, to.info.incarnation);
    Frame::Hello(Hello { versions, group: GROUP, from, to, session: 1 })
}

#[tokio::test]
async fn a_peer_that_says_nothing_keeps_nobody_else_out() {
    let authority = authority();
    let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut silent = Vec::new();
    for _ in 0..FROM_ONE {
        silent.push(TcpStream::connect(me.address()).await.expect("it listens"));
    }
    let mut one_more = TcpStream::connect(me.address()).await.expect("it listens");
    let notified = tokio::time::timeout(PATIENCE, one_more.read(&mut [0])).await;
    assert_eq!(notified.expect("it goes on").unwrap_or(0), 0, "dropped");
    assert_eq!(me.failures("crowded"), 1);

    let from = Incarnation { pod: PodUid(7), run: 1 };
    let member = Stranger::new(certified(&authority, &id(GROUP, 7), |_| {}));
    let elsewhere = TcpSocket::new_v4().expect("a socket");
    elsewhere.bind(([127, 0, 0, 2], 0).into()).expect("an address of this machine");
    let stream = elsewhere.connect(me.address()).await.expect("it listens");
    let notified = sends_on(&member.connector(), stream, hello(&me, from)).await;
    assert!(matches!(notified, Some((Frame::Welcome { .. }, _))));

    drop(silent);
    let admitted = async { while member.calls(&me, from).await.is_none() {} };
    tokio::time::timeout(PATIENCE, admitted).await.expect("there is a place again");
}

#[tokio::test]
async fn links_keep_no_place_of_handshakes() {
    let authority = authority();
    let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let member = Stranger::new(certified(&authority, &id(GROUP, 7), |_| {}));
    let mut open = Vec::new();
    for run in 0..=FROM_ONE as u64 {
        let notified = member.calls(&me, Incarnation { pod: PodUid(7), run }).await;
        assert!(matches!(notified, Some((Frame::Welcome { .. }, _))), "{run}");
        open.extend(notified);
    }
    assert_eq!(me.failures("crowded"), 0);
}

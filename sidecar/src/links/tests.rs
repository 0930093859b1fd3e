//! Which processes are admitted, which are spoken to, and what a change of certificates does to a link.

mod crowding;
mod hearing;
mod keys;
mod refusing;
mod relaying;
mod renewing;
mod stranger;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, PodUid};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::identity::tests::{authority, credentials, id, until};
use crate::identity::{Credentials, LocalAuthority};
use crate::wire;

/// The group of all these tests.
const GROUP: u128 = 0x0c9d_8f1e_6b1a_4f0e_9f4f_3f1f_7a2b_9c01;

/// A member with its links.
struct Process {
    info: MemberInfo,
    local: Local,
    links: Links,
    heard: mpsc::Receiver<(Incarnation, Payload)>,
    held: watch::Sender<Option<Arc<Credentials>>>,
    cut: watch::Sender<bool>,
    apart: watch::Sender<BTreeSet<PodUid>>,
    introductions: mpsc::Receiver<MemberInfo>,
}

async fn process(pod: u128, credentials: Option<Arc<Credentials>>) -> Process {
    process_in(None, pod, credentials).await
}

/// One in a zone.
async fn process_in(
    zone: Option<&str>,
    pod: u128,
    credentials: Option<Arc<Credentials>>,
) -> Process {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    process_at(listener, zone, pod, credentials)
}

/// One that listens there.
fn process_at(
    listener: TcpListener,
    zone: Option<&str>,
    pod: u128,
    credentials: Option<Arc<Credentials>>,
) -> Process {
    let address = listener.local_addr().expect("it is bound");
    let (cut, whole) = watch::channel(false);
    let (apart, pods) = watch::channel(BTreeSet::new());
    let (introduced, introductions) = mpsc::channel(8);
    let (held, holds) = watch::channel(credentials);
    let local = Local {
        group: GROUP,
        info: MemberInfo { zone: zone.map(str::to_owned), ..info(pod, address) },
        held: holds,
        warnings: Warnings::default(),
        introduced,
        metrics: Metrics::new("orders"),
        keys: Keyring::default(),
        cuts: Cuts::new(whole, pods),
        roads: Roads::default(),
        tracker: TaskTracker::new(),
        end: CancellationToken::new(),
    };
    let (inbox, heard) = mpsc::channel(64);
    let links = Links::new(local.clone(), vec![listener], &inbox);
    let info = local.info.clone();
    Process { info, local, links, heard, held, cut, apart, introductions }
}

fn info(pod: u128, address: SocketAddr) -> MemberInfo {
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(pod), run: 1 },
        name: format!("pod-{pod}"),
        addresses: vec![address],
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 0,
        protocol: wire::VERSIONS,
    }
}

/// The credentials of a pod of the group.
fn of_pod(pod: u128, by: &LocalAuthority, believed: &[&LocalAuthority]) -> Arc<Credentials> {
    credentials(by, &id(GROUP, pod), believed)
}

impl Process {
    fn address(&self) -> SocketAddr {
        self.info.addresses[0]
    }

    /// How often connections failed for this reason.
    fn failures(&self, reason: &str) -> u64 {
        self.local.metrics.peers.connect_failures.with_label_values(&[reason]).get()
    }

    /// Sends something that must arrive.
    fn sends(&mut self, to: &MemberInfo) {
        self.links.meet(to);
        self.links.send(to.incarnation, Payload::Member(PeerMessage::Leave(Box::default())));
    }

    async fn hears(&mut self) -> Incarnation {
        let heard = tokio::time::timeout(crate::identity::tests::PATIENCE, self.heard.recv()).await;
        let (from, payload) = heard.expect("not in time").expect("it goes on");
        assert!(matches!(payload, Payload::Member(PeerMessage::Leave(_))));
        from
    }
}

#[tokio::test]
async fn members_of_a_group_speak_with_each_other() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    one.sends(&two.info);
    assert_eq!(two.hears().await, one.info.incarnation);
    two.sends(&one.info);
    assert_eq!(one.hears().await, two.info.incarnation);
    let found = introduce(&one.local, PodUid(2), &two.info.addresses).await;
    assert_eq!(found.as_ref(), Some(&two.info));
}

/// Found by reading: the wait for an acknowledgement began when the link had last been used.
#[tokio::test]
async fn a_link_that_had_nothing_to_send_for_long_goes_on() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    one.sends(&two.info);
    two.hears().await;
    tokio::time::sleep(outbound::SILENCE + Duration::from_millis(200)).await;
    one.sends(&two.info);
    two.hears().await;
    // A connection that is given up is missing for some 20 ms at least.
    for _ in 0..200 {
        assert_eq!(one.local.metrics.peers.connections.get(), 1, "the connection of before");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_member_that_is_cut_off_is_connected_to_nobody() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    assert!(!one.links.is_open(two.info.incarnation));
    one.sends(&two.info);
    two.hears().await;
    until("connected", || one.links.is_open(two.info.incarnation)).await;
    one.cut.send_replace(true);
    until("cut off", || !one.links.is_open(two.info.incarnation)).await;
    one.sends(&two.info);
    one.cut.send_replace(false);
    two.hears().await;
    until("connected again", || one.links.is_open(two.info.incarnation)).await;
}

#[tokio::test]
async fn a_member_is_cut_off_from_some_and_connected_to_others() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    let mut three = process(3, Some(of_pod(3, &authority, &[&authority]))).await;
    for other in [&mut two, &mut three] {
        one.sends(&other.info);
        other.hears().await;
    }
    // Either end is enough.
    two.apart.send_replace(BTreeSet::from([PodUid(1)]));
    until("cut off", || !one.links.is_open(two.info.incarnation)).await;
    assert_eq!(introduce(&one.local, PodUid(2), &two.info.addresses).await, None);
    one.sends(&two.info);
    one.sends(&three.info);
    three.hears().await;
    assert!(one.links.is_open(three.info.incarnation) && two.heard.try_recv().is_err());
    two.apart.send_replace(BTreeSet::new());
    two.hears().await;
}

#[tokio::test]
async fn a_link_to_a_member_that_is_known_no_more_ends_though_something_was_not_heard() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = info(2, listener.local_addr().expect("it is bound"));
    drop(listener);
    let before = one.local.tracker.len();
    one.sends(&gone);
    until("it is tried", || one.failures("unreachable") > 1).await;
    assert_eq!(one.local.tracker.len(), before + 1);
    one.links.keep_only(|_| false);
    until("the end", || one.local.tracker.len() == before).await;
}

/// Found by a pod that left. It had no link to the member that was to lead next, and ended before it had one: nobody knew
/// that it had left.
#[tokio::test]
async fn what_is_sent_last_arrives_though_there_was_no_link_and_the_peer_is_slow() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    one.sends(&info(2, listener.local_addr().expect("it is bound")));
    let ends = async {
        one.links.end().await;
        one.local.end.cancel();
    };
    let hears = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let believed = Some(of_pod(2, &authority, &[&authority]));
        process_at(listener, None, 2, believed).hears().await
    };
    assert_eq!(tokio::join!(ends, hears).1, one.info.incarnation);
}

#[tokio::test]
async fn nobody_waits_for_a_peer_that_is_not_there_to_hear_what_is_sent_last() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = info(2, listener.local_addr().expect("it is bound"));
    drop(listener);
    one.sends(&gone);
    let end = tokio::time::timeout(CONNECT / 2, one.links.end());
    end.await.expect("it would never be heard");
}

#[tokio::test]
async fn without_a_certificate_nobody_is_admitted_and_what_is_sent_waits() {
    let authority = authority();
    let mut one = process(1, None).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    one.sends(&two.info);
    two.sends(&one.info);
    until("both wait", || one.failures("no-certificate") > 2 && two.failures("broken") > 0).await;
    one.held.send_replace(Some(of_pod(1, &authority, &[&authority])));
    assert_eq!(two.hears().await, one.info.incarnation);
    assert_eq!(one.hears().await, two.info.incarnation);
}

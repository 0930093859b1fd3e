//! What both ends of a link derive from its handshake.

use std::time::Duration;

use super::*;
use crate::probes::{Beacon, Disbelief, GroupHash, Keyring, Packet, Report};

/// Whether `hears` believes a beacon of `from`, sealed with what `keys` has for it.
fn believes(hears: &Process, keys: &Keyring, from: &Process, number: u64) -> Result<(), Disbelief> {
    let key = keys.ours(hears.info.incarnation).expect("there is a link to it");
    let beacon = Beacon {
        from: from.info.incarnation,
        number,
        departed: None,
        heard: None,
        report: Report::default(),
    };
    let bytes = beacon.seal(GroupHash::of(GROUP), &key);
    let packet = Packet::parse(&bytes, GroupHash::of(GROUP)).expect("it has the form");
    hears.local.keys.believe(&packet)
}

#[tokio::test]
async fn both_ends_of_a_link_have_its_key_and_nobody_else_has() {
    let authority = authority();
    let mut all = Vec::new();
    for pod in 1..=3 {
        all.push(process(pod, Some(of_pod(pod, &authority, &[&authority]))).await);
    }
    let [mut one, mut two, mut three] = <[Process; 3]>::try_from(all).ok().expect("three");
    one.sends(&two.info);
    three.sends(&two.info);
    let mut heard = [two.hears().await, two.hears().await];
    heard.sort();
    assert_eq!(heard, [one.info.incarnation, three.info.incarnation]);
    assert_eq!(believes(&two, &one.local.keys, &one, 1), Ok(()));
    assert_eq!(believes(&two, &three.local.keys, &three, 1), Ok(()));
    assert_eq!(believes(&two, &three.local.keys, &one, 2), Err(Disbelief::Forged));
    assert!(!two.links.has_key(one.info.incarnation), "a link goes one way");
}

#[tokio::test]
async fn a_greeting_is_enough_for_a_key_and_says_nothing() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    let to = two.info.incarnation;
    one.links.greet(to);
    assert!(!one.links.open.contains_key(&to), "it is not known where that is");
    one.links.meet(&two.info);
    one.links.greet(to);
    one.links.greet(to);
    until("a key", || one.links.has_key(to)).await;
    assert_eq!(believes(&two, &one.local.keys, &one, 1), Ok(()));
    // What is sent afterwards goes the same way.
    one.sends(&two.info);
    assert_eq!(two.hears().await, one.info.incarnation);
    assert_eq!(one.local.metrics.peers.connections.get(), 1);
}

#[tokio::test]
async fn a_key_that_was_forgotten_is_made_anew_and_no_message_is_lost() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    let to = two.info.incarnation;
    one.sends(&two.info);
    two.hears().await;
    let keys = Keyring::default();
    let until_later = std::time::Instant::now() + Duration::from_hours(1);
    keys.seal_with(one.local.keys.ours(to).expect("there is a link"), to, until_later);
    for number in 1..=3 {
        one.local.keys.forget(to);
        one.links.greet(to);
        one.sends(&two.info);
        until("another key", || one.links.has_key(to)).await;
        assert_eq!(believes(&two, &one.local.keys, &one, number), Ok(()));
        assert_eq!(two.hears().await, one.info.incarnation);
        // With a key, a link is left as it is.
        one.links.greet(to);
        one.sends(&two.info);
        assert_eq!(two.hears().await, one.info.incarnation);
    }
    assert_eq!(believes(&two, &keys, &one, 4), Err(Disbelief::Forged), "the first");
    assert!(two.heard.try_recv().is_err(), "nothing was heard twice");
    assert_eq!(one.local.metrics.peers.connections.get(), 1);
}

#[tokio::test]
async fn a_key_that_was_forgotten_is_made_anew_though_there_is_nothing_to_say() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    let to = two.info.incarnation;
    one.links.meet(&two.info);
    one.links.greet(to);
    until("a key", || one.links.is_open(to) && one.links.has_key(to)).await;
    one.local.keys.forget(to);
    one.links.greet(to);
    until("another key, by a link that is open", || one.links.has_key(to)).await;
    until("it is open", || one.links.is_open(to)).await;
    one.cut.send_replace(true);
    until("cut off", || !one.links.is_open(to)).await;
    one.cut.send_replace(false);
    one.local.keys.forget(to);
    one.links.greet(to);
    until("another key, by a link without a connection", || one.links.has_key(to)).await;
    assert_eq!(believes(&two, &one.local.keys, &one, 1), Ok(()));
}

#[tokio::test]
async fn a_peer_that_is_known_no_more_is_not_greeted_for_ever() {
    let authority = authority();
    let mut one = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = info(2, nobody.local_addr().expect("it is bound"));
    drop(nobody);
    let before = one.local.tracker.len();
    one.links.meet(&gone);
    one.links.greet(gone.incarnation);
    until("a failure", || one.failures("unreachable") > 1).await;
    assert_eq!(one.local.tracker.len(), before + 1, "it is tried again");
    one.links.keep_only(|_| false);
    until("its end", || one.local.tracker.len() == before).await;
}

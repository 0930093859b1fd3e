//! What a change of certificates does to a link.

use std::time::{Duration, SystemTime};

use super::stranger::{Stranger, hears, notified};
use super::*;
use crate::identity::tests::{bundle_of, certified};
use crate::wire::Frame;

#[tokio::test]
async fn a_link_goes_on_when_certificates_are_renewed() {
    let (old, new) = (authority(), authority());
    let mut one = process(1, Some(of_pod(1, &old, &[&old]))).await;
    let mut two = process(2, Some(of_pod(2, &old, &[&old]))).await;
    one.sends(&two.info);
    two.hears().await;
    // First everybody believes both, then some have certificates of the new one already.
    one.held.send_replace(Some(of_pod(1, &old, &[&old, &new])));
    two.held.send_replace(Some(of_pod(2, &new, &[&old, &new])));
    one.sends(&two.info);
    assert_eq!(two.hears().await, one.info.incarnation);
    assert_eq!(one.local.metrics.peers.connections.get(), 1, "the connection of before");

    two.sends(&one.info);
    assert_eq!(one.hears().await, two.info.incarnation, "a new connection");
    let mut three = process(3, Some(of_pod(3, &new, &[&new]))).await;
    three.sends(&two.info);
    assert_eq!(two.hears().await, three.info.incarnation);

    // A member that still shows the old one is refused by those who do not believe it any more.
    three.sends(&one.info);
    until("refused", || three.failures("certificate") > 0).await;
    one.sends(&three.info);
    until("refused", || three.failures("certificate") > 1).await;
    one.held.send_replace(Some(of_pod(1, &new, &[&old, &new])));
    assert_eq!(three.hears().await, one.info.incarnation);
    assert_eq!(one.hears().await, three.info.incarnation);
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_of_the_other_end() {
    let authority = authority();
    let mut me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let brief = || {
        Stranger::new(certified(&authority, &id(GROUP, 7), |params| {
            params.not_after = (SystemTime::now() + Duration::from_secs(3)).into();
        }))
    };
    let from = Incarnation { pod: PodUid(7), run: 1 };
    let Some((Frame::Welcome { .. }, mut frames)) = brief().calls(&me, from).await else {
        panic!("let in");
    };
    assert!(hears(&mut frames).await.is_none(), "inbound");

    let (address, mut tells) = brief().listens().await;
    me.sends(&info(7, address));
    let first = notified(&mut tells).await;
    assert!(matches!(first, Some(Frame::Hello(_))), "{first:?}");
    until("a key of the link", || me.links.has_key(from)).await;
    while notified(&mut tells).await.is_some() {}
    until("the end of the key", || !me.links.has_key(from)).await;
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_not_shown() {
    let authority = authority();
    let me = id(GROUP, 1);
    let (key, certificate) = certified(&authority, &me, |params| {
        params.not_after = (SystemTime::now() + Duration::from_secs(2)).into();
    });
    let bundle = bundle_of(&[&authority]);
    let credentials = Credentials::new(me.group, me.pod, &key, &certificate, bundle);
    let credentials = Arc::new(credentials.expect("credentials"));
    let mut one = process(1, Some(Arc::clone(&credentials))).await;
    let two = process(2, Some(of_pod(2, &authority, &[&authority]))).await;
    until("it ends", || credentials.has_ended()).await;
    one.sends(&two.info);
    until("it waits", || one.failures("no-certificate") > 0).await;
    assert_eq!(two.failures("certificate"), 0);
}

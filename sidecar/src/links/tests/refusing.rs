//! Those who are not believed.

use std::time::{Duration, SystemTime};

use conclave_pods::PeerId;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::stranger::{Stranger, calls, notified, sends};
use super::*;
use crate::identity::tests::certified;
use crate::wire::{Frame, Introduction, Rejection};

/// A certificate, and how it is refused: of the one that connects, and of the one that is connected to.
struct Case {
    name: &'static str,
    shown: (KeyPair, String),
    inbound: Option<&'static str>,
    outbound: Option<&'static str>,
}

/// The pod that all strangers say they are.
const CLAIMED: u128 = 7;

fn cases(authority: &LocalAuthority) -> Vec<Case> {
    let me = id(GROUP, CLAIMED);
    let foreign = super::authority();
    let bad = Some("certificate");
    let case = |name, shown, inbound, outbound| Case { name, shown, inbound, outbound };
    let changed = |change: fn(&mut CertificateParams)| certified(authority, &me, change);
    let names =
        |names: Vec<SanType>| certified(authority, &me, |params| params.subject_alt_names = names);
    let uri = |text: String| SanType::URI(text.try_into().expect("ASCII"));
    let of = |id: &PeerId| certified(authority, id, |_| {});
    let dns = SanType::DnsName("till.shop.svc".try_into().expect("ASCII"));
    let mine = me.to_string();

    let key = KeyPair::generate().expect("a key");
    let params = crate::identity::tests::params_of(&me);
    let alone = params.self_signed(&key).expect("a certificate").pem();
    let (issuer, by_issuer) = of(&id(GROUP, 8));
    let issuer = rcgen::Issuer::from_ca_cert_pem(&by_issuer, issuer).expect("an issuer");
    let below = KeyPair::generate().expect("a key");
    let by_member = params.signed_by(&below, &issuer).expect("a certificate").pem() + &by_issuer;

    vec![
        case("the right one", of(&me), None, None),
        case("another group", of(&id(GROUP + 1, CLAIMED)), Some("group"), Some("group")),
        case("another pod", of(&id(GROUP, 8)), Some("pod"), Some("pod")),
        case("another authority", certified(&foreign, &me, |_| {}), bad, bad),
        case("signed by itself", (key, alone), bad, bad),
        case("signed by a member", (below, by_member), bad, bad),
        case("no longer good", changed(expired), bad, bad),
        case("not good yet", changed(early), bad, bad),
        case("no name", names(vec![]), bad, bad),
        case("a DNS name", names(vec![dns.clone()]), bad, bad),
        case("a DNS name too", names(vec![uri(mine.clone()), dns]), bad, bad),
        case("two names", names(vec![uri(mine.clone()), uri(mine.clone())]), bad, bad),
        case("a name with more", names(vec![uri(mine.clone() + "/")]), bad, bad),
        case("capitals", names(vec![uri(mine.replace("0c9d", "0C9D"))]), bad, bad),
        case(
            "another domain",
            names(vec![uri(mine.replace("conclave.dev", "example.com"))]),
            bad,
            bad,
        ),
        case("an authority", changed(authorised), bad, bad),
        case("only to connect", changed(only_client), None, bad),
        case("only to be connected to", changed(only_server), bad, None),
    ]
}

fn expired(params: &mut CertificateParams) {
    params.not_before = (SystemTime::now() - Duration::from_hours(2)).into();
    params.not_after = (SystemTime::now() - Duration::from_hours(1)).into();
}

fn early(params: &mut CertificateParams) {
    params.not_before = (SystemTime::now() + Duration::from_hours(1)).into();
}

fn authorised(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
}

fn only_client(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

fn only_server(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
}

#[tokio::test]
async fn nobody_is_admitted_with_a_bad_certificate() {
    let authority = authority();
    for Case { name, shown, inbound, .. } in cases(&authority) {
        let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
        let from = Incarnation { pod: PodUid(CLAIMED), run: 1 };
        let notified = Stranger::new(shown).calls(&me, from).await;
        let notified = notified.map(|(frame, _)| frame);
        let Some(reason) = inbound else {
            assert!(matches!(notified, Some(Frame::Welcome { .. })), "{name}: {notified:?}");
            continue;
        };
        let is_turned_away = matches!(notified, None | Some(Frame::Reject(Rejection::Incarnation)));
        assert!(is_turned_away, "{name}: {notified:?}");
        until(name, || me.failures(reason) == 1).await;
    }
}

#[tokio::test]
async fn nothing_is_sent_to_anybody_with_a_bad_certificate() {
    let authority = authority();
    for Case { name, shown, outbound, .. } in cases(&authority) {
        let mut me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
        let (address, mut tells) = Stranger::new(shown).listens().await;
        me.sends(&info(CLAIMED, address));
        if let Some(reason) = outbound {
            until(name, || me.failures(reason) > 1).await;
            while let Ok(notified) = tells.try_recv() {
                assert!(notified.is_none(), "{name}: {notified:?}");
            }
            let found = introduce(&me.local, PodUid(CLAIMED), &[address]).await;
            assert_eq!(found, None, "{name}");
        } else {
            let notified = notified(&mut tells).await;
            assert!(matches!(notified, Some(Frame::Hello(_))), "{name}: {notified:?}");
        }
    }
}

#[tokio::test]
async fn nobody_is_admitted_without_a_certificate_or_with_another_protocol() {
    let authority = authority();
    let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let from = Incarnation { pod: PodUid(CLAIMED), run: 1 };
    let good = || Stranger::new(certified(&authority, &id(GROUP, CLAIMED), |_| {}));
    let bare = Stranger { chain: String::new(), ..good() };
    assert!(bare.calls(&me, from).await.is_none());
    until("refused", || me.failures("certificate") == 1).await;
    for protocols in [vec![], vec![b"conclave/2".to_vec()]] {
        let before = me.failures("tls");
        assert!(Stranger { protocols, ..good() }.calls(&me, from).await.is_none());
        until("refused", || me.failures("tls") == before + 1).await;
    }
}

#[tokio::test]
async fn nobody_is_introduced_as_another_pod() {
    let authority = authority();
    let mut me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let connector = Stranger::new(certified(&authority, &id(GROUP, CLAIMED), |_| {})).connector();
    for (pod, is_believed) in [(8, false), (CLAIMED, true)] {
        let from = info(pod, me.address());
        let introduction = Introduction { group: GROUP, from: from.clone(), to: PodUid(1) };
        let first = Frame::Introduce(Box::new(introduction));
        let notified = sends(&connector, &me, first).await.map(|(frame, _)| frame);
        assert_eq!(matches!(notified, Some(Frame::Introduced(_))), is_believed, "{notified:?}");
        assert_eq!(me.introductions.try_recv().ok(), is_believed.then_some(from));
    }
    assert_eq!(me.failures("pod"), 1);
}

#[tokio::test]
async fn each_connection_looks_at_the_certificate() {
    let authority = authority();
    let me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let from = Incarnation { pod: PodUid(CLAIMED), run: 1 };
    // It would resume a session, if it could.
    let connector = Stranger::new(certified(&authority, &id(GROUP, CLAIMED), |_| {})).connector();
    for _ in 0..2 {
        let Some((Frame::Welcome { .. }, frames)) = calls(&connector, &me, from).await else {
            panic!("let in");
        };
        let (_, connection) = frames.get_ref().get_ref();
        assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[tokio::test]
async fn a_peer_without_tls_gets_no_answer() {
    let authority = authority();
    let mut me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut stream = TcpStream::connect(me.address()).await.expect("it listens");
    stream.write_all(&[0, 0, 0, 2, 1, 0]).await.expect("written");
    let mut notified = Vec::new();
    // It may be reset: what was sent is not read.
    let _ = stream.read_to_end(&mut notified).await;
    assert_eq!(notified, b"");
    until("counted", || me.failures("plain-text") == 1).await;

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    me.sends(&info(CLAIMED, address));
    until("counted", || me.failures("plain-text") > 1).await;
}

#[tokio::test]
async fn an_address_that_another_pod_has_now_ends_no_link() {
    let authority = authority();
    let mut me = process(1, Some(of_pod(1, &authority, &[&authority]))).await;
    let mut other = process(8, Some(of_pod(8, &authority, &[&authority]))).await;
    let gone = info(CLAIMED, other.address());
    me.sends(&gone);
    until("refused", || me.failures("pod") > 1).await;
    assert!(!me.links.is_open(gone.incarnation), "it is connected to nobody");
    let link = &me.links.open[&gone.incarnation];
    assert!(!link.queue.is_closed(), "what is kept stays");
    assert!(other.heard.try_recv().is_err());
    assert_eq!(introduce(&me.local, PodUid(CLAIMED), &gone.addresses).await, None);
}

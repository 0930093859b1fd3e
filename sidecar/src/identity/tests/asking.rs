//! Asking an authority for certificates, and asking again.

use std::io::Write;

use conclave_crds::AuthorityStatus;

use super::server::{Answer, Server};
use super::*;
use crate::metrics::Metrics;

const NAME: &str = "authority.conclave.dev";

/// A member that asks for certificates.
struct Asker {
    held: OwnCredentials,
    missing: watch::Receiver<String>,
    authority: watch::Sender<Option<AuthorityStatus>>,
    metrics: Metrics,
    token: tempfile::NamedTempFile,
}

fn asker(authority: Option<AuthorityStatus>) -> Asker {
    let mut token = tempfile::NamedTempFile::new().expect("a file");
    writeln!(token, "first").expect("written");
    let metrics = Metrics::new("orders");
    let (authority, sent) = watch::channel(authority);
    let client = AuthorityClient::new("orders", token.path().to_owned());
    let me = id(1, 2);
    let issuer = Issuer::Authority(client);
    let renewal = Renewal::new(issuer, me.group, me.pod, sent, metrics.clone());
    let (held, missing) = (renewal.held(), renewal.missing());
    tokio::spawn(renewal.run());
    Asker { held, missing, authority, metrics, token }
}

impl Asker {
    fn count(&self, result: &str) -> u64 {
        self.metrics.certificates.requests.with_label_values(&[result]).get()
    }

    async fn counts(&self, result: &str) {
        until(result, || self.count(result) > 0).await;
    }

    async fn gets_one(&mut self) -> Arc<Credentials> {
        let held = tokio::time::timeout(PATIENCE, self.held.wait_for(Option::is_some)).await;
        held.expect("not in time").expect("it goes on").clone().expect("credentials")
    }
}

async fn start(authority: &Arc<LocalAuthority>) -> Server {
    Server::start(authority, NAME, Answer::Certify(Arc::clone(authority), id(1, 2))).await
}

#[tokio::test]
async fn a_member_gets_its_certificate_for_its_token() {
    let authority = Arc::new(authority());
    let server = start(&authority).await;
    let mut asker = asker(None);
    until("it says what is missing", || asker.missing.borrow().contains("no certificate yet"))
        .await;
    asker.authority.send_replace(Some(server.status(&[&authority])));
    assert_eq!(asker.gets_one().await.leaf().id, id(1, 2));
    let text = asker.metrics.scrape(&crate::http::tests::double::Double::new().group);
    let time = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("it is there");
        line.rsplit_once(' ').and_then(|(_, time)| time.parse::<f64>().ok()).expect("a number")
    };
    let ends = time("conclave_certificate_expiry_timestamp_seconds{");
    let reserve = ends - time("conclave_certificate_renewal_timestamp_seconds{");
    let left = asker.gets_one().await.remaining().as_secs_f64();
    assert!((0.45..0.6).contains(&(reserve / left)), "{reserve} of {left} s are left");
    let (token, body) = server.asked().remove(0);
    assert_eq!((token.as_str(), body["group"].as_str()), ("Bearer first", Some("orders")));
    assert_eq!(asker.count("success"), 1);
}

#[tokio::test]
async fn nobody_else_is_given_the_token() {
    let authority = Arc::new(authority());
    let server = start(&authority).await;
    let other = super::authority();
    let unbelieved = asker(Some(server.status(&[&other])));
    unbelieved.counts("unreachable").await;

    let answer = Answer::Certify(Arc::clone(&authority), id(1, 2));
    let misnamed = Server::start(&authority, "other.conclave.dev", answer).await;
    let asker = asker(Some(misnamed.status(&[&authority])));
    asker.counts("unreachable").await;
    assert!(server.asked().is_empty() && misnamed.asked().is_empty());
    assert!(asker.held.borrow().is_none());
}

#[tokio::test]
async fn a_refusal_is_shown_and_asked_again_with_the_token_of_then() {
    let authority = Arc::new(authority());
    let server = start(&authority).await;
    server.set_answer(Answer::Send(
        403,
        r#"{"title": "Forbidden", "detail": "not\nyours"}"#.to_owned(),
    ));
    let mut asker = asker(Some(server.status(&[&authority])));
    asker.counts("refused").await;
    until("it is shown", || {
        *asker.missing.borrow() == "no certificate yet: the authority answered 403: not yours"
    })
    .await;
    std::fs::write(asker.token.path(), "second").expect("written");
    server.set_answer(Answer::Certify(authority, id(1, 2)));
    asker.gets_one().await;
    let last = server.asked().pop().map(|(token, _)| token);
    assert_eq!(last.as_deref(), Some("Bearer second"));
}

#[tokio::test]
async fn what_is_no_certificate_of_this_member_is_not_taken() {
    let authority = Arc::new(authority());
    let server = start(&authority).await;
    for (answer, result) in [
        (Answer::Certify(Arc::clone(&authority), id(1, 3)), "unusable"),
        (Answer::Certify(Arc::clone(&authority), id(2, 2)), "unusable"),
        (Answer::Certify(Arc::new(super::authority()), id(1, 2)), "unusable"),
        (Answer::Send(200, "{}".to_owned()), "unusable"),
        (Answer::Send(200, r#"{"certificate": "none"}"#.to_owned()), "unusable"),
        (Answer::Send(200, "x".repeat(100_000)), "unreachable"),
        (Answer::Send(503, String::new()), "refused"),
    ] {
        server.set_answer(answer);
        let asker = asker(Some(server.status(&[&authority])));
        asker.counts(result).await;
        assert!(asker.held.borrow().is_none());
    }
    let asker = asker(Some(server.status(&[&authority])));
    std::fs::remove_file(asker.token.path()).expect("removed");
    asker.counts("no-token").await;
}

#[tokio::test]
async fn a_changed_bundle_is_taken_at_once_and_a_certificate_outside_of_it_is_renewed() {
    let (old, new) = (Arc::new(authority()), Arc::new(authority()));
    let server = start(&old).await;
    let mut asker = asker(Some(server.status(&[&old])));
    let first = asker.gets_one().await;

    let both = bundle_of(&[&old, &new]);
    asker.authority.send_replace(Some(server.status(&[&old, &new])));
    until("taken", || asker.held.borrow().as_ref().is_some_and(|held| *held.bundle() == both))
        .await;
    let second = asker.gets_one().await;
    assert_eq!(second.leaf(), first.leaf());
    assert!(second.is_believed() && asker.count("success") == 1, "it need not be renewed");

    let next = start(&new).await;
    asker.authority.send_replace(Some(next.status(&[&new])));
    until("renewed", || asker.count("success") == 2).await;
    let third = asker.gets_one().await;
    assert!(third.is_believed() && *third.bundle() == bundle_of(&[&new]));
}

#[tokio::test]
async fn a_certificate_is_renewed_again_and_again() {
    let authority = Arc::new(authority());
    let server = start(&authority).await;
    let brief = |params: &mut CertificateParams| {
        params.not_after = (std::time::SystemTime::now() + Duration::from_secs(4)).into();
    };
    server.set_answer(Answer::Brief(Arc::clone(&authority), id(1, 2), brief));
    let mut asker = asker(Some(server.status(&[&authority])));
    let first = asker.gets_one().await;
    until("renewed", || asker.count("success") > 2).await;
    assert!(asker.gets_one().await.leaf().ends > first.leaf().ends);
}

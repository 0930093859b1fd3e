//! The API of a sidecar whose group is the test.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::course::{Input, Lead};
use super::super::follower::{Follower, Observation};
use super::*;
use crate::group::{Election, ElectionError, ElectionRequest, Keepalive, Stood};
use crate::http::tests::double::{Double, leading, soon};
use crate::http::{Listeners, TokenFile, serve};

const TOKEN: &str = "1sGxOBQaStJ3vS8b";

/// A sidecar at a port and at a socket.
struct Served {
    double: Double,
    folder: tempfile::TempDir,
    port: Place,
    /// Ends it.
    end: DropGuard,
}

impl Served {
    fn new(with_tokens: bool) -> Self {
        let (double, folder) = (Double::new(), tempfile::tempdir().unwrap());
        let listeners = Listeners::on_loopback(0).unwrap();
        let port = Place::of_url(&format!("http://localhost:{}/", listeners.addresses()[0].port()));
        let mut listeners = listeners.and_unix(&folder.path().join("socket")).unwrap();
        if with_tokens {
            let path = folder.path().join("tokens");
            std::fs::write(&path, format!("use {TOKEN}")).unwrap();
            listeners = listeners.for_tokens(TokenFile::open(path).unwrap());
        }
        let (group, metrics) = (double.group.clone(), double.metrics.clone());
        let end = CancellationToken::new();
        tokio::spawn(serve(
            listeners,
            group,
            double.clocks.clone(),
            metrics,
            double.limits,
            end.clone(),
        ));
        Self { double, folder, port: port.unwrap(), end: end.drop_guard() }
    }

    fn socket(&self) -> Place {
        Place::Socket(self.folder.path().join("socket"))
    }

    fn call(&self, election: &str) -> Call {
        let (place, election) = (self.port.clone(), election.to_owned());
        Call { place, token_file: None, election, priority: -4 }
    }

    /// Answers the next call of a candidate, unless it is refused.
    async fn answer(&mut self, error: Option<ElectionError>) {
        let (election, ElectionRequest::Stand(stands, reply)) =
            self.double.next_about_election().await
        else {
            panic!("something else")
        };
        assert_eq!((election.as_str(), stands.candidacy.priority), ("night/reports", -4));
        assert!(matches!(stands.keepalive, Keepalive::Connection(_)));
        let election = || self.double.election.subscribe();
        let stood = error.map_or_else(|| Ok(Stood { created: true, election: election() }), Err);
        assert!(reply.send(stood).is_ok(), "the call waits");
    }
}

async fn refused(call: &Call) -> String {
    match soon(call.open()).await {
        Err(CallError::Refused(error)) => format!("{error:#}"),
        other => panic!("{other:?}"),
    }
}

async fn not_now(call: &Call) -> String {
    match soon(call.open()).await {
        Err(CallError::NotNow(error)) => format!("{error:#}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_candidate_stands_as_long_as_its_stream_lasts_and_follows_the_election() {
    let mut served = Served::new(false);
    for place in [served.port.clone(), served.socket()] {
        served.double.election.send_replace(leading());
        let call = Arc::new(Call { place, ..served.call("night/reports") });
        let mut follower = Follower::begin(call, Duration::ZERO);
        served.answer(None).await;
        let until = served.double.election.borrow().safe_until.unwrap();
        let seen = soon(follower.next()).await;
        let lead = Lead { until, token: None };
        assert!(matches!(seen, Observation::Stated(Input::Leads(is)) if is == lead), "{seen:?}");
        let election = Election { safe_until: None, index: 313, ..leading() };
        served.double.election.send_replace(election);
        for _ in ["lost", "leader"] {
            let seen = soon(follower.next()).await;
            assert!(matches!(seen, Observation::Stated(Input::LeadsNot)), "{seen:?}");
        }
        drop(follower);
        let (election, ElectionRequest::HungUp(_)) = served.double.next_about_election().await
        else {
            panic!("it stays")
        };
        assert_eq!(election, "night/reports");
    }
}

#[tokio::test]
async fn in_the_election_of_the_group_it_follows_and_asks_for_nothing() {
    let mut served = Served::new(false);
    let call = Arc::new(served.call("default"));
    let mut follower = Follower::begin(Arc::clone(&call), Duration::ZERO);
    assert!(matches!(soon(follower.next()).await, Observation::Stated(Input::LeadsNot)));
    served.double.election.send_replace(leading());
    assert!(matches!(soon(follower.next()).await, Observation::Stated(Input::Leads(_))));
    drop(served.end);
    let over = async { while matches!(follower.next().await, Observation::Stated(_)) {} };
    soon(over).await;
    assert!(served.double.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_token_is_shown_and_read_anew_for_each_call() {
    let served = Served::new(true);
    let file = served.folder.path().join("token");
    assert!(refused(&served.call("default")).await.contains("401"));
    let call = Call { token_file: Some(file.clone()), ..served.call("default") };
    assert!(refused(&call).await.contains("read the token in"));
    for (token, is_good) in [("a\nb", false), ("1sGxOBQaStJ3vS8c", false), (TOKEN, true)] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        for place in [served.port.clone(), served.socket()] {
            let call = Call { place, ..call.clone() };
            assert_eq!(soon(call.open()).await.is_ok(), is_good, "{token}");
        }
    }
}

#[tokio::test]
async fn a_call_that_cannot_succeed_is_an_error_and_another_is_done_again() {
    let mut served = Served::new(false);
    let call = served.call("night/reports");
    let asking = tokio::spawn({
        let call = call.clone();
        async move { refused(&call).await }
    });
    served.answer(Some(ElectionError::NoElection)).await;
    let error = soon(asking).await.unwrap();
    assert!(error.contains("404") && error.contains("no election of this name"), "{error}");
    let asking = tokio::spawn(async move { not_now(&call).await });
    while served.double.requests.is_empty() {
        tokio::task::yield_now().await;
    }
    // The one before is over.
    let (_, ElectionRequest::HungUp(_)) = served.double.next_about_election().await else {
        panic!("it stays")
    };
    served.answer(Some(ElectionError::NotReady("no view".to_owned()))).await;
    assert!(soon(asking).await.unwrap().contains("503"));
    let nowhere = Place::Socket(served.folder.path().join("none"));
    let error = not_now(&Call { place: nowhere, ..served.call("default") }).await;
    assert!(error.contains("there is no sidecar at"), "{error}");
}

#[tokio::test]
async fn what_answers_otherwise_than_a_sidecar_is_none() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let other = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
    });
    let place = Place::of_url(&url).unwrap();
    let call = Call { place, token_file: None, election: "default".to_owned(), priority: 0 };
    let error = refused(&call).await;
    assert!(error.contains("is no sidecar"), "{error}");
    other.await.unwrap();
}

#[test]
fn a_url_is_that_of_a_port_of_loopback() {
    let port = |url: &str| match Place::of_url(url) {
        Ok(Place::Port { ips, port }) => Some((ips.len(), port)),
        other => panic!("{other:?}"),
    };
    assert_eq!(port("http://localhost:7070"), Some((2, 7070)));
    assert_eq!(port("http://127.0.0.1:7071/"), Some((1, 7071)));
    assert_eq!(port("http://[::1]:7072"), Some((1, 7072)));
    assert_eq!(port("http://localhost"), Some((2, 80)));
    for url in [
        "",
        "localhost:7070",
        "https://localhost:7070",
        "http://10.1.2.3:7070",
        "http://shop:7070",
        "http://localhost:7070/v1",
        "http://localhost:7070?a",
        "/run/conclave/conclave.sock",
    ] {
        assert!(Place::of_url(url).is_err(), "{url}");
    }
}

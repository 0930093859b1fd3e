//! Who leads, in the words of leader-elector and of the elector of NAIS.

use std::time::Duration;

use axum::Router;
use axum::body::BodyDataStream;
use conclave_protocols::{Epoch, LocalTime};
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::double::*;
use super::hanging_up::{read_until, send};
use crate::group::{Election, Leadership};
use crate::http::leader_elector::router;
use crate::http::{LeaderElector, Listeners};

fn elector(double: &Double, election: &str) -> Router {
    router(&double.api(), election)
}

/// What `GET /` answers.
async fn asked(double: &Double, election: &str) -> Value {
    let answer = answer(elector(double, election), request("GET /", &[], "")).await;
    assert_eq!(answer.status.as_u16(), 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()
}

/// Who leads, if the answer has what either sidecar's has.
fn name(answer: &Value) -> &str {
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(2), "{answer}");
    let date = answer["last_update"].as_str().expect("a date");
    assert!(date.len() == 20 && date.ends_with('Z'), "in whole seconds: {date}");
    let date: Timestamp = date.parse().expect("RFC 3339");
    let ago = Timestamp::now().duration_since(date);
    assert!(ago.as_secs().abs() < 60, "{answer}");
    answer["name"].as_str().expect("a name")
}

/// A stream of answers, which the clients of NAIS read: each is data without a name.
struct Answers {
    body: BodyDataStream,
    text: String,
}

impl Answers {
    async fn open(router: Router) -> Self {
        let response = soon(router.oneshot(request("GET /sse", &[], ""))).await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Who leads, by the next event. Nothing once the stream is over.
    async fn next(&mut self) -> Option<String> {
        soon(self.read()).await
    }

    async fn read(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if event.starts_with(':') {
                    continue;
                }
                let data = event.strip_prefix("data:").expect("nothing but data");
                return Some(name(&serde_json::from_str(data.trim()).expect("JSON")).to_owned());
            }
            let chunk = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event names that pod, or nobody.
    async fn expect(&mut self, pod: &str) {
        assert_eq!(self.next().await.as_deref(), Some(pod));
    }

    /// There is nothing to send for now.
    async fn expect_silence(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(20), self.read()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

#[tokio::test]
async fn a_pod_is_named_only_while_it_leads() {
    let double = Double::new();
    let now = double.group.os_clock().now();
    let own = leading().leader;
    for (election, pod) in [
        (following(), "shop-1"),
        (leading(), "shop-0"),
        (isolated(), ""),
        (Election { safe_until: Some(now), ..leading() }, ""),
        (Election { safe_until: None, ..leading() }, ""),
        (Election { leadership: Leadership::HandingOver, safe_until: None, ..leading() }, ""),
        (Election { leadership: Leadership::Electing, ..following() }, ""),
        // The group names this member already, which does not have the lead yet.
        (Election { leader: own, ..following() }, ""),
    ] {
        double.election.send_replace(election.clone());
        assert_eq!(name(&asked(&double, "default").await), pod, "{election:?}");
        Answers::open(elector(&double, "default")).await.expect(pod).await;
    }
}

#[tokio::test]
async fn the_date_is_when_the_leader_began() {
    let double = Double::new();
    let ago = Duration::from_secs(30);
    let mut election = following();
    let since = LocalTime(double.group.os_clock().now().0.saturating_sub(30_000_000_000));
    election.leader.as_mut().expect("one leads").since = since;
    double.election.send_replace(election);
    let answer = asked(&double, "default").await;
    let date: Timestamp = answer["last_update"].as_str().unwrap().parse().unwrap();
    let shown = Timestamp::now().duration_since(date).unsigned_abs();
    assert!(ago <= shown && shown < ago + Duration::from_secs(10), "{answer}");
}

#[tokio::test]
async fn an_election_that_is_not_there_has_no_leader() {
    let double = Double::new();
    assert_eq!(name(&asked(&double, "reports").await), "");
    Answers::open(elector(&double, "reports")).await.expect("").await;
}

#[tokio::test]
async fn what_was_answered_is_waited_for() {
    let double = Double::new();
    let notified = || *double.group.believers.watch().borrow();
    asked(&double, "default").await;
    assert_eq!(notified().until, LocalTime(0), "it follows");
    double.election.send_replace(leading());
    let until = double.election.borrow().safe_until.expect("it leads");
    asked(&double, "default").await;
    assert_eq!((notified().until, notified().streams), (until, 0));
}

#[tokio::test]
async fn a_stream_is_waited_for_until_it_has_named_nobody() {
    let double = Double::new();
    let notified = || *double.group.believers.watch().borrow();
    double.election.send_replace(leading());
    let until = double.election.borrow().safe_until.expect("it leads");
    let mut answers = Answers::open(elector(&double, "default")).await;
    answers.expect("shop-0").await;
    assert_eq!(notified().streams, 1);
    let ends = Election { leadership: Leadership::HandingOver, safe_until: None, ..leading() };
    double.election.send_replace(Election { index: 314, ..ends });
    answers.expect("").await;
    answers.expect_silence().await;
    assert_eq!(notified().streams, 0);
    assert!(notified().until < until, "it has read the end");
}

#[tokio::test]
async fn a_stream_has_the_present_leader_and_every_other_one() {
    let double = Double::new();
    let mut answers = Answers::open(elector(&double, "default")).await;
    answers.expect("shop-1").await;
    double.election.send_replace(Election { epoch: Epoch(16), index: 312, ..following() });
    answers.expect_silence().await;
    double.election.send_replace(Election { index: 313, ..leading() });
    answers.expect("shop-0").await;
    double.election.send_replace(Election { index: 314, ..isolated() });
    answers.expect("").await;
    double.election.send_replace(Election { index: 315, ..following() });
    answers.expect("shop-1").await;
}

#[tokio::test]
async fn a_stream_names_nobody_when_the_deadline_has_passed() {
    let double = Double::new();
    let safe_until = Some(double.group.os_clock().now().after(Duration::from_millis(100)));
    double.election.send_replace(Election { safe_until, ..leading() });
    let mut answers = Answers::open(elector(&double, "default")).await;
    answers.expect("shop-0").await;
    answers.expect("").await;
}

/// The clients of that time do not open a second one.
#[tokio::test]
async fn a_stream_outlasts_its_election() {
    let double = Double::new();
    let list = |leads: Election| {
        let (sender, seen) = watch::channel(Election { name: "reports".to_owned(), ..leads });
        double.named.send_replace([("reports".to_owned(), seen)].into());
        sender
    };
    let mut answers = Answers::open(elector(&double, "reports")).await;
    answers.expect("").await;
    let first = list(leading());
    answers.expect("shop-0").await;
    drop(first);
    answers.expect("").await;
    answers.expect_silence().await;
    let second = list(isolated());
    answers.expect_silence().await;
    second.send_replace(Election { index: 314, ..following() });
    answers.expect("shop-1").await;
    // What was reported of it holds nobody up that is to lead the group.
    assert_eq!(double.group.believers.watch().borrow().until, LocalTime(0));
}

#[tokio::test]
async fn a_stream_ends_with_the_group() {
    let double = Double::new();
    let mut default = Answers::open(elector(&double, "default")).await;
    let mut named = Answers::open(elector(&double, "reports")).await;
    default.expect("shop-1").await;
    named.expect("").await;
    let Double { election, named: all, .. } = double;
    drop((election, all));
    default.expect("").await;
    assert_eq!((default.next().await, named.next().await), (None, None));
}

#[tokio::test]
async fn it_is_guarded_as_the_api_is() {
    let mut double = Double::new();
    double.limits.long_calls = 1;
    let router = elector(&double, "default");
    for (line, header, status, problem) in [
        ("GET /", "Host: evil.example", 403, "forbidden"),
        ("GET /sse", "Host: evil.example", 403, "forbidden"),
        ("GET /", "Origin: http://localhost:4040", 403, "forbidden"),
        ("GET /sse", "Sec-Fetch-Site: cross-site", 403, "forbidden"),
        ("GET /v1/status", "Host: localhost:4040", 404, "not-found"),
        ("POST /", "Content-Type: application/json", 405, "method-not-allowed"),
    ] {
        let answer = answer(router.clone(), request(line, &[header], "")).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem));
    }
    let first = Answers::open(router.clone()).await;
    let second = answer(router.clone(), request("GET /sse", &[], "")).await;
    assert_eq!((second.status.as_u16(), second.problem().as_str()), (429, "queue-full"));
    drop(first);
    Answers::open(router).await.expect("shop-1").await;
}

#[tokio::test]
async fn it_is_served_on_loopback() {
    let double = Double::new();
    let listeners = Listeners::on_loopback(0).unwrap();
    let addresses = listeners.addresses();
    let elector = LeaderElector { listeners, election: "default".to_owned() };
    let (group, metrics) = (double.group.clone(), double.metrics.clone());
    let clocks = double.clocks.clone();
    tokio::spawn(elector.serve(group, clocks, metrics, double.limits, CancellationToken::new()));
    assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        send(&mut stream, "GET /sse", "").await;
        read_until(&mut stream, r#"data: {"name":"shop-1","last_update":""#).await;
    }
}

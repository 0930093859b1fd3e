//! What the document declares is what is sent.

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use conclave_protocols::policy::LockPolicy;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use super::documents::{operations, read};
use super::double::*;
use crate::claims::{ClaimError, ClaimState, LostReason, Refusal};
use crate::group::{ElectionError, ElectionRequest, Request, Stood};
use crate::http::described::problems;
use crate::http::document;
use crate::locks::Locks;

/// What the document declares of the answer of that status.
fn declared(method: &str, path: &str, status: &str) -> Value {
    let document = serde_json::to_value(document()).expect("plain data");
    let responses = &document["paths"][path][method.to_ascii_lowercase()]["responses"];
    assert!(responses.is_object(), "{method} {path} is not declared");
    let own = &responses[status];
    let declared = if own.is_null() { &responses["default"] } else { own };
    match declared["$ref"].as_str() {
        Some(location) => document.pointer(location.trim_start_matches('#')).expect("it is there"),
        None => declared,
    }
    .clone()
}

#[test]
fn problems_are_declared_with_the_media_type_and_the_status_that_they_have() {
    let mut seen = 0;
    for (method, path, operation) in operations() {
        for status in operation.responses.responses.keys() {
            let response = declared(method, &path, status);
            let media = response["content"].as_object().cloned().unwrap_or_default();
            let problem = "#/components/schemas/Problem";
            let is_problem = |media: &Value| media["schema"]["$ref"] == problem;
            if !media.values().any(is_problem) {
                continue;
            }
            seen += 1;
            let names: Vec<&String> = media.keys().collect();
            assert_eq!(names, ["application/problem+json"], "{method} {path} {status}");
            let description = response["description"].as_str().expect("a text");
            let kinds: Vec<_> = problems(description).collect();
            assert!(!kinds.is_empty(), "{method} {path} {status} names no problem");
            if status != "default" {
                for kind in &kinds {
                    assert_eq!(kind.row().status.as_str(), status, "{method} {path} {kind:?}");
                }
                let states_when = response["headers"].get("Retry-After").is_some();
                let may_help = kinds.iter().any(|kind| kind.row().retryable);
                assert_eq!(states_when, may_help, "{method} {path} {status}");
            }
        }
        let any = declared(method, &path, "599");
        assert!(any["content"]["application/problem+json"].is_object(), "{method} {path}");
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn names_in_paths_are_declared_with_their_length_and_their_characters() {
    let document = serde_json::to_value(document()).expect("plain data");
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for operation in item.as_object().expect("operations").values() {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "path") {
                let most = match parameter["name"].as_str() {
                    Some("name") => 253,
                    Some("claim") => 128,
                    Some("election") => 63,
                    other => panic!("{path}: {other:?}"),
                };
                let schema = &parameter["schema"];
                assert_eq!((&schema["minLength"], &schema["maxLength"]), (&1.into(), &most.into()));
                assert!(schema["pattern"].as_str().is_some_and(|p| p.starts_with("^[")), "{path}");
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn the_longest_hold_is_stated_where_a_user_looks() {
    let minutes = LockPolicy::default().max_hold.as_secs() / 60;
    let minutes = format!("{minutes} minutes");
    let document = serde_json::to_value(document()).expect("plain data");
    let field = &document["components"]["schemas"]["ClaimRequest"]["properties"]["max_hold"];
    let stated = field["description"].as_str().expect("a text");
    assert!(stated.contains(&minutes) && stated.contains("`maxHold`"), "{stated}");
    let text = read("docs/http-api.md");
    for line in ["The sidecar renews the hold", "| `max_hold` |"] {
        let place = text.find(line).unwrap_or_else(|| panic!("{line} is not there"));
        let near: String = text[place..].chars().take(300).collect();
        assert!(near.contains(&minutes) && near.contains("`maxHold`"), "{near}");
    }
    for (path, method) in [("/v1/locks/{name}", "post"), ("/v1/locks/{name}/claims/{claim}", "put")]
    {
        let parameters = document["paths"][path][method]["parameters"].as_array().expect("some");
        let named = |name: &str| parameters.iter().any(|parameter| parameter["name"] == name);
        assert!(["wait", "ttl", "max_hold", "owner", "Prefer"].into_iter().all(named), "{path}");
    }
}

/// A call that is made, and what the group does about it.
struct Call {
    /// The method and the path's template.
    route: &'static str,
    /// What stands in the place of the template's names, and after it.
    path: &'static str,
    headers: &'static [&'static str],
    body: &'static str,
    play: Play,
}

enum Play {
    Nothing,
    Grant,
    Wait,
    Refuse,
    Find(Result<ClaimState, ClaimError>),
    Change(Result<ClaimState, ClaimError>),
    Stand,
    Give,
    NoElection,
    Locks,
}

fn call(route: &'static str, path: &'static str, play: Play) -> Call {
    Call { route, path, headers: &[], body: "", play }
}

#[rustfmt::skip] // One call, one line.
fn calls() -> Vec<Call> {
    use Play::*;
    const LOCK: &str = "/v1/locks/orders";
    const CLAIM: &str = "/v1/locks/orders/claims/1f-1";
    const CHECK: &str = "/v1/locks/orders/claims/1f-1/check";
    const RENEW: &str = "/v1/locks/orders/claims/1f-1/renew";
    const STAMP: &str = r#"{"stamp": {"kind": "Lamport", "counter": 1, "process": "shop-1/2e"}}"#;
    const STAMPS_OF_TIME: &str = "/v1/time/compare?a_ns=1&a_error_ns=2&b_ns=3&b_error_ns=4";
    const STAMPS: &str = r#"{"a": {"kind": "Vector", "entries": {}}, "b": {"kind": "Vector", "entries": {}}}"#;
    const STREAM: &[&str] = &["Accept: text/event-stream"];
    let lost = || Ok(ClaimState::Lost(LostReason::MaxHold));
    let refused = || Ok(ClaimState::Refused(Refusal::Held { holder: Some(holder()) }));
    vec![
        call("POST /v1/locks/{name}", LOCK, Grant),
        call("POST /v1/locks/{name}", LOCK, Refuse),
        call("POST /v1/locks/{name}", "/v1/locks/orders?wait=1x", Nothing),
        Call { headers: &["Prefer: respond-async"], ..call("POST /v1/locks/{name}", "/v1/locks/orders?wait=1m", Wait) },
        Call { headers: STREAM, ..call("POST /v1/locks/{name}", LOCK, Grant) },
        Call { headers: &["Content-Type: text/plain"], body: "x", ..call("POST /v1/locks/{name}", LOCK, Nothing) },
        call("GET /v1/locks", "/v1/locks", Locks),
        call("GET /v1/locks", "/v1/locks?limit=0", Nothing),
        call("GET /v1/locks/{name}", "/v1/locks/orders?wait=1s", Nothing),
        call("GET /v1/locks/{name}", LOCK, Locks),
        call("PUT /v1/locks/{name}/claims/{claim}", CLAIM, Grant),
        Call { headers: STREAM, ..call("PUT /v1/locks/{name}/claims/{claim}", CLAIM, Grant) },
        call("GET /v1/locks/{name}/claims/{claim}", CLAIM, Find(Ok(held()))),
        call("GET /v1/locks/{name}/claims/{claim}", CLAIM, Find(lost())),
        call("GET /v1/locks/{name}/claims/{claim}", CLAIM, Find(refused())),
        call("GET /v1/locks/{name}/claims/{claim}", CLAIM, Find(Err(ClaimError::NotFound))),
        Call { headers: STREAM, ..call("GET /v1/locks/{name}/claims/{claim}", CLAIM, Find(Ok(waiting()))) },
        call("GET /v1/locks/{name}/claims/{claim}/check", CHECK, Find(Ok(held()))),
        call("GET /v1/locks/{name}/claims/{claim}/check", CHECK, Find(Ok(waiting()))),
        call("GET /v1/locks/{name}/claims/{claim}/check", CHECK, Find(lost())),
        call("GET /v1/locks/{name}/claims/{claim}/check", "/v1/locks/orders/claims/1f-1/check?wait=1s", Nothing),
        call("POST /v1/locks/{name}/claims/{claim}/renew", RENEW, Change(Ok(held()))),
        call("POST /v1/locks/{name}/claims/{claim}/renew", RENEW, Change(Err(ClaimError::Waiting))),
        call("DELETE /v1/locks/{name}/claims/{claim}", CLAIM, Change(Ok(ClaimState::Released))),
        call("DELETE /v1/locks/{name}/claims/{claim}", CLAIM, Change(Err(ClaimError::Restarted))),
        call("GET /v1/elections", "/v1/elections", Nothing),
        call("GET /v1/elections", "/v1/elections?wait=1s", Nothing),
        call("GET /v1/elections/{election}", "/v1/elections/default", Nothing),
        call("GET /v1/elections/{election}", "/v1/elections/unknown", Nothing),
        Call { headers: STREAM, ..call("GET /v1/elections/{election}", "/v1/elections/default", Nothing) },
        call("GET /v1/elections/{election}/self", "/v1/elections/default/self", Nothing),
        call("GET /v1/elections/{election}/self", "/v1/elections/default/self?x=1", Nothing),
        call("PUT /v1/elections/{election}/candidacy", "/v1/elections/reports/candidacy", Stand),
        Call { headers: STREAM, ..call("PUT /v1/elections/{election}/candidacy", "/v1/elections/reports/candidacy", Stand) },
        call("PUT /v1/elections/{election}/candidacy", "/v1/elections/default/candidacy", Nothing),
        call("DELETE /v1/elections/{election}/candidacy", "/v1/elections/reports/candidacy", Give),
        call("POST /v1/elections/{election}/resign", "/v1/elections/reports/resign", Give),
        call("POST /v1/elections/{election}/resign", "/v1/elections/reports/resign", NoElection),
        call("POST /v1/elections/{election}/transfer", "/v1/elections/reports/transfer", Nothing),
        call("GET /v1/time/peers", "/v1/time/peers", Nothing),
        call("GET /v1/members", "/v1/members", Nothing),
        call("GET /v1/status", "/v1/status", Nothing),
        call("GET /v1/time", "/v1/time", Nothing),
        Call { headers: &["Accept: text/plain"], ..call("GET /v1/time", "/v1/time", Nothing) },
        call("GET /v1/time", "/v1/time?max_error=x", Nothing),
        call("GET /v1/time/compare", STAMPS_OF_TIME, Nothing),
        Call { headers: &["Accept: text/plain"], ..call("GET /v1/time/compare", STAMPS_OF_TIME, Nothing) },
        call("GET /v1/time/compare", "/v1/time/compare?a_ns=1&a_error_ns=1", Nothing),
        call("GET /v1/time/compare", "/v1/time/compare", Nothing),
        call("GET /v1/time/history", "/v1/time/history", Nothing),
        call("GET /v1/time/history", "/v1/time/history?limit=0", Nothing),
        call("GET /v1/time/wait", "/v1/time/wait?timeout=0", Nothing),
        call("GET /v1/time/wait", "/v1/time/wait", Nothing),
        call("POST /v1/clocks/{name}/tick", "/v1/clocks/orders/tick?kind=Vector", Nothing),
        call("POST /v1/clocks/{name}/tick", "/v1/clocks/orders/tick", Nothing),
        call("POST /v1/clocks/{name}/tick", "/v1/clocks/orders/tick?kind=Hybrid", Nothing),
        Call { body: STAMP, ..call("POST /v1/clocks/{name}/receive", "/v1/clocks/orders/receive", Nothing) },
        call("POST /v1/clocks/{name}/receive", "/v1/clocks/orders/receive", Nothing),
        call("GET /v1/clocks/{name}", "/v1/clocks/orders", Nothing),
        call("GET /v1/clocks/{name}", "/v1/clocks/orders?wait=1s", Nothing),
        call("GET /v1/clocks", "/v1/clocks", Nothing),
        call("GET /v1/clocks", "/v1/clocks?wait=1s", Nothing),
        call("DELETE /v1/clocks/{name}", "/v1/clocks/orders", Nothing),
        call("DELETE /v1/clocks/{name}", "/v1/clocks/orders?wait=1s", Nothing),
        Call { body: STAMPS, ..call("POST /v1/clocks/compare", "/v1/clocks/compare", Nothing) },
        call("POST /v1/clocks/compare", "/v1/clocks/compare", Nothing),
        call("GET /openapi.json", "/openapi.json", Nothing),
    ]
}

/// Does what a group would do about a call. What it returns keeps what the call watches.
async fn play(double: &mut Double, play: Play) -> Option<Box<dyn std::any::Any>> {
    match play {
        Play::Nothing => None,
        Play::Grant => Some(Box::new(double.accept(held()).await)),
        Play::Wait => Some(Box::new(double.accept(waiting()).await)),
        Play::Refuse => {
            let refusal = Refusal::Held { holder: Some(holder()) };
            Some(Box::new(double.accept(ClaimState::Refused(refusal)).await))
        }
        Play::Find(found) => Some(Box::new(double.find(found.map(claim)).await)),
        Play::Change(changed) => {
            double.change(changed.map(claim)).await;
            None
        }
        Play::Stand => {
            let (_, request) = double.next_about_election().await;
            let ElectionRequest::Stand(_, reply) = request else { panic!("another") };
            let (sender, election) = tokio::sync::watch::channel(leading());
            assert!(reply.send(Ok(Stood { created: true, election })).is_ok());
            Some(Box::new(sender))
        }
        Play::Give => {
            match double.next_about_election().await.1 {
                ElectionRequest::Withdraw(reply) | ElectionRequest::Resign(_, _, reply) => {
                    reply.send(Ok(())).expect("the call waits");
                }
                ElectionRequest::Stand(..)
                | ElectionRequest::HungUp(_)
                | ElectionRequest::Transfer(..) => panic!("another"),
            }
            None
        }
        Play::NoElection => {
            double.next_about_election().await.1.refuse(ElectionError::NotLeader);
            None
        }
        Play::Locks => {
            let Request::Locks(_, reply) = double.next().await else { panic!("another") };
            let locks = vec![super::locks::lock()];
            reply.send(Ok(Locks { locks, ..Locks::default() })).expect("the call waits");
            None
        }
    }
}

fn begin(double: &Double, line: &str, headers: &[&str], body: &str) -> JoinHandle<Response<Body>> {
    let (router, request) = (double.router(), request(line, headers, body));
    tokio::spawn(async move { router.oneshot(request).await.expect("a router does not fail") })
}

/// What goes along, but for what all answers have.
fn of_our_own(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let names = headers.keys().map(axum::http::HeaderName::as_str);
    names.filter(|name| {
        name.starts_with("conclave-")
            || ["location", "etag", "retry-after", "www-authenticate"].contains(name)
    })
}

#[tokio::test]
async fn every_answer_is_declared_and_json_ends_its_line() {
    let mut called = std::collections::BTreeSet::new();
    for Call { route, path, headers, body, play: group } in calls() {
        let mut double = Double::new();
        let (method, template) = route.split_once(' ').expect("method and path");
        called.insert(route);
        let line = format!("{method} {path}");
        let response = begin(&double, &line, headers, body);
        let _kept = play(&mut double, group).await;
        let response = soon(response).await.expect("it is answered");
        let status = response.status();
        let declared = declared(method, template, status.as_str());
        for name in of_our_own(response.headers()) {
            let known = declared["headers"].as_object().cloned().unwrap_or_default();
            let is_known = known.keys().any(|known| known.eq_ignore_ascii_case(name));
            assert!(is_known, "{line} {status}: {name}");
        }
        let media = response.headers().get("content-type");
        let Some(media) = media.map(|media| media.to_str().expect("ASCII").to_owned()) else {
            assert!(declared.get("content").is_none(), "{line} {status} has nothing");
            continue;
        };
        let media = media.split(';').next().expect("a type");
        assert!(declared["content"].get(media).is_some(), "{line} {status}: {media}");
        if media == "text/event-stream" {
            continue;
        }
        let bytes = response.into_body().collect().await.expect("it ends").to_bytes();
        let text = std::str::from_utf8(&bytes).expect("text");
        let is_one_line = text.lines().count() == 1 || path == "/openapi.json";
        assert!(text.ends_with('\n') && is_one_line, "{line} {status}: {text:?}");
    }
    let routes: std::collections::BTreeSet<String> =
        operations().iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert!(routes.iter().map(String::as_str).eq(called), "a route is not called");
}

#[tokio::test]
async fn what_no_route_answers_ends_its_line_too() {
    let double = Double::new();
    for (line, status) in
        [("GET /v1/x", StatusCode::NOT_FOUND), ("PATCH /v1/time", StatusCode::METHOD_NOT_ALLOWED)]
    {
        let answer = double.call(line, &[], "").await.expect("it is answered");
        assert_eq!(answer.status, status);
        assert!(answer.text.ends_with("}\n"), "{}", answer.text);
    }
}

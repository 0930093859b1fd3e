//! Elections.

use conclave_protocols::member::Profile;
use conclave_protocols::{FencingToken, LocalTime};
use serde_json::json;

use super::double::*;
use crate::group::{
    Election, ElectionError, ElectionLease, ElectionRequest, Keepalive, Leader, Leadership, Stood,
};

#[tokio::test]
async fn an_election_shows_who_leads() {
    let double = Double::new();
    let answer = double.get("/v1/elections/default").await;
    assert_eq!(answer.status.as_u16(), 200);
    let mut election = answer.json();
    assert!(election["leader"]["since_ms"].as_u64().is_some_and(|ms| ms < 60_000));
    election["leader"]["since_ms"] = json!(0);
    let expected = json!({
        "election": "default", "algorithm": "Bully", "arbiter": "Quorum", "guarantee": "safe",
        "epoch": 12, "index": 311, "is_leader": false, "state": "following",
        "leader": {"pod": "shop-1", "uid": "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01",
            "ip": "10.1.2.3", "since_ms": 0},
        "candidates": 2, "transitions": 4, "last_election": {"messages": 7, "duration_ms": 38},
        "expected_messages": {"best": 1, "worst": 3}
    });
    assert_eq!(election, expected);
    assert_eq!(double.get("/v1/elections").await.json()["elections"][0]["election"], "default");
}

#[tokio::test]
async fn self_is_200_only_while_this_member_surely_leads() {
    let double = Double::new();
    let now = double.group.os_clock().now();
    let cases = [
        (following(), 503, "following"),
        (leading(), 200, "leading"),
        (Election { safe_until: Some(now), ..leading() }, 503, "isolated"),
        (Election { safe_until: None, ..leading() }, 503, "isolated"),
        (
            Election { leadership: Leadership::HandingOver, safe_until: None, ..leading() },
            503,
            "handing-over",
        ),
        (
            Election { leadership: Leadership::Electing, leader: None, ..following() },
            503,
            "electing",
        ),
        (
            Election { leadership: Leadership::Isolated, leader: None, ..following() },
            503,
            "isolated",
        ),
    ];
    for (election, status, state) in cases {
        double.election.send_replace(election);
        let answer = double.get("/v1/elections/default/self").await;
        assert_eq!(answer.status.as_u16(), status, "{state}");
        let body = answer.json();
        assert_eq!((&body["is_leader"], &body["state"]), (&(status == 200).into(), &state.into()));
        assert_eq!(body.get("safe_for_ms").is_some(), status == 200);
        let leads_itself = body["leader"]["pod"] == "shop-0";
        assert_eq!(leads_itself, status == 200 || state == "handing-over", "{body}");
    }
}

#[tokio::test]
async fn a_long_poll_answers_when_another_leads() {
    let double = Double::new();
    let call = double.call("GET /v1/elections/default?wait=1m&index=311", &[], "");
    tokio::task::yield_now().await;
    double.election.send_replace(leading());
    assert_eq!(soon(call).await.unwrap().json()["is_leader"], true);
}

#[tokio::test]
async fn an_application_that_learned_that_this_member_leads_is_waited_for() {
    let double = Double::new();
    let notified = || *double.group.believers.watch().borrow();
    double.get("/v1/elections/default/self").await;
    assert_eq!(notified().until, LocalTime(0), "it follows");
    double.election.send_replace(leading());
    let until = double.election.borrow().safe_until.expect("it leads");
    for path in ["/v1/elections", "/v1/elections/default", "/v1/elections/default/self"] {
        double.get(path).await;
        assert_eq!((notified().until, notified().streams), (until, 0), "{path}");
    }
}

#[tokio::test]
async fn there_is_no_election_of_another_name() {
    let double = Double::new();
    for path in ["/v1/elections/other", "/v1/elections/other/self"] {
        let answer = double.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"));
    }
}

/// An election of an application, which this member leads.
fn reports() -> Election {
    let token = hold().token;
    Election { name: "reports".to_owned(), token, ..leading() }
}

#[tokio::test]
async fn a_candidacy_is_put_once_and_deleted_as_often_as_one_likes() {
    let mut double = Double::new();
    let (_election, seen) = tokio::sync::watch::channel(reports());
    let path = "/v1/elections/reports/candidacy";
    for (query, body, priority, created, status) in [
        ("", "", 0, true, 201),
        ("?priority=-3", "", -3, false, 200),
        ("", r#"{"priority": 7}"#, 7, false, 200),
    ] {
        let json = ["Content-Type: application/json"];
        let headers = if body.is_empty() { &[][..] } else { &json };
        let call = double.call(&format!("PUT {path}{query}"), headers, body);
        let (name, ElectionRequest::Stand(stands, reply)) = double.next_about_election().await
        else {
            panic!("another")
        };
        assert_eq!((name.as_str(), stands.candidacy.priority), ("reports", priority));
        assert!(matches!(stands.keepalive, Keepalive::Sidecar));
        let stood = Stood { created, election: seen.clone() };
        assert!(reply.send(Ok(stood)).is_ok(), "the call waits");
        let answer = soon(call).await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        let view = answer.json();
        assert_eq!((&view["election"], &view["is_leader"]), (&"reports".into(), &true.into()));
        assert_eq!(view["token"].as_u64(), reports().token.map(FencingToken::get));
    }
    for (answer, status) in [(Ok(()), 204), (Err(ElectionError::NoElection), 404)] {
        let call = double.call(&format!("DELETE {path}"), &[], "");
        let (_, ElectionRequest::Withdraw(reply)) = double.next_about_election().await else {
            panic!("another")
        };
        reply.send(answer).expect("the call waits");
        assert_eq!(soon(call).await.unwrap().status.as_u16(), status);
    }
}

/// Only a change of the leader begins with `elected` or `leader`: an application starts its work by it.
#[tokio::test]
async fn the_events_of_a_leader_that_stays_do_not_announce_it_anew() {
    use crate::http::watched::Watched as _;
    let now = Double::new().group.os_clock().moment();
    let first = reports();
    let more = Election { index: first.index + 1, candidates: 9, ..first.clone() };
    let again =
        Election { token: first.token.and_then(FencingToken::next_of_block), ..more.clone() };
    let views = [&first, &more, &again].map(|election| election.view(now));
    let events = |before: usize, now: usize| Election::events(Some(&views[before]), &views[now]);
    assert_eq!(Election::events(None, &views[0]), ["elected"]);
    assert_eq!(events(0, 0), ["safe"]);
    assert_eq!(events(0, 1), ["changed"]);
    assert_eq!(events(1, 2), ["lost", "elected"], "it led twice");
}

#[tokio::test]
async fn what_is_wrong_with_a_candidacy_is_named() {
    let double = Double::new();
    for (line, status, text) in [
        ("PUT /v1/elections/default/candidacy", 403, "every member stands in `default`"),
        ("DELETE /v1/elections/default/candidacy", 403, "every member stands in `default`"),
        ("PUT /v1/elections/reports/candidacy?priority=high", 400, "priority"),
        ("PUT /v1/elections/reports/candidacy?weight=1", 400, "weight"),
        ("DELETE /v1/elections/reports/candidacy?priority=1", 400, "priority"),
    ] {
        let answer = soon(double.call(line, &[], "")).await.unwrap();
        assert_eq!(answer.status.as_u16(), status, "{line}");
        assert!(answer.text.contains(text), "{line}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_named_election_is_shown_like_any_other() {
    let double = Double::new();
    assert_eq!(double.get("/v1/elections/reports").await.status.as_u16(), 404);
    let (_election, seen) = tokio::sync::watch::channel(reports());
    double.named.send_replace([("reports".to_owned(), seen)].into());
    assert_eq!(double.get("/v1/elections/reports/self").await.status.as_u16(), 200);
    let list = double.get("/v1/elections").await.json();
    let names = [&list["elections"][0]["election"], &list["elections"][1]["election"]];
    assert_eq!(names, [&"default", &"reports"]);
    // What was reported of it holds nobody up that is to lead the group.
    assert_eq!(double.group.believers.watch().borrow().until, LocalTime(0));
}

#[tokio::test]
async fn the_lease_that_a_leader_needs_and_its_holder_are_shown() {
    let double = Double::new();
    assert!(double.get("/v1/elections/default").await.json().get("lease").is_none());
    let jobs = |holder: Option<&str>| {
        let holder = holder.map(str::to_owned);
        Some(ElectionLease { name: "jobs".to_owned(), holder })
    };
    let (name, lease) = ("reports".to_owned(), jobs(Some("import-1")));
    let waits = Leadership::Electing;
    let election = Election { name, lease, leadership: waits, leader: None, ..following() };
    let (election, seen) = tokio::sync::watch::channel(election);
    double.named.send_replace([("reports".to_owned(), seen)].into());
    let answer = double.get("/v1/elections/reports/self").await;
    let shown = answer.json();
    assert_eq!((answer.status.as_u16(), &shown["leader"]), (503, &serde_json::Value::Null));
    assert_eq!(shown["lease"], json!({"name": "jobs", "holder": "import-1"}));
    election.send_modify(|election| election.lease = jobs(None));
    let shown = double.get("/v1/elections/reports").await.json();
    assert_eq!(shown["lease"], json!({"name": "jobs", "holder": null}));
}

#[tokio::test]
async fn a_candidacy_lasts_as_its_application_states() {
    let stream = ["Accept: text/event-stream"];
    let mut double = Double::new();
    for (query, headers, expected) in [
        ("", &[][..], "sidecar"),
        ("?keepalive=sidecar", &stream, "sidecar"),
        ("", &stream, "connection"),
        ("?keepalive=connection", &stream, "connection"),
        ("?keepalive=client&ttl=5s", &[], "5s"),
        ("?ttl=5s", &stream, "5s"),
    ] {
        let line = format!("PUT /v1/elections/reports/candidacy{query}");
        let call = double.call(&line, headers, "");
        let (_, ElectionRequest::Stand(stands, _)) = double.next_about_election().await else {
            panic!("another")
        };
        let lasts = match stands.keepalive {
            Keepalive::Sidecar => "sidecar".to_owned(),
            Keepalive::Connection(_) => "connection".to_owned(),
            Keepalive::Client(ttl) => format!("{ttl:?}"),
            Keepalive::Annotation => "annotation".to_owned(),
        };
        assert_eq!(lasts, expected, "{line} {headers:?}");
        assert_eq!(soon(call).await.unwrap().status.as_u16(), 503, "the group is gone");
        if expected == "connection" {
            let (_, request) = double.next_about_election().await;
            assert!(matches!(request, ElectionRequest::HungUp(_)), "{request:?}");
        }
    }
    for (query, field) in [
        ("?keepalive=connection", "keepalive"),
        ("?keepalive=always", "keepalive"),
        ("?keepalive=client", "ttl"),
        ("?keepalive=client&ttl=0s", "ttl"),
        ("?keepalive=sidecar&ttl=5s", "ttl"),
        ("?address=", "address"),
        ("?metadata=1", "metadata"),
    ] {
        let line = format!("PUT /v1/elections/reports/candidacy{query}");
        let answer = soon(double.call(&line, &[], "")).await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["field"]),
            (400, &field.into()),
            "{line}"
        );
    }
}

/// It leads, perhaps, by what it asked for before; that stays as it is.
#[tokio::test]
async fn a_candidacy_by_a_stream_that_is_turned_away_changes_nothing() {
    let mut double = Double::new();
    double.limits.long_calls = 0;
    let line = "PUT /v1/elections/reports/candidacy";
    let answer = soon(double.call(line, &["Accept: text/event-stream"], "")).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (429, "queue-full"));
    assert!(double.requests.try_recv().is_err(), "the group was asked");
}

#[tokio::test]
async fn what_a_leader_states_of_itself_is_shown() {
    let double = Double::new();
    let profile = Profile {
        address: Some("10.1.2.3:8080".to_owned()),
        metadata: Some(r#"{"zone":"a"}"#.to_owned().into()),
    };
    let leader = reports().leader.map(|leader| Leader { profile, ..leader });
    let (_election, seen) = tokio::sync::watch::channel(Election { leader, ..reports() });
    double.named.send_replace([("reports".to_owned(), seen)].into());
    let shown = double.get("/v1/elections/reports").await.json()["leader"].clone();
    assert_eq!(
        (&shown["address"], &shown["metadata"]["zone"]),
        (&json!("10.1.2.3:8080"), &json!("a"))
    );
}

#[tokio::test]
async fn a_leader_resigns_and_a_lead_is_transferred() {
    let mut double = Double::new();
    let seconds = std::time::Duration::from_secs;
    for (election, line, expected) in [
        ("reports", "resign", (None, seconds(10))),
        ("reports", "resign?cooldown=0s", (None, seconds(0))),
        ("reports", "resign?to=shop-1&cooldown=1m", (Some("shop-1"), seconds(60))),
        ("default", "resign", (None, seconds(10))),
        ("default", "resign?to=shop-1&cooldown=1m", (Some("shop-1"), seconds(60))),
    ] {
        let call = double.call(&format!("POST /v1/elections/{election}/{line}"), &[], "");
        let (name, ElectionRequest::Resign(to, cooldown, reply)) =
            double.next_about_election().await
        else {
            panic!("another")
        };
        assert_eq!((name.as_str(), to.as_deref(), cooldown), (election, expected.0, expected.1));
        reply.send(Ok(())).expect("the call waits");
        assert_eq!(soon(call).await.unwrap().status.as_u16(), 202);
    }
    for (answer, status, problem) in [
        (ElectionError::NotLeader, 409, "not-leader"),
        (ElectionError::NoCandidate("shop-9".to_owned()), 404, "not-found"),
        (ElectionError::Closed, 503, "terminating"),
    ] {
        let call = double.call("POST /v1/elections/reports/transfer?to=shop-9", &[], "");
        let (_, ElectionRequest::Transfer(to, reply)) = double.next_about_election().await else {
            panic!("another")
        };
        assert_eq!(to, "shop-9");
        reply.send(Err(answer)).expect("the call waits");
        let answer = soon(call).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem));
    }
    for (line, status, text) in [
        ("POST /v1/elections/reports/transfer", 400, "the name or the UID of a pod"),
        ("POST /v1/elections/reports/resign?cooldown=soon", 400, "cooldown"),
    ] {
        let answer = soon(double.call(line, &[], "")).await.unwrap();
        assert_eq!(answer.status.as_u16(), status, "{line}");
        assert!(answer.text.contains(text), "{line}: {}", answer.text);
    }
}

/// It still leads: nobody else begins before it has stopped.
#[tokio::test]
async fn a_leader_that_hands_over_leads_until_its_deadline() {
    use crate::http::watched::Watched as _;
    let double = Double::new();
    let now = double.group.os_clock().moment();
    let leads = reports();
    let hands_over = Election { leadership: Leadership::HandingOver, ..leads.clone() };
    let ended = Election { leadership: Leadership::Electing, leader: None, ..leads.clone() };
    let views = [&leads, &hands_over, &ended].map(|election| election.view(now));
    let events = |before: usize, now: usize| Election::events(Some(&views[before]), &views[now]);
    assert_eq!((events(0, 1), events(1, 2)), (vec!["handing-over"], vec!["lost", "no-leader"]));
    let (_election, seen) = tokio::sync::watch::channel(hands_over);
    double.named.send_replace([("reports".to_owned(), seen)].into());
    let answer = double.get("/v1/elections/reports/self").await;
    let view = answer.json();
    assert_eq!((answer.status.as_u16(), &view["state"]), (200, &json!("handing-over")));
    assert!(view["safe_for_ms"].as_u64().is_some_and(|left| left > 0), "{view}");
}

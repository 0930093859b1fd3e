//! A group that does what the test says, and calls of its API.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use conclave_protocols::clock::{ClockMap, Rates, VirtualClock};
use conclave_protocols::member::Profile;
use conclave_protocols::policy::{
    Arbiter, ClockPolicy, ElectionAlgorithm, Evidence, LockAlgorithm,
};
use conclave_protocols::{Epoch, FencingToken, LocalTime, LockName};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::claims::{
    Ask, AskError, Claim, ClaimError, ClaimId, ClaimState, Held, Holder, LostReason,
};
use crate::clocks::SharedClocks;
use crate::group::{
    Asked, Believers, CandidacyState, Election, ElectionCost, ElectionRequest, Group, LastElection,
    LatestTime, Leader, Leadership, MemberStatus, NamedElections, Request, Status,
};
use crate::http::{Api, Limits, router};
use crate::metrics::Metrics;
use crate::os_clock::OsClock;
use crate::probes::Probed;

/// A group whose task is the test.
pub(crate) struct Double {
    pub(crate) group: Group,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) election: watch::Sender<Election>,
    pub(crate) named: watch::Sender<NamedElections>,
    pub(crate) time: watch::Sender<ClockMap>,
    pub(crate) probed: watch::Sender<Probed>,
    pub(crate) life: watch::Sender<LocalTime>,
    pub(crate) clocks: SharedClocks,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Double {
    /// A group of two, led by the other.
    pub(crate) fn new() -> Self {
        let (sender, requests) = mpsc::channel(16);
        let (status, status_seen) = watch::channel(status());
        let (election, election_seen) = watch::channel(following());
        let (named, named_seen) = watch::channel(NamedElections::new());
        let rates = Rates::new(100, 500);
        let (time, time_seen) = watch::channel(VirtualClock::new(0, rates).map());
        let (probed, probed_seen) = watch::channel(Probed::default());
        let (life, life_seen) = watch::channel(LocalTime(0));
        let group = Group {
            requests: sender,
            status: status_seen,
            election: election_seen,
            named: named_seen,
            time: time_seen,
            probed: probed_seen,
            life: life_seen,
            clock: OsClock::default(),
            latest: LatestTime::default(),
            believers: Believers::default(),
        };
        let (metrics, limits) = (Metrics::new("orders"), Limits::default());
        let clocks = SharedClocks::new("shop-0");
        Self {
            group,
            metrics,
            limits,
            requests,
            status,
            election,
            named,
            time,
            probed,
            life,
            clocks,
        }
    }

    pub(crate) fn api(&self) -> Api {
        let (group, clocks) = (self.group.clone(), self.clocks.clone());
        Api::new(group, clocks, self.metrics.clone(), self.limits, None)
    }

    pub(crate) fn router(&self) -> Router {
        router(self.api())
    }

    /// Begins a call such as `POST /v1/locks/a`, with headers such as `Prefer: respond-async`.
    pub(crate) fn call(&self, line: &str, headers: &[&str], body: &str) -> JoinHandle<Answer> {
        let request = request(line, headers, body);
        tokio::spawn(answer(self.router(), request))
    }

    /// Calls something that the group has no part in.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        soon(self.call(&format!("GET {path}"), &[], "")).await.expect("the call ends")
    }

    /// What the group is asked next.
    pub(crate) async fn next(&mut self) -> Request {
        soon(self.requests.recv()).await.expect("the API has a handle")
    }

    /// The next request, which asks for a lock.
    pub(crate) async fn next_ask(&mut self) -> (Ask, oneshot::Sender<Result<Asked, AskError>>) {
        let request = self.next().await;
        let Request::Ask(ask, reply) = request else { panic!("nothing was asked: {request:?}") };
        (ask, reply)
    }

    /// Answers the next request, which asks for a lock, with a claim in this state.
    pub(crate) async fn accept(&mut self, state: ClaimState) -> watch::Sender<Claim> {
        let (ask, reply) = self.next_ask().await;
        let mut claim = claim(state);
        claim.lock = ask.lock;
        claim.id = ask.claim.unwrap_or(claim.id);
        let (sender, claim) = watch::channel(claim);
        // The caller may have hung up.
        let _ = reply.send(Ok(Asked { created: true, claim }));
        sender
    }

    /// Answers the next request, which looks for a claim.
    pub(crate) async fn find(
        &mut self,
        found: Result<Claim, ClaimError>,
    ) -> Option<watch::Sender<Claim>> {
        let Request::Find(_, _, reply) = self.next().await else { panic!("nobody looked") };
        match found {
            Ok(claim) => {
                let (sender, claim) = watch::channel(claim);
                reply.send(Ok(claim)).expect("the call waits");
                Some(sender)
            }
            Err(error) => {
                reply.send(Err(error)).expect("the call waits");
                None
            }
        }
    }

    /// Answers the next request, which renews a claim or gives it back.
    pub(crate) async fn change(&mut self, changed: Result<Claim, ClaimError>) {
        let request = self.next().await;
        if let Request::Renew(_, _, _, reply) = request {
            reply.send(changed).expect("the call waits");
        } else if let Request::Release(_, _, reply) = request {
            reply.send(changed.map(drop)).expect("the call waits");
        } else {
            panic!("no claim is changed: {request:?}");
        }
    }

    /// The next request, which is about a named election.
    pub(crate) async fn next_about_election(&mut self) -> (String, ElectionRequest) {
        let request = self.next().await;
        let Request::Election(name, request) = request else { panic!("another: {request:?}") };
        (name, request)
    }

    /// The next request, which gives a claim back.
    pub(crate) async fn next_release(&mut self) -> (LockName, ClaimId) {
        let request = self.next().await;
        let Request::Release(lock, claim, _) = request else {
            panic!("nothing was released: {request:?}")
        };
        (lock, claim)
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("ASCII"))
    }

    /// The type of the problem, which must be a whole one.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16(), "{problem}");
        for text in ["title", "detail"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        assert!(problem["retryable"].is_boolean(), "{problem}");
        let kind = problem["type"].as_str().expect("a type");
        kind.strip_prefix("https://conclave.dev/problems/").expect("one of ours").to_owned()
    }
}

/// What a router answers.
pub(crate) async fn answer(router: Router, request: HttpRequest<Body>) -> Answer {
    let response = soon(router.oneshot(request)).await.expect("a router does not fail");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("the body ends").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    Answer { status: parts.status, headers: parts.headers, text }
}

/// Fails the test rather than wait for ever.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("not in time")
}

pub(crate) fn request(line: &str, headers: &[&str], body: &str) -> HttpRequest<Body> {
    let (method, path) = line.split_once(' ').expect("method and path");
    let mut request = HttpRequest::builder().method(method).uri(path);
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        request = request.header("host", "localhost:7070");
    }
    for header in headers {
        let (name, value) = header.split_once(':').expect("name and value");
        request = request.header(name, value.trim());
    }
    if body.starts_with('{') {
        request = request.header("content-type", "application/json");
    }
    request.body(Body::from(body.to_owned())).expect("a request")
}

pub(crate) fn claim(state: ClaimState) -> Claim {
    let now = OsClock::default().now();
    let settled = match &state {
        ClaimState::Waiting { .. } => None,
        ClaimState::Held(_)
        | ClaimState::Released
        | ClaimState::Lost(_)
        | ClaimState::Refused(_) => Some(now.after(Duration::from_millis(41))),
    };
    Claim {
        id: ClaimId::try_from("1f-1".to_owned()).expect("an id"),
        lock: LockName::try_from("orders".to_owned()).expect("a name"),
        state,
        asked: now,
        settled,
        ended: None,
        owner: "shop-0".to_owned(),
        metadata: Some(r#"{"job":"reindex"}"#.to_owned().into()),
        ttl: None,
        max_hold: Duration::from_mins(10),
        algorithm: LockAlgorithm::Central,
        arbiter: Arbiter::Quorum,
        index: 1,
    }
}

pub(crate) fn waiting() -> ClaimState {
    ClaimState::Waiting { holder: Some(holder()), heard: true }
}

/// Held for another ten seconds.
pub(crate) fn held() -> ClaimState {
    ClaimState::Held(hold())
}

/// Held until just now.
pub(crate) fn overdue() -> ClaimState {
    let safe_until = OsClock::default().now();
    ClaimState::Held(Held { safe_until, ..hold() })
}

pub(crate) fn hold() -> Held {
    let now = OsClock::default().now();
    Held {
        token: FencingToken::before(Epoch(12)).successor(Epoch(12)),
        epoch: Epoch(12),
        safe_until: now.after(Duration::from_secs(10)),
        ends_by: LostReason::LeaseExpired,
        since: now,
        jeopardy: false,
        contended: false,
        messages: 2,
    }
}

pub(crate) fn holder() -> Holder {
    Holder {
        pod: "shop-1".to_owned(),
        owner: "worker-3".to_owned(),
        token: FencingToken::before(Epoch(11)).successor(Epoch(11)),
        held: Duration::from_millis(4_210),
        // It grows no older, so that it can be compared.
        notified: LocalTime(u64::MAX),
        metadata: Some(r#"{"job":"reindex"}"#.to_owned().into()),
    }
}

pub(crate) fn following() -> Election {
    Election {
        name: "default".to_owned(),
        algorithm: ElectionAlgorithm::Bully,
        arbiter: Arbiter::Quorum,
        epoch: Epoch(12),
        leadership: Leadership::Following,
        safe_until: None,
        token: None,
        leader: Some(leader("shop-1")),
        candidacy: CandidacyState::None,
        lease: None,
        candidates: 2,
        transitions: 4,
        last: Some(LastElection { messages: 7, duration: Duration::from_millis(38) }),
        expected: Some(ElectionCost { best: 1, worst: 3 }),
        index: 311,
    }
}

/// Is in a view, and knows of nobody who leads it.
pub(crate) fn isolated() -> Election {
    Election { leadership: Leadership::Isolated, leader: None, index: 313, ..following() }
}

/// Leads for another ten seconds.
pub(crate) fn leading() -> Election {
    let safe_until = OsClock::default().now().after(Duration::from_secs(10));
    Election {
        leadership: Leadership::Leading,
        safe_until: Some(safe_until),
        leader: Some(leader("shop-0")),
        index: 312,
        ..following()
    }
}

fn leader(pod: &str) -> Leader {
    Leader {
        pod: pod.to_owned(),
        uid: "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01".to_owned(),
        ip: "10.1.2.3".to_owned(),
        profile: Profile::default(),
        since: OsClock::default().now(),
    }
}

pub(crate) fn status() -> Status {
    Status {
        group: "orders".to_owned(),
        pod: "shop-0".to_owned(),
        missing: None,
        epoch: Epoch(12),
        arbiter: Arbiter::Quorum,
        evidence: Evidence::None,
        policy_generation: 3,
        clock: ClockPolicy::default(),
        speaks: 2,
        grants: Some(true),
        grace_until: None,
        members: vec![member("shop-0", 0), member("shop-1", 1)],
        tolerates: 0,
        outage_survived: Some(Duration::from_secs(47)),
        confirmed: Some(OsClock::default().now()),
        draining: false,
        view_changes: 5,
        index: 9,
    }
}

fn member(pod: &str, rank: u32) -> MemberStatus {
    MemberStatus {
        pod: pod.to_owned(),
        uid: "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01".to_owned(),
        run: 7,
        addresses: vec!["10.1.2.3:7071".to_owned()],
        rank,
        leader: rank == 1,
        me: rank == 0,
        connected: true,
        suspected: rank == 1,
    }
}

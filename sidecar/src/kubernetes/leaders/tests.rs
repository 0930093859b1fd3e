//! Leaders at an API server that keeps one slice.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::{Method, Request, Response, StatusCode};
use conclave_protocols::Epoch;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::*;
use crate::group::Leadership;
use crate::http::tests::double::{Double, following};
use crate::os_clock::OsClock;

/// The API server.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

type Between = Box<dyn FnOnce(&mut State) + Send>;

struct State {
    /// The slice, if there is one.
    slice: Option<Value>,
    version: u64,
    reads: usize,
    /// Patches that were carried out.
    written: usize,
    conflicts: usize,
    /// What somebody else does between the next read and whatever follows it.
    between: Option<Between>,
}

impl State {
    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let slice = self.slice.as_mut().expect("there is a slice");
        change(slice);
        slice["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn answer(&mut self, method: &Method, patch: &Value) -> (StatusCode, Value) {
        let Some(slice) = self.slice.clone() else {
            return (StatusCode::NOT_FOUND, json!({ "code": 404, "reason": "NotFound" }));
        };
        if *method == Method::GET {
            self.reads += 1;
            if let Some(between) = self.between.take() {
                between(self);
            }
            return (StatusCode::OK, slice);
        }
        assert_eq!(*method, Method::PATCH);
        let version = &patch["metadata"]["resourceVersion"];
        assert!(version.is_string(), "a write without a version replaces whatever is there");
        if *version != slice["metadata"]["resourceVersion"] {
            self.conflicts += 1;
            return (StatusCode::CONFLICT, json!({ "code": 409, "reason": "Conflict" }));
        }
        self.written += 1;
        self.change(|slice| {
            if let Some(annotations) = patch["metadata"]["annotations"].as_object() {
                slice["metadata"]["annotations"] = json!(annotations);
            }
            slice["endpoints"] = patch["endpoints"].clone();
        });
        (StatusCode::OK, self.slice.clone().unwrap_or_default())
    }
}

impl Server {
    /// With a slice, as the operator makes it.
    fn new() -> Self {
        let slice = Some(empty_slice());
        let (version, reads, written, conflicts) = (1, 0, 0, 0);
        let state = State { slice, version, reads, written, conflicts, between: None };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with the lock")
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("it is in memory");
                let patch = serde_json::from_slice(&body).unwrap_or_default();
                assert!(head.uri.path().ends_with("/endpointslices/conclave-orders.reports"));
                let (status, object) = server.state().answer(&head.method, &patch);
                let answer = Response::builder().status(status);
                let answer = answer.body(Body::from(object.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        Client::new(service, "shop")
    }

    /// The UID of the pod in the slice, and the token.
    fn shows(&self) -> (Option<u128>, Option<String>) {
        let state = self.state();
        let slice = state.slice.as_ref().expect("there is a slice");
        let uid = slice["endpoints"][0]["targetRef"]["uid"].as_str();
        let token = slice["metadata"]["annotations"][TOKEN_ANNOTATION].as_str();
        let uid = uid.map(|uid| uid.parse::<PodUid>().expect("a UID").0);
        (uid, token.map(str::to_owned))
    }

    async fn until(&self, wanted: impl Fn(&State) -> bool) {
        let reached = async {
            while !wanted(&self.state()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(120), reached).await.expect("it comes to that");
    }

    async fn until_written(&self, times: usize) {
        self.until(|state| state.written == times).await;
    }
}

fn empty_slice() -> Value {
    json!({
        "addressType": "IPv4",
        "metadata": {
            "name": "conclave-orders.reports",
            "resourceVersion": "1",
            "ownerReferences": [{
                "apiVersion": "conclave.dev/v1alpha1", "kind": "Conclave", "name": "orders",
                "uid": OWNER.to_string(),
            }],
        },
        "endpoints": null,
    })
}

/// What a leader wrote with this token.
fn write_of(pod: u128, token: u64) -> impl FnOnce(&mut Value) {
    move |slice| {
        slice["metadata"]["annotations"] = json!({ TOKEN_ANNOTATION: token.to_string() });
        slice["endpoints"] =
            json!([{ "addresses": ["10.0.0.9"], "targetRef": { "uid": PodUid(pod).to_string() } }]);
    }
}

/// A pod and its sidecar's part in it.
struct Pod {
    double: Double,
    election: watch::Sender<Election>,
    published: watch::Sender<BTreeSet<String>>,
    end: CancellationToken,
    run: JoinHandle<()>,
}

impl Pod {
    /// A pod of that UID, which follows the election `reports`.
    fn new(server: &Server, uid: u128) -> Self {
        let double = Double::new();
        let (election, seen) = watch::channel(named(Election { leader: None, ..following() }));
        double.named.send_replace([("reports".to_owned(), seen)].into());
        let (published, elections) = watch::channel(BTreeSet::from(["reports".to_owned()]));
        let place = Place::new(server.client(), "shop", "orders");
        let ips =
            vec!["fd00::7".parse().expect("an address"), "10.0.0.7".parse().expect("an address")];
        let me = PodEndpoint { name: format!("shop-{uid}"), uid: PodUid(uid), ips };
        let end = CancellationToken::new();
        let leaders = Leaders::new(place, OWNER, me, double.group.clone(), end.clone());
        let run = tokio::spawn(leaders.run(elections));
        Self { double, election, published, end, run }
    }

    fn leads(&self, token: u64) {
        self.election.send_replace(named(leading_until(LocalTime(u64::MAX), token)));
    }

    fn follows(&self) {
        self.election.send_replace(named(following()));
    }

    /// Ends the pod in order.
    async fn end(self) {
        self.end.cancel();
        timeout(Duration::from_secs(5), self.run).await.expect("soon").expect("it does not panic");
    }
}

fn named(election: Election) -> Election {
    Election { name: "reports".to_owned(), ..election }
}

fn leading_until(until: LocalTime, token: u64) -> Election {
    let mut number = FencingToken::before(Epoch(token >> 20));
    while number.get() < token {
        number = number.next_of_block().expect("a token of the test is one of the first block");
    }
    Election {
        leadership: Leadership::Leading,
        safe_until: Some(until),
        token: Some(number),
        ..following()
    }
}

const OWNER: PodUid = PodUid(99);

/// Long, for a pod that has nothing to do.
const A_WHILE: Duration = Duration::from_mins(5);

#[tokio::test(start_paused = true)]
async fn a_leader_writes_itself_once_and_nothing_more_while_it_leads() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    server.until_written(1).await;
    assert_eq!(server.shows(), (Some(7), Some("5".to_owned())));
    let slice = server.state().slice.clone().expect("a slice");
    let target = json!({ "kind": "Pod", "namespace": "shop", "name": "shop-7", "uid": PodUid(7).to_string() });
    let expected = json!([{
        "addresses": ["10.0.0.7"], "conditions": { "ready": true }, "targetRef": target,
    }]);
    assert_eq!(slice["endpoints"], expected, "the address of the slice's family");
    for heartbeat in 0..50 {
        let until = LocalTime(u64::MAX - 50 + heartbeat);
        pod.election.send_replace(named(leading_until(until, 5)));
        sleep(A_WHILE / 50).await;
    }
    let State { written, reads, .. } = *server.state();
    assert_eq!(written, 1);
    assert!((2..10).contains(&reads), "{reads} reads in five minutes");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_gives_up_is_taken_off_and_the_token_stays() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    server.until_written(1).await;
    pod.follows();
    server.until_written(2).await;
    assert_eq!(server.shows(), (None, Some("5".to_owned())));
    sleep(A_WHILE).await;
    pod.leads(6);
    server.until_written(3).await;
    assert_eq!(server.shows(), (Some(7), Some("6".to_owned())));
}

#[tokio::test]
async fn a_leader_whose_deadline_passes_is_taken_off_without_another_message() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    let until = OsClock::default().now().after(Duration::from_millis(300));
    pod.election.send_replace(named(leading_until(until, 5)));
    server.until_written(1).await;
    server.until_written(2).await;
    assert_eq!(server.shows(), (None, Some("5".to_owned())));
    assert!(OsClock::default().now() >= until, "it led");
}

#[tokio::test(start_paused = true)]
async fn the_late_write_of_a_former_leader_loses() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    // It has read the slice; then its successor writes.
    server.until(|state| state.reads == 1).await;
    server.state().between = Some(Box::new(|state| state.change(write_of(8, 6))));
    pod.leads(5);
    server.until(|state| state.conflicts == 1).await;
    sleep(A_WHILE).await;
    assert_eq!(server.shows(), (Some(8), Some("6".to_owned())));
    // Nor does it take another off.
    pod.follows();
    sleep(A_WHILE).await;
    assert_eq!((server.shows().0, server.state().written), (Some(8), 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_led_before_does_not_take_off_its_own_later_lead() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    server.until_written(1).await;
    server.state().between = Some(Box::new(|state| state.change(write_of(7, 6))));
    pod.follows();
    server.until(|state| state.conflicts == 1).await;
    sleep(A_WHILE).await;
    assert_eq!(server.shows(), (Some(7), Some("6".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_looked_at_anew_and_the_leader_written() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    server.until(|state| state.reads == 1).await;
    // The operator gives it another port.
    server.state().between =
        Some(Box::new(|state| state.change(|slice| slice["ports"] = json!([{ "port": 9 }]))));
    pod.leads(5);
    server.until_written(1).await;
    assert_eq!(server.state().conflicts, 1);
    assert_eq!(server.shows().0, Some(7));
    assert_eq!(server.state().slice.as_ref().expect("a slice")["ports"][0]["port"], 9);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_write_the_later_lead_stays() {
    let server = Server::new();
    let (one, other) = (Pod::new(&server, 7), Pod::new(&server, 8));
    for token in [10, 20, 30] {
        one.leads(token);
        other.leads(token + 1);
        one.follows();
        sleep(A_WHILE).await;
        assert_eq!(server.shows(), (Some(8), Some((token + 1).to_string())));
        one.leads(token + 2);
        sleep(Duration::from_secs(1)).await;
        other.follows();
        sleep(A_WHILE).await;
        assert_eq!(server.shows(), (Some(7), Some((token + 2).to_string())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_made_late_or_deleted_is_written_all_the_same() {
    let server = Server::new();
    server.state().slice = None;
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    sleep(A_WHILE).await;
    server.state().slice = Some(empty_slice());
    let begun = Instant::now();
    server.until_written(1).await;
    assert!(begun.elapsed() <= LONGEST_PAUSE + Duration::from_secs(1));
    server.state().version = 1;
    server.state().slice = Some(empty_slice());
    server.until_written(2).await;
    assert!(begun.elapsed() <= LONGEST_PAUSE + LOOK_AGAIN + Duration::from_secs(2));
    assert_eq!(server.shows().0, Some(7));
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_no_longer_asks_no_more() {
    let server = Server::new();
    server.state().slice = None;
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    sleep(Duration::from_secs(1)).await;
    pod.follows();
    sleep(A_WHILE).await;
    server.state().slice = Some(empty_slice());
    sleep(A_WHILE).await;
    let State { written, reads, .. } = *server.state();
    assert_eq!((written, reads), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_process_left_is_taken_off_and_others_stay() {
    let server = Server::new();
    server.state().change(write_of(7, 5));
    let pod = Pod::new(&server, 7);
    server.until_written(1).await;
    assert_eq!(server.shows(), (None, Some("5".to_owned())));
    pod.end().await;
    server.state().change(write_of(8, 6));
    let _pod = Pod::new(&server, 7);
    sleep(A_WHILE).await;
    assert_eq!(server.shows().0, Some(8));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_takes_itself_off() {
    let server = Server::new();
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    server.until_written(1).await;
    pod.end().await;
    assert_eq!(server.shows(), (None, Some("5".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn an_election_that_is_gone_is_over_although_its_last_state_says_otherwise() {
    let server = Server::new();
    let Pod { double, election, published, .. } = {
        let pod = Pod::new(&server, 7);
        pod.leads(5);
        server.until_written(1).await;
        pod
    };
    drop(election);
    server.until_written(2).await;
    assert_eq!(server.shows().0, None);
    sleep(A_WHILE).await;
    assert_eq!(server.state().written, 2);
    // It is listed again, and this pod leads again.
    let (_election, seen) = watch::channel(named(leading_until(LocalTime(u64::MAX), 6)));
    double.named.send_replace([("reports".to_owned(), seen)].into());
    server.until_written(3).await;
    // It is published no longer: the operator has the slice now.
    published.send_replace(BTreeSet::new());
    sleep(A_WHILE).await;
    assert_eq!(server.state().written, 3);
}

#[tokio::test(start_paused = true)]
async fn the_slice_of_another_resource_is_left_alone() {
    let server = Server::new();
    server.state().change(|slice| {
        slice["metadata"]["ownerReferences"][0]["uid"] = json!(PodUid(1).to_string());
    });
    let pod = Pod::new(&server, 7);
    pod.leads(5);
    sleep(A_WHILE).await;
    assert_eq!(server.shows(), (None, None));
}

#[test]
fn the_leader_of_the_group_goes_by_its_epoch_and_nobody_without_an_arbiter() {
    let leads = |election: Election| lead(&election, LocalTime(1));
    let default = Election { token: None, ..leading_until(LocalTime(2), 5) };
    assert_eq!(leads(default.clone()), Some(default.epoch.0));
    assert_eq!(leads(named(default.clone())), None, "it has no token");
    assert_eq!(leads(Election { arbiter: Arbiter::None, ..default.clone() }), None);
    assert_eq!(lead(&default, LocalTime(2)), None, "its time is over");
}

#[test]
fn the_next_view_of_a_leader_that_stays_ends_no_lead() {
    let (named, group) = (is_over("reports", 12), is_over(DEFAULT_ELECTION, 12));
    assert_eq!((named(Some(13)), group(Some(13))), (Some(()), None));
    assert_eq!((named(Some(12)), group(Some(12))), (None, None));
    assert_eq!((named(None), group(None)), (Some(()), Some(())));
}

//! Calls at an API server that keeps one Lease.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::http::{Method, Request, Response};
use kube::ResourceExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::lease::{Mark, Write};

/// What the API server answers, and what it was sent.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: Vec<(u16, Value)>,
    sent: Vec<(Method, Value)>,
    /// It does not answer.
    hangs: bool,
}

impl Server {
    fn leases(&self) -> KubernetesLeases {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                assert!(
                    head.uri.path().ends_with("/namespaces/shop/leases/reports"),
                    "{}",
                    head.uri
                );
                let body = body.collect_bytes().await.expect("it is in memory");
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (hangs, answer) = {
                    let mut state = server.0.lock().expect("no test panics with the lock");
                    state.sent.push((head.method, body));
                    (state.hangs, state.answers.pop())
                };
                if hangs {
                    std::future::pending::<()>().await;
                }
                let (status, body) = answer.expect("an answer for each call");
                let answer = Response::builder().status(status);
                let answer = answer.body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        KubernetesLeases::new(Client::new(service, "shop"), "shop")
    }

    async fn call(&self, what: Do, answer: (u16, Value)) -> Outcome {
        self.0.lock().expect("no test panics with the lock").answers.push(answer);
        let (news, mut heard) = mpsc::channel(1);
        self.leases().call(Call { lease: "reports".to_owned(), id: 3, what }, news);
        match heard.recv().await {
            Some(News::Answer { id: 3, outcome, .. }) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "reports", "namespace": "shop", "uid": "lease-uid", "resourceVersion": "7",
            "annotations": {"by": "hand"}, "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"holderIdentity": "program-1", "leaseDurationSeconds": 6, "leaseTransitions": 3},
    })
}

fn problem(code: u16) -> (u16, Value) {
    (code, json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "Any" }))
}

#[tokio::test]
async fn a_write_has_the_version_and_the_uid_that_were_read() {
    let server = Server::default();
    let Outcome::Is(read) = server.call(Do::Read, (200, lease())).await else {
        panic!("it is there")
    };
    assert_eq!((read.holder(), read.duration().as_secs()), (Some("program-1"), 6));
    let group = conclave_protocols::PodUid(7);
    let (election, holder) = ("reports".to_owned(), "shop-0_u_1".to_owned());
    let mark = Mark { group, election, token: Some(5), holder };
    let write = Do::Write(read.clone(), Write::Take(mark.clone()));
    let Outcome::Is(written) = server.call(write.clone(), (200, lease())).await else {
        panic!("done")
    };
    assert_eq!(written.version(), read.version(), "it is what the API server says");
    let (method, sent) =
        server.0.lock().expect("no test panics").sent.last().cloned().expect("a call");
    assert_eq!(method, Method::PUT);
    let metadata = &sent["metadata"];
    assert_eq!(
        (&metadata["resourceVersion"], &metadata["uid"]),
        (&json!("7"), &json!("lease-uid"))
    );
    assert_eq!(metadata["annotations"]["by"], "hand");
    assert_eq!(metadata["managedFields"], Value::Null, "the API server refuses old ones");
    let spec = &sent["spec"];
    assert_eq!(spec["holderIdentity"], "shop-0_u_1");
    assert_eq!((&spec["leaseDurationSeconds"], &spec["leaseTransitions"]), (&json!(15), &json!(4)));
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    let sent: Lease = serde_json::from_value(sent).expect("a Lease");
    assert_eq!(Record::new(sent.clone()).mark(), Some(mark));
    assert!(sent.annotations()["conclave.dev/lead"].contains("\"token\":5"));

    assert_eq!(server.call(write.clone(), problem(409)).await, Outcome::Conflict);
    assert_eq!(server.call(write.clone(), problem(404)).await, Outcome::Absent);
    for code in [403, 422] {
        assert_eq!(server.call(write.clone(), problem(code)).await, Outcome::Refused);
    }
    for code in [401, 408, 429, 500, 503, 504] {
        assert_eq!(server.call(write.clone(), problem(code)).await, Outcome::Unknown);
    }
    assert_eq!(server.call(Do::Read, problem(404)).await, Outcome::Absent);
    assert_eq!(server.call(Do::Read, (200, json!("no Lease"))).await, Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_and_nobody_waits_for_it_any_more() {
    let server = Server::default();
    server.0.lock().expect("no test panics").hangs = true;
    let (leases, (news, mut heard)) = (server.leases(), mpsc::channel(1));
    leases.call(Call { lease: "reports".to_owned(), id: 1, what: Do::Read }, news);
    leases.settled().await;
    let Some(News::Answer { outcome, .. }) = heard.recv().await else { panic!("no answer") };
    assert_eq!(outcome, Outcome::Unknown);
}

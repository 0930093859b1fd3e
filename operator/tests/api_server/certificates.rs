//! Who gets a certificate, and what is in it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use conclave_operator::authority::issuing::Issuing;
use conclave_operator::authority::{Authority, Lifetimes};
use jiff::Timestamp;
use kube::Client;
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::server::ApiServer;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const POD: &str = "/api/v1/namespaces/shop/pods/orders-0";
const CONCLAVE: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders";
const POD_UID: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";
const GROUP_UID: &str = "7d1f0f7e-2f0b-4a55-8f2b-0a1b2c3d4e5f";
const POD_UID_KEY: &str = "authentication.kubernetes.io/pod-uid";

pub(crate) const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_hours(87_600),
    overlap: Duration::from_hours(1),
    certificate: Duration::from_hours(24),
};

/// A group, one pod of it, an authority, and every client with a token is that pod.
struct Shop {
    server: ApiServer,
    authority: Authority,
    /// The sender: without it the receivers would know no more.
    notified: watch::Sender<Option<Arc<Authority>>>,
}

impl Shop {
    fn new() -> Self {
        let server = ApiServer::default();
        server.answer_posts(REVIEWS, review());
        server.put(POD, pod());
        server.put(CONCLAVE, conclave());
        let authority = Authority::new(Timestamp::now(), &LIFETIMES).expect("an authority");
        let notified = watch::Sender::new(Some(Arc::new(authority.clone())));
        Self { server, authority, notified }
    }

    fn router(&self) -> Router {
        let client = self.server.client();
        Issuing::new(client, self.notified.subscribe(), LIFETIMES.certificate).router()
    }

    async fn send(&self, body: String) -> (StatusCode, Value) {
        answer(self.router(), shown(&token(&claims()), body)).await
    }

    async fn ask(&self, group: &str, request: &str) -> (StatusCode, Value) {
        self.send(json!({ "group": group, "request": request }).to_string()).await
    }

    /// What is answered to somebody who should get nothing.
    async fn refusal(&self) -> (u16, String) {
        let (status, answer) = self.ask("orders", &request()).await;
        assert!(answer["certificate"].is_null(), "{answer}");
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        assert!(text("type").starts_with("https://conclave.dev/problems/"), "{answer}");
        assert!(!text("title").is_empty() && !text("detail").is_empty(), "{answer}");
        (status.as_u16(), text("detail"))
    }
}

async fn answer(router: Router, request: Request<Body>) -> (StatusCode, Value) {
    let response = router.oneshot(request).await.expect("an answer");
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// A request with a token.
fn shown(token: &str, body: String) -> Request<Body> {
    let request = Request::post("/v1/certificates");
    let request = request.header("Authorization", format!("Bearer {token}"));
    request.body(Body::from(body)).expect("a request")
}

/// What the kubelet's token says, as far as it is looked at. What it states of the subject makes both
/// characters that URLs have in place of others.
fn claims() -> Value {
    json!({ "aud": ["conclave"], "exp": Timestamp::now().as_second() + 600, "sub": "~~~???>>>" })
}

fn token(claims: &Value) -> String {
    let base64 = base64(claims.to_string().as_bytes()).replace('+', "-").replace('/', "_");
    format!("e30.{}.c2lnbmF0dXJl", base64.trim_end_matches('='))
}

fn review() -> Value {
    let extra = json!({
        "authentication.kubernetes.io/pod-name": ["orders-0"],
        POD_UID_KEY: [POD_UID],
    });
    let user = json!({ "username": "system:serviceaccount:shop:till", "extra": extra });
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {},
        "status": { "authenticated": true, "audiences": ["conclave"], "user": user },
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "orders-0", "namespace": "shop", "uid": POD_UID,
            "labels": { "conclave.dev/group": "orders" },
        },
        "spec": { "containers": [], "serviceAccountName": "till" },
        "status": { "phase": "Running" },
    })
}

fn conclave() -> Value {
    json!({
        "apiVersion": "conclave.dev/v1alpha1",
        "kind": "Conclave",
        "metadata": { "name": "orders", "namespace": "shop", "uid": GROUP_UID, "generation": 1 },
        "spec": {},
    })
}

/// A request that claims much.
fn request() -> String {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["authority.conclave.dev".to_owned()]).expect("a name");
    let other = "spiffe://conclave.dev/ns/bank/sa/till".try_into().expect("ASCII");
    params.subject_alt_names.push(SanType::URI(other));
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.serialize_request(&key).and_then(|request| request.pem()).expect("a request")
}

#[tokio::test]
async fn a_member_gets_one_name_and_nothing_that_it_asked_for_itself() {
    let shop = Shop::new();
    let (status, answer) = shop.ask("orders", &request()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let pem = answer["certificate"].as_str().expect("a certificate");
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    let (_, leaf) = X509Certificate::from_der(&der).expect("a certificate");

    let names = leaf.subject_alternative_name().expect("one extension").expect("names");
    let name = format!("spiffe://conclave.dev/ns/shop/sa/till/group/{GROUP_UID}/pod/{POD_UID}");
    assert_eq!(names.value.general_names, [GeneralName::URI(&name)]);
    assert_eq!(leaf.subject().iter().count(), 0);
    let constraints = leaf.basic_constraints().expect("one extension").expect("constraints");
    assert!(!constraints.value.ca);
    let usage = leaf.extended_key_usage().expect("one extension").expect("usages").value;
    assert!(usage.client_auth && usage.server_auth && !usage.any && usage.other.is_empty());
    let life = leaf.validity().not_after.timestamp() - leaf.validity().not_before.timestamp();
    assert_eq!(life, 24 * 3_600 + 5 * 60);

    let anchor = shop.authority.current.certificate().as_bytes();
    let anchor = CertificateDer::from_pem_slice(anchor).expect("PEM");
    let mut roots = RootCertStore::empty();
    roots.add(anchor).expect("an anchor");
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().expect("a verifier");
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let now = UnixTime::since_unix_epoch(since);
    verifier.verify_client_cert(&der, &[], now).expect("the group trusts it");
}

#[tokio::test]
async fn the_api_server_is_asked_for_one_audience() {
    let shop = Shop::new();
    let token = token(&claims());
    let body = json!({ "group": "orders", "request": request() });
    answer(shop.router(), shown(&token, body.to_string())).await;
    let (reads, writes) = shop.server.take_calls();
    assert_eq!(reads, [POD, CONCLAVE]);
    assert_eq!((writes.len(), writes[0].path.as_str()), (1, REVIEWS));
    assert_eq!(writes[0].body["spec"], json!({ "token": token, "audiences": ["conclave"] }));
}

#[tokio::test]
async fn nobody_is_asked_about_a_token_that_does_not_even_claim_to_be_good() {
    let shop = Shop::new();
    let body = json!({ "group": "orders", "request": request() }).to_string();
    let good = token(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let mut tokens = vec![
        ("no JWT", "opaque".to_owned()),
        ("no JWT", parts[..2].join(".")),
        ("no JWT", format!("{good}.")),
        ("no JWT", format!("{}.%.{}", parts[0], parts[2])),
        ("no JWT", format!("{}.AAAA.{}", parts[0], parts[2])),
        ("no JWT", format!("{}.AAAAA.{}", parts[0], parts[2])),
    ];
    for (expected, field, value) in [
        ("not the audience", "aud", json!(["https://kubernetes"])),
        ("not the audience", "aud", json!("https://conclave")),
        ("not the audience", "aud", json!([])),
        ("has ended", "exp", json!(1_600_000_000)),
        ("no JWT", "exp", Value::Null),
        ("no JWT", "aud", Value::Null),
    ] {
        let mut claims = claims();
        claims[field] = value;
        tokens.push((expected, token(&claims)));
    }
    for (expected, token) in tokens {
        let (status, answer) = answer(shop.router(), shown(&token, body.clone())).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{token}");
        assert!(answer["detail"].as_str().unwrap_or_default().contains(expected), "{answer}");
    }
    assert_eq!(shop.server.take_calls(), (Vec::new(), Vec::new()));

    let mut claims = claims();
    claims["aud"] = json!("conclave");
    let (status, _) = answer(shop.router(), shown(&token(&claims), body)).await;
    assert_eq!(status, StatusCode::OK, "an only audience may stand alone");
}

#[tokio::test]
async fn few_tokens_are_reviewed_at_a_time() {
    let (free, freed) = watch::channel(false);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let mut freed = freed.clone();
        async move {
            freed.wait_for(|free| *free).await.expect("the sender lives");
            let mut response = Response::new(kube::client::Body::empty());
            *response.status_mut() = StatusCode::FORBIDDEN;
            Ok::<_, Infallible>(response)
        }
    });
    let (client, notified) = (Client::new(service, "shop"), Shop::new().notified.subscribe());
    let router = Issuing::new(client, notified, LIFETIMES.certificate).router();
    let body = json!({ "group": "orders", "request": request() }).to_string();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        calls.spawn(answer(router.clone(), shown(&token(&claims()), body.clone())));
    }
    // There is one thread, and nothing to wait for but the permits.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 8);
    free.send_replace(true);
    while let Some(call) = calls.join_next().await {
        assert_eq!(call.expect("no panic").0, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn a_token_that_does_not_prove_a_pod_gets_nothing() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 9] = [
        ("not authenticated", |status| status["authenticated"] = json!(false)),
        ("no answer", |status| *status = json!({})),
        ("another audience", |status| status["audiences"] = json!(["https://kubernetes"])),
        ("an API server without audiences", |status| status["audiences"] = Value::Null),
        ("a person", |status| status["user"]["username"] = json!("till")),
        ("a node", |status| status["user"]["username"] = json!("system:node:a")),
        ("no pod", |status| status["user"]["extra"] = Value::Null),
        ("no UID", |status| {
            status["user"]["extra"][POD_UID_KEY] = Value::Null;
            status["user"]["extra"].as_object_mut().expect("extra").remove(POD_UID_KEY);
        }),
        ("two UIDs", |status| status["user"]["extra"][POD_UID_KEY] = json!([POD_UID, POD_UID])),
    ];
    for (name, change) in changes {
        let shop = Shop::new();
        let mut review = review();
        change(&mut review["status"]);
        shop.server.answer_posts(REVIEWS, review);
        assert_eq!(shop.refusal().await.0, 401, "{name}");
        assert!(shop.server.take_calls().0.is_empty(), "{name}: nothing is read for it");
    }
}

#[tokio::test]
async fn without_a_token_nobody_is_asked() {
    let shop = Shop::new();
    for header in ["", "Basic dDp0", "Bearer", "Bearer "] {
        let request = Request::post("/v1/certificates").header("Authorization", header);
        let request = request.body(Body::from("{}")).expect("a request");
        assert_eq!(answer(shop.router(), request).await.0, StatusCode::UNAUTHORIZED, "{header}");
    }
    assert_eq!(shop.server.take_calls(), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_pod_that_is_not_that_of_the_token_or_not_of_the_group_gets_nothing() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 5] = [
        ("another has its name", |pod| pod["metadata"]["uid"] = json!(GROUP_UID)),
        ("another ServiceAccount", |pod| pod["spec"]["serviceAccountName"] = json!("bank")),
        ("has ended", |pod| pod["status"]["phase"] = json!("Succeeded")),
        ("not the label", |pod| pod["metadata"]["labels"]["conclave.dev/group"] = json!("bank")),
        ("not the label", |pod| pod["metadata"]["labels"] = json!({})),
    ];
    for (expected, change) in changes {
        let shop = Shop::new();
        let mut pod = pod();
        change(&mut pod);
        shop.server.put(POD, pod);
        let (status, detail) = shop.refusal().await;
        assert_eq!(status, 403, "{expected}");
        assert!(detail.contains(expected), "{detail}");
    }
    let shop = Shop::new();
    shop.server.remove(POD);
    assert_eq!(shop.refusal().await.0, 403);
    let (status, _) = Shop::new().ask("bank", &request()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "the label decides, not what is asked for");
}

#[tokio::test]
async fn a_group_that_is_gone_is_reported_as_gone() {
    let shop = Shop::new();
    shop.server.remove(CONCLAVE);
    let (status, detail) = shop.refusal().await;
    assert_eq!((status, detail.as_str()), (404, "there is no Conclave `orders` in `shop`"));
}

#[tokio::test]
async fn what_is_no_request_of_its_own_key_is_refused() {
    let shop = Shop::new();
    let good = request();
    // A request whose last byte, of the signature, is another one.
    let mut forged = pem_bytes(&good);
    *forged.last_mut().expect("bytes") ^= 1;
    let other = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    let other = CertificateParams::default().serialize_request(&other);
    let other = other.and_then(|request| request.pem()).expect("a request");
    let long = format!("{good}{}", "\n".repeat(9_000));
    for request in [String::new(), "garbage".to_owned(), pem(&forged), other, long] {
        let (status, answer) = shop.ask("orders", &request).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    }
    for body in ["", "[]", "{}", r#"{"group": "orders"}"#, r#"{"group": 1, "request": ""}"#] {
        assert_eq!(shop.send(body.to_owned()).await.0, StatusCode::BAD_REQUEST, "{body}");
    }
    let long = " ".repeat(64 * 1024 + 1);
    assert_eq!(shop.send(long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(shop.server.take_calls(), (Vec::new(), Vec::new()), "nobody is asked about it");
}

#[tokio::test]
async fn what_may_work_later_is_marked_so() {
    let shop = Shop::new();
    shop.notified.send_replace(None);
    assert_eq!(shop.refusal().await, (503, "there is no authority yet".to_owned()));

    let shop = Shop::new();
    shop.server.refuse(&Method::POST, REVIEWS, StatusCode::FORBIDDEN);
    let (status, detail) = shop.refusal().await;
    assert_eq!(status, 503);
    assert!(!detail.contains("Forbidden"), "what the API server said is not for the pod: {detail}");
}

fn pem_bytes(text: &str) -> Vec<u8> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).expect("PEM");
    pem.contents
}

fn pem(bytes: &[u8]) -> String {
    let base64 = base64(bytes);
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{base64}\n-----END CERTIFICATE REQUEST-----\n")
}

fn base64(bytes: &[u8]) -> String {
    let base64 = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).expect("JSON");
    base64.as_str().expect("a text").to_owned()
}

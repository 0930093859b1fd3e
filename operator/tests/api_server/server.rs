//! An API server that keeps objects, counts versions, and remembers every call.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body as Answer;
use axum::http::{Method, Request, Response, StatusCode};
use futures::{StreamExt, stream};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::guard::{self, Write};

/// One call: the method, the path without its query, and the body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// The server. Clones are the same server.
#[derive(Clone, Default)]
pub(crate) struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    refusals: BTreeMap<(String, String), StatusCode>,
    hanging: BTreeSet<(String, String)>,
    answers: BTreeMap<String, Value>,
    applied: BTreeMap<(String, String), Value>,
    calls: Vec<Call>,
    version: u64,
}

impl ApiServer {
    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "shop")
    }

    /// Puts an object there.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state().store(path, object);
    }

    /// The object at a path.
    pub(crate) fn object(&self, path: &str) -> Value {
        self.state().objects.get(path).cloned().unwrap_or_default()
    }

    /// Takes an object away.
    pub(crate) fn remove(&self, path: &str) {
        self.state().objects.remove(path);
    }

    /// Refuses every call of this method to this path from now on.
    pub(crate) fn refuse(&self, method: &Method, path: &str, status: StatusCode) {
        let key = (method.to_string(), path.to_owned());
        self.state().refusals.insert(key, status);
    }

    /// Refuses it no more.
    pub(crate) fn allow(&self, method: &Method, path: &str) {
        self.state().refusals.remove(&(method.to_string(), path.to_owned()));
    }

    /// Never answers the next call of this method to this path.
    pub(crate) fn hang(&self, method: &Method, path: &str) {
        let key = (method.to_string(), path.to_owned());
        self.state().hanging.insert(key);
    }

    /// Answers everything that is posted to this path with this object, and keeps nothing.
    pub(crate) fn answer_posts(&self, path: &str, object: Value) {
        self.state().answers.insert(path.to_owned(), object);
    }

    /// The calls since the last time this was asked, reads apart from writes.
    pub(crate) fn take_calls(&self) -> (Vec<String>, Vec<Call>) {
        let calls = std::mem::take(&mut self.state().calls);
        let (reads, writes): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.method == Method::GET);
        (reads.into_iter().map(|call| call.path).collect(), writes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with the lock")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.expect("the body is in memory");
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let call = Call { method: head.method, path, body };
        let key = (call.method.to_string(), call.path.clone());
        let hangs = self.state().hanging.remove(&key);
        if hangs {
            std::future::pending::<()>().await;
        }
        if query.contains("watch=true") {
            return Response::new(self.state().changes(&call.path, &query));
        }
        let mut state = self.state();
        state.calls.push(call.clone());
        let (status, object) = state.answer(&call, &query);
        let mut response = Response::new(Answer::from(object.to_string()));
        *response.status_mut() = status;
        response
    }
}

impl State {
    fn answer(&mut self, call: &Call, query: &str) -> (StatusCode, Value) {
        let Call { method, path, body } = call;
        if let Some(status) = self.refusals.get(&(method.to_string(), path.clone())) {
            return refusal(method, *status);
        }
        match method.as_str() {
            "GET" => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None if LISTED.iter().any(|kind| path.ends_with(kind)) => {
                    (StatusCode::OK, self.list(path, &selector(query)))
                }
                None => refusal(method, StatusCode::NOT_FOUND),
            },
            "POST" if self.answers.contains_key(path) => {
                (StatusCode::CREATED, self.answers[path].clone())
            }
            "POST" => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return refusal(method, StatusCode::CONFLICT);
                }
                self.hold_against_policy(&path, Some(body));
                (StatusCode::CREATED, self.store(&path, body.clone()))
            }
            _ if self.is_stale(call) => refusal(method, StatusCode::CONFLICT),
            "DELETE" if self.objects.contains_key(path) => {
                self.hold_against_policy(path, None);
                (StatusCode::OK, self.objects.remove(path).unwrap_or_default())
            }
            "DELETE" => refusal(method, StatusCode::NOT_FOUND),
            "PUT" => {
                self.hold_against_policy(path, Some(body));
                (StatusCode::OK, self.store(path, body.clone()))
            }
            "PATCH" => {
                let at = path;
                let path = path.strip_suffix("/status").unwrap_or(path);
                let mut object = self.objects.get(path).cloned().unwrap_or_default();
                if query.contains("force=true") {
                    let manager = (at.clone(), query.to_owned());
                    let before = self.applied.insert(manager, body.clone());
                    forget(&mut object, &before.unwrap_or_default(), body);
                }
                merge(&mut object, body);
                self.hold_against_policy(at, Some(&object));
                (StatusCode::OK, self.store(path, object))
            }
            other => panic!("nobody should call {other}"),
        }
    }

    /// A cluster where the chart is installed would refuse nothing of it.
    fn hold_against_policy(&self, path: &str, after: Option<&Value>) {
        let objections = guard::objections(Write { path, before: self.objects.get(path), after });
        assert!(objections.is_empty(), "the policy of the chart refuses {path}: {objections:?}");
    }

    /// The call carries a version that is not the present one.
    fn is_stale(&self, call: &Call) -> bool {
        let path = call.path.strip_suffix("/status").unwrap_or(&call.path);
        let present = self.objects.get(path).map(|object| &object["metadata"]["resourceVersion"]);
        let carried = &call.body["metadata"]["resourceVersion"];
        !carried.is_null() && present != Some(carried)
    }

    fn list(&self, path: &str, selector: &[String]) -> Value {
        let has = |object: &Value, wanted: &str| match wanted.split_once('=') {
            Some((label, value)) => match label.strip_suffix('!') {
                Some(label) => object["metadata"]["labels"][label] != value,
                None => object["metadata"]["labels"][label] == value,
            },
            None => !object["metadata"]["labels"][wanted].is_null(),
        };
        let all =
            self.objects.iter().filter(|(at, _)| is_of_kind(at, path)).map(|(_, object)| object);
        let items: Vec<_> =
            all.filter(|object| selector.iter().all(|wanted| has(object, wanted))).collect();
        let metadata = json!({ "resourceVersion": self.version.to_string() });
        json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items })
    }

    /// What a watch reports: what has changed since the version that it names. Of what changes later it hears nothing,
    /// as by a connection that was lost.
    fn changes(&self, path: &str, query: &str) -> Answer {
        let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let since: u64 = since.and_then(|version| version.parse().ok()).unwrap_or_default();
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let all =
            self.list(path, &selector(query))["items"].as_array().cloned().unwrap_or_default();
        let news = all.into_iter().filter(move |object| version(object) > Some(since));
        let line = |object| format!("{}\n", json!({ "type": "ADDED", "object": object }));
        let lines = stream::iter(news.map(move |object| Ok::<_, Infallible>(line(object))));
        Answer::from_stream(lines.chain(stream::pending()))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// Whether what is at a path belongs to this list of one namespace, or to this one of all.
fn is_of_kind(at: &str, list: &str) -> bool {
    let Some((namespaced, _)) = at.rsplit_once('/') else { return false };
    let Some((root, namespace)) = namespaced.split_once("/namespaces/") else { return false };
    let Some((_, kind)) = namespace.split_once('/') else { return false };
    namespaced == list || format!("{root}/{kind}") == list
}

/// What is listed, and not read by name.
const LISTED: [&str; 7] =
    ["/conclaves", "/endpointslices", "/leases", "/pods", "/rolebindings", "/roles", "/services"];

/// The labels that a list is asked for, each with its value or alone.
fn selector(query: &str) -> Vec<String> {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector="));
    let text =
        given.unwrap_or_default().replace("%2F", "/").replace("%3D", "=").replace("%21", "!");
    text.split("%2C").filter(|wanted| !wanted.is_empty()).map(str::to_owned).collect()
}

/// Takes out what a manager applied before and does not any more.
fn forget(object: &mut Value, before: &Value, now: &Value) {
    let (Some(fields), Some(before)) = (object.as_object_mut(), before.as_object()) else { return };
    for (key, before) in before {
        match (now.get(key), fields.get_mut(key)) {
            (None, _) => drop(fields.remove(key)),
            (Some(now), Some(field)) => forget(field, before, now),
            (Some(_), None) => {}
        }
    }
}

/// A merge patch (RFC 7386): with [`forget`] it is what server-side apply amounts to where one manager owns all.
fn merge(object: &mut Value, patch: &Value) {
    let (Value::Object(fields), false) = (patch, object.is_array()) else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().expect("just made sure").remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

fn refusal(method: &Method, status: StatusCode) -> (StatusCode, Value) {
    let reason = match status {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT if method == Method::POST => "AlreadyExists",
        StatusCode::CONFLICT => "Conflict",
        _ => "Forbidden",
    };
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": reason,
        "reason": reason, "code": status.as_u16(), "metadata": {},
    });
    (status, body)
}

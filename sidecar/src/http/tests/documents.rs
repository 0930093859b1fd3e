//! The documents agree with the code.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::StatusCode;
use tower::ServiceExt;
use utoipa::openapi::path::Operation;

use super::double::*;
use crate::http::locks::FIELDS;
use crate::http::openapi::DOCUMENT;
use crate::http::{ProblemType, document};

/// Every operation of the document: method, path, and what is stated about it.
pub(super) fn operations() -> Vec<(&'static str, String, Operation)> {
    let mut operations = Vec::new();
    for (path, item) in document().paths.paths {
        let methods = [
            ("GET", item.get),
            ("POST", item.post),
            ("PUT", item.put),
            ("DELETE", item.delete),
            ("PATCH", item.patch),
            ("HEAD", item.head),
            ("OPTIONS", item.options),
            ("TRACE", item.trace),
        ];
        for (method, operation) in methods {
            operations.extend(operation.map(|operation| (method, path.clone(), operation)));
        }
    }
    operations
}

/// The routes that there are, written down once more by hand.
const ROUTES: [&str; 29] = [
    "DELETE /v1/clocks/{name}",
    "DELETE /v1/elections/{election}/candidacy",
    "DELETE /v1/locks/{name}/claims/{claim}",
    "GET /openapi.json",
    "GET /v1/clocks",
    "GET /v1/clocks/{name}",
    "GET /v1/elections",
    "GET /v1/elections/{election}",
    "GET /v1/elections/{election}/self",
    "GET /v1/locks",
    "GET /v1/locks/{name}",
    "GET /v1/locks/{name}/claims/{claim}",
    "GET /v1/locks/{name}/claims/{claim}/check",
    "GET /v1/members",
    "GET /v1/status",
    "GET /v1/time",
    "GET /v1/time/compare",
    "GET /v1/time/history",
    "GET /v1/time/peers",
    "GET /v1/time/wait",
    "POST /v1/clocks/compare",
    "POST /v1/clocks/{name}/receive",
    "POST /v1/clocks/{name}/tick",
    "POST /v1/elections/{election}/resign",
    "POST /v1/elections/{election}/transfer",
    "POST /v1/locks/{name}",
    "POST /v1/locks/{name}/claims/{claim}/renew",
    "PUT /v1/elections/{election}/candidacy",
    "PUT /v1/locks/{name}/claims/{claim}",
];

#[test]
fn the_document_has_exactly_our_routes_each_with_a_name_of_its_own() {
    let operations = operations();
    let mut routes: Vec<String> =
        operations.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    routes.sort();
    assert_eq!(routes, ROUTES);
    let ids: BTreeSet<_> =
        operations.iter().map(|(.., operation)| operation.operation_id.clone().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    for (method, path, operation) in &operations {
        assert!(operation.summary.is_some(), "{method} {path}");
        let tags = operation.tags.clone().unwrap_or_default();
        let described = document().tags.unwrap_or_default();
        assert!(tags.iter().all(|tag| described.iter().any(|one| one.name == *tag)), "{tags:?}");
    }
}

#[test]
fn the_document_names_the_fields_that_are_read() {
    let document = serde_json::to_value(document()).unwrap();
    let schemas = &document["components"]["schemas"];
    let fields = |name: &str| -> BTreeSet<String> {
        assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
        schemas[name]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(fields("ClaimRequest"), BTreeSet::from(FIELDS.map(str::to_owned)));
    assert_eq!(fields("RenewRequest"), BTreeSet::from(["ttl".to_owned()]));
    assert_eq!(fields("TickRequest"), BTreeSet::from(["kind".to_owned()]));
    assert_eq!(fields("ReceiveRequest"), BTreeSet::from(["stamp".to_owned()]));
    assert_eq!(fields("CompareRequest"), BTreeSet::from(["a", "b"].map(str::to_owned)));
}

#[test]
fn the_document_permits_no_stamp_that_is_refused_for_its_form() {
    let document = serde_json::to_value(document()).unwrap();
    let kinds = document["components"]["schemas"]["Stamp"]["oneOf"].as_array().unwrap();
    assert_eq!(kinds.len(), 3);
    let mut seen = BTreeSet::new();
    for kind in kinds {
        assert_eq!(kind["additionalProperties"], false, "{kind}");
        let fields = kind["properties"].as_object().unwrap();
        for (name, schema) in fields {
            let required = kind["required"].as_array().unwrap();
            assert!(required.iter().any(|one| *one == name.as_str()), "{name}");
            match name.as_str() {
                "kind" => {}
                "counter" => is_count(schema),
                "process" => is_process(schema),
                "time" => assert_eq!(schema["pattern"], "^(0|[1-9][0-9]{0,19})$"),
                "entries" => {
                    assert_eq!(schema["maxProperties"], 256);
                    is_count(&schema["additionalProperties"]);
                    is_process(&schema["propertyNames"]);
                }
                other => panic!("{other}"),
            }
            seen.insert(name.clone());
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

fn is_count(schema: &serde_json::Value) {
    assert_eq!((&schema["type"], &schema["minimum"]), (&"integer".into(), &0.into()), "{schema}");
    assert_eq!(schema["maximum"], 9_007_199_254_740_991_u64, "{schema}");
}

fn is_process(schema: &serde_json::Value) {
    assert_eq!((&schema["minLength"], &schema["maxLength"]), (&1.into(), &270.into()), "{schema}");
    assert_eq!(schema["pattern"], r"^[!#-\[\]-~]+$", "{schema}");
}

#[tokio::test]
async fn every_documented_route_is_served_and_no_other_method() {
    let mut double = Double::new();
    double.status.send_modify(|status| status.missing = Some("a group".to_owned()));
    // Nobody plays the group: what reaches it is answered that it has ended.
    double.requests.close();
    let begun = double.call("POST /v1/clocks/a/tick?kind=Lamport", &[], "").await.unwrap();
    assert_eq!(begun.status, StatusCode::OK);
    let operations = operations();
    let paths: BTreeSet<_> = operations.iter().map(|(_, path, _)| path.clone()).collect();
    for path in paths {
        let concrete =
            path.replace("{name}", "a").replace("{claim}", "b").replace("{election}", "default");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let documented = operations.iter().any(|(m, p, _)| *m == method && *p == path);
            let request = request(&format!("{method} {concrete}"), &[], "");
            let status = double.router().oneshot(request).await.unwrap().status();
            let served = status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(served, documented, "{method} {path}: {status}");
            assert_ne!(status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_document_is_served_and_committed() {
    let double = Double::new();
    compare("sidecar/openapi.json", &(serde_json::to_string_pretty(&document()).unwrap() + "\n"));
    let served = double.get("/openapi.json").await;
    assert_eq!(served.text, DOCUMENT);
}

#[test]
fn the_documentation_lists_every_route_and_every_problem() {
    let text = read("docs/http-api.md");
    for (method, path, _) in operations() {
        let route = format!("`{method} {path}`");
        assert!(text.contains(&route), "docs/http-api.md does not mention {route}");
    }
    for kind in ProblemType::ALL {
        let row = kind.row();
        let line = format!(
            "| `{}` | {} | {} | {} |",
            row.name,
            row.status.as_u16(),
            if row.retryable { "yes" } else { "no" },
            row.title
        );
        assert!(text.lines().any(|one| one == line), "docs/http-api.md lacks the line\n{line}");
    }
}

#[test]
fn the_types_of_problems_have_names_of_their_own() {
    let names: BTreeSet<_> = ProblemType::ALL.iter().map(|kind| kind.row().name).collect();
    assert_eq!(names.len(), ProblemType::ALL.len());
    for kind in ProblemType::ALL {
        let row = kind.row();
        assert!(row.status.is_client_error() || row.status.is_server_error());
        assert!(row.retryable || row.retry_after.is_none());
    }
}

/// Compares a generated file with the committed one; `UPDATE=1` rewrites it.
pub(crate) fn compare(path: &str, generated: &str) {
    let full = root().join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&full, generated).unwrap();
    }
    assert_eq!(read(path), generated, "{path} is out of date: run the tests with UPDATE=1");
}

/// What a file of the repository has.
pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

//! The file of tokens, and what it admits.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Write;
use std::marker::PhantomData;
use std::sync::Mutex;

use tempfile::TempDir;

use super::*;
use crate::http::routes::{listed, needed};
use crate::http::tests::double::*;
use crate::http::{Api, document, router};

const USE: &str = "use-token-0123456789";
const INSPECT: &str = "inspect-token-0123456789";
const ADMIN: &str = "admin-token-0123456789";

/// A group whose API wants tokens.
struct Guarded {
    double: Double,
    folder: TempDir,
    router: axum::Router,
}

impl Guarded {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("# who may\n\nuse {USE}\n inspect\t{INSPECT} \r\nadmin {ADMIN}\n");
        std::fs::write(folder.path().join("tokens"), text).unwrap();
        let file = TokenFile::open(folder.path().join("tokens")).unwrap();
        let double = Double::new();
        let Double { group, clocks, metrics, limits, .. } = &double;
        let (group, clocks) = (group.clone(), clocks.clone());
        let router = router(Api::new(group, clocks, metrics.clone(), *limits, Some(file)));
        Self { double, folder, router }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("tokens"), text).unwrap();
    }

    async fn call(&self, line: &str, headers: &[&str]) -> Answer {
        answer(self.router.clone(), request(line, headers, "")).await
    }

    async fn with(&self, token: &str, line: &str) -> Answer {
        self.call(line, &[&bearer(token)]).await
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// Every documented call, as one makes it.
fn calls() -> Vec<(String, String)> {
    let mut calls = Vec::new();
    for (route, item) in document().paths.paths {
        let path =
            route.replace("{name}", "a").replace("{claim}", "b").replace("{election}", "reports");
        let methods =
            [("GET", item.get), ("POST", item.post), ("PUT", item.put), ("DELETE", item.delete)];
        let methods = methods.into_iter().filter(|(_, operation)| operation.is_some());
        calls.extend(methods.map(|(method, _)| (format!("{method} {path}"), route.clone())));
    }
    calls
}

#[test]
fn the_document_names_the_scope_of_a_route_and_an_unknown_route_needs_all() {
    assert_eq!(needed("/v1/later"), Scope::Admin);
    let document = serde_json::to_value(document()).unwrap();
    assert_eq!(document["paths"]["/v1/time"]["get"]["security"][1]["token"][0], "use");
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

#[tokio::test]
async fn each_token_opens_the_routes_of_its_scope_and_no_other() {
    let mut guarded = Guarded::new();
    // Nobody plays the group: what reaches it is answered that it has ended.
    guarded.double.requests.close();
    for (line, route) in calls() {
        let needed = listed(&route).unwrap();
        for (scope, token) in [(Scope::Use, USE), (Scope::Inspect, INSPECT), (Scope::Admin, ADMIN)]
        {
            let answer = guarded.with(token, &line).await;
            if scope == needed || scope == Scope::Admin {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{line} {scope:?}");
                continue;
            }
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (403, "forbidden"));
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
            assert!(challenge.contains(&format!(r#"scope="{}""#, needed.name())), "{challenge}");
        }
    }
}

#[tokio::test]
async fn without_a_known_token_nobody_enters() {
    let mut guarded = Guarded::new();
    let wrong = [
        String::new(),
        "Authorization:".to_owned(),
        "Authorization: Bearer".to_owned(),
        "Authorization: Bearer ".to_owned(),
        format!("Authorization: {ADMIN}"),
        format!("Authorization: Basic {ADMIN}"),
        format!("Authorization: Bearer, {ADMIN}"),
        format!("Authorization: Bearer {ADMIN}x"),
        format!("Authorization: Bearer {}", &ADMIN[1..]),
        format!("Authorization: Bearer {}", ADMIN.to_uppercase()),
        format!("Authorization: Bearer {ADMIN}, Bearer {ADMIN}"),
        format!("Authorization: Bearer admin {ADMIN}"),
        "Authorization: Bearer # who may".to_owned(),
        format!("Proxy-Authorization: Bearer {ADMIN}"),
        format!("Cookie: token={ADMIN}"),
    ];
    let mut lines: Vec<String> = calls().into_iter().map(|(line, _)| line).collect();
    lines.extend(["GET /".to_owned(), "PATCH /v1/status".to_owned()]);
    lines.push(format!("GET /v1/status?access_token={ADMIN}"));
    for line in &lines {
        for header in &wrong {
            let headers: Vec<&str> =
                Some(header.as_str()).filter(|h| !h.is_empty()).into_iter().collect();
            let answer = guarded.call(line, &headers).await;
            assert_eq!(answer.status.as_u16(), 401, "{line} {header}");
            assert_eq!(answer.problem(), "unauthorized");
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with(r#"Bearer realm="conclave""#), "{challenge}");
        }
    }
    let twice = [bearer(ADMIN), bearer(ADMIN)];
    let answer = guarded.call("GET /v1/status", &[&twice[0], &twice[1]]).await;
    assert_eq!(answer.status.as_u16(), 401);
    assert!(guarded.double.requests.try_recv().is_err(), "the group hears of none");
    let answer = guarded.call("GET /v1/status", &[&format!("authorization: bEARER {ADMIN}")]).await;
    assert_eq!(answer.status.as_u16(), 200);
}

#[tokio::test]
async fn the_file_is_believed_as_it_stands_now() {
    let guarded = Guarded::new();
    let newer = "another-token-0123456789";
    let opens = async |token: &str| guarded.with(token, "GET /v1/status").await.status.as_u16();
    assert_eq!((opens(INSPECT).await, opens(newer).await), (200, 401));
    guarded.write(&format!("inspect {INSPECT}\ninspect {newer}\n"));
    assert_eq!((opens(INSPECT).await, opens(newer).await), (200, 200));
    guarded.write(&format!("inspect {newer}\n"));
    assert_eq!((opens(INSPECT).await, opens(newer).await), (401, 200));
    guarded.write(&format!("use {newer}\n"));
    assert_eq!(opens(newer).await, 403);
    // One token may have two scopes.
    guarded.write(&format!("use {newer}\ninspect {newer}\n"));
    assert_eq!(opens(newer).await, 200);
    // Half a file is none, and neither is one that is gone.
    guarded.write(&format!("inspect {newer}\nadmin"));
    assert_eq!(opens(newer).await, 401);
    std::fs::remove_file(guarded.folder.path().join("tokens")).unwrap();
    assert_eq!(opens(newer).await, 401);
}

#[test]
fn a_wrong_file_is_refused_without_saying_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let problem = |text: &str| {
        std::fs::write(&path, text).unwrap();
        TokenFile::open(&path).expect_err("refused").to_string()
    };
    let cases = [
        format!("all {ADMIN}"),
        format!("Admin {ADMIN}"),
        format!("use,admin {ADMIN}"),
        ADMIN.to_owned(),
        format!("admin {ADMIN} {USE}"),
        "admin fifteen-letters".to_owned(),
        format!("admin {}", "x".repeat(1025)),
        "admin not-äscii-0123456789".to_owned(),
    ];
    for case in cases {
        let error = problem(&format!("use {USE}\n{case}\n"));
        assert!(error.starts_with("line 2 of the file of tokens must be `use`"), "{case}: {error}");
        assert!(!error.contains("0123456789"), "{error}");
    }
    assert_eq!(problem("# none\n"), "the file of tokens has no token");
    let large = "#".repeat(64 * 1024 + 1);
    assert_eq!(problem(&large), "the file of tokens has more than 65536 bytes");
    let folder_itself = TokenFile::open(folder.path());
    assert!(matches!(folder_itself, Err(TokenFileError::NotAFile)));
    let missing = TokenFile::open(folder.path().join("missing"));
    assert!(matches!(missing, Err(TokenFileError::Unreadable(_))));
}

/// Ways to write a path that a router and a check might understand differently.
fn tricks(path: &str) -> Vec<String> {
    let last = path.rsplit_once('/').map_or("", |(_, last)| last);
    let before = &path[..path.len() - last.len()];
    let first = last.chars().next().unwrap_or('/');
    let rest = &last[first.len_utf8().min(last.len())..];
    vec![
        path.to_owned(),
        format!("/{path}"),
        path.replacen("/v1/", "/v1//", 1),
        path.replacen("/v1/", "/v1/./", 1),
        path.replacen("/v1/", "/v1/x/../", 1),
        path.replacen("/v1/", "/v1%2f", 1),
        path.replacen("/v1/", "/v1\\", 1),
        format!("/v1/time/..{path}"),
        format!("/v1/time/%2e%2e{path}"),
        format!("/v1/locks/a/../../..{path}"),
        format!("/v1/locks/..%2f..%2f..{path}"),
        format!("/v1/time;{path}"),
        format!("/v1/time?{path}"),
        format!("/v1/time%00{path}"),
        format!("/openapi.json/..{path}"),
        format!("{path}/"),
        format!("{path}//"),
        format!("{path}/."),
        format!("{path}/%2e"),
        format!("{path};x=/v1/time"),
        format!("{path}%20"),
        format!("{path}%00"),
        format!("{path}?/v1/time"),
        format!("{path}%3f"),
        format!("{path}%23/v1/time"),
        path.to_ascii_uppercase(),
        format!("{before}%{:02x}{rest}", u32::from(first)),
        format!("{before}%25{:02x}{rest}", u32::from(first)),
        format!("http://localhost:7070{path}"),
        format!("http://localhost:7070/v1/time/..{path}"),
    ]
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_around_the_check() {
    let mut guarded = Guarded::new();
    // A call that gets through to the group is answered that it has ended.
    guarded.double.requests.close();
    let paths =
        ["/v1/status", "/v1/members", "/openapi.json", "/v1/time", "/v1/elections", "/v1/locks/a"];
    let spellings: BTreeSet<String> =
        paths.iter().flat_map(|path| tricks(path)).flat_map(|path| tricks(&path)).collect();
    let mut admitted = [0, 0];
    for path in spellings.iter().filter(|path| path.parse::<axum::http::Uri>().is_ok()) {
        for method in ["GET", "POST"] {
            let line = format!("{method} {path}");
            let answer = guarded.call(&line, &[]).await;
            assert_eq!(answer.status.as_u16(), 401, "{line}");
            let answer = guarded.with(INSPECT, &line).await;
            assert_ne!(answer.status.as_u16(), 503, "{line}: the group hears of it");
            if answer.status.is_success() {
                let shown = answer.json();
                let is_for_inspection = shown["openapi"].is_string()
                    || (shown["time_ns"].is_null() && !shown["members"].is_null());
                assert!(is_for_inspection, "{line}: {}", answer.text);
                admitted[0] += 1;
            }
        }
        let line = format!("GET {path}");
        let answer = guarded.with(USE, &line).await;
        if ![401, 403, 404, 405].contains(&answer.status.as_u16()) {
            let shown = answer.json();
            let is_of_group = answer.text.contains("problems/terminating");
            let is_for_use =
                is_of_group || shown["time_ns"].is_string() || shown["elections"].is_array();
            let is_refused = answer.status.is_client_error();
            assert!(is_for_use || is_refused, "{line}: {}", answer.text);
            admitted[1] += 1;
        }
    }
    assert!(admitted.iter().all(|count| *count > 0), "both open something: {admitted:?}");
}

/// What is written to a log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_has_a_token() {
    let written = Written::default();
    let log = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let guarded = Guarded::new();
    let unknown = "unknown-token-0123456789";
    // What is logged depends on which thread came by first, until it is asked for again.
    for _ in 0..2 {
        tracing::callsite::rebuild_interest_cache();
        guarded.write(&format!("use {USE}\ninspect {INSPECT}\nadmin {ADMIN}\n"));
        for token in [USE, INSPECT, ADMIN, unknown] {
            let answer = guarded.with(token, "GET /v1/status").await;
            assert!(!answer.text.contains("0123456789"), "{}", answer.text);
        }
        guarded.write(&format!("admin {ADMIN}\nuse {USE}!\n"));
        guarded.with(ADMIN, "GET /v1/status").await;
    }
    let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("answered") && log.contains("no caller is authorized"), "{log}");
    assert!(!log.contains("0123456789"), "{log}");
}

#[test]
fn a_token_cannot_be_shown() {
    trait Hidden {
        const IS_SHOWN: bool = false;
    }
    impl<T> Hidden for T {}
    struct Probe<T>(PhantomData<T>);
    impl<T: Debug> Probe<T> {
        const IS_SHOWN: bool = true;
    }
    const { assert!(!Probe::<Token>::IS_SHOWN) };
    const { assert!(Probe::<String>::IS_SHOWN) };
}

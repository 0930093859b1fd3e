//! What is turned away before the group hears of it, and in which words.

use axum::body::Body;

use super::double::*;

#[tokio::test]
async fn a_wrong_field_is_named_with_what_was_expected() {
    let double = Double::new();
    let long = format!(r#"{{"metadata":{{"a":"{}"}}}}"#, "x".repeat(2_048));
    let cases = [
        ("", r#"{"wiat":"30s"}"#, "wiat", "one of the names wait, ttl, max_hold, owner, metadata"),
        ("", r#"{"wait":30}"#, "wait", "a duration such as 30s, 500ms or 1m30s, or forever"),
        ("", r#"{"wait":"30"}"#, "wait", "a duration such as 30s, 500ms or 1m30s, or forever"),
        ("", r#"{"ttl":"0s"}"#, "ttl", "a duration such as 30s, 500ms or 1m30s, not zero"),
        ("", r#"{"ttl":"-1s"}"#, "ttl", "a duration such as 30s, 500ms or 1m30s"),
        ("", r#"{"max_hold":"forever"}"#, "max_hold", "a duration such as 30s, 500ms or 1m30s"),
        ("", r#"{"owner":""}"#, "owner", "1 to 253 bytes of text without control characters"),
        ("", r#"{"owner":"a\nb"}"#, "owner", "1 to 253 bytes of text without control characters"),
        ("", r#"{"metadata":"x"}"#, "metadata", "a JSON object of at most 2048 bytes"),
        ("", &long, "metadata", "a JSON object of at most 2048 bytes"),
        ("?wait=1x", "", "wait", "a duration such as 30s, 500ms or 1m30s, or forever"),
        ("?mode=shared", "", "mode", "one of the names wait, ttl, max_hold, owner, metadata"),
        ("?wait=1s&wait=2s", "", "wait", "to be given once, in the body or in the query"),
        ("?ttl=1s", r#"{"ttl":"1s"}"#, "ttl", "to be given once, in the body or in the query"),
        (
            "",
            r#"{"wait":"1s","wait":"1s"}"#,
            "wait",
            "to be given once, in the body or in the query",
        ),
        (
            "",
            r#"{"metadata":{"a":[{"b":1,"b":2}]}}"#,
            "metadata.a.b",
            "to be given once, in the body or in the query",
        ),
        (
            "",
            r#"{"metadata":{"a":1},"owner":"w","metadata":{}}"#,
            "metadata",
            "to be given once, in the body or in the query",
        ),
        (
            "?owner=%FF",
            "",
            "owner",
            "UTF-8, in which each byte that is no plain letter or digit is written `%XX`",
        ),
        (
            "?owner=%C3",
            "",
            "owner",
            "UTF-8, in which each byte that is no plain letter or digit is written `%XX`",
        ),
        (
            "?owner=50%",
            "",
            "owner",
            "UTF-8, in which each byte that is no plain letter or digit is written `%XX`",
        ),
        (
            "?owner=%+1",
            "",
            "owner",
            "UTF-8, in which each byte that is no plain letter or digit is written `%XX`",
        ),
        (
            "?%FF=1",
            "",
            "query",
            "names of parameters in UTF-8, in which each byte that is no plain letter or digit is written `%XX`",
        ),
    ];
    for (query, body, field, expected) in cases {
        let answer = double.call(&format!("POST /v1/locks/a{query}"), &[], body).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "invalid"), "{body}");
        let problem = answer.json();
        assert_eq!((&problem["field"], &problem["expected"]), (&field.into(), &expected.into()));
    }
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let double = Double::new();
    for body in ["{", "{}x", r#"{"wait""#] {
        let answer = double.call("POST /v1/locks/a", &[], body).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.json()["field"].as_str()), (400, Some("body")));
    }
    let json = "Content-Type: application/json";
    let answer = double.call("POST /v1/locks/a", &[json], "[1]").await.unwrap();
    assert_eq!(answer.status.as_u16(), 400);
}

#[tokio::test]
async fn what_a_query_escapes_is_read() {
    let mut double = Double::new();
    let line = "POST /v1/locks/a?owner=%C3%a9+%26%3d%2B&&ttl=%31s";
    let call = double.call(line, &[], "");
    let (ask, _) = double.next_ask().await;
    call.abort();
    assert_eq!(ask.owner.as_deref(), Some("é &=+"));
    assert_eq!(ask.ttl, Some(std::time::Duration::from_secs(1)));
}

#[tokio::test]
async fn any_json_that_names_nothing_twice_is_read() {
    let mut double = Double::new();
    let metadata = r#"{"a":[1,-2,2.5,true,null,"x",{"a":{}}],"b":{"a":1}}"#;
    let call = double.call("POST /v1/locks/a", &[], &format!(r#"{{"metadata":{metadata}}}"#));
    let (ask, _) = double.next_ask().await;
    call.abort();
    let read: serde_json::Value = serde_json::from_str(ask.metadata.unwrap().as_str()).unwrap();
    assert_eq!(read, serde_json::from_str::<serde_json::Value>(metadata).unwrap());
}

#[tokio::test]
async fn calls_that_answer_at_once_take_no_parameters() {
    let double = Double::new();
    let waits =
        "to be asked of `GET /v1/elections/{election}`, which waits for a change of that one";
    for (path, field, expected) in [
        ("/v1/elections?wait=30s", "wait", waits),
        ("/v1/elections?index=1", "index", waits),
        ("/v1/elections?x=1", "x", "no parameters here"),
        ("/v1/elections/default/self?wait=30s", "wait", waits),
        ("/v1/elections/default/self?x=1", "x", "no parameters here"),
        ("/v1/locks/a/claims/b/check?wait=30s", "wait", "no parameters here"),
        ("/v1/locks/a?x=1", "x", "no parameters here"),
    ] {
        let answer = double.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (400, "invalid"), "{path}");
        let problem = answer.json();
        assert_eq!((&problem["field"], &problem["expected"]), (&field.into(), &expected.into()));
    }
}

#[tokio::test]
async fn a_slash_that_is_not_escaped_is_pointed_out() {
    let double = Double::new();
    for (line, meant) in [
        ("POST /v1/locks/orders/1", "/v1/locks/orders%2F1"),
        ("GET /v1/locks/a/b/c", "/v1/locks/a%2Fb%2Fc"),
        ("PUT /v1/locks/orders/1/claims/mine", "/v1/locks/orders%2F1/claims/mine"),
        ("GET /v1/locks/orders/1/claims/mine/check", "/v1/locks/orders%2F1/claims/mine/check"),
        ("POST /v1/locks/orders/1/claims/mine/renew", "/v1/locks/orders%2F1/claims/mine/renew"),
    ] {
        let answer = double.call(line, &[], "").await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (404, "not-found"),
            "{line}"
        );
        let detail = answer.json()["detail"].to_string();
        let hint = format!("is written `%2F`, as in {meant};");
        assert!(detail.contains(&hint), "{line}: {detail}");
    }
    for path in ["/v1/lock/a/b", "/v1/locks/a/", "/v1", "/v1/elections/a/b"] {
        let detail = double.get(path).await.json()["detail"].to_string();
        assert!(!detail.contains("%2F") && detail.contains("openapi.json"), "{path}: {detail}");
    }
}

#[tokio::test]
async fn names_are_checked() {
    let double = Double::new();
    let long = format!("/v1/locks/{}", "x".repeat(254));
    let claim = format!("/v1/locks/a/claims/{}", "x".repeat(129));
    for (line, field) in [
        (format!("POST {long}"), "name"),
        ("POST /v1/locks/a%00b".to_owned(), "name"),
        ("POST /v1/locks/a%FFb".to_owned(), "name"),
        (format!("GET {claim}"), "claim"),
        ("GET /v1/locks/a/claims/b%20c".to_owned(), "claim"),
        ("GET /v1/locks//claims/b".to_owned(), "name"),
        ("POST /v1/locks/..".to_owned(), "name"),
        ("GET /v1/locks/.".to_owned(), "name"),
        ("PUT /v1/locks/%2E%2E/claims/b".to_owned(), "name"),
        ("PUT /v1/locks/a/claims/..".to_owned(), "claim"),
        ("DELETE /v1/locks/a/claims/%2e".to_owned(), "claim"),
        ("GET /v1/locks/a/claims/../check".to_owned(), "claim"),
    ] {
        let answer = double.call(&line, &[], "").await.unwrap();
        assert_eq!(answer.status.as_u16(), 400, "{line}");
        assert_eq!(answer.json()["field"], field, "{line}");
        let expected = answer.json()["expected"].to_string();
        let is_dots = line.contains("/.") || line.contains("%2");
        assert!(
            !is_dots || line.contains("%20") || expected.contains("`.` and `..`"),
            "{expected}"
        );
    }
}

#[tokio::test]
async fn only_a_loopback_host_is_served() {
    let double = Double::new();
    let cases = [
        ("LocalHost:7070", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:7070", 200),
        ("[::1]", 200),
        ("localhost", 200),
        ("localhost:", 200),
        ("127.0.0.1", 200),
        ("localhost1", 403),
        ("localhost:80:80", 403),
        ("evil:127.0.0.1", 403),
        ("evil.example:80", 403),
        ("user@127.0.0.1:80", 403),
        (":80", 403),
        ("::1", 403),
        ("[::1", 403),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil@localhost", 403),
        ("127.0.0.2", 403),
        ("10.1.2.3:7070", 403),
        ("[::2]:7070", 403),
        ("", 403),
        ("a b", 403),
    ];
    for (host, status) in cases {
        let answer = double.call("GET /v1/status", &[&format!("Host: {host}")], "").await.unwrap();
        assert_eq!(answer.status.as_u16(), status, "{host}");
        if status == 403 {
            assert_eq!(answer.problem(), "forbidden");
        }
    }
    let two = ["Host: localhost", "Host: evil.example"];
    assert_eq!(double.call("GET /v1/status", &two, "").await.unwrap().status.as_u16(), 403);
    let absolute = "GET http://evil.example/v1/status";
    assert_eq!(double.call(absolute, &[], "").await.unwrap().status.as_u16(), 403);
}

#[tokio::test]
async fn no_page_of_a_browser_is_served() {
    let double = Double::new();
    for origin in ["http://localhost:7070", "null", "https://evil.example"] {
        for line in ["GET /v1/status", "POST /v1/locks/a", "OPTIONS /v1/locks/a"] {
            let answer = double.call(line, &[&format!("Origin: {origin}")], "").await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (403, "forbidden"));
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[tokio::test]
async fn nothing_that_a_page_loads_is_served() {
    let double = Double::new();
    for site in ["cross-site", "same-site", "same-origin", "None", ""] {
        for line in ["GET /v1/status", "GET /v1/locks/a/claims/b?wait=1h", "POST /v1/locks/a"] {
            let answer =
                double.call(line, &[&format!("Sec-Fetch-Site: {site}")], "").await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (403, "forbidden"));
        }
    }
    let typed = double.call("GET /v1/status", &["Sec-Fetch-Site: none"], "").await.unwrap();
    assert_eq!(typed.status.as_u16(), 200);
}

#[tokio::test]
async fn what_a_form_can_send_changes_nothing() {
    let double = Double::new();
    let forms =
        ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"];
    for form in forms {
        let header = format!("Content-Type: {form}");
        for line in changes() {
            let answer = double.call(&line, &[&header], "wait=1s").await.unwrap();
            assert_eq!(answer.status.as_u16(), 415, "{line} {form}");
            assert_eq!(answer.problem(), "unsupported-media-type");
        }
    }
    for line in changes() {
        for headers in [
            &[][..],
            &["Content-Type:"],
            &["Content-Type: application/json", "Content-Type: text/plain"],
        ] {
            let untyped = double.call(&line, headers, "wait=1s").await.unwrap();
            assert_eq!(untyped.status.as_u16(), 415, "{line}");
        }
    }
}

/// All calls that change something, of the routes that there are.
fn changes() -> Vec<String> {
    let all = super::documents::operations().into_iter();
    let changes = all.filter(|(method, ..)| *method != "GET").map(|(method, path, _)| {
        let path = path.replace("{name}", "a").replace("{claim}", "b").replace("{election}", "c");
        format!("{method} {path}")
    });
    changes.collect()
}

/// Calls that say by a field what they are about, by the ends of their paths.
const FIELDS: [(&str, &str); 4] =
    [("/transfer", "to"), ("/tick", "kind"), ("/receive", "stamp"), ("/compare", "a")];

/// Go's `http.Post(url, "", nil)` sends an empty type, and `curl -d ''` that of a form.
#[tokio::test]
async fn a_body_that_is_not_there_may_have_any_type() {
    let mut double = Double::new();
    double.requests.close();
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "application/json", "x"] {
        let header = format!("Content-Type: {kind}");
        for line in changes() {
            let answer = double.call(&line, &[&header], "").await.unwrap();
            // No group is asked for that.
            if line.starts_with("DELETE /v1/clocks/") && answer.status.as_u16() == 204 {
                continue;
            }
            // The group has ended. What says by its body what it is about has not come that far.
            let lacks =
                |(end, field): (&str, &str)| line.ends_with(end) && answer.json()["field"] == field;
            let lacks_its_field = FIELDS.into_iter().any(lacks);
            assert!(
                lacks_its_field || answer.problem() == "terminating",
                "{line} {kind}: {answer:?}"
            );
        }
        let mut chunked = request("POST /v1/locks/a", &[&header], "");
        let nothing = futures::stream::iter([Ok::<_, std::io::Error>("")]);
        *chunked.body_mut() = Body::from_stream(nothing);
        assert_eq!(answer(double.router(), chunked).await.problem(), "terminating", "{kind}");
    }
}

#[tokio::test]
async fn json_with_a_charset_is_json() {
    let mut double = Double::new();
    let header = ["Content-Type: Application/JSON; charset=utf-8"];
    let call = double.call("POST /v1/locks/a", &header, " {} ");
    let _claim = double.accept(held()).await;
    assert_eq!(call.await.unwrap().status.as_u16(), 201);
}

#[tokio::test]
async fn a_large_body_is_refused_with_and_without_its_length() {
    let double = Double::new();
    let large = format!(r#"{{"owner":"{}"}}"#, "x".repeat(64 * 1024));
    let length = format!("Content-Length: {}", large.len());
    let answer = double.call("POST /v1/locks/a", &[&length], &large).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (413, "body-too-large"));

    let mut request = request("POST /v1/locks/a", &[], "{");
    *request.body_mut() = Body::from_stream(futures::stream::repeat_with(|| {
        Ok::<_, std::io::Error>("x".repeat(1024))
    }));
    let answer = tower::ServiceExt::oneshot(double.router(), request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 413);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let double = Double::new();
    for path in ["/", "/v1", "/v1/locks/a/b", "/v1/elections/other"] {
        let answer = double.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (404, "not-found"),
            "{path}"
        );
    }
    let answer = double.call("PATCH /v1/locks/a/claims/b", &[], "").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (405, "method-not-allowed"));
    let allowed = answer.header("allow").unwrap();
    for method in ["GET", "PUT", "DELETE"] {
        assert!(allowed.contains(method), "{allowed}");
    }
}

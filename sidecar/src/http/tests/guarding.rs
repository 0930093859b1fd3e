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
    ] {
        let answer = double.call(&line, &[], "").await.unwrap();
        assert_eq!(answer.status.as_u16(), 400, "{line}");
        assert_eq!(answer.json()["field"], field, "{line}");
    }
}

#[tokio::test]
async fn only_a_loopback_host_is_served() {
    let double = Double::new();
    let cases = [
        ("localhost", 200),
        ("LocalHost:7070", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:7070", 200),
        ("[::1]", 200),
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
        for line in [
            "POST /v1/locks/a",
            "PUT /v1/locks/a/claims/b",
            "DELETE /v1/locks/a/claims/b",
            "POST /v1/locks/a/claims/b/renew",
        ] {
            for body in ["", "wait=1s"] {
                let answer = double.call(line, &[&header], body).await.unwrap();
                assert_eq!(answer.status.as_u16(), 415, "{line} {form}");
                assert_eq!(answer.problem(), "unsupported-media-type");
            }
        }
    }
    for line in ["POST /v1/locks/a", "PUT /v1/locks/a/claims/b", "DELETE /v1/locks/a/claims/b"] {
        let untyped = double.call(line, &[], "wait=1s").await.unwrap();
        assert_eq!(untyped.status.as_u16(), 415, "{line}");
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

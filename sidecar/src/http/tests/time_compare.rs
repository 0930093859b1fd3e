//! Stamps of the group time, compared.

use serde_json::{Value, json};

use super::double::*;
use super::time::synchronise;

async fn compare(double: &Double, query: &str) -> Value {
    let answer = double.get(&format!("/v1/time/compare?{query}")).await;
    assert_eq!(answer.status.as_u16(), 200, "{query}: {}", answer.text);
    answer.json()
}

#[tokio::test]
async fn two_stamps_have_an_order_if_their_intervals_have_nothing_in_common() {
    // No clock is needed for that: the double's is unknown.
    let double = Double::new();
    for (a, a_error, b, b_error, order) in [
        (100, 10, 121, 10, "before"),
        (100, 10, 120, 10, "concurrent"),
        (120, 10, 100, 10, "concurrent"),
        (121, 10, 100, 10, "after"),
        (100, 0, 100, 0, "concurrent"),
        (99, 0, 100, 0, "before"),
        (100, 0, 99, 0, "after"),
        (-100, 150, 100, 50, "concurrent"),
        (-100, 150, 100, 49, "before"),
        (i64::MIN, 0, i64::MAX, 0, "before"),
        (i64::MAX, 0, i64::MIN, 0, "after"),
        (i64::MAX, u64::MAX, i64::MIN, 0, "concurrent"),
        (i64::MIN, u64::MAX, i64::MAX, 0, "concurrent"),
        (i64::MAX - 1, 5, i64::MAX, 0, "concurrent"),
    ] {
        let query = format!("a_ns={a}&a_error_ns={a_error}&b_ns={b}&b_error_ns={b_error}");
        let comparison = compare(&double, &query).await;
        assert_eq!(comparison["order"], order, "{query}");
    }
    let comparison = compare(&double, "a_ns=100&a_error_ns=10&b_ns=-5&b_error_ns=1").await;
    let expected = json!({
        "order": "after",
        "a": {"earliest_ns": "90", "latest_ns": "110"},
        "b": {"earliest_ns": "-6", "latest_ns": "-4"},
    });
    assert_eq!(comparison, expected);
    let far = format!("a_ns={}&a_error_ns={}&b_ns=0&b_error_ns=0", i64::MAX, 1);
    assert_eq!(compare(&double, &far).await["a"]["latest_ns"], i64::MAX.to_string());
}

#[tokio::test]
async fn one_stamp_is_compared_with_now() {
    let double = Double::new();
    let query = |ns: i64, error: i64| format!("a_ns={ns}&a_error_ns={error}");
    let answer = double.get(&format!("/v1/time/compare?{}", query(1, 0))).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (503, "time-unknown".into()));
    synchronise(&double);
    let time = double.get("/v1/time").await.json();
    let number = |name: &str| time[name].as_str().and_then(|ns| ns.parse::<i64>().ok()).unwrap();
    let (earliest, latest) = (number("earliest_ns"), number("latest_ns"));
    let second = 1_000_000_000;
    for (a, error, order) in [
        (earliest - 1, 0, "before"),
        (earliest - second, second - 1, "before"),
        // No machine takes an hour for a call.
        (latest + 3_600 * second, 0, "after"),
        (latest + 3_600 * second, 3_600 * second, "concurrent"),
        (latest + 3_600 * second, 2 * 3_600 * second, "concurrent"),
    ] {
        let comparison = compare(&double, &query(a, error)).await;
        assert_eq!(comparison["order"], order, "{comparison}");
        let now = |name: &str| {
            comparison["b"][name].as_str().and_then(|ns| ns.parse::<i64>().ok()).unwrap()
        };
        let is_soon = earliest..earliest + 3_600 * second;
        assert!(is_soon.contains(&now("earliest_ns")), "{comparison}");
        assert!(now("latest_ns") - now("earliest_ns") >= latest - earliest, "{comparison}");
    }
}

#[tokio::test]
async fn nothing_is_surely_before_or_after_now_while_the_bound_may_not_hold() {
    let double = Double::new();
    synchronise(&double);
    double.time.send_modify(|map| map.disrupted_until = u64::MAX);
    let answer = double.get("/v1/time/compare?a_ns=1&a_error_ns=0").await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (503, "time-unknown".into()));
    let query = "a_ns=1&a_error_ns=0&b_ns=2&b_error_ns=0";
    assert_eq!(compare(&double, query).await["order"], "before", "no clock is read for that");
}

#[tokio::test]
async fn a_comparison_names_what_is_wrong() {
    let double = Double::new();
    synchronise(&double);
    for (query, field) in [
        ("", "a_ns"),
        ("a_ns=1", "a_error_ns"),
        ("a_error_ns=1", "a_ns"),
        ("b_ns=1&b_error_ns=1", "a_ns"),
        ("a_ns=1&a_error_ns=1&b_ns=1", "b_error_ns"),
        ("a_ns=1&a_error_ns=1&b_error_ns=1", "b_ns"),
        ("a_ns=x&a_error_ns=1", "a_ns"),
        ("a_ns=&a_error_ns=1", "a_ns"),
        ("a_ns=9223372036854775808&a_error_ns=1", "a_ns"),
        ("a_ns=1&a_error_ns=-1", "a_error_ns"),
        ("a_ns=1&a_error_ns=18446744073709551616", "a_error_ns"),
        ("a_ns=1&a_error_ns=1&error_ns=1", "error_ns"),
        ("a_ns=1&a_error_ns=1&a_ns=1", "a_ns"),
    ] {
        let answer = double.get(&format!("/v1/time/compare?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (400, "invalid".into()), "{query}");
        assert_eq!(answer.json()["field"], field, "{query}");
    }
}

#[tokio::test]
async fn a_shell_that_compares_gets_one_line() {
    let double = Double::new();
    let line = "GET /v1/time/compare?a_ns=1&a_error_ns=2&b_ns=9&b_error_ns=1";
    let answer = double.call(line, &["Accept: text/plain"], "").await.expect("the call ends");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    let expected = "order=before a_earliest_ns=-1 a_latest_ns=3 b_earliest_ns=8 b_latest_ns=10\n";
    assert_eq!(answer.text, expected);
}

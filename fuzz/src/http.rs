//! The bytes of a connection to the API.

use conclave_sidecar::fuzzing::PlayedApi;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::service::{PATIENCE, on_runtime};

/// No answer reports that the server failed, and no browser gets what it asks for.
pub(crate) fn run(input: &[u8]) {
    for hangs_up in [false, true] {
        check(input, &on_runtime(|runtime, api| runtime.block_on(answer(api, input, hangs_up))));
    }
}

fn check(input: &[u8], answer: &[u8]) {
    let Some(first) = status(answer) else { return };
    assert!(first < 500 || first == 503, "{first} answers {:?}", String::from_utf8_lossy(input));
    if let Some(why) = foreign(input) {
        let is_success = (200..300).contains(&first);
        assert!(!is_success, "{why}: {first} answers {:?}", String::from_utf8_lossy(input));
    }
}

/// What is answered. A client that hangs up is answered only what needs no waiting.
async fn answer(api: &PlayedApi, input: &[u8], hangs_up: bool) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(BUFFER);
    client.write_all(input).await.expect("there is room for it");
    if hangs_up {
        client.shutdown().await.expect("it is connected");
    }
    // A stream of events has no end.
    let _ = timeout(PATIENCE, api.serve(server)).await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("it is connected");
    answer
}

/// The status of the first answer.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Why the first request comes from a browser, or through a foreign name.
fn foreign(input: &[u8]) -> Option<&'static str> {
    let mut lines = input.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.by_ref().find(|line| !line.is_empty())?;
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|l| l.split_once(':'))
        else {
            continue;
        };
        if name.eq_ignore_ascii_case("origin") {
            return Some("it has an origin");
        }
        if name.eq_ignore_ascii_case("sec-fetch-site") && value.trim() != "none" {
            return Some("a page asks for it");
        }
        if name.eq_ignore_ascii_case("host") && !is_local(value.trim()) {
            return Some("it has a foreign host");
        }
    }
    None
}

fn is_local(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let rest = ["localhost", "127.0.0.1", "["].iter().find_map(|name| host.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || rest.contains(']'))
}

/// More than one input and its answers have bytes.
const BUFFER: usize = 1 << 20;

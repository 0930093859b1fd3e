//! Calls of the HTTP API in the documents, against its own description.

use anyhow::{Context, Result, bail, ensure};
use conclave_testbed::cache;
use serde_json::Value;

/// Whether the API has the path, with that method and these parameters.
pub(crate) fn check(arguments: &[&str]) -> Result<()> {
    // The API server, as pods know it.
    if arguments.iter().any(|argument| argument.starts_with("https://kubernetes.default.svc/")) {
        return Ok(());
    }
    let url = arguments.iter().find(|argument| LOCAL.iter().any(|local| argument.contains(local)));
    let url = url.context("it calls nobody on this machine")?;
    let url = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = url.split_once('/').context("it has no path")?;
    let after = |flags: &[&str]| {
        let pair = arguments.windows(2).find(|pair| flags.contains(&pair[0]));
        pair.map(|pair| pair[1])
    };
    let body = after(&["-d", "--data"]);
    if let Some(body) = body {
        serde_json::from_str::<Value>(body).with_context(|| body.to_owned())?;
    }
    let by_default = if body.is_some() { "POST" } else { "GET" };
    let method = after(&["-X", "--request"]).unwrap_or(by_default);
    let port = host.split_once(':').map(|(_, port)| port.parse()).transpose()?;
    let is_api = path.starts_with("v1/") || path == "openapi.json";
    match port {
        None | Some(API_MIN..=API_MAX) if is_api => api(method, path),
        Some(4040) => known(path, &["", "sse"]),
        Some(7072 | 8080) => known(path, &["startupz", "readyz", "livez", "metrics", "drain"]),
        other => bail!("who serves /{path} at port {other:?}?"),
    }
}

const LOCAL: &[&str] = &["localhost", "127.0.0.1"];

/// The API of a pod, and those of `conclave dev`.
const API_MIN: u16 = 7070;
const API_MAX: u16 = API_MIN + 4;

fn known(path: &str, paths: &[&str]) -> Result<()> {
    ensure!(paths.contains(&path), "nobody serves /{path}");
    Ok(())
}

fn api(method: &str, path: &str) -> Result<()> {
    let document = std::fs::read_to_string(cache::workspace().join("sidecar/openapi.json"))?;
    let document: Value = serde_json::from_str(&document)?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments: Vec<&str> = path.split('/').collect();
    let paths = document["paths"].as_object().context("it has paths")?;
    let fits = |template: &&String| {
        let template: Vec<&str> = template.trim_start_matches('/').split('/').collect();
        let mut both = template.iter().zip(&segments);
        template.len() == segments.len()
            && both.all(|(one, other)| one.starts_with('{') || one == other)
    };
    let mut routes = paths.keys().filter(fits).map(|template| &paths[template]);
    let route = routes.next().with_context(|| format!("there is no path /{path}"))?;
    let operation = &route[method.to_lowercase()];
    ensure!(operation.is_object(), "/{path} has no {method}");
    let parameters = [&route["parameters"], &operation["parameters"]];
    let parameters = parameters.into_iter().filter_map(Value::as_array).flatten();
    let names: Vec<&Value> = parameters
        .filter(|parameter| parameter["in"] == "query")
        .map(|parameter| &parameter["name"])
        .collect();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        ensure!(names.iter().any(|known| **known == *name), "{method} /{path} has no `{name}`");
    }
    Ok(())
}

#[test]
fn a_call_that_the_api_does_not_have_is_refused() {
    let check = |line: &str| check(&line.split(' ').collect::<Vec<_>>());
    for good in [
        "-fsS -X POST localhost:7070/v1/locks/orders?wait=30s",
        "-fsS -X DELETE http://127.0.0.1:7071/v1/locks/a%2Fb/claims/c",
        "--unix-socket /run/conclave/conclave.sock http://localhost/v1/members",
        "http://localhost:4040/sse",
    ] {
        check(good).unwrap_or_else(|error| panic!("{good}: {error:#}"));
    }
    for wrong in [
        "-X POST localhost:7070/v1/lock/orders",
        "-X PATCH localhost:7070/v1/locks/orders",
        "-X POST localhost:7070/v1/locks/orders?waits=30s",
        "localhost:7070",
        "localhost:4040/leader",
        "localhost:9999/v1/time",
        "example.com/v1/time",
        "-d {wait:1} -X POST localhost:7070/v1/locks/orders",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}

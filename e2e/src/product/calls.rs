//! Calls of an application to its sidecar.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::Pod;
use conclave_testbed::http::Http;
use serde_json::Value;

use super::{APPLICATION, Answer, Group};

/// What an application sends.
#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    method: &'a str,
    port: u16,
    path: &'a str,
    /// Its headers, besides those that any call has.
    headers: &'a [&'a str],
    /// JSON, or nothing.
    body: &'a str,
}

impl Group<'_> {
    /// GET.
    pub fn get(&self, pod: &Pod, path: &str) -> Result<Answer> {
        self.call(pod, "GET", path)
    }

    /// POST without a body.
    pub fn post(&self, pod: &Pod, path: &str) -> Result<Answer> {
        self.call(pod, "POST", path)
    }

    /// Any call without a body.
    pub fn call(&self, pod: &Pod, method: &str, path: &str) -> Result<Answer> {
        self.call_with(pod, method, path, &[], "")
    }

    /// A call with these headers, and a body of JSON unless it is empty.
    pub fn call_with(
        &self,
        pod: &Pod,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Result<Answer> {
        let call = Call { method, port: API, path, headers, body };
        let (status, body, took) = self.send(pod, call)?;
        let body = serde_json::from_str(&body).unwrap_or(Value::Null);
        Ok(Answer { status, body, took })
    }

    /// The metrics of a pod's sidecar.
    pub fn metrics(&self, pod: &Pod) -> Result<String> {
        let (method, port, path) = ("GET", ADMIN, "/metrics");
        let (status, body, _) =
            self.send(pod, Call { method, port, path, headers: &[], body: "" })?;
        ensure!(status == 200, "{path} of {}: {status}: {body}", pod.name);
        Ok(body)
    }

    /// Status, body, and how long it took. By `kubectl` and `curl` one costs more than all that a sidecar does for it.
    fn send(&self, pod: &Pod, call: Call<'_>) -> Result<(u16, String, Duration)> {
        if self.namespace.cluster().is_on_this_machine() {
            self.send_beside_the_application(pod, call)
        } else {
            self.send_by_curl(pod, call)
        }
    }

    /// From the network of the application's container.
    fn send_beside_the_application(
        &self,
        pod: &Pod,
        call: Call<'_>,
    ) -> Result<(u16, String, Duration)> {
        let network = self.namespace.cluster().network_of_container(pod, APPLICATION)?;
        let connected = || {
            network.enter()?;
            let began = Instant::now();
            let mut http = Http::connect(call.port)?;
            let reply = http.call_as(call.method, call.path, call.headers, call.body)?;
            Ok((reply.status, reply.body, began.elapsed()))
        };
        // Only a thread of its own may go elsewhere.
        thread::scope(|scope| scope.spawn(connected).join().expect("it does not panic"))
    }

    /// In the application's container.
    fn send_by_curl(&self, pod: &Pod, call: Call<'_>) -> Result<(u16, String, Duration)> {
        let url = format!("http://localhost:{}{}", call.port, call.path);
        let written = ["--write-out", "\n%{http_code} %{time_total}"];
        let mut command = vec!["curl", "--silent", "--show-error", "--request", call.method];
        command.extend(written);
        command.extend(call.headers.iter().flat_map(|header| ["--header", header]));
        if !call.body.is_empty() {
            command.extend(["--header", "Content-Type: application/json", "--data", call.body]);
        }
        command.push(&url);
        let text = self.namespace.exec(&pod.name, APPLICATION, &command)?;
        let text = text.trim_end();
        let (body, written) = text.rsplit_once('\n').unwrap_or(("", text));
        let (status, took) = written.split_once(' ').unwrap_or((written, ""));
        let took: f64 = took.parse().with_context(|| format!("no time in {text:?}"))?;
        let status = status.parse().with_context(|| format!("no status in {text:?}"))?;
        Ok((status, body.to_owned(), Duration::from_secs_f64(took)))
    }
}

/// Where the sidecar's API is.
pub(crate) const API: u16 = 7070;

/// Where its metrics are.
pub(crate) const ADMIN: u16 = 7072;

//! How long a sidecar takes from its start until it answers on its port, though no API server answers it.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use conclave_testbed::http::Http;
use conclave_testbed::image;
use tempfile::TempDir;

use super::print;

/// How many sidecars are started, one after the other.
const STARTS: usize = 50;

/// Where the API of each is.
const PORT: u16 = 27_500;

/// The most that a start may take.
const MOST: Duration = Duration::from_millis(100);

/// Where no API server is.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: \"http://127.0.0.1:1\"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: none, context: {cluster: nowhere, user: nobody}}]
current-context: none
";

/// Starts sidecars, and measures until each has answered a call.
pub(super) fn run() -> Result<()> {
    let folder = TempDir::new()?;
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG)?;
    let times = (0..STARTS).map(|_| {
        let mut sidecar = Command::new(image::product::binary("conclave"));
        sidecar
            .args(["sidecar", "--group", "bench", "--pod-name", "bench-0"])
            .args(["--pod-namespace", "bench", "--pod-ips", "127.0.0.1"])
            .args(["--pod-uid", "00000000-0000-4000-8000-000000000001"])
            .env("CONCLAVE_BASE_PORT", PORT.to_string())
            .env("KUBECONFIG", &kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ensure!(Http::connect(PORT).is_err(), "something listens on port {PORT}");
        let start = Instant::now();
        let mut running = Running(sidecar.spawn()?);
        while Http::connect(PORT).and_then(|mut http| http.call("GET", "/v1/status")).is_err() {
            ensure!(start.elapsed() < Duration::from_secs(10), "a sidecar does not answer");
            ensure!(running.0.try_wait()?.is_none(), "a sidecar ended");
            thread::sleep(Duration::from_micros(200));
        }
        Ok(start.elapsed())
    });
    println!("\n| of {STARTS} | p50 | p99 | n |\n| --- | --- | --- | --- |");
    let p99 =
        print("from the start of a sidecar to its first answer", times.collect::<Result<_>>()?);
    ensure!(p99 < MOST, "a start takes {p99:?}");
    Ok(())
}

/// A sidecar that ends with its measurement.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

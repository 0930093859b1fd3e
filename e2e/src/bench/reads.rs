//! What it costs to read the group clock: by HTTP, and on the page.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use conclave_testbed::cluster::{Cluster, Pod};
use conclave_testbed::command;
use conclave_testbed::http::Http;

use crate::clock_pages::at;
use crate::product::API;

/// How many calls are made.
const CALLS: usize = 5_000;

/// Reads the clock by HTTP from within a pod, one call after the other on one connection, and prints how long that took.
/// Beside it is a call whose answer needs no clock.
pub(super) fn by_http(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let network = cluster.network_of(pod)?;
    let measure = move || -> Result<(Vec<u64>, Vec<u64>)> {
        network.enter()?;
        let mut http = Http::connect(API)?;
        let time = calls(&mut http, "/v1/time")?;
        Ok((time, calls(&mut http, "/v1/elections/default")?))
    };
    let taken = thread::spawn(measure).join().map_err(|_| anyhow!("the client panicked"))?;
    let (time, leader) = taken?;
    println!("\n| one call by HTTP, on a connection that is kept | p50 | p99 | n |");
    println!("|{}", " --- |".repeat(4));
    for (name, times) in [("`/v1/time`", time), ("`/v1/elections/default`", leader)] {
        let [half, rare] = [500, 990].map(|per_mille| at(&times, per_mille).unwrap_or(0) / 1_000);
        println!("| {name} | {half} µs | {rare} µs | {} |", times.len());
    }
    Ok(())
}

/// How long each call took, in nanoseconds.
fn calls(http: &mut Http, path: &str) -> Result<Vec<u64>> {
    let call = |_| {
        let begun = Instant::now();
        let reply = http.call("GET", path)?;
        ensure!(reply.status == 200, "{path}: {}: {}", reply.status, reply.body);
        u64::try_from(begun.elapsed().as_nanos()).context("a short call")
    };
    (0..CALLS).map(call).collect()
}

/// How often a reading of the page is measured.
const RUNS: usize = 5;

/// What a reading of the page costs, by a program that is built like the product.
pub(super) fn of_the_page() -> Result<()> {
    (0..RUNS).try_for_each(|_| of_the_page_once())
}

fn of_the_page_once() -> Result<()> {
    println!();
    let mut cargo = command::cargo(&["run", "--quiet", "--release", "--locked"]);
    command::run(cargo.args(["--package", "conclave-clock-page", "--example", "reads"]))
}

//! The alerts of the chart, by Prometheus' own tests of rules. No cluster is asked, but promtool is built with the
//! cluster's programs.

use std::process::Command;

use anyhow::Result;
use conclave_e2e::monitoring;
use conclave_testbed::{binaries, cache, command};

#[test]
fn each_alert_fires_and_clears_as_its_test_states() -> Result<()> {
    let tests = cache::workspace().join("e2e/tests/alerts.yaml");
    command::run(promtool()?.args(["test", "rules"]).arg(tests))
}

#[test]
fn promtool_has_nothing_against_the_rules() -> Result<()> {
    let check = ["check", "rules", "--lint=all", "--lint-fatal"];
    command::run(promtool()?.args(check).arg(monitoring::rules()))
}

fn promtool() -> Result<Command> {
    binaries::build_promtool()?;
    Ok(Command::new(binaries::PROMTOOL.path()))
}

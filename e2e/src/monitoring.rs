//! Alerts and dashboards that the chart brings, as their files have them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::product;

/// The file of all alerts.
pub fn rules() -> PathBuf {
    product::chart().join("files/rules.yaml")
}

/// The alerts, each of which fires as soon as its expression has been true for a second. Windows of time and limits are
/// small enough to be seen; all else is as a user has it.
pub fn impatient_rules() -> Result<String> {
    let rules = fs::read_to_string(rules())?;
    let mut waits = 0;
    let impatient = |line: &str| {
        if !line.starts_with(WAIT) {
            return format!("{line}\n");
        }
        waits += 1;
        format!("{WAIT}1s\n")
    };
    let text: String = rules.lines().map(impatient).collect();
    ensure!(waits > 5, "only {waits} waits are shortened");
    SMALLER.iter().try_fold(text, |text, (of_a_user, of_a_test)| {
        ensure!(text.contains(of_a_user), "no alert has {of_a_user}");
        Ok(text.replace(of_a_user, of_a_test))
    })
}

/// The name of each file of a dashboard, and what is in it, in the order of the names.
pub fn dashboards() -> Result<Vec<(String, Value)>> {
    let mut dashboards = Vec::new();
    for entry in fs::read_dir(product::chart().join("files/dashboards"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path())?;
        dashboards.push((name.clone(), serde_json::from_str(&text).context(name)?));
    }
    dashboards.sort_by(|(one, _), (other, _)| one.cmp(other));
    ensure!(!dashboards.is_empty(), "there is no dashboard");
    Ok(dashboards)
}

/// Every query of a dashboard.
pub fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.filter_map(|target| target["expr"].as_str()).map(str::to_owned).collect()
}

/// How the line of a rule begins that states how long its alert waits.
const WAIT: &str = "    for: ";

/// What is smaller in a test: windows of time, members, locks, claims, and the age of what an operator did.
const SMALLER: [(&str, &str); 8] = [
    ("[2m]", "[10s]"),
    ("[15m]", "[30s]"),
    ("[1h]", "[30s]"),
    ("offset 1h", "offset 30s"),
    ("(conclave_members)) > 460", "(conclave_members)) > 3"),
    ("(conclave_locks_wanted) > 40000", "(conclave_locks_wanted) > 30"),
    ("conclave_lock_waiters > 8000", "conclave_lock_waiters > 20"),
    ("kept_timestamp_seconds > 600", "kept_timestamp_seconds > 45"),
];

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

/// The alerts, each of which fires as soon as its expression has been true for a second: the waits are the only
/// thing that is not as a user has it.
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
    Ok(text)
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

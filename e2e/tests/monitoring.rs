//! Alerts and dashboards of the chart ask for metrics that there are, and every alert has its runbook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use conclave_e2e::monitoring::{dashboards, queries};
use conclave_protocols::member::GROUP_MAX;
use conclave_protocols::record::MEMBERS_MAX;
use conclave_testbed::cache;
use serde_json::Value;

#[test]
fn every_query_is_about_metrics_and_labels_that_there_are() -> Result<()> {
    let known = definitions()?;
    let mut asked = BTreeSet::new();
    let mut wrong = Vec::new();
    for expression in expressions()? {
        let uses = uses(&expression);
        ensure!(!uses.metrics.is_empty(), "no metric in `{expression}`");
        let mut carried: BTreeSet<String> = OF_TARGETS.map(str::to_owned).into();
        for (metric, labels) in &uses.metrics {
            let Some(own) = labels_of(&known, metric) else {
                wrong.push(format!("there is no metric {metric}: {expression}"));
                continue;
            };
            asked.insert(metric.clone());
            let is_own = |label: &String| own.contains(label) || OF_TARGETS.contains(&&**label);
            if let Some(label) = labels.iter().find(|label| !is_own(label)) {
                wrong.push(format!("{metric} has no label {label}: {expression}"));
            }
            carried.extend(own);
        }
        if let Some(label) = uses.grouped.iter().find(|label| !carried.contains(*label)) {
            wrong.push(format!("no metric has the label {label}: {expression}"));
        }
    }
    ensure!(asked.len() > 40, "only {} metrics are asked for", asked.len());
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn the_names_in_a_query_are_seen() {
    let seen = uses(
        r#"histogram_quantile(0.99, sum by (pod, le) (rate(conclave_a_bucket{b="c}", d!~"e"}[5m])))
           / on (f) group_left conclave_g or vector(0)"#,
    );
    let metrics = [("conclave_a_bucket", vec!["b", "d"]), ("conclave_g", vec![])];
    let owned = |(name, labels): (&str, Vec<&str>)| {
        (name.to_owned(), labels.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(seen.metrics, metrics.map(owned));
    assert_eq!(seen.grouped, ["pod", "le", "f"]);
}

#[test]
fn every_alert_states_how_bad_it_is_what_it_is_and_where_its_runbook_is() -> Result<()> {
    let runbooks = read("docs/runbooks.md")?;
    for alert in alerts()? {
        let name = alert["alert"].as_str().context("a rule that is no alert")?;
        ensure!(name.starts_with("Conclave"), "{name}");
        let severity = alert["labels"]["severity"].as_str().context("no severity")?;
        ensure!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        for text in ["summary", "description"] {
            let text = alert["annotations"][text].as_str().with_context(|| name.to_owned())?;
            ensure!(text.ends_with('.') && text.len() > 20, "{name}: {text}");
        }
        let description = alert["annotations"]["description"].as_str().unwrap_or_default();
        for label in kept_labels(alert["expr"].as_str().context("no expression")?) {
            let shown = format!("{{{{ $labels.{label} }}}}");
            ensure!(description.contains(&shown), "{name} does not name the {label}");
        }
        let anchor = format!("{RUNBOOKS}#{}", name.to_lowercase());
        ensure!(alert["annotations"]["runbook_url"] == anchor, "{name}: not {anchor}");
        let section = runbooks.split(&format!("\n## {name}\n")).nth(1);
        let section = section.with_context(|| format!("{name} has no runbook"))?;
        let section = section.split("\n## ").next().unwrap_or_default();
        for part in ["**What users notice.**", "**How to look.**", "**What to do.**"] {
            ensure!(section.contains(part), "the runbook of {name} lacks {part}");
        }
    }
    let sections = runbooks.lines().filter(|line| line.starts_with("## ")).count();
    ensure!(sections == alerts()?.len(), "{sections} runbooks, {} alerts", alerts()?.len());
    Ok(())
}

#[test]
fn the_page_lists_every_alert_with_its_severity_and_its_wait() -> Result<()> {
    let page = read("docs/monitoring.md")?;
    let mut listed = 0;
    for alert in alerts()? {
        let name = alert["alert"].as_str().unwrap_or_default();
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        let wait = alert["for"].as_str().unwrap_or("0s");
        let begin = format!("| [`{name}`](runbooks.md#{}) | {severity} | ", name.to_lowercase());
        let row = page.lines().find(|line| line.starts_with(&begin));
        let row = row.with_context(|| format!("{name} is not listed as {severity}"))?;
        ensure!(row.ends_with(&format!(" | {wait} |")), "{name} waits for {wait}: {row}");
        listed += 1;
    }
    let rows = page.lines().filter(|line| line.starts_with("| [`Conclave")).count();
    ensure!(rows == listed, "{rows} rows for {listed} alerts");
    Ok(())
}

#[test]
fn every_alert_fires_and_clears_in_the_unit_tests_of_the_rules() -> Result<()> {
    let tests: Value = serde_saphyr::from_str(&read("e2e/tests/alerts.yaml")?)?;
    let tests = tests["tests"].as_array().context("no tests")?;
    for alert in alerts()? {
        let name = alert["alert"].as_str().unwrap_or_default();
        let test = tests.iter().find(|test| test["name"] == name);
        let test = test.with_context(|| format!("{name} has no test"))?;
        let looks = test["promql_expr_test"].as_array().context("no looks")?;
        let fires = |look: &Value| look["exp_samples"].to_string().contains(name);
        let course: Vec<bool> = looks.iter().map(fires).collect();
        ensure!(course.first() == Some(&false), "{name} fires from the beginning");
        ensure!(course.contains(&true), "{name} never fires");
        ensure!(course.last() == Some(&false), "{name} never clears");
    }
    Ok(())
}

#[test]
fn the_limits_in_the_rules_are_those_of_the_code() -> Result<()> {
    for (name, limit) in [("ConclaveManyMembers", MEMBERS_MAX), ("ConclaveManyLocks", GROUP_MAX)] {
        let alerts = alerts()?;
        let alert = alerts.iter().find(|alert| alert["alert"] == name).context(name)?;
        let summary = alert["annotations"]["summary"].as_str().unwrap_or_default();
        ensure!(summary.contains(&format!(" of {limit} ")), "{limit}: {summary}");
        let expression = alert["expr"].as_str().unwrap_or_default();
        let threshold = expression.rsplit_once("> ").context("no threshold")?.1;
        let share = threshold.trim().parse::<usize>()? * 100 / limit;
        ensure!((75..95).contains(&share), "{name}: {share} %");
    }
    Ok(())
}

#[test]
fn dashboards_have_what_grafana_asks_for() -> Result<()> {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards()? {
        let uid = dashboard["uid"].as_str().with_context(|| format!("{file}: no uid"))?;
        ensure!(uid.len() <= 40 && uids.insert(uid.to_owned()), "{file}: {uid}");
        ensure!(file == format!("{uid}.json"), "{file} is called {uid}");
        ensure!(dashboard["schemaVersion"].as_u64() >= Some(36), "{file}: schemaVersion");
        ensure!(dashboard["title"].as_str().is_some_and(|title| !title.is_empty()), "{file}");
        let variables = dashboard["templating"]["list"].as_array().context("no variables")?;
        let variables: Vec<_> = variables.iter().filter_map(|one| one["name"].as_str()).collect();
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().context("no panels")? {
            let title = panel["title"].as_str().with_context(|| format!("{file}: no title"))?;
            ensure!(ids.insert(panel["id"].as_u64()), "{file}, {title}: its id is taken");
            occupy(&panel["gridPos"], &mut taken).with_context(|| format!("{file}, {title}"))?;
            if panel["type"] == "row" {
                continue;
            }
            let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
            ensure!(unit.is_some_and(|unit| !unit.is_empty()), "{file}, {title}: no unit");
            ensure!(panel["datasource"]["uid"] == "${datasource}", "{file}, {title}: data source");
            let targets = panel["targets"].as_array().with_context(|| title.to_owned())?;
            ensure!(!targets.is_empty(), "{file}, {title}: nothing is asked");
            for target in targets {
                for text in ["expr", "legendFormat", "refId"] {
                    let text = target[text].as_str().unwrap_or_default();
                    ensure!(!text.is_empty(), "{file}, {title}: {target}");
                }
            }
        }
        for expression in queries(&dashboard) {
            let mut names = expression.split('$').skip(1).map(variable);
            let known = |name: &str| variables.contains(&name) || name == "__rate_interval";
            ensure!(names.all(known), "{file}: a variable that is not there in `{expression}`");
        }
    }
    ensure!(uids.iter().eq(["conclave-group", "conclave-overview"]), "{uids:?}");
    Ok(())
}

fn variable(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

/// Panels lie within the 24 columns, and not on each other.
fn occupy(place: &Value, taken: &mut BTreeSet<(u64, u64)>) -> Result<()> {
    let number = |field: &str| place[field].as_u64().with_context(|| format!("no {field}"));
    let (x, y, w, h) = (number("x")?, number("y")?, number("w")?, number("h")?);
    ensure!(w > 0 && h > 0 && x + w <= 24, "it does not fit: {place}");
    for column in x..x + w {
        for line in y..y + h {
            ensure!(taken.insert((column, line)), "it lies on another: {place}");
        }
    }
    Ok(())
}

/// The labels by metric, `group` among those of sidecars.
type Definitions = BTreeMap<String, BTreeSet<String>>;

/// What the generated pages list. Where sidecars and the operator have the same, it has the labels of both.
fn definitions() -> Result<Definitions> {
    let mut known = Definitions::new();
    for (page, common) in [("docs/metrics.md", Some("group")), ("docs/metrics-operator.md", None)] {
        for row in read(page)?.lines().filter_map(|line| line.strip_prefix("| `")) {
            let (name, rest) = row.split_once('`').context("no name")?;
            let mut cells = rest.split(" | ").skip(1);
            let (kind, labels) = (cells.next().context("no type")?, cells.next().context(page)?);
            let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned);
            let labels: BTreeSet<_> = labels.chain(common.map(str::to_owned)).collect();
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            for suffix in suffixes {
                known.entry(format!("{name}{suffix}")).or_default().extend(labels.clone());
            }
        }
    }
    ensure!(known.len() > 60, "only {} metrics are defined", known.len());
    Ok(known)
}

fn labels_of(known: &Definitions, metric: &str) -> Option<BTreeSet<String>> {
    let texts = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect();
    if OF_PROCESSES.contains(&metric) {
        return Some(texts(&["group"]));
    }
    if metric == "ALERTS" {
        return Some(texts(&["alertname", "alertstate", "severity"]));
    }
    known.get(metric).cloned()
}

/// What a query names.
#[derive(Default)]
struct Uses {
    /// Metrics, with the labels that are asked for in braces.
    metrics: Vec<(String, Vec<String>)>,
    /// Labels of `by` and `on`.
    grouped: Vec<String>,
}

fn uses(expression: &str) -> Uses {
    let mut uses = Uses::default();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let name = variable(rest);
        let after = rest[name.len()..].trim_start();
        if name.is_empty() {
            rest = if first == '"' { after_text(rest) } else { &rest[first.len_utf8()..] };
            continue;
        }
        if BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            let labels = after.strip_prefix('{').map(matched).unwrap_or_default();
            uses.metrics.push((name.to_owned(), labels));
        } else if ["by", "on"].contains(&name) {
            let list = after.strip_prefix('(').and_then(|list| list.split(')').next());
            let labels = list.into_iter().flat_map(|list| list.split(','));
            uses.grouped.extend(labels.map(|label| label.trim().to_owned()));
        }
        rest = &rest[name.len()..];
    }
    uses
}

/// The labels before each operator, up to the brace that ends them.
fn matched(mut rest: &str) -> Vec<String> {
    let mut labels = Vec::new();
    while let Some(first) = rest.chars().next().filter(|first| *first != '}') {
        let name = variable(rest);
        if name.is_empty() {
            rest = if first == '"' { after_text(rest) } else { &rest[first.len_utf8()..] };
        } else {
            labels.push(name.to_owned());
            rest = &rest[name.len()..];
        }
    }
    labels
}

fn after_text(rest: &str) -> &str {
    rest[1..].split_once('"').map_or("", |(_, after)| after)
}

/// The labels that a firing alert has of its group and pod, as its expression leaves them.
fn kept_labels(expression: &str) -> Vec<&'static str> {
    let first = expression.trim().lines().next().unwrap_or_default();
    let by = first.split_once("by (").and_then(|(_, rest)| rest.split(')').next());
    let labels = match by {
        Some(by) => by.split(", ").collect(),
        None if first.starts_with("absent") => Vec::new(),
        None if first.contains("authority") || first.contains("webhook") => {
            vec!["namespace", "pod"]
        }
        None => vec!["namespace", "group", "pod"],
    };
    let all = ["namespace", "namespace_name", "group", "pod", "election"];
    all.into_iter().filter(|label| labels.contains(label)).collect()
}

fn expressions() -> Result<Vec<String>> {
    let expression = |alert: &Value| alert["expr"].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = alerts()?.iter().map(expression).collect();
    for (_, dashboard) in dashboards()? {
        all.extend(queries(&dashboard));
    }
    Ok(all)
}

fn alerts() -> Result<Vec<Value>> {
    let rules: Value = serde_saphyr::from_str(&read("charts/conclave/files/rules.yaml")?)?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
    let rules: Vec<Value> = rules.cloned().collect();
    ensure!(rules.len() > 10, "only {} alerts", rules.len());
    Ok(rules)
}

fn read(file: &str) -> Result<String> {
    let path = cache::workspace().join(file);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// How the names of metrics begin.
const BEGINNINGS: [&str; 4] = ["conclave_", "leader_election_", "process_", "ALERTS"];

/// What Prometheus adds to what it scrapes, and to histograms.
const OF_TARGETS: [&str; 5] = ["namespace", "pod", "instance", "job", "le"];

/// Of those that every process has under the usual names.
const OF_PROCESSES: [&str; 2] = ["process_cpu_seconds_total", "process_resident_memory_bytes"];

const RUNBOOKS: &str = "https://github.com/conclave-dev/conclave/blob/main/docs/runbooks.md";

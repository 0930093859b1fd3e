//! Commands in the documents: what they name is there.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use clap::error::ErrorKind;
use conclave_crds::schema;
use conclave_e2e::bench::Arguments as Bench;
use conclave_sidecar::command::Cli;
use conclave_testbed::cache;
use conclave_testbed::xtask::Arguments as Xtask;
use serde_json::Value;

use super::manifests;
use super::shell::Call;

/// Whether a call names what there is; a program that nobody checks has to be listed as one.
pub(crate) fn check(call: &Call) -> Result<()> {
    let (program, arguments) = call.words.split_first().context("no program")?;
    match (program.as_str(), &call.input) {
        (_, None) => {}
        ("kubectl", Some(input)) => manifests::check(input)?,
        ("helm", Some(input)) => are_values(&serde_saphyr::from_str(input)?, &chart_values()?)?,
        (_, Some(_)) => bail!("what does {program} do with that input?"),
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match program.as_str() {
        "conclave" | "/conclave" => parse::<Cli>(&arguments),
        "cargo" => cargo(&arguments),
        "curl" => super::calls::check(&arguments),
        "kubectl" => {
            super::kubectl::check(&arguments)?;
            // What it runs in a container.
            let end = call.words.iter().position(|word| word == "--");
            let within = end.map_or(&[][..], |end| &call.words[end + 1..]);
            let within = Call { words: within.to_vec(), input: None };
            if within.words.is_empty() { Ok(()) } else { check(&within) }
        }
        "helm" => helm(&arguments),
        // What it calls, with its own way of naming an argument before that.
        "xargs" => {
            let words = call.words.get(3..).unwrap_or_default();
            check(&Call { words: words.to_vec(), input: None })
        }
        other if OF_OTHERS.contains(&other) => Ok(()),
        other => bail!("who checks what is given to `{other}`?"),
    }
}

/// Programs that are not of this repository, and of which nothing here can say what they take.
const OF_OTHERS: &[&str] = &[
    "base64", "cd", "crane", "ctr", "docker", "echo", "go", "grep", "kind", "mkdir", "openssl",
    "sh", "skopeo", "sudo", "tar", "wait", "wc",
];

fn parse<T: Parser>(arguments: &[&str]) -> Result<()> {
    use ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument,
    };
    match T::try_parse_from([&["program"], arguments].concat()) {
        Ok(_) => Ok(()),
        // A sentence may name a command without all that it needs.
        Err(error)
            if matches!(
                error.kind(),
                DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument
            ) =>
        {
            Ok(())
        }
        Err(error) => bail!("{error}"),
    }
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let (command, rest) = arguments.split_first().context("cargo does what?")?;
    let end = rest.iter().position(|one| *one == "--");
    let (own, behind) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 1..]));
    match *command {
        "xtask" => xtask(rest),
        "run" if own.contains(&"--example") => targets(own),
        "run" => {
            ensure!(own.ends_with(&["--bin", "conclave"]), "what does it run?");
            parse::<Cli>(behind)
        }
        "deny" | "fmt" => Ok(()),
        "build" | "clippy" | "test" => targets(own),
        other => bail!("who checks `cargo {other}`?"),
    }
}

fn xtask(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["bench", rest @ ..] => parse::<Bench>(rest),
        all => parse::<Xtask>(all),
    }
}

/// The packages, the examples and the integration tests that are named.
fn targets(arguments: &[&str]) -> Result<()> {
    let named = |flags: &[&str]| -> Vec<&str> {
        let after = arguments.windows(2).filter(|pair| flags.contains(&pair[0]));
        after.map(|pair| pair[1]).collect()
    };
    let root = cache::workspace();
    let packages = named(&["-p", "--package"]);
    let folder = |package: &str| root.join(package.strip_prefix("conclave-").unwrap_or(package));
    for package in &packages {
        ensure!(folder(package).join("Cargo.toml").exists(), "there is no package {package}");
    }
    for example in named(&["--example"]) {
        let file = format!("examples/{example}.rs");
        let is_there = packages.iter().any(|package| folder(package).join(&file).exists());
        ensure!(is_there, "no example {example}");
    }
    for test in named(&["--test"]) {
        let is_there = |folder: &Path| {
            let tests = folder.join("tests");
            tests.join(format!("{test}.rs")).exists() || tests.join(test).join("main.rs").exists()
        };
        ensure!(packages.iter().any(|package| is_there(&folder(package))), "no test {test}");
    }
    Ok(())
}

fn helm(arguments: &[&str]) -> Result<()> {
    let verb = arguments.first().copied().unwrap_or_default();
    ensure!(["install", "template", "uninstall", "upgrade"].contains(&verb), "helm {verb}?");
    let chart = cache::workspace().join(CHART);
    let values = chart_values()?;
    // A sentence may name the verb alone.
    if verb != "uninstall" && arguments.len() > 1 {
        ensure!(arguments.contains(&"charts/conclave"), "which chart?");
    }
    for pair in arguments.windows(2) {
        match *pair {
            ["--set", set] => set_values(set, &values)?,
            ["--show-only", path] => ensure!(chart.join(path).exists(), "no {path} in the chart"),
            _ => {}
        }
    }
    Ok(())
}

fn chart_values() -> Result<Value> {
    let read = std::fs::read_to_string(cache::workspace().join(CHART).join("values.yaml"))?;
    Ok(serde_saphyr::from_str(&read)?)
}

const CHART: &str = "charts/conclave";

/// Every key is one of the values. What a value without keys may have, the schema of the chart says.
fn are_values(set: &Value, values: &Value) -> Result<()> {
    let Some(keys) = set.as_object() else { return Ok(()) };
    let known = values.as_object().context("it is no object in the chart")?;
    for (key, set) in keys.iter().filter(|_| !known.is_empty()) {
        are_values(set, known.get(key).with_context(|| format!("the chart has no value {key}"))?)?;
    }
    Ok(())
}

/// `a.b=1,c={d,e}`: every key is one of the values.
fn set_values(set: &str, values: &Value) -> Result<()> {
    let mut depth = 0;
    let parts = set.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts {
        let (key, _) = part.split_once('=').with_context(|| format!("`{part}` sets nothing"))?;
        let pointer = format!("/{}", key.replace('.', "/"));
        ensure!(values.pointer(&pointer).is_some(), "the chart has no value {key}");
    }
    Ok(())
}

/// The names by which kubectl knows the kind.
pub(crate) fn names_of_the_kind() -> BTreeSet<String> {
    let definition = schema::definition().spec;
    let names = definition.names;
    let plural = format!("{}.{}", names.plural, definition.group);
    let short = names.short_names.into_iter().flatten();
    let categories = names.categories.into_iter().flatten();
    [names.plural, plural]
        .into_iter()
        .chain(names.singular)
        .chain(short)
        .chain(categories)
        .collect()
}

/// Whether the definition has a field, such as `status.authority.address`.
pub(crate) fn has_field(path: &str) -> Result<bool> {
    let definition = serde_json::to_value(schema::definition())?;
    let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for field in path.split('.') {
        let object = if schema["items"].is_object() { &schema["items"] } else { schema };
        schema = &object["properties"][field];
    }
    Ok(schema.is_object())
}

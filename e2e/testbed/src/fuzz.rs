//! `cargo xtask fuzz`: hands arbitrary input to what reads it, and follows what reaches new code.
//!
//! The engine is libFuzzer, which `libfuzzer-sys` builds with the C++ compiler; rustc counts the
//! edges of our code (`fuzz/rustc.sh`), for which a stable toolchain is enough.

use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{cache, command};

/// Runs every target for so long, as many at a time as there are cores; then says what each reached.
pub fn all(each: Duration) -> Result<()> {
    let engine = build()?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut found = Vec::new();
    for together in targets()?.chunks(cores) {
        let begun: Result<Vec<_>> =
            together.iter().map(|target| Running::begin(&engine, target, each)).collect();
        for mut running in begun? {
            if !running.end()? {
                found.push(running.target.clone());
            }
        }
    }
    ensure!(found.is_empty(), "fuzzing found something in {}", found.join(", "));
    Ok(())
}

/// Runs one target for so long.
pub fn one(target: &str, time: Duration) -> Result<()> {
    check_name(target)?;
    let is_good = Running::begin(&build()?, target, time)?.end()?;
    ensure!(is_good, "fuzzing found something in {target}");
    Ok(())
}

/// Shows what a target does with one input.
pub fn again(target: &str, input: &Path) -> Result<()> {
    check_name(target)?;
    let input = fs::canonicalize(input).with_context(|| format!("no {}", input.display()))?;
    command::run(of(&build()?, target).arg(input))
}

/// For how long each target must run so that all take so long.
pub fn share(time: Duration) -> Result<Duration> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let rounds = u32::try_from(targets()?.len().div_ceil(cores))?;
    Ok(time / rounds.max(1))
}

/// One run of a target, which ends with the process that began it.
struct Running {
    target: String,
    engine: Child,
    log: PathBuf,
}

impl Running {
    fn begin(engine: &Path, target: &str, time: Duration) -> Result<Self> {
        let place = place();
        let corpus = place.join("corpus").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(place.join("found"))?;
        let log = place.join(format!("{target}.log"));
        let mut engine = of(engine, target);
        engine
            .arg(format!("-max_total_time={}", time.as_secs().max(1)))
            .arg(format!("-artifact_prefix={}/{target}-", place.join("found").display()))
            .args(["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048"])
            .args(["-print_final_stats=1", "-verbosity=1"]);
        let words = seeds().with_file_name("words").join(target);
        if words.exists() {
            engine.arg(format!("-dict={}", words.display()));
        }
        engine.arg(corpus).arg(seeds().join(target)).stderr(File::create(&log)?);
        let engine = engine.spawn().context("cannot start the engine")?;
        Ok(Self { target: target.to_owned(), engine, log })
    }

    /// Waits for its end, and says what came of it. False if it found something.
    fn end(&mut self) -> Result<bool> {
        let status = self.engine.wait()?;
        let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        let target = &self.target;
        println!("{target:>10}: {}", reached(&log).context("the engine did not say what it did")?);
        if status.success() {
            println!("{:>10}  no finding", "");
            return Ok(true);
        }
        println!("{}", ending(&log));
        if let Some(input) = finding(&log) {
            println!("see it again: cargo xtask fuzz {target} --input {input}");
        }
        Ok(false)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.engine.kill();
        let _ = self.engine.wait();
    }
}

/// Builds the engine with every target.
fn build() -> Result<PathBuf> {
    let host = host()?;
    let build = ["build", "--quiet", "--locked", "--profile", "fuzz", "--target", &host];
    let mut cargo = command::cargo(&build);
    cargo
        .args(["-p", "conclave-fuzz", "--features", "engine"])
        .env("RUSTC_WRAPPER", cache::workspace().join("fuzz/rustc.sh"))
        .env("CARGO_TARGET_DIR", place());
    command::run(&mut cargo)?;
    Ok(place().join(host).join("fuzz/conclave-fuzz"))
}

/// What this machine is to rustc.
fn host() -> Result<String> {
    let version =
        command::output(Command::new("rustc").arg("-vV").current_dir(cache::workspace()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

fn of(engine: &Path, target: &str) -> Command {
    let mut command = Command::new(engine);
    command.env("CONCLAVE_TARGET", target);
    command
}

/// Every target has a directory of seeds.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(seeds())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn check_name(target: &str) -> Result<()> {
    let targets = targets()?;
    let is_known = targets.iter().any(|known| known == target);
    ensure!(is_known, "no target `{target}`; there are {}", targets.join(", "));
    Ok(())
}

/// What a run reached: executions, edges, inputs kept.
fn reached(log: &str) -> Option<String> {
    let executions = log.lines().rev().find_map(|line| {
        let count = line.strip_prefix("stat::number_of_executed_units:")?;
        Some(count.trim().to_owned())
    });
    // `#12 NEW cov: 8 ft: 8 corp: 1/1b ...`
    let words: Vec<_> =
        log.lines().rev().find(|line| line.contains(" cov: "))?.split_whitespace().collect();
    let after = |name| {
        let place = words.iter().position(|word| *word == name)?;
        words.get(place + 1)
    };
    let executions = executions.unwrap_or_else(|| words[0].trim_start_matches('#').to_owned());
    let kept = after("corp:")?.split('/').next()?;
    Some(format!("{executions} executions, {} edges, {kept} inputs kept", after("cov:")?))
}

/// The file with the input that was found.
fn finding(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| line.split_once("Test unit written to ")).map(|(_, at)| at)
}

/// What the target printed in the end.
fn ending(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let sent = lines.iter().position(|line| line.contains("panicked at"));
    let from = sent.unwrap_or_else(|| lines.len().saturating_sub(SHOWN));
    let shown: Vec<_> = lines.iter().skip(from).take(SHOWN).copied().collect();
    shown.join("\n")
}

fn seeds() -> PathBuf {
    cache::workspace().join("fuzz/seeds")
}

/// What is built, kept and found.
fn place() -> PathBuf {
    cache::workspace().join("target/fuzz")
}

/// Lines of an ending that are shown.
const SHOWN: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_what_it_reached_and_found() {
        let log = "#2\tINITED cov: 8 ft: 8 corp: 1/1b exec/s: 0 rss: 27Mb\n\
            #99\tDONE   cov: 9 ft: 12 corp: 4/6b lim: 6 exec/s: 0 rss: 27Mb\n";
        let sent = "9 edges, 4 inputs kept";
        assert_eq!(reached(log), Some(format!("99 executions, {sent}")));
        let whole = format!("{log}stat::number_of_executed_units: 101\n");
        assert_eq!(reached(&whole), Some(format!("101 executions, {sent}")));
        assert_eq!(finding(log), None);
        let crash = "artifact_prefix='x'; Test unit written to ./crash-1\nBase64: aGk=\n";
        assert_eq!(finding(crash), Some("./crash-1"));
    }

    #[test]
    fn every_target_is_named_once_and_others_are_refused() {
        let targets = targets().expect("a directory");
        assert!(targets.iter().any(|target| target == "frame"), "{targets:?}");
        assert!(check_name("frame").is_ok());
        assert!(check_name("weather").is_err());
    }
}

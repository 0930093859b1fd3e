//! The checks of the repository, in order: what `cargo xtask test` does.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tempfile::NamedTempFile;

use crate::beside::Beside;
use crate::cluster::{self, Cluster, State};
use crate::searches::{self, Tests};
use crate::{binaries, cache, command, image, packages, preflight, skipped};

/// Every stage, in the order in which they run. A new check is a new line.
const STAGES: &[Stage] = &[
    Stage { name: "format", when: When::Always, run: check_format },
    Stage { name: "lints", when: When::Always, run: check_lints },
    Stage { name: "images begin", when: When::OwnCluster, run: begin_images },
    Stage { name: "tests", when: When::Always, run: run_tests },
    Stage { name: "packages", when: When::OwnCluster, run: install_packages },
    Stage { name: "page", when: When::OwnCluster, run: test_page },
    Stage { name: "dependencies", when: When::OwnCluster, run: check_dependencies },
    Stage { name: "binaries", when: When::OwnCluster, run: build_binaries },
    Stage { name: "searches pause", when: When::Full, run: pause_searches },
    Stage { name: "images", when: When::OwnCluster, run: make_images },
    Stage { name: "cluster up", when: When::OwnCluster, run: boot_cluster },
    Stage { name: "cluster tests", when: When::Full, run: run_cluster_tests },
    Stage { name: "cluster down", when: When::CleanUp, run: remove_cluster },
];

/// What `cargo xtask fix` runs, in order: everything that writes to the source tree. A generator
/// is a new line here, and a test that compares its output is found by the stage "tests".
const FIXES: &[&[&str]] = &[&["cargo", "fmt", "--all"]];

/// A named step.
struct Stage {
    name: &'static str,
    when: When,
    run: fn(&mut Run) -> Result<()>,
}

/// On which occasions a stage runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    /// Always, so it must be quick and needs neither root nor a network.
    Always,
    /// Unless only the quick ones are wanted.
    Full,
    /// Like `Full`, but not if the user gives a cluster of their own.
    OwnCluster,
    /// Like `OwnCluster`, and also after an earlier stage has failed.
    CleanUp,
}

/// How much of it is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Only what needs no cluster.
    pub only_quick: bool,
    /// The user gives a cluster of their own.
    pub existing_cluster: bool,
}

/// What the stages of one run hand on.
struct Run {
    failure: Option<anyhow::Error>,
    /// What tests that were skipped wrote.
    skipped: NamedTempFile,
    only_quick: bool,
    /// The images that are made meanwhile.
    images: Option<Beside>,
    /// The searches, which are made whenever there is time.
    searches: Option<Beside>,
    /// Held while this run has the cluster.
    claim: Option<File>,
}

/// Runs the wanted stages and prints how long each took; the first failure ends the run.
pub fn test(wanted: Wanted) -> Result<()> {
    let mut run = Run { only_quick: wanted.only_quick, ..Run::begin()? };
    let mut times = Vec::new();
    let begin = Instant::now();
    let stages: Vec<&Stage> = STAGES.iter().filter(|stage| stage.when.is_in(wanted)).collect();
    for (place, stage) in stages.iter().enumerate() {
        if run.failure.is_some() && stage.when != When::CleanUp {
            continue;
        }
        let (step, steps, passed) = (place + 1, stages.len(), begin.elapsed().as_secs());
        println!(
            "--- {} ({step} of {steps}, after {} min {} s)",
            stage.name,
            passed / 60,
            passed % 60
        );
        let start = Instant::now();
        let outcome = with_clock(stage.name, || (stage.run)(&mut run));
        times.push((stage.name, start.elapsed(), outcome.is_ok()));
        if let Err(error) = outcome {
            let error = error.context(format!("the stage `{}` failed", stage.name));
            println!("{error:#}");
            run.failure.get_or_insert(error);
        }
    }
    print_times(&times);
    let skipped = fs::read_to_string(run.skipped.path())?;
    println!("--- {} skipped", skipped.lines().count());
    print!("{skipped}");
    run.failure.map_or(Ok(()), Err)
}

/// Rewrites what is formatted or generated.
pub fn fix() -> Result<()> {
    for command in FIXES {
        if let [program, arguments @ ..] = command {
            command::run(Command::new(program).args(arguments).current_dir(cache::workspace()))?;
        }
    }
    Ok(())
}

/// Installs and builds what a cluster needs, boots it and leaves it running, with the product's
/// image on it or bare.
pub fn cluster_up(is_bare: bool) -> Result<()> {
    let mut run = Run::begin()?;
    install_packages(&mut run)?;
    build_binaries(&mut run)?;
    if is_bare {
        make_pause_image()?;
        return boot(&mut run, &[pause_archive(), image::client::archive()?]);
    }
    make_images(&mut run)?;
    boot_cluster(&mut run)
}

/// Removes the cluster, whichever process booted it.
pub fn cluster_down() -> Result<()> {
    preflight::check()?;
    let state = State::of_this_user();
    let _claim = Cluster::claim(&state)?;
    cluster::down(&state)
}

/// Builds the product as it is shipped, and writes its image.
pub fn product_image(path: &Path) -> Result<()> {
    make_directory_of(path)?;
    image::product::write(path)
}

/// Where the product's image is written if nobody says otherwise.
pub fn product_archive() -> PathBuf {
    cache::workspace().join("target/images/conclave.tar")
}

impl Run {
    fn begin() -> Result<Self> {
        let skipped = NamedTempFile::new()?;
        let (images, searches) = (None, None);
        Ok(Self { failure: None, skipped, only_quick: false, images, searches, claim: None })
    }
}

/// Says each minute that a stage goes on, which may print nothing for long.
fn with_clock<T>(name: &str, stage: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (end, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            let minute = Duration::from_mins(1);
            for minutes in 1.. {
                if is_over.recv_timeout(minute) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                println!("... {name}: {minutes} min");
            }
        });
        let outcome = stage();
        drop(end);
        outcome
    })
}

impl When {
    fn is_in(self, wanted: Wanted) -> bool {
        match self {
            Self::Always => true,
            Self::Full => !wanted.only_quick,
            Self::OwnCluster | Self::CleanUp => !wanted.only_quick && !wanted.existing_cluster,
        }
    }
}

fn check_format(_: &mut Run) -> Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

fn check_lints(_: &mut Run) -> Result<()> {
    let everything = ["--workspace", "--all-targets", "--features", FEATURES];
    cargo(
        &[&["clippy", "--quiet", "--locked"], &everything[..], &["--", "-D", "warnings"]].concat(),
    )
}

/// All, or all but those that search, which begin beside them. Those of the page and of the cluster are built
/// too: with other features for them, the harness would be built once for each.
fn run_tests(run: &mut Run) -> Result<()> {
    let all = ["test", "--quiet", "--locked", "--workspace"];
    if run.only_quick {
        return tests(run, &all);
    }
    let all = [&all[..], &["--features", FEATURES]].concat();
    tests(run, &[&all[..], &["--no-run"]].concat())?;
    run.searches = Some(Beside::begin("searches")?);
    tests(run, &[&all[..], &Tests::of_workspace()?.others()].concat())?;
    tests(run, &[&all[..], &["--doc"]].concat())
}

fn tests(run: &Run, arguments: &[&str]) -> Result<()> {
    let mut cargo = command::cargo(arguments);
    if env::var_os(THREADS).is_none() {
        // Of the largest program, the sidecar's, half of the tests wait for something.
        let threads = 2 * thread::available_parallelism()?.get();
        cargo.env(THREADS, threads.to_string());
    }
    command::run(cargo.env(skipped::FILE, run.skipped.path()))
}

fn install_packages(_: &mut Run) -> Result<()> {
    preflight::check()?;
    packages::install()
}

/// Beside the cluster's tests that run at the same time no search is made: those wait for each other by the clock.
fn pause_searches(run: &mut Run) -> Result<()> {
    let Some(searches) = &mut run.searches else { return Ok(()) };
    if searches.has_ended()? {
        return run.searches.take().map_or(Ok(()), Beside::end);
    }
    searches.pause_after(searches::BUILT)
}

fn test_page(_: &mut Run) -> Result<()> {
    packages::install_for_page()?;
    let options = ["test", "--locked", "--workspace", "--features", FEATURES];
    cargo(&[&options[..], &["--test", "page", "--", PAGES]].concat())
}

/// Licences, sources and unwanted crates. What is known of their faults changes without a commit, so
/// it is no part of a check of one.
fn check_dependencies(_: &mut Run) -> Result<()> {
    let deny = cache::root().join("bin").join(format!("cargo-deny-{CARGO_DENY}"));
    cache::make_once(&deny, |partial| {
        println!("building cargo-deny from source; this is done once");
        let root = cache::workspace().join("target/cargo-deny");
        let install = ["install", "cargo-deny", "--locked", "--quiet", "--version", CARGO_DENY];
        let mut cargo = command::cargo(&install);
        // Its check takes seconds, and to optimise it would take minutes.
        cargo.arg("--debug");
        cargo.arg("--root").arg(&root).arg("--target-dir").arg(root.join("target"));
        command::run(&mut cargo)?;
        fs::copy(root.join("bin/cargo-deny"), partial)?;
        Ok(fs::remove_dir_all(root)?)
    })?;
    let check = ["--log-level", "error", "--locked", "check", "bans", "licenses", "sources"];
    command::run(Command::new(deny).args(check).current_dir(cache::workspace()))
}

fn build_binaries(_: &mut Run) -> Result<()> {
    binaries::build()
}

/// Those of our own programs are made from the sources alone.
fn begin_images(run: &mut Run) -> Result<()> {
    run.images = Some(Beside::begin("images")?);
    Ok(())
}

fn make_images(run: &mut Run) -> Result<()> {
    run.images.take().map_or_else(own_images, Beside::end)?;
    image::client::archive().map(drop)
}

/// Makes the images of all programs of this repository, for tests.
pub fn own_images() -> Result<()> {
    make_pause_image()?;
    make_directory_of(&next_archive())?;
    image::product::write_next(&next_archive())?;
    image::product::write_quickly(&tested_archive())
}

fn make_pause_image() -> Result<()> {
    make_directory_of(&pause_archive())?;
    image::product::write_pause(&pause_archive())
}

fn boot_cluster(run: &mut Run) -> Result<()> {
    boot(run, &[pause_archive(), next_archive(), tested_archive(), image::client::archive()?])
}

fn boot(run: &mut Run, images: &[PathBuf]) -> Result<()> {
    let state = State::of_this_user();
    run.claim = Some(Cluster::claim(&state)?);
    let cluster = cluster::up(&state, images, &kept_logs())?;
    println!("the kubeconfig is {}", cluster.kubeconfig().display());
    Ok(())
}

/// Whatever fails, the rest is run too.
fn run_cluster_tests(run: &mut Run) -> Result<()> {
    // Those of the page have had their stage, and a feature of their own.
    let all = ["--test", "second_opinion", "--test", "chart*", "--test", "cluster"];
    let beside = cluster_tests(run, &[&all[..], &["--", "--skip", ALONE, BESIDE]].concat());
    // From here on one test at a time waits for pods, and leaves the cores to others.
    println!("tests that run alone, beside those that search");
    let mut searches = run.searches.take();
    let goes_on = searches.as_mut().map_or(Ok(()), Beside::go_on);
    let alone = cluster_tests(run, &["--test", "cluster", "--", ALONE, "--test-threads=1"]);
    let found = searches.map_or(Ok(()), Beside::end);
    beside.and(goes_on).and(alone).and(found)
}

fn cluster_tests(run: &Run, which: &[&str]) -> Result<()> {
    let options = ["test", "--locked", "--workspace", "--features", FEATURES];
    let mut cargo = command::cargo(&[&options[..], &["--no-fail-fast"], which].concat());
    // An error says what went wrong; where in the harness it was made helps nobody.
    cargo.env("RUST_LIB_BACKTRACE", "0").env(skipped::FILE, run.skipped.path());
    command::run(&mut cargo)
}

fn remove_cluster(run: &mut Run) -> Result<()> {
    // Without a claim this run never came as far as the cluster, which may be somebody else's.
    let Some(_claim) = run.claim.take() else { return Ok(()) };
    let state = State::of_this_user();
    if run.failure.is_some() && state.logs().exists() {
        cluster::keep_logs(&state, &kept_logs())?;
        println!("the cluster's logs are in {}", kept_logs().display());
    }
    cluster::down(&state)
}

/// Tests are chosen from the whole workspace: a package alone has dependencies with other features, which
/// would be built once more.
fn cargo(arguments: &[&str]) -> Result<()> {
    command::run(&mut command::cargo(arguments))
}

fn make_directory_of(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), |directory| Ok(fs::create_dir_all(directory)?))
}

fn print_times(times: &[(&str, Duration, bool)]) {
    println!("--- times");
    for (name, time, is_good) in times {
        let outcome = if *is_good { "" } else { "  FAILED" };
        println!("{name:>20} {:>7.1} s{outcome}", time.as_secs_f64());
    }
}

fn tested_archive() -> PathBuf {
    product_archive().with_file_name("tested.tar")
}

fn next_archive() -> PathBuf {
    product_archive().with_file_name("next-version.tar")
}

fn pause_archive() -> PathBuf {
    product_archive().with_file_name("pause.tar")
}

fn kept_logs() -> PathBuf {
    cluster::evidence_directory().join("cluster")
}

/// The version of cargo-deny.
const CARGO_DENY: &str = "0.20.2";

/// By what the tests of a program learn how many of them run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Tests that nothing else can run beside, by their module.
const ALONE: &str = "alone::";

/// How many visitors there are at a time: each has a browser, which is busy for half of the time.
const PAGES: &str = "--test-threads=2";

/// How many of the others run at a time: they mostly wait.
const BESIDE: &str = "--test-threads=4";

/// With them all tests are there.
const FEATURES: &str = "conclave-e2e/cluster,conclave-e2e/page";

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only_quick: bool, existing_cluster: bool) -> Vec<&'static str> {
        let wanted = Wanted { only_quick, existing_cluster };
        let stages = STAGES.iter().filter(|stage| stage.when.is_in(wanted));
        stages.map(|stage| stage.name).collect()
    }

    #[test]
    fn the_quick_stages_need_no_cluster() {
        assert!(names(true, false).iter().all(|name| !name.contains("cluster")));
        assert_eq!(names(true, false), names(true, true));
    }

    #[test]
    fn a_cluster_of_the_user_is_tested_but_neither_booted_nor_removed() {
        let names = names(false, true);
        assert!(names.contains(&"cluster tests"));
        assert!(!names.contains(&"cluster up") && !names.contains(&"cluster down"));
    }

    #[test]
    fn whatever_boots_the_cluster_is_followed_by_what_removes_it() {
        let names = names(false, false);
        let place = |name| names.iter().position(|other| *other == name);
        assert!(place("cluster up") < place("cluster tests"));
        assert_eq!(names.last(), Some(&"cluster down"));
    }
}

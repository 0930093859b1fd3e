//! `cargo xtask campaign`, `sim`, `check` and `replay`: the searches for as long as there is time.
//!
//! Besides the targets of `crate::fuzz`, what they run are tests of the repository, with the variables that those listen to:
//! `CONCLAVE_SECONDS` says for how long, `CONCLAVE_FROM` with which seed a swarm begins, and
//! `CONCLAVE_SEED` which one to show.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{command, fuzz};

/// What `cargo test` is given to build the program that a swarm is in, and a part of the name of its test that no other has.
type Which = (&'static [&'static str], &'static str);

/// The members of a group, by any faults.
const MEMBERS: Which = (&["--workspace", "--test", "group"], "any_faults");

/// The same with the claims of their applications.
const SIDECARS: Which =
    (&["-p", "conclave-sidecar", "--lib"], "claims_keep_what_they_were_granted");

/// The models that have searches which are too long for every day.
const MODELS: [&str; 2] = ["leader_model", "lease_model"];

/// Searches copy states all the time, so each thread keeps what it freed, and pages are large: a sixth less time. What an
/// allocator does not know of this it ignores (glibc's manual, "Memory Allocation Tunables").
const MALLOC: &str = "glibc.malloc.tcache_count=2000:glibc.malloc.hugetlb=1";

/// How far a swarm searches.
#[derive(Clone, Copy, Debug)]
enum Span {
    Time(Duration),
    Seeds(u64),
}

/// Seeds that one swarm never reaches.
const APART: u64 = 1 << 48;

/// Runs everything: the planted bugs once, then swarms, targets of the fuzzer and models, each for
/// its share of `time`.
pub fn campaign(time: Duration) -> Result<()> {
    planted()?;
    // The swarm runs the code itself, so it gets most.
    let from = new_seed()?;
    Swarm::build(MEMBERS)?.on_all_cores(from, Span::Time(time.mul_f64(0.5)))?;
    Swarm::build(SIDECARS)?.on_all_cores(from, Span::Time(time.mul_f64(0.1)))?;
    fuzz::all(fuzz::share(time.mul_f64(0.1))?)?;
    check(time.mul_f64(0.3))
}

/// Runs the swarm of members on all cores, with seeds that were never used.
pub fn sim(time: Duration) -> Result<()> {
    Swarm::members()?.on_all_cores(new_seed()?, Span::Time(time))
}

/// Larger than that of any earlier campaign.
fn new_seed() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    // A swarm runs some hundred seeds a second.
    Ok(now.as_secs() * 1_000)
}

/// Searches the models: the everyday searches, then the long ones until the time is over.
pub fn check(time: Duration) -> Result<()> {
    for model in MODELS {
        let model_tests = Program::only(&["-p", "conclave-protocols", "--test", model])?;
        model_tests.test(&["--nocapture"]).run()?;
        let searches = model_tests.count(&["--ignored"])?;
        if searches == 0 {
            continue;
        }
        let each = (time / u32::try_from(searches)?).as_secs().max(1);
        println!("{searches} searches of {model}, {each} s each");
        // Each search uses all cores.
        let long = ["--ignored", "--nocapture", "--test-threads=1"];
        model_tests.test(&long).with("CONCLAVE_SECONDS", each).run()?;
    }
    Ok(())
}

/// Shows what happened in one run of a swarm.
pub fn replay(seed: u64, of_sidecars: bool) -> Result<()> {
    let swarm = Swarm::build(if of_sidecars { SIDECARS } else { MEMBERS })?;
    swarm.test().with("CONCLAVE_SEED", seed).run()
}

/// Every planted bug must be found.
fn planted() -> Result<()> {
    let planted = Program::only(&["-p", "conclave-protocols", "--test", "planted"])?;
    let all = ["--ignored", "--nocapture"];
    planted.has(&all)?;
    planted.test(&all).run()
}

/// A test that runs one seed after another.
pub(crate) struct Swarm {
    program: Program,
    test: &'static str,
}

impl Swarm {
    /// Builds that of the members.
    pub(crate) fn members() -> Result<Self> {
        Self::build(MEMBERS)
    }

    fn build((program, test): Which) -> Result<Self> {
        let swarm = Self { program: Program::only(program)?, test };
        swarm.program.has(&[test])?;
        Ok(swarm)
    }

    fn test(&self) -> Test {
        self.program.test(&[self.test, "--nocapture"])
    }

    /// Runs the same seeds each time, so many on each core: a check must not fail by chance.
    pub(crate) fn usual(&self, from: u64, seeds: u64) -> Result<()> {
        self.on_all_cores(from, Span::Seeds(seeds))
    }

    /// Runs it once on each core, none with a seed of another.
    fn on_all_cores(&self, first: u64, span: Span) -> Result<()> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let mut running = Vec::new();
        for core in 0..u64::try_from(cores)? {
            let from = first.wrapping_add(core.wrapping_mul(APART));
            println!("seeds from {from}: {span:?}");
            let test = match span {
                Span::Time(time) => self.test().with("CONCLAVE_SECONDS", time.as_secs()),
                Span::Seeds(seeds) => self.test().with("CONCLAVE_SEEDS", seeds),
            };
            running.push(Running(test.with("CONCLAVE_FROM", from).0.spawn()?));
        }
        let mut good = true;
        for swarm in &mut running {
            good &= swarm.0.wait()?.success();
        }
        ensure!(good, "a swarm found something");
        Ok(())
    }
}

/// A swarm that ends with its campaign.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program with tests. Cargo builds it and does not run it, since it would hold a lock now and then.
pub(crate) struct Program {
    executable: PathBuf,
    /// Where cargo would run it.
    package: PathBuf,
}

impl Program {
    /// Builds all that `cargo test` runs if it is given this.
    pub(crate) fn all(arguments: &[&str]) -> Result<Vec<Self>> {
        let build =
            ["test", "--quiet", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
        let messages = command::output(&mut command::cargo(&[&build[..], arguments].concat()))?;
        messages.lines().filter_map(|line| Self::of(line).transpose()).collect()
    }

    /// The same, which is one program.
    fn only(arguments: &[&str]) -> Result<Self> {
        match <[Self; 1]>::try_from(Self::all(arguments)?) {
            Ok([program]) => Ok(program),
            Err(all) => bail!("`cargo test {}`: {} programs", arguments.join(" "), all.len()),
        }
    }

    /// That of which this message of cargo is, if it is of any.
    fn of(message: &str) -> Result<Option<Self>> {
        let message: Message = serde_json::from_str(message).context("a message of cargo")?;
        let tests = message.profile.is_some_and(|profile| profile.test);
        let built = message.executable.zip(message.manifest_path).filter(|_| tests);
        Ok(built.map(|(executable, manifest)| {
            let package = manifest.parent().map(PathBuf::from).unwrap_or_default();
            Self { executable, package }
        }))
    }

    /// A run of it, with these arguments of libtest.
    pub(crate) fn test(&self, arguments: &[&str]) -> Test {
        let mut test = Command::new(&self.executable);
        test.args(arguments).current_dir(&self.package).env("GLIBC_TUNABLES", MALLOC);
        Test(test)
    }

    /// How many tests these arguments choose.
    fn count(&self, arguments: &[&str]) -> Result<usize> {
        let listed = command::output(&mut self.test(&[arguments, &["--list"]].concat()).0)?;
        Ok(listed.lines().filter(|line| line.ends_with(": test")).count())
    }

    /// A filter that matches no test is an error here: to libtest it is a success.
    fn has(&self, arguments: &[&str]) -> Result<()> {
        let (program, which) = (self.executable.display(), arguments.join(" "));
        ensure!(self.count(arguments)? > 0, "`{program} {which}` has no test to run");
        Ok(())
    }
}

/// What cargo reports of something that it has built, as far as it matters.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A run of a program with tests.
pub(crate) struct Test(Command);

impl Test {
    fn with(mut self, name: &str, value: u64) -> Self {
        self.0.env(name, value.to_string());
        self
    }

    pub(crate) fn run(mut self) -> Result<()> {
        command::run(&mut self.0)
    }
}

/// A time as it is typed: `90s`, `30m`, `8h`.
pub fn time(text: &str) -> Result<Duration> {
    let unit = text.chars().last().unwrap_or_default();
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        _ => 0,
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let span = number.filter(|_| seconds > 0).and_then(|number| number.checked_mul(seconds));
    span.map(Duration::from_secs)
        .with_context(|| format!("`{text}` is no time: expected a number and s, m or h"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cache;

    #[test]
    fn each_swarm_is_a_test_of_the_sources() {
        let swarms =
            [(MEMBERS, "protocols/tests/group/swarm.rs"), (SIDECARS, "sidecar/src/group/swarm.rs")];
        for ((_, filter), file) in swarms {
            let text = fs::read_to_string(cache::workspace().join(file)).expect(file);
            // Between the two there may be other attributes. An ignored test is listed, and not run.
            let functions =
                text.split("#[test]").skip(1).filter_map(|rest| rest.split_once("\nfn "));
            let functions = functions.filter(|(attributes, _)| !attributes.contains("#[ignore"));
            let tests = functions.filter_map(|(_, function)| function.split('(').next());
            let found = tests.filter(|name| name.contains(filter)).count();
            assert_eq!(found, 1, "tests of {file} that `{filter}` names");
        }
    }

    #[test]
    fn times_are_numbers_with_a_unit() {
        assert_eq!(time("90s").ok(), Some(Duration::from_secs(90)));
        assert_eq!(time("8h").ok(), Some(Duration::from_secs(28_800)));
        for wrong in ["", "s", "8", "8d", "-1s", "1.5h", "99999999999999999999h", "é"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}

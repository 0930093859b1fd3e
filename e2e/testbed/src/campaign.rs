//! `cargo xtask campaign`, `sim`, `check` and `replay`: the searches for as long as there is time.
//!
//! Besides the targets of `crate::fuzz`, what they run are tests of the repository, with the variables that those listen to:
//! `CONCLAVE_SECONDS` says for how long, `CONCLAVE_FROM` with which seed a swarm begins, and
//! `CONCLAVE_SEED` which one to show.

use std::num::NonZero;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::{command, fuzz};

/// The members of a group, by any faults.
const MEMBERS: Swarm = &["--workspace", "--test", "group", "--", "any_faults", "--nocapture"];

/// The same with the claims of their applications.
const SIDECARS: Swarm =
    &["-p", "conclave-sidecar", "--lib", "--", "claims_keep_what_they_were_granted", "--nocapture"];

/// The models that have searches which are too long for every day.
const MODELS: [&str; 2] = ["leader_model", "lease_model"];

/// Searches copy states all the time, so each thread keeps what it freed, and pages are large: a sixth less time. What an
/// allocator does not know of this it ignores (glibc's manual, "Memory Allocation Tunables").
const MALLOC: &str = "glibc.malloc.tcache_count=2000:glibc.malloc.hugetlb=1";

/// What `cargo test` is given to run one swarm.
type Swarm = &'static [&'static str];

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
    swarms(MEMBERS, from, Span::Time(time.mul_f64(0.5)))?;
    swarms(SIDECARS, from, Span::Time(time.mul_f64(0.1)))?;
    fuzz::all(fuzz::share(time.mul_f64(0.1))?)?;
    check(time.mul_f64(0.3))
}

/// Runs the swarm of members on all cores, with seeds that were never used.
pub fn sim(time: Duration) -> Result<()> {
    swarms(MEMBERS, new_seed()?, Span::Time(time))
}

/// The same with the same seeds each time, so many on each core: a check must not fail by chance.
pub fn sim_usual(from: u64, seeds: u64) -> Result<()> {
    swarms(MEMBERS, from, Span::Seeds(seeds))
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
        let test = ["-p", "conclave-protocols", "--test", model];
        cargo_test(&[&test[..], &["--", "--nocapture"]].concat()).run()?;
        let searches = count(&[&test[..], &["--", "--ignored"]].concat())?;
        if searches == 0 {
            continue;
        }
        let each = (time / u32::try_from(searches)?).as_secs().max(1);
        println!("{searches} searches of {model}, {each} s each");
        // Each search uses all cores.
        let long = ["--", "--ignored", "--nocapture", "--test-threads=1"];
        cargo_test(&[&test[..], &long].concat()).with("CONCLAVE_SECONDS", each).run()?;
    }
    Ok(())
}

/// Shows what happened in one run of a swarm.
pub fn replay(seed: u64, of_sidecars: bool) -> Result<()> {
    let swarm = if of_sidecars { SIDECARS } else { MEMBERS };
    build(swarm)?;
    cargo_test(swarm).with("CONCLAVE_SEED", seed).run()
}

/// Every planted bug must be found.
fn planted() -> Result<()> {
    let test = ["-p", "conclave-protocols", "--test", "planted", "--", "--ignored", "--nocapture"];
    build(&test)?;
    cargo_test(&test).run()
}

/// Builds what is to run. A filter that matches no test is an error here: to libtest it is a success.
fn build(arguments: &[&str]) -> Result<()> {
    ensure!(count(arguments)? > 0, "`cargo test {}` has no test to run", arguments.join(" "));
    Ok(())
}

/// How many tests these arguments choose, the last of which are libtest's.
fn count(arguments: &[&str]) -> Result<usize> {
    let listed = cargo_test(&[arguments, &["--list"]].concat()).output()?;
    Ok(listed.lines().filter(|line| line.ends_with(": test")).count())
}

/// One swarm on each core, none with a seed of another.
fn swarms(swarm: Swarm, first: u64, span: Span) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // Before the time counts.
    build(swarm)?;
    let mut running = Vec::new();
    for core in 0..u64::try_from(cores)? {
        let from = first.wrapping_add(core.wrapping_mul(APART));
        println!("seeds from {from}: {span:?}");
        let test = match span {
            Span::Time(time) => cargo_test(swarm).with("CONCLAVE_SECONDS", time.as_secs()),
            Span::Seeds(seeds) => cargo_test(swarm).with("CONCLAVE_SEEDS", seeds),
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

/// A swarm that ends with its campaign.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run of tests.
pub(crate) struct CargoTest(Command);

pub(crate) fn cargo_test(arguments: &[&str]) -> CargoTest {
    let mut cargo = command::cargo(&["test", "--quiet", "--locked"]);
    cargo.args(arguments).env("GLIBC_TUNABLES", MALLOC);
    CargoTest(cargo)
}

impl CargoTest {
    fn with(mut self, name: &str, value: u64) -> Self {
        self.0.env(name, value.to_string());
        self
    }

    pub(crate) fn run(mut self) -> Result<()> {
        command::run(&mut self.0)
    }

    fn output(mut self) -> Result<String> {
        command::output(&mut self.0)
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
        for (swarm, file) in swarms {
            let filter = swarm.iter().skip_while(|argument| **argument != "--").nth(1);
            let filter = filter.expect("the first argument of libtest");
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

//! The tests that search all that may happen: they ask no clock and wait for nothing, so whatever else runs may have the
//! cores first.
//!
//! They are those of `conclave-protocols`, whose `clippy.toml` allows neither clock nor thread, and the swarm of members.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::campaign::{Program, Swarm};
use crate::command;

/// The package whose tests they are.
const PACKAGE: &str = "conclave-protocols";

/// With which seed the swarm of members goes on in every run: its test has had all before, among the others.
const FROM: u64 = 1_500;

/// How many seeds that are on each core, which on two makes 4,000 with those before. The first 2,000 find each planted
/// bug. A campaign goes on.
const SEEDS: u64 = 1_250;

/// The integration tests of the workspace that need no feature, by name.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Tests {
    searches: Vec<String>,
    others: Vec<String>,
}

impl Tests {
    /// Those that the manifests have.
    pub fn of_workspace() -> Result<Self> {
        let metadata = ["metadata", "--no-deps", "--format-version=1", "--locked"];
        let metadata = command::output(&mut command::cargo(&metadata))?;
        Self::of(&serde_json::from_str(&metadata).context("the metadata of cargo")?)
    }

    fn of(metadata: &Metadata) -> Result<Self> {
        let mut tests = Self::default();
        for package in &metadata.packages {
            let list =
                if package.name == PACKAGE { &mut tests.searches } else { &mut tests.others };
            let is_test =
                |target: &&Target| target.kind == ["test"] && target.required_features.is_empty();
            list.extend(package.targets.iter().filter(is_test).map(|target| target.name.clone()));
            // A program hands its arguments to its library: it would be linked once more for nothing.
            let program =
                package.targets.iter().find(|target| target.kind == ["bin"] && target.test);
            ensure!(program.is_none(), "without `test = false`: {program:?}");
        }
        ensure!(!tests.searches.is_empty(), "{PACKAGE} has no tests");
        // By a name cargo takes the tests of every package.
        let twice = tests.searches.iter().find(|name| tests.others.contains(name));
        ensure!(twice.is_none(), "{PACKAGE} has a test of the name of another: {twice:?}");
        Ok(tests)
    }

    /// What has `cargo test` run those searches.
    pub fn searches(&self) -> Vec<&str> {
        named(self.searches.iter())
    }

    /// What has it run all else, but for the examples in the documentation.
    pub fn others(&self) -> Vec<&str> {
        [vec!["--lib"], named(self.others.iter())].concat()
    }
}

fn named<'a>(tests: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    tests.flat_map(|name| ["--test", name]).collect()
}

/// What is printed when all is built: from then on this may be paused, since cargo holds no lock any more.
pub const BUILT: &str = "the searches are built";

/// Runs them.
pub fn run() -> Result<()> {
    let tests = Tests::of_workspace()?;
    let (programs, swarm) =
        (Program::all(&[&["--workspace"][..], &tests.searches()].concat())?, Swarm::members()?);
    println!("{BUILT}");
    for program in programs {
        program.test(&["--quiet"]).run()?;
    }
    swarm.usual(FROM, SEEDS)
}

/// What `cargo metadata` prints, as far as it matters.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
    test: bool,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cache;

    fn tests_of(packages: &[(&str, &[&str])]) -> Result<Tests> {
        let target = |name: &&str| {
            let required_features = name.strip_prefix("with_").map(str::to_owned);
            let required_features = required_features.into_iter().collect();
            let kind = vec!["test".to_owned()];
            Target { name: (*name).to_owned(), kind, required_features, test: true }
        };
        let package = |(name, tests): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            targets: tests.iter().map(target).collect(),
        };
        Tests::of(&Metadata { packages: packages.iter().map(package).collect() })
    }

    #[test]
    fn each_test_is_run_once() {
        let tests = tests_of(&[("x", &["a", "with_b"]), (PACKAGE, &["c", "d"]), ("y", &["e"])]);
        let tests = tests.expect("no name is there twice");
        assert_eq!(tests.searches(), ["--test", "c", "--test", "d"]);
        assert_eq!(tests.others(), ["--lib", "--test", "a", "--test", "e"]);
    }

    #[test]
    fn a_test_that_would_be_run_twice_or_never_is_an_error() {
        assert!(tests_of(&[("x", &["a"]), (PACKAGE, &["a"])]).is_err());
        assert!(tests_of(&[("x", &["a"])]).is_err(), "the package has another name");
    }

    #[test]
    fn the_swarm_goes_on_where_its_test_ends() {
        let source = cache::workspace().join("protocols/tests/group/swarm.rs");
        let source = fs::read_to_string(source).expect("the swarm's source").replace('_', "");
        assert!(source.contains(&format!(" seeds({FROM}) ")), "its test has other seeds");
    }

    #[test]
    fn the_searches_of_the_workspace_are_found() {
        let tests = Tests::of_workspace().expect("cargo is here");
        for name in ["mutex_laws", "group"] {
            assert!(tests.searches().contains(&name), "{tests:?}");
        }
        assert!(tests.others().contains(&"documents") && !tests.others().contains(&"cluster"));
    }
}

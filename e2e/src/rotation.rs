//! Which of the lock algorithms a run tests on the cluster: all would take too long each time.
//!
//! A commit has its two, so that a run can be repeated, and other commits have others. The variable
//! `CONCLAVE_ALGORITHMS` names them instead: `all`, or some with commas between.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use conclave_protocols::cost;

use crate::{cache, command};

/// A lock algorithm that groups can have.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// As the resource names it.
    pub name: &'static str,
    /// What these visits cost together, in messages, if nobody else wants in meanwhile.
    pub cost: fn(Visits) -> u64,
}

/// How often members go in and out, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Visits {
    /// How many members the group has.
    pub members: u64,
    /// How often the leader does.
    pub of_leader: u64,
    /// How often all others do, together.
    pub of_others: u64,
}

/// All of them.
pub const ALGORITHMS: &[Algorithm] =
    &[Algorithm { name: "Central", cost: |visits| cost::central(visits.of_others) }];

/// Those that this run tests.
pub fn chosen() -> Result<Vec<Algorithm>> {
    if let Ok(names) = std::env::var("CONCLAVE_ALGORITHMS") {
        return named(&names);
    }
    // Without git there is no commit that could have its two.
    let Ok(commit) = commit() else { return Ok(ALGORITHMS.to_vec()) };
    let places = two_of(&commit, ALGORITHMS.len())?;
    Ok(places.into_iter().map(|place| ALGORITHMS[place]).collect())
}

/// Their names, to be printed.
pub fn shown(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.name).collect::<Vec<_>>().join(", ")
}

fn named(names: &str) -> Result<Vec<Algorithm>> {
    if names == "all" {
        return Ok(ALGORITHMS.to_vec());
    }
    let find = |name: &str| {
        let found = ALGORITHMS.iter().find(|algorithm| algorithm.name == name.trim());
        let all = || format!("`{name}` is none of {}", shown(ALGORITHMS));
        found.copied().with_context(all)
    };
    names.split(',').map(find).collect()
}

fn commit() -> Result<String> {
    let mut git = Command::new("git");
    command::output(git.args(["rev-parse", "HEAD"]).current_dir(cache::workspace()))
}

/// Two neighbours in a ring of so many, by the hash of a commit; all, if there are no more.
fn two_of(commit: &str, count: usize) -> Result<Vec<usize>> {
    let digits = commit.get(..8).with_context(|| format!("`{commit}` is no hash"))?;
    let hash = u32::from_str_radix(digits, 16).with_context(|| format!("`{commit}` is no hash"))?;
    ensure!(count > 0, "there are none to choose from");
    let first = usize::try_from(hash)? % count;
    Ok((0..count.min(2)).map(|step| (first + step) % count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_its_two_and_every_algorithm_has_its_commits() {
        let places = |commit: &str, count| two_of(commit, count).unwrap();
        assert_eq!(places("0000000f5a", 7), [1, 2]);
        assert_eq!(places("00000006", 7), [6, 0]);
        assert_eq!(places("00000006", 1), [0]);
        for place in 0..7 {
            let commits = (0..7).map(|hash| format!("{hash:08x}"));
            assert_eq!(commits.filter(|commit| places(commit, 7).contains(&place)).count(), 2);
        }
        assert!(two_of("HEAD", 7).is_err() && two_of("not a hash", 7).is_err());
    }

    #[test]
    fn names_are_found_and_others_are_refused() {
        assert_eq!(named("all").unwrap().len(), ALGORITHMS.len());
        assert_eq!(shown(&named("Central").unwrap()), "Central");
        assert!(named("Central,Best").unwrap_err().to_string().contains("Best"));
    }
}

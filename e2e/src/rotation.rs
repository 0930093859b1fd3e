//! What a run tests on the cluster of that which would take too long each time.
//!
//! A commit has its two lock algorithms, and its six changes of one into another, so that a run can be
//! repeated, and other commits have others. The variable `CONCLAVE_ALGORITHMS` names the algorithms
//! instead, `all`, or some with commas between, and every change among these is made.
//!
//! One commit in eight has network policies enforced; with `CONCLAVE_POLICIES=true` any has.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::sim::circuit;
use conclave_protocols::{MemberId, cost};

use crate::{cache, command};

/// A lock algorithm that groups can have.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// As the resource names it.
    pub name: &'static str,
    /// What visits cost, by the books.
    pub books: Books,
}

/// What visits cost together, in messages, if nobody else wants in meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Books {
    /// So many.
    Equal(fn(Visits) -> u64),
    /// So many of these types from one visit to the next, which are of these ranks: the token is where it
    /// was used last, and members pass it on for each other.
    FromTo(fn(u64, u64) -> u64, &'static str),
    /// At most so many of these types: the token also goes about by itself.
    AtMost(fn(Visits) -> u64, &'static str),
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

impl Visits {
    /// All together.
    pub fn all(self) -> u64 {
        self.of_leader + self.of_others
    }
}

/// One algorithm in place of another.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// What the group has.
    pub from: Algorithm,
    /// What it gets.
    pub to: Algorithm,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)
    }
}

/// All of them.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm { name: "Central", books: Books::Equal(|visits| cost::central(visits.of_others)) },
    Algorithm {
        name: "TokenRing",
        books: Books::AtMost(|visits| cost::token_ring(visits.members) * visits.all(), "token"),
    },
    Algorithm {
        name: "Raymond",
        books: Books::FromTo(
            |from, to| cost::raymond(cost::raymond_distance(from, to)),
            "request|privilege",
        ),
    },
    Algorithm {
        name: "Lamport",
        books: Books::Equal(|visits| cost::lamport(visits.members, visits.all())),
    },
    Algorithm {
        name: "RicartAgrawala",
        books: Books::Equal(|visits| cost::ricart_agrawala(visits.members, visits.all())),
    },
    Algorithm { name: "Maekawa", books: Books::Equal(in_a_grid) },
    Algorithm {
        name: "Voting",
        // One of the votes is the member's own, which is no message.
        books: Books::Equal(|visits| cost::voting_least(visits.members / 2, 1) * visits.all()),
    },
];

/// Every member asks its own row and column, and does so as often as the leader.
fn in_a_grid(visits: Visits) -> u64 {
    let size = u32::try_from(visits.members).unwrap_or(u32::MAX);
    let quorums = Quorums::grid(size);
    let once: u64 =
        (0..size).map(|rank| cost::maekawa(quorums.of(MemberId(rank)).len() as u64)).sum();
    once * visits.of_leader
}

/// Those that this run tests.
pub fn chosen() -> Result<Vec<Algorithm>> {
    if let Ok(names) = std::env::var("CONCLAVE_ALGORITHMS") {
        return named(&names);
    }
    // Without git there is no commit that could have its two.
    let Ok(commit) = commit() else { return Ok(ALGORITHMS.to_vec()) };
    let places = some_of(&commit, ALGORITHMS.len(), 2)?;
    Ok(places.into_iter().map(|place| ALGORITHMS[place]).collect())
}

/// The changes of one into another that this run makes, each from where the one before it led.
pub fn changes() -> Result<Vec<Change>> {
    if let Ok(names) = std::env::var("CONCLAVE_ALGORITHMS") {
        return Ok(changes_among(&named(&names)?));
    }
    let all = changes_among(ALGORITHMS);
    let Ok(commit) = commit() else { return Ok(all) };
    let places = some_of(&commit, all.len(), 6)?;
    Ok(places.into_iter().map(|place| all[place]).collect())
}

/// Whether network policies are enforced in this run.
pub fn enforces_policies() -> Result<bool> {
    if let Ok(enforced) = std::env::var("CONCLAVE_POLICIES") {
        return enforced.parse().context("`CONCLAVE_POLICIES` is neither `true` nor `false`");
    }
    let Ok(commit) = commit() else { return Ok(false) };
    Ok(hash_of(&commit)? % 8 == 0)
}

/// What was chosen, to be printed.
pub fn shown(chosen: &[impl fmt::Display]) -> String {
    chosen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Every change of one of these into another, each once.
fn changes_among(algorithms: &[Algorithm]) -> Vec<Change> {
    let change = |(from, to)| Change { from: algorithms[from], to: algorithms[to] };
    circuit(algorithms.len()).into_iter().map(change).collect()
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

/// So many neighbours in a ring of `count`, by the hash of a commit; all, if there are no more.
fn some_of(commit: &str, count: usize, some: usize) -> Result<Vec<usize>> {
    ensure!(count > 0, "there are none to choose from");
    let first = usize::try_from(hash_of(commit)?)? % count;
    Ok((0..count.min(some)).map(|step| (first + step) % count).collect())
}

fn hash_of(commit: &str) -> Result<u32> {
    let digits = commit.get(..8).with_context(|| format!("`{commit}` is no hash"))?;
    u32::from_str_radix(digits, 16).with_context(|| format!("`{commit}` is no hash"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_commit_has_its_two_and_every_algorithm_has_its_commits() {
        let places = |commit: &str, count| some_of(commit, count, 2).unwrap();
        assert_eq!(places("0000000f5a", 7), [1, 2]);
        assert_eq!(places("00000006", 7), [6, 0]);
        assert_eq!(places("00000006", 1), [0]);
        for place in 0..7 {
            let commits = (0..7).map(|hash| format!("{hash:08x}"));
            assert_eq!(commits.filter(|commit| places(commit, 7).contains(&place)).count(), 2);
        }
        assert!(some_of("HEAD", 7, 2).is_err() && some_of("not a hash", 7, 2).is_err());
    }

    #[test]
    fn every_change_has_its_commits_and_leads_to_where_the_next_begins() {
        let all = changes_among(ALGORITHMS);
        let mut made = BTreeSet::new();
        for commit in (0..42).map(|hash| format!("{hash:08x}")) {
            let changes: Vec<Change> =
                some_of(&commit, all.len(), 6).unwrap().into_iter().map(|at| all[at]).collect();
            assert_eq!(changes.len(), 6);
            assert!(changes.windows(2).all(|two| two[0].to.name == two[1].from.name), "{commit}");
            made.extend(changes.iter().map(|change| (change.from.name, change.to.name)));
        }
        assert_eq!(made.len(), ALGORITHMS.len() * (ALGORITHMS.len() - 1));
    }

    #[test]
    fn names_are_found_and_others_are_refused() {
        assert_eq!(named("all").unwrap().len(), ALGORITHMS.len());
        assert_eq!(shown(&named("Central").unwrap()), "Central");
        assert!(named("Central,Best").unwrap_err().to_string().contains("Best"));
    }
}

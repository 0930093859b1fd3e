//! What a run tests on the cluster of that which would take too long each time.
//!
//! Every run has each lock algorithm in a living group, in place of the one before. Two of them are taken
//! through crashes and have their messages counted: others each day. The variable `CONCLAVE_ALGORITHMS` names
//! the algorithms instead, `all`, or some with commas between, and every change among these is made.
//!
//! On one day of two the commands of the documents are pasted, and on the other the alerts are awaited that report what
//! an operator does not do. On one day in eight network policies are enforced; with `CONCLAVE_POLICIES=true` on any.
//! `CONCLAVE_DAY` repeats what another day had.

use std::fmt;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::sim::circuit;
use conclave_protocols::{MemberId, cost};

/// A lock algorithm that groups can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Algorithm(LockAlgorithm);

/// What sections cost together, in messages, if nobody else wants in meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// So many.
    Equal(fn(Sections) -> u64),
    /// So many of these types from one entry into the critical section to the next, which are of these ranks:
    /// the token is where it was used last, and members pass it on for each other.
    FromTo(fn(u64, u64) -> u64, &'static str),
    /// At most so many of these types: the token also goes about by itself.
    AtMost(fn(Sections) -> u64, &'static str),
}

/// How often members enter and leave, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    /// How many members the group has.
    pub members: u64,
    /// How often the leader does.
    pub of_leader: u64,
    /// How often all others do, together.
    pub of_others: u64,
}

impl Sections {
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
        f.write_str(self.name())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)
    }
}

impl Algorithm {
    /// All of them.
    fn all() -> Vec<Self> {
        LockAlgorithm::ALL.map(Self).to_vec()
    }

    /// As the resource names it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What sections cost, by the textbook.
    pub fn textbook(self) -> Cost {
        match self.0 {
            LockAlgorithm::Central => Cost::Equal(|sections| cost::central(sections.of_others)),
            LockAlgorithm::TokenRing => Cost::AtMost(
                |sections| cost::token_ring(sections.members) * sections.all(),
                "token",
            ),
            LockAlgorithm::Raymond => Cost::FromTo(
                |from, to| cost::raymond(cost::raymond_distance(from, to)),
                "request|privilege",
            ),
            LockAlgorithm::Lamport => {
                Cost::Equal(|sections| cost::lamport(sections.members, sections.all()))
            }
            LockAlgorithm::RicartAgrawala => {
                Cost::Equal(|sections| cost::ricart_agrawala(sections.members, sections.all()))
            }
            LockAlgorithm::Maekawa => Cost::Equal(in_a_grid),
            // One of the votes is the member's own, which is no message.
            LockAlgorithm::Voting => {
                Cost::Equal(|sections| cost::voting_least(sections.members / 2, 1) * sections.all())
            }
            LockAlgorithm::Superpeers => Cost::Equal(but_for_its_coordinator),
        }
    }
}

/// Every member asks its own row and column, and does so as often as the leader.
fn in_a_grid(sections: Sections) -> u64 {
    let size = u32::try_from(sections.members).unwrap_or(u32::MAX);
    let quorums = Quorums::grid(size);
    let once: u64 =
        (0..size).map(|rank| cost::maekawa(quorums.of(MemberId(rank)).len() as u64)).sum();
    once * sections.of_leader
}

/// One member, whichever that is, coordinates the lock. Every member enters as often as the leader.
fn but_for_its_coordinator(sections: Sections) -> u64 {
    cost::central(sections.members.saturating_sub(1) * sections.of_leader)
}

/// Those that this run takes through crashes.
pub fn chosen() -> Result<Vec<Algorithm>> {
    if let Ok(names) = std::env::var("CONCLAVE_ALGORITHMS") {
        return named(&names);
    }
    let all = Algorithm::all();
    Ok(two_of(day()?).map(|place| all[place]).to_vec())
}

/// The changes of one into another that this run makes, each from where the one before it led.
pub fn changes() -> Result<Vec<Change>> {
    if let Ok(names) = std::env::var("CONCLAVE_ALGORITHMS") {
        return Ok(changes_among(&named(&names)?));
    }
    let all = Algorithm::all();
    let each = all.iter().zip(all.iter().cycle().skip(1));
    Ok(each.map(|(from, to)| Change { from: *from, to: *to }).collect())
}

/// Whether the commands of the documents are pasted. If not, it is the turn of the alerts on an operator's work.
///
/// # Errors
///
/// If the day is unknown.
pub fn pastes() -> Result<bool> {
    Ok(day()?.is_multiple_of(2))
}

/// Whether network policies are enforced in this run.
pub fn enforces_policies() -> Result<bool> {
    if let Ok(enforced) = std::env::var("CONCLAVE_POLICIES") {
        return enforced.parse().context("`CONCLAVE_POLICIES` is neither `true` nor `false`");
    }
    Ok(day()?.is_multiple_of(8))
}

/// Days since 1970, or what the user says instead.
fn day() -> Result<u64> {
    if let Ok(day) = std::env::var("CONCLAVE_DAY") {
        return day.parse().context("`CONCLAVE_DAY` is no number of days since 1970");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(now.as_secs() / (24 * 60 * 60))
}

/// Prints what was chosen and on which day, also in a run that keeps what its tests print.
pub fn announce(what: &str, chosen: &[impl fmt::Display]) -> Result<()> {
    let line = format!("on day {}, {what}: {}\n", day()?, list(chosen));
    Ok(io::stderr().write_all(line.as_bytes())?)
}

fn list(chosen: &[impl fmt::Display]) -> String {
    chosen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Every change of one of these into another, each once.
fn changes_among(algorithms: &[Algorithm]) -> Vec<Change> {
    let change = |(from, to)| Change { from: algorithms[from], to: algorithms[to] };
    circuit(algorithms.len()).into_iter().map(change).collect()
}

fn named(names: &str) -> Result<Vec<Algorithm>> {
    if names == "all" {
        return Ok(Algorithm::all());
    }
    let find = |name: &str| {
        let mut all = Algorithm::all().into_iter();
        let found = all.find(|algorithm| algorithm.name() == name.trim());
        found.with_context(|| format!("`{name}` is none of {}", list(&Algorithm::all())))
    };
    names.split(',').map(find).collect()
}

/// Neighbours in the list, each of them on two days of eight.
fn two_of(day: u64) -> [usize; 2] {
    let count = LockAlgorithm::ALL.len();
    let first = usize::try_from(day % count as u64).expect("less than the count");
    [first, (first + 1) % count]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_day_has_its_two_and_every_algorithm_has_its_days() {
        assert_eq!([two_of(0), two_of(7), two_of(17)], [[0, 1], [7, 0], [1, 2]]);
        for place in 0..LockAlgorithm::ALL.len() {
            assert_eq!((0..8).filter(|day| two_of(*day).contains(&place)).count(), 2);
        }
    }

    #[test]
    fn every_run_goes_once_around_and_all_changes_are_a_walk() {
        let names = |changes: &[Change]| -> Vec<_> {
            changes.iter().map(|change| (change.from.name(), change.to.name())).collect()
        };
        let around = names(&changes().unwrap());
        let all = names(&changes_among(&Algorithm::all()));
        assert_eq!((around.len(), all.len()), (8, 56));
        for walk in [around, all] {
            assert!(walk.windows(2).all(|two| two[0].1 == two[1].0), "{walk:?}");
            let made: BTreeSet<_> = walk.iter().collect();
            let reached: BTreeSet<_> = walk.iter().map(|(_, to)| to).collect();
            assert_eq!((made.len(), reached.len()), (walk.len(), LockAlgorithm::ALL.len()));
        }
    }

    #[test]
    fn names_are_found_and_others_are_refused() {
        assert_eq!(named("all").unwrap(), Algorithm::all());
        assert_eq!(list(&named("Central").unwrap()), "Central");
        assert!(named("Central,Best").unwrap_err().to_string().contains("Best"));
    }
}

//! What elections cost on a real cluster, by the metrics of the members.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{Group, SOON};
use conclave_testbed::cluster::Pod;
use conclave_testbed::wait;

/// What some members have counted so far of one election.
#[derive(Debug)]
pub(crate) struct Counts {
    election: String,
    /// Messages that the source of the algorithm counts, of all together.
    pub(crate) sent: u64,
    /// Elections that ended, of the member that held most.
    pub(crate) held: u64,
    each: Vec<u64>,
}

impl Counts {
    pub(crate) fn of(group: &Group<'_>, election: &str, pods: &[Pod]) -> Result<Self> {
        let (mut sent, mut each) = (0, Vec::new());
        for pod in pods {
            let metrics = group.metrics(pod)?;
            let of = |name, label| sum(&metrics, name, election, label);
            sent += of("conclave_election_messages_sent_total", "kind=\"textbook\"")?;
            each.push(of("conclave_elections_total", "result=")?);
        }
        Ok(Self { election: election.to_owned(), sent, held: 0, each })
    }

    /// What came on top, once an election has ended and nobody sends any more.
    pub(crate) fn await_end(&self, group: &Group<'_>, pods: &[Pod]) -> Result<Self> {
        wait::until("the end of the election", SOON, || {
            let now = Self::of(group, &self.election, pods)?;
            thread::sleep(QUIET);
            let later = Self::of(group, &self.election, pods)?;
            ensure!(now.sent == later.sent, "{} messages, and then {}", now.sent, later.sent);
            later.since(self)
        })
    }

    fn since(self, before: &Self) -> Result<Self> {
        let each: Vec<u64> =
            self.each.iter().zip(&before.each).map(|(now, then)| now - then).collect();
        ensure!(each.iter().any(|held| *held > 0), "no election has ended: {each:?}");
        let held = each.iter().max().copied().context("some live")?;
        Ok(Self { sent: self.sent - before.sent, held, each, ..self })
    }
}

/// The sum of the series of an election that have a label.
fn sum(metrics: &str, name: &str, election: &str, label: &str) -> Result<u64> {
    let election = format!("election=\"{election}\"");
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let lines = lines.filter(|line| line.contains(&election) && line.contains(label));
    let values = lines
        .map(|line| line.rsplit(' ').next().context("a value")?.parse::<u64>().context("a count"));
    let values = values.collect::<Result<Vec<_>>>()?;
    ensure!(!values.is_empty(), "no {name} with {election} and {label}: {metrics}");
    Ok(values.into_iter().sum())
}

/// Longer than messages of an election are under way.
const QUIET: Duration = Duration::from_millis(300);

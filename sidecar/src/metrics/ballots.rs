//! Elections that were held, and what they cost, by the names that the policy lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_protocols::member::message::{AboutElection, ElectionPart};
use conclave_protocols::policy::{ElectionAlgorithm, Policy};
use prometheus::{HistogramVec, IntCounterVec};

use super::definitions::{Definitions, doubling};
use super::locks::{MESSAGES, float};
use crate::group::LastElection;

/// Elections that were held. The group task counts them, from 0 on for each that the policy lists.
#[derive(Clone)]
pub(crate) struct BallotMetrics {
    elections: IntCounterVec,
    duration: HistogramVec,
    messages: HistogramVec,
    sent: IntCounterVec,
    /// How each of them is held. What is about others counts for nothing, so that names stay few.
    listed: Arc<Mutex<BTreeMap<String, ElectionAlgorithm>>>,
}

impl BallotMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            elections: define.counters(
                "conclave_elections_total",
                "Elections that this member took part in, by whether it was elected.",
                &["election", "algorithm", "result"],
            ),
            duration: define.histograms(
                "conclave_election_duration_seconds",
                "How long elections took at this member.",
                &["election", "algorithm"],
                &doubling(1e-3, 17),
            ),
            messages: define.histograms(
                "conclave_election_messages",
                "Messages that this member sent in one election until it knew the outcome, as the textbook counts them.",
                &["election", "algorithm"],
                &MESSAGES,
            ),
            sent: define.counters(
                "conclave_election_messages_sent_total",
                "Messages about elections that this member sent: those that the textbook counts, acknowledgements and probes, and notices of candidates and the leader of the group.",
                &["election", "kind"],
            ),
            listed: Arc::default(),
        }
    }

    /// From now on the policy lists these elections. Of those that it does not list nothing is left.
    pub(crate) fn list(&self, policy: &Policy) {
        let named = policy.elections.iter().map(|one| (one.name.clone(), one.algorithm));
        let all = std::iter::once((DEFAULT.to_owned(), policy.election)).chain(named);
        let all: BTreeMap<String, ElectionAlgorithm> = all.collect();
        let before = std::mem::replace(&mut *self.listed(), all.clone());
        before.keys().filter(|election| !all.contains_key(*election)).for_each(|gone| {
            self.forget(gone);
        });
        for (election, algorithm) in all.iter().filter(|(one, of)| before.get(*one) != Some(of)) {
            self.begin(election, *algorithm);
        }
    }

    /// An election ended that this member took part in.
    pub(crate) fn ended(&self, election: &str, elected: bool, last: LastElection) {
        let Some(algorithm) = self.listed().get(election).copied().map(ElectionAlgorithm::name)
        else {
            return;
        };
        let result = if elected { ELECTED } else { NOT_ELECTED };
        self.elections.with_label_values(&[election, algorithm, result]).inc();
        let duration = self.duration.with_label_values(&[election, algorithm]);
        duration.observe(last.duration.as_secs_f64());
        let messages = self.messages.with_label_values(&[election, algorithm]);
        messages.observe(float(last.messages));
    }

    /// This member sent a message about an election.
    pub(crate) fn sent(&self, about: AboutElection<'_>) {
        let election = about.election.unwrap_or(DEFAULT);
        if self.listed().contains_key(election) {
            self.sent.with_label_values(&[election, kind(about.part)]).inc();
        }
    }

    /// Counts from 0 on.
    fn begin(&self, election: &str, algorithm: ElectionAlgorithm) {
        let algorithm = algorithm.name();
        for result in [ELECTED, NOT_ELECTED] {
            self.elections.with_label_values(&[election, algorithm, result]);
        }
        self.duration.with_label_values(&[election, algorithm]);
        self.messages.with_label_values(&[election, algorithm]);
        for part in kinds(election) {
            self.sent.with_label_values(&[election, kind(*part)]);
        }
    }

    /// What there is none of was not counted.
    fn forget(&self, election: &str) {
        for algorithm in ElectionAlgorithm::ALL.map(ElectionAlgorithm::name) {
            for result in [ELECTED, NOT_ELECTED] {
                let _ = self.elections.remove_label_values(&[election, algorithm, result]);
            }
            let _ = self.duration.remove_label_values(&[election, algorithm]);
            let _ = self.messages.remove_label_values(&[election, algorithm]);
        }
        for part in kinds(election) {
            let _ = self.sent.remove_label_values(&[election, kind(*part)]);
        }
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<String, ElectionAlgorithm>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The election of the group's leader, as the API names it.
pub(crate) const DEFAULT: &str = "default";

const ELECTED: &str = "elected";
const NOT_ELECTED: &str = "not-elected";

/// The label of a message's part in an election.
fn kind(part: ElectionPart) -> &'static str {
    match part {
        ElectionPart::Textbook => "textbook",
        ElectionPart::Acknowledgement => "acknowledgement",
        ElectionPart::Notice => "notice",
    }
}

/// Which parts there are. Nobody calls the group to elect its leader.
fn kinds(election: &str) -> &'static [ElectionPart] {
    match election {
        DEFAULT => &[ElectionPart::Textbook, ElectionPart::Acknowledgement],
        _ => &[ElectionPart::Textbook, ElectionPart::Acknowledgement, ElectionPart::Notice],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_protocols::policy::ElectionPolicy;

    use super::*;
    use crate::http::tests::double::Double;

    fn policy(elections: &[(&str, ElectionAlgorithm)]) -> Policy {
        let named = |(name, algorithm): &(&str, _)| ElectionPolicy::new(name, *algorithm);
        Policy { elections: elections.iter().map(named).collect(), ..Policy::default() }
    }

    /// What a scrape has of the elections that were held, without the buckets.
    fn counted(double: &Double) -> Vec<String> {
        let names = ["conclave_elections_total{", "conclave_election_messages_"];
        let text = double.metrics.scrape(&double.group);
        let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        let lines = lines.filter(|line| !line.contains("_bucket") && !line.contains("_expected"));
        lines.map(|line| line.replace(",group=\"orders\"", "")).collect()
    }

    #[test]
    fn an_election_is_counted_from_0_on_as_long_as_the_policy_lists_it() {
        let double = Double::new();
        let ballots = &double.metrics.ballots;
        let last = LastElection { messages: 4, duration: Duration::from_millis(3) };
        let notice = AboutElection { election: Some("reports"), part: ElectionPart::Notice };
        ballots.ended("reports", true, last);
        ballots.sent(notice);
        assert_eq!(counted(&double), Vec::<String>::new(), "it is not listed");

        ballots.list(&policy(&[("reports", ElectionAlgorithm::Ring)]));
        assert_eq!(
            counted(&double),
            [
                r#"conclave_election_messages_sum{algorithm="Bully",election="default"} 0"#,
                r#"conclave_election_messages_count{algorithm="Bully",election="default"} 0"#,
                r#"conclave_election_messages_sum{algorithm="Ring",election="reports"} 0"#,
                r#"conclave_election_messages_count{algorithm="Ring",election="reports"} 0"#,
                r#"conclave_election_messages_sent_total{election="default",kind="acknowledgement"} 0"#,
                r#"conclave_election_messages_sent_total{election="default",kind="textbook"} 0"#,
                r#"conclave_election_messages_sent_total{election="reports",kind="acknowledgement"} 0"#,
                r#"conclave_election_messages_sent_total{election="reports",kind="notice"} 0"#,
                r#"conclave_election_messages_sent_total{election="reports",kind="textbook"} 0"#,
                r#"conclave_elections_total{algorithm="Bully",election="default",result="elected"} 0"#,
                r#"conclave_elections_total{algorithm="Bully",election="default",result="not-elected"} 0"#,
                r#"conclave_elections_total{algorithm="Ring",election="reports",result="elected"} 0"#,
                r#"conclave_elections_total{algorithm="Ring",election="reports",result="not-elected"} 0"#,
            ]
        );

        ballots.ended("reports", false, last);
        ballots.sent(notice);
        ballots.sent(AboutElection { election: None, part: ElectionPart::Textbook });
        let seen = counted(&double);
        for line in [
            r#"conclave_elections_total{algorithm="Ring",election="reports",result="not-elected"} 1"#,
            r#"conclave_election_messages_sum{algorithm="Ring",election="reports"} 4"#,
            r#"conclave_election_messages_sent_total{election="reports",kind="notice"} 1"#,
            r#"conclave_election_messages_sent_total{election="default",kind="textbook"} 1"#,
            r#"conclave_elections_total{algorithm="Bully",election="default",result="elected"} 0"#,
        ] {
            assert!(seen.iter().any(|seen| seen == line), "{line}\n{seen:?}");
        }

        // It is held in another way from now on, and what was counted stays.
        ballots.list(&policy(&[("reports", ElectionAlgorithm::Bully)]));
        let seen = counted(&double);
        let of = |algorithm: &str| {
            let label =
                format!(r#"{{algorithm="{algorithm}",election="reports",result="not-elected"}}"#);
            seen.iter().find(|line| line.contains(&label)).and_then(|line| line.split(' ').nth(1))
        };
        assert_eq!((of("Ring"), of("Bully")), (Some("1"), Some("0")));

        ballots.list(&policy(&[]));
        ballots.sent(notice);
        let text = double.metrics.scrape(&double.group);
        assert!(!text.contains(r#"election="reports""#), "{text}");
        assert!(
            text.contains(r#"sent_total{election="default",kind="textbook",group="orders"} 1"#)
        );
    }
}

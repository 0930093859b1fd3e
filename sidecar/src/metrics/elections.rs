//! Leadership, and what an election for it should cost.

use conclave_protocols::LocalTime;
use prometheus::{Gauge, IntCounter, IntGauge, IntGaugeVec};
use tokio::sync::watch;

use super::definitions::Definitions;
use super::members::raise;
use crate::group::Election;

/// Leadership: read from the group at every scrape.
#[derive(Clone)]
pub(crate) struct ElectionMetrics {
    leader: IntGauge,
    remaining: Gauge,
    transitions: IntCounter,
    messages_expected: IntGaugeVec,
    leading: IntGaugeVec,
    candidates: IntGaugeVec,
    lease_elsewhere: IntGaugeVec,
    master: IntGaugeVec,
}

impl ElectionMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            leader: define.count("conclave_leader", "Whether this member leads the group now."),
            remaining: define.gauge(
                "conclave_leader_lease_remaining_seconds",
                "For how long this member surely goes on leading; 0 if it does not lead.",
            ),
            transitions: define.counter(
                "conclave_leader_transitions_total",
                "Changes of leader that this member has seen.",
            ),
            messages_expected: define.counts(
                "conclave_election_messages_expected",
                "Messages of the next election by the formula of the textbook, of all members, among those that may be elected \
                 now. The worst case of the group's leader has what is sent to the dead one.",
                &["election", "algorithm", "case"],
            ),
            leading: define.counts(
                "conclave_election_leading",
                "Whether this member leads in that election now.",
                &["election"],
            ),
            candidates: define.counts(
                "conclave_election_candidates",
                "How many may be elected in that election.",
                &["election"],
            ),
            lease_elsewhere: define.counts(
                "conclave_election_lease_elsewhere",
                "Whether somebody has the Lease of that election and no member leads, as far as this member \
                 knows: a program of client-go, say.",
                &["election"],
            ),
            master: define.counts(
                "leader_election_master_status",
                "The same as conclave_election_leading, by the name that dashboards for client-go read.",
                &["name"],
            ),
        }
    }

    /// Takes over how the leadership stands at `now`.
    pub(super) fn observe(&self, election: &Election, now: LocalTime) {
        let leads = election.leads_at(now);
        let remaining = election.safe_until.filter(|_| leads).map(|until| until - now);
        self.leader.set(i64::from(leads));
        self.remaining.set(remaining.unwrap_or_default().as_secs_f64());
        raise(&self.transitions, election.transitions);
    }

    /// Takes over how every election stands at `now`. Of those that there are no longer nothing is left.
    pub(super) fn observe_all<'a>(
        &self,
        elections: impl Iterator<Item = &'a watch::Receiver<Election>>,
        now: LocalTime,
    ) {
        let Self { leading, candidates, lease_elsewhere, master, messages_expected, .. } = self;
        for gauge in [leading, candidates, lease_elsewhere, master, messages_expected] {
            gauge.reset();
        }
        for election in elections {
            let election = election.borrow();
            let leads = i64::from(election.leads_at(now));
            self.leading.with_label_values(&[&election.name]).set(leads);
            self.master.with_label_values(&[&election.name]).set(leads);
            let expected =
                election.expected.map(|cost| [("best", cost.best), ("worst", cost.worst)]);
            for (case, messages) in expected.into_iter().flatten() {
                let labels = [&election.name, election.algorithm.name(), case];
                messages_expected.with_label_values(&labels).set(i64::from(messages));
            }
            let candidates = self.candidates.with_label_values(&[&election.name]);
            candidates.set(i64::from(election.candidates));
            let lease = election.lease.as_ref().and_then(|lease| lease.holder.as_ref());
            let elsewhere = self.lease_elsewhere.with_label_values(&[&election.name]);
            elsewhere.set(i64::from(lease.is_some() && election.leader_at(now).is_none()));
        }
    }
}

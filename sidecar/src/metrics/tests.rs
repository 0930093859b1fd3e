//! Names and words by the conventions of Prometheus, and documentation that agrees.

mod beginning;

use std::time::Duration;

use super::*;
use crate::claims::{ClaimState, LostReason, Refusal};
use crate::group::{Election, LastElection, NamedElections};
use crate::http::tests::documents::compare;
use crate::http::tests::double::{Double, claim, held, leading};
use crate::http::tests::time_peers::figures;
use conclave_protocols::policy::{Caching, ElectionAlgorithm, LockAlgorithm, Policy};
use tokio::sync::watch;

#[test]
fn names_follow_the_conventions() {
    for definition in Metrics::new("orders").definitions() {
        let Definition { name, kind, help, labels } = definition;
        let of_others = ["leader_election_master_status"];
        assert!(name.starts_with("conclave_") || of_others.contains(name), "{name}");
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(name.bytes().all(plain), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        let reserved =
            ["_sum", "_count", "_bucket", "_milliseconds", "_ms", "_kilobytes", "_gauge"];
        assert!(!reserved.iter().any(|suffix| name.ends_with(suffix)), "{name}");
        if name.contains("duration") || name.contains("wait") && *kind == Kind::Histogram {
            assert!(name.ends_with("_seconds"), "{name}");
        }
        assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        let of_targets = [
            "namespace",
            "pod",
            "container",
            "node",
            "job",
            "instance",
            "service",
            "endpoint",
            "group",
            "le",
            "quantile",
        ];
        assert!(!labels.iter().any(|label| of_targets.contains(label)), "{name}: {labels:?}");
    }
}

#[test]
fn every_metric_has_a_place_in_the_documentation() {
    compare("docs/metrics.md", &page());
}

/// The page of the documentation.
fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         `GET :7072/metrics` of every sidecar. Each metric has the label `group` besides those below; no lock or \
         owner is ever a label, an election only as the resource lists it, and a peer only while its clock is \
         compared; of two processes of one pod the one is shown that was heard last. All are there from the start, \
         counters with 0, but for these. Requests of applications, and messages by their `type`, begin with the first. \
         What the textbook expects is there within a view, and entries that asked nobody where the policy lets members \
         keep what admits them. Of a peer, contradictions are there as soon as its clock is compared, and a round trip \
         and a bound once they are known. The health of the application is there only where the pod has a health check. The usual `process_*` metrics are there \
         too. The operator's are in [metrics-operator.md](metrics-operator.md); alerts and dashboards in \
         [monitoring.md](monitoring.md). This page is made from the definitions in `sidecar/src/metrics/`; a test compares \
         them.\n\n\
         | Metric | Type | Labels | What it says |\n| --- | --- | --- | --- |\n",
    );
    for Definition { name, kind, help, labels } in Metrics::new("orders").definitions() {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
        page.push_str(&row);
    }
    page
}

#[test]
fn a_scrape_shows_what_was_counted_and_how_the_group_stands() {
    let double = Double::new();
    double.election.send_replace(leading());
    let (_named, reports) =
        watch::channel(Election { candidates: 2, ..Election::new("reports", &Policy::default()) });
    double.named.send_replace(NamedElections::from([("reports".to_owned(), reports)]));
    let metrics = &double.metrics;
    metrics.locks.settled(&claim(held()));
    metrics.locks.settled(&claim(ClaimState::Refused(Refusal::NoQuorum)));
    let (held_for, lost) = (Duration::from_secs(1), HoldEnd::Lost(LostReason::MaxHold));
    metrics.locks.ended(LockAlgorithm::Central, HoldEnd::Released, held_for);
    metrics.locks.ended(LockAlgorithm::Central, lost, held_for);
    metrics.locks.cost(LockAlgorithm::Central, Caching::Disabled, 3);
    metrics.locks.cost(LockAlgorithm::Central, Caching::Disabled, 3);
    metrics.list(&Policy::default());
    let election = LastElection { messages: 7, duration: Duration::from_millis(38) };
    metrics.ballots.ended("default", true, election);
    metrics.locks.expect(&[(LockAlgorithm::Central, 3)]);
    metrics.register.answered("get", "ok", Duration::from_millis(3));
    metrics.members.suspicions.inc();

    let text = metrics.scrape(&double.group);
    let mut lines = text.lines().collect::<Vec<_>>();
    lines.sort_unstable();
    for line in [
        r#"conclave_lock_acquisitions_total{algorithm="Central",result="granted",group="orders"} 1"#,
        r#"conclave_lock_acquisitions_total{algorithm="Central",result="no-quorum",group="orders"} 1"#,
        r#"conclave_lock_releases_total{algorithm="Central",reason="released",group="orders"} 1"#,
        r#"conclave_lock_releases_total{algorithm="Central",reason="max-hold",group="orders"} 1"#,
        r#"conclave_lock_messages_sum{algorithm="Central",group="orders"} 6"#,
        r#"conclave_lock_wait_seconds_sum{algorithm="Central",group="orders"} 0.041"#,
        r#"conclave_elections_total{algorithm="Bully",election="default",result="elected",group="orders"} 1"#,
        r#"conclave_lock_messages_expected{algorithm="Central",group="orders"} 3"#,
        r#"conclave_election_messages_expected{algorithm="Bully",case="worst",election="default",group="orders"} 3"#,
        r#"conclave_election_messages_sum{algorithm="Bully",election="default",group="orders"} 7"#,
        r#"conclave_arbiter_requests_total{outcome="ok",verb="get",group="orders"} 1"#,
        r#"conclave_group_grants{group="orders"} 1"#,
        r#"conclave_arbiter_outage_survived_seconds{group="orders"} 47"#,
        r#"conclave_leader{group="orders"} 1"#,
        r#"conclave_epoch{group="orders"} 12"#,
        r#"conclave_members{state="connected",group="orders"} 2"#,
        r#"conclave_view_changes_total{group="orders"} 5"#,
        r#"conclave_suspicions_total{group="orders"} 1"#,
        r#"conclave_mistaken_suspicions_total{group="orders"} 0"#,
        r#"conclave_leader_transitions_total{group="orders"} 4"#,
        r#"conclave_election_leading{election="default",group="orders"} 1"#,
        r#"conclave_election_leading{election="reports",group="orders"} 0"#,
        r#"conclave_election_candidates{election="reports",group="orders"} 2"#,
        r#"conclave_election_lease_elsewhere{election="reports",group="orders"} 0"#,
        r#"leader_election_master_status{name="default",group="orders"} 1"#,
    ] {
        assert!(lines.binary_search(&line).is_ok(), "{line}\n{text}");
    }
    let remaining = lines
        .iter()
        .find_map(|line| {
            line.strip_prefix(r#"conclave_leader_lease_remaining_seconds{group="orders"} "#)
        })
        .and_then(|seconds| seconds.parse::<f64>().ok())
        .expect("a number");
    assert!((1.0..=10.0).contains(&remaining), "{remaining}");
}

#[test]
fn a_counter_of_the_group_does_not_run_away_when_it_is_read_twice() {
    let double = Double::new();
    double.metrics.scrape(&double.group);
    double.status.send_modify(|status| status.view_changes = 6);
    let text = double.metrics.scrape(&double.group);
    assert!(text.contains("conclave_view_changes_total{group=\"orders\"} 6\n"), "{text}");
}

#[test]
fn several_sidecars_in_one_process_count_apart() {
    let (one, other) = (Double::new(), Double::new());
    one.metrics.locks.waiters.set(3);
    let waiters = r#"conclave_lock_waiters{group="orders"} 3"#;
    assert!(one.metrics.scrape(&one.group).contains(waiters));
    assert!(!other.metrics.scrape(&other.group).contains(waiters));
}

#[test]
fn a_process_may_tell_of_itself() {
    let double = Double::new();
    let text = double.metrics.with_process().scrape(&double.group);
    assert!(text.contains("process_resident_memory_bytes{group=\"orders\"}"), "{text}");
}

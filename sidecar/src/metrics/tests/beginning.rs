//! What a scrape has before anything has happened, and how much it can become.

use std::collections::BTreeSet;
use std::path::Path;

use conclave_protocols::LocalTime;
use conclave_protocols::clock::{Source, Verdict};
use conclave_protocols::policy::{ElectionPolicy, LockPolicy};

use super::*;
use crate::group::{ElectionCost, ElectionLease};
use crate::metrics::locks::RESULTS;
use crate::metrics::peers::{FAILED, IGNORED};
use crate::metrics::probes::REFUSED;
use crate::probes::{HostClock, PeerFigures, Probed};

/// The names in a scrape, without what a histogram appends to its own.
fn families(text: &str) -> BTreeSet<&str> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).collect()
}

/// The lines of a scrape that are numbers.
fn series(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series).collect()
}

/// Every lock algorithm, and as many elections as a resource may list.
fn largest() -> Policy {
    let lock = |algorithm| LockPolicy { algorithm, ..LockPolicy::default() };
    let election =
        |number| ElectionPolicy::new(&format!("election-{number}"), ElectionAlgorithm::Ring);
    Policy {
        locks: LockAlgorithm::ALL.map(lock).into(),
        elections: (0..16).map(election).collect(),
        ..Policy::default()
    }
}

#[test]
fn all_is_there_from_the_start_but_what_begins_with_its_first() {
    let double = Double::new();
    double.metrics.list(&Policy::default());
    let text = double.metrics.scrape(&double.group);
    let defined = double.metrics.definitions().iter().map(|definition| definition.name);
    let missing: BTreeSet<_> = defined.filter(|name| !families(&text).contains(name)).collect();
    let expected = [
        "conclave_application_healthy",
        "conclave_clock_host_outlier",
        "conclave_clock_peer_contradictions",
        "conclave_clock_peer_error_bound_seconds",
        "conclave_clock_peer_rtt_min_seconds",
        "conclave_http_request_duration_seconds",
        "conclave_http_requests_total",
        "conclave_lock_cached_entries_total",
        "conclave_lock_messages_expected",
        "conclave_peer_messages_received_total",
        "conclave_peer_messages_sent_total",
    ];
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn whatever_happens_to_claims_is_counted_from_0_on() {
    let double = Double::new();
    let metrics = &double.metrics;
    metrics.list(&Policy::default());
    let before = metrics.scrape(&double.group);
    let refusals = [
        Refusal::Held { holder: None },
        Refusal::WaitTimeout { holder: None },
        Refusal::NoQuorum,
        Refusal::GracePeriod { until: double.group.os_clock().now() },
        Refusal::Terminated,
    ];
    let states = [held(), ClaimState::Released];
    for state in states.into_iter().chain(refusals.map(ClaimState::Refused)) {
        metrics.locks.settled(&claim(state));
    }
    for end in LostReason::ALL.map(HoldEnd::Lost).into_iter().chain([HoldEnd::Released]) {
        metrics.locks.ended(LockAlgorithm::Central, end, Duration::from_secs(1));
    }
    metrics.locks.cost(LockAlgorithm::Central, Caching::Disabled, 3);
    let after = metrics.scrape(&double.group);
    assert_eq!(series(&before), series(&after));
    for result in RESULTS {
        let counted = format!(r#"algorithm="Central",result="{result}",group="orders"}} 1"#);
        assert!(after.contains(&counted), "{result}: {after}");
    }
}

#[test]
fn every_reason_that_the_sources_name_is_counted_from_0_on() {
    let mut named = BTreeSet::new();
    for directory in ["../protocols/src", "src/group", "src/links.rs"] {
        collect(directory, &["Ignored(\"", "ignored(\""], &mut named);
    }
    assert_eq!(named, IGNORED.map(str::to_owned).into());

    let mut named = BTreeSet::from(["rejected".to_owned()]);
    collect("src/links/outbound.rs", &["failed(\"", "=> \""], &mut named);
    collect("src/links/secure.rs", &["=> \""], &mut named);
    assert_eq!(named, FAILED.map(str::to_owned).into());

    let mut named = BTreeSet::new();
    collect("src/probes/thread.rs", &["refuse(\""], &mut named);
    collect("src/probes/keys.rs", &["=> \""], &mut named);
    assert_eq!(named, REFUSED.map(str::to_owned).into());
}

/// The texts that follow one of these beginnings in the sources below a path, tests apart.
fn collect(path: &str, beginnings: &[&str], found: &mut BTreeSet<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut open = vec![path];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let below = std::fs::read_dir(path).expect("a directory");
            open.extend(below.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        for beginning in beginnings {
            let texts = code.split(beginning).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(texts.map(str::to_owned));
        }
    }
}

#[test]
fn a_scrape_of_the_largest_policy_is_bounded() {
    let double = Double::new();
    double.metrics.list(&largest());
    let election =
        |number: usize| watch::channel(Election::new(&format!("election-{number}"), &largest())).1;
    let named = (0..16).map(|number| (format!("election-{number}"), election(number)));
    double.named.send_replace(named.collect());
    let costs = LockAlgorithm::ALL.map(|algorithm| (algorithm, 3));
    double.metrics.locks.expect(&costs);
    let lines = double.metrics.scrape(&double.group).lines().count();
    assert!((1_000..2_000).contains(&lines), "{lines} lines");
}

/// Five of six contradict one whose clock was stopped.
#[test]
fn a_round_with_contradictions_is_one_event() {
    let double = Double::new();
    let source = |contradicts| Source { offset: None, verdict: Verdict::Outlier, contradicts };
    double.metrics.clock.compared([source(true); 5].iter());
    double.metrics.clock.compared([source(false); 5].iter());
    let text = double.metrics.scrape(&double.group);
    let line = r#"conclave_clock_contradictions_total{group="orders"} 1"#;
    assert!(text.lines().any(|one| one == line), "{text}");
}

#[test]
fn a_peer_is_a_label_as_long_as_its_clock_is_compared() {
    let double = Double::new();
    let series = || {
        let text = double.metrics.scrape(&double.group);
        let lines = text.lines().filter(|line| line.starts_with("conclave_clock_peer_rtt_min"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    double
        .probed
        .send_replace(probed(vec![figures("shop-1", Some(41_250)), figures("shop-2", None)]));
    let line = r#"conclave_clock_peer_rtt_min_seconds{peer="shop-1",group="orders"} 0.00004125"#;
    assert_eq!(series(), [line]);
    double.probed.send_replace(probed(vec![figures("shop-2", None)]));
    assert_eq!(series(), [""; 0]);
}

#[test]
fn of_two_processes_of_a_pod_the_one_is_shown_that_was_heard_last() {
    let double = Double::new();
    let before = PeerFigures {
        last: Some(LocalTime(1)),
        contradictions: 7,
        ..figures("shop-1", Some(90_000))
    };
    let next = figures("shop-1", Some(41_250));
    for both in [[before.clone(), next.clone()], [next, before]] {
        double.probed.send_replace(probed(both.into()));
        let text = double.metrics.scrape(&double.group);
        let shown = |name: &str| {
            let name = format!(r#"conclave_clock_peer_{name}{{peer="shop-1",group="orders"}} "#);
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(&name));
            lines.next().map(str::to_owned)
        };
        assert_eq!(shown("rtt_min_seconds").as_deref(), Some("0.00004125"));
        assert_eq!(shown("contradictions").as_deref(), Some("2"));
    }
}

fn probed(peers: Vec<PeerFigures>) -> Probed {
    Probed { peers, host: None }
}

#[test]
fn whether_the_own_wall_clock_is_off_is_shown_once_it_is_known() {
    let double = Double::new();
    let shown = || {
        let text = double.metrics.scrape(&double.group);
        let name = r#"conclave_clock_host_outlier{group="orders"} "#;
        text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    };
    for (is_outlier, expected) in [(Some(true), Some("1")), (Some(false), Some("0")), (None, None)]
    {
        let clock = |is_outlier| HostClock { offset_ns: 7, max_error_ns: None, is_outlier };
        let host = is_outlier.map(clock);
        double.probed.send_replace(Probed { peers: Vec::new(), host });
        assert_eq!(shown().as_deref(), expected);
    }
}

/// Names come from applications and from peers, who may invent as many as they like.
#[tokio::test]
async fn what_applications_invent_is_no_label() {
    let double = Double::new();
    let mut lines = BTreeSet::new();
    for number in 0..50 {
        for call in [
            format!("GET /v1/elections/invented-{number}"),
            format!("GET /invented/{number}"),
            format!("INVENTED-{number} /v1/status"),
            format!("POST /v1/locks/invented%2F{number}%00"),
        ] {
            double.call(&call, &[], "").await.expect("the call ends");
        }
        lines.insert(double.metrics.scrape(&double.group).lines().count());
    }
    assert_eq!(lines.len(), 1, "the page grows: {lines:?}");
    assert!(!double.metrics.scrape(&double.group).contains("nvented"));
}

#[test]
fn of_an_algorithm_that_is_no_longer_in_force_nothing_is_expected() {
    let double = Double::new();
    let metrics = &double.metrics;
    let expected = || {
        let text = metrics.scrape(&double.group);
        let lines = text.lines().filter(|line| line.contains("_expected{"));
        lines.map(|line| line.replace(r#",group="orders""#, "")).collect::<Vec<_>>()
    };
    let expect = |algorithm, best, worst| {
        double.election.send_modify(|election| {
            election.algorithm = algorithm;
            election.expected = Some(ElectionCost { best, worst });
        });
    };
    metrics.locks.expect(&[(LockAlgorithm::Central, 3), (LockAlgorithm::Lamport, 6)]);
    expect(ElectionAlgorithm::Bully, 1, 3);
    assert_eq!(expected().len(), 4);
    metrics.locks.expect(&[(LockAlgorithm::Lamport, 6)]);
    expect(ElectionAlgorithm::Ring, 4, 8);
    assert_eq!(
        expected(),
        [
            r#"conclave_election_messages_expected{algorithm="Ring",case="best",election="default"} 4"#,
            r#"conclave_election_messages_expected{algorithm="Ring",case="worst",election="default"} 8"#,
            r#"conclave_lock_messages_expected{algorithm="Lamport"} 6"#,
        ]
    );
    expect(ElectionAlgorithm::ChangRoberts, 4, 5);
    let best = r#"conclave_election_messages_expected{algorithm="ChangRoberts",case="best",election="default"} 4"#;
    assert_eq!((expected().len(), expected()[0].as_str()), (3, best));
}

#[test]
fn the_register_is_as_old_as_the_status_shows() {
    let double = Double::new();
    let number = |name: &str| {
        let text = double.metrics.scrape(&double.group);
        let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).expect("a number")
    };
    let age = "conclave_arbiter_confirmed_age_seconds{";
    assert!((0.0..60.0).contains(&number(age)), "{}", number(age));
    double.status.send_modify(|status| {
        status.confirmed = None;
        status.outage_survived = None;
        status.grants = None;
    });
    assert!(number(age).is_infinite());
    assert!(number("conclave_arbiter_outage_survived_seconds{").is_infinite());
    assert!(number("conclave_group_grants{") < 0.5);
    double.status.send_modify(|status| status.grants = Some(true));
    assert!(number("conclave_group_grants{") > 0.5);
    // An earlier process of this member knew it.
    double.status.send_modify(|status| status.missing = Some("no view".to_owned()));
    assert!(number("conclave_group_grants{") < 0.5);
}

#[test]
fn a_lease_that_a_program_has_is_elsewhere_and_that_of_a_member_is_not() {
    let double = Double::new();
    let lease = |holder: Option<&str>| {
        let holder = holder.map(str::to_owned);
        Some(ElectionLease { name: "reports".to_owned(), holder })
    };
    let reports = Election::new("reports", &Policy::default());
    let (sender, seen) = watch::channel(Election { lease: lease(None), ..reports });
    double.named.send_replace(NamedElections::from([("reports".to_owned(), seen)]));
    let elsewhere = |number: u8| {
        let line = format!(
            "conclave_election_lease_elsewhere{{election=\"reports\",group=\"orders\"}} {number}\n"
        );
        double.metrics.scrape(&double.group).contains(&line)
    };
    assert!(elsewhere(0), "nobody has it");
    sender.send_modify(|election| election.lease = lease(Some("a-program")));
    assert!(elsewhere(1));
    sender.send_modify(|election| {
        election.leader = leading().leader;
        election.leadership = leading().leadership;
        election.safe_until = leading().safe_until;
    });
    assert!(elsewhere(0), "a member leads");
}

//! The CEL rules that the API server runs and the checks of `policy` refuse the same resources, and
//! name the same fields.

use conclave_crds::{
    Averaging, Caching, ClockAlgorithm, ClockSpec, Conclave, ConclaveSpec, ElectionService,
    ElectionSpec, FailureDetectionSpec, Handoff, LockAlgorithm, LockSpec, Period, Preemption,
    TimingSpec, policy,
};
use kube::core::cel::validate_cel;

/// Whether the CEL rules allow a resource, and their message if not.
fn cel(conclave: &Conclave) -> Result<(), String> {
    validate_cel(conclave).map_err(|errors| format!("{errors:?}"))
}

/// Both refuse, and the messages of both have the text.
fn refused(conclave: &Conclave, text: &str) {
    let by_cel = cel(conclave).expect_err(text);
    assert!(by_cel.contains(text), "{by_cel} should contain: {text}");
    let by_policy = policy(conclave).expect_err(text).to_string();
    assert!(by_policy.contains(text), "{by_policy} should contain: {text}");
}

fn allowed(conclave: &Conclave) {
    assert_eq!(cel(conclave), Ok(()));
    assert!(policy(conclave).is_ok());
}

fn timing(change: impl FnOnce(&mut TimingSpec)) -> Conclave {
    let mut spec = ConclaveSpec::default();
    change(&mut spec.timing);
    Conclave::new("orders", spec)
}

fn locks(patterns: &[&[&str]]) -> Conclave {
    let lock = |names: &&[&str]| LockSpec {
        names: names.iter().map(ToString::to_string).collect(),
        ..LockSpec::default()
    };
    let locks = patterns.iter().map(lock).collect();
    Conclave::new("orders", ConclaveSpec { locks, ..ConclaveSpec::default() })
}

#[test]
fn the_name_is_a_short_label() {
    let named = |name: &str| Conclave::new(name, ConclaveSpec::default());
    for name in ["a", "orders-2", &"a".repeat(40)] {
        allowed(&named(name));
    }
    for name in ["2orders", "orders-", "Orders", "a.b", &"a".repeat(41)] {
        refused(&named(name), "`metadata.name` must be a DNS-1035 label");
    }
}

#[test]
fn a_timeout_of_detection_lies_between_two_heartbeats_and_the_leader_lease() {
    let with = |timeout: Option<&str>| {
        let timeout = timeout.map(Period::new);
        let failure_detection = FailureDetectionSpec { timeout, phi: Some(16) };
        Conclave::new("orders", ConclaveSpec { failure_detection, ..ConclaveSpec::default() })
    };
    for timeout in [None, Some("500ms"), Some("1500ms")] {
        allowed(&with(timeout));
    }
    for timeout in ["499ms", "1501ms"] {
        let text = "must be at least twice `timing.heartbeat` and at most `timing.leaderLease`";
        refused(&with(Some(timeout)), text);
        let error = policy(&with(Some(timeout))).expect_err(timeout);
        assert_eq!(error.field(), "spec.failureDetection.timeout");
    }
    for timeout in ["99ms", "61s"] {
        refused(&with(Some(timeout)), "must be between 100ms and 1m");
    }
}

#[test]
fn each_period_has_its_limits() {
    allowed(&timing(|timing| timing.leader_lease = Period::new("8s")));
    refused(&timing(|timing| timing.leader_lease = Period::new("299ms")), "between 300ms and 1m");
    refused(&timing(|timing| timing.leader_lease = Period::new("61s")), "between 300ms and 1m");
    refused(&timing(|timing| timing.heartbeat = Period::new("1ms")), "between 50ms and 10s");
    refused(&timing(|timing| timing.member_lease = Period::new("1h")), "between 2s and 10m");
    refused(&timing(|timing| timing.api_outage = Period::new("2s")), "between 3s and 1h");
}

/// Each period of a resource, and where it stands.
fn periods(spec: &mut ConclaveSpec) -> [(&'static str, &mut Period); 8] {
    let ConclaveSpec { timing, failure_detection, locks, clock, .. } = spec;
    let timeout = failure_detection.timeout.insert(Period::new("1s"));
    let LockSpec { max_hold, lock_delay, .. } = &mut locks[0];
    [
        ("spec.timing.leaderLease", &mut timing.leader_lease),
        ("spec.timing.heartbeat", &mut timing.heartbeat),
        ("spec.timing.memberLease", &mut timing.member_lease),
        ("spec.timing.apiOutage", &mut timing.api_outage),
        ("spec.failureDetection.timeout", timeout),
        ("spec.locks[0].maxHold", max_hold),
        ("spec.locks[0].lockDelay", lock_delay),
        ("spec.clock.precision", &mut clock.precision),
    ]
}

#[test]
fn a_period_that_cannot_be_read_gets_one_message_that_names_it_and_what_is_expected() {
    let expected = "one to four numbers, each with the unit h, m, s or ms, such as 1m30s";
    for malformed in ["", "fast", "1", "1.5s", "-1s", "1d", "1s1s1s1s1s"] {
        for index in 0..8 {
            let mut conclave = Conclave::new("orders", ConclaveSpec::default());
            let (field, period) = periods(&mut conclave.spec).into_iter().nth(index).expect("one");
            *period = Period::new(malformed);
            let errors = validate_cel(&conclave).expect_err(malformed).into_vec();
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), 1, "{field}: {errors:?}");
            assert!(errors[0].contains(field), "{field}: {errors:?}");
            assert!(errors[0].contains(expected), "{field}: {errors:?}");
            let error = policy(&conclave).expect_err(malformed);
            assert_eq!(error.field(), field);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

#[test]
fn the_limits_of_locks_and_of_the_clock_hold_too() {
    let mut conclave = locks(&[&["*"]]);
    conclave.spec.locks[0].max_hold = Period::new("0s");
    refused(&conclave, "between 1s and 24h");
    conclave = locks(&[&["*"]]);
    conclave.spec.locks[0].lock_delay = Period::new("2h");
    refused(&conclave, "between 0s and 1h");
    conclave = locks(&[&["*"]]);
    conclave.spec.clock.precision = Period::new("0s");
    refused(&conclave, "between 1ms and 10s");
}

#[test]
fn the_leader_lease_outlasts_five_heartbeats() {
    allowed(&timing(|timing| timing.heartbeat = Period::new("300ms")));
    let slow = timing(|timing| timing.heartbeat = Period::new("301ms"));
    refused(&slow, "must be at least five times `heartbeat`");
}

#[test]
fn a_lock_outlasts_the_leader_lease_by_two_seconds() {
    allowed(&timing(|timing| timing.member_lease = Period::new("3500ms")));
    let short = timing(|timing| timing.member_lease = Period::new("3499ms"));
    refused(&short, "must be at least 2s more than `leaderLease`");
}

#[test]
fn an_election_has_the_name_of_a_label_and_of_no_other() {
    let with = |names: &[&str]| {
        let election =
            |name: &&str| ElectionSpec { name: (*name).to_owned(), ..ElectionSpec::default() };
        let elections = names.iter().map(election).collect();
        Conclave::new("orders", ConclaveSpec { elections, ..ConclaveSpec::default() })
    };
    for names in [&[][..], &["default"], &["tap"], &["default", "tap", "0"]] {
        allowed(&with(names));
    }
    for name in ["", "Tap", "-tap", "tap-", "a/b"] {
        refused(&with(&["default", name]), "must be 1 to 63 lower-case letters");
    }
    // That the API server sees to itself: the list is a map.
    let twice = policy(&with(&["tap", "tap"])).expect_err("twice").to_string();
    assert_eq!(twice, "`spec.elections[1].name` must not be that of another election");
}

/// Every member stands in `default`, with the same priority, and its hand-over never overlaps.
#[test]
fn only_an_election_of_applications_says_how_a_leader_is_followed() {
    let with = |name: &str, handoff, preemption| {
        let name = name.to_owned();
        let elections = vec![ElectionSpec { name, handoff, preemption, ..ElectionSpec::default() }];
        Conclave::new("orders", ConclaveSpec { elections, ..ConclaveSpec::default() })
    };
    let (after, never) = (Handoff::AfterStop, Preemption::Never);
    allowed(&with("tap", Handoff::BeforeStop, Preemption::Graceful));
    allowed(&with("default", after, never));
    let refusal = "handoff` must be `afterStop` in the election `default`";
    refused(&with("default", Handoff::BeforeStop, never), refusal);
    let refusal = "preemption` must be `Never` in the election `default`";
    refused(&with("default", after, Preemption::Graceful), refusal);
}

/// A group whose elections have Services, of these names if they are given.
fn with_services(group: &str, elections: &[(&str, Option<&str>)]) -> Conclave {
    let election = |(name, service): &(&str, Option<&str>)| ElectionSpec {
        name: (*name).to_owned(),
        service: Some(ElectionService {
            name: service.map(str::to_owned),
            port: 80,
            target_port: 8080,
        }),
        ..ElectionSpec::default()
    };
    let elections = elections.iter().map(election).collect();
    Conclave::new(group, ConclaveSpec { elections, ..ConclaveSpec::default() })
}

#[test]
fn a_service_has_a_name_that_no_object_of_a_group_has() {
    let reports = |service| with_services("orders", &[("reports", service)]);
    let longest = "a".repeat(63);
    for name in [None, Some("reports"), Some("a"), Some(&*longest)] {
        allowed(&reports(name));
    }
    for name in ["conclave-orders", "Reports", "1st", "reports-", "a.b", ""] {
        refused(&reports(Some(name)), "name` must be a DNS-1035 label of at most 63");
    }
}

#[test]
fn a_name_that_comes_from_the_group_has_room_and_is_no_other_objects() {
    let (long, fits) = ("e".repeat(57), "e".repeat(56));
    allowed(&with_services("orders", &[(&fits, None), ("default", None)]));
    refused(&with_services("orders", &[(&long, None)]), "service.name` must be given where");
    allowed(&with_services("orders", &[(&long, Some("long"))]));
    // `conclave-orders` is the headless Service of the group `orders`.
    refused(&with_services("conclave", &[("orders", None)]), "service.name` must be given where");
    allowed(&with_services("conclave", &[("orders", Some("orders"))]));
}

#[test]
fn two_elections_share_no_service() {
    allowed(&with_services("orders", &[("a", Some("one")), ("b", Some("two")), ("c", None)]));
    let twice = with_services("orders", &[("a", Some("one")), ("b", Some("one"))]);
    refused(&twice, "service.name` must not be that of another election's Service");
    let derived = with_services("orders", &[("a", None), ("b", Some("orders-a"))]);
    let error = policy(&derived).expect_err("two Services of one name").to_string();
    assert!(error.starts_with("`spec.elections[1].service.name` must not be"), "{error}");
}

/// A group whose elections need these Leases.
fn with_leases(elections: &[(&str, Option<&str>)]) -> Conclave {
    let election = |(name, lease): &(&str, Option<&str>)| ElectionSpec {
        name: (*name).to_owned(),
        lease_name: lease.map(str::to_owned),
        ..ElectionSpec::default()
    };
    let elections = elections.iter().map(election).collect();
    Conclave::new("orders", ConclaveSpec { elections, ..ConclaveSpec::default() })
}

#[test]
fn a_lease_of_an_election_is_no_groups_register() {
    let longest = "a".repeat(253);
    for name in ["reports", "a", "0.b-c.9", "conclave", "my-conclave-orders", &longest] {
        allowed(&with_leases(&[("reports", Some(name))]));
    }
    let names =
        ["conclave-orders", "conclave-mails", "Reports", "-a", "a-", "a..b", ".a", "a.", "a_b"];
    for name in names {
        refused(
            &with_leases(&[("reports", Some(name))]),
            "leaseName` must be a DNS-1123 subdomain",
        );
    }
    for name in ["", &"a".repeat(254)] {
        let error =
            policy(&with_leases(&[("reports", Some(name))])).expect_err("no name").to_string();
        assert!(error.starts_with("`spec.elections[0].leaseName` must be a DNS-1123"), "{error}");
    }
}

#[test]
fn only_an_election_of_applications_shares_a_lease_and_no_two_share_one() {
    allowed(&with_leases(&[
        ("default", None),
        ("a", Some("one")),
        ("b", Some("two")),
        ("c", None),
    ]));
    let twice = with_leases(&[("a", Some("one")), ("b", Some("one"))]);
    refused(&twice, "leaseName` must not be that of another election's Lease");
    let default = with_leases(&[("default", Some("one"))]);
    refused(&default, "leaseName` must not be given in the election `default`");
    let mut early = with_leases(&[("a", Some("one"))]);
    early.spec.elections[0].handoff = Handoff::BeforeStop;
    refused(&early, "handoff` must be `afterStop` with `leaseName`");
    let named = policy(&with_leases(&[("a", Some("one"))])).expect("a policy");
    assert_eq!(named.elections[0].lease.as_deref(), Some("one"));
}

#[test]
fn the_ports_of_a_service_are_ports() {
    let mut conclave = with_services("orders", &[("reports", None)]);
    let service = conclave.spec.elections[0].service.as_mut().expect("there is one");
    service.target_port = 0;
    let error = policy(&conclave).expect_err("no port").to_string();
    assert_eq!(error, "`spec.elections[0].service.targetPort` must be between 1 and 65535");
    let given: ElectionSpec =
        serde_json::from_str(r#"{"name": "reports", "service": {"targetPort": 8080}}"#)
            .expect("an election");
    assert_eq!(given.service, with_services("orders", &[("a", None)]).spec.elections[0].service);
}

#[test]
fn a_star_stands_at_the_end_only() {
    allowed(&locks(&[&["*", "a/*", "a"]]));
    for pattern in ["*a", "a*b", "**"] {
        refused(&locks(&[&[pattern]]), "may have `*` only at the end");
    }
}

#[test]
fn a_pattern_stands_only_once() {
    allowed(&locks(&[&["a", "a*"], &["b"], &["b*"]]));
    refused(&locks(&[&["a", "b"], &["c", "b"]]), "may not have two equal patterns");
}

/// The schema says what it lacks; no rule says anything else of it.
#[test]
fn an_entry_without_names_gets_one_message() {
    for patterns in [&[&[][..]][..], &[&[], &["a"]], &[&[], &[]]] {
        let without = locks(patterns);
        assert_eq!(cel(&without), Ok(()), "no rule but that of the schema");
        let error = policy(&without).expect_err("no pattern").to_string();
        assert_eq!(error, "`spec.locks[0].names` must have at least one pattern, and no empty one");
    }
    let names = serde_json::to_value(conclave_crds::schema::definition()).expect("JSON");
    let schema = &names["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let names = &schema["properties"]["locks"]["items"]["properties"]["names"];
    assert_eq!(names["minItems"], 1);
}

/// The schema counts letters of each name. The record of a view has to fit into a Lease.
#[test]
fn a_policy_has_room_in_the_register() {
    let all = |length: usize| -> Vec<Vec<String>> {
        let name =
            |entry: usize, name: usize| format!("{entry:02}{name:02}{}", "n".repeat(length - 4));
        (0..16).map(|entry| (0..16).map(|nth| name(entry, nth)).collect()).collect()
    };
    let with = |names: &[Vec<String>]| {
        let names: Vec<Vec<&str>> =
            names.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
        locks(&names.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    allowed(&with(&all(75)));
    let long = with(&all(253));
    assert_eq!(cel(&long), Ok(()), "no rule of the schema");
    let error = policy(&long).expect_err("too long").to_string();
    assert!(error.starts_with("`spec.locks` must have fewer or shorter names"), "{error}");
}

/// A group for elections and time alone.
#[test]
fn a_group_without_patterns_has_no_locks() {
    allowed(&locks(&[]));
    assert_eq!(policy(&locks(&[])).expect("a policy").locks, []);
}

#[test]
fn only_algorithms_that_need_not_ask_again_may_cache() {
    use LockAlgorithm::{
        Central, Lamport, Maekawa, Raymond, RicartAgrawala, Superpeers, TokenRing, Voting,
    };

    let cached = |algorithm| {
        let lock = LockSpec { algorithm, caching: Caching::Enabled, ..LockSpec::default() };
        Conclave::new("orders", ConclaveSpec { locks: vec![lock], ..ConclaveSpec::default() })
    };
    for algorithm in [Central, TokenRing, Raymond, RicartAgrawala, Superpeers] {
        allowed(&cached(algorithm));
    }
    for algorithm in [Lamport, Maekawa, Voting] {
        refused(&cached(algorithm), "caching` must be `Disabled` with `Lamport`");
    }
}

#[test]
fn an_average_is_chosen_only_where_the_leader_averages() {
    let with = |algorithm, averaging| {
        let clock = ClockSpec { algorithm, averaging, ..ClockSpec::default() };
        Conclave::new("orders", ConclaveSpec { clock, ..ConclaveSpec::default() })
    };
    for algorithm in ClockAlgorithm::ALL {
        allowed(&with(algorithm, None));
    }
    for averaging in Averaging::ALL {
        allowed(&with(ClockAlgorithm::Berkeley, Some(averaging)));
        for algorithm in [ClockAlgorithm::Cristian, ClockAlgorithm::Ntp] {
            refused(
                &with(algorithm, Some(averaging)),
                "averaging` must not be given with `Cristian`",
            );
        }
    }
}

//! What members state of their clocks, over real beacons and by hand.

use conclave_protocols::clock::{Correction, Rates, Shown, VirtualClock};
use conclave_protocols::policy::ClockPolicy;

use super::*;
use crate::probes::figures::assumptions;
use crate::probes::hosts::Hosts;

const SECOND_NS: i64 = 1_000_000_000;

/// Group time is the raw clock of this machine. A member knows it to a millisecond, by a clock that may have a fault, and
/// shows so much more.
fn synchronise(member: &Double, wrong_ns: i64) {
    let (sound, clock) = (OsClock::default(), member.group.os_clock());
    let before = sound.raw().0.cast_signed();
    let raw = clock.raw();
    let took = sound.raw().0.cast_signed().abs_diff(before);
    let mut virtual_clock = VirtualClock::new(0, Rates::new(100, 500));
    let shown = Shown { raw, ns: virtual_clock.map().now_ns(raw.0) };
    let delta_ns = before + wrong_ns - shown.ns;
    let by = Correction { delta_ns, ahead_ns: 0, error_ns: 1_000_000 + took };
    assert!(virtual_clock.adjust(raw, shown, by));
    member.time.send_replace(virtual_clock.map());
}

/// What comes of probes as soon as that is so.
fn figures_until(
    figures: &mut Figures,
    shown: &watch::Receiver<Probed>,
    is_so: impl Fn(&PeerFigures) -> bool,
) -> PeerFigures {
    let begun = Instant::now();
    loop {
        figures.take();
        if let Some(one) = shown.borrow().peers.iter().find(|one| is_so(one)) {
            return one.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {:?}", shown.borrow());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn violations(metrics: &Metrics, kind: &str) -> u64 {
    let line =
        format!("conclave_clock_audit_violations_total{{kind=\"{kind}\",group=\"orders\"}} ");
    let text = metrics.encode();
    let count = text.lines().find_map(|found| found.strip_prefix(&line)).expect("it is counted");
    count.parse().expect("a number")
}

/// What the first of two members finds of the second, whose time is wrong by so much.
fn audited(
    fault: ClockFault,
    wrong_ns: i64,
    is_so: impl Fn(&PeerFigures) -> bool,
) -> (PeerFigures, [u64; 2]) {
    let (one, two) = pair("127.0.0.1", fault).expect("there is a loopback");
    synchronise(&one.double, 0);
    synchronise(&two.double, wrong_ns);
    let Member { heard, reporter, metrics, probes, double: _double, .. } = one;
    let (shown, seen) = watch::channel(Probed::default());
    let mut figures = Figures::new(heard, probes.peers(), shown, reporter, metrics.probes.clone());
    let found = figures_until(&mut figures, &seen, is_so);
    (found, ["relation", "time"].map(|kind| violations(&metrics, kind)))
}

#[test]
fn members_with_one_clock_agree_about_it_and_about_the_time() {
    let is_so = |one: &PeerFigures| one.audit.checked >= 8;
    let (found, counted) = audited(ClockFault::default(), 0, is_so);
    assert_eq!((found.same_clock, found.audit.violations), (Some(true), 0));
    assert_eq!(counted, [0, 0]);
}

#[test]
fn members_with_two_clocks_agree_about_the_time() {
    let fault = ClockFault { offset_ns: 74_000_000, drift_ppm: 50, wander_ppb: 6_000 };
    let is_so = |one: &PeerFigures| one.audit.checked >= 4;
    let (found, counted) = audited(fault, 0, is_so);
    assert_eq!((found.same_clock, found.audit.violations), (Some(false), 0));
    assert_eq!(counted, [0, 0]);
}

#[test]
fn a_member_whose_time_is_out_of_its_bound_is_found_and_counted() {
    for fault in [
        ClockFault::default(),
        ClockFault { offset_ns: -74_000_000, drift_ppm: -50, wander_ppb: 0 },
    ] {
        for wrong_ns in [-10 * SECOND_NS, 10 * SECOND_NS] {
            let is_so = |one: &PeerFigures| one.audit.violations >= 2;
            let (found, counted) = audited(fault, wrong_ns, is_so);
            assert!(found.audit.checked >= found.audit.violations);
            assert_eq!(counted, [0, found.audit.violations], "{fault:?}");
        }
    }
}

/// It says that it reads this member's clock; its stamps are of one that is 7 s ahead.
#[test]
fn a_member_whose_stamps_are_not_of_the_clock_that_it_names_is_found_and_counted() {
    let (double, peer) = (Double::new(), Incarnation { pod: PodUid(2), run: 1 });
    let reporter = Reporter::new(&double.group, Incarnation { pod: PodUid(1), run: 1 });
    let (_peers, probed) = watch::channel(vec![Peer {
        incarnation: peer,
        name: "pod-2".to_owned(),
        addresses: Vec::new(),
        assumptions: assumptions(&ClockPolicy::default()),
        counts: Arc::default(),
    }]);
    let ((samples, taken), (reports, stated)) = (mpsc::channel(8), mpsc::channel(8));
    let heard = Heard { samples: taken, reports: stated };
    let (shown, seen) = watch::channel(Probed::default());
    let report = reporter.report();
    let mut figures = Figures::new(heard, probed, shown, reporter, double.metrics.probes.clone());
    reports.try_send((peer, report)).expect("room");
    figures.take();
    assert_eq!(seen.borrow().peers[0].audit.checked, 0, "no relation is known");
    let now = report.raw.0;
    let kernel = |raw| Stamp { raw: LocalTime(raw), source: Source::Kernel };
    let (departed, arrived_there) = (kernel(now - 50_000), kernel(now + 7_000_000_000));
    samples.try_send(Sample::Sent { peer, departed, arrived_there }).expect("room");
    let (departed_there, arrived) = (kernel(now + 7_000_000_000), kernel(now));
    samples.try_send(Sample::Received { peer, departed_there, arrived }).expect("room");
    reports.try_send((peer, report)).expect("room");
    figures.take();
    let found = seen.borrow().peers[0].clone();
    assert_eq!((found.same_clock, found.audit.checked, found.audit.violations), (Some(true), 1, 1));
    assert_eq!(["relation", "time"].map(|kind| violations(&double.metrics, kind)), [1, 0]);
}

/// Of five, of which the one that looks is one, the wall clock of one is 90 s ahead.
#[test]
fn the_machine_whose_wall_clock_is_off_is_named_and_no_other() {
    let double = Double::new();
    let peer = |pod| Peer {
        incarnation: Incarnation { pod: PodUid(pod), run: 1 },
        name: format!("pod-{pod}"),
        addresses: Vec::new(),
        assumptions: assumptions(&ClockPolicy::default()),
        counts: Arc::default(),
    };
    let reporter = Reporter::new(&double.group, peer(1).incarnation);
    synchronise(&double, 0);
    let ((_samples, samples), (reports, stated)) = (mpsc::channel(8), mpsc::channel(8));
    let heard = Heard { samples, reports: stated };
    let (_peers, probed) = watch::channel((2..=6).map(peer).collect());
    let (shown, seen) = watch::channel(Probed::default());
    let report = reporter.report();
    let mut figures = Figures::new(heard, probed, shown, reporter, double.metrics.probes);
    for pod in 2..=5 {
        let ahead = if pod == 4 { 90 * SECOND_NS } else { 0 };
        let stated = Report { wall_ns: report.wall_ns + ahead, ..report };
        reports.try_send((peer(pod).incarnation, stated)).expect("room");
    }
    figures.take();
    let found = seen.borrow().clone();
    let is_outlier = |host: Option<HostClock>| host.map(|host| host.is_outlier);
    assert_eq!(is_outlier(found.host), Some(false));
    let named = found.peers.iter().map(|one| is_outlier(one.host)).collect::<Vec<_>>();
    let sound = Some(false);
    assert_eq!(named, [sound, sound, Some(true), sound, None], "the last has said nothing");
}

/// One has been silent for some seconds, in which group time ran off all wall clocks by 1.4 ms.
#[test]
fn a_machine_that_nothing_was_heard_of_for_a_while_is_not_off_by_what_group_time_has_gained() {
    let report = |offset_ns| Report {
        bound_ns: Some(20_000),
        wall_ns: offset_ns,
        wall_error_ns: Some(50_000),
        ..Report::default()
    };
    let owner = |pod| Some(Incarnation { pod: PodUid(pod), run: 1 });
    let silent = Duration::from_millis(4_900);
    for (age, is_off) in [(silent, false), (Duration::ZERO, true)] {
        let reports = [(0, 2), (0, 3), (0, 4), (1_400_000, 5)];
        let reports = reports.map(|(offset_ns, pod)| (owner(pod), report(offset_ns)));
        let aged = reports.map(|(owner, report)| {
            (owner, if report.wall_ns > 0 { report.aged(age, 100) } else { report })
        });
        let hosts = Hosts::judge(aged);
        assert_eq!(hosts.of(owner(5)).map(|clock| clock.is_outlier), Some(is_off));
    }
}

/// The time of a life before may be that of another group.
#[test]
fn what_was_known_before_a_life_began_is_not_reported() {
    let double = Double::new();
    synchronise(&double, 0);
    let reporter = Reporter::new(&double.group, Incarnation { pod: PodUid(1), run: 1 });
    assert_eq!(reporter.report().bound_ns, None);
    synchronise(&double, 0);
    let bound = reporter.report().bound_ns.expect("it is known in this life");
    assert!(bound >= 1_000_000, "{bound}");
    double.time.send_modify(|map| map.disrupted_until = u64::MAX);
    assert_eq!(reporter.report().bound_ns, None, "it may not hold");
}

#[test]
fn where_parts_of_a_group_may_have_a_time_each_none_is_held_against_another() {
    let double = Double::new();
    let reporter = Reporter::new(&double.group, Incarnation { pod: PodUid(1), run: 1 });
    synchronise(&double, 0);
    assert!(reporter.map_of_all().is_some());
    double.status.send_modify(|status| status.arbiter = Arbiter::None);
    assert!(reporter.map_of_all().is_none() && reporter.report().bound_ns.is_some());
}

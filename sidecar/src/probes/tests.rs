//! Threads of beacons on one machine, whose raw clock is one: what departed cannot arrive before.

mod audited;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use conclave_protocols::PodUid;
use conclave_protocols::policy::Arbiter;

use super::packet::{Beacon, GroupHash, Numbered};
use super::report::Report;
use super::*;
use crate::http::tests::double::Double;
use crate::metrics::Metrics;
use crate::os_clock::{ClockFault, OsClock};

const GROUP: u128 = 0x0c9d_8f1e_6b1a_4f0e_9f4f_3f1f_7a2b_9c01;

/// A member with its thread.
struct Member {
    info: MemberInfo,
    keys: Keyring,
    metrics: Metrics,
    probes: Probes,
    heard: Heard,
    /// What is known of the group.
    double: Double,
    reporter: Reporter,
    /// The pods that it is cut off from.
    apart: watch::Sender<BTreeSet<PodUid>>,
}

impl Member {
    fn start(pod: u128, address: SocketAddr, fault: ClockFault) -> Self {
        Self::listen(pod, address, address, fault)
    }

    /// One that has its port at the first address, and is reached at the second.
    fn listen(pod: u128, own: SocketAddr, address: SocketAddr, fault: ClockFault) -> Self {
        let info = MemberInfo {
            incarnation: Incarnation { pod: PodUid(pod), run: 1 },
            name: format!("pod-{pod}"),
            addresses: vec![address],
            priority: 0,
            capacity: 0,
            zone: None,
            seniority: 0,
            protocol: crate::wire::VERSIONS,
        };
        let (mut double, keys, metrics) =
            (Double::new(), Keyring::default(), Metrics::new("orders"));
        double.group.clock = OsClock::with_fault(fault);
        let reporter = Reporter::new(&double.group, info.incarnation);
        let (apart, pods) = watch::channel(BTreeSet::new());
        let setting = Setting {
            me: info.incarnation,
            group: GROUP,
            address: own,
            reporter: reporter.clone(),
            keys: keys.clone(),
            cuts: Cuts::new(watch::channel(false).1, pods),
            metrics: metrics.probes.clone(),
        };
        let (probes, heard) = Probes::start(setting).expect("a thread");
        Self { info, keys, metrics, probes, heard, double, reporter, apart }
    }

    fn peer(&self) -> Peer {
        self.probes.peers().borrow()[0].clone()
    }

    fn counted(&self, line: &str) -> u64 {
        let text = self.metrics.encode();
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        let (_, number) = found.and_then(|rest| rest.rsplit_once(' ')).expect("it is counted");
        number.parse().expect("a number")
    }

    /// Waits until that many of a kind were refused.
    fn has_refused(&self, reason: &str, times: u64) {
        until(|| self.counted(&refused(reason)) == times, &format!("{times} {reason}"));
    }
}

fn refused(reason: &str) -> String {
    format!("conclave_clock_probes_refused_total{{reason=\"{reason}\",group=\"orders\"}}")
}

const OPEN: &str = "conclave_clock_probe_socket_open{group=\"orders\"}";

/// An address that nobody has.
fn free(ip: &str) -> Option<SocketAddr> {
    UdpSocket::bind((ip, 0)).and_then(|socket| socket.local_addr()).ok()
}

fn until(is_so: impl Fn() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// When no test runs any more.
pub(super) fn later() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

/// Both have the keys that a link each way would have given them.
fn acquaint(one: &Member, two: &Member, key: u8) {
    for (from, to, key) in [(one, two, key), (two, one, key + 1)] {
        to.keys.hear_with(ProbeKey::of([key; 32]), from.info.incarnation, later());
        from.keys.seal_with(ProbeKey::of([key; 32]), to.info.incarnation, later());
    }
}

/// Two members that probe each other, once both are there.
fn pair(ip: &str, fault: ClockFault) -> Option<(Member, Member)> {
    let (first, second) = (free(ip)?, free(ip)?);
    // A pod that has an address of IPv6 has its port at all of both families.
    let reached = |own: SocketAddr| {
        if own.ip().is_unspecified() { ([127, 0, 0, 1], own.port()).into() } else { own }
    };
    let one = Member::listen(1, first, reached(first), ClockFault::default());
    let two = Member::listen(2, second, reached(second), fault);
    acquaint(&one, &two, 10);
    one.probes.probe(std::slice::from_ref(&two.info), &ClockPolicy::default());
    two.probes.probe(std::slice::from_ref(&one.info), &ClockPolicy::default());
    Some((one, two))
}

/// What a clock with a fault reads when one without does.
fn faulty(raw: LocalTime, fault: ClockFault) -> i128 {
    if fault == ClockFault::default() {
        return raw.0.into();
    }
    let (sound, faulty) = (OsClock::default(), OsClock::with_fault(fault));
    // The relation is linear; it is read off where the clocks are.
    let read = || {
        let before = i128::from(sound.raw().0);
        let now = i128::from(faulty.raw().0);
        (i128::from(sound.raw().0) - before, before, now)
    };
    // The thread may be held up within one of these.
    let closest = (0..8).map(|_| read()).min().expect("a few");
    let (took, before, now) = closest;
    let passed = i128::from(raw.0) - before - took / 2;
    now + passed + passed * i128::from(fault.drift_ppm) / 1_000_000
}

/// No packet arrives before it departs, by whatever clocks; and what a fault puts in is found between the two ways.
fn bounds_hold(ip: &str, fault: ClockFault) {
    let Some((mut one, two)) = pair(ip, fault) else {
        println!("{ip}: this machine has no such address");
        return;
    };
    let (mut samples, mut kernel, mut ways) = (0, 0, [i128::MAX; 2]);
    let begun = Instant::now();
    while samples < 24 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{samples} samples");
        let Ok(sample) = one.heard.samples.try_recv() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        samples += 1;
        let (departed, arrived) = sample.ends();
        kernel += u32::from(departed.source == Source::Kernel);
        kernel += u32::from(arrived.source == Source::Kernel);
        // Both by the clock of the second.
        let (took, way) = match sample {
            Sample::Sent { .. } => (i128::from(arrived.raw.0) - faulty(departed.raw, fault), 0),
            Sample::Received { .. } => (faulty(arrived.raw, fault) - i128::from(departed.raw.0), 1),
        };
        // What is added to bring one reading onto the other clock is itself read, to a microsecond or so.
        let slack = if fault == ClockFault::default() { 0 } else { 20_000 };
        assert!(took >= -slack, "{sample:?} took {took} ns");
        ways[way] = ways[way].min(took);
    }
    println!(
        "{ip}, {fault:?}: {samples} samples, {kernel} of {} stamps by the kernel; the shortest ways {ways:?} ns",
        2 * samples
    );
    assert!(ways.iter().all(|way| *way < 50_000_000), "{ways:?}");
    assert!(two.peer().counts.received.get() > 0);
    let stamps = |source| {
        let line = |direction: &str| {
            format!(
                "conclave_clock_timestamps_total{{direction=\"{direction}\",source=\"{source}\",group=\"orders\"}}"
            )
        };
        (one.counted(&line("sent")), one.counted(&line("received")))
    };
    let (sent, received) = stamps("kernel");
    println!("sent and received by the kernel {sent} and {received}, by user {:?}", stamps("user"));
    assert!(sent > 0 && received > 0 && kernel > 0, "the kernel stamps on a loopback");
}

#[test]
fn no_packet_arrives_before_it_departs() {
    bounds_hold("127.0.0.1", ClockFault::default());
    bounds_hold("::1", ClockFault::default());
    bounds_hold("::", ClockFault::default());
}

#[test]
fn a_clock_that_is_off_and_drifts_is_so_in_all_stamps() {
    bounds_hold("127.0.0.1", ClockFault { offset_ns: 74_000_000, drift_ppm: 50, wander_ppb: 0 });
    bounds_hold("127.0.0.1", ClockFault { offset_ns: -74_000_000, drift_ppm: -500, wander_ppb: 0 });
}

#[test]
fn a_packet_that_is_forged_repeated_or_foreign_is_refused_and_counted() {
    let (one, two) = pair("127.0.0.1", ClockFault::default()).expect("there is a loopback");
    until(|| two.peer().counts.received.get() > 2, "it hears");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = two.info.addresses[0];
    let send =
        |bytes: &[u8]| assert_eq!(stranger.send_to(bytes, to).expect("it goes"), bytes.len());
    let beacon = |from, number| Beacon {
        from,
        number,
        departed: None,
        heard: None,
        report: Report::default(),
    };
    let (group, from) = (GroupHash::of(GROUP), one.info.incarnation);
    let before = two.peer().counts.refused.get();

    send(b"hello");
    two.has_refused("malformed", 1);
    send(&beacon(from, 9_000).seal(GroupHash::of(2), &ProbeKey::of([10; 32])));
    two.has_refused("group", 1);
    let other = Incarnation { run: 2, ..from };
    send(&beacon(other, 9_000).seal(group, &ProbeKey::of([10; 32])));
    two.has_refused("stranger", 1);
    send(&beacon(from, 9_000).seal(group, &ProbeKey::of([99; 32])));
    two.has_refused("forged", 1);
    send(&beacon(from, 9_000).seal(group, &ProbeKey::of([11; 32])));
    two.has_refused("forged", 2);
    // What was heard once, and with the key.
    send(&beacon(from, 1).seal(group, &ProbeKey::of([10; 32])));
    two.has_refused("replayed", 1);
    assert_eq!(two.peer().counts.refused.get() - before, 3, "those that said they were of it");
    let heard = two.peer().counts.received.get();
    until(|| two.peer().counts.received.get() > heard, "it goes on hearing");
}

#[test]
fn a_member_that_sends_without_a_pause_is_heard_as_often_as_others() {
    let mut two = Member::start(2, free("127.0.0.1").expect("a port"), ClockFault::default());
    let own = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = own.local_addr().expect("it is bound");
    let from = Incarnation { pod: PodUid(1), run: 1 };
    let one = MemberInfo { incarnation: from, addresses: vec![address], ..two.info.clone() };
    two.keys.hear_with(ProbeKey::of([10; 32]), from, later());
    two.probes.probe(&[one], &ClockPolicy::default());
    let number = Cell::new(0);
    let send = || {
        let stamp = Stamp { raw: LocalTime(number.get()), source: Source::Kernel };
        let departed = Numbered { number: number.get(), at: stamp };
        let departed = Some(departed).filter(|departed| departed.number > 0);
        number.set(number.get() + 1);
        let beacon =
            Beacon { from, number: number.get(), departed, heard: None, report: Report::default() };
        let bytes = beacon.seal(GroupHash::of(GROUP), &ProbeKey::of([10; 32]));
        own.send_to(&bytes, two.info.addresses[0]).expect("it goes");
    };
    let counts = two.peer().counts;
    let begun = Instant::now();
    until(
        || {
            send();
            counts.received.get() > 0
        },
        "the thread knows of the peer",
    );
    let before = counts.received.get() + counts.refused.get();
    (0..100).for_each(|_| send());
    until(|| counts.received.get() + counts.refused.get() >= before + 100, "all were looked at");
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a few") + 1;
    let received = usize::try_from(counts.received.get()).expect("a few");
    assert!((1..=4 + 8 * seconds).contains(&received), "{received} in {seconds} s");
    assert!(counts.refused.get() > 0);
    until(|| two.counted(&refused("too-often")) == counts.refused.get(), "all are counted");
    let samples = std::iter::from_fn(|| two.heard.samples.try_recv().ok()).count();
    assert!(samples < received, "{samples} of {received}");
}

#[test]
fn without_a_key_nothing_is_sent_and_with_the_next_one_it_goes_on() {
    let (first, second) = (free("127.0.0.1"), free("127.0.0.1"));
    let one = Member::start(1, first.expect("a port"), ClockFault::default());
    let two = Member::start(2, second.expect("a port"), ClockFault::default());
    one.probes.probe(std::slice::from_ref(&two.info), &ClockPolicy::default());
    two.probes.probe(std::slice::from_ref(&one.info), &ClockPolicy::default());
    let key = || ProbeKey::of([9; 32]);
    two.keys.seal_with(key(), one.info.incarnation, later());
    one.keys.hear_with(key(), two.info.incarnation, later());
    until(|| one.peer().counts.received.get() > 2, "one hears, and has had as many turns");
    assert_eq!(one.peer().counts.sent.get(), 0);
    for key in [10, 20, 30] {
        acquaint(&one, &two, key);
        let heard = two.peer().counts.received.get();
        until(|| two.peer().counts.received.get() > heard + 1, "it hears");
    }
    assert_eq!(two.peer().counts.refused.get(), 0);
}

/// Others that are not cut off show how much time has passed.
#[test]
fn a_member_that_is_cut_off_from_a_peer_sends_it_nothing_and_hears_nothing_of_it() {
    let all = [1, 2, 3]
        .map(|pod| Member::start(pod, free("127.0.0.1").expect("a port"), ClockFault::default()));
    let [one, two, three] = &all;
    acquaint(one, two, 10);
    acquaint(one, three, 20);
    one.probes.probe(&[two.info.clone(), three.info.clone()], &ClockPolicy::default());
    two.probes.probe(std::slice::from_ref(&one.info), &ClockPolicy::default());
    three.probes.probe(std::slice::from_ref(&one.info), &ClockPolicy::default());
    let peers = one.probes.peers().borrow().clone();
    let [of_two, of_three] = [0, 1].map(|at: usize| Arc::clone(&peers[at].counts));
    let more = |count: &Count, by: u64| {
        let before = count.get();
        until(|| count.get() >= before + by, "beacons go on");
    };
    for count in [&of_two.sent, &of_two.received, &of_three.sent, &of_three.received] {
        more(count, 1);
    }
    one.apart.send_replace(BTreeSet::from([two.info.incarnation.pod]));
    let (sent, received) = (of_two.sent.get(), of_two.received.get());
    more(&of_three.sent, 4);
    more(&two.peer().counts.sent, 4);
    // Whatever came before these was looked at.
    more(&of_three.received, 2);
    // One of each may have been under way.
    assert!(of_two.sent.get() <= sent + 1, "it sends on");
    assert!(of_two.received.get() <= received + 1, "it hears on");
    assert_eq!(of_two.refused.get(), 0);
    one.apart.send_replace(BTreeSet::new());
    more(&of_two.sent, 2);
    more(&of_two.received, 2);
}

#[test]
fn a_port_that_is_taken_is_no_failure_and_one_that_was_freed_is_there_at_once() {
    let address = free("127.0.0.1").expect("a port");
    let taken = UdpSocket::bind(address).expect("it is free");
    let one = Member::start(1, address, ClockFault::default());
    let other = Member::start(2, free("127.0.0.1").expect("a port"), ClockFault::default());
    until(|| other.counted(OPEN) == 1, "the other is open");
    one.probes.probe(std::slice::from_ref(&other.info), &ClockPolicy::default());
    assert_eq!(one.counted(OPEN), 0);
    drop(one);
    drop(taken);
    let again = Member::start(1, address, ClockFault::default());
    until(|| again.counted(OPEN) == 1, "it is open");
    drop(again);
    drop(UdpSocket::bind(address).expect("the thread has ended"));
}

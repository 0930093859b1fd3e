//! The thread, one turn at a time.

use std::net::UdpSocket;

use conclave_protocols::policy::ClockPolicy;
use conclave_protocols::{LocalTime, PodUid};

use super::*;
use crate::http::tests::double::Double;
use crate::metrics::Metrics;
use crate::probes::keys::ProbeKey;
use crate::probes::packet::{Beacon, Numbered};
use crate::probes::tests::later;
use crate::probes::{Heard, Source, Stamp, figures};

const ME: Incarnation = Incarnation { pod: PodUid(1), run: 1 };
const PEER: Incarnation = Incarnation { pod: PodUid(2), run: 1 };

/// A thread that nobody runs, which probes one peer.
struct Held {
    running: Running,
    metrics: Metrics,
    keys: Keyring,
    _peers: watch::Sender<Vec<Peer>>,
    _heard: Heard,
    _double: Double,
}

fn peer(incarnation: Incarnation, address: &str) -> Peer {
    Peer {
        incarnation,
        name: "pod-2".to_owned(),
        addresses: vec![address.parse().expect("an address")],
        assumptions: figures::assumptions(&ClockPolicy::default()),
        counts: Arc::default(),
    }
}

fn held() -> Held {
    held_with(vec![peer(PEER, "127.0.0.1:9")])
}

fn held_with(peers: Vec<Peer>) -> Held {
    let (metrics, keys) = (Metrics::new("orders"), Keyring::default());
    let (peers, probed) = watch::channel(peers);
    let (sender, samples) = mpsc::channel(64);
    let ((reports, reported), double) = (mpsc::channel(64), Double::new());
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let thread = Thread {
        me: ME,
        group: GroupHash::of(1),
        address: free.expect("a port"),
        reporter: Reporter::new(&double.group, ME),
        keys: keys.clone(),
        cuts: Cuts::none(),
        metrics: metrics.probes.clone(),
        peers: probed,
        samples: sender,
        reports,
        waker: Arc::new(Waker::new().expect("the kernel has such counters")),
    };
    let socket = Socket::open(thread.address, thread.reporter.clock()).expect("the port is free");
    let mut running = Running::new(thread, socket);
    running.take_peers();
    Held {
        running,
        metrics,
        keys,
        _peers: peers,
        _heard: Heard { samples, reports: reported },
        _double: double,
    }
}

/// How many were refused for that reason.
fn refused(metrics: &Metrics, reason: &str) -> u64 {
    let line =
        format!("conclave_clock_probes_refused_total{{reason=\"{reason}\",group=\"orders\"}} ");
    let text = metrics.encode();
    let count = text.lines().find_map(|found| found.strip_prefix(&line)).expect("it is counted");
    count.parse().expect("a number")
}

#[test]
fn a_flood_is_taken_in_parts_and_the_thread_listens_to_nothing_between_two() {
    let mut held = held();
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..150 {
        stranger.send_to(b"hello", held.running.thread.address).expect("it goes");
    }
    let (mut taken, mut pauses) = (0, Vec::new());
    while taken < 150 {
        let pause = held.running.turn();
        let before = std::mem::replace(&mut taken, refused(&held.metrics, "malformed"));
        let full = taken - before == 64;
        assert!(taken - before <= 64, "{before} {taken}");
        match pause {
            Pause::HearsNothing(left) => assert!(full && left <= Duration::from_millis(1)),
            Pause::Hears(_) => assert!(!full),
        }
        pauses.push(full);
        assert!(pauses.len() < 100_000, "{taken} have come");
    }
    assert!(pauses.contains(&true), "{pauses:?}");
}

#[test]
fn a_thread_that_ends_by_a_fault_has_no_port_open() {
    let Held { running, metrics, .. } = held();
    let open = &metrics.probes.socket;
    assert_eq!(open.get(), 1);
    let ended = std::thread::spawn(move || {
        let _running = running;
        panic!("a fault");
    });
    assert!(ended.join().is_err());
    assert_eq!(open.get(), 0);
}

/// A beacon of the peer, by the key that it has, which says when the one before it departed.
fn beacon(number: u64, heard: u64) -> [u8; LENGTH] {
    let at = Stamp { raw: LocalTime(1), source: Source::User };
    let numbered = |number| Some(Numbered { number, at }).filter(|one| one.number > 0);
    let beacon = Beacon {
        from: PEER,
        number,
        departed: numbered(number - 1),
        heard: numbered(heard),
        report: Report::default(),
    };
    beacon.seal(GroupHash::of(1), &ProbeKey::of([8; 32]))
}

#[test]
fn a_key_that_a_peer_acknowledges_nothing_by_is_forgotten() {
    let Held { mut running, keys, .. } = held();
    keys.hear_with(ProbeKey::of([8; 32]), PEER, later());
    keys.seal_with(ProbeKey::of([9; 32]), PEER, later());
    let begin = Instant::now();
    running.send(begin);
    let mut hear = |number, heard, after| {
        let now = begin + Duration::from_secs(after);
        running.hear(&beacon(number, heard), None, now);
        keys.ours(PEER).is_some()
    };
    assert!(hear(1, 0, 20), "it may be on the way");
    assert!(hear(2, 1, 25), "it was heard");
    assert!(hear(3, 1, 54), "that is little");
    assert!(!hear(4, 1, 56), "it says the same as long ago");
}

#[test]
fn a_sample_that_nobody_takes_in_time_is_counted() {
    let Held { mut running, metrics, keys, _heard: Heard { samples, .. }, .. } = held();
    keys.hear_with(ProbeKey::of([8; 32]), PEER, later());
    let begin = Instant::now();
    for number in 1..=66 {
        let now = begin + PERIOD * u32::try_from(number).expect("a few");
        running.hear(&beacon(number, 0), None, now);
    }
    assert_eq!((samples.len(), metrics.probes.dropped.get()), (64, 1));
}

#[test]
fn each_peer_has_a_beacon_in_each_round_and_each_is_the_first_of_its_train_in_turn() {
    for peers in 0..60 {
        let trains = trains(peers);
        let mut firsts = vec![0; peers];
        for round in 0..2 * TRAIN {
            let sent = (0..trains).map(|number| train(peers, round * trains + number));
            let sent: Vec<Vec<usize>> = sent.map(Iterator::collect).collect();
            for train in &sent {
                assert!(train.len() <= TRAIN && train.len() + 1 >= peers / trains, "{sent:?}");
                train.first().into_iter().for_each(|first| firsts[*first] += 1);
            }
            let mut all = sent.concat();
            all.sort_unstable();
            assert_eq!(all, (0..peers).collect::<Vec<_>>());
        }
        assert!(firsts.iter().all(|times| *times > 0), "{peers} peers: {firsts:?}");
    }
}

/// No packet may be sent to the second.
#[test]
fn a_beacon_that_cannot_be_sent_costs_none_before_it_in_its_train_its_stamp() {
    let other = Incarnation { pod: PodUid(3), run: 1 };
    let Held { mut running, keys, .. } =
        held_with(vec![peer(PEER, "127.0.0.1:9"), peer(other, "255.255.255.255:9")]);
    for to in [PEER, other] {
        keys.seal_with(ProbeKey::of([9; 32]), to, later());
    }
    for round in 0..4 {
        running.send(Instant::now());
        running.note_departures();
        let departed = running.probed[0].exchange.beacon(ME, 99, Report::default()).departed;
        let source = departed.map(|departed| departed.at.source);
        assert_eq!(source, Some(Source::Kernel), "round {round}");
    }
    assert_eq!(running.probed[1].peer.counts.sent.get(), 0);
}

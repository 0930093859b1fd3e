//! The laws of failure detection, in the simulator: peers that send heartbeats, over links that lose and delay, with
//! clocks that differ, and crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::detection::{Detector, Params, Stated, Threshold, Verdict};
use conclave_protocols::protocol::{Input, InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::sim::{Clock, Simulator, Waiting};
use conclave_protocols::{LocalTime, Named, Protocol};

/// One that sends a heartbeat to each other, and watches them all.
#[derive(Clone, Debug)]
struct Peer {
    me: u8,
    params: Params,
    detector: Detector<u8>,
    /// One heartbeat in so many is lost; none if zero.
    loses: u64,
    random: Random,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Beat;

impl Named for Beat {
    fn name(&self) -> &'static str {
        "beat"
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Due {
    Beat,
    Look,
}

impl Protocol for Peer {
    type Peer = u8;
    type Command = ();
    type Message = Beat;
    type Timer = Due;
    type Event = Verdict<u8>;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.detector.watch(now, &others(self.me));
        self.beat(out);
        self.arm(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(()) => {}
            Input::Message { from, message: Beat } => {
                self.detector.hear(now, from).into_iter().for_each(|verdict| out.tell(verdict));
            }
            Input::Timer(Due::Beat) => return self.beat(out),
            Input::Timer(Due::Look) => {
                self.detector.look(now).into_iter().for_each(|verdict| out.tell(verdict));
            }
        }
        self.arm(now, out);
    }
}

impl Peer {
    fn beat(&mut self, out: &mut OutboxOf<Self>) {
        for other in others(self.me) {
            if self.loses == 0 || !self.random.once_in(self.loses) {
                out.send(other, Beat);
            }
        }
        out.arm(Due::Beat, self.params.interval);
    }

    fn arm(&self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if let Some(next) = self.detector.next() {
            out.arm(Due::Look, now.until(next));
        }
    }
}

const PEERS: u8 = 4;
const INTERVAL: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);

fn others(me: u8) -> BTreeSet<u8> {
    (0..PEERS).filter(|peer| *peer != me).collect()
}

/// Clocks go wrong by 200 ppm at most, one way or the other.
fn group(seed: u64, stated: Stated, loses: u64) -> Simulator<Peer> {
    let params = stated.with(INTERVAL);
    let mut sim = Simulator::new(seed);
    for me in 0..PEERS {
        let rate_ppm = [0, 200, -200, 100][usize::from(me)];
        let clock = Clock { offset: SECOND * u32::from(me), rate_ppm };
        let (detector, random) = (Detector::new(params), Random::new(seed ^ u64::from(me)));
        sim.add_with_clock(me, Peer { me, params, detector, loses, random }, clock);
    }
    sim
}

fn rules() -> [Stated; 4] {
    let timeout = Some(INTERVAL * 2);
    let phi = |level| Stated { threshold: Threshold::new(level), ..Stated::default() };
    [Stated::default(), Stated { timeout, threshold: None }, phi(8), phi(1)]
}

/// A peer crashes at any moment, over slow links that lose one heartbeat in ten. All that live suspect it within a
/// timeout, a transfer and what their clocks differ by, or did already; and nobody trusts it again.
#[test]
fn a_member_that_crashes_is_suspected_by_all_in_time_and_for_good() {
    let slowest = Duration::from_millis(120);
    for stated in rules() {
        for seed in 0..60 {
            let mut sim = group(seed, stated, 10);
            sim.set_delay(Duration::from_millis(1), slowest);
            let life = SECOND * 5 + sim.random().below(SECOND * 5);
            sim.run_for(life);
            let dead = u8::try_from(seed % u64::from(PEERS)).expect("small");
            sim.crash(dead);
            let bound = stated.with(INTERVAL).timeout + slowest + Duration::from_millis(2);
            sim.run_for(bound);
            let suspect = |sim: &Simulator<Peer>| {
                let node = |peer| sim.node(peer).expect("it lives");
                others(dead).into_iter().all(|peer| node(peer).detector.is_suspected(dead))
            };
            assert!(suspect(&sim), "{stated:?} {seed}");
            for _ in 0..100 {
                sim.run_for(INTERVAL);
                assert!(suspect(&sim), "{stated:?} {seed}: for good");
            }
        }
    }
}

/// A living member is trusted again with the next heartbeat that arrives, and each suspicion of it is a mistake that is
/// reported once, with its length.
#[test]
fn a_member_that_is_heard_is_trusted_again_and_each_suspicion_of_the_living_is_a_mistake() {
    for stated in rules() {
        for seed in 0..40 {
            let mut sim = group(seed, stated, 3);
            sim.run_for(SECOND * 60);
            sim.cut(0, 1);
            sim.run_for(SECOND * 10);
            assert!(sim.node(1).is_some_and(|peer| peer.detector.is_suspected(0)), "{seed}");
            sim.join(0, 1);
            sim.run_for(SECOND * 60);
            check_that_all_are_mistakes(&mut sim, stated, seed);
        }
    }
}

fn check_that_all_are_mistakes(sim: &mut Simulator<Peer>, stated: Stated, seed: u64) {
    let mut suspected = BTreeMap::new();
    let (mut count, mut longest) = (0_u64, Duration::ZERO);
    for (at, by, verdict) in sim.take_notified() {
        match verdict {
            Verdict::Suspected(peer) => {
                assert_eq!(suspected.insert((by, peer), at), None, "{seed}: once");
            }
            Verdict::Trusted { peer, mistaken } => {
                let since = suspected.remove(&(by, peer)).expect("it was suspected");
                let length = mistaken.expect("it is watched, so it was heard");
                assert!(length.abs_diff(at.saturating_sub(since)) < Duration::from_millis(5));
                (count, longest) = (count + 1, longest.max(length));
            }
        }
    }
    assert!(count > 0 && longest > SECOND * 8, "{stated:?} {seed}: {count}, {longest:?}");
    for (by, peer) in suspected.keys() {
        let node = sim.node(*by).expect("it lives");
        assert!(node.detector.is_suspected(*peer), "{seed}: who is not trusted is suspected");
    }
}

/// Of heartbeats that are lost with probability p, of which k are due in a timeout, (1 - p) p^k mistakes in each
/// interval.
#[test]
fn mistakes_are_as_rare_as_the_formula_of_the_timeout_has_it() {
    for (halves, due) in [(5, 2), (7, 3)] {
        let stated = Stated { timeout: Some(INTERVAL * halves / 2), threshold: None };
        let mut sim = group(7, stated, 4);
        let (intervals, pairs) = (20_000, f64::from(u32::from(PEERS) * (u32::from(PEERS) - 1)));
        sim.run_for(INTERVAL * intervals);
        let is_suspicion = |verdict: &Verdict<u8>| matches!(verdict, Verdict::Suspected(_));
        let counted =
            sim.take_notified().iter().filter(|(.., verdict)| is_suspicion(verdict)).count();
        let counted = f64::from(u32::try_from(counted).expect("few"));
        let expected = 0.75 * 0.25_f64.powi(due) * f64::from(intervals) * pairs;
        assert!((counted / expected - 1.0).abs() < 0.1, "{halves}: {counted}, not {expected}");
    }
}

/// Heartbeats that are all in time cost no mistake, and phi learns what is in time: it suspects sooner than the timeout.
#[test]
fn regular_heartbeats_cost_no_mistake_and_phi_finds_a_crash_sooner_than_the_timeout() {
    let detection_time = |stated| {
        let mut sim = group(11, stated, 0);
        sim.set_delay(Duration::from_millis(1), Duration::from_millis(30));
        sim.run_for(SECOND * 600);
        assert!(sim.take_notified().is_empty(), "{stated:?}");
        sim.crash(3);
        let suspects = |sim: &Simulator<Peer>, peer| {
            sim.node(peer).is_some_and(|p| p.detector.is_suspected(3))
        };
        let step = Duration::from_millis(1);
        let steps = (1..2_000).find(|_| {
            sim.run_for(step);
            (0..3).all(|peer| suspects(&sim, peer))
        });
        step * steps.expect("it is suspected")
    };
    let (timeout, phi) = (detection_time(rules()[0]), detection_time(rules()[2]));
    assert!(phi + INTERVAL < timeout, "{phi:?}, {timeout:?}");
}

/// A process that was paused suspects nobody when it goes on, though its timers go off before it reads what was sent to it
/// meanwhile.
#[test]
fn a_pause_of_the_own_process_is_nobodys_silence() {
    for stated in [Stated::default(), rules()[2]] {
        let mut sim = group(3, stated, 0);
        sim.run_for(SECOND * 30);
        sim.freeze(2);
        sim.run_for(SECOND * 7);
        sim.take_notified();
        sim.thaw_in_order(2, |waiting| u64::from(!matches!(waiting, Waiting::Timer(_))));
        sim.run_for(SECOND * 10);
        let by_it = sim.take_notified().iter().filter(|(_, by, _)| *by == 2).count();
        assert_eq!(by_it, 0, "{stated:?}");
        let trusted = |peer| sim.node(peer).is_some_and(|peer| !peer.detector.is_suspected(2));
        assert!([0, 1, 3].into_iter().all(trusted), "{stated:?}: and is trusted again");
    }
}

//! Clocks and delays of the kind that others publish figures for, in virtual time.
//!
//! The delays and clocks are those of chrony's own comparison (*Comparison of NTP implementations*,
//! chrony-project.org): a fixed one-way delay and an exponential one on top of it, a frequency that
//! walks at random. The figures beside them are of a search for the widest margin without pruning,
//! under the same distributions, four members against one.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times of a test bed are positive, and far from 2^53 ns"
)]

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link};
use conclave_protocols::random::Random;

const SECOND: f64 = 1e9;
const US: f64 = 1e3;
const MEMBERS: usize = 5;
const WARM_UP_S: u32 = 210;
const RUN_S: u32 = 810;
const LOOKS: u32 = 4;

/// What a test bed is like.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// From the centre to a member and back, in microseconds.
    pub(crate) base_us: [f64; 2],
    pub(crate) jitter_us: f64,
    /// One packet in ten waits for a millisecond more, on average.
    pub(crate) has_tail: bool,
    /// Of the frequency: a random walk, in parts per billion and root second.
    pub(crate) wander_ppb: f64,
    /// Of the frequency: an amplitude in parts per million, with a period of about ten minutes.
    pub(crate) sine_ppm: f64,
    /// Exchanges begun by each side in a second.
    pub(crate) rate: u32,
    /// For how long samples count.
    pub(crate) window_s: u64,
    /// What is assumed of the wander.
    pub(crate) assumed_ppb: u64,
}

/// Figures in nanoseconds.
#[derive(Default)]
pub(crate) struct Figures {
    /// How wrong the estimates of the members against the centre are.
    pub(crate) error: Vec<f64>,
    /// How far two of the five are apart at most, by their estimates.
    pub(crate) apart: Vec<f64>,
    /// Half the width of the bound.
    pub(crate) bound: Vec<f64>,
    pub(crate) violations: u32,
}

impl Scene {
    pub(crate) fn run(&self, seed: u64) -> Figures {
        let mut random = Random::new(seed);
        let clocks: Vec<Clock> =
            (0..MEMBERS).map(|member| self.clock(member, &mut random)).collect();
        let assumptions = Assumptions {
            max_drift_ppm: 100,
            wander_ppb: self.assumed_ppb,
            min_delay_ns: 0,
            stamp_slack_ns: 1,
        };
        let mut links =
            vec![Link::new(assumptions, Duration::from_secs(self.window_s)); MEMBERS - 1];
        let phases: Vec<[f64; 2]> =
            links.iter().map(|_| [(); 2].map(|()| uniform(&mut random))).collect();
        let mut figures = Figures::default();
        for step in 0..RUN_S * self.rate {
            let start = f64::from(step) * SECOND / f64::from(self.rate);
            for (member, link) in links.iter_mut().enumerate() {
                for (is_ours, phase) in [true, false].into_iter().zip(phases[member]) {
                    let at = start + phase * 0.8 * SECOND / f64::from(self.rate);
                    self.exchange(
                        link,
                        [&clocks[0], &clocks[member + 1]],
                        is_ours,
                        at,
                        &mut random,
                    );
                }
            }
            if step % (self.rate.div_ceil(LOOKS)) == 0 && step > WARM_UP_S * self.rate {
                figures.look(&links, &clocks, start + 0.97 * SECOND / f64::from(self.rate));
            }
        }
        figures
    }

    fn clock(&self, member: usize, random: &mut Random) -> Clock {
        let frequency = (uniform(random) - 0.5) * 100e-6;
        let period = 600.0 * (1.0 + 0.02 * uniform(random)) + 2.0 * member as f64;
        let phase = uniform(random) * std::f64::consts::TAU;
        let mut walk = 0.0;
        let mut seconds = vec![0.0];
        for second in 0..RUN_S + 10 {
            walk += normal(random) * self.wander_ppb * 1e-9;
            let turn = f64::from(second) * std::f64::consts::TAU / period + phase;
            let rate = frequency + walk + self.sine_ppm * 1e-6 * turn.sin();
            seconds.push(seconds[seconds.len() - 1] + rate * SECOND);
        }
        Clock { start: 1_000_000_000_000 + random.up_to(1 << 40), seconds }
    }

    /// A packet, and one back at once.
    fn exchange(
        &self,
        link: &mut Link,
        ends: [&Clock; 2],
        is_ours: bool,
        at: f64,
        random: &mut Random,
    ) {
        let mut now = at;
        for is_ours in [is_ours, !is_ours] {
            let base = self.base_us[usize::from(!is_ours)];
            let tail =
                if self.has_tail && random.once_in(10) { exponential(random) * 1e6 } else { 0.0 };
            let arrival = now + (base + self.jitter_us * exponential(random)) * US + tail;
            let (from, to) = if is_ours { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
            let (departed, arrived) = (from.reading(now), to.reading(arrival));
            if is_ours {
                link.sent(departed, arrived);
            } else {
                link.received(departed, arrived);
            }
            now = arrival;
        }
    }
}

impl Figures {
    fn look(&mut self, links: &[Link], clocks: &[Clock], at: f64) {
        let mut errors = vec![0.0];
        for (link, clock) in links.iter().zip(&clocks[1..]) {
            let own = clocks[0].reading(at);
            let relation = link.relation(own).expect("packets come and go");
            assert_eq!(relation.at, own, "a packet from the future");
            let offset = relation.offset;
            let truth = clock.ahead(at) - clocks[0].ahead(at);
            let apart = clock.start.wrapping_sub(clocks[0].start).cast_signed();
            let of = |ns: i64| (ns - apart) as f64;
            let error = of(offset.ns) - truth;
            self.violations += u32::from(of(offset.least_ns) > truth || of(offset.most_ns) < truth);
            self.error.push(error.abs());
            self.bound.push((offset.most_ns - offset.least_ns) as f64 / 2.0);
            errors.push(error);
        }
        let most = errors.iter().copied().fold(f64::MIN, f64::max);
        self.apart.push(most - errors.iter().copied().fold(f64::MAX, f64::min));
    }
}

/// A clock: what it shows at the start, and by how much it is ahead of true time after each second.
struct Clock {
    start: u64,
    seconds: Vec<f64>,
}

impl Clock {
    fn ahead(&self, at: f64) -> f64 {
        let (second, share) = ((at / SECOND) as usize, at / SECOND % 1.0);
        self.seconds[second] * (1.0 - share) + self.seconds[second + 1] * share
    }

    fn reading(&self, at: f64) -> u64 {
        self.start + (at + self.ahead(at)) as u64
    }
}

/// The value that `share` of the figures do not exceed.
pub(crate) fn quantile(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[((figures.len() - 1) as f64 * share).round() as usize]
}

fn uniform(random: &mut Random) -> f64 {
    (random.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

fn exponential(random: &mut Random) -> f64 {
    -(1.0 - uniform(random)).ln()
}

/// By the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    (2.0 * exponential(random)).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

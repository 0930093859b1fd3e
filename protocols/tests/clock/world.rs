//! Members with drifting clocks, on links that delay, reorder, repeat and lose (`transit`).

#[path = "world/transit.rs"]
mod transit;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::clock::{
    AnyClock, AnyMessage, AnyTimer, ClockMap, Event, GroupClock, Link, Params, Source, Transfer,
    VirtualClock,
};
use conclave_protocols::policy::ClockAlgorithm;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::{Effect, Epoch, Input, LocalTime, MemberId, Outbox, Protocol, View};

use self::transit::PROBE;
use crate::lies::Lie;
use crate::stated::goes_on;
use crate::weather::link;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
const PERIOD: u64 = 20 * SECOND;

/// A number from `low` to `high`.
pub(crate) fn between(random: &mut Random, low: i64, high: i64) -> i64 {
    low + i64::try_from(random.up_to(high.abs_diff(low) + 1)).expect("a small range")
}

/// One member: an oscillator, a protocol, and the map that its readers have.
pub(crate) struct Member {
    pub(crate) node: AnyClock,
    /// What it shows.
    pub(crate) transfer: Transfer,
    /// What the probes with the leader say.
    link: Link,
    /// What it learned of others when it last compared clocks.
    pub(crate) sources: BTreeMap<MemberId, Source>,
    pub(crate) published: ClockMap,
    /// Its raw clock's rate, less one, in parts per billion.
    pub(crate) rate_ppb: i64,
    pub(crate) epoch: u64,
    pub(crate) leader: usize,
    /// It left its view and is not in the next one yet.
    pub(crate) is_sealed: bool,
    /// Members hear one another on the same island only.
    pub(crate) island: u32,
    /// What it states of its clock, if that is not the truth.
    pub(crate) lies: Option<Lie>,
    /// By how much longer what it sends and what it is sent is under way.
    pub(crate) slow_ns: u64,
    /// Its raw clock's rate wanders by so many parts per billion on either side, from that moment of the period on.
    pub(crate) wanders: Option<(i64, u64)>,
    /// Until then it does nothing, and what comes waits.
    pub(crate) frozen_until: u64,
    /// The map that was made last, if it has a time.
    made: Option<ClockMap>,
    raw_zero: u64,
    timers: BTreeMap<AnyTimer, u64>,
    last_publication: u64,
    last_shown: Option<i64>,
}

enum Happening {
    Arrives {
        to: usize,
        from: usize,
        epoch: u64,
        message: AnyMessage,
    },
    Fires {
        member: usize,
        epoch: u64,
        timer: AnyTimer,
        armed: u64,
    },
    Publishes {
        member: usize,
        map: Box<ClockMap>,
    },
    Seals {
        member: usize,
    },
    Enters {
        member: usize,
        view: View,
        settings: ClockSettings,
    },
    /// It sends a probe to the leader, and the leader one back.
    Probes {
        member: usize,
    },
}

/// By what the clocks of a view are kept together.
#[derive(Clone, Copy)]
pub(crate) struct ClockSettings {
    pub(crate) algorithm: ClockAlgorithm,
    pub(crate) params: Params,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) now: u64,
    pub(crate) members: Vec<Member>,
    /// The settings of the clocks of the next view.
    pub(crate) settings: ClockSettings,
    /// Pairs that do not hear one another, the lower rank first. What is on one island need not be transitive.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// The same for clock probes.
    pub(crate) probe_cuts: BTreeSet<(usize, usize)>,
    /// Whether clock probes pass.
    pub(crate) probes: bool,
    /// Whether a probe takes less than two microseconds, and not up to 160.
    pub(crate) is_quick: bool,
    /// If no message is lost, comes twice, or is slow: by how much one takes longer than another at most.
    pub(crate) calm: Option<u64>,
    /// How often something happened that a run is about.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    /// How many messages of each name were sent.
    pub(crate) sent: BTreeMap<&'static str, u64>,
    random: Random,
    queue: BTreeMap<(u64, u64), Happening>,
    count: u64,
}

impl Happening {
    /// Whose process it needs.
    fn of(&self) -> Option<usize> {
        match self {
            Self::Arrives { to: member, .. }
            | Self::Fires { member, .. }
            | Self::Seals { member }
            | Self::Enters { member, .. }
            | Self::Probes { member } => Some(*member),
            Self::Publishes { .. } => None,
        }
    }
}

impl Member {
    pub(crate) fn raw(&self, now: u64) -> u64 {
        let mut shift = i128::from(now) * i128::from(self.rate_ppb) / 1_000_000_000;
        if let Some((ppb, phase)) = self.wanders {
            // The rate rises from the least to the most and falls again, so much in each half of a period.
            let (half, at) = (i128::from(PERIOD / 2), i128::from((now + phase) % (PERIOD / 2)));
            let gained = i128::from(ppb) * at * (at - half) / half / 1_000_000_000;
            let falls = (now + phase) % PERIOD >= PERIOD / 2;
            shift += if falls { -gained } else { gained };
        }
        u64::try_from(i128::from(self.raw_zero) + i128::from(now) + shift).expect("raw time")
    }
}

impl World {
    /// Members whose raw clocks run at these rates and whose wall clocks are off by this much; the
    /// last is the daemon of the first view.
    pub(crate) fn new(
        seed: u64,
        settings: ClockSettings,
        rates_ppb: &[i64],
        off_ns: &[i64],
    ) -> Self {
        let mut random = Random::new(seed);
        let leader = u32::try_from(rates_ppb.len() - 1).expect("a small group");
        let view = View { epoch: Epoch(1), size: leader + 1, leader: MemberId(leader) };
        let members = view.members().zip(rates_ppb.iter().zip(off_ns));
        let members = members.map(|(me, (rate_ppb, off_ns))| {
            let raw_zero = random.up_to(1 << 50);
            let utc_offset = EPOCH_NS + off_ns - i64::try_from(raw_zero).expect("below 2^50");
            let clock = VirtualClock::new(utc_offset, settings.params.rates());
            Member {
                published: clock.map(),
                transfer: Transfer::new(clock.clone()),
                link: link(seed, settings.params),
                node: AnyClock::with(settings.algorithm, settings.params, (me, view), clock),
                sources: BTreeMap::new(),
                rate_ppb: *rate_ppb,
                epoch: 1,
                leader: leader as usize,
                is_sealed: true,
                island: 0,
                lies: None,
                slow_ns: 0,
                wanders: None,
                frozen_until: 0,
                made: None,
                raw_zero,
                timers: BTreeMap::new(),
                last_publication: 0,
                last_shown: None,
            }
        });
        let members: Vec<Member> = members.collect();
        let (queue, sent) = (BTreeMap::new(), BTreeMap::new());
        let cuts = BTreeSet::new();
        // Where no probe passes, the algorithm's messages have to do.
        let probes = !seed.is_multiple_of(4);
        let mut world = Self {
            seed,
            now: 0,
            members,
            settings,
            cuts,
            probe_cuts: BTreeSet::new(),
            probes,
            is_quick: false,
            calm: None,
            seen: BTreeMap::new(),
            sent,
            random,
            queue,
            count: 0,
        };
        for member in 0..world.members.len() {
            world.soon(PROBE, Happening::Probes { member });
            world.soon(20 * MS, Happening::Enters { member, view, settings });
        }
        world
    }

    /// Some members leave their view, and when the last has left it they enter the next one, not all
    /// at once.
    pub(crate) fn change_view(&mut self, epoch: u64, leader: u32, members: &[usize]) {
        let size = u32::try_from(self.members.len()).expect("a small group");
        let view = View { epoch: Epoch(epoch), size, leader: MemberId(leader) };
        for member in members {
            self.soon(20 * MS, Happening::Seals { member: *member });
        }
        for member in members {
            let after = 20 * MS + self.random.up_to(300 * MS);
            let enters = Happening::Enters { member: *member, view, settings: self.settings };
            self.at(self.now + after, enters);
        }
    }

    /// A process begins anew, with a clock that was never synchronised and that is off by hours.
    pub(crate) fn restart(&mut self, member: usize) {
        let it = &mut self.members[member];
        let offset = EPOCH_NS - i64::try_from(it.raw_zero).expect("below 2^50");
        let clock = VirtualClock::new(offset + 7_200_000_000_000, self.settings.params.rates());
        (it.published, it.last_shown, it.is_sealed) = (clock.map(), None, true);
        it.made = None;
        let view = View { epoch: Epoch(it.epoch), size: 1, leader: id(member) };
        let ClockSettings { algorithm, params } = self.settings;
        it.transfer = Transfer::new(clock.clone());
        it.link = link(self.seed, params);
        it.node = AnyClock::with(algorithm, params, (id(member), view), clock);
        let gone = |one: &Happening| matches!(one, Happening::Publishes { member: of, .. } if *of == member);
        self.queue.retain(|_, one| !gone(one));
    }

    /// Runs until a moment, and looks at all clocks at every event and every few milliseconds.
    pub(crate) fn run_until(&mut self, end: u64, look: &mut impl FnMut(&Self)) {
        while self.now < end {
            self.step(end);
            self.check();
            look(self);
        }
    }

    /// Runs without the laws: what they assume is broken.
    pub(crate) fn run_unchecked(&mut self, end: u64, look: &mut impl FnMut(&Self)) {
        while self.now < end {
            self.step(end);
            look(self);
        }
    }

    fn step(&mut self, end: u64) {
        let step = self.now + 1 + self.random.up_to(10 * MS);
        let next = self.queue.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
        self.now = next.min(step).min(end);
        if next <= self.now {
            let (_, happening) = self.queue.pop_first().expect("a next event");
            self.happen(happening);
        }
    }

    /// The bound that readers of a member see, if it is synchronised.
    pub(crate) fn bound(&self, member: usize) -> Option<u64> {
        let member = &self.members[member];
        member.published.error_ns(member.raw(self.now))
    }

    pub(crate) fn shown(&self, member: usize) -> i64 {
        let member = &self.members[member];
        member.published.now_ns(member.raw(self.now))
    }

    /// What the clock of a member's algorithm shows.
    fn read(&self, member: usize) -> i64 {
        let member = &self.members[member];
        member.node.clock().map().now_ns(member.raw(self.now))
    }

    fn check(&mut self) {
        let now = self.now;
        let mut least_latest = (i64::MAX, usize::MAX);
        let mut most_earliest = (i64::MIN, usize::MAX);
        for (id, member) in
            self.members.iter_mut().enumerate().filter(|(_, one)| one.lies.is_none())
        {
            let reading = member.published.reading(member.raw(now));
            let (Some(earliest), Some(latest)) = (reading.earliest_ns(), reading.latest_ns())
            else {
                continue;
            };
            let last = member.last_shown.replace(reading.now_ns);
            assert!(last <= Some(reading.now_ns), "seed {}: m{id} went back at {now}", self.seed);
            least_latest = least_latest.min((latest, id));
            most_earliest = most_earliest.max((earliest, id));
        }
        let ((latest, a), (earliest, b)) = (least_latest, most_earliest);
        assert!(
            earliest <= latest,
            "seed {}: at {now}, m{a} and m{b} are {} ns further apart than their bounds",
            self.seed,
            earliest - latest
        );
    }

    fn happen(&mut self, happening: Happening) {
        let until = happening.of().map_or(0, |member| self.members[member].frozen_until);
        if self.now < until {
            *self.seen.entry("thawed").or_default() += 1;
            self.at(until, happening);
            return;
        }
        match happening {
            Happening::Arrives { to, from, epoch, message } => {
                let is_heard = self.members[from].island == self.members[to].island
                    && !self.cuts.contains(&(from.min(to), from.max(to)));
                let member = &self.members[to];
                if is_heard && !member.is_sealed && member.epoch == epoch {
                    let from = id(from);
                    self.handle(to, Input::Message { from, message });
                }
            }
            Happening::Fires { member, epoch, timer, armed } => {
                let it = &self.members[member];
                let fires = it.timers.get(&timer) == Some(&armed) && it.epoch == epoch;
                if fires && !it.is_sealed {
                    self.handle(member, Input::Timer(timer));
                }
            }
            Happening::Publishes { member, map } => self.members[member].published = *map,
            Happening::Seals { member } => self.members[member].is_sealed = true,
            Happening::Enters { member, view, settings } => self.enter(member, view, settings),
            Happening::Probes { member } => self.probe(member),
        }
    }

    fn enter(&mut self, member: usize, view: View, settings: ClockSettings) {
        let raw = LocalTime(self.members[member].raw(self.now));
        let it = &mut self.members[member];
        let leads = view.leader == id(member);
        let base = Epoch(view.epoch.0 - 1);
        let clock = it.transfer.clock().clone().made_from(Some(base));
        it.transfer.enter(leads.then_some(LocalTime(0)), true, false);
        it.leader = view.leader.0 as usize;
        it.link = link(self.seed, settings.params);
        it.node = AnyClock::with(settings.algorithm, settings.params, (id(member), view), clock);
        it.epoch = view.epoch.0;
        it.is_sealed = false;
        it.timers.clear();
        let mut out = Outbox::default();
        it.node.start(raw, &mut out);
        self.carry_out(member, out);
    }

    fn handle(&mut self, member: usize, input: InputOf<AnyClock>) {
        let raw = LocalTime(self.members[member].raw(self.now));
        let mut out = Outbox::default();
        self.members[member].node.handle(raw, input, &mut out);
        self.carry_out(member, out);
    }

    fn carry_out(&mut self, member: usize, mut out: OutboxOf<AnyClock>) {
        let epoch = self.members[member].epoch;
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send(member, to.0 as usize, epoch, &message),
                Effect::Arm { timer, after } => {
                    self.count += 1;
                    let armed = self.count;
                    self.members[member].timers.insert(timer, armed);
                    let fires = Happening::Fires { member, epoch, timer, armed };
                    self.at(self.now + nanos(after), fires);
                }
                Effect::Disarm(timer) => {
                    self.members[member].timers.remove(&timer);
                }
                Effect::Tell(Event::Compared(sources)) => self.members[member].sources = sources,
                Effect::Tell(Event::Adjusted) => {
                    let it = &mut self.members[member];
                    it.transfer.adjusted(LocalTime(it.raw(self.now)), it.node.clock());
                    self.publish(member);
                }
                Effect::Tell(Event::Stated(known)) => {
                    let it = &mut self.members[member];
                    let before = it.transfer.map().known;
                    assert!(it.transfer.stated(LocalTime(it.raw(self.now)), *known));
                    let is_followed = it.transfer.map().known != before;
                    *self.seen.entry("followed").or_default() += u64::from(is_followed);
                    self.publish(member);
                }
            }
        }
    }

    fn publish(&mut self, member: usize) {
        let map = self.members[member].transfer.map();
        let raw = self.members[member].raw(self.now);
        let made = self.members[member].made.replace(map).filter(|made| made.synced_raw.is_some());
        if let Some(made) = made {
            goes_on(&made, &map, raw, self.seed);
        }
        let at = self.now + self.random.up_to(ClockMap::SWITCH_NS);
        let at = at.max(self.members[member].last_publication);
        self.members[member].last_publication = at;
        self.at(at, Happening::Publishes { member, map: Box::new(map) });
    }

    fn soon(&mut self, within: u64, happening: Happening) {
        let at = self.now + self.random.up_to(within);
        self.at(at, happening);
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.count += 1;
        self.queue.insert((at, self.count), happening);
    }
}

fn id(member: usize) -> MemberId {
    MemberId(u32::try_from(member).expect("a small group"))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}

/// The true time at which a world begins.
pub(crate) const EPOCH_NS: i64 = 1_800_000_000_000_000_000;

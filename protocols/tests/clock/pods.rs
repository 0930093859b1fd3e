//! Processes with clocks that go from view to view, whose messages take no time.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::clock::{
    AnyClock, AnyMessage, AnyTimer, ClockMap, Event, GroupClock, NextView, State, Succession,
    Transfer, VirtualClock,
};
use conclave_protocols::policy::ClockAlgorithm;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{
    Effect, Epoch, Incarnation, Input, LocalTime, MemberId, Outbox, PodUid, Protocol, View,
};

use crate::still::{params, rates};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
/// A leader lease.
pub(crate) const LEASE: u64 = 600 * MS;

/// One process.
pub(crate) struct Pod {
    pub(crate) transfer: Transfer,
    pub(crate) succession: Succession,
    pub(crate) node: Option<AnyClock>,
    pub(crate) timers: BTreeMap<AnyTimer, u64>,
    pub(crate) members: Vec<usize>,
    pub(crate) is_cut_off: bool,
}

/// Processes whose raw clocks agree and whose messages take no time. Wall clocks are an hour apart.
pub(crate) struct Pods {
    pub(crate) algorithm: ClockAlgorithm,
    pub(crate) now: u64,
    pub(crate) all: Vec<Pod>,
    /// When the leader that enters next asked the register, if not just now.
    pub(crate) asked: Option<u64>,
    /// Something arbitrates in the views that they enter.
    pub(crate) are_arbitrated: bool,
}

impl Pods {
    pub(crate) fn new(algorithm: ClockAlgorithm, count: i64) -> Self {
        let pod = |index: i64| Pod {
            transfer: Transfer::new(VirtualClock::new(index * 3_600_000_000_000, rates())),
            succession: Succession::default(),
            node: None,
            timers: BTreeMap::new(),
            members: Vec::new(),
            is_cut_off: false,
        };
        let all = (1..=count).map(pod).collect();
        Self { algorithm, now: SECOND, all, asked: None, are_arbitrated: true }
    }

    /// These enter the next view, of which the first leads. Nobody else leads for a leader lease.
    pub(crate) fn enter(&mut self, epoch: u64, base: u64, members: &[usize]) {
        self.begin(epoch, base, members, members);
        self.lead(members);
    }

    /// Some of the members of a view enter it, of which the first leads.
    pub(crate) fn begin(&mut self, epoch: u64, base: u64, members: &[usize], who: &[usize]) {
        let size = u32::try_from(members.len()).expect("a small group");
        let view = View { epoch: Epoch(epoch), size, leader: MemberId(0) };
        let asked = LocalTime(self.asked.take().unwrap_or(self.now));
        let ranked = members.iter().enumerate().rev();
        for (rank, index) in ranked.filter(|(_, index)| who.contains(index)) {
            let (now, me) = (LocalTime(self.now), id(rank));
            let pod = &mut self.all[*index];
            let next = NextView {
                epoch: view.epoch,
                base: Some(Epoch(base)).filter(|_| !view.epoch.is_unarbitrated()),
                members: members.iter().copied().map(incarnation).collect(),
                leads_since: (rank == 0).then_some(asked),
                leader_lease: Duration::from_nanos(LEASE),
                longest_leader_lease: Duration::from_nanos(LEASE),
                is_arbitrated: self.are_arbitrated,
            };
            let clock = pod.succession.enter(now, next, &mut pod.transfer);
            pod.members = members.to_vec();
            pod.timers.clear();
            let mut node = AnyClock::with(self.algorithm, params(), (me, view), clock);
            let mut out = Outbox::default();
            node.start(now, &mut out);
            pod.node = Some(node);
            self.carry_out(*index, out);
        }
    }

    pub(crate) fn lead(&mut self, members: &[usize]) {
        for index in members {
            self.all[*index].transfer.led(LocalTime(self.now + LEASE));
        }
    }

    /// So much time passes, in which these have their leases extended.
    pub(crate) fn pass(&mut self, ns: u64, led: &[usize]) {
        let end = self.now + ns;
        while self.now < end {
            let due = |pod: &Pod| pod.timers.values().min().copied();
            let next = self.all.iter().filter_map(due).min().unwrap_or(end);
            self.now = next.max(self.now).min(end).min(self.now + 100 * MS);
            self.lead(led);
            for index in 0..self.all.len() {
                let now = self.now;
                let fires = |(timer, at): (&AnyTimer, &u64)| (*at <= now).then_some(*timer);
                let timers: Vec<_> = self.all[index].timers.iter().filter_map(fires).collect();
                for timer in timers {
                    self.all[index].timers.remove(&timer);
                    self.handle(index, Input::Timer(timer));
                }
            }
        }
    }

    pub(crate) fn handle(&mut self, index: usize, input: InputOf<AnyClock>) {
        let mut out = Outbox::default();
        let Some(node) = &mut self.all[index].node else { return };
        node.handle(LocalTime(self.now), input, &mut out);
        self.carry_out(index, out);
    }

    pub(crate) fn carry_out(&mut self, index: usize, mut out: OutboxOf<AnyClock>) {
        for effect in out.drain() {
            let now = LocalTime(self.now);
            let pod = &mut self.all[index];
            match effect {
                Effect::Send { to, message } => self.send(index, to, message),
                Effect::Arm { timer, after } => {
                    pod.timers.insert(timer, now.after(after).0);
                }
                Effect::Disarm(timer) => {
                    pod.timers.remove(&timer);
                }
                Effect::Tell(Event::Adjusted) => {
                    let clock = pod.node.as_ref().map(|node| node.clock().clone());
                    pod.transfer.adjusted(now, &clock.expect("it runs"));
                }
                Effect::Tell(Event::Stated(known)) => assert!(pod.transfer.stated(now, *known)),
                Effect::Tell(Event::Compared(_)) => {}
            }
        }
    }

    pub(crate) fn send(&mut self, index: usize, to: MemberId, message: AnyMessage) {
        let from = &self.all[index];
        let rank = from.members.iter().position(|member| *member == index).expect("a member");
        let to = from.members[to.0 as usize];
        let is_heard = self.all[to].succession.epoch() == from.succession.epoch()
            && !from.is_cut_off
            && !self.all[to].is_cut_off;
        if is_heard {
            self.handle(to, Input::Message { from: id(rank), message });
        }
    }

    pub(crate) fn map(&self, index: usize) -> ClockMap {
        self.all[index].transfer.map()
    }

    pub(crate) fn state(&self, index: usize) -> State {
        self.map(index).reading(self.now).state
    }

    pub(crate) fn shown(&self, index: usize) -> i64 {
        self.map(index).now_ns(self.now)
    }

    pub(crate) fn are_apart(&self, one: usize, two: usize) -> bool {
        let error = |index| self.map(index).error_ns(self.now).unwrap_or(u64::MAX / 2);
        self.shown(one).abs_diff(self.shown(two)) > error(one) + error(two)
    }
}

pub(crate) fn incarnation(index: usize) -> Incarnation {
    Incarnation { pod: PodUid(index as u128 + 1), run: 1 }
}

pub(crate) fn id(rank: usize) -> MemberId {
    MemberId(u32::try_from(rank).expect("a small group"))
}

//! A node's group clock: the algorithm that the policy names, run by the raw clock.

use conclave_protocols::clock::{
    self, AnyClock, AnyMessage, GroupClock, Known, Missing, NextView, Relation, Succession,
    Transfer, VirtualClock,
};
use conclave_protocols::member::Event;
use conclave_protocols::policy::Arbiter;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::record::Record;
use conclave_protocols::{
    Effect, Epoch, Incarnation, Input, LocalTime, MemberId, Outbox, Protocol,
};

use super::{Moment, PodNode, PodTimer, Surroundings};
use crate::wire::Payload;

/// The group clock: in a view, or between two.
pub(super) struct GroupTime {
    sync: Option<AnyClock>,
    /// What this member shows.
    transfer: Transfer,
    succession: Succession,
    leader: Option<Incarnation>,
    /// When the register was asked that confirmed the view the last time.
    pub(super) confirmed: LocalTime,
}

impl GroupTime {
    pub(super) fn new(clock: VirtualClock) -> Self {
        let (transfer, succession) = (Transfer::new(clock), Succession::default());
        Self { sync: None, transfer, succession, leader: None, confirmed: LocalTime(0) }
    }
}

/// What clock probes say about each peer's raw clock.
pub(in crate::group) type Relations = Vec<(Incarnation, Result<Relation, Missing>)>;

impl PodNode {
    /// A view began: its leader is the daemon, or the time server. The clock is carried over, whatever
    /// algorithm kept it.
    pub(super) fn enter_time(
        &mut self,
        at: Moment,
        record: &Record,
        rank: MemberId,
        around: &mut impl Surroundings,
    ) {
        let leads = record.leader == Some(self.me);
        let since_asked = at.now.0.saturating_sub(self.time.confirmed.0);
        let asked = LocalTime(at.raw.0.saturating_sub(since_asked));
        let time = &mut self.time;
        let next = NextView {
            epoch: record.epoch,
            base: record.base,
            members: record.incarnations().collect(),
            leads_since: leads.then_some(asked),
            leader_lease: record.timing.leader_lease,
            longest_leader_lease: record.longest_leader_lease,
            is_arbitrated: record.policy.arbiter == Arbiter::Quorum,
        };
        let clock = time.succession.enter(at.raw, next, &mut time.transfer);
        time.leader = record.leader;
        self.timers.clear_all(|timer| matches!(timer, PodTimer::Clock(_)));
        let mut out = Outbox::default();
        let mut sync = AnyClock::new(&record.policy.clock, rank, record.view(), clock);
        sync.start(at.raw, &mut out);
        self.time.sync = Some(sync);
        self.carry_out_clock(at, out, around);
    }

    pub(super) fn time_goes_by(&mut self, arbiter: Arbiter, around: &mut impl Surroundings) {
        if arbiter == Arbiter::Quorum && self.time.transfer.arbitrated() {
            around.adjusted(&self.time.transfer.map());
        }
    }

    /// By the lease of this member nobody else leads the group before `until`.
    pub(super) fn on_led(&mut self, at: Moment, until: LocalTime, around: &mut impl Surroundings) {
        if self.time.transfer.led(at.raw.after(until - at.now)) {
            around.adjusted(&self.time.transfer.map());
        }
    }

    pub(super) fn on_clock_message(
        &mut self,
        at: Moment,
        from: Incarnation,
        epoch: Epoch,
        message: AnyMessage,
        around: &mut impl Surroundings,
    ) {
        let rank = self.member.record().filter(|r| r.epoch == epoch).and_then(|r| r.rank(from));
        match rank {
            // A member that sealed a view is no part of its majority any more.
            Some(from) if epoch == self.time.succession.epoch() && self.member.is_in_view() => {
                self.feed_clock(at, Input::Message { from, message }, around);
            }
            Some(_) | None => around.notify(at.now, &self.member, Event::Ignored("epoch")),
        }
    }

    pub(super) fn feed_clock(
        &mut self,
        at: Moment,
        input: InputOf<AnyClock>,
        around: &mut impl Surroundings,
    ) {
        let mut out = Outbox::default();
        let Some(sync) = &mut self.time.sync else { return };
        sync.handle(at.raw, input, &mut out);
        self.carry_out_clock(at, out, around);
    }

    fn carry_out_clock(
        &mut self,
        at: Moment,
        mut out: OutboxOf<AnyClock>,
        around: &mut impl Surroundings,
    ) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send_clock(to, message, around),
                Effect::Arm { timer, after } => {
                    self.timers.set(PodTimer::Clock(timer), at.now.after(after));
                }
                Effect::Disarm(timer) => self.timers.clear(&PodTimer::Clock(timer)),
                Effect::Tell(clock::Event::Adjusted) => {
                    if let Some(sync) = &self.time.sync {
                        self.time.transfer.adjusted(at.raw, sync.clock());
                    }
                    around.adjusted(&self.time.transfer.map());
                }
                Effect::Tell(clock::Event::Stated(known)) => self.on_stated(at, *known, around),
                Effect::Tell(clock::Event::Compared(sources)) => around.compared(&sources),
            }
        }
    }

    fn on_stated(&mut self, at: Moment, known: Known, around: &mut impl Surroundings) {
        if self.time.transfer.stated(at.raw, known) {
            around.adjusted(&self.time.transfer.map());
        } else {
            around.notify(at.now, &self.member, Event::Ignored("absurd"));
        }
    }

    /// Clock probes say this about the peers' raw clocks.
    pub(super) fn on_relations(
        &mut self,
        at: Moment,
        relations: &Relations,
        around: &mut impl Surroundings,
    ) {
        let of_leader = relations.iter().find(|(peer, _)| Some(*peer) == self.time.leader);
        if let Some((_, relation)) = of_leader {
            self.time.transfer.related(at.raw, *relation);
        } else {
            let Some(record) = self.member.record() else { return };
            let of_view = relations.iter().filter(|(peer, _)| record.rank(*peer).is_some());
            let links = of_view.map(|(peer, relation)| (*peer, *relation == Err(Missing::Broken)));
            if !self.time.transfer.links_of_leader(at.raw, links) {
                return;
            }
        }
        around.adjusted(&self.time.transfer.map());
    }

    fn send_clock(&mut self, to: MemberId, message: AnyMessage, around: &mut impl Surroundings) {
        let epoch = self.time.succession.epoch();
        let record = self.member.record().filter(|record| record.epoch == epoch);
        let Some(to) = record.and_then(|r| r.member(to)).map(|info| info.incarnation) else {
            return;
        };
        around.send(to, Payload::Clock { epoch, message });
    }
}

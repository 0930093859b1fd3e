//! The group task's clock: Berkeley's algorithm, run by the raw clock.

use conclave_protocols::clock::{self, Berkeley, Params, VirtualClock};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::Record;
use conclave_protocols::{
    Effect, Epoch, Incarnation, Input, LocalTime, MemberId, Outbox, Protocol,
};

use super::task::{PodTimer, Task};
use crate::os_clock::OsClock;
use crate::wire::Payload;

/// The group clock: in a view, or between two.
pub(super) struct Time {
    pub(super) sync: Option<Berkeley>,
    pub(super) clock: VirtualClock,
    pub(super) epoch: Epoch,
}

/// A clock that shows the wall clock's time until it is synchronised.
pub(super) fn virtual_clock(clock: OsClock, policy: &Policy) -> VirtualClock {
    let utc_offset = clock.wall_ns().saturating_sub(signed(clock.raw()));
    VirtualClock::new(utc_offset, Params::from(&policy.clock).rates())
}

impl Task<'_> {
    /// A view began: its leader is the daemon. The clock is carried over.
    pub(super) fn enter_time(&mut self, record: &Record, rank: MemberId) {
        let clock = match self.time.sync.take() {
            Some(sync) => sync.clock().clone(),
            None => self.time.clock.clone(),
        };
        let params = Params::from(&record.policy.clock);
        self.time.epoch = record.epoch;
        self.timers.clear_all(|timer| matches!(timer, PodTimer::Clock(_)));
        let mut out = Outbox::default();
        let mut sync = Berkeley::new(rank, record.view(), params, clock);
        sync.start(self.clock.raw(), &mut out);
        self.time.sync = Some(sync);
        self.carry_out_clock(out);
    }

    pub(super) fn on_clock_message(
        &mut self,
        from: Incarnation,
        epoch: Epoch,
        message: clock::Message,
    ) {
        let rank = self.member.record().filter(|r| r.epoch == epoch).and_then(|r| r.rank(from));
        match rank {
            // A member that sealed a view is no part of its majority any more.
            Some(from) if epoch == self.time.epoch && self.member.is_in_view() => {
                self.feed_clock(Input::Message { from, message });
            }
            Some(_) | None => {
                self.metrics.peers.messages_ignored.with_label_values(&["epoch"]).inc();
            }
        }
    }

    pub(super) fn feed_clock(&mut self, input: conclave_protocols::protocol::InputOf<Berkeley>) {
        let raw = self.clock.raw();
        let mut out = Outbox::default();
        let Some(sync) = &mut self.time.sync else { return };
        let before = sync.sources().clone();
        sync.handle(raw, input, &mut out);
        if *sync.sources() != before {
            // A round of this member, which is the daemon, has ended.
            sync.sources().values().for_each(|source| self.metrics.clock.asked(source));
        }
        self.carry_out_clock(out);
    }

    pub(super) fn carry_out_clock(
        &mut self,
        mut out: conclave_protocols::protocol::OutboxOf<Berkeley>,
    ) {
        let now = self.clock.now();
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send_clock(to, message),
                Effect::Arm { timer, after } => {
                    self.timers.set(PodTimer::Clock(timer), now.after(after));
                }
                Effect::Disarm(timer) => self.timers.clear(&PodTimer::Clock(timer)),
                Effect::Tell(clock::Event::Adjusted(map)) => {
                    self.map.send_replace(map);
                }
            }
        }
    }

    fn send_clock(&mut self, to: MemberId, message: clock::Message) {
        let epoch = self.time.epoch;
        let record = self.member.record().filter(|record| record.epoch == epoch);
        let Some(to) = record.and_then(|r| r.member(to)).map(|info| info.incarnation) else {
            return;
        };
        self.say(to, Payload::Clock { epoch, message }, None);
    }
}

fn signed(time: LocalTime) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

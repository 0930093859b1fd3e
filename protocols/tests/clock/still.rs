//! Members whose raw clocks agree and whose messages take no time.

use std::time::Duration;

use conclave_protocols::clock::berkeley::Message;
use conclave_protocols::clock::{
    Berkeley, ClockMap, Correction, Event, GroupClock, Params, Rates, Shown, VirtualClock,
};
use conclave_protocols::policy::ClockPolicy;
use conclave_protocols::protocol::OutboxOf;
use conclave_protocols::{Effect, Epoch, Input, LocalTime, MemberId, Outbox, Protocol, View};

pub(crate) const MS: i64 = 1_000_000;

/// What is sent, by whom, to whom.
pub(crate) type Sent = (MemberId, MemberId, Message);

pub(crate) fn params() -> Params {
    Params { gamma: Duration::from_hours(24), ..Params::from(&ClockPolicy::default()) }
}

pub(crate) fn rates() -> Rates {
    params().rates()
}

/// A clock that shows `offset_ns` at raw zero and is known to be right.
pub(crate) fn synchronised(offset_ns: i64) -> VirtualClock {
    synchronised_within(offset_ns, 0)
}

/// The clock of a member that began a group with it at raw zero, when it showed `offset_ns`, and that leads the next
/// view too.
pub(crate) fn leading(offset_ns: i64) -> VirtualClock {
    let alone = View { epoch: Epoch(0), size: 1, leader: MemberId(0) };
    let clock = VirtualClock::new(offset_ns, rates());
    let mut daemon = Berkeley::new(MemberId(0), alone, params(), clock);
    daemon.start(LocalTime(0), &mut Outbox::default());
    daemon.clock().clone().made_from(Some(alone.epoch))
}

/// A clock that shows `offset_ns` at raw zero and is known to be that wrong at most.
pub(crate) fn synchronised_within(offset_ns: i64, error_ns: u64) -> VirtualClock {
    let mut clock = VirtualClock::new(offset_ns, rates());
    let raw = LocalTime(0);
    let nothing = Correction { delta_ns: 0, ahead_ns: 0, error_ns };
    assert!(
        clock.adjust(raw, Shown { raw, ns: offset_ns }, nothing),
        "a clock that was never synchronised takes any correction"
    );
    clock
}

/// A group whose rank 0 is the daemon.
pub(crate) struct Group {
    pub(crate) members: Vec<Berkeley>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) notified: Vec<(MemberId, ClockMap)>,
}

impl Group {
    pub(crate) fn new(params: Params, clocks: Vec<VirtualClock>) -> Self {
        let size = u32::try_from(clocks.len()).expect("a small group");
        let view = View { epoch: Epoch(1), size, leader: MemberId(0) };
        let members = (0..).map(MemberId).zip(clocks);
        let members = members.map(|(me, clock)| Berkeley::new(me, view, params, clock)).collect();
        Self { members, sent: Vec::new(), notified: Vec::new() }
    }

    /// Starts everybody, followers first, and delivers everything at once: one round.
    pub(crate) fn one_round(&mut self, now: LocalTime) {
        for rank in (0..self.members.len()).rev() {
            let mut out = Outbox::default();
            self.members[rank].start(now, &mut out);
            self.carry_out(now, id(rank), out);
        }
    }

    pub(crate) fn handle(&mut self, now: LocalTime, rank: usize, input: TestInput) {
        let mut out = Outbox::default();
        self.members[rank].handle(now, input, &mut out);
        self.carry_out(now, id(rank), out);
    }

    fn carry_out(&mut self, now: LocalTime, from: MemberId, mut out: OutboxOf<Berkeley>) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    self.sent.push((from, to, message.clone()));
                    self.handle(now, to.0 as usize, Input::Message { from, message });
                }
                Effect::Tell(Event::Adjusted) => {
                    let map = self.members[from.0 as usize].clock().map();
                    self.notified.push((from, map));
                }
                Effect::Tell(Event::Compared(_) | Event::Stated(_))
                | Effect::Arm { .. }
                | Effect::Disarm(_) => {}
            }
        }
    }

    /// The corrections sent, by rank.
    pub(crate) fn deltas(&self) -> Vec<(u32, i64)> {
        let delta = |(_, to, message): &Sent| match message {
            Message::Adjust { correction, .. } => Some((to.0, correction.delta_ns)),
            Message::Poll { .. } | Message::Answer { .. } => None,
        };
        self.sent.iter().filter_map(delta).collect()
    }

    pub(crate) fn shown(&self, raw: u64) -> Vec<i64> {
        self.members.iter().map(|member| member.clock().map().now_ns(raw)).collect()
    }
}

pub(crate) type TestInput = conclave_protocols::protocol::InputOf<Berkeley>;

fn id(rank: usize) -> MemberId {
    MemberId(u32::try_from(rank).expect("a small group"))
}

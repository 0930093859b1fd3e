//! What a peer sends, frame by frame: read, written, and heard by a member.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::member::message::Message;
use conclave_protocols::member::{Member, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::protocol::Outbox;
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::register::{self, Value, Version};
use conclave_protocols::{Effect, Epoch, Incarnation, Input, LocalTime, PodUid, Protocol};
use conclave_sidecar::fuzzing;
use conclave_sidecar::wire::Payload;

/// A frame that can be read is written as it is read; a member takes what it contains.
pub(crate) fn run(input: &[u8]) {
    let Some(written) = fuzzing::frame(input) else { return };
    let again = fuzzing::frame(&written).expect("what was written can be read");
    assert_eq!(again, written, "what was read is not what was written");
    if let Some(Payload::Member(message)) = fuzzing::payload(input) {
        let mut pod = Pod::begin(None);
        pod.hear(Message::Peer(message.clone()));
        pod.live();
        pod.hear(Message::Peer(message));
        pod.live();
    }
}

/// A member alone in its group, with a register that answers at once.
pub(crate) struct Pod {
    member: Member,
    record: Option<Record>,
    now: LocalTime,
    version: u64,
    timers: BTreeMap<conclave_protocols::member::Timer, LocalTime>,
}

impl Pod {
    /// Starts with this in its register.
    pub(crate) fn begin(record: Option<Record>) -> Self {
        let member = Member::new(member(1), Policy::default(), Epoch(0));
        let now = LocalTime::default().after(Duration::from_hours(1));
        let mut pod = Self { member, record, now, version: 1, timers: BTreeMap::new() };
        let mut out = Outbox::default();
        pod.member.start(pod.now, &mut out);
        pod.carry_out(out);
        pod.live();
        pod
    }

    /// Hears something from the other pod.
    pub(crate) fn hear(&mut self, message: Message) {
        self.feed(Input::Message { from: Node::Member(member(2).incarnation), message });
    }

    /// Goes through its next timers.
    pub(crate) fn live(&mut self) {
        for _ in 0..TIMERS {
            let Some((timer, at)) = self.timers.iter().min_by_key(|(_, at)| **at) else { return };
            let (timer, at) = (*timer, *at);
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            self.feed(Input::Timer(timer));
        }
    }

    fn feed(&mut self, input: conclave_protocols::protocol::InputOf<Member>) {
        let mut out = Outbox::default();
        self.member.handle(self.now, input, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, mut out: conclave_protocols::protocol::OutboxOf<Member>) {
        let effects: Vec<_> = out.drain().collect();
        for effect in effects {
            match effect {
                Effect::Arm { timer, after } => {
                    self.timers.insert(timer, self.now.after(after));
                }
                Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
                Effect::Send { to: Node::Register, message: Message::Register(call) } => {
                    if let Some(answer) = self.answer(call) {
                        let message = Message::Register(answer);
                        self.feed(Input::Message { from: Node::Register, message });
                    }
                }
                Effect::Send { .. } | Effect::Tell(_) => {}
            }
        }
    }

    fn answer(&mut self, call: register::Message) -> Option<register::Message> {
        use register::Message::{
            Conflict, Declined, Read, Unknown, Value as Holds, Write, Written,
        };
        let held = Version(self.version.to_string());
        match call {
            Read(id) => {
                let record = self.record.clone();
                let value = Value { version: held, record, time_term: Epoch(0) };
                Some(Holds { id, value: Box::new(value) })
            }
            Write { id, version, record } if version == held => {
                self.version += 1;
                self.record = Some(*record);
                Some(Written { id, version: Version(self.version.to_string()) })
            }
            Write { id, .. } => Some(Conflict(id)),
            Holds { .. } | Written { .. } | Conflict(_) | Declined(_) | Unknown(_) => None,
        }
    }
}

/// A member of the group.
pub(crate) fn member(number: u8) -> MemberInfo {
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(number.into()), run: 7 },
        name: format!("shop-{number}"),
        addresses: vec![([10, 1, 2, number], 7071).into()],
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 0,
        protocol: conclave_sidecar::wire::VERSIONS,
    }
}

/// Enough for a candidacy and some heartbeats.
const TIMERS: usize = 40;

//! Takes the trace of one process whose register is elsewhere.

use std::sync::mpsc::Receiver;

use super::content::Content;
use super::event::TraceEntry;
use super::line::{Line, What};
use super::watch::{Log, Watch};
use crate::member::message::Message;
use crate::member::{Member, Node};
use crate::protocol::{Effect, EffectOf, Input, InputOf, OutboxOf};
use crate::register;
use crate::time::LocalTime;

/// Watches one member, and reports what it does as lines.
///
/// A line has the one reading of the clock of its step. What a process hears it hears before it reads its
/// clock, and what it sends it sends after: so among processes that read one clock no answer is earlier than
/// what it answers.
pub struct Recorder {
    watch: Watch,
    entries: Receiver<TraceEntry<LocalTime>>,
    number: u64,
}

impl Recorder {
    /// Of a process that begins.
    pub fn new(member: &Member) -> Self {
        let (log, entries) = Log::new();
        Self { watch: Watch::new(member, 0, log), entries, number: 0 }
    }

    /// Hands an input to the member, and puts its effects out. They must not be carried out before the
    /// lines that this returns are written.
    pub fn handle(
        &mut self,
        member: &mut Member,
        now: LocalTime,
        input: InputOf<Member>,
        out: &mut OutboxOf<Member>,
    ) -> Vec<Line> {
        let who = member.me();
        let heard = match &input {
            Input::Message { message: Message::Register(answer), .. } => answered(answer),
            Input::Message { .. } | Input::Command(_) | Input::Timer(_) => None,
        };
        // That it has begun.
        let begun = self.take();
        self.watch.handle(member, now, input, out);
        let did = self.take();
        let calls = out.effects().iter().filter_map(called);
        let whats = begun.into_iter().chain(heard).chain(did).chain(calls);
        let line = |what| {
            let line = Line { who, number: self.number, at: now, what };
            self.number += 1;
            line
        };
        whats.map(line).collect()
    }

    fn take(&self) -> Vec<What> {
        self.entries.try_iter().map(|entry| What::Did(entry.event)).collect()
    }
}

fn answered(answer: &register::Message) -> Option<What> {
    match answer {
        register::Message::Value { value, .. } => Some(What::Read {
            version: number(&value.version),
            content: value.record.as_ref().map(Content::from),
        }),
        register::Message::Written { id, version } => {
            Some(What::Wrote { id: *id, version: number(version) })
        }
        register::Message::Conflict(id) | register::Message::Declined(id) => {
            Some(What::Refused(*id))
        }
        register::Message::Unknown(_)
        | register::Message::Read(_)
        | register::Message::Write { .. } => None,
    }
}

fn called(effect: &EffectOf<Member>) -> Option<What> {
    match effect {
        Effect::Send {
            to: Node::Register,
            message: Message::Register(register::Message::Write { id, version, record }),
        } => {
            let content = Content::from(&**record);
            Some(What::Calls { id: *id, version: number(version), content })
        }
        Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => None,
    }
}

/// Members only compare versions. A trace needs their order, which both registers give them: that of a
/// Lease is a revision of etcd, and a register in memory counts.
fn number(version: &register::Version) -> u64 {
    version.0.parse().unwrap_or_default()
}

//! Takes a trace of a register in memory.

use super::content::Content;
use super::event::{Event, TraceEntry};
use super::watch::Log;
use crate::core::Node;
use crate::ids::Epoch;
use crate::register::{self, MemoryRegister};

/// A register in memory answers a call, and what that does is written down.
pub fn answer(
    memory: &mut MemoryRegister,
    from: Node,
    call: &register::Message,
    time_term: Epoch,
    log: &Log,
) -> Option<register::Message> {
    let held = memory.answer(&register::Message::Read(register::CallId(0)), time_term);
    let answer = memory.answer(call, time_term);
    let Node::Member(who) = from else { return answer };
    let event = match (call, &answer, held) {
        (register::Message::Read(_), Some(register::Message::Value { value, .. }), _) => {
            value.record.as_ref().map(|record| Event::Read(Content::from(record)))
        }
        (
            register::Message::Write { version, record, .. },
            Some(register::Message::Written { .. }),
            Some(register::Message::Value { value, .. }),
        ) => {
            let compared = *version == value.version;
            Some(Event::Wrote { compared, content: Content::from(&**record) })
        }
        _ => None,
    };
    if let Some(event) = event {
        log.note(TraceEntry { who: Some(who), event });
    }
    answer
}

/// Somebody else than a member replaced what the register holds.
pub fn replaced(memory: &MemoryRegister, log: &Log) {
    let content = memory.record().map(Content::from);
    log.note(TraceEntry { who: None, event: Event::Replaced(content) });
}

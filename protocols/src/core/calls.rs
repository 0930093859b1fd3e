//! What a member asked of the register: one read and one write at a time.

use std::time::Duration;

use crate::ids::Incarnation;
use crate::register::CallId;
use crate::time::LocalTime;

/// What this member asked of the register and has no answer to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Calls {
    run: u64,
    made: u64,
    read: Option<(CallId, LocalTime)>,
    write: Option<(CallId, LocalTime)>,
    /// How long a call took of late, or was waited for in vain.
    takes: Duration,
}

/// So many times the least patience is the most.
const LEAST_MAX: u32 = 8;

impl Calls {
    pub(super) fn new(me: Incarnation) -> Self {
        Self { run: me.run, made: 0, read: None, write: None, takes: Duration::ZERO }
    }

    /// A number that no other write carries.
    pub(super) fn nonce(&mut self) -> u64 {
        self.made += 1;
        // 53 bits, as everything that becomes a JSON number.
        (self.run.rotate_left(17) ^ self.made) & ((1 << 53) - 1)
    }

    /// Reads, unless an answer is due already.
    pub(super) fn begin_read(&mut self, now: LocalTime) -> Option<CallId> {
        if self.read.is_some() {
            return None;
        }
        let id = self.call();
        self.read = Some((id, now));
        Some(id)
    }

    /// Writes. What was written before is not waited for any more.
    pub(super) fn begin_write(&mut self, now: LocalTime) -> CallId {
        let id = self.call();
        self.write = Some((id, now));
        id
    }

    /// That read has its answer. When it was asked; nothing if that is not waited for.
    pub(super) fn end_read(&mut self, now: LocalTime, id: CallId) -> Option<LocalTime> {
        let (_, sent) = self.read.take_if(|(read, _)| *read == id)?;
        self.note_span(now - sent);
        Some(sent)
    }

    /// The same of a write.
    pub(super) fn end_write(&mut self, now: LocalTime, id: CallId) -> Option<LocalTime> {
        let (_, sent) = self.write.take_if(|(write, _)| *write == id)?;
        self.note_span(now - sent);
        Some(sent)
    }

    /// Whether the answer to that write is due.
    pub(super) fn is_write(&self, id: CallId) -> bool {
        self.write.is_some_and(|(write, _)| write == id)
    }

    /// Whether the answer to a write is due.
    pub(super) fn writes(&self) -> bool {
        self.write.is_some()
    }

    /// Whether nothing is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }

    /// The answer to a read that is under way is of no use.
    pub(super) fn forget_read(&mut self) {
        self.read = None;
    }

    /// Waits for nothing any more.
    pub(super) fn give_up(&mut self, now: LocalTime) {
        let calls = [self.read.take(), self.write.take()];
        let waited = calls.into_iter().flatten().map(|(_, sent)| now - sent).max();
        self.note_span(waited.unwrap_or_default());
    }

    /// How long to wait for an answer: so long at least, and twice as long as calls take. If each call were given up after
    /// the same time, a register that is slower would never answer, and nobody would lead (RFC 6298 has it so for segments
    /// of TCP).
    pub(super) fn patience(&self, least: Duration) -> Duration {
        (self.takes * 2).clamp(least, least * LEAST_MAX)
    }

    fn note_span(&mut self, span: Duration) {
        self.takes = span.max(self.takes / 2);
    }

    /// A number below 256, another for each process and each call.
    pub(super) fn jitter(&self) -> u32 {
        u32::try_from((self.run ^ self.made) % 256).unwrap_or(0)
    }

    fn call(&mut self) -> CallId {
        self.made += 1;
        CallId(self.made)
    }
}

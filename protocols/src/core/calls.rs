//! What a member asked of the register: one read and one write at a time.

use std::time::Duration;

use crate::ids::Incarnation;
use crate::register::{CALL_MAX, CallId};
use crate::time::LocalTime;

/// What this member asked of the register and has no answer to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Calls {
    run: u64,
    made: u64,
    read: Option<Call>,
    write: Option<Call>,
    /// How long a call took of late, or was waited for in vain.
    takes: Duration,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Call {
    id: CallId,
    sent: LocalTime,
    /// It came to nothing, and is waited for so that it is not repeated in haste.
    came_to_nothing: bool,
}

impl Call {
    fn new(id: CallId, sent: LocalTime) -> Self {
        Self { id, sent, came_to_nothing: false }
    }
}

/// So many times the first patience is the most.
const DOUBLED_THRICE: u32 = 8;

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
        self.read = Some(Call::new(id, now));
        Some(id)
    }

    /// Writes. What was written before is not waited for any more.
    pub(super) fn begin_write(&mut self, now: LocalTime) -> CallId {
        let id = self.call();
        self.write = Some(Call::new(id, now));
        id
    }

    /// That read has its answer. When it was asked; nothing if that is not waited for.
    pub(super) fn end_read(&mut self, now: LocalTime, id: CallId) -> Option<LocalTime> {
        let read = self.read.take_if(|read| read.id == id)?;
        self.note_span(now - read.sent);
        Some(read.sent)
    }

    /// The same of a write.
    pub(super) fn end_write(&mut self, now: LocalTime, id: CallId) -> Option<LocalTime> {
        let write = self.write.take_if(|write| write.id == id)?;
        self.note_span(now - write.sent);
        Some(write.sent)
    }

    /// That call came to nothing, which shows nothing of how long others take. How long ago it was made, if the answer to
    /// no other is due.
    pub(super) fn comes_to_nothing(&mut self, now: LocalTime, id: CallId) -> Option<Duration> {
        let calls = [self.read.as_mut(), self.write.as_mut()];
        let call = calls.into_iter().flatten().find(|call| call.id == id)?;
        call.came_to_nothing = true;
        let ago = now - call.sent;
        self.due().next().is_none().then_some(ago)
    }

    /// Whether the answer to that write is due.
    pub(super) fn is_write(&self, id: CallId) -> bool {
        self.write.is_some_and(|write| write.id == id)
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
        if let Some(waited) = self.due().map(|call| now - call.sent).max() {
            self.note_span(waited);
        }
        (self.read, self.write) = (None, None);
    }

    /// Those that have not come to nothing.
    fn due(&self) -> impl Iterator<Item = Call> {
        [self.read, self.write].into_iter().flatten().filter(|call| !call.came_to_nothing)
    }

    /// How long to wait for an answer: at first so long; then twice as long as calls take, at most eight times as long as
    /// at first, and no longer than any call takes. If each call were given up after the same time, a register that is
    /// slower would never answer, and nobody would lead (RFC 6298 has it so for segments of TCP).
    pub(super) fn patience(&self, first: Duration) -> Duration {
        let most = (first * DOUBLED_THRICE).min(CALL_MAX).max(first);
        (self.takes * 2).clamp(first, most)
    }

    /// A process that stood still for hours has not waited so long.
    fn note_span(&mut self, span: Duration) {
        self.takes = span.max(self.takes / 2).min(CALL_MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PodUid;

    const FIRST: Duration = Duration::from_millis(200);

    fn calls() -> Calls {
        Calls::new(Incarnation { pod: PodUid(1), run: 1 })
    }

    /// Reads so many times, and waits in vain each time as long as it has patience. For how long the last time.
    fn read_in_vain(calls: &mut Calls, times: usize) -> Duration {
        let mut now = LocalTime::default();
        let mut patience = Duration::ZERO;
        for _ in 0..times {
            patience = calls.patience(FIRST);
            calls.begin_read(now).expect("none is under way");
            now = now.after(patience);
            calls.give_up(now);
        }
        patience
    }

    fn read_within(calls: &mut Calls, span: Duration) {
        let now = LocalTime::default();
        let id = calls.begin_read(now).expect("none is under way");
        assert_eq!(calls.end_read(now.after(span), id), Some(now));
    }

    #[test]
    fn an_answer_that_does_not_come_is_waited_for_twice_as_long_the_next_time_up_to_eight_times() {
        let waits = [1, 2, 3, 4, 5, 20].map(|times| read_in_vain(&mut calls(), times).as_millis());
        assert_eq!(waits, [200, 400, 800, 1_600, 1_600, 1_600]);
    }

    #[test]
    fn answers_are_waited_for_twice_as_long_as_they_take_and_soon_no_longer_than_at_first() {
        let mut calls = calls();
        read_in_vain(&mut calls, 9);
        read_within(&mut calls, Duration::from_millis(300));
        assert_eq!(calls.patience(FIRST), FIRST * DOUBLED_THRICE, "half of what it was is as long");
        (0..3).for_each(|_| read_within(&mut calls, Duration::from_millis(300)));
        assert_eq!(calls.patience(FIRST), Duration::from_millis(600));
        (0..3).for_each(|_| read_within(&mut calls, Duration::from_millis(5)));
        assert_eq!(calls.patience(FIRST), FIRST);
    }

    /// Else the first call after an outage might begin long after its end.
    #[test]
    fn calls_that_come_to_nothing_at_once_are_waited_for_no_longer_than_at_first() {
        let mut calls = calls();
        let mut now = LocalTime::default();
        for _ in 0..20 {
            let id = calls.begin_write(now);
            let took = Duration::from_millis(3);
            assert_eq!(calls.comes_to_nothing(now.after(took), id), Some(took));
            assert!(calls.writes(), "it is not repeated in haste");
            now = now.after(calls.patience(FIRST));
            calls.give_up(now);
            assert_eq!(calls.patience(FIRST), FIRST);
        }
    }

    #[test]
    fn a_call_that_comes_to_nothing_neither_ends_the_wait_for_another_nor_makes_it_shorter() {
        let mut calls = calls();
        read_in_vain(&mut calls, 3);
        let now = LocalTime::default();
        let (read, write) = (calls.begin_read(now).expect("none is"), calls.begin_write(now));
        assert_eq!(calls.comes_to_nothing(now, write), None);
        assert_eq!(calls.comes_to_nothing(now, read), Some(Duration::ZERO));
        assert_eq!(calls.comes_to_nothing(now, CallId(0)), None);
        assert_eq!(calls.patience(FIRST), Duration::from_millis(1_600));
    }

    #[test]
    fn nobody_waits_for_longer_than_any_call_takes_but_at_first() {
        let mut calls = calls();
        calls.begin_read(LocalTime::default());
        calls.give_up(LocalTime::default().after(CALL_MAX * 2));
        let second = Duration::from_secs(1);
        assert_eq!([1, 7].map(|first| calls.patience(second * first)), [CALL_MAX, second * 7]);
    }

    #[test]
    fn a_process_that_stood_still_for_an_hour_is_patient_for_a_few_calls() {
        let mut calls = calls();
        calls.begin_read(LocalTime::default());
        calls.give_up(LocalTime::default().after(Duration::from_secs(3_600)));
        assert_eq!(calls.patience(FIRST), FIRST * DOUBLED_THRICE);
        (0..6).for_each(|_| read_within(&mut calls, Duration::from_millis(5)));
        assert_eq!(calls.patience(FIRST), FIRST);
    }
}

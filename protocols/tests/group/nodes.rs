//! The nodes of the simulated cluster: members, and a register that can be slow and unsure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::protocol::{Input, InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::record::Record;
use conclave_protocols::register::{self, CallId, MemoryRegister, time_term};
use conclave_protocols::trace::{self, Log, Watch};
use conclave_protocols::{Epoch, LocalTime, Protocol};

use crate::kit::{Command, Event, Member, Message, Timer};

pub(crate) enum Place {
    Member(Box<Member>, Watch),
    Register(Box<Register>),
}

/// What a test asks of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Ask {
    /// Of a member.
    Member(Command),
    /// Of the register: to be like this from now on.
    Mood(Mood),
    /// Of the register: to lose its record. Its keeper makes it anew, and states that it did.
    Lose,
    /// Of the register: to hold again what it held before, so many writes ago.
    Restore(usize),
    /// Of the register: somebody else writes what is there already.
    Touch,
    /// Of the register: to report its time, as an API server does, below which no view begins.
    Time,
}

/// How the register answers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Mood {
    /// Each call takes up to so long, one after another.
    pub(crate) slow: Duration,
    /// One call in so many has an unknown outcome; none if zero.
    pub(crate) unsure: u64,
    /// One call in so many is refused, and answered as if nobody knew; none if zero.
    pub(crate) refuses: u64,
    /// One answer in so many comes later than others, so much at most; none if zero.
    pub(crate) late: (u64, Duration),
    /// Every answer comes so much later.
    pub(crate) lag: Duration,
}

pub(crate) struct Register {
    pub(crate) memory: MemoryRegister,
    mood: Mood,
    random: Random,
    waiting: VecDeque<(Node, register::Message)>,
    /// What it held, the latest last.
    past: Vec<Record>,
    /// How many calls were answered as its mood has it.
    pub(crate) moody: u64,
    /// Answers that come late, by when they do.
    late: BTreeMap<(LocalTime, u64, Node), register::Message>,
    /// The latest call of each member.
    latest: BTreeMap<Node, CallId>,
    /// It reports its time.
    timed: bool,
    log: Log,
}

impl Register {
    pub(crate) fn new(seed: u64, log: Log) -> Self {
        Self {
            memory: MemoryRegister::default(),
            mood: Mood::default(),
            random: Random::new(seed),
            waiting: VecDeque::new(),
            past: Vec::new(),
            moody: 0,
            late: BTreeMap::new(),
            latest: BTreeMap::new(),
            timed: false,
            log,
        }
    }

    fn call(
        &mut self,
        now: LocalTime,
        from: Node,
        call: register::Message,
        out: &mut OutboxOf<Place>,
    ) {
        self.latest.insert(from, id_of(&call));
        self.waiting.push_back((from, call));
        if self.mood.slow.is_zero() {
            while self.answer_next(now, out) {}
        } else if self.waiting.len() == 1 {
            self.take_time(out);
        }
    }

    /// What it held before, so many writes ago, if that is another view than the present one.
    pub(crate) fn backup(&self, ago: usize) -> Option<&Record> {
        let epoch = self.memory.record()?.epoch;
        let place = self.past.len().checked_sub(ago + 1)?;
        self.past.get(place).filter(|record| record.epoch < epoch)
    }

    fn lose(&mut self) {
        let nonce = self.random.up_to(1 << 53);
        self.put(self.memory.record().map(|record| mark(record, nonce)));
    }

    fn restore(&mut self, ago: usize) {
        if let Some(record) = self.backup(ago).cloned() {
            self.put(Some(record));
        }
    }

    /// Somebody else writes.
    fn put(&mut self, record: Option<Record>) {
        self.memory.put(record);
        trace::replaced(&self.memory, &self.log);
    }

    /// Carries a call out.
    fn answer(
        &mut self,
        now: LocalTime,
        from: Node,
        call: &register::Message,
    ) -> Option<register::Message> {
        let term = if self.timed { time_term(now - LocalTime::default()) } else { Epoch(0) };
        let answer = trace::answer(&mut self.memory, from, call, term, &self.log);
        if let Some(register::Message::Written { .. }) = answer {
            self.past.extend(self.memory.record().cloned());
        }
        answer
    }

    fn take_time(&mut self, out: &mut OutboxOf<Place>) {
        let span = self.random.below(self.mood.slow);
        out.arm(Timer::Register, span);
    }

    fn answer_next(&mut self, now: LocalTime, out: &mut OutboxOf<Place>) -> bool {
        let Some((from, call)) = self.waiting.pop_front() else { return false };
        let unsure = self.mood.unsure > 0 && self.random.once_in(self.mood.unsure);
        let refused = self.mood.refuses > 0 && self.random.once_in(self.mood.refuses);
        self.moody += u64::from(unsure || refused || !self.mood.slow.is_zero());
        if refused {
            out.send(from, Message::Register(register::Message::Unknown(id_of(&call))));
        } else if unsure {
            self.answer_unsurely(now, from, &call, out);
        } else if let Some(answer) = self.answer(now, from, &call) {
            let (one_in, most) = self.mood.late;
            let is_late = one_in > 0 && self.random.once_in(one_in);
            if is_late || !self.mood.lag.is_zero() {
                let late = if is_late { self.random.below(most) } else { Duration::ZERO };
                let due = now.after(self.mood.lag + late);
                self.late.insert((due, id_of(&call).0, from), answer);
                self.wake(now, out);
            } else {
                out.send(from, Message::Register(answer));
            }
        }
        true
    }

    fn wake(&self, now: LocalTime, out: &mut OutboxOf<Place>) {
        if let Some(((due, ..), _)) = self.late.first_key_value() {
            out.arm(Timer::Reread, now.until(*due));
        }
    }

    /// Sends the answers that come late, and are due. They count if the member has called again.
    fn send_late(&mut self, now: LocalTime, out: &mut OutboxOf<Place>) {
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, _, to), answer) = entry.remove_entry();
            self.moody += u64::from(self.latest.get(&to) > Some(&id_of(&answer)));
            out.send(to, Message::Register(answer));
        }
        self.wake(now, out);
    }

    /// Carries the call out or not, and answers that nobody knows, or answers nothing at all.
    fn answer_unsurely(
        &mut self,
        now: LocalTime,
        from: Node,
        call: &register::Message,
        out: &mut OutboxOf<Place>,
    ) {
        if self.random.once_in(2) {
            self.answer(now, from, call);
        }
        if self.random.once_in(2) {
            let unknown = register::Message::Unknown(id_of(call));
            out.send(from, Message::Register(unknown));
        }
    }
}

fn id_of(call: &register::Message) -> CallId {
    match call {
        register::Message::Read(id)
        | register::Message::Write { id, .. }
        | register::Message::Value { id, .. }
        | register::Message::Written { id, .. }
        | register::Message::Conflict(id)
        | register::Message::Declined(id)
        | register::Message::Unknown(id) => *id,
    }
}

impl Protocol for Place {
    type Peer = Node;
    type Command = Ask;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if let Self::Member(member, _) = self {
            member.start(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match (self, input) {
            (Self::Member(member, watch), Input::Command(Ask::Member(command))) => {
                watch.handle(&mut **member, now, Input::Command(command), out);
            }
            (Self::Member(member, watch), Input::Message { from, message }) => {
                watch.handle(&mut **member, now, Input::Message { from, message }, out);
            }
            (Self::Member(member, watch), Input::Timer(timer)) => {
                watch.handle(&mut **member, now, Input::Timer(timer), out);
            }
            (Self::Register(register), Input::Command(ask)) => match ask {
                Ask::Mood(mood) => register.mood = mood,
                Ask::Lose => register.lose(),
                Ask::Restore(ago) => register.restore(ago),
                Ask::Touch => register.put(register.memory.record().cloned()),
                Ask::Time => register.timed = true,
                Ask::Member(_) => unreachable!("the register is no member"),
            },
            (
                Self::Register(register),
                Input::Message { from, message: Message::Register(call) },
            ) => register.call(now, from, call, out),
            (Self::Register(register), Input::Timer(Timer::Reread)) => register.send_late(now, out),
            (Self::Register(register), Input::Timer(_)) => {
                if register.answer_next(now, out) && !register.waiting.is_empty() {
                    register.take_time(out);
                }
            }
            (Self::Member(..), Input::Command(_))
            | (Self::Register(_), Input::Message { message: Message::Peer(_), .. }) => {
                unreachable!("nobody asks that")
            }
        }
    }
}

/// What the operator puts in the place of a record that was lost.
pub(crate) fn mark(last: &Record, nonce: u64) -> Record {
    Record {
        members: Vec::new(),
        leader: None,
        settled: false,
        closing: true,
        base_unknown: true,
        held: None,
        nonce,
        ..last.clone()
    }
}

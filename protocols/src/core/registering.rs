//! Speaking with the register: one read and one write at a time, each with a way out if no answer
//! comes.

use std::time::Duration;

use super::{Event, Member, Message, Node, Nominator, Out, Role, Service, Timer};
use crate::record::Record;
use crate::register::{self, CallId, Value, Version};
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Asks what the register holds, unless an answer is due already.
    pub(super) fn read_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        // Where nothing arbitrates nobody asks, until a newer policy has an arbiter.
        if !self.is_advisory() || self.wants_quorum() {
            self.ask_register(now, out);
        }
    }

    /// Asks it in any case.
    pub(super) fn ask_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(id) = self.register.begin_read(now) else { return };
        out.send(Node::Register, Message::Register(register::Message::Read(id)));
        // A write is not waited for any longer because of a read.
        if !self.register.writes() {
            self.await_register(out);
        }
    }

    /// Puts a record in place of what is there at that version.
    pub(super) fn write_register(
        &mut self,
        now: LocalTime,
        version: Version,
        record: Record,
        out: &mut Out<S, N>,
    ) {
        let id = self.register.begin_write(now);
        let write = register::Message::Write { id, version, record: Box::new(record) };
        out.send(Node::Register, Message::Register(write));
        self.await_register(out);
    }

    fn await_register(&self, out: &mut Out<S, N>) {
        out.arm(Timer::Register, self.register.patience(self.register_patience()));
    }

    /// How long the register may take to answer, if it is no slower of late: a nominee must not keep the others waiting.
    pub(super) fn register_patience(&self) -> Duration {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        timing.leader_lease / 3
    }

    /// The register answers.
    pub(super) fn on_register(
        &mut self,
        now: LocalTime,
        message: register::Message,
        out: &mut Out<S, N>,
    ) {
        match message {
            register::Message::Value { id, value } => {
                let Some(sent) = self.register.end_read(now, id) else { return };
                self.on_value(now, sent, *value, out);
            }
            register::Message::Written { id, .. } => {
                let Some(sent) = self.register.end_write(now, id) else { return };
                self.on_written(now, sent, out);
            }
            register::Message::Conflict(id) => {
                if self.register.end_write(now, id).is_some() {
                    // What was asked for before does not show what is there now.
                    self.register.forget_read();
                    self.read_register(now, out);
                }
            }
            register::Message::Unknown(id) => self.call_comes_to_nothing(now, id, out),
            register::Message::Declined(id) => {
                self.call_comes_to_nothing(now, id, out);
                // The same would never be written. What is next is decided anew, when that time is over.
                if self.register.is_write(id)
                    && let Some(candidate) = self.candidate()
                {
                    candidate.wrote();
                }
            }
            register::Message::Read(_) | register::Message::Write { .. } => {
                out.tell(Event::Ignored("misrouted"));
            }
        }
        if self.register.is_idle() {
            out.disarm(Timer::Register);
        }
    }

    /// A call without an outcome is given up when the time for one is over, so that the member that repeats it does not do
    /// so in haste.
    fn call_comes_to_nothing(&mut self, now: LocalTime, id: CallId, out: &mut Out<S, N>) {
        if let Some(ago) = self.register.comes_to_nothing(now, id) {
            out.arm(Timer::Register, self.register_patience().saturating_sub(ago));
        }
    }

    /// No answer in time. A late one is ignored; the role that needed it decides how to go on.
    pub(super) fn register_is_silent(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.register.give_up(now);
        match &self.role {
            Role::Candidate(_) => self.candidate_without_register(now, out),
            Role::Leader(_) => self.leader_without_register(now, out),
            Role::Resigned(_) => self.resigned_without_register(now, out),
            Role::Joiner { .. } | Role::Follower | Role::Gone => {}
        }
    }

    /// A view has begun: it wants to be confirmed.
    pub(super) fn reread_soon(&self, out: &mut Out<S, N>) {
        if !self.is_advisory() {
            out.arm(Timer::Reread, self.register_patience());
        }
    }

    /// Rule 10: members confirm the view by reading the register now and then.
    pub(super) fn reread(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.read_register(now, out);
        out.arm(Timer::Reread, self.reread_period());
    }

    /// Somebody may have changed the register: a member need not wait for its next turn to read it.
    /// A candidate reads when its steps require it.
    pub(super) fn look(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        match &self.role {
            Role::Joiner { .. } | Role::Follower | Role::Leader(_) => self.reread(now, out),
            Role::Candidate(_) | Role::Resigned(_) | Role::Gone => {}
        }
    }

    /// At most a sixth of the outage that a view survives and at most ten seconds; shorter by up to
    /// a quarter, differently for each process, so that a group does not ask all at once.
    fn reread_period(&self) -> Duration {
        let outage = self.record.as_ref().map_or(self.policy.timing, |r| r.timing).api_outage;
        let period = (outage / 6).min(Duration::from_secs(10));
        period.saturating_sub(period * self.register.jitter() / 1024)
    }

    /// The register holds this. `sent` is from before it was asked.
    ///
    /// While a write is under way it states nothing that could be relied on for the next step; the
    /// answer to the write, or its absence, leads to the next read.
    fn on_value(&mut self, now: LocalTime, sent: LocalTime, value: Value, out: &mut Out<S, N>) {
        self.nominations.reaches_the_register();
        self.note_mark(now, &value);
        if let Some(record) = &value.record {
            self.confirm(sent, record, out);
            for info in &record.members {
                if info.incarnation != self.me.incarnation {
                    out.tell(Event::Met(Box::new(info.clone())));
                }
            }
        }
        if self.register.writes() {
            return;
        }
        if self.is_advisory() && !matches!(self.role, Role::Resigned(_)) {
            return self.peers_read(now, value, out);
        }
        match &self.role {
            Role::Joiner { .. } => self.joiner_reads(now, value, out),
            Role::Follower => self.follower_reads(now, value, out),
            Role::Candidate(_) => self.candidate_reads(now, sent, value, out),
            Role::Leader(_) => self.leader_reads(now, value, out),
            Role::Resigned(resigned) => self.resigned_reads(now, *resigned, value, out),
            Role::Gone => {}
        }
    }
}

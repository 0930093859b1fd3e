//! What happens to locks at this member, step by step, for the page that draws it. Only `conclave dev`
//! does: elsewhere nobody listens, and nothing is done here.
//!
//! All that follows from one input has the time of that input, as one event of a space-time diagram.

use conclave_protocols::member::message::{AboutLock, Message, PeerMessage};
use conclave_protocols::member::{
    Command, Event, LockCommand, LockEvent, Member, Node, OfLock, OfService, ServiceCommand, Term,
};
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Effect, Epoch, FencingToken, Incarnation, Input, LocalTime, LockName};

use super::{Process, Sent};

/// Something that happened to a lock at a member.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: LocalTime,
    pub(crate) lock: LockName,
    pub(crate) what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The member asks for the lock.
    Asked,
    /// It sent a message.
    Sent { to: Incarnation, id: MessageId },
    /// It received one.
    Received { from: Incarnation, id: MessageId },
    /// It is in the critical section.
    Entered(Entered),
    /// It stays in the critical section until then, if it does not hear better.
    Extended { deadline: LocalTime },
    /// Whether the member's lease extends that from now on.
    Renewed { renewed: bool, listed: bool },
    /// It left, or gave up waiting.
    Left,
    /// It was in the critical section, and is no longer, though nobody gave the lock back.
    Lost,
}

/// How a member entered the critical section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(crate) token: Option<FencingToken>,
    pub(crate) term: Term,
    /// Who led the view.
    pub(crate) leader: Option<Incarnation>,
    pub(crate) algorithm: Option<LockAlgorithm>,
}

/// A message of a lock, as far as a diagram shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MessageId {
    pub(crate) name: &'static str,
    pub(crate) epoch: Epoch,
    /// Tells messages of one name apart that one member sent to another in one view.
    pub(crate) mark: u64,
}

/// The lock and the id of a message; nothing if it is about no lock.
fn message_id(message: &PeerMessage) -> Option<(&LockName, MessageId)> {
    let AboutLock { lock, epoch, name, mark, .. } = message.of_lock()?;
    Some((lock, MessageId { name, epoch, mark }))
}

impl Process<'_> {
    /// The member gets an input.
    pub(super) fn note_input(&self, at: LocalTime, input: &InputOf<Member>) {
        match input {
            Input::Command(Command::Service(ServiceCommand::Lock(LockCommand::Enter {
                lock,
                ..
            }))) => {
                self.note(at, lock, || What::Asked);
            }
            Input::Command(Command::Service(ServiceCommand::Lock(LockCommand::Exit { lock }))) => {
                self.note(at, lock, || What::Left);
            }
            Input::Command(Command::Service(ServiceCommand::Lock(LockCommand::Pass {
                lock,
                ..
            }))) => {
                self.note(at, lock, || What::Left);
                self.note(at, lock, || What::Asked);
            }
            Input::Message { from: Node::Member(from), message: Message::Peer(message) } => {
                if let Some((lock, id)) = message_id(message) {
                    self.note(at, lock, || What::Received { from: *from, id });
                }
            }
            Input::Command(_) | Input::Message { .. } | Input::Timer(_) => {}
        }
    }

    /// The member wants that done.
    pub(super) fn note_effects(&self, at: LocalTime, member: &Member, out: &OutboxOf<Member>) {
        let Some(sent) = &self.sent else { return };
        for effect in out.effects() {
            match effect {
                Effect::Send { to: Node::Member(to), message: Message::Peer(message) } => {
                    if let Some((lock, id)) = message_id(message) {
                        self.note(at, lock, || What::Sent { to: *to, id });
                    }
                }
                Effect::Tell(Event::Service(OfService::Lock(OfLock { lock, event }))) => {
                    self.note_event(at, member, lock, event);
                }
                Effect::Tell(Event::Lease(lease)) => {
                    // The page may miss something.
                    let _ = sent.try_send(Sent::Lease(*lease));
                }
                Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => {}
            }
        }
    }

    fn note_event(&self, at: LocalTime, member: &Member, lock: &LockName, event: &LockEvent) {
        match event {
            LockEvent::Entered { token, term, .. } => self.note(at, lock, || {
                let record = member.record();
                let policy = record.and_then(|record| record.policy.for_lock(lock.as_str()));
                What::Entered(Entered {
                    token: *token,
                    term: *term,
                    leader: record.and_then(|record| record.leader),
                    algorithm: policy.map(|policy| policy.algorithm),
                })
            }),
            LockEvent::Extended { deadline, .. } => {
                self.note(at, lock, || What::Extended { deadline: *deadline });
            }
            LockEvent::Renewed { renewed, listed } => {
                self.note(at, lock, || What::Renewed { renewed: *renewed, listed: *listed });
            }
            LockEvent::Lost(_) => self.note(at, lock, || What::Lost),
            LockEvent::Queued(_) | LockEvent::Left { .. } => {}
        }
    }

    fn note(&self, at: LocalTime, lock: &LockName, what: impl FnOnce() -> What) {
        if let Some(sent) = &self.sent {
            // The page may miss something.
            let _ = sent.try_send(Sent::Step(Step { at, lock: lock.clone(), what: what() }));
        }
    }
}

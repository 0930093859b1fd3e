//! Whom a member suspects to have crashed. The leader watches the other members of its view, and takes their answers to
//! its heartbeats for their heartbeats; a follower watches its leader. So detection sends nothing.
//!
//! A suspicion is a guess ([`crate::detection`]). It goes to the process, which counts it, and to services, which
//! may leave a member out of those that they nominate. It is not asked for by anything that grants, promises or ends.

use std::collections::BTreeSet;

use super::service::Notice;
use super::{Event, Member, Nominator, Out, PeerMessage, Role, Service, Timer};
use crate::detection::{Detector, Stated, Verdict};
use crate::ids::{Epoch, Incarnation};
use crate::policy::Timing;
use crate::time::LocalTime;

/// A member's failure detector.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Detection {
    detector: Detector<Incarnation>,
    stated: Stated,
    post: Option<Post>,
    /// For when the timer is set.
    armed: Option<LocalTime>,
}

/// From where a member watches others: by that it is known whom.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Post {
    epoch: Epoch,
    leader: Incarnation,
}

impl Default for Detection {
    fn default() -> Self {
        let stated = Stated::default();
        let detector = Detector::new(stated.with(Timing::default().heartbeat));
        Self { detector, stated, post: None, armed: None }
    }
}

impl Detection {
    pub(super) fn detector(&self) -> &Detector<Incarnation> {
        &self.detector
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Whether this member suspects another.
    pub fn suspects(&self, member: Incarnation) -> bool {
        self.detection.detector.is_suspected(member)
    }

    /// Guesses by that from now on.
    pub(super) fn detect_by(&mut self, now: LocalTime, stated: Stated, out: &mut Out<S, N>) {
        self.detection.stated = stated;
        self.set_detector();
        self.detection_is_due(now, out);
    }

    /// The interval is that of the heartbeats of the view.
    fn set_detector(&mut self) {
        if let Some(record) = &self.record {
            self.detection.detector.set(self.detection.stated.with(record.timing.heartbeat));
        }
    }

    /// Watches whom it is to watch in its present view and role.
    pub(super) fn watch_peers(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let post = self.post();
        if self.detection.post == post {
            return;
        }
        self.detection.post = post;
        self.set_detector();
        let peers = match (post, &self.record) {
            (Some(post), Some(record)) if post.leader == self.me.incarnation => {
                record.others(self.me.incarnation).collect()
            }
            (Some(post), Some(_)) => BTreeSet::from([post.leader]),
            (Some(_) | None, _) => BTreeSet::new(),
        };
        let verdicts = self.detection.detector.watch(now, &peers);
        self.report(now, verdicts, out);
        self.arm_detection(now, out);
    }

    fn post(&self) -> Option<Post> {
        let record = self.record.as_ref()?;
        let (epoch, me) = (record.epoch, self.me.incarnation);
        match &self.role {
            Role::Leader(_) => Some(Post { epoch, leader: me }),
            Role::Follower if self.is_in_view() => {
                record.leader.filter(|leader| *leader != me).map(|leader| Post { epoch, leader })
            }
            Role::Follower
            | Role::Joiner { .. }
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// Something came of a member. If that one is watched, nothing counts but what proves that messages arrive both
    /// ways: a heartbeat, or the answer to one.
    pub(super) fn take_for_a_sign(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        message: &PeerMessage<S::Message, N::Message>,
        out: &mut Out<S, N>,
    ) {
        let detector = &mut self.detection.detector;
        let verdict = match message {
            PeerMessage::Heartbeat(_) | PeerMessage::Promise(_) => detector.hear(now, from),
            #[cfg(feature = "next-version")]
            PeerMessage::NextHeartbeat(_) => detector.hear(now, from),
            PeerMessage::Leave(_) => detector.forget(from),
            PeerMessage::Join(_)
            | PeerMessage::Noted
            | PeerMessage::Refusal { .. }
            | PeerMessage::SealRequest { .. }
            | PeerMessage::Seal(_)
            | PeerMessage::SealRefused { .. }
            | PeerMessage::HandOver(_)
            | PeerMessage::Taken { .. }
            | PeerMessage::Nominator { .. }
            | PeerMessage::Service(_) => detector.hear_of(now, from),
        };
        let due = detector.deadline(from).filter(|due| self.detection.is_before_the_timer(*due));
        self.report(now, verdict, out);
        match due {
            Some(due) if due <= now => self.detection_is_due(now, out),
            Some(_) => self.arm_detection(now, out),
            None => {}
        }
    }

    /// Suspects those whose time is over.
    pub(super) fn detection_is_due(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.detection.armed = None;
        let verdicts = self.detection.detector.look(now);
        self.report(now, verdicts, out);
        self.arm_detection(now, out);
    }

    /// The timer may fire too early: a member that was heard meanwhile has more time, and it is set again then.
    fn arm_detection(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        match self.detection.detector.next() {
            Some(next) if self.detection.is_before_the_timer(next) => {
                self.detection.armed = Some(next);
                out.arm(Timer::Detection, now.until(next));
            }
            Some(_) => {}
            None => {
                self.detection.armed = None;
                out.disarm(Timer::Detection);
            }
        }
    }

    fn report(
        &mut self,
        now: LocalTime,
        verdicts: impl IntoIterator<Item = Verdict<Incarnation>>,
        out: &mut Out<S, N>,
    ) {
        for verdict in verdicts {
            match verdict {
                Verdict::Suspected(member) => {
                    out.tell(Event::Suspected(member));
                    let seat = self.holds.seat().filter(|seat| seat.leads());
                    if let Some(rank) = seat.and_then(|seat| seat.rank_of(member)) {
                        self.notice(now, Notice::Suspected(rank), out);
                    }
                }
                Verdict::Trusted { peer, mistaken } => {
                    out.tell(Event::Trusted { member: peer, mistaken });
                }
            }
        }
    }
}

impl Detection {
    fn is_before_the_timer(&self, at: LocalTime) -> bool {
        self.armed.is_none_or(|armed| at < armed)
    }
}

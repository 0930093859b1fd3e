//! What goes into a member and what comes out of it, but for the messages.

use std::time::Duration;

use crate::detection::Stated;
use crate::ids::{Epoch, Incarnation};
use crate::policy::{LeaseClass, Policy};
use crate::record::{MemberInfo, Record};
use crate::time::LocalTime;

/// With whom a member speaks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Node {
    /// The register: the API server.
    Register,
    /// Another member, or one that wants to be.
    Member(Incarnation),
}

/// What is asked of a member from within its process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command<C> {
    /// The application asks something of the service.
    Service(C),
    /// The group's resource states this now.
    Policy(Box<Policy>),
    /// So it is to be guessed from now on which members have crashed. Each member guesses for itself, so no view
    /// carries that.
    Detection(Stated),
    /// The status of the group's resource states this now.
    Status(StatusEpoch),
    /// Discovery found these others, all of them. Only the arbiter `None` needs to be notified: there,
    /// no register names the members.
    Discovered(Vec<MemberInfo>),
    /// That process is dead: the kubelet reported its container as terminated. It must be true.
    Evidence(Incarnation),
    /// Somebody may have changed the register.
    Look,
    /// For that long another should lead, if there is one: this one, if it could. Holds go on, and the member stays.
    Resign {
        /// Whom it names.
        to: Option<Incarnation>,
        /// For how long, and no less than three leader leases.
        cooldown: Duration,
    },
    /// The pod is about to end: another should lead. Holds go on.
    Drain,
    /// While this member hands over, no application was notified of a later end of its leader lease.
    Notified(LocalTime),
    /// Leaves the group.
    Leave,
}

/// The timers of a member.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer<T> {
    /// The leader's next heartbeat.
    Heartbeat,
    /// The own promise has run out.
    Promise,
    /// The next read of the register.
    Reread,
    /// The register did not answer.
    Register,
    /// The next step of a candidacy.
    Candidacy,
    /// The nominee began no view.
    Nominee,
    /// The next try to join.
    Join,
    /// The end of a hold.
    Holds,
    /// The next timer of the service.
    Service,
    /// The end of the grace period.
    Grace,
    /// Somebody was silent for so long as to be suspected.
    Detection,
    /// A successor did not answer.
    Leave,
    /// A timer of the nominator.
    Nominator(T),
}

/// What a member notifies its process of.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event<E> {
    /// Somebody's addresses.
    Met(Box<MemberInfo>),
    /// A view began here.
    Installed(Box<Record>),
    /// This member stands so from now on.
    Leadership(Leadership),
    /// Whether anything is granted in the group at the moment; nothing if this member cannot know.
    Grants(Option<bool>),
    /// Until when, as far as this member knows, nothing is newly granted: somebody of an earlier view may
    /// hold. Nothing if admission is open, or this member cannot know.
    Grace(Option<LocalTime>),
    /// Whether the members of the group hold and wait for as much as they may
    /// ([`GROUP_MAX`](super::GROUP_MAX)).
    Full(bool),
    /// The register confirmed the view, counted from that time.
    Confirmed(LocalTime),
    /// A nomination that this member took part in has ended.
    Elected {
        /// Who was nominated.
        winner: Incarnation,
        /// The messages that this member sent in it, as the textbook counts them.
        messages: u64,
        /// How long it took here.
        took: Duration,
    },
    /// The service lets the application know.
    Service(E),
    /// All that this member holds goes on, but for what it was notified of otherwise ([`Term`]).
    Lease(Lease),
    /// This member guesses that one has crashed which it watches. Nothing that must be safe follows from it.
    Suspected(Incarnation),
    /// It does so no longer.
    Trusted {
        /// Of whom.
        member: Incarnation,
        /// It has heard that one: for so long it was mistaken. Nothing if it watches it no more.
        mistaken: Option<Duration>,
    },
    /// A message made no sense, and was ignored.
    Ignored(&'static str),
    /// This member leaves, and could not do this.
    Undone(&'static str),
    /// This member is out of the group.
    Left,
}

/// How a member stands in its group.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Leadership {
    /// It has the leader lease until that time by its own clock, and its applications may believe so. The
    /// leader lease itself may be between two views of this leader.
    Leading(LocalTime),
    /// It has the leader lease, and is about to hand it over: its applications may believe so no longer.
    HandingOver,
    /// It promised to follow somebody until that time.
    Following(Incarnation, LocalTime),
    /// It takes part in a nomination, or waits for the view of the winner, or begins one, or leads
    /// while an application of the leader before may still believe in that one.
    Electing,
    /// It is in no view, or leads one without a leader lease.
    Isolated,
}

/// The lease of a member: one for all its holds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Lease {
    /// It extends what was held before that time.
    pub stamp: LocalTime,
    /// Until then.
    pub until: LocalTime,
    /// Until then, what lasts no longer than a leader lease.
    pub leads_until: LocalTime,
    /// Of a leader: what it lists and another member has heard of lasts longer.
    pub heard: Heard,
}

/// How long those holds of a leader last that others have heard of.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Heard {
    /// Those that it lists and held before that time.
    pub stamp: LocalTime,
    /// Until then.
    pub until: LocalTime,
}

impl Lease {
    /// Until when it extends what is of that class.
    #[must_use]
    pub fn until(&self, class: LeaseClass) -> LocalTime {
        match class {
            LeaseClass::Member => self.until,
            LeaseClass::Leader => self.leads_until,
        }
    }

    /// Whether nothing that the one before extended needs that any more.
    #[must_use]
    pub fn replaces(&self, before: &Self) -> bool {
        self.stamp >= before.stamp
            && self.until >= before.until
            && self.leads_until >= before.leads_until
            && self.heard.stamp >= before.heard.stamp
            && self.heard.until >= before.heard.until
    }
}

/// For how long a hold is safe, as its application is notified.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Term {
    until: LocalTime,
    /// Since when the member's lease extends it; nothing if it does not.
    renewed: Option<LocalTime>,
    /// A leader lists it.
    listed: bool,
    class: LeaseClass,
}

impl Term {
    /// A hold begins, and a lease extends it since then: earlier than now if it entered on a grant that it
    /// kept. One that a leader lists outlasts its leader lease once others have heard of it.
    #[must_use]
    pub fn new(since: LocalTime, deadline: LocalTime, listed: bool) -> Self {
        Self { until: deadline, renewed: Some(since), listed, class: LeaseClass::Member }
    }

    /// The same, of another class.
    #[must_use]
    pub fn of(self, class: LeaseClass) -> Self {
        Self { class, ..self }
    }

    /// Until when it is safe.
    #[must_use]
    pub fn until(&self) -> LocalTime {
        self.until
    }

    /// Whether a lease extends it.
    #[must_use]
    pub fn is_of(&self, lease: Lease) -> bool {
        self.renewed.is_some_and(|since| since < lease.stamp)
    }

    /// The member's lease was extended.
    pub fn renew(&mut self, lease: Lease) {
        let Some(since) = self.renewed else { return };
        if since < lease.stamp {
            self.until = self.until.max(lease.until(self.class));
        }
        if self.listed && since < lease.heard.stamp {
            self.until = self.until.max(lease.heard.until);
        }
    }

    /// It alone was extended.
    pub fn extend(&mut self, deadline: LocalTime) {
        self.until = self.until.max(deadline);
    }

    /// Whether the member's lease extends it from now on, and whether a leader lists it.
    pub fn set_renewed(&mut self, now: LocalTime, renewed: bool, listed: bool) {
        self.renewed = renewed.then_some(now);
        self.listed = listed;
    }
}

/// What was used, as the status of a group's resource states it: the operator does not forget it, whatever
/// becomes of the register.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StatusEpoch {
    /// The latest view.
    pub epoch: Epoch,
    /// No token was above it.
    pub ceiling: Epoch,
}

impl From<Epoch> for StatusEpoch {
    fn from(epoch: Epoch) -> Self {
        Self { epoch, ceiling: epoch }
    }
}

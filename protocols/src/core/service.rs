//! What a group offers, as the core sees it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::holds::{Holds, Lines, Seat};
use crate::detection::Detector;
use crate::ids::{HoldName, Incarnation, MemberId, RequestNumber};
use crate::policy::{LeaseClass, Policy};
use crate::protocol::{Named, Value};
use crate::time::LocalTime;
use crate::view::Carried;

/// Something that the members of a group do together, within a view.
///
/// A service knows its place in a view ([`Seat`]) and nothing of registers, promises or seals.
/// There is one value for a member's whole life: what its application wants outlives views. The core carries
/// the holders and the waiters from one view into the next, so a service only decides who is to have a hold.
pub trait Service: Value {
    /// What the application on this member may ask for.
    type Command: Value;
    /// What members send to each other. It arrives in order, that of each [part](Service::part) for itself; a gap ends
    /// the view, unless the service [repairs](Service::repairs) it.
    type Message: Value + Named + Serialize + DeserializeOwned;
    /// What the application on this member gets to know.
    type Event: Value;

    /// What a member has that has just started, and is in no view.
    fn new(me: Incarnation) -> Self;

    /// A view begins. What is in `carried` is held and waited for; of what members wait for and hold by the
    /// leader's grant alone, a member other than the leader is notified of what concerns it.
    fn begin_view(&mut self, cx: &mut Cx<'_, Self>, carried: &CarriedHolds);

    /// A view ends: nothing of it is sent, heard or granted from now on. What this member still claims is
    /// in `holds`.
    fn end_view(&mut self, holds: &Holds);

    /// The application asks.
    fn command(&mut self, cx: &mut Cx<'_, Self>, command: Self::Command);

    /// Another member of the view sent this.
    fn receive(&mut self, cx: &mut Cx<'_, Self>, from: MemberId, message: Self::Message);

    /// The core noticed something.
    fn notice(&mut self, cx: &mut Cx<'_, Self>, notice: Notice);

    /// When it is to be called for a timer of its own; nothing while none is set.
    fn next_timer(&self) -> Option<LocalTime>;

    /// That time has come.
    fn fire(&mut self, cx: &mut Cx<'_, Self>);

    /// Which of the services that this one consists of sends such a message.
    fn part(_message: &Self::Message) -> PartNumber {
        PartNumber::default()
    }

    /// Whether what is lost of such messages is found again by what promises list; else a view in which one is
    /// lost ends.
    fn repairs(policy: &Policy, message: &Self::Message) -> bool;

    /// At the leader: who waits for what it grants. The calls from here on are for services that grant.
    fn lines(&self, _seat: &Seat) -> Lines {
        Lines::default()
    }

    /// At the leader: a member that it heard of waits for what the leader grants, by that request. If it was
    /// lost, or its grant was, it is made good. `asked`: since when the member knows of what was sent before.
    fn find(
        &mut self,
        _cx: &mut Cx<'_, Self>,
        _member: MemberId,
        _want: (HoldName, RequestNumber),
        _asked: LocalTime,
    ) {
    }

    /// At the leader: what a member holds and others wait for. It may not know yet that it is wanted.
    fn wanted_of(&mut self, _cx: &mut Cx<'_, Self>, _holder: Incarnation) -> Vec<HoldName> {
        Vec::new()
    }

    /// At the leader, where nothing arbitrates: takes it that a member holds what nobody else is known to
    /// hold. False if the service knows otherwise.
    fn adopt(&mut self, _cx: &mut Cx<'_, Self>, _member: MemberId, _name: &HoldName) -> bool {
        false
    }
}

/// A service among those that a service consists of.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PartNumber(pub u8);

/// Who holds and who waits when a view begins, by the ranks of that view.
pub type CarriedHolds = std::collections::BTreeMap<HoldName, Carried>;

/// What the core notifies a service of.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Notice {
    /// Anything may be granted that could not be before: admission is open, or it is time to look again.
    Open,
    /// A closure of this name, or its holder's lease, may be over.
    Stirred(HoldName),
    /// The leader, which grants it, took out its holder, whose lease is over.
    Expelled(HoldName),
    /// Nothing may be left to be known of it.
    Idle(HoldName),
    /// This member's hold ended by time.
    Lapsed {
        /// Which.
        name: HoldName,
        /// The application claimed it, and does no longer.
        claimed: bool,
        /// The view knew of it.
        known: bool,
    },
    /// The same of a grant that was only kept.
    KeptLapsed(HoldName),
    /// This member's hold ended because something arbitrates from now on.
    Void(HoldName),
    /// Whether the lease of this member extends a hold of it from now on, and whether a leader lists it.
    Renewed {
        /// Which.
        name: HoldName,
        /// It does.
        renewed: bool,
        /// A leader does.
        listed: bool,
    },
    /// The lease of this member that extends holds of that class has not run for a while: what it waits for of
    /// it may have been passed over.
    Doubt(LeaseClass),
    /// The leader extended the lease of this member.
    Extended {
        /// It knows what this member waited for then.
        asked: LocalTime,
        /// Others want these holds of this member.
        wanted: Vec<HoldName>,
    },
    /// At the leader, once a heartbeat.
    Beat {
        /// What was waited for then is known.
        asked: LocalTime,
    },
    /// At the leader: that member was not heard of for long, and is not to be granted anything.
    Silent(MemberId),
    /// At the leader: it guesses that this member has crashed.
    Suspected(MemberId),
    /// At the leader: that member left, and waits for nothing.
    Left(MemberId),
    /// This member is to give the lead up, and gives back what it does not use.
    Rests,
    /// This member is about to leave the lead or the group, and is to keep nothing that it does not use.
    Drains,
    /// This member leaves the group: its application gives back what it has, and gets nothing any more.
    Leaves,
}

impl Notice {
    /// Whether a service has to hear of it also when the view has ended: it is about this member alone.
    pub(super) fn outlives_the_view(&self) -> bool {
        match self {
            Self::Lapsed { .. }
            | Self::KeptLapsed(_)
            | Self::Void(_)
            | Self::Renewed { .. }
            | Self::Rests
            | Self::Drains
            | Self::Leaves => true,
            Self::Open
            | Self::Stirred(_)
            | Self::Expelled(_)
            | Self::Idle(_)
            | Self::Doubt(_)
            | Self::Extended { .. }
            | Self::Beat { .. }
            | Self::Silent(_)
            | Self::Suspected(_)
            | Self::Left(_) => false,
        }
    }
}

/// One call of a service: the time, its member's holds, and what it wants done.
#[derive(Debug)]
pub struct Cx<'a, S: Service> {
    /// The one reading of the clock.
    pub now: LocalTime,
    /// What this member knows of holds.
    pub holds: &'a mut Holds,
    pub(super) detector: &'a Detector<Incarnation>,
    pub(super) out: &'a mut Vec<ServiceEffect<S>>,
}

/// What a service wants done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ServiceEffect<S: Service> {
    Send(MemberId, S::Message),
    Tell(S::Event),
    Transfer(MemberId),
}

impl<S: Service> Cx<'_, S> {
    /// Sends something to another member of the view.
    pub fn send(&mut self, to: MemberId, body: S::Message) {
        self.out.push(ServiceEffect::Send(to, body));
    }

    /// Lets the application know.
    pub fn tell(&mut self, event: S::Event) {
        self.out.push(ServiceEffect::Tell(event));
    }

    /// At the leader of the group: that member is to lead it next.
    pub fn transfer(&mut self, to: MemberId) {
        self.out.push(ServiceEffect::Transfer(to));
    }

    /// Whether this member guesses that another has crashed. A guess may choose who is nominated; it decides neither
    /// who holds nor who may be granted something.
    #[must_use]
    pub fn is_suspected(&self, member: MemberId) -> bool {
        let member = self.holds.seat().and_then(|seat| seat.member(member));
        member.is_some_and(|member| self.detector.is_suspected(member))
    }

    /// Calls a service that is a part of this one: what it sends and reports is this one's.
    pub fn with_part<P: Service, R>(
        &mut self,
        message: impl Fn(P::Message) -> S::Message,
        event: impl Fn(P::Event) -> S::Event,
        act: impl FnOnce(&mut Cx<'_, P>) -> R,
    ) -> R {
        let mut out = Vec::new();
        let detector = self.detector;
        let result = act(&mut Cx { now: self.now, holds: self.holds, detector, out: &mut out });
        self.out.extend(out.into_iter().map(|effect| match effect {
            ServiceEffect::Send(to, body) => ServiceEffect::Send(to, message(body)),
            ServiceEffect::Tell(about) => ServiceEffect::Tell(event(about)),
            ServiceEffect::Transfer(to) => ServiceEffect::Transfer(to),
        }));
        result
    }
}

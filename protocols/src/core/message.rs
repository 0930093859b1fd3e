//! What the members of a group send to each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use super::announced::{Announced, MemberChanges};
use crate::ids::{Epoch, FencingToken, HoldName, Incarnation, RequestNumber};
use crate::protocol::Named;
use crate::record::MemberInfo;
use crate::register;
use crate::time::LocalTime;
use crate::version;

/// A message between members, or between a member and the register. `B` is what members send for the service,
/// `N` what nominators send.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Message<B, N> {
    /// Between members.
    Peer(PeerMessage<B, N>),
    /// To and from the register.
    Register(register::Message),
}

/// A message between members. Later versions append to it, and change nothing ([`version`]).
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum PeerMessage<B, N> {
    /// "I want to be a member." To the leader of the recorded view, and in turn to some of the others.
    Join(Box<MemberInfo>),
    /// "I heard you; the leader will see to it." Keeps a joiner from taking us all for dead.
    Noted,
    /// "I am leaving, and enter nothing any more; take me out of the next view."
    Leave(Box<Leave>),
    /// "I lead this view; promise not to follow another."
    Heartbeat(Box<Heartbeat>),
    /// "I promise."
    Promise(Box<Promise>),
    /// "I follow nobody in this epoch or below." To a leader of a later view: "announce it to me."
    Refusal {
        /// The highest epoch refused.
        floor: Epoch,
    },
    /// "Who is in that view, and may hold what? And refuse it from now on."
    SealRequest {
        /// The view to end.
        base: Epoch,
    },
    /// "I refuse it from now on; this is what I hold."
    Seal(Box<Seal>),
    /// "I promised somebody; ask again." Of a later view than was asked for: "I know of that one."
    SealRefused {
        /// The view in question.
        base: Epoch,
    },
    /// "I resign; you are my successor."
    HandOver(Box<HandOver>),
    /// "I took over what you handed me."
    Taken {
        /// The new view.
        epoch: Epoch,
    },
    /// A message of the nominators.
    Nominator {
        /// The view whose members nominate.
        epoch: Epoch,
        /// What is sent.
        message: N,
    },
    /// A message of the service.
    Service(Box<Envelope<B>>),
    /// A heartbeat, as the next version has it.
    #[cfg(feature = "next-version")]
    NextHeartbeat(Box<Heartbeat>),
}

impl<B, N> PeerMessage<B, N> {
    /// A heartbeat, as it is sent in a view that speaks this version.
    pub(crate) fn heartbeat(heartbeat: Box<Heartbeat>, version: u16) -> Self {
        match version {
            #[cfg(feature = "next-version")]
            version::NEXT.. => Self::NextHeartbeat(heartbeat),
            _ => Self::Heartbeat(heartbeat),
        }
    }

    /// The first version that has this message.
    pub fn since(&self) -> u16 {
        match self {
            Self::Join(_)
            | Self::Noted
            | Self::Leave(_)
            | Self::Heartbeat(_)
            | Self::Promise(_)
            | Self::Refusal { .. }
            | Self::SealRequest { .. }
            | Self::Seal(_)
            | Self::SealRefused { .. }
            | Self::HandOver(_)
            | Self::Taken { .. }
            | Self::Nominator { .. }
            | Self::Service(_) => version::FIRST,
            #[cfg(feature = "next-version")]
            Self::NextHeartbeat(_) => version::NEXT,
        }
    }

    /// Whether it is of no use when it is late: its sender sends it again.
    pub fn is_fleeting(&self) -> bool {
        match self {
            Self::Join(_)
            | Self::Noted
            | Self::Heartbeat(_)
            | Self::Promise(_)
            | Self::Refusal { .. }
            | Self::SealRequest { .. }
            | Self::SealRefused { .. } => true,
            #[cfg(feature = "next-version")]
            Self::NextHeartbeat(_) => true,
            Self::Leave(_)
            | Self::Seal(_)
            | Self::HandOver(_)
            | Self::Taken { .. }
            | Self::Nominator { .. }
            | Self::Service(_) => false,
        }
    }
}

/// What a member sends last.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Leave {
    /// The view that it leaves; zero if it is in none.
    pub epoch: Epoch,
    /// What it holds: its application may still be at work.
    pub holds: Vec<(HoldName, FencingToken)>,
}

impl Leave {
    /// Whether it reports in that view what its sender holds. It left that view or an earlier one, whose next
    /// it never entered, and enters nothing any more.
    pub(crate) fn counts_in(&self, view: Epoch) -> bool {
        let same_kind = self.epoch.is_unarbitrated() == view.is_unarbitrated();
        self.epoch > Epoch::default() && self.epoch <= view && same_kind
    }

    /// Whether it reports that a grant is held, or became the one that is: to ask of many.
    pub(crate) fn tells_of(&self) -> impl Fn(&HoldName, FencingToken) -> bool + '_ {
        let holds: BTreeMap<_, _> = self.holds.iter().map(|(name, held)| (name, *held)).collect();
        move |name, token| holds.get(name).is_some_and(|held| token.may_become(*held))
    }
}

/// A leader's heartbeat.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Heartbeat {
    /// The view.
    pub epoch: Epoch,
    /// Counts the heartbeats of this view.
    pub seq: u64,
    /// Whether anything is granted.
    pub admission: Admission,
    /// What nobody but the leader could report; nothing where nothing arbitrates.
    pub list: Option<LeaderList>,
    /// How many changes of the member's list the leader knows of; zero: none, so that it needs the whole.
    pub listed: u64,
    /// Acknowledges the member's last promise.
    pub extended: Option<Extended>,
    /// The view itself, in the first heartbeat to a member, and again when that asks for it.
    pub announcement: Option<Box<Announcement>>,
}

/// Whether anything is granted in a view.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Admission {
    /// It is open: the leader has its leader lease, and the grace period is over. It is closed for a
    /// moment while the leader makes sure of all holds.
    pub open: bool,
    /// The highest `high` of a token that the view may give.
    pub ceiling: Epoch,
    /// The members hold and wait for as much as a group may, and are to ask for nothing more.
    pub full: bool,
}

/// The beginning of a view.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Announcement {
    /// The view as the register has it.
    pub record: Announced,
    /// Who held what when the view before ended.
    pub carried: Table,
}

/// Holders and waiters.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Table {
    /// What is held.
    pub holds: Vec<TableHold>,
    /// Who waits for what, the first in line first.
    pub waits: Vec<(HoldName, Vec<Incarnation>)>,
}

/// Something that is held.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct TableHold {
    /// Which.
    pub name: HoldName,
    /// By whom.
    pub holder: Incarnation,
    /// With this token.
    pub token: FencingToken,
    /// For how much longer it keeps others out at the most if the holder is not in the next view and
    /// cannot renew, the delay of its name included; if nothing is stated, a whole member lease and the delay.
    pub rest: Option<Duration>,
    /// Who that is, for people; without metadata.
    pub note: Note,
}

/// What a member states about a claim, for people.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Note {
    /// Who asked.
    pub owner: String,
    /// What it attached.
    pub metadata: Option<Metadata>,
}

/// A JSON object that a caller attached to a claim, at most 2 KiB. Copies share it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(from = "String", into = "String")]
pub struct Metadata(Arc<str>);

impl Metadata {
    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Metadata {
    fn from(json: String) -> Self {
        Self(json.into())
    }
}

impl From<Metadata> for String {
    fn from(Metadata(json): Metadata) -> Self {
        json.as_ref().to_owned()
    }
}

/// The leader's answer to a promise: the member's lease goes on, and with it all that the member held when it
/// promised.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Extended {
    /// The promise, by the stamp that the member put on it.
    pub stamp: LocalTime,
    /// What the member listed as held and the leader does not know as that.
    pub refused: Vec<(HoldName, FencingToken)>,
    /// Holds of this member that others wait for.
    pub wanted: Vec<HoldName>,
}

/// A member's answer to a heartbeat.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Promise {
    /// The view.
    pub epoch: Epoch,
    /// Of which heartbeat.
    pub seq: u64,
    /// The member's clock when it sent this.
    pub stamp: LocalTime,
    /// What it holds and waits for, as far as that has changed.
    pub changes: Changes,
    /// How many changes of the leader's list the member knows of; zero: none, so that it needs the whole.
    pub listed: u64,
    /// For people: what a leader that has just begun does not know of this, some at a time.
    pub notes: Vec<(HoldName, Note)>,
    /// It is about to end, or rests, and should not be given the leader lease.
    pub drains: bool,
}

/// What has changed in a member's list of what it holds and waits for, since a change that the other end knows
/// of: its leader, or, of a leader's list of its own holds, a member.
///
/// A member numbers the changes of its list in a view from one. What it sends costs as much as what has changed
/// lately, not as much as what it holds.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Changes {
    /// The number of the change after which these come; zero: they are the whole list.
    pub since: u64,
    /// The number of the latest.
    pub latest: u64,
    /// How each of these names stands now.
    pub items: Vec<(HoldName, ListItem)>,
    /// Of the whole list: a leader that does not come to the same asks for the whole.
    pub digest: u64,
}

/// What a member reports about one name in its list. Neither: it is not in it any more.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct ListItem {
    /// It holds it, with this token.
    pub holds: Option<FencingToken>,
    /// It waits for it, by this request.
    pub waits: Option<RequestNumber>,
}

/// A member's seal of a view.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Seal {
    /// The view.
    pub base: Epoch,
    /// What the member holds.
    pub holds: Vec<(HoldName, FencingToken, Note)>,
    /// What it waits for, and since when.
    pub waits: Vec<(HoldName, Duration)>,
    /// What the leader of the view listed last; nothing if the member never promised in that view.
    pub list: Option<List>,
    /// From the leader of the view: everything, which makes other seals needless.
    pub hand_over: Option<Box<HandOver>>,
}

/// What a leader reports to each member of the holds that nobody else could report, should it fall silent
/// (rule 20): the holder of anything else is a member of the view, and its own seal reports it.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct LeaderList {
    /// What has changed in its own holds, as far as the member does not know.
    pub changes: Changes,
    /// For people: of the holds that this names; without metadata.
    pub notes: Vec<(HoldName, Note)>,
    /// With a rest: holds of members outside of the view.
    pub outsiders: Vec<TableHold>,
    /// For how much longer others may run: the rest of the grace period, or of what found no room.
    pub rest: Duration,
    /// The rest of the grace period alone, for those who wait.
    pub grace: Duration,
}

/// The holds that a leader listed, as its members report them.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct List {
    /// The leader's own, and, with a rest, those of members outside of the view.
    pub holds: Vec<TableHold>,
    /// For how much longer others may run: the rest of the grace period, or of what found no room.
    pub rest: Duration,
    /// The rest of the grace period alone, for those who wait.
    pub grace: Duration,
}

/// What a leader that resigns gives to its successor: its seal.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct HandOver {
    /// The view that ends.
    pub base: Epoch,
    /// Holders and waiters.
    pub table: Table,
    /// The rest of the grace period.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub grace: Duration,
    /// The shortest member lease that the next view may have: no hold lasts longer.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub member_lease: Duration,
    /// Who is to be in the next view.
    pub stays: Vec<Incarnation>,
    /// Who wants to join it.
    pub joins: Vec<MemberInfo>,
    /// Whether an application may still believe in this leader, or in one before it (rule 36).
    pub believed: bool,
}

/// A message of a service.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Envelope<B> {
    /// The view.
    pub epoch: Epoch,
    /// Counts the messages of its [part](super::Service::part) of the service from the sender to the receiver in this view, from one.
    pub number: u64,
    /// What it carries.
    pub body: B,
}

impl<B: Named, N: Named> Named for Message<B, N> {
    fn name(&self) -> &'static str {
        match self {
            Self::Peer(message) => message.name(),
            Self::Register(message) => message.name(),
        }
    }
}

impl<B: Named, N: Named> Named for PeerMessage<B, N> {
    fn name(&self) -> &'static str {
        match self {
            Self::Join(_) => "join",
            Self::Noted => "noted",
            Self::Leave(_) => "leave",
            Self::Heartbeat(_) => "heartbeat",
            #[cfg(feature = "next-version")]
            Self::NextHeartbeat(_) => "heartbeat",
            Self::Promise(_) => "promise",
            Self::Refusal { .. } => "refusal",
            Self::SealRequest { .. } => "seal_request",
            Self::Seal(_) => "seal",
            Self::SealRefused { .. } => "seal_refused",
            Self::HandOver(_) => "hand_over",
            Self::Taken { .. } => "taken",
            Self::Nominator { message, .. } => message.name(),
            Self::Service(envelope) => envelope.body.name(),
        }
    }
}

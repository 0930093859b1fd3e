//! Holds: named exclusive rights with fencing tokens, and what makes them safe whatever they are rights to.
//!
//! A service decides who is to have a hold: a mutual-exclusion algorithm hands out locks, an election a
//! lead. What is here is the same for all of them (rules 20 to 32, and 40, of `docs/views.md`):
//!
//! * **A lease.** A member has one for all its holds: until `hold(lease)` after the stamp of its latest
//!   promise that the leader has acknowledged in this view. The leader has its leader lease ([`own`], [`lease`]).
//! * **A token.** Every permission carries the highest token of the hold that its sender knows; the member
//!   that enters takes the next. What a leader grants it numbers itself ([`entries`]).
//! * **Lists.** A member's promises list what it holds and waits for, as changes with a digest of the whole
//!   ([`changes`]); so the leader knows what its members hold, also what they take by each other's
//!   permission ([`listed`]). The leader's heartbeats list its own ([`list`]).
//! * **Reports.** A seal, a hand-over and the beginning of a view name holders and waiters ([`carry`]).
//! * **Closures.** A hold that ended by time stays closed for as long as its holder may still be at work.
//!
//! A service sees [`Holds`] through [`Cx`](super::Cx), and uses what is public in it; it hears of what the
//! core noticed by [`Notice`].

mod advisory;
mod carry;
mod changes;
mod entries;
mod lease;
mod list;
mod listed;
mod map;
mod notes;
mod own;
mod seat;
mod shown;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::carry::Lines;
pub(super) use self::changes::Copied;
use self::changes::OwnList;
pub use self::entries::Holder;
use self::entries::{Admission, Reserved, TableEntry};
use self::lease::OwnLease;
pub use self::listed::GROUP_MAX;
use self::listed::{Listing, Waiter};
use self::map::HeldMap;
use self::notes::Notes;
use self::own::Hold;
pub use self::own::{Claim, Taken};
pub use self::seat::Seat;
pub use self::shown::Shown;
use super::message::Note;
use super::service::Notice;
use super::{Heard, Lease, Term};
use crate::ids::{FencingToken, HoldName, Incarnation, MemberId, RequestNumber};
use crate::policy::{Arbiter, LeaseClass, Policy};
use crate::time::LocalTime;

/// All holds that one member knows of.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Holds {
    me: Incarnation,
    seat: Option<Seat>,
    /// Of the latest view: a hold may end when this member is in none.
    policy: Policy,
    all: HeldMap,
    /// Those that this member claims, or has at hand.
    own: BTreeSet<HoldName>,
    /// Those of them that it waits for.
    waiting: BTreeSet<HoldName>,
    /// Those of them that the leader does not extend.
    refused: BTreeSet<HoldName>,
    /// What its promises list, or, if it leads, its heartbeats.
    own_list: OwnList,
    /// How many changes of it the leader knows.
    leader_knows: u64,
    /// How many the members know, if it leads.
    listeners: BTreeMap<Incarnation, u64>,
    /// When own holds end, each as it was known at some time; the lease may have extended it since.
    deadlines: BTreeSet<(LocalTime, HoldName)>,
    /// No token of a forgotten name of this view is higher.
    floor: FencingToken,
    /// What extends its holds.
    lease: OwnLease,
    /// When each member was last heard of.
    heard: BTreeMap<MemberId, LocalTime>,
    /// Members that were not heard of for long, and are granted nothing.
    silent: BTreeSet<MemberId>,
    admission: Admission,
    /// When entries end and closures open, each as it was known at some time; it may be later by now.
    due: BTreeSet<(LocalTime, HoldName)>,
    /// Until then a holder that is not in the view may hold. That a name stays closed for longer counts
    /// for nothing here: nobody holds it, so no seal is needed to know who does.
    outsiders_until: LocalTime,
    /// The highest token given in this view.
    highest: FencingToken,
    /// What the members' latest promises listed, at the leader.
    listings: BTreeMap<MemberId, Listing>,
    /// How many names those have.
    listed: usize,
    /// Until when the entries of each member run that its promises extend.
    leases: BTreeMap<(Incarnation, LeaseClass), LocalTime>,
    /// None of these ends before.
    leases_last_until: LocalTime,
    notes: Notes,
    /// What the service is to hear, in order.
    notices: VecDeque<Notice>,
}

/// What is known of one name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct NameState {
    /// This member's application wants it or has it.
    claim: Option<Claim>,
    /// This member stands in line for it, by that request.
    waits: Option<RequestNumber>,
    /// What this member has at hand.
    hold: Option<Hold>,
    /// Nobody makes use of that: it is kept for an application that may want it again.
    kept: bool,
    highest: FencingToken,
    /// The latest token of it that somebody was seen to hold in this view. What members report as the highest
    /// may be of another name.
    seen: FencingToken,
    /// At the leader: up to where the member that it granted it to may have used tokens.
    reserved: Option<Reserved>,
    /// The leader's knowledge of its holder.
    entry: Option<TableEntry>,
    /// On whose behalf members wait for it, at the leader.
    notes: BTreeMap<MemberId, Note>,
    /// Nobody is granted it before.
    closed_until: LocalTime,
    /// It is closed because this member lost it by time, with that token.
    lost: Option<FencingToken>,
    /// Who waits for what the members grant among themselves, as far as the leader knows.
    waiters: BTreeMap<MemberId, Waiter>,
    /// When somebody was last seen to hold it, or a token to be given, among the members.
    moved: LocalTime,
}

impl Holds {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            seat: None,
            policy: Policy::default(),
            all: HeldMap::default(),
            own: BTreeSet::new(),
            waiting: BTreeSet::new(),
            refused: BTreeSet::new(),
            own_list: OwnList::default(),
            leader_knows: 0,
            listeners: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            floor: FencingToken::default(),
            lease: OwnLease::default(),
            heard: BTreeMap::new(),
            silent: BTreeSet::new(),
            admission: Admission::default(),
            due: BTreeSet::new(),
            outsiders_until: LocalTime::default(),
            highest: FencingToken::default(),
            listings: BTreeMap::new(),
            listed: 0,
            leases: BTreeMap::new(),
            leases_last_until: LocalTime::default(),
            notes: Notes::default(),
            notices: VecDeque::new(),
        }
    }

    /// This member's place in its view, if it is in one.
    #[must_use]
    pub fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// The policy of the latest view.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether this member leads its view, and so grants what a leader grants.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::leads)
    }

    /// Whether nothing but the algorithm itself stands for the outcome.
    #[must_use]
    pub fn is_advisory(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.policy.arbiter == Arbiter::None)
    }

    /// Whether the leader alone grants it; else the members do, among themselves.
    #[must_use]
    pub fn is_led(&self, name: &HoldName) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.policy.is_led(name.as_str()))
    }

    /// Which lease extends it.
    #[must_use]
    pub fn class(&self, name: &HoldName) -> LeaseClass {
        self.policy.lease_class(name.as_str())
    }

    /// Whether a leader lists it: what it grants and what outlasts its leader lease.
    pub(super) fn is_listed(&self, name: &HoldName) -> bool {
        self.is_led(name) && self.class(name) == LeaseClass::Member
    }

    /// Whether a member was heard of in this view.
    #[must_use]
    pub fn has_heard(&self, member: MemberId) -> bool {
        self.heard.contains_key(&member)
    }

    /// Whether a member was not heard of for long, as this one knows, which leads.
    #[must_use]
    pub fn is_silent(&self, member: MemberId) -> bool {
        self.silent.contains(&member)
    }

    /// The highest token of it that this member knows to have been given.
    #[must_use]
    pub fn highest(&self, name: &HoldName) -> FencingToken {
        self.all.get(name).map_or(self.floor, |held| held.highest)
    }

    /// Another member knows that this token was given.
    pub fn hear_of_token(&mut self, now: LocalTime, name: &HoldName, token: FencingToken) {
        self.highest = self.highest.max(token);
        if token > self.highest(name) {
            let held = self.held(name);
            held.highest = token;
            held.moved = now;
        }
    }

    /// On whose behalf a member waits.
    pub fn hear_of_waiter(&mut self, name: &HoldName, member: MemberId, note: Note) {
        self.held(name).notes.insert(member, note);
    }

    /// Forgets a name of which nothing is left to be known, and whether it did. Its tokens never come again.
    pub fn forget(&mut self, name: &HoldName) -> bool {
        let Some(held) = self.all.get(name) else { return true };
        if !held.is_idle() {
            return false;
        }
        self.floor = self.floor.max(held.spent());
        self.all.remove(name);
        true
    }

    // ----- the parts of that

    fn held(&mut self, name: &HoldName) -> &mut NameState {
        if !self.all.contains_key(name) {
            let held = NameState { highest: self.floor, ..NameState::default() };
            self.all.insert(name.clone(), held);
        }
        self.all.get_mut(name).expect("it was just put there")
    }

    /// All that this member claims or has at hand.
    fn own_all(&self) -> impl Iterator<Item = (&HoldName, &NameState)> + Clone {
        self.own.iter().filter_map(|name| Some((name, self.all.get(name)?)))
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    pub(super) fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(super) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// A member was heard of.
    pub(super) fn hear(&mut self, rank: MemberId, now: LocalTime) {
        self.heard.insert(rank, now);
        self.silent.remove(&rank);
    }
}

impl NameState {
    fn is_idle(&self) -> bool {
        self.entry.is_none()
            && self.waiters.is_empty()
            && self.closed_until == LocalTime::default()
            && self.claim.is_none()
            && self.hold.is_none()
    }

    /// No token was ever higher.
    fn spent(&self) -> FencingToken {
        let reserved = self.reserved.map(Reserved::last);
        reserved.map_or(self.highest, |last| last.max(self.highest))
    }
}

//! What one state of the model consists of. Every time is a number of remaining ticks, so that
//! states repeat and a search needs no horizon.

use std::hash::{Hash, Hasher};

pub(crate) use super::nodes::{
    LOCKS, LockId, Members, NOBODY, NODES, NodeId, PerNode, TOKEN_BITS, Ticks, Timing, Token, View,
    all_nodes, epoch_of,
};
use super::packed::Packed;

/// What the register holds (rule 1). No two records are ever equal, so the record itself stands
/// for its version in a compare-and-swap.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Record {
    pub(crate) view: View,
    pub(crate) members: Members,
    pub(crate) leader: NodeId,
    pub(crate) settled: bool,
    pub(crate) closing: bool,
    /// The highest epoch that a token of this view may begin with.
    pub(crate) ceiling: View,
    /// Distinguishes two writes of one candidate.
    pub(crate) nonce: u8,
    /// The record was lost and made anew: nobody knows who belonged to the last view.
    pub(crate) lost: bool,
    /// Of a view that its leader left to nobody: what may still be held, if it knew.
    pub(crate) held: Option<[Entry; LOCKS]>,
    /// The waits of this view.
    pub(crate) timing: Timing,
    /// How many views there were; only bounds the search.
    pub(crate) turn: u8,
}

/// A held lock, as its holder sees it (rule 2). The holder has notified its application that the
/// lock is safe for `left` more ticks, and nothing takes that back.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Hold {
    pub(crate) token: Token,
    pub(crate) left: Ticks,
}

/// A request for a lock, wherever it is on its way (rule 23).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) enum Ask {
    /// Nothing asked, or given up.
    #[default]
    None,
    /// On its way to the leader, or in its queue.
    Sent { view: View },
    /// Granted, and the grant is on its way back.
    Granted { view: View, token: Token },
}

/// A member's answer to a heartbeat, with the tokens it holds, stamped when it was sent; and later
/// the acknowledgement of that stamp.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Stamp {
    /// The view; zero when no answer and no acknowledgement is on its way.
    pub(crate) view: View,
    /// What an extension would be worth if it arrived now.
    pub(crate) left: Ticks,
    /// By lock, the token that was listed and, once acknowledged, not refused.
    pub(crate) tokens: [Token; LOCKS],
    /// By lock, whether it was listed as waited for.
    pub(crate) waits: [bool; LOCKS],
    pub(crate) acknowledged: bool,
}

/// How many heartbeats and promises of one member may be on their way.
pub(crate) const BEATS: usize = 2;

/// A heartbeat on its way to a member, or the member's promise on its way back (rule 8).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Beat {
    /// The view; zero when none is on its way.
    pub(crate) view: View,
    /// What the promise is worth to the leader if it arrived now: runs from before the send.
    pub(crate) left: Ticks,
    pub(crate) settled: bool,
    pub(crate) promised: bool,
    /// The waits of that view.
    pub(crate) timing: Timing,
}

/// A heartbeat, as far as it concerns locks whose state sits in the members (rule 26). View zero: none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Admission {
    pub(crate) view: View,
    pub(crate) open: bool,
    /// It is to be answered before the leader resigns.
    pub(crate) freezes: bool,
    pub(crate) acknowledges: bool,
    /// What the acknowledged promise is worth as a lease if this arrived now.
    pub(crate) left: Ticks,
    /// The hold that it listed, unless refused.
    pub(crate) token: Token,
    /// Up to where tokens may go.
    pub(crate) ceiling: View,
}

/// A promise, as far as it concerns locks whose state sits in the members. View zero: none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Answer {
    pub(crate) view: View,
    /// What a lease would be worth if the acknowledgement arrived now.
    pub(crate) left: Ticks,
    /// What it lists as held.
    pub(crate) token: Token,
    /// It answers a heartbeat that freezes.
    pub(crate) freezes: bool,
    /// The leader has it.
    pub(crate) taken: bool,
}

/// A member's part in a lock whose state sits in the members (rules 26 to 30).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Peer {
    /// The members of its view.
    pub(crate) members: Members,
    /// Admission is open, as the leader's latest heartbeat states.
    pub(crate) admission: bool,
    pub(crate) wants: bool,
    pub(crate) in_section: bool,
    pub(crate) has_token: bool,
    /// By sender, a permission or the token, with the highest fencing token that it knew.
    pub(crate) given: PerNode<Option<Token>>,
    /// Only where messages do not name their view: from whom one of an older view may yet come.
    pub(crate) old: Members,
    /// The highest fencing token that it knows itself.
    pub(crate) high: Token,
    /// Up to where tokens may go, as the leader's latest heartbeat states. Zero: none has stated it yet,
    /// and its view is its ceiling.
    pub(crate) ceiling: View,
    /// For how long a holder that is not in the view may hold the lock.
    pub(crate) outsider: Ticks,
    /// The latest heartbeat on its way to it.
    pub(crate) beat: Admission,
    /// An older heartbeat, where messages overtake each other.
    pub(crate) late: Admission,
    /// Its latest promise, on its way or waiting to be acknowledged.
    pub(crate) answer: Answer,
}

/// The leader's entry for a lock, also used for a report of a hold. Free when `busy` is zero.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Entry {
    pub(crate) holder: NodeId,
    pub(crate) token: Token,
    pub(crate) busy: Ticks,
}

/// What a leader lists of the one lock (rule 21), and a member keeps and reports. View zero: nothing.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct List {
    pub(crate) view: View,
    /// The leader's own hold, or an outsider's with its rest.
    pub(crate) entry: Entry,
    /// It is the leader's own, which has no rest.
    pub(crate) own: bool,
    /// The rest of the grace period.
    pub(crate) rest: Ticks,
}

/// What a leader knows (rule 3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Lead {
    /// The record of its view, as it last knew it.
    pub(crate) record: Record,
    /// By member, what is left of its promise.
    pub(crate) leader_lease: PerNode<Ticks>,
    pub(crate) resigned: bool,
    /// What is left of the grace period.
    pub(crate) grace: Ticks,
    pub(crate) entries: [Entry; LOCKS],
    /// By lock, the last token granted in this view; zero if none, or forgotten.
    pub(crate) last: [Token; LOCKS],
    /// The largest token of any lock that was forgotten in this view.
    pub(crate) floor: Token,
    /// The locks that were ever reported to it, noted only where they are exempt from the wait.
    pub(crate) reported: [bool; LOCKS],
    /// What is left of the leases that the leader itself had before it led.
    pub(crate) older_own: Ticks,
    /// What is left of the view's first L, after which leases of a longer L have run out.
    pub(crate) wearing: Ticks,
    /// Only where the clock is read twice: for whose requests it looked at its leader lease, and then may
    /// have gone to sleep.
    pub(crate) looked: Members,
    /// By member, what is left of the L since a promise of it came.
    pub(crate) heard: PerNode<Ticks>,
    /// Admission is closed because the leader wants to resign.
    pub(crate) frozen: bool,
    /// Whose promises answer the freeze.
    pub(crate) answered: Members,
    /// The token of its own hold that another member has heard of; zero if none.
    pub(crate) heard_of: Token,
    /// The hold that the view's first announcement names.
    pub(crate) carried: Entry,
    /// Only for the `sometimes` properties: the view began with a grace period.
    pub(crate) began_grace: bool,
    /// Only for the `sometimes` properties: the lease of a holder outside of the view ran out.
    pub(crate) outsider_ran_out: bool,
}

/// How the leader lease of the base came to its end.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Base {
    /// It may still live.
    Living,
    /// It is over; `grace` is the rest of L since then, or what the grace period was found to be
    /// when the candidate wrote its view.
    Over { grace: Ticks },
    /// Its leader handed it over with its table, the rest of its grace period and the L that every
    /// hold fits in.
    HandedOver { grace: Ticks, member_lease: Ticks },
}

/// The wait for E and P (rule 15).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Closing {
    /// Nobody waits.
    No,
    /// What is left of E + P.
    Waiting(Ticks),
    /// It has passed.
    Passed,
}

/// What a candidate knows (rule 4).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Bid {
    /// The record it read; its view is the base.
    pub(crate) record: Record,
    /// Members of the base that sealed it.
    pub(crate) seals: Members,
    /// Members of the base that are dead by evidence.
    pub(crate) dead: Members,
    /// By lock, the newest hold that was reported.
    pub(crate) reports: [Entry; LOCKS],
    /// The locks that were ever reported, noted only where they are exempt from the wait.
    pub(crate) reported: [bool; LOCKS],
    pub(crate) settled: bool,
    /// The least rest of the base's grace period that a seal reported.
    pub(crate) rest: Option<Ticks>,
    pub(crate) base: Base,
    pub(crate) closing: Closing,
    /// Members whose promise the resigning leader still had.
    pub(crate) live: Members,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Purpose {
    Activate,
    Close,
    RaiseCeiling,
}

/// Where a write is. The writer cannot distinguish these until it has the answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fate {
    OnItsWay,
    Applied,
    Refused,
}

/// A compare-and-swap of the register.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Write {
    pub(crate) expected: Record,
    pub(crate) record: Record,
    pub(crate) purpose: Purpose,
    pub(crate) fate: Fate,
}

/// One process: member, and perhaps leader or candidate.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) alive: bool,
    /// Of a dead node, what is left of P since its death.
    pub(crate) dying: Ticks,
    /// The highest view it has entered or sealed.
    pub(crate) cur: View,
    pub(crate) sealed: bool,
    /// The waits of the view that it entered.
    pub(crate) timing: Timing,
    /// What is left of its own promise.
    pub(crate) promise: Ticks,
    /// The view that the register last confirmed, and what is left of the longest E since.
    pub(crate) confirmed: (View, Ticks),
    /// The view of the mark that it first read in the place of a lost record, and what is left of E + P
    /// since.
    pub(crate) sighted: (View, Ticks),
    /// The leader of `cur` stated that it is settled.
    pub(crate) settled_seen: bool,
    /// What the leader listed in the latest heartbeat that it promised to.
    pub(crate) list: List,
    /// Heartbeats to it and promises of it on their way, the youngest first.
    pub(crate) beats: [Beat; BEATS],
    pub(crate) holds: [Hold; LOCKS],
    /// What is left of its one lease of this view (rule 27).
    pub(crate) lease: Ticks,
    /// What is left of an L since it entered its view, until a promise is first acknowledged there.
    pub(crate) unheard: Ticks,
    pub(crate) asks: [Ask; LOCKS],
    /// By lock, a grant on its way to a request that was given up.
    pub(crate) late: [Ask; LOCKS],
    pub(crate) stamp: Stamp,
    pub(crate) peer: Peer,
    /// By lock, the token of a release on its way.
    pub(crate) releasing: [Token; LOCKS],
    pub(crate) lead: Option<Lead>,
    pub(crate) bid: Option<Bid>,
    pub(crate) write: Option<Write>,
    /// The write of a candidacy that was dropped with its outcome unknown.
    pub(crate) stale: Option<Write>,
}

/// What the last step did, if a `sometimes` property asks for it. The next step forgets it, so it
/// costs few states.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) enum Event {
    #[default]
    Nothing,
    GrantedInALaterView,
    GrantedAfterGracePeriod,
    GrantedAfterOutsiderRanOut,
    GrantedAboveTheEpoch,
    GrantedAboveTheFloor,
    CarriedHoldRenewed,
    GrantUnderWayExtended,
    TookLeadWithoutGracePeriod,
    TookLeadByHandOver,
    ReplacesALostRecord,
    CountsFromItsFirstRead,
    TookLeadAfterClosing,
    TookLeadByOlderWrite,
    TookLeadOfALeaver,
    FoundOwnWriteApplied,
    FoundOwnWriteRefused,
    RefusedToTakeASealedLeaderLease,
    PromisedOnAnOlderConfirmation,
    EvidenceCounted,
    CeilingRaised,
    ClearsTheClosingMark,
    TookLeadOfTheDead,
    SteppedDown,
    BeatOvertook,
    GrantForAnOlderRequest,
    MemberLeaseShortened,
    EnteredInALaterView,
    EnteredAfterAnother,
    EnteredAboveTheEpoch,
    EnteredOnAnOldLease,
    LeftByItself,
    FrozenAndHandedOver,
    HandedOverWithoutWaiting,
    SilentMemberCounted,
    Reopened,
    NotifiedBeyondTheLeaderLease,
}

/// One state of the whole group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) register: Record,
    pub(crate) nodes: PerNode<Node>,
    /// By lock, the largest token ever granted.
    pub(crate) largest: [Token; LOCKS],
    /// A token was granted that was not larger than all before it.
    pub(crate) token_went_back: bool,
    pub(crate) grants: u8,
    pub(crate) raises: u8,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) event: Event,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // A field more does not compile before it is here too.
        let Self {
            register,
            nodes,
            largest,
            token_went_back,
            grants,
            raises,
            crashes,
            losses,
            event,
        } = self;
        let mut packed = Packed::new();
        (register, nodes, largest, token_went_back).hash(&mut packed);
        (grants, raises, crashes, losses, event).hash(&mut packed);
        packed.end(hasher);
    }
}

impl Record {
    /// Does this record name the view that the other one activated?
    pub(crate) fn is_view_of(&self, other: &Self) -> bool {
        !self.lost
            && (self.view, self.leader, self.nonce) == (other.view, other.leader, other.nonce)
    }

    /// Did its leader leave it to nobody?
    pub(crate) fn is_left(&self) -> bool {
        self.leader == NOBODY && !self.lost
    }

    /// Does this record describe the same view, perhaps with another ceiling or closing mark?
    pub(crate) fn is_same_base(&self, other: &Self) -> bool {
        (self.view, self.lost) == (other.view, other.lost)
    }
}

impl Ask {
    /// The same, asked for under a new number: a grant from before counts for nothing.
    pub(crate) fn anew(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Sent { view } | Self::Granted { view, .. } => Self::Sent { view },
        }
    }
}

impl Hold {
    /// Does the application believe that it holds the lock?
    pub(crate) fn is_live(self) -> bool {
        self.left > 0
    }
}

impl Entry {
    /// May the lock be granted to anybody?
    pub(crate) fn is_free(self) -> bool {
        self.busy == 0
    }

    /// Is this the running entry of that holder and token?
    pub(crate) fn is_of(self, holder: NodeId, token: Token) -> bool {
        self.busy > 0 && self.holder == holder && self.token == token
    }
}

impl Node {
    /// The highest view that it takes part in no more (rule 2).
    pub(crate) fn floor(&self) -> View {
        if self.sealed { self.cur } else { self.cur.saturating_sub(1) }
    }

    /// Rule 27: does its lease run, or may its first one in this view still be in time?
    pub(crate) fn is_heard(&self) -> bool {
        self.lease > 0 || self.unheard > 0
    }

    /// Does it lead this view, resigned or not?
    pub(crate) fn leads(&self, view: View) -> bool {
        self.lead.is_some_and(|lead| lead.record.view == view)
    }
}

impl Lead {
    /// What is left until fewer than a majority of the promises are unexpired (rule 9).
    pub(crate) fn majority_left(&self) -> Ticks {
        let members = self.record.members;
        let mut left = [0; NODES as usize];
        for (left, member) in left.iter_mut().zip(members.iter()) {
            *left = self.leader_lease[member];
        }
        left.sort_unstable_by(|a, b| b.cmp(a));
        left[members.majority() as usize - 1]
    }
}

//! Locks whose state sits in the members: entry by everybody's permission, or by a token that goes
//! from one to the other. The model has one such lock, number 0.
//!
//! Of the algorithms nothing is left but what decides who may enter. A permission is for the
//! present request of the member that has it; of two that want to enter, one at most has the other's, which is what
//! the order of time stamps comes to. A token is with the member that it was sent to, which may take its time.
//! Messages name their view, and a member that is not in it does not hear them.

use super::model::{Action, LeaderModel};
use super::rules::{OwnHolds, PeerRules};
use super::state::{
    Entry, Event, Hold, LockId, Members, Node, NodeId, Peer, PerNode, State, TOKEN_BITS, Ticks,
    Token, all_nodes, epoch_of,
};

/// The only lock.
pub(crate) const LOCK: LockId = 0;

/// What admits a member to the critical section.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// The leader grants: everything in `locks`.
    Leader,
    /// Every other member of the view must have given its permission.
    Permission,
    /// The token must be here.
    Token,
}

/// What is done for a lock whose state sits in the members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PeerAction {
    Want(NodeId),
    GiveUp(NodeId),
    /// A permission, or the token, leaves.
    Give {
        from: NodeId,
        to: NodeId,
    },
    /// Only where messages do not name their view.
    TakeOld(NodeId),
    Enter(NodeId),
    Exit(NodeId),
    /// A heartbeat leaves: whether admission is open, and the acknowledgement of a promise.
    SendAdmission {
        leader: NodeId,
        member: NodeId,
    },
    TakeAdmission(NodeId),
    /// Only where an older heartbeat counts that was overtaken.
    TakeLateAdmission(NodeId),
    TakeAnswer {
        leader: NodeId,
        member: NodeId,
    },
    Freeze(NodeId),
    /// The leader goes on in its view.
    Reopen(NodeId),
}

impl LeaderModel {
    /// Does the leader admit members to the critical section?
    pub(crate) fn coordinates(&self) -> bool {
        self.scope.way == Way::Leader
    }

    /// Does the lock's state sit in the members?
    pub(crate) fn has_peers(&self) -> bool {
        match self.scope.way {
            Way::Leader => false,
            Way::Permission | Way::Token => true,
        }
    }

    pub(crate) fn peer_actions_of(&self, s: &State, actions: &mut Vec<Action>) {
        let mut offer = |may: bool, action: PeerAction| {
            if may {
                actions.push(Action::Peer(action));
            }
        };
        for id in self.everybody().iter().filter(|&id| s.nodes[id].alive) {
            offer(self.may_want(s, id), PeerAction::Want(id));
            offer(self.scope.drops && s.nodes[id].peer.wants, PeerAction::GiveUp(id));
            offer(self.may_take_old(s, id), PeerAction::TakeOld(id));
            offer(self.may_enter(s, id), PeerAction::Enter(id));
            offer(self.may_exit(s, id), PeerAction::Exit(id));
            offer(self.may_take_admission(s, id), PeerAction::TakeAdmission(id));
            offer(self.may_take_late_admission(s, id), PeerAction::TakeLateAdmission(id));
            offer(self.may_freeze(s, id), PeerAction::Freeze(id));
            offer(self.may_reopen(s, id), PeerAction::Reopen(id));
            for other in self.everybody().iter() {
                let (leader, member) = (id, other);
                offer(self.may_give(s, id, other), PeerAction::Give { from: id, to: other });
                offer(
                    self.may_send_admission(s, leader, member),
                    PeerAction::SendAdmission { leader, member },
                );
                let answer = PeerAction::TakeAnswer { leader, member };
                let may = self.scope.admissions_travel && Self::may_take_answer(s, leader, member);
                offer(may, answer);
            }
        }
    }

    pub(crate) fn peer_step(&self, s: &mut State, action: PeerAction) {
        match action {
            PeerAction::Want(id) => s.nodes[id].peer.wants = true,
            PeerAction::GiveUp(id) => {
                s.nodes[id].peer.wants = false;
                s.nodes[id].peer.given = PerNode::default();
            }
            PeerAction::Give { from, to } => self.give(s, from, to),
            PeerAction::TakeOld(id) => {
                let peer = &mut s.nodes[id].peer;
                for from in std::mem::take(&mut peer.old).iter() {
                    peer.given[from] = Some(0);
                }
            }
            PeerAction::Enter(id) => self.enter(s, id),
            PeerAction::Exit(id) => Self::exit(s, id),
            PeerAction::SendAdmission { leader, member } => self.send_admission(s, leader, member),
            PeerAction::TakeAdmission(id) => self.take_admission(s, id),
            PeerAction::TakeLateAdmission(id) => {
                let peer = &mut s.nodes[id].peer;
                peer.admission = std::mem::take(&mut peer.late).open;
            }
            PeerAction::TakeAnswer { leader, member } => self.take_answer(s, leader, member),
            PeerAction::Freeze(id) => Self::freeze(s, id),
            PeerAction::Reopen(id) => self.reopen(s, id),
        }
    }

    /// The member takes part in its view.
    pub(crate) fn takes_part(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        node.alive && node.cur > 0 && (!node.sealed || !self.rules.seal_ends_grants)
    }

    /// What is left of the member's lease of this view. The leader's lasts as long as its leader lease.
    fn lease_left(&self, s: &State, id: NodeId) -> Ticks {
        let node = &s.nodes[id];
        match self.rules.own_holds {
            _ if !node.leads(node.cur) => node.lease,
            OwnHolds::EndWithTheLeaderLease | OwnHolds::FullLeaseAfterResigning => {
                self.leader_lease_left(s, id)
            }
            OwnHolds::LikeAnybodys => node.timing.lease(),
        }
    }

    /// Rule 26: may it hear of the lock, and enter?
    fn admission_is_open(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let sent =
            if node.leads(node.cur) { self.opens_admission(s, id) } else { node.peer.admission };
        sent || !self.rules.peers.admission
    }

    /// Rule 26, all of it: admission is open and the lease runs.
    fn hears(&self, s: &State, id: NodeId) -> bool {
        let hears = self.admission_is_open(s, id) && self.lease_left(s, id) > 0;
        self.takes_part(s, id) && (hears || !self.rules.peers.hears_before_admission)
    }

    /// Does it want to enter? A request makes no difference to the place of the token, or to the members that may get it.
    fn wants(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        match self.scope.way {
            Way::Leader => false,
            Way::Permission => node.peer.wants,
            Way::Token => self.scope.askers.has(id) && !node.holds[LOCK].is_live(),
        }
    }

    fn may_want(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        self.scope.way == Way::Permission
            && self.scope.askers.has(id)
            && !node.peer.wants
            && !node.holds[LOCK].is_live()
            && s.grants < self.scope.grants
            && self.hears(s, id)
    }

    fn may_give(&self, s: &State, from: NodeId, to: NodeId) -> bool {
        let (giver, taker) = (&s.nodes[from], &s.nodes[to]);
        let together = from != to && giver.cur == taker.cur && giver.peer.members.has(to);
        if !together || !self.hears(s, from) || !self.takes_part(s, to) || giver.peer.in_section {
            return false;
        }
        match self.scope.way {
            Way::Leader => false,
            // A member that has the other's permission asked before it.
            Way::Permission => {
                let mine_is_first = giver.peer.wants && giver.peer.given[to].is_some();
                taker.peer.wants && taker.peer.given[from].is_none() && !mine_is_first
            }
            Way::Token => giver.peer.token_is_here(),
        }
    }

    /// Broken: what belongs to an older view is taken for an answer in this one.
    fn may_take_old(&self, s: &State, id: NodeId) -> bool {
        let peer = &s.nodes[id].peer;
        let awaited = peer.wants || self.scope.way == Way::Token;
        peer.old != Members::NONE && awaited && self.takes_part(s, id)
    }

    /// A permission or the token leaves, with the highest fencing token that its sender knows.
    fn give(&self, s: &mut State, from: NodeId, to: NodeId) {
        if self.scope.way == Way::Token {
            Self::keep_token(&mut s.nodes[from].peer);
            s.nodes[from].peer.has_token = false;
        }
        let high = if self.rules.peers.highest_travels { s.nodes[from].peer.high } else { 0 };
        s.nodes[to].peer.given[from] = Some(high);
    }

    /// The token that was on its way is here.
    fn keep_token(peer: &mut Peer) {
        peer.high = peer.highest();
        peer.given = PerNode::default();
        peer.has_token = true;
    }

    /// What would be the entry's fencing token, if the ceiling allows it, which the leader announces.
    fn next_of(&self, s: &State, id: NodeId) -> Option<Token> {
        let node = &s.nodes[id];
        let notified =
            if node.leads(node.cur) { self.ceiling_of(s, id) } else { node.peer.ceiling };
        let first = node.cur << TOKEN_BITS;
        let next = first.max(node.peer.highest() + 1);
        (epoch_of(next) <= notified.max(node.cur)).then_some(next)
    }

    /// Everything that an entry needs but that no outsider holds the lock.
    pub(crate) fn is_admitted(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let peer = &node.peer;
        let admitted = match self.scope.way {
            Way::Leader => false,
            Way::Permission => {
                let others = peer.members.without(Members::NONE.with(id));
                others.iter().all(|other| peer.given[other].is_some())
            }
            Way::Token => peer.token_is_here(),
        };
        let lease = self.lease_left(s, id) > 0 || !self.rules.peers.entry_needs_the_lease;
        admitted
            && lease
            && self.wants(s, id)
            && self.takes_part(s, id)
            && self.admission_is_open(s, id)
            && s.grants < self.scope.grants
            && self.next_of(s, id).is_some()
    }

    /// Rules 26, 27 and 30.
    fn may_enter(&self, s: &State, id: NodeId) -> bool {
        let closed = s.nodes[id].peer.outsider > 0 && self.rules.peers.outsider_keeps_closed;
        self.is_admitted(s, id) && !closed
    }

    /// Rule 27: the deadline is that of the lease, the fencing token is above all that is known.
    fn enter(&self, s: &mut State, id: NodeId) {
        let Some(token) = self.next_of(s, id) else { return };
        let whole = s.nodes[id].timing.lease();
        let lease = self.lease_left(s, id);
        let left = if self.rules.peers.entry_needs_the_lease { lease } else { whole };
        s.event = Self::entry_event(s, id, token);
        let node = &mut s.nodes[id];
        let by_token = self.scope.way == Way::Token;
        let (peer, view) = (&mut node.peer, node.cur);
        *peer = Peer {
            high: token,
            wants: false,
            in_section: true,
            given: PerNode::default(),
            has_token: by_token,
            ..*peer
        };
        node.holds[LOCK] = Hold { token, left };
        if node.leads(view) {
            Self::enter_in_table(node, id, token);
        }
        s.token_went_back |= token <= s.largest[LOCK];
        s.largest[LOCK] = s.largest[LOCK].max(token);
        s.grants += 1;
    }

    /// What a `sometimes` property may want to know about this entry.
    fn entry_event(s: &State, id: NodeId, token: Token) -> Event {
        let node = &s.nodes[id];
        if s.register.view > node.cur {
            Event::EnteredOnAnOldLease
        } else if epoch_of(token) > node.cur {
            Event::EnteredAboveTheEpoch
        } else if token > node.cur << TOKEN_BITS {
            Event::EnteredAfterAnother
        } else if node.cur > 1 {
            Event::EnteredInALaterView
        } else {
            Event::Nothing
        }
    }

    fn may_exit(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        self.scope.releases && self.has_peers() && node.holds[LOCK].is_live()
    }

    fn exit(s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        let token = std::mem::take(&mut node.holds[LOCK]).token;
        node.peer.in_section = false;
        if let Some(lead) = &mut node.lead
            && lead.entries[LOCK].is_of(id, token)
        {
            lead.entries[LOCK] = Entry::default();
        }
    }

    /// Rule 28: the hold's time is over, so its member leaves the mutex.
    pub(crate) fn leave_if_over(node: &mut Node) -> bool {
        let over = node.peer.in_section && !node.holds[LOCK].is_live();
        if over {
            node.peer.in_section = false;
        }
        over
    }

    /// Each mutex starts afresh in a new view, with its holder, as the leader's first announcement
    /// names it.
    pub(crate) fn start_mutex(&self, s: &mut State, leader: NodeId, id: NodeId) {
        let Some(lead) = &s.nodes[leader].lead else { return };
        let rules = &self.rules.peers;
        let members = lead.record.members;
        let carried = if rules.announcement_stays { lead.carried } else { lead.entries[LOCK] };
        let older = s.nodes[id].peer;
        let hold = s.nodes[id].holds[LOCK];
        let named = carried.token > 0 && rules.carried_holder_is_in_section;
        let holder = Some(carried.holder).filter(|_| named);
        let in_section = holder == Some(id) && hold.is_live() && hold.token == carried.token;
        let begins_at =
            holder.filter(|&holder| members.has(holder)).or_else(|| members.iter().next());
        let outside = holder.is_some_and(|holder| !members.has(holder));
        s.nodes[id].peer = Peer {
            members,
            in_section,
            has_token: self.scope.way == Way::Token && begins_at == Some(id),
            outsider: if outside { carried.busy } else { 0 },
            old: older.still_on_their_way(rules),
            wants: older.wants && !in_section,
            ..Peer::default()
        };
    }

    /// A founder has just promised, and been acknowledged.
    pub(crate) fn founders_part(&self, id: NodeId) -> Peer {
        let members = self.scope.founders;
        let begins = members.iter().next() == Some(id);
        Peer {
            members,
            admission: true,
            has_token: self.scope.way == Way::Token && begins,
            ..Peer::default()
        }
    }
}

impl Peer {
    /// Where messages do not name their view: from whom something of an older view may yet come.
    pub(crate) fn still_on_their_way(&self, rules: &PeerRules) -> Members {
        if rules.messages_name_their_view {
            return Members::NONE;
        }
        all_nodes().filter(|&from| self.given[from].is_some()).fold(self.old, Members::with)
    }

    /// The highest fencing token that it knows once what is on its way is here.
    fn highest(&self) -> Token {
        self.given.iter().flatten().copied().fold(self.high, Token::max)
    }

    /// Is the token here, or on its way here, which is the same to everybody else?
    fn token_is_here(&self) -> bool {
        self.has_token || self.given.iter().any(Option::is_some)
    }
}

//! Locks: requests, grants, the one lease per member, releases, tokens.

use super::model::LeaderModel;
use super::rules::OwnHolds;
use super::state::{
    Ask, Entry, Event, Hold, LOCKS, Lead, LockId, Members, NodeId, Stamp, State, TOKEN_BITS, Ticks,
    Token, epoch_of,
};

impl LeaderModel {
    pub(crate) fn may_ask(&self, s: &State, id: NodeId, lock: LockId) -> bool {
        let node = &s.nodes[id];
        let led = || s.nodes.iter().any(|other| other.alive && other.leads(node.cur));
        self.scope.askers.has(id)
            && self.coordinates()
            && node.cur > 0
            && !node.sealed
            && node.asks[lock] == Ask::None
            && !node.holds[lock].is_live()
            && s.grants < self.scope.grants
            && (self.scope.renewals || node.lease > 0 || node.leads(node.cur))
            && led()
    }

    pub(crate) fn ask(s: &mut State, id: NodeId, lock: LockId) {
        let node = &mut s.nodes[id];
        node.asks[lock] = Ask::Sent { view: node.cur };
        // A look was for an earlier request.
        for lead in s.nodes.iter_mut().filter_map(|node| node.lead.as_mut()) {
            lead.looked = lead.looked.without(Members::NONE.with(id));
        }
    }

    pub(crate) fn may_give_up(&self, s: &State, id: NodeId, lock: LockId) -> bool {
        self.scope.drops && s.nodes[id].asks[lock] != Ask::None
    }

    /// The asker gives up, or the request or its answer is lost. A grant that was on its way finds
    /// nobody, and its entry runs out; where messages overtake each other, it may find a later
    /// request.
    pub(crate) fn give_up(&self, s: &mut State, id: NodeId, lock: LockId) {
        let ask = std::mem::take(&mut s.nodes[id].asks[lock]);
        if self.scope.overtakes {
            s.nodes[id].late[lock] = ask;
        }
    }

    pub(crate) fn may_take_late(s: &State, id: NodeId, lock: LockId) -> bool {
        let node = &s.nodes[id];
        let Ask::Granted { view, .. } = node.late[lock] else { return false };
        let waits = matches!(node.asks[lock], Ask::Sent { .. });
        waits && node.floor() < view && node.lease > 0
    }

    /// Rule 23: a grant that names an older request is none for this one.
    pub(crate) fn take_late(&self, s: &mut State, id: NodeId, lock: LockId) {
        let node = &mut s.nodes[id];
        let late = std::mem::take(&mut node.late[lock]);
        if let (Ask::Sent { .. }, Ask::Granted { token, .. }) = (node.asks[lock], late)
            && !self.rules.grant_names_request
        {
            node.asks[lock] = Ask::None;
            node.holds[lock] = Hold { token, left: node.lease };
        }
        s.event = Event::GrantForAnOlderRequest;
    }

    pub(crate) fn may_grant(
        &self,
        s: &State,
        leader: NodeId,
        member: NodeId,
        lock: LockId,
    ) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        let Ask::Sent { view } = s.nodes[member].asks[lock] else { return false };
        let entry = lead.entries[lock];
        // A newer request states that the older one was given up, or its hold released.
        let asks_again = entry.holder == member && self.scope.overtakes;
        view == lead.record.view
            && lead.record.members.has(member)
            && s.grants < self.scope.grants
            && self.may_grant_to(s, leader, member)
            && (lead.grace == 0 || lead.reported[lock])
            && (entry.is_free() || asks_again || self.grants_again(entry, member))
            && self.next_token(s, leader, lock).is_some()
    }

    /// Rules 6 and 23: the leader lease is looked at by the same reading of the clock as the table.
    fn may_grant_to(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        if !self.rules.one_reading {
            return s.nodes[leader].lead.is_some_and(|lead| lead.looked.has(member));
        }
        self.leader_lease_left(s, leader) > 0 || !self.rules.grant_checks_leader_lease
    }

    /// Broken: a new request of the member that has the entry is answered with the old grant.
    fn grants_again(&self, entry: Entry, member: NodeId) -> bool {
        !self.rules.new_request_gets_new_token && entry.is_of(member, entry.token)
    }

    pub(crate) fn may_look(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        let asks = s.nodes[member].asks.iter().any(|ask| matches!(ask, Ask::Sent { .. }));
        let new = asks && !lead.looked.has(member);
        !self.rules.one_reading && new && self.leader_lease_left(s, leader) > 0
    }

    /// Rule 6, broken: the leader looks at its leader lease, and reads the clock again before it looks at
    /// the table.
    pub(crate) fn look(s: &mut State, leader: NodeId, member: NodeId) {
        if let Some(lead) = &mut s.nodes[leader].lead {
            lead.looked = lead.looked.with(member);
        }
    }

    /// Rule 23: leader lease, grace period, entry and token in one step of the leader.
    pub(crate) fn grant(&self, s: &mut State, leader: NodeId, member: NodeId, lock: LockId) {
        let Some(mut token) = self.next_token(s, leader, lock) else { return };
        let Ask::Sent { view } = s.nodes[member].asks[lock] else { return };
        let entry = s.nodes[leader].lead.map(|lead| lead.entries[lock]).unwrap_or_default();
        let again = self.grants_again(entry, member);
        if again {
            token = entry.token;
        }
        let own = self.own_lease(s, leader);
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        s.event = grant_event(lead, lock, token);
        let busy = self.waits_known_to(leader, lead.record.timing).member_lease();
        lead.entries[lock] = Entry { holder: member, token, busy };
        lead.looked = lead.looked.without(Members::NONE.with(member));
        lead.last[lock] = token;
        lead.heard_of = 0;
        if member == leader {
            s.nodes[member].asks[lock] = Ask::None;
            s.nodes[member].holds[lock] = Hold { token, left: own };
        } else {
            s.nodes[member].asks[lock] = Ask::Granted { view, token };
        }
        s.token_went_back |= token <= s.largest[lock] && !again;
        s.largest[lock] = s.largest[lock].max(token);
        s.grants += 1;
    }

    /// The token after the last one of this lock and after the floor, if the ceiling allows it.
    pub(crate) fn next_token(&self, s: &State, leader: NodeId, lock: LockId) -> Option<Token> {
        let lead = s.nodes[leader].lead.as_ref()?;
        let after = lead.last[lock].max(lead.floor) + 1;
        if !self.rules.token_names_view {
            return Some(after);
        }
        let token = after.max(lead.record.view << TOKEN_BITS);
        (epoch_of(token) <= self.ceiling_of(s, leader)).then_some(token)
    }

    /// Rule 22: of what a leader may notify its own application.
    fn own_lease(&self, s: &State, leader: NodeId) -> Ticks {
        let lease = s.nodes[leader].lead.map_or(0, |lead| lead.record.timing.lease());
        match self.rules.own_holds {
            OwnHolds::EndWithTheLeaderLease | OwnHolds::FullLeaseAfterResigning => lease
                .min(self.leader_lease_left(s, leader) + self.longer_than_leader_lease(s, leader)),
            OwnHolds::LikeAnybodys => lease,
        }
    }

    /// Rule 27: nobody enters without a lease that runs.
    pub(crate) fn may_take_grant(&self, s: &State, id: NodeId, lock: LockId) -> bool {
        let node = &s.nodes[id];
        let Ask::Granted { view, .. } = node.asks[lock] else { return false };
        node.lease > 0 && (node.floor() < view || !self.rules.seal_ends_grants)
    }

    /// Rule 27: the hold lasts until the member's lease ends.
    pub(crate) fn take_grant(&self, s: &mut State, id: NodeId, lock: LockId) {
        let node = &mut s.nodes[id];
        let Ask::Granted { token, .. } = node.asks[lock] else { return };
        let grant = std::mem::take(&mut node.asks[lock]);
        if self.scope.duplicates {
            node.late[lock] = grant;
        }
        node.holds[lock] = Hold { token, left: node.lease };
    }

    pub(crate) fn may_list(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let whole = self.waits_known_to(id, node.timing).lease();
        let uses = node.holds.iter().any(|hold| hold.is_live())
            || node.asks.iter().any(|ask| match ask {
                Ask::None => false,
                Ask::Sent { .. } => node.lease == 0,
                Ask::Granted { .. } => true,
            });
        let gains = self.scope.renewals && uses && node.lease < whole;
        let replaces = node.stamp.view == 0 || self.scope.drops;
        let fresh = node.stamp.left == whole && !node.stamp.acknowledged;
        let is_member = node.cur > 0 && !node.sealed;
        self.coordinates() && is_member && gains && replaces && !fresh && !node.leads(node.cur)
    }

    /// One lease per member: the answer to a heartbeat lists the holds of all locks. An older
    /// answer, or its acknowledgement, is lost.
    pub(crate) fn list(&self, s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        let tokens = node.holds.map(|hold| if hold.is_live() { hold.token } else { 0 });
        let waits = node.asks.map(|ask| ask != Ask::None);
        let left = self.waits_known_to(id, node.timing).lease();
        node.stamp = Stamp { view: node.cur, left, tokens, waits, acknowledged: false };
    }

    pub(crate) fn may_extend(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        let stamp = s.nodes[member].stamp;
        leader != member
            && stamp.view == lead.record.view
            && !stamp.acknowledged
            && lead.record.members.has(member)
            && (self.leader_lease_left(s, leader) > 0 || !self.rules.renewal_checks_leader_lease)
    }

    /// The leader extends what is listed, matches and still runs, and refuses the rest. What a member
    /// waits for it may enter on the lease that this extends, if the grant is under way.
    pub(crate) fn extend(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let mut node = s.nodes[member];
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        let busy = self.waits_known_to(leader, lead.record.timing).member_lease();
        for lock in 0..LOCKS {
            let token = node.stamp.tokens[lock];
            let entry = &mut lead.entries[lock];
            let unknown = token > 0 && entry.is_free();
            if unknown && !self.rules.renewal_needs_an_entry {
                // Broken: acknowledged, because it contradicts nothing.
            } else if entry.is_of(member, token) {
                *entry = Entry { holder: member, token, busy };
                if epoch_of(token) < lead.record.view {
                    s.event = Event::CarriedHoldRenewed;
                }
            } else {
                node.stamp.tokens[lock] = 0;
            }
            let extends = node.stamp.waits[lock] && self.rules.under_way_is_extended;
            if let Ask::Granted { token, .. } = node.asks[lock]
                && entry.is_of(member, token)
                && extends
            {
                entry.busy = busy;
                s.event = Event::GrantUnderWayExtended;
            }
        }
        node.stamp.acknowledged = true;
        s.nodes[member] = node;
        if !self.scope.admissions_travel && Self::may_take_extension(s, member) {
            self.take_extension(s, member);
        }
    }

    pub(crate) fn may_take_extension(s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        node.stamp.acknowledged && node.floor() < node.stamp.view
    }

    /// The member's lease counts from its own stamp, and so does what was listed and not refused, if it still
    /// runs.
    pub(crate) fn take_extension(&self, s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        let stamp = std::mem::take(&mut node.stamp);
        let left = if self.rules.lock_counts_from_send { stamp.left } else { node.timing.lease() };
        if !node.is_heard() && self.rules.asks_anew {
            node.asks = node.asks.map(Ask::anew);
        }
        node.lease = node.lease.max(left);
        node.unheard = 0;
        for (hold, token) in node.holds.iter_mut().zip(stamp.tokens) {
            let listed = token == hold.token || !self.rules.acknowledges_what_was_listed;
            let runs = hold.is_live() || !self.rules.expiry_is_final;
            if hold.token > 0 && listed && runs {
                hold.left = hold.left.max(left);
            }
        }
    }

    pub(crate) fn may_renew_own(&self, s: &State, leader: NodeId, lock: LockId) -> bool {
        let node = &s.nodes[leader];
        let Some(lead) = &node.lead else { return false };
        let hold = node.holds[lock];
        self.scope.renewals
            && hold.is_live()
            && lead.entries[lock].is_of(leader, hold.token)
            && self.leader_lease_left(s, leader) > 0
    }

    pub(crate) fn renew_own(&self, s: &mut State, leader: NodeId, lock: LockId) {
        let own = self.own_lease(s, leader);
        if own > self.leader_lease_left(s, leader) && self.scope.lists {
            s.event = Event::NotifiedBeyondTheLeaderLease;
        }
        let node = &mut s.nodes[leader];
        let hold = &mut node.holds[lock];
        hold.left = hold.left.max(own);
        if let Some(lead) = &mut node.lead {
            lead.entries[lock].busy = lead.record.timing.member_lease();
        }
    }

    pub(crate) fn may_release(&self, s: &State, id: NodeId, lock: LockId) -> bool {
        self.scope.releases && self.coordinates() && s.nodes[id].holds[lock].is_live()
    }

    /// The application is done: it holds nothing from now on, and the release leaves.
    pub(crate) fn release(s: &mut State, id: NodeId, lock: LockId) {
        let hold = std::mem::take(&mut s.nodes[id].holds[lock]);
        s.nodes[id].releasing[lock] = hold.token;
    }

    pub(crate) fn may_take_release(
        &self,
        s: &State,
        leader: NodeId,
        member: NodeId,
        lock: LockId,
    ) -> bool {
        let token = s.nodes[member].releasing[lock];
        self.scope.releases && token > 0 && s.nodes[leader].lead.is_some()
    }

    /// Rule 23: exactly this token is released. Any leader may get the message, however late.
    pub(crate) fn take_release(&self, s: &mut State, leader: NodeId, member: NodeId, lock: LockId) {
        let token = s.nodes[member].releasing[lock];
        if !self.scope.duplicates {
            s.nodes[member].releasing[lock] = 0;
        }
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        let entry = &mut lead.entries[lock];
        if entry.is_of(member, token) || (entry.holder == member && !self.rules.release_names_token)
        {
            *entry = Entry::default();
        }
    }

    pub(crate) fn may_forget(&self, s: &State, leader: NodeId, lock: LockId) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        self.scope.forgets && lead.entries[lock].is_free() && lead.last[lock] > 0
    }

    /// A lock that nobody uses is dropped. Its number stays behind in the floor of all locks.
    pub(crate) fn forget(&self, s: &mut State, leader: NodeId, lock: LockId) {
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        let last = std::mem::take(&mut lead.last[lock]);
        if self.rules.floor_is_kept {
            lead.floor = lead.floor.max(last);
        }
    }
}

/// What a `sometimes` property may want to know about this grant.
fn grant_event(lead: &Lead, lock: LockId, token: Token) -> Event {
    if lead.floor > lead.last[lock] {
        Event::GrantedAboveTheFloor
    } else if epoch_of(token) > lead.record.view {
        Event::GrantedAboveTheEpoch
    } else if lead.outsider_ran_out {
        Event::GrantedAfterOutsiderRanOut
    } else if lead.began_grace {
        Event::GrantedAfterGracePeriod
    } else if lead.record.turn > 1 {
        Event::GrantedInALaterView
    } else {
        Event::Nothing
    }
}

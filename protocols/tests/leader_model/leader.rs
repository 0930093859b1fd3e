//! A leader: its leader lease, its hand-over, its ceiling.

use super::model::LeaderModel;
use super::peers::LOCK;
use super::rules::OwnHolds;
use super::state::{
    Base, Bid, Closing, Entry, Event, LOCKS, Lead, Members, NOBODY, NodeId, PerNode, Purpose,
    Record, State, Ticks, Write, all_nodes, epoch_of,
};

impl Lead {
    /// A leader that has just activated its view.
    pub(crate) fn of(record: Record) -> Self {
        Self {
            record,
            leader_lease: PerNode::default(),
            resigned: false,
            grace: 0,
            entries: Default::default(),
            last: [0; LOCKS],
            floor: 0,
            reported: [false; LOCKS],
            older_own: 0,
            wearing: 0,
            looked: Members::NONE,
            heard: PerNode::default(),
            frozen: false,
            answered: Members::NONE,
            heard_of: 0,
            carried: Entry::default(),
            began_grace: false,
            outsider_ran_out: false,
        }
    }
}

impl Lead {
    /// Rule 17, waits: the shortest L that every hold of this view fits in: the view's own until that has passed
    /// once, and then what locks are given for.
    fn member_lease(&self) -> Ticks {
        let timing = self.record.timing;
        let worn = self.wearing == 0 && self.grace == 0;
        if worn { timing.lease() } else { timing.member_lease() }
    }
}

impl LeaderModel {
    /// Rule 9: what is left of this node's leader lease, and zero if it has none.
    pub(crate) fn leader_lease_left(&self, s: &State, id: NodeId) -> Ticks {
        let node = &s.nodes[id];
        let Some(lead) = &node.lead else { return 0 };
        let resigned = lead.resigned && self.rules.resigning_ends_the_leader_lease;
        // A leader that has resigned has sealed; one that keeps its leader lease all the same has not.
        let kept = lead.resigned && !self.rules.resigning_ends_the_leader_lease;
        let sealed = node.floor() >= lead.record.view && !kept;
        if !node.alive || resigned || sealed { 0 } else { lead.majority_left() }
    }

    /// Rule 21: is the view that this node leads settled?
    pub(crate) fn is_settled(&self, s: &State, leader: NodeId) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        let outside = |entry: &Entry| !entry.is_free() && !lead.record.members.has(entry.holder);
        let outsider = self.rules.outsider_unsettles && lead.entries.iter().any(outside);
        let older = lead.older_own > 0;
        lead.record.settled || (lead.grace == 0 && !outsider && !older)
    }

    pub(crate) fn may_hand_over(&self, s: &State, leader: NodeId, successor: NodeId) -> bool {
        let base = s.register.view;
        if s.register.lost || s.register.is_left() {
            return false;
        }
        if !self.scope.successors.has(successor)
            || !s.nodes[successor].alive
            || !s.nodes[leader].leads(base)
        {
            return false;
        }
        let node = &s.nodes[successor];
        let free = node.write.is_none()
            && node.stale.is_none()
            && node.bid.is_none_or(|bid| bid.record.view == base && bid.base == Base::Living);
        free && node.cur <= base && s.register.turn < self.scope.views
    }

    /// Rule 13: the leader resigns and seals in one step. Its table, the rest of its grace period and
    /// the members whose promise it still has go to the successor, which has read the register.
    pub(crate) fn hand_over(&self, s: &mut State, leader: NodeId, successor: NodeId) {
        let leader_lease = self.leader_lease_left(s, leader);
        let settled = self.is_settled(s, leader);
        let Some(mut lead) = s.nodes[leader].lead else { return };
        let member_lease = lead.member_lease();
        // Rule 29: a leader that cannot wait leaves everything to a whole member lease.
        let whole =
            self.table_is_whole(leader, &lead) || !self.rules.peers.haste_costs_a_member_lease;
        let grace = if whole { lead.grace } else { lead.record.timing.member_lease() };
        if self.has_peers() {
            s.event = hand_over_event(whole, &lead);
        }
        if self.rules.own_holds == OwnHolds::FullLeaseAfterResigning && leader_lease > 0 {
            Self::keep_own_holds(s, leader, &mut lead);
        }
        lead.resigned = true;
        s.nodes[leader].lead = Some(lead);
        let base = lead.record.view;
        let mut node = s.nodes[leader];
        self.give_seal(&mut node, base);
        s.nodes[leader] = node;

        let live = all_nodes().filter(|&id| lead.leader_lease[id] > 0);
        let live = live.fold(Members::NONE.with(leader), Members::with);
        let mut bid = s.nodes[successor].bid.unwrap_or_else(|| self.bid_on(successor, s.register));
        if s.register.closing {
            s.event = Event::ClearsTheClosingMark;
        }
        bid.record = s.register;
        bid.seals = bid.seals.with(leader);
        bid.live = live.within(lead.record.members);
        bid.settled |= settled;
        if self.rules.table_comes_with_the_seal {
            bid.base = Base::HandedOver { grace, member_lease };
            for (lock, entry) in lead.entries.into_iter().enumerate() {
                if !entry.is_free() {
                    self.report(&mut bid, lock, entry);
                }
            }
        } else {
            bid.base = Base::HandedOver { grace: 0, member_lease };
            self.report_holds(&mut bid, &s.nodes[leader], leader);
        }
        s.nodes[successor].bid = Some(bid);
    }

    /// Rule 9: a leader lease that has lapsed may be given up.
    pub(crate) fn may_step_down(&self, s: &State, id: NodeId) -> bool {
        self.scope.steps_down && s.nodes[id].lead.is_some() && self.leader_lease_left(s, id) == 0
    }

    /// The leader leads no longer and refuses its view, like any member that sealed it. Its table is
    /// gone.
    pub(crate) fn step_down(&self, s: &mut State, id: NodeId) {
        let mut node = s.nodes[id];
        let Some(lead) = node.lead.take() else { return };
        if node.floor() < lead.record.view {
            // What it promised itself counts for nobody else.
            node.promise = 0;
            self.give_seal(&mut node, lead.record.view);
        }
        s.nodes[id] = node;
        s.event = Event::SteppedDown;
    }

    pub(crate) fn may_leave(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        self.scope.leaves
            && node.leads(s.register.view)
            && s.register.leader == id
            && !s.register.lost
            && node.write.is_none()
            && node.bid.is_none()
            && s.register.turn < self.scope.views
    }

    /// Rule 13 without a successor, or with one that is silent: the leader resigns, and the record names
    /// nobody as the view's leader. If its table is whole and the grace period is over, the record names all
    /// that may be held; it is settled if that is nothing.
    pub(crate) fn leave(&self, s: &mut State, id: NodeId) {
        let base = s.register;
        let mut node = s.nodes[id];
        let Some(lead) = node.lead.as_mut() else { return };
        let whole = self.table_is_whole(id, lead);
        let member_lease = lead.record.timing.member_lease();
        let named = lead.entries.map(|entry| {
            if entry.is_free() { Entry::default() } else { Entry { busy: member_lease, ..entry } }
        });
        let mut held = (whole && lead.grace == 0).then_some(named);
        if self.rules.leaver_resigns_first {
            lead.resigned = true;
            self.give_seal(&mut node, base.view);
        }
        if !self.rules.leaver_reports_if_locks_are_held {
            held = Some(Default::default());
        }
        let settled = held.is_some_and(|held| held.iter().all(|entry| entry.is_free()));
        let record = Record { leader: NOBODY, settled, held, ..base };
        node.write = Some(Write::new(base, record, Purpose::Activate));
        s.nodes[id] = node;
    }

    /// Rule 22, broken: the resigning leader's own holds get a full lease.
    fn keep_own_holds(s: &mut State, leader: NodeId, lead: &mut Lead) {
        for (lock, hold) in s.nodes[leader].holds.iter_mut().enumerate() {
            if hold.is_live() && lead.entries[lock].is_of(leader, hold.token) {
                hold.left = lead.record.timing.lease();
                lead.entries[lock].busy = lead.record.timing.member_lease();
            }
        }
    }

    /// A candidacy that has read this record and nothing else.
    pub(crate) fn bid_on(&self, id: NodeId, record: Record) -> Bid {
        let waits = record.closing || !self.rules.closing_is_marked;
        let closing = if waits && self.confirms() {
            Closing::Waiting(self.closing_wait(id, &record))
        } else {
            Closing::No
        };
        let held = record.held.filter(|_| self.rules.leavers_message_counts);
        Bid {
            record,
            seals: Members::NONE,
            dead: Members::NONE,
            reports: held.unwrap_or_default(),
            reported: [false; LOCKS],
            settled: record.settled,
            rest: None,
            base: Base::Living,
            closing,
            live: Members::NONE,
        }
    }

    pub(crate) fn may_raise_ceiling(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let Some(lead) = &node.lead else { return false };
        // Half of the epoch's tokens are used. Of those that the leader does not grant it knows what
        // was reported to it.
        let notified = [node.peer.high, lead.entries[LOCK].token];
        let known = if self.has_peers() { &notified[..] } else { &lead.last[..] };
        let used = known.iter().any(|&last| epoch_of(last) >= lead.record.ceiling);
        s.raises < self.scope.raises
            && used
            && node.write.is_none()
            && self.leader_lease_left(s, id) > 0
    }

    /// The leader asks the register for one more epoch of tokens.
    pub(crate) fn raise_ceiling(s: &mut State, id: NodeId) {
        let Some(lead) = &s.nodes[id].lead else { return };
        let expected = lead.record;
        let record = Record { ceiling: expected.ceiling + 1, ..expected };
        s.nodes[id].write = Some(Write::new(expected, record, Purpose::RaiseCeiling));
        s.raises += 1;
    }

    /// The register took the new ceiling.
    pub(crate) fn use_ceiling(s: &mut State, id: NodeId, record: Record) {
        if let Some(lead) = &mut s.nodes[id].lead {
            lead.record = record;
            s.event = Event::CeilingRaised;
        }
    }
}

/// What a `sometimes` property may want to know about this hand-over.
fn hand_over_event(whole: bool, lead: &Lead) -> Event {
    let unheard = |member: NodeId| lead.heard[member] == 0 && !lead.answered.has(member);
    let others = lead.record.members.without(Members::NONE.with(lead.record.leader));
    if !whole {
        Event::HandedOverWithoutWaiting
    } else if others.iter().any(unheard) {
        Event::SilentMemberCounted
    } else if lead.entries.iter().any(|entry| !entry.is_free()) {
        Event::FrozenAndHandedOver
    } else {
        Event::Nothing
    }
}

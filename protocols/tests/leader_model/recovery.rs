//! What happens once nothing fails any more: a schedule in which everybody does at once what it may
//! do. It makes no choices, so a promise about it can be checked in every state.

use super::model::LeaderModel;
use super::state::{BEATS, Bid, Fate, NodeId, PerNode, State, Ticks, all_nodes};

/// After so many ticks the leader lease must be back: several views, each with E, P and L.
const HORIZON: u8 = 60;
/// More steps than anybody has to make within a tick.
const STEPS: u8 = 40;

/// What the schedule remembers of the nodes from tick to tick.
#[derive(Clone, Copy, Default)]
struct Patience {
    /// For how long a nominee still takes part in no election.
    abstains: PerNode<Ticks>,
    /// For how long a leader has had no leader lease.
    lapsed: PerNode<Ticks>,
}

impl LeaderModel {
    /// Does a leader lease that can grant come back, if from here on nobody crashes and no message is
    /// lost, but for those to and from the register of a member that is cut off from it?
    pub(crate) fn comes_back(&self, state: &State) -> bool {
        let fair = self.without_bounds();
        let mut s = *state;
        let mut patience = Patience::default();
        for _ in 0..HORIZON {
            fair.settle_down(&mut s, &mut patience);
            if all_nodes().any(|id| fair.can_grant(&s, id)) {
                return true;
            }
            fair.tick(&mut s);
            fair.grow_impatient(&s, &mut patience);
        }
        false
    }

    fn without_bounds(&self) -> Self {
        let mut fair = self.clone();
        let everybody = self.everybody();
        (fair.scope.candidates, fair.scope.successors) = (everybody, everybody);
        (fair.scope.views, fair.scope.grants, fair.scope.raises) = (u8::MAX, u8::MAX, u8::MAX);
        fair.scope.steps_down = true;
        fair
    }

    fn can_grant(&self, s: &State, id: NodeId) -> bool {
        let Some(lead) = &s.nodes[id].lead else { return false };
        self.leader_lease_left(s, id) > 0
            && lead.grace == 0
            && lead.entries.iter().all(|entry| entry.is_free())
            && self.next_token(s, id, 0).is_some()
    }

    fn grow_impatient(&self, s: &State, patience: &mut Patience) {
        for id in all_nodes() {
            patience.abstains[id] = patience.abstains[id].saturating_sub(1);
            let lapsed = s.nodes[id].lead.is_some() && self.leader_lease_left(s, id) == 0;
            patience.lapsed[id] = if lapsed { patience.lapsed[id].saturating_add(1) } else { 0 };
        }
    }

    /// Everything that can happen before the next tick.
    fn settle_down(&self, s: &mut State, patience: &mut Patience) {
        for _ in 0..STEPS {
            let before = *s;
            for id in self.everybody().iter() {
                self.speak_with_register(s, id);
            }
            for id in self.everybody().iter() {
                self.promise_and_be_promised(s, id);
            }
            for id in self.everybody().iter() {
                self.go_on_leading(s, id, *patience);
                self.go_on_as_candidate(s, id);
            }
            self.nominate(s, patience);
            s.event = before.event;
            if *s == before {
                return;
            }
        }
    }

    /// Writes on their way arrive. A member that is cut off gets no answer.
    fn speak_with_register(&self, s: &mut State, id: NodeId) {
        while Self::may_apply(s, id) {
            self.apply(s, id);
        }
        if !s.nodes[id].alive || self.scope.cut_off.has(id) {
            return;
        }
        if self.may_reply(s, id) {
            self.reply(s, id);
        } else if s.nodes[id].write.is_some_and(|write| write.fate == Fate::Refused) {
            self.read_back(s, id);
        }
        if Self::may_find_older_write(s, id) {
            self.find_older_write(s, id);
        }
        if self.may_confirm(s, id) {
            self.confirm(s, id);
        }
    }

    fn promise_and_be_promised(&self, s: &mut State, leader: NodeId) {
        for member in self.everybody().iter() {
            if self.may_beat(s, leader, member) {
                self.beat(s, leader, member);
            }
            if self.may_send_beat(s, leader, member) {
                self.send_beat(s, leader, member);
            }
            for slot in 0..BEATS {
                if self.may_take_beat(s, member, slot) {
                    self.take_beat(s, member, slot);
                }
                if Self::may_take_promise(s, leader, member, slot) {
                    self.take_promise(s, leader, member, slot);
                }
            }
        }
    }

    /// A leader changes its view if that is closing or a member has sealed it, raises its ceiling,
    /// and steps down if its leader lease is gone.
    fn go_on_leading(&self, s: &mut State, id: NodeId, patience: Patience) {
        let Some(lead) = s.nodes[id].lead else { return };
        let cut_off = self.scope.cut_off.has(id);
        let lost = |member: NodeId| lead.leader_lease[member] == 0;
        let changes = s.register.closing || lead.record.members.iter().any(lost);
        let leader_lease = self.leader_lease_left(s, id) > 0;
        if !cut_off && self.may_replace(s, id) {
            self.replace(s, id);
        } else if leader_lease && changes && !cut_off && self.may_hand_over(s, id, id) {
            self.hand_over(s, id, id);
        } else if !cut_off && self.may_raise_ceiling(s, id) && lead.record == s.register {
            Self::raise_ceiling(s, id);
        } else if self.rules.lapsed_leader_steps_down
            && self.may_step_down(s, id)
            && patience.lapsed[id] > 2 * lead.record.timing.promise()
        {
            self.step_down(s, id);
        }
    }

    /// Asks for seals; writes its view when the old leader lease is over; marks the record if there are
    /// no seals to wait for. Without the register it can do neither, and goes on waiting.
    fn go_on_as_candidate(&self, s: &mut State, id: NodeId) {
        let Some(bid) = s.nodes[id].bid else { return };
        if self.scope.cut_off.has(id) {
            return;
        }
        if s.nodes[id].write.is_none() && bid.record != s.register {
            return self.notice_change(s, id, bid);
        }
        for member in self.everybody().iter() {
            if self.may_seal(s, id, member) {
                self.seal(s, id, member);
            }
        }
        if self.may_activate(s, id) {
            self.activate(s, id);
        } else if self.may_close(s, id)
            && self.rules.closing_ends_the_wait
            && !Self::is_refused(s, &bid)
        {
            Self::close(s, id);
        }
    }

    /// A write that names an old version would be refused: the same as that refusal.
    fn notice_change(&self, s: &mut State, id: NodeId, bid: Bid) {
        if s.register.is_same_base(&bid.record) {
            self.read_again(s, id);
        } else {
            s.nodes[id].bid = None;
        }
    }

    /// Rule 15: nobody marks a view while one of its members refuses to seal.
    fn is_refused(s: &State, bid: &Bid) -> bool {
        let refuses = |member: NodeId| {
            let node = &s.nodes[member];
            node.alive && node.cur == bid.record.view && !node.sealed && node.promise > 0
        };
        bid.record.members.iter().any(refuses)
    }

    /// Rule 11: the highest in rank of the members whose promise has run out. A joiner begins when
    /// no member does. Nobody but the nominee begins; one that does not reach the register withdraws,
    /// so that the next in rank is nominated before it takes part again.
    fn nominate(&self, s: &mut State, patience: &mut Patience) {
        let members = s.register.members;
        let candidacies = |id: &NodeId| {
            let node = &s.nodes[*id];
            node.alive && (node.bid.is_some() || node.write.is_some())
        };
        if all_nodes().filter(|id| !self.scope.cut_off.has(*id)).any(|id| candidacies(&id)) {
            return;
        }
        let ranks = members.iter().chain(self.everybody().without(members).iter());
        for nominee in ranks {
            let abstains = patience.abstains[nominee] > 0;
            if abstains || !s.nodes[nominee].alive || !self.may_start(s, nominee) {
                continue;
            }
            if !self.scope.cut_off.has(nominee) {
                return self.start(s, nominee);
            }
            if !self.rules.nominee_withdraws {
                return;
            }
            patience.abstains[nominee] = self.longest().promise() + 1;
        }
    }
}

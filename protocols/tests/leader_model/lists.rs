//! What a leader lists of the one lock, so that the seals of its members can report it (rules 20 to 22).

use super::model::LeaderModel;
use super::rules::Hearing;
use super::state::{Bid, Entry, Lead, List, Node, NodeId, State, Ticks};

impl LeaderModel {
    /// What this leader lists now: a hold of its own that runs, or that of somebody who is not in the
    /// view.
    fn list_of(&self, s: &State, leader: NodeId) -> List {
        let node = &s.nodes[leader];
        let Some(lead) = &node.lead else { return List::default() };
        let entry = lead.entries[0];
        let own = node.holds[0].is_live() && entry.is_of(leader, node.holds[0].token);
        let outside = !entry.is_free() && !lead.record.members.has(entry.holder);
        let busy = lead.record.timing.member_lease();
        let entry = match (own, outside) {
            (true, _) => Entry { busy, ..entry },
            (false, true) => entry,
            (false, false) => Entry::default(),
        };
        let rest = if self.rules.lists.rest_is_notified { lead.grace } else { 0 };
        List { view: lead.record.view, entry, own, rest }
    }

    /// A member has promised, and keeps the list; the leader has its answer.
    pub(crate) fn hear_list(&self, s: &mut State, leader: NodeId, member: NodeId) {
        if !self.scope.lists || leader == member {
            return;
        }
        let list = self.list_of(s, leader);
        s.nodes[member].list = list;
        if list.own
            && let Some(lead) = &mut s.nodes[leader].lead
        {
            lead.heard_of = list.entry.token;
        }
    }

    /// Rule 22: by how much a hold of this leader may outlast its leader lease.
    pub(crate) fn longer_than_leader_lease(&self, s: &State, leader: NodeId) -> Ticks {
        let node = &s.nodes[leader];
        let Some(lead) = node.lead.as_ref().filter(|_| self.scope.lists) else { return 0 };
        let heard = match self.rules.lists.hearing {
            Hearing::OfThisHold => lead.heard_of > 0 && lead.heard_of == node.holds[0].token,
            Hearing::AnyPromise => others(lead, leader).any(|member| lead.leader_lease[member] > 0),
            Hearing::Needless => true,
        };
        let (lease, promise) = (lead.record.timing.lease(), lead.record.timing.promise());
        if heard { lease.saturating_sub(promise) } else { 0 }
    }

    /// Rule 21: what a member that seals knows of its leader's list. Of two reports of a lock the larger
    /// token is the younger hold, and of one hold the longer counts.
    pub(crate) fn tell_list(&self, bid: &mut Bid, node: &Node) {
        let list = node.list;
        if !self.scope.lists || list.view != bid.record.view {
            return;
        }
        bid.rest = Some(bid.rest.map_or(list.rest, |known| known.min(list.rest)));
        let rules = &self.rules.lists;
        let notified = if list.own { rules.seals_tell_own } else { rules.seals_tell_outsiders };
        let order = |entry: Entry| (entry.token, entry.busy);
        if notified && !list.entry.is_free() && order(list.entry) > order(bid.reports[0]) {
            bid.reports[0] = list.entry;
        }
    }

    /// Rule 20: if all sealed, what is left of the base's grace period; nothing if that is not known.
    pub(crate) fn rest_of_base(&self, bid: &Bid) -> Option<Ticks> {
        if self.scope.lists {
            return bid.rest.or_else(|| (!self.rules.lists.somebody_entered).then_some(0));
        }
        (bid.settled || !self.rules.unsettled_base_waits).then_some(0)
    }
}

fn others(lead: &Lead, leader: NodeId) -> impl Iterator<Item = NodeId> {
    lead.record.members.iter().filter(move |member| *member != leader)
}

//! Time passes for everybody at once. What is over is forgotten, so that states repeat.

use super::model::LeaderModel;
use super::state::{
    Ask, Base, Beat, Bid, Closing, Entry, Event, Hold, Lead, List, Node, NodeId, Peer, Stamp,
    State, Ticks,
};

impl LeaderModel {
    pub(crate) fn tick(&self, state: &mut State) {
        let mut left = false;
        for (id, node) in (0..).zip(state.nodes.iter_mut()) {
            self.age(id, node);
            left |= Self::leave_if_over(node);
        }
        state.event = if left { Event::LeftByItself } else { Event::Nothing };
    }

    fn age(&self, id: NodeId, node: &mut Node) {
        pass(&mut node.dying);
        pass(&mut node.promise);
        pass(&mut node.confirmed.1);
        pass(&mut node.sighted.1);
        self.age_messages(node);
        pass(&mut node.lease);
        pass(&mut node.unheard);
        self.age_grants(node);
        age_peer(&mut node.peer);
        age_list(&mut node.list);
        for hold in &mut node.holds {
            pass(&mut hold.left);
            if hold.left == 0 && self.rules.expiry_is_final {
                *hold = Hold::default();
            }
        }
        if let Some(lead) = &mut node.lead {
            age_lead(lead);
        }
        if let Some(bid) = &mut node.bid {
            self.age_bid(id, bid);
        }
    }

    /// A message whose worth has run out is as good as lost, unless somebody counts from its
    /// arrival.
    fn age_messages(&self, node: &mut Node) {
        for beat in &mut node.beats {
            pass(&mut beat.left);
            if beat.promised && beat.left == 0 && self.rules.leader_lease_counts_from_send {
                *beat = Beat::default();
            }
        }
        node.beats.sort_unstable_by(|a, b| b.cmp(a));
        pass(&mut node.stamp.left);
        if node.stamp.left == 0 && self.rules.lock_counts_from_send {
            node.stamp = Stamp::default();
        }
    }

    /// Rule 27: where the lease of a member is over, its requests and the grants that it has yet to hear are of
    /// no use: it is to ask anew, when it does. A lease that nothing is held or asked for on is not looked at, so
    /// that states repeat: a later one lasts longer.
    fn age_grants(&self, node: &mut Node) {
        let holds = node.holds.iter().any(|hold| hold.is_live());
        let idle = !holds && node.stamp.view == 0 && node.asks.iter().all(|ask| *ask == Ask::None);
        if idle && self.coordinates() && self.scope.renewals {
            node.lease = 0;
        }
        if node.is_heard() {
            return;
        }
        if self.rules.asks_anew {
            node.asks = Default::default();
        }
        for late in &mut node.late {
            if self.rules.grant_names_request {
                *late = Ask::None;
            }
        }
    }

    fn age_bid(&self, id: NodeId, bid: &mut Bid) {
        bid.reports.iter_mut().for_each(age_entry);
        bid.rest.iter_mut().for_each(pass);
        match &mut bid.base {
            Base::Living => {}
            Base::Over { grace } | Base::HandedOver { grace, .. } => pass(grace),
        }
        if let Closing::Waiting(left) = &mut bid.closing {
            pass(left);
            if *left == 0 {
                bid.closing = Closing::Passed;
                self.judge_base(id, bid);
            }
        }
    }
}

/// A hold of the leader's own lasts for as long as it may extend it.
fn age_list(list: &mut List) {
    pass(&mut list.rest);
    if !list.own {
        age_entry(&mut list.entry);
    }
}

fn age_peer(peer: &mut Peer) {
    pass(&mut peer.outsider);
    pass(&mut peer.beat.left);
    pass(&mut peer.late.left);
    pass(&mut peer.answer.left);
}

fn age_lead(lead: &mut Lead) {
    lead.heard.iter_mut().for_each(pass);
    pass(&mut lead.carried.busy);
    lead.leader_lease.iter_mut().for_each(pass);
    pass(&mut lead.grace);
    pass(&mut lead.older_own);
    pass(&mut lead.wearing);
    for entry in &mut lead.entries {
        let outside = entry.busy == 1 && !lead.record.members.has(entry.holder);
        lead.outsider_ran_out |= outside;
        age_entry(entry);
    }
}

fn age_entry(entry: &mut Entry) {
    pass(&mut entry.busy);
    if entry.is_free() {
        *entry = Entry::default();
    }
}

fn pass(left: &mut Ticks) {
    *left = left.saturating_sub(1);
}

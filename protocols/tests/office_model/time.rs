//! Time passes for everybody at once. What is over is forgotten, so that states repeat.

use super::model::OfficeModel;
use super::state::{
    Ask, Base, Beat, Bid, Closing, Entry, Event, Hold, Lead, Node, Stamp, State, Ticks,
};

impl OfficeModel {
    pub(crate) fn tick(&self, state: &mut State) {
        for node in state.nodes.iter_mut() {
            self.age(node);
        }
        state.event = Event::Nothing;
    }

    fn age(&self, node: &mut Node) {
        pass(&mut node.dying);
        pass(&mut node.promise);
        pass(&mut node.confirmed.1);
        self.age_messages(node);
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
            self.age_bid(bid);
        }
    }

    /// A message whose worth has run out is as good as lost, unless somebody counts from its
    /// arrival.
    fn age_messages(&self, node: &mut Node) {
        pass(&mut node.beat.left);
        if node.beat.promised && node.beat.left == 0 && self.rules.office_counts_from_send {
            node.beat = Beat::default();
        }
        let forgets = self.rules.lock_counts_from_send && self.rules.queued_counts_from_seen_answer;
        pass(&mut node.stamp.left);
        if node.stamp.left == 0 && forgets {
            node.stamp = Stamp::default();
        }
        for ask in &mut node.asks {
            match ask {
                Ask::None => {}
                Ask::Sent { left, .. } => {
                    pass(left);
                    if *left == 0 && forgets && !self.scope.queues {
                        *ask = Ask::None;
                    }
                }
                Ask::Granted { left, .. } => {
                    pass(left);
                    if *left == 0 && forgets {
                        *ask = Ask::None;
                    }
                }
            }
        }
    }

    fn age_bid(&self, bid: &mut Bid) {
        bid.reports.iter_mut().for_each(age_entry);
        match &mut bid.base {
            Base::Living => {}
            Base::Over { quiet } | Base::HandedOver { quiet } => pass(quiet),
        }
        if let Closing::Waiting(left) = &mut bid.closing {
            pass(left);
            if *left == 0 {
                bid.closing = Closing::Passed;
                self.judge_base(bid);
            }
        }
    }
}

fn age_lead(lead: &mut Lead) {
    lead.office.iter_mut().for_each(pass);
    pass(&mut lead.quiet);
    pass(&mut lead.older_own);
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

//! A member: promises, confirmations, seals, crashes.

use super::model::OfficeModel;
use super::rules::OlderLeases;
use super::state::{Ask, Beat, Event, Node, NodeId, Record, Stamp, State, Ticks, View};

impl OfficeModel {
    pub(crate) fn may_crash(&self, s: &State, id: NodeId) -> bool {
        self.scope.mortal.has(id) && s.crashes < self.scope.crashes
    }

    /// The process is gone, and its application with it. Its promises, its requests that were
    /// already handled and its write on the way live on with those who have them.
    pub(crate) fn crash(&self, s: &mut State, id: NodeId) {
        let write = s.nodes[id].write.or(s.nodes[id].stale);
        let dying = if self.scope.evidence { self.scope.promise } else { 0 };
        s.nodes[id] = Node { dying, write, ..Node::default() };
        s.crashes += 1;
    }

    pub(crate) fn may_restart(&self, s: &State, id: NodeId) -> bool {
        !self.rules.restart_is_a_new_member && !s.nodes[id].alive
    }

    /// Rule 2, broken: the new process has the old one's identity and none of its memory.
    pub(crate) fn restart(s: &mut State, id: NodeId) {
        s.nodes[id] = Node { alive: true, ..Node::default() };
    }

    pub(crate) fn may_confirm(&self, s: &State, id: NodeId) -> bool {
        let fresh = (s.register.view, self.scope.confirmation);
        self.scope.confirmation > 0
            && self.rules.promise_needs_confirmation
            && !s.register.closing
            && s.nodes[id].confirmed != fresh
    }

    /// Rule 10: a consistent read. Reading in one step gives the member the most: a read that takes
    /// time counts from before it was sent.
    pub(crate) fn confirm(&self, s: &mut State, id: NodeId) {
        s.nodes[id].confirmed = (s.register.view, self.scope.confirmation);
    }

    /// Rule 8: would this member of that view promise to its leader?
    fn promises(&self, node: &Node, view: View) -> bool {
        let open =
            if self.rules.seal_ends_promises { view > node.floor() } else { view >= node.cur };
        node.alive && open && self.has_confirmed(node, view)
    }

    fn has_confirmed(&self, node: &Node, view: View) -> bool {
        if self.scope.confirmation == 0 || !self.rules.promise_needs_confirmation {
            return true;
        }
        let (confirmed, left) = node.confirmed;
        // A view was activated after the register last confirmed an older one, so a mark on it
        // would be younger still: the older confirmation ends before anybody has waited it out.
        let fits = if self.rules.confirmation_carries_over {
            confirmed <= view
        } else {
            confirmed == view
        };
        left > 0 && fits
    }

    /// Rule 8: the member enters the view, if it is new to it, and promises for P.
    fn promise(&self, s: &mut State, id: NodeId, view: View, settled: bool) {
        if s.nodes[id].confirmed.0 < view && self.scope.confirmation > 0 {
            s.event = Event::PromisedOnAnOlderConfirmation;
        }
        let node = &mut s.nodes[id];
        if view > node.cur {
            leave_older(node, view);
            node.cur = view;
            node.sealed = false;
            node.settled_seen = false;
        }
        node.promise = self.scope.promise;
        node.settled_seen |= settled;
    }

    /// A leader sends heartbeats while it has neither resigned nor sealed its view.
    fn beats(s: &State, leader: NodeId, member: NodeId) -> Option<Record> {
        let node = &s.nodes[leader];
        let lead = node.lead.as_ref()?;
        let sends = node.alive
            && !lead.resigned
            && lead.record.members.has(member)
            && node.floor() < lead.record.view;
        sends.then_some(lead.record)
    }

    pub(crate) fn may_beat(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        if self.scope.beats_travel && leader != member {
            return false;
        }
        let Some(record) = Self::beats(s, leader, member) else { return false };
        self.promises(&s.nodes[member], record.view)
    }

    /// Heartbeat and promise in one step: the most that the leader can ever believe, because with
    /// messages that take time its deadline is earlier than the member's.
    pub(crate) fn beat(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let Some(view) = s.nodes[leader].lead.map(|lead| lead.record.view) else { return };
        let settled = self.is_settled(s, leader);
        self.promise(s, member, view, settled);
        self.count_promise(s, leader, member, self.scope.promise);
    }

    pub(crate) fn may_send_beat(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        self.scope.beats_travel && leader != member && Self::beats(s, leader, member).is_some()
    }

    /// A heartbeat leaves; an older one to this member, or its answer, is lost.
    pub(crate) fn send_beat(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let Some(view) = s.nodes[leader].lead.map(|lead| lead.record.view) else { return };
        let settled = self.is_settled(s, leader);
        let left = self.scope.promise;
        s.nodes[member].beat = Beat { view, left, settled, promised: false };
    }

    pub(crate) fn may_take_beat(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let Beat { view, promised, .. } = node.beat;
        view > 0 && !promised && self.promises(node, view)
    }

    pub(crate) fn take_beat(&self, s: &mut State, id: NodeId) {
        let Beat { view, left, settled, .. } = s.nodes[id].beat;
        self.promise(s, id, view, settled);
        s.nodes[id].beat = Beat { view, left, settled, promised: true };
    }

    pub(crate) fn may_take_promise(s: &State, leader: NodeId, member: NodeId) -> bool {
        let beat = s.nodes[member].beat;
        beat.promised && s.nodes[leader].leads(beat.view)
    }

    /// Rule 9: the leader's deadline runs from before it sent the heartbeat.
    pub(crate) fn take_promise(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let beat = s.nodes[member].beat;
        let worth = if self.rules.office_counts_from_send { beat.left } else { self.scope.promise };
        s.nodes[member].beat = Beat::default();
        self.count_promise(s, leader, member, worth);
    }

    fn count_promise(&self, s: &mut State, leader: NodeId, member: NodeId, worth: Ticks) {
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        lead.office[member] = lead.office[member].max(worth);
        let ties = self.rules.leaders_older_leases == OlderLeases::UnsettleUntilTheOffice;
        if ties
            && self.office_left(s, leader) > 0
            && let Some(lead) = &mut s.nodes[leader].lead
        {
            lead.older_own = 0;
        }
    }

    /// Rule 12: from now on the member refuses whatever belongs to this view or an older one.
    pub(crate) fn give_seal(&self, node: &mut Node, view: View) {
        if view > node.cur {
            node.settled_seen = false;
        }
        leave_older(node, view);
        node.cur = view;
        node.sealed = true;
        node.stamp = Stamp::default();
        for ask in &mut node.asks {
            let keeps = !self.rules.seal_ends_grants && matches!(ask, Ask::Granted { .. });
            if !keeps {
                *ask = Ask::None;
            }
        }
    }
}

/// The member ends what it was in views below this one. Its holds stay: nothing takes back what it
/// told its application.
fn leave_older(node: &mut Node, view: View) {
    if node.lead.is_some_and(|lead| lead.record.view < view) {
        node.lead = None;
    }
    if node.write.is_some_and(|write| write.record.view < view) {
        node.write = None;
    }
    if node.bid.is_some_and(|bid| bid.record.view < view) && node.write.is_none() {
        node.bid = None;
    }
    if view > node.cur {
        node.stamp = Stamp::default();
        node.asks = Default::default();
    }
}

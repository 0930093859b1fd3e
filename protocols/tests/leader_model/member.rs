//! A member: promises, confirmations, seals, crashes.

use super::model::LeaderModel;
use super::rules::OlderLeases;
use super::state::{
    Ask, BEATS, Beat, Event, List, Node, NodeId, Peer, Record, Stamp, State, Ticks, Timing, View,
};

impl LeaderModel {
    pub(crate) fn may_crash(&self, s: &State, id: NodeId) -> bool {
        self.scope.mortal.has(id) && s.crashes < self.scope.crashes
    }

    /// The process is gone, and its application with it. Its promises, its requests that were
    /// already handled and its write on the way live on with those who have them.
    pub(crate) fn crash(&self, s: &mut State, id: NodeId) {
        let write = s.nodes[id].write.or(s.nodes[id].stale);
        let dying = if self.scope.evidence { self.longest().promise() } else { 0 };
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
        let fresh = (s.register.view, self.longest().confirmation());
        self.confirms()
            && self.rules.promise_needs_confirmation
            && !s.register.closing
            && s.nodes[id].confirmed != fresh
    }

    /// Rule 10: a consistent read. Reading in one step gives the member the most: a read that takes
    /// time counts from before it was sent.
    pub(crate) fn confirm(&self, s: &mut State, id: NodeId) {
        s.nodes[id].confirmed = (s.register.view, self.longest().confirmation());
    }

    /// Rule 8: would this member of that view promise to its leader?
    fn promises(&self, id: NodeId, node: &Node, view: View, timing: Timing) -> bool {
        let open =
            if self.rules.seal_ends_promises { view > node.floor() } else { view >= node.cur };
        let within = self.waits_known_to(id, timing).confirmation();
        node.alive && open && self.has_confirmed(node, view, within)
    }

    /// Did the register confirm this view, or one before it, within that E?
    fn has_confirmed(&self, node: &Node, view: View, within: Ticks) -> bool {
        if !self.confirms() || !self.rules.promise_needs_confirmation {
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
        left + within > self.longest().confirmation() && fits
    }

    /// Rule 8: the member enters the view, if it is new to it, and promises for P.
    fn promise(&self, s: &mut State, id: NodeId, beat: Beat) {
        let Beat { view, settled, timing, .. } = beat;
        if s.nodes[id].confirmed.0 < view && self.confirms() {
            s.event = Event::PromisedOnAnOlderConfirmation;
        }
        let node = &mut s.nodes[id];
        if view > node.cur {
            leave_older(node, view);
            if self.rules.peers.lease_is_of_its_view {
                node.lease = 0;
            }
            node.cur = view;
            node.sealed = false;
            node.settled_seen = false;
            node.list = List::default();
            node.timing = timing;
            let renews = self.coordinates() && self.scope.renewals;
            node.unheard = if renews { timing.lease() } else { 0 };
        }
        node.promise = self.waits_known_to(id, timing).promise();
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
        self.promises(member, &s.nodes[member], record.view, record.timing)
    }

    /// Heartbeat and promise in one step: the most that the leader can ever believe, because with
    /// messages that take time its deadline is earlier than the member's.
    pub(crate) fn beat(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let Some(beat) = self.heartbeat(s, leader) else { return };
        let enters = beat.view > s.nodes[member].cur;
        self.promise(s, member, beat);
        if enters && self.has_peers() {
            self.start_mutex(s, leader, member);
        }
        if self.has_peers() && !self.scope.admissions_travel && leader != member {
            self.exchange(s, leader, member);
        }
        self.hear_list(s, leader, member);
        self.count_promise(s, leader, member, beat.left);
    }

    /// What this leader sends to its members now.
    fn heartbeat(&self, s: &State, leader: NodeId) -> Option<Beat> {
        let record = s.nodes[leader].lead?.record;
        let settled = self.is_settled(s, leader);
        let left = self.waits_known_to(leader, record.timing).promise();
        Some(Beat { view: record.view, left, settled, promised: false, timing: record.timing })
    }

    pub(crate) fn may_send_beat(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        self.scope.beats_travel && leader != member && Self::beats(s, leader, member).is_some()
    }

    /// A heartbeat leaves. Where messages do not overtake each other, an older one to this member,
    /// or its answer, is lost.
    pub(crate) fn send_beat(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let Some(beat) = self.heartbeat(s, leader) else { return };
        self.post(&mut s.nodes[member].beats, beat);
    }

    /// Of too many messages the oldest is lost.
    fn post(&self, beats: &mut [Beat; BEATS], beat: Beat) {
        if !self.scope.overtakes {
            *beats = [beat, Beat::default()];
        } else if !beats.contains(&beat) {
            beats[BEATS - 1] = beat;
            beats.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    pub(crate) fn may_take_beat(&self, s: &State, id: NodeId, slot: usize) -> bool {
        let node = &s.nodes[id];
        let Beat { view, promised, timing, .. } = node.beats[slot];
        view > 0 && !promised && self.promises(id, node, view, timing)
    }

    pub(crate) fn take_beat(&self, s: &mut State, id: NodeId, slot: usize) {
        let beat = s.nodes[id].beats[slot];
        self.promise(s, id, beat);
        let older = |other: &Beat| other.view > 0 && !other.promised && *other < beat;
        if s.nodes[id].beats.iter().any(older) {
            s.event = Event::BeatOvertook;
        }
        let beats = &mut s.nodes[id].beats;
        if !self.scope.duplicates {
            beats[slot] = Beat::default();
        }
        self.post(beats, Beat { promised: true, ..beat });
    }

    pub(crate) fn may_take_promise(s: &State, leader: NodeId, member: NodeId, slot: usize) -> bool {
        let beat = s.nodes[member].beats[slot];
        beat.promised && s.nodes[leader].leads(beat.view)
    }

    /// Rule 9: the leader's deadline runs from before it sent the heartbeat.
    pub(crate) fn take_promise(&self, s: &mut State, leader: NodeId, member: NodeId, slot: usize) {
        let beat = s.nodes[member].beats[slot];
        let full = self.waits_known_to(leader, beat.timing).promise();
        let worth = if self.rules.leader_lease_counts_from_send { beat.left } else { full };
        if !self.scope.duplicates {
            let beats = &mut s.nodes[member].beats;
            beats[slot] = Beat::default();
            beats.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.count_promise(s, leader, member, worth);
    }

    fn count_promise(&self, s: &mut State, leader: NodeId, member: NodeId, worth: Ticks) {
        let Some(lead) = &mut s.nodes[leader].lead else { return };
        lead.leader_lease[member] = lead.leader_lease[member].max(worth);
        let ties = self.rules.leaders_older_leases == OlderLeases::UnsettleUntilTheLeaderLease;
        if ties
            && self.leader_lease_left(s, leader) > 0
            && let Some(lead) = &mut s.nodes[leader].lead
        {
            lead.older_own = 0;
        }
    }

    /// Rule 12: from now on the member refuses whatever belongs to this view or an older one.
    pub(crate) fn give_seal(&self, node: &mut Node, view: View) {
        if view > node.cur {
            node.settled_seen = false;
            node.list = List::default();
        }
        leave_older(node, view);
        node.cur = view;
        node.sealed = true;
        node.stamp = Stamp::default();
        if self.rules.seal_ends_grants {
            let old = node.peer.still_on_their_way(&self.rules.peers);
            node.peer = Peer { old, ..Peer::default() };
            (node.lease, node.unheard) = (0, 0);
        }
        for ask in node.asks.iter_mut().chain(&mut node.late) {
            let keeps = !self.rules.seal_ends_grants && matches!(ask, Ask::Granted { .. });
            if !keeps {
                *ask = Ask::None;
            }
        }
    }
}

/// The member ends what it was in views below this one. Its holds stay: nothing takes back what it
/// notified its application of.
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
        node.late = Default::default();
    }
}

//! A candidate: it reads the register, collects seals, writes its view and takes leader lease.

use super::model::LeaderModel;
use super::peers::LOCK;
use super::rules::{Activation, Need, OlderLeases};
use super::state::{
    Base, Bid, Closing, Entry, Event, Lead, LockId, Members, Node, NodeId, Purpose, Record, State,
    Ticks, Timing, View, Write,
};

impl LeaderModel {
    pub(crate) fn may_start(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let leads = node.leads(s.register.view) && !s.register.lost;
        let idle = node.bid.is_none() && node.write.is_none() && !leads;
        let free = node.promise == 0 || !s.register.members.has(id);
        self.scope.candidates.has(id)
            && idle
            && free
            && node.cur <= s.register.view
            && s.register.turn < self.scope.views
    }

    /// Rule 11: read the register; a member of the base seals it at once.
    pub(crate) fn start(&self, s: &mut State, id: NodeId) {
        let mut bid = self.bid_on(id, s.register);
        self.count_from_sight(s, id, &mut bid);
        if s.register.members.has(id) && !s.register.is_left() {
            self.collect(&mut bid, &mut s.nodes[id], (id, id));
        } else {
            self.judge_base(id, &mut bid);
        }
        s.nodes[id].bid = Some(bid);
    }

    /// May this candidate still collect? Not once its view is written, unless it wrote a claim.
    fn collects<'s>(&self, s: &'s State, id: NodeId) -> Option<&'s Bid> {
        let claims = self.rules.activation == Activation::ClaimReplacesTheBase;
        s.nodes[id].bid.as_ref().filter(|_| claims || s.nodes[id].write.is_none())
    }

    pub(crate) fn may_seal(&self, s: &State, candidate: NodeId, member: NodeId) -> bool {
        let Some(bid) = self.collects(s, candidate) else { return false };
        let node = &s.nodes[member];
        let base = bid.record.view;
        let asked =
            bid.record.members.has(member) && !bid.seals.has(member) && !bid.record.is_left();
        let resigned = || s.nodes[bid.record.leader].lead.is_some_and(|lead| lead.resigned);
        let free = node.promise == 0
            || bid.dead.has(bid.record.leader)
            || !self.rules.seal_waits_for_the_promise
            || (!self.rules.hearsay_does_not_seal && resigned());
        // The leader of the base answers by handing over, which is an action of its own.
        asked && node.alive && node.cur <= base && free && !node.leads(base)
    }

    /// Rule 12, with the answer arriving at once: a late one only makes the waits longer.
    pub(crate) fn seal(&self, s: &mut State, candidate: NodeId, member: NodeId) {
        let Some(mut bid) = s.nodes[candidate].bid else { return };
        self.collect(&mut bid, &mut s.nodes[member], (candidate, member));
        s.nodes[candidate].bid = Some(bid);
    }

    fn collect(&self, bid: &mut Bid, node: &mut Node, (id, member): (NodeId, NodeId)) {
        self.give_seal(node, bid.record.view);
        bid.seals = bid.seals.with(member);
        bid.settled |= node.settled_seen;
        self.report_holds(bid, node, member);
        self.tell_list(bid, node);
        self.judge_base(id, bid);
    }

    /// The live holds of a member that seals, counted from the receipt of its answer.
    pub(crate) fn report_holds(&self, bid: &mut Bid, node: &Node, member: NodeId) {
        for (lock, hold) in node.holds.iter().enumerate() {
            if hold.is_live() {
                let busy = bid.record.timing.member_lease();
                self.report(bid, lock, Entry { holder: member, token: hold.token, busy });
            }
        }
    }

    /// Rule 20: a reported lock is busy. Of two reports the larger token is the younger hold.
    pub(crate) fn report(&self, bid: &mut Bid, lock: LockId, entry: Entry) {
        if self.rules.reports_count && entry.token >= bid.reports[lock].token {
            bid.reports[lock] = entry;
            bid.reported[lock] = !self.rules.reported_locks_wait_too;
        }
    }

    pub(crate) fn may_count_evidence(&self, s: &State, candidate: NodeId, member: NodeId) -> bool {
        let Some(bid) = self.collects(s, candidate) else { return false };
        let node = &s.nodes[member];
        let waited = node.dying == 0 || !self.rules.evidence_waits || bid.record.leader == member;
        let dead = !node.alive || !self.rules.evidence_is_true;
        let new = bid.record.members.has(member) && !bid.seals.has(member);
        self.scope.evidence && candidate != member && new && !bid.dead.has(member) && dead && waited
    }

    /// Rule 14: the kubelet reports that this incarnation's container has terminated.
    pub(crate) fn evidence(&self, s: &mut State, candidate: NodeId, member: NodeId) {
        let Some(bid) = &mut s.nodes[candidate].bid else { return };
        bid.dead = bid.dead.with(member);
        let mut bid = *bid;
        self.judge_base(candidate, &mut bid);
        s.nodes[candidate].bid = Some(bid);
        s.event = Event::EvidenceCounted;
    }

    /// Rule 15: is the leader lease of the base over? The grace period runs from the moment it is known.
    pub(crate) fn judge_base(&self, id: NodeId, bid: &mut Bid) {
        let leader = Members::NONE.with(bid.record.leader);
        let answered = bid.seals.and(bid.dead);
        let enough = match self.rules.need {
            Need::BlocksTheOldMajority => answered.count() >= bid.record.members.blocking(),
            Need::OneFewer => answered.count() + 1 >= bid.record.members.blocking(),
            Need::OfTheNewMembership => {
                let new = answered.and(self.scope.joiners);
                answered.and(self.scope.joiners).count() >= new.blocking()
            }
        };
        let heard = enough || leader.all_in(answered);
        let unknown = bid.record.lost && self.rules.lost_record_waits;
        let over = (heard && !unknown) || bid.closing == Closing::Passed || bid.record.is_left();
        if over && bid.base == Base::Living {
            let grace = self.waits_known_to(id, bid.record.timing).member_lease();
            bid.base = Base::Over { grace };
        }
    }

    pub(crate) fn may_close(&self, s: &State, id: NodeId) -> bool {
        let Some(bid) = &s.nodes[id].bid else { return false };
        self.confirms()
            && self.rules.closing_is_marked
            && !bid.record.closing
            && bid.base == Base::Living
            && s.nodes[id].write.is_none()
    }

    /// Rule 15 (c): mark the base, so that nobody confirms it any more.
    pub(crate) fn close(s: &mut State, id: NodeId) {
        let Some(bid) = &s.nodes[id].bid else { return };
        let record = Record { closing: true, ..bid.record };
        s.nodes[id].write = Some(Write::new(bid.record, record, Purpose::Close));
    }

    pub(crate) fn may_activate(&self, s: &State, id: NodeId) -> bool {
        let Some(bid) = &s.nodes[id].bid else { return false };
        let over = match self.rules.activation {
            Activation::AfterTheOldLeaderLease => bid.base != Base::Living,
            Activation::AtOnce | Activation::ClaimReplacesTheBase => true,
        };
        over && s.nodes[id].write.is_none() && bid.record.turn < self.scope.views
    }

    /// Rule 17: one write names the new view, its members and its leader.
    pub(crate) fn activate(&self, s: &mut State, id: NodeId) {
        let Some(mut bid) = s.nodes[id].bid else { return };
        let grace = self.grace_period(&bid);
        bid.base = match bid.base {
            Base::Living => Base::Living,
            Base::Over { .. } => Base::Over { grace },
            Base::HandedOver { member_lease, .. } => Base::HandedOver { grace, member_lease },
        };
        let members = self.next_members(s, &bid, id);
        let outside = |entry: &Entry| !entry.is_free() && !members.has(entry.holder);
        let outsider = self.rules.outsider_unsettles && bid.reports.iter().any(outside);
        let own = self.rules.leaders_older_leases != OlderLeases::Ignored
            && older_own(&s.nodes[id], &bid, id) > 0;
        let base = bid.record;
        let view = self.next_epoch(&base);
        let record = Record {
            view,
            members,
            leader: id,
            settled: grace == 0 && !outsider && !own && !self.scope.lists,
            closing: false,
            ceiling: view,
            nonce: u8::from(s.nodes[id].stale.is_some()),
            lost: false,
            held: None,
            timing: self.next_timing(id, &bid),
            turn: base.turn + 1,
        };
        s.nodes[id].bid = Some(bid);
        s.nodes[id].write = Some(Write::new(base, record, Purpose::Activate));
    }

    /// The next epoch is above every epoch that a token of the base may begin with.
    pub(crate) fn next_epoch(&self, base: &Record) -> View {
        let highest = if self.rules.epoch_above_ceiling { base.ceiling } else { 0 };
        base.view.max(highest) + 1
    }

    /// Rule 17, waits: those of the policy that this candidate knows. L stays as long as leases of the base may run.
    fn next_timing(&self, id: NodeId, bid: &Bid) -> Timing {
        let least = match bid.base {
            Base::HandedOver { member_lease, .. } => member_lease,
            Base::Living | Base::Over { .. } if bid.record.is_left() && bid.record.settled => 0,
            Base::Living | Base::Over { .. } => bid.record.timing.member_lease(),
        };
        let least = if self.rules.longer_member_lease_stays { least } else { 0 };
        let policy = self.policy_of(id);
        policy.waiting_for(policy.member_lease().max(least))
    }

    /// Rule 20: how long no lock is newly granted.
    fn grace_period(&self, bid: &Bid) -> u8 {
        let everybody = bid.seals.and(bid.dead).with(bid.record.leader);
        let left = bid.record.is_left();
        let sealed = bid.record.members.all_in(everybody) || !self.rules.lists.everybody_seals;
        let known = sealed && !bid.record.lost;
        match bid.base {
            _ if !self.rules.grace_period => 0,
            Base::Over { .. } if left && !self.rules.leavers_message_counts => 0,
            Base::Over { .. } if left && (bid.record.settled || bid.record.held.is_some()) => 0,
            Base::HandedOver { grace, .. } => grace,
            Base::Over { grace } if known => grace.min(self.rest_of_base(bid).unwrap_or(grace)),
            Base::Over { .. }
                if bid.record.lost && !self.rules.lost_record_begins_a_grace_period =>
            {
                0
            }
            Base::Over { grace } => grace,
            Base::Living => bid.record.timing.member_lease(),
        }
    }

    /// Those that answered, or those that the old leader still had promises of.
    fn next_members(&self, s: &State, bid: &Bid, id: NodeId) -> Members {
        let turn = usize::from(bid.record.turn) - 1;
        let always = (self.scope.admitted, self.scope.expelled);
        let (admitted, expelled) = self.scope.succession.get(turn).copied().unwrap_or(always);
        let admitted = admitted.iter().filter(|&joiner| s.nodes[joiner].alive);
        let admitted = admitted.fold(Members::NONE, Members::with);
        bid.seals.and(bid.live).and(admitted).without(expelled).with(id)
    }

    /// Rule 19: take the leader lease of the view that the register now names, unless this node has
    /// sealed it in the meantime.
    pub(crate) fn take_lead(&self, s: &mut State, id: NodeId, record: Record) {
        let Some(bid) = s.nodes[id].bid else { return };
        let all_dead =
            !bid.record.lost && bid.record.members.iter().all(|member| !s.nodes[member].alive);
        let node = &mut s.nodes[id];
        node.bid = None;
        if node.floor() >= record.view {
            if self.rules.sealed_view_has_no_leader {
                s.event = Event::RefusedToTakeASealedLeaderLease;
                return;
            }
            // Broken: it enters its own view as if it had never sealed it.
            node.sealed = false;
        }
        let (grace, event) = match bid.base {
            Base::HandedOver { grace, .. } => (grace, Event::TookLeadByHandOver),
            Base::Over { grace } if bid.closing == Closing::Passed && all_dead => {
                (grace, Event::TookLeadOfTheDead)
            }
            Base::Over { grace } if bid.closing == Closing::Passed => {
                (grace, Event::TookLeadAfterClosing)
            }
            Base::Over { grace } if bid.record.is_left() && !bid.record.settled => {
                (grace, Event::TookLeadOfALeaver)
            }
            Base::Over { grace: 0 } => (0, Event::TookLeadWithoutGracePeriod),
            Base::Over { grace } => (grace, Event::Nothing),
            Base::Living => (record.timing.member_lease(), Event::Nothing),
        };
        let older_own = match self.rules.leaders_older_leases {
            OlderLeases::UnsettleUntilTheyRanOut | OlderLeases::UnsettleUntilTheLeaderLease => {
                older_own(node, &bid, id)
            }
            OlderLeases::Ignored => 0,
        };
        let worn = record.timing.member_lease() == record.timing.lease();
        let wearing = if worn { 0 } else { record.timing.member_lease() };
        let began_grace = grace > 0;
        let mut lead = Lead { grace, older_own, wearing, began_grace, ..Lead::of(record) };
        lead.entries = bid.reports;
        if self.has_peers() {
            lead.carried = bid.reports[LOCK];
        }
        if self.may_ever_resign() {
            for member in record.members.iter() {
                lead.heard[member] = record.timing.member_lease();
            }
        }
        lead.reported = bid.reported;
        node.lead = Some(lead);
        let shorter = record.timing.member_lease() < bid.record.timing.member_lease();
        s.event = if shorter { Event::MemberLeaseShortened } else { event };
    }

    pub(crate) fn may_drop_candidacy(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let activates = node.write.is_some_and(|write| write.purpose == Purpose::Activate);
        self.scope.restarts_candidacy && activates && node.bid.is_some() && node.stale.is_none()
    }

    /// The candidate forgets what it collected; its write is still on its way.
    pub(crate) fn drop_candidacy(s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        node.bid = None;
        node.stale = node.write.take();
    }

    pub(crate) fn may_find_older_write(s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let led = |write: &Write| node.leads(write.record.view);
        let found = |write: &Write| s.register.is_view_of(&write.record) && !led(write);
        node.stale.as_ref().is_some_and(found) && node.write.is_none()
    }

    /// Rule 18: the older write was applied after all. What was reported is gone, so the grace period
    /// is a whole member lease from now.
    pub(crate) fn find_older_write(&self, s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        node.stale = None;
        let mut bid = self.bid_on(id, s.register);
        bid.base = Base::Over { grace: s.register.timing.member_lease() };
        node.bid = Some(bid);
        self.take_lead(s, id, s.register);
        if s.nodes[id].lead.is_some_and(|lead| lead.record == s.register) {
            s.event = Event::TookLeadByOlderWrite;
        }
    }
}

/// What is left at most of the leases that a candidate has from older views: those that it holds,
/// and those of a grant that is still on its way to it.
fn older_own(node: &Node, bid: &Bid, id: NodeId) -> Ticks {
    let held = node.holds.iter().map(|hold| hold.left);
    let granted = bid.reports.iter().filter(|entry| entry.holder == id).map(|entry| entry.busy);
    held.chain(granted).max().unwrap_or(0)
}

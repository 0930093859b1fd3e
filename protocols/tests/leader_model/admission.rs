//! What a leader does for locks whose state sits in the members: its heartbeats state whether
//! admission is open and acknowledge promises, its table is learnt from promises, and before it
//! resigns it freezes its view.

use super::model::LeaderModel;
use super::peers::LOCK;
use super::rules::Freeze;
use super::state::{
    Admission, Answer, Entry, Event, Fate, Lead, Members, Node, NodeId, Purpose, State, Token,
    View, epoch_of,
};

impl LeaderModel {
    /// Rule 26: what this leader's heartbeats state about admission.
    pub(crate) fn opens_admission(&self, s: &State, leader: NodeId) -> bool {
        let Some(lead) = &s.nodes[leader].lead else { return false };
        self.leader_lease_left(s, leader) > 0 && lead.grace == 0 && !lead.frozen
    }

    pub(crate) fn may_send_admission(&self, s: &State, leader: NodeId, member: NodeId) -> bool {
        let node = &s.nodes[leader];
        let Some(lead) = &node.lead else { return false };
        self.has_peers()
            && self.scope.admissions_travel
            && leader != member
            && !lead.resigned
            && node.floor() < lead.record.view
            && lead.record.members.has(member)
            && s.nodes[member].cur == lead.record.view
            && self.admission_to(s, leader, member) != s.nodes[member].peer.beat
    }

    /// Rule 24 and 27: only a leader with its leader lease acknowledges a promise.
    fn admission_to(&self, s: &State, leader: NodeId, member: NodeId) -> Admission {
        let Some(lead) = &s.nodes[leader].lead else { return Admission::default() };
        let answer = s.nodes[member].peer.answer;
        let may = self.leader_lease_left(s, leader) > 0 || !self.rules.renewal_checks_leader_lease;
        let acknowledges = answer.taken && answer.view == lead.record.view && may;
        Admission {
            view: lead.record.view,
            open: self.opens_admission(s, leader),
            freezes: lead.frozen,
            acknowledges,
            left: if acknowledges { answer.left } else { 0 },
            token: if acknowledges { answer.token } else { 0 },
            ceiling: if self.scope.raises > 0 { self.ceiling_of(s, leader) } else { 0 },
        }
    }

    /// Up to where tokens may go, for all that this leader knows.
    pub(crate) fn ceiling_of(&self, s: &State, leader: NodeId) -> View {
        let node = &s.nodes[leader];
        let asked = node.write.is_some_and(|write| {
            write.purpose == Purpose::RaiseCeiling && write.fate == Fate::OnItsWay
        });
        let early = asked && !self.rules.ceiling_is_written_first;
        node.lead.map_or(0, |lead| lead.record.ceiling + View::from(early))
    }

    /// The leader has the member's last promise, sends a heartbeat, and the member promises again: all
    /// in one step, but that this promise is still on its way.
    pub(crate) fn exchange(&self, s: &mut State, leader: NodeId, member: NodeId) {
        if Self::may_take_answer(s, leader, member) {
            self.take_answer(s, leader, member);
        }
        self.send_admission(s, leader, member);
        self.take_admission(s, member);
    }

    /// A heartbeat leaves. Heartbeats are numbered: a member that has heard a later one does not hear this.
    pub(crate) fn send_admission(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let admission = self.admission_to(s, leader, member);
        let peer = &mut s.nodes[member].peer;
        if self.scope.overtakes && peer.beat.view > 0 {
            peer.late = peer.beat;
        }
        if admission.acknowledges {
            peer.answer = Answer::default();
        }
        peer.beat = admission;
    }

    pub(crate) fn may_take_admission(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        node.peer.beat.view > 0 && node.peer.beat.view == node.cur && self.takes_part(s, id)
    }

    /// The member hears whether admission is open, counts its lease and the hold that it listed from
    /// its own stamp, and promises again.
    pub(crate) fn take_admission(&self, s: &mut State, id: NodeId) {
        let node = &mut s.nodes[id];
        let whole = node.timing.lease();
        let admission = std::mem::take(&mut node.peer.beat);
        let counted = admission.acknowledges && !self.rules.peers.lease_counts_from_stamp;
        let left = if counted { whole } else { admission.left };
        node.peer.admission = admission.open;
        node.peer.ceiling = admission.ceiling;
        node.lease = node.lease.max(left);
        let hold = &mut node.holds[LOCK];
        if hold.is_live() && admission.token == hold.token {
            hold.left = hold.left.max(left);
        }
        let token = if hold.is_live() { hold.token } else { 0 };
        let freezes = admission.freezes;
        node.peer.answer = Answer { view: node.cur, left: whole, token, freezes, taken: false };
    }

    pub(crate) fn may_take_late_admission(&self, s: &State, id: NodeId) -> bool {
        let late = s.nodes[id].peer.late;
        late.view > 0
            && late.view == s.nodes[id].cur
            && !self.rules.peers.latest_heartbeat_counts
            && self.takes_part(s, id)
    }

    pub(crate) fn may_take_answer(s: &State, leader: NodeId, member: NodeId) -> bool {
        let answer = s.nodes[member].peer.answer;
        let Some(lead) = &s.nodes[leader].lead else { return false };
        answer.view > 0 && !answer.taken && answer.view == lead.record.view && !lead.resigned
    }

    /// Rule 29: the table is learnt from promises, and so is which members have answered the freeze.
    pub(crate) fn take_answer(&self, s: &mut State, leader: NodeId, member: NodeId) {
        let Some(mut lead) = s.nodes[leader].lead else { return };
        let answer = &mut s.nodes[member].peer.answer;
        answer.taken = true;
        let busy = lead.record.timing.member_lease();
        if self.may_ever_resign() {
            lead.heard[member] = busy;
        }
        if lead.frozen && (answer.freezes || !self.rules.peers.answers_name_the_freeze) {
            lead.answered = lead.answered.with(member);
        }
        let view = lead.record.view;
        let entry = &mut lead.entries[LOCK];
        let new = epoch_of(answer.token) >= view || !self.rules.peers.learns_only_what_is_new;
        if answer.token == 0 {
            if entry.holder == member {
                *entry = Entry::default();
            }
        } else if entry.is_of(member, answer.token) || (new && answer.token > entry.token) {
            *entry = Entry { holder: member, token: answer.token, busy };
        } else {
            answer.token = 0;
        }
        if answer.token > 0 && epoch_of(answer.token) < view {
            s.event = Event::CarriedHoldRenewed;
        }
        s.nodes[leader].lead = Some(lead);
    }

    /// The leader knows of its own holds without a promise.
    pub(crate) fn enter_in_table(node: &mut Node, id: NodeId, token: Token) {
        if let Some(lead) = &mut node.lead {
            let busy = lead.record.timing.member_lease();
            lead.entries[LOCK] = Entry { holder: id, token, busy };
        }
    }

    /// Does this search have leaders that resign, with locks whose state sits in the members?
    pub(crate) fn may_ever_resign(&self) -> bool {
        self.has_peers() && (self.scope.successors != Members::NONE || self.scope.leaves)
    }

    pub(crate) fn may_freeze(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let Some(lead) = &node.lead else { return false };
        let goes_on = s.register.turn < self.scope.views;
        let leads = !lead.frozen && !lead.resigned && node.floor() < lead.record.view;
        self.may_ever_resign() && goes_on && leads
    }

    /// Rule 29: admission is closed, and everybody is to answer the heartbeat that states it.
    pub(crate) fn freeze(s: &mut State, id: NodeId) {
        if let Some(lead) = &mut s.nodes[id].lead {
            lead.frozen = true;
        }
    }

    pub(crate) fn may_reopen(&self, s: &State, id: NodeId) -> bool {
        self.scope.drops && s.nodes[id].lead.is_some_and(|lead| lead.frozen && !lead.resigned)
    }

    /// The leader goes on. What answers this freeze answers no later one.
    pub(crate) fn reopen(&self, s: &mut State, id: NodeId) {
        s.event = Event::Reopened;
        let Some(lead) = &mut s.nodes[id].lead else { return };
        lead.frozen = false;
        if !self.rules.peers.freezes_are_distinguished {
            return;
        }
        lead.answered = Members::NONE;
        let view = lead.record.view;
        for node in s.nodes.iter_mut() {
            let peer = &mut node.peer;
            for admission in [&mut peer.beat, &mut peer.late] {
                admission.freezes &= admission.view != view;
            }
            peer.answer.freezes &= peer.answer.view != view;
        }
    }

    /// Rule 29: does this leader's table list all that is held? A member that was not heard of for
    /// an L holds nothing but what the table has.
    pub(crate) fn table_is_whole(&self, id: NodeId, lead: &Lead) -> bool {
        if !self.has_peers() {
            return true;
        }
        let others = lead.record.members.without(Members::NONE.with(id));
        let silent = |member: NodeId| {
            if self.rules.peers.silence_lasts_a_lease {
                lead.heard[member] == 0
            } else {
                lead.leader_lease[member] == 0
            }
        };
        let answered = |member: NodeId| lead.answered.has(member) || silent(member);
        match self.rules.peers.freeze {
            Freeze::No => true,
            Freeze::UntilMostAnswered => {
                let count = others.iter().filter(|&member| answered(member)).count() + 1;
                lead.frozen && count >= lead.record.members.majority() as usize
            }
            Freeze::UntilAllAnswered => lead.frozen && others.iter().all(answered),
        }
    }
}

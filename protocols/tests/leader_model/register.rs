//! The register: one record, changed by compare-and-swap, and writers that may not learn what
//! became of their write.

use super::model::LeaderModel;
use super::rules::Activation;
use super::state::{
    Base, Bid, Closing, Event, Fate, Members, Node, NodeId, Purpose, Record, State, Write,
};

impl Write {
    /// A write that leaves now.
    pub(crate) fn new(expected: Record, record: Record, purpose: Purpose) -> Self {
        Self { expected, record, purpose, fate: Fate::OnItsWay }
    }
}

impl LeaderModel {
    pub(crate) fn may_apply(s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        [node.write, node.stale].iter().flatten().any(|write| write.fate == Fate::OnItsWay)
    }

    /// The register takes the oldest write of this node that has not arrived yet, if it names the
    /// present version. Every other write that names the version that is gone is refused for good.
    pub(crate) fn apply(&self, s: &mut State, id: NodeId) {
        let Node { write, stale, .. } = &mut s.nodes[id];
        let waiting = |write: &&mut Write| write.fate == Fate::OnItsWay;
        let Some(first) = stale.iter_mut().chain(write).find(waiting) else {
            return;
        };
        if self.rules.write_compares && first.expected != s.register {
            first.fate = Fate::Refused;
            return;
        }
        first.fate = Fate::Applied;
        s.register = first.record;
        self.refuse_overtaken(s);
    }

    /// Writes that name a version that is gone are refused whenever they arrive.
    fn refuse_overtaken(&self, s: &mut State) {
        if !self.rules.write_compares {
            return;
        }
        for node in s.nodes.iter_mut() {
            refuse(&mut node.write, &s.register);
            refuse(&mut node.stale, &s.register);
            // Nobody will find an old write that was refused or has been overtaken.
            node.stale = node.stale.filter(|write| {
                write.fate == Fate::OnItsWay || s.register.is_view_of(&write.record)
            });
        }
    }

    pub(crate) fn may_lose_record(&self, s: &State) -> bool {
        s.losses < self.scope.losses && !s.register.lost
    }

    /// Somebody deletes the record, and the operator makes one that names no members and is closed
    /// from the start. Its epoch and ceiling come from a copy, which is taken to be up to date: the
    /// protocol has a time term for the case that it is not.
    pub(crate) fn lose_record(&self, s: &mut State) {
        s.losses += 1;
        let closed = Record { settled: false, closing: true, lost: true, ..s.register };
        let timing = self.longest();
        s.register = Record { members: Members::NONE, timing, ..closed };
        self.refuse_overtaken(s);
    }

    pub(crate) fn may_sight(&self, s: &State, id: NodeId) -> bool {
        // Only a member that may begin ever asks for it.
        self.confirms()
            && self.rules.counts_from_first_read
            && self.scope.candidates.has(id)
            && s.register.lost
            && s.nodes[id].sighted.0 != s.register.view
            && (self.rules.first_read_names_the_mark || s.nodes[id].sighted.0 == 0)
    }

    /// Rule 34: the first read of this mark. The view in it distinguishes marks: between two of them
    /// there was a view.
    pub(crate) fn sight(&self, s: &mut State, id: NodeId) {
        s.nodes[id].sighted = (s.register.view, self.closing_wait(id, &s.register));
    }

    /// Rule 34: a member that begins counts from its first read.
    pub(crate) fn count_from_sight(&self, s: &mut State, id: NodeId, bid: &mut Bid) {
        let (view, left) = s.nodes[id].sighted;
        let named = view == bid.record.view || !self.rules.first_read_names_the_mark;
        if bid.record.lost && view > 0 && named && self.rules.counts_from_first_read {
            bid.closing = if left == 0 { Closing::Passed } else { Closing::Waiting(left) };
            if left < self.closing_wait(id, &bid.record) {
                s.event = Event::CountsFromItsFirstRead;
            }
        }
    }

    pub(crate) fn may_replace(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let led = |view| self.leader_lease_left(s, id) > 0 && view >= s.register.view;
        let may = |view| led(view) || !self.rules.replaces_while_leading;
        self.rules.leader_replaces
            && s.register.lost
            && node.alive
            && node.lead.is_some_and(|lead| !lead.resigned && may(lead.record.view))
            && node.write.is_none()
            && node.bid.is_none()
            && s.register.turn < self.scope.views
    }

    /// Rule 33: the leader resigns to itself, with its table, on the mark that it read.
    pub(crate) fn replace(&self, s: &mut State, id: NodeId) {
        self.hand_over(s, id, id);
        s.event = Event::ReplacesALostRecord;
    }

    pub(crate) fn may_take_mark_back(&self, s: &State, id: NodeId) -> bool {
        !self.rules.mark_stays && s.register.closing && s.nodes[id].leads(s.register.view)
    }

    /// Rule 15, broken: a leader that lives clears the closing mark and goes on in its view.
    pub(crate) fn take_mark_back(&self, s: &mut State) {
        s.register.closing = false;
        self.refuse_overtaken(s);
    }

    pub(crate) fn may_reply(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let done = node.write.is_some_and(|write| write.fate == Fate::Applied);
        done && self.may_use(node)
    }

    /// A mere claim is of use only once the leader lease of the base is over.
    fn may_use(&self, node: &Node) -> bool {
        let claim = self.rules.activation == Activation::ClaimReplacesTheBase;
        !claim || node.bid.is_none_or(|bid| bid.base != Base::Living)
    }

    pub(crate) fn reply(&self, s: &mut State, id: NodeId) {
        if let Some(write) = s.nodes[id].write.take() {
            self.succeed(s, id, write);
        }
    }

    fn succeed(&self, s: &mut State, id: NodeId, write: Write) {
        match write.purpose {
            Purpose::Activate => self.take_lead(s, id, write.record),
            Purpose::RaiseCeiling => Self::use_ceiling(s, id, write.record),
            Purpose::Close => {
                if let Some(bid) = &mut s.nodes[id].bid {
                    bid.record = write.record;
                    bid.closing = Closing::Waiting(self.closing_wait(id, &write.record));
                }
            }
        }
    }

    pub(crate) fn may_read_back(&self, s: &State, id: NodeId) -> bool {
        let node = &s.nodes[id];
        let Some(write) = node.write else { return false };
        match write.fate {
            Fate::Refused => true,
            Fate::Applied => self.scope.unknown && self.may_use(node),
            // Read back unchanged: the same write is sent again, which changes nothing here.
            Fate::OnItsWay => self.scope.unknown && !self.rules.unknown_is_read_back,
        }
    }

    /// Rule 18: the writer reads the register, because it was refused or does not know. A change
    /// by somebody else that left the view alone is taken over; another view voids the candidacy.
    pub(crate) fn read_back(&self, s: &mut State, id: NodeId) {
        let Some(write) = s.nodes[id].write.take() else { return };
        if !self.rules.unknown_is_read_back {
            self.succeed(s, id, write);
            return;
        }
        let now = s.register;
        let same_view = now.is_same_base(&write.expected);
        s.event = Event::FoundOwnWriteRefused;
        match write.purpose {
            Purpose::Activate if now.is_view_of(&write.record) => {
                self.take_lead(s, id, now);
                s.event = Event::FoundOwnWriteApplied;
            }
            Purpose::RaiseCeiling if same_view => Self::use_ceiling(s, id, now),
            Purpose::Activate | Purpose::Close if same_view => self.read_again(s, id),
            Purpose::Activate if now.lost && !self.rules.refused_is_forgotten => {
                self.read_again(s, id);
            }
            Purpose::Activate | Purpose::Close => s.nodes[id].bid = None,
            // A deposed leader finds out by its promises.
            Purpose::RaiseCeiling => {}
        }
    }

    /// The candidate's base stands; only its ceiling or its closing mark has changed.
    pub(crate) fn read_again(&self, s: &mut State, id: NodeId) {
        if let Some(bid) = &mut s.nodes[id].bid {
            bid.record = s.register;
            if let (Some(held), Base::Living | Base::Over { .. }) = (s.register.held, bid.base)
                && self.rules.leavers_message_counts
            {
                bid.reports = held;
            }
            if bid.record.closing && bid.closing == Closing::No {
                bid.closing = Closing::Waiting(self.closing_wait(id, &bid.record));
            }
            let mut bid = *bid;
            self.judge_base(id, &mut bid);
            s.nodes[id].bid = Some(bid);
        }
    }
}

fn refuse(write: &mut Option<Write>, register: &Record) {
    if let Some(write) = write
        && write.fate == Fate::OnItsWay
        && write.expected != *register
    {
        write.fate = Fate::Refused;
    }
}

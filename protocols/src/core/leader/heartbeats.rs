//! A leader's heartbeats: which were sent and answered, and what each member knows by them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::PeerMessage;
use super::super::message::{
    Admission, Announced, Announcement, Extended, Heartbeat, LeaderList, MemberChanges,
};
use super::Leader;
use crate::ids::Incarnation;
use crate::record::MEMBERS_MAX;
use crate::time::LocalTime;

/// What was sent to the members, and what they answered.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Heartbeats {
    /// When the latest were sent.
    sent: VecDeque<(u64, LocalTime)>,
    /// The latest that each member answered. What answers that one or an earlier one again was overtaken or is
    /// repeated, and counts for nothing.
    answered: BTreeMap<Incarnation, u64>,
    /// Those that the view was announced to, with that heartbeat at the latest.
    announced: BTreeSet<Incarnation>,
    /// Those that asked for the announcement once more, and when that was last heeded: they get the whole record.
    asked: BTreeMap<Incarnation, LocalTime>,
    /// The latest to each member that had items of the leader's list, and the last change in it.
    itemized: BTreeMap<Incarnation, (u64, u64)>,
    /// What the next one acknowledges.
    extended: BTreeMap<Incarnation, Extended>,
}

/// What the holds of a leader put into a heartbeat.
pub(in crate::core) struct KnownOf {
    pub(in crate::core) list: Option<LeaderList>,
    /// How many changes of the member's list are known.
    pub(in crate::core) listed: u64,
    pub(in crate::core) full: bool,
}

/// How many may be under way: at the beginning of a view some go to single members, which asked for the announcement or
/// have promised for the first time.
const SENT_MAX: usize = 4 * MEMBERS_MAX;

impl Heartbeats {
    /// The number of the next one.
    pub(super) fn next_seq(&self) -> u64 {
        self.sent.back().map_or(1, |(seq, _)| seq + 1)
    }

    /// When that one was sent.
    pub(super) fn sent_at(&self, seq: u64) -> Option<LocalTime> {
        let place = self.sent.binary_search_by_key(&seq, |(sent, _)| *sent).ok()?;
        self.sent.get(place).map(|(_, at)| *at)
    }

    /// A member answers that one. `listed`: so many changes of the leader's list it knows. False if it has answered
    /// a later one.
    pub(super) fn note_answer(&mut self, member: Incarnation, seq: u64, listed: u64) -> bool {
        let answered = self.answered.entry(member).or_default();
        if seq <= *answered {
            return false;
        }
        *answered = seq;
        self.announced.insert(member);
        if listed == 0 {
            // Something of the list was lost on the way.
            self.itemized.remove(&member);
        }
        true
    }

    fn is_lost(&self, now: LocalTime, seq: u64, patience: std::time::Duration) -> bool {
        self.sent_at(seq).is_none_or(|sent| now - sent > patience)
    }
}

impl Leader {
    /// One more is sent; its number.
    pub(in crate::core) fn note_heartbeat(&mut self, now: LocalTime) -> u64 {
        let seq = self.heartbeats.next_seq();
        self.heartbeats.sent.push_back((seq, now));
        if self.heartbeats.sent.len() > SENT_MAX {
            self.heartbeats.sent.pop_front();
        }
        seq
    }

    /// Up to which change of the list items are under way to a member: it may take long to take a long list
    /// in, and need not get it twice.
    pub(in crate::core) fn under_way(&self, now: LocalTime, member: Incarnation) -> Option<u64> {
        let (seq, latest) = *self.heartbeats.itemized.get(&member)?;
        let lost = self.heartbeats.is_lost(now, seq, self.record.timing.leader_lease);
        let answered = self.heartbeats.answered.get(&member).is_some_and(|known| *known >= seq);
        (!lost && !answered).then_some(latest)
    }

    /// The next heartbeat to a member. The view is announced with the first, and again when the member asks.
    pub(in crate::core) fn heartbeat<B, M>(
        &mut self,
        now: LocalTime,
        seq: u64,
        member: Incarnation,
        known: KnownOf,
    ) -> PeerMessage<B, M> {
        let changes = known.list.as_ref().map(|list| &list.changes);
        if let Some(changes) = changes.filter(|changes| !changes.items.is_empty()) {
            self.heartbeats.itemized.insert(member, (seq, changes.latest));
        }
        let announcement = self.heartbeats.announced.insert(member).then(|| {
            let carried = self.carried.about(member, &self.record).aged(now - self.since);
            Box::new(Announcement { record: self.announced_to(member), carried })
        });
        let heartbeat = Heartbeat {
            epoch: self.record.epoch,
            seq,
            admission: Admission {
                open: self.admits(now),
                ceiling: self.record.ceiling,
                full: known.full,
            },
            list: known.list,
            listed: known.listed,
            extended: self.heartbeats.extended.remove(&member),
            announcement,
        };
        PeerMessage::heartbeat(Box::new(heartbeat), self.record.speaks())
    }

    /// A member of the view before gets what has changed since, unless that was of no use to it.
    fn announced_to(&self, member: Incarnation) -> Announced {
        let serves = |changes: &&MemberChanges| {
            !changes.is_new(member) && !self.heartbeats.asked.contains_key(&member)
        };
        match self.changes.as_ref().filter(serves) {
            Some(changes) => {
                let (record, members) = (self.record.without_members(), changes.clone());
                Announced::Changes { record, members }
            }
            None => Announced::Whole(self.record.clone()),
        }
    }

    /// The next heartbeat to that member acknowledges its promise with this.
    pub(in crate::core) fn acknowledge(&mut self, member: Incarnation, extended: Extended) {
        self.heartbeats.extended.insert(member, extended);
    }

    /// A member does not know this view: whether it is to be announced once more. A whole record is long, and one that was
    /// sent may be under way: it is sent once in a heartbeat. A member that needs it asks again when it hears the next.
    pub(in crate::core) fn announces_again(&mut self, now: LocalTime, member: Incarnation) -> bool {
        let period = self.record.timing.heartbeat;
        let lately = self.heartbeats.asked.get(&member).is_some_and(|at| now - *at < period);
        let announces = !lately && self.heartbeats.announced.remove(&member);
        if announces {
            self.heartbeats.asked.insert(member, now);
            self.heartbeats.itemized.remove(&member);
        }
        announces
    }
}

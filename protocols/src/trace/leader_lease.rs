//! The leader lease of one view: who promised, who sealed, and when it is over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clocks::Clocks;
use super::content::Content;
use super::process::Process;
use crate::ids::Incarnation;

/// A view that the register held at some time.
#[derive(Clone, Debug)]
pub(super) struct LeaderLease {
    /// Its record, with the highest ceiling that was written for it.
    pub(super) content: Content,
    /// When each member last promised, and until when it seals nothing for that.
    pub(super) promises: BTreeMap<Incarnation, Promise>,
    /// When each member first sealed it.
    pub(super) seals: BTreeMap<Incarnation, Duration>,
    /// When its leader refused it, and will not lead it any more.
    pub(super) resigned: Option<Duration>,
    /// Its leader gave its table, or carried it into a view of its own.
    pub(super) has_table: bool,
    /// Since when it was over, once a view has begun after it.
    pub(super) over: Option<Duration>,
    /// Since when nobody can have it confirmed.
    pub(super) unconfirmed: Option<Duration>,
    /// Nothing is newly granted before.
    pub(super) grace_until: Duration,
    /// By member, the latest of its messages that its leader stated it has.
    pub(super) leases: BTreeMap<Incarnation, Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) at: Duration,
    pub(super) until: Duration,
}

pub(super) type Processes = BTreeMap<Incarnation, Process>;

impl LeaderLease {
    pub(super) fn new(content: Content, grace_until: Duration) -> Self {
        Self {
            content,
            promises: BTreeMap::new(),
            seals: BTreeMap::new(),
            resigned: None,
            has_table: false,
            over: None,
            unconfirmed: None,
            grace_until,
            leases: BTreeMap::new(),
        }
    }

    /// RULE 9. Until when its leader may believe in it: while a majority promises, each for a hold of P
    /// from before the heartbeat was sent that it answered, and so from before it promised.
    pub(super) fn lasts_until(&self, clocks: Clocks, leader: &Process) -> Duration {
        let hold = leader.span(clocks.hold(self.content.timing.leader_lease));
        let mut promises: Vec<Duration> =
            self.promises.values().map(|promise| promise.at + hold).collect();
        promises.sort_unstable();
        let majority = self.content.members.len() / 2 + 1;
        promises.iter().rev().nth(majority - 1).copied().unwrap_or_default()
    }

    /// RULE 15. Since when the leader lease is over, if it is: `by` begins a view now.
    pub(super) fn over_since(
        &self,
        at: Duration,
        by: Incarnation,
        clocks: Clocks,
        processes: &Processes,
    ) -> Option<Duration> {
        let timing = self.content.timing;
        // (a) Its leader resigned, or counts as dead.
        let leader = self.content.leader;
        let dead = leader.and_then(|leader| self.dead_since(at, leader, clocks, processes));
        // (b) So many members sealed it, or count as dead, that the rest is no majority.
        let mut seals: Vec<Duration> = (self.content.members.iter())
            .filter_map(|member| self.silent_since(at, *member, by, clocks, processes))
            .collect();
        seals.sort_unstable();
        let needed = self.content.members.len() - self.content.members.len() / 2;
        let sealed = seals.get(needed - 1).copied();
        // (c) Nobody could have it confirmed for E, and then P passed.
        let waited = self.unconfirmed.map(|since| since + clocks.least_until_closed(timing));
        let waited = waited.filter(|since| *since <= at);
        [self.resigned, dead, sealed, waited].into_iter().flatten().min()
    }

    /// RULE 20. The earliest end of the grace period of the view after this one: its own if its table was given
    /// or everybody reported what it holds, else a member lease from when it was over.
    pub(super) fn grace_after(
        &self,
        at: Duration,
        by: Incarnation,
        clocks: Clocks,
        processes: &Processes,
    ) -> Duration {
        if self.has_table || self.is_notified_of(at, by, clocks, processes) {
            return self.grace_until;
        }
        let over = self.over.unwrap_or(at);
        self.grace_until.max(over + clocks.least(self.content.timing.member_lease))
    }

    /// Whether every member but the leader sealed it or counts as dead.
    fn is_notified_of(
        &self,
        at: Duration,
        by: Incarnation,
        clocks: Clocks,
        processes: &Processes,
    ) -> bool {
        self.content.members.iter().all(|member| {
            Some(*member) == self.content.leader
                || self.silent_since(at, *member, by, clocks, processes).is_some()
        })
    }

    /// Since when a member takes no part in it, as far as `by` knows.
    fn silent_since(
        &self,
        at: Duration,
        member: Incarnation,
        by: Incarnation,
        clocks: Clocks,
        processes: &Processes,
    ) -> Option<Duration> {
        let sealed = self.seals.get(&member).copied();
        // RULE 12. Its own seal a candidate gives to nobody.
        let own = || {
            let promise = self.promises.get(&member).map(|promise| promise.until);
            let refuses = processes.get(&member)?.refuses >= self.content.epoch;
            let ended = promise.unwrap_or_default();
            (member == by && refuses && ended <= at).then_some(ended)
        };
        let silent = [sealed, own()].into_iter().flatten().min();
        silent.or_else(|| self.dead_since(at, member, clocks, processes))
    }

    /// RULE 14. Since when a member counts as one that sealed because it is dead.
    fn dead_since(
        &self,
        at: Duration,
        member: Incarnation,
        clocks: Clocks,
        processes: &Processes,
    ) -> Option<Duration> {
        let ended = processes.get(&member)?.ended.filter(|_| self.content.believes_evidence)?;
        let since = ended + clocks.least(self.content.timing.leader_lease);
        (since <= at).then_some(since)
    }
}

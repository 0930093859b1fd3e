//! The arbiter `None`: as in the textbook, the elected member leads.
//!
//! There is no register and nobody is asked to seal. Members are those that discovery found;
//! the winner of their election begins a view of its own and leads it as long as it lives. In a
//! partition each side elects a leader. When it heals, members follow the highest rank that leads,
//! and a leader that hears of a higher one follows it too. So holds and leadership are advisory,
//! and no token is given.
//!
//! What a new leader knows of holds is what the members report to it with their first promises. It
//! grants nothing for a `leaderLease`, to hear them first: by then all that live and can be reached
//! have given up the leader before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::leader::{Then, ViewStart};
use super::message::{HandOver, Table};
use super::{Member, Nominator, Out, Role, Service, Timer};
use crate::ids::{Epoch, Incarnation};
use crate::policy::Arbiter;
use crate::record::{CEILING_STEP, MEMBERS_MAX, MemberInfo, RECORD_VERSION, Record};
use crate::time::LocalTime;

/// Whom discovery found.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Discovered {
    /// Nothing until discovery has answered.
    found: Option<BTreeMap<Incarnation, MemberInfo>>,
    /// Those that announced that they leave. Discovery may notice later.
    departed: BTreeSet<Incarnation>,
}

impl Discovered {
    pub(super) fn departed(&mut self, member: Incarnation) {
        if self.found.as_ref().is_none_or(|found| found.contains_key(&member)) {
            self.departed.insert(member);
        }
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Discovery found these others. Of more than a group can have all take the same.
    pub(super) fn found(
        &mut self,
        now: LocalTime,
        mut peers: Vec<MemberInfo>,
        out: &mut Out<S, N>,
    ) {
        peers.sort_by_key(|info| Reverse(info.rank_key()));
        let found: BTreeMap<Incarnation, MemberInfo> = peers
            .into_iter()
            .filter(|info| info.incarnation != self.me.incarnation)
            .take(MEMBERS_MAX - 1)
            .map(|info| (info.incarnation, info))
            .collect();
        self.discovered.departed.retain(|member| found.contains_key(member));
        let first = self.discovered.found.replace(found).is_none();
        if first && self.is_advisory() && matches!(self.role, Role::Joiner { .. }) {
            self.wait_for_a_leader(out);
        }
        self.consider_change(now, out);
    }

    /// In no view. A leader that there is already will be heard of within its leaderLease; without
    /// one, those elect who know of each other.
    pub(super) fn wait_for_a_leader(&self, out: &mut Out<S, N>) {
        if self.peers_record().is_some() {
            let timing = self.policy.timing;
            out.arm(Timer::Join, timing.leader_lease + timing.heartbeat);
        }
    }

    /// All members that are known, by their ranks, as a view that nobody leads yet. The number of
    /// the view is drawn from them, so that those who see others do not elect with them.
    ///
    /// Until discovery has answered, those are known that were in the view when its arbiter was taken
    /// away.
    pub(super) fn peers_record(&self) -> Option<Record> {
        let latest = self.record.as_ref().filter(|record| record.is_advisory());
        let stay = |info: &&MemberInfo| !self.discovered.departed.contains(&info.incarnation);
        let mut members: Vec<MemberInfo> = match &self.discovered.found {
            Some(found) => found.values().filter(stay).cloned().collect(),
            None => latest?.members.iter().filter(stay).cloned().collect(),
        };
        if members.iter().all(|info| info.incarnation != self.me.incarnation) {
            members.push(self.me.clone());
        }
        // A newer policy that asks for an arbiter is none of this view's.
        let own = Some(&self.policy).filter(|policy| policy.arbiter == Arbiter::None);
        let policy = own.or_else(|| latest.map(|record| &record.policy))?.clone();
        members.sort_by_key(MemberInfo::rank_key);
        let epoch = fingerprint(members.iter().map(|info| info.incarnation));
        let before = latest.map(|record| record.longest_leader_lease).unwrap_or_default();
        Some(Record {
            version: RECORD_VERSION,
            epoch,
            ceiling: epoch,
            members,
            leader: None,
            settled: true,
            closing: false,
            base_unknown: false,
            base: None,
            held: None,
            timing: policy.timing,
            longest_leader_lease: policy.timing.leader_lease.max(before),
            policy,
            nonce: 0,
        })
    }

    /// Was elected, or given the leader lease: leads at once.
    pub(super) fn lead_peers(
        &mut self,
        now: LocalTime,
        inherited: Option<HandOver>,
        out: &mut Out<S, N>,
    ) {
        let Some(peers) = self.peers_record() else { return };
        let known = self.record.as_ref().map(|record| record.epoch);
        let above = self.in_force.numbered.max(Epoch::UNARBITRATED);
        let epoch = known.unwrap_or_default().max(self.promises.epoch()).max(above).next();
        let ceiling = Epoch(epoch.0.saturating_add(CEILING_STEP));
        let record = Record { epoch, ceiling, leader: Some(self.me.incarnation), ..peers };
        let (carried, grace_until) = match inherited {
            Some(HandOver { table, grace, .. }) => (table, now.after(grace)),
            None => (Table::default(), now.after(record.timing.leader_lease)),
        };
        let start = ViewStart { record, base: None, carried, grace_until };
        self.take_lead(now, now, start, out);
    }

    /// The leader begins a new view when others were found, or the policy was changed.
    pub(super) fn consider_peers(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.consider_quorum(now, out);
        let Some(peers) = self.peers_record() else { return };
        let Some(patience) = self.leader().map(|leader| leader.patience()) else { return };
        let stalled = self.holds.look_for_stall(now, patience);
        let Some(leader) = self.leader() else { return };
        let record = leader.record();
        let same = record.incarnations().eq(peers.incarnations())
            && record.policy.generation == peers.policy.generation;
        if (!same || stalled) && !leader.has_just_begun(now) {
            self.change_peers(now, out);
        }
    }

    /// Resigns to itself, and leads those that were found.
    pub(super) fn change_peers(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !self.freezes_first(now, Then::ChangePeers, out) {
            let table = self.retire(now, out);
            self.lead_peers(now, table, out);
        }
    }

    /// Whether to follow a leader that was heard of: anybody, if nobody is followed; else the
    /// one with the higher rank.
    pub(super) fn prefers(&self, now: LocalTime, other: Incarnation) -> bool {
        let followed = match &self.role {
            Role::Leader(_) => Some(self.me.incarnation),
            Role::Follower => {
                self.record.as_ref().and_then(|record| record.leader).filter(|_| self.follows(now))
            }
            Role::Joiner { .. } | Role::Candidate(_) | Role::Resigned(_) | Role::Gone => None,
        };
        followed.is_none_or(|leader| leader == other || self.outranks(other, leader))
    }

    fn outranks(&self, one: Incarnation, other: Incarnation) -> bool {
        let found = |member| self.discovered.found.as_ref()?.get(&member);
        let known = |member| self.record.as_ref().and_then(|of| of.member(of.rank(member)?));
        let priority = |member| {
            let own = Some(&self.me).filter(|me| me.incarnation == member);
            own.or_else(|| found(member)).or_else(|| known(member)).map_or(0, |info| info.priority)
        };
        (priority(one), one) > (priority(other), other)
    }
}

/// A number that two different sets of members hardly share (Fowler, Noll and Vo's hash 1a), and no
/// view that the register numbered.
fn fingerprint(members: impl Iterator<Item = Incarnation>) -> Epoch {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for member in members {
        for byte in member.pod.0.to_be_bytes().into_iter().chain(member.run.to_be_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Epoch(Epoch::UNARBITRATED.0 + hash % Epoch::UNARBITRATED.0)
}

//! The part of the group's leader: who stands, who has the lead, and whether a ballot is to be called.

use std::collections::{BTreeMap, BTreeSet};

use super::Cx;
use super::message::State;
use crate::ids::{HoldName, MemberId};
use crate::time::LocalTime;

/// What the leader of the group knows of elections.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Monitor {
    all: BTreeMap<HoldName, Monitored>,
    /// Members that may not have heard what was sent lately.
    silent: BTreeSet<MemberId>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Monitored {
    candidates: BTreeMap<MemberId, i32>,
    /// How many ballots were called.
    ballots: u64,
    /// Until then the latest one may come to something.
    until: Option<LocalTime>,
    /// What the members know.
    notified: Option<State>,
}

/// Elections that stand otherwise than the members know, and ballots to be called: their numbers and candidates.
pub(super) type Seen = (Vec<(HoldName, State)>, Vec<(HoldName, u64, Vec<MemberId>)>);

impl Monitor {
    pub(super) fn stands(&mut self, member: MemberId, name: &HoldName, priority: i32) {
        let election = self.all.entry(name.clone()).or_default();
        if election.candidates.insert(member, priority).is_some() {
            // It does not know that it is listed.
            election.notified = None;
        }
    }

    pub(super) fn withdraws(&mut self, member: MemberId, name: &HoldName) {
        if let Some(election) = self.all.get_mut(name) {
            election.candidates.remove(&member);
            // It may have been the nominee.
            election.until = None;
        }
    }

    pub(super) fn left(&mut self, member: MemberId) {
        for election in self.all.values_mut() {
            election.candidates.remove(&member);
        }
    }

    /// When a ballot has come to nothing.
    pub(super) fn next_timer(&self) -> Option<LocalTime> {
        self.all.values().filter_map(|election| election.until).min()
    }

    pub(super) fn look(&mut self, cx: &Cx<'_>, beat: bool) -> Seen {
        let (mut changed, mut calls) = Seen::default();
        let Some(seat) = cx.holds.seat().filter(|seat| seat.leads()) else {
            return (changed, calls);
        };
        if seat.policy().elections.is_empty() {
            return (changed, calls);
        }
        if beat {
            let members = seat.view().members();
            let silent = members.filter(|member| cx.holds.is_silent(*member)).collect();
            let before = std::mem::replace(&mut self.silent, silent);
            if !before.is_subset(&self.silent) {
                // Somebody is heard of again, and may have missed something.
                self.all.values_mut().for_each(|election| election.notified = None);
            }
        }
        for policy in &seat.policy().elections {
            let Some(name) = super::hold_of(&policy.name) else { continue };
            let election = self.all.entry(name.clone()).or_default();
            let holder = cx.holds.holder(cx.now, &name).map(|holder| holder.member);
            let leader = holder.and_then(|holder| seat.rank_of(holder));
            let candidates = election.candidates.keys().copied().collect();
            let state = State { leader, candidates };
            let news = election.notified.as_ref().is_none_or(|notified| {
                notified.leader != state.leader || beat && *notified != state
            });
            if news {
                election.notified = Some(state.clone());
                changed.push((name.clone(), state));
            }
            election.until = election.until.filter(|until| *until > cx.now && holder.is_none());
            if holder.is_some() || election.until.is_some() || !cx.holds.is_open(cx.now, &name) {
                continue;
            }
            let living = election.candidates.iter().filter(|(m, _)| !cx.holds.is_silent(**m));
            let mut living: Vec<(i32, MemberId)> = living.map(|(m, p)| (*p, *m)).collect();
            if !living.is_empty() {
                living.sort_unstable();
                election.ballots += 1;
                election.until = Some(cx.now.after(seat.policy().timing.leader_lease));
                let candidates = living.into_iter().map(|(_, member)| member).collect();
                calls.push((name, election.ballots, candidates));
            }
        }
        (changed, calls)
    }
}

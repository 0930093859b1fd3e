//! The part of the group's leader: who stands, who has the lead, and whether a ballot is to be called.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Cx;
use super::message::State;
use crate::election::Timing;
use crate::ids::{HoldName, MemberId};
use crate::policy::ElectionAlgorithm;
use crate::time::LocalTime;

/// What the leader of the group knows of elections.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Monitor {
    all: BTreeMap<HoldName, Monitored>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Monitored {
    candidates: BTreeMap<MemberId, i32>,
    /// How many ballots were called.
    ballots: u64,
    /// Until then the latest one may come to something.
    until: Option<LocalTime>,
    /// How it stood when the members were notified last, if they were.
    notified: Option<State>,
    /// How many such notices there were.
    notices: u64,
    /// The members that have not answered the latest one, and when they are notified again.
    unaware: BTreeSet<MemberId>,
    again: Option<LocalTime>,
}

/// What is to be sent.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How elections stand.
    pub(super) notices: Vec<NoticeOf>,
    /// Ballots to be called: their numbers and candidates.
    pub(super) calls: Vec<(HoldName, u64, Vec<MemberId>)>,
}

/// How an election stands.
#[derive(Debug)]
pub(super) struct NoticeOf {
    pub(super) name: HoldName,
    pub(super) number: u64,
    pub(super) state: State,
    /// To whom.
    pub(super) to: Vec<MemberId>,
    /// It is news to the leader of the group itself.
    pub(super) news: bool,
}

impl Monitor {
    pub(super) fn stands(
        &mut self,
        now: LocalTime,
        member: MemberId,
        name: &HoldName,
        priority: i32,
    ) {
        let election = self.all.entry(name.clone()).or_default();
        if election.candidates.insert(member, priority) == Some(priority) {
            // It does not know that it is listed.
            election.unaware.insert(member);
            election.again = Some(now);
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

    /// A member knows of that notice.
    pub(super) fn knows(&mut self, member: MemberId, name: &HoldName, number: u64) {
        let election = self.all.get_mut(name).filter(|election| election.notices == number);
        if let Some(election) = election {
            election.unaware.remove(&member);
        }
    }

    /// When a ballot has come to nothing, or members are to be notified again.
    pub(super) fn next_timer(&self) -> Option<LocalTime> {
        let again = |election: &Monitored| election.again.filter(|_| !election.unaware.is_empty());
        let times = self.all.values().flat_map(|election| [election.until, again(election)]);
        times.flatten().min()
    }

    /// Looks at each election. `beat`: also whether the members know who stands.
    pub(super) fn look(&mut self, cx: &Cx<'_>, beat: bool) -> Seen {
        let mut seen = Seen::default();
        let Some(seat) = cx.holds.seat().filter(|seat| seat.leads()) else { return seen };
        let patience = seat.policy().timing.leader_lease;
        for policy in &seat.policy().elections {
            let Some(name) = super::hold_of(&policy.name) else { continue };
            let election = self.all.entry(name.clone()).or_default();
            let holder = cx.holds.holder(cx.now, &name).map(|holder| holder.member);
            let leader = holder.and_then(|holder| seat.rank_of(holder));
            let candidates = election.candidates.iter().map(|(member, p)| (*member, *p)).collect();
            let state = State { leader, candidates };
            let news = election.notified.as_ref().is_none_or(|notified| {
                notified.leader != state.leader || beat && *notified != state
            });
            if news {
                election.notified = Some(state);
                election.notices += 1;
                election.unaware = seat.view().peers(seat.rank()).collect();
                election.again = Some(cx.now);
            }
            if election.again.is_some_and(|again| again <= cx.now) {
                election.again = Some(cx.now.after(patience));
                let to = election.unaware.iter().filter(|member| !cx.holds.is_silent(**member));
                let (number, to) = (election.notices, to.copied().collect());
                let state = election.notified.clone().unwrap_or_default();
                seen.notices.push(NoticeOf { name: name.clone(), number, state, to, news });
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
                let window = window(policy.algorithm, living.len(), patience);
                election.until = Some(cx.now.after(window));
                let candidates = living.into_iter().map(|(_, member)| member).collect();
                seen.calls.push((name, election.ballots, candidates));
            }
        }
        seen
    }
}

/// How long a ballot may take: a leader lease, within which a member is found to be silent, and no less than its
/// algorithm allows itself.
fn window(algorithm: ElectionAlgorithm, candidates: usize, leader_lease: Duration) -> Duration {
    let answer = Timing::of(leader_lease).answer;
    let hops = match algorithm {
        ElectionAlgorithm::Bully => 0,
        // Two passes, and the nominee asks for the lead.
        ElectionAlgorithm::Ring => u32::try_from(2 * candidates + 2).unwrap_or(u32::MAX),
    };
    answer.saturating_mul(hops).max(leader_lease)
}

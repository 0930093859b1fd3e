//! The part of the group's leader: who stands, who has the lead, and whether a ballot is to be called.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::message::State;
use super::{Candidacy, Cx, Profile, Profiles, TRANSFER_LEASES};
use crate::core::Seat;
use crate::election::Timing;
use crate::ids::{HoldName, MemberId};
use crate::policy::{ElectionAlgorithm, Preemption};
use crate::time::LocalTime;

/// What the leader of the group knows of elections.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Monitor {
    all: BTreeMap<HoldName, Monitored>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Monitored {
    candidates: BTreeMap<MemberId, Candidacy>,
    /// The candidate that is to lead next, and until when that is tried.
    next: Option<(MemberId, LocalTime)>,
    /// The leader that was asked to give the lead to another, and when it is asked again.
    asked: Option<(MemberId, LocalTime)>,
    /// How many ballots were called.
    ballots: u64,
    /// Until then the latest one may come to something.
    until: Option<LocalTime>,
    /// Who was called to it.
    called: BTreeSet<MemberId>,
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
pub(super) struct ToSend {
    /// How elections stand.
    pub(super) notices: Vec<NoticeOf>,
    /// Ballots to be called: their numbers and candidates.
    pub(super) calls: Vec<(HoldName, u64, Vec<MemberId>)>,
    /// Leaders that are to give the lead to another.
    pub(super) hand_overs: Vec<(HoldName, MemberId)>,
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
        candidacy: Candidacy,
    ) {
        let election = self.all.entry(name.clone()).or_default();
        if election.candidates.insert(member, candidacy.clone()) == Some(candidacy) {
            // It does not know that it is listed.
            election.unaware.insert(member);
            election.again = Some(now);
        }
    }

    pub(super) fn withdraws(&mut self, member: MemberId, name: &HoldName) {
        if let Some(election) = self.all.get_mut(name) {
            election.candidates.remove(&member);
            if election.called.contains(&member) {
                // It may have been the nominee.
                election.until = None;
            }
        }
    }

    /// That member may have crashed: a ballot that it was called to is not waited for, if another could lead.
    pub(super) fn suspects(&mut self, cx: &Cx<'_>, member: MemberId) {
        for election in self.all.values_mut() {
            let others = election.candidates.keys().any(|candidate| may_live(cx, *candidate));
            if election.called.contains(&member) && others {
                election.until = None;
            }
        }
    }

    pub(super) fn left(&mut self, member: MemberId) {
        for election in self.all.values_mut() {
            election.candidates.remove(&member);
        }
    }

    /// That candidate is to lead next.
    pub(super) fn transfer(&mut self, name: &HoldName, to: MemberId, until: LocalTime) {
        self.all.entry(name.clone()).or_default().next = Some((to, until));
    }

    /// A member knows of that notice.
    pub(super) fn knows(&mut self, member: MemberId, name: &HoldName, number: u64) {
        let election = self.all.get_mut(name).filter(|election| election.notices == number);
        if let Some(election) = election {
            election.unaware.remove(&member);
        }
    }

    /// When a ballot has come to nothing, members are to be notified again, or a leader is to be asked again.
    pub(super) fn next_timer(&self) -> Option<LocalTime> {
        let times = |election: &Monitored| {
            let again = election.again.filter(|_| !election.unaware.is_empty());
            [election.until, again, election.asked.map(|(_, again)| again)]
        };
        self.all.values().flat_map(times).flatten().min()
    }

    /// Looks at each election. `beat`: also whether the members know who stands. `profiles`: what leaders stated of
    /// themselves, as far as is known from before.
    pub(super) fn look(&mut self, cx: &Cx<'_>, profiles: &Profiles, beat: bool) -> ToSend {
        let mut seen = ToSend::default();
        let Some(seat) = cx.holds.seat().filter(|seat| seat.leads()) else { return seen };
        for policy in &seat.policy().elections {
            let Some(name) = super::hold_of(&policy.name) else { continue };
            let election = self.all.entry(name.clone()).or_default();
            let holder = cx.holds.holder(cx.now, &name).map(|holder| holder.member);
            let leader = holder.and_then(|holder| seat.rank_of(holder));
            let known = profiles.get(&name).filter(|(of, _)| Some(*of) == holder);
            let profile = known.map(|(_, profile)| profile.clone()).unwrap_or_default();
            seen.notices.extend(election.notify(cx, seat, &name, (leader, profile), beat));
            election.until = election.until.filter(|until| *until > cx.now && holder.is_none());
            // Else nobody could take the lead.
            if !cx.holds.is_open(cx.now, &name) {
                election.asked = None;
                continue;
            }
            if let Some(leader) = election.hand_over(cx, seat, policy.preemption, leader) {
                seen.hand_overs.push((name.clone(), leader));
            }
            if holder.is_some() || election.until.is_some() {
                continue;
            }
            if let Some(candidates) = election.call(cx, seat, policy.algorithm) {
                seen.calls.push((name, election.ballots, candidates));
            }
        }
        seen
    }
}

impl Monitored {
    /// What the members are to be notified of.
    fn notify(
        &mut self,
        cx: &Cx<'_>,
        seat: &Seat,
        name: &HoldName,
        (leader, known): (Option<MemberId>, Profile),
        beat: bool,
    ) -> Option<NoticeOf> {
        // It may stand no longer, or not have stated so in this view.
        let stated = leader.and_then(|leader| self.candidates.get(&leader));
        let profile = stated.map_or(known, |stated| stated.profile.clone());
        let candidates = self.candidates.iter().map(|(rank, of)| (*rank, of.priority)).collect();
        let state = State { leader, profile, candidates };
        let news = self.notified.as_ref().is_none_or(|notified| {
            let same = notified.leader == state.leader && notified.profile == state.profile;
            !same || beat && *notified != state
        });
        if news {
            self.notified = Some(state);
            self.notices += 1;
            self.unaware = seat.view().peers(seat.rank()).collect();
            self.again = Some(cx.now);
        }
        self.again.filter(|again| *again <= cx.now)?;
        self.again = Some(cx.now.after(patience(seat)));
        let to = self.unaware.iter().filter(|member| !cx.holds.is_silent(**member));
        let (number, to) = (self.notices, to.copied().collect());
        let state = self.notified.clone().unwrap_or_default();
        Some(NoticeOf { name: name.clone(), number, state, to, news })
    }

    /// The leader, if it is to be asked now to give the lead to another.
    fn hand_over(
        &mut self,
        cx: &Cx<'_>,
        seat: &Seat,
        preemption: Preemption,
        leader: Option<MemberId>,
    ) -> Option<MemberId> {
        self.next = self.next.filter(|(next, until)| *until > cx.now && Some(*next) != leader);
        if self.next.is_none() && preemption == Preemption::Graceful {
            let higher = leader.and_then(|leader| self.outranking(cx, leader));
            self.next =
                higher.map(|higher| (higher, cx.now.after(patience(seat) * TRANSFER_LEASES)));
        }
        let next = self.next.is_some_and(|(next, _)| self.may_lead(cx, next));
        let Some(leader) = leader.filter(|_| next) else {
            self.asked = None;
            return None;
        };
        let waits = self.asked.is_some_and(|(asked, again)| asked == leader && again > cx.now);
        if !waits {
            self.asked = Some((leader, cx.now.after(patience(seat))));
        }
        (!waits).then_some(leader)
    }

    /// The candidate of the highest priority, if that is higher than the leader's. A leader that stands no longer has
    /// none to compare.
    fn outranking(&self, cx: &Cx<'_>, leader: MemberId) -> Option<MemberId> {
        let own = self.candidates.get(&leader)?.priority;
        let living = self.candidates.iter().filter(|(rank, _)| may_live(cx, **rank));
        let (priority, highest) = living.map(|(rank, of)| (of.priority, *rank)).max()?;
        (priority > own).then_some(highest)
    }

    fn may_lead(&self, cx: &Cx<'_>, candidate: MemberId) -> bool {
        self.candidates.contains_key(&candidate) && may_live(cx, candidate)
    }

    /// The candidates of the next ballot, those that are to win last. Suspects are left out; if all are, that is
    /// no reason to have no leader.
    fn call(
        &mut self,
        cx: &Cx<'_>,
        seat: &Seat,
        algorithm: ElectionAlgorithm,
    ) -> Option<Vec<MemberId>> {
        let next = self.next.take().map(|(next, _)| next).filter(|next| self.may_lead(cx, *next));
        let trusts = self.candidates.keys().any(|candidate| may_live(cx, *candidate));
        let living = self.candidates.iter().filter(|(rank, _)| {
            if trusts { may_live(cx, **rank) } else { !cx.holds.is_silent(**rank) }
        });
        let called = living.filter(|(rank, _)| next.is_none_or(|next| next == **rank));
        let mut called: Vec<(i32, MemberId)> = called.map(|(r, of)| (of.priority, *r)).collect();
        if called.is_empty() {
            return None;
        }
        called.sort_unstable();
        self.ballots += 1;
        self.until = Some(cx.now.after(window(algorithm, called.len(), patience(seat))));
        let called: Vec<MemberId> = called.into_iter().map(|(_, member)| member).collect();
        self.called = called.iter().copied().collect();
        Some(called)
    }
}

/// Whether a candidate is neither silent nor suspected.
fn may_live(cx: &Cx<'_>, candidate: MemberId) -> bool {
    !cx.holds.is_silent(candidate) && !cx.is_suspected(candidate)
}

/// A member that does not answer for so long is asked again.
fn patience(seat: &Seat) -> Duration {
    seat.policy().timing.leader_lease
}

/// How long a ballot may take: a leader lease, within which a member is found to be silent, and no less than its
/// algorithm allows itself.
fn window(algorithm: ElectionAlgorithm, candidates: usize, leader_lease: Duration) -> Duration {
    let answer = Timing::of(leader_lease).answer;
    let hops = match algorithm {
        // A member that dies takes 2Δt, and is silent before all that it could hold up have waited.
        ElectionAlgorithm::Bully | ElectionAlgorithm::SpanningTree => 0,
        // Two passes, or three; and the nominee asks for the lead.
        ElectionAlgorithm::Ring => u32::try_from(2 * candidates + 2).unwrap_or(u32::MAX),
        ElectionAlgorithm::ChangRoberts => u32::try_from(3 * candidates + 2).unwrap_or(u32::MAX),
    };
    answer.saturating_mul(hops).max(leader_lease)
}

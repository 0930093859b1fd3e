//! Named elections: an algorithm nominates one of those that stand, and the nominee takes a hold.
//!
//! Applications stand for an election, or not; so its candidates are some of the members. The lead is
//! the hold `election/NAME`, which the group's leader grants: that makes two leaders impossible, whatever the
//! algorithm does, and gives a token that rises.
//!
//! ```text
//! to stand:            tell the leader of the group, until it lists this candidate
//! leader of the group, when nobody holds the lead:
//!                      number a ballot, freeze the candidates that it hears of, and call them to it;
//!                      leave out those that it suspects, unless it suspects them all
//! on a call:           take part in the algorithm among these candidates; the one that follows the caller
//!                      in the ring of ranks begins
//! on the outcome:      the nominee asks for the hold, as for a lock
//! nobody holds it in time:
//!                      call the next ballot
//! one candidate is to lead next (transfer, or a higher priority where that counts):
//!                      ask the leader to give the lead up, then call a ballot of that candidate alone
//! ```
//!
//! The election `default` nominates the leader of the group itself, and is held by the core ([`crate::member`]). Only a
//! transfer goes this way: it is for the leader to hand over.
//!
//! The algorithms of [`crate::election`] run as they are: their ranks are places in the ballot's list, which is in
//! the order of priority, then of rank. One by capacity puts the capacity between the two. At rest an election sends
//! nothing.

mod ballot;
mod event;
pub mod message;
mod monitor;

use std::collections::BTreeMap;

use self::ballot::Ballots;
pub use self::event::{Candidacy, Command, ElectionEvent, Event, Profile};
use self::message::{ElectionMessage, State, What};
use self::monitor::{Monitor, NoticeOf, ToSend};
use crate::core::{self, CarriedHolds, Holds, Notice, Seat, Service};
use crate::ids::{HoldName, Incarnation, MemberId};
use crate::policy::{ELECTION, ElectionAlgorithm, Policy};
use crate::time::LocalTime;

/// All named elections, as one member takes part in them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Elections {
    /// What its application stands for, and as what.
    candidacies: BTreeMap<HoldName, Candidacy>,
    /// For which of them it tells the leader again, and when.
    unlisted: BTreeMap<HoldName, LocalTime>,
    ballots: Ballots,
    /// What those that lead state of themselves.
    profiles: Profiles,
    /// If it leads the group.
    monitor: Monitor,
}

/// What leaders state of themselves. It outlasts views: one that drains leads on, and stands no longer.
type Profiles = BTreeMap<HoldName, (Incarnation, Profile)>;

/// One call of the elections.
type Cx<'a> = core::Cx<'a, Elections>;

/// The election that nominates the leader of the group.
pub const DEFAULT: &str = "default";

/// The name of the hold that is the lead in an election; nothing if no election may have that name.
#[must_use]
pub fn hold_of(election: &str) -> Option<HoldName> {
    HoldName::try_from(format!("{ELECTION}{election}")).ok()
}

/// The election in which a hold is the lead.
#[must_use]
pub fn election_of(hold: &HoldName) -> Option<&str> {
    hold.as_str().strip_prefix(ELECTION)
}

impl Elections {
    fn stand(&mut self, cx: &mut Cx<'_>, name: &HoldName) {
        let Some(candidacy) = self.candidacies.get(name).cloned() else { return };
        let Some(seat) = cx.holds.seat() else { return };
        let again = cx.now.after(seat.policy().timing.leader_lease);
        if algorithm(seat.policy(), name).is_none() {
            return;
        }
        self.unlisted.insert(name.clone(), again);
        self.tell_leader(cx, name, What::Stand(candidacy));
    }

    fn tell_leader(&mut self, cx: &mut Cx<'_>, name: &HoldName, what: What) {
        let Some((rank, leader)) = cx.holds.seat().map(|seat| (seat.rank(), seat.view().leader))
        else {
            return;
        };
        if rank == leader {
            self.hear(cx, rank, name, what);
        } else {
            cx.send(leader, ElectionMessage { name: name.clone(), what });
        }
    }

    fn hear(&mut self, cx: &mut Cx<'_>, from: MemberId, name: &HoldName, what: What) {
        match what {
            What::Stand(candidacy) => {
                self.monitor.stands(cx.now, from, name, candidacy);
                self.look(cx, false);
            }
            What::Withdraw => {
                self.monitor.withdraws(from, name);
                self.look(cx, false);
            }
            What::Call { ballot, candidates } => {
                if let Some(own) = self.candidacies.get(name) {
                    self.ballots.called(cx, (from, own.priority), name, ballot, candidates);
                } else {
                    // It did not hear so.
                    self.tell_leader(cx, name, What::Withdraw);
                }
            }
            What::Nominate { ballot, message } => {
                if self.candidacies.contains_key(name) {
                    self.ballots.receive(cx, from, name, ballot, message);
                }
            }
            What::State { number, state } => {
                if self.hear_state(cx, name, &state) {
                    self.tell_leader(cx, name, What::Known(number));
                }
            }
            What::Known(number) => self.monitor.knows(from, name, number),
            What::Transfer(to) if is_default(name) => cx.transfer(to),
            What::Transfer(to) => {
                let lease = cx.holds.seat().map(|seat| seat.policy().timing.leader_lease);
                let until = cx.now.after(lease.unwrap_or_default() * TRANSFER_LEASES);
                self.monitor.transfer(name, to, until);
                self.look(cx, false);
            }
            What::HandOver => tell(cx, name, ElectionEvent::HandOver),
        }
    }

    /// Whether this member stands as the leader of the group knows; else it tells that one.
    fn hear_state(&mut self, cx: &mut Cx<'_>, name: &HoldName, state: &State) -> bool {
        let Some(rank) = cx.holds.seat().map(Seat::rank) else { return false };
        if state.leader.is_some() {
            self.ballots.end(name);
        }
        let member = |rank| cx.holds.seat()?.member(rank);
        let candidates = state.candidates.iter().filter_map(|(rank, _)| member(*rank)).collect();
        let (leader, profile) = (state.leader.and_then(member), state.profile.clone());
        match leader {
            Some(leader) => self.profiles.insert(name.clone(), (leader, profile.clone())),
            None => self.profiles.remove(name),
        };
        tell(cx, name, ElectionEvent::State { leader, profile, candidates });
        let listed = state.candidates.iter().find(|(member, _)| *member == rank);
        let own = self.candidacies.get(name);
        let leads = state.leader == Some(rank);
        let known = listed.map(|(_, priority)| *priority) == own.map(|own| own.priority)
            && own.is_none_or(|own| !leads || own.profile == state.profile);
        match (known, self.candidacies.contains_key(name)) {
            (true, _) => {
                self.unlisted.remove(name);
            }
            (false, true) if !self.unlisted.contains_key(name) => self.stand(cx, name),
            // It tells the leader again in any case.
            (false, true) => {}
            (false, false) => self.tell_leader(cx, name, What::Withdraw),
        }
        known
    }

    /// At the leader of the group: sees to elections without a leader, and tells all what has changed.
    /// `beat`: also who stands.
    pub(crate) fn look(&mut self, cx: &mut Cx<'_>, beat: bool) {
        let ToSend { notices, calls, hand_overs } = self.monitor.look(cx, &self.profiles, beat);
        let Some(rank) = cx.holds.seat().map(Seat::rank) else { return };
        for NoticeOf { name, number, state, to, news } in notices {
            for peer in to {
                let what = What::State { number, state: state.clone() };
                cx.send(peer, ElectionMessage { name: name.clone(), what });
            }
            if news {
                self.hear_state(cx, &name, &state);
            }
        }
        for (name, leader) in hand_overs {
            if leader == rank {
                self.hear(cx, rank, &name, What::HandOver);
            } else {
                cx.send(leader, ElectionMessage { name, what: What::HandOver });
            }
        }
        for (name, ballot, candidates) in calls {
            for candidate in candidates.iter().copied().filter(|candidate| *candidate != rank) {
                let what = What::Call { ballot, candidates: candidates.clone() };
                cx.send(candidate, ElectionMessage { name: name.clone(), what });
            }
            if candidates.contains(&rank) {
                self.hear(cx, rank, &name, What::Call { ballot, candidates });
            }
        }
    }
}

impl Service for Elections {
    type Command = Command;
    type Message = ElectionMessage;
    type Event = Event;

    fn new(_me: Incarnation) -> Self {
        Self {
            candidacies: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            ballots: Ballots::default(),
            profiles: Profiles::new(),
            monitor: Monitor::default(),
        }
    }

    fn begin_view(&mut self, cx: &mut Cx<'_>, _carried: &CarriedHolds) {
        for name in self.candidacies.keys().cloned().collect::<Vec<_>>() {
            self.stand(cx, &name);
        }
        self.look(cx, false);
    }

    fn end_view(&mut self, _holds: &Holds) {
        self.unlisted.clear();
        self.ballots = Ballots::default();
        self.monitor = Monitor::default();
    }

    fn command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Stand { election, candidacy } => {
                self.candidacies.insert(election.clone(), candidacy);
                self.stand(cx, &election);
            }
            Command::Withdraw { election } => {
                self.unlisted.remove(&election);
                if self.candidacies.remove(&election).is_some() {
                    self.ballots.end(&election);
                    self.tell_leader(cx, &election, What::Withdraw);
                }
            }
            Command::Transfer { election, to } => {
                let seat = cx.holds.seat();
                if let Some(to) = seat.and_then(|seat| seat.rank_of(to)) {
                    self.tell_leader(cx, &election, What::Transfer(to));
                }
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: MemberId, message: ElectionMessage) {
        let ElectionMessage { name, what } = message;
        let Some(seat) = cx.holds.seat() else { return };
        let may = match what {
            What::Stand(_) | What::Withdraw | What::Known(_) | What::Transfer(_) => seat.leads(),
            What::Call { .. } | What::State { .. } | What::HandOver => from == seat.view().leader,
            What::Nominate { .. } => true,
        };
        let leads_the_group = is_default(&name) && matches!(what, What::Transfer(_));
        if may && (leads_the_group || algorithm(seat.policy(), &name).is_some()) {
            self.hear(cx, from, &name, what);
        }
    }

    fn notice(&mut self, cx: &mut Cx<'_>, notice: Notice) {
        match notice {
            Notice::Left(member) => {
                self.monitor.left(member);
                self.look(cx, false);
            }
            Notice::Beat { .. } => self.look(cx, true),
            Notice::Leaves => {
                for name in std::mem::take(&mut self.candidacies).into_keys() {
                    self.unlisted.remove(&name);
                    self.ballots.end(&name);
                    self.tell_leader(cx, &name, What::Withdraw);
                }
            }
            Notice::Stirred(name) | Notice::Expelled(name) => {
                if election_of(&name).is_some() {
                    self.look(cx, false);
                }
            }
            Notice::Suspected(member) => {
                self.monitor.suspects(cx, member);
                self.look(cx, false);
            }
            Notice::Open | Notice::Silent(_) => self.look(cx, false),
            Notice::Idle(_)
            | Notice::Lapsed { .. }
            | Notice::KeptLapsed(_)
            | Notice::Void(_)
            | Notice::Renewed { .. }
            | Notice::Doubt(_)
            | Notice::Extended { .. }
            | Notice::Rests
            | Notice::Drains => {}
        }
    }

    fn next_timer(&self) -> Option<LocalTime> {
        let again = self.unlisted.values().copied();
        again.chain(self.ballots.next_timer()).chain(self.monitor.next_timer()).min()
    }

    fn fire(&mut self, cx: &mut Cx<'_>) {
        let due = self.unlisted.iter().filter(|(_, at)| **at <= cx.now);
        for name in due.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.stand(cx, &name);
        }
        self.ballots.fire(cx);
        self.look(cx, false);
    }

    /// A candidate tells the leader again, and a ballot that came to nothing is followed by another.
    fn repairs(_policy: &Policy, _message: &ElectionMessage) -> bool {
        true
    }
}

/// For so many leader leases a transfer is tried: the leader has its deadline to give the lead up, and the candidate a
/// ballot.
const TRANSFER_LEASES: u32 = 3;

/// Whether it is the election of the group's leader.
fn is_default(name: &HoldName) -> bool {
    election_of(name) == Some(DEFAULT)
}

/// How one of the candidates is nominated; nothing if there is no such election.
fn algorithm(policy: &Policy, name: &HoldName) -> Option<ElectionAlgorithm> {
    let election = election_of(name)?;
    policy.elections.iter().find(|policy| policy.name == election).map(|policy| policy.algorithm)
}

fn tell(cx: &mut Cx<'_>, name: &HoldName, event: ElectionEvent) {
    cx.tell(Event { election: name.clone(), event });
}

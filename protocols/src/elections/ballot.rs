//! A candidate's part in the ballots that it was called to.

use std::collections::BTreeMap;

use super::message::{ElectionMessage, What};
use super::{Cx, algorithm, tell};
use crate::core::Seat;
use crate::election::{AnyElection, AnyMessage, AnyTimer, Command, Event, Place, Timing};
use crate::ids::{HoldName, MemberId};
use crate::protocol::{Effect, Input, InputOf, Outbox, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// The ballots that this member takes part in, one for each election at most.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Ballots {
    all: BTreeMap<HoldName, Ballot>,
    /// What other candidates sent in ballots that this member has yet to be called to.
    early: Vec<(MemberId, HoldName, u64, AnyMessage)>,
}

/// How many such messages are kept. The next ballot makes good what is dropped.
const EARLY_MAX: usize = 1024;

/// One ballot.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Ballot {
    number: u64,
    /// By their ranks in it.
    candidates: Vec<MemberId>,
    election: AnyElection,
    timers: BTreeMap<AnyTimer, LocalTime>,
    began: LocalTime,
    messages: u64,
    /// The nominee of whom the application was notified. A bully that wins once more is no news.
    nominee: Option<MemberId>,
    /// It came to something, or this member does not stand any more: what arrives late moves nobody.
    over: bool,
    /// How many ballots in a row that this member was called to came to nothing just before.
    in_vain: u32,
}

impl Ballots {
    /// The leader of the group called to one, in which this member stands with this priority.
    pub(super) fn called(
        &mut self,
        cx: &mut Cx<'_>,
        (caller, priority): (MemberId, i32),
        name: &HoldName,
        number: u64,
        candidates: Vec<MemberId>,
    ) {
        if self.all.get(name).is_some_and(|ballot| ballot.number >= number) {
            return;
        }
        let before = self.all.get(name).filter(|ballot| !ballot.over);
        let in_vain = before.map_or(0, |ballot| ballot.in_vain.saturating_add(1));
        let Some(ballot) = Ballot::new(cx, name, number, candidates, (priority, in_vain)) else {
            return;
        };
        let begins = ballot.first_after(caller) == cx.holds.seat().map(Seat::rank);
        self.all.insert(name.clone(), ballot);
        if begins {
            self.feed(cx, name, Input::Command(Command::Elect));
        }
        let (now, later) = std::mem::take(&mut self.early)
            .into_iter()
            .filter(|(_, of, ballot, _)| of != name || *ballot >= number)
            .partition::<Vec<_>, _>(|(_, of, ballot, _)| of == name && *ballot == number);
        self.early = later;
        for (from, _, _, message) in now {
            self.receive(cx, from, name, number, message);
        }
    }

    /// Another candidate sent this.
    pub(super) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        from: MemberId,
        name: &HoldName,
        number: u64,
        message: AnyMessage,
    ) {
        let present = self.all.get(name);
        if present.is_none_or(|ballot| ballot.number < number) {
            if self.early.len() < EARLY_MAX {
                self.early.push((from, name.clone(), number, message));
            }
            return;
        }
        let present = present.filter(|ballot| ballot.number == number && !ballot.over);
        let place = present.and_then(|ballot| ballot.place(from));
        if let Some(from) = place {
            self.feed(cx, name, Input::Message { from, message });
        }
    }

    /// Somebody has the lead, or this member does not stand any more.
    pub(super) fn end(&mut self, name: &HoldName) {
        if let Some(ballot) = self.all.get_mut(name) {
            ballot.timers.clear();
            ballot.over = true;
        }
    }

    pub(super) fn next_timer(&self) -> Option<LocalTime> {
        self.all.values().flat_map(|ballot| ballot.timers.values().copied()).min()
    }

    pub(super) fn fire(&mut self, cx: &mut Cx<'_>) {
        while let Some((name, timer)) = self.take_due(cx.now) {
            self.feed(cx, &name, Input::Timer(timer));
        }
    }

    fn take_due(&mut self, now: LocalTime) -> Option<(HoldName, AnyTimer)> {
        self.all.iter_mut().find_map(|(name, ballot)| {
            let due = ballot.timers.iter().find(|(_, at)| **at <= now);
            let timer = *due?.0;
            ballot.timers.remove(&timer);
            Some((name.clone(), timer))
        })
    }

    fn feed(&mut self, cx: &mut Cx<'_>, name: &HoldName, input: InputOf<AnyElection>) {
        let Some(ballot) = self.all.get_mut(name) else { return };
        let mut effects = Outbox::default();
        ballot.election.handle(cx.now, input, &mut effects);
        let mut elected = None;
        let before = ballot.nominee;
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => ballot.send(cx, name, to, message),
                Effect::Arm { timer, after } => {
                    ballot.timers.insert(timer, cx.now.after(after));
                }
                Effect::Disarm(timer) => {
                    ballot.timers.remove(&timer);
                }
                Effect::Tell(Event::Elected(winner)) => elected = Some(winner),
            }
        }
        ballot.nominee = elected.or(before);
        let news = elected.filter(|winner| before != Some(*winner));
        // What it sends together with the outcome is a part of the cost.
        let (messages, took) = (ballot.messages, cx.now - ballot.began);
        let winner = news.and_then(|winner| ballot.candidates.get(winner.0 as usize));
        let winner = winner.and_then(|rank| cx.holds.seat()?.member(*rank));
        if let Some(winner) = winner {
            tell(cx, name, super::ElectionEvent::Elected { winner, messages, took });
        }
    }
}

impl Ballot {
    /// Nothing if this member is no candidate of it.
    fn new(
        cx: &Cx<'_>,
        name: &HoldName,
        number: u64,
        candidates: Vec<MemberId>,
        (priority, in_vain): (i32, u32),
    ) -> Option<Self> {
        let seat = cx.holds.seat()?;
        let of = algorithm(seat.policy(), name)?;
        let place = place(&candidates, seat.rank())?;
        let timing = Timing::of(seat.policy().timing.leader_lease);
        let size = u32::try_from(candidates.len()).ok()?;
        // Which rank led before matters to no algorithm: it is not among the candidates, or is one of them.
        let view = View { epoch: seat.view().epoch, size, leader: MemberId(0) };
        let info = |member: &MemberId| seat.info(*member);
        let capacity = info(&seat.rank()).map_or(0, |info| info.capacity);
        let zones = candidates.iter().map(|one| info(one)?.zone.as_deref());
        let place = Place::new(place, view)
            .with_capacity(in_a_ballot(priority, capacity))
            .in_topology(seat.policy().topology, zones, None)
            .after(in_vain);
        let election = AnyElection::new(of, place, timing);
        let (timers, began, messages, nominee) = (BTreeMap::new(), cx.now, 0, None);
        let over = false;
        Some(Self { number, candidates, election, timers, began, messages, nominee, over, in_vain })
    }

    fn place(&self, member: MemberId) -> Option<MemberId> {
        place(&self.candidates, member)
    }

    /// The candidate that follows a member in the ring of ranks; that member itself, if it is one.
    fn first_after(&self, member: MemberId) -> Option<MemberId> {
        let from = self.candidates.iter().filter(|candidate| **candidate >= member).min();
        from.or_else(|| self.candidates.iter().min()).copied()
    }

    fn send(&mut self, cx: &mut Cx<'_>, name: &HoldName, to: MemberId, message: AnyMessage) {
        let Some(to) = self.candidates.get(to.0 as usize) else { return };
        self.messages += u64::from(message.is_counted());
        let what = What::Nominate { ballot: self.number, message };
        cx.send(*to, ElectionMessage { name: name.clone(), what });
    }
}

/// A capacity that is the greater the higher the priority, and then the greater the pod's own.
fn in_a_ballot(priority: i32, capacity: u32) -> u64 {
    let priority = u64::from(priority.cast_unsigned() ^ (1 << 31));
    priority << 32 | u64::from(capacity)
}

fn place(candidates: &[MemberId], member: MemberId) -> Option<MemberId> {
    let place = candidates.iter().position(|candidate| *candidate == member)?;
    u32::try_from(place).ok().map(MemberId)
}

//! How far one member may move the average, over all rounds.
//!
//! The rules of averaging look at one round. A clock that is read a little ahead in every round would move the average
//! without end. So the daemon measures how far each member moves it: the average less the average without that member.
//! A member that takes its corrections moves it by the drift of its raw clock, and by the error of a reading. That error
//! does not add up: every round corrects the clock by what was read, and the next reading begins there. Twice the precision
//! is allowed for it. A member that moves the average by more is an outlier in that round, whatever bound it states, and
//! stays one until a reading finds its clock where the correction puts it. If most members are outliers and agree with one
//! another, the daemon's own clock is the one that is wrong, and they are averaged with it. If they do not agree, they were
//! misread: those that are left are averaged. Where the clocks of a view are compared for the first time, all are averaged,
//! as the rule has it.

use std::collections::BTreeMap;

use super::average::{Candidate, Mean, average};
use super::exchange::saturate;
use super::params::Params;
use super::rates::{as_nanos, share};
use super::round::is_most;
use crate::ids::MemberId;
use crate::policy::Averaging;
use crate::time::LocalTime;
use crate::view::View;

/// What is left to each member.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Sway {
    rooms: BTreeMap<MemberId, Room>,
}

/// How far a member may still lie from where the others are, to either side, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Room {
    since: LocalTime,
    ahead_ns: i64,
    back_ns: i64,
}

impl Sway {
    /// The average of these clocks, one of them that of the daemon `me`, at a raw reading.
    pub(super) fn average(
        &mut self,
        now: LocalTime,
        all: &BTreeMap<MemberId, Candidate>,
        (me, view): (MemberId, View),
        params: &Params,
    ) -> Option<Mean> {
        if all.len() > MEASURED {
            return average(params.averaging, all, as_nanos(params.gamma), me);
        }
        let others = all.keys().filter(|id| **id != me);
        let rooms = others.map(|id| (*id, self.room(*id, now, all.len(), params))).collect();
        let round = Limits { me, params, rooms };
        let (mut clocks, mut moves) = (all.clone(), round.moves(all)?);
        while let Some(id) = round.furthest_beyond(&moves) {
            clocks.remove(&id);
            moves = round.moves(&clocks)?;
        }
        if is_most(all.len() - clocks.len(), all.len() - 1, view) {
            if self.rooms.is_empty() {
                self.rooms = round.rooms.clone();
                return round.mean(all);
            }
            let outliers = all.iter().filter(|(id, _)| !clocks.contains_key(id));
            let mut agreeing = round.agreeing(outliers.map(|(id, one)| (*id, *one)).collect());
            if is_most(agreeing.len(), all.len() - 1, view) {
                agreeing.extend(all.get_key_value(&me));
                return round.mean(&agreeing);
            }
        }
        for (id, room) in &round.rooms {
            let left = moves.get(id).map(|ns| room.after(*ns));
            let before = self.rooms.get(id).copied().unwrap_or(*room);
            self.rooms.insert(*id, left.unwrap_or(Room { since: now, ..before }));
        }
        round.mean(&clocks)
    }

    /// What is left to a member: no more than twice the precision, and no more than the others can follow in one round.
    /// What a member moves the average by beyond that would be charged to it, and not come about.
    fn room(&self, id: MemberId, now: LocalTime, clocks: usize, params: &Params) -> Room {
        let slewed_ns = share(as_nanos(params.max_interval), params.rates().slew());
        let slewed_ns =
            saturate(i128::from(slewed_ns)).saturating_mul(part_of(params.averaging, clocks));
        let misread_ns = saturate(i128::from(as_nanos(params.precision).saturating_mul(2)));
        let most_ns = misread_ns.min(slewed_ns);
        let new = Room { since: now, ahead_ns: most_ns, back_ns: most_ns };
        let room = self.rooms.get(&id).copied().unwrap_or(new);
        let grown = share(now.0.saturating_sub(room.since.0), params.rates().apart());
        let more = |ns: i64| ns.saturating_add_unsigned(grown).min(most_ns);
        Room { since: now, ahead_ns: more(room.ahead_ns), back_ns: more(room.back_ns) }
    }
}

/// What each member but the daemon `me` has left in a round.
struct Limits<'a> {
    me: MemberId,
    params: &'a Params,
    rooms: BTreeMap<MemberId, Room>,
}

impl Limits<'_> {
    fn mean(&self, clocks: &BTreeMap<MemberId, Candidate>) -> Option<Mean> {
        average(self.params.averaging, clocks, as_nanos(self.params.gamma), self.me)
    }

    /// The most of these clocks that are within twice the precision of one another.
    fn agreeing(&self, clocks: BTreeMap<MemberId, Candidate>) -> BTreeMap<MemberId, Candidate> {
        let within_ns = as_nanos(self.params.precision).saturating_mul(2);
        let mean = average(Averaging::LargestSet, &clocks, within_ns, self.me);
        let is_one = |id: &MemberId| mean.as_ref().is_some_and(|mean| mean.of.contains(id));
        clocks.into_iter().filter(|(id, _)| is_one(id)).collect()
    }

    /// How far each of these members moves the average of these clocks. Nothing if they have none.
    fn moves(&self, clocks: &BTreeMap<MemberId, Candidate>) -> Option<BTreeMap<MemberId, i64>> {
        let mean = self.mean(clocks)?;
        let part = part_of(self.params.averaging, clocks.len());
        let pull = |id: &MemberId| {
            let mut others = clocks.clone();
            others.remove(id);
            let without_ns = self.mean(&others)?.ns;
            Some((*id, mean.ns.saturating_sub(without_ns).saturating_mul(part)))
        };
        clocks.keys().filter(|id| **id != self.me).map(pull).collect()
    }

    /// Who moves the average by more than it has left, and by the most more.
    fn furthest_beyond(&self, moves: &BTreeMap<MemberId, i64>) -> Option<MemberId> {
        let beyond =
            moves.iter().filter_map(|(id, ns)| Some((self.rooms.get(id)?.beyond(*ns), *id)));
        beyond.max().filter(|(beyond, _)| *beyond > 0).map(|(_, id)| id)
    }
}

impl Room {
    /// How much more than is left this is.
    fn beyond(self, ns: i64) -> i64 {
        let back_ns = ns.saturating_neg();
        ns.saturating_sub(self.ahead_ns).max(back_ns.saturating_sub(self.back_ns)).max(0)
    }

    /// What is left when a member has moved the average by so much: to the other side there is as much more.
    fn after(self, ns: i64) -> Self {
        let ahead_ns = self.ahead_ns.saturating_sub(ns);
        Self { ahead_ns, back_ns: self.back_ns.saturating_add(ns), ..self }
    }
}

/// In a larger view nobody's part is measured: that takes an average for each member, on the leader's one thread.
const MEASURED: usize = 64;

/// What part of how far it lies from the others a clock moves the average by: of so many, one part in this. The mean has a
/// share of it. What lies in the middle, of clocks or of intervals, is moved by half.
fn part_of(rule: Averaging, clocks: usize) -> i64 {
    match rule {
        Averaging::LargestSet => i64::try_from(clocks).unwrap_or(i64::MAX),
        Averaging::Median | Averaging::Intervals => 2,
    }
}

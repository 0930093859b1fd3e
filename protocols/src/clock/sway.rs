//! How far one member may move the average, over all rounds.
//!
//! The rules of averaging look at one round. A clock that is read a little ahead in every round would move the average
//! without end. So the daemon measures how far each member moves it: the average less the average without that member.
//! A member that takes its corrections moves it by the drift of its raw clock, and by the error of a reading. That error
//! does not add up: the clock is corrected by what was read, and the next reading begins there. A member that moves the
//! average by more is an outlier in that round, whatever bound it states, and stays one until a reading finds its clock
//! where the correction puts it. If most members were outliers, the daemon's own clock may be the one that is wrong, or the
//! clocks were never compared before: then all are averaged, as the rule has it.

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

/// A clock as the daemon read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) clock: Candidate,
    /// How badly it was read: half of the round trip.
    pub(super) error_ns: u64,
}

impl Sway {
    /// The average of these clocks, one of them that of the daemon `me`, at a raw reading.
    pub(super) fn average(
        &mut self,
        now: LocalTime,
        read: &BTreeMap<MemberId, Read>,
        (me, view): (MemberId, View),
        params: &Params,
    ) -> Option<Mean> {
        let of = |clocks: &BTreeMap<MemberId, Candidate>| {
            average(params.averaging, clocks, as_nanos(params.gamma), me)
        };
        let all: BTreeMap<_, _> = read.iter().map(|(id, one)| (*id, one.clock)).collect();
        if all.len() > MEASURED {
            return of(&all);
        }
        let rooms: BTreeMap<_, _> = read
            .iter()
            .filter(|(id, _)| **id != me)
            .map(|(id, one)| (*id, self.room(*id, now, one.error_ns, params)))
            .collect();
        let mut clocks = all.clone();
        loop {
            let mean = of(&clocks)?;
            let part = part_of(params.averaging, clocks.len());
            let pull = |id: &MemberId| {
                let mut others = clocks.clone();
                others.remove(id);
                let without_ns = of(&others).map_or(0, |others| others.ns);
                mean.ns.saturating_sub(without_ns).saturating_mul(part)
            };
            let moved: BTreeMap<_, _> = rooms
                .keys()
                .filter(|id| clocks.contains_key(id))
                .map(|id| (*id, pull(id)))
                .collect();
            let beyond =
                moved.iter().filter_map(|(id, ns)| Some((rooms.get(id)?.beyond(*ns), *id)));
            if let Some((1.., id)) = beyond.max() {
                clocks.remove(&id);
                continue;
            }
            if is_most(all.len() - clocks.len(), all.len() - 1, view) {
                return of(&all);
            }
            for (id, room) in &rooms {
                let left = moved.get(id).map(|ns| room.after(*ns));
                let before = self.rooms.get(id).copied().unwrap_or(*room);
                self.rooms.insert(*id, left.unwrap_or(Room { since: now, ..before }));
            }
            return Some(mean);
        }
    }

    /// What is left to a member that was read with such an error.
    fn room(&self, id: MemberId, now: LocalTime, error_ns: u64, params: &Params) -> Room {
        let misread = error_ns.max(as_nanos(params.precision)).saturating_mul(2);
        let most_ns = saturate(i128::from(misread));
        let new = Room { since: now, ahead_ns: most_ns, back_ns: most_ns };
        let room = self.rooms.get(&id).copied().unwrap_or(new);
        let grown = share(now.0.saturating_sub(room.since.0), params.rates().apart());
        let more = |ns: i64| ns.saturating_add_unsigned(grown).min(most_ns);
        Room { since: now, ahead_ns: more(room.ahead_ns), back_ns: more(room.back_ns) }
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

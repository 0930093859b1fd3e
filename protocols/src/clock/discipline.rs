//! A member's virtual clock: how it takes corrections, and how a leader's becomes group time.
//!
//! Before it was first synchronised it may be set; nobody reads it yet. After that it never goes back: a clock that is ahead
//! runs slower until the surplus is gone. It is set forward only where nothing was known any more of the time that it had.

use super::by_messages::ByMessages;
use super::correction::{ByOthers, Correction, Shown};
use super::course::{Bound, Course, Known, Line};
use super::estimate::Estimate;
use super::joining::joined;
use super::link::Slope;
use super::map::ClockMap;
use super::rates::{BILLION, Rates, share};
use super::wants::Wants;
use crate::ids::Epoch;
use crate::time::LocalTime;

/// For how long after a moment at which a leader surely led nobody else does, in nanoseconds of any raw clock: three rounds of the
/// longest interval, and the wait for answers.
pub const HOLD_NS: u64 = 3_250_000_000;

/// The virtual clock of one member, carried from view to view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct VirtualClock {
    map: ClockMap,
    /// Those of the view's policy.
    rates: Rates,
    /// Those that group time may still keep to as long as nobody leads by the view's policy.
    before: Rates,
    /// From this reading on it keeps to those of the view's policy.
    since: LocalTime,
    /// That of the view.
    epoch: Epoch,
    /// How far ahead of group time, as far as that is known, the clock is going to be: behind or ahead of the
    /// daemon, where the average is.
    ahead_ns: i64,
    part: Part,
    /// The view that the present one was made from, if that is known.
    base: Option<Epoch>,
    /// Whether every member of the view is known to have entered it and to have group time: then no view of the same members
    /// begins another.
    common: bool,
    /// A leader begins a group time no earlier.
    begins_from: LocalTime,
}

/// What a clock has to do with group time.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Part {
    /// It follows it.
    Follows,
    /// It is a leader's, and will be group time, but not before this: until then group time goes on as the leader
    /// before has stated.
    Waits { from: LocalTime },
    /// Group time runs with it.
    Leads {
        /// The last moment at which its member surely led.
        confirmed: LocalTime,
        /// How far group time was from it then, at most.
        error_ns: u64,
        /// Until then it goes as was stated.
        promised: u64,
    },
}

impl VirtualClock {
    /// A clock that shows this member's wall clock until it is first synchronised.
    /// `utc_offset_ns` is that wall clock, in nanoseconds since 1970, less the raw clock.
    pub fn new(utc_offset_ns: i64, rates: Rates) -> Self {
        let shown = Course::even(Line::straight(0, utc_offset_ns));
        let bound = Bound::even(0, 0, rates.follower_growth());
        let map = ClockMap {
            shown,
            known: Known { path: shown, bound, epoch: Epoch::default(), common: false },
            synced_raw: None,
            fresh_for_ns: u64::MAX,
            disrupted_until: 0,
            void_from: u64::MAX,
            by_messages: None,
        };
        let epoch = Epoch::default();
        let (before, since, part) = (rates, LocalTime(0), Part::Follows);
        let (base, common, begins_from) = (None, false, LocalTime(0));
        Self { map, rates, before, since, epoch, ahead_ns: 0, part, base, common, begins_from }
    }

    /// The same for the next view, if it was made from that one: then nobody has led in between. If both are of one leader,
    /// group time goes on with its clock.
    #[must_use]
    pub fn made_from(self, base: Option<Epoch>) -> Self {
        Self { base, common: false, ..self }
    }

    /// The same for a view whose leader begins no group time of its own before `from`: until then a member of an earlier
    /// one may show what that had.
    #[must_use]
    pub fn beginning_from(self, from: LocalTime) -> Self {
        Self { begins_from: from, ..self }
    }

    /// Begins a view as a follower or as the leader, with the view's rates; the clock counts as
    /// synchronised for `fresh_for_ns` after each synchronisation. The time does not change, and what is known of group
    /// time stays known. If the rates are lower than before, group time may go on as was planned by the higher ones until the
    /// view's leader leads it.
    pub fn enter(
        &mut self,
        now: LocalTime,
        (epoch, leads): (Epoch, bool),
        rates: Rates,
        fresh_for_ns: u64,
    ) {
        let is_succeeding = self.base == Some(self.epoch);
        self.before = self.rates(now).larger(rates);
        self.since = LocalTime(if self.before == rates { 0 } else { u64::MAX });
        (self.epoch, self.rates) = (epoch, rates);
        let rates = self.before;
        self.map.fresh_for_ns = fresh_for_ns;
        self.map.by_messages = None;
        self.part = match self.part {
            _ if !leads => Part::Follows,
            Part::Leads { .. } if is_succeeding && self.since == LocalTime(0) => self.part,
            // By a clock that runs faster than the other leader's.
            Part::Follows | Part::Waits { .. } | Part::Leads { .. } => {
                let wait = HOLD_NS.saturating_add(share(HOLD_NS, rates.follower_growth()));
                Part::Waits { from: LocalTime(now.0.saturating_add(wait)) }
            }
        };
        match self.part {
            Part::Leads { .. } => {}
            Part::Waits { .. } => {
                self.fade_by(now, ppb(rates.follower_growth()));
                self.ahead_ns = 0;
                self.aim(now.0);
            }
            // Its algorithm knows of the leader's clock what its messages say.
            Part::Follows => {
                let Known { path, bound, .. } = self.map.known;
                let line = Line::straight(now.0, path.at(now.0));
                let bound = Bound::even(now.0, bound.at(now.0), rates.follower_growth());
                self.map.known = Known::of(line, bound);
                self.aim(now.0);
            }
        }
    }

    /// A follower's correction. It is refused, with `false`, if group time is known better
    /// without it: a slow exchange says less than a fast one some time ago.
    pub fn adjust(&mut self, now: LocalTime, shown: Shown, by: Correction) -> bool {
        let target_ns = shown.ns.saturating_add(by.delta_ns);
        let ns = target_ns.saturating_sub(by.ahead_ns);
        let known = Estimate { raw: shown.raw, ns, error_ns: by.error_ns };
        self.follow_to(now, known, (target_ns, shown.raw))
    }

    /// Follows group time as a time server's reply has it. It is refused as [`VirtualClock::adjust`] refuses.
    pub(super) fn follow(&mut self, now: LocalTime, known: Estimate) -> bool {
        self.follow_to(now, known, (known.ns, known.raw))
    }

    /// The same with a target of its own, where clocks were compared at another reading.
    pub(super) fn follow_to(
        &mut self,
        now: LocalTime,
        known: Estimate,
        (target_ns, compared): (i64, LocalTime),
    ) -> bool {
        let line = Line::straight(known.raw.0, known.ns);
        let growth = self.rates(known.raw).follower_growth();
        let bound = Bound::even(known.raw.0, known.error_ns, growth);
        let worse = bound.at(now.0) > self.map.known.bound.at(now.0);
        if self.is_synchronised() && worse {
            return false;
        }
        let ahead_ns = target_ns.saturating_sub(known.ns);
        self.follow_known(now, Known::of(line, bound), ahead_ns, compared);
        true
    }

    /// Follows what is known of group time, to so far ahead of it, since clocks were compared.
    pub(super) fn follow_known(
        &mut self,
        now: LocalTime,
        known: Known,
        ahead_ns: i64,
        compared: LocalTime,
    ) {
        (self.map.known, self.ahead_ns) = (known, ahead_ns);
        // However little is known, group time is no faster than it may be.
        let fastest = ppb(self.rates(now).follower_growth()).plus(known.path.fastest(now.0));
        self.map.known.bound.last = known.bound.last.min(fastest);
        self.set(now, self.target(now.0));
        self.map.synced_raw = Some(compared.0);
        self.aim(now.0);
    }

    /// Notes what the algorithm's messages say, whether or not the clock follows that.
    pub(super) fn note_by_messages(&mut self, by_messages: ByMessages) {
        self.map.by_messages = Some(by_messages);
    }

    /// Notes what messages say by another clock of this member, and for how long it counts as synchronised. If group time may run faster than before, what is known of it fades faster.
    pub(super) fn note_compared_as(&mut self, now: LocalTime, other: &Self) {
        self.map.by_messages = other.map.by_messages;
        self.map.fresh_for_ns = other.map.fresh_for_ns;
        let growth = other.rates(now).follower_growth();
        if growth > self.rates(now).follower_growth() {
            self.fade_by(now, ppb(growth));
        }
        (self.rates, self.before, self.since) = (other.rates, other.before, other.since);
        self.common = other.common;
    }

    /// The leader stated what it knows of group time: whether that runs with its clock, and so by the view's policy.
    pub(super) fn note_stated(&mut self, now: LocalTime, known: &Known) {
        if known.epoch == self.epoch {
            self.since = self.since.min(now);
        }
        if known.common {
            self.note_common();
        }
    }

    /// Every member of the view has group time.
    pub(super) fn note_common(&mut self) {
        self.common = true;
    }

    /// Whether every member of the view is known to have entered it and to have group time.
    pub(super) fn is_common(&self) -> bool {
        self.common
    }

    /// Whether it was ever synchronised.
    pub(super) fn was_set(&self) -> bool {
        self.map.synced_raw.is_some()
    }

    /// What a follower needs of those that it asks.
    pub(super) fn wants(&self) -> Wants {
        if self.is_synchronised() { Wants::Nothing } else { Wants::GroupTime }
    }

    /// Whether a leader may begin a group time. All others are to have answered before that nobody `has` it, but in the
    /// first view: its members have missed none.
    pub(super) fn may_begin(&self, now: LocalTime, has: bool) -> bool {
        now >= self.begins_from && (!has || self.begins_from == LocalTime(0))
    }

    /// Another group time may have begun: nothing is known until the leader of a view has given this clock its own, or has
    /// begun another. The clock goes on.
    pub(super) fn lapse(&mut self) {
        self.map.void_from = 0;
    }

    /// What was heard contradicts what is assumed, or what is known: so it is for as long as a leader's statement counts.
    pub(super) fn note_disruption(&mut self, now: LocalTime) {
        self.map.disrupted_until = now.0.saturating_add(HOLD_NS);
    }

    /// The same of what was heard of another clock of this member.
    pub(super) fn note_disruption_of(&mut self, other: &Self) {
        self.map.disrupted_until = self.map.disrupted_until.max(other.map.disrupted_until);
    }

    /// The first time of a leader without one. What the others say holds as of `since`, by a correction of
    /// `delta_ns`; if they have no time, this clock is group time from now on.
    pub(super) fn begin(
        &mut self,
        now: LocalTime,
        delta_ns: i64,
        since: LocalTime,
        error_ns: Option<u64>,
    ) {
        let target = Line::straight(now.0, self.map.now_ns(now.0).saturating_add(delta_ns));
        self.set(now, target);
        self.map.synced_raw = Some(since.0);
        match error_ns {
            Some(error_ns) => {
                let growth = self.rates(since).follower_growth();
                let bound = Bound::even(since.0, error_ns, growth);
                self.map.known = Known::of(target, bound);
                self.aim(now.0);
            }
            None => self.lead(now, since, 0),
        }
    }

    /// A leader's clock is to be moved by so much as of `since`, while it is not sure that its member still leads.
    pub(super) fn steer(&mut self, now: LocalTime, (since, delta_ns): (LocalTime, i64)) {
        if let Part::Leads { promised, .. } = self.part {
            self.plan(now.0, promised, (since.0, delta_ns));
            self.map.known.path = self.map.shown;
        }
    }

    /// The member of a leader's clock surely led at `since`. Group time runs with it from now on, if that is not too
    /// early. It is to be moved by so much as of then.
    pub(super) fn confirm(
        &mut self,
        now: LocalTime,
        since: LocalTime,
        delta_ns: i64,
        others: ByOthers,
    ) {
        self.map.synced_raw = Some(since.0);
        match self.part {
            Part::Leads { confirmed, error_ns, promised } => {
                let reigned = since.0.saturating_sub(confirmed.0);
                let own = error_ns.saturating_sub(share(reigned, self.rates.shed()));
                self.plan(now.0, promised, (since.0, delta_ns));
                self.lead(now, since.max(confirmed), others.judge(own));
            }
            Part::Waits { from } if now >= from => {
                let own = self.map.error_ns(now.0).unwrap_or(0);
                // Until the new course begins, the clock may run faster than group time does.
                let hurry = self.map.shown.fastest(now.0).at_least_of(AHEAD_NS);
                let shown = Line::straight(now.0, self.map.now_ns(now.0));
                let before = std::mem::replace(&mut self.map.known.path, Course::even(shown));
                if self.aim(now.0) {
                    self.lead(now, since, others.judge(own).saturating_add(hurry));
                } else {
                    self.map.known.path = before;
                }
            }
            Part::Waits { from } => {
                // Nobody else begins to lead until then, and if the leader of the view before led, its clock turns no
                // faster than this.
                let rates = self.rates(now);
                let turns = ppb(rates.lead_slew());
                let until = since.0.saturating_add(HOLD_NS).min(from.0);
                let Known { bound, epoch, .. } = &mut self.map.known;
                if Some(*epoch) == self.base && bound.last_raw < until {
                    bound.later = bound.growth.plus(turns.scaled(ppb(rates.follower_growth())));
                    bound.last_raw = until;
                }
                if let ByOthers { error_ns: Some(error_ns), contradicts: true } = others {
                    let line = Line::straight(now.0, self.map.now_ns(now.0));
                    let growth = self.rates(since).leader_growth();
                    let bound = Bound::even(since.0, error_ns, growth);
                    self.map.known = Known::of(line, bound);
                    self.aim(now.0);
                }
            }
            Part::Follows => {}
        }
    }

    /// The clock as readers need it.
    pub fn map(&self) -> ClockMap {
        self.map
    }

    /// What this clock's member states of group time to others, if it leads.
    pub(super) fn stated(&self, leads: bool) -> Option<Box<Known>> {
        let known = Known { common: self.common, ..self.map.known };
        (leads && self.is_synchronised()).then(|| Box::new(known))
    }

    /// How far group time is from it at most, for a member that asks: nothing if it has none, or had one that is not asked
    /// for.
    pub(super) fn error_for(&self, raw: LocalTime, wants: Wants) -> Option<u64> {
        let map = self.map();
        let void_from = if wants == Wants::AnyTime { u64::MAX } else { map.void_from };
        ClockMap { void_from, ..map }.error_ns(raw.0)
    }

    /// How far ahead of group time it is going to be.
    pub(super) fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }

    /// How fast clocks and group time may move from a reading on.
    pub(super) fn rates(&self, from: LocalTime) -> Rates {
        if from < self.since { self.before } else { self.rates }
    }

    /// Whether it was ever synchronised, and has not lapsed since.
    pub fn is_synchronised(&self) -> bool {
        self.map.synced_raw.is_some() && self.map.void_from > 0
    }

    /// Group time runs with the clock as its course is.
    fn lead(&mut self, now: LocalTime, confirmed: LocalTime, error_ns: u64) {
        self.since = self.since.min(now);
        let promised = confirmed.0.saturating_add(HOLD_NS);
        let grows = ppb(self.rates.leader_growth());
        self.part = Part::Leads { confirmed, error_ns, promised };
        let bound = Bound {
            raw: confirmed.0,
            error_ns,
            growth: Slope::default(),
            later_raw: promised,
            later: grows,
            last_raw: promised,
            last: grows,
        };
        self.map.known = Known { path: self.map.shown, bound, epoch: self.epoch, common: false };
    }

    /// What is known of group time fades by no less than that, once nothing better is stated of it.
    fn fade_by(&mut self, now: LocalTime, growth: Slope) {
        let Known { path, bound, .. } = &mut self.map.known;
        bound.last = bound.last.max(growth.plus(path.fastest(now.0)));
        if bound.last_raw == u64::MAX {
            bound.growth = bound.growth.max(growth);
        }
    }

    /// Sets a clock that nobody has read yet, and one that has lapsed and is behind: it states no time, and is to go on from a
    /// later one.
    fn set(&mut self, now: LocalTime, target: Line) {
        let has_lapsed = self.map.void_from == 0;
        let is_behind = self.map.now_ns(now.0) < target.at(now.0);
        if !self.was_set() || has_lapsed && is_behind {
            self.map.shown = Course::even(target);
        }
        self.map.void_from = u64::MAX;
    }

    /// Where the clock is to be at a reading and after it.
    fn target(&self, raw: u64) -> Line {
        let line = self.map.known.path.line(raw);
        Line { ns: line.ns.saturating_add(self.ahead_ns), ..line }
    }

    /// Plans a leader's course: nothing that was stated of it becomes untrue, and it is slow. While it does what was
    /// planned before, nothing else is planned, unless that takes long.
    fn plan(&mut self, now: u64, promised: u64, (since, delta_ns): (u64, i64)) {
        let shown = &mut self.map.shown;
        let switch = promised.max(now.saturating_add(AHEAD_NS));
        let first = match now {
            _ if delta_ns == 0 => return,
            _ if now >= shown.last.raw => shown.last,
            _ if now >= shown.then.raw && switch.saturating_add(LONG_NS) <= shown.last.raw => {
                shown.then
            }
            _ => return,
        };
        let target = Line::straight(since, shown.at(since).saturating_add(delta_ns));
        let slew = ppb(self.rates.lead_slew());
        *shown = joined(first, switch, SPREAD_NS, slew, &Course::even(target));
    }

    /// Plans a follower's way to its target. The present course is kept for a moment, so that readers which
    /// still have the map of before see the same time. Returns whether that was possible now: in that moment
    /// nothing else can be planned, and the next correction has to do it.
    fn aim(&mut self, now: u64) -> bool {
        let Course { first, then, last } = self.map.shown;
        let soon = now.saturating_add(ClockMap::SWITCH_NS);
        let begins = now.saturating_add(AHEAD_NS);
        let (first, switch) = match now {
            _ if now < then.raw && soon <= then.raw => (first, then.raw),
            _ if now >= last.raw => (last, begins),
            _ if now >= then.raw && begins <= last.raw => (then, begins),
            _ => return false,
        };
        let Course { first: one, then: two, last: three } = self.map.known.path;
        let ahead = |line: Line| Line { ns: line.ns.saturating_add(self.ahead_ns), ..line };
        let target = Course { first: ahead(one), then: ahead(two), last: ahead(three) };
        self.map.shown = joined(first, switch, 0, ppb(self.rates.slew()), &target);
        true
    }
}

fn ppb(rate: u64) -> Slope {
    Slope::at_least(rate, BILLION)
}

/// So soon a plan begins: a little later than the moment for which maps have to agree, so that what is learned at the same
/// moment can replace it.
const AHEAD_NS: u64 = ClockMap::SWITCH_NS + 1_000_000;
/// A leader's clock is slewed as slowly as this allows, so that its course turns seldom.
const SPREAD_NS: u64 = 1_000_000_000;
/// Of a plan that goes on for longer, the rest is planned anew in each round.
const LONG_NS: u64 = 60_000_000_000;

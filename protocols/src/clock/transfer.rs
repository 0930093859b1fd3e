//! What a member shows: group time as the leader states it, carried over by what is known of the two raw clocks.
//!
//! An algorithm's messages take as long as they take, and between two of them clocks drift apart. So the
//! leader states beside its time what it knows of group time as a function of its raw clock ([`Known`]), ahead
//! of time; and clock probes give the relation between two raw clocks ([`Relation`]), with a bound that assumes neither that
//! a packet takes as long one way as the other nor that a clock runs evenly. The two together are group time as a function
//! of this member's raw clock, and how far that may be off, at any moment. In metrology, to compare two clocks at a
//! distance is to *transfer* time.
//!
//! All members follow the same course. That the leader's clock turns is no error of theirs, since the turn is stated before it
//! is taken.
//!
//! The algorithm goes on beside it with a clock of its own, by its own messages: it decides what group time is,
//! and this clock follows it alone where no probe arrives. What its messages say is kept apart ([`ByMessages`]), with the
//! bound of its source, and no probe has a part in it.
//!
//! [`ByMessages`]: super::ByMessages

use std::collections::BTreeMap;

use super::course::Known;
use super::discipline::{HOLD_NS, VirtualClock};
use super::link::{Missing, Relation};
use super::map::ClockMap;
use crate::ids::Incarnation;
use crate::time::LocalTime;

/// A member's clock as readers see it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Transfer {
    clock: VirtualClock,
    leads: bool,
    /// The clock of the algorithm.
    own: VirtualClock,
    /// What the leader stated last, by its raw clock, and when it came.
    stated: Option<(LocalTime, Known)>,
    /// The leader's raw clock, as seen from this member's.
    relation: Option<Relation>,
    /// At a leader: when its link to another was last found broken.
    broken: BTreeMap<Incarnation, LocalTime>,
    /// No leader that has not this member's time begins another before that: zero before the first lease, and nothing
    /// where nothing arbitrates.
    led_until: Option<LocalTime>,
    /// Something arbitrated in the view before, every member of which was in it and had the time, and this member has had no
    /// lease in the present one yet: another time can no more begin without it than if it had stayed in that view.
    had_in_common: bool,
    /// This member leads the view, and has had no lease in it yet: the others may begin the next without it, and know of
    /// none that has the time.
    lacks_lease: bool,
}

impl Transfer {
    /// The clock of a member that is in no view yet.
    pub fn new(clock: VirtualClock) -> Self {
        let own = clock.clone();
        Self {
            clock,
            leads: false,
            own,
            stated: None,
            relation: None,
            broken: BTreeMap::new(),
            led_until: None,
            had_in_common: false,
            lacks_lease: false,
        }
    }

    /// What readers see. Until every member of the view has group time, a view without this member may begin another: it is
    /// shown for as long as no other view can have a leader.
    pub fn map(&self) -> ClockMap {
        let map = self.clock.map();
        match self.led_until.filter(|_| !self.is_safe()) {
            None => map,
            Some(LocalTime(0)) => ClockMap { synced_raw: None, ..map },
            Some(led) => ClockMap { void_from: map.void_from.min(led.0), ..map },
        }
    }

    /// Nobody can begin another time without this member. Where something arbitrates, it goes on with that in whatever view.
    fn is_safe(&self) -> bool {
        self.had_in_common || self.clock.is_common() && !self.lacks_lease
    }

    /// Whether this member goes on with its time in a view that numbered itself, whatever the others had.
    pub(super) fn goes_on_by_itself(&self) -> bool {
        self.led_until.is_none() || self.is_safe()
    }

    /// The clock with which an algorithm begins a view.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// A view begins, at the raw reading of the clock. If it follows the one of before, what was known of group time is still
    /// true: nobody but the leader of this view can begin another, and it asks this member before. Otherwise another may have
    /// begun since. If nothing arbitrates, only this view counts. `leads`: if this member leads the view, until
    /// when no leader of a later one begins another.
    pub fn enter(&mut self, leads: Option<LocalTime>, follows_on: bool, is_arbitrated: bool) {
        if !follows_on {
            self.clock.lapse();
        }
        let goes_on = follows_on && self.clock.is_common();
        let was_arbitrated = self.led_until.is_some();
        self.had_in_common = leads.is_none() && goes_on && was_arbitrated && !self.lacks_lease;
        self.lacks_lease = leads.is_some() && is_arbitrated;
        // Zero if nobody has read the clock yet.
        let begin = LocalTime(u64::from(self.clock.was_set()));
        let led = self.led_until.unwrap_or(begin).max(leads.filter(|_| goes_on).unwrap_or(begin));
        self.led_until = is_arbitrated.then_some(led);
        self.leads = leads.is_some();
        (self.stated, self.relation) = (None, None);
        self.broken.clear();
    }

    /// Something arbitrates from now on, though this member may be in no view yet: others may begin another time without it,
    /// so it states that of a view in which nothing did no more, nor does it learn that. Returns whether readers see another
    /// map thereby.
    pub fn arbitrated(&mut self) -> bool {
        if self.led_until.is_some() {
            return false;
        }
        let was_set = self.clock.was_set();
        self.led_until = Some(LocalTime(u64::from(was_set)));
        (self.had_in_common, self.lacks_lease) = (false, true);
        was_set
    }

    /// No other view has a leader before that. Returns whether readers see another map thereby.
    pub fn led(&mut self, until: LocalTime) -> bool {
        let Some(led) = &mut self.led_until else { return false };
        let is_common = self.clock.is_common();
        let is_longer = until > *led || self.had_in_common;
        let is_another = is_longer && !is_common || self.lacks_lease;
        *led = until.max(*led);
        (self.had_in_common, self.lacks_lease) = (false, false);
        is_another
    }

    /// The clock of the algorithm has another course or another bound.
    pub fn adjusted(&mut self, now: LocalTime, own: &VirtualClock) {
        self.own = own.clone();
        if self.leads || !own.is_synchronised() {
            let before = std::mem::replace(&mut self.clock, own.clone());
            self.clock.note_disruption_of(&before);
        } else {
            self.clock.note_compared_as(now, own);
            self.follow(now);
        }
    }

    /// The leader stated what it knows of group time. What no member can know is ignored: returns whether it is not that.
    pub fn stated(&mut self, now: LocalTime, known: Known) -> bool {
        let is_sane = known.is_sane();
        if is_sane && !self.leads {
            if known.common {
                self.clock.note_common();
            }
            self.stated = Some((now, known));
            self.follow(now);
        }
        is_sane
    }

    /// This is what is known of the leader's raw clock.
    pub fn related(&mut self, now: LocalTime, relation: Result<Relation, Missing>) {
        if self.leads {
            return;
        }
        if relation == Err(Missing::Broken) {
            self.clock.note_disruption(now);
        }
        self.relation = relation.ok();
        self.follow(now);
    }

    /// For each other member of the view, whether what is known of its raw clock contradicts what is assumed. If most
    /// links of a leader were found so within [`HOLD_NS`], it is the leader's clock that is wrong. One other may be wrong
    /// itself, or lie; in a view of two nobody can tell which clock it is. Returns whether it was found so now.
    pub fn links_of_leader(
        &mut self,
        now: LocalTime,
        links: impl Iterator<Item = (Incarnation, bool)>,
    ) -> bool {
        if !self.leads {
            return false;
        }
        let links: BTreeMap<Incarnation, bool> = links.collect();
        let newly = links.iter().filter(|(_, is_broken)| **is_broken).map(|(peer, _)| (*peer, now));
        let is_news = newly.clone().next().is_some();
        self.broken.extend(newly);
        self.broken
            .retain(|peer, at| links.contains_key(peer) && now.0.saturating_sub(at.0) <= HOLD_NS);
        let is_wrong = is_news && 2 * self.broken.len() > links.len();
        if is_wrong {
            self.clock.note_disruption(now);
        }
        is_wrong
    }

    /// Follows what is known best.
    fn follow(&mut self, now: LocalTime) {
        let (own, known) = (self.own.map(), self.map().known);
        let is_better = own.known.bound.at(now.0) < known.bound.at(now.0);
        let is_of_use = self.own.is_synchronised() && (is_better || !self.clock.is_synchronised());
        if let Some(compared) = own.synced_raw.filter(|_| is_of_use) {
            let ahead_ns = self.own.ahead_ns();
            self.clock.follow_known(now, own.known, ahead_ns, LocalTime(compared));
        }
        self.follow_stated(now);
    }

    /// Follows what the leader stated, unless what was known before is clearly better.
    fn follow_stated(&mut self, now: LocalTime) {
        let (Some((came, stated)), Some(relation)) = (self.stated, self.relation) else { return };
        let seen = stated.seen_by(&relation, now.0);
        if !seen.path.turns_at_most(self.fastest()) {
            self.clock.note_disruption(now);
            return;
        }
        let known = self.map().known;
        // The estimate of the newest relation is the best, also where its bound is a little worse.
        let is_fresh = now.0.saturating_sub(came.0) <= HOLD_NS;
        let (error_ns, known_ns) = (seen.bound.at(now.0), known.bound.at(now.0));
        if self.clock.is_synchronised() {
            let apart = seen.path.at(now.0).abs_diff(known.path.at(now.0));
            let contradicts = apart > error_ns.saturating_add(known_ns);
            if contradicts {
                self.clock.note_disruption(now);
            } else if error_ns > known_ns.saturating_add(if is_fresh { known_ns / 4 } else { 0 }) {
                return;
            }
        }
        self.clock.follow_known(now, seen, 0, came);
    }

    /// How fast group time may run against this raw clock by what any leader plans, in parts per billion: a clock that drifts
    /// from this one is slewed to another's.
    fn fastest(&self) -> u64 {
        let rates = self.own.rates(LocalTime(0));
        rates.slew().saturating_add(2 * rates.follower_growth())
    }
}

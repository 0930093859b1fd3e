//! What a member promised and refused (rules 2, 8 and 12 of `docs/views.md`), and what lets it promise.

use crate::ids::Epoch;
use crate::time::{LocalTime, hold};

/// A member's promises to follow the leaders of its views.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Promises {
    /// The epoch of the latest view that it entered or sealed.
    epoch: Epoch,
    /// It sealed that view, and refuses it.
    sealed: bool,
    /// It follows the leader of the view that it promised in last until then.
    until: LocalTime,
    followed: Epoch,
    /// The latest heartbeat of its view that it heard.
    heard: u64,
    /// The register held that view, and not as closing, at that time or later; counted from before
    /// the read was sent.
    confirmed: Option<(Epoch, LocalTime)>,
    /// It led this view alone, and knows of all that runs.
    settled: Option<Epoch>,
}

impl Promises {
    /// The latest view that it entered or sealed.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether it refuses that view.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Rule 12: everything up to this view is refused.
    pub(super) fn refused(&self) -> Epoch {
        let Epoch(epoch) = self.epoch;
        if self.sealed { self.epoch } else { Epoch(epoch.saturating_sub(1)) }
    }

    /// Until when the latest promise runs.
    pub(super) fn until(&self) -> LocalTime {
        self.until
    }

    /// Whether it does still.
    pub(super) fn run(&self, now: LocalTime) -> bool {
        self.until > now
    }

    /// The view in which that was given.
    pub(super) fn followed(&self) -> Epoch {
        self.followed
    }

    /// Takes a place in a view, and refuses all below.
    pub(super) fn enter(&mut self, view: Epoch) {
        (self.epoch, self.sealed) = (view, false);
    }

    /// Refuses its view from now on.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Refuses that view from now on, and all below.
    pub(super) fn seal_view(&mut self, view: Epoch) {
        (self.epoch, self.sealed) = (view, true);
    }

    /// A heartbeat of its view came. False if a later one did before.
    pub(super) fn hear(&mut self, seq: u64) -> bool {
        let is_news = seq > self.heard;
        self.heard = self.heard.max(seq);
        is_news
    }

    /// The same of a view that it has just entered.
    pub(super) fn hear_first(&mut self, seq: u64) {
        self.heard = seq;
    }

    /// Promises to follow the leader of its view.
    pub(super) fn promise(&mut self, until: LocalTime) {
        (self.until, self.followed) = (until, self.epoch);
    }

    /// What a leader promised itself ends with its resignation, and when its leader lease is over: it counts for nobody
    /// else. One that has run out is not given anew by that.
    pub(super) fn end(&mut self, now: LocalTime) {
        self.until = self.until.min(now);
    }

    /// Rule 8: the register held that view at that time.
    ///
    /// It says nothing good of an older one: the leader lease of a view that was replaced after everybody had
    /// waited must not come back.
    pub(super) fn confirm(&mut self, view: Epoch, at: LocalTime) {
        self.confirmed = self.confirmed.max(Some((view, at)));
    }

    /// Whether the register confirmed a view at that time or later.
    pub(super) fn are_confirmed_since(&self, since: LocalTime) -> bool {
        self.confirmed.is_some_and(|(_, at)| at >= since)
    }

    /// Rule 8: whether the register confirmed that view, or one before it, within `hold(E)`, and is not known
    /// to hold a later one. A confirmation stays good when a newer view begins: that view was written after the
    /// moment that the confirmation counts from.
    pub(super) fn are_confirmed(
        &self,
        now: LocalTime,
        view: Epoch,
        outage: std::time::Duration,
    ) -> bool {
        let outage = hold(outage);
        self.confirmed.is_some_and(|(epoch, at)| epoch <= view && at.after(outage) > now)
    }

    /// This member leads its view alone, and knows of all that runs.
    pub(super) fn settle(&mut self) {
        self.settled = Some(self.epoch);
    }

    /// There may be something that it does not know of.
    pub(super) fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Whether it knows of all that runs in that view.
    pub(super) fn is_settled(&self, view: Epoch) -> bool {
        self.settled == Some(view)
    }

    /// Leaves all views of one kind for those of the other: with an arbiter, or without. Those with one were
    /// refused up to `floor`.
    pub(super) fn change_sides(&mut self, floor: Option<Epoch>) {
        self.epoch = floor.unwrap_or(self.epoch);
        self.sealed = true;
        self.confirmed = None;
        self.settled = None;
    }
}

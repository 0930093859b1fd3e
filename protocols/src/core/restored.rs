//! A view that the register knows nothing of, because it was brought back to one before. Some member, or the
//! status of the resource, may still report it (rules 38 and 39).

use std::collections::VecDeque;
use std::time::Duration;

use super::interface::StatusEpoch;
use super::{Member, Nominator, Out, PeerMessage, Role, Service, send};
use crate::ids::Epoch;
use crate::policy::Timing;
use crate::record::Record;
use crate::time::LocalTime;

impl Record {
    /// What the view of that number names as its base if it is made from this. Before a record that was
    /// lost is followed, all has run out that there may have been.
    pub(super) fn is_followed_by(&self, next: Epoch) -> Epoch {
        if self.base_unknown { Epoch(next.0.saturating_sub(1)) } else { self.epoch }
    }

    /// Whether a view of that number is between this one and the one that it was made from.
    pub(super) fn forgets(&self, view: Epoch) -> bool {
        self.base.is_some_and(|base| base < view) && view < self.epoch
    }
}

/// The views that led to the present one, each made from the one before, as far as this member knows them: at
/// least two.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Lineage(VecDeque<Epoch>);

/// How many views are remembered. View changes come a second apart and more.
const REMEMBERED: usize = 32;

impl Lineage {
    /// A view begins here.
    pub(super) fn goes_on(&mut self, record: &Record) {
        if self.0.back() != record.base.as_ref() {
            self.0 = record.base.into_iter().collect();
        }
        self.0.push_back(record.epoch);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    /// Whether a view is not one of those, but later than the first of them.
    fn lacks(&self, view: Epoch) -> bool {
        self.0.front().is_some_and(|first| *first < view) && !self.0.contains(&view)
    }
}

impl Timing {
    /// How long it takes until nothing runs of a view of which nothing is known: its leader lease, and then its
    /// leases.
    fn all(&self) -> Duration {
        self.api_outage.saturating_add(self.leader_lease).saturating_add(self.member_lease)
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// The status of the resource says this now.
    pub(super) fn on_status(&mut self, now: LocalTime, status: StatusEpoch, out: &mut Out<S, N>) {
        if !self.is_advisory() {
            self.status.ceiling = self.status.ceiling.max(status.ceiling);
            self.hears_of_view(now, status.epoch, out);
        }
    }

    /// Rule 39: there is or was a view of that number.
    pub(super) fn hears_of_view(&mut self, now: LocalTime, view: Epoch, out: &mut Out<S, N>) {
        if self.is_advisory() || view.is_unarbitrated() {
            return;
        }
        let is_news = view > self.latest_known();
        self.status.epoch = self.status.epoch.max(view);
        match &mut self.role {
            Role::Candidate(candidate) => {
                if candidate.hears_of_view(view, is_news) {
                    self.begin_candidacy(now, None, out);
                }
            }
            Role::Leader(_) if self.lineage.lacks(view) => self.waits_for_the_unknown(now, out),
            Role::Leader(_)
            | Role::Joiner { .. }
            | Role::Follower
            | Role::Resigned(_)
            | Role::Gone => {}
        }
    }

    /// A view of which this member knows, and the one that led to this did not.
    pub(super) fn known_beside(&self, record: &Record) -> Option<Epoch> {
        let known = [self.status.epoch, self.promises.epoch(), self.promises.followed()];
        let forgotten = known.into_iter().filter(|view| record.forgets(*view));
        forgotten.max().filter(|_| !self.is_advisory())
    }

    /// What a candidate that asks to seal that view is to be notified of: another, of which something may run.
    pub(super) fn runs_beside(&self, now: LocalTime, record: &Record) -> Option<Epoch> {
        self.known_beside(record).filter(|_| self.unknown_until() > now)
    }

    /// A member that comes from another view than this one was made from reports it: its leader knows those between.
    pub(super) fn tell_what_was_followed(
        &self,
        now: LocalTime,
        record: &Record,
        out: &mut Out<S, N>,
    ) {
        let (followed, lists) = (self.promises.followed(), record.lists());
        let missed =
            record.base.is_some_and(|base| base != followed) && followed > Epoch::default();
        if let Some(leader) = record.leader.filter(|_| lists && missed)
            && self.unknown_until() > now
        {
            send(leader, PeerMessage::SealRefused { base: followed }, out);
        }
    }

    /// Until when something may run of the view that this member promised in last.
    fn unknown_until(&self) -> LocalTime {
        let known = self.record.as_ref().map_or(self.policy.timing, |known| known.timing);
        self.promises.until().after(known.all())
    }

    /// Nothing is newly granted until all has run out that a view which the register forgot may have given.
    pub(super) fn waits_for_the_unknown(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let wanted = self.policy.timing;
        let Some(leader) = self.leader() else { return };
        leader.prolong_grace(now.after(leader.timing().longest(wanted).all()));
        self.promises.unsettle();
        self.refresh_leader_lease(now, out);
    }

    /// Rules 38 and 39: which view keeps this member from entering this one. It entered another of the same
    /// number, or one that the base of this does not know of; and its promise there runs, or the leader
    /// of this one, which states how long it grants nothing, does not wait for what the other gave.
    pub(super) fn keeps_to_a_view(
        &self,
        now: LocalTime,
        record: &Record,
        grace: Duration,
    ) -> Option<Epoch> {
        if self.is_advisory() {
            return None;
        }
        let follows = self.promises.run(now);
        let waits = record.is_advisory() || grace >= now.until(self.unknown_until());
        let beside = self.known_beside(record).filter(|_| follows || !waits);
        let entered = Some(self.promises.epoch()).filter(|mine| *mine == record.epoch);
        beside.or(entered)
    }
}

//! What extends the holds of a member, all at once, and what ends them.

use super::super::message::Extended;
use super::own::{Bond, Hold};
use super::{Heard, Holds, Lease, Notice};
use crate::ids::{FencingToken, HoldName};
use crate::policy::LeaseClass;
use crate::time::LocalTime;

/// What extends the holds of this member, all at once.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct OwnLease {
    /// If it follows: what was acknowledged of its promises.
    pub(super) member: Lease,
    /// If it leads: until when it has its leader lease.
    pub(super) leader: LocalTime,
    /// And for how long those of its holds last that others have heard of.
    heard: Heard,
    /// No own hold that it does not list had a lease from before it led that lasts longer.
    pub(super) older: LocalTime,
    /// When the latest heartbeat was sent that another member answered and knows the list of.
    pub(super) listened: LocalTime,
    /// No hold was ended because one of these is over.
    runs: bool,
    leads_run: bool,
    heard_runs: bool,
}

impl OwnLease {
    /// Its ends that have yet to be seen to.
    fn ends(&self) -> impl Iterator<Item = LocalTime> {
        let all = self.runs.then(|| self.member.until.max(self.leader));
        let leads = self.leads_run.then(|| self.member.leads_until.max(self.leader));
        all.into_iter().chain(leads).chain(self.heard_runs.then_some(self.heard.until))
    }

    /// Takes note of those ends that are over. Whether there are any.
    fn ends_by(&mut self, now: LocalTime) -> bool {
        let over = self.ends().any(|end| end <= now);
        self.runs &= self.member.until.max(self.leader) > now;
        self.leads_run &= self.member.leads_until.max(self.leader) > now;
        self.heard_runs &= self.heard.until > now;
        over
    }
}

impl Hold {
    /// Until when it lasts.
    pub(super) fn deadline(&self, lease: &OwnLease) -> LocalTime {
        let extended = match self.bond {
            Bond::Lease if !self.refused && self.since < lease.member.stamp => {
                lease.member.until(self.class)
            }
            Bond::LeaderLease if self.listed && self.since < lease.heard.stamp => {
                lease.leader.max(lease.heard.until)
            }
            Bond::LeaderLease => lease.leader,
            Bond::Lease | Bond::Orphan => self.until,
        };
        self.until.max(extended)
    }
}

impl Holds {
    /// Whether nothing extends the holds of that class at the moment: what of it this member waits for may have
    /// been passed over since.
    pub(in crate::core) fn has_lapsed(&self, now: LocalTime, class: LeaseClass) -> bool {
        let Some(seat) = &self.seat else { return false };
        // Nobody was admitted for this member before it was heard of in this view.
        let first = self.lease.member == Lease::default();
        let begun = seat.since.after(seat.holds_for(class));
        let until = if first { begun } else { self.lease.member.until(class) };
        until <= now
    }

    /// The leader extended what a promise of this member listed (rule 24): every hold that it had
    /// then.
    pub(in crate::core) fn extend(&mut self, extended: &Extended) -> Option<Lease> {
        let seat = self.seat.as_ref()?;
        let deadline = |class| extended.stamp.after(seat.holds_for(class));
        let lease = &mut self.lease.member;
        lease.until = lease.until.max(deadline(LeaseClass::Member));
        lease.leads_until = lease.leads_until.max(deadline(LeaseClass::Leader));
        lease.stamp = lease.stamp.max(extended.stamp);
        (self.lease.runs, self.lease.leads_run) = (true, true);
        Some(self.lease.member)
    }

    /// What the leader does not know as held ends when it would have, without this lease.
    pub(in crate::core) fn set_refused(
        &mut self,
        now: LocalTime,
        refused: &[(HoldName, FencingToken)],
    ) {
        let before = std::mem::take(&mut self.refused);
        for (name, token) in refused {
            let Some(hold) = self.all.get_mut(name).and_then(|held| held.hold.as_mut()) else {
                continue;
            };
            if hold.bond == Bond::Lease && token.may_become(hold.token) {
                if !hold.refused {
                    hold.until = hold.deadline(&self.lease);
                    hold.refused = true;
                    self.deadlines.insert((hold.until, name.clone()));
                    let (name, listed) = (name.clone(), hold.listed);
                    self.notices.push_back(Notice::Renewed { name, renewed: false, listed });
                }
                self.refused.insert(name.clone());
            }
        }
        for name in before.difference(&self.refused) {
            let hold = self.all.get_mut(name).and_then(|held| held.hold.as_mut());
            if let Some(hold) = hold.filter(|hold| hold.refused) {
                hold.refused = false;
                // From the next promise on, as if it had begun now.
                hold.since = now;
                let (name, listed) = (name.clone(), hold.listed);
                self.notices.push_back(Notice::Renewed { name, renewed: true, listed });
            }
        }
    }

    /// The leader lease of this member, which leads, lasts until then (rule 22). A hold that others have
    /// heard of lasts for a lease; any other ends with the leader lease, but for one that was carried into
    /// the view, which keeps its own deadline until the leader lease lasts longer. Returns the lease, if that
    /// has changed.
    pub(in crate::core) fn set_leader_lease(
        &mut self,
        now: LocalTime,
        until: LocalTime,
    ) -> Option<Lease> {
        // A deadline that the application was notified of is never taken back: a lease from before
        // this member led runs out by itself (rule 21).
        if until <= now {
            self.lease.leader = until;
            return None;
        }
        let mut heard = self.lease.heard;
        if self.lease.listened > LocalTime::default() {
            let until = until.after(self.longer_than_leader_lease());
            heard = Heard { stamp: self.lease.listened, until: until.max(heard.until) };
        }
        if (until, heard) == (self.lease.leader, self.lease.heard) {
            return None;
        }
        (self.lease.leader, self.lease.heard) = (until, heard);
        (self.lease.runs, self.lease.leads_run, self.lease.heard_runs) =
            (true, true, heard.until > now);
        // Also what has begun at this very moment.
        Some(Lease { stamp: LocalTime(now.0 + 1), until, leads_until: until, heard })
    }

    /// Whether an own hold of this member, which leads, lasts longer than the leader lease: a lease from
    /// before it led, which its application was notified of.
    pub(in crate::core) fn has_older_leases(&self, now: LocalTime) -> bool {
        self.own_all().filter_map(|(_, held)| held.hold).any(|hold| {
            hold.bond == Bond::LeaderLease
                && hold.deadline(&self.lease) > now.max(self.lease.leader)
        })
    }

    /// The holds end when they would have, whatever lease is yet to come.
    pub(super) fn end_lease(&mut self) {
        for name in &self.own {
            let hold = self.all.get_mut(name).and_then(|held| held.hold.as_mut());
            if let Some(hold) = hold {
                hold.until = hold.deadline(&self.lease);
                hold.refused = false;
                self.deadlines.insert((hold.until, name.clone()));
            }
        }
        self.lease = OwnLease::default();
    }

    /// Ends the holds whose deadline has passed.
    pub(in crate::core) fn end_what_is_over(&mut self, now: LocalTime) {
        if self.lease.ends_by(now) {
            for name in &self.own {
                let Some(hold) = self.all.get(name).and_then(|held| held.hold) else { continue };
                self.deadlines.insert((hold.deadline(&self.lease), name.clone()));
            }
        }
        while let Some((at, name)) = self.deadlines.first().cloned().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, name.clone()));
            let hold = self.all.get(&name).and_then(|held| held.hold);
            match hold.map(|hold| hold.deadline(&self.lease)) {
                Some(deadline) if deadline <= now => self.lose(now, name),
                // An end of the lease is seen to of itself.
                Some(deadline) if self.lease.ends().all(|end| deadline != end) => {
                    self.deadlines.insert((deadline, name));
                }
                Some(_) | None => {}
            }
        }
    }

    /// When to look again.
    pub(in crate::core) fn next_end(&self) -> Option<LocalTime> {
        let first = self.deadlines.first().map(|(at, _)| *at);
        let ends = self.lease.ends().filter(|_| !self.own.is_empty());
        first.into_iter().chain(ends).min()
    }

    /// Ends a hold that nobody gave back.
    fn lose(&mut self, now: LocalTime, name: HoldName) {
        let delay = self.delay(&name);
        let Some(held) = self.all.get_mut(&name) else { return };
        let Some(lost) = held.hold.take() else { return };
        if held.kept {
            // Nobody made use of it.
            self.note_own(&name);
            return self.notice(Notice::KeptLapsed(name));
        }
        let (claimed, known) = (held.claim.take().is_some(), lost.bond != Bond::Orphan);
        if known {
            held.lost = Some(lost.token);
        }
        self.strike_own(now, &name);
        if known {
            // Nobody else can take it out of the table of a leader, or notify the others (rule 28).
            self.close(now, &name, lost.deadline(&self.lease).after(delay));
        }
        self.note_own(&name);
        self.notice(Notice::Lapsed { name, claimed, known });
    }
}

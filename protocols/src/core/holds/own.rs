//! The member's own holds, from entry to their end.

use super::super::message::{Changes, ListItem, Note};
use super::map::Touched;
use super::{Holds, NameState, Term};
use crate::ids::{Epoch, FencingToken, HoldName, RequestNumber};
use crate::policy::LeaseClass;
use crate::time::LocalTime;

/// The application of this member wants something, or has it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Claim {
    /// When it asked.
    pub since: LocalTime,
    /// On whose behalf.
    pub note: Note,
}

/// A hold of this member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When this member entered.
    pub(super) entered: LocalTime,
    /// Since when the lease extends it: what was promised before does not mention it.
    pub(super) since: LocalTime,
    /// Until when it lasts, if no lease extends it. A deadline that has passed is final (rule 7).
    pub(super) until: LocalTime,
    pub(super) bond: Bond,
    /// The leader does not extend it.
    pub(super) refused: bool,
    /// A leader lists it: it is one that leaders grant, and may outlast the leader lease.
    pub(super) listed: bool,
    pub(super) class: LeaseClass,
}

/// What a hold lives on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Bond {
    /// The leader extends it.
    Lease,
    /// This member leads: it ends with the leader lease, or a lease later if another heard of it.
    LeaderLease,
    /// The present view does not know it: it runs out.
    Orphan,
}

/// This member has just entered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// With this token; nothing where nothing arbitrates.
    pub token: Option<FencingToken>,
    /// The view.
    pub epoch: Epoch,
    /// Until when it is safe, and what extends it.
    pub term: Term,
}

/// What a service does with its member's own holds.
impl Holds {
    /// The application wants it.
    pub fn claim(&mut self, now: LocalTime, name: &HoldName, note: Note) {
        self.held(name).claim = Some(Claim { since: now, note });
        self.own.insert(name.clone());
    }

    /// The application gives it back, or no longer wants it. False if it did not claim it.
    pub fn withdraw(&mut self, name: &HoldName) -> bool {
        let claim = self.all.get_mut(name).and_then(|held| held.claim.take());
        self.note_own(name);
        claim.is_some()
    }

    /// What the application claims.
    #[must_use]
    pub fn claim_of(&self, name: &HoldName) -> Option<&Claim> {
        self.all.get(name)?.claim.as_ref()
    }

    /// What the application claims and this member has not got, as far as it was looked at lately.
    pub fn waiting(&mut self) -> impl Iterator<Item = (&HoldName, &Claim)> {
        self.look_at_touched();
        let claim = |name| Some((name, self.all.get(name)?.claim.as_ref()?));
        self.waiting.iter().filter_map(claim)
    }

    /// This member stands in line, by that request, or does not; and keeps what nobody makes use of.
    pub fn stands(&mut self, name: &HoldName, waits: Option<RequestNumber>, kept: bool) {
        let known = self.all.get(name).map_or((None, false), |held| (held.waits, held.kept));
        if known != (waits, kept) {
            let held = self.held(name);
            (held.waits, held.kept) = (waits, kept);
        }
    }

    /// This member was admitted (rule 27): it holds for as long as its lease runs, or its leader lease.
    /// `granted`: the token before, if the leader granted it. Nothing if no lease runs, or
    /// nothing is granted at the moment.
    pub fn take(
        &mut self,
        now: LocalTime,
        name: &HoldName,
        granted: Option<FencingToken>,
    ) -> Option<Taken> {
        let seat = self.seat.as_ref()?;
        let (rank, epoch, leads) = (seat.rank, seat.view.epoch, seat.leads());
        let (advisory, class) = (self.is_advisory(), self.class(name));
        let (listed, until) = (self.is_listed(name), self.lease_until(name));
        let open = self.admission.open;
        // What this member knows to be the highest may be of another name, and above what the leader counted.
        let before = granted.unwrap_or_else(|| self.highest(name));
        // The member that granted it saw to the ceiling, or admission.
        let token = before.successor(Epoch(u64::MAX)).filter(|_| until > now && open)?;
        let bond = if leads { Bond::LeaderLease } else { Bond::Lease };
        let held = self.held(name);
        held.highest = held.highest.max(token);
        let (entered, since, refused) = (now, now, false);
        held.hold = Some(Hold { token, entered, since, until, bond, refused, listed, class });
        self.own.insert(name.clone());
        if leads && granted.is_none() {
            self.note_holder(now, rank, self.me, name, token);
        }
        self.deadlines.insert((until, name.clone()));
        let term = Term::new(since, until, listed).of(class);
        Some(Taken { token: (!advisory).then_some(token), epoch, term })
    }

    /// This member enters once more on the same grant, with the next token. Nothing if that is over, or used
    /// up: then it is gone.
    pub fn take_again(&mut self, now: LocalTime, name: &HoldName) -> Option<Taken> {
        let epoch = self.seat.as_ref()?.view.epoch;
        let (advisory, lease) = (self.is_advisory(), self.lease);
        let held = self.all.get_mut(name)?;
        let next = |hold: Hold| Some(Hold { token: hold.token.next_of_block()?, ..hold });
        let runs = |hold: &Hold| hold.deadline(&lease) > now;
        let Some(again) = held.hold.filter(runs).and_then(next) else {
            held.hold = None;
            self.note_own(name);
            return None;
        };
        let (token, deadline) = (again.token, again.deadline(&lease));
        held.highest = held.highest.max(token);
        held.hold = Some(Hold { entered: now, until: deadline, ..again });
        self.deadlines.insert((deadline, name.clone()));
        let term = Term::new(again.since, deadline, again.listed).of(again.class);
        Some(Taken { token: (!advisory).then_some(token), epoch, term })
    }

    /// The application gives it back, and another of this member's takes its place with the next token. Nothing
    /// if it is over, used up, or not extended: then it is as before.
    pub fn pass(&mut self, now: LocalTime, name: &HoldName, note: &Note) -> Option<Taken> {
        let may = self.claim_of(name).is_some()
            && self.is_held(name)
            && !self.refused.contains(name)
            && self.may_take_again(now, name);
        if !may {
            return None;
        }
        self.claim(now, name, note.clone());
        if !self.is_led(name) {
            return self.take(now, name, None);
        }
        let taken = self.take_again(now, name)?;
        if self.leads() {
            self.note_again(now, name, note);
        }
        Some(taken)
    }

    /// Whether what this member keeps is of use for another entry.
    #[must_use]
    pub fn may_take_again(&self, now: LocalTime, name: &HoldName) -> bool {
        let usable =
            |hold: Hold| hold.deadline(&self.lease) > now && hold.token.next_of_block().is_some();
        self.all.get(name).and_then(|held| held.hold).is_some_and(usable)
    }

    /// Whether this member, which has left, may keep what it has at hand.
    #[must_use]
    pub fn may_keep(&self, now: LocalTime, name: &HoldName) -> bool {
        let may = |hold: Hold| hold.bond == Bond::Lease && hold.deadline(&self.lease) > now;
        self.all.get(name).and_then(|held| held.hold).is_some_and(may)
    }

    /// Whether this member has it at hand, also what the view does not know of.
    #[must_use]
    pub fn is_at_hand(&self, name: &HoldName) -> bool {
        self.all.get(name).is_some_and(|held| held.hold.is_some())
    }

    /// Whether this member has it at hand, and the view knows.
    #[must_use]
    pub fn is_held(&self, name: &HoldName) -> bool {
        self.known(name).is_some()
    }

    /// Until when this member holds it, if it is not over.
    #[must_use]
    pub fn lasts_until(&self, now: LocalTime, name: &HoldName) -> Option<LocalTime> {
        let deadline = self.all.get(name)?.hold?.deadline(&self.lease);
        (deadline > now).then_some(deadline)
    }

    /// Until when this member holds it, if the view knows that and it is not over.
    #[must_use]
    pub fn runs_until(&self, now: LocalTime, name: &HoldName) -> Option<LocalTime> {
        let deadline = self.known(name)?.deadline(&self.lease);
        (deadline > now).then_some(deadline)
    }

    /// The same, if it is a follower's and its leader extends it.
    #[must_use]
    pub fn is_extended_until(&self, now: LocalTime, name: &HoldName) -> Option<LocalTime> {
        let lease = self.known(name).is_some_and(|hold| hold.bond == Bond::Lease);
        self.runs_until(now, name).filter(|_| lease && !self.refused.contains(name))
    }

    /// The token of what this member holds, and since when it does.
    #[must_use]
    pub fn entered(&self, name: &HoldName) -> Option<(FencingToken, LocalTime)> {
        self.all.get(name)?.hold.map(|hold| (hold.token, hold.entered))
    }

    /// This member has it no more. Whether it had.
    pub fn put_down(&mut self, name: &HoldName) -> bool {
        let hold = self.all.get_mut(name).and_then(|held| held.hold.take());
        self.note_own(name);
        hold.is_some()
    }

    /// The same, of what the view does not know alone.
    pub fn put_down_orphan(&mut self, name: &HoldName) -> bool {
        let hold = self.all.get(name).and_then(|held| held.hold);
        hold.is_some_and(|hold| hold.bond == Bond::Orphan) && self.put_down(name)
    }

    /// What this member keeps, and nobody makes use of.
    #[must_use]
    pub fn kept(&self) -> Vec<HoldName> {
        let kept = self.own_all().filter(|(_, held)| held.claim.is_none() || held.kept);
        kept.map(|(name, _)| name.clone()).collect()
    }

    /// This member gives it back: among the members, the leader's table has it no more.
    pub fn strike_own(&mut self, now: LocalTime, name: &HoldName) {
        if !self.is_led(name) {
            self.strike(now, self.me, name);
        }
    }

    fn known(&self, name: &HoldName) -> Option<Hold> {
        self.all.get(name)?.hold.filter(|hold| hold.bond != Bond::Orphan)
    }

    pub(super) fn note_own(&mut self, name: &HoldName) {
        let own = |held: &NameState| held.claim.is_some() || held.hold.is_some();
        if !self.all.get(name).is_some_and(own) {
            self.own.remove(name);
        }
    }
}

/// What the core does with them.
impl Holds {
    /// How many this member holds, and how many it waits for.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::core) fn counts(&self) -> (usize, usize) {
        let claims = self.own_all().filter(|(_, held)| held.claim.is_some());
        let holds = claims.clone().filter(|(_, held)| held.hold.is_some() && !held.kept).count();
        (holds, claims.count() - holds)
    }

    /// All that this member holds, also what the present view does not know of, and what it lost so lately
    /// that nobody else may have it.
    pub(in crate::core) fn running(&self, now: LocalTime) -> Vec<(HoldName, FencingToken)> {
        let token = |held: &NameState| {
            let runs = |hold: &Hold| hold.deadline(&self.lease) > now && !held.kept;
            let running = held.hold.filter(runs);
            running.map(|hold| hold.token).or_else(|| held.lost.filter(|_| held.closed_until > now))
        };
        self.all.iter().filter_map(|(name, held)| Some((name.clone(), token(held)?))).collect()
    }

    /// Whether this member holds it, or lost it so lately that nobody else may have it.
    pub(in crate::core) fn keeps_out(&self, now: LocalTime, name: &HoldName) -> bool {
        let runs =
            |held: &NameState| held.hold.is_some_and(|hold| hold.deadline(&self.lease) > now);
        self.all.get(name).is_some_and(|held| runs(held) || held.closed_until > now)
    }

    /// What has changed of what this member holds and waits for, for a promise.
    pub(in crate::core) fn changes(&mut self) -> Changes {
        self.look_at_touched();
        self.own_list.changes(self.leader_knows)
    }

    /// The leader knows of so many changes.
    pub(in crate::core) fn are_known(&mut self, changes: u64) {
        self.leader_knows = changes;
        self.own_list.forget(changes);
    }

    /// Brings up to date what is kept of those own names that may have changed.
    pub(super) fn look_at_touched(&mut self) {
        let names = match self.all.take_touched() {
            Touched::These(names) => names,
            Touched::All => {
                let listed = self.own_list.names();
                self.own.iter().chain(&self.waiting).chain(listed).cloned().collect()
            }
        };
        let (in_view, leads) = (self.seat.is_some(), self.leads());
        for name in names {
            let held = self.all.get(&name).filter(|_| self.own.contains(&name));
            let waits = held.is_some_and(|held| held.claim.is_some() && held.hold.is_none());
            if in_view {
                let item = held.map(|held| {
                    if leads { held.listed_item() } else { held.own_item(self.is_led(&name)) }
                });
                self.own_list.set(&name, item.unwrap_or_default());
            }
            if !waits {
                self.waiting.remove(&name);
            } else if !self.waiting.contains(&name) {
                self.waiting.insert(name);
            }
        }
    }
}

impl NameState {
    /// How it stands in the list of a member.
    fn own_item(&self, led: bool) -> ListItem {
        let hold = self.hold.filter(|hold| hold.bond != Bond::Orphan);
        let waits = self.waits.map(|number| {
            // Among the members a claim is distinguished by when it began.
            let since = self.claim.as_ref().map(|claim| claim.since.0).unwrap_or_default();
            if led { number } else { RequestNumber(since) }
        });
        ListItem { holds: hold.map(|hold| hold.token), waits }
    }

    /// How it stands in the list of a leader.
    fn listed_item(&self) -> ListItem {
        let hold = self.hold.filter(|hold| hold.bond == Bond::LeaderLease && hold.listed);
        ListItem { holds: hold.map(|hold| hold.token), waits: None }
    }
}

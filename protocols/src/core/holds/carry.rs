//! What of the holds is carried from one view into the next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::message::{ListItem, Note, Table, TableHold};
use super::changes::{MemberList, OwnList};
use super::entries::TableEntry;
use super::listed::{Listing, Waiter};
use super::own::Bond;
use super::table::NOBODY;
use super::{Admission, Holds, NameState, Notice};
use crate::ids::{FencingToken, HoldName, Incarnation, MemberId, RequestNumber};
use crate::policy::LeaseClass;
use crate::record::Record;
use crate::time::{LocalTime, wait_for};
use crate::view::Carried;

/// What a member reports when it seals a view.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct SealReport {
    pub(in crate::core) holds: Vec<(HoldName, FencingToken, Note)>,
    pub(in crate::core) waits: Vec<(HoldName, Duration)>,
}

/// Who waits for what a leader grants, by name, the first in line first.
pub type Lines = BTreeMap<HoldName, Vec<MemberId>>;

impl Holds {
    /// What this member holds and wants: its part of a seal.
    pub(in crate::core) fn report(&self, now: LocalTime) -> SealReport {
        let mut report = SealReport::default();
        for (name, held) in self.own_all() {
            let Some(claim) = &held.claim else { continue };
            match held.hold.filter(|hold| hold.deadline(&self.lease) > now && !held.kept) {
                Some(hold) if hold.bond == Bond::Lease => {
                    report.holds.push((name.clone(), hold.token, claim.note.without_metadata()));
                }
                Some(_) => {}
                None => report.waits.push((name.clone(), now - claim.since)),
            }
        }
        report
    }

    /// A leader's whole table, for its successor. Of an entry that has ended only the closure is left.
    pub(in crate::core) fn table(&self, now: LocalTime, mut lines: Lines) -> Table {
        let mut table = Table::default();
        let Some(seat) = &self.seat else { return table };
        for (name, held) in self.all.iter() {
            let entry = held.entry.as_ref().filter(|entry| self.runs(name, held, entry, now));
            let hold = entry.map(|entry| TableHold {
                name: name.clone(),
                holder: entry.holder,
                token: entry.token,
                rest: self.rest(now, name, held, entry),
                note: entry.note.without_metadata(),
            });
            table.holds.extend(hold.or_else(|| held.closure(now, name)));
            if !seat.is_led(name) {
                lines.insert(name.clone(), held.waiting_members(seat.rank));
            }
        }
        for (name, line) in lines {
            let waits: Vec<Incarnation> =
                line.into_iter().filter_map(|rank| seat.member(rank)).collect();
            if !waits.is_empty() {
                table.waits.push((name, waits));
            }
        }
        table
    }

    /// For how much longer a hold keeps others out that nobody extends. The leader's own are not
    /// counted by its table, but for leads: this member resigns, and they end as they would now.
    pub(super) fn rest(
        &self,
        now: LocalTime,
        name: &HoldName,
        held: &NameState,
        entry: &TableEntry,
    ) -> Option<Duration> {
        // A member of the view may hold what another's clock keeps closed for the holder before it.
        let until = if self.is_of_view(entry.holder) {
            self.busy_until(name, entry).after(self.delay(name))
        } else {
            self.busy_until(name, entry).max(held.closed_until)
        };
        if entry.holder != self.me {
            return Some(now.until(until));
        }
        let lead = held.hold.filter(|hold| hold.class == LeaseClass::Leader)?;
        Some(wait_for(now.until(lead.deadline(&self.lease))).saturating_add(self.delay(name)))
    }

    /// Adds to the table that a view begins with what this member, which leads it, knows besides: which
    /// names are closed, and for how long the members that were left out keep others out.
    pub(in crate::core) fn complete(&self, now: LocalTime, record: &Record, table: &mut Table) {
        for held in &mut table.holds {
            if record.rank(held.holder).is_none() {
                held.rest = Some(held.rest_in(record));
            }
        }
        let listed: BTreeSet<HoldName> = table.holds.iter().map(|held| held.name.clone()).collect();
        let others = self.all.iter().filter(|(name, _)| !listed.contains(*name));
        table.holds.extend(others.filter_map(|(name, held)| held.closure(now, name)));
    }

    /// Whether an entry may still be believed in. Of its own holds the leader itself knows best.
    fn runs(&self, name: &HoldName, held: &NameState, entry: &TableEntry, now: LocalTime) -> bool {
        if entry.holder == self.me {
            held.hold.is_some_and(|hold| hold.deadline(&self.lease) > now)
        } else {
            self.busy_until(name, entry) > now
        }
    }

    /// This member resigned, or was deposed (rule 22): its own holds go on as a lease until the
    /// deadline that their applications were notified of.
    pub(in crate::core) fn resign(&mut self) {
        self.end_lease();
        for name in &self.own {
            let hold = self.all.get_mut(name).and_then(|held| held.hold.as_mut());
            if let Some(hold) = hold.filter(|hold| hold.bond == Bond::LeaderLease) {
                hold.bond = Bond::Lease;
            }
        }
    }

    /// An arbiter takes over where there was none: advisory holds end. What is waited for stays.
    pub(in crate::core) fn lose_all(&mut self) {
        let lost = |held: &NameState| held.claim.is_some() && held.hold.is_some() && !held.kept;
        let lost = self.own_all().filter(|(_, held)| lost(held));
        for name in lost.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.own.remove(&name);
            if let Some(held) = self.all.get_mut(&name) {
                held.hold = None;
                held.claim = None;
            }
            self.notice(Notice::Void(name));
        }
    }

    /// From now on nothing of the view is sent or heard. Claims and holds stay, and what is closed
    /// stays closed. What was only kept goes with the view.
    pub(in crate::core) fn leave_view(&mut self) {
        self.end_lease();
        self.notices.retain(Notice::outlives_the_view);
        for name in self.kept() {
            self.put_down(&name);
        }
        self.keep_notes();
        self.seat = None;
        self.heard.clear();
        self.silent.clear();
        self.admission = Admission::default();
        self.due.clear();
        self.outsiders_until = LocalTime::default();
        self.highest = FencingToken::default();
        self.listings.clear();
        self.listed = 0;
        self.leases.clear();
        self.leases_last_until = LocalTime::default();
        self.refused.clear();
        self.own_list = OwnList::default();
        self.leader_knows = 0;
        self.listeners.clear();
        self.all.every().retain(|_, held| {
            held.claim.is_some() || held.hold.is_some() || held.closed_until != LocalTime::default()
        });
        for held in self.all.every().values_mut() {
            held.entry = None;
            held.notes.clear();
            held.waiters.clear();
            held.reserved = None;
            (held.waits, held.kept) = (None, false);
        }
    }

    /// Enters a view. Returns who holds and who waits, by name, for the service to begin with.
    pub(in crate::core) fn enter(
        &mut self,
        now: LocalTime,
        record: &Record,
        carried: &Table,
    ) -> BTreeMap<HoldName, Carried> {
        self.seat = record.seat(self.me, now);
        self.policy.clone_from(&record.policy);
        self.floor = FencingToken::before(record.epoch);
        self.highest = self.floor;
        for held in self.all.every().values_mut() {
            held.highest = self.floor;
            held.seen = FencingToken::default();
            held.moved = now;
        }
        self.keep_closed(now);
        self.begin_lists(record, carried);
        let carried = &self.with_own(now, carried);
        if self.leads() {
            self.seed_table(now, record, carried);
        }
        self.begin_notes(record.leader);
        let mut states: BTreeMap<HoldName, Carried> = BTreeMap::new();
        for held in &carried.holds {
            states.entry(held.name.clone()).or_default().holder = record.rank(held.holder);
        }
        for (name, waits) in &carried.waits {
            let state = states.entry(name.clone()).or_default();
            // A member that lost it and asked for it anew asks once more: it is known as the holder.
            let ranks = waits.iter().filter_map(|member| record.rank(*member));
            state.waiting = ranks.filter(|rank| state.holder != Some(*rank)).collect();
        }
        self.bind_holds(now, carried);
        self.close_for_outsiders(now, record, carried);
        states
    }

    /// Rule 30: what a member knows to be closed stays so in the next view.
    fn keep_closed(&mut self, now: LocalTime) {
        for (name, held) in self.all.every() {
            if held.closed_until > now {
                self.due.insert((held.closed_until, name.clone()));
            } else if held.closed_until != LocalTime::default() {
                held.closed_until = LocalTime::default();
                held.lost = None;
                self.notices.push_back(Notice::Idle(name.clone()));
            }
        }
    }

    /// Rules 20 and 30: a process that is not in the view and may hold something keeps the others out of it.
    /// Each member takes note of it: it may be the next that leads.
    fn close_for_outsiders(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in &carried.holds {
            if record.rank(held.holder).is_none() {
                self.close(now, &held.name, now.after(held.rest_in(record)));
            }
        }
    }

    /// What this member, or, if this member leads, what each other lists at the start of a view: as the table
    /// has it, so that only what differs is to be sent.
    fn begin_lists(&mut self, record: &Record, carried: &Table) {
        let leads = self.leads();
        let mut lists: BTreeMap<Incarnation, MemberList> = record
            .incarnations()
            .filter(|member| leads != (*member == self.me))
            .map(|member| (member, MemberList::default()))
            .collect();
        for held in &carried.holds {
            if let Some(list) = lists.get_mut(&held.holder) {
                list.set(&held.name, ListItem { holds: Some(held.token), waits: None });
            }
        }
        for (name, waits) in &carried.waits {
            for member in waits {
                if let Some(list) = lists.get_mut(member) {
                    let waits = Some(RequestNumber::default());
                    list.set(name, ListItem { waits, ..list.get(name) });
                }
            }
        }
        if !leads {
            let own = lists.remove(&self.me);
            return self.own_list = OwnList::begin(own.unwrap_or_default());
        }
        for (member, list) in lists {
            let Some(rank) = record.rank(member) else { continue };
            self.listed += list.len();
            self.listings.insert(rank, Listing::begin(list));
        }
    }

    /// The leader's table at the start of a view.
    fn seed_table(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in carried.holds.iter().filter(|held| !held.is_closure()) {
            // What this member gave back or lost since, nobody else would take out of its table. A coordinator
            // does when it works off what is its own.
            let mine = held.holder == self.me && !self.is_led(&held.name);
            if mine && !self.is_at_hand(&held.name) {
                continue;
            }
            // No lease is longer than the member lease; the rest may be, by the delay of a name.
            let member_lease = record.timing.member_lease;
            let busy_until =
                now.after(held.rest.map_or(member_lease, |rest| rest.min(member_lease)));
            if record.rank(held.holder).is_none() {
                // It cannot renew, and runs out.
                self.outsiders_until = self.outsiders_until.max(busy_until);
            }
            self.due.insert((busy_until, held.name.clone()));
            let entry = TableEntry {
                holder: held.holder,
                token: held.token,
                busy_until,
                renewed: false,
                since: now,
                note: held.note.clone(),
                granted: None,
            };
            self.held(&held.name).entry = Some(entry);
        }
        for (name, waits) in &carried.waits {
            if self.is_led(name) {
                continue;
            }
            for (place, rank) in (0..).zip(waits.iter().filter_map(|member| record.rank(*member))) {
                if Some(rank) != record.rank(self.me) {
                    let waiter = Waiter { since: now, place, number: None };
                    self.held(name).waiters.insert(rank, waiter);
                }
            }
        }
    }

    /// A hold that the view knows goes on; another runs out (rule 24).
    fn bind_holds(&mut self, now: LocalTime, carried: &Table) {
        let (me, leads, policy) = (self.me, self.leads(), &self.policy);
        let known: BTreeMap<&HoldName, FencingToken> = carried
            .holds
            .iter()
            .filter(|held| held.holder == me)
            .map(|held| (&held.name, held.token))
            .collect();
        for name in &self.own {
            let Some(hold) = self.all.get_mut(name).and_then(|held| held.hold.as_mut()) else {
                continue;
            };
            // It may have entered again, unknown to the leader of the view before (rule 32).
            let is_known = known.get(name).is_some_and(|token| token.may_become(hold.token));
            let class = policy.lease_class(name.as_str());
            let listed = policy.is_led(name.as_str()) && class == LeaseClass::Member;
            let was = (hold.bond != Bond::Orphan, std::mem::replace(&mut hold.listed, listed));
            hold.bond = match (is_known, leads) {
                (true, true) => Bond::LeaderLease,
                (true, false) => Bond::Lease,
                (false, _) => Bond::Orphan,
            };
            if hold.bond == Bond::LeaderLease && !listed {
                self.lease.older = self.lease.older.max(hold.until);
            }
            if (is_known, listed) != was {
                hold.since = now;
                let (name, renewed) = (name.clone(), is_known);
                self.notices.push_back(Notice::Renewed { name, renewed, listed });
            }
        }
    }
}

impl NameState {
    /// What is reported to the next view of a name that is closed though nobody holds it.
    fn closure(&self, now: LocalTime, name: &HoldName) -> Option<TableHold> {
        (self.closed_until > now).then(|| TableHold {
            name: name.clone(),
            holder: NOBODY,
            token: self.spent(),
            rest: Some(now.until(self.closed_until)),
            note: Note::default(),
        })
    }
}

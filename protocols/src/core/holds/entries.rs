//! The leader's part: the table of holders and their leases, and admission.

use std::time::Duration;

use super::super::message::{self, Note};
use super::{Holds, NameState, Notice};
use crate::ids::{Epoch, FencingToken, HoldName, Incarnation, MemberId, RequestNumber};
use crate::time::LocalTime;

/// The leader's knowledge of the holder of something.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct TableEntry {
    pub(super) holder: Incarnation,
    pub(super) token: FencingToken,
    /// Until when it keeps others out, if its holder's lease does not extend it for longer.
    pub(super) busy_until: LocalTime,
    /// Its holder lists it, so that the lease of that member extends it.
    pub(super) renewed: bool,
    pub(super) since: LocalTime,
    pub(super) note: Note,
    /// The request that was granted in this view, and the token before this one.
    pub(super) granted: Option<(RequestNumber, FencingToken)>,
}

/// Whether anything is granted in the view.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Admission {
    /// By the leader's own knowledge; elsewhere by its latest heartbeat.
    pub(super) open: bool,
    /// By the leader's latest heartbeat, the group is full.
    pub(super) full: bool,
    /// Since when it is open, at the leader.
    pub(super) opened: LocalTime,
}

/// Tokens that a member may use without asking.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Reserved {
    holder: MemberId,
    /// The request that was granted.
    number: RequestNumber,
    /// The token of the grant.
    first: FencingToken,
}

impl Reserved {
    pub(super) fn last(self) -> FencingToken {
        self.first.last_of_block()
    }
}

/// The holder of something, as the leader reports it to people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    /// The member.
    pub member: Incarnation,
    /// On whose behalf.
    pub note: Note,
    /// With this token; nothing where nothing arbitrates.
    pub token: Option<FencingToken>,
    /// For how long it has held.
    pub held: Duration,
    /// When it was granted, by the leader's clock.
    pub since: LocalTime,
    /// By the leader's clock it is not over.
    pub runs: bool,
}

/// What a service does at the leader, and asks of admission at any member.
impl Holds {
    /// Grants it to a member: the next token is that member's, and nobody else is granted it for a whole
    /// lease (rule 23). Returns the token before; nothing if nothing is granted at the moment. A grant that
    /// is sent again is the same grant. The member may enter again without asking, with tokens of the same block.
    pub fn grant(
        &mut self,
        now: LocalTime,
        name: &HoldName,
        to: MemberId,
        number: RequestNumber,
    ) -> Option<FencingToken> {
        let seat = self.seat.as_ref().filter(|seat| seat.leads() && self.admission.open)?;
        let (ceiling, busy_until) = (seat.ceiling, now.after(seat.wait(self.class(name))));
        let holder = seat.member(to).unwrap_or(self.me);
        let own = holder == self.me;
        let held = self.held(name);
        if let Some(entry) = held.entry.as_mut().filter(|entry| entry.holder == holder)
            && let Some((_, before)) = entry.granted.filter(|(granted, _)| *granted == number)
        {
            entry.busy_until = busy_until;
            return Some(before);
        }
        let claim = held.claim.as_ref().filter(|_| own).map(|claim| claim.note.clone());
        let note = claim.or_else(|| held.notes.remove(&to)).unwrap_or_default();
        // The holder before may have used more tokens than it could report.
        let before = held.spent();
        let token = before.successor(ceiling).unwrap_or(before);
        held.highest = token;
        let reserved = Reserved { holder: to, number, first: token };
        held.reserved = Some(reserved).filter(|_| !own);
        let granted = Some((number, before));
        let (since, renewed) = (now, false);
        held.entry = Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
        self.highest = self.highest.max(token);
        self.due.insert((busy_until, name.clone()));
        if let Some(listing) = self.listings.get_mut(&to).filter(|_| !own) {
            listing.under_way.insert(name.clone());
        }
        Some(before)
    }

    /// A leader that granted it to nobody knows of no holder.
    pub fn nobody_holds(&mut self, name: &HoldName) {
        if self.leads()
            && let Some(held) = self.all.get_mut(name)
        {
            held.entry = None;
        }
    }

    /// A member that was granted it answers to that request, or a later one, and has used no token above what
    /// it reported. `ended`: it gives back what that request got.
    pub fn settle(
        &mut self,
        name: &HoldName,
        member: MemberId,
        number: RequestNumber,
        ended: bool,
    ) {
        let Some(held) = self.all.get_mut(name) else { return };
        let over = |reserved: &mut Reserved| {
            let since = number > reserved.number || ended && number == reserved.number;
            reserved.holder == member && since
        };
        held.reserved.take_if(over);
    }

    /// Who holds it, as this member, which leads, knows it.
    #[must_use]
    pub fn holder(&self, now: LocalTime, name: &HoldName) -> Option<Holder> {
        let entry = self.all.get(name)?.entry.as_ref()?;
        Some(Holder {
            member: entry.holder,
            note: entry.note.clone(),
            token: (!self.is_advisory()).then_some(entry.token),
            held: now - entry.since,
            since: entry.since,
            runs: self.busy_until(name, entry) > now,
        })
    }

    /// Whether that member holds it, and lists it.
    #[must_use]
    pub fn is_listed_by(&self, name: &HoldName, member: Incarnation) -> bool {
        let entry = self.all.get(name).and_then(|held| held.entry.as_ref());
        entry.is_some_and(|entry| entry.holder == member && entry.renewed)
    }

    /// A member may yet enter by a grant that is under way: it has a whole lease from now on.
    pub fn wait_for_holder(&mut self, now: LocalTime, name: &HoldName) {
        let wait = self.seat.as_ref().map(|seat| seat.wait(self.class(name)));
        let Some(busy_until) = wait.map(|wait| now.after(wait)) else { return };
        if let Some(entry) = self.all.get_mut(name).and_then(|held| held.entry.as_mut()) {
            entry.busy_until = entry.busy_until.max(busy_until);
        }
    }

    /// Rules 26 and 30: whether it is granted at the moment, and the member that enters may hold it. There must
    /// be a token left, too; of what the leader grants, the leader sees to that.
    #[must_use]
    pub fn is_open(&self, now: LocalTime, name: &HoldName) -> bool {
        let Some(seat) = &self.seat else { return false };
        let held = self.all.get(name);
        let closed_until = held.map(|held| held.closed_until).unwrap_or_default();
        let spent = held.map_or(self.floor, NameState::spent);
        let left = spent.successor(seat.ceiling).is_some();
        self.admission.open
            && now < self.lease_until(name)
            && closed_until <= now
            && (left || seat.is_led(name) && !seat.leads())
    }

    /// Rule 27: until when a member that enters may hold.
    pub(super) fn lease_until(&self, name: &HoldName) -> LocalTime {
        if self.leads() { self.lease.leader } else { self.lease.member.until(self.class(name)) }
    }
}

/// What the core does at the leader, and by its heartbeats.
impl Holds {
    /// Grants from now on, or no longer.
    pub(in crate::core) fn set_open(&mut self, now: LocalTime, open: bool) {
        if !std::mem::replace(&mut self.admission.open, open) && open {
            self.admission.opened = now;
            self.notice(Notice::Open);
        }
    }

    /// The leader stated whether anything is granted.
    pub(in crate::core) fn hear_admission(&mut self, admission: message::Admission) {
        self.admission.open = admission.open;
        self.admission.full = admission.full;
        self.set_ceiling(admission.ceiling);
    }

    /// Raises the ceiling of tokens.
    pub(in crate::core) fn set_ceiling(&mut self, ceiling: Epoch) {
        if let Some(seat) = &mut self.seat {
            seat.ceiling = ceiling;
        }
    }

    /// Whether some name has used half of what the ceiling allows.
    pub(in crate::core) fn nears_ceiling(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| {
            self.highest.high() >= Epoch(u64::midpoint(seat.view.epoch.0, seat.ceiling.0))
        })
    }

    pub(super) fn delay(&self, name: &HoldName) -> Duration {
        self.policy.delay(name.as_str())
    }

    /// Until when an entry keeps others out.
    pub(super) fn busy_until(&self, name: &HoldName, entry: &TableEntry) -> LocalTime {
        let lease = self.lease_of(entry.holder, name);
        if entry.renewed { entry.busy_until.max(lease) } else { entry.busy_until }
    }

    /// Until when the lease of a member extends its entry.
    fn lease_of(&self, holder: Incarnation, name: &HoldName) -> LocalTime {
        self.leases.get(&(holder, self.class(name))).copied().unwrap_or_default()
    }

    /// Has a lease extend the entry of a hold that its member lists, if the table has it and it still
    /// runs (rule 24): one that has ended stays ended.
    pub(in crate::core) fn renew(
        &mut self,
        now: LocalTime,
        holder: Incarnation,
        name: &HoldName,
        token: FencingToken,
    ) -> bool {
        let lease = self.lease_of(holder, name);
        let Some(held) = self.all.get_mut(name) else { return false };
        let same =
            |entry: &&mut TableEntry| entry.holder == holder && entry.token.may_become(token);
        let Some(entry) = held.entry.as_mut().filter(same) else { return false };
        let until = if entry.renewed { entry.busy_until.max(lease) } else { entry.busy_until };
        if until <= now {
            return false;
        }
        entry.renewed = true;
        if token > entry.token {
            // It has entered again on the same grant (rules 32 and 40), for whom it did not report.
            entry.entered_again(now, token, Note::default());
            held.highest = held.highest.max(token);
            self.highest = self.highest.max(token);
        }
        true
    }

    /// This member, which leads, has entered again on the same grant.
    pub(super) fn note_again(&mut self, now: LocalTime, name: &HoldName, note: &Note) {
        let Some(held) = self.all.get_mut(name) else { return };
        let own = |entry: &&mut TableEntry| entry.holder == self.me;
        if let (Some(hold), Some(entry)) = (held.hold, held.entry.as_mut().filter(own)) {
            entry.entered_again(now, hold.token, note.clone());
            self.highest = self.highest.max(hold.token);
        }
    }

    /// The lease of a member does not extend its entry any more, which ends as it is now.
    pub(super) fn no_longer_renew(&mut self, holder: Incarnation, name: &HoldName) {
        let lease = self.lease_of(holder, name);
        let Some(held) = self.all.get_mut(name) else { return };
        let of_it = |entry: &&mut TableEntry| entry.holder == holder && entry.renewed;
        if let Some(entry) = held.entry.as_mut().filter(of_it) {
            entry.renewed = false;
            entry.busy_until = entry.busy_until.max(lease);
            self.due.insert((entry.busy_until, name.clone()));
        }
    }

    /// Leases that are over extend nothing any more.
    pub(super) fn end_leases(&mut self, now: LocalTime) {
        if self.leases_last_until > now {
            return;
        }
        let over = self.leases.iter().filter(|(_, until)| **until <= now);
        for (member, class) in over.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            let rank = self.seat.as_ref().and_then(|seat| seat.rank_of(member));
            for name in rank.map(|rank| self.refuse_all(rank, class)).unwrap_or_default() {
                self.no_longer_renew(member, &name);
            }
            self.leases.remove(&(member, class));
        }
        let first = self.leases.values().min().copied();
        self.leases_last_until = first.unwrap_or(LocalTime(u64::MAX));
    }

    /// Once a heartbeat: ends what nobody extended, and notices which members are silent.
    pub(in crate::core) fn tick(&mut self, now: LocalTime) {
        if self.leads() {
            self.pass_over_the_silent(now);
            let lately = self.seat.as_ref().map(super::Seat::lately).unwrap_or_default();
            let asked = LocalTime(now.0.saturating_sub(LocalTime::default().after(lately).0));
            self.notice(Notice::Beat { asked });
        }
        self.see_to_what_is_due(now);
        self.notice(Notice::Open);
    }

    pub(in crate::core) fn see_to_what_is_due(&mut self, now: LocalTime) {
        self.end_leases(now);
        while let Some((at, name)) = self.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, name.clone()));
            self.end_entry(now, name);
        }
    }

    /// An entry may have ended (rule 25), or a closure.
    fn end_entry(&mut self, now: LocalTime, name: HoldName) {
        self.expel(now, &name);
        let me = self.me;
        let Some(held) = self.all.get_mut(&name) else { return };
        if held.closed_until > now {
            self.due.insert((held.closed_until, name.clone()));
        } else if held.closed_until != LocalTime::default() {
            held.closed_until = LocalTime::default();
            held.lost = None;
            held.moved = now;
        }
        // The end of a lease is noticed of itself.
        if let Some(entry) =
            held.entry.as_ref().filter(|entry| entry.holder != me && !entry.renewed)
        {
            self.due.insert((entry.busy_until, name.clone()));
        }
        self.notice(Notice::Stirred(name));
    }

    /// Takes the holder out, if its lease is over. That admits nobody, so it need not wait for admission.
    fn expel(&mut self, now: LocalTime, name: &HoldName) {
        let me = self.me;
        let Some(held) = self.all.get_mut(name) else { return };
        let over = |entry: &mut TableEntry| {
            entry.holder != me && !entry.renewed && entry.busy_until <= now
        };
        let Some(entry) = held.entry.take_if(over) else { return };
        self.close_after(now, name, &entry);
        // Of what the members grant, its last token may be unknown here: the next view makes good what it lost.
        if self.is_led(name) {
            self.notice(Notice::Expelled(name.clone()));
        }
    }

    /// A hold ended by time: its name stays closed for as long as the policy states for a holder that was
    /// lost.
    pub(super) fn close_after(&mut self, now: LocalTime, name: &HoldName, entry: &TableEntry) {
        // Among the members another may have been seen to hold it since, which this one admitted.
        let seen = self.all.get(name).map(|held| held.seen);
        let given_back = !self.is_led(name) && seen > Some(entry.token);
        // For an outsider it was closed when the view began.
        if self.is_of_view(entry.holder) && !given_back {
            self.close(now, name, self.busy_until(name, entry).after(self.delay(name)));
        }
    }

    /// Nobody is granted it before.
    pub(super) fn close(&mut self, now: LocalTime, name: &HoldName, until: LocalTime) {
        if until > now {
            let held = self.held(name);
            held.closed_until = held.closed_until.max(until);
            self.due.insert((until, name.clone()));
        }
    }

    /// Whether a holder was silent for so long that its lease may have run out by its own clock, though
    /// the entry runs.
    pub(super) fn may_have_lapsed(
        &self,
        now: LocalTime,
        name: &HoldName,
        entry: &TableEntry,
    ) -> bool {
        let Some(seat) = &self.seat else { return false };
        let class = self.class(name);
        let margin = seat.wait(class).saturating_sub(seat.holds_for(class));
        now.until(self.busy_until(name, entry)) <= margin + seat.patience
    }

    /// A member that was not heard of for a leader lease is not granted what it waits for: it could
    /// not be notified. It asks again when it is back.
    fn pass_over_the_silent(&mut self, now: LocalTime) {
        let Some(seat) = &self.seat else { return };
        let heard = |member: MemberId| *self.heard.get(&member).unwrap_or(&seat.since);
        let silent: Vec<MemberId> = seat
            .view
            .peers(seat.rank)
            .filter(|m| now - heard(*m) > seat.patience && !self.silent.contains(m))
            .collect();
        for member in silent {
            self.silent.insert(member);
            if let Some(listing) = self.listings.get_mut(&member) {
                listing.forgotten = true;
            }
            self.notice(Notice::Silent(member));
        }
    }

    /// Whether the table names somebody who is not in the view and whose lease may run.
    pub(in crate::core) fn has_outsiders(&self, now: LocalTime) -> bool {
        self.outsiders_until > now
    }

    pub(super) fn is_of_view(&self, holder: Incarnation) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.rank_of(holder).is_some())
    }
}

impl TableEntry {
    /// Its holder has entered again, on the same grant.
    fn entered_again(&mut self, now: LocalTime, token: FencingToken, note: Note) {
        (self.token, self.since, self.note) = (token, now, note);
    }
}

impl NameState {
    /// Whether a hold may be taken for free: nobody is known to have it, and it is not closed.
    pub(super) fn is_free(&self, now: LocalTime) -> bool {
        self.entry.is_none() && self.closed_until <= now
    }
}

//! The leader's part: the table of holders and their leases.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::message::{Extended, LockNote, Note, Promise};
use super::{Lock, LockOut, Locks};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::central::{self, Central, RequestNumber};
use crate::mutex::{AnyMessage, AnyMutex, AnyTimer, Command, Mutex, Permissions, Phase};
use crate::time::{LocalTime, hold};

/// The leader's knowledge of who is in the critical section.
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

/// What a mutex has not heard yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Deferred {
    /// This member itself.
    Command(Command),
    /// Another.
    Message(MemberId, AnyMessage),
    /// A timer.
    Timer(AnyTimer),
}

/// What the coordinators have to do, so that nobody has to look through all locks for it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Docket {
    /// Admission is open: by the leader's own knowledge, elsewhere by its latest heartbeat.
    pub(super) open: bool,
    /// By the leader's latest heartbeat, the group is full.
    pub(super) full: bool,
    /// Since when it is open.
    pub(super) opened: LocalTime,
    /// When entries end and locks open, each as it was known at some time; it may be later by now.
    pub(super) due: BTreeSet<(LocalTime, LockName)>,
    /// Locks with something to work off.
    pub(super) stirred: BTreeSet<LockName>,
    /// Locks that are held and wanted.
    pub(super) contended: BTreeSet<LockName>,
    /// Members that were not heard of for long, and are granted nothing.
    pub(super) silent: BTreeSet<MemberId>,
    /// Until then a holder who is not in the view may hold. That a lock stays closed for longer counts
    /// for nothing here: nobody holds it, so no seal is needed to know who does.
    pub(super) outsiders_until: LocalTime,
    /// The highest token given in this view.
    pub(super) highest: FencingToken,
}

/// How many locks the members of a group may hold and wait for, all in all. Members hear of it a heartbeat
/// later, so that it may become some more.
pub const GROUP_MAX: usize = 50_000;

impl Locks {
    /// Lets members in from now on, or no longer.
    pub(in crate::member) fn set_open(&mut self, now: LocalTime, open: bool, out: &mut LockOut) {
        if !std::mem::replace(&mut self.docket.open, open) && open {
            self.docket.opened = now;
            self.work_off(now, out);
        }
    }

    /// Raises the ceiling of tokens.
    pub(in crate::member) fn set_ceiling(&mut self, ceiling: Epoch) {
        if let Some(seat) = &mut self.seat {
            seat.ceiling = ceiling;
        }
    }

    /// Whether some lock has used half of what the ceiling allows.
    pub(in crate::member) fn nears_ceiling(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| {
            self.docket.highest.high() >= Epoch(u64::midpoint(seat.view.epoch.0, seat.ceiling.0))
        })
    }

    /// Whether the first in line, who waited in the view before, has yet to be heard of in this one.
    /// A grant has to answer something that it said.
    pub(super) fn expects(&self, lock: &Lock) -> bool {
        let (Some(mutex), Some(seat)) = (lock.central(), &self.seat) else { return false };
        let first = mutex.queue().next().filter(|first| *first != seat.rank);
        first.is_some_and(|first| !self.heard.contains_key(&first))
    }

    pub(super) fn lock_delay(&self, name: &LockName) -> Duration {
        self.policy.lock_delay(name.as_str())
    }

    /// A member is let in: the next token is its, and nobody else gets in for a whole member lease
    /// (rule 23). Returns the token before. A grant that is said again is the same grant.
    pub(super) fn grant(
        &mut self,
        now: LocalTime,
        name: &LockName,
        to: MemberId,
        number: RequestNumber,
    ) -> FencingToken {
        let Some(seat) = &self.seat else { return FencingToken::default() };
        let (ceiling, busy_until) = (seat.ceiling, now.after(seat.member_lease));
        let keeps = seat.permissions(name) != Permissions::ForOneEntry;
        let holder = seat.incarnations.get(to.0 as usize).copied().unwrap_or(self.me);
        let own = holder == self.me;
        let lock = self.lock(name);
        if let Some(entry) = lock.entry.as_mut().filter(|entry| entry.holder == holder)
            && let Some((_, before)) = entry.granted.filter(|(granted, _)| *granted == number)
        {
            entry.busy_until = busy_until;
            return before;
        }
        let intent = lock.intent.as_ref().filter(|_| own).map(|intent| intent.note.clone());
        let note = intent.or_else(|| lock.notes.remove(&to)).unwrap_or_default();
        // The holder before may have used more tokens than it could tell.
        let before = lock.spent();
        let token = before.successor(ceiling).unwrap_or(before);
        lock.highest = token;
        lock.reserved = None;
        if keeps && !own {
            lock.reserve(to, number, token);
        }
        let granted = Some((number, before));
        let (since, renewed) = (now, false);
        lock.entry = Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
        self.docket.highest = self.docket.highest.max(token);
        self.docket.due.insert((busy_until, name.clone()));
        if let Some(listing) = self.listings.get_mut(&to).filter(|_| !own) {
            listing.under_way.insert(name.clone());
        }
        before
    }

    /// A coordinator that let nobody in knows of no holder.
    pub(super) fn drop_entry_of_nobody(&mut self, name: &LockName) {
        let coordinates = self.coordinates();
        let Some(lock) = self.all.get_mut(name).filter(|_| coordinates) else { return };
        if lock.central().is_some_and(|mutex| mutex.in_section().is_none()) {
            lock.entry = None;
        }
    }

    /// A promise of a member: extends what it lists, and finds requests and grants that got lost on the
    /// way. `asked`: when the heartbeat was sent that it answers. Nothing if the list is not known whole.
    pub(in crate::member) fn on_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        asked: LocalTime,
        promise: Promise,
        out: &mut LockOut,
    ) -> Option<Extended> {
        let rank = self.rank_of(from, promise.epoch)?;
        // Rule 24: what has ended stays ended.
        self.end_leases(now);
        let first = !self.heard.contains_key(&rank);
        self.hear(rank, now);
        let waits = self.note_changes(now, rank, from, promise.changes)?;
        self.note_notes(rank, from, promise.notes);
        let busy_until = now.after(self.seat.as_ref()?.member_lease);
        self.leases.insert(from, busy_until);
        for (name, number) in waits {
            self.find_again(now, rank, asked, &name, number, out);
        }
        let refused = self.refused_to(now, rank, from);
        let contended = self.contended_by(from);
        for name in &contended {
            self.recall_again(now, name, out);
        }
        if first {
            self.work_off(now, out);
        }
        Some(Extended { stamp: promise.stamp, refused, contended })
    }

    /// Whether the members hold and wait for as much as a group may: as the leader knows it, which others hear.
    pub(in crate::member) fn are_full(&self) -> bool {
        if !self.coordinates() {
            return self.docket.full;
        }
        let listed = self.listings.values().map(|listing| listing.copied.list.len());
        listed.sum::<usize>() + self.mine.len() >= GROUP_MAX
    }

    /// How many changes of a member's list are known here.
    pub(in crate::member) fn known_of(&self, member: Incarnation) -> u64 {
        let rank = self.seat.as_ref().and_then(|seat| self.rank_of(member, seat.view.epoch));
        let listing = rank.and_then(|rank| self.listings.get(&rank));
        listing.map(|listing| listing.copied.known()).unwrap_or_default()
    }

    /// Until when an entry keeps others out.
    pub(super) fn busy_until(&self, entry: &TableEntry) -> LocalTime {
        let lease = self.leases.get(&entry.holder).filter(|_| entry.renewed);
        lease.map_or(entry.busy_until, |lease| entry.busy_until.max(*lease))
    }

    /// Has a lease extend the entry of a hold that its member lists, if the table has it and it still
    /// runs (rule 24): one that has ended stays ended.
    pub(super) fn renew(
        &mut self,
        now: LocalTime,
        holder: Incarnation,
        name: &LockName,
        token: FencingToken,
    ) -> bool {
        let lease = self.leases.get(&holder).copied().unwrap_or_default();
        let Some(lock) = self.all.get_mut(name) else { return false };
        let same =
            |entry: &&mut TableEntry| entry.holder == holder && entry.token.may_become(token);
        let Some(entry) = lock.entry.as_mut().filter(same) else { return false };
        let until = if entry.renewed { entry.busy_until.max(lease) } else { entry.busy_until };
        if until <= now {
            return false;
        }
        entry.renewed = true;
        if token > entry.token {
            // It has entered again on the grant that it kept (rule 32), for whom it did not say.
            entry.token = token;
            entry.since = now;
            entry.note = Note::default();
            lock.highest = lock.highest.max(token);
            self.docket.highest = self.docket.highest.max(token);
        }
        true
    }

    /// The lease of a member does not extend its entry of a lock any more, which ends as it is now.
    pub(super) fn no_longer_renew(&mut self, holder: Incarnation, name: &LockName) {
        let lease = self.leases.get(&holder).copied().unwrap_or_default();
        let Some(lock) = self.all.get_mut(name) else { return };
        let of_it = |entry: &&mut TableEntry| entry.holder == holder && entry.renewed;
        if let Some(entry) = lock.entry.as_mut().filter(of_it) {
            entry.renewed = false;
            entry.busy_until = entry.busy_until.max(lease);
            self.docket.due.insert((entry.busy_until, name.clone()));
        }
    }

    /// Leases that are over extend nothing any more.
    fn end_leases(&mut self, now: LocalTime) {
        let over: Vec<Incarnation> = self
            .leases
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(member, _)| *member)
            .collect();
        for member in over {
            let rank = self.seat.as_ref().and_then(|seat| self.rank_of(member, seat.view.epoch));
            for name in rank.map(|rank| self.refuse_all(rank)).unwrap_or_default() {
                self.no_longer_renew(member, &name);
            }
            self.leases.remove(&member);
        }
    }

    /// What a member that promised holds and others want.
    fn contended_by(&self, holder: Incarnation) -> Vec<LockName> {
        let of_it = |name: &&LockName| {
            let entry = self.all.get(name).and_then(|lock| lock.entry.as_ref());
            entry.is_some_and(|entry| entry.holder == holder && entry.renewed)
        };
        self.docket.contended.iter().filter(of_it).cloned().collect()
    }

    /// The mutex of a lock has heard something: others may want what is held, or no longer.
    pub(super) fn note_contended(&mut self, name: &LockName) {
        if !self.coordinates() || !self.has_coordinator(name) {
            return;
        }
        let mutex = self.all.get(name).and_then(|lock| lock.mutex.as_ref());
        if mutex.is_some_and(AnyMutex::is_contended) {
            if !self.docket.contended.contains(name) {
                self.docket.contended.insert(name.clone());
            }
        } else {
            self.docket.contended.remove(name);
        }
    }

    /// A member waits for a lock: its request must be in the queue, or the grant under way.
    ///
    /// It answered a heartbeat that was sent after the grant, so the grant was lost: sent again.
    fn find_again(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        asked: LocalTime,
        name: &LockName,
        number: RequestNumber,
        out: &mut LockOut,
    ) {
        let Some(seat) = &self.seat else { return };
        let busy_until = now.after(seat.member_lease);
        let entry = self.all.get(name).and_then(|lock| lock.entry.as_ref());
        let runs = entry.is_some_and(|entry| self.busy_until(entry) > now);
        let lock = self.lock(name);
        let deferred = lock
            .deferred
            .iter()
            .any(|deferred| matches!(deferred, Deferred::Message(m, _) if *m == rank));
        let entry = lock.entry.as_ref().filter(|_| runs);
        let granted = entry.is_none_or(|entry| entry.since >= asked);
        let in_section = lock.central().is_some_and(|mutex| mutex.is_in_section(rank, number));
        let waits = lock.central().is_some_and(|mutex| mutex.waits(rank, number));
        // It may enter on the lease that this promise extends, by a grant that is under way.
        if let Some(entry) = lock.entry.as_mut().filter(|_| in_section && runs) {
            entry.busy_until = entry.busy_until.max(busy_until);
        }
        let known = in_section && granted || waits;
        if !known && !deferred {
            let request = AnyMessage::Central(central::Message::Request(number));
            self.consult(now, name, Deferred::Message(rank, request), out);
        }
    }

    /// Once a heartbeat: frees what nobody extended, passes over members that are silent, and goes on
    /// with what had to wait.
    pub(in crate::member) fn tick(&mut self, now: LocalTime, out: &mut LockOut) {
        if self.coordinates() {
            self.pass_over_the_silent(now);
            self.tell_uncontended(now, &BTreeSet::new(), out);
            let lately = self.seat.as_ref().map(|seat| seat.patience / 4).unwrap_or_default();
            let asked = LocalTime(now.0.saturating_sub(LocalTime::default().after(lately).0));
            self.tell_who_waits(now, asked, out);
        }
        self.see_to_what_is_due(now);
        self.work_off(now, out);
    }

    pub(super) fn see_to_what_is_due(&mut self, now: LocalTime) {
        self.end_leases(now);
        while let Some((at, name)) = self.docket.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.docket.due.remove(&(at, name.clone()));
            self.is_due(now, name);
        }
    }

    /// An entry may have ended (rule 25), or a lock may have opened.
    fn is_due(&mut self, now: LocalTime, name: LockName) {
        self.expel(now, &name);
        let me = self.me;
        let Some(lock) = self.all.get_mut(&name) else { return };
        if lock.closed_until > now {
            self.docket.due.insert((lock.closed_until, name.clone()));
        } else if lock.closed_until != LocalTime::default() {
            lock.closed_until = LocalTime::default();
            lock.lost = None;
            lock.moved = now;
        }
        // The end of a lease is noticed of itself.
        if let Some(entry) =
            lock.entry.as_ref().filter(|entry| entry.holder != me && !entry.renewed)
        {
            self.docket.due.insert((entry.busy_until, name.clone()));
        }
        self.docket.stirred.insert(name);
    }

    /// Takes the holder out, if its lease is over. That admits nobody, so it need not wait for admission.
    fn expel(&mut self, now: LocalTime, name: &LockName) {
        let me = self.me;
        let Some(lock) = self.all.get_mut(name) else { return };
        let over = |entry: &mut TableEntry| {
            entry.holder != me && !entry.renewed && entry.busy_until <= now
        };
        let Some(entry) = lock.entry.take_if(over) else { return };
        if let Some(mutex) = lock.central_mut() {
            mutex.expel();
        }
        self.close_after(now, name, &entry);
        self.note_contended(name);
    }

    /// A hold ended by time: the lock stays closed for as long as the policy says of a holder that was
    /// lost.
    pub(super) fn close_after(&mut self, now: LocalTime, name: &LockName, entry: &TableEntry) {
        let highest = self.all.get(name).map(|lock| lock.highest);
        // Among the members somebody may have entered since, who was let in by this one.
        let given_back = !self.has_coordinator(name) && highest > Some(entry.token);
        // For an outsider the lock was closed when the view began.
        if self.is_of_view(entry.holder) && !given_back {
            self.close(now, name, self.busy_until(entry).after(self.lock_delay(name)));
        }
    }

    /// Whether a holder was silent for so long that its lease may have run out by its own clock, though
    /// the entry runs.
    pub(super) fn may_have_lapsed(&self, now: LocalTime, entry: &TableEntry) -> bool {
        let Some(seat) = &self.seat else { return false };
        let margin = seat.member_lease.saturating_sub(hold(seat.lease));
        now.until(self.busy_until(entry)) <= margin + seat.patience
    }

    /// A member that was not heard of for a leader lease is not granted what it waits for: it could
    /// not be told. It asks again when it is back.
    fn pass_over_the_silent(&mut self, now: LocalTime) {
        let Some(seat) = &self.seat else { return };
        let heard = |member: MemberId| *self.heard.get(&member).unwrap_or(&seat.since);
        let silent: Vec<MemberId> = seat
            .view
            .peers(seat.rank)
            .filter(|m| now - heard(*m) > seat.patience && !self.docket.silent.contains(m))
            .collect();
        for member in silent {
            self.docket.silent.insert(member);
            if let Some(listing) = self.listings.get_mut(&member) {
                listing.forgotten = true;
            }
            for mutex in self.all.every().values_mut().filter_map(Lock::central_mut) {
                mutex.withdraw(member);
            }
        }
    }

    /// Whether the table names somebody who is not in the view and whose lease may run.
    pub(in crate::member) fn has_outsiders(&self, now: LocalTime) -> bool {
        self.docket.outsiders_until > now
    }
}

impl Lock {
    /// Whether a member in the queue gives up. That admits nobody, so it need not wait for
    /// admission; and must not, or the member that gave up might be granted the lock when it opens.
    pub(super) fn withdraws(&self, deferred: &Deferred) -> bool {
        let Some(mutex) = self.central().filter(|mutex| mutex.coordinates()) else { return false };
        match deferred {
            Deferred::Command(Command::Exit) => mutex.phase() == Phase::Waiting,
            Deferred::Message(from, AnyMessage::Central(central::Message::Release(number))) => {
                // Of requests that were carried over, one that holds has the same number.
                mutex.waits(*from, *number) && !mutex.is_in_section(*from, *number)
            }
            Deferred::Command(Command::Enter) | Deferred::Message(..) | Deferred::Timer(_) => false,
        }
    }

    /// Keeps something for later. A request that is taken back before it was heard leaves nothing.
    pub(super) fn keep(&mut self, deferred: Deferred) {
        use central::Message::{Release, Request};
        let unheard = match deferred {
            Deferred::Message(from, AnyMessage::Central(Release(number))) => {
                Some(Deferred::Message(from, AnyMessage::Central(Request(number))))
            }
            Deferred::Command(Command::Exit) => Some(Deferred::Command(Command::Enter)),
            Deferred::Message(..) | Deferred::Command(Command::Enter) | Deferred::Timer(_) => None,
        };
        match unheard.and_then(|unheard| self.deferred.iter().position(|other| *other == unheard)) {
            Some(place) => {
                self.deferred.remove(place);
            }
            None => self.deferred.push_back(deferred),
        }
    }

    /// Who waits, the first in line first: the queue, then the requests not heard yet.
    pub(super) fn waiting(&self, me: MemberId) -> impl Iterator<Item = MemberId> + '_ {
        let queue = self.central().into_iter().flat_map(Central::queue);
        let deferred = self.deferred.iter().filter_map(move |deferred| match deferred {
            Deferred::Message(from, AnyMessage::Central(central::Message::Request(_))) => {
                Some(*from)
            }
            Deferred::Command(Command::Enter) => Some(me),
            Deferred::Message(..) | Deferred::Command(Command::Exit) | Deferred::Timer(_) => None,
        });
        queue.chain(deferred)
    }
}

impl Deferred {
    /// Whether that member said it.
    pub(super) fn is_of(&self, member: MemberId) -> bool {
        matches!(self, Self::Message(from, _) if *from == member)
    }
}

impl TableEntry {
    pub(super) fn for_people(&self, now: LocalTime, advisory: bool) -> LockNote {
        LockNote {
            member: self.holder,
            note: self.note.clone(),
            token: (!advisory).then_some(self.token),
            held: now - self.since,
        }
    }
}

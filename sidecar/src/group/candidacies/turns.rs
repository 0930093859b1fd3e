//! The elections whose leader must have a Lease besides the hold, and what is shown of the Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::policy::Arbiter;
use conclave_protocols::{FencingToken, Incarnation, LocalTime, LockName, PodUid};
use tracing::warn;

use super::Candidacies;
use super::named::Named;
use crate::group::{ElectionLease, Leader, Leadership};
use crate::lease::{self, News, Order, Outcome, Record, Turn};

/// This member's turns with Leases.
pub(super) struct Turns {
    group: PodUid,
    me: Incarnation,
    holder: String,
    /// By election and Lease: one that is needed no more stays until its Lease is given back.
    all: BTreeMap<TurnName, Turn>,
    /// How many there were.
    made: u64,
    followed: BTreeSet<String>,
    orders: Vec<Order>,
}

/// An election's hold, and the name of the Lease.
type TurnName = (LockName, String);

/// What the leader of an election must have besides the hold.
#[derive(Debug)]
pub(super) struct Leased {
    /// The name of the Lease.
    pub(super) name: String,
    /// Until when this member has it, if it does.
    pub(super) until: Option<LocalTime>,
    /// The token of the hold that this member has.
    token: Option<FencingToken>,
    /// This member, as it is shown when it leads.
    me: Option<Leader>,
    /// Who has it, as far as is known.
    holder: Option<String>,
    /// The pod that has it, if it is a leader of this election.
    pod: Option<PodUid>,
}

impl Leased {
    fn new(name: &str) -> Self {
        let (until, token, me, holder, pod) = (None, None, None, None, None);
        Self { name: name.to_owned(), until, token, me, holder, pod }
    }

    /// Whether the Lease names that leader, too.
    pub(super) fn names(&self, leader: &Leader) -> bool {
        self.pod.is_some_and(|pod| pod.to_string() == leader.uid)
    }
}

impl Turns {
    pub(super) fn new(pod: &str, me: Incarnation) -> Self {
        let (group, holder) = (PodUid(0), lease::identity(pod, me));
        let (all, followed, orders) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Self { group, me, holder, all, made: 0, followed, orders }
    }

    /// When something is to be done.
    pub(super) fn next_due(&self) -> Option<LocalTime> {
        self.all.values().filter_map(Turn::next_due).min()
    }

    /// The member goes by that arbiter.
    pub(super) fn go_by(&mut self, arbiter: Arbiter) {
        match arbiter {
            Arbiter::Quorum => {}
            Arbiter::None => self.all.values_mut().for_each(Turn::without_arbiter),
        }
    }

    /// This member has the hold.
    fn want(&mut self, now: LocalTime, hold: &LockName, election: &str, leased: &Leased) {
        let seed = self.me.run ^ now.0;
        let turn = self.all.entry((hold.clone(), leased.name.clone())).or_insert_with(|| {
            self.made += 1;
            // Two elections of one process are two holders: a Lease may go from one to the other.
            let holder = format!("{}_{election}", self.holder);
            Turn::new(&leased.name, self.group, election, &holder, seed)
                .numbered_from(self.made << 32)
        });
        turn.want(now, leased.token.map(FencingToken::get));
    }

    /// Whether some Lease is being given back.
    fn are_under_way(&self) -> bool {
        self.all.values().any(|turn| !turn.rests())
    }

    /// The Leases that are looked at: those that the policy names, and those that are yet to be given back.
    fn needed(&self, listed: BTreeSet<String>) -> BTreeSet<String> {
        let left = self.all.values().filter(|turn| !turn.rests());
        listed.into_iter().chain(left.map(|turn| turn.lease().to_owned())).collect()
    }

    /// This member does not have the hold any more.
    pub(super) fn give_back(&mut self, hold: &LockName, from: LocalTime) {
        let of_hold = self.all.iter_mut().filter(|((of, _), _)| of == hold);
        of_hold.for_each(|(_, turn)| turn.give_back(from));
    }
}

impl Named {
    /// Whether it has the hold, and all that its leader must have besides.
    pub(super) fn leads(&self) -> bool {
        let has_lease = self.leased.as_ref().is_none_or(|leased| leased.until.is_some());
        self.term.is_some() && has_lease
    }

    /// Whether it has the hold, and does not lead yet.
    pub(super) fn waits_for_lease(&self) -> bool {
        self.term.is_some() && !self.leads()
    }

    /// From the next lead on, its leader must have what the policy says now.
    pub(super) fn settle_lease(&mut self) {
        let name = self.leased.as_ref().map(|leased| &leased.name);
        if self.term.is_some() || name == self.lease.as_ref() {
            return;
        }
        self.leased = self.lease.as_deref().map(Leased::new);
        self.show_lease();
    }

    /// Whether the policy says something else than this lead goes by.
    pub(super) fn is_of_another_lease(&self) -> bool {
        self.leased.as_ref().map(|leased| &leased.name) != self.lease.as_ref()
    }

    fn show_lease(&mut self) {
        let shown = self.leased.as_ref().map(|leased| ElectionLease {
            name: leased.name.clone(),
            holder: leased.holder.clone(),
        });
        self.change(|election| {
            let is_news = election.lease != shown;
            election.lease = shown;
            is_news
        });
    }

    /// The Lease is that, or there is none.
    fn learn(&mut self, record: Option<&Record>, group: PodUid) {
        let Some(leased) = &mut self.leased else { return };
        leased.holder = record.and_then(Record::holder).map(str::to_owned);
        let mark = record.and_then(Record::mark);
        let mark = mark.filter(|mark| mark.group == group);
        let mark = mark.filter(|mark| mark.election == self.state.borrow().name);
        leased.pod = mark.and_then(|mark| lease::pod_of(&mark.holder));
        self.show_lease();
    }
}

impl Candidacies {
    /// The group's resource has that UID.
    pub(in crate::group) fn of_group(mut self, group: PodUid) -> Self {
        self.turns.group = group;
        self
    }

    /// What is to be done with Leases.
    pub(in crate::group) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.turns.orders)
    }

    /// The policy lists other elections, or others of them need a Lease.
    pub(super) fn follow_leases(&mut self) {
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            let Some(named) = self.all.get_mut(&hold).filter(|named| named.is_of_another_lease())
            else {
                continue;
            };
            // A member that leads by what was the case before leads no longer than its application knows.
            named.end_by_its_deadline();
            if named.waits_for_lease() {
                self.give_up(&hold, Leadership::Following);
            } else {
                named.settle_lease();
            }
        }
        let listed = |hold: &LockName| self.all.get(hold).filter(|named| named.listed);
        let is_listed = |(hold, lease): &TurnName| {
            listed(hold).is_some_and(|named| named.lease.as_ref() == Some(lease))
        };
        self.turns.all.retain(|name, turn| !turn.rests() || is_listed(name));
        let all = self.all.values().filter(|named| named.listed);
        let names = self.turns.needed(all.filter_map(|named| named.lease.clone()).collect());
        if self.turns.followed != names {
            self.turns.followed.clone_from(&names);
            self.turns.orders.push(Order::Follow(names));
        }
    }

    /// This member has the hold: it leads as soon as it has the Lease.
    pub(super) fn wants_lease(
        &mut self,
        now: LocalTime,
        hold: &LockName,
        token: Option<FencingToken>,
        me: Option<Leader>,
    ) {
        let Some(named) = self.all.get_mut(hold) else { return };
        let Some(leased) = &mut named.leased else { return };
        (leased.until, leased.token, leased.me) = (None, token, me);
        let election = named.state.borrow().name.clone();
        self.turns.want(now, hold, &election, leased);
        let name = (hold.clone(), leased.name.clone());
        self.turn(now, &name);
    }

    /// Whether a Lease is yet to be given back.
    pub(in crate::group) fn gives_back(&self) -> bool {
        self.turns.are_under_way()
    }

    /// Something was heard of a Lease.
    pub(in crate::group) fn on_lease(&mut self, now: LocalTime, news: &News) {
        match news {
            News::Seen { lease, record } => {
                self.learn(lease, record.as_ref());
                let all = self.turns.all.iter_mut().filter(|((_, name), _)| name == lease);
                all.for_each(|(_, turn)| turn.saw(record.as_ref()));
                self.tick_leases(now);
            }
            News::Answer { lease, id, outcome } => {
                let mut all = self.turns.all.iter_mut();
                let Some((name, turn)) = all.find(|(_, turn)| turn.awaits(*id)) else { return };
                let name = name.clone();
                if turn.answer(now, *id, outcome.clone()) {
                    warn!(lease, "the Lease of an election is not there, or may not be written");
                }
                match outcome {
                    Outcome::Is(record) => self.learn(lease, Some(record)),
                    Outcome::Absent => self.learn(lease, None),
                    Outcome::Conflict | Outcome::Refused | Outcome::Unknown => {}
                }
                self.turn(now, &name);
            }
        }
    }

    /// That Lease is this now, or there is none.
    fn learn(&mut self, lease: &str, record: Option<&Record>) {
        let group = self.turns.group;
        let needs =
            |named: &&mut Named| named.leased.as_ref().is_some_and(|leased| leased.name == lease);
        for named in self.all.values_mut().filter(needs) {
            named.learn(record, group);
            named.show(self.stands);
        }
    }

    /// Does what is due with Leases by now.
    pub(super) fn tick_leases(&mut self, now: LocalTime) {
        for name in self.turns.all.keys().cloned().collect::<Vec<_>>() {
            self.turn(now, &name);
        }
    }

    /// Does what is due with one Lease, and what follows for the lead.
    fn turn(&mut self, now: LocalTime, name: &TurnName) {
        let Some(turn) = self.turns.all.get_mut(name) else { return };
        self.turns.orders.extend(turn.tick(now).map(Order::Call));
        let (until, is_out_of_reach) = (turn.until(), turn.is_out_of_reach(now));
        let (hold, lease) = name;
        let Some(named) = self.all.get_mut(hold).filter(|named| named.term.is_some()) else {
            return;
        };
        let leased = named.leased.as_mut().filter(|leased| leased.name == *lease);
        let Some(leased) = leased else { return };
        match (std::mem::replace(&mut leased.until, until), until) {
            (None, Some(_)) => {
                let me = leased.me.take().map(|me| Leader { since: now, ..me });
                let token = leased.token;
                named.began = now;
                named.begin(token, me);
            }
            (Some(_), Some(_)) => named.show_deadline(),
            (Some(_), None) => self.give_up(hold, Leadership::Following),
            (None, None) if is_out_of_reach => {
                named.rests = named.stands.as_ref().map(|_| now.after(REST));
                self.announce(hold);
                self.give_up(hold, Leadership::Following);
            }
            (None, None) => {}
        }
    }
}

/// For how long a nominee that does not reach the API server leaves the lead to others.
const REST: Duration = Duration::from_secs(5);

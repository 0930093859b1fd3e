//! One pass over a history in the order of time, and one over the beliefs that it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{ClaimNumber, Law, Operation, RecordedOperation, Violation};

/// The place of an operation in the recording.
type Place = usize;

/// Every breach of every law.
pub(super) fn check(entries: &[RecordedOperation]) -> Vec<Violation> {
    let mut order: Vec<Place> = (0..entries.len()).collect();
    order.sort_by_key(|place| entries[*place].at);
    let mut sweep = Sweep { entries, ..Sweep::default() };
    for place in order {
        sweep.take(place);
    }
    sweep.finish()
}

#[derive(Default)]
struct Sweep<'a> {
    entries: &'a [RecordedOperation],
    locks: BTreeMap<&'a str, Lock>,
    claims: BTreeMap<ClaimNumber, Claim<'a>>,
    leader_lease: LeaderLease<'a>,
    found: Vec<(Place, Violation)>,
}

/// What is known of a lock so far.
#[derive(Default)]
struct Lock {
    tokens: BTreeMap<u64, Place>,
    /// The claims that were granted with a token, by the time of the answer.
    grants: Vec<ClaimNumber>,
    /// The largest token that was answered before `latest`.
    before: Option<(u64, Place)>,
    /// The time of the latest answers, and the largest token of them.
    latest: (Duration, Option<(u64, Place)>),
    /// The smallest and the largest token of each view.
    views: BTreeMap<u64, [(u64, Place); 2]>,
    /// The largest token that the store took.
    stored: Option<(u64, Place)>,
}

/// What is known of a claim so far.
struct Claim<'a> {
    lock: &'a str,
    asked: Place,
    /// The largest token that was answered before it asked.
    floor: Option<(u64, Place)>,
    grant: Option<Grant>,
    released: Option<Place>,
    lost: Option<Place>,
}

#[derive(Clone, Copy)]
struct Grant {
    place: Place,
    until: Duration,
    /// Where it was notified of the latest deadline.
    notified: Place,
}

/// What is known of the leader lease so far.
#[derive(Default)]
struct LeaderLease<'a> {
    /// By view, the first that was notified that it leads it, and where.
    epochs: BTreeMap<u64, (&'a str, Place)>,
    /// The latest belief of each.
    beliefs: BTreeMap<&'a str, Belief>,
    /// Beliefs by their beginnings, with their believers.
    past: Vec<(&'a str, Belief)>,
}

/// Somebody's belief to lead.
#[derive(Clone, Copy)]
struct Belief {
    from: Place,
    notified: Place,
    end: Duration,
}

impl Lock {
    fn pass_to(&mut self, at: Duration) {
        if self.latest.0 < at {
            self.before = self.before.max(self.latest.1.take());
            self.latest.0 = at;
        }
    }

    /// Whether a token is on the wrong side of one of an earlier or a later view: that one.
    fn enter_view(&mut self, view: u64, token: u64, place: Place) -> Option<(u64, Place)> {
        let this = (token, place);
        let earlier = self.views.range(..view).next_back().map(|(_, [_, largest])| *largest);
        let later = self.views.range(view + 1..).next().map(|(_, [smallest, _])| *smallest);
        let of_it = self.views.entry(view).or_insert([this, this]);
        *of_it = [of_it[0].min(this), of_it[1].max(this)];
        let (above, below) =
            (|other: &(u64, Place)| other.0 > token, |o: &(u64, Place)| o.0 < token);
        earlier.filter(above).or_else(|| later.filter(below))
    }

    /// The largest token that was answered so far.
    fn highest(&self) -> Option<(u64, Place)> {
        self.before.max(self.latest.1)
    }
}

impl<'a> Sweep<'a> {
    fn at(&self, place: Place) -> Duration {
        self.entries[place].at
    }

    fn found(&mut self, law: Law, what: String, places: &[Place]) {
        let mut places = places.to_vec();
        places.sort_by_key(|place| self.at(*place));
        places.dedup();
        let last = places.last().copied().unwrap_or_default();
        let operations = places.iter().map(|place| self.entries[*place].clone()).collect();
        self.found.push((last, Violation { law, what, operations }));
    }

    fn take(&mut self, place: Place) {
        let entries = self.entries;
        match &entries[place].operation {
            Operation::Asked { claim, lock } => self.asked(place, *claim, lock),
            Operation::Granted { claim, token, view, until } => {
                self.granted(place, *claim, *until);
                if let Some(token) = token {
                    self.numbered(place, *claim, *token, *view);
                }
            }
            Operation::Extended { claim, until } => self.extended(place, *claim, *until),
            Operation::Released { claim } => match self.claims.get_mut(claim) {
                Some(known) => {
                    known.released.get_or_insert(place);
                }
                None => self.found(Law::Form, "nobody asked for it".into(), &[place]),
            },
            Operation::Lost { claim } => match self.claims.get_mut(claim) {
                Some(known) if known.grant.is_some() => {
                    known.lost.get_or_insert(place);
                }
                Some(_) | None => self.found(Law::Form, "it was not held".into(), &[place]),
            },
            Operation::Stored { lock, token, accepted } => {
                self.stored(place, lock, *token, *accepted);
            }
            Operation::Shown { lock, token, accepted, .. } => {
                self.shown(place, lock, *token, *accepted);
            }
            Operation::Leads { who, epoch, until } => self.leads(place, who, *epoch, *until),
            Operation::Resigned { who } => self.resigned(place, who),
        }
    }

    fn asked(&mut self, place: Place, claim: ClaimNumber, name: &'a str) {
        if let Some(known) = self.claims.get(&claim) {
            let asked = known.asked;
            return self.found(Law::Form, "one claim asks twice".into(), &[asked, place]);
        }
        let at = self.at(place);
        let lock = self.locks.entry(name).or_default();
        lock.pass_to(at);
        let known = Claim {
            lock: name,
            asked: place,
            floor: lock.before,
            grant: None,
            released: None,
            lost: None,
        };
        self.claims.insert(claim, known);
    }

    fn granted(&mut self, place: Place, claim: ClaimNumber, until: Duration) {
        let Some(known) = self.claims.get_mut(&claim) else {
            return self.found(Law::Form, "nobody asked for it".into(), &[place]);
        };
        if let Some(grant) = known.grant {
            return self.found(Law::Form, "it is granted twice".into(), &[grant.place, place]);
        }
        known.grant = Some(Grant { place, until, notified: place });
    }

    /// A grant has a token.
    fn numbered(&mut self, place: Place, claim: ClaimNumber, token: u64, view: Option<u64>) {
        let at = self.at(place);
        let Some(known) =
            self.claims.get(&claim).filter(|c| c.grant.is_some_and(|g| g.place == place))
        else {
            return;
        };
        let (name, asked, floor) = (known.lock, known.asked, known.floor);
        let lock = self.locks.entry(name).or_default();
        lock.pass_to(at);
        lock.grants.push(claim);
        lock.latest.1 = lock.latest.1.max(Some((token, place)));
        let fallen = view.and_then(|view| lock.enter_view(view, token, place));
        if let Some(other) = lock.tokens.insert(token, place) {
            self.found(Law::TokenOnce, format!("token {token} of {name}"), &[other, place]);
        }
        if let Some((larger, other)) = floor.filter(|(floor, _)| *floor > token) {
            let what = format!("{name} went from {larger} back to {token}");
            self.found(Law::TokenOrder, what, &[other, asked, place]);
        }
        if let Some((other_token, other)) = fallen {
            let what = format!("{token} and {other_token} of {name}");
            self.found(Law::Fence, what, &[other, place]);
        }
    }

    fn extended(&mut self, place: Place, claim: ClaimNumber, until: Duration) {
        let known = self.claims.get_mut(&claim);
        let Some((grant, lost, lock)) =
            known.and_then(|c| Some((c.grant.as_mut()?, c.lost, c.lock)))
        else {
            return self.found(Law::Form, "it was not held".into(), &[place]);
        };
        let (old, notified) = (grant.until, grant.notified);
        let over = old <= self.entries[place].at;
        if until >= old {
            (grant.until, grant.notified) = (until, place);
        }
        if let Some(lost) = lost {
            self.found(Law::Final, lock.to_owned(), &[lost, place]);
        } else if until < old {
            self.found(Law::Deadline, lock.to_owned(), &[notified, place]);
        } else if over {
            self.found(Law::Past, lock.to_owned(), &[notified, place]);
        }
    }

    fn stored(&mut self, place: Place, name: &'a str, token: u64, accepted: bool) {
        let lock = self.locks.entry(name).or_default();
        let highest = lock.stored.filter(|(highest, _)| *highest > token);
        if accepted {
            lock.stored = lock.stored.max(Some((token, place)));
        }
        if let Some((highest, other)) = highest.filter(|_| accepted) {
            let what = format!("the store of {name} took {token} after {highest}");
            self.found(Law::Fence, what, &[other, place]);
        }
        if let Some(notified) = self.holds(name, token, place).filter(|_| !accepted) {
            self.found(Law::Refused, format!("{token} of {name}"), &[notified, place]);
        }
    }

    /// Where the holder of a token was notified of a deadline that lies ahead, if it has not given back.
    fn holds(&self, name: &str, token: u64, place: Place) -> Option<Place> {
        let granted = *self.locks.get(name)?.tokens.get(&token)?;
        let Operation::Granted { claim, .. } = self.entries[granted].operation else { return None };
        let known = self.claims.get(&claim).filter(|claim| claim.released.is_none())?;
        known.grant.filter(|grant| grant.until > self.at(place)).map(|grant| grant.notified)
    }

    fn shown(&mut self, place: Place, name: &'a str, token: u64, accepted: bool) {
        if !accepted {
            return;
        }
        let Some(lock) = self.locks.get(name) else {
            return self.found(Law::Holder, format!("{name} was never granted"), &[place]);
        };
        let granted = lock.tokens.get(&token).copied();
        let highest = lock.highest().filter(|(highest, _)| *highest > token);
        let Some(granted) = granted else {
            return self.found(Law::Holder, format!("{token} was never granted"), &[place]);
        };
        if let Some((highest, other)) = highest {
            let what = format!("{name} was granted with {highest} since");
            return self.found(Law::Holder, what, &[granted, other, place]);
        }
        let Operation::Granted { claim, .. } = self.entries[granted].operation else { return };
        let Some(known) = self.claims.get(&claim) else { return };
        // A call to give back may be recorded after the release that it makes, at the same time.
        let released = known.released.filter(|end| self.at(*end) < self.at(place));
        let ended = known.lost.or(released);
        if let Some(ended) = ended {
            let what = format!("the hold of {name} had ended");
            self.found(Law::Holder, what, &[granted, ended, place]);
        }
    }

    fn leads(&mut self, place: Place, who: &'a str, epoch: u64, until: Duration) {
        let (first, notified) = *self.leader_lease.epochs.entry(epoch).or_insert((who, place));
        if first != who {
            self.found(Law::LeaderOfEpoch, format!("{epoch} has two"), &[notified, place]);
        }
        let highest = self.leader_lease.epochs.last_key_value().map(|(high, (_, at))| (*high, *at));
        if let Some((high, other)) = highest.filter(|(high, _)| *high > epoch) {
            self.found(Law::EpochsRise, format!("from {high} to {epoch}"), &[other, place]);
        }
        let belief = Belief { from: place, notified: place, end: until };
        match self.leader_lease.beliefs.get_mut(who) {
            // It goes on in a later view of the same leader.
            Some(known) if known.end >= self.entries[place].at => {
                let (end, notified) = (known.end, known.notified);
                if until < end {
                    self.found(
                        Law::Deadline,
                        format!("the leader lease of {who}"),
                        &[notified, place],
                    );
                } else {
                    (known.end, known.notified) = (until, place);
                }
            }
            Some(_) | None => {
                let ended = self.leader_lease.beliefs.insert(who, belief);
                self.leader_lease.past.extend(ended.map(|ended| (who, ended)));
            }
        }
    }

    fn resigned(&mut self, place: Place, who: &'a str) {
        let at = self.at(place);
        if let Some(mut belief) = self.leader_lease.beliefs.remove(who) {
            belief.end = belief.end.min(at);
            self.leader_lease.past.push((who, belief));
        }
    }

    fn finish(mut self) -> Vec<Violation> {
        for (name, lock) in std::mem::take(&mut self.locks) {
            self.check_beliefs(name, &lock.grants);
            self.check_order(name, &lock.grants);
        }
        self.check_leader_leases();
        self.found.sort_by_key(|(place, _)| self.entries[*place].at);
        self.found.into_iter().map(|(_, violation)| violation).collect()
    }

    /// From when to when the application of a claim believed to hold.
    fn belief(&self, claim: &Claim<'_>) -> Option<(Grant, [Duration; 2])> {
        let grant = claim.grant?;
        let released = claim.released.map_or(grant.until, |place| self.at(place));
        Some((grant, [self.at(grant.place), released.min(grant.until)]))
    }

    /// Goes through the grants of one lock by the time of their answers. The holder that believed longest so
    /// far must have stopped before; or, if nobody believes in the grant, have a larger token.
    fn check_beliefs(&mut self, name: &str, grants: &[ClaimNumber]) {
        let mut longest: Option<(Duration, Option<u64>, Vec<Place>)> = None;
        for number in grants {
            let claim = &self.claims[number];
            let Some((grant, [begin, end])) = self.belief(claim) else { continue };
            let Operation::Granted { token, .. } = self.entries[grant.place].operation else {
                continue;
            };
            let mut shown = vec![grant.place, grant.notified];
            shown.extend(claim.released);
            if let Some((other_end, other_token, other)) = &longest
                && *other_end > begin
            {
                let places = [&other[..], &shown[..]].concat();
                if end > begin {
                    let overlap = end.min(*other_end).saturating_sub(begin);
                    let what = format!("two hold {name} for {overlap:?}");
                    self.found(Law::Exclusion, what, &places);
                } else if token > *other_token {
                    let what = format!("{name} is held with {other_token:?}, not {token:?}");
                    self.found(Law::TokenOrder, what, &places);
                }
            }
            if end > begin && longest.as_ref().is_none_or(|(other_end, ..)| *other_end < end) {
                longest = Some((end, token, shown));
            }
        }
    }

    /// Goes through them again: a new holder has a larger token than all whose holds are over.
    fn check_order(&mut self, name: &str, grants: &[ClaimNumber]) {
        let mut open: BTreeSet<(Duration, Option<u64>, Place)> = BTreeSet::new();
        let mut over = None;
        for number in grants {
            let claim = &self.claims[number];
            let Some((grant, [begin, end])) = self.belief(claim) else { continue };
            let Operation::Granted { token, .. } = self.entries[grant.place].operation else {
                continue;
            };
            while open.first().is_some_and(|(end, ..)| *end <= begin) {
                over = over.max(open.pop_first().map(|(_, token, place)| (token, place)));
            }
            open.insert((end, token, grant.place));
            if let Some((larger, other)) = over.filter(|(over, _)| *over > token && end > begin) {
                let what = format!("{name} went from {larger:?} back to {token:?}");
                self.found(Law::TokenOrder, what, &[other, grant.notified, grant.place]);
            }
        }
    }

    fn check_leader_leases(&mut self) {
        let mut beliefs = std::mem::take(&mut self.leader_lease.past);
        beliefs.extend(std::mem::take(&mut self.leader_lease.beliefs));
        beliefs.sort_by_key(|(_, belief)| (self.at(belief.from), belief.from));
        let mut longest: Option<(&str, Belief)> = None;
        for (who, belief) in beliefs {
            let begin = self.at(belief.from);
            if belief.end <= begin {
                continue;
            }
            if let Some((other, known)) = longest
                && known.end > begin
                && other != who
            {
                let what = format!("{other} and {who}");
                let places = [known.from, known.notified, belief.from, belief.notified];
                self.found(Law::OneLeader, what, &places);
            }
            if longest.is_none_or(|(_, known)| known.end < belief.end) {
                longest = Some((who, belief));
            }
        }
    }
}

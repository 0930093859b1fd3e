//! The named elections, as this pod sees them: whether its application stands, and whether it leads.
//!
//! A lead is a hold. This member asks for it when it was nominated, and only then; so it has the deadline and
//! the token of a hold, and ends as one does.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use conclave_protocols::elections::{election_of, hold_of};
use conclave_protocols::member::message::Note;
use conclave_protocols::member::{
    self, ElectionCommand, ElectionEvent, Lease, LockCommand, LockEvent, ServiceCommand, Term,
};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::Record;
use conclave_protocols::{Epoch, Incarnation, LocalTime, LockName};
use tokio::sync::watch;

use super::publish::leader_info;
use super::{Connection, Election, LastElection, Leader, Leadership, NamedElections, Stood};

/// All named elections of the group.
pub(super) struct Candidacies {
    pod: String,
    me: Incarnation,
    all: BTreeMap<LockName, Named>,
    /// The member was in a view: before, nobody knows which elections there are.
    is_informed: bool,
    /// What others see of them.
    shown: watch::Sender<NamedElections>,
    /// What the member goes by.
    arbiter: Arbiter,
    /// How the member stands in its group.
    stands: member::Leadership,
    /// What the member is to do.
    pub(super) intents: Vec<ServiceCommand>,
}

/// One election.
struct Named {
    state: watch::Sender<Election>,
    /// The policy has it.
    listed: bool,
    /// The application stands, with this priority.
    priority: Option<i32>,
    /// For as long as that lasts; else for good.
    connection: Option<Connection>,
    /// The member is to take the lead, and not to leave it.
    asked: bool,
    /// For how long it leads, if it does.
    term: Option<Term>,
    /// It leads no longer than that: the policy has no such election any more.
    last: Option<LocalTime>,
    /// Who leads, as the leader of the group last stated, in which view.
    known: (Epoch, Option<Leader>),
}

impl Candidacies {
    /// `stands`: the elections that the application stands in from the beginning, once they are listed.
    pub(super) fn new(
        pod: &str,
        me: Incarnation,
        shown: watch::Sender<NamedElections>,
        stands: &[String],
    ) -> Self {
        shown.send_replace(NamedElections::new());
        let mut candidacies = Self {
            pod: pod.to_owned(),
            me,
            all: BTreeMap::new(),
            is_informed: false,
            shown,
            arbiter: Arbiter::Quorum,
            stands: member::Leadership::Isolated,
            intents: Vec::new(),
        };
        for name in stands {
            let Some(hold) = hold_of(name) else { continue };
            let named = Named::new(name, &Policy::default(), Arbiter::Quorum);
            candidacies.all.insert(hold.clone(), Named { priority: Some(0), ..named });
            let stand = ElectionCommand::Stand { election: hold, priority: 0 };
            candidacies.intents.push(stand.into());
        }
        candidacies
    }

    fn show(&self) {
        let shown = self.all.iter().filter(|(_, named)| named.listed || named.term.is_some());
        let shown = shown.filter_map(|(hold, named)| {
            Some((election_of(hold)?.to_owned(), named.state.subscribe()))
        });
        self.shown.send_replace(shown.collect());
    }

    /// Whether it is known which elections there are.
    pub(super) fn is_informed(&self) -> bool {
        self.is_informed
    }

    /// The application stands. Nothing if there is no such election.
    pub(super) fn stand(
        &mut self,
        name: &str,
        priority: i32,
        connection: Option<Connection>,
    ) -> Option<Stood> {
        let hold = hold_of(name)?;
        let named = self.all.get_mut(&hold).filter(|named| named.listed)?;
        let before = named.priority.replace(priority);
        named.connection = connection;
        if before != Some(priority) {
            self.intents.push(ElectionCommand::Stand { election: hold, priority }.into());
        }
        Some(Stood { created: before.is_none(), election: named.state.subscribe() })
    }

    /// A connection is over. If the application stands by it, it stands and leads no longer.
    pub(super) fn hung_up(&mut self, name: &str, connection: &Connection) {
        let named = hold_of(name).and_then(|hold| self.all.get(&hold));
        let by_it = named.and_then(|named| named.connection.as_ref());
        if by_it.is_some_and(|by| by.is(connection)) {
            self.withdraw(name);
        }
    }

    /// The application does not stand any more, and does not lead. False if there is no such election.
    pub(super) fn withdraw(&mut self, name: &str) -> bool {
        let Some(hold) = hold_of(name).filter(|hold| self.all.contains_key(hold)) else {
            return false;
        };
        self.end_candidacy(&hold);
        if let Some(named) = self.all.get_mut(&hold) {
            named.connection = None;
        }
        self.give_up(&hold, Leadership::Following);
        true
    }

    /// This pod is about to end, and is not to begin to lead. What it leads it leads on, also when it has left its
    /// group, up to the deadline that its application goes by: others wait for its lease.
    pub(super) fn drain(&mut self) {
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            self.end_candidacy(&hold);
            if self.all.get(&hold).is_some_and(|named| named.term.is_none()) {
                self.give_up(&hold, Leadership::Following);
            }
        }
    }

    fn end_candidacy(&mut self, hold: &LockName) {
        let Some(named) = self.all.get_mut(hold) else { return };
        if named.priority.take().is_some() {
            self.intents.push(ElectionCommand::Withdraw { election: hold.clone() }.into());
        }
    }

    /// It leads no longer, or is not to begin.
    fn give_up(&mut self, hold: &LockName, then: Leadership) {
        let Some(named) = self.all.get_mut(hold) else { return };
        if std::mem::take(&mut named.asked) {
            self.intents.push(LockCommand::Exit { lock: hold.clone() }.into());
        }
        named.ended(then);
        self.tidy(hold);
    }

    /// Forgets an election that the policy does not have, if nothing of it is left.
    fn tidy(&mut self, hold: &LockName) {
        let unlisted = self.all.get(hold).filter(|named| !named.listed);
        match unlisted.map(|named| (named.priority, &named.term)) {
            Some((None, None)) => {
                self.all.remove(hold);
            }
            Some((Some(_), None)) => {}
            Some((_, Some(_))) | None => return,
        }
        self.show();
    }

    /// The member entered a view.
    pub(super) fn entered(&mut self, record: &Record) {
        self.set_policy(&record.policy);
        for named in self.all.values_mut() {
            if named.known.0 != record.epoch {
                named.known = (record.epoch, None);
            }
            named.show(self.stands);
            named.change(|election| {
                std::mem::replace(&mut election.epoch, record.epoch) != record.epoch
            });
        }
    }

    /// The member goes by that arbiter.
    pub(super) fn goes_by(&mut self, arbiter: Arbiter) {
        if std::mem::replace(&mut self.arbiter, arbiter) == arbiter {
            return;
        }
        for named in self.all.values_mut() {
            named.change(|election| std::mem::replace(&mut election.arbiter, arbiter) != arbiter);
        }
    }

    fn set_policy(&mut self, policy: &Policy) {
        self.is_informed = true;
        let listed: BTreeMap<LockName, _> = policy
            .elections
            .iter()
            .filter_map(|election| Some((hold_of(&election.name)?, election.algorithm)))
            .collect();
        for (hold, named) in &mut self.all {
            named.listed = listed.contains_key(hold);
            if !named.listed && named.last.is_none() {
                // Its application goes by that deadline, and candidates stand again when it is listed again.
                named.last = named.term.as_ref().map(Term::until);
            }
        }
        let unlisted = self.all.iter().filter(|(_, named)| !named.listed && named.term.is_none());
        for hold in unlisted.map(|(hold, _)| hold.clone()).collect::<Vec<_>>() {
            self.give_up(&hold, Leadership::Isolated);
        }
        for (hold, algorithm) in listed {
            let name = election_of(&hold).unwrap_or_default();
            let new = || Named::new(name, policy, self.arbiter);
            let named = self.all.entry(hold.clone()).or_insert_with(new);
            named.listed = true;
            named.change(|election| {
                std::mem::replace(&mut election.algorithm, algorithm) != algorithm
            });
        }
        self.show();
    }

    /// How the member stands in its group.
    pub(super) fn stands(&mut self, leadership: member::Leadership) {
        self.stands = leadership;
        self.all.values_mut().for_each(|named| named.show(leadership));
    }

    /// Something happened in an election.
    pub(super) fn on_election(
        &mut self,
        now: LocalTime,
        hold: &LockName,
        event: &ElectionEvent,
        record: Option<&Record>,
    ) {
        let name = election_of(hold).unwrap_or_default();
        // A view may begin with it: then its policy is not known here yet.
        let new = || Named::new(name, &Policy::default(), self.arbiter);
        let named = self.all.entry(hold.clone()).or_insert_with(new);
        match *event {
            ElectionEvent::Elected { winner, messages, took } => {
                named.state.send_modify(|election| {
                    election.last = Some(LastElection { messages, duration: took });
                });
                if winner == self.me && named.priority.is_some() && !named.asked {
                    named.asked = true;
                    let note = Note { owner: self.pod.clone(), metadata: None };
                    let lock = hold.clone();
                    self.intents.push(LockCommand::Enter { lock, note }.into());
                }
            }
            ElectionEvent::State { leader, candidates } => {
                let other = leader.is_some_and(|leader| leader != self.me);
                if other && named.asked && named.term.is_none() {
                    // Another nominee was faster.
                    named.asked = false;
                    self.intents.push(LockCommand::Exit { lock: hold.clone() }.into());
                }
                let epoch = record.map(|record| record.epoch).unwrap_or_default();
                named.known = (epoch, leader.and_then(|leader| leader_info(now, record?, leader)));
                named.change(|election| {
                    std::mem::replace(&mut election.candidates, candidates) != candidates
                });
                named.show(self.stands);
            }
        }
    }

    /// Something happened to a lead.
    pub(super) fn on_lead(
        &mut self,
        now: LocalTime,
        hold: &LockName,
        event: &LockEvent,
        record: Option<&Record>,
    ) {
        let Some(named) = self.all.get_mut(hold) else { return };
        match *event {
            LockEvent::Entered { token, term, .. } => {
                if !named.asked {
                    return;
                }
                named.term = Some(term);
                let me = record.and_then(|record| leader_info(now, record, self.me));
                named.change(|election| {
                    election.token = token;
                    election.safe_until = Some(term.until());
                    election.set(Leadership::Leading) | election.set_leader(me) | true
                });
            }
            LockEvent::Extended { deadline, .. } => named.extend(|term| term.extend(deadline)),
            LockEvent::Renewed { renewed, listed } => {
                named.extend(|term| term.set_renewed(now, renewed, listed));
            }
            LockEvent::Lost(_) => {
                named.asked = false;
                named.ended(Leadership::Isolated);
                self.tidy(hold);
            }
            LockEvent::Queued(_) | LockEvent::Left { .. } => {}
        }
    }

    /// All that this member holds goes on.
    pub(super) fn extend_all(&mut self, now: LocalTime, lease: Lease) {
        for named in self.all.values_mut() {
            named.extend(|term| term.renew(lease));
        }
        let over = self.all.iter().filter(|(_, named)| named.last.is_some_and(|last| last <= now));
        for hold in over.map(|(hold, _)| hold.clone()).collect::<Vec<_>>() {
            self.give_up(&hold, Leadership::Isolated);
        }
    }
}

impl Named {
    fn new(name: &str, policy: &Policy, arbiter: Arbiter) -> Self {
        let state = watch::Sender::new(Election { arbiter, ..Election::new(name, policy) });
        let known = (Epoch(0), None);
        Self {
            state,
            listed: false,
            priority: None,
            connection: None,
            asked: false,
            term: None,
            last: None,
            known,
        }
    }

    /// Shows what is known, unless this member leads: nobody knows of a leader who follows nobody.
    fn show(&mut self, stands: member::Leadership) {
        if self.term.is_some() {
            return;
        }
        let (known, otherwise) = match stands {
            member::Leadership::Leading(_)
            | member::Leadership::HandingOver
            | member::Leadership::Following(..) => (self.known.1.clone(), Leadership::Electing),
            member::Leadership::Electing => (None, Leadership::Electing),
            member::Leadership::Isolated => (None, Leadership::Isolated),
        };
        let stands = if known.is_some() { Leadership::Following } else { otherwise };
        self.change(|election| election.set(stands) | election.set_leader(known));
    }

    /// Changes what is shown, and says so if it did.
    fn change(&mut self, change: impl FnOnce(&mut Election) -> bool) {
        self.state.send_if_modified(|election| {
            let changed = change(election);
            election.index += u64::from(changed);
            changed
        });
    }

    /// The term moves on, unless it is the last; that alone is no news.
    fn extend(&mut self, extend: impl FnOnce(&mut Term)) {
        let Some(term) = self.term.as_mut().filter(|_| self.last.is_none()) else { return };
        extend(term);
        let until = Some(term.until());
        self.state.send_if_modified(|election| {
            std::mem::replace(&mut election.safe_until, until) != until
        });
    }

    /// This member leads no longer, if it did.
    fn ended(&mut self, then: Leadership) {
        self.last = None;
        if self.term.take().is_some() {
            self.change(|election| {
                (election.token, election.safe_until) = (None, None);
                election.set(then) | election.set_leader(None) | true
            });
        }
    }
}

impl Election {
    /// Whether that is another standing than before.
    fn set(&mut self, leadership: Leadership) -> bool {
        std::mem::replace(&mut self.leadership, leadership) != leadership
    }
}

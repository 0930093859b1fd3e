//! The named elections, as this pod sees them: whether its application stands, and whether it leads.
//!
//! A lead is a hold. This member asks for it when it was nominated, and only then; so it has the deadline and
//! the token of a hold, and ends as one does.

mod application;
mod named;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::BTreeMap;

use conclave_protocols::elections::{election_of, hold_of};
use conclave_protocols::member::message::Note;
use conclave_protocols::member::{
    self, Candidacy, ElectionCommand, ElectionEvent, Lease, LockCommand, LockEvent, ServiceCommand,
};
use conclave_protocols::policy::{Arbiter, ElectionPolicy, Handoff, Policy};
use conclave_protocols::record::Record;
use conclave_protocols::{Incarnation, LocalTime, LockName};
use tokio::sync::watch;

use self::named::Named;
pub(super) use self::named::is_of_pod;
use self::turns::Turns;
use super::publish::leader_info;
use super::{
    CandidacyState, Connection, ElectionError, Keepalive, LastElection, Leader, Leadership,
    NamedElections, Stands, Stood,
};
use crate::application::Application;

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
    /// This pod is about to end, and is not to begin to lead.
    drains: bool,
    /// What others report of the application.
    application: Application,
    /// The Leases that leaders must have besides.
    turns: Turns,
    /// What the member is to do.
    pub(super) intents: Vec<ServiceCommand>,
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
            drains: false,
            application: Application::default(),
            turns: Turns::new(pod, me),
            intents: Vec::new(),
        };
        for name in stands {
            let Some(hold) = hold_of(name) else { continue };
            let mut named = Named::new(name, &Policy::default(), Arbiter::Quorum);
            let candidacy = Candidacy::default();
            named.annotated = Some(Stands { candidacy, keepalive: Keepalive::Annotation });
            named.stands.clone_from(&named.annotated);
            candidacies.all.insert(hold.clone(), named);
            candidacies.announce(&hold);
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

    /// The application stands.
    pub(super) fn stand(
        &mut self,
        now: LocalTime,
        name: &str,
        stands: Stands,
    ) -> Result<Stood, ElectionError> {
        let (hold, named) = self.find(name)?;
        if !named.listed {
            return Err(ElectionError::NoElection);
        }
        let created = named.stand(now, stands);
        let election = named.state.subscribe();
        self.announce(&hold);
        Ok(Stood { created, election })
    }

    fn find(&mut self, name: &str) -> Result<(LockName, &mut Named), ElectionError> {
        let hold = hold_of(name).ok_or(ElectionError::NoElection)?;
        let named = self.all.get_mut(&hold).ok_or(ElectionError::NoElection)?;
        Ok((hold, named))
    }

    /// Lets the member know as what the application stands now, if that is news.
    fn announce(&mut self, hold: &LockName) {
        let Some(state) = self.all.get(hold).map(|named| self.state_of(named)) else { return };
        let Some(named) = self.all.get_mut(hold) else { return };
        named.change(|election| std::mem::replace(&mut election.candidacy, state) != state);
        let stands = named.stands.as_ref().filter(|_| state == CandidacyState::Stands);
        let candidacy = stands.map(|stands| stands.candidacy.clone());
        if named.announced == candidacy {
            return;
        }
        named.announced.clone_from(&candidacy);
        let election = hold.clone();
        self.intents.push(match candidacy {
            Some(candidacy) => ElectionCommand::Stand { election, candidacy }.into(),
            None => ElectionCommand::Withdraw { election }.into(),
        });
    }

    /// A connection is over. If the application stands by it, it stands and leads no longer.
    pub(super) fn hung_up(&mut self, name: &str, connection: &Connection) {
        let stands = self.find(name).is_ok_and(|(_, named)| named.stands_by(connection));
        if stands {
            // It was just found.
            let _ = self.stand_down(name);
        }
    }

    /// The application does not stand any more, and does not lead.
    pub(super) fn withdraw(&mut self, now: LocalTime, name: &str) -> Result<(), ElectionError> {
        let (_, named) = self.find(name)?;
        named.since = now;
        self.stand_down(name)
    }

    fn stand_down(&mut self, name: &str) -> Result<(), ElectionError> {
        let (hold, named) = self.find(name)?;
        (named.stands, named.alive_until) = (None, None);
        self.announce(&hold);
        self.give_up(&hold, Leadership::Following);
        Ok(())
    }

    /// The application has stopped leading, and stands again at that time. If it names a pod, that is to lead next.
    pub(super) fn resign(
        &mut self,
        name: &str,
        to: Option<&str>,
        until: LocalTime,
        record: Option<&Record>,
    ) -> Result<(), ElectionError> {
        let me = self.me;
        let (hold, named) = self.find(name)?;
        if !named.leads() {
            return Err(ElectionError::NotLeader);
        }
        let to = to.map(|to| {
            let other = named.candidate(to, record).filter(|other| *other != me);
            other.ok_or_else(|| ElectionError::NoCandidate(to.to_owned()))
        });
        let to = to.transpose()?;
        named.rests = named.stands.as_ref().map(|_| until);
        if let Some(to) = to {
            let election = hold.clone();
            self.intents.push(ElectionCommand::Transfer { election, to }.into());
        }
        self.announce(&hold);
        self.give_up(&hold, Leadership::Following);
        Ok(())
    }

    /// The leader is to give the lead to that pod.
    pub(super) fn transfer(
        &mut self,
        name: &str,
        to: &str,
        record: Option<&Record>,
    ) -> Result<(), ElectionError> {
        let (election, named) = self.find(name)?;
        if !named.listed {
            return Err(ElectionError::NoElection);
        }
        let candidate = named.candidate(to, record);
        let to = candidate.ok_or_else(|| ElectionError::NoCandidate(to.to_owned()))?;
        self.intents.push(ElectionCommand::Transfer { election, to }.into());
        Ok(())
    }

    /// This pod is about to end, and is not to begin to lead. What it leads it leads on, also when it has left its
    /// group, up to the deadline that its application goes by: others wait for its lease.
    pub(super) fn drain(&mut self) {
        self.drains = true;
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            self.announce(&hold);
            if self.all.get(&hold).is_some_and(|named| !named.leads()) {
                self.give_up(&hold, Leadership::Following);
            }
        }
    }

    /// This pod ends: its application leads until it has stopped, and no longer than the deadline that it was notified of.
    pub(super) fn end(&mut self) {
        self.drain();
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            self.hand_over(&hold);
        }
    }

    /// Whether the application leads in some election.
    pub(super) fn leads(&self) -> bool {
        self.all.values().any(|named| named.term.is_some())
    }

    /// This member is to give the lead to another, if it has it.
    fn hand_over(&mut self, hold: &LockName) {
        let Some(named) = self.all.get_mut(hold).filter(|named| named.term.is_some()) else {
            return;
        };
        match named.handoff {
            _ if named.waits_for_lease() => self.give_up(hold, Leadership::Following),
            // A program that takes the Lease does not know how the next leader begins.
            Handoff::BeforeStop if named.leased.is_none() => {
                self.give_up(hold, Leadership::Following);
            }
            Handoff::AfterStop | Handoff::BeforeStop => named.end_by_its_deadline(),
        }
    }

    /// When something is over.
    pub(super) fn next_due(&self) -> Option<LocalTime> {
        self.all.values().filter_map(Named::next_due).chain(self.turns.next_due()).min()
    }

    /// Ends what is over by now.
    pub(super) fn tick(&mut self, now: LocalTime) {
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            let Some(named) = self.all.get_mut(&hold) else { continue };
            named.rests = named.rests.filter(|until| *until > now);
            let abandoned = named.alive_until.is_some_and(|until| until <= now);
            if abandoned {
                (named.stands, named.alive_until) = (None, None);
                self.stands_by_annotation(&hold);
            }
            let Some(named) = self.all.get(&hold) else { continue };
            let ends = abandoned || named.last.is_some_and(|last| last <= now);
            let then = if named.listed { Leadership::Following } else { Leadership::Isolated };
            self.announce(&hold);
            if ends {
                self.give_up(&hold, then);
            }
        }
        self.tick_leases(now);
    }

    /// It leads no longer, or is not to begin.
    fn give_up(&mut self, hold: &LockName, then: Leadership) {
        let Some(named) = self.all.get_mut(hold) else { return };
        if std::mem::take(&mut named.asked) {
            self.intents.push(LockCommand::Exit { lock: hold.clone() }.into());
        }
        named.ended(then);
        named.settle_lease();
        if named.listed {
            named.show(self.stands);
        }
        // The application has stopped, or its deadline is over.
        self.turns.give_back(hold, LocalTime::default());
        self.tidy(hold);
    }

    /// Forgets an election that the policy does not have, if nothing of it is left.
    fn tidy(&mut self, hold: &LockName) {
        let Some(named) = self.all.get(hold).filter(|named| !named.listed) else { return };
        match (&named.stands, &named.term) {
            (None, None) => {
                self.all.remove(hold);
            }
            (Some(_), None) => {}
            (_, Some(_)) => return,
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
            named.expect(Some(record));
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
        self.turns.go_by(arbiter);
        for named in self.all.values_mut() {
            named.change(|election| std::mem::replace(&mut election.arbiter, arbiter) != arbiter);
        }
    }

    fn set_policy(&mut self, policy: &Policy) {
        self.is_informed = true;
        let listed: BTreeMap<LockName, &ElectionPolicy> = policy
            .elections
            .iter()
            .filter_map(|election| Some((hold_of(&election.name)?, election)))
            .collect();
        for (hold, named) in &mut self.all {
            named.listed = listed.contains_key(hold);
            if !named.listed {
                // Its application goes by that deadline, and candidates stand again when it is listed again.
                named.end_by_its_deadline();
            }
        }
        let unlisted = self.all.iter().filter(|(_, named)| !named.listed && !named.leads());
        for hold in unlisted.map(|(hold, _)| hold.clone()).collect::<Vec<_>>() {
            self.give_up(&hold, Leadership::Isolated);
        }
        for (hold, election) in listed {
            let name = election_of(&hold).unwrap_or_default();
            let new = || Named::new(name, policy, self.arbiter);
            let named = self.all.entry(hold.clone()).or_insert_with(new);
            (named.listed, named.handoff) = (true, election.handoff);
            named.lease.clone_from(&election.lease);
            let algorithm = election.algorithm;
            named.change(|election| {
                std::mem::replace(&mut election.algorithm, algorithm) != algorithm
            });
        }
        self.follow_leases();
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
        match event {
            &ElectionEvent::Elected { winner, messages, took } => {
                named.state.send_modify(|election| {
                    election.last = Some(LastElection { messages, duration: took });
                });
                if winner == self.me && named.announced.is_some() && !named.asked {
                    named.asked = true;
                    let note = Note { owner: self.pod.clone(), metadata: None };
                    let lock = hold.clone();
                    self.intents.push(LockCommand::Enter { lock, note }.into());
                }
            }
            ElectionEvent::State { leader, profile, candidates } => {
                let leader = *leader;
                // Unless it leads, that is from before it gave the lead up, or it is yet to be granted it.
                let leader = leader.filter(|leader| *leader != self.me || named.term.is_some());
                let other = leader.is_some_and(|leader| leader != self.me);
                if other && named.asked && named.term.is_none() {
                    // Another nominee was faster.
                    named.asked = false;
                    self.intents.push(LockCommand::Exit { lock: hold.clone() }.into());
                }
                let epoch = record.map(|record| record.epoch).unwrap_or_default();
                let known = leader.and_then(|leader| leader_info(now, record?, leader));
                let profile = profile.clone();
                named.known = (epoch, known.map(|leader| Leader { profile, ..leader }));
                named.candidates.clone_from(candidates);
                let count = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
                // Those that are notified of the others see it as well.
                named.expect(record);
                named
                    .change(|election| std::mem::replace(&mut election.candidates, count) != count);
                named.show(self.stands);
            }
            ElectionEvent::HandOver => self.hand_over(hold),
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
                named.began = now;
                let me = record.and_then(|record| leader_info(now, record, self.me));
                let profile = named.profile();
                let me = me.map(|me| Leader { profile, ..me });
                if named.leased.is_none() {
                    named.begin(token, me);
                } else {
                    self.wants_lease(now, hold, token, me);
                }
            }
            LockEvent::Extended { deadline, .. } => named.extend(|term| term.extend(deadline)),
            LockEvent::Renewed { renewed, listed } => {
                named.extend(|term| term.set_renewed(now, renewed, listed));
            }
            LockEvent::Lost(_) => {
                named.asked = false;
                // Until then its application may go by what it was notified of.
                let until = named.until();
                named.ended(Leadership::Isolated);
                named.settle_lease();
                self.turns.give_back(hold, until.unwrap_or(now));
                self.tidy(hold);
            }
            LockEvent::Queued(_) | LockEvent::Left { .. } => {}
        }
    }

    /// All that this member holds goes on.
    pub(super) fn extend_all(&mut self, lease: Lease) {
        for named in self.all.values_mut() {
            named.extend(|term| term.renew(lease));
        }
    }
}

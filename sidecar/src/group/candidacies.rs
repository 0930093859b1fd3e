//! The named elections, as this pod sees them: whether its application stands, and whether it leads.
//!
//! A lead is a hold. This member asks for it when it was nominated, and only then; so it has the deadline and
//! the token of a hold, and ends as one does.

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, LeaseClass, Timing};
    use conclave_protocols::record::{MemberInfo, RECORD_VERSION};
    use conclave_protocols::{FencingToken, PodUid};

    use super::*;

    const ME: Incarnation = Incarnation { pod: PodUid(1), run: 7 };
    const OTHER: Incarnation = Incarnation { pod: PodUid(2), run: 7 };
    const NOW: LocalTime = LocalTime(1_000_000_000);

    fn lead() -> LockName {
        hold_of("reports").expect("a name")
    }

    /// One election, in which the application stands.
    fn candidacies() -> Candidacies {
        let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &[]);
        let algorithm = ElectionAlgorithm::Bully;
        let elections = vec![ElectionPolicy { name: "reports".to_owned(), algorithm }];
        candidacies.set_policy(&Policy { elections, ..Policy::default() });
        assert!(candidacies.stand("reports", 3, None).expect("it is listed").created);
        let stand = ElectionCommand::Stand { election: lead(), priority: 3 };
        assert_eq!(std::mem::take(&mut candidacies.intents), [stand.into()]);
        candidacies
    }

    fn nominate(candidacies: &mut Candidacies, winner: Incarnation) {
        let event = ElectionEvent::Elected { winner, messages: 0, took: Duration::ZERO };
        candidacies.on_election(NOW, &lead(), &event, None);
    }

    fn grant(candidacies: &mut Candidacies) {
        let token = FencingToken::before(Epoch(4)).successor(Epoch(9));
        let term = Term::new(NOW, NOW.after(Duration::from_secs(3)), false).of(LeaseClass::Leader);
        let event = LockEvent::Entered { token, epoch: Epoch(4), term, messages: 2 };
        candidacies.on_lead(NOW, &lead(), &event, None);
    }

    fn enters(candidacies: &mut Candidacies) -> bool {
        let enters = |intent: &ServiceCommand| {
            matches!(intent, ServiceCommand::Lock(LockCommand::Enter { .. }))
        };
        std::mem::take(&mut candidacies.intents).iter().any(enters)
    }

    fn exits(candidacies: &mut Candidacies) -> bool {
        let exit = ServiceCommand::from(LockCommand::Exit { lock: lead() });
        std::mem::take(&mut candidacies.intents).contains(&exit)
    }

    fn shown(candidacies: &Candidacies) -> Election {
        candidacies.shown.borrow()["reports"].borrow().clone()
    }

    #[test]
    fn the_nominee_asks_once_and_leads_when_it_is_granted_the_lead() {
        let mut candidacies = candidacies();
        nominate(&mut candidacies, OTHER);
        assert!(!enters(&mut candidacies));
        nominate(&mut candidacies, ME);
        assert!(enters(&mut candidacies));
        assert!(!shown(&candidacies).leads_at(NOW), "it is nominated, and no more");
        nominate(&mut candidacies, ME);
        assert!(!enters(&mut candidacies));
        grant(&mut candidacies);
        let election = shown(&candidacies);
        assert!(election.leads_at(NOW) && !election.leads_at(NOW.after(Duration::from_secs(3))));
        assert!(election.token.is_some());
    }

    #[test]
    fn a_nominee_that_was_too_late_asks_no_longer() {
        let mut candidacies = candidacies();
        nominate(&mut candidacies, ME);
        assert!(enters(&mut candidacies));
        let event = ElectionEvent::State { leader: Some(OTHER), candidates: 2 };
        candidacies.on_election(NOW, &lead(), &event, None);
        assert!(exits(&mut candidacies));
    }

    #[test]
    fn who_does_not_stand_does_not_ask_and_does_not_lead() {
        let mut candidacies = candidacies();
        nominate(&mut candidacies, ME);
        grant(&mut candidacies);
        assert!(enters(&mut candidacies));
        assert!(candidacies.withdraw("reports") && exits(&mut candidacies));
        assert!(!shown(&candidacies).leads_at(NOW));
        nominate(&mut candidacies, ME);
        assert!(!enters(&mut candidacies));
        // What was granted before it was given back is no lead.
        grant(&mut candidacies);
        assert!(!shown(&candidacies).leads_at(NOW));
    }

    #[test]
    fn who_stands_by_a_connection_stands_and_leads_for_as_long_as_it_lasts() {
        let [one, other] = [Connection::default(), Connection::default()];
        for (again, ends) in [(Some(one.clone()), true), (Some(other), false), (None, false)] {
            let mut candidacies = candidacies();
            candidacies.stand("reports", 3, Some(one.clone())).expect("it is listed");
            nominate(&mut candidacies, ME);
            grant(&mut candidacies);
            candidacies.stand("reports", 3, again).expect("it is listed");
            candidacies.hung_up("reports", &one);
            assert_eq!((exits(&mut candidacies), shown(&candidacies).leads_at(NOW)), (ends, !ends));
        }
    }

    /// It drains, and its application hangs up when it has stopped.
    #[test]
    fn who_drains_gives_the_lead_up_when_its_connection_ends() {
        let mut candidacies = candidacies();
        let connection = Connection::default();
        candidacies.stand("reports", 3, Some(connection.clone())).expect("it is listed");
        nominate(&mut candidacies, ME);
        grant(&mut candidacies);
        candidacies.drain();
        assert!(!exits(&mut candidacies));
        candidacies.hung_up("reports", &connection);
        assert!(exits(&mut candidacies) && !shown(&candidacies).leads_at(NOW));
    }

    #[test]
    fn a_pod_that_drains_leads_on_and_does_not_begin_to() {
        for leads in [true, false] {
            let mut candidacies = candidacies();
            nominate(&mut candidacies, ME);
            if leads {
                grant(&mut candidacies);
            }
            assert!(enters(&mut candidacies));
            candidacies.drain();
            assert_eq!(exits(&mut candidacies), !leads);
            assert_eq!(shown(&candidacies).leads_at(NOW), leads);
        }
    }

    fn list(candidacies: &mut Candidacies, names: &[&str]) {
        let algorithm = ElectionAlgorithm::Bully;
        let policy = |name: &&str| ElectionPolicy { name: (*name).to_owned(), algorithm };
        let elections = names.iter().map(policy).collect();
        candidacies.set_policy(&Policy { elections, ..Policy::default() });
    }

    fn lease(until: LocalTime) -> Lease {
        Lease { stamp: until, until, leads_until: until, ..Lease::default() }
    }

    /// Its application goes by the deadline that it was notified of; so nobody else may lead before.
    #[test]
    fn an_election_that_is_not_listed_any_more_ends_when_its_leader_surely_does() {
        let mut candidacies = candidacies();
        nominate(&mut candidacies, ME);
        grant(&mut candidacies);
        let deadline = shown(&candidacies).safe_until.expect("it leads");
        list(&mut candidacies, &[]);
        candidacies.intents.clear();
        candidacies.extend_all(NOW, lease(deadline.after(Duration::from_secs(1))));
        assert_eq!(shown(&candidacies).safe_until, Some(deadline), "it is its last");
        assert!(shown(&candidacies).leads_at(NOW) && !exits(&mut candidacies));
        // Meanwhile it is listed again.
        list(&mut candidacies, &["reports"]);
        assert!(
            candidacies.stand("reports", 3, None).is_some_and(|stood| !stood.created),
            "it stands"
        );
        candidacies.extend_all(deadline, lease(deadline.after(Duration::from_secs(1))));
        assert!(exits(&mut candidacies));
        assert!(!shown(&candidacies).leads_at(NOW));
        // Now of an election that nobody leads nothing is shown.
        list(&mut candidacies, &[]);
        assert!(
            candidacies.shown.borrow().is_empty()
                && candidacies.stand("reports", 3, None).is_none()
        );
        assert!(candidacies.withdraw("reports") && !candidacies.withdraw("reports"));
    }

    fn record(epoch: u64) -> Record {
        let info = MemberInfo {
            incarnation: OTHER,
            name: "shop-1".to_owned(),
            addresses: Vec::new(),
            priority: 0,
            seniority: 1,
            protocol: (1, 1),
        };
        let algorithm = ElectionAlgorithm::Bully;
        let elections = vec![ElectionPolicy { name: "reports".to_owned(), algorithm }];
        Record {
            version: RECORD_VERSION,
            epoch: Epoch(epoch),
            ceiling: Epoch(epoch + 3),
            members: vec![info],
            leader: Some(OTHER),
            settled: true,
            closing: false,
            base_unknown: false,
            base: Some(Epoch(0)),
            held: None,
            timing: Timing::default(),
            policy: Policy { elections, ..Policy::default() },
            nonce: 0,
        }
    }

    #[test]
    fn who_follows_nobody_knows_of_no_leader() {
        let mut candidacies = candidacies();
        let event = ElectionEvent::State { leader: Some(OTHER), candidates: 2 };
        let follows = member::Leadership::Following(OTHER, NOW);
        candidacies.stands(follows);
        candidacies.on_election(NOW, &lead(), &event, Some(&record(4)));
        assert!(shown(&candidacies).leader.is_some());
        candidacies.stands(member::Leadership::Electing);
        assert!(shown(&candidacies).leader.is_none());
        candidacies.stands(follows);
        assert!(shown(&candidacies).leader.is_some(), "in the same view");
        candidacies.entered(&record(5));
        assert!(shown(&candidacies).leader.is_none(), "another view");
    }

    #[test]
    fn who_is_put_forward_from_the_beginning_stands_once_the_election_is_listed() {
        let stands = ["reports".to_owned()];
        let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &stands);
        let stand = ElectionCommand::Stand { election: lead(), priority: 0 };
        assert_eq!(std::mem::take(&mut candidacies.intents), [stand.into()]);
        list(&mut candidacies, &["mails"]);
        assert!(!candidacies.shown.borrow().contains_key("reports"));
        list(&mut candidacies, &["mails", "reports"]);
        nominate(&mut candidacies, ME);
        assert!(enters(&mut candidacies));
        // The application may think better of it.
        assert!(candidacies.withdraw("reports") && exits(&mut candidacies));
    }

    /// A member that joins hears of an election before it has the view's policy.
    #[test]
    fn what_is_heard_early_is_shown_once_the_election_is_listed() {
        let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &[]);
        candidacies.stands(member::Leadership::Following(OTHER, NOW));
        let event = ElectionEvent::State { leader: None, candidates: 2 };
        candidacies.on_election(NOW, &lead(), &event, None);
        assert!(candidacies.shown.borrow().is_empty());
        list(&mut candidacies, &["reports"]);
        assert_eq!(shown(&candidacies).candidates, 2);
    }

    #[test]
    fn a_lead_without_an_arbiter_is_not_shown_as_safe() {
        let mut candidacies = candidacies();
        candidacies.goes_by(Arbiter::None);
        assert_eq!(shown(&candidacies).arbiter, Arbiter::None);
    }
}

//! Candidacies by what is asked of them and what the member reports, without a group.

use std::time::Duration;

use conclave_protocols::member::{Profile, Term};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, LeaseClass};
use conclave_protocols::{Epoch, FencingToken, PodUid};

use super::*;
use crate::group::{Election, ElectionCost, sample};

const ME: Incarnation = Incarnation { pod: PodUid(1), run: 7 };
const OTHER: Incarnation = Incarnation { pod: PodUid(2), run: 7 };
const NOW: LocalTime = LocalTime(1_000_000_000);

fn lead() -> LockName {
    hold_of("reports").expect("a name")
}

/// One election, in which the application stands.
fn candidacies() -> Candidacies {
    let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &[]);
    assert!(!candidacies.is_informed(), "it was in no view");
    let algorithm = ElectionAlgorithm::Bully;
    let elections = vec![ElectionPolicy::new("reports", algorithm)];
    candidacies.set_policy(&Policy { elections, ..Policy::default() });
    assert!(candidacies.is_informed());
    assert!(stand(&mut candidacies, Keepalive::Sidecar).expect("it is listed").created);
    assert_eq!(std::mem::take(&mut candidacies.intents), [stands(3)]);
    candidacies
}

fn stand(candidacies: &mut Candidacies, keepalive: Keepalive) -> Result<Stood, ElectionError> {
    let candidacy = Candidacy { priority: 3, ..Candidacy::default() };
    candidacies.stand(NOW, "reports", Stands { candidacy, keepalive })
}

/// What lets the member know that the application stands.
fn stands(priority: i32) -> ServiceCommand {
    let candidacy = Candidacy { priority, ..Candidacy::default() };
    ElectionCommand::Stand { election: lead(), candidacy }.into()
}

fn state(candidacies: &mut Candidacies, leader: Option<Incarnation>, record: Option<&Record>) {
    let (profile, candidates) = (Profile::default(), vec![ME, OTHER]);
    let event = ElectionEvent::State { leader, profile, candidates };
    candidacies.on_election(NOW, &lead(), &event, record);
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
    let enters =
        |intent: &ServiceCommand| matches!(intent, ServiceCommand::Lock(LockCommand::Enter { .. }));
    std::mem::take(&mut candidacies.intents).iter().any(enters)
}

fn exits(candidacies: &mut Candidacies) -> bool {
    let exit = ServiceCommand::from(LockCommand::Exit { lock: lead() });
    std::mem::take(&mut candidacies.intents).contains(&exit)
}

fn shown(candidacies: &Candidacies) -> Election {
    candidacies.shown.borrow()["reports"].borrow().clone()
}

mod application;
mod ending;
mod leases;

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
    state(&mut candidacies, Some(OTHER), None);
    assert!(exits(&mut candidacies));
}

#[test]
fn a_member_that_does_not_stand_does_not_ask_and_does_not_lead() {
    let mut candidacies = candidacies();
    nominate(&mut candidacies, ME);
    grant(&mut candidacies);
    assert!(enters(&mut candidacies));
    assert!(candidacies.withdraw(NOW, "reports").is_ok() && exits(&mut candidacies));
    assert!(!shown(&candidacies).leads_at(NOW));
    nominate(&mut candidacies, ME);
    assert!(!enters(&mut candidacies));
    // What was granted before it was given back is no lead.
    grant(&mut candidacies);
    assert!(!shown(&candidacies).leads_at(NOW));
}

#[test]
fn a_candidate_by_a_connection_stands_and_leads_for_as_long_as_it_lasts() {
    let [one, other] = [Connection::default(), Connection::default()];
    for (again, ends) in [(Some(one.clone()), true), (Some(other), false), (None, false)] {
        let mut candidacies = candidacies();
        stand(&mut candidacies, Keepalive::Connection(one.clone())).expect("it is listed");
        nominate(&mut candidacies, ME);
        grant(&mut candidacies);
        let again = again.map_or(Keepalive::Sidecar, Keepalive::Connection);
        stand(&mut candidacies, again).expect("it is listed");
        candidacies.hung_up("reports", &one);
        assert_eq!((exits(&mut candidacies), shown(&candidacies).leads_at(NOW)), (ends, !ends));
    }
}

/// It drains, and its application hangs up when it has stopped.
#[test]
fn a_member_that_drains_gives_the_lead_up_when_its_connection_ends() {
    let mut candidacies = candidacies();
    let connection = Connection::default();
    stand(&mut candidacies, Keepalive::Connection(connection.clone())).expect("it is listed");
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
    let policy = |name: &&str| ElectionPolicy::new(name, algorithm);
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
    candidacies.extend_all(lease(deadline.after(Duration::from_secs(1))));
    candidacies.tick(NOW);
    assert_eq!(shown(&candidacies).safe_until, Some(deadline), "it is its last");
    assert!(shown(&candidacies).leads_at(NOW) && !exits(&mut candidacies));
    // Meanwhile it is listed again.
    list(&mut candidacies, &["reports"]);
    let again = stand(&mut candidacies, Keepalive::Sidecar);
    assert!(again.is_ok_and(|stood| !stood.created), "it stands");
    candidacies.extend_all(lease(deadline.after(Duration::from_secs(1))));
    assert_eq!(candidacies.next_due(), Some(deadline));
    candidacies.tick(deadline);
    assert!(exits(&mut candidacies));
    assert!(!shown(&candidacies).leads_at(NOW));
    // Now of an election that nobody leads nothing is shown.
    list(&mut candidacies, &[]);
    assert!(candidacies.shown.borrow().is_empty());
    let refused = stand(&mut candidacies, Keepalive::Sidecar).map(|stood| stood.created);
    assert_eq!(refused, Err(ElectionError::NoElection));
    assert_eq!(candidacies.withdraw(NOW, "reports"), Ok(()));
    assert_eq!(candidacies.withdraw(NOW, "reports"), Err(ElectionError::NoElection));
}

fn record(epoch: u64) -> Record {
    let algorithm = ElectionAlgorithm::Bully;
    let elections = vec![ElectionPolicy::new("reports", algorithm)];
    Record {
        epoch: Epoch(epoch),
        ceiling: Epoch(epoch + 3),
        leader: Some(OTHER),
        policy: Policy { elections, ..Policy::default() },
        ..sample::view(vec![sample::member(OTHER, "shop-1")])
    }
}

#[test]
fn a_member_that_follows_nobody_knows_of_no_leader() {
    let mut candidacies = candidacies();
    let follows = member::Leadership::Following(OTHER, NOW);
    candidacies.stands(follows);
    state(&mut candidacies, Some(OTHER), Some(&record(4)));
    assert!(shown(&candidacies).leader.is_some());
    candidacies.stands(member::Leadership::Electing);
    assert!(shown(&candidacies).leader.is_none());
    candidacies.stands(follows);
    assert!(shown(&candidacies).leader.is_some(), "in the same view");
    candidacies.entered(&record(5));
    assert!(shown(&candidacies).leader.is_none(), "another view");
}

#[test]
fn a_member_that_is_put_forward_from_the_beginning_stands_once_the_election_is_listed() {
    let names = ["reports".to_owned()];
    let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &names);
    assert_eq!(std::mem::take(&mut candidacies.intents), [stands(0)]);
    list(&mut candidacies, &["mails"]);
    assert!(!candidacies.shown.borrow().contains_key("reports"));
    list(&mut candidacies, &["mails", "reports"]);
    nominate(&mut candidacies, ME);
    assert!(enters(&mut candidacies));
    // The application may think better of it.
    assert!(candidacies.withdraw(NOW, "reports").is_ok() && exits(&mut candidacies));
}

/// A member that joins hears of an election before it has the view's policy.
#[test]
fn what_is_heard_early_is_shown_once_the_election_is_listed() {
    let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &[]);
    candidacies.stands(member::Leadership::Following(OTHER, NOW));
    state(&mut candidacies, None, None);
    assert!(candidacies.shown.borrow().is_empty());
    list(&mut candidacies, &["reports"]);
    assert_eq!(shown(&candidacies).candidates, 2);
}

/// The one that leads is none of those of whom the next is elected.
#[test]
fn what_the_next_ballot_is_to_cost_follows_from_those_that_stand() {
    let mut candidacies = candidacies();
    let third = Incarnation { pod: PodUid(3), run: 7 };
    let mut record = record(4);
    record.members.push(sample::member(ME, "shop-0"));
    record.members.push(sample::member(third, "shop-2"));
    let expected = |candidacies: &mut Candidacies, leader| {
        let (profile, candidates) = (Profile::default(), vec![ME, OTHER, third]);
        let event = ElectionEvent::State { leader, profile, candidates };
        candidacies.on_election(NOW, &lead(), &event, Some(&record));
        shown(candidacies).expected
    };
    assert_eq!(expected(&mut candidacies, None), Some(ElectionCost::new(2, 8)));
    assert_eq!(expected(&mut candidacies, Some(OTHER)), Some(ElectionCost::new(1, 3)));
    assert_eq!(expected(&mut candidacies, None), Some(ElectionCost::new(2, 8)));
    // One of them has gone with its view.
    record.members.pop();
    candidacies.entered(&Record { epoch: Epoch(5), ..record });
    assert_eq!(shown(&candidacies).expected, Some(ElectionCost::new(1, 3)));
}

#[test]
fn a_lead_without_an_arbiter_is_not_shown_as_safe() {
    let mut candidacies = candidacies();
    candidacies.goes_by(Arbiter::None);
    assert_eq!(shown(&candidacies).arbiter, Arbiter::None);
}

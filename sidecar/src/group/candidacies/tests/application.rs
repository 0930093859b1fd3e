//! What the sidecar and the kubelet know of the application, and what becomes of what it leads.

use super::ending::{deadline, leader};
use super::*;
use crate::application::{Containers, Health};

const SICK: Application =
    Application { health: Health::Unhealthy, containers: Containers::Unknown, ended: None };
const WELL: Application = Application { health: Health::Healthy, ..SICK };

fn withdraws() -> ServiceCommand {
    ElectionCommand::Withdraw { election: lead() }.into()
}

fn exit() -> ServiceCommand {
    LockCommand::Exit { lock: lead() }.into()
}

fn candidacy(candidacies: &Candidacies) -> CandidacyState {
    shown(candidacies).candidacy
}

fn intents(candidacies: &mut Candidacies) -> Vec<ServiceCommand> {
    std::mem::take(&mut candidacies.intents)
}

/// Its application stands by the annotation, in an election that is listed, and leads.
fn annotated() -> Candidacies {
    let names = ["reports".to_owned()];
    let mut candidacies = Candidacies::new("shop-0", ME, watch::Sender::default(), &names);
    list(&mut candidacies, &["reports"]);
    nominate(&mut candidacies, ME);
    grant(&mut candidacies);
    candidacies.intents.clear();
    candidacies
}

#[test]
fn an_application_that_is_not_healthy_is_no_candidate_and_stands_again_when_it_is() {
    for keepalive in [
        Keepalive::Sidecar,
        Keepalive::Connection(Connection::default()),
        Keepalive::Client(Duration::from_secs(60)),
    ] {
        let mut candidacies = candidacies();
        candidacies.heed(WELL);
        stand(&mut candidacies, keepalive).expect("it is listed");
        assert_eq!(
            (candidacy(&candidacies), intents(&mut candidacies)),
            (CandidacyState::Stands, vec![])
        );
        candidacies.heed(SICK);
        let seen = (candidacy(&candidacies), intents(&mut candidacies));
        assert_eq!(seen, (CandidacyState::Unhealthy, vec![withdraws()]));
        nominate(&mut candidacies, ME);
        assert!(!enters(&mut candidacies));
        // What it asks for meanwhile is remembered.
        stand(&mut candidacies, Keepalive::Sidecar).expect("it is listed");
        assert!(candidacies.intents.is_empty());
        candidacies.heed(WELL);
        assert_eq!(intents(&mut candidacies), [stands(3)]);
    }
}

#[test]
fn an_application_that_becomes_unhealthy_leads_no_longer_than_it_was_notified_of() {
    for acknowledges in [true, false] {
        let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
        let deadline = deadline(&candidacies);
        candidacies.heed(SICK);
        assert_eq!(intents(&mut candidacies), [withdraws()]);
        candidacies.extend_all(lease(deadline.after(Duration::from_secs(9))));
        let election = shown(&candidacies);
        assert_eq!(election.leadership, Leadership::HandingOver);
        assert_eq!((election.safe_until, election.leads_at(NOW)), (Some(deadline), true));
        if acknowledges {
            candidacies.resign("reports", None, NOW, None).expect("it leads");
        } else {
            candidacies.tick(deadline);
        }
        assert_eq!(intents(&mut candidacies), [exit()]);
        assert!(!shown(&candidacies).leads_at(NOW));
    }
    let mut candidacies = leader(Handoff::BeforeStop, Keepalive::Sidecar);
    candidacies.heed(SICK);
    assert_eq!(intents(&mut candidacies), [withdraws(), exit()]);
}

#[test]
fn a_nominee_that_becomes_unhealthy_before_it_is_granted_the_lead_does_not_take_it() {
    let mut candidacies = candidacies();
    nominate(&mut candidacies, ME);
    assert!(enters(&mut candidacies));
    candidacies.heed(SICK);
    assert_eq!(intents(&mut candidacies), [withdraws(), exit()]);
    grant(&mut candidacies);
    assert!(!shown(&candidacies).leads_at(NOW));
}

#[test]
fn an_application_that_is_well_before_its_deadline_leads_to_it_and_stands_again() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let deadline = deadline(&candidacies);
    candidacies.heed(SICK);
    candidacies.heed(WELL);
    assert_eq!(intents(&mut candidacies), [withdraws(), stands(3)]);
    assert_eq!(candidacies.next_due(), Some(deadline));
    candidacies.tick(deadline);
    assert_eq!(intents(&mut candidacies), [exit()]);
    nominate(&mut candidacies, ME);
    assert!(enters(&mut candidacies));
}

#[test]
fn a_process_that_is_over_leads_nothing_and_the_next_one_must_ask_anew() {
    for (keepalive, ended, ends) in [
        (Keepalive::Sidecar, NOW, true),
        // It was asked for by the process that followed.
        (Keepalive::Sidecar, LocalTime(NOW.0 - 1), false),
        (Keepalive::Connection(Connection::default()), NOW, false),
        (Keepalive::Client(Duration::from_secs(60)), NOW, false),
    ] {
        let mut candidacies = leader(Handoff::AfterStop, keepalive.clone());
        let containers = Containers::Running;
        let report = Application { containers, ended: Some(ended), ..Application::default() };
        let deadline = deadline(&candidacies);
        candidacies.heed(report);
        let expected = if ends { vec![withdraws()] } else { vec![] };
        assert_eq!(intents(&mut candidacies), expected, "{keepalive:?} {ended:?}");
        // The next process may have been notified of the lead before that was reported.
        let election = shown(&candidacies);
        assert_eq!((election.leads_at(NOW), election.safe_until), (true, Some(deadline)));
        assert_eq!(election.leadership == Leadership::HandingOver, ends);
        // The same report again is no news.
        let stood = stand(&mut candidacies, Keepalive::Sidecar).expect("it is listed");
        assert_eq!(stood.created, ends);
        candidacies.intents.clear();
        candidacies.heed(Application { containers: Containers::Stopped, ..report });
        assert!(candidacies.intents.is_empty());
    }
}

#[test]
fn a_member_that_is_put_forward_by_the_annotation_stands_while_its_containers_run() {
    let mut candidacies = annotated();
    let stopped =
        Application { containers: Containers::Stopped, ended: Some(NOW), ..Application::default() };
    let end = deadline(&candidacies);
    candidacies.heed(stopped);
    assert_eq!(intents(&mut candidacies), [withdraws()]);
    assert_eq!(candidacy(&candidacies), CandidacyState::Stopped);
    candidacies.tick(end);
    assert_eq!(intents(&mut candidacies), [exit()]);
    candidacies.heed(Application { containers: Containers::Running, ..stopped });
    assert_eq!(intents(&mut candidacies), [stands(0)]);
    // It is reported at once that it ended and runs again: the next process leads by another token.
    let again = Application { containers: Containers::Running, ..stopped };
    let mut candidacies = annotated();
    candidacies.heed(again);
    assert_eq!(shown(&candidacies).leadership, Leadership::HandingOver);
    candidacies.tick(end);
    assert_eq!(intents(&mut candidacies), [exit()]);
    assert_eq!(candidacy(&candidacies), CandidacyState::Stands);
    // The report is of a process that was over before this lead began.
    let mut candidacies = annotated();
    candidacies.heed(Application { ended: Some(LocalTime(NOW.0 - 1)), ..again });
    assert_eq!(shown(&candidacies).leadership, Leadership::Leading);
    assert!(candidacies.intents.is_empty());
}

#[test]
fn after_a_ttl_of_a_process_that_is_over_the_annotation_counts_again() {
    let ttl = Duration::from_secs(10);
    let at = |seconds| NOW.after(Duration::from_secs(seconds));
    for (ended, expected) in [(Some(at(1)), Some(stands(0))), (None, None)] {
        let mut candidacies = annotated();
        stand(&mut candidacies, Keepalive::Client(ttl)).expect("it is listed");
        candidacies.heed(Application { ended, ..Application::default() });
        candidacies.intents.clear();
        candidacies.tick(at(10));
        let stands = intents(&mut candidacies).into_iter().find(|intent| *intent != exit());
        assert_eq!(stands, Some(expected.unwrap_or_else(withdraws)));
    }
    // Nothing of a `ttl` is left when its candidacy is over.
    let mut candidacies = annotated();
    stand(&mut candidacies, Keepalive::Client(ttl)).expect("it is listed");
    candidacies.withdraw(NOW, "reports").expect("it stands");
    candidacies.heed(Application { ended: Some(at(1)), ..Application::default() });
    candidacies.intents.clear();
    candidacies.tick(at(10));
    assert!(candidacies.intents.is_empty());
    assert_eq!(candidacy(&candidacies), CandidacyState::Stands);
}

#[test]
fn a_process_that_may_have_been_notified_of_the_lead_goes_by_its_deadline() {
    let stopped =
        Application { containers: Containers::Stopped, ended: Some(NOW), ..Application::default() };
    for (mut candidacies, asked) in
        [(annotated(), false), (leader(Handoff::AfterStop, Keepalive::Sidecar), true)]
    {
        let deadline = deadline(&candidacies);
        candidacies.heed(stopped);
        assert_eq!(intents(&mut candidacies), [withdraws()]);
        assert!(shown(&candidacies).leads_at(NOW) && candidacies.next_due() == Some(deadline));
        assert_eq!(candidacy(&candidacies) == CandidacyState::None, asked);
        candidacies.tick(deadline);
        assert_eq!(intents(&mut candidacies), [exit()]);
    }
}

#[test]
fn what_the_process_that_is_over_made_of_the_annotation_ends_with_it() {
    let report = Application { ended: Some(NOW), ..Application::default() };
    let mut candidacies = annotated();
    stand(&mut candidacies, Keepalive::Sidecar).expect("it is listed");
    assert_eq!(intents(&mut candidacies), [stands(3)]);
    candidacies.heed(report);
    assert_eq!(intents(&mut candidacies), [stands(0)]);
    candidacies.withdraw(NOW, "reports").expect("it stands");
    candidacies.intents.clear();
    candidacies.heed(Application { ended: Some(NOW.after(Duration::from_secs(1))), ..report });
    assert_eq!(intents(&mut candidacies), [stands(0)]);
}

#[test]
fn a_pod_that_ends_leads_up_to_its_deadline_and_stands_in_nothing() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let deadline = deadline(&candidacies);
    candidacies.drain();
    let election = shown(&candidacies);
    assert_eq!(election.candidacy, CandidacyState::Terminating);
    assert_eq!(election.leadership, Leadership::Leading, "it is extended still");
    assert_eq!(intents(&mut candidacies), [withdraws()]);
    let mut sick = leader(Handoff::AfterStop, Keepalive::Sidecar);
    sick.drain();
    sick.heed(SICK);
    assert_eq!(
        shown(&sick).leadership,
        Leadership::HandingOver,
        "nor is it extended while it is sick"
    );
    candidacies.end();
    assert_eq!(shown(&candidacies).leadership, Leadership::HandingOver);
    assert!(candidacies.leads() && candidacies.next_due() == Some(deadline));
    candidacies.tick(deadline);
    assert_eq!(intents(&mut candidacies), [exit()]);
    assert!(!candidacies.leads());
}

/// The kubelet states whole seconds, and the end of a stream may be noticed after that of its process.
#[test]
fn a_stream_that_ends_with_its_process_leaves_the_annotation_to_the_next() {
    let mut candidacies = annotated();
    let connection = Connection::default();
    stand(&mut candidacies, Keepalive::Connection(connection.clone())).expect("it is listed");
    candidacies.hung_up("reports", &connection);
    candidacies.intents.clear();
    candidacies.heed(Application { ended: Some(NOW), ..Application::default() });
    assert_eq!(intents(&mut candidacies), [stands(0)]);
}

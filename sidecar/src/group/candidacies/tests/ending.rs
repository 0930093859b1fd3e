//! How a lead ends: its application resigns, hands over, or is not heard of any more.

use super::*;

/// It leads, in a view with another candidate.
pub(super) fn leader(handoff: Handoff, keepalive: Keepalive) -> Candidacies {
    let mut candidacies = candidacies();
    let election = ElectionPolicy::new("reports", ElectionAlgorithm::Bully);
    let elections = vec![ElectionPolicy { handoff, ..election }];
    candidacies.set_policy(&Policy { elections, ..Policy::default() });
    stand(&mut candidacies, keepalive).expect("it is listed");
    state(&mut candidacies, None, None);
    nominate(&mut candidacies, ME);
    grant(&mut candidacies);
    assert!(shown(&candidacies).leads_at(NOW));
    candidacies.intents.clear();
    candidacies
}

fn hand_over(candidacies: &mut Candidacies) {
    candidacies.on_election(NOW, &lead(), &ElectionEvent::HandOver, None);
}

pub(super) fn deadline(candidacies: &Candidacies) -> LocalTime {
    shown(candidacies).safe_until.expect("it leads")
}

/// What the member is to do, but for the lead itself.
fn elections(candidacies: &mut Candidacies) -> Vec<ElectionCommand> {
    let of = |intent| match intent {
        ServiceCommand::Election(command) => Some(command),
        ServiceCommand::Lock(_) => None,
    };
    std::mem::take(&mut candidacies.intents).into_iter().filter_map(of).collect()
}

#[test]
fn a_leader_that_resigns_stands_again_after_the_cooldown() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let until = NOW.after(Duration::from_secs(10));
    assert_eq!(candidacies.resign("reports", None, until, None), Ok(()));
    assert!(!shown(&candidacies).leads_at(NOW));
    let exit = ServiceCommand::from(LockCommand::Exit { lock: lead() });
    let withdraw = ServiceCommand::from(ElectionCommand::Withdraw { election: lead() });
    assert_eq!(std::mem::take(&mut candidacies.intents), [withdraw, exit]);
    let again = candidacies.resign("reports", None, until, None);
    assert_eq!(again, Err(ElectionError::NotLeader));
    // The one that nominates it meanwhile has not heard so yet.
    nominate(&mut candidacies, ME);
    assert!(!enters(&mut candidacies));
    candidacies.tick(LocalTime(until.0 - 1));
    assert!(candidacies.intents.is_empty());
    assert_eq!(candidacies.next_due(), Some(until));
    candidacies.tick(until);
    assert_eq!(std::mem::take(&mut candidacies.intents), [stands(3)]);
    assert_eq!(candidacies.next_due(), None);
}

#[test]
fn a_leader_that_resigns_stands_at_once_when_its_application_says_so() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let until = NOW.after(Duration::from_secs(10));
    candidacies.resign("reports", None, until, None).expect("it leads");
    candidacies.intents.clear();
    assert!(stand(&mut candidacies, Keepalive::Sidecar).is_ok_and(|stood| !stood.created));
    assert_eq!(std::mem::take(&mut candidacies.intents), [stands(3)]);
    assert_eq!(candidacies.next_due(), None);
}

#[test]
fn a_leader_that_resigns_may_name_the_next_leader_which_must_be_another_candidate() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let record = record(4);
    for to in ["shop-0", "shop-7"] {
        let refused = candidacies.resign("reports", Some(to), NOW, Some(&record));
        assert_eq!(refused, Err(ElectionError::NoCandidate(to.to_owned())));
        assert!(shown(&candidacies).leads_at(NOW));
    }
    candidacies.resign("reports", Some("shop-1"), NOW, Some(&record)).expect("it stands");
    let transfer = ElectionCommand::Transfer { election: lead(), to: OTHER };
    let withdraw = ElectionCommand::Withdraw { election: lead() };
    assert_eq!(elections(&mut candidacies), [transfer, withdraw], "in this order, before it exits");
}

#[test]
fn a_lead_is_transferred_by_name_or_uid_of_a_candidate() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    let record = record(4);
    for to in ["shop-1".to_owned(), OTHER.pod.to_string()] {
        assert_eq!(candidacies.transfer("reports", &to, Some(&record)), Ok(()));
        let transfer = ElectionCommand::Transfer { election: lead(), to: OTHER };
        assert_eq!(elections(&mut candidacies), [transfer]);
    }
    let refused = candidacies.transfer("reports", "shop-7", Some(&record));
    assert_eq!(refused, Err(ElectionError::NoCandidate("shop-7".to_owned())));
    assert_eq!(candidacies.transfer("mails", "shop-1", None), Err(ElectionError::NoElection));
}

/// Its application leads until it has stopped, and no longer than it was notified of, however long the lease lasts.
#[test]
fn a_leader_that_is_to_hand_over_leads_until_its_application_has_stopped() {
    for stops in [true, false] {
        let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
        let deadline = deadline(&candidacies);
        hand_over(&mut candidacies);
        candidacies.extend_all(lease(deadline.after(Duration::from_secs(9))));
        let election = shown(&candidacies);
        assert_eq!(election.leadership, Leadership::HandingOver);
        assert!(election.leads_at(NOW) && election.safe_until == Some(deadline));
        assert!(!election.leads_at(deadline) && election.leader_at(deadline).is_none());
        assert!(candidacies.intents.is_empty());
        if stops {
            candidacies.resign("reports", None, NOW, None).expect("it leads");
        } else {
            assert_eq!(candidacies.next_due(), Some(deadline));
            candidacies.tick(deadline);
        }
        assert!(exits(&mut candidacies));
        assert!(shown(&candidacies).safe_until.is_none());
    }
}

#[test]
fn a_leader_that_may_hand_over_before_it_stops_does_so_at_once() {
    let mut candidacies = leader(Handoff::BeforeStop, Keepalive::Sidecar);
    hand_over(&mut candidacies);
    assert!(exits(&mut candidacies) && !shown(&candidacies).leads_at(NOW));
    // It leads nothing that it could hand over now.
    hand_over(&mut candidacies);
    assert!(candidacies.intents.is_empty());
}

#[test]
fn an_application_that_must_repeat_itself_leads_no_longer_than_its_ttl() {
    let ttl = Duration::from_millis(500);
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Client(ttl));
    assert_eq!(deadline(&candidacies), NOW.after(ttl), "whatever its lease");
    let later = NOW.after(Duration::from_millis(400));
    let candidacy = Candidacy { priority: 3, ..Candidacy::default() };
    let keepalive = Keepalive::Client(ttl);
    let again = candidacies.stand(later, "reports", Stands { candidacy, keepalive });
    assert!(again.is_ok_and(|stood| !stood.created) && candidacies.intents.is_empty());
    assert_eq!(deadline(&candidacies), later.after(ttl));
    assert_eq!(candidacies.next_due(), Some(later.after(ttl)));
    candidacies.tick(later.after(ttl));
    let exit = ServiceCommand::from(LockCommand::Exit { lock: lead() });
    let withdraw = ServiceCommand::from(ElectionCommand::Withdraw { election: lead() });
    assert_eq!(std::mem::take(&mut candidacies.intents), [withdraw, exit]);
    assert!(!shown(&candidacies).leads_at(later) && candidacies.next_due().is_none());
}

#[test]
fn a_lease_that_ends_sooner_counts_more_than_the_ttl() {
    let candidacies = leader(Handoff::AfterStop, Keepalive::Client(Duration::from_secs(60)));
    assert_eq!(deadline(&candidacies), NOW.after(Duration::from_secs(3)));
}

#[test]
fn a_keepalive_does_not_end_a_cooldown_and_a_change_does() {
    let ttl = Duration::from_secs(5);
    for (priority, stands_again) in [(3, false), (4, true)] {
        let mut candidacies = leader(Handoff::AfterStop, Keepalive::Client(ttl));
        candidacies.resign("reports", None, NOW.after(ttl * 2), None).expect("it leads");
        candidacies.intents.clear();
        let candidacy = Candidacy { priority, ..Candidacy::default() };
        let keepalive = Keepalive::Client(ttl);
        let again = candidacies.stand(NOW, "reports", Stands { candidacy, keepalive });
        assert!(again.is_ok_and(|stood| !stood.created));
        assert_eq!(!candidacies.intents.is_empty(), stands_again, "{priority}");
    }
}

/// The group's leader has not heard yet that it resigned.
#[test]
fn a_member_that_gave_the_lead_up_is_not_shown_as_the_leader_by_a_late_message() {
    let mut candidacies = leader(Handoff::AfterStop, Keepalive::Sidecar);
    candidacies.stands(member::Leadership::Following(OTHER, NOW));
    candidacies.resign("reports", None, NOW, None).expect("it leads");
    assert_eq!(shown(&candidacies).leadership, Leadership::Electing);
    let info = sample::member(ME, "shop-1");
    let record = Record { members: vec![info], ..record(4) };
    state(&mut candidacies, Some(ME), Some(&record));
    let election = shown(&candidacies);
    assert_eq!((election.leadership, election.leader), (Leadership::Electing, None));
}

//! Who takes a lead over from a leader that lives: a candidate that it is transferred to, or one of a higher priority.

use std::time::Duration;

use conclave_protocols::elections::hold_of;
use conclave_protocols::member::message::Metadata;
use conclave_protocols::member::{
    Candidacy, Command, ElectionCommand, ElectionEvent, Event, OfElection, OfService, Profile,
};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Preemption, Timing};

use crate::bench::{Link, SECOND};
use crate::named_elections::Named;

impl Named {
    fn transfer(&mut self, asks: usize, to: usize) {
        let election = hold_of("reports").expect("a name");
        let to = self.bench.members[to].me();
        let transfer = ElectionCommand::Transfer { election, to };
        self.bench.command(asks, Command::Service(transfer.into()));
        self.heed();
    }

    /// What a member was notified last that the leader states of itself.
    fn profile_seen_by(&self, member: usize) -> Profile {
        let of = self.bench.notified.iter().rev().filter(|(index, _)| *index == member);
        let mut states = of.filter_map(|(_, event)| {
            let Event::Service(OfService::Election(OfElection { event, .. })) = event else {
                return None;
            };
            let ElectionEvent::State { profile, .. } = event else { return None };
            Some(profile.clone())
        });
        states.next().expect("it was notified")
    }
}

/// Any member may ask, whether it stands or not, and leads the group or not.
#[test]
fn the_candidate_that_the_lead_is_transferred_to_leads_next() {
    for algorithm in ElectionAlgorithm::ALL {
        for (asks, to) in [(0, 2), (4, 1), (3, 0), (2, 2)] {
            let mut named = Named::group(5, algorithm);
            named.stand(3, 9);
            for member in 0..3 {
                named.stand(member, 0);
            }
            assert_eq!(named.leader(), Some(3));
            named.transfer(asks, to);
            named.wait(SECOND);
            assert_eq!(named.leader(), Some(to), "{algorithm:?}: {asks} asks");
            for member in 0..5 {
                assert_eq!(named.seen_by(member), Some((Some(to), 4)), "{algorithm:?}");
            }
            named.resign(to);
            named.wait(SECOND);
            assert_eq!(named.leader(), Some(3), "of the highest priority: it was for once");
        }
    }
}

#[test]
fn a_lead_is_transferred_to_candidates_alone() {
    let mut named = Named::group(4, ElectionAlgorithm::Bully);
    named.stand(1, 0);
    named.stand(2, 0);
    for to in [0, 1] {
        named.transfer(3, to);
        named.wait(SECOND * 10);
        assert_eq!(
            (named.leader(), named.asked_to_yield),
            (Some(1), 0),
            "{to} stands not, or leads"
        );
    }
}

/// The leader does not give the lead up. It is asked for a while, and goes on; later the candidates are as before.
#[test]
fn a_leader_that_does_not_yield_leads_on() {
    let mut named = Named::group(4, ElectionAlgorithm::Bully);
    for (member, priority) in [(3, 9), (2, 0), (1, 5)] {
        named.stand(member, priority);
    }
    named.yields = false;
    named.transfer(0, 2);
    named.wait(SECOND * 10);
    assert_eq!((named.leader(), named.asked_to_yield), (Some(3), 3), "once in each leader lease");
    named.withdraw(3);
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(1));
}

/// The candidate that is to lead next dies before it does: the others are called.
#[test]
fn a_transfer_to_a_candidate_that_dies_is_followed_by_a_ballot_of_all() {
    let mut named = Named::group(4, ElectionAlgorithm::Bully);
    for (member, priority) in [(1, 9), (2, 0), (3, 0)] {
        named.stand(member, priority);
    }
    named.yields = false;
    named.transfer(1, 3);
    named.bench.stop(3);
    named.withdraw(1);
    named.wait(Timing::default().leader_lease * 3);
    assert_eq!(named.leader(), Some(2));
}

#[test]
fn a_candidate_of_a_higher_priority_takes_over_where_that_counts() {
    for algorithm in ElectionAlgorithm::ALL {
        let preemption = Preemption::Graceful;
        let policy = ElectionPolicy { preemption, ..ElectionPolicy::new("reports", algorithm) };
        let mut named = Named::of(4, policy);
        named.stand(1, 3);
        named.stand(0, 3);
        named.stand(2, -1);
        named.wait(SECOND * 5);
        assert_eq!(
            (named.leader(), named.asked_to_yield),
            (Some(1), 0),
            "{algorithm:?}: no higher one"
        );
        named.stand(3, 4);
        named.wait(SECOND);
        assert_eq!((named.leader(), named.asked_to_yield), (Some(3), 1), "{algorithm:?}");
        // It states another priority while it leads.
        named.stand(3, 2);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(0), "{algorithm:?}: of the highest rank");
        // A dead one outranks nobody.
        named.bench.stop(3);
        named.wait(SECOND * 30);
        named.bench.forget();
        named.heard = 0;
        named.wait(SECOND * 20);
        assert_eq!(named.sent(), Vec::<&str>::new(), "at rest it sends nothing");
        assert_eq!(named.leader(), Some(0));
    }
}

#[test]
fn a_lost_request_to_hand_over_is_made_again() {
    for lost in ["hand_over", "transfer"] {
        let mut named = Named::group(4, ElectionAlgorithm::Bully);
        for member in [2, 1, 3] {
            named.stand(member, 0);
        }
        named.bench.lost = Some(lost);
        named.transfer(0, 3);
        named.bench.lost = None;
        named.wait(SECOND * 4);
        // The group's leader asked itself: that message is not lost.
        assert_eq!(named.leader(), Some(3), "without {lost}");
    }
}

/// The two hear nothing of each other: a ballot of both would be won by the lower one, over and over.
#[test]
fn a_candidate_of_a_higher_priority_takes_over_from_one_that_does_not_hear_it() {
    let preemption = Preemption::Graceful;
    let policy =
        ElectionPolicy { preemption, ..ElectionPolicy::new("reports", ElectionAlgorithm::Bully) };
    let mut named = Named::of(4, policy);
    let (one, other) = (named.bench.node(1), named.bench.node(2));
    named.bench.way(one, other, Link::Cut);
    named.bench.way(other, one, Link::Cut);
    named.stand(1, 0);
    named.stand(2, 5);
    named.wait(SECOND * 10);
    assert_eq!((named.leader(), named.asked_to_yield), (Some(2), 1));
}

/// A withdrawal of one that was not called to it does not end the ballot of the candidate that is to lead next.
#[test]
fn a_transfer_is_not_undone_by_a_candidate_that_withdraws() {
    let mut named = Named::group(5, ElectionAlgorithm::Bully);
    for (member, priority) in [(3, 9), (2, 0), (1, 5), (4, 7)] {
        named.stand(member, priority);
    }
    // The call is on its way.
    let (leader, next) = (named.bench.node(0), named.bench.node(2));
    named.bench.way(leader, next, Link::Held);
    named.transfer(1, 2);
    named.withdraw(4);
    named.bench.free(leader, next);
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(2));
}

/// It drains: it stands no longer, and leads on. A new view begins, with another leader of the group.
#[test]
fn what_a_leader_states_of_itself_outlasts_a_view() {
    let mut named = Named::group(3, ElectionAlgorithm::Bully);
    named.stand_as(2, Candidacy { priority: 0, profile: profile("here") });
    let election = hold_of("reports").expect("a name");
    named.bench.command(2, Command::Service(ElectionCommand::Withdraw { election }.into()));
    named.wait(SECOND);
    named.bench.command(0, Command::Drain);
    named.wait(SECOND * 3);
    assert_ne!(named.bench.leader(), Some(0));
    assert_eq!(named.leader(), Some(2));
    for member in 0..3 {
        assert_eq!(named.profile_seen_by(member), profile("here"), "{member}");
    }
}

fn profile(address: &str) -> Profile {
    let metadata = Some(Metadata::from(format!(r#"{{"at": "{address}"}}"#)));
    Profile { address: Some(address.to_owned()), metadata }
}

#[test]
fn all_are_shown_what_the_leader_states_of_itself() {
    let mut named = Named::group(4, ElectionAlgorithm::Ring);
    for member in [1, 2] {
        let address = format!("10.0.0.{member}:80");
        named.stand_as(member, Candidacy { priority: 0, profile: profile(&address) });
    }
    named.wait(SECOND);
    for member in 0..4 {
        assert_eq!(named.profile_seen_by(member), profile("10.0.0.1:80"));
    }
    // It changes, and the first message about it is lost.
    named.bench.lost = Some("stand");
    named.stand_as(1, Candidacy { priority: 0, profile: profile("elsewhere") });
    named.bench.lost = None;
    named.stand(3, 0);
    named.wait(SECOND * 3);
    for member in 0..4 {
        assert_eq!(named.profile_seen_by(member), profile("elsewhere"), "{member}");
    }
    // It stands no longer, and leads on.
    let election = hold_of("reports").expect("a name");
    named.bench.command(1, Command::Service(ElectionCommand::Withdraw { election }.into()));
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(1));
    assert_eq!(named.profile_seen_by(0), profile("elsewhere"));
    named.resign(1);
    named.wait(Duration::from_millis(500));
    assert_eq!((named.leader(), named.profile_seen_by(0)), (Some(2), profile("10.0.0.2:80")));
    // The next one states nothing.
    named.withdraw(2);
    named.wait(SECOND);
    assert_eq!((named.leader(), named.profile_seen_by(0)), (Some(3), Profile::default()));
}

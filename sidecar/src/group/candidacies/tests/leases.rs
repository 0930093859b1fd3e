//! Elections whose leader must have a Lease besides, with the Lease in the hands of the test.

use conclave_protocols::member::LostReason;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::*;
use crate::lease::{Call, Do, News, Order, Outcome, Record as Shown, Write};

/// The API server's Lease, and the calls of one member.
struct Server {
    lease: Shown,
    version: u64,
    followed: Option<usize>,
}

fn lease(holder: &str, version: u64) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.resource_version = Some(version.to_string());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    });
    lease
}

impl Server {
    fn new() -> Self {
        Self { lease: Shown::new(lease("", 1)), version: 1, followed: None }
    }

    fn set(&mut self, mut lease: Lease) {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Shown::new(lease);
    }

    /// Answers every call at `at`, until there is none.
    fn serve(&mut self, at: LocalTime, candidacies: &mut Candidacies) -> usize {
        let mut served = 0;
        loop {
            candidacies.tick(at);
            let orders = candidacies.take_orders();
            let mut calls = Vec::new();
            for order in orders {
                match order {
                    Order::Follow(names) => self.followed = Some(names.len()),
                    Order::Call(call) => calls.push(call),
                }
            }
            let Some(Call { lease, id, what }) = calls.pop() else { return served };
            assert!(calls.is_empty(), "one call at a time");
            let outcome = match what {
                Do::Read => Outcome::Is(self.lease.clone()),
                Do::Write(base, write) if base.version() == self.lease.version() => {
                    self.set(base.with(&write, Timestamp::UNIX_EPOCH));
                    Outcome::Is(self.lease.clone())
                }
                Do::Write(..) => Outcome::Conflict,
            };
            candidacies.on_lease(at, &News::Answer { lease, id, outcome });
            served += 1;
        }
    }

    fn holder(&self) -> Option<&str> {
        self.lease.holder()
    }
}

fn sharing(lease: Option<&str>) -> Policy {
    let reports = ElectionPolicy::new("reports", ElectionAlgorithm::Bully);
    let elections = vec![ElectionPolicy { lease: lease.map(str::to_owned), ..reports }];
    Policy { elections, ..Policy::default() }
}

/// The nominee has the hold, for as long as the test likes.
fn nominee() -> (Candidacies, Server) {
    let mut candidacies = candidacies();
    candidacies.set_policy(&sharing(Some("reports")));
    nominate(&mut candidacies, ME);
    assert!(enters(&mut candidacies));
    let token = FencingToken::before(Epoch(4)).successor(Epoch(9));
    let term = Term::new(NOW, NOW.after(Duration::from_hours(1)), false).of(LeaseClass::Leader);
    let event = LockEvent::Entered { token, epoch: Epoch(4), term, messages: 2 };
    candidacies.on_lead(NOW, &lead(), &event, None);
    (candidacies, Server::new())
}

fn in_seconds(seconds: u64) -> LocalTime {
    NOW.after(Duration::from_secs(seconds))
}

fn shown_holder(candidacies: &Candidacies) -> Option<String> {
    shown(candidacies).lease.expect("it needs one").holder
}

#[test]
fn the_nominee_leads_when_it_has_the_lease_too_and_no_longer_than_either() {
    let (mut candidacies, mut server) = nominee();
    assert!(!shown(&candidacies).leads_at(NOW));
    assert_ne!(shown(&candidacies).leadership, Leadership::Leading);
    assert_eq!(server.serve(NOW, &mut candidacies), 2, "a read and a write");
    assert_eq!(server.followed, Some(1));
    let election = shown(&candidacies);
    assert!(election.leads_at(NOW) && election.token.is_some());
    // 14.98 s are others' wait without the margin of 20 ms; five per cent less is 14.266 s.
    let until = election.safe_until.expect("a deadline");
    assert_eq!((until - NOW).as_millis(), 14_266);
    assert!(shown_holder(&candidacies).expect("itself").starts_with("shop-0_"));

    // It is renewed, and the deadline moves on.
    let index = election.index;
    assert_eq!(server.serve(in_seconds(2), &mut candidacies), 1, "a write alone");
    let election = shown(&candidacies);
    assert_eq!(election.safe_until, Some(until.after(Duration::from_secs(2))));
    assert_eq!(election.index, index, "a later deadline is no news");
}

#[test]
fn a_hold_that_ends_first_ends_the_lead_first() {
    let mut candidacies = candidacies();
    candidacies.set_policy(&sharing(Some("reports")));
    nominate(&mut candidacies, ME);
    grant(&mut candidacies);
    Server::new().serve(NOW, &mut candidacies);
    assert_eq!(shown(&candidacies).safe_until, Some(in_seconds(3)), "as it was granted");
}

#[test]
fn while_a_program_has_the_lease_nobody_leads_and_its_name_is_shown() {
    let (mut candidacies, mut server) = nominee();
    server.set(lease("program-1", 1));
    let calls: usize = (0..10).map(|at| server.serve(in_seconds(at), &mut candidacies)).sum();
    assert!((3..=6).contains(&calls), "{calls} calls in ten seconds");
    let election = shown(&candidacies);
    assert!(!election.leads_at(in_seconds(9)) && election.leader.is_none());
    assert_eq!(shown_holder(&candidacies).as_deref(), Some("program-1"));
    assert_eq!(candidacies.resign("reports", None, NOW, None), Err(ElectionError::NotLeader));

    // It gave the Lease back, and a watch reports it before the next read would.
    let released = lease("", 1);
    server.set(released);
    let record = Some(server.lease.clone());
    candidacies.on_lease(in_seconds(10), &News::Seen { lease: "reports".to_owned(), record });
    server.serve(in_seconds(10), &mut candidacies);
    assert!(shown(&candidacies).leads_at(in_seconds(10)));
}

#[test]
fn a_lead_that_is_given_back_in_order_leaves_the_lease_to_anybody() {
    let (mut candidacies, mut server) = nominee();
    server.serve(NOW, &mut candidacies);
    assert!(server.holder().is_some());
    candidacies.withdraw(NOW, "reports").expect("it stands");
    assert!(!shown(&candidacies).leads_at(NOW) && exits(&mut candidacies));
    server.serve(NOW, &mut candidacies);
    assert_eq!(server.holder(), None);
}

#[test]
fn a_lead_that_was_lost_keeps_the_lease_for_as_long_as_its_application_may_believe() {
    let (mut candidacies, mut server) = nominee();
    server.serve(NOW, &mut candidacies);
    let until = shown(&candidacies).safe_until.expect("it leads");
    let lost = LockEvent::Lost(LostReason::ViewChange);
    candidacies.on_lead(in_seconds(1), &lead(), &lost, None);
    server.serve(LocalTime(until.0 - 1), &mut candidacies);
    assert!(server.holder().is_some(), "its application may go by its deadline");
    server.serve(until, &mut candidacies);
    assert_eq!(server.holder(), None);
}

#[test]
fn a_lead_whose_lease_is_not_renewed_is_lost_at_its_deadline() {
    let (mut candidacies, mut server) = nominee();
    server.serve(NOW, &mut candidacies);
    let until = shown(&candidacies).safe_until.expect("it leads");
    // Nobody answers from now on.
    for at in 0..=14 {
        candidacies.tick(in_seconds(at));
    }
    assert!(shown(&candidacies).leads_at(LocalTime(until.0 - 1)));
    candidacies.tick(until);
    assert!(shown(&candidacies).deadline().is_none() && exits(&mut candidacies));
}

#[test]
fn a_lease_that_another_has_ends_the_lead_at_once() {
    let (mut candidacies, mut server) = nominee();
    server.serve(NOW, &mut candidacies);
    server.set(lease("somebody", 1));
    server.serve(in_seconds(2), &mut candidacies);
    assert!(shown(&candidacies).deadline().is_none() && exits(&mut candidacies));
    assert_eq!(server.holder(), Some("somebody"));
}

#[test]
fn a_nominee_that_does_not_reach_the_api_server_leaves_the_lead_to_others() {
    let (mut candidacies, _) = nominee();
    for at in 0..15 {
        candidacies.tick(in_seconds(at));
        assert!(!exits(&mut candidacies), "after {at} s");
    }
    candidacies.tick(in_seconds(15));
    let withdraws = ServiceCommand::from(ElectionCommand::Withdraw { election: lead() });
    let exit = ServiceCommand::from(LockCommand::Exit { lock: lead() });
    assert_eq!(std::mem::take(&mut candidacies.intents), [withdraws, exit]);
    candidacies.tick(in_seconds(20));
    assert_eq!(std::mem::take(&mut candidacies.intents), [stands(3)]);
}

#[test]
fn a_drained_nominee_does_not_wait_for_the_lease_any_more() {
    let (mut candidacies, mut server) = nominee();
    server.set(lease("program-1", 1));
    server.serve(NOW, &mut candidacies);
    candidacies.drain();
    assert!(exits(&mut candidacies));
}

#[test]
fn another_member_leads_as_far_as_is_known_only_with_the_lease() {
    let mut candidacies = candidacies();
    let record = Record { policy: sharing(Some("reports")), ..record(4) };
    candidacies.entered(&record);
    candidacies.stands(member::Leadership::Following(OTHER, NOW));
    state(&mut candidacies, Some(OTHER), Some(&record));
    assert!(shown(&candidacies).leader.is_none(), "it has the hold alone");
    let see = |candidacies: &mut Candidacies, lease: Lease| {
        let record = Some(Shown::new(lease));
        candidacies.on_lease(NOW, &News::Seen { lease: "reports".to_owned(), record });
        shown(candidacies).leader.map(|leader| leader.uid)
    };
    assert_eq!(see(&mut candidacies, lease("program-1", 2)), None);
    let mark = crate::lease::Mark {
        group: PodUid(0),
        election: "reports".to_owned(),
        token: Some(5),
        holder: crate::lease::identity("shop-1", OTHER),
    };
    let taken = Shown::new(lease("", 3)).with(&Write::Take(mark), Timestamp::UNIX_EPOCH);
    assert_eq!(see(&mut candidacies, taken.clone()), Some(OTHER.pod.to_string()));
    // client-go leaves the mark where it is.
    let mut over = taken;
    over.spec = lease("program-1", 4).spec;
    assert_eq!(see(&mut candidacies, over), None);
}

#[test]
fn a_lead_ends_by_its_deadline_when_its_election_is_to_have_a_lease_or_another() {
    let mut candidacies = candidacies();
    nominate(&mut candidacies, ME);
    assert!(enters(&mut candidacies));
    grant(&mut candidacies);
    let until = shown(&candidacies).safe_until.expect("it leads");
    candidacies.set_policy(&sharing(Some("reports")));
    candidacies.extend_all(super::lease(until.after(Duration::from_secs(1))));
    assert_eq!(shown(&candidacies).safe_until, Some(until));
    candidacies.tick(until);
    assert!(exits(&mut candidacies));
    assert!(shown(&candidacies).lease.is_some(), "the next lead needs it");
}

/// A policy with these elections, each with a Lease.
fn elections(all: &[(&str, &str)]) -> Policy {
    let election = |(name, lease): &(&str, &str)| {
        let lease = Some((*lease).to_owned());
        ElectionPolicy { lease, ..ElectionPolicy::new(name, ElectionAlgorithm::Bully) }
    };
    Policy { elections: all.iter().map(election).collect(), ..Policy::default() }
}

/// This member stands in that election, and has its hold from now on.
fn takes(candidacies: &mut Candidacies, name: &str, at: LocalTime, epoch: u64) {
    let hold = hold_of(name).expect("a name");
    let stands = Stands { candidacy: Candidacy::default(), keepalive: Keepalive::Sidecar };
    candidacies.stand(at, name, stands).expect("it is listed");
    let event = ElectionEvent::Elected { winner: ME, messages: 0, took: Duration::ZERO };
    candidacies.on_election(at, &hold, &event, None);
    let token = FencingToken::before(Epoch(epoch)).successor(Epoch(9));
    let term = Term::new(at, at.after(Duration::from_hours(1)), false).of(LeaseClass::Leader);
    let event = LockEvent::Entered { token, epoch: Epoch(epoch), term, messages: 2 };
    candidacies.on_lead(at, &hold, &event, None);
}

fn leads(candidacies: &Candidacies, name: &str, at: LocalTime) -> bool {
    let hold = hold_of(name).expect("a name");
    candidacies.all[&hold].state.borrow().leads_at(at)
}

/// The election that had the Lease comes first in order, and last.
#[test]
fn a_lease_that_goes_to_another_election_is_taken_by_its_leader_when_the_one_before_gave_it_back() {
    for (before, after) in [("imports", "reports"), ("reports", "imports")] {
        let (mut candidacies, mut server) = (candidacies(), Server::new());
        candidacies.set_policy(&elections(&[(before, "one")]));
        takes(&mut candidacies, before, NOW, 4);
        server.serve(NOW, &mut candidacies);
        assert!(leads(&candidacies, before, NOW));
        let end = candidacies.next_due().expect("a deadline");
        candidacies.set_policy(&elections(&[(after, "one")]));
        takes(&mut candidacies, after, NOW, 5);
        // The one before goes by its deadline, and nobody else may believe until then.
        let mut at = NOW;
        let mut led = false;
        while !leads(&candidacies, after, at) {
            led |= leads(&candidacies, before, at);
            assert!(at < in_seconds(60), "{after} never led");
            at = at.after(Duration::from_millis(200));
            server.serve(at, &mut candidacies);
        }
        assert!(led && !leads(&candidacies, before, at), "{before} and {after}, {end:?}");
        assert!(server.holder().expect("itself").ends_with(after));
    }
}

#[test]
fn a_nominee_that_may_read_the_lease_and_not_write_it_leaves_the_lead_to_another() {
    let (mut candidacies, server) = nominee();
    for second in 0..20 {
        let at = in_seconds(second);
        candidacies.tick(at);
        for order in candidacies.take_orders() {
            let Order::Call(Call { lease, id, what }) = order else { continue };
            let outcome = match what {
                Do::Read => Outcome::Is(server.lease.clone()),
                Do::Write(..) => Outcome::Refused,
            };
            candidacies.on_lease(at, &News::Answer { lease, id, outcome });
        }
    }
    assert!(exits(&mut candidacies));
}

//! The rules of locks that the members grant among themselves, one by one, with the real member and
//! each algorithm. Their numbers are those of `docs/views.md`.

use std::time::Duration;

use conclave_protocols::elections::hold_of;
use conclave_protocols::member::message::{Envelope, Message, PeerMessage, ServiceMessage};
use conclave_protocols::member::{Candidacy, Command, ElectionCommand, LockEvent, Node};
use conclave_protocols::policy::{
    ElectionAlgorithm, ElectionPolicy, LockAlgorithm, LockPolicy, Policy,
};
use conclave_protocols::time::hold;
use conclave_protocols::{Epoch, FencingToken, Incarnation};

use crate::bench::{Bench, Link, SECOND, of_lock};

const MILLI: Duration = Duration::from_millis(1);

/// Those of which the state sits in the members.
pub(crate) fn among_members() -> impl Iterator<Item = LockAlgorithm> {
    LockAlgorithm::ALL.into_iter().filter(|algorithm| !algorithm.has_coordinator())
}

pub(crate) fn policy(algorithm: LockAlgorithm) -> Policy {
    Policy { locks: vec![LockPolicy { algorithm, ..LockPolicy::default() }], ..Policy::default() }
}

fn group(members: usize, algorithm: LockAlgorithm) -> Bench {
    Bench::group(members, policy(algorithm))
}

/// Waits until somebody holds.
pub(crate) fn until_held(bench: &mut Bench, member: usize, lock: &str, patience: Duration) {
    let end = bench.now.after(patience);
    while !bench.holds(member, lock) {
        assert!(bench.now < end, "{member} never got {lock}: {:?}", bench.record().policy.locks);
        bench.wait(MILLI * 10);
    }
}

#[test]
fn one_after_another_enters_and_tokens_rise() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let mut last = 0;
        for member in [1, 2, 0, 2, 1] {
            bench.enter(member, "a");
            until_held(&mut bench, member, "a", SECOND * 5);
            let token = *bench.tokens(member, "a").last().expect("it holds");
            assert!(token > last, "{algorithm:?}: {last} then {token}");
            last = token;
            bench.exit(member, "a");
        }
    }
}

#[test]
fn rule_26_nobody_enters_while_a_member_that_did_not_seal_may_hold() {
    for algorithm in among_members() {
        let mut bench = group(5, algorithm);
        bench.enter(4, "unreported");
        until_held(&mut bench, 4, "unreported", SECOND * 3);
        bench.stop(0);
        bench.stop(4);
        bench.wait(SECOND * 3);
        assert_eq!(bench.leader(), Some(1));
        let over = bench.now;
        bench.enter(3, "unreported");
        bench.enter(3, "free");
        bench.wait(SECOND * 6);
        assert!(!bench.holds(3, "free") && !bench.holds(3, "unreported"), "{algorithm:?}");
        until_held(&mut bench, 3, "free", SECOND * 5);
        until_held(&mut bench, 3, "unreported", SECOND * 5);
        assert!(bench.now <= over.after(SECOND * 13), "{algorithm:?}");
    }
}

#[test]
fn rule_26_when_all_sealed_nothing_waits() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.wait(SECOND);
        bench.stop(0);
        while bench.leader() != Some(1) {
            bench.wait(MILLI * 10);
        }
        bench.enter(1, "b");
        until_held(&mut bench, 1, "b", SECOND);
        assert!(bench.holds(2, "a"), "{algorithm:?}");
    }
}

/// After this token there is one more below the ceiling.
fn last_but_one(ceiling: Epoch) -> FencingToken {
    let mut rising = std::iter::successors(Some(FencingToken::before(ceiling)), |token| {
        token.successor(ceiling)
    });
    let is = |token: &FencingToken| {
        token.successor(ceiling).is_some_and(|last| last.successor(ceiling).is_none())
    };
    rising.find(is).expect("there are many")
}

/// The last token below the ceiling is given. Until the leader has raised it, what would admit the
/// next one is not heard.
#[test]
fn rule_26_nobody_enters_without_a_token_below_the_ceiling() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let ceiling = bench.record().ceiling;
        let last_but_one = last_but_one(ceiling);
        let last = last_but_one.successor(ceiling).expect("it is the last but one");
        bench.link(bench.node(0), Node::Register, Link::Held);
        for mut message in lost_on_the_way_to_the_next(&mut bench) {
            of_lock(&mut message.body).highest = last_but_one;
            bench.deliver(incarnation(&bench, 2), 1, PeerMessage::Service(Box::new(message)));
        }
        until_held(&mut bench, 1, "a", SECOND * 3);
        assert_eq!(bench.tokens(1, "a"), [last.get()], "{algorithm:?}");
        // By now the leader knows, too.
        bench.wait(SECOND);
        bench.exit(1, "a");
        bench.enter(2, "a");
        bench.wait(SECOND);
        assert!(!bench.holds(2, "a"), "{algorithm:?}: there is no token for it");
        bench.free(bench.node(0), Node::Register);
        until_held(&mut bench, 2, "a", SECOND * 3);
        assert!(bench.record().ceiling > ceiling, "{algorithm:?}");
        assert!(bench.tokens(2, "a").last() > Some(&last.get()), "{algorithm:?}");
    }
}

#[test]
fn rule_27_all_holds_of_a_member_end_with_its_lease() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let lease = hold(bench.policy.timing.member_lease);
        bench.enter(2, "a");
        bench.enter(2, "b");
        until_held(&mut bench, 2, "a", SECOND * 3);
        until_held(&mut bench, 2, "b", SECOND * 3);
        bench.wait(SECOND);
        let until = bench.deadline(2, "a").expect("it holds");
        assert_eq!(bench.deadline(2, "b"), Some(until), "{algorithm:?}");
        assert!(until < bench.now.after(lease), "{algorithm:?}: from before it was acknowledged");
        bench.link(bench.node(0), bench.node(2), Link::Cut);
        bench.wait(bench.now.until(until));
        assert!(!bench.holds(2, "a") && !bench.holds(2, "b"), "{algorithm:?}");
    }
}

/// A member that is cut off from the leader alone keeps what it holds until its lease ends, and the others
/// out; then the leader goes on without it.
#[test]
fn rule_28_others_enter_after_the_lease_of_a_lost_member() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.stop(2);
        bench.enter(1, "a");
        let until = bench.now.after(bench.policy.timing.member_lease);
        bench.wait(SECOND * 9);
        assert!(!bench.holds(1, "a"), "{algorithm:?}");
        until_held(&mut bench, 1, "a", SECOND * 8);
        assert!(bench.now > until, "{algorithm:?}");
        assert!(bench.tokens(1, "a") > bench.tokens(2, "a"), "{algorithm:?}");
    }
}

#[test]
fn rule_28_a_member_that_lost_its_lease_lets_the_others_in_when_it_is_back() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.link(bench.node(0), bench.node(2), Link::Held);
        bench.enter(1, "a");
        bench.wait(SECOND * 10);
        assert!(!bench.holds(2, "a") && !bench.holds(1, "a"), "{algorithm:?}");
        bench.free(bench.node(0), bench.node(2));
        until_held(&mut bench, 1, "a", SECOND * 3);
    }
}

/// The leader has heard nothing of the hold when it begins to change the view.
#[test]
fn rule_29_a_hold_that_no_promise_listed_is_carried_over() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let epoch = bench.record().epoch;
        bench.policy.generation += 1;
        let changed = Command::Policy(Box::new(bench.policy.clone()));
        bench.command(0, changed);
        for member in [1, 2] {
            bench.enter(member, "a");
        }
        let deadline = bench.now.after(SECOND);
        while bench.record().epoch == epoch {
            let in_section = [1, 2].into_iter().find(|member| bench.holds(*member, "a"));
            if let Some(member) = in_section {
                // Out and in again, so that another is in the critical section every few milliseconds.
                bench.exit(member, "a");
                bench.enter(member, "a");
            }
            bench.wait(MILLI * 3);
            assert!(bench.now < deadline, "{algorithm:?}: the view is never changed");
        }
        let holder = [1, 2].into_iter().find(|member| bench.holds(*member, "a"));
        let holder = holder.unwrap_or_else(|| panic!("{algorithm:?}: nobody holds"));
        let other = 3 - holder;
        bench.wait(SECOND * 15);
        assert!(bench.holds(holder, "a") && !bench.holds(other, "a"), "{algorithm:?}");
    }
}

#[test]
fn rule_29_a_leader_that_leaves_names_the_member_that_has_just_entered() {
    for algorithm in among_members() {
        for leaves in [Command::Drain, Command::Leave] {
            let mut bench = group(4, algorithm);
            bench.enter(3, "a");
            until_held(&mut bench, 3, "a", SECOND * 3);
            bench.command(0, leaves);
            bench.wait(MILLI * 100);
            assert_eq!(bench.leader(), Some(1), "{algorithm:?}");
            bench.enter(2, "a");
            bench.wait(SECOND * 12);
            assert!(bench.holds(3, "a") && !bench.holds(2, "a"), "{algorithm:?}");
            bench.enter(2, "b");
            until_held(&mut bench, 2, "b", SECOND);
        }
    }
}

/// Somebody is silent: the leader opens admission again, and changes the view when nothing of that
/// member's lease is left.
#[test]
fn rule_29_a_silent_member_delays_a_change_and_stops_nobody() {
    let mut bench = group(5, LockAlgorithm::Maekawa);
    bench.stop(4);
    let epoch = bench.record().epoch;
    bench.policy.generation += 1;
    let changed = Command::Policy(Box::new(bench.policy.clone()));
    bench.command(0, changed);
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().epoch, epoch);
    bench.wait(SECOND * 8);
    assert!(bench.record().epoch > epoch && bench.record().members.len() == 4);
}

#[test]
fn rule_30_an_outsiders_hold_keeps_everybody_out_through_views() {
    for algorithm in among_members() {
        let mut bench = group(5, algorithm);
        bench.enter(4, "a");
        until_held(&mut bench, 4, "a", SECOND * 3);
        bench.wait(SECOND);
        bench.stop(4);
        let until = bench.deadline(4, "a").expect("it holds");
        bench.wait(SECOND * 2);
        bench.enter(3, "a");
        for (leader, next) in [(0, 1), (1, 2)] {
            bench.command(leader, Command::Leave);
            bench.wait(SECOND * 2);
            assert_eq!(bench.leader(), Some(next), "{algorithm:?}");
        }
        while bench.now < until {
            assert!(!bench.holds(3, "a"), "{algorithm:?}");
            bench.wait(MILLI * 50);
        }
        until_held(&mut bench, 3, "a", SECOND * 25);
    }
}

/// Without numbers on the link, Lamport's second would take a late word for an answer.
#[test]
fn rule_31_after_a_gap_a_link_is_not_heard_and_the_view_is_changed() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let epoch = bench.record().epoch;
        bench.wait(SECOND * 5);
        let first = match algorithm {
            LockAlgorithm::TokenRing => "token",
            LockAlgorithm::Raymond => "privilege",
            LockAlgorithm::Lamport => "acknowledgment",
            LockAlgorithm::RicartAgrawala => "reply",
            LockAlgorithm::Maekawa => "locked",
            LockAlgorithm::Voting | LockAlgorithm::Superpeers => "grant",
            LockAlgorithm::Central => continue,
        };
        bench.lost = Some(first);
        let asks = (0..3).find(|member| {
            bench.enter(*member, "a");
            bench.wait(MILLI * 200);
            let held = bench.holds(*member, "a");
            bench.exit(*member, "a");
            !held
        });
        let asks = asks.expect("somebody needs to be let in");
        bench.enter(asks, "a");
        bench.wait(MILLI * 200);
        bench.lost = None;
        until_held(&mut bench, asks, "a", SECOND * 8);
        assert!(bench.record().epoch > epoch, "{algorithm:?}");
    }
}

/// An election finds by itself what it lost, and locks have lost nothing.
#[test]
fn rule_31_what_an_election_lost_is_no_gap_for_locks() {
    for algorithm in among_members() {
        let elections = vec![ElectionPolicy::new("reports", ElectionAlgorithm::Bully)];
        let mut bench = Bench::group(3, Policy { elections, ..policy(algorithm) });
        bench.wait(SECOND * 5);
        let epoch = bench.record().epoch;
        bench.lost = Some("stand");
        for member in [1, 2] {
            let election = hold_of("reports").expect("a name");
            let stand = ElectionCommand::Stand { election, candidacy: Candidacy::default() };
            bench.command(member, Command::Service(stand.into()));
        }
        bench.wait(MILLI * 100);
        bench.lost = None;
        for member in [1, 2, 0, 2, 1, 0] {
            bench.enter(member, "a");
            until_held(&mut bench, member, "a", SECOND * 2);
            bench.exit(member, "a");
        }
        assert_eq!(bench.record().epoch, epoch, "{algorithm:?}");
    }
}

/// A token, a reply, a release or a vote, with nothing wrong about it but the view: the same of this
/// view admits a member.
#[test]
fn rule_31_a_message_of_another_view_lets_nobody_in() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        let old = bench.record().epoch;
        bench.command(0, Command::Drain);
        bench.wait(SECOND * 2);
        let new = bench.record().epoch;
        assert!(new > old && bench.leader() == Some(1));
        let lost = lost_on_the_way_to_the_next(&mut bench);
        for epoch in [old, new] {
            for message in lost.clone() {
                assert!(!bench.holds(1, "a"), "{algorithm:?} in {epoch:?} of {new:?}");
                let message = Envelope { epoch, ..message };
                bench.deliver(incarnation(&bench, 2), 1, PeerMessage::Service(Box::new(message)));
            }
            // Longer than an algorithm without a queue lets pass between two attempts.
            bench.wait(MILLI * 700);
        }
        assert!(bench.holds(1, "a"), "{algorithm:?}");
    }
}

/// Member 2 was in the critical section, member 1 waits for it, and what would admit it is lost: that.
fn lost_on_the_way_to_the_next(bench: &mut Bench) -> Vec<Envelope<ServiceMessage>> {
    bench.enter(2, "a");
    until_held(bench, 2, "a", SECOND * 3);
    bench.enter(1, "a");
    let (from, to) = (bench.node(2), bench.node(1));
    bench.way(from, to, Link::Cut);
    let before = bench.sent.len();
    bench.exit(2, "a");
    bench.free(from, to);
    let lost = bench.sent[before..].iter().filter(|sent| (sent.0, sent.1) == (from, to));
    let lost = lost.filter_map(|(.., message)| match message {
        Message::Peer(PeerMessage::Service(message)) => Some(message.as_ref().clone()),
        Message::Peer(_) | Message::Register(_) => None,
    });
    let lost: Vec<Envelope<ServiceMessage>> = lost.collect();
    assert!(!lost.is_empty(), "{:?}: nothing was said", bench.record().policy.locks);
    lost
}

fn incarnation(bench: &Bench, member: usize) -> Incarnation {
    bench.members[member].me()
}

/// A member enters the view after another has asked it.
#[test]
fn rule_31_what_is_sent_before_a_member_has_entered_the_view_is_heard() {
    let mut bench = group(3, LockAlgorithm::RicartAgrawala);
    bench.link(bench.node(0), bench.node(2), Link::Held);
    bench.policy.generation += 1;
    let changed = Command::Policy(Box::new(bench.policy.clone()));
    let epoch = bench.record().epoch;
    // Its answer to the closed admission gets through; the announcement of the next view does not.
    bench.free(bench.node(0), bench.node(2));
    bench.command(0, changed);
    while bench.record().epoch == epoch {
        bench.wait(MILLI * 10);
    }
    let early = |bench: &Bench| {
        let request = |(_, _, message): &&(_, _, Message)| matches!(message, Message::Peer(PeerMessage::Service(m)) if m.epoch > epoch);
        bench.sent.iter().filter(request).count()
    };
    bench.link(bench.node(0), bench.node(2), Link::Held);
    bench.enter(1, "a");
    bench.wait(MILLI * 100);
    assert!(early(&bench) > 0);
    bench.free(bench.node(0), bench.node(2));
    until_held(&mut bench, 1, "a", SECOND);
}

#[test]
fn rule_29_a_member_that_leaves_has_sent_what_it_holds_and_is_not_waited_for() {
    for algorithm in among_members() {
        let mut bench = group(4, algorithm);
        bench.enter(3, "held");
        until_held(&mut bench, 3, "held", SECOND * 3);
        bench.wait(SECOND);
        bench.command(3, Command::Leave);
        bench.wait(SECOND * 2);
        assert_eq!(bench.record().members.len(), 3, "{algorithm:?}");
        bench.enter(2, "free");
        until_held(&mut bench, 2, "free", SECOND * 2);
        bench.enter(1, "held");
        bench.wait(SECOND * 5);
        assert!(!bench.holds(1, "held"), "{algorithm:?}: its application may be at work");
        until_held(&mut bench, 1, "held", SECOND * 6);
    }
}

#[test]
fn a_member_that_takes_its_intent_back_before_it_enters_does_not_hold() {
    for algorithm in among_members() {
        let mut bench = group(3, algorithm);
        bench.enter(1, "a");
        until_held(&mut bench, 1, "a", SECOND * 3);
        bench.enter(2, "a");
        for other in [0, 1] {
            bench.link(bench.node(other), bench.node(2), Link::Held);
        }
        bench.exit(2, "a");
        bench.enter(2, "a");
        bench.exit(1, "a");
        bench.enter(0, "a");
        for other in [0, 1] {
            bench.free(bench.node(other), bench.node(2));
        }
        for _ in 0..100 {
            bench.wait(MILLI * 20);
            let holders = (0..3).filter(|member| bench.holds(*member, "a")).count();
            assert!(holders <= 1, "{algorithm:?}");
        }
        let notified = bench.lock_events(2, "a");
        assert!(notified.filter(|event| matches!(event, LockEvent::Lost(_))).count() == 0);
    }
}

/// Nobody holds for so long that a promise lists it. That is no stall.
#[test]
fn rule_31_a_lock_that_is_handed_on_all_the_time_is_not_taken_for_stalled() {
    for algorithm in among_members() {
        let mut bench = group(5, algorithm);
        bench.wait(SECOND * 3);
        let epoch = bench.record().epoch;
        let pair = [3, 4];
        for member in pair {
            bench.enter(member, "a");
        }
        let mut entries = 0;
        for _ in 0..8_000 {
            // What followers send to each other takes a millisecond.
            followers(&mut bench, Bench::free);
            followers(&mut bench, |bench, one, other| bench.link(one, other, Link::Held));
            for member in pair {
                if bench.holds(member, "a") {
                    entries += 1;
                    bench.exit(member, "a");
                    bench.enter(member, "a");
                }
            }
            bench.wait(MILLI);
        }
        assert!(entries > 100, "{algorithm:?}: {entries}");
        assert_eq!(bench.record().epoch, epoch, "{algorithm:?}");
    }
}

/// Does something to each link between followers of five.
fn followers(bench: &mut Bench, act: impl Fn(&mut Bench, Node, Node)) {
    for one in 1..5 {
        for other in one + 1..5 {
            let (one, other) = (bench.node(one), bench.node(other));
            act(bench, one, other);
        }
    }
}

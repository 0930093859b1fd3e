//! Failure detection in a group: who suspects whom, what follows from it, and what does not.

use std::time::Duration;

use conclave_protocols::Incarnation;
use conclave_protocols::detection::{Stated, Threshold};
use conclave_protocols::elections::hold_of;
use conclave_protocols::member::{Command, ElectionCommand, Event, Node};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy, Preemption, Timing};

use crate::bench::{Bench, Link, SECOND};
use crate::named_elections::{LEAD, Named};
use crate::storm::Storm;

const MILLI: Duration = Duration::from_millis(1);

/// Everybody is suspected as soon as it was heard.
const ALWAYS: Stated = Stated { timeout: Some(Duration::ZERO), threshold: None };

/// What a member has guessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Guess {
    Suspected(Incarnation),
    /// For how long it was mistaken, if it was.
    Trusted(Incarnation, Option<Duration>),
}

fn guesses(bench: &Bench, member: usize) -> Vec<Guess> {
    let of = bench.notified.iter().filter(|(index, _)| *index == member);
    let guess = |(_, event): &(usize, Event)| match event {
        Event::Suspected(member) => Some(Guess::Suspected(*member)),
        Event::Trusted { member, mistaken } => Some(Guess::Trusted(*member, *mistaken)),
        Event::Met(_)
        | Event::Installed(_)
        | Event::Leadership(_)
        | Event::Grants(_)
        | Event::Grace(_)
        | Event::Full(_)
        | Event::Confirmed(_)
        | Event::Elected { .. }
        | Event::Service(_)
        | Event::Lease(_)
        | Event::Ignored(_)
        | Event::Undone(_)
        | Event::Left => None,
    };
    of.filter_map(guess).collect()
}

fn detect(bench: &mut Bench, stated: Stated) {
    for member in 0..bench.members.len() {
        bench.command(member, Command::Detection(stated));
    }
}

/// Three heartbeats and a half by default; with phi, 2.4 of them. The leader suspects the follower, the other follower
/// watches the leader alone.
#[test]
fn a_leader_suspects_a_follower_that_crashed_within_the_timeout() {
    let phi = Stated { threshold: Threshold::new(8), ..Stated::default() };
    for (stated, wait) in [(Stated::default(), 875), (phi, 601)] {
        let mut bench = Bench::group(3, Policy::default());
        detect(&mut bench, stated);
        bench.wait(SECOND * 10);
        bench.forget();
        bench.stop(2);
        let dead = bench.members[2].me();
        bench.wait(MILLI * (wait - 251));
        assert_eq!(guesses(&bench, 0), [], "{stated:?}");
        bench.wait(MILLI * 252);
        assert_eq!(guesses(&bench, 0), [Guess::Suspected(dead)], "{stated:?}");
        assert!(bench.members[0].suspects(dead) && !bench.members[1].suspects(dead));
        assert_eq!(guesses(&bench, 1), []);
    }
}

/// Its promise runs for as long as it would, whatever it guesses.
#[test]
fn a_follower_suspects_its_leader_and_follows_it_for_as_long_as_it_promised() {
    let mut bench = Bench::group(3, Policy::default());
    bench.wait(SECOND);
    bench.forget();
    let (leader, pledged) = (bench.members[0].me(), bench.members[1].pledged());
    bench.stop(0);
    bench.wait(MILLI * 900);
    for follower in [1, 2] {
        assert_eq!(guesses(&bench, follower), [Guess::Suspected(leader)]);
    }
    assert_eq!(bench.members[1].pledged(), pledged);
    assert!(bench.sent.iter().all(|(_, to, _)| *to == Node::Register), "nobody elects yet");
    bench.wait(SECOND * 10);
    let unwatched = Guess::Trusted(leader, None);
    assert_eq!(guesses(&bench, 1)[1..], [unwatched], "the group goes on without it");
}

/// The same if the group has gone on without it meanwhile.
#[test]
fn a_member_that_was_cut_off_and_is_heard_again_was_suspected_by_mistake() {
    for cut in [SECOND, SECOND * 20] {
        let mut bench = Bench::group(3, Policy::default());
        bench.wait(SECOND);
        bench.forget();
        let (leader, follower) = (bench.node(0), bench.node(2));
        bench.link(leader, follower, Link::Cut);
        bench.wait(cut);
        let suspected = bench.members[2].me();
        assert_eq!(guesses(&bench, 0)[0], Guess::Suspected(suspected));
        bench.free(leader, follower);
        bench.wait(SECOND * 3);
        let mistake = |guess| match guess {
            Guess::Trusted(_, mistaken) => mistaken,
            Guess::Suspected(_) => None,
        };
        let mistakes: Vec<Duration> = guesses(&bench, 0).into_iter().filter_map(mistake).collect();
        assert_eq!(mistakes.len(), 1, "{cut:?}");
        assert!(mistakes[0] + SECOND > cut, "{cut:?}: {mistakes:?}");
        assert!(!bench.members[0].suspects(suspected));
        assert_eq!(bench.record().members.len(), 3);
    }
}

/// What it sends otherwise proves nothing: what the leader sends does not arrive.
#[test]
fn a_member_that_only_speaks_is_suspected() {
    let mut bench = Bench::group(3, Policy::default());
    bench.wait(SECOND);
    let (leader, follower) = (bench.node(0), bench.node(2));
    bench.way(leader, follower, Link::Cut);
    for _ in 0..10 {
        bench.enter(2, "orders");
        bench.wait(MILLI * 100);
        bench.exit(2, "orders");
    }
    assert!(bench.members[0].suspects(bench.members[2].me()));
}

/// The view goes on with it for as long as the register is away.
#[test]
fn a_member_that_leaves_in_order_is_not_suspected() {
    let mut bench = Bench::group(3, Policy::default());
    bench.forget();
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.command(2, Command::Leave);
    bench.wait(SECOND * 3);
    assert_eq!(bench.record().members.len(), 3);
    assert_eq!(guesses(&bench, 0), []);
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND);
    assert_eq!(bench.record().members.len(), 2);
    bench.command(0, Command::Leave);
    bench.wait(SECOND * 3);
    assert!((0..3).all(|member| guesses(&bench, member).is_empty()));
}

/// Of those that stand the one of the highest priority is dead: the next ballot does not wait for it.
#[test]
fn a_suspected_candidate_is_left_out_of_ballots_and_back_when_it_is_heard() {
    for algorithm in ElectionAlgorithm::ALL {
        let mut named = Named::group(4, algorithm);
        for (member, priority) in [(2, 9), (1, 5), (0, 0)] {
            named.stand(member, priority);
        }
        named.wait(SECOND);
        named.bench.stop(1);
        named.wait(SECOND);
        assert!(named.bench.members[0].suspects(named.bench.members[1].me()));
        named.withdraw(2);
        assert_eq!(named.leader(), Some(0), "{algorithm:?}: at once");
        named.bench.go_on(1);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(0), "{algorithm:?}: nobody takes that away");
        named.withdraw(0);
        assert_eq!(named.leader(), Some(1), "{algorithm:?}: at once");
    }
}

/// It is to lead next, and the only one that is called. Without a guess the ballot would be waited for.
#[test]
fn a_ballot_is_not_waited_for_when_its_candidate_is_suspected() {
    for algorithm in ElectionAlgorithm::ALL {
        let mut named = Named::group(4, algorithm);
        for member in [2, 1, 0] {
            named.stand(member, 0);
        }
        named.wait(SECOND);
        let (election, to) = (hold_of("reports").expect("a name"), named.bench.members[1].me());
        named.bench.stop(1);
        let transfer = ElectionCommand::Transfer { election, to };
        named.bench.command(0, Command::Service(transfer.into()));
        named.heed();
        assert_eq!(named.leader(), None, "{algorithm:?}: the one that is to lead is dead");
        named.wait(MILLI * 900);
        assert!(named.leader().is_some(), "{algorithm:?}");
    }
}

/// Those who guess wrongly of everybody lead, elect and grant all the same.
#[test]
fn a_member_that_is_always_suspected_holds_what_it_holds_and_may_be_elected() {
    for algorithm in ElectionAlgorithm::ALL {
        let mut named = Named::group(3, algorithm);
        named.bench.enter(1, "orders");
        detect(&mut named.bench, ALWAYS);
        let epoch = named.bench.record().epoch;
        named.stand(2, 0);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(2), "{algorithm:?}: all that stand are suspected");
        named.stand(1, 9);
        named.wait(SECOND * 30);
        assert_eq!(named.leader(), Some(2), "{algorithm:?}: that takes nothing away");
        assert_eq!(named.bench.tokens(2, LEAD).len(), 1);
        assert!(named.bench.holds(1, "orders"));
        assert_eq!((named.bench.record().epoch, named.bench.leader()), (epoch, Some(0)));
        named.bench.exit(1, "orders");
        named.bench.enter(2, "orders");
        assert!(named.bench.holds(2, "orders"), "{algorithm:?}: granted at once");
    }
}

/// Faults of all kinds, and detectors that guess at random: the world checks each hold, lead, token and promise. Once
/// guesses are sound again, somebody leads in each election.
#[test]
fn guesses_at_random_break_no_promise_in_any_weather() {
    let mut suspicions = 0;
    for algorithm in ElectionAlgorithm::ALL {
        for (seed, members) in (0..40).zip([2, 3, 4, 5].into_iter().cycle()) {
            let mut storm = Storm { guesses: true, ..Storm::of(members, Timing::FAST) };
            let election = ElectionPolicy::new("reports", algorithm);
            storm.policy.elections =
                vec![ElectionPolicy { preemption: Preemption::Graceful, ..election }];
            let mut world = storm.run(seed, false);
            world.run_for(SECOND * 20);
            assert!(world.holder(LEAD).is_some(), "{algorithm:?} {seed}");
            suspicions += world.seen.suspicions;
        }
    }
    assert!(suspicions > 2_000, "they guess: {suspicions}");
}

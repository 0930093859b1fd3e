//! Groups whose members speak different versions, as in the middle of an upgrade.

use std::time::Duration;

use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Event, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::version::{FIRST, NEXT};

use crate::bench::{Bench, Link, SECOND, info};

const OLD: (u16, u16) = (FIRST, NEXT - 1);
const NEW: (u16, u16) = (FIRST, NEXT);

/// The versions of the heartbeats that the first member sends to the second in a second.
fn heartbeats(bench: &mut Bench) -> Vec<u16> {
    bench.forget();
    bench.wait(SECOND);
    let mut versions: Vec<u16> =
        bench.sent(0, 1, "heartbeat").into_iter().map(PeerMessage::since).collect();
    versions.dedup();
    versions
}

/// What a member last reported about admission.
fn grants(bench: &Bench, member: usize) -> Vec<Option<bool>> {
    let of = bench.notified.iter().filter(|(index, _)| *index == member);
    of.filter_map(|(_, event)| match event {
        Event::Grants(grants) => Some(*grants),
        Event::Met(_)
        | Event::Installed(_)
        | Event::Leadership(_)
        | Event::Grace(_)
        | Event::Full(_)
        | Event::Confirmed(_)
        | Event::Elected { .. }
        | Event::Service(_)
        | Event::Lease(_)
        | Event::Suspected(_)
        | Event::Trusted { .. }
        | Event::Ignored(_)
        | Event::Undone(_)
        | Event::Left => None,
    })
    .collect()
}

fn ignored(bench: &Bench) -> bool {
    bench.notified.iter().any(|(_, event)| *event == Event::Ignored("version"))
}

#[test]
fn a_view_speaks_the_highest_version_that_all_its_members_do() {
    let mut bench = Bench::new(Policy::default());
    bench.versions = NEW;
    for _ in 0..2 {
        bench.start();
        bench.wait(SECOND * 2);
    }
    assert_eq!(heartbeats(&mut bench), [NEXT]);
    bench.versions = OLD;
    let old = bench.start();
    bench.wait(SECOND * 2);
    assert_eq!((bench.record().members.len(), bench.record().speaks()), (3, OLD.1));
    assert_eq!(heartbeats(&mut bench), [OLD.1]);
    bench.command(old, conclave_protocols::member::Command::Leave);
    bench.wait(SECOND * 2);
    assert_eq!(heartbeats(&mut bench), [NEXT]);
    assert!(!ignored(&bench), "somebody was told what it cannot read");
}

#[test]
fn locks_go_on_while_one_member_after_another_is_replaced_by_a_newer_one_and_back() {
    let mut bench = Bench::new(Policy::default());
    bench.versions = OLD;
    for _ in 0..3 {
        bench.start();
        bench.wait(SECOND * 2);
    }
    let mut oldest = 0;
    for versions in [NEW, OLD] {
        bench.versions = versions;
        for _ in 0..3 {
            let newcomer = bench.start();
            bench.wait(SECOND * 2);
            bench.enter(newcomer, "a");
            assert!(bench.holds(newcomer, "a"));
            bench.command(oldest, conclave_protocols::member::Command::Leave);
            bench.wait(SECOND * 2);
            assert!(bench.holds(newcomer, "a"), "it went on");
            bench.exit(newcomer, "a");
            oldest += 1;
        }
        assert_eq!(bench.record().members.len(), 3);
        assert_eq!(bench.record().speaks(), versions.1);
    }
    assert!(!ignored(&bench), "somebody was told what it cannot read");
}

#[test]
fn a_member_that_would_leave_no_common_version_is_not_admitted() {
    let mut bench = Bench::group(3, Policy::default());
    bench.versions = (NEXT, NEXT);
    let stranger = bench.start();
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().members.len(), 3);
    assert_eq!(bench.leader(), Some(0), "nobody is disturbed");
    assert!(bench.sent(0, stranger, "noted").len() > 1, "it is told that the group lives");
    assert!(bench.notified.contains(&(0, Event::Ignored("version"))));
}

#[test]
fn followers_learn_whether_locks_are_granted() {
    let mut bench = Bench::group(3, Policy::default());
    assert_eq!(grants(&bench, 1), [], "nothing has changed");
    bench.enter(2, "a");
    bench.stop(0);
    bench.stop(2);
    bench.wait(SECOND * 2);
    bench.go_on(2);
    bench.wait(Duration::from_secs(4));
    let leader = bench.leader().expect("there is another leader");
    let follower = 3 - leader;
    // A member that lost its leader does not know; the next one waits for the hold that may run.
    assert_eq!(grants(&bench, follower)[..2], [None, Some(false)]);
    bench.wait(SECOND * 10);
    assert_eq!(grants(&bench, follower).last(), Some(&Some(true)));
    assert_eq!(grants(&bench, leader).last(), Some(&Some(true)));
}

/// Members that cannot reach the register seal for a joiner that speaks what none of them does: there is no place for it
/// beside them, so it leaves them the view.
#[test]
fn a_candidate_begins_no_view_in_which_it_is_not() {
    let mut bench = Bench::group(3, Policy::default());
    let stranger = Node::Member(info(3, 7).incarnation);
    bench.stop(0);
    for member in [1, 2] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
        bench.link(bench.node(member), stranger, Link::Cut);
    }
    bench.versions = (NEXT, NEXT);
    let joiner = bench.start();
    let epoch = bench.record().epoch;
    for _ in 0..600 {
        if bench.sent(joiner, 1, "seal_request").is_empty() {
            bench.wait(SECOND / 20);
        }
    }
    bench.free(bench.node(1), stranger);
    bench.free(bench.node(2), stranger);
    bench.wait(SECOND);
    assert_eq!((bench.sent(1, joiner, "seal").len(), bench.sent(2, joiner, "seal").len()), (1, 1));
    assert_eq!(bench.record().epoch, epoch);
    for member in [1, 2] {
        bench.free(bench.node(member), Node::Register);
    }
    bench.wait(SECOND * 20);
    assert_eq!(bench.record().members.len(), 2);
    assert!(bench.leader().is_some_and(|leader| [1, 2].contains(&leader)));
}

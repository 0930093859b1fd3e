//! A leader of the group that resigns or is asked for a transfer: it hands over as one that drains does (rule 37), stays
//! a member, and is put last for a while.

use std::time::Duration;

use conclave_protocols::elections::{DEFAULT, hold_of};
use conclave_protocols::member::{Command, ElectionCommand, Leadership, Node};
use conclave_protocols::policy::{Arbiter, Caching, LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND};
use crate::peer_rules;

const MINUTE: Duration = Duration::from_mins(1);

fn group(members: usize) -> Bench {
    let mut bench = Bench::group(members, Policy::default());
    bench.wait(SECOND);
    bench
}

fn leads(leadership: Leadership) -> bool {
    matches!(leadership, Leadership::Leading(_))
}

impl Bench {
    fn resign(&mut self, member: usize, to: Option<usize>, cooldown: Duration) {
        let to = to.map(|to| self.members[to].me());
        self.command(member, Command::Resign { to, cooldown });
    }

    /// Somebody asks for a transfer, and the leader's applications have stopped at once.
    fn transfer(&mut self, asks: usize, to: usize) {
        let leader = self.leader();
        let (election, to) = (hold_of(DEFAULT).expect("a name"), self.members[to].me());
        self.command(asks, Command::Service(ElectionCommand::Transfer { election, to }.into()));
        if let Some(leader) = leader {
            self.command(leader, Command::Notified(self.now));
        }
    }

    /// Waits until another leads than that one, which was stopped.
    fn another_than(&mut self, stopped: usize) -> usize {
        let end = self.now.after(Policy::default().timing.leader_lease * 8);
        loop {
            if let Some(leader) = self.leader().filter(|leader| *leader != stopped) {
                return leader;
            }
            assert!(self.now < end, "nobody leads");
            self.wait(Duration::from_millis(10));
        }
    }

    fn follows(&self, member: usize, leader: usize) -> bool {
        let leader = self.members[leader].me();
        matches!(self.leadership(member), Some(Leadership::Following(of, _)) if of == leader)
    }
}

#[test]
fn a_leader_that_resigns_is_followed_at_once_by_the_one_named() {
    for to in [1, 2, 3] {
        let mut bench = group(4);
        bench.enter(0, "own");
        bench.enter(1, "other");
        bench.resign(0, Some(to), SECOND * 10);
        assert_eq!(bench.leader(), Some(to));
        assert!(bench.follows(0, to), "{:?}", bench.leadership(0));
        assert_eq!(bench.record().members.len(), 4, "it stays a member");
        assert!(
            matches!(bench.leadership(to), Some(Leadership::Leading(_))),
            "believed in at once"
        );
        bench.wait(SECOND * 20);
        assert!(bench.holds(0, "own") && bench.holds(1, "other"), "what is held goes on");
        bench.enter(0, "more");
        assert!(bench.holds(0, "more"), "its locks go on to work");
    }
}

#[test]
fn rule_37_a_leader_that_resigns_waits_for_its_applications_until_they_have_stopped() {
    for stops in [true, false] {
        let mut bench = group(3);
        let Some(Leadership::Leading(until)) = bench.leadership(0) else { panic!("it leads") };
        let resign = Command::Resign { to: None, cooldown: SECOND };
        bench.command_believed(0, resign);
        assert_eq!(bench.leadership(0), Some(Leadership::HandingOver));
        assert_eq!(bench.leader(), Some(0), "it keeps its leader lease");
        if stops {
            bench.command_believed(0, Command::Notified(bench.now));
        } else {
            while bench.now < until {
                assert_eq!(bench.leader(), Some(0));
                bench.wait(Duration::from_millis(1));
            }
            bench.wait(Duration::from_millis(2));
        }
        assert!(bench.leader().is_some_and(|leader| leader != 0), "stops: {stops}");
    }
}

#[test]
fn it_does_not_come_back_within_its_cooldown_while_another_lives() {
    let mut bench = group(3);
    bench.resign(0, Some(1), MINUTE);
    bench.wait(SECOND * 5);
    // Nobody is named, and one rests.
    bench.resign(1, None, SECOND);
    assert_eq!(bench.leader(), Some(2));
    bench.wait(SECOND * 5);
    bench.stop(2);
    assert_eq!(bench.another_than(2), 1);
    // Its cooldown is over, and it is the most senior.
    let mut bench = group(3);
    bench.resign(0, Some(1), SECOND * 5);
    bench.wait(SECOND * 6);
    bench.resign(1, Some(0), SECOND);
    assert_eq!(bench.leader(), Some(0));
}

#[test]
fn a_leader_that_rests_is_put_last_and_leads_again_if_nobody_else_can() {
    let mut bench = group(2);
    bench.resign(0, None, MINUTE * 10);
    assert_eq!(bench.leader(), Some(1));
    bench.wait(SECOND * 3);
    bench.stop(1);
    assert_eq!(bench.another_than(1), 0);
    bench.wait(SECOND * 2);
    assert!(matches!(bench.leadership(0), Some(Leadership::Leading(_))), "and is believed in");
    // It found nobody in time, and goes on when somebody comes.
    bench.wait(SECOND * 3);
    bench.start();
    bench.wait(SECOND * 10);
    assert_eq!(bench.leader(), Some(0));
}

#[test]
fn alone_it_leads_on() {
    let mut bench = group(1);
    bench.resign(0, None, SECOND * 10);
    assert_eq!(bench.leader(), Some(0));
    assert!(matches!(bench.leadership(0), Some(Leadership::Leading(_))));
    bench.enter(0, "a");
    assert!(bench.holds(0, "a"));
    let other = bench.start();
    bench.wait(SECOND * 5);
    assert_eq!(bench.leader(), Some(other), "within its cooldown somebody came");

    let mut bench = group(1);
    bench.resign(0, None, SECOND * 10);
    bench.wait(SECOND * 11);
    bench.start();
    bench.wait(SECOND * 5);
    assert_eq!(bench.leader(), Some(0), "its cooldown was over");
}

#[test]
fn with_nobody_alive_who_does_not_rest_the_leader_leads_on() {
    let mut bench = group(2);
    bench.resign(0, None, MINUTE);
    bench.wait(SECOND * 2);
    bench.resign(1, None, SECOND * 10);
    bench.wait(SECOND * 8);
    assert_eq!(bench.leader(), Some(1));
    assert!(matches!(bench.leadership(1), Some(Leadership::Leading(_))), "nor does it seem to");
}

/// The register is slow to answer, so that the old leader of two, which a third joins, is between two views of its own.
fn between_two_views() -> Bench {
    let mut bench = group(2);
    let (leader, register) = (bench.node(0), Node::Register);
    bench.way(register, leader, Link::Held);
    let mut answers = bench.calls(0, "read");
    bench.start();
    while bench.leader().is_some() {
        bench.wait(Duration::from_millis(10));
        assert!(bench.calls(0, "read") < 100, "its view is never on the way to the register");
        if bench.calls(0, "read") > answers {
            answers += 1;
            bench.let_one_pass(register, leader);
        }
    }
    bench
}

#[test]
fn a_leader_that_resigns_between_two_views_hands_over_in_the_next() {
    let mut bench = between_two_views();
    let epoch = bench.record().epoch;
    bench.resign(0, Some(1), SECOND * 10);
    assert_ne!(bench.leadership(0).map(leads), Some(true), "its applications are notified at once");
    bench.free(Node::Register, bench.node(0));
    assert!(bench.record().epoch > epoch, "its own view comes first");
    bench.wait(SECOND * 4);
    assert_eq!(bench.leader(), Some(1));
    assert_eq!(bench.record().members.len(), 3);
}

/// One of five left, and the leader is to end as the view without it begins: what the others promise in that is on its
/// way, but for the first.
fn in_a_view_that_just_begins(mut bench: Bench, ends: &Command) -> Bench {
    let (leader, register) = (bench.node(0), Node::Register);
    bench.way(register, leader, Link::Held);
    bench.command(4, Command::Leave);
    bench.let_one_pass(register, leader);
    assert_eq!(bench.record().members.len(), 4, "it wrote the next view");
    for member in [2, 3] {
        bench.way(bench.node(member), leader, Link::Held);
    }
    bench.free(register, leader);
    bench.command(0, ends.clone());
    bench
}

/// A successor that knew of the first member alone would begin a view without the others.
#[test]
fn a_leader_that_ends_as_a_view_begins_leaves_nobody_out_of_the_next() {
    let resign = Command::Resign { to: None, cooldown: SECOND * 5 };
    for ends in [Command::Drain, Command::Leave, resign] {
        let mut bench = in_a_view_that_just_begins(group(5), &ends);
        for member in [2, 3] {
            bench.free(bench.node(member), bench.node(0));
        }
        bench.wait(Duration::from_millis(20));
        assert_eq!(bench.leader(), Some(1), "{ends:?}");
        let stays = usize::from(ends != Command::Leave);
        assert_eq!(bench.record().members.len(), 3 + stays, "{ends:?}");
    }
}

/// A silent or dead member is waited for no longer than two heartbeats. Then admission closes (rule 29), so that the successor
/// may grant at once.
#[test]
fn a_leader_that_ends_as_a_view_begins_does_not_wait_long_for_the_silent() {
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::RicartAgrawala] {
        for ends in [Command::Drain, Command::Leave] {
            let mut bench = Bench::group(5, peer_rules::policy(algorithm));
            bench.wait(SECOND);
            let mut bench = in_a_view_that_just_begins(bench, &ends);
            bench.stop(3);
            bench.free(bench.node(2), bench.node(0));
            // What the others promise next is on its way when the wait is over.
            let wait = Policy::default().timing.heartbeat * 2;
            bench.wait(wait.saturating_sub(Duration::from_millis(10)));
            for member in [1, 2] {
                bench.way(bench.node(member), bench.node(0), Link::Held);
            }
            bench.wait(Duration::from_millis(20));
            for member in [1, 2] {
                bench.free(bench.node(member), bench.node(0));
            }
            bench.wait(SECOND * 2);
            assert_eq!(bench.leader(), Some(1), "{ends:?}");
            bench.enter(1, "a");
            bench.wait(SECOND);
            assert!(bench.holds(1, "a"), "{algorithm:?}, {ends:?}");
        }
    }
}

/// Nobody has promised in it yet.
#[test]
fn a_leader_that_resigns_as_its_next_view_begins_is_not_believed_again() {
    let mut bench = between_two_views();
    let (leader, others) = (bench.node(0), [1, 2].map(|other| bench.node(other)));
    for other in others {
        bench.way(leader, other, Link::Held);
    }
    bench.free(Node::Register, leader);
    assert_eq!(bench.sent(0, 2, "heartbeat").len(), 1, "its view has begun");
    assert!(bench.leadership(0).is_some_and(leads), "it goes on");
    bench.resign(0, Some(1), SECOND * 10);
    assert!(!bench.leadership(0).is_some_and(leads), "its applications are notified at once");
    for other in others {
        bench.free(leader, other);
    }
    bench.wait(Duration::from_millis(600));
    assert_eq!(bench.leader(), Some(1), "it does not wait until its view is a second old");
}

#[test]
fn if_the_one_named_dies_before_the_hand_over_another_leads() {
    let mut bench = group(3);
    bench
        .command_believed(0, Command::Resign { to: Some(bench.members[1].me()), cooldown: SECOND });
    bench.stop(1);
    bench.wait(SECOND * 6);
    assert_eq!(bench.leader(), Some(2));
}

#[test]
fn if_the_successor_dies_with_the_table_another_leads_soon() {
    for members in [2, 3, 5] {
        let mut bench = group(members);
        let (from, to) = (bench.node(0), bench.node(1));
        bench.way(from, to, Link::Held);
        bench.resign(0, Some(1), MINUTE);
        assert_eq!(bench.sent(0, 1, "hand_over").len(), 1);
        bench.stop(1);
        bench.free(from, to);
        let leader = bench.another_than(1);
        // With two there is nobody else.
        assert_eq!(leader == 0, members == 2);
    }
}

#[test]
fn without_a_register_a_leader_that_resigns_leads_on() {
    let mut bench = group(3);
    let register = Node::Register;
    for member in 0..3 {
        bench.link(register, bench.node(member), Link::Cut);
    }
    bench.resign(0, Some(1), MINUTE);
    bench.wait(Policy::default().timing.leader_lease * 3 + SECOND);
    assert!(bench.leadership(0).is_some_and(leads), "another could not begin a view");
    for member in 0..3 {
        bench.free(register, bench.node(member));
    }
    bench.wait(SECOND * 5);
    assert_eq!(bench.leader(), Some(0), "it was too late");
    bench.resign(0, Some(1), MINUTE);
    assert_eq!(bench.leader(), Some(1));
}

#[test]
fn a_second_resignation_counts_instead_of_the_first() {
    let mut bench = group(3);
    let named = |bench: &Bench, to: usize| Some(bench.members[to].me());
    bench.command_believed(0, Command::Resign { to: named(&bench, 1), cooldown: SECOND * 4 });
    bench.command_believed(0, Command::Resign { to: named(&bench, 2), cooldown: MINUTE });
    // The application acknowledges, and names nobody.
    bench.resign(0, None, MINUTE);
    assert_eq!(bench.leader(), Some(2));
    bench.wait(SECOND * 10);
    bench.resign(2, None, SECOND);
    assert_eq!(bench.leader(), Some(1), "the first one still rests");
}

#[test]
fn a_leader_that_drains_after_it_resigned_hands_over_to_the_one_named() {
    for to in [1, 2] {
        let mut bench = group(3);
        let named = Some(bench.members[to].me());
        bench.command_believed(0, Command::Resign { to: named, cooldown: SECOND });
        bench.command(0, Command::Drain);
        assert_eq!(bench.leader(), Some(to));
        bench.command(0, Command::Leave);
        bench.wait(SECOND * 3);
        assert_eq!((bench.leader(), bench.record().members.len()), (Some(to), 2));
    }
}

#[test]
fn a_leader_that_resigns_while_it_drains_hands_over_to_the_one_named() {
    for to in [1, 2] {
        let mut bench = group(3);
        bench.command_believed(0, Command::Drain);
        assert_eq!(bench.leader(), Some(0), "applications believe");
        bench.resign(0, Some(to), SECOND);
        assert_eq!(bench.leader(), Some(to));
    }
}

#[test]
fn a_leader_that_leaves_right_after_it_resigned_is_followed_by_the_one_named() {
    for to in [1, 2] {
        let mut bench = group(3);
        let named = Some(bench.members[to].me());
        bench.command_believed(0, Command::Resign { to: named, cooldown: SECOND });
        bench.command_believed(0, Command::Leave);
        bench.wait(SECOND);
        assert_eq!((bench.leader(), bench.record().members.len()), (Some(to), 2));
    }
}

#[test]
fn a_transfer_is_asked_of_any_member_and_reaches_the_leader() {
    for asks in [0, 1, 2] {
        let mut bench = group(3);
        bench.transfer(asks, 2);
        assert_eq!(bench.leader(), Some(2), "asked of {asks}");
        bench.wait(SECOND * 5);
        bench.transfer(asks, 0);
        assert_eq!(bench.leader(), Some(0), "and back");
    }
}

#[test]
fn a_transfer_to_the_leader_to_one_that_rests_or_to_one_that_is_dead_comes_to_nothing() {
    let mut bench = group(4);
    bench.resign(0, Some(1), MINUTE);
    bench.stop(2);
    bench.command(3, Command::Drain);
    bench.wait(SECOND * 3);
    for to in [0, 1, 2, 3] {
        bench.transfer(1, to);
        assert!(!bench.members[1].may_lead_next(bench.now, bench.members[to].me()));
        bench.transfer(0, to);
        bench.wait(SECOND);
        assert!(bench.sent(1, to, "hand_over").is_empty());
    }
    assert_eq!(bench.leader(), Some(1));
    assert!(matches!(bench.leadership(1), Some(Leadership::Leading(_))));
}

#[test]
fn rule_29_a_leader_that_resigns_freezes_first_where_members_grant_among_themselves() {
    let mut bench = Bench::group(3, peer_rules::policy(LockAlgorithm::RicartAgrawala));
    bench.wait(SECOND);
    bench.enter(2, "peer");
    bench.resign(0, Some(1), SECOND * 10);
    assert_eq!(bench.leader(), Some(1));
    bench.enter(1, "peer");
    assert!(!bench.holds(1, "peer"));
    bench.exit(2, "peer");
    assert!(bench.holds(1, "peer"), "no grace period");
}

/// A member that is silent keeps admission from being closed until the time to hand over is over.
#[test]
fn a_leader_that_cannot_hand_over_in_time_leads_on() {
    let mut bench = Bench::group(3, peer_rules::policy(LockAlgorithm::RicartAgrawala));
    bench.wait(SECOND);
    bench.enter(2, "peer");
    bench.stop(2);
    bench.wait(SECOND * 2);
    bench.resign(0, Some(1), MINUTE * 10_000);
    assert_eq!(bench.leader(), Some(0));
    bench.wait(Policy::default().timing.leader_lease * 3 + SECOND);
    assert_eq!(bench.leader(), Some(0));
    assert!(
        matches!(bench.leadership(0), Some(Leadership::Leading(_))),
        "{:?}",
        bench.leadership(0)
    );
}

#[test]
fn rule_32_a_member_that_rests_gives_back_what_it_keeps_and_keeps_grants_again() {
    let lock = LockPolicy { caching: Caching::Enabled, ..LockPolicy::default() };
    let mut bench = Bench::group(3, Policy { locks: vec![lock], ..Policy::default() });
    bench.wait(SECOND);
    let enters_again = |bench: &mut Bench, member: usize| {
        bench.enter(member, "a");
        bench.exit(member, "a");
        bench.forget();
        bench.enter(member, "a");
        bench.exit(member, "a");
        bench.sent(member, 1, "request").is_empty()
    };
    assert!(enters_again(&mut bench, 0));
    bench.resign(0, Some(1), MINUTE);
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "it came back before");
    bench.exit(2, "a");
    bench.wait(SECOND * 10);
    assert!(enters_again(&mut bench, 0));
}

#[test]
fn a_leader_resigns_where_nothing_arbitrates() {
    let mut bench = Bench::new(Policy { arbiter: Arbiter::None, ..Policy::default() });
    for _ in 0..3 {
        bench.start();
    }
    let all: Vec<_> = (0..3).map(|member| crate::bench::info(member, 7)).collect();
    for member in 0..3 {
        let others = all.iter().enumerate().filter(|(other, _)| *other != member);
        let others = others.map(|(_, info)| info.clone()).collect();
        bench.command(member, Command::Discovered(others));
    }
    bench.wait(SECOND * 10);
    let leader = bench.leader().expect("the winner leads");
    let to = (leader + 1) % 3;
    bench.resign(leader, Some(to), MINUTE);
    bench.wait(SECOND * 4);
    assert_eq!(bench.leader(), Some(to));
    for other in (0..3).filter(|other| *other != to) {
        assert!(bench.follows(other, to), "{:?}", bench.leadership(other));
    }
}

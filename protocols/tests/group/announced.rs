//! What the beginning of a view costs: a member of the view before gets what has changed, any other the whole record.

use std::time::Duration;

use conclave_protocols::member::message::{Announced, MemberChanges, Message, PeerMessage};
use conclave_protocols::member::{Command, Event, Node};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::{ADMITTED_MAX, Record};
use conclave_protocols::{Epoch, MemberId};

use crate::bench::{Bench, Link, SECOND, info};
use crate::kit::heartbeat_of;

const MILLI: Duration = Duration::from_millis(1);

/// What was announced of the view in the register: to which member, and how.
fn announcements(bench: &Bench) -> Vec<(usize, &Announced)> {
    let epoch = bench.record().epoch;
    let sent = bench.sent.iter().filter_map(|(_, to, message)| {
        let Message::Peer(PeerMessage::Heartbeat(heartbeat)) = message else { return None };
        let new = heartbeat.announcement.as_ref().filter(|_| heartbeat.epoch == epoch)?;
        Some((bench.index(*to)?, &new.record))
    });
    sent.collect()
}

/// To whom the whole was, and to whom what has changed.
fn kinds(bench: &Bench) -> (Vec<usize>, Vec<usize>) {
    let all = announcements(bench);
    let is_whole = |announced: &Announced| matches!(announced, Announced::Whole(_));
    let (whole, changes): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, new)| is_whole(new));
    let to = |sent: Vec<(usize, &Announced)>| {
        let mut to: Vec<usize> = sent.into_iter().map(|(to, _)| to).collect();
        to.sort_unstable();
        to
    };
    (to(whole), to(changes))
}

fn all_follow(bench: &Bench, but: &[usize]) {
    for (number, member) in bench.members.iter().enumerate() {
        if !but.contains(&number) {
            assert_eq!(member.record(), Some(bench.record()), "{number}");
            assert!(member.is_in_view(), "{number}");
        }
    }
}

#[test]
fn members_of_the_view_before_get_what_has_changed_and_a_joiner_gets_the_whole() {
    let mut bench = Bench::group(4, Policy::default());
    let joiner = bench.start();
    bench.wait(SECOND * 2);
    assert_eq!(bench.record().members.len(), 5);
    assert_eq!(kinds(&bench), (vec![joiner], vec![1, 2, 3]));
    all_follow(&bench, &[]);
    for (to, announced) in announcements(&bench) {
        if let Announced::Changes { record, members } = announced {
            let joins: Vec<_> = members.joins.iter().map(|info| info.incarnation).collect();
            assert_eq!(joins, [bench.members[joiner].me()], "{to}");
            assert!(record.members.is_empty() && members.gone.is_empty(), "{to}");
        }
    }
}

/// What goes to one member of the present view is late. To admit another without waiting for that would put it out.
#[test]
fn nobody_is_admitted_while_a_member_may_yet_enter_the_view() {
    let mut bench = Bench::group(3, Policy::default());
    bench.wait(SECOND * 2);
    let (one, two) = (bench.node(0), bench.node(1));
    bench.way(Node::Register, one, Link::Held);
    bench.start();
    while bench.record().members.len() < 4 {
        bench.pass_until(Node::Register, one, "written");
        bench.wait(MILLI);
    }
    bench.link(one, two, Link::Held);
    bench.free(Node::Register, one);
    let epoch = bench.record().epoch;
    let late = bench.start();
    bench.wait(MILLI * 1_150);
    assert_eq!(bench.record().epoch, epoch, "it is waited for");
    bench.free(one, two);
    bench.wait(SECOND * 2);
    assert!(bench.record().rank(bench.members[late].me()).is_some());
    assert!(bench.record().rank(bench.members[1].me()).is_some(), "it was put out");
    all_follow(&bench, &[]);
    let seniority = |member: usize| {
        let rank = bench.record().rank(bench.members[member].me()).expect("a member");
        bench.record().member(rank).map(|info| info.seniority)
    };
    assert!(seniority(1) < seniority(late), "it was never out");
}

#[test]
fn a_leader_that_was_elected_announces_who_is_gone() {
    let mut bench = Bench::group(5, Policy::default());
    let dead = bench.record().rank(bench.members[0].me()).expect("it leads");
    bench.stop(0);
    bench.wait(SECOND * 30);
    assert_eq!(bench.record().members.len(), 4);
    let leader = bench.leader().expect("another leads");
    let (whole, changes) = kinds(&bench);
    assert_eq!((whole, changes.len()), (vec![], 3));
    for (_, announced) in announcements(&bench) {
        let Announced::Changes { members, .. } = announced else { unreachable!("see above") };
        assert_eq!((&members.gone, members.joins.len()), (&vec![dead], 0));
    }
    assert_ne!(leader, 0);
    all_follow(&bench, &[0]);
}

#[test]
fn a_member_that_missed_the_announcement_asks_once_and_gets_the_whole() {
    let mut bench = Bench::group(4, Policy::default());
    let (leader, missed) = (bench.node(0), bench.node(3));
    bench.way(leader, missed, Link::Cut);
    let before = bench.record().clone();
    let joiner = bench.start();
    while bench.record().epoch == before.epoch {
        bench.wait(SECOND / 50);
    }
    assert_eq!(kinds(&bench), (vec![joiner], vec![1, 2, 3]));
    assert_eq!(bench.members[3].record(), Some(&before));
    bench.forget();
    bench.free(leader, missed);
    bench.wait(SECOND / 2);
    assert_eq!(kinds(&bench), (vec![3], vec![]));
    assert_eq!(bench.sent(3, 0, "refusal").len(), 1);
    assert!(bench.notified.contains(&(3, Event::Ignored("unannounced"))));
    all_follow(&bench, &[]);
}

/// A member that has read the view in the register needs no more than that its leader announces it.
#[test]
fn a_member_that_knows_the_view_from_the_register_is_served_by_the_changes() {
    let mut bench = Bench::group(4, Policy::default());
    let (leader, other) = (bench.node(0), bench.node(2));
    bench.way(leader, other, Link::Held);
    let before = bench.record().epoch;
    bench.start();
    while bench.record().epoch == before {
        bench.wait(SECOND / 50);
    }
    bench.command(2, Command::Look);
    assert_eq!(bench.members[2].record(), Some(bench.record()));
    bench.free(leader, other);
    bench.wait(SECOND);
    assert!(!bench.notified.contains(&(2, Event::Ignored("unannounced"))));
    assert_eq!(kinds(&bench).0, [4], "the joiner alone");
    all_follow(&bench, &[]);
}

/// What follows a leader that sends whatever it likes.
#[test]
fn changes_that_do_not_fit_are_answered_with_a_question_and_change_nothing() {
    let mut bench = Bench::group(3, Policy::default());
    let present = bench.record().clone();
    let (leader, epoch) = (info(0, 7).incarnation, Epoch(present.epoch.0 + 40));
    let joins = vec![info(8, 7)];
    let members = |gone: &[u32]| MemberChanges {
        gone: gone.iter().copied().map(MemberId).collect(),
        joins: joins.clone(),
        digest: 7,
    };
    let bases = [present.epoch, Epoch(present.epoch.0 - 1), epoch, Epoch(u64::MAX)];
    for (base, gone) in bases.into_iter().flat_map(|base| {
        [&[][..], &[0], &[2, 1], &[1, 1], &[3], &[u32::MAX]].map(|gone| (base, gone))
    }) {
        let mut bench = bench.clone();
        bench.forget();
        let record = Record { epoch, base: Some(base), members: vec![], ..present.clone() };
        let changes = Announced::Changes { record, members: members(gone) };
        bench.deliver(leader, 1, heartbeat_of(epoch, changes));
        assert_eq!(bench.members[1].record(), Some(&present), "{base}, {gone:?}");
        let asked = PeerMessage::Refusal { floor: Epoch(epoch.0 - 1) };
        assert_eq!(bench.sent(1, 0, "refusal"), [&asked], "{base}, {gone:?}");
    }
    // Of an older view than it knows it wants no announcement.
    let record = Record { epoch: Epoch(1), members: vec![], ..present };
    let changes = Announced::Changes { record, members: members(&[]) };
    bench.deliver(leader, 1, heartbeat_of(Epoch(1), changes));
    let PeerMessage::Refusal { floor } = bench.sent(1, 0, "refusal")[0] else { panic!("refusals") };
    assert!(*floor >= Epoch(1));
}

/// A member without an arbiter does not know what it is asked to switch to, and asks for the whole: even somebody that it
/// would not follow otherwise.
#[test]
fn a_member_without_an_arbiter_asks_for_the_whole_of_a_view_with_one() {
    let policy = Policy { generation: 1, ..Policy::default() };
    let mut bench = Bench::unarbitrated("", &[0, 0, 0], policy);
    assert_eq!(bench.leader(), Some(2), "the highest");
    let epoch = Epoch(40);
    let policy = Policy { generation: 2, arbiter: Arbiter::Quorum, ..Policy::default() };
    let known = bench.members[0].record().expect("it follows").clone();
    let record = Record { epoch, base: Some(Epoch(36)), members: vec![], policy, ..known };
    let members = MemberChanges { gone: vec![], joins: vec![], digest: 7 };
    bench.forget();
    let lower = bench.members[1].me();
    bench.deliver(lower, 0, heartbeat_of(epoch, Announced::Changes { record, members }));
    assert_eq!(bench.sent(0, 1, "refusal"), [&PeerMessage::Refusal { floor: Epoch(39) }]);
    assert_eq!(bench.members[0].arbiter(), Arbiter::None);
}

/// A crowd is taken in by several changes, each of which costs the members before no more than the joiners.
#[test]
fn a_crowd_joins_in_several_changes() {
    let mut bench = Bench::group(2, Policy::default());
    let crowd = 3 * ADMITTED_MAX / 2;
    for _ in 0..crowd {
        bench.start();
    }
    let mut sizes = vec![bench.record().members.len()];
    for _ in 0..60 {
        bench.wait(SECOND / 10);
        let size = bench.record().members.len();
        if sizes.last() != Some(&size) {
            sizes.push(size);
        }
    }
    assert_eq!(sizes.last(), Some(&(2 + crowd)), "{sizes:?}");
    let steps: Vec<usize> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step <= ADMITTED_MAX), "{sizes:?}");
    all_follow(&bench, &[]);
}

#[test]
fn a_joiner_asks_the_leader_and_in_turn_some_of_the_others() {
    let mut bench = Bench::new(Policy::default());
    for _ in 0..40 {
        bench.start();
    }
    bench.wait(SECOND * 4);
    assert_eq!(bench.record().members.len(), 40);
    bench.lost = Some("join");
    bench.forget();
    let joiner = bench.start();
    let asked = |bench: &Bench| -> Vec<usize> {
        (0..40)
            .flat_map(|member| bench.sent(joiner, member, "join").into_iter().map(move |_| member))
            .collect()
    };
    let first = asked(&bench);
    assert_eq!((first.len(), first[0]), (17, 0), "the leader, and 16 others");
    bench.wait(bench.record().timing.heartbeat * 8);
    let mut all = asked(&bench);
    assert!(all.len() <= 5 * 17, "{}", all.len());
    all.dedup();
    assert_eq!(all.len(), 40);
}

/// A whole record of 512 members has 39 kB, and a refusal a few bytes.
#[test]
fn a_member_that_asks_again_and_again_gets_the_whole_once_in_a_heartbeat() {
    let mut bench = Bench::group(3, Policy::default());
    let (floor, hostile) = (Epoch(bench.record().epoch.0 - 1), bench.members[1].me());
    let refuse = |bench: &mut Bench, times: usize| {
        for _ in 0..times {
            bench.deliver(hostile, 0, PeerMessage::Refusal { floor });
        }
    };
    bench.forget();
    refuse(&mut bench, 5_000);
    assert_eq!(kinds(&bench).0.len(), 1);
    let (beats, before) = (8, bench.record().clone());
    for _ in 0..beats * 25 {
        bench.wait(bench.record().timing.heartbeat / 25);
        refuse(&mut bench, 20);
    }
    let (whole, _) = kinds(&bench);
    assert!((2..=1 + beats).contains(&whole.len()), "{}", whole.len());
    assert_eq!((bench.leader(), bench.record()), (Some(0), &before), "nobody else is harmed");
    all_follow(&bench, &[]);
}

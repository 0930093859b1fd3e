//! A group has a limit: how many members come to it, what its changes cost, and what becomes of the pod that is one
//! too many.

use std::time::Duration;

use conclave_protocols::member::message::{Announced, Message, PeerMessage};
use conclave_protocols::member::{Command, Event};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::{ADMITTED_MAX, MEMBERS_MAX, MemberInfo};

use crate::bench::{Bench, SECOND, info};

/// The bytes of what announced the present view, and how many announcements were whole.
fn announced(bench: &Bench) -> (usize, usize) {
    let epoch = bench.record().epoch;
    let heartbeats = bench.sent.iter().filter_map(|(_, _, message)| match message {
        Message::Peer(PeerMessage::Heartbeat(heartbeat)) if heartbeat.epoch == epoch => {
            heartbeat.announcement.as_ref()
        }
        Message::Peer(_) | Message::Register(_) => None,
    });
    let (mut bytes, mut whole) = (0, 0);
    for announcement in heartbeats {
        bytes += postcard::to_stdvec(announcement).expect("plain data").len();
        whole += usize::from(matches!(announcement.record, Announced::Whole(_)));
    }
    (bytes, whole)
}

/// All but those, which are dead or have left, are in the present view.
fn all_follow(bench: &Bench, but: &[usize]) {
    for (number, member) in bench.members.iter().enumerate().filter(|(at, _)| !but.contains(at)) {
        let view = member.record().map(|record| record.epoch);
        assert_eq!(view, Some(bench.record().epoch), "{number}");
        assert!(member.is_in_view(), "{number}");
    }
}

/// As many as can be in one group: they join, one dies, the leader dies, and another waits for a place.
#[test]
fn a_group_as_large_as_can_be_lives_as_any_other() {
    let mut bench = Bench::new(Policy::default());
    bench.start();
    bench.wait(SECOND * 2);
    for _ in 1..MEMBERS_MAX {
        bench.start();
    }
    let changes = MEMBERS_MAX.div_ceil(ADMITTED_MAX);
    bench.wait(SECOND * u32::try_from(changes + 3).expect("few"));
    assert_eq!(bench.record().members.len(), MEMBERS_MAX);
    all_follow(&bench, &[]);
    let epoch = bench.record().epoch;

    bench.forget();
    let refused = bench.start();
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().epoch, epoch, "it changes no view");
    assert!(bench.members[refused].is_one_too_many());
    assert!(bench.notified.contains(&(0, Event::Ignored("full"))));
    bench.command(5, Command::Leave);
    bench.wait(SECOND * 2);
    assert!(bench.record().rank(bench.members[refused].me()).is_some(), "there is a place for it");
    assert!(!bench.members[refused].is_one_too_many());
    let (bytes, whole) = announced(&bench);
    assert_eq!(whole, 1, "it alone gets the whole");
    assert!(bytes < MEMBERS_MAX * 512, "{bytes}");
    all_follow(&bench, &[5]);

    bench.forget();
    bench.stop(7);
    bench.wait(bench.record().timing.member_lease + bench.record().timing.leader_lease * 2);
    assert!(bench.record().rank(bench.members[7].me()).is_none(), "a follower died");
    let (bytes, whole) = announced(&bench);
    assert!(whole == 0 && bytes < MEMBERS_MAX * 256, "{whole}, {bytes}");

    bench.forget();
    bench.stop(0);
    bench.wait(SECOND * 10);
    let leader = bench.leader().expect("another leads");
    assert_ne!(leader, 0);
    assert_eq!(bench.record().leader, Some(bench.members[leader].me()));
    all_follow(&bench, &[0, 5, 7]);
    let (bytes, whole) = announced(&bench);
    assert!(whole == 0 && bytes < MEMBERS_MAX * 256, "{whole}, {bytes}");
}

/// Without an arbiter everybody chooses among those that discovery found, in whatever order.
#[test]
fn of_more_than_fit_in_the_same_are_taken_without_an_arbiter() {
    let mut bench = Bench::new(Policy { arbiter: Arbiter::None, ..Policy::default() });
    let mut found: Vec<MemberInfo> = (1..MEMBERS_MAX + 44).map(|index| info(index, 7)).collect();
    bench.start();
    bench.command(0, Command::Discovered(found.clone()));
    bench.wait(SECOND * 10);
    let record = bench.members[0].record().expect("it leads").clone();
    assert_eq!((record.members.len(), bench.leader()), (MEMBERS_MAX, Some(0)));
    for _ in 0..5 {
        found.rotate_left(50);
        bench.command(0, Command::Discovered(found.clone()));
        bench.wait(Duration::from_secs(2));
        let epoch = bench.members[0].record().map(|record| record.epoch);
        assert_eq!(epoch, Some(record.epoch));
    }
}

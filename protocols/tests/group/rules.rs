//! The rules of the leader lease protocol, one by one, with the real member. Their numbers are those of
//! `docs/views.md`.

use std::time::Duration;

use conclave_protocols::member::message::{Admission, Heartbeat, Message, PeerMessage};
use conclave_protocols::member::{Command, Leadership, LockEvent, LostReason, Member, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::protocol::{Input, Outbox};
use conclave_protocols::record::Record;
use conclave_protocols::register::{self, CallId, MemoryRegister, Version};
use conclave_protocols::time::hold;
use conclave_protocols::{Epoch, Protocol};

use crate::bench::{Bench, Link, SECOND, info};

const MILLI: Duration = Duration::from_millis(1);

fn three() -> Bench {
    Bench::group(3, Policy::default())
}

fn five() -> Bench {
    Bench::group(5, Policy::default())
}

#[test]
fn rule_1_a_write_that_names_another_version_changes_nothing() {
    let bench = Bench::group(1, Policy::default());
    let mut register = MemoryRegister::default();
    let write = |id, version: &str, epoch| register::Message::Write {
        id: CallId(id),
        version: Version(version.to_owned()),
        record: Box::new(Record { epoch: Epoch(epoch), ..bench.record().clone() }),
    };
    let answer = register.answer(&write(1, "0", 5), Epoch(0));
    assert!(matches!(answer, Some(register::Message::Written { .. })));
    assert_eq!(
        register.answer(&write(2, "0", 6), Epoch(0)),
        Some(register::Message::Conflict(CallId(2)))
    );
    assert_eq!(register.record().map(|record| record.epoch), Some(Epoch(5)));
}

#[test]
fn rule_2_a_restarted_process_is_another_member() {
    let mut bench = three();
    bench.stop(0);
    let mut again = Member::new(info(0, 8), Policy::default(), Epoch(0));
    let mut out = Outbox::default();
    again.start(bench.now, &mut out);
    let base = bench.record().epoch;
    let from = bench.node(1);
    let message = Message::Peer(PeerMessage::SealRequest { base });
    out.drain();
    again.handle(bench.now, Input::Message { from, message }, &mut out);
    assert!(out.is_empty(), "it has nothing to seal in a view of its predecessor");
}

#[test]
fn rule_5_a_grant_counts_from_before_its_request_was_sent() {
    let mut bench = three();
    let wait = Policy::default().timing.member_lease;
    bench.link(bench.node(1), bench.node(0), Link::Held);
    let asked = bench.now;
    bench.enter(1, "a");
    bench.wait(SECOND);
    bench.free(bench.node(1), bench.node(0));
    assert_eq!(bench.deadline(1, "a"), Some(asked.after(hold(wait))));
}

#[test]
fn rule_5_a_promise_counts_from_before_the_heartbeat_was_sent() {
    let mut bench = three();
    let timing = Policy::default().timing;
    for other in [1, 2] {
        bench.link(bench.node(0), bench.node(other), Link::Held);
    }
    bench.wait(timing.heartbeat * 2);
    let sent = bench.now;
    bench.wait(timing.heartbeat * 2);
    for other in [1, 2] {
        bench.free(bench.node(0), bench.node(other));
    }
    let until = bench.members[0].leader_lease().expect("it leads");
    assert!(until <= bench.now.after(hold(timing.leader_lease)));
    assert!(until >= sent.after(hold(timing.leader_lease)) && until > bench.now);
}

#[test]
fn rule_7_a_deadline_that_has_passed_is_final() {
    let mut bench = three();
    bench.enter(1, "a");
    let first = bench.tokens(1, "a");
    bench.stop(1);
    bench.wait(SECOND * 11);
    bench.go_on(1);
    bench.wait(SECOND);
    let lost = LockEvent::Lost(LostReason::LeaseExpired);
    assert!(bench.lock_events(1, "a").any(|event| *event == lost));
    assert!(!bench.holds(1, "a"));
    bench.enter(1, "a");
    bench.wait(SECOND * 2);
    assert!(bench.tokens(1, "a")[1..].iter().all(|token| *token > first[0]));
    assert!(bench.holds(1, "a"));
}

#[test]
fn rule_8_a_member_that_sealed_a_view_promises_nothing_in_it() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.cut_off(0);
    bench.wait(Duration::from_millis(1_400));
    // Nobody may read: the candidates cannot seal, and this asks by hand.
    for member in [1, 2] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.wait(MILLI * 200);
    let candidate = bench.members[2].me();
    bench.deliver(candidate, 1, PeerMessage::SealRequest { base: epoch });
    assert_eq!(bench.sent(1, 2, "seal").len(), 1);
    bench.forget();
    let admission = Admission { open: true, ceiling: epoch, full: false };
    let heartbeat = Heartbeat {
        epoch,
        seq: 99,
        admission,
        list: None,
        listed: 0,
        extended: None,
        announcement: None,
    };
    bench.deliver(bench.members[0].me(), 1, PeerMessage::Heartbeat(Box::new(heartbeat)));
    assert_eq!(bench.sent(1, 0, "promise").len(), 0);
    assert_eq!(bench.sent(1, 0, "refusal").len(), 1);
}

#[test]
fn rule_8_a_member_that_has_not_read_the_register_for_long_promises_nothing() {
    let mut bench = three();
    bench.link(bench.node(1), Node::Register, Link::Cut);
    bench.wait(SECOND * 47);
    bench.forget();
    bench.wait(SECOND);
    assert!(!bench.sent(1, 0, "promise").is_empty(), "47 s are surely survived");
    bench.wait(SECOND * 11);
    bench.forget();
    bench.wait(SECOND);
    assert_eq!(bench.sent(1, 0, "promise").len(), 0);
    assert_eq!(bench.leader(), Some(0), "the others promise");
}

/// Read by hand, because it takes a rare order of events: a view ended although its members had not
/// sealed it, since all had waited. One of them then reads the newer view, which must not confirm
/// the older one, or its leader lease comes back beside the new.
#[test]
fn rule_8_a_newer_view_does_not_confirm_an_older_one() {
    let mut bench = three();
    let old = bench.record().clone();
    for member in 0..3 {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.wait(SECOND * 70);
    assert_eq!(bench.leader(), None);
    let stranger = info(9, 1);
    let newer = Record {
        epoch: Epoch(old.epoch.0 + 20),
        members: vec![stranger.clone()],
        leader: Some(stranger.incarnation),
        ..old
    };
    bench.register.put(Some(newer));
    for member in [1, 2] {
        bench.free(bench.node(member), Node::Register);
    }
    bench.wait(SECOND * 5);
    assert_eq!(bench.leader(), None, "the old leader hears its members, and must not lead them");
}

#[test]
fn rule_9_a_leader_lease_takes_a_majority_of_promises() {
    let mut bench = five();
    bench.stop(4);
    bench.stop(3);
    bench.wait(SECOND * 3);
    assert_eq!(bench.leader(), Some(0));
    bench.stop(2);
    bench.wait(Duration::from_millis(1_750));
    assert_eq!(bench.leader(), None);
}

#[test]
fn rule_10_members_read_the_register_again_and_again() {
    let mut bench = three();
    bench.wait(SECOND * 60);
    for member in 0..3 {
        let reads = bench.calls(member, "read");
        assert!((6..=9).contains(&reads), "member {member} read {reads} times in a minute");
        assert_eq!(bench.calls(member, "write"), 0);
    }
}

#[test]
fn rule_11_nothing_is_sealed_without_the_register() {
    let mut bench = three();
    for member in [1, 2] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.stop(0);
    bench.wait(SECOND * 20);
    assert!(bench.sent(1, 2, "election").len() + bench.sent(2, 1, "election").len() > 2);
    assert!(bench.sent(1, 2, "seal_request").is_empty());
    assert!(bench.sent(2, 1, "seal_request").is_empty());
}

#[test]
fn rule_12_a_promise_that_runs_keeps_a_member_from_sealing() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    let candidate = bench.members[2].me();
    bench.deliver(candidate, 1, PeerMessage::SealRequest { base: epoch });
    assert_eq!(bench.sent(1, 2, "seal").len(), 0);
    assert_eq!(bench.sent(1, 2, "seal_refused").len(), 1);
}

#[test]
fn rule_12_a_seal_is_given_again_to_the_member_that_asks() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.enter(1, "a");
    bench.cut_off(0);
    for member in [1, 2] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.wait(SECOND * 2);
    bench.forget();
    for _ in 0..2 {
        bench.deliver(bench.members[2].me(), 1, PeerMessage::SealRequest { base: epoch });
    }
    let seals = bench.sent(1, 2, "seal");
    let [PeerMessage::Seal(first), PeerMessage::Seal(second)] = seals[..] else {
        panic!("two seals: {seals:?}")
    };
    assert_eq!(first.holds, second.holds);
    assert_eq!(first.holds.len(), 1, "it reports what it holds");
}

/// The successor's own promise has not run out when it hears that its leader resigned. If it came to
/// nothing as a candidate and its seal counted at once, a rival could take the old leader's own
/// holds for ended that last as long as the promises.
#[test]
fn rule_12_a_successor_that_comes_to_nothing_seals_no_earlier_than_the_others() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.link(bench.node(1), Node::Register, Link::Cut);
    bench.command(0, Command::Drain);
    assert_eq!(bench.sent(0, 1, "hand_over").len(), 1);
    bench.wait(Duration::from_millis(600));
    bench.deliver(bench.members[2].me(), 1, PeerMessage::SealRequest { base: epoch });
    assert_eq!(bench.sent(1, 2, "seal").len(), 0);
    assert_eq!(bench.sent(1, 2, "seal_refused").len(), 1);
}

#[test]
fn rule_12_a_member_that_sealed_a_view_takes_no_grant_of_it() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.link(bench.node(0), bench.node(1), Link::Held);
    bench.enter(1, "a");
    bench.link(bench.node(0), bench.node(2), Link::Cut);
    bench.wait(SECOND);
    for member in [1, 2] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.wait(SECOND);
    bench.deliver(bench.members[2].me(), 1, PeerMessage::SealRequest { base: epoch });
    assert_eq!(bench.sent(1, 2, "seal").len(), 1);
    bench.free(bench.node(0), bench.node(1));
    assert!(!bench.holds(1, "a"));
}

#[test]
fn rule_13_a_leader_that_resigns_needs_nobodys_seal() {
    let mut bench = five();
    bench.enter(3, "a");
    let epoch = bench.record().epoch;
    let before = bench.now;
    bench.command(0, Command::Drain);
    assert_eq!(bench.now, before);
    assert!(bench.record().epoch > epoch);
    assert_eq!(bench.leader(), Some(1));
    assert!((0..5).all(|one| (0..5).all(|two| bench.sent(one, two, "seal").is_empty())));
    bench.wait(SECOND * 12);
    assert!(bench.holds(3, "a"), "the table went along");
    bench.enter(4, "b");
    assert!(bench.holds(4, "b"), "and nobody waits");
}

#[test]
fn rule_13_the_leader_lease_ends_before_the_successor_knows() {
    let mut bench = three();
    bench.link(bench.node(0), bench.node(1), Link::Held);
    bench.command(0, Command::Drain);
    assert_eq!(bench.members[0].leader_lease(), None);
    assert!(!matches!(bench.leadership(0), Some(Leadership::Leading(_))));
}

#[test]
fn rule_15_seals_are_counted_against_the_old_membership() {
    let mut bench = five();
    for dead in [0, 3, 4] {
        bench.stop(dead);
    }
    let epoch = bench.record().epoch;
    bench.wait(SECOND * 10);
    assert_eq!(bench.record().epoch, epoch, "two of five seals leave room for a majority");
    assert_eq!(bench.leader(), None);
    bench.go_on(3);
    bench.wait(SECOND * 3);
    assert!(bench.record().epoch > epoch);
    assert_eq!(bench.record().members.len(), 3, "three are enough, and they are the next view");
}

#[test]
fn rule_15_without_enough_seals_the_last_promise_is_waited_out() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    for dead in [0, 1] {
        bench.stop(dead);
    }
    bench.wait(SECOND * 8);
    assert!(bench.record().closing);
    bench.wait(SECOND * 56);
    assert_eq!(bench.record().epoch, epoch);
    bench.wait(SECOND * 8);
    assert!(bench.record().epoch > epoch && !bench.record().closing);
    assert_eq!(bench.leader(), Some(2));
}

#[test]
fn rule_15_a_mark_on_a_living_view_is_cleared() {
    let mut bench = three();
    let marked = Record { closing: true, nonce: 1, ..bench.record().clone() };
    bench.register.put(Some(marked));
    bench.wait(SECOND * 12);
    assert!(!bench.record().closing);
    assert_eq!(bench.leader(), Some(0));
    assert_eq!(bench.record().members.len(), 3);
}

#[test]
fn rule_16_a_late_seal_saves_the_grace_period() {
    let mut bench = five();
    bench.wait(SECOND * 2);
    bench.link(bench.node(1), bench.node(4), Link::Held);
    bench.stop(0);
    while bench.sent(1, 4, "seal_request").is_empty() {
        bench.wait(MILLI);
    }
    bench.wait(MILLI * 20);
    bench.free(bench.node(1), bench.node(4));
    bench.wait(MILLI * 20);
    assert_eq!(bench.leader(), Some(1));
    assert_eq!(bench.record().members.len(), 4);
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"));
}

#[test]
fn rule_16_a_member_that_heard_the_old_leader_once_more_is_waited_for() {
    let mut bench = five();
    bench.wait(SECOND * 2);
    // The last heartbeats of a leader reach only one member.
    for follower in 1..4 {
        bench.link(bench.node(0), bench.node(follower), Link::Cut);
    }
    bench.wait(MILLI * 260);
    bench.stop(0);
    bench.wait(MILLI * 2_000);
    assert_eq!(bench.leader(), Some(1));
    assert_eq!(bench.record().members.len(), 4);
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "nobody can hold anything that was not reported");
}

#[test]
fn rule_17_the_next_epoch_lies_above_every_token() {
    let mut bench = three();
    let raised = Record { ceiling: Epoch(500), nonce: 2, ..bench.record().clone() };
    bench.register.put(Some(raised));
    bench.command(0, Command::Drain);
    assert!(bench.record().epoch > Epoch(500));
}

#[test]
fn rule_17_only_those_who_answered_are_in_the_next_view() {
    let mut bench = five();
    bench.stop(0);
    bench.stop(4);
    bench.wait(SECOND * 3);
    let members: Vec<_> = bench.record().incarnations().collect();
    assert_eq!(members.len(), 3);
    assert!(!members.contains(&bench.members[4].me()));
}

#[test]
fn rule_18_a_write_whose_answer_was_lost_is_found_by_reading() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.stop(0);
    bench.lost = Some("written");
    while bench.calls(1, "write") == 0 {
        bench.wait(MILLI * 10);
    }
    let written = bench.record().clone();
    assert!(written.epoch > epoch, "it was carried out");
    assert_eq!(bench.leader(), None);
    bench.lost = None;
    bench.wait(SECOND);
    assert_eq!(bench.record().nonce, written.nonce, "it was not written twice");
    assert_eq!(bench.leader(), Some(1));
}

#[test]
fn rule_18_a_write_that_was_lost_is_sent_again() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.stop(0);
    bench.lost = Some("write");
    while bench.calls(1, "write") == 0 {
        bench.wait(MILLI * 10);
    }
    assert_eq!(bench.record().epoch, epoch);
    bench.lost = None;
    bench.wait(SECOND);
    assert_eq!((bench.leader(), bench.calls(1, "write")), (Some(1), 2));
}

#[test]
fn rule_18_a_harmless_writer_ends_no_leader_lease_and_stops_no_candidate() {
    let mut bench = three();
    for _ in 0..5 {
        bench.register.put(bench.register.record().cloned());
        bench.wait(SECOND * 3);
        assert_eq!(bench.leader(), Some(0));
    }
    bench.stop(0);
    while bench.leader() != Some(1) {
        bench.register.put(bench.register.record().cloned());
        bench.wait(MILLI * 50);
        assert!(bench.calls(1, "write") < 10);
    }
}

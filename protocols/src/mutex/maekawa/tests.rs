//! One member's rules, one at a time.

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const ME: MemberId = MemberId(0);
const PEER: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(0) }
}

/// Four members that all ask all, so that each may hear of three others.
fn member(me: MemberId) -> Maekawa {
    let all: BTreeSet<MemberId> = view(4).members().collect();
    let quorums = Quorums::given(vec![all; 4]).expect("all meet");
    Maekawa::with_quorums(me, view(4), &Carried::default(), &quorums)
}

fn at(time: u64) -> LamportTime {
    let mut clock = LamportTime::default();
    (0..time).for_each(|_| {
        clock.tick();
    });
    clock
}

fn locked(request: u64, highest: u64) -> Message {
    Message::Locked { request: at(request), highest: at(highest) }
}

fn feed(member: &mut Maekawa, input: InputOf<Maekawa>) -> Vec<EffectOf<Maekawa>> {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn command(member: &mut Maekawa, command: Command) -> Vec<EffectOf<Maekawa>> {
    feed(member, Input::Command(command))
}

fn hear(member: &mut Maekawa, from: MemberId, message: Message) -> Vec<EffectOf<Maekawa>> {
    feed(member, Input::Message { from, message })
}

fn send(to: MemberId, message: Message) -> EffectOf<Maekawa> {
    Effect::Send { to, message }
}

const ENTERED: EffectOf<Maekawa> = Effect::Tell(Event::Entered);
const QUEUED: EffectOf<Maekawa> = Effect::Tell(Event::Queued);

/// A member that waits with its own vote and those of the others that are named.
fn candidate(voters: &[MemberId]) -> Maekawa {
    let mut me = member(ME);
    command(&mut me, Command::Enter);
    for voter in voters {
        assert_eq!(hear(&mut me, *voter, locked(1, 1)), []);
    }
    me
}

#[test]
fn a_member_asks_its_row_and_column_and_takes_its_own_vote_without_a_message() {
    let mut me = Maekawa::new(ME, view(4), &Carried::default());
    let request = Message::Request(at(1));
    assert_eq!(command(&mut me, Command::Enter), [send(PEER, request), send(OTHER, request)]);
    assert_eq!(me.voted_for(), Some(ME));
    assert_eq!(hear(&mut me, PEER, locked(1, 1)), []);
    assert_eq!(hear(&mut me, OTHER, locked(1, 1)), [ENTERED]);
    let release = Message::Release(at(1));
    assert_eq!(command(&mut me, Command::Exit), [send(PEER, release), send(OTHER, release)]);
    assert_eq!((me.phase(), me.voted_for()), (Phase::Idle, None));
}

#[test]
fn a_member_alone_enters_at_once() {
    let mut me = Maekawa::new(ME, view(1), &Carried::default());
    assert_eq!(command(&mut me, Command::Enter), [ENTERED]);
    assert_eq!(command(&mut me, Command::Enter), []);
    assert_eq!(command(&mut me, Command::Exit), []);
    assert_eq!(me.phase(), Phase::Idle);
}

#[test]
fn a_voter_has_one_vote_and_gives_it_to_the_first_by_stamp_when_it_comes_back() {
    let mut me = member(ME);
    assert_eq!(hear(&mut me, PEER, Message::Request(at(1))), [send(PEER, locked(1, 1))]);
    let failed = |to, time| [send(to, Message::Failed(at(time)))];
    assert_eq!(hear(&mut me, MemberId(3), Message::Request(at(7))), failed(MemberId(3), 7));
    assert_eq!(
        hear(&mut me, OTHER, Message::Request(at(5))),
        [send(OTHER, Message::Failed(at(5)))]
    );
    assert_eq!(me.queue().collect::<Vec<_>>(), [OTHER, MemberId(3)]);
    let next = hear(&mut me, PEER, Message::Release(at(1)));
    assert_eq!(next, [send(OTHER, locked(5, 7))], "and the vote tells the highest stamp seen");
}

#[test]
fn of_equal_times_the_lower_rank_comes_first() {
    let mut me = member(ME);
    hear(&mut me, OTHER, Message::Request(at(4)));
    let inquiry = send(OTHER, Message::Inquire(at(4)));
    assert_eq!(hear(&mut me, PEER, Message::Request(at(4))), [inquiry]);
    let failed = send(MemberId(3), Message::Failed(at(4)));
    assert_eq!(hear(&mut me, MemberId(3), Message::Request(at(4))), [failed]);
}

#[test]
fn a_vote_that_is_given_back_goes_to_the_older_request_and_then_returns() {
    let mut me = member(ME);
    hear(&mut me, OTHER, Message::Request(at(4)));
    hear(&mut me, PEER, Message::Request(at(2)));
    let relinquished = hear(&mut me, OTHER, Message::Relinquish(at(4)));
    assert_eq!(relinquished, [send(PEER, locked(2, 4))]);
    assert_eq!(me.queue().collect::<Vec<_>>(), [OTHER]);
    let released = hear(&mut me, PEER, Message::Release(at(2)));
    assert_eq!(released, [send(OTHER, locked(4, 4))]);
}

#[test]
fn a_voter_asks_once_and_tells_the_first_in_line_whom_another_displaces() {
    let mut me = member(ME);
    hear(&mut me, MemberId(3), Message::Request(at(9)));
    let inquiry = send(MemberId(3), Message::Inquire(at(9)));
    assert_eq!(hear(&mut me, OTHER, Message::Request(at(5))), [inquiry]);
    let displaced = send(OTHER, Message::Failed(at(5)));
    assert_eq!(hear(&mut me, PEER, Message::Request(at(3))), [displaced]);
}

#[test]
fn a_member_that_has_failed_gives_its_vote_back_when_asked() {
    let mut me = candidate(&[PEER]);
    assert_eq!(hear(&mut me, OTHER, Message::Failed(at(1))), [QUEUED]);
    let back = send(PEER, Message::Relinquish(at(1)));
    assert_eq!(hear(&mut me, PEER, Message::Inquire(at(1))), [back]);
}

#[test]
fn an_inquiry_waits_until_it_is_known_that_the_request_fails() {
    let mut me = candidate(&[PEER]);
    assert_eq!(hear(&mut me, PEER, Message::Inquire(at(1))), []);
    let back = send(PEER, Message::Relinquish(at(1)));
    assert_eq!(hear(&mut me, OTHER, Message::Failed(at(1))), [QUEUED, back]);
    assert_eq!(hear(&mut me, MemberId(3), locked(1, 1)), []);
    assert_eq!(hear(&mut me, OTHER, locked(1, 1)), []);
    assert_eq!(hear(&mut me, PEER, locked(1, 1)), [ENTERED], "the vote came back");
}

#[test]
fn a_member_that_gave_one_vote_back_gives_back_the_next_that_is_asked_for() {
    let mut me = candidate(&[PEER, OTHER]);
    hear(&mut me, MemberId(3), Message::Failed(at(1)));
    hear(&mut me, PEER, Message::Inquire(at(1)));
    hear(&mut me, MemberId(3), locked(1, 1));
    let back = send(OTHER, Message::Relinquish(at(1)));
    assert_eq!(hear(&mut me, OTHER, Message::Inquire(at(1))), [back]);
}

#[test]
fn a_member_in_its_section_gives_no_vote_back_before_it_leaves() {
    let mut me = candidate(&[PEER, OTHER]);
    assert_eq!(hear(&mut me, MemberId(3), locked(1, 1)), [ENTERED]);
    assert_eq!(hear(&mut me, PEER, Message::Inquire(at(1))), []);
    assert_eq!(hear(&mut me, PEER, Message::Failed(at(1))), []);
    assert_eq!(me.phase(), Phase::InSection);
}

#[test]
fn a_members_own_vote_is_asked_back_like_any_other() {
    let mut me = candidate(&[OTHER, MemberId(3)]);
    let clashing = Message::Request(at(1));
    assert_eq!(hear(&mut me, PEER, clashing), [send(PEER, Message::Failed(at(1)))]);
    let mut peer = member(OTHER);
    command(&mut peer, Command::Enter);
    assert_eq!(hear(&mut peer, MemberId(3), Message::Failed(at(1))), [QUEUED]);
    assert_eq!(hear(&mut peer, PEER, clashing), [send(PEER, locked(1, 1))]);
    assert_eq!(peer.queue().collect::<Vec<_>>(), [OTHER]);
}

#[test]
fn a_vote_that_crosses_a_withdrawal_lets_nobody_in() {
    let mut me = candidate(&[PEER, OTHER]);
    let given_up = command(&mut me, Command::Exit);
    assert_eq!(given_up.len(), 3, "all that were asked are told, whether they have voted or not");
    command(&mut me, Command::Enter);
    for voter in [PEER, OTHER, MemberId(3)] {
        assert_eq!(hear(&mut me, voter, locked(1, 1)), []);
    }
    for voter in [PEER, OTHER] {
        assert_eq!(hear(&mut me, voter, locked(2, 2)), []);
    }
    assert_eq!(hear(&mut me, MemberId(3), locked(2, 2)), [ENTERED]);
}

#[test]
fn what_is_sent_of_a_request_given_up_is_stale() {
    let mut me = candidate(&[PEER]);
    command(&mut me, Command::Exit);
    command(&mut me, Command::Enter);
    hear(&mut me, PEER, locked(2, 2));
    for stale in [Message::Inquire(at(1)), Message::Failed(at(1))] {
        assert_eq!(hear(&mut me, PEER, stale), []);
    }
    assert_eq!(hear(&mut me, OTHER, Message::Failed(at(1))), []);
    assert_eq!(hear(&mut me, PEER, Message::Inquire(at(2))), [], "it has not failed");
}

#[test]
fn a_request_that_is_given_up_leaves_the_queue() {
    let mut me = member(ME);
    hear(&mut me, PEER, Message::Request(at(1)));
    hear(&mut me, OTHER, Message::Request(at(2)));
    assert_eq!(hear(&mut me, OTHER, Message::Release(at(2))), []);
    assert_eq!(hear(&mut me, PEER, Message::Release(at(1))), []);
    assert_eq!(me.voted_for(), None);
}

#[test]
fn a_stamp_lies_above_all_that_the_member_has_received() {
    let mut me = candidate(&[PEER, OTHER]);
    hear(&mut me, MemberId(3), locked(1, 8));
    command(&mut me, Command::Exit);
    hear(&mut me, PEER, Message::Request(at(11)));
    hear(&mut me, PEER, Message::Release(at(11)));
    let request = send(PEER, Message::Request(at(12)));
    assert_eq!(command(&mut me, Command::Enter)[0], request);
}

#[test]
fn all_know_how_they_stand_when_a_view_begins() {
    let carried = Carried { holder: Some(OTHER), waiting: vec![MemberId(3), PEER] };
    let all: Vec<Maekawa> =
        view(4).members().map(|me| Maekawa::new(me, view(4), &carried)).collect();
    let phases: Vec<Phase> = all.iter().map(Maekawa::phase).collect();
    assert_eq!(phases, [Phase::Idle, Phase::Waiting, Phase::InSection, Phase::Waiting]);
    let votes: Vec<_> = all.iter().map(|one| one.voted_for().map(|member| member.0)).collect();
    assert_eq!(votes, [Some(2), Some(3), Some(2), Some(2)], "1 is no voter of the holder");
    let queues: Vec<Vec<u32>> = all.iter().map(|one| one.queue().map(|m| m.0).collect()).collect();
    assert_eq!(queues, [vec![1], vec![1], vec![3], vec![3, 1]]);
    let mut out = Outbox::default();
    for mut member in all {
        member.start(LocalTime(0), &mut out);
    }
    assert!(out.is_empty());
}

#[test]
fn a_member_that_was_carried_over_behind_others_knows_that_it_fails() {
    let carried = Carried { holder: Some(OTHER), waiting: vec![MemberId(3), PEER] };
    let mut third = Maekawa::new(MemberId(3), view(4), &carried);
    let back = send(PEER, Message::Relinquish(at(2)));
    assert_eq!(hear(&mut third, PEER, Message::Inquire(at(2))), [back]);
}

#[test]
fn the_first_that_waited_enters_when_a_view_begins_with_nobody_in_section() {
    let carried = Carried { holder: None, waiting: vec![MemberId(3), PEER] };
    let entered = view(4).members().filter(|me| {
        let mut out = Outbox::default();
        Maekawa::new(*me, view(4), &carried).start(LocalTime(0), &mut out);
        out.drain().any(|effect| effect == ENTERED)
    });
    assert_eq!(entered.collect::<Vec<_>>(), [MemberId(3)]);
}

#[test]
fn a_member_that_is_carried_over_twice_or_is_no_member_does_not_count() {
    let carried = Carried { holder: Some(PEER), waiting: vec![MemberId(9), PEER, ME, ME] };
    let peer = Maekawa::new(PEER, view(4), &carried);
    assert_eq!((peer.phase(), peer.voted_for()), (Phase::InSection, Some(PEER)));
    assert_eq!(peer.queue().collect::<Vec<_>>(), [ME]);
}

#[test]
fn what_makes_no_sense_is_ignored() {
    let mut me = member(ME);
    assert_eq!(hear(&mut me, MemberId(4), Message::Request(at(1))), [], "no member");
    hear(&mut me, PEER, Message::Request(at(3)));
    assert_eq!(hear(&mut me, PEER, Message::Request(at(4))), [], "it has not left");
    for message in [Message::Relinquish(at(3)), Message::Release(at(3))] {
        assert_eq!(hear(&mut me, OTHER, message), [], "it has no vote");
    }
    assert_eq!((me.voted_for(), me.queue().count()), (Some(PEER), 0));
    let mut contradicted = candidate(&[PEER]);
    assert_eq!(hear(&mut contradicted, PEER, Message::Failed(at(1))), [], "it has voted");
    assert_eq!(hear(&mut contradicted, PEER, Message::Inquire(at(1))), []);
    let mut grid = Maekawa::new(ME, view(4), &Carried::default());
    command(&mut grid, Command::Enter);
    hear(&mut grid, PEER, locked(1, 1));
    assert_eq!(hear(&mut grid, MemberId(3), locked(1, 1)), [], "it is not asked");
    assert_eq!(hear(&mut grid, OTHER, locked(1, 1)), [ENTERED]);
}

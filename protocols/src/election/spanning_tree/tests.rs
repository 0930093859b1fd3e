use std::time::Duration;

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};
use crate::view::View;

const TIMING: Timing =
    Timing { answer: Duration::from_millis(1), announcement: Duration::from_millis(2) };

const ME: MemberId = MemberId(1);

/// One of five, of capacity 3, whose neighbours are 0, 2 and 3.
fn member() -> SpanningTree {
    let view = View { epoch: Epoch(1), size: 5, leader: MemberId(4) };
    let neighbours = [0, 2, 3].map(MemberId);
    let place = Place::new(ME, view).with_capacity(3).with_neighbours(neighbours);
    SpanningTree::new(place, TIMING)
}

/// The same, but its neighbours were chosen to save messages.
fn sparing() -> SpanningTree {
    SpanningTree::new(Place { spares: true, ..member().place }, TIMING)
}

fn handle(member: &mut SpanningTree, input: InputOf<SpanningTree>) -> Vec<EffectOf<SpanningTree>> {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn hear(member: &mut SpanningTree, from: u32, message: Message) -> Vec<EffectOf<SpanningTree>> {
    handle(member, Input::Message { from: MemberId(from), message })
}

fn time_out(member: &mut SpanningTree) -> Vec<EffectOf<SpanningTree>> {
    handle(member, Input::Timer(Timer::Answers))
}

fn send(to: u32, message: Message) -> EffectOf<SpanningTree> {
    Effect::Send { to: MemberId(to), message }
}

fn wait() -> EffectOf<SpanningTree> {
    Effect::Arm { timer: Timer::Answers, after: TIMING.answer }
}

fn elected(leader: u32) -> EffectOf<SpanningTree> {
    Effect::Tell(Event::Elected(MemberId(leader)))
}

fn index(number: u64, source: u32) -> Index {
    Index { wide: false, number, source: MemberId(source) }
}

fn wide(number: u64, source: u32) -> Index {
    Index { wide: true, ..index(number, source) }
}

fn best(capacity: u64, member: u32) -> Best {
    Best { capacity, member: MemberId(member) }
}

fn election(of: Index) -> Message {
    Message::Election { of }
}

fn not_child(of: Index) -> Message {
    Message::NotChild { of }
}

fn report(of: Index, best: Best) -> Message {
    Message::Report { of, best }
}

fn leader(of: Index, leader: u32) -> Message {
    Message::Leader { of, leader: MemberId(leader) }
}

fn probe(of: Index, reported: Option<Best>) -> Message {
    Message::Probe { of, reported }
}

fn reply(of: Index, sent: Option<Answer>) -> Message {
    Message::Reply { of, sent }
}

/// What joining a computation from 0 leads to.
fn joins(of: Index) -> [EffectOf<SpanningTree>; 4] {
    [send(0, reply(of, None)), send(2, election(of)), send(3, election(of)), wait()]
}

/// It has a parent, 0, and has reported to it; 2 is its child, 3 is not.
fn reported(of: Index) -> SpanningTree {
    let mut member = member();
    assert_eq!(hear(&mut member, 0, election(of)), joins(of));
    assert_eq!(hear(&mut member, 3, not_child(of)), []);
    let effects = hear(&mut member, 2, report(of, best(7, 4)));
    assert_eq!(effects, [send(0, report(of, best(7, 4))), wait()]);
    member
}

#[test]
fn it_joins_asks_all_but_its_parent_and_reports_the_best_when_all_have_answered() {
    let of = index(1, 0);
    let mut member = reported(of);
    assert_eq!((member.elected(), member.is_electing()), (None, true));
    let announced = [send(2, leader(of, 4)), Effect::Disarm(Timer::Answers), elected(4)];
    assert_eq!(hear(&mut member, 0, leader(of, 4)), announced);
    assert_eq!((member.elected(), member.is_electing()), (Some(MemberId(4)), false));
}

#[test]
fn a_neighbour_that_is_no_parent_is_answered_at_once_each_time_and_the_parent_by_a_reply() {
    let of = index(1, 0);
    let mut member = member();
    hear(&mut member, 0, election(of));
    for _ in 0..2 {
        assert_eq!(hear(&mut member, 2, election(of)), [send(2, not_child(of))]);
        assert_eq!(hear(&mut member, 0, election(of)), [send(0, reply(of, None))]);
    }
    assert_eq!(member.part.as_ref().map(|part| part.pending.len()), Some(2), "they have to answer");
}

#[test]
fn a_higher_computation_takes_over_and_answers_in_the_lower_one_count_no_more() {
    let (lower, higher) = (index(1, 2), index(1, 3));
    let mut member = member();
    hear(&mut member, 2, election(lower));
    hear(&mut member, 0, election(higher));
    let before = member.clone();
    for stale in [
        report(lower, best(9, 3)),
        not_child(lower),
        leader(lower, 3),
        reply(lower, Some(Answer::Report(best(9, 3)))),
        reply(lower, Some(Answer::Leader(MemberId(3)))),
        election(lower),
        Message::Outdated { of: lower, by: index(9, 4) },
    ] {
        assert_eq!(hear(&mut member, 3, stale), [], "{stale:?}");
    }
    assert_eq!(member, before);
    let outdated = Message::Outdated { of: lower, by: higher };
    assert_eq!(hear(&mut member, 3, probe(lower, None)), [send(3, outdated)]);
    assert_eq!(hear(&mut member, 3, probe(lower, Some(best(9, 3)))), [send(3, outdated)]);
}

#[test]
fn a_source_gives_its_computation_up_for_a_higher_one() {
    let mut member = member();
    handle(&mut member, Input::Command(Command::Elect));
    assert_eq!(member.latest, index(1, 1));
    assert_eq!(hear(&mut member, 0, election(index(1, 0))), [], "a lower one");
    assert_eq!(hear(&mut member, 0, election(index(1, 4))), joins(index(1, 4)));
    assert_eq!(handle(&mut member, Input::Command(Command::Elect)), [], "it takes part");
}

#[test]
fn a_member_that_is_silent_for_as_long_as_an_answer_takes_is_out_and_the_others_are_probed() {
    let of = index(1, 1);
    let mut member = member();
    handle(&mut member, Input::Command(Command::Elect));
    hear(&mut member, 0, reply(of, None));
    hear(&mut member, 3, reply(of, None));
    assert_eq!(time_out(&mut member), [send(0, probe(of, None)), send(3, probe(of, None)), wait()]);
    // A reply in another computation is none in this.
    hear(&mut member, 3, reply(index(2, 3), None));
    hear(&mut member, 0, reply(of, None));
    assert_eq!(time_out(&mut member), [send(0, probe(of, None)), wait()]);
    let done = hear(&mut member, 0, not_child(of));
    assert_eq!(done, [Effect::Disarm(Timer::Answers), elected(1)]);
}

/// It was slow: its report arrives when the others know the outcome.
#[test]
fn a_member_that_reports_after_it_was_taken_for_dead_learns_who_leads() {
    let of = index(1, 1);
    let mut member = member();
    handle(&mut member, Input::Command(Command::Elect));
    assert_eq!(time_out(&mut member), [Effect::Disarm(Timer::Answers), elected(1)]);
    assert_eq!(hear(&mut member, 2, report(of, best(9, 4))), [send(2, leader(of, 1))]);
    let repeated = reply(of, Some(Answer::Report(best(9, 4))));
    assert_eq!(hear(&mut member, 2, repeated), [], "its report is on its way");
    assert_eq!(hear(&mut member, 2, not_child(of)), []);
    let again = reply(of, Some(Answer::Leader(ME)));
    assert_eq!(hear(&mut member, 3, probe(of, None)), [send(3, again)]);
    assert_eq!(hear(&mut member, 3, probe(of, Some(best(1, 3)))), [send(3, again)]);
}

#[test]
fn a_late_report_is_passed_on_with_the_next_probe() {
    let of = index(1, 0);
    let mut member = reported(of);
    assert_eq!(hear(&mut member, 3, report(of, best(8, 3))), []);
    assert_eq!(time_out(&mut member), [send(0, probe(of, Some(best(8, 3)))), wait()]);
    let announced = hear(&mut member, 0, leader(of, 4));
    assert_eq!(announced[..2], [send(2, leader(of, 4)), send(3, leader(of, 4))]);
}

#[test]
fn a_child_probes_its_parent_and_elects_again_without_it() {
    let (of, anew) = (index(4, 0), index(5, 1));
    let mut member = reported(of);
    for _ in 0..3 {
        assert_eq!(time_out(&mut member), [send(0, probe(of, Some(best(7, 4)))), wait()]);
        assert_eq!(hear(&mut member, 0, reply(of, None)), []);
    }
    time_out(&mut member);
    let all = [0, 2, 3].map(|one| send(one, election(anew)));
    assert_eq!(time_out(&mut member), [&all[..], &[wait()]].concat());
}

#[test]
fn what_was_lost_is_repeated_in_a_reply() {
    let of = index(1, 0);
    let mut member = member();
    assert_eq!(hear(&mut member, 0, probe(of, None)), joins(of), "ELECTION was");
    assert_eq!(hear(&mut member, 0, probe(of, None)), [send(0, reply(of, None))]);
    let other = reply(of, Some(Answer::NotChild));
    assert_eq!(hear(&mut member, 2, probe(of, None)), [send(2, other)]);
    // Its child reported, and the report was lost.
    let child = hear(&mut member, 2, probe(of, Some(best(7, 4))));
    assert_eq!(child, [send(2, reply(of, None))]);
    let last = hear(&mut member, 3, reply(of, Some(Answer::NotChild)));
    assert_eq!(last, [send(0, report(of, best(7, 4))), wait()]);
    let sent = reply(of, Some(Answer::Report(best(7, 4))));
    assert_eq!(hear(&mut member, 0, probe(of, None)), [send(0, sent)]);
    let outcome = hear(&mut member, 0, reply(of, Some(Answer::Leader(MemberId(4)))));
    assert_eq!(outcome[0], send(2, leader(of, 4)));
}

#[test]
fn a_member_that_takes_it_for_a_parent_that_it_never_was_gets_no_reply() {
    let mut member = member();
    let before = member.clone();
    assert_eq!(hear(&mut member, 2, probe(index(3, 0), Some(best(1, 2)))), []);
    assert_eq!(member, before);
}

#[test]
fn a_computation_that_is_over_is_answered_with_how_far_numbers_are() {
    let of = index(3, 0);
    let mut member = reported(of);
    hear(&mut member, 0, leader(of, 4));
    for lower in [index(1, 2), index(3, 0)] {
        let outdated = Message::Outdated { of: lower, by: of };
        assert_eq!(hear(&mut member, 2, election(lower)), [send(2, outdated)]);
    }
    assert_eq!(hear(&mut member, 2, Message::Outdated { of, by: index(9, 2) }), [], "it is over");
    handle(&mut member, Input::Command(Command::Elect));
    assert_eq!(member.latest, index(4, 1));
    hear(&mut member, 2, Message::Outdated { of: index(4, 1), by: index(9, 2) });
    assert_eq!(member.latest, index(10, 1));
    hear(&mut member, 2, Message::Outdated { of: index(10, 1), by: index(2, 2) });
    assert_eq!(member.latest, index(10, 1), "lower than its own");
}

#[test]
fn an_outcome_of_a_higher_computation_is_followed_and_passed_on_to_children() {
    let mut member = reported(index(1, 0));
    let higher = index(2, 3);
    let effects = hear(&mut member, 3, leader(higher, 3));
    assert_eq!(effects[0], send(2, leader(higher, 3)));
    assert_eq!(member.elected(), Some(MemberId(3)));
    assert_eq!(hear(&mut member, 3, leader(index(1, 4), 4)), []);
}

#[test]
fn nobody_is_made_the_leader_of_a_source_but_by_its_own_count() {
    let mut member = member();
    handle(&mut member, Input::Command(Command::Elect));
    assert_eq!(hear(&mut member, 2, leader(index(1, 1), 4)), []);
    assert_eq!(member.elected(), None);
}

#[test]
fn a_member_without_neighbours_elects_itself() {
    let view = View { epoch: Epoch(1), size: 1, leader: MemberId(0) };
    let mut alone = SpanningTree::new(Place::new(MemberId(0), view), TIMING);
    assert!(handle(&mut alone, Input::Command(Command::Inquire)).contains(&elected(0)));
    let leaf = Place::new(MemberId(0), View { size: 2, ..view }).with_capacity(5);
    let mut leaf = SpanningTree::new(leaf, TIMING);
    let effects = hear(&mut leaf, 1, election(index(1, 1)));
    assert!(effects.contains(&send(1, report(index(1, 1), best(5, 0)))));
    assert!(!effects.contains(&send(1, reply(index(1, 1), None))), "the report is sign enough");
}

/// All that it waits for go on replying, and never answer.
#[test]
fn no_computation_is_waited_for_without_end() {
    let of = index(1, 0);
    for mut member in [reported(of), {
        let mut member = member();
        hear(&mut member, 0, election(of));
        member
    }] {
        let mut waits = 0;
        while member.latest == of {
            waits += 1;
            assert!(waits <= 20, "four for each member");
            for one in [0, 2, 3] {
                hear(&mut member, one, reply(of, None));
            }
            time_out(&mut member);
        }
        assert_eq!((waits, member.latest), (20, index(2, 1)));
    }
}

#[test]
fn ranks_that_are_none_or_are_no_neighbours_are_ignored() {
    let of = index(1, 2);
    let mut member = reported(index(1, 0));
    let before = member.clone();
    for (from, nonsense) in [
        (4, election(of)),
        (1, election(of)),
        (9, election(of)),
        (2, election(index(0, 2))),
        (2, election(index(u64::MAX, 2))),
        (2, election(index(2, 5))),
        (2, election(wide(2, 2))),
        (2, Message::Outdated { of: index(1, 0), by: wide(2, 2) }),
        (2, report(index(1, 0), best(9, 5))),
        (0, leader(index(1, 0), 5)),
        (2, probe(index(1, 0), Some(best(9, 5)))),
        (2, reply(index(1, 0), Some(Answer::Report(best(9, 5))))),
        (0, reply(index(1, 0), Some(Answer::Leader(MemberId(5))))),
        (2, Message::Outdated { of: index(1, 0), by: index(2, 5) }),
        (0, report(index(1, 0), best(9, 4))),
    ] {
        assert_eq!(hear(&mut member, from, nonsense), [], "{from}: {nonsense:?}");
    }
    assert_eq!(member, before);
}

/// None of its neighbours replies, so it elects itself each time.
#[test]
fn the_third_computation_of_a_source_is_wide_if_neighbours_were_chosen_and_so_are_those_after_it() {
    let elects = |mut member: SpanningTree, expected: [Index; 4]| {
        for of in expected {
            let effects = handle(&mut member, Input::Command(Command::Elect));
            assert_eq!(member.latest, of);
            assert_eq!(effects.contains(&send(4, election(of))), of.wide, "4 is no neighbour");
            time_out(&mut member);
            assert_eq!(member.elected(), Some(ME));
        }
    };
    let narrow = [1, 2, 3, 4].map(|number| index(number, 1));
    elects(member(), narrow);
    elects(sparing(), [narrow[0], narrow[1], wide(3, 1), wide(4, 1)]);
    let after = |in_vain| SpanningTree::new(sparing().place.after(in_vain), TIMING);
    elects(after(1), [narrow[0], wide(2, 1), wide(3, 1), wide(4, 1)]);
    elects(after(u32::MAX), [1, 2, 3, 4].map(|number| wide(number, 1)));
    elects(SpanningTree::new(member().place.after(9), TIMING), narrow);
}

#[test]
fn a_computation_that_was_outdated_begins_again_with_a_higher_number_and_did_not_come_to_nothing() {
    let mut member = sparing();
    for wide in [false, false, true, true] {
        handle(&mut member, Input::Command(Command::Elect));
        for _ in 0..3 {
            let of = member.latest;
            assert_eq!(of.wide, wide, "{of:?}");
            let by = Index { number: of.number + 8, source: MemberId(2), ..of };
            hear(&mut member, 2, Message::Outdated { of, by });
            assert_eq!(member.latest, Index { number: of.number + 9, ..of });
        }
        time_out(&mut member);
        assert_eq!(member.elected(), Some(ME));
    }
}

#[test]
fn a_wide_computation_takes_over_from_each_that_is_not_and_everybody_is_a_neighbour_in_it() {
    let of = wide(1, 4);
    for first in [election(of), probe(of, None)] {
        let mut member = sparing();
        hear(&mut member, 0, election(index(7, 0)));
        let asked = [0, 2, 3].map(|one| send(one, election(of)));
        let joins = [vec![send(4, reply(of, None))], asked.to_vec(), vec![wait()]].concat();
        assert_eq!(hear(&mut member, 4, first), joins);
        for not_wide in [election(index(9, 4)), probe(index(9, 4), None)] {
            assert_eq!(hear(&mut member, 4, not_wide), [], "no neighbour in that one");
        }
        assert_eq!(hear(&mut member, 2, election(index(9, 2))), [], "it is about to join");
        hear(&mut member, 2, not_child(of));
        let outdated = Message::Outdated { of: index(9, 2), by: of };
        assert_eq!(hear(&mut member, 2, election(index(9, 2))), [send(2, outdated)]);
        hear(&mut member, 3, report(of, best(9, 3)));
        let effects = hear(&mut member, 0, not_child(of));
        assert_eq!(effects, [send(4, report(of, best(9, 3))), wait()]);
    }
}

#[test]
fn a_member_that_learns_of_a_wide_computation_or_was_in_one_begins_a_wide_one() {
    let mut learns = sparing();
    handle(&mut learns, Input::Command(Command::Elect));
    hear(&mut learns, 2, Message::Outdated { of: index(1, 1), by: wide(4, 0) });
    assert_eq!(learns.latest, wide(5, 1));

    let mut was = sparing();
    hear(&mut was, 4, election(wide(3, 4)));
    for _ in 0..3 {
        time_out(&mut was);
    }
    assert_eq!(was.latest, wide(4, 1), "its parent is dead");
}

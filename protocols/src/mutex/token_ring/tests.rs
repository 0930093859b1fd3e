use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::cost;
use crate::ids::Epoch;
use crate::protocol::{Effect, Outbox};

/// A group whose messages take no time, but arrive one by one.
struct Group {
    members: Vec<TokenRing>,
    crashed: BTreeSet<MemberId>,
    under_way: VecDeque<(MemberId, MemberId, Message)>,
    timers: BTreeMap<MemberId, Duration>,
    now: Duration,
    /// All that was sent: when, by whom, to whom, what.
    sent: Vec<(Duration, u32, u32, Message)>,
    entered: Vec<u32>,
}

impl Group {
    fn new(size: u32, carried: &Carried) -> Self {
        let view = view(size);
        let mut group = Self {
            members: view.members().map(|me| TokenRing::new(me, view, carried)).collect(),
            crashed: BTreeSet::new(),
            under_way: VecDeque::new(),
            timers: BTreeMap::new(),
            now: Duration::ZERO,
            sent: Vec::new(),
            entered: Vec::new(),
        };
        for me in view.members() {
            group.act(me, |member, out| member.start(LocalTime(0), out));
        }
        group
    }

    fn ask(&mut self, member: u32, command: Command) {
        self.feed(MemberId(member), Input::Command(command));
    }

    /// Everything that is under way arrives, and what follows from it.
    fn settle(&mut self) {
        while let Some((from, _, _)) = self.under_way.front() {
            self.deliver_from(from.0);
        }
    }

    /// The first that this member sent arrives.
    fn deliver_from(&mut self, from: u32) {
        let place = self.under_way.iter().position(|(sender, _, _)| sender.0 == from);
        let (from, to, message) =
            place.and_then(|place| self.under_way.remove(place)).expect("a message under way");
        self.feed(to, Input::Message { from, message });
    }

    /// Timers go off, and all that is sent arrives.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some((member, at)) = self.next_timer().filter(|(_, at)| *at <= end) {
            self.now = at;
            self.timers.remove(&member);
            self.feed(member, Input::Timer(Timer::Pause));
            self.settle();
        }
        self.now = end;
    }

    /// The next timer goes off, and nothing arrives.
    fn pause_ends(&mut self) {
        let (member, at) = self.next_timer().expect("a token that pauses");
        self.now = at;
        self.timers.remove(&member);
        self.feed(member, Input::Timer(Timer::Pause));
    }

    fn next_timer(&self) -> Option<(MemberId, Duration)> {
        self.timers.iter().map(|(member, at)| (*member, *at)).min_by_key(|(_, at)| *at)
    }

    /// A member dies, and nobody notices.
    fn crash(&mut self, member: u32) {
        self.crashed.insert(MemberId(member));
        self.timers.remove(&MemberId(member));
    }

    /// All are notified that a member is dead.
    fn skip(&mut self, dead: u32) {
        for me in (0..).map(MemberId).take(self.members.len()) {
            self.act(me, |member, out| member.skip(MemberId(dead), out));
        }
    }

    fn feed(&mut self, member: MemberId, input: InputOf<TokenRing>) {
        self.act(member, |member, out| member.handle(LocalTime(0), input, out));
    }

    fn act(&mut self, me: MemberId, act: impl FnOnce(&mut TokenRing, &mut OutboxOf<TokenRing>)) {
        if self.crashed.contains(&me) {
            return;
        }
        let mut out = Outbox::default();
        act(&mut self.members[me.0 as usize], &mut out);
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    self.sent.push((self.now, me.0, to.0, message));
                    self.under_way.push_back((me, to, message));
                }
                Effect::Arm { timer: Timer::Pause, after } => {
                    self.timers.insert(me, self.now + after);
                }
                Effect::Disarm(Timer::Pause) => {
                    self.timers.remove(&me);
                }
                Effect::Tell(event) => {
                    assert_eq!(event, Event::Entered);
                    self.entered.push(me.0);
                }
            }
        }
    }

    /// From whom to whom messages of this name went.
    fn ways(&self, name: &str) -> Vec<(u32, u32)> {
        let named = self.sent.iter().filter(|(_, _, _, message)| message.name() == name);
        named.map(|(_, from, to, _)| (*from, *to)).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.ways(name).len() as u64
    }

    fn tokens(&self) -> usize {
        let held = self.members.iter().filter(|member| member.has_token()).count();
        let sent = self.under_way.iter().filter(|(_, _, message)| message.name() != "wake").count();
        held + sent
    }
}

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(size - 1) }
}

fn group(size: u32) -> Group {
    Group::new(size, &Carried::default())
}

#[test]
fn the_token_begins_at_rank_0_and_goes_to_two_after_one_has_finished() {
    let mut group = group(3);
    group.ask(1, Command::Enter);
    group.settle();
    group.ask(2, Command::Enter);
    group.settle();
    assert_eq!(group.entered, [1]);
    group.ask(1, Command::Exit);
    group.settle();
    assert_eq!(group.entered, [1, 2]);
    assert_eq!(group.ways("token"), [(0, 1), (1, 2)]);
}

#[test]
fn if_all_want_in_all_the_time_they_enter_in_ring_order_for_one_token_each() {
    let mut group = group(5);
    for member in 0..5 {
        group.ask(member, Command::Enter);
    }
    for round in 1..=3 {
        for member in 0..5 {
            group.settle();
            assert_eq!(group.entered.last(), Some(&member), "in round {round}");
            group.ask(member, Command::Exit);
            group.ask(member, Command::Enter);
        }
    }
    assert_eq!(group.entered.len(), 15);
    group.settle();
    assert_eq!(
        group.count("token"),
        cost::token_ring_busy(16),
        "the sixteenth is in the critical section"
    );
    assert_eq!(group.count("idle_token"), 0);
}

#[test]
fn a_token_that_nobody_wants_goes_round_without_end_and_pauses_ever_longer_up_to_a_second() {
    let mut group = group(3);
    group.run_for(Duration::from_millis(4_000));
    let steps = group.sent.iter().map(|(at, from, _, _)| (at.as_millis(), *from));
    let expected = [(50, 0), (150, 1), (350, 2), (750, 0), (1_550, 1), (2_550, 2), (3_550, 0)];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
    group.run_for(Duration::from_secs(3_600));
    assert_eq!((group.count("idle_token"), group.count("token")), (3_607, 0));
    assert_eq!(group.entered, [0; 0]);
}

#[test]
fn a_request_wakes_the_token_which_does_not_pause_on_its_way() {
    let mut group = group(6);
    group.ask(4, Command::Enter);
    group.settle();
    assert_eq!((group.entered.clone(), group.now), (vec![4], Duration::ZERO));
    assert_eq!(group.ways("wake"), [(4, 3), (3, 2), (2, 1), (1, 0)]);
    assert_eq!(group.ways("token"), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!(group.sent.len(), 8);
}

#[test]
fn a_member_that_wants_the_token_just_after_it_has_gone_has_it_come_all_the_way_round() {
    let mut group = group(5);
    group.pause_ends();
    group.settle();
    group.ask(0, Command::Enter);
    group.settle();
    assert_eq!(group.entered, [0]);
    assert_eq!(group.count("idle_token") + group.count("token"), 5);
}

#[test]
fn where_the_token_pauses_one_enters_without_a_message_as_often_as_nobody_else_asks() {
    let mut group = group(3);
    for _ in 0..3 {
        group.ask(0, Command::Enter);
        group.run_for(Duration::from_secs(10));
        group.ask(0, Command::Exit);
    }
    assert_eq!((group.entered.clone(), group.sent.len()), (vec![0, 0, 0], 0));
    group.ask(0, Command::Enter);
    group.ask(2, Command::Enter);
    group.settle();
    group.ask(0, Command::Exit);
    group.ask(0, Command::Enter);
    group.settle();
    assert_eq!(group.entered, [0, 0, 0, 0, 2]);
}

#[test]
fn after_a_critical_section_the_token_pauses_for_the_shortest_time_again() {
    let mut group = group(3);
    group.run_for(Duration::from_secs(10));
    group.ask(0, Command::Enter);
    group.settle();
    group.ask(0, Command::Exit);
    group.sent.clear();
    group.run_for(SHORTEST_PAUSE);
    let pause = SHORTEST_PAUSE * 2;
    assert!(
        matches!(group.sent[..], [(_, 0, 1, Message::IdleToken { pause: p, .. })] if p == pause),
        "{:?}",
        group.sent
    );
}

#[test]
fn a_token_that_was_woken_pauses_everywhere_again_once_nobody_wants_it() {
    let mut group = group(4);
    group.ask(3, Command::Enter);
    group.settle();
    group.ask(3, Command::Exit);
    group.sent.clear();
    group.run_for(Duration::from_secs(60));
    assert_eq!(group.ways("idle_token")[..5], [(3, 0), (0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!((group.count("token"), group.count("wake")), (0, 0));
}

#[test]
fn a_wake_that_crosses_the_token_goes_no_further() {
    let mut group = group(4);
    group.pause_ends();
    group.ask(2, Command::Enter);
    group.deliver_from(2);
    group.deliver_from(1);
    assert_eq!(group.ways("wake"), [(2, 1), (1, 0)]);
    assert_eq!(group.under_way.len(), 1, "the token, from 0 to 1");
    group.settle();
    assert_eq!(group.entered, [2]);
    group.ask(2, Command::Exit);
    group.run_for(SHORTEST_PAUSE * 3);
    assert_eq!(group.ways("idle_token"), [(0, 1), (2, 3), (3, 0)], "it pauses again");
    assert_eq!(group.count("wake"), 2);
}

#[test]
fn a_member_that_has_passed_a_wake_on_passes_no_other_on() {
    let mut group = group(5);
    group.ask(0, Command::Enter);
    for member in [4, 3, 2] {
        group.ask(member, Command::Enter);
        group.settle();
    }
    assert_eq!(group.ways("wake"), [(4, 3), (3, 2), (2, 1), (1, 0)]);
    for member in [0, 2, 3] {
        group.ask(member, Command::Exit);
        group.settle();
    }
    assert_eq!(group.entered, [0, 2, 3, 4]);
    assert_eq!((group.count("token"), group.count("wake")), (4, 4));
}

#[test]
fn a_token_for_a_member_that_gave_up_goes_on_after_a_pause() {
    let mut group = group(4);
    group.ask(2, Command::Enter);
    group.ask(2, Command::Exit);
    group.run_for(SHORTEST_PAUSE);
    assert_eq!(group.entered, [0; 0]);
    assert_eq!(group.ways("idle_token"), [(2, 3)]);
}

#[test]
fn a_member_that_gives_up_and_asks_again_wakes_the_token_once_and_enters_once() {
    let mut group = group(4);
    for command in [Command::Enter, Command::Exit, Command::Enter, Command::Enter] {
        group.ask(2, command);
    }
    group.settle();
    assert_eq!((group.entered.clone(), group.count("wake")), (vec![2], 2));
    group.ask(2, Command::Exit);
    assert_eq!(group.members[2].phase(), Phase::Idle);
}

#[test]
fn the_token_is_not_sent_to_a_member_that_is_known_to_be_dead() {
    let mut group = group(4);
    group.crash(2);
    group.skip(2);
    group.ask(3, Command::Enter);
    group.settle();
    assert_eq!(group.entered, [3]);
    assert_eq!(group.ways("wake"), [(3, 1), (1, 0)]);
    assert_eq!(group.ways("token"), [(0, 1), (1, 3)]);
}

#[test]
fn a_wake_that_was_lost_with_a_dead_member_is_sent_again() {
    let mut group = group(4);
    group.crash(2);
    group.ask(3, Command::Enter);
    group.settle();
    assert_eq!(group.ways("wake"), [(3, 2)]);
    group.skip(2);
    group.skip(2);
    group.settle();
    assert_eq!(group.ways("wake"), [(3, 2), (3, 1), (1, 0)]);
    assert_eq!((group.entered.clone(), group.now), (vec![3], Duration::ZERO));
}

#[test]
fn a_token_that_is_sent_to_a_dead_member_stops_the_ring_for_good() {
    let mut group = group(4);
    group.crash(1);
    group.run_for(Duration::from_secs(1));
    assert_eq!(group.ways("idle_token"), [(0, 1)]);
    group.skip(1);
    for member in [0, 2, 3] {
        group.ask(member, Command::Enter);
    }
    group.run_for(Duration::from_secs(24 * 3_600));
    assert_eq!((group.entered.clone(), group.tokens()), (vec![], 0), "it is lost");
    assert_eq!(group.count("idle_token") + group.count("token"), 1);
    let waiting = vec![MemberId(0), MemberId(1), MemberId(2)];
    let next_view = Group::new(3, &Carried { holder: None, waiting });
    assert_eq!(next_view.entered, [0], "the next view has a token");
}

#[test]
fn the_last_that_lives_keeps_the_token_and_sets_no_timer() {
    let mut alone = group(1);
    assert_eq!(alone.timers, BTreeMap::new());
    alone.ask(0, Command::Enter);
    alone.ask(0, Command::Exit);
    assert_eq!((alone.entered.clone(), alone.timers.len(), alone.sent.len()), (vec![0], 0, 0));
    let mut left = group(2);
    left.crash(1);
    left.skip(1);
    left.run_for(Duration::from_secs(60));
    left.ask(0, Command::Enter);
    assert_eq!((left.entered.clone(), left.sent.len()), (vec![0], 0));
}

#[test]
fn a_member_that_was_in_section_has_the_token_and_the_member_that_waited_needs_no_wake() {
    let carried = Carried { holder: Some(MemberId(2)), waiting: vec![MemberId(1), MemberId(0)] };
    let mut group = Group::new(4, &carried);
    for member in [2, 0] {
        group.ask(member, Command::Exit);
        group.settle();
    }
    assert_eq!(group.entered, [0, 1], "in ring order");
    assert_eq!(group.ways("token"), [(2, 3), (3, 0), (0, 1)]);
    assert_eq!(group.sent.len(), 3);
}

#[test]
fn without_a_holder_the_token_begins_with_the_first_that_waited() {
    let carried = Carried { holder: None, waiting: vec![MemberId(2), MemberId(1)] };
    let mut group = Group::new(4, &carried);
    assert_eq!((group.entered.clone(), group.sent.len()), (vec![2], 0));
    group.ask(2, Command::Exit);
    group.settle();
    assert_eq!((group.entered.clone(), group.count("wake")), (vec![2, 1], 0));
}

/// What a member takes for granted at the start of a view is what it would know, had the holder got
/// the token and the others asked after that.
#[test]
fn a_view_begins_as_if_the_wakes_of_all_that_waited_had_arrived() {
    for (holder, waiting) in [(0, vec![]), (0, vec![3]), (2, vec![4, 1]), (4, vec![1, 0, 3])] {
        let mut group = group(5);
        group.ask(holder, Command::Enter);
        group.settle();
        for member in &waiting {
            group.ask(*member, Command::Enter);
            group.settle();
        }
        let waiting = waiting.into_iter().map(MemberId).collect();
        let carried = Carried { holder: Some(MemberId(holder)), waiting };
        for member in &group.members {
            let begun = TokenRing::new(member.me, member.view, &carried);
            assert_eq!(*member, begun, "{carried:?}");
        }
    }
}

#[test]
fn a_second_token_and_what_strangers_say_are_ignored() {
    let mut group = group(3);
    group.ask(1, Command::Enter);
    group.settle();
    let (before, messages) = (group.members.clone(), group.sent.len());
    let token = Message::Token(Lap(true));
    let idle = Message::IdleToken { lap: Lap(true), pause: LONGEST_PAUSE };
    let wake = Message::Wake(Lap(false));
    for (from, to, message) in
        [(0, 1, token), (0, 1, idle), (9, 2, token), (2, 2, idle), (3, 0, wake)]
    {
        let from = MemberId(from);
        group.feed(MemberId(to), Input::Message { from, message });
        assert_eq!((&group.members, group.sent.len()), (&before, messages), "{message:?}");
    }
}

#[test]
fn no_pause_is_longer_than_the_longest() {
    let mut member = TokenRing::new(MemberId(1), view(3), &Carried::default());
    let mut out = Outbox::default();
    let message = Message::IdleToken { lap: Lap(true), pause: Duration::MAX };
    member.handle(LocalTime(0), Input::Message { from: MemberId(0), message }, &mut out);
    let timer = Effect::Arm { timer: Timer::Pause, after: LONGEST_PAUSE };
    assert_eq!(out.drain().collect::<Vec<_>>(), [timer]);
}

//! Cristian's algorithm, rule by rule, and its worked examples.

use conclave_protocols::clock::cristian::{
    Cristian, Message, Timer, longest_trip_ns, messages_per_round, read,
};
use conclave_protocols::clock::{Event, GroupClock, Params, State, Verdict, VirtualClock, Wants};
use conclave_protocols::protocol::InputOf;
use conclave_protocols::{Effect, Epoch, Input, LocalTime, MemberId, Outbox, Protocol, View};

use crate::still::{MS, params, rates, synchronised};

const SECOND: u64 = 1_000_000_000;
const SERVER: MemberId = MemberId(0);

/// What a member does.
#[derive(Debug, Default)]
struct Did {
    sent: Vec<(MemberId, Message)>,
    armed: Vec<Timer>,
    verdicts: Vec<Verdict>,
}

struct Member(Cristian);

impl Member {
    /// One of three, in a view that rank 0 leads.
    fn of_three(me: u32, clock: VirtualClock) -> Self {
        let view = View { epoch: Epoch(1), size: 3, leader: SERVER };
        Self(Cristian::new(MemberId(me), view, params(), clock))
    }

    fn start(&mut self, now: u64) -> Did {
        self.does(|member, out| member.start(LocalTime(now), out))
    }

    fn handle(&mut self, now: u64, input: InputOf<Cristian>) -> Did {
        self.does(|member, out| member.handle(LocalTime(now), input, out))
    }

    fn does(
        &mut self,
        what: impl FnOnce(&mut Cristian, &mut conclave_protocols::protocol::OutboxOf<Cristian>),
    ) -> Did {
        let mut out = Outbox::default();
        what(&mut self.0, &mut out);
        let mut did = Did::default();
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => did.sent.push((to, message)),
                Effect::Arm { timer, .. } => did.armed.push(timer),
                Effect::Tell(Event::Compared(sources)) => {
                    did.verdicts.extend(sources.values().map(|source| source.verdict));
                }
                Effect::Tell(Event::Adjusted | Event::Stated(_)) | Effect::Disarm(_) => {}
            }
        }
        did
    }

    fn shown(&self, raw: u64) -> i64 {
        self.0.clock().map().now_ns(raw)
    }
}

fn reply(attempt: u64, time_ns: i64, error_ns: Option<u64>) -> InputOf<Cristian> {
    let stamp = LocalTime(77);
    Input::Message {
        from: SERVER,
        message: Message::Reply { attempt, stamp, time_ns, error_ns, known: None },
    }
}

/// Between request and reply 25 pass by the client's clock, and the server's showed 1065: in tenths, so
/// that halves are whole.
#[test]
fn the_estimate_is_the_server_s_time_and_half_of_the_wait() {
    let reading = read((LocalTime(10_000), LocalTime(10_250)), (10_650, 0), (0, 0));
    assert_eq!((reading.time_ns, reading.error_ns), (10_775, 125));
}

/// T = 1,000,000, 2D = 2,000, min = 400, ρ = 10 %: T + D(1 + 2ρ) - min ρ and D(1 + 2ρ) - min.
#[test]
fn drift_and_the_least_delay_are_in_the_estimate_and_in_its_error() {
    let reading = read((LocalTime(500), LocalTime(2_500)), (1_000_000, 0), (400, 100_000_000));
    assert_eq!((reading.time_ns, reading.error_ns), (1_000_000 + 1_200 - 40, 1_200 - 400));
}

/// However the delay was split and whatever both clocks did within ρ, the server's clock is within the
/// error of the estimate when the reply arrives.
#[test]
fn the_server_s_clock_is_within_the_error_of_the_estimate() {
    let drift = 100_000_000_i64;
    for there in (400..2_000).step_by(150) {
        for back in (400..2_000).step_by(150) {
            for (server, client) in [(1, 1), (1, -1), (-1, 1), (-1, -1), (0, 0)] {
                let by = |true_ns: i64, sign: i64| true_ns + true_ns * sign * drift / 1_000_000_000;
                let sent = LocalTime(1_000_000);
                let waited = u64::try_from(by(there + back, client)).expect("positive");
                let reading = read(
                    (sent, LocalTime(sent.0 + waited)),
                    (by(5_000_000 + there, server), 0),
                    (400, drift.unsigned_abs()),
                );
                let shows = by(5_000_000 + there + back, server);
                let apart = reading.time_ns.abs_diff(shows);
                // Terms of second order are left out, as in the paper.
                let second_order = u64::try_from(there + back).expect("positive") / 50 + 2;
                assert!(
                    apart <= reading.error_ns + second_order,
                    "{there} {back} {server} {client}"
                );
            }
        }
    }
}

#[test]
fn the_longest_trip_leaves_an_error_of_half_the_precision() {
    assert_eq!(longest_trip_ns(1_000_000, 0, 100_000), 999_800);
    assert_eq!(longest_trip_ns(1_000_000, 200_000, 0), 1_400_000);
    let longest = longest_trip_ns(1_000_000, 0, 100_000);
    let reading = read((LocalTime(0), LocalTime(longest)), (0, 0), (0, 100_000));
    assert!(reading.error_ns <= 500_000, "{reading:?}");
}

#[test]
fn a_client_takes_the_time_of_a_quick_reply() {
    let mut client = Member::of_three(1, VirtualClock::new(0, rates()));
    let did = client.start(SECOND);
    assert_eq!(
        did.sent,
        [(SERVER, Message::Request { attempt: 1, origin: None, wants: Wants::GroupTime })]
    );
    let did = client.handle(SECOND + 400_000, reply(1, 5_000 * MS, Some(1_000)));
    assert_eq!(did.verdicts, [Verdict::Taken]);
    let shown = client.shown(SECOND + 400_000);
    assert!((shown - 5_000 * MS - 200_000).abs() < 100, "half of the wait is added: {shown}");
    let reading = client.0.clock().map().reading(SECOND + 400_000);
    assert!((201_000..201_500).contains(&reading.error_ns.expect("a bound")), "{reading:?}");
    let by_messages = reading.by_messages.expect("one");
    assert!((200_000..200_200).contains(&by_messages.textbook_ns), "{reading:?}");
    assert_eq!((by_messages.now_ns, by_messages.age_ns), (shown, 0));
    let did = client.handle(2 * SECOND, Input::Timer(Timer::Attempt));
    let origin = Some(LocalTime(77));
    assert_eq!(
        did.sent,
        [(SERVER, Message::Request { attempt: 2, origin, wants: Wants::Nothing })],
        "it repeats the stamp"
    );
}

#[test]
fn a_client_repeats_slow_and_lost_attempts_and_takes_the_best_when_it_gives_up() {
    let mut client = Member::of_three(1, VirtualClock::new(0, rates()));
    let mut now = SECOND;
    client.start(now);
    // The third is the best of sixteen, so many while it has no time.
    let mut trips = vec![(1, 9_000_000), (2, 0), (3, 4_000_000)];
    trips.extend((4..=16).map(|attempt| (attempt, 20_000_000)));
    for (attempt, trip) in trips {
        assert!(!client.0.clock().is_synchronised(), "attempt {attempt}");
        let did = if trip == 0 {
            client.handle(now + SECOND / 4, Input::Timer(Timer::Reply))
        } else {
            let shown = i64::try_from(now + trip / 2).expect("small");
            client.handle(now + trip, reply(attempt, shown, Some(0)))
        };
        let expected = if trip == 0 { Verdict::Silent } else { Verdict::Vague };
        assert_eq!((did.verdicts, did.armed), (vec![expected], vec![Timer::Attempt]));
        if attempt < 16 {
            now += SECOND;
            let did = client.handle(now, Input::Timer(Timer::Attempt));
            assert_eq!(did.sent.len(), 1);
        }
    }
    let reading = client.0.clock().map().reading(now + 20_000_000);
    let aged = 13 * SECOND + 16_000_000;
    let most = 2_000_000 + aged * 400_061 / SECOND + 5_000;
    assert!((2_000_000..most).contains(&reading.error_ns.expect("a bound")), "{reading:?}");
}

#[test]
fn late_repeated_and_foreign_replies_are_ignored() {
    let mut client = Member::of_three(1, synchronised(0));
    client.start(SECOND);
    let before = client.0.clone();
    let from = |id| {
        let stamp = LocalTime(1);
        let message =
            Message::Reply { attempt: 1, stamp, time_ns: i64::MIN, error_ns: Some(0), known: None };
        Input::Message { from: MemberId(id), message }
    };
    for input in [reply(0, 0, Some(0)), reply(2, 0, Some(0)), from(1), from(2), from(9)] {
        let did = client.handle(SECOND + 1, input);
        assert!(did.sent.is_empty() && did.verdicts.is_empty());
        assert_eq!(client.0, before);
    }
    client.handle(SECOND + 2, reply(1, 1_000 * MS, Some(0)));
    let after = client.0.clone();
    let did = client.handle(SECOND + 3, reply(1, 2_000 * MS, Some(0)));
    assert!(did.verdicts.is_empty(), "it came twice");
    assert_eq!(client.0, after);
}

#[test]
fn a_server_answers_and_asks_nobody() {
    let mut server = Member::of_three(0, synchronised(7));
    assert!(server.start(SECOND).sent.is_empty());
    let ask = Message::Request { attempt: 5, origin: None, wants: Wants::GroupTime };
    let did = server.handle(SECOND, Input::Message { from: MemberId(2), message: ask });
    let [(MemberId(2), Message::Reply { attempt: 5, time_ns, error_ns: Some(_), .. })] =
        did.sent[..]
    else {
        panic!("no reply: {did:?}");
    };
    assert_eq!(time_ns, 1_000_000_007);
    assert!(server.handle(2 * SECOND, Input::Timer(Timer::Attempt)).sent.is_empty());
}

#[test]
fn a_server_is_confirmed_by_requests_that_repeat_its_stamp() {
    let mut server = Member::of_three(0, synchronised(0));
    server.start(SECOND);
    let bound = |server: &Member, now| server.0.clock().map().error_ns(now).expect("a bound");
    let before = bound(&server, 11 * SECOND);
    let ask = |origin| Input::Message {
        from: MemberId(1),
        message: Message::Request { attempt: 1, origin, wants: Wants::Nothing },
    };
    // A stamp from before the view, and one that is yet to come, state nothing.
    for origin in [None, Some(LocalTime(0)), Some(LocalTime(12 * SECOND))] {
        server.handle(11 * SECOND, ask(origin));
        assert_eq!(bound(&server, 11 * SECOND), before);
    }
    server.handle(11 * SECOND, ask(Some(LocalTime(10 * SECOND))));
    assert!(bound(&server, 11 * SECOND).abs_diff(before) < 10, "what it took over with");
    server.handle(21 * SECOND, ask(Some(LocalTime(20 * SECOND))));
    let after = bound(&server, 21 * SECOND);
    let shed = 10 * 50_000;
    assert!(after.abs_diff(before - shed) < 1_000, "{before}, then {after}: it has led since");
}

#[test]
fn a_server_without_a_time_takes_that_of_the_members_or_begins_one_when_none_has_any() {
    let answered = |of: [Option<u64>; 2]| {
        let mut server = Member::of_three(0, VirtualClock::new(3, rates()));
        assert_eq!(server.start(0).sent.len(), 2);
        for (from, error_ns) in [1, 2].into_iter().zip(of) {
            assert!(!server.0.clock().is_synchronised());
            let (stamp, time_ns) = (LocalTime(0), 500 * MS);
            let message = Message::Reply { attempt: 1, stamp, time_ns, error_ns, known: None };
            server.handle(0, Input::Message { from: MemberId(from), message });
        }
        server
    };
    assert_eq!(answered([None, None]).shown(0), 3, "its wall clock");
    assert_eq!(answered([Some(0), None]).shown(0), 500 * MS);
    let mut alone = Member::of_three(0, VirtualClock::new(3, rates()));
    alone.start(0);
    let did = alone.handle(SECOND, Input::Timer(Timer::Reply));
    assert_eq!(alone.0.clock().map().reading(SECOND).state, State::Unsynchronised);
    assert_eq!(did.armed, [Timer::Attempt], "who is silent may have a time: it asks again");
}

/// One of four may lie. Only it replies, which is an hour ahead, and then another too.
#[test]
fn a_server_without_a_time_believes_no_member_that_may_lie_alone() {
    let view = View { epoch: Epoch(1), size: 4, leader: SERVER };
    let mut server = Member(Cristian::new(SERVER, view, params(), VirtualClock::new(3, rates())));
    let replies = |from, attempt, time_ns| {
        let (stamp, error_ns) = (LocalTime(0), Some(0));
        let message = Message::Reply { attempt, stamp, time_ns, error_ns, known: None };
        Input::Message { from: MemberId(from), message }
    };
    server.start(0);
    let late = SECOND / 4;
    let mut now = 0;
    for attempt in 1..=20 {
        let ahead = i64::try_from(now).expect("small") + 3_600_000 * MS;
        server.handle(now, replies(2, attempt, ahead));
        server.handle(now + late, Input::Timer(Timer::Reply));
        assert!(!server.0.clock().is_synchronised(), "after {attempt} rounds");
        now += SECOND;
        server.handle(now, Input::Timer(Timer::Attempt));
    }
    let truth = i64::try_from(now).expect("small");
    server.handle(now, replies(2, 21, truth + 3_600_000 * MS));
    server.handle(now, replies(1, 21, truth));
    server.handle(now + late, Input::Timer(Timer::Reply));
    assert!(
        !server.0.clock().is_synchronised(),
        "two of three may be all that it hears: it asks on"
    );
    for attempt in 22..30 {
        now += SECOND;
        server.handle(now, Input::Timer(Timer::Attempt));
        server.handle(now + late, Input::Timer(Timer::Reply));
        assert!(attempt < 29 || server.0.clock().is_synchronised(), "after {attempt} rounds");
    }
    let reading = server.0.clock().map().reading(now + late);
    let truth = i64::try_from(now + late).expect("small");
    assert!(reading.earliest_ns() <= Some(truth), "{reading:?}");
    assert!(reading.latest_ns() >= Some(truth), "{reading:?}");
}

#[test]
fn a_server_alone_is_its_own_group() {
    let view = View { epoch: Epoch(1), size: 1, leader: SERVER };
    let clock = VirtualClock::new(12, rates());
    let mut member = Member(Cristian::new(SERVER, view, Params { ..params() }, clock));
    member.start(0);
    member.handle(60 * SECOND, Input::Timer(Timer::Attempt));
    let reading = member.0.clock().map().reading(60 * SECOND);
    assert_eq!((reading.state, reading.now_ns), (State::Synchronised, 60_000_000_012));
    assert!(reading.error_ns.is_some_and(|error| error < 10), "{reading:?}");
    assert_eq!((messages_per_round(1), messages_per_round(5)), (0, 8));
}

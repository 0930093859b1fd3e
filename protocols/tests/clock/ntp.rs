//! NTP's rules, one by one, and its worked examples.

use conclave_protocols::clock::ntp::{
    Message, Ntp, Reply, System, Timer, associations, messages_per_poll,
};
use conclave_protocols::clock::{GroupClock, State, Verdict, VirtualClock, Wants};
use conclave_protocols::protocol::InputOf;
use conclave_protocols::{Input, LocalTime, MemberId, Protocol};

use crate::servers::{FIRST, GOOD, HOLDS_OVER, LEADER, Member, NEW, SECOND, Server, TRIP, WIDE};
use crate::still::{MS, rates, synchronised};

/// Stratum 3 and 2: the one of 3 adjusts. 1 and 2: the one of 2. 2 and 2: nobody.
#[test]
fn a_member_adjusts_to_a_lower_stratum_only() {
    // (3, 2): a member that is cut off from stratum 1 follows one of stratum 2.
    let ahead = Server { off_ns: 10 * MS, error_ns: 20_000_000, ..GOOD };
    let mut third = Member::new(1, 3, synchronised_vaguely());
    third.polls(9, &[(2, ahead)]);
    assert_eq!((third.stratum(), third.off_ns()), (3, 10 * MS));
    // (1, 2): the leader polls nobody, and is asked.
    let mut first = Member::new(0, 3, synchronised(0));
    first.polls(8, &[]);
    assert_eq!((first.stratum(), first.off_ns()), (1, 0));
    assert!(first.polled.is_empty());
    // (2, 2): the other has a vote, and moves nobody.
    let mut second = Member::new(1, 3, synchronised_vaguely());
    second.polls(8, &[(0, FIRST), (2, ahead)]);
    assert_eq!((second.stratum(), second.off_ns()), (2, 0));
    assert_eq!(second.verdicts, [(0, Verdict::Taken), (2, Verdict::Agrees)]);
}

/// One that has a time, but a bad one.
fn synchronised_vaguely() -> VirtualClock {
    crate::still::synchronised_within(0, 3_600_000_000_000)
}

#[test]
fn a_member_that_is_cut_off_from_the_leader_follows_a_peer_and_comes_back() {
    let mut member = Member::new(1, 5, VirtualClock::new(-5, rates()));
    let peers = [(2, GOOD), (3, GOOD), (4, GOOD)];
    let all = [(0, FIRST), (2, GOOD), (3, GOOD), (4, GOOD)];
    member.polls(8, &all);
    assert_eq!((member.stratum(), member.off_ns()), (2, 0));
    member.polls(7, &peers);
    assert_eq!(member.stratum(), 2, "one of the last eight polls was answered");
    member.polls(2, &peers);
    assert_eq!(member.stratum(), 3);
    let bound = member.ntp.clock().map().error_ns(member.now).expect("a bound");
    member.polls(20, &peers);
    let later = member.ntp.clock().map().error_ns(member.now).expect("a bound");
    assert!(later <= bound, "it does not only hold over: {bound}, then {later}");
    member.polls(1, &all);
    assert_eq!(member.stratum(), 2);
}

#[test]
fn a_member_takes_the_stratum_that_its_reference_has_now_and_goes_on_adjusting() {
    let mut member = Member::new(1, 3, VirtualClock::new(0, rates()));
    member.polls(9, &[(2, GOOD)]);
    assert_eq!(member.stratum(), 3);
    let third = Server { stratum: 3, ..GOOD };
    member.polls(1, &[(2, third)]);
    assert_eq!(member.stratum(), 4);
    let bound = member.ntp.clock().map().error_ns(member.now).expect("a bound");
    member.polls(20, &[(2, third)]);
    let later = member.ntp.clock().map().error_ns(member.now).expect("a bound");
    assert!(later <= bound, "it does not only hold over: {bound}, then {later}");
    assert_eq!((member.stratum(), member.verdicts[1]), (4, (2, Verdict::Taken)));
}

/// The one that it follows follows another, and that one follows it.
#[test]
fn in_a_ring_the_strata_count_up_until_it_is_left() {
    let mut member = Member::new(1, 3, VirtualClock::new(0, rates()));
    member.polls(9, &[(2, GOOD)]);
    for poll in 0..7 {
        assert_eq!(member.stratum(), 3 + 2 * poll);
        member.polls(1, &[(2, Server { stratum: member.stratum() + 1, ..GOOD })]);
    }
    assert_eq!((member.stratum(), member.ntp.system().reference), (16, None));
}

#[test]
fn an_exchange_is_used_once_and_the_clock_is_as_old_as_it() {
    let mut member = Member::new(1, 2, VirtualClock::new(0, rates()));
    member.polls(8, &[(0, FIRST)]);
    let since = member.now - SECOND + TRIP;
    let (map, begun) = (member.ntp.clock().map(), member.now);
    assert_eq!(map.reading(begun).age_ns, Some(begun - since));
    // First no reply comes, then one that is so slow that the one before still counts.
    member.polls(2, &[]);
    assert_eq!(member.ntp.clock().map(), map, "the same exchange is not used again");
    member.trip = 100_000_000;
    member.polls(1, &[(0, FIRST)]);
    let reading = member.ntp.clock().map().reading(member.now);
    assert_eq!((reading.state, reading.age_ns), (State::Synchronised, Some(member.now - since)));
    member.polls(9, &[]);
    let reading = member.ntp.clock().map().reading(member.now);
    assert_eq!((member.stratum(), reading.state), (16, State::Holdover));
    member.trip = TRIP;
    member.polls(1, &[(0, FIRST)]);
    let age = member.ntp.clock().map().reading(member.now).age_ns;
    assert_eq!((member.stratum(), age), (2, Some(SECOND - TRIP)));
}

/// The leader's raw clock is 100 ppm faster than this one. All exchanges but one are slow, and one way takes most of that,
/// so that their offsets are wrong by a quarter of a millisecond. After three polls more the clocks are 300 µs farther
/// apart than in the one that counts.
#[test]
fn of_eight_exchanges_the_fifth_counts_if_it_was_the_quickest() {
    let mut member = Member::new(1, 2, VirtualClock::new(0, rates()));
    let mut poll = |poll: i64| {
        let (trip, wrong_ns) = match poll {
            36 => (100_000, 0),
            _ if poll % 2 == 0 => (600_000, 250_000),
            _ => (600_000, -250_000),
        };
        member.trip = trip;
        member.poll(&[(0, Server { off_ns: 100_000 * poll + wrong_ns, ..FIRST })]);
        (member.off_ns(), member.ntp.system().root_delay_ns)
    };
    let seen: Vec<_> = (0..45).map(&mut poll).collect();
    for (at, (off_ns, delay_ns)) in (0_i64..).zip(&seen).skip(36).take(8) {
        let wrong_ns = off_ns - 100_000 * at;
        assert!(wrong_ns.abs() < 100_000, "at poll {at}: {wrong_ns} ns");
        assert_eq!(*delay_ns, 100_000, "at poll {at}");
    }
    assert_eq!(seen[44].1, 600_000, "it is the ninth then");
}

#[test]
fn what_the_server_takes_to_reply_is_no_delay() {
    let mut member = Member::new(1, 2, VirtualClock::new(0, rates()));
    member.takes = 100_000_000;
    member.polls(8, &[(0, Server { off_ns: 7 * MS, ..FIRST })]);
    assert_eq!((member.off_ns(), member.ntp.system().root_delay_ns), (7 * MS, TRIP));
}

/// The server's raw clock is as fast as may be and this one as slow, and it is known to 3 ms. Each eighth exchange is a
/// little quicker than the others.
#[test]
fn a_clock_that_drifts_does_not_go_by_an_exchange_of_long_ago() {
    let mut member = Member::new(1, 2, VirtualClock::new(0, rates()));
    for poll in 0..40_i64 {
        member.trip = if poll % 8 == 0 { TRIP / 2 } else { TRIP };
        let server = Server { off_ns: poll * 200_000, error_ns: 3_000_000, ..FIRST };
        member.poll(&[(0, server)]);
        let apart = member.off_ns().abs_diff(server.off_ns);
        assert!(poll < 4 || apart < 500_000, "after {poll} polls it is {apart} ns off");
    }
}

#[test]
fn a_member_without_servers_follows_nobody_and_its_bound_grows() {
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(8, &[(0, FIRST)]);
    let bound = member.ntp.clock().map().error_ns(member.now).expect("a bound");
    member.polls(20, &[]);
    assert_eq!(member.stratum(), 16);
    assert!(member.ntp.clock().map().error_ns(member.now) > Some(bound + 7_000_000));
    for follows_nobody in [NEW, HOLDS_OVER] {
        member.polls(4, &[(2, follows_nobody)]);
        assert_eq!(member.stratum(), 16, "one that follows nobody is followed by nobody");
    }
}

#[test]
fn a_falseticker_is_outvoted() {
    let lies = Server { off_ns: 40 * MS, error_ns: 0, ..GOOD };
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(10, &[(0, FIRST), (2, GOOD), (3, lies), (4, GOOD)]);
    let expected = [Verdict::Taken, Verdict::Agrees, Verdict::Outlier, Verdict::Agrees];
    assert_eq!(
        member.verdicts,
        [(0, expected[0]), (2, expected[1]), (3, expected[2]), (4, expected[3])]
    );
    assert_eq!(member.off_ns(), 0);
    // The same without the leader: two of three outvote the third.
    let mut cut_off = Member::new(1, 5, VirtualClock::new(0, rates()));
    cut_off.polls(10, &[(2, GOOD), (3, lies), (4, GOOD)]);
    assert_eq!((cut_off.stratum(), cut_off.off_ns()), (3, 0));
    assert_eq!(cut_off.verdicts[2], (3, Verdict::Outlier));
}

/// The others leave it 300 µs to either side, and their mean is the truth.
#[test]
fn a_server_with_a_wide_bound_hardly_moves_a_member() {
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(8, &[(0, FIRST), (2, GOOD), (3, WIDE), (4, GOOD)]);
    assert_eq!((member.stratum(), member.off_ns()), (2, 0));
    member.polls(20, &[(2, GOOD), (3, WIDE), (4, GOOD)]);
    assert_eq!(member.stratum(), 3);
    assert_eq!(member.verdicts[2], (3, Verdict::Taken));
    assert!(member.off_ns().abs() < 150_000, "moved by {} ns", member.off_ns());
}

/// It knows the leader by three exchanges, which are too few, and the others by four, so that half a second is unknown
/// of each.
#[test]
fn a_server_with_a_wide_bound_sets_no_member_that_begins_anew() {
    let peers = [(2, GOOD), (3, WIDE), (4, GOOD)];
    let mut member = Member::new(1, 5, VirtualClock::new(-7_200_000 * MS, rates()));
    member.polls(1, &peers);
    member.polls(3, &[(0, FIRST), peers[0], peers[1], peers[2]]);
    assert!(member.ntp.clock().is_synchronised());
    assert_eq!((member.stratum(), member.verdicts[2]), (3, (3, Verdict::Taken)));
    assert!(member.off_ns().abs() < 300_000, "set wrong by {} ns", member.off_ns());
}

/// The leader's clock was stopped. Three of stratum 2 agree against it, and none of them is of a lower stratum.
#[test]
fn a_leader_that_is_outvoted_moves_nobody_and_equal_strata_do_not_either() {
    let ahead = Server { off_ns: 150_000, ..GOOD };
    let peers = [(2, ahead), (3, ahead), (4, ahead)];
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(8, &[(0, FIRST), peers[0], peers[1], peers[2]]);
    let stopped = Server { off_ns: -40 * MS, ..FIRST };
    member.polls(4, &[(0, stopped), peers[0], peers[1], peers[2]]);
    assert_eq!(member.verdicts[0], (0, Verdict::Outlier));
    assert_eq!((member.stratum(), member.off_ns()), (2, 0));
}

/// This machine was suspended, and each server is ten seconds ahead of it since.
#[test]
fn a_client_that_was_stopped_knows_its_servers_anew() {
    let servers = |off_ns| {
        let ahead = |server| Server { off_ns, ..server };
        [(0, ahead(FIRST)), (2, ahead(GOOD)), (3, ahead(GOOD)), (4, ahead(GOOD))]
    };
    let stopped = 10_000 * MS;
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(10, &servers(0));
    member.polls(1, &servers(stopped));
    assert_eq!(member.contradicted, [0, 2, 3, 4]);
    member.polls(3, &servers(stopped));
    assert_eq!((member.stratum(), member.off_ns()), (2, stopped));
    member.polls(20, &servers(stopped));
    assert_eq!(member.contradicted, [0, 2, 3, 4], "it is one event");
}

#[test]
fn a_leader_that_was_stopped_is_outvoted_and_one_client_follows_it() {
    let stopped = Server { off_ns: -10_000 * MS, ..FIRST };
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(10, &[(0, FIRST), (2, GOOD), (3, GOOD), (4, GOOD)]);
    member.polls(20, &[(0, stopped), (2, GOOD), (3, GOOD), (4, GOOD)]);
    assert_eq!(member.verdicts[0], (0, Verdict::Outlier));
    assert_eq!((member.off_ns(), member.contradicted), (0, vec![0]));
    let mut client = Member::new(1, 2, VirtualClock::new(0, rates()));
    client.polls(10, &[(0, FIRST)]);
    client.polls(4, &[(0, stopped)]);
    assert_eq!((client.off_ns(), client.contradicted), (stopped.off_ns, vec![0]));
}

/// It says that it is exact and fits in with one of the others, but not with the truth.
#[test]
fn a_falseticker_that_fits_in_does_not_make_the_bound_too_small() {
    let lies = Server { off_ns: 500_000, error_ns: 0, ..GOOD };
    let vague = Server { off_ns: 400_000, error_ns: 900_000, ..GOOD };
    let mut member = Member::new(1, 5, VirtualClock::new(0, rates()));
    member.polls(10, &[(2, vague), (3, lies), (4, vague)]);
    let reading = member.ntp.clock().map().reading(member.now);
    let bound = i64::try_from(reading.error_ns.expect("a bound")).expect("small");
    let off = reading.now_ns - i64::try_from(member.now).expect("small");
    assert!(off.abs() <= bound, "{reading:?}");
}

/// Nobody reaches the leader. One asserts that it does; the others have times that they hold over, or follow this one.
#[test]
fn a_liar_that_alone_states_a_stratum_is_outvoted_by_those_that_have_a_time() {
    let lies = Server { off_ns: 40 * MS, error_ns: 0, ..GOOD };
    for other in [HOLDS_OVER, Server { stratum: 3, follows: Some(MemberId(1)), ..HOLDS_OVER }] {
        let mut member = Member::new(1, 5, synchronised_vaguely());
        member.polls(20, &[(2, other), (3, lies), (4, other)]);
        assert_eq!((member.stratum(), member.off_ns()), (16, 0));
        assert_eq!(member.verdicts[2], (3, Verdict::Outlier));
    }
    let mut member = Member::new(1, 5, synchronised_vaguely());
    member.polls(20, &[(2, HOLDS_OVER), (3, GOOD), (4, HOLDS_OVER)]);
    assert_eq!((member.stratum(), member.verdicts[2]), (3, (3, Verdict::Taken)));
    assert_eq!(member.verdicts[1], (2, Verdict::Agrees));
}

#[test]
fn of_two_servers_that_disagree_the_leader_is_followed_and_without_it_nobody() {
    let lies = Server { off_ns: 40 * MS, error_ns: 0, ..GOOD };
    let mut member = Member::new(1, 3, synchronised_vaguely());
    member.polls(20, &[(0, FIRST), (2, lies)]);
    assert_eq!(member.verdicts, [(0, Verdict::Taken), (2, Verdict::Outlier)]);
    assert_eq!((member.stratum(), member.off_ns()), (2, 0));
    let mut cut_off = Member::new(1, 4, synchronised_vaguely());
    cut_off.polls(20, &[(2, GOOD), (3, lies)]);
    assert_eq!((cut_off.stratum(), cut_off.off_ns()), (16, 0));
}

#[test]
fn only_the_leader_is_of_stratum_1() {
    let boasts = Server { off_ns: 40 * MS, error_ns: 0, ..FIRST };
    let mut member = Member::new(1, 3, VirtualClock::new(0, rates()));
    member.polls(10, &[(2, boasts)]);
    assert_eq!((member.stratum(), member.ntp.clock().is_synchronised()), (16, false));
}

#[test]
fn the_root_distance_is_half_of_the_delays_and_what_is_unknown_besides() {
    let mut member = Member::new(1, 2, VirtualClock::new(0, rates()));
    member.polls(3, &[(0, FIRST)]);
    assert!(!member.ntp.clock().is_synchronised(), "three exchanges leave more than 1 s unknown");
    member.polls(5, &[(0, FIRST)]);
    let system = member.ntp.system();
    assert_eq!((system.root_delay_ns, system.reference), (TRIP, Some(LEADER)));
    let at = member.now - SECOND + TRIP;
    let by_messages = |at| member.ntp.clock().map().reading(at).by_messages.expect("a distance");
    let textbook = |at| by_messages(at).textbook_ns;
    assert!((100_000..62_700_000).contains(&textbook(at)), "{}", textbook(at));
    let grown = textbook(at + 1_000 * SECOND) - textbook(at);
    assert_eq!(grown, 15_000_000, "15 ppm");
}

/// It is two hours behind when it is set.
#[test]
fn the_root_distance_knows_nothing_of_the_wall_clock_of_before() {
    let mut member = Member::new(1, 2, VirtualClock::new(-7_200_000 * MS, rates()));
    member.polls(4, &[(0, FIRST)]);
    let reading = member.ntp.clock().map().reading(member.now - SECOND + TRIP);
    assert_eq!(reading.slewing_ns, 0);
    assert!(reading.by_messages.expect("a distance").textbook_ns < SECOND, "{reading:?}");
}

/// A reply as exact as can be, to a poll of then.
fn exact(origin: u64) -> Message {
    let system = System { stratum: 2, reference: None, root_delay_ns: 0, root_dispersion_ns: 0 };
    Message::Server(
        Reply {
            origin: LocalTime(origin),
            receive_ns: i64::MIN,
            transmit_ns: i64::MAX,
            stamp: LocalTime(1),
            system,
            error_ns: Some(0),
        },
        None,
    )
}

fn from(id: u32, message: Message) -> InputOf<Ntp> {
    Input::Message { from: MemberId(id), message }
}

/// While a poll is open, of which 2 has replied and the leader has not.
#[test]
fn late_repeated_and_foreign_replies_are_ignored() {
    let mut member = Member::new(1, 3, synchronised(0));
    member.polls(8, &[(0, FIRST), (2, GOOD)]);
    let polled = member.now;
    member.does(|ntp, out| ntp.handle(LocalTime(polled), Input::Timer(Timer::Poll), out));
    let at = LocalTime(polled + TRIP);
    let late = polled - SECOND;
    let ignores = |member: &mut Member, id, origin| {
        let before = member.ntp.clone();
        let sent = member.does(|ntp, out| ntp.handle(at, from(id, exact(origin)), out));
        assert!(sent.is_empty());
        assert_eq!(member.ntp, before, "a reply of {id} to a poll of {origin} changed it");
    };
    for (id, origin) in [(0, late), (2, late), (2, polled + 1), (1, polled), (9, polled)] {
        ignores(&mut member, id, origin);
    }
    let before = member.ntp.clone();
    member.does(|ntp, out| ntp.handle(at, from(2, exact(polled)), out));
    assert_ne!(member.ntp, before, "its reply counts");
    ignores(&mut member, 2, polled);
    member.does(|ntp, out| ntp.handle(at, Input::Timer(Timer::Replies), out));
    ignores(&mut member, 0, polled);
}

/// It asks all members: itself and members of other groups may not make the number full.
#[test]
fn foreign_replies_give_a_leader_no_time() {
    let mut leader = Member::new(0, 3, VirtualClock::new(0, rates()));
    leader.does(|ntp, out| ntp.start(LocalTime(0), out));
    let before = leader.ntp.clone();
    for id in [0, 3, 9] {
        leader.does(|ntp, out| ntp.handle(LocalTime(0), from(id, exact(0)), out));
        assert_eq!(leader.ntp, before, "a reply of {id} changed it");
    }
    let request = Message::Client { origin: None, transmit: LocalTime(0), wants: Wants::GroupTime };
    let mut asks = |id| {
        let request = from(id, request.clone());
        leader.does(|ntp, out| ntp.handle(LocalTime(0), request, out)).len()
    };
    assert_eq!([asks(0), asks(9), asks(2)], [0, 0, 1]);
}

#[test]
fn a_member_polls_the_leader_and_three_others_at_most() {
    let polled = |me, size| {
        let mut member = Member::new(me, size, synchronised(0));
        member.poll(&[]);
        member.polled.iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(polled(1, 2), [0]);
    assert_eq!(polled(2, 3), [0, 1]);
    assert_eq!(polled(3, 5), [0, 1, 2, 4]);
    assert_eq!(polled(6, 8), [0, 1, 2, 7]);
    assert_eq!(polled(0, 8), [0; 0]);
    assert_eq!([1, 2, 3, 5, 8].map(associations), [0, 1, 2, 4, 4]);
    assert_eq!([1, 2, 3, 5, 8].map(messages_per_poll), [0, 2, 8, 32, 56]);
}

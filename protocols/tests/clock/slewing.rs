//! How a virtual clock takes corrections, and what it reports about itself meanwhile.

use conclave_protocols::clock::berkeley::{Message, Timer};
use conclave_protocols::clock::{
    Berkeley, ClockMap, Correction, GroupClock, Params, Rates, Shown, State, VirtualClock,
};
use conclave_protocols::{Effect, Epoch, Input, LocalTime, MemberId, Outbox, Protocol, View};

use crate::still::{MS, params, rates, synchronised};

const SECOND: u64 = 1_000_000_000;
/// When a correction begins.
const AHEAD: u64 = ClockMap::SWITCH_NS + 1_000_000;

fn adjust(clock: &mut VirtualClock, now: u64, delta_ns: i64, error_ns: u64) -> bool {
    let raw = LocalTime(now);
    let shown = Shown { raw, ns: clock.map().now_ns(now) };
    clock.adjust(raw, shown, Correction { delta_ns, ahead_ns: 0, error_ns })
}

#[test]
fn a_clock_twenty_seconds_ahead_runs_at_95_percent_for_400_seconds() {
    let mut clock = VirtualClock::new(0, Rates::new(0, 50_000));
    assert!(adjust(&mut clock, 0, 0, 0));
    assert!(adjust(&mut clock, 0, -20_000 * MS, 0));
    let map = clock.map();
    let begin = AHEAD;
    let shown = |seconds: u64| map.now_ns(begin + seconds * SECOND) - map.now_ns(begin);
    assert_eq!(shown(100), 95_000 * MS - 1, "rounded down");
    assert_eq!(shown(400), 380_000 * MS);
    assert_eq!(shown(500), 480_000 * MS, "then it runs as fast as the raw clock");
    assert_eq!(map.reading(begin + 400 * SECOND).slewing_ns, 0);
    let reads: Vec<i64> = (0..500_000).map(|ms| map.now_ns(ms * 1_000_000)).collect();
    assert!(reads.is_sorted(), "no read is less than the one before");
    let close: Vec<i64> = (0..10_000).map(|ns| map.now_ns(SECOND + ns)).collect();
    assert!(close.is_sorted());
}

#[test]
fn a_clock_is_set_only_before_it_was_first_synchronised() {
    let mut clock = VirtualClock::new(1_000 * MS, rates());
    assert!(adjust(&mut clock, SECOND, -500 * MS, 0));
    assert_eq!(clock.map().now_ns(SECOND), 1_500 * MS);
    for delta in [500 * MS, -500 * MS] {
        assert!(adjust(&mut clock, SECOND, delta, 0));
        let map = clock.map();
        let passed = map.now_ns(2 * SECOND) - map.now_ns(SECOND);
        assert!((passed - 1_000 * MS).abs() <= MS / 2, "500 ppm is the most");
    }
}

#[test]
fn a_new_map_shows_what_the_old_one_shows_until_the_switch() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 10 * MS, 0));
    for turn in 2..20_u64 {
        let now = turn * SECOND;
        let old = clock.map();
        let delta = if turn % 2 == 0 { -10 * MS } else { 10 * MS };
        assert!(adjust(&mut clock, now, delta, 0));
        let new = clock.map();
        let switch = now + ClockMap::SWITCH_NS;
        assert_eq!(old.now_ns(now), new.now_ns(now));
        assert_eq!(old.now_ns(switch), new.now_ns(switch));
        assert_ne!(old.now_ns(switch + SECOND), new.now_ns(switch + SECOND));
    }
}

#[test]
fn the_bound_is_the_error_and_the_growth_and_what_is_left_to_slew() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 100_000, 7_000));
    let reading = |after: u64| clock.map().reading(SECOND + after);
    let bound = |after| reading(after).error_ns.expect("synchronised");
    assert_eq!(bound(0), 7_000 + 100_000 + 2);
    // 4 rho is 400 ppm; 100 us take 0.2 s at 500 ppm.
    let late = bound(SECOND);
    assert_eq!(late, 7_000 + 400_062 + 2);
    let midway = reading(AHEAD + SECOND / 10);
    assert_eq!(midway.slewing_ns, 50_001, "rounded down");
    assert_eq!(midway.error_ns, Some(7_000 + 42_407 + 50_001 + 2));
    let (earliest, latest) = (midway.earliest_ns(), midway.latest_ns());
    assert_eq!(latest.zip(earliest).map(|(l, e)| l - e), Some(2 * 99_410));
}

#[test]
fn a_clock_that_hears_nothing_holds_over_with_a_growing_bound() {
    let mut clock = VirtualClock::new(0, rates());
    assert_eq!(clock.map().reading(0).state, State::Unsynchronised);
    assert_eq!(clock.map().reading(0).latest_ns(), None);
    clock.enter(LocalTime(0), (Epoch(1), false), rates(), 3 * SECOND);
    assert!(adjust(&mut clock, 0, 0, 0));
    let reading = |seconds| clock.map().reading(seconds * SECOND);
    assert_eq!(reading(3).state, State::Synchronised);
    assert_eq!(reading(4).state, State::Holdover);
    assert_eq!(reading(4).age_ns, Some(4 * SECOND));
    let minute = reading(60).error_ns.expect("synchronised");
    assert!((24_000_000..24_100_000).contains(&minute), "400 ppm of a minute, not {minute} ns");
}

#[test]
fn a_worse_correction_is_refused_until_the_better_one_has_aged() {
    let mut clock = synchronised(0);
    assert!(!adjust(&mut clock, SECOND, MS, 50_000_000));
    assert_eq!(clock.map().reading(SECOND).slewing_ns, 0);
    assert!(adjust(&mut clock, 200 * SECOND, MS, 50_000_000));
}

#[test]
fn a_late_correction_applies_to_what_was_shown() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 10 * MS, 0));
    let shown = Shown { raw: LocalTime(2 * SECOND), ns: clock.map().now_ns(2 * SECOND) };
    let by = Correction { delta_ns: 3 * MS, ahead_ns: 0, error_ns: 0 };
    assert!(clock.adjust(LocalTime(9 * SECOND), shown, by));
    let reading = clock.map().reading(9 * SECOND);
    assert_eq!(reading.now_ns + reading.slewing_ns, shown.ns + 3 * MS + 7_000 * MS);
    assert_eq!(reading.age_ns, Some(7 * SECOND));
}

#[test]
fn a_change_of_role_changes_neither_time_nor_makes_the_bound_smaller() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 10 * MS, 1_000));
    for (turn, leads) in (2..).zip([true, true, false, false, true]) {
        let now = turn * SECOND;
        let before = clock.map().reading(now);
        clock.enter(LocalTime(now), (Epoch(turn), leads), rates(), SECOND);
        let after = clock.map().reading(now);
        assert_eq!(before.now_ns, after.now_ns);
        assert!(before.error_ns <= after.error_ns);
        assert_eq!(before.age_ns, after.age_ns);
    }
}

#[test]
fn a_daemon_allows_for_the_slewing_that_it_cannot_stop_at_once() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 10 * MS, 1_000));
    let alone = View { epoch: Epoch(1), size: 1, leader: MemberId(0) };
    let mut daemon = Berkeley::new(MemberId(0), alone, params(), clock);
    daemon.start(LocalTime(2 * SECOND), &mut Outbox::default());
    let now = 6 * SECOND;
    let before = daemon.clock().map().error_ns(now).expect("synchronised");
    daemon.handle(LocalTime(now), Input::Timer(Timer::Round), &mut Outbox::default());
    let after = daemon.clock().map().error_ns(now).expect("synchronised");
    assert_eq!(after, before + 3_000 + 2, "500 ppm of 6 ms, and a grain");
}

/// In the last moment of its slewing it cannot plan anything. It leads from the next round on, and what it knows is as before.
#[test]
fn a_daemon_that_cannot_plan_at_the_moment_knows_no_better_than_before() {
    let mut clock = synchronised(0);
    assert!(adjust(&mut clock, SECOND, 10 * MS, 1_000));
    let alone = View { epoch: Epoch(1), size: 1, leader: MemberId(0) };
    let mut daemon = Berkeley::new(MemberId(0), alone, params(), clock);
    daemon.start(LocalTime(2 * SECOND), &mut Outbox::default());
    let before = daemon.clock().map();
    let now = before.shown.last.raw - 3_000_000;
    assert!(now > 6 * SECOND, "it would lead by now");
    daemon.handle(LocalTime(now), Input::Timer(Timer::Round), &mut Outbox::default());
    let after = daemon.clock().map();
    assert_eq!((after.shown, after.known), (before.shown, before.known));
    daemon.handle(LocalTime(now + SECOND), Input::Timer(Timer::Round), &mut Outbox::default());
    assert_ne!(daemon.clock().map().known, before.known, "it leads");
}

#[test]
fn absurd_corrections_saturate() {
    let mut clock = VirtualClock::new(i64::MAX, rates());
    assert!(adjust(&mut clock, u64::MAX, i64::MAX, u64::MAX));
    assert!(adjust(&mut clock, u64::MAX, i64::MIN, u64::MAX));
    clock.enter(LocalTime(u64::MAX), (Epoch(1), true), rates(), u64::MAX);
    assert_eq!(clock.map().reading(0).error_ns, Some(u64::MAX));
}

/// Clocks are trusted to 1 ppm, so the daemon takes two hours for 10 ms. It does not keep to that when the others come to
/// say something else.
#[test]
fn a_plan_that_takes_long_is_made_anew_on_its_way() {
    let mut world = Pair::new(1);
    assert_eq!(world.round(SECOND, 0), 0, "it begins");
    let ahead = world.round(2 * SECOND, 18);
    assert!(ahead > 8 * MS, "{ahead}");
    let before = world.daemon.clock().map();
    let behind = world.round(4_500_000_000, -18);
    assert!(behind < -4 * MS, "{behind}");
    let after = world.daemon.clock().map();
    let promised = 2 * SECOND + 3_250_000_000;
    for raw in [4_500_000_000, 5 * SECOND, promised] {
        assert_eq!(after.now_ns(raw), before.now_ns(raw), "what was stated goes on");
    }
    let shown = [promised, 100 * SECOND].map(|raw| after.now_ns(raw));
    assert!(shown[1] - shown[0] < 94_750_000_000 - 100_000, "it runs slow from then on: {shown:?}");
}

/// A daemon, and a member that says that its clock is ahead by so many milliseconds.
struct Pair {
    daemon: Berkeley,
    round: u64,
}

impl Pair {
    fn new(max_drift_ppm: u32) -> Self {
        let params = Params { max_drift_ppm, ..params() };
        let clock = VirtualClock::new(0, params.rates());
        let view = View { epoch: Epoch(1), size: 2, leader: MemberId(1) };
        let mut daemon = Berkeley::new(MemberId(1), view, params, clock);
        daemon.start(LocalTime(0), &mut Outbox::default());
        Self { daemon, round: 0 }
    }

    /// What the daemon has yet to slew then.
    fn round(&mut self, now: u64, ahead_ms: i64) -> i64 {
        self.poll(now);
        self.answer(now, self.daemon.clock().map().now_ns(now) + ahead_ms * MS);
        self.daemon.clock().map().reading(now).slewing_ns
    }

    fn poll(&mut self, now: u64) {
        let out = &mut Outbox::default();
        self.daemon.handle(LocalTime(now), Input::Timer(Timer::Round), out);
        let polled = out.drain().find_map(|effect| match effect {
            Effect::Send { message: Message::Poll { round, .. }, .. } => Some(round),
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => None,
        });
        self.round = polled.expect("it polls");
    }

    fn answer(&mut self, now: u64, reading_ns: i64) {
        let error_ns = (self.round > 2).then_some(1_000);
        let message = Message::Answer { round: self.round, reading_ns, error_ns };
        let answer = Input::Message { from: MemberId(0), message };
        self.daemon.handle(LocalTime(now), answer, &mut Outbox::default());
    }
}

/// Its clock turns between the poll and the answer. The correction is of what it showed with the poll.
#[test]
fn a_plan_begins_where_clocks_were_compared() {
    let mut world = Pair::new(100);
    assert_eq!(world.round(SECOND, 0), 0, "it begins");
    world.round(2 * SECOND, 1);
    let before = world.daemon.clock().map();
    let sent = before.shown.last.raw - 600_000;
    world.poll(sent);
    world.answer(sent + 1_000_000, before.now_ns(sent + 500_000) + 2 * MS);
    let after = world.daemon.clock().map();
    let by = after.reading(sent).by_messages.expect("it averaged").correction_ns;
    assert!(by > MS / 2, "{by}");
    assert_eq!(after.shown.last.at(sent) - before.now_ns(sent), by);
}

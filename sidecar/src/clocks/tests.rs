//! What a clock of each kind asks for, and what it refuses.

use conclave_protocols::clock::State;
use conclave_protocols::logical::Count;
use conclave_protocols::logical::hybrid::HybridTime;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// Group time when the raw clock reads zero.
const BEGIN: i64 = 1_700_000_000 * SECOND;

/// The group time, and how wrong it may be, when the raw clock reads so many nanoseconds.
fn at(raw_ns: i64, error: Option<Duration>) -> EventTime {
    let error_ns = error.map(|error| u64::try_from(error.as_nanos()).expect("short"));
    let reading = Reading {
        textbook_ns: None,
        now_ns: BEGIN + raw_ns,
        error_ns,
        state: State::Synchronised,
        age_ns: error_ns.map(|_| 0),
        slewing_ns: 0,
    };
    EventTime { raw: LocalTime(raw_ns.unsigned_abs()), reading }
}

/// Ten seconds after the beginning of the process, and a millisecond wrong at most.
fn later() -> EventTime {
    at(10 * SECOND, Some(Duration::from_millis(1)))
}

fn clocks() -> Clocks {
    Clocks::new("shop-0", 0x1f, LocalTime(0))
}

fn name(name: &str) -> ClockName {
    ClockName::new(name.to_owned()).expect("a name")
}

fn tick(clocks: &mut Clocks, kind: Kind, time: &EventTime) -> Result<Stamp, ClockError> {
    clocks.event(&name(kind.name()), &Event::Tick(Some(kind)), time)
}

/// A hybrid stamp of another pod at so many nanoseconds.
fn hybrid_of(ns: i64) -> Event {
    let process = ProcessId::try_from("shop-1/2e".to_owned()).expect("a name");
    let time = HybridTime(PhysicalTime::of_nanos(ns).units() << 16);
    Event::Receive(Stamp::Hybrid(hybrid::Stamp { time, process }))
}

#[test]
fn the_first_event_begins_a_clock_and_decides_its_kind() {
    let mut clocks = clocks();
    let orders = name("orders");
    let error = clocks.event(&orders, &Event::Tick(None), &later());
    assert_eq!(error, Err(ClockError::NoKind));
    assert_eq!(clocks.latest(&orders), None);
    let first = clocks.event(&orders, &Event::Tick(Some(Kind::Vector)), &later()).expect("one");
    assert_eq!(clocks.latest(&orders), Some(first.clone()));
    let next = clocks.event(&orders, &Event::Tick(None), &later()).expect("another");
    assert_eq!(first.compare(&next), Some(Order::Before));
    let differs = ClockError::KindDiffers { is: Kind::Vector, stated: Kind::Lamport };
    let as_lamport = Event::Tick(Some(Kind::Lamport));
    assert_eq!(clocks.event(&orders, &as_lamport, &later()), Err(differs.clone()));
    let stamp = tick(&mut clocks, Kind::Lamport, &later()).expect("a clock of its own");
    assert_eq!(clocks.event(&orders, &Event::Receive(stamp), &later()), Err(differs));
    assert_eq!(clocks.latest(&orders), Some(next), "what was refused is no event");
}

#[test]
fn a_receipt_may_be_the_first_event() {
    let (mut one, mut other) = (clocks(), Clocks::new("shop-1", 0x2e, LocalTime(0)));
    for kind in Kind::ALL {
        let sent = tick(&mut one, kind, &later()).expect("a stamp");
        let received = other.event(&name("mine"), &Event::Receive(sent.clone()), &later());
        assert_eq!(sent.compare(&received.expect("a stamp")), Some(Order::Before));
        other = Clocks::new("shop-1", 0x2e, LocalTime(0));
    }
}

#[test]
fn a_clock_that_could_not_begin_takes_no_name() {
    let mut clocks = clocks();
    for number in 0..CLOCKS_MAX + 10 {
        let vague = clocks.event(
            &name(&format!("h{number}")),
            &Event::Tick(Some(Kind::Hybrid)),
            &at(10 * SECOND, None),
        );
        assert_eq!(vague, Err(ClockError::TimeUnknown(TOO_VAGUE)));
    }
    assert_eq!(clocks.count(Kind::Hybrid), 0);
    let lamport = Event::Tick(Some(Kind::Lamport));
    for number in 0..CLOCKS_MAX {
        let stamp = clocks.event(&name(&format!("l{number}")), &lamport, &later());
        assert!(stamp.is_ok(), "{number}: {stamp:?}");
    }
    assert_eq!(clocks.count(Kind::Lamport), CLOCKS_MAX);
    assert_eq!(clocks.event(&name("more"), &lamport, &later()), Err(ClockError::TooMany));
    assert!(clocks.event(&name("l0"), &lamport, &later()).is_ok(), "those that there are go on");
}

#[test]
fn a_hybrid_clock_goes_by_the_group_time_as_long_as_that_is_known() {
    let mut clocks = clocks();
    let most = ERROR_MAX + Duration::from_nanos(1);
    for error in [None, Some(most)] {
        let refused = tick(&mut clocks, Kind::Hybrid, &at(10 * SECOND, error));
        assert_eq!(refused, Err(ClockError::TimeUnknown(TOO_VAGUE)));
    }
    let stamp = tick(&mut clocks, Kind::Hybrid, &at(10 * SECOND, Some(ERROR_MAX)));
    let Ok(Stamp::Hybrid(stamp)) = stamp else { panic!("{stamp:?}") };
    assert_eq!(stamp.time.l(), PhysicalTime::of_nanos(BEGIN + 10 * SECOND));
    assert_eq!(stamp.process.as_str(), "shop-0/1f");
}

/// The two clocks are as far from group time as they may be, on different sides.
#[test]
fn a_stamp_of_the_clock_that_is_most_ahead_is_received_and_a_later_one_is_not() {
    let most = i64::try_from(ERROR_MAX.as_nanos()).expect("short");
    let mut clocks = clocks();
    let mine = at(10 * SECOND, Some(ERROR_MAX));
    let group_time = BEGIN + 10 * SECOND + most;
    let mut receive = |ns| clocks.event(&name("orders"), &hybrid_of(ns), &mine);
    let Err(ClockError::Ahead(ahead)) = receive(group_time + most + SECOND) else { panic!() };
    assert_eq!(ahead.units, 65_536);
    let stamp = receive(group_time + most).expect("it may be true");
    let Stamp::Hybrid(stamp) = stamp else { panic!("{stamp:?}") };
    assert_eq!(stamp.time.c(), 1);
}

/// An earlier process of the pod gave its last stamp when it was as far ahead as may be, and this one is as far behind.
#[test]
fn a_new_process_gives_no_hybrid_stamp_that_is_earlier_than_one_of_its_predecessor() {
    let most = i64::try_from(ERROR_MAX.as_nanos()).expect("short");
    let mut before = Clocks::new("shop-0", 0x1e, LocalTime(0));
    let last = tick(&mut before, Kind::Hybrid, &at(10 * SECOND + most, Some(ERROR_MAX)));
    let last = last.expect("a stamp");
    let begun = 10 * SECOND;
    let mut after = Clocks::new("shop-0", 0x1f, LocalTime(begun.unsigned_abs()));
    let mut refused = 0;
    // Its raw clock may be slow by as much as clocks may be, and group time fast.
    for millis in 0..3_000 {
        let passed = millis * 1_000_000;
        let mut now = at(begun + passed, Some(ERROR_MAX));
        now.reading.now_ns = BEGIN + begun + passed * 97 / 100 - most;
        match tick(&mut after, Kind::Hybrid, &now) {
            Ok(first) => {
                assert_eq!(last.compare(&first), Some(Order::Before), "after {millis} ms");
                break;
            }
            Err(error) => assert_eq!(error, ClockError::TimeUnknown(TOO_YOUNG)),
        }
        refused = millis;
    }
    assert!((1_000..1_100).contains(&refused), "{refused} ms");
}

#[test]
fn processes_of_one_pod_have_different_names_and_long_names_fit() {
    let of = |pod: &str, run| Clocks::new(pod, run, LocalTime(0)).process().to_string();
    assert_eq!(of("shop-0", 0x1f), "shop-0/1f");
    assert_ne!(of("shop-0", 1), of("shop-0", 2));
    let long = of(&"p".repeat(253), u64::MAX);
    assert_eq!(long.len(), ProcessId::BYTES_MAX);
    assert_eq!(of("a\nb", 1), "ab/1");
}

#[test]
fn names_that_a_path_cannot_have_are_no_names() {
    for wrong in ["", ".", "..", "compare", "a\nb", &"a".repeat(254)] {
        assert_eq!(ClockName::new(wrong.to_owned()), None, "{wrong:?}");
    }
    for good in ["orders", "a/b", "ü", &"a".repeat(253)] {
        assert!(ClockName::new(good.to_owned()).is_some(), "{good:?}");
    }
}

#[test]
fn a_clock_at_its_end_and_a_stamp_that_is_untrue_say_so() {
    let mut clocks = clocks();
    let process = ProcessId::try_from("shop-1/2e".to_owned()).expect("a name");
    let last = lamport::Stamp { counter: Count::MAX, process };
    let receive = Event::Receive(Stamp::Lamport(last));
    let exhausted = clocks.event(&name("l"), &receive, &later());
    assert!(matches!(exhausted, Err(ClockError::Exhausted(_))), "{exhausted:?}");
    let mine = clocks.process().clone();
    let stamp = vector::Stamp::new([(mine, Count::MAX)]).expect("one");
    let untrue = clocks.event(&name("v"), &Event::Receive(Stamp::Vector(stamp)), &later());
    assert!(matches!(untrue, Err(ClockError::Untrue(_))), "{untrue:?}");
}

//! What a clock of each kind asks for, and what it refuses.

use conclave_protocols::LocalTime;
use conclave_protocols::clock::{Reading, State};
use conclave_protocols::logical::Count;
use conclave_protocols::logical::hybrid::HybridTime;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// Group time when the raw clock reads zero.
const BEGIN: i64 = 1_700_000_000 * SECOND;

/// The group time, and how wrong it may be, when the raw clock reads so many nanoseconds.
fn at(raw_ns: i64, error: Option<Duration>) -> TimeNow {
    let error_ns = error.map(|error| u64::try_from(error.as_nanos()).expect("short"));
    let reading = Reading {
        by_messages: None,
        now_ns: BEGIN + raw_ns,
        error_ns,
        state: State::Synchronised,
        age_ns: error_ns.map(|_| 0),
        slewing_ns: 0,
    };
    TimeNow { raw: LocalTime(raw_ns.unsigned_abs()), reading, life: LocalTime(0) }
}

/// Ten seconds after the beginning of the process, and a millisecond wrong at most.
fn later() -> TimeNow {
    at(10 * SECOND, Some(Duration::from_millis(1)))
}

fn clocks() -> Clocks {
    Clocks::new("shop-0")
}

fn name(name: &str) -> ClockName {
    ClockName::new(name.to_owned()).expect("a name")
}

fn event(
    clocks: &mut Clocks,
    name: &ClockName,
    event: &Event,
    time: &TimeNow,
) -> Result<Stamp, ClockError> {
    clocks.event(name, event, time).map(|latest| latest.stamp)
}

/// The clock has the name of its kind.
fn tick(clocks: &mut Clocks, kind: Kind, time: &TimeNow) -> Result<Stamp, ClockError> {
    event(clocks, &name(kind.name()), &Event::Tick(Some(kind)), time)
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
    let error = event(&mut clocks, &orders, &Event::Tick(None), &later());
    assert_eq!(error, Err(ClockError::NoKind));
    assert_eq!(clocks.latest(&orders), None);
    let first =
        event(&mut clocks, &orders, &Event::Tick(Some(Kind::Vector)), &later()).expect("one");
    assert_eq!(clocks.latest(&orders).map(|latest| latest.stamp), Some(first.clone()));
    let next = event(&mut clocks, &orders, &Event::Tick(None), &later()).expect("another");
    assert_eq!(first.compare(&next), Some(Order::Before));
    let differs = ClockError::KindDiffers { is: Kind::Vector, stated: Kind::Lamport };
    let as_lamport = Event::Tick(Some(Kind::Lamport));
    assert_eq!(event(&mut clocks, &orders, &as_lamport, &later()), Err(differs.clone()));
    let stamp = tick(&mut clocks, Kind::Lamport, &later()).expect("a clock of its own");
    assert_eq!(event(&mut clocks, &orders, &Event::Receive(stamp), &later()), Err(differs));
    assert_eq!(
        clocks.latest(&orders).map(|latest| latest.stamp),
        Some(next),
        "what was refused is no event"
    );
}

#[test]
fn a_receipt_may_be_the_first_event() {
    let mut one = clocks();
    for kind in Kind::ALL {
        let mut other = Clocks::new("shop-1");
        let sent = tick(&mut one, kind, &later()).expect("a stamp");
        let received = event(&mut other, &name("mine"), &Event::Receive(sent.clone()), &later());
        assert_eq!(sent.compare(&received.expect("a stamp")), Some(Order::Before));
    }
}

#[test]
fn a_clock_that_could_not_begin_takes_no_name() {
    let mut clocks = clocks();
    for number in 0..CLOCKS_MAX + 10 {
        let vague = event(
            &mut clocks,
            &name(&format!("h{number}")),
            &Event::Tick(Some(Kind::Hybrid)),
            &at(10 * SECOND, None),
        );
        assert_eq!(vague, Err(ClockError::TimeUnknown(TOO_VAGUE)));
    }
    assert_eq!(clocks.count(Kind::Hybrid), 0);
    let lamport = Event::Tick(Some(Kind::Lamport));
    for number in 0..CLOCKS_MAX {
        let stamp = event(&mut clocks, &name(&format!("l{number}")), &lamport, &later());
        assert!(stamp.is_ok(), "{number}: {stamp:?}");
    }
    assert_eq!(clocks.count(Kind::Lamport), CLOCKS_MAX);
    assert_eq!(event(&mut clocks, &name("more"), &lamport, &later()), Err(ClockError::TooMany));
    assert!(
        event(&mut clocks, &name("l0"), &lamport, &later()).is_ok(),
        "those that there are go on"
    );
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
    assert!(stamp.process.as_str().starts_with("shop-0/"), "{}", stamp.process);
}

/// The two clocks are as far from group time as they may be, on different sides.
#[test]
fn a_stamp_of_the_clock_that_is_most_ahead_is_received_and_a_later_one_is_not() {
    let most = i64::try_from(ERROR_MAX.as_nanos()).expect("short");
    let mut clocks = clocks();
    let mine = at(10 * SECOND, Some(ERROR_MAX));
    let group_time = BEGIN + 10 * SECOND + most;
    let mut receive = |ns| event(&mut clocks, &name("orders"), &hybrid_of(ns), &mine);
    let Err(ClockError::Ahead(ahead)) = receive(group_time + most + SECOND) else { panic!() };
    assert_eq!(ahead.units, 65_536);
    let stamp = receive(group_time + most).expect("it may be true");
    let Stamp::Hybrid(stamp) = stamp else { panic!("{stamp:?}") };
    assert_eq!(stamp.time.c(), 1);
}

/// An earlier life of the member received a stamp that was made up, as late as may be, when it was as far ahead as may
/// be; and this one is as far behind. A new process has no clock of that name, and a new life has the same one.
#[test]
fn a_new_life_gives_no_hybrid_stamp_that_is_earlier_than_one_of_the_life_before() {
    let most = i64::try_from(ERROR_MAX.as_nanos()).expect("short");
    let begun = 10 * SECOND;
    for is_another_process in [false, true] {
        let mut clocks = clocks();
        let hybrid = name("Hybrid");
        let before = at(begun + most, Some(ERROR_MAX));
        let last = event(&mut clocks, &hybrid, &hybrid_of(BEGIN + begun + 3 * most), &before);
        let last = last.expect("it is received");
        if is_another_process {
            clocks = Clocks::new("shop-0");
        }
        let mut refused = 0;
        // Its raw clock may be slow by as much as clocks may be, and group time fast.
        for millis in 0..4_000 {
            let passed = millis * 1_000_000;
            let mut now = at(begun + passed, Some(ERROR_MAX));
            now.reading.now_ns = BEGIN + begun + passed * 97 / 100 - most;
            now.life = LocalTime(begun.unsigned_abs());
            match tick(&mut clocks, Kind::Hybrid, &now) {
                Ok(first) => {
                    let Stamp::Hybrid(stamp) = &first else { panic!("{first:?}") };
                    assert_eq!(last.compare(&first), Some(Order::Before), "after {millis} ms");
                    assert_eq!(stamp.time.c(), 0, "it is its own time, after {millis} ms");
                    break;
                }
                Err(error) => assert_eq!(error, ClockError::TimeUnknown(TOO_YOUNG)),
            }
            refused = millis;
        }
        assert!((2_000..2_200).contains(&refused), "{refused} ms");
    }
}

/// The group was made anew, by wall clocks that are an hour behind.
#[test]
fn a_hybrid_clock_that_is_later_than_group_time_may_be_waits_for_it() {
    let mut clocks = clocks();
    let hybrid = name("Hybrid");
    let last = tick(&mut clocks, Kind::Hybrid, &at(3_600 * SECOND, Some(ERROR_MAX)));
    let last = last.expect("a stamp");
    for behind in [3_500 * SECOND, SECOND + 100_000] {
        let back = at(3_600 * SECOND - behind, Some(ERROR_MAX));
        let sent = hybrid_of(back.reading.now_ns);
        for one in [Event::Tick(None), sent] {
            let refused = event(&mut clocks, &hybrid, &one, &back);
            assert_eq!(refused, Err(ClockError::TimeUnknown(TOO_LATE)), "{behind} ns behind");
        }
        assert_eq!(clocks.latest(&hybrid).map(|latest| latest.stamp), Some(last.clone()));
    }
    let other = event(&mut clocks, &name("other"), &Event::Tick(Some(Kind::Hybrid)), &later());
    assert!(other.is_ok(), "a clock that begins has no such stamp: {other:?}");
    let back = at(3_599 * SECOND, Some(ERROR_MAX));
    let next = event(&mut clocks, &hybrid, &Event::Tick(None), &back).expect("within the bound");
    assert_eq!(last.compare(&next), Some(Order::Before));
}

#[test]
fn two_names_of_one_pod_give_no_stamp_twice_and_show_no_order_that_is_not_there() {
    let mut clocks = clocks();
    for kind in Kind::ALL {
        let mut of = |other: &str, what| event(&mut clocks, &name(other), &what, &later());
        let kinds = || Event::Tick(Some(kind));
        let (a, b) =
            (of(&format!("a{}", kind.name()), kinds()), of(&format!("b{}", kind.name()), kinds()));
        let (a, b) = (a.expect("a stamp"), b.expect("a stamp"));
        let order = a.compare(&b).expect("of one kind");
        assert_ne!(order, Order::Equal, "{a:?} {b:?}");
        assert_eq!(order == Order::Concurrent, kind.is_exact(), "{a:?} {b:?}");
        let next = of(&format!("b{}", kind.name()), Event::Receive(a.clone())).expect("a stamp");
        assert_eq!(a.compare(&next), Some(Order::Before));
        assert_eq!(b.compare(&next), Some(Order::Before));
    }
}

#[test]
fn the_process_of_a_clock_is_one_of_its_pod_and_long_names_fit() {
    let of = |pod: &str, clock: &str| {
        let mut clocks = Clocks::new(pod);
        let lamport = Event::Tick(Some(Kind::Lamport));
        clocks.event(&name(clock), &lamport, &later()).expect("a stamp").process.to_string()
    };
    assert!(of("shop-0", "orders").starts_with("shop-0/"));
    assert_ne!(of("shop-0", "orders"), of("shop-0", "orders"), "of two lives of a sidecar");
    assert!(of(&"p".repeat(253), "orders").len() <= ProcessId::BYTES_MAX);
    assert!(of("a\nb", "orders").starts_with("ab/"));
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
    let exhausted = event(&mut clocks, &name("l"), &receive, &later());
    assert!(matches!(exhausted, Err(ClockError::Exhausted(_))), "{exhausted:?}");
    let begun = clocks.event(&name("v"), &Event::Tick(Some(Kind::Vector)), &later());
    let mine = begun.expect("a stamp").process;
    let stamp = vector::Stamp::new([(mine, Count::MAX)]).expect("one");
    let untrue = event(&mut clocks, &name("v"), &Event::Receive(Stamp::Vector(stamp)), &later());
    assert!(matches!(untrue, Err(ClockError::Untrue(_))), "{untrue:?}");
}

//! Readers beside a writer, on several threads.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Piece, Reader, Reading, Stated, Status, Words, Writer, raw_clock};

/// The rate changes by 1,000 parts per million every few milliseconds, and the other words change all the time. No reader
/// sees a time before one that was seen by another before, and none sees words of two publications.
#[test]
fn time_never_goes_back_among_readers_and_no_words_are_torn() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("clock");
    let mut writer = Writer::create(&path).unwrap();
    writer.publish(&marked(Words { a: start(), ..Words::UNKNOWN }, 1)).unwrap();
    let (latest, is_over) = (AtomicI64::new(i64::MIN), AtomicBool::new(false));
    let seen = thread::scope(|scope| {
        let readers = [(); 2]
            .map(|()| scope.spawn(|| read_until(&Reader::open(&path).unwrap(), &latest, &is_over)));
        let changes = change_for(Duration::from_secs(2), &mut writer);
        is_over.store(true, Relaxed);
        assert!(changes > 20, "the course changed {changes} times alone");
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(seen.iter().all(|seen| *seen > 1_000), "{seen:?} readings alone were of whole words");
}

/// Gives how many readings were made of whole words.
fn read_until(reader: &Reader, latest: &AtomicI64, is_over: &AtomicBool) -> u64 {
    let mut seen = 0;
    while !is_over.load(Relaxed) {
        let before = latest.load(Acquire);
        let reading = reader.now();
        if reading.status == Status::Unknown {
            // The writer was not given a processor while the sequence was odd.
            continue;
        }
        assert!(reading.time_ns >= before, "{before} was seen, and then {reading:?}");
        latest.fetch_max(reading.time_ns, AcqRel);
        let number = reading.epoch;
        let marks = marked(Words::UNKNOWN, number).at(reading.raw);
        let Reading { time_ns, earliest_ns, latest_ns, .. } = reading;
        assert_eq!(reading, Reading { time_ns, earliest_ns, latest_ns, ..marks });
        if let Some(words) = reader.words() {
            let whole = Words { a: words.a, b: words.b, c: words.c, ..marked(words, words.epoch) };
            assert_eq!(words, whole);
        }
        seen += 1;
    }
    seen
}

/// Gives how often the course changed.
fn change_for(time: Duration, writer: &mut Writer) -> u64 {
    let begin = Instant::now();
    let (mut number, mut changes, mut rate) = (1, 0, RATE);
    while begin.elapsed() < time {
        number += 1;
        let mut words = marked(*writer.published(), number);
        let now = raw_clock();
        if words.b.raw == u64::MAX || now >= words.b.raw {
            if words.b.raw != u64::MAX {
                words.a = words.b;
            }
            let raw = now + Writer::PLAN_NS;
            words.b = Piece { raw, ns: words.a.at(raw), rate };
        }
        let is_change = words.b != writer.published().b;
        if writer.publish(&words).is_ok() && is_change {
            rate = -rate;
            changes += 1;
        }
        // Readers find whole words in between.
        for _ in 0..20 {
            spin_loop();
        }
    }
    changes
}

/// Words that all follow from one number, but for the course.
fn marked(words: Words, number: u64) -> Words {
    let small = u32::try_from(number % 1_000_000).unwrap();
    Words {
        bound_raw: u64::MAX - number,
        bound_ns: number,
        growth: (number * 5).cast_signed(),
        later_raw: u64::MAX - number * 3,
        later_growth: -(number * 7).cast_signed(),
        stale_after_raw: u64::MAX - number * 11,
        void_after_raw: u64::MAX - number * 13,
        status: Stated::Synchronised,
        epoch: number,
        members: small,
        used: !small,
        max_drift_ppb: number * 17,
        wander_ppb: number * 19,
        utc_offset_ns: -(number * 23).cast_signed(),
        utc_bound_ns: number * 29,
        clock_domain: !number,
        ..words
    }
}

fn start() -> Piece {
    Piece { raw: raw_clock(), ns: 1_700_000_000_000_000_000, rate: 0 }
}

/// 500 parts per million.
const RATE: i64 = (1 << 48) / 2_000;

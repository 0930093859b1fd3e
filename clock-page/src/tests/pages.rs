//! A writer and its readers on one page.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use tempfile::TempDir;

use crate::layout::header;
use crate::{OpenError, Piece, Reader, Refused, SIZE, Stated, Status, Words, Writer, raw_clock};

/// A rate of 500 parts per million.
const FAST: i64 = (1 << 48) / 2_000;

#[test]
fn what_is_published_is_read() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.now().status, Status::Unknown);
    writer.publish(&stated()).unwrap();
    let words = reader.words().unwrap();
    assert_eq!(words, *writer.published());
    assert_eq!(words, Words { published_raw: words.published_raw, ..stated() });
    let before = raw_clock();
    let now = reader.now();
    assert!(before <= now.raw && now.raw <= raw_clock());
    assert_eq!(now, words.at(now.raw));
    assert_eq!(now.status, Status::Synchronised);
}

#[test]
fn a_page_is_for_all_to_read_and_has_the_length_of_its_layout() {
    let (_directory, path) = place();
    let _writer = Writer::create(&path).unwrap();
    let data = fs::metadata(&path).unwrap();
    assert_eq!(data.len(), SIZE as u64);
    assert_eq!(data.permissions().mode() & 0o777, 0o644);
    let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
}

#[test]
fn words_that_change_while_they_are_read_are_read_again() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    writer.publish(&Words { epoch: 1, ..stated() }).unwrap();
    let (mut times, mut publish) =
        (0, |epoch| writer.publish(&Words { epoch, ..stated() }).unwrap());
    let before = || {
        times += 1;
        if times < 3 {
            publish(1 + times);
        }
        times
    };
    let read = reader.section(before, |words, times| (words.epoch, times));
    assert_eq!(read, Some((3, 3)));
    let mut times = 0;
    let after = |words: &Words, ()| {
        times += 1;
        if times < 3 {
            publish(9);
        }
        (words.epoch, times)
    };
    assert_eq!(reader.section(|| (), after), Some((9, 3)));
}

#[test]
fn a_reader_does_not_wait_for_ever() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    writer.publish(&stated()).unwrap();
    let reader = Reader::open(&path).unwrap();
    let mut tries = 0;
    let meanwhile = || {
        tries += 1;
        writer.publish(&stated()).unwrap();
    };
    let read = reader.section(meanwhile, |_, ()| ());
    assert_eq!((read, tries), (None, Reader::TRIES));
    for sequence in [0, 1, 9] {
        set(&path, 16, &u64::to_le_bytes(sequence));
        assert_eq!(reader.words(), None);
        let now = reader.now();
        assert_eq!((now.status, now.time_ns, now.error_ns), (Status::Unknown, 0, u64::MAX));
    }
}

#[test]
fn a_writer_that_begins_anew_goes_on_with_the_page() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    writer.publish(&Words { epoch: 5, ..stated() }).unwrap();
    let (file, sequence) = (fs::metadata(&path).unwrap().ino(), sequence(&path));
    drop(writer);
    let mut writer = Writer::create(&path).unwrap();
    assert_eq!(writer.published().epoch, 5);
    assert_eq!(reader.words().unwrap().epoch, 5, "what was published is still in force");
    writer.publish(&Words { epoch: 6, ..stated() }).unwrap();
    assert_eq!(reader.words().unwrap().epoch, 6);
    assert_eq!(fs::metadata(&path).unwrap().ino(), file);
    assert_eq!(self::sequence(&path), sequence + 2);
}

#[test]
fn half_of_what_a_writer_left_is_not_read() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    writer.publish(&stated()).unwrap();
    set(&path, 16, &u64::to_le_bytes(1_001));
    let reader = Reader::open(&path).unwrap();
    let writer = Writer::create(&path).unwrap();
    assert_eq!(*writer.published(), Words::UNKNOWN);
    assert_eq!(reader.words(), Some(Words::UNKNOWN));
    assert_eq!(sequence(&path), 1_002);
}

#[test]
fn what_is_no_page_of_this_layout_is_replaced_and_not_changed() {
    let (_directory, path) = place();
    drop(Writer::create(&path).unwrap());
    let page = fs::read(&path).unwrap();
    let other = |at: usize, bytes: &[u8]| {
        let mut page = page.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        page
    };
    let longer = [&page[..], &[0]].concat();
    for bytes in
        [other(0, b"X"), other(8, &[1]), other(12, &[2]), other(14, &[2]), vec![1; 100], longer]
    {
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        let before = path.with_file_name("before");
        let _ = fs::remove_file(&before);
        fs::hard_link(&path, &before).unwrap();
        let mut writer = Writer::create(&path).unwrap();
        writer.publish(&stated()).unwrap();
        assert_eq!(fs::read(&before).unwrap(), bytes);
        assert_eq!(Reader::open(&path).unwrap().now().status, Status::Synchronised);
    }
}

#[test]
fn a_link_at_the_path_is_replaced_and_not_followed() {
    let (directory, path) = place();
    let target = directory.path().join("target");
    drop(Writer::create(&target).unwrap());
    symlink(&target, &path).unwrap();
    Writer::create(&path).unwrap().publish(&stated()).unwrap();
    assert_eq!(Reader::open(&target).unwrap().words(), Some(Words::UNKNOWN));
    assert_eq!(Reader::open(&path).unwrap().now().status, Status::Synchronised);
}

#[test]
fn what_is_no_page_of_this_layout_is_not_opened() {
    let (_directory, path) = place();
    assert!(matches!(Reader::open(&path), Err(OpenError::Io(_))));
    fs::write(&path, "").unwrap();
    assert!(matches!(Reader::open(&path), Err(OpenError::Short)));
    fs::write(&path, vec![0; SIZE - 1]).unwrap();
    assert!(matches!(Reader::open(&path), Err(OpenError::Short)));
    fs::write(&path, vec![0; SIZE]).unwrap();
    assert!(matches!(Reader::open(&path), Err(OpenError::Foreign)));
    set(&path, 0, b"CNCLVCLK");
    set(&path, 8, &(header(0) | 2 << 48).to_le_bytes());
    assert!(matches!(Reader::open(&path), Err(OpenError::Foreign)));
    set(&path, 8, &header(0).to_le_bytes());
    set(&path, 12, &[2]);
    assert!(matches!(Reader::open(&path), Err(OpenError::OtherLayout(2))));
}

#[test]
fn a_clock_with_an_injected_fault_is_read_by_those_alone_that_ask_for_it() {
    let (_directory, path) = place();
    let mut writer = Writer::create_with_fault(&path, || 77).unwrap();
    writer.publish(&stated()).unwrap();
    assert!(matches!(Reader::open(&path), Err(OpenError::InjectedFault)));
    let asked = Reader::open_even_with_fault(&path).unwrap();
    assert_eq!(asked.words().unwrap().published_raw, 77);
    // A writer with a sound clock goes on with the page, and those that asked for the other see that it is over.
    let mut writer = Writer::create(&path).unwrap();
    assert_eq!(*writer.published(), Words::UNKNOWN);
    writer.publish(&stated()).unwrap();
    let sound = Reader::open(&path).unwrap();
    assert_eq!((sound.now().status, asked.words()), (Status::Synchronised, None));
    // And the other way round.
    let mut writer = Writer::create_with_fault(&path, || 78).unwrap();
    writer.publish(&stated()).unwrap();
    assert_eq!((sound.now().status, sound.words()), (Status::Unknown, None));
}

#[test]
fn a_course_that_changes_too_soon_is_refused_and_the_old_one_stays() {
    let (_directory, path) = place();
    let clock = Arc::new(AtomicU64::new(0));
    let mut writer = {
        let clock = Arc::clone(&clock);
        Writer::create_with_fault(&path, move || clock.load(SeqCst)).unwrap()
    };
    let reader = Reader::open_even_with_fault(&path).unwrap();
    writer.publish(&stated()).unwrap();
    let planned = 1_000_000_000;
    let change = planned + Writer::PLAN_NS;
    let next = then(&stated(), change, FAST);
    // The latest reading at which it may still be published, and the one after.
    clock.store(change - Writer::MARGIN_NS + 1, SeqCst);
    let late = Refused::TooLate { now_raw: change - Writer::MARGIN_NS + 1 };
    assert_eq!(writer.publish(&next), Err(late));
    assert_eq!(reader.words(), Some(*writer.published()));
    assert_eq!(writer.published().b.raw, u64::MAX);
    clock.store(change - Writer::MARGIN_NS, SeqCst);
    writer.publish(&next).unwrap();
    assert_eq!(reader.words().unwrap().b, next.b);
    // The same course with other words is published at any time, and once the change is over without the piece before.
    clock.store(change - 1, SeqCst);
    writer.publish(&Words { epoch: 9, ..next }).unwrap();
    clock.store(change, SeqCst);
    writer.publish(&Words { a: next.b, b: Words::UNKNOWN.b, ..next }).unwrap();
    // A change that was planned and has not begun may be followed by another.
    let (second, third) = (change + 2 * Writer::MARGIN_NS, change + 3 * Writer::MARGIN_NS);
    let next = then(writer.published(), second, -FAST);
    writer.publish(&next).unwrap();
    clock.store(second - 10, SeqCst);
    let c = Piece { raw: third, ns: next.b.at(third), rate: 0 };
    writer.publish(&Words { c, ..next }).unwrap();
    let without = Words { b: c, c: Words::UNKNOWN.c, ..next };
    assert!(matches!(writer.publish(&without), Err(Refused::TooLate { .. })));
}

/// Otherwise a writer could be held up after the check, and readers would go on with the words before it.
#[test]
fn the_sequence_is_odd_while_a_course_is_checked() {
    let (_directory, path) = place();
    let checked = Arc::new(AtomicU64::new(0));
    let mut writer = {
        let (checked, clocked) = (Arc::clone(&checked), path.clone());
        Writer::create_with_fault(&path, move || {
            checked.store(sequence(&clocked), SeqCst);
            0
        })
        .unwrap()
    };
    writer.publish(&stated()).unwrap();
    assert_eq!((checked.load(SeqCst), sequence(&path)), (3, 4));
}

#[test]
fn after_a_page_that_states_nothing_the_course_may_be_any() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    let other = Words { a: Piece { raw: 0, ns: 5_000, rate: 0 }, ..stated() };
    writer.publish(&stated()).unwrap();
    assert!(matches!(writer.publish(&other), Err(Refused::TooLate { .. })));
    writer.publish(&Words { status: Stated::Unknown, ..other }).unwrap();
    writer.publish(&other).unwrap();
}

#[test]
fn words_that_state_nothing_keep_the_latest_time_that_was_seen_until_it_would_be_void() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    assert_eq!(writer.published().latest_seen(raw_clock()), None);
    let void = raw_clock() + 3_600_000_000_000;
    let words = Words { void_after_raw: void, ..stated() };
    writer.publish(&words).unwrap();
    let before = words.at(raw_clock()).time_ns;
    for _ in 0..2 {
        writer.publish(&Words { clock_domain: words.clock_domain, ..Words::UNKNOWN }).unwrap();
        drop(writer);
        writer = Writer::create(&path).unwrap();
        let seen = writer.published().latest_seen(void).expect("it is not void");
        assert!((before..=words.at(raw_clock()).time_ns).contains(&seen));
        assert_eq!(writer.published().latest_seen(void + 1), None);
        assert_eq!(Reader::open(&path).unwrap().now().status, Status::Unknown);
    }
    let other = words.clock_domain + 1;
    writer.publish(&Words { clock_domain: other, ..Words::UNKNOWN }).unwrap();
    assert_eq!(writer.published().latest_seen(void), None, "it is of another clock");
}

#[test]
fn a_course_on_which_time_falls_is_refused() {
    let (_directory, path) = place();
    let mut writer = Writer::create(&path).unwrap();
    let backwards = Piece { raw: 0, ns: 0, rate: -(1 << 48) - 1 };
    assert_eq!(writer.publish(&Words { a: backwards, ..stated() }), Err(Refused::GoesBack));
    let change = raw_clock() + 3_600_000_000_000;
    let mut step = then(&stated(), change, 0);
    step.b.ns -= 1;
    writer.publish(&step).unwrap();
    step.b.ns -= 1;
    assert_eq!(writer.publish(&step), Err(Refused::GoesBack));
    step.b = Piece { raw: change, ..backwards };
    assert_eq!(writer.publish(&step), Err(Refused::GoesBack));
}

/// The course of some words until a reading of the raw clock, and from then on one with another rate.
fn then(words: &Words, raw: u64, rate: i64) -> Words {
    let a = words.course().piece(raw);
    Words { a, b: Piece { raw, ns: a.at(raw), rate }, c: Words::UNKNOWN.c, ..*words }
}

fn stated() -> Words {
    Words {
        bound_ns: 100,
        stale_after_raw: u64::MAX,
        void_after_raw: u64::MAX,
        status: Stated::Synchronised,
        ..Words::UNKNOWN
    }
}

fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("clock");
    (directory, path)
}

/// Writes some bytes into the file, which stays the same file.
fn set(path: &PathBuf, at: usize, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

fn sequence(path: &PathBuf) -> u64 {
    let page = fs::read(path).unwrap();
    u64::from_le_bytes(page[16..24].try_into().unwrap())
}

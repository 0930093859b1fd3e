//! Logs of nodes that are none, with sidecars that only say that they promise.

use conclave_protocols::trace::{Event, What};
use conclave_protocols::{Epoch, Incarnation, PodUid};

use super::*;

fn member(number: u128) -> Incarnation {
    Incarnation { pod: PodUid(number), run: 0 }
}

/// A line of a log file, as the runtime writes it.
fn record(pod: u128, number: u64) -> String {
    let (who, at) = (member(pod), LocalTime(number));
    let what = What::Did(Event::Refused(Epoch(number)));
    let message = serde_json::to_string(&Line { who, number, at, what }).unwrap();
    let record = serde_json::json!({"message": message, "target": "conclave::trace"});
    format!("2026-01-01T00:00:00.0Z stdout F {record}\n")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

fn numbers(logs: &Logs) -> Vec<(u128, u64)> {
    logs.found.lines.iter().map(|line| (line.who.pod.0, line.number)).collect()
}

#[test]
fn files_are_read_to_their_end_though_they_are_renamed_or_removed() {
    let node = tempfile::tempdir().unwrap();
    let pod = |name: &str| node.path().join(name).join("conclave");
    write(&pod("test_old_0").join("0.log"), &record(9, 0));
    let mut logs = Logs::new(vec![node.path().to_owned()], "test").unwrap();
    let (one, two) = (pod("test_a_1").join("0.log"), pod("test_b_2").join("0.log"));
    write(&one, &record(1, 0));
    write(&two, &record(2, 0));
    write(&pod("other_c_3").join("0.log"), &record(3, 0));
    write(&pod("test_old_0").join("0.log"), &record(9, 1));
    logs.look().unwrap();
    assert_eq!(numbers(&logs).len(), 2);

    write(&one, &record(1, 1));
    fs::rename(&one, one.with_extension("log.20260101-000000")).unwrap();
    write(&one, &record(1, 2));
    write(&two, &record(2, 1));
    fs::remove_dir_all(pod("test_b_2")).unwrap();
    logs.look().unwrap();
    let mut numbers = numbers(&logs);
    numbers.sort_unstable();
    assert_eq!(numbers, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]);
    assert_eq!(logs.found.broken, 0);
}

#[test]
fn a_record_may_come_in_parts_and_other_records_are_passed_over() {
    let node = tempfile::tempdir().unwrap();
    let log = node.path().join("test_a_1/conclave/0.log");
    let mut logs = Logs::new(vec![node.path().to_owned()], "test").unwrap();
    let whole = record(1, 0);
    let (first, second) = whole.split_at(80);
    write(&log, "2026-01-01T00:00:00.0Z stdout F {\"message\":\"view\"}\n");
    write(&log, &first.replace(" F ", " P "));
    logs.look().unwrap();
    assert_eq!(numbers(&logs), []);
    write(&log, &format!("\n2026-01-01T00:00:00.0Z stdout F {second}"));
    logs.look().unwrap();
    assert_eq!(numbers(&logs), [(1, 0)]);
    write(&log, "2026-01-01T00:00:00.0Z stdout F {\"target\":\"conclave::trace\",\"mess\n");
    logs.look().unwrap();
    assert_eq!(logs.found.broken, 1);
}

#[test]
fn what_is_no_run_of_the_rules_or_not_all_or_too_little_fails() {
    let found = |events: Vec<(u64, Event<LocalTime>)>| {
        let line = |(number, event)| Line {
            who: member(1),
            number,
            at: LocalTime(number),
            what: What::Did(event),
        };
        Found { lines: events.into_iter().map(line).collect(), broken: 0 }
    };
    let evidence = tempfile::tempdir().unwrap();
    let check = |found: Found, end| {
        let checked = found.check(LocalTime(end), evidence.path());
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let enough = || (0..FLOOR).map(|number| (number, Event::LeadsNot)).collect::<Vec<_>>();
    assert_eq!(check(found(enough()), FLOOR), "");
    assert!(check(found(enough()), FLOOR / 2).contains("shows nothing"));
    let mut lost = enough();
    lost.remove(7);
    assert!(check(found(lost), FLOOR).contains("1 lines are lost"));
    let mut wrong = enough();
    wrong[100].1 = Event::Promised(Epoch(1));
    assert!(check(found(wrong), FLOOR).contains("rule 8"));
    let kept = fs::read_to_string(evidence.path().join("trace.txt")).unwrap();
    assert!(kept.contains("Promised(Epoch(1))"));
    assert!(check(Found { broken: 1, ..found(enough()) }, FLOOR).contains("lost"));
}

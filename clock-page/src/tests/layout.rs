//! One layout in the crate, the document and the readers in other languages.

use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;

use crate::{FIELDS, LAYOUT, MAGIC, Piece, Reader, SIZE, Stated, Words};

#[test]
fn each_word_is_read_from_the_offset_of_its_name() {
    let mut page = vec![0; SIZE];
    let mut set = |name, bytes: &[u8]| {
        let (_, at) = FIELDS.into_iter().find(|field| field.0 == name).unwrap();
        page[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for (number, (name, _)) in (0_u64..).zip(FIELDS) {
        set(name, &number.to_le_bytes()[..if ["members", "used"].contains(&name) { 4 } else { 8 }]);
    }
    set("magic", &MAGIC);
    set("size", &u32::try_from(SIZE).unwrap().to_le_bytes());
    set("layout", &LAYOUT.to_le_bytes());
    set("flags", &[0, 0]);
    set("seq", &2_u64.to_le_bytes());
    set("status", &2_u64.to_le_bytes());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("clock");
    fs::write(&path, page).unwrap();
    let words = Words {
        a: Piece { raw: 5, ns: 6, rate: 7 },
        b: Piece { raw: 8, ns: 9, rate: 10 },
        c: Piece { raw: 11, ns: 12, rate: 13 },
        bound_raw: 14,
        bound_ns: 15,
        growth: 16,
        later_raw: 17,
        later_growth: 18,
        stale_after_raw: 19,
        void_after_raw: 20,
        status: Stated::Disrupted,
        epoch: 22,
        members: 23,
        used: 24,
        max_drift_ppb: 25,
        wander_ppb: 26,
        utc_offset_ns: 27,
        utc_bound_ns: 28,
        clock_domain: 29,
        published_raw: 30,
    };
    assert_eq!(Reader::open(path).unwrap().words(), Some(words));
    assert_eq!(Words::of_payload(&words.payload()), words);
}

#[test]
fn the_document_has_every_offset() {
    let text = include_str!("../../README.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let documented = rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        let at: usize = cells.next()?.parse().ok()?;
        Some((cells.next()?.trim_matches('`'), at))
    });
    assert_eq!(documented.collect::<Vec<_>>(), FIELDS);
}

#[test]
fn the_header_in_c_has_every_offset() {
    let text = include_str!("../../c/conclave_clock.h");
    let defined: BTreeMap<String, usize> = text
        .split("CONCLAVE_AT_")
        .filter_map(|rest| rest.split_once(" = "))
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .map(|(name, rest)| (name.to_lowercase(), number(rest)))
        .collect();
    assert_eq!(defined, FIELDS.map(|(name, at)| (name.to_owned(), at)).into());
}

#[test]
fn the_package_in_go_has_the_same_offsets() {
    let text = include_str!("../../go/conclaveclock.go");
    let lines = text.lines().filter_map(|line| line.strip_prefix("\tat"));
    let defined: Vec<(String, usize)> = lines
        .filter_map(|line| line.split_once("= "))
        .map(|(name, rest)| (name.trim().to_lowercase(), number(rest)))
        .collect();
    assert!(defined.len() > 15, "{defined:?}");
    for (name, at) in defined {
        let is_same = |field: &(&str, usize)| field.0.replace('_', "") == name && field.1 == at;
        assert!(FIELDS.iter().any(is_same), "{name} = {at}");
    }
}

/// The digits with which a text begins.
fn number(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap()
}

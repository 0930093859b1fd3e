//! Seeds that chance has changed go through their targets, the same ones in every run. What is far from any
//! seed only the engine finds (`cargo xtask fuzz`), which is guided by what an input reaches. Each target gets as
//! many as it tries in some seconds.

use std::ops::Range;

use conclave_fuzz::{named, seeds};
use conclave_protocols::random::Random;

/// Words of the formats that are read, and numbers at the edges.
const DICTIONARIES: [&[u8]; 8] = [
    b"\r\n\r\n",
    b"null",
    b"-1",
    b"18446744073709551616",
    b"\"\\u0000\"",
    b"{}",
    b"\xff\xff\xff\xff",
    b"\0",
];

#[test]
fn no_changed_body_is_a_finding() {
    none_is_a_finding("bodies", 20_000);
}

#[test]
fn no_changed_beacon_is_a_finding() {
    none_is_a_finding("beacon", 100_000);
}

#[test]
fn no_changed_frame_is_a_finding() {
    none_is_a_finding("frame", 25_000);
}

#[test]
fn no_changed_handshake_is_a_finding() {
    none_is_a_finding("handshake", 25_000);
}

#[test]
fn no_changed_request_is_a_finding() {
    none_is_a_finding("http", 10_000);
}

#[test]
fn no_changed_identity_is_a_finding() {
    none_is_a_finding("identity", 200_000);
}

#[test]
fn no_changed_lease_is_a_finding() {
    none_is_a_finding("lease", 20_000);
}

#[test]
fn no_changed_manifest_is_a_finding() {
    none_is_a_finding("manifest", 500);
}

#[test]
fn no_changed_review_is_a_finding() {
    none_is_a_finding("review", 20_000);
}

fn none_is_a_finding(target: &str, inputs: u64) {
    let run = named(target).expect("a target").run;
    let seeds: Vec<_> =
        seeds::of(target).expect("seeds").into_iter().map(|(_, seed)| seed).collect();
    for number in 0..inputs {
        let input = changed(&seeds, &mut Random::new(number));
        let _shown = ShownInPanic(&input);
        run(&input);
    }
}

/// Prints an input that is a finding.
struct ShownInPanic<'a>(&'a [u8]);

impl Drop for ShownInPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: {}", self.0.escape_ascii());
        }
    }
}

/// One of the seeds after one to four changes.
fn changed(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = one_of(seeds, random).clone();
    for _ in 0..=random.up_to(4) {
        change(&mut input, seeds, random);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let part = part_of(input.len(), random);
    match random.up_to(6) {
        0 => {
            if let Some(byte) = input.get_mut(part.start) {
                *byte ^= 1 << random.up_to(8);
            }
        }
        1 => input.truncate(part.start),
        2 => drop(input.drain(part)),
        3 => {
            let again = input[part.clone()].to_vec();
            drop(input.splice(part.end..part.end, again));
        }
        4 => drop(input.splice(part, one_of(&DICTIONARIES, random).iter().copied())),
        _ => {
            let other = one_of(seeds, random);
            let of_other = part_of(other.len(), random);
            drop(input.splice(part, other[of_other].iter().copied()));
        }
    }
}

/// Some bytes of so many, which may be none.
fn part_of(length: usize, random: &mut Random) -> Range<usize> {
    let start = index(length + 1, random);
    start..start + index((length - start).min(64) + 1, random)
}

fn one_of<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[index(all.len(), random)]
}

fn index(length: usize, random: &mut Random) -> usize {
    usize::try_from(random.up_to(length as u64)).expect("an index")
}

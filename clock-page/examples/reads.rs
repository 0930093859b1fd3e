//! Measures how long a reading takes beside the raw clock alone.
//!
//! `cargo run --release -p conclave-clock-page --example reads`. What it prints depends on the machine and on what else
//! runs there. With a path as its argument it leaves the page there, for the readers in other languages.

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use conclave_clock_page::{Piece, Reader, Stated, Words, Writer, raw_clock};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let path = match &arguments[..] {
        [path] => Path::new(path).to_owned(),
        _ => env::temp_dir().join(format!("conclave-clock-page-{}", std::process::id())),
    };
    let now = raw_clock();
    let words = Words {
        a: Piece { raw: now, ns: 1_700_000_000_000_000_000, rate: 12_345_678 },
        bound_raw: now,
        bound_ns: 40_000,
        growth: 281_474_976,
        stale_after_raw: u64::MAX,
        void_after_raw: u64::MAX,
        status: Stated::Synchronised,
        ..Words::UNKNOWN
    };
    Writer::create(&path)?.publish(&words)?;
    let reader = Reader::open(&path)?;
    let words = reader.words().ok_or("nothing is published")?;
    let acts: [(&str, &dyn Fn()); 3] = [
        ("the raw clock alone", &|| each(raw_clock)),
        ("Reader::now", &|| each(|| reader.now())),
        ("Words::at", &|| each(|| words.at(black_box(now)))),
    ];
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((_, act), took) in acts.iter().zip(&mut took) {
            let begin = raw_clock();
            act();
            took.push(raw_clock() - begin);
        }
    }
    println!("{:>24} {:>7}", "", "ns each");
    for ((name, _), took) in acts.iter().zip(&mut took) {
        took.sort_unstable();
        let hundredths = took[took.len() / 2] / (TIMES / 100);
        println!("{name:>24} {:>4}.{:02}", hundredths / 100, hundredths % 100);
    }
    if arguments.is_empty() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn each<T>(act: impl Fn() -> T) {
    for _ in 0..TIMES {
        // In its place: a copy of it would be measured too.
        black_box(&act());
    }
}

/// How often each is measured, in turn with the others: the median is printed.
const ROUNDS: usize = 101;

/// How often each is done at a time.
const TIMES: u64 = 100_000;

//! The readers in C, Python and Go make of a page what this crate makes of it.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use conclave_clock_page::{
    FIELDS, LAYOUT, MAGIC, Piece, Reader, Reading, SIZE, Stated, Status, Words, Writer, raw_clock,
};
use tempfile::TempDir;

#[test]
fn the_header_in_c_reads_what_this_crate_reads() -> Outcome {
    for compiler in ["gcc", "clang"] {
        if !is_there(compiler, "--version")? {
            continue;
        }
        let directory = TempDir::new()?;
        let program = directory.path().join("reader");
        let compile = |source: &Path| {
            let mut compile = Command::new(compiler);
            compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]);
            compile.arg(root().join("c")).arg(source).arg("-o").arg(&program);
            output(&mut compile)
        };
        compile(&root().join("tests/readers/reader.c"))?;
        compare(&|| Command::new(&program))?;
        compare_example("c", &|example| {
            compile(example)?;
            output(&mut Command::new(&program))
        })?;
    }
    Ok(())
}

#[test]
fn the_module_in_python_reads_what_this_crate_reads() -> Outcome {
    if !is_there("python3", "--version")? {
        return Ok(());
    }
    let python = |script: &Path| {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        python.arg(script);
        python
    };
    compare(&|| python(&root().join("tests/readers/reader.py")))?;
    compare_example("python", &|example| output(&mut python(example)))
}

#[test]
fn the_package_in_go_reads_what_this_crate_reads() -> Outcome {
    if !is_there("go", "version")? {
        return Ok(());
    }
    let directory = TempDir::new()?;
    let program = directory.path().join("reader");
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(root().join("go"));
        go.env("GOFLAGS", "-mod=mod").env("GOWORK", "off").env("GOTOOLCHAIN", "local");
        go
    };
    output(go().args(["vet", "./..."]))?;
    output(go().args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("./internal/reader"))?;
    compare(&|| Command::new(&program))?;
    compare_example("go", &|example| {
        let module = directory.path().join("example");
        fs::create_dir_all(&module)?;
        fs::copy(example, module.join("main.go"))?;
        let of = root().join("go");
        let text = format!(
            "module example\n\ngo 1.24\n\nrequire conclave.dev/conclaveclock v0.0.0\n\n\
             replace conclave.dev/conclaveclock => {}\n",
            of.display()
        );
        fs::write(module.join("go.mod"), text)?;
        output(go().current_dir(&module).args(["run", "."]))
    })
}

/// The example of the document gives an interval in which both of our readings about it are.
fn compare_example(language: &str, run: &dyn Fn(&Path) -> Outcome<String>) -> Outcome {
    let document = fs::read_to_string(root().join("README.md"))?;
    let begin = format!("```{language}\n");
    let (_, rest) = document.split_once(&begin).ok_or("no example")?;
    let (example, _) = rest.split_once("```").ok_or("an example does not end")?;
    let directory = TempDir::new()?;
    let path = directory.path().join("clock");
    let mut writer = Writer::create(&path)?;
    writer.publish(&words(raw_clock()))?;
    let extension = if language == "python" { "py" } else { language };
    let source = directory.path().join("example").with_extension(extension);
    let path = path.to_str().ok_or("a path is no text")?;
    fs::write(&source, example.replace("/run/conclave/clock/page", path))?;
    let reader = Reader::open(path)?;
    let before = reader.now();
    let shown = run(&source)?;
    let after = reader.now();
    let shown = shown.trim();
    let (earliest, latest): (i64, i64) = (field(shown, 0)?.parse()?, field(shown, 1)?.parse()?);
    assert!(before.earliest_ns <= earliest && earliest <= after.earliest_ns, "{shown}");
    assert!(before.latest_ns <= latest && latest <= after.latest_ns, "{shown}");
    Ok(())
}

fn compare(program: &dyn Fn() -> Command) -> Outcome {
    let directory = TempDir::new()?;
    let path = directory.path().join("clock");
    compare_pages(program, &path)?;
    compare_refusals(program, &path)?;
    compare_unknown(program, &path)?;
    compare_now(program, &path)?;
    compare_beside_a_writer(program, &path)?;
    time_does_not_fall_where_the_course_turns(program, &path)
}

/// Pages with words of all kinds, at readings of the raw clock about each of them.
fn compare_pages(program: &dyn Fn() -> Command, path: &Path) -> Outcome {
    for (number, words) in (0..).zip(pages()) {
        fs::write(path, page(0, 2 + 2 * number, &words))?;
        let near = words.into_iter().flat_map(|word| [word, word.wrapping_add(1)]);
        let raws: Vec<u64> = near.chain([0, 1_000, 1 << 63, u64::MAX]).collect();
        let asked: Vec<String> = raws.iter().map(u64::to_string).collect();
        let shown = output(program().arg(path).arg("sound").args(asked))?;
        let ours = Reader::open(path)?.words().ok_or("no words")?;
        let expected: Vec<String> = raws.iter().map(|raw| line(&ours.at(*raw))).collect();
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "of {ours:#?}");
    }
    Ok(())
}

fn compare_refusals(program: &dyn Fn() -> Command, path: &Path) -> Outcome {
    let good = page(0, 2, &[0; PAYLOAD]);
    let with = |at: usize, byte: u8| {
        let mut page = good.clone();
        page[at] = byte;
        page
    };
    let fault = page(1, 2, &[0; PAYLOAD]);
    let refused = [
        (Vec::new(), "short"),
        (good[..SIZE - 1].to_vec(), "short"),
        (with(0, b'X'), "foreign"),
        (with(8, 1), "foreign"),
        (with(14, 2), "foreign"),
        (with(12, 2), "layout"),
        (fault.clone(), "fault"),
    ];
    for (bytes, reason) in refused {
        fs::write(path, bytes)?;
        assert_eq!(output(program().arg(path).args(["sound", "now"]))?.trim(), reason);
        assert!(Reader::open(path).is_err());
    }
    fs::write(path, fault)?;
    let shown = output(program().arg(path).args(["even-with-fault", "5"]))?;
    let ours = Reader::open_even_with_fault(path)?.words().ok_or("no words")?;
    assert_eq!(shown.trim(), line(&ours.at(5)));
    let none = path.with_file_name("none");
    assert_eq!(output(program().arg(none).args(["sound", "now"]))?.trim(), "io");
    Ok(())
}

fn compare_unknown(program: &dyn Fn() -> Command, path: &Path) -> Outcome {
    for sequence in [0, 1, 77] {
        fs::write(path, page(0, sequence, &[9; PAYLOAD]))?;
        let shown = output(program().arg(path).args(["sound", "5", "now"]))?;
        let (none, now) = shown.trim().split_once('\n').ok_or("one line alone")?;
        assert_eq!(none, "no words");
        let raw = field(now, RAW)?.parse()?;
        assert_eq!(now, line(&Reading { raw, ..Reader::open(path)?.now() }));
    }
    Ok(())
}

/// Each reads the page that a writer keeps, between two readings of ours.
fn compare_now(program: &dyn Fn() -> Command, path: &Path) -> Outcome {
    fs::remove_file(path)?;
    Writer::create(path)?.publish(&words(raw_clock()))?;
    let reader = Reader::open(path)?;
    let before = reader.now();
    let shown = output(program().arg(path).args(["sound", "now", "now"]))?;
    let after = reader.now();
    let mut earlier = before.time_ns;
    for shown in shown.lines() {
        let (time, raw): (i64, u64) = (field(shown, 0)?.parse()?, field(shown, RAW)?.parse()?);
        assert!(before.raw <= raw && raw <= after.raw, "{before:?} {shown} {after:?}");
        assert!(earlier <= time && time <= after.time_ns, "{before:?} {shown} {after:?}");
        assert_eq!(shown, line(&reader.words().ok_or("no words")?.at(raw)));
        earlier = time;
    }
    assert_eq!(shown.lines().count(), 2);
    Ok(())
}

/// Each reads while a writer changes all words but the course again and again: a reading is of one publication.
fn compare_beside_a_writer(program: &dyn Fn() -> Command, path: &Path) -> Outcome {
    fs::remove_file(path)?;
    let mut writer = Writer::create(path)?;
    let (start, mut number, mut seen) = (raw_clock(), 0, BTreeSet::new());
    writer.publish(&marked(start, number))?;
    // A reader may have a processor while the writer has none.
    while seen.len() < 5_000 {
        let shown = path.with_file_name("shown");
        let mut command = program();
        command.arg(path).arg("sound").args(vec!["now"; 5_000]).stdout(File::create(&shown)?);
        let mut reads = command.spawn()?;
        let status = loop {
            for _ in 0..100 {
                number += 1;
                writer.publish(&marked(start, number))?;
            }
            if let Some(status) = reads.try_wait()? {
                break status;
            }
        };
        assert!(status.success(), "{status}");
        for shown in fs::read_to_string(shown)?.lines() {
            let (number, raw) = (field(shown, EPOCH)?.parse()?, field(shown, RAW)?.parse()?);
            // A reading is unknown if the writer had no processor while the sequence was odd.
            if field(shown, STATUS)? != "0" {
                assert_eq!(shown, line(&marked(start, number).at(raw)));
                seen.insert(number);
            }
        }
    }
    Ok(())
}

/// Several processes one after the other read a page whose course turns again and again, five per cent faster and then
/// slower. While words are published time moves on by some 20 µs, so that a smaller fault would not show.
fn time_does_not_fall_where_the_course_turns(
    program: &dyn Fn() -> Command,
    path: &Path,
) -> Outcome {
    fs::remove_file(path)?;
    let mut writer = Writer::create(path)?;
    let course = |a: Piece, turns: u64| {
        let raw = raw_clock() + Writer::PLAN_NS;
        let rate = (1_i64 << 48) / 20 * if turns.is_multiple_of(2) { 1 } else { -1 };
        let b = Piece { raw, ns: a.at(raw), rate };
        let sound = Words { void_after_raw: u64::MAX, ..Words::UNKNOWN };
        Words { a, b, status: Stated::Disrupted, epoch: turns, ..sound }
    };
    let first = Piece { raw: raw_clock(), ns: 1_700_000_000_000_000_000, rate: 0 };
    let mut words = course(first, 0);
    writer.publish(&words)?;
    let (mut latest, mut turns) = (i64::MIN, 0);
    for run in 0.. {
        assert!(run < 500, "{turns} turns seen");
        if turns >= 10 {
            break;
        }
        let shown = path.with_file_name("shown");
        let mut command = program();
        command.arg(path).arg("sound").args(vec!["now"; 20_000]).stdout(File::create(&shown)?);
        let mut reads = command.spawn()?;
        let status = loop {
            if raw_clock() > words.b.raw + Writer::PLAN_NS {
                // Too late, if this process had no processor meanwhile: then once more.
                let next = course(words.b, words.epoch + 1);
                words = if writer.publish(&next).is_ok() { next } else { words };
            }
            if let Some(status) = reads.try_wait()? {
                break status;
            }
        };
        assert!(status.success(), "{status}");
        let mut seen = BTreeSet::new();
        for shown in fs::read_to_string(shown)?.lines() {
            if field(shown, STATUS)? != "0" {
                let time: i64 = field(shown, 0)?.parse()?;
                assert!(time >= latest, "{} ns back: {shown}", latest - time);
                latest = time;
                seen.insert(field(shown, EPOCH)?.to_owned());
            }
        }
        // Those that one process has seen.
        turns += seen.len().saturating_sub(1);
    }
    Ok(())
}

/// Words that all follow from one number, but for the course.
fn marked(start: u64, number: u64) -> Words {
    let small = u32::try_from(number % 1_000_000).expect("small");
    Words {
        a: Piece { raw: start, ns: 1_700_000_000_000_000_000, rate: 0 },
        bound_raw: u64::MAX,
        bound_ns: number,
        void_after_raw: u64::MAX - number,
        status: Stated::Disrupted,
        epoch: number,
        members: small,
        used: !small,
        max_drift_ppb: number * 17,
        wander_ppb: number * 19,
        utc_offset_ns: -(number * 23).cast_signed(),
        utc_bound_ns: number * 29,
        ..Words::UNKNOWN
    }
}

/// What a writer publishes at a reading of its raw clock.
fn words(start: u64) -> Words {
    let rate = |ppm: i64| (1_i64 << 48) / 1_000_000 * ppm;
    let a = Piece { raw: start, ns: 1_700_000_000_000_000_000, rate: rate(-500) };
    let at = start + Writer::PLAN_NS;
    Words {
        a,
        b: Piece { raw: at, ns: a.at(at), rate: rate(200) },
        bound_raw: start,
        bound_ns: 30_000,
        growth: rate(1),
        stale_after_raw: u64::MAX,
        void_after_raw: u64::MAX,
        status: Stated::Synchronised,
        epoch: 3,
        ..Words::UNKNOWN
    }
}

/// The payloads of pages: all distinct, each status, and whatever chance made of them.
fn pages() -> Vec<[u64; PAYLOAD]> {
    let mut pages = Vec::new();
    let second = 1_000_000_000;
    let negative = |number: u64| number.wrapping_neg();
    for status in 0..4 {
        let mut words = [0; PAYLOAD];
        for (word, number) in words.iter_mut().zip(1..) {
            *word = number * second + number;
        }
        // Rates and growths, and what is not negative otherwise.
        for (place, rate) in [(2, 1 << 38), (5, negative(1 << 39)), (8, 3), (11, 1 << 32)] {
            words[place] = rate;
        }
        words[13] = negative(1 << 30);
        words[16] = status;
        words[21] = negative(37 * second);
        pages.push(words);
    }
    let mut state = 5_u64;
    let mut any = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 32 | (state << 17 & !0 << 32);
        [number, number, number >> 24, negative(number >> 24), u64::MAX - (number & 3)]
            [usize::from(state.to_le_bytes()[5]) % 5]
    };
    for status in 0..30 {
        let mut words = [(); PAYLOAD].map(|()| any());
        words[16] = status % 3;
        if status % 2 == 0 {
            words[15] = u64::MAX;
        }
        pages.push(words);
    }
    pages
}

/// A page whose payload begins after the sequence, in the order of the layout.
fn page(flags: u16, sequence: u64, payload: &[u64; PAYLOAD]) -> Vec<u8> {
    let (_, begin) = FIELDS[5];
    let mut page = MAGIC.to_vec();
    page.extend(4096_u32.to_le_bytes());
    page.extend([LAYOUT, flags].map(u16::to_le_bytes).as_flattened());
    page.extend(sequence.to_le_bytes());
    assert_eq!(page.len(), begin);
    page.extend(payload.map(u64::to_le_bytes).as_flattened());
    page.resize(SIZE, 0);
    page
}

/// A reading as all the readers show it.
fn line(reading: &Reading) -> String {
    let status = match reading.status {
        Status::Unknown => 0,
        Status::Synchronised => 1,
        Status::Disrupted => 2,
        Status::Holdover => 3,
    };
    let Reading { time_ns, earliest_ns, latest_ns, error_ns, epoch, raw, members, used, .. } =
        reading;
    let Reading { max_drift_ppb, wander_ppb, utc_offset_ns, utc_bound_ns, .. } = reading;
    format!(
        "{time_ns} {earliest_ns} {latest_ns} {error_ns} {status} {epoch} {raw} {members} {used} \
         {max_drift_ppb} {wander_ppb} {utc_offset_ns} {utc_bound_ns}"
    )
}

/// Whether a program is there. A run of all tests counts what could show nothing (`e2e/testbed/src/skipped.rs`).
fn is_there(program: &str, version: &str) -> Outcome<bool> {
    let is_there = Command::new(program).arg(version).output().is_ok_and(|o| o.status.success());
    if !is_there {
        let what = format!("the readers of the clock page, with {program}: it is not there");
        println!("skipped: {what}");
        if let Some(path) = env::var_os("CONCLAVE_SKIPPED") {
            let mut file = File::options().append(true).create(true).open(path)?;
            writeln!(file, "{what}")?;
        }
    }
    Ok(is_there)
}

fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn field(line: &str, at: usize) -> Outcome<&str> {
    Ok(line.split(' ').nth(at).ok_or("a line is too short")?)
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How many words a payload has.
const PAYLOAD: usize = 25;

/// The place of the status in a line.
const STATUS: usize = 4;

/// The place of the epoch in a line.
const EPOCH: usize = 5;

/// The place of the raw reading in a line.
const RAW: usize = 6;

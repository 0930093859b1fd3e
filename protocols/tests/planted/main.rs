//! Known bugs of other systems, planted into this one: the swarm must find each.
//!
//! Each `NN-what.patch` beside this file begins with a line that states which bug of which system it
//! imitates. That every patch still applies is always tested; that it is found is tested by hand,
//! because the crate is built anew for each:
//!
//! ```sh
//! cargo test -p conclave-protocols --test planted -- --ignored --nocapture
//! ```
//!
//! With `CONCLAVE_PLANTED=08,29` only those with one of these in their names are. Each is looked for a second time with the
//! laws of what applications see left out: the trace of some run must be none that the rules allow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How many seeds a bug may hide from.
const SEEDS: u64 = 2_000;

/// How it begins what a trace did that no rule allows.
const REFUSED: &str = "no step of rule";

/// The root of the checkout.
fn root() -> PathBuf {
    let protocols = Path::new(env!("CARGO_MANIFEST_DIR"));
    protocols.parent().expect("the crate lies in the workspace").to_owned()
}

/// All patches, in the order of their numbers.
fn patches() -> Vec<PathBuf> {
    let folder = root().join("protocols/tests/planted");
    let files = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("read").path());
    let mut patches: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|name| name == "patch")).collect();
    patches.sort();
    patches
}

/// `git apply` in a folder, as if it lay in no repository.
fn apply(folder: &Path, patch: &Path, more: &[&str]) -> Output {
    let above = folder.parent().expect("not the root of all");
    Command::new("git")
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", above)
        .arg("apply")
        .args(more)
        .arg(patch)
        .output()
        .expect("git is there")
}

#[test]
fn every_planted_bug_still_applies_and_says_what_it_imitates() {
    let patches = patches();
    assert!(patches.len() >= 10, "{patches:?}");
    for patch in patches {
        let text = fs::read_to_string(&patch).expect("a text");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.len() > 30 && !first.starts_with("---"), "{}: {first}", patch.display());
        let done = apply(&root(), &patch, &["--check"]);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {why}", patch.display());
    }
}

/// A workspace of this crate alone, in a folder of its own, without the bugs.
fn copy(to: &Path) {
    let from = root();
    let manifest = fs::read_to_string(from.join("Cargo.toml")).expect("a text");
    let alone = |line: &&str| {
        !line.starts_with("default-members")
            && !line.starts_with("conclave-")
            && !line.starts_with("members")
    };
    let manifest: Vec<&str> = manifest.lines().filter(alone).collect();
    let manifest =
        manifest.join("\n").replace("[workspace]\n", "[workspace]\nmembers = [\"protocols\"]\n");
    fs::create_dir_all(to).expect("made");
    fs::write(to.join("Cargo.toml"), manifest).expect("written");
    fs::copy(from.join("Cargo.lock"), to.join("Cargo.lock")).expect("copied");
    copy_folder(&from.join("protocols"), &to.join("protocols"));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("it is there").map(|entry| entry.expect("read")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            // A file that is as it was is not built again.
            let text = fs::read(&from).expect("a file");
            if fs::read(&to).ok().as_ref() != Some(&text) {
                fs::write(&to, text).expect("written");
            }
        }
    }
}

/// What the swarm reports about a copy, by all laws or by traces alone, from this seed on.
fn swarm(copy: &Path, laws: &str, from: u64) -> (bool, String) {
    let done = Command::new(env!("CARGO"))
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env("CONCLAVE_SEEDS", SEEDS.to_string())
        .env("CONCLAVE_LAWS", laws)
        .env("CONCLAVE_FROM", from.to_string())
        .env("RUST_BACKTRACE", "0")
        .args(["test", "--offline", "-p", "conclave-protocols", "--test", "group"])
        .args(["any_faults", "--", "--nocapture"])
        .output()
        .expect("cargo is there");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The seed that found a bug, and what it broke.
fn finding(text: &str) -> Option<(u64, &str)> {
    let seed = text.split("CONCLAVE_SEED=").nth(1)?.split(' ').next()?.parse().ok()?;
    let broken = text.lines().find(|line| line.starts_with("seed "))?;
    Some((seed, broken))
}

/// The first run of a copy whose trace is refused. Nothing else counts, but some runs end before that because
/// somebody waits for too long.
fn refused(copy: &Path) -> Option<String> {
    let mut from = 0;
    while from < SEEDS {
        let (passed, text) = swarm(copy, "traces", from);
        let (seed, broken) = finding(&text).filter(|_| !passed)?;
        if broken.contains(REFUSED) {
            return Some(broken.to_owned());
        }
        from = seed + 1;
    }
    None
}

/// Whether all are wanted, or this one too.
#[expect(clippy::disallowed_methods, reason = "a test may be told what to show")]
fn is_wanted(name: &str) -> bool {
    std::env::var("CONCLAVE_PLANTED")
        .map_or(true, |parts| parts.split(',').any(|part| name.contains(part)))
}

#[test]
#[ignore = "the crate is built anew for each bug"]
fn every_planted_bug_is_found() {
    let folder = root().join("target/planted");
    if folder.exists() {
        // A run that was cut off may have left a bug in what it built.
        fs::remove_dir_all(&folder).expect("removed");
    }
    copy(&folder);
    let (passed, text) = swarm(&folder, "all", 0);
    assert!(passed, "something is found without a bug: {text}");
    let (mut hidden, mut allowed) = (Vec::new(), Vec::new());
    for patch in patches() {
        let name = patch.file_stem().expect("a name").to_string_lossy().into_owned();
        if !is_wanted(&name) {
            continue;
        }
        copy(&folder);
        let done = apply(&folder, &patch, &[]);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let (passed, text) = swarm(&folder, "all", 0);
        assert!(!text.contains("could not compile"), "{name}: {text}");
        let Some((seed, broken)) = finding(&text).filter(|_| !passed) else {
            println!("{name}: not found");
            hidden.push(name);
            continue;
        };
        println!("{name}: {} seeds: {broken}", seed + 1);
        if broken.contains(REFUSED) {
            continue;
        }
        match refused(&folder) {
            Some(broken) => println!("  as a trace: {broken}"),
            None => allowed.push(name),
        }
    }
    println!("no trace of a run with these was refused: {allowed:?}");
    assert!(hidden.is_empty(), "not found in {SEEDS} seeds: {hidden:?}");
}

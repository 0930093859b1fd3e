//! One word for each thing: what the field calls otherwise is found in no identifier of the sources, and in no text
//! that a user reads. `docs/errata.md` says which word stands for which.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use conclave_e2e::cache;

/// Parts of identifiers, in small letters.
const PARTS: &[&str] = &[
    "office", "offices", "gate", "gates", "heir", "heirs", "bequest", "farewell", "desk", "errand",
    "wish", "wishes", "standing", "alarm", "alarms", "ringing", "books", "visit", "visits",
    "whoever", "told", "said", "talk", "talks", "inside",
];

/// Parts that follow each other.
const TOGETHER: &[[&str; 2]] = &[
    ["quiet", "time"],
    ["office", "wait"],
    ["let", "in"],
    ["lets", "in"],
    ["goes", "in"],
    ["gets", "in"],
    ["good", "until"],
];

/// Where each file is read by users as a whole, or is text to them.
const TEXTS: &[&str] = &[
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "clock-page/README.md",
    "crds/conclave.dev_conclaves.yaml",
    "sidecar/openapi.json",
    "charts/conclave",
    "sidecar/src/dev/page",
];

const CRATES: &[&str] = &[
    "protocols",
    "clock-page",
    "sidecar",
    "operator",
    "crds",
    "pods",
    "kubernetes",
    "e2e",
    "fuzz",
];

#[test]
fn identifiers_use_the_words_of_the_field() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(CRATES, &["rs"])? {
        for identifier in identifiers(&code(&fs::read_to_string(&file)?)) {
            seen += 1;
            if is_other_word(&parts(identifier)) {
                found.insert(format!("{}: {identifier}", file.display()));
            }
        }
    }
    ensure!(seen > 100_000, "only {seen} identifiers are there");
    ensure!(found.is_empty(), "other words than the field's: {found:#?}");
    Ok(())
}

#[test]
fn texts_for_users_use_the_words_of_the_field() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(TEXTS, &["md", "yaml", "tpl", "json", "js", "html", "css"])? {
        // It states which word stands for which.
        if file.ends_with("docs/errata.md") {
            continue;
        }
        for line in fs::read_to_string(&file)?.lines() {
            let lower = line.to_lowercase();
            let words: Vec<&str> =
                lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty()).collect();
            seen += words.len();
            if is_other_word(&words) {
                found.insert(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    ensure!(seen > 10_000, "only {seen} words are there");
    ensure!(found.is_empty(), "other words than the field's: {found:#?}");
    Ok(())
}

/// A sentence names its subject: "the member that asks", not "whoever asks"; and a comment says what is sent, reported
/// or notified, not that somebody is told.
#[test]
fn comments_and_documents_name_the_subject() -> Result<()> {
    let mut found = BTreeSet::new();
    for file in files(
        &[CRATES, &["docs", "README.md", "CONTRIBUTING.md", "clock-page/README.md"]].concat(),
        &["rs", "md"],
    )? {
        if file.ends_with(file!()) {
            continue;
        }
        for (number, line) in (1..).zip(fs::read_to_string(&file)?.lines()) {
            let lower = line.to_lowercase();
            let is_comment =
                file.extension().is_some_and(|e| e == "rs") && lower.trim().starts_with("//");
            let other = |word| word == "whoever" || is_comment && word == "told";
            if lower.split(|c: char| !c.is_ascii_alphabetic()).any(other) {
                found.insert(format!("{}:{number}: {}", file.display(), line.trim()));
            }
        }
    }
    ensure!(found.is_empty(), "sentences without a subject: {found:#?}");
    Ok(())
}

/// The core of a member serves whatever hands out holds, and knows none of it. What it imports shows that, and
/// how it names things.
#[test]
fn the_core_names_no_algorithm_and_no_lock() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(&["protocols/src/core.rs", "protocols/src/core"], &["rs"])? {
        for identifier in identifiers(&code(&fs::read_to_string(&file)?)) {
            seen += 1;
            let parts = parts(identifier);
            if parts.iter().any(|part| OF_SERVICES.contains(&part.as_str())) {
                found.insert(format!("{}: {identifier}", file.display()));
            }
        }
    }
    ensure!(seen > 10_000, "only {seen} identifiers are there");
    ensure!(found.is_empty(), "the core names what is of its services: {found:#?}");
    Ok(())
}

/// A suspicion is a guess: nothing that grants, promises, ends or leads asks for it. Named elections do, to nominate.
#[test]
fn only_named_elections_ask_whom_a_member_suspects() -> Result<()> {
    let mut found = BTreeSet::new();
    for file in files(&["protocols/src"], &["rs"])? {
        let asks = identifiers(&code(&fs::read_to_string(&file)?))
            .any(|identifier| ["is_suspected", "suspects"].contains(&identifier));
        if asks {
            found.insert(file.strip_prefix(cache::workspace())?.display().to_string());
        }
    }
    ensure!(found.iter().eq(MAY_ASK), "{found:#?} ask, and these may: {MAY_ASK:#?}");
    Ok(())
}

/// Where whom a member suspects is found out and handed on, and what asks for it.
const MAY_ASK: &[&str] = &[
    "protocols/src/core/detecting.rs",
    "protocols/src/core/service.rs",
    "protocols/src/detection.rs",
    "protocols/src/detection/tests.rs",
    "protocols/src/elections.rs",
    "protocols/src/elections/monitor.rs",
];

/// Parts of identifiers that are of a service, or of an election.
const OF_SERVICES: &[&str] = &[
    "lock",
    "locks",
    "mutex",
    "mutexes",
    "algorithm",
    "algorithms",
    "election",
    "elections",
    "coordinator",
    "central",
    "ring",
    "raymond",
    "lamport",
    "ricart",
    "agrawala",
    "maekawa",
    "voting",
    "bully",
    "berkeley",
];

#[test]
fn an_identifier_is_seen_by_its_parts() {
    let is_other = |identifier| {
        is_other_word(&parts(identifier).iter().map(String::as_str).collect::<Vec<_>>())
    };
    for other in ["office_until", "QuietTime", "is_let_in", "TOLD", "ItsHeir", "whoever_waits"] {
        assert!(is_other(other), "{other}");
    }
    for good in
        ["gateway", "investigate", "quiet", "outstanding", "theirs", "grace_period", "LeaderLease"]
    {
        assert!(!is_other(good), "{good}");
    }
    assert_eq!(
        code("let a = \"office\"; // office\nlet b = '\"'; let c = 1;").trim(),
        "let a = ; \nlet b = ; let c = 1;"
    );
}

fn is_other_word<S: AsRef<str>>(parts: &[S]) -> bool {
    let alone = parts.iter().any(|part| PARTS.contains(&part.as_ref()));
    let together = |pair: &[S]| TOGETHER.contains(&[pair[0].as_ref(), pair[1].as_ref()]);
    alone || parts.windows(2).any(together)
}

fn files(below: &[&str], kinds: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = below.iter().map(|path| cache::workspace().join(path)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                open.push(entry?.path());
            }
        } else if is_of_kind(&path, kinds) {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_of_kind(path: &Path, kinds: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|kind| kinds.contains(&kind))
}

/// Rust without comments, strings and characters.
fn code(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            'r' if is_raw(rest, &code) => raw_string(rest),
            '"' => string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            code.push(first);
        }
        rest = &rest[skipped.max(first.len_utf8())..];
    }
    code
}

fn is_raw(rest: &str, before: &str) -> bool {
    let begins = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    begins && rest[1..].trim_start_matches('#').starts_with('"')
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = 1 + hashes + 1;
    rest[begin..].find(&end).map_or(rest.len(), |place| begin + place + end.len())
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (place, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A lifetime has no end.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    let escaped = characters.next().is_some_and(|(_, c)| c == '\\');
    let end =
        rest.char_indices().skip(if escaped { 3 } else { 2 }).take(if escaped { 9 } else { 1 });
    end.into_iter().find(|(_, c)| *c == '\'').map_or(0, |(place, _)| place + 1)
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The parts of `snake_case`, `CamelCase` and `UPPER_CASE`, in small letters.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_ascii_uppercase() && was_small) {
            parts.push(String::new());
        }
        was_small = !c.is_ascii_uppercase();
        if let (Some(last), true) = (parts.last_mut(), c != '_') {
            last.push(c.to_ascii_lowercase());
        }
    }
    parts
}

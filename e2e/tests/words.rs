//! One word for each thing: what the field calls otherwise is found in no identifier of the sources, and in no text
//! that a user reads. `docs/errata.md` says which word stands for which.

#[path = "words/source.rs"]
mod source;
#[path = "words/subjects.rs"]
mod subjects;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use conclave_testbed::cache;

use source::{code, comments, paragraphs, strings};
use subjects::{bare, is_bare_name};

/// Parts of identifiers, in small letters.
const PARTS: &[&str] = &[
    "office", "offices", "gate", "gates", "heir", "heirs", "bequest", "farewell", "desk", "errand",
    "wish", "wishes", "standing", "alarm", "alarms", "ringing", "books", "visit", "visits",
    "whoever", "told", "untold", "said", "unsaid", "talk", "talks", "talking", "inside", "rang",
    "bell", "bells",
];

/// Parts of names of things: what is sent or stated has a plainer name, which says which of the two. A sentence may
/// have these, and so may a name that is one, as that of a test is.
const OF_SPEECH: &[&str] = &["say", "says", "saying", "spoken", "word", "words"];

/// A name with so many parts is a sentence.
const SENTENCE: usize = 5;

/// What begins the paths of the files that are about words: those of a machine, of a text, of a command, or of the page
/// that explains them.
const ABOUT_WORDS: &[&str] = &[
    "clock-page/",
    "e2e/src/clock_pages",
    "e2e/testbed/src/fuzz.rs",
    "e2e/tests/documents",
    "e2e/tests/page",
    "e2e/tests/words",
    "sidecar/src/clock_page",
    "sidecar/src/group/reading.rs",
    "sidecar/tests/clock_page.rs",
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
    ["timer", "rings"],
    ["alarm", "rings"],
    ["and", "rings"],
    ["rings", "when"],
    ["rings", "for"],
    ["no", "word"],
    ["own", "word"],
    ["its", "word"],
    ["their", "word"],
    ["another", "word"],
    // What "the leader's word" ends with.
    ["s", "word"],
    ["any", "word"],
    ["word", "from"],
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

/// What users see strings of.
const PRODUCT: &[&str] = &[
    "protocols/src",
    "clock-page/src",
    "sidecar/src",
    "operator/src",
    "crds/src",
    "pods/src",
    "kubernetes/src",
];

#[test]
fn identifiers_use_the_words_of_the_field() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(CRATES, &["rs"])? {
        for identifier in identifiers(&code(&fs::read_to_string(&file)?)) {
            seen += 1;
            let parts = parts(identifier);
            if is_other_word(&parts) || is_bare_name(&parts) {
                found.insert(format!("{}: {identifier}", file.display()));
            }
        }
    }
    ensure!(seen > 100_000, "only {seen} identifiers are there");
    ensure!(found.is_empty(), "other words than the field's: {found:#?}");
    Ok(())
}

/// What is sent is a message, and what is stated is a report or a status: neither is a word, and nothing is said.
#[test]
fn nothing_is_named_as_if_it_was_spoken() -> Result<()> {
    let (mut found, mut about_words) = (BTreeSet::new(), BTreeSet::new());
    for file in files(CRATES, &["rs"])? {
        let path = file.strip_prefix(cache::workspace())?.display().to_string();
        let exception = ABOUT_WORDS.iter().find(|beginning| path.starts_with(*beginning));
        for identifier in identifiers(&code(&fs::read_to_string(&file)?)) {
            match exception {
                _ if !is_of_speech(&parts(identifier)) => {}
                Some(exception) if is_of_words(&parts(identifier)) => {
                    about_words.insert(*exception);
                }
                Some(_) | None => {
                    found.insert(format!("{path}: {identifier}"));
                }
            }
        }
    }
    ensure!(found.is_empty(), "what is sent or stated is named as if it was said: {found:#?}");
    ensure!(about_words.iter().eq(ABOUT_WORDS), "only these are about words: {about_words:#?}");
    Ok(())
}

/// What a program of the product logs, answers, reports and describes is made of its strings, and of its comments, which
/// are read below.
#[test]
fn strings_of_the_product_use_the_words_of_the_field() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(PRODUCT, &["rs"])? {
        if is_of_tests(&file) {
            continue;
        }
        for (line, text) in strings(&fs::read_to_string(&file)?) {
            let words = words(&text);
            seen += words.len();
            if is_other_word(&words) || bare(&text, false).is_some() {
                found.insert(format!("{}:{line}: {text}", file.display()));
            }
        }
    }
    ensure!(seen > 10_000, "only {seen} words are there");
    ensure!(found.is_empty(), "other words than the field's: {found:#?}");
    Ok(())
}

#[test]
fn texts_for_users_use_the_words_of_the_field() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(TEXTS, &["md", "yaml", "tpl", "txt", "json", "js", "html", "css"])? {
        let is_described = is_of_kind(&file, &["json", "yaml", "js"]);
        for line in fs::read_to_string(&file)?.lines() {
            let words = words(line);
            seen += words.len();
            if is_other_word(&words) || is_described && describes_by_a_question(line) {
                found.insert(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    ensure!(seen > 10_000, "only {seen} words are there");
    ensure!(found.is_empty(), "other words than the field's: {found:#?}");
    Ok(())
}

/// A sentence names its subject: "the member that asks", not "whoever asks", and not "who asks"; and a comment, of a test
/// too, says what is sent, reported or notified, not that somebody is told.
#[test]
fn comments_and_documents_name_the_subject() -> Result<()> {
    let mut found = BTreeSet::new();
    let mut seen = 0;
    for file in files(
        &[CRATES, &["docs", "README.md", "CONTRIBUTING.md", "clock-page/README.md"]].concat(),
        &["rs", "md"],
    )? {
        // They have examples of what they find.
        if file.ends_with(file!()) || file.ends_with("e2e/tests/words/subjects.rs") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let is_source = is_of_kind(&file, &["rs"]);
        let texts = if is_source { comments(&text) } else { paragraphs((1..).zip(text.lines())) };
        for (line, text) in &texts {
            let words = words(text);
            seen += words.len();
            if let Some(bare) = bare(text, is_source) {
                found.insert(format!("{}:{line}: {bare}", file.display()));
            } else if is_other_word(&words) {
                found.insert(format!("{}:{line}: {text}", file.display()));
            }
        }
    }
    ensure!(seen > 100_000, "only {seen} words are there");
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
    for speech in ["say", "says_nothing", "has_something_to_say", "Spoken", "LAST_WORD"] {
        assert!(is_of_speech(&parts(speech)), "{speech}");
    }
    for other in ["essay", "password", "a_closing_view_has_no_say", "status_says_who_leads_it"] {
        assert!(!is_of_speech(&parts(other)), "{other}");
    }
    for good in
        ["gateway", "investigate", "quiet", "outstanding", "theirs", "grace_period", "LeaderLease"]
    {
        assert!(!is_other(good), "{good}");
    }
}

#[test]
fn a_source_is_read_by_its_code_its_strings_and_its_comments() {
    let source = "let a = \"office\"; // office\nlet b = '\"'; let c = 1;";
    assert_eq!(code(source).trim(), "let a = ; \nlet b = ; let c = 1;");
    let source =
        "/// One that\n/// asks.\n///\n/// - It\nfn a() {\n  b(\"one, \\\n  two\"); // Three.\n}";
    assert_eq!(strings(source), [(6, "\"one, two\"".to_owned())]);
    let texts = ["One that asks.", "- It", "Three."].map(ToOwned::to_owned);
    assert_eq!(comments(source).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), texts);
}

#[test]
fn a_clause_without_a_noun_is_found_and_a_question_is_not() {
    for text in [
        "It is sent to who asks.",
        "It stays. Who asks gets it.",
        "It stays; who asks gets it.",
        "5. Who asks gets it.",
        "- **Who asks**, gets it.",
    ] {
        assert!(bare(text, false).is_some(), "{text}");
    }
    for text in [
        "It asks who leads.",
        "It is there. Who leads?",
        "It is there. **Who leads.** It leads.",
        "# Who leads",
        "They agree on who leads, and those who ask learn it.",
    ] {
        assert_eq!(bare(text, false), None, "{text}");
    }
    assert_eq!((bare("Who leads.", true), bare("Who leads.", false).is_some()), (None, true));
    for name in ["who_asks_gets_it", "rule_8_who_asks_gets_it", "it_is_sent_to_who_asks"] {
        assert!(is_bare_name(&parts(name)), "{name}");
    }
    for name in ["who", "shows_who_leads", "those_who_ask_get_it"] {
        assert!(!is_bare_name(&parts(name)), "{name}");
    }
}

/// `"description": "Who leads."`, and a line of such a text in YAML.
fn describes_by_a_question(line: &str) -> bool {
    let text = line.split_once(": ").map_or(line, |(_, value)| value);
    [text, line].iter().any(|text| text.trim().trim_matches('"').starts_with("Who "))
}

fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.map(ToOwned::to_owned).collect()
}

fn is_of_tests(file: &Path) -> bool {
    let is_of_tests = |part: &str| part == "tests" || part == "tests.rs";
    file.iter().filter_map(|part| part.to_str()).any(is_of_tests)
}

fn is_other_word<S: AsRef<str>>(parts: &[S]) -> bool {
    let alone = parts.iter().any(|part| PARTS.contains(&part.as_ref()));
    let together = |pair: &[S]| TOGETHER.contains(&[pair[0].as_ref(), pair[1].as_ref()]);
    alone || parts.windows(2).any(together)
}

fn is_of_speech(parts: &[String]) -> bool {
    parts.len() < SENTENCE && parts.iter().any(|part| OF_SPEECH.contains(&part.as_str()))
}

fn is_of_words(parts: &[String]) -> bool {
    parts.iter().any(|part| ["word", "words"].contains(&part.as_str()))
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

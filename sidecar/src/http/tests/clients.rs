//! The examples of the documents, run as they stand there by whatever languages this machine has.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::documents::read;
use super::double::*;
use super::safety::{extend, until};
use crate::claims::{Claim, ClaimState};
use crate::group::{Asked, Election, ElectionRequest, Keepalive, Leadership, Request, Stood};
use crate::http::{Listeners, document, serve};
use crate::os_clock::OsClock;

/// A language of `docs/clients.md`, and how a program in it is run.
struct Language {
    name: &'static str,
    file: &'static str,
    run: &'static [&'static str],
    /// What says that the language is there.
    probe: [&'static str; 2],
}

const LANGUAGES: [Language; 4] = [
    Language {
        name: "python",
        file: "hold.py",
        run: &["python3"],
        probe: ["python3", "--version"],
    },
    Language { name: "go", file: "hold.go", run: &["go", "run"], probe: ["go", "version"] },
    Language { name: "java", file: "Hold.java", run: &["java"], probe: ["javac", "--version"] },
    Language { name: "javascript", file: "hold.mjs", run: &["node"], probe: ["node", "--version"] },
];

/// Where the examples of a lock begin, and that of an election.
const OF_A_LOCK: &str = "## Examples";
const OF_AN_ELECTION: &str = "### Go, in an election";

/// Shorter than the work of an example, which has ten steps of 100 ms and leaves 200 ms for each.
const LEASE: Duration = Duration::from_secs(1);

/// Far more than it takes to compile an example.
const PATIENCE: Duration = Duration::from_mins(3);

impl Language {
    fn is_here(&self) -> bool {
        let [program, argument] = self.probe;
        match Command::new(program).arg(argument).stdout(Stdio::null()).status() {
            Ok(status) => status.success(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{program}: {error}");
                false
            }
        }
    }

    /// The example below a heading.
    fn example(&self, heading: &str) -> String {
        let text = read("docs/clients.md");
        let begin = format!("```{}\n", self.name);
        let (_, below) = text.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
        let (_, rest) = below.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        rest.split_once("```\n").expect("its end").0.to_owned()
    }
}

/// Runs the example below a heading; what it printed, and whether it was content.
fn run(
    language: &'static Language,
    heading: &'static str,
    double: &Double,
) -> tokio::task::JoinHandle<Output> {
    let listeners = Listeners::on_loopback(0).expect("a loopback");
    let api = format!("http://{}", listeners.addresses()[0]);
    let (group, metrics, limits) = (double.group.clone(), double.metrics.clone(), double.limits);
    tokio::spawn(serve(
        listeners,
        group,
        double.clocks.clone(),
        metrics,
        limits,
        CancellationToken::new(),
    ));
    tokio::task::spawn_blocking(move || {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(language.file);
        std::fs::write(&file, language.example(heading)).expect("room");
        let mut command = Command::new(language.run[0]);
        command.args(&language.run[1..]).arg(file).current_dir(&directory);
        command.env("CONCLAVE_URL", api).output().expect("it is here")
    })
}

/// The example asks for the lock, waits, and gets it for so long.
async fn grant(double: &mut Double) -> watch::Sender<Claim> {
    let request = tokio::time::timeout(PATIENCE, double.requests.recv()).await;
    let Ok(Some(Request::Ask(_, reply))) = request else { panic!("it does not ask: {request:?}") };
    let (claim, seen) = watch::channel(claim(waiting()));
    reply.send(Ok(Asked { created: true, claim: seen })).expect("it waits");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let deadline = OsClock::default().now().after(LEASE);
    claim.send_modify(|claim| (claim.state, claim.index) = (until(deadline), 2));
    claim
}

async fn ended(example: tokio::task::JoinHandle<Output>) -> (bool, usize, String) {
    let output = tokio::time::timeout(PATIENCE, example).await.expect("it ends").expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let token = hold().token.expect("a token").get().to_string();
    let steps = text.lines().filter(|line| line.contains("step") && line.contains(&token)).count();
    let sent = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), steps, sent)
}

/// A hold that is extended: it does all its work, and gives the lock back.
async fn goes_on(language: &'static Language) {
    let mut double = Double::new();
    let example = run(language, OF_A_LOCK, &double);
    let claim = Arc::new(grant(&mut double).await);
    let held = Arc::clone(&claim);
    let extending = extend(LEASE, move |deadline| {
        held.send_modify(|claim| claim.state = until(deadline));
    });
    let request = soon(double.next()).await;
    let Request::Release(_, id, reply) = request else { panic!("not given back: {request:?}") };
    extending.abort();
    assert_eq!(id, claim.borrow().id);
    claim.send_modify(|claim| (claim.state, claim.index) = (ClaimState::Released, 3));
    reply.send(Ok(())).expect("it waits");
    let (is_content, steps, sent) = ended(example).await;
    assert!(is_content && steps == 10, "{}: {steps} steps: {sent}", language.name);
}

/// A sidecar that falls silent: it stops before the deadline, and not when it is sent `lost`.
async fn stops(language: &'static Language) {
    let mut double = Double::new();
    let example = run(language, OF_A_LOCK, &double);
    let _claim = grant(&mut double).await;
    let (is_content, steps, sent) = ended(example).await;
    let most = usize::try_from(LEASE.as_millis() / 100 - 1).expect("few");
    let name = language.name;
    assert!(!is_content && (1..most).contains(&steps), "{name}: {steps} steps: {sent}");
}

/// A run of all tests counts those that could show nothing (`e2e/testbed/src/skipped.rs`).
fn skip(language: &Language) {
    let Some(path) = std::env::var_os("CONCLAVE_SKIPPED") else { return };
    let file = File::options().append(true).create(true).open(path);
    let name = language.name;
    writeln!(file.expect("a file"), "the example in {name}, which is not on this machine")
        .expect("room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_keep_to_their_time() {
    for language in &LANGUAGES {
        if !language.is_here() {
            skip(language);
            continue;
        }
        goes_on(language).await;
        stops(language).await;
    }
}

/// How many steps the example of a leader does in its first lead of `LEASE`, and in one that is extended for twice that,
/// and then given to another. It does none before it leads.
async fn steps_of_a_leader(go: &'static Language, is_extended: bool) -> usize {
    let mut double = Double::new();
    let example = run(go, OF_AN_ELECTION, &double);
    // It is compiled first.
    let request = tokio::time::timeout(PATIENCE, double.requests.recv()).await;
    let Ok(Some(Request::Election(name, ElectionRequest::Stand(stands, reply)))) = request else {
        panic!("it does not stand: {request:?}")
    };
    assert!(matches!(stands.keepalive, Keepalive::Connection(_)), "{name}: {stands:?}");
    let (election, seen) = watch::channel(Election { index: 1, ..following() });
    assert!(reply.send(Ok(Stood { created: true, election: seen })).is_ok(), "it waits");
    tokio::time::sleep(LEASE / 2).await;
    let election = Arc::new(election);
    let leads = Arc::clone(&election);
    let lead = move |deadline| {
        let token = hold().token;
        let next = Election { index: 2, token, safe_until: Some(deadline), ..leading() };
        leads.send_replace(next);
    };
    if is_extended {
        let extending = extend(LEASE, lead);
        tokio::time::sleep(LEASE * 2).await;
        extending.abort();
        let leadership = Leadership::HandingOver;
        election.send_replace(Election { index: 3, leadership, safe_until: None, ..leading() });
    } else {
        lead(OsClock::default().now().after(LEASE));
    }
    let (is_content, steps, sent) = ended(example).await;
    assert!(!is_content && sent.contains("another may lead"), "{sent}");
    steps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_a_leader_works_as_long_as_it_leads() {
    let go = &LANGUAGES[1];
    if !go.is_here() {
        return skip(go);
    }
    let most = usize::try_from(LEASE.as_millis() / 100 - 1).expect("few");
    let steps = steps_of_a_leader(go, false).await;
    assert!((1..most).contains(&steps), "{steps} steps, and nobody extends the lead");
    let steps = steps_of_a_leader(go, true).await;
    assert!(steps > most, "{steps} steps in a lead that is extended");
}

#[test]
fn the_documents_name_only_fields_that_there_are() {
    let document = serde_json::to_value(document()).expect("plain data");
    let fields = document["components"]["schemas"]["Safety"]["properties"].as_object();
    let fields = fields.expect("an object");
    let files = [
        "README.md",
        "docs/clients.md",
        "docs/guarantees.md",
        "docs/http-api.md",
        "docs/quickstart.md",
    ];
    let texts = files.map(read);
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    for text in &texts {
        for part in text.split(|c| !is_part(c)).filter(|part| part.starts_with("safe_")) {
            assert!(fields.contains_key(part), "{part} is no field");
        }
    }
    for field in fields.keys() {
        assert!(texts[1].contains(field), "docs/clients.md does not mention {field}");
    }
    for language in &LANGUAGES {
        assert!(language.example(OF_A_LOCK).contains("safe_until_"), "{}", language.name);
    }
}

//! What the documents have users paste.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use conclave_testbed::cache;
use serde_json::Value;

use super::{commands, manifests, shell};

/// A fenced block of a document.
struct Snippet {
    place: String,
    language: String,
    text: String,
}

#[test]
fn every_snippet_names_what_there_is() -> Result<()> {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for snippet in snippets()? {
        seen += 1;
        if let Err(error) = check(&snippet) {
            wrong.push(format!("{}: {error:#}", snippet.place));
        }
    }
    ensure!(seen > 80, "only {seen} snippets are there");
    ensure!(wrong.is_empty(), "these snippets do not work: {wrong:#?}");
    Ok(())
}

/// Commands within sentences and tables.
#[test]
fn every_command_in_a_sentence_names_what_there_is() -> Result<()> {
    let root = cache::workspace();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in super::documents(&root)? {
        let text = std::fs::read_to_string(&document)?;
        let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
        for command in prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            if !PROGRAMS.iter().any(|program| command.starts_with(program)) {
                continue;
            }
            seen += 1;
            let calls = shell::calls(&command.replace('\n', " "))?;
            if let Err(error) = calls.iter().try_for_each(commands::check) {
                wrong.push(format!("{}: {command}: {error:#}", document.display()));
            }
        }
    }
    ensure!(seen > 30, "only {seen} commands are there");
    ensure!(wrong.is_empty(), "these commands do not work: {wrong:#?}");
    Ok(())
}

/// How a command begins.
const PROGRAMS: &[&str] = &["cargo ", "conclave ", "curl ", "helm ", "kubectl "];

/// Labels, annotations and fields of the group `conclave.dev` in the snippets are those of the code.
#[test]
fn every_label_of_a_snippet_is_known_to_the_code() -> Result<()> {
    let root = cache::workspace();
    // A module of Go has such a name too.
    let mut sources = std::fs::read_to_string(root.join("clock-page/go/go.mod"))?;
    for name in ["crds", "pods", "operator", "sidecar"] {
        super::read_sources(&root.join(name), &mut sources)?;
    }
    let mut unknown = BTreeSet::new();
    let mut seen = 0;
    for snippet in snippets()? {
        for name in snippet.text.split("conclave.dev/").skip(1) {
            let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'));
            let name = &name[..end.unwrap_or(name.len())];
            seen += 1;
            // Settings of the sidecar have a prefix of their own.
            let forms = [format!("conclave.dev/{name}"), format!("\"{name}\"")];
            if !forms.iter().any(|form| sources.contains(form)) {
                unknown.insert(format!("{}: conclave.dev/{name}", snippet.place));
            }
        }
    }
    ensure!(seen > 20, "only {seen} are there");
    ensure!(unknown.is_empty(), "the code does not know {unknown:#?}");
    Ok(())
}

fn check(snippet: &Snippet) -> Result<()> {
    match snippet.language.as_str() {
        "sh" => script(&snippet.text),
        "yaml" => manifests::check(&snippet.text),
        "json" => json(&snippet.text),
        // `sidecar/src/http/tests/clients.rs` runs the programs. The others are to be read.
        "go" | "java" | "javascript" | "python" => Ok(()),
        // `clock-page/tests/languages.rs` runs these; that in Rust is a test of its documentation.
        "c" | "rust,no_run" => Ok(()),
        "dockerfile" | "http" | "mermaid" | "text" => Ok(()),
        other => bail!("who checks a snippet in `{other}`?"),
    }
}

fn script(text: &str) -> Result<()> {
    let mut bash = Command::new("bash");
    let mut bash = bash.arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    bash.stdin.take().context("it is piped")?.write_all(text.as_bytes())?;
    let output = bash.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    shell::calls(text)?.iter().try_for_each(|call| {
        commands::check(call).with_context(|| format!("`{}`", call.words.join(" ")))
    })
}

/// An answer of a sidecar: its fields are those of the API, but for those of port 4040.
fn json(text: &str) -> Result<()> {
    let value: Value = serde_json::from_str(text)?;
    let document = std::fs::read_to_string(cache::workspace().join("sidecar/openapi.json"))?;
    for field in value.as_object().context("it is no object")?.keys() {
        let is_known = document.contains(&format!("\"{field}\": {{")) || field == "last_update";
        ensure!(is_known, "no answer has a field `{field}`");
    }
    Ok(())
}

fn snippets() -> Result<Vec<Snippet>> {
    let root = cache::workspace();
    let mut snippets = Vec::new();
    for document in super::documents(&root)? {
        let text = std::fs::read_to_string(&document)?;
        let name = document.strip_prefix(&root)?;
        snippets.extend(of_document(name, &text)?);
    }
    Ok(snippets)
}

fn of_document(name: &Path, text: &str) -> Result<Vec<Snippet>> {
    let mut snippets: Vec<Snippet> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("```"), is_open) {
            (Some(language), false) => {
                is_open = true;
                let place = format!("{}:{number}", name.display());
                let language = language.trim().to_owned();
                snippets.push(Snippet { place, language, text: String::new() });
            }
            (Some(_), true) => is_open = false,
            (None, true) => {
                let text = &mut snippets.last_mut().context("it is open")?.text;
                text.push_str(line);
                text.push('\n');
            }
            (None, false) => {}
        }
    }
    ensure!(!is_open, "a block of {} has no end", name.display());
    Ok(snippets)
}

#[test]
fn a_snippet_that_does_not_work_is_found() -> Result<()> {
    let outcome = |text: &str| -> Result<()> {
        of_document(Path::new("page.md"), text)?.iter().try_for_each(check)
    };
    for good in [
        "```sh\nconclave elect reports -- /bin/true --at-all\n```",
        "```sh\ncargo run --release --bin conclave -- dev -n 9\ncargo xtask test --quick\n```",
        "```sh\nhelm template conclave charts/conclave --set 'watchNamespaces={a,b},image.tag=1'\n```",
        "```json\n{\"lock\": \"orders\", \"token\": 1}\n```",
        "```sh\nkubectl exec deploy/till -- curl -fsS localhost:7070/v1/time\n```",
    ] {
        outcome(good).with_context(|| good.to_owned())?;
    }
    for wrong in [
        "```sh\necho $(\n```",
        "```sh\nconclave elects reports -- /bin/true\n```",
        "```sh\ncargo run --bin conclave -- dev --member 9\n```",
        "```sh\ncargo xtask test --quickly\n```",
        "```sh\ncargo test -p conclave-e2e --test nothing\n```",
        "```sh\nhelm template conclave charts/conclave --set images.tag=1\n```",
        "```sh\nkubectl exec deploy/till -- curl -fsS localhost:7070/v1/times\n```",
        "```sh\nkubectl apply -f - <<END\nkind: Conclave\nEND\n```",
        "```sh\nconclaves dev\n```",
        "```json\n{\"lok\": \"orders\"}\n```",
        "```json\n{,}\n```",
        "```toml\na = 1\n```",
        "```sh\nkubectl get ccv",
    ] {
        ensure!(outcome(wrong).is_err(), "{wrong} is accepted");
    }
    Ok(())
}

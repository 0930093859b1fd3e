//! What a checker that somebody else wrote says of a history: Porcupine
//! (<https://github.com/anishathalye/porcupine>, MIT).
//!
//! [`History::check`] knows laws and looks for what breaks them. Porcupine knows only what a lock
//! does when one step follows another, and searches for an order of the steps that explains what
//! applications saw. `e2e/go/porcupine` has that model, and reads the history as JSON lines: one
//! entry each, as [`conclave_protocols::history::RecordedOperation`] is serialised.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use conclave_protocols::history::{History, Scope, Violation};
use conclave_testbed::binaries::{self, PORCUPINE};
use conclave_testbed::{cache, cluster, command};

/// What Porcupine says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opinion {
    /// There is an order that explains the history, as far as it was looked at: how far that was.
    Ordered(String),
    /// There is none: where the search ended.
    Unordered(String),
}

/// Fails if a history breaks a law, or if Porcupine finds no order that explains it; then the history
/// is kept in a file. Says how much of it Porcupine decided.
pub fn check(history: &History) -> Result<String> {
    let violations = history.check(Scope::Polled);
    let judged = judge(&violations, ask(history, &[]));
    if judged.is_err() {
        let file = keep(history)?;
        return judged.with_context(|| format!("the history is in {}", file.display()));
    }
    judged
}

/// Asks Porcupine. It is an error if it understands nothing of the history, or if it could not decide half
/// of it in time.
pub fn ask(history: &History, options: &[&str]) -> Result<Opinion> {
    binaries::build_checker()?;
    let mut porcupine = Command::new(PORCUPINE.path());
    let output = command::outcome_of_input(porcupine.args(options), &lines(history)?)?;
    let sent = String::from_utf8(output.stdout)?.trim_end().to_owned();
    match output.status.code() {
        Some(0) => Ok(Opinion::Ordered(sent)),
        Some(1) => Ok(Opinion::Unordered(sent)),
        Some(_) | None => {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("porcupine ended with {}\n{sent}{error}", output.status)
        }
    }
}

/// What both say together.
fn judge(violations: &[Violation], opinion: Result<Opinion>) -> Result<String> {
    if violations.is_empty() {
        return match opinion? {
            Opinion::Ordered(sent) => Ok(format!("Porcupine: {sent}")),
            Opinion::Unordered(sent) => bail!("no law is broken, but Porcupine says: {sent}"),
        };
    }
    let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
    let shown = shown.join("\n");
    let other = match opinion {
        Ok(Opinion::Ordered(sent) | Opinion::Unordered(sent)) => sent,
        Err(error) => format!("{error:#}"),
    };
    bail!("{} laws were broken\n{shown}\nPorcupine says: {other}", violations.len())
}

fn lines(history: &History) -> Result<String> {
    let mut lines = String::new();
    for entry in history.entries() {
        lines.push_str(&serde_json::to_string(entry)?);
        lines.push('\n');
    }
    Ok(lines)
}

fn keep(history: &History) -> Result<PathBuf> {
    let lines = lines(history)?;
    let directory = cluster::evidence_directory();
    fs::create_dir_all(&directory)?;
    let file = directory.join(format!("history-{}.jsonl", cache::key(&[lines.as_bytes()])));
    fs::write(&file, lines)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use conclave_protocols::history::Law;

    use super::*;

    fn violation() -> Violation {
        Violation { law: Law::Exclusion, what: "two hold a".into(), operations: Vec::new() }
    }

    #[test]
    fn good_is_what_both_find_good() {
        let ordered = || Ok(Opinion::Ordered("all of it".into()));
        let unordered = || Ok(Opinion::Unordered("none of it".into()));
        assert!(judge(&[], ordered()).unwrap().contains("all of it"));
        assert!(judge(&[], unordered()).unwrap_err().to_string().contains("none of it"));
        assert!(judge(&[], Err(anyhow::anyhow!("it timed out"))).is_err());
        for opinion in [ordered(), unordered(), Err(anyhow::anyhow!("it timed out"))] {
            let error = judge(&[violation()], opinion).unwrap_err().to_string();
            assert!(error.contains("two hold a"), "{error}");
        }
    }

    #[test]
    fn an_entry_is_a_line() {
        let text = r#"{"at":{"secs":1,"nanos":2},"operation":{"Released":{"claim":3}}}"#;
        let history = History::from(vec![serde_json::from_str(text).unwrap()]);
        assert_eq!(lines(&history).unwrap(), format!("{text}\n"));
    }
}

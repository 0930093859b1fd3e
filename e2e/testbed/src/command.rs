//! Other programs, run to their end, with errors that say what was run.

use std::env;
use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache;

/// Cargo in the source tree, as a shell would start it. `cargo run` gives its program the variables of a package, and some
/// build scripts depend on those: with them, what others wrote would be built anew in each run.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(cache::workspace());
    let names = env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| is_of_package(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    cargo
}

fn is_of_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Runs a program whose output goes where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and returns what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    checked(command, output)
}

/// Like [`output`], with `input` as the program's standard input.
pub fn output_of_input(command: &mut Command, input: &str) -> Result<String> {
    let output = outcome_of_input(command, input)?;
    checked(command, output)
}

/// The same, and what the program ends with is for the caller to judge.
pub fn outcome_of_input(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    // A program that ends without having read everything closes the pipe; its exit code shows why.
    if let Some(mut pipe) = child.stdin.take() {
        let _closed_early = pipe.write_all(input.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

/// What a program of ours ends with; an error is printed.
pub fn exit(outcome: Result<()>) -> ExitCode {
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let arguments = std::iter::once(command.get_program()).chain(command.get_args());
    arguments.map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn checked(command: &Command, output: Output) -> Result<String> {
    if !output.status.success() {
        bail!(
            "{} ended with {}\n{}{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_started_without_the_variables_of_the_package_that_runs() {
        let cargo = cargo(&["metadata"]);
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(env::var_os(name).is_some(), "cargo gives this test no {name}");
            let is_removed = cargo.get_envs().any(|(one, value)| one == name && value.is_none());
            assert!(is_removed, "{name}");
        }
    }

    #[test]
    fn a_failure_names_the_command_and_what_it_printed() {
        let error = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("sh -c") && text.contains("out\nerr\n") && text.contains('3'));
    }

    #[test]
    fn input_reaches_the_program() {
        assert_eq!(output_of_input(&mut Command::new("cat"), "hello").unwrap(), "hello");
    }
}

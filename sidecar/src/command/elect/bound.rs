//! `conclave elect-command`: becomes COMMAND, which lives no longer than the process that started it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// What to become.
#[derive(Args, Debug)]
pub(in crate::command) struct BoundArgs {
    /// The process that must be there.
    #[arg(long)]
    parent: i32,
    /// What to become.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(in crate::command) fn run(args: &BoundArgs) -> ExitCode {
    if let Err(error) = bind(args.parent) {
        crate::command::complain(&error);
        return ExitCode::FAILURE;
    }
    let Some((program, arguments)) = args.command.split_first() else { return ExitCode::FAILURE };
    let error = Command::new(program).args(arguments).exec();
    let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    crate::command::complain(
        &anyhow::Error::new(error).context(format!("run {}", program.display())),
    );
    ExitCode::from(status)
}

/// From now on this process is killed when its parent ends, unless that has ended before. That stays so when it becomes
/// another program.
fn bind(parent: i32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("ask for the end")?;
    let is_there = getppid().map(Pid::as_raw_pid) == Some(parent);
    anyhow::ensure!(is_there, "the process {parent}, which wants this, has ended");
    Ok(())
}

/// As shells have it.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

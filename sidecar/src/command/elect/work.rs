//! COMMAND and all processes that come from it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    set_child_subreaper, wait,
};
use tracing::error;

use super::course;

/// Runs COMMAND, once at a time.
#[derive(Debug)]
pub(super) struct Work {
    election: String,
    command: Vec<OsString>,
    /// Children that this process had before.
    others: BTreeSet<i32>,
    run: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first process, which leads the process group.
    first: Pid,
    /// How that ended.
    status: Option<u8>,
}

impl Work {
    /// From now on what COMMAND leaves behind becomes a child of this process.
    pub(super) fn new(election: &str, command: Vec<OsString>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { election: election.to_owned(), command, others: children()?, run: None })
    }

    /// Starts COMMAND in a process group of its own. It is killed when the thread ends that calls this.
    pub(super) fn start(&mut self, token: Option<u64>) -> io::Result<()> {
        // This program again, however it was called: it becomes COMMAND (`bound.rs`).
        let mut command = Command::new("/proc/self/exe");
        command.arg0("conclave").arg("elect-command");
        command.arg("--parent").arg(getpid().as_raw_pid().to_string());
        command.arg("--").args(&self.command);
        command.env("CONCLAVE_ELECTION", &self.election).env_remove("CONCLAVE_TOKEN");
        command.envs(token.map(|token| ("CONCLAVE_TOKEN", token.to_string())));
        let child = command.process_group(0).spawn()?;
        self.run = Some(Run { first: Pid::from_child(&child), status: None });
        Ok(())
    }

    /// Sends a signal to the processes of COMMAND's group.
    pub(super) fn send(&self, signal: Signal) {
        let Some(run) = self.run else { return };
        report(signal, kill_process_group(run.first, signal));
    }

    /// Kills all processes of COMMAND.
    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
        self.kill_children();
    }

    /// Takes leave of children that have ended. COMMAND's status, once all of it has ended.
    pub(super) fn reap(&mut self) -> Option<u8> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(run) = self.run.as_mut().filter(|run| run.first == pid) {
                run.status = Some(status_of(status));
                // What it leaves behind ends with it. Its number is given to no other process before all others were.
                self.send(Signal::KILL);
            }
        }
        let status = self.run?.status?;
        // Those that have just become ours, since the process that they came from has ended, are killed in their turn.
        if self.kill_children() > 0 {
            return None;
        }
        self.run = None;
        Some(status)
    }

    /// Kills the children that COMMAND made; how many there were.
    fn kill_children(&self) -> usize {
        let all = children().unwrap_or_else(|error| {
            error!(%error, "cannot list what COMMAND left behind");
            BTreeSet::new()
        });
        let ours: Vec<Pid> =
            all.difference(&self.others).filter_map(|pid| Pid::from_raw(*pid)).collect();
        for pid in &ours {
            report(Signal::KILL, kill_process(*pid, Signal::KILL));
        }
        ours.len()
    }
}

/// The children of this process. A kernel without `CONFIG_PROC_CHILDREN` does not list them.
fn children() -> io::Result<BTreeSet<i32>> {
    let mut children = BTreeSet::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        match fs::read_to_string(thread.join("children")) {
            Ok(list) => {
                children.extend(
                    list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()),
                );
            }
            // The thread has ended meanwhile.
            Err(_) if !thread.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

fn report(signal: Signal, sent: Result<(), rustix::io::Errno>) {
    match sent {
        // It has ended.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => error!(%error, ?signal, "cannot signal COMMAND"),
    }
}

/// A status as a shell has it.
fn status_of(status: WaitStatus) -> u8 {
    let exited = status.exit_status().and_then(|status| u8::try_from(status).ok());
    let killed = || status.terminating_signal().map_or(u8::MAX, course::by_signal);
    exited.unwrap_or_else(killed)
}

//! Processes, distinguished from later ones that happen to have the same number.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::wait;

/// A process: its number, and when it started, since numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    pid: i32,
    /// In clock ticks since the machine started, as `/proc` has it.
    started: u64,
}

impl Process {
    /// The process that has this number now; none if it has ended, though nobody has asked for
    /// its exit code yet.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // proc_pid_stat(5): the command in parentheses may itself contain any character.
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = fields.split(' ').collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        Some(Self { pid, started: fields.get(STARTED)?.parse().ok()? })
    }

    /// Every process of the machine.
    pub(super) fn all() -> Result<Vec<Self>> {
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            processes.extend(pid.and_then(Self::of));
        }
        Ok(processes)
    }

    /// Its number.
    pub(super) fn pid(self) -> i32 {
        self.pid
    }

    /// When it started, by the clock that goes on while the machine sleeps.
    pub fn started_since_boot(self) -> Duration {
        Duration::from_millis(self.started * 1_000 / clock_ticks_per_second())
    }

    /// Whether it still runs.
    pub(super) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Whether it was started with this setting in its environment.
    pub(super) fn has_environment(self, setting: &str) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == setting.as_bytes())
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid).context("a process has a positive number")?;
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // The descriptor stays with its process, so what is true of it now remains true.
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(descriptor, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot signal process {self}")),
        }
    }
}

/// Kills what `find` finds, again and again until it finds nothing.
pub(super) fn end_all(find: impl Fn() -> Result<Vec<Process>>) -> Result<()> {
    wait::until("processes to end", Duration::from_secs(20), || {
        let left = find()?;
        for process in &left {
            process.signal(Signal::KILL)?;
        }
        ensure!(left.is_empty(), "still running: {left:?}");
        Ok(())
    })
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.pid, self.started)
    }
}

impl FromStr for Process {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (pid, started) = text.trim().split_once(' ').context("no `PID STARTED`")?;
        Ok(Self { pid: pid.parse()?, started: started.parse()? })
    }
}

/// The place of `starttime` among the fields after the command.
const STARTED: usize = 19;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_later_process_of_the_same_number_is_another() {
        let me = Process::of(std::process::id().try_into().unwrap()).unwrap();
        assert!(me.is_alive());
        assert!(!Process { started: me.started + 1, ..me }.is_alive());
        assert_eq!(me.to_string().parse::<Process>().unwrap(), me);
    }

    #[test]
    fn what_is_killed_counts_as_ended_before_its_parent_asks() {
        let setting = format!("MARK={}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("60")
            .env("MARK", std::process::id().to_string())
            .spawn()
            .unwrap();
        let marked = || {
            let all = Process::all()?.into_iter();
            Ok(all.filter(|process| process.has_environment(&setting)).collect::<Vec<_>>())
        };
        let pid = i32::try_from(child.id()).unwrap();
        wait::until("the child to run", Duration::from_secs(5), || {
            ensure!(marked()? == [Process::of(pid).context("it has ended")?]);
            Ok(())
        })
        .unwrap();
        end_all(marked).unwrap();
        assert_eq!(Process::of(pid), None);
        child.wait().unwrap();
    }
}

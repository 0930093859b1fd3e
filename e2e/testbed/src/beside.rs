//! A task of ours that goes on beside others, to which it leaves the cores.

use std::fs;
use std::process::{self, Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;

use crate::wait;

/// A task of `cargo xtask` that has the cores that nobody else wants. It ends with this value.
pub struct Beside {
    task: &'static str,
    began: Instant,
    child: Child,
    log: NamedTempFile,
    /// What came of it is known.
    is_reported: bool,
}

impl Beside {
    /// Begins the task of this name, with what follows the name.
    pub fn begin(task: &'static str) -> Result<Self> {
        // By this name it is also there when a build has put another file in its place.
        Self::run(task, &format!("/proc/{}/exe", process::id()))
    }

    fn run(task: &'static str, program: &str) -> Result<Self> {
        let log = NamedTempFile::new()?;
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", LAST, program]).args(task.split(' '));
        let child = command.stdout(log.reopen()?).stderr(log.reopen()?).spawn()?;
        Ok(Self { task, began: Instant::now(), child, log, is_reported: false })
    }

    /// Has it stand still, once it has printed that line: before, it may hold a lock that somebody waits for.
    pub fn pause_after(&mut self, line: &str) -> Result<()> {
        let (task, log) = (self.task, self.log.path().to_owned());
        wait::until(&format!("`{line}` of `{task}`"), LONG, || {
            let is_over = self.has_ended()? || fs::read_to_string(&log)?.contains(line);
            ensure!(is_over, "it has not printed that");
            Ok(())
        })?;
        self.signal(Signal::STOP)
    }

    /// Whether it has ended of itself.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Has it go on.
    pub fn go_on(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// To all that it began, too, unless it has ended.
    fn signal(&mut self, signal: Signal) -> Result<()> {
        if !self.has_ended()? {
            kill_process_group(Pid::from_child(&self.child), signal)?;
        }
        Ok(())
    }

    /// Waits for its end, and prints what it printed.
    pub fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        self.is_reported = true;
        let (task, took) = (self.task, self.began.elapsed().as_secs());
        println!("`{task}`, beside the others, was over after {took} s at the latest:");
        println!("{}", fs::read_to_string(self.log.path())?);
        ensure!(status.success(), "`{task}` ended with {status}");
        Ok(())
    }
}

/// How long a task may take until it can be paused.
const LONG: Duration = Duration::from_secs(600);

/// Runs a program after all others. The kernel shares the cores among sessions first (`sched(7)`, autogroup), and within
/// one by the policy of its threads; so it has a session of its own, and with it a group of processes.
const LAST: &str = r#"
! [ -e /proc/self/autogroup ] || echo 19 > /proc/self/autogroup
exec chrt --idle 0 "$0" "$@"
"#;

impl Drop for Beside {
    fn drop(&mut self) {
        match self.child.try_wait() {
            Ok(None) => {
                // What has ended meanwhile is no trouble.
                let _ = self.signal(Signal::KILL);
                let _ = self.child.wait();
            }
            Ok(Some(status)) if !status.success() && !self.is_reported => {
                let log = fs::read_to_string(self.log.path()).unwrap_or_default();
                println!("`{}`, beside the others, ended with {status}:\n{log}", self.task);
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Beside {
        /// By `proc(5)`: `T` for one that stands still.
        fn state(&self) -> String {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
            let stat = stat.expect("nobody has waited for it");
            stat.rsplit(") ").next().and_then(|rest| rest.get(..1)).expect("a state").to_owned()
        }

        fn comes_to(&self, is_meant: impl Fn(&str) -> bool) {
            let look = || {
                let state = self.state();
                ensure!(is_meant(&state), "it is {state}");
                Ok(())
            };
            wait::until("another state", Duration::from_secs(30), look).expect("in time");
        }
    }

    #[test]
    fn a_task_stands_still_once_it_has_printed_a_line_and_goes_on() {
        let mut task = Beside::run("-f /dev/null /proc/self/comm", "tail").expect("it begins");
        task.pause_after("tail").expect("it prints its name");
        task.comes_to(|state| state == "T");
        task.go_on().expect("it goes on");
        task.comes_to(|state| state != "T");
        assert!(!task.has_ended().expect("a child"), "it follows the file");
    }

    #[test]
    fn a_task_that_ended_badly_is_not_waited_for_and_its_end_is_an_error() {
        let mut task = Beside::run("-x", "false").expect("it begins");
        task.pause_after("never printed").expect("it has ended");
        task.go_on().expect("there is nothing to go on");
        assert!(task.has_ended().expect("a child") && task.end().is_err());
    }
}

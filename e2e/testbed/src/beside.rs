//! A task of ours that goes on beside others, to which it leaves the cores.

use std::fs;
use std::process::{self, Child, Command};
use std::time::Instant;

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;

/// A task of `cargo xtask` that has the cores that nobody else wants. It ends with this value.
pub struct Beside {
    task: &'static str,
    began: Instant,
    child: Child,
    log: NamedTempFile,
}

impl Beside {
    /// Begins the task of this name, with what follows the name.
    pub fn begin(task: &'static str) -> Result<Self> {
        let log = NamedTempFile::new()?;
        // By this name it is also there when a build has put another file in its place.
        let this = format!("/proc/{}/exe", process::id());
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", LAST, &this]).args(task.split(' '));
        let child = command.stdout(log.reopen()?).stderr(log.reopen()?).spawn()?;
        Ok(Self { task, began: Instant::now(), child, log })
    }

    /// Has it stand still. It must hold no lock that somebody may wait for.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Has it go on.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// To all that it began, too.
    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process_group(Pid::from_child(&self.child), signal)?)
    }

    /// Waits for its end, and prints what it printed.
    pub fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let (task, took) = (self.task, self.began.elapsed().as_secs());
        println!("`{task}`, beside the others, was over after {took} s at the latest:");
        println!("{}", fs::read_to_string(self.log.path())?);
        ensure!(status.success(), "`{task}` ended with {status}");
        Ok(())
    }
}

/// Runs a program after all others. The kernel shares the cores among sessions first (`sched(7)`, autogroup), and within
/// one by the policy of its threads; so it has a session of its own, and with it a group of processes.
const LAST: &str = r#"
! [ -e /proc/self/autogroup ] || echo 19 > /proc/self/autogroup
exec chrt --idle 0 "$0" "$@"
"#;

impl Drop for Beside {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // What has ended meanwhile is no trouble.
            let _ = self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

//! The programs of the cluster that go on when the harness has ended.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};

use super::node::Node;
use super::process::{self, Process};
use super::state::State;

/// A program of the cluster and how it is started.
#[derive(Clone, Debug)]
pub(super) struct Daemon {
    /// Tells it from the others: `kubelet-node-1`.
    pub name: String,
    /// The file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The node whose network it has; the host's if none.
    pub node: Option<Node>,
}

impl Daemon {
    /// Starts it, in a process group of its own, and records which process it is.
    pub(super) fn start(&self, state: &State) -> Result<()> {
        ensure!(self.process(state).is_none(), "{} runs already", self.name);
        let log = fs::create_dir_all(state.logs()).and_then(|()| {
            let path = state.logs().join(format!("{}.log", self.name));
            OpenOptions::new().create(true).append(true).open(path)
        })?;
        let mut command = self.command();
        mark(&mut command, state);
        collect_rarely(&mut command);
        let mut child = command
            .current_dir(state.directory())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        let process = i32::try_from(child.id()).ok().and_then(Process::of);
        // Its parent must take its exit code, or its entry in /proc stays.
        thread::spawn(move || child.wait());
        let process = process.with_context(|| format!("{} ended at once", self.name))?;
        fs::create_dir_all(state.pids())?;
        fs::write(self.record(state), process.to_string())?;
        Ok(())
    }

    /// Ends it without giving it time for anything.
    pub(super) fn kill(&self, state: &State) -> Result<()> {
        let process = self.process(state);
        process::end_all(|| Ok(process.into_iter().filter(|one| one.is_alive()).collect()))
    }

    /// The running process, if there is one.
    pub(super) fn process(&self, state: &State) -> Option<Process> {
        let recorded: Process = fs::read_to_string(self.record(state)).ok()?.parse().ok()?;
        recorded.is_alive().then_some(recorded)
    }

    fn record(&self, state: &State) -> PathBuf {
        state.pids().join(&self.name)
    }

    fn command(&self) -> Command {
        let Some(node) = self.node else {
            let mut command = Command::new(&self.program);
            command.args(&self.arguments);
            return command;
        };
        // Not `ip netns exec`, which mounts another /sys and so hides the cgroups.
        let mut command = Command::new("nsenter");
        command.arg(network_of(node)).arg("--").arg(&self.program).args(&self.arguments);
        command
    }
}

/// The option of `nsenter` for a node's network.
pub(super) fn network_of(node: Node) -> OsString {
    format!("--net=/run/netns/{}", node.namespace()).into()
}

/// Marks a command, and whatever it starts, as belonging to this cluster.
pub(super) fn mark(command: &mut Command, state: &State) {
    command.env(MARK, state.directory());
}

/// Lets a Go program have five times what it needs of memory before it collects garbage, instead of twice.
pub(super) fn collect_rarely(command: &mut Command) {
    command.env("GOGC", "400");
}

/// The processes of this cluster that run outside containers: its daemons, and what they started.
///
/// They are found by their environment, which they inherit, and not by the recorded numbers: a
/// harness that was itself killed may have had no time to record one.
pub(super) fn find_all(state: &State) -> Result<Vec<Process>> {
    let mark = format!("{MARK}={}", state.directory().display());
    let all = Process::all()?.into_iter();
    Ok(all.filter(|process| process.has_environment(&mark)).collect())
}

/// Set in the environment of a marked command, to the state directory of its cluster.
const MARK: &str = "CONCLAVE_DAEMON_OF";

//! The command line.

mod copy;
mod dev;
mod drain;
mod elect;
mod inject;
mod sidecar;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use conclave_pods::inject::InjectArgs;

/// Coordination among pods.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs beside an application in a pod.
    Sidecar(Box<sidecar::SidecarArgs>),
    /// Tells the sidecar of this pod that the pod is about to end: it hands its leadership on.
    Drain(drain::DrainArgs),
    /// Runs a command as long as this pod leads in an election.
    Elect(Box<elect::ElectArgs>),
    #[command(name = "elect-command", hide = true)]
    Bound(elect::bound::BoundArgs),
    /// Copies this program: from its image, which has no shell, to a volume of the pod.
    Copy(copy::CopyArgs),
    /// Adds the sidecar to the workloads in manifests, and writes them to standard output.
    Inject(InjectArgs),
    /// Runs a whole group in this process, to try out; no Kubernetes is needed.
    Dev(dev::DevArgs),
}

/// Runs what was asked for.
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Sidecar(args) => sidecar::run(*args),
        Command::Drain(args) => drain::run(&args),
        Command::Elect(args) => elect::run(*args),
        Command::Bound(args) => elect::bound::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::Dev(args) => dev::run(&args),
    }
}

/// Something about the settings is wrong; the command says what, and does nothing.
const BAD_SETTINGS: u8 = 64;

fn complain(error: &anyhow::Error) {
    use std::io::Write;
    // Where standard error is gone, nobody can be notified.
    let _ = writeln!(std::io::stderr(), "conclave: {error:#}");
}

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

/// Leader election, locks with fencing tokens and a group clock for the pods of an application.
///
/// Each pod has a sidecar of it, which forms a group with those of the other pods. The application asks its own sidecar,
/// over HTTP on localhost: who leads, for a lock, what the group's time is. To try it out on this machine, without
/// Kubernetes: `conclave dev`.
#[derive(Debug, Parser)]
#[command(name = "conclave", version)]
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_states_what_the_program_does_and_lists_what_it_can_be_asked_for() {
        let mut command = Cli::command();
        let short = command.render_help().to_string();
        let long = command.render_long_help().to_string();
        for text in [&short, &long] {
            for term in ["Leader election", "fencing tokens", "group clock", "pods"] {
                assert!(text.contains(term), "{term}: {text}");
            }
            for (name, does) in [
                ("sidecar", "Runs beside an application"),
                ("drain", "about to end"),
                ("elect", "Runs a command as long as this pod leads"),
                ("copy", "Copies this program"),
                ("inject", "Adds the sidecar to the workloads"),
                ("dev", "Runs a whole group in this process"),
            ] {
                let line = text.lines().find(|line| line.trim_start().starts_with(name));
                assert!(line.is_some_and(|line| line.contains(does)), "{name}: {text}");
            }
        }
        assert!(long.contains("`conclave dev`") && long.contains("localhost"), "{long}");
    }
}

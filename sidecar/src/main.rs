//! `conclave`: the sidecar, the group to try out, and the command line.

use std::process::ExitCode;

use clap::Parser;
use conclave_sidecar::command::{self, Cli};

fn main() -> ExitCode {
    command::run(Cli::parse())
}

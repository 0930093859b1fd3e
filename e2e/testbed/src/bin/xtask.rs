//! `cargo xtask`.

use std::process::ExitCode;

use clap::Parser;
use conclave_testbed::command;
use conclave_testbed::xtask::Arguments;

fn main() -> ExitCode {
    command::exit(Arguments::parse().run())
}

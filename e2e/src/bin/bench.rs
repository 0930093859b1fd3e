//! `cargo xtask bench`.

use std::process::ExitCode;

use clap::Parser;
use conclave_e2e::bench::Arguments;
use conclave_testbed::command;

fn main() -> ExitCode {
    command::exit(Arguments::parse().run())
}

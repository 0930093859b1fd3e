//! `cargo xtask bench`.

use std::process::ExitCode;

use clap::Parser;
use conclave_e2e::bench::Arguments;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

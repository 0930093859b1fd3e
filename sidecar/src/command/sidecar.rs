//! `conclave sidecar`.

use std::process::ExitCode;

use clap::Args;

/// What the sidecar is told.
#[derive(Args, Debug)]
pub(super) struct SidecarArgs {}

pub(super) fn run(_args: SidecarArgs) -> ExitCode {
    ExitCode::SUCCESS
}

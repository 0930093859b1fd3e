//! `conclave inject`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

use conclave_pods::inject::InjectArgs;

pub(super) fn run(args: &InjectArgs) -> ExitCode {
    let written = args.run().map_err(anyhow::Error::new).and_then(|manifests| {
        std::io::stdout().lock().write_all(manifests.as_bytes()).context("write standard output")
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::from(super::BAD_SETTINGS)
        }
    }
}

//! `conclave dev`: a whole group in this process.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use conclave_crds::Conclave;
use conclave_protocols::detection::Stated;
use conclave_protocols::policy::{Policy, Timing};

use crate::application::HealthArgs;
use crate::descriptors;
use crate::dev;
use crate::telemetry::{self, LogFormat};

/// The settings of `conclave dev`.
#[derive(Args, Debug)]
pub(super) struct DevArgs {
    /// How many members the group begins with.
    #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    members: u16,
    /// A manifest of a `Conclave`: its policies are those of the group.
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The port of the first member's API; the others follow it.
    #[arg(long, env = "CONCLAVE_BASE_PORT", default_value_t = 7070)]
    base_port: u16,
    /// How the health of the applications is asked: that of the first member at the port, the others at the next ones.
    #[command(flatten)]
    health: HealthArgs,
    /// A folder in which each member keeps its clock page, under its number from 0 on.
    #[arg(long, value_name = "DIR")]
    clock_pages: Option<PathBuf>,
    /// The members do not report what they send, and the page draws nothing: for measurements.
    #[arg(long)]
    unobserved: bool,
    /// What is logged.
    #[arg(long, env = "CONCLAVE_LOG", default_value = "warn")]
    log: String,
}

pub(super) fn run(args: &DevArgs) -> ExitCode {
    let outcome = settings(args).and_then(|settings| {
        descriptors::allow_enough();
        let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
        runtime.block_on(dev::run(settings))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::from(super::BAD_SETTINGS)
        }
    }
}

fn settings(args: &DevArgs) -> anyhow::Result<dev::Settings> {
    telemetry::init(LogFormat::Text, &args.log)?;
    let (group, policy, detection) = match &args.file {
        None => {
            let policy = Policy { timing: Timing::FAST, ..Policy::default() };
            ("dev".to_owned(), policy, Stated::default())
        }
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("read {}", file.display()))?;
            let conclave: Conclave =
                conclave_crds::read(&text).with_context(|| file.display().to_string())?;
            let name = conclave.metadata.name.clone().unwrap_or_else(|| "dev".to_owned());
            (name, conclave_crds::policy(&conclave)?, conclave_crds::detection(&conclave.spec)?)
        }
    };
    let most = u16::MAX - dev::PAGE;
    anyhow::ensure!(
        (1..=most).contains(&args.base_port),
        "--base-port (CONCLAVE_BASE_PORT) is {}: expected 1 to {most}, because the group has ports up to {} above it",
        args.base_port,
        dev::PAGE
    );
    let health = args.health.check();
    if let Some(check) = &health {
        anyhow::ensure!(
            check.port.checked_add(args.members).is_some(),
            "health port {}: expected room for {} ports",
            check.port,
            args.members
        );
    }
    if let Some(folder) = &args.clock_pages {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--clock-pages is {}", folder.display()))?;
    }
    Ok(dev::Settings {
        members: args.members,
        group,
        policy,
        detection,
        base_port: args.base_port,
        health,
        clock_pages: args.clock_pages.clone(),
        observed: !args.unobserved,
    })
}

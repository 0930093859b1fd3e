//! `cargo xtask`: the one command for everything that is done to this repository.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use conclave_e2e::stages::{self, Wanted};
use conclave_e2e::{bench, binaries};

/// Checks, generates, builds and boots what belongs to this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every check, also on a real cluster; changes nothing in the source tree.
    Test {
        /// Only the checks that need neither root nor a cluster.
        #[arg(long)]
        quick: bool,
    },
    /// Measures locks, fail-over and joins in `conclave dev`, with Redis beside it.
    Bench,
    /// Formats the sources and rewrites what is generated from them.
    Fix,
    /// Builds the product from static binaries and writes it as an OCI image archive.
    Image {
        /// Where to write it.
        #[arg(long, value_name = "FILE", default_value_os_t = stages::product_archive())]
        out: PathBuf,
    },
    /// Boots or removes a Kubernetes of three nodes on this machine.
    #[command(subcommand)]
    Cluster(ClusterTask),
    /// Builds the Go programs of the test cluster and says where they are.
    Bins,
}

#[derive(Subcommand)]
enum ClusterTask {
    /// Boots it anew, with everything that it needs, and says how to reach it.
    Up {
        /// Without the product's image, which is then not built.
        #[arg(long)]
        bare: bool,
    },
    /// Removes it, whatever state it is in.
    Down,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Test { quick } => {
            let existing = std::env::var_os("USE_EXISTING_CLUSTER");
            stages::test(Wanted {
                only_quick: quick,
                existing_cluster: existing.is_some_and(|value| value == "true"),
            })
        }
        Task::Bench => bench::run(),
        Task::Fix => stages::fix(),
        Task::Image { out } => {
            stages::product_image(&out)?;
            println!("{}", out.display());
            Ok(())
        }
        Task::Cluster(ClusterTask::Up { bare }) => stages::cluster_up(bare),
        Task::Cluster(ClusterTask::Down) => stages::cluster_down(),
        Task::Bins => {
            binaries::build()?;
            for binary in binaries::ALL {
                println!("{}", binary.path().display());
            }
            Ok(())
        }
    }
}

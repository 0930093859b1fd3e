//! `cargo xtask`: the one command for everything that is done to this repository.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::stages::{self, Wanted};
use crate::{binaries, campaign, command, fuzz, searches};

/// Checks, generates, builds and boots what belongs to this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub struct Arguments {
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
    /// Measures what the product costs, with its rivals beside it.
    #[command(disable_help_flag = true)]
    Bench {
        /// What the program `bench` of `conclave-e2e` takes, such as `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Looks for broken promises for as long as it is given: planted bugs, swarms, models.
    Campaign {
        /// For how long, besides building: `30m`, `8h`.
        #[arg(long, value_parser = campaign::time)]
        time: Duration,
    },
    /// Runs the swarm of members in the simulator.
    Sim {
        /// For how long: `60s`, `30m`.
        #[arg(long, value_parser = campaign::time, default_value = "60s")]
        time: Duration,
    },
    /// Searches the models.
    Check {
        /// For how long, besides the everyday searches.
        #[arg(long, value_parser = campaign::time, default_value = "10m")]
        time: Duration,
    },
    /// Hands arbitrary input to what reads it.
    Fuzz {
        /// For how long each target runs.
        #[arg(long, value_parser = campaign::time, default_value = "60s")]
        time: Duration,
        /// Which; all, if none is named.
        target: Option<String>,
        /// Shows what the target does with this input instead.
        #[arg(long, value_name = "FILE", requires = "target")]
        input: Option<PathBuf>,
    },
    /// Shows what happened in one run of a swarm.
    Replay {
        /// The seed that a run printed.
        seed: u64,
        /// It was the swarm of whole sidecars.
        #[arg(long)]
        sidecars: bool,
    },
    /// Formats the sources and rewrites what is generated from them.
    Fix,
    /// Builds the product from static binaries and writes it as an OCI image archive.
    Image {
        /// Where to write it.
        #[arg(long, value_name = "FILE", default_value_os_t = stages::product_archive())]
        out: PathBuf,
    },
    /// Makes the images of all programs of this repository, quickly built, for the test cluster.
    Images,
    /// Runs the tests that search all that may happen, as every check does.
    Searches,
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

impl Arguments {
    /// Does what they name.
    pub fn run(self) -> Result<()> {
        run(self.task)
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
        Task::Bench { arguments } => bench(&arguments),
        Task::Campaign { time } => campaign::campaign(time),
        Task::Sim { time } => campaign::sim(time),
        Task::Check { time } => campaign::check(time),
        Task::Fuzz { time, target: None, .. } => fuzz::all(time),
        Task::Fuzz { target: Some(target), input: Some(input), .. } => fuzz::again(&target, &input),
        Task::Fuzz { time, target: Some(target), .. } => fuzz::one(&target, time),
        Task::Replay { seed, sidecars } => campaign::replay(seed, sidecars),
        Task::Fix => stages::fix(),
        Task::Image { out } => {
            stages::product_image(&out)?;
            println!("{}", out.display());
            Ok(())
        }
        Task::Images => stages::own_images(),
        Task::Searches => searches::run(),
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

/// The measurements need the protocols and all that the tests on the cluster do, so they are a program of their own.
fn bench(arguments: &[OsString]) -> Result<()> {
    let program = ["run", "--quiet", "--locked", "-p", "conclave-e2e", "--bin", "bench", "--"];
    command::run(command::cargo(&program).args(arguments))
}

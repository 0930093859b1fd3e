//! The application beside the sidecar, as it is looked after: whether it is well, and whether its containers run.
//!
//! What it states itself is in its candidacies; this is what others report of it, and can only take a candidacy away.

mod args;
mod health;

pub(crate) use args::HealthArgs;
pub(crate) use health::look_after;

use conclave_protocols::LocalTime;

/// What others report of the application.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Application {
    /// How it answers when its health is asked.
    pub health: Health,
    /// What the kubelet reports of its containers.
    pub containers: Containers,
    /// By then a process of it was over, by this machine's `CLOCK_BOOTTIME`: the last that was reported.
    pub ended: Option<LocalTime>,
}

/// How an application answers when its health is asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Health {
    /// Nobody asks.
    #[default]
    Unchecked,
    /// It is well.
    Healthy,
    /// It has not answered well yet, or no more.
    Unhealthy,
}

/// What the kubelet reports of an application's containers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Containers {
    /// Nobody asks, or nothing was reported yet.
    #[default]
    Unknown,
    /// They run.
    Running,
    /// One of them does not.
    Stopped,
}

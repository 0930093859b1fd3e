//! The sidecar: runs the protocols beside an application.

pub mod admin;
pub mod application;
pub mod claims;
pub mod clock_page;
mod clocks;
pub mod command;
pub mod descriptors;
pub mod dev;
pub mod discovery;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod group;
pub mod http;
pub mod identity;
pub mod kubernetes;
mod lazy_sleep;
pub mod lease;
pub(crate) mod links;
pub mod locks;
pub mod metrics;
mod one_thread;
pub mod os_clock;
pub(crate) mod probes;
mod program;
pub mod register;
pub mod sidecar;
pub mod telemetry;
pub mod wire;

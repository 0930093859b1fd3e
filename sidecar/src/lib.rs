//! The sidecar: runs the protocols beside an application.

pub mod claims;
pub mod group;
pub mod os_clock;

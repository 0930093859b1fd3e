//! The sidecar: runs the protocols beside an application.

pub mod claims;
pub mod group;
pub mod http;
pub mod os_clock;

//! What is done to this repository, and the machine on which its tests run.
//!
//! It builds what a test needs ([`binaries`], [`packages`], [`image`]), boots a real Kubernetes of
//! three nodes on one Debian machine ([`cluster`]), and runs the checks of the repository in order
//! ([`stages`]). `cargo xtask` ([`xtask`]) is its command line. What acts on Conclave in such a cluster is in
//! `conclave-e2e`.

pub mod beside;
pub mod binaries;
pub mod cache;
pub mod campaign;
pub mod cluster;
pub mod command;
pub mod fuzz;
pub mod http;
pub mod image;
pub mod packages;
pub mod preflight;
pub mod searches;
pub mod skipped;
pub mod stages;
pub mod wait;
pub mod xtask;

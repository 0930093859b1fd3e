//! The harness: everything that is done *to* Conclave rather than by it.
//!
//! It builds what a test needs ([`binaries`], [`packages`], [`image`]), boots a real Kubernetes of
//! three nodes on one Debian machine ([`cluster`]), and runs the checks of the repository in order
//! ([`stages`]). `cargo xtask` is its command line; the tests that need the cluster are in
//! `e2e/tests`.

pub mod bench;
pub mod beside;
pub mod binaries;
pub mod boottime;
pub mod cache;
pub mod campaign;
pub mod clock_pages;
pub mod cluster;
pub mod command;
pub mod counter;
pub mod documented;
pub mod faults;
pub mod fuzz;
pub mod http;
pub mod image;
pub mod leader_watch;
pub mod load;
pub mod monitoring;
pub mod packages;
pub mod preflight;
pub mod product;
pub mod prometheus;
pub mod rotation;
pub mod searches;
pub mod second_opinion;
pub mod skipped;
pub mod stages;
pub mod traces;
pub mod wait;

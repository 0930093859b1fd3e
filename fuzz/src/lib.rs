//! Hands arbitrary input to what reads it: frames, beacons and names of peers, requests,
//! manifests, reviews, Leases.
//!
//! A target is a function of bytes, which panics when something is wrong. The engine (libFuzzer, in
//! the program of this crate) looks for input that reaches code that no earlier one reached;
//! `cargo xtask fuzz` runs it. The inputs in `seeds` are where it begins, and tests of this crate.

mod beacon;
mod bodies;
mod frame;
mod handshake;
mod http;
mod identity;
mod lease;
mod manifest;
mod review;
pub mod seeds;
mod service;

/// What is fed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its directory in `seeds`.
    pub name: &'static str,
    /// Takes one input; panics if that shows a mistake.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "beacon", run: beacon::run },
    Target { name: "bodies", run: bodies::run },
    Target { name: "frame", run: frame::run },
    Target { name: "handshake", run: handshake::run },
    Target { name: "http", run: http::run },
    Target { name: "identity", run: identity::run },
    Target { name: "lease", run: lease::run },
    Target { name: "manifest", run: manifest::run },
    Target { name: "review", run: review::run },
];

/// The target of that name.
pub fn named(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

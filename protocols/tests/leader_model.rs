//! A model of the leader lease protocol: views, promises, seals, one compare-and-swap, grace period, locks
//! with tokens.
//!
//! `docs/models.md` states what is modelled and what is not, and has the figures. A search prints its
//! line with `cargo test -p conclave-protocols --test leader_model -- --nocapture`; the campaign is
//! run with `--ignored`.

#[path = "leader_model/mod.rs"]
mod leader_model;

//! A model of the office protocol: views, promises, seals, one compare-and-swap, quiet time, locks
//! with tokens.
//!
//! `docs/models.md` says what is modelled and what is not, and has the figures. A search prints its
//! line with `cargo test -p conclave-protocols --test office_model -- --nocapture`; the campaign is
//! run with `--ignored`.

#[path = "office_model/mod.rs"]
mod office_model;

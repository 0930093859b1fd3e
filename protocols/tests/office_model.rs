//! A model of the office protocol: views, promises, seals, one compare-and-swap, quiet time, locks with tokens.

#[path = "office_model/mod.rs"]
mod office_model;

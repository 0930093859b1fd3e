//! Leases between clocks that run at different rates: one of the register, and one of a majority.
//!
//! The model of the leader lease protocol lets all nodes tick together. These two small ones show that
//! counting from before the sending and from after the receipt, with a hold that is shorter than the
//! wait by the ratio of the clocks, is what two clocks need. `docs/models.md` has the figures.

#[path = "lease_model/mod.rs"]
mod lease_model;

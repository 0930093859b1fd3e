//! Container images, made without a container engine.
//!
//! Four are made: the product's, that of a sidecar that speaks an older protocol, the pause image that holds a sandbox open, and the image of the
//! client applications in test pods. Each is an archive in the OCI image layout, which containerd
//! imports as it is.

pub mod client;
pub mod oci;
pub mod product;

pub use client::CLIENT;
pub use product::{NEXT, PAUSE, PRODUCT};

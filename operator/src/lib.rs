//! Reconciles `Conclave` resources: it makes what a group of pods needs to coordinate, and reports
//! what the group does. It takes no part in the coordination: groups go on without it for as long as
//! their certificates live.
//!
//! The path of a change: [`controller`] is notified that something moved, [`observe`] reads what
//! there is, [`plan()`](plan::plan) decides what to do (pure, with all the rules), [`apply`] does it.
//!
//! Two replicas may run: [`leadership`] lets one of them act. All of them serve certificates
//! ([`authority`]) and add sidecars to pods ([`injector`]).

pub mod apply;
pub mod authority;
mod conditions;
pub mod config;
mod connections;
pub mod controller;
pub mod elections;
mod events;
pub mod injector;
pub mod leadership;
pub mod metrics;
pub mod notices;
pub mod objects;
pub mod observe;
pub mod plan;
pub mod rbac;
pub mod record;
pub mod relabelled;
pub mod server;
mod status;
pub mod strays;
pub mod telemetry;

/// The field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "conclave-operator";

/// The field manager of what announces the authority: it does not wait for the rest.
pub(crate) const AUTHORITY_FIELD_MANAGER: &str = "conclave-operator-authority";

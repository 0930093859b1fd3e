//! What the operator says to an API server that keeps objects in memory.

mod calls;
mod certificates;
mod elections;
mod guard;
mod keeping;
mod refusals;
mod relabelled;
mod server;
mod silence;
mod strays;
mod tls;
mod turns;

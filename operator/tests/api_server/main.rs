//! What the operator says to an API server that keeps objects in memory.

mod calls;
mod server;
mod turns;

//! Whole groups in the simulator: the same members that the sidecar runs, and a register.

#[path = "group/nodes.rs"]
mod nodes;
#[path = "group/scenarios.rs"]
mod scenarios;
#[path = "group/storm.rs"]
mod storm;
#[path = "group/weather.rs"]
mod weather;
#[path = "group/world.rs"]
mod world;

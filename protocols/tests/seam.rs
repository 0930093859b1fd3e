//! The core with another service than locks: it goes through all the laws of views, leader leases and holds.

#[path = "group/faults.rs"]
mod faults;
#[path = "seam/kit.rs"]
mod kit;
#[path = "seam/line.rs"]
mod line;
#[path = "group/nodes.rs"]
mod nodes;
#[path = "group/orders.rs"]
mod orders;
#[path = "group/storm.rs"]
mod storm;
#[path = "group/swarm.rs"]
mod swarm;
#[path = "group/terms.rs"]
mod terms;
#[path = "group/watch.rs"]
mod watch;
#[path = "group/weather.rs"]
mod weather;
#[path = "group/world.rs"]
mod world;

//! Whole groups: the same members that the sidecar runs, on a bench and in the simulator.

#[path = "group/advisory.rs"]
mod advisory;
#[path = "group/announced.rs"]
mod announced;
#[path = "group/at_scale.rs"]
mod at_scale;
#[path = "group/belief.rs"]
mod belief;
#[path = "group/bench.rs"]
mod bench;
#[path = "group/chance.rs"]
mod chance;
#[path = "group/closing.rs"]
mod closing;
#[path = "group/dead_follower.rs"]
mod dead_follower;
#[path = "group/declined.rs"]
mod declined;
#[path = "group/delays.rs"]
mod delays;
#[path = "group/detection.rs"]
mod detection;
#[path = "group/electing.rs"]
mod electing;
#[path = "group/ending.rs"]
mod ending;
#[path = "group/evidence.rs"]
mod evidence;
#[path = "group/faults.rs"]
mod faults;
#[path = "group/found.rs"]
mod found;
#[path = "group/full.rs"]
mod full;
#[path = "group/keeping.rs"]
mod keeping;
#[path = "group/kit.rs"]
mod kit;
#[path = "group/list_rules.rs"]
mod list_rules;
#[path = "group/lock_rules.rs"]
mod lock_rules;
#[path = "group/lost.rs"]
mod lost;
#[path = "group/named_elections.rs"]
mod named_elections;
#[path = "group/nodes.rs"]
mod nodes;
#[path = "group/one_lease.rs"]
mod one_lease;
#[path = "group/orders.rs"]
mod orders;
#[path = "group/overtaken.rs"]
mod overtaken;
#[path = "group/peer_carry.rs"]
mod peer_carry;
#[path = "group/peer_rules.rs"]
mod peer_rules;
#[path = "group/resting.rs"]
mod resting;
#[path = "group/restored.rs"]
mod restored;
#[path = "group/rules.rs"]
mod rules;
#[path = "group/scenarios.rs"]
mod scenarios;
#[path = "group/shown.rs"]
mod shown;
#[path = "group/slow_register.rs"]
mod slow_register;
#[path = "group/storm.rs"]
mod storm;
#[path = "group/superpeers.rs"]
mod superpeers;
#[path = "group/swarm.rs"]
mod swarm;
#[path = "group/switching.rs"]
mod switching;
#[path = "group/taking_over.rs"]
mod taking_over;
#[path = "group/terms.rs"]
mod terms;
#[path = "group/turns.rs"]
mod turns;
#[path = "group/versions.rs"]
mod versions;
#[path = "group/watch.rs"]
mod watch;
#[path = "group/weather.rs"]
mod weather;
#[path = "group/wire.rs"]
mod wire;
#[path = "group/world.rs"]
mod world;
#[path = "group/zones.rs"]
mod zones;

//! The group clock: the textbook's examples, the rules of the daemon, and the weather.

#[path = "clock/by_messages.rs"]
mod by_messages;
#[path = "clock/carried.rs"]
mod carried;
#[path = "clock/cristian.rs"]
mod cristian;
#[path = "clock/cuts.rs"]
mod cuts;
#[path = "clock/displaced.rs"]
mod displaced;
#[path = "clock/disrupted.rs"]
mod disrupted;
#[path = "clock/interval.rs"]
mod interval;
#[path = "clock/lapse.rs"]
mod lapse;
#[path = "clock/liars.rs"]
mod liars;
#[path = "clock/lies.rs"]
mod lies;
#[path = "clock/ntp.rs"]
mod ntp;
#[path = "clock/pods.rs"]
mod pods;
#[path = "clock/promises.rs"]
mod promises;
#[path = "clock/rules.rs"]
mod rules;
#[path = "clock/servers.rs"]
mod servers;
#[path = "clock/slewing.rs"]
mod slewing;
#[path = "clock/stated.rs"]
mod stated;
#[path = "clock/still.rs"]
mod still;
#[path = "clock/succession.rs"]
mod succession;
#[path = "clock/textbook.rs"]
mod textbook;
#[path = "clock/trust.rs"]
mod trust;
#[path = "clock/unarbitrated.rs"]
mod unarbitrated;
#[path = "clock/weather.rs"]
mod weather;
#[path = "clock/world.rs"]
mod world;

//! The group clock: the textbook's examples, the rules of the daemon, and the weather.

#[path = "clock/cristian.rs"]
mod cristian;
#[path = "clock/cuts.rs"]
mod cuts;
#[path = "clock/liars.rs"]
mod liars;
#[path = "clock/ntp.rs"]
mod ntp;
#[path = "clock/rules.rs"]
mod rules;
#[path = "clock/slewing.rs"]
mod slewing;
#[path = "clock/still.rs"]
mod still;
#[path = "clock/textbook.rs"]
mod textbook;
#[path = "clock/weather.rs"]
mod weather;
#[path = "clock/world.rs"]
mod world;

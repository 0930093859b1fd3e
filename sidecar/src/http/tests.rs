//! The API against a group that the test plays.

#[cfg(test)]
mod claims;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod described;
#[cfg(test)]
pub(crate) mod documents;
pub(crate) mod double;
#[cfg(test)]
mod elections;
#[cfg(test)]
mod enduring;
#[cfg(test)]
pub(crate) mod events;
#[cfg(test)]
mod guarding;
#[cfg(test)]
mod hanging_up;
#[cfg(test)]
mod leader_elector;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod many;
#[cfg(test)]
mod members;
#[cfg(test)]
mod reconnecting;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod time;
#[cfg(test)]
mod time_compare;
#[cfg(test)]
mod time_history;
#[cfg(test)]
pub(crate) mod time_peers;
#[cfg(test)]
mod time_wait;
#[cfg(test)]
mod watching;

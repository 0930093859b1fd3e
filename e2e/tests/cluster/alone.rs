//! What stops or replaces something that all groups of a cluster share, so that nothing else can be tested
//! meanwhile.

mod alerts;
mod helm;
mod namespaced;
mod operator;
mod outages;
mod pasted;
mod policy;

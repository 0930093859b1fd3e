//! The checker of histories: what it must find, what it must let pass, and how fast it is.

#[path = "history/bad.rs"]
mod bad;
#[path = "history/checked.rs"]
mod checked;
#[path = "history/good.rs"]
mod good;
#[path = "history/mutations.rs"]
mod mutations;
#[path = "history/reference.rs"]
mod reference;
#[path = "history/script.rs"]
mod script;

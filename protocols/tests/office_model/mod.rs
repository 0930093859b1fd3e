//! A model of the office protocol.
mod broken_locks;
mod broken_office;
mod broken_tokens;
mod campaign;
mod candidate;
mod check;
mod holds;
mod leader;
mod locks;
mod member;
mod model;
mod properties;
mod register;
mod rules;
mod scope;
mod state;
mod time;

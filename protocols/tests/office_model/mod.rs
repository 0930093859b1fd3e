//! The model, by role. Every action has a guard and an effect, as in a specification in TLA+; the
//! rules of the protocol are switches, so that the same code searches the protocol and every variant
//! that lacks a rule.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `nodes` | nodes, sets of nodes, small numbers |
//! | `state` | register, nodes, leaders, candidates, messages on their way |
//! | `scope` | the bounds of a search |
//! | `rules` | one switch for each rule |
//! | `model` | the actions, and which of them may come next |
//! | `time` | the tick that ages everything |
//! | `member`, `leader`, `candidate`, `register`, `locks` | guards and effects by role |
//! | `properties` | what is always true, and what every search must reach |
//! | `check` | runs a search |
//! | `holds`, `campaign` | searches that find nothing |
//! | `broken_office`, `broken_locks`, `broken_tokens` | a rule left out, and what comes of it |

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
mod nodes;
mod properties;
mod register;
mod rules;
mod scope;
mod state;
mod time;

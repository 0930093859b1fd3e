//! The model, by role. Every action has a guard and an effect, as in a specification in TLA+; the
//! rules of the protocol are switches, so that the same code searches the protocol and every variant
//! that lacks a rule.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `nodes` | nodes, sets of nodes, small numbers |
//! | `state` | register, nodes, leaders, candidates, messages on their way |
//! | `packed` | how a state is hashed |
//! | `scope` | the bounds of a search |
//! | `rules` | one switch for each rule |
//! | `model` | the actions, and which of them may come next |
//! | `time` | the tick that ages everything |
//! | `member`, `leader`, `candidate`, `register`, `locks` | guards and effects by role |
//! | `lists` | what leaders list, and seals report |
//! | `peers`, `admission` | locks whose state sits in the members: what members do, and the leader |
//! | `properties` | what is always true, and what every search must reach |
//! | `recovery` | the schedule by which a leader lease comes back |
//! | `budget`, `check` | run a search |
//! | `replay` | runs of the model, held against the rules that traces of members are held against |
//! | `holds`, `campaign` | searches that find nothing |
//! | `holds_peers` | the same for locks whose state sits in the members |
//! | `holds_lists`, `broken_lists` | the same, and rules left out, where leaders list what they hold |
//! | `journeys` | what a group goes through in its life |
//! | `live` | searches in which a leader lease must come back |
//! | `broken_leader_lease`, `broken_locks`, `broken_peers`, `broken_tokens`, `broken_liveness` | a rule left out, and what comes of it |

mod admission;
mod broken_leader_lease;
mod broken_lists;
mod broken_liveness;
mod broken_locks;
mod broken_peers;
mod broken_tokens;
mod budget;
mod campaign;
mod candidate;
mod check;
mod holds;
mod holds_lists;
mod holds_peers;
mod journeys;
mod leader;
mod lists;
mod live;
mod locks;
mod member;
mod model;
mod nodes;
mod packed;
mod peers;
mod properties;
mod recovery;
mod register;
mod replay;
mod rules;
mod scope;
mod state;
mod time;

//! | file | what is in it |
//! | --- | --- |
//! | `clocks` | clocks of different rates, and how a lease is counted |
//! | `register` | a lease that one of several processes has of a register |
//! | `majority` | a leader lease that a majority of members promise |

#[path = "../leader_model/budget.rs"]
mod budget;
mod clocks;
mod majority;
mod register;

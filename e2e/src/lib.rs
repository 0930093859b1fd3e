//! What acts on Conclave as its users and their machines do: installs it, calls it, breaks what it runs on and
//! measures it. The tests that need a cluster are in `e2e/tests`; what builds and boots the cluster is in
//! [`conclave_testbed`].

pub mod bench;
pub mod boottime;
pub mod clock_pages;
pub mod counter;
pub mod documented;
pub mod faults;
pub mod leader_watch;
pub mod load;
pub mod monitoring;
pub mod product;
pub mod prometheus;
pub mod rotation;
pub mod second_opinion;
pub mod traces;
pub mod wall_clock;

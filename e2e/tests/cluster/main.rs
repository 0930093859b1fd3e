//! The product as a user has it, on a real Kubernetes. Each test has a namespace of its own, and runs beside
//! others but for those of [`alone`].

mod alone;
mod anew;
mod changes;
mod clock_pages;
mod clocks;
mod counts;
mod elections;
mod evidence;
mod faults;
mod group;
mod install;
mod interoperation;
mod locks;
mod logical;
mod monitoring;
mod nodes;
mod nominations;
mod none;
mod register;
mod services;
mod smoke;
mod trust;
mod versions;

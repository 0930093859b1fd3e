//! What the page promises.

mod arithmetic;
mod concurrent;
mod layout;
mod pages;

//! The relation of two raw clocks: its bound holds, is the best there is, and is small.

#[path = "clock_link/breaks.rs"]
mod breaks;
#[path = "clock_link/course.rs"]
mod course;
#[path = "clock_link/laws.rs"]
mod laws;

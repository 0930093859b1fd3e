//! The relation of two raw clocks: its bound holds, is the best there is, and is small.

#[path = "clock_link/bed.rs"]
mod bed;
#[path = "clock_link/breaks.rs"]
mod breaks;
#[path = "clock_link/course.rs"]
mod course;
#[path = "clock_link/exact.rs"]
mod exact;
#[path = "clock_link/hostile.rs"]
mod hostile;
#[path = "clock_link/laws.rs"]
mod laws;
#[path = "clock_link/published.rs"]
mod published;
#[path = "clock_link/size.rs"]
mod size;

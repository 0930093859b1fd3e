//! Physical clocks.

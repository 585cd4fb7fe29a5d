//! Behaviour of the controllers on a cluster in memory.

mod cluster;
mod job;

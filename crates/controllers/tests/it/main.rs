//! Behaviour of the controllers on a cluster in memory.

mod cluster;
mod cron;
mod flow;
mod job;
mod queue;

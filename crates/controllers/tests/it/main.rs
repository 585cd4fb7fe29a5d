//! Behaviour of the controllers on a cluster in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cluster;
mod cron;
mod flow;
mod hyper_nodes;
mod job;
mod page;
mod podgroups;
mod queue;

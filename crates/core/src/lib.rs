//! The cycle: a Session on the Cluster, the actions, a Statement that commits or discards, statuses.
//!
//! Nothing here reads files, sockets, clocks or the environment; time and the seed of all chance are arguments. A cycle
//! that is run again on an equal Cluster with equal arguments returns identical Decisions.
pub mod actions;
mod backlog;
mod backoff;
mod cycle;
pub mod decision;
mod eviction;
mod eviction_history;
mod failed_searches;
mod feasibility;
mod gang;
mod network;
mod order;
mod other_refusals;
mod plan;
pub mod report;
mod reservation;
mod searches;
pub mod session;
mod state;
pub mod statement;
mod status;
mod steps;

pub use backlog::{Activation, Pending, RetryLimits};
pub use backoff::BackoffTimes;
pub use cycle::{CycleOptions, Outcome, Scheduler, cycle};
pub use state::SchedulerState;

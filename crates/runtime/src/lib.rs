//! The shell on the API server: watches, the scheduling thread, the outbox, status, events, the lease; and the shell of
//! the controllers.
//!
//! ```text
//! API server --> watch --> engine (Cluster, cycles) --> outbox --> API server
//!                            ^                          |
//!                            +------ bound, failed -----+
//! ```
pub mod api;
pub mod backoff;
pub mod bootstrap;
pub mod client;
pub mod clock;
pub mod controllers;
pub mod engine;
pub mod extender;
pub mod faults;
pub mod fence;
mod group_controller;
pub mod journal;
pub mod lease;
pub mod limiter;
pub mod metrics;
pub mod objects;
pub mod outbox;
pub mod owners;
pub mod pulse;
pub mod recorder;
pub mod reload;
pub mod scheduler;
pub mod server;
pub mod spans;
pub mod telemetry;
pub mod usage;
pub mod watch;
pub mod wire;

//! Schedulers and controllers in a world that fails.
//!
//! The engine, the watches, the outbox and the elector of the live scheduler, and the machine of the live controllers,
//! run against a simulated API server in virtual time. A seed gives a story (nodes, gangs, faults); a story has one
//! outcome. After each thing that happens, checkers compare what the API server holds with what Phalanx promises. The
//! API server of `phalanx simulate`, which does not fail, is another one (`sim/src/api_server/`).
pub mod checks;
pub mod clocks;
pub mod controllers;
pub mod gangs;
pub mod planted;
pub mod process;
pub mod scheduler;
pub mod server;
pub mod shrink;
pub mod story;
pub mod watches;
pub mod world;

//! The scheduler: World, Session, Statement, actions, plugins.
//!
//! Pure: no IO, no clock, no environment, no chance but from a seed. The same World, configuration, seed and time give
//! the same Decisions, to the byte; so one core serves the live scheduler, the simulator, replay and the tests.
pub mod actions;
pub mod annotation;
pub mod conf;
mod cycle;
pub mod decision;
pub mod diagnosis;
pub mod duration;
pub mod event;
pub mod id;
pub mod label;
pub mod placement;
pub mod plugin;
pub mod plugins;
pub mod report;
pub mod session;
pub mod statement;
mod status;
#[cfg(test)]
mod testing;
pub mod tiers;
pub mod world;

pub use cycle::{Outcome, Scheduler};

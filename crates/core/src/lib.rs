//! The scheduler: World, Session, Statement, actions, plugins.
//!
//! Nothing here reads files, sockets, clocks or the environment; time and the seed of all chance are arguments. A cycle
//! that is run again on an equal World with equal arguments returns identical Decisions.
pub mod actions;
pub mod annotation;
pub mod budget;
pub mod conf;
mod cycle;
pub mod decision;
pub mod diagnosis;
pub mod duration;
pub mod event;
pub mod extender;
pub mod id;
pub mod label;
pub mod near;
pub mod placement;
pub mod plugin;
pub mod plugins;
pub mod report;
mod searches;
pub mod session;
pub mod statement;
mod status;
#[cfg(test)]
mod testing;
pub mod tiers;
mod unserved;
mod waiting;
pub mod world;

pub use cycle::{Outcome, Scheduler};
pub use waiting::Patience;

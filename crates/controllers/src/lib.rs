//! Controllers: functions from observed objects to changes.
//!
//! Pure: no client, no clock, no chance. What a controller has to remember stands in the objects, so that it may be
//! stopped between any two changes; see `crates/design/controllers.md`.

mod change;
pub mod command;
pub mod cron;
pub mod flow;
pub mod hyper_node;
pub mod job;
mod meta;
pub mod plugin;
pub mod podgroup;
pub mod queue;
mod requests;
mod ring;

pub use change::{Change, Kind, Note, Object, Outcome, Target};

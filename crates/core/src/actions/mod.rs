//! The table of actions: one file and one line each.
mod allocate;
mod attempt;
mod backfill;
mod enqueue;
pub(crate) mod gang;
mod gangpreempt;
mod gangreclaim;
mod gates;
pub(crate) mod gather;
pub(crate) mod hold;
pub(crate) mod order;
pub(crate) mod pack;
mod preempt;
mod reclaim;
mod shuffle;
mod start;
pub(crate) mod together;
pub(crate) mod work;
pub(crate) mod yielding;

pub(crate) use gang::release;
pub(crate) use order::Heap;
pub(crate) use work::unplaced;

use crate::session::Session;
use phalanx_framework::conf::ArgSpec;

/// A row in the table of actions.
pub struct ActionDef {
    /// The name in scheduler.conf.
    pub name: &'static str,
    /// One sentence on the action.
    pub summary: &'static str,
    /// Its arguments.
    pub args: &'static [ArgSpec],
    /// Runs it.
    pub run: fn(&mut Session<'_>),
}

/// Every action, by name.
pub static ACTIONS: &[ActionDef] = &[
    enqueue::DEF,
    allocate::DEF,
    backfill::DEF,
    preempt::DEF,
    reclaim::DEF,
    gangpreempt::DEF,
    gangreclaim::DEF,
    shuffle::DEF,
];

/// The action of a name.
pub fn find(name: &str) -> Option<&'static ActionDef> {
    ACTIONS.iter().find(|def| def.name == name)
}

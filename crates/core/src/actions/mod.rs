//! The table of actions: one file and one line each.
mod allocate;
mod backfill;
mod enqueue;
mod gangpreempt;
mod gangreclaim;
mod gates;
mod preempt;
mod reclaim;
mod shuffle;

use crate::session::Session;
use phalanx_framework::conf::{ArgKind, ArgSpec};

/// An argument of several actions.
const PREDICATE_CACHE_ARG: ArgSpec = ArgSpec {
    name: "predicateErrorCacheEnable",
    kind: ArgKind::Bool,
    default: "true",
    doc: "Accepted for Volcano's sake; filters are always asked once per class of tasks.",
};

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

/// All actions; the order of this table does not matter.
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

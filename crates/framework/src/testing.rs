//! Cluster objects, arguments and opened plugins in a few words, for tests.
use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::TaskId;
pub use phalanx_cluster::testing::*;

use crate::conf::{Arg, Args, Flags, Position, Value};
use crate::plugin::{Eviction, EvictionKind, PluginContext};

/// Arguments as scheduler.conf would have them.
pub fn args(list: &[(&str, Value)]) -> Args {
    let arg = |(name, value): &(&str, Value)| {
        ((*name).to_owned(), Arg { value: value.clone(), at: Position::default() })
    };
    Args(list.iter().map(arg).collect())
}

/// Opens a plugin for a first cycle, without an extender.
pub fn opened<P>(
    open: impl FnOnce(PluginContext<'_>) -> P,
    cluster: &Cluster,
    now: Time,
    list: &[(&str, Value)],
) -> P {
    open(PluginContext {
        cluster,
        args: &args(list),
        flags: Flags::default(),
        now,
        before: None,
        extender: None,
    })
}

/// An eviction of single pods.
pub fn eviction(kind: EvictionKind, by: TaskId) -> Eviction {
    Eviction { kind, by, whole_gangs: false }
}

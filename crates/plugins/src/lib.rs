//! The plugins of the scheduler. Each plugin is a file, or a folder where it has parts, and a row of [`PLUGINS`].
mod binpack;
mod capacity;
mod cdp;
mod conformance;
mod drf;
mod extender;
mod fragmentation;
mod gang;
mod network_topology_aware;
mod nodegroup;
mod nodeorder;
mod overcommit;
mod pdb;
mod predicates;
mod priority;
mod proportion;
mod rescheduling;
mod resource_strategy_fit;
mod resourcequota;
mod shared;
mod sla;
mod task_topology;
mod tdm;
mod usage;

// The eviction code of crates/core uses both under these names.
pub use gang::{GangSurplus, within_surplus};

use phalanx_framework::plugin::PluginDef;

/// All plugins; the order of this table does not matter.
pub static PLUGINS: &[PluginDef] = &[
    priority::DEF,
    gang::DEF,
    conformance::DEF,
    overcommit::DEF,
    drf::DEF,
    predicates::DEF,
    proportion::DEF,
    capacity::DEF,
    nodeorder::DEF,
    binpack::DEF,
    fragmentation::DEF,
    cdp::DEF,
    pdb::DEF,
    sla::DEF,
    resource_strategy_fit::DEF,
    resourcequota::DEF,
    network_topology_aware::DEF,
    nodegroup::DEF,
    tdm::DEF,
    rescheduling::DEF,
    extender::DEF,
    usage::DEF,
    task_topology::DEF,
];

/// The plugin of a name, if there is one.
pub fn find(name: &str) -> Option<&'static PluginDef> {
    PLUGINS.iter().find(|def| def.name == name)
}

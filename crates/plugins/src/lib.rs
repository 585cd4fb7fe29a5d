//! The table of plugins: one file and one line each.
mod binpack;
mod capacity;
mod cdp;
mod conformance;
mod drf;
mod extender;
mod flat;
mod gang;
mod gang_over;
mod hdrf;
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
mod share;
mod sla;
mod task_topology;
mod tdm;
mod usage;
mod waterfill;

pub use gang::{Spare, spare};

use phalanx_framework::plugin::PluginDef;

/// Every plugin, by name.
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
    cdp::DEF,
    pdb::DEF,
    sla::DEF,
    resource_strategy_fit::DEF,
    resourcequota::DEF,
    nodegroup::DEF,
    tdm::DEF,
    rescheduling::DEF,
    extender::DEF,
    usage::DEF,
    task_topology::DEF,
];

/// The row of a name.
pub fn find(name: &str) -> Option<&'static PluginDef> {
    PLUGINS.iter().find(|def| def.name == name)
}

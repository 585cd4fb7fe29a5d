//! The table of plugins: one file and one line each.
mod binpack;
mod nodeorder;
mod predicates;

use crate::plugin::PluginDef;

/// Every plugin, by name.
pub static PLUGINS: &[PluginDef] = &[predicates::DEF, nodeorder::DEF, binpack::DEF];

/// The row of a name.
pub fn find(name: &str) -> Option<&'static PluginDef> {
    PLUGINS.iter().find(|def| def.name == name)
}

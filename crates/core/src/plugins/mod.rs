//! The table of plugins: one file and one line each.
use crate::plugin::PluginDef;

/// Every plugin, by name.
pub static PLUGINS: &[PluginDef] = &[];

/// The row of a name.
pub fn find(name: &str) -> Option<&'static PluginDef> {
    PLUGINS.iter().find(|def| def.name == name)
}

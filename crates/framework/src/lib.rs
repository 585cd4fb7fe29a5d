//! The plugin contract, tiers of plugins and how their opinions combine, the configuration, and placement by class.
//!
//! Nothing here reads files, sockets, clocks or the environment.
pub mod conf;
pub mod extender;
pub mod near;
pub mod placement;
pub mod plugin;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tiers;
pub mod trace;

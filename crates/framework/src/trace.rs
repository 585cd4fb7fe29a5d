//! What is told of the stages of a cycle, so that who runs cycles can measure them.
use std::fmt::Debug;

/// A stage of a cycle, by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The Cluster is at the time of the cycle.
    Begun,
    /// This plugin is open.
    PluginOpened(&'static str),
    /// The session is open, and the backlog says which jobs are active.
    SessionOpened,
    /// This action is over, and its decisions are handed out.
    Action(&'static str),
    /// Statuses are decided.
    Statuses,
    /// This plugin is closed.
    PluginClosed(&'static str),
}

/// Told when a stage is over. Nothing comes back that decides, so no decision depends on how long a stage takes.
pub trait Trace: Debug + Send + Sync {
    /// A stage is over, and the next one begins.
    fn ended(&self, stage: Stage);
    /// Whether the questions to plugins are told in the cycle that begins.
    fn follows_questions(&self) -> bool {
        false
    }
    /// A plugin is asked.
    fn asking(&self) {}
    /// The plugin has answered.
    fn answered(&self, _plugin: &'static str) {}
}

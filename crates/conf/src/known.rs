//! What a configuration may name: the tables of plugins and actions, as data.
use phalanx_core::actions::ACTIONS;
use phalanx_framework::conf::{ArgSpec, Flag};
use phalanx_plugins::PLUGINS;

/// A plugin or an action and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Doc {
    /// The name in scheduler.conf.
    pub name: &'static str,
    /// Its arguments.
    pub args: &'static [ArgSpec],
}

/// A plugin that is hardly left out on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    /// Its name.
    pub plugin: &'static str,
    /// The flag without which it might as well be left out.
    pub flag: Flag,
    /// What happens without it.
    pub without: &'static str,
}

/// A plugin and its arguments.
pub type PluginDoc = Doc;

/// An action and its arguments.
pub type ActionDoc = Doc;

/// The plugins and actions of this build.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Plugins, in the order in which lists show them.
    pub plugins: Vec<PluginDoc>,
    /// Actions, likewise.
    pub actions: Vec<ActionDoc>,
    /// Plugins that are hardly left out on purpose.
    pub missed: Vec<Missed>,
    /// `--scheduler-name`; empty where it is not known.
    pub scheduler_names: Vec<String>,
}

impl Known {
    /// The tables of the core.
    pub fn builtin() -> Self {
        let plugins = PLUGINS.iter().map(|def| Doc { name: def.name, args: def.args });
        let actions = ACTIONS.iter().map(|def| Doc { name: def.name, args: def.args });
        Self {
            plugins: plugins.collect(),
            actions: actions.collect(),
            missed: MISSED.to_vec(),
            ..Self::default()
        }
    }

    /// The same for a scheduler of these names.
    #[must_use]
    pub fn of(self, scheduler_names: &[String]) -> Self {
        Self { scheduler_names: scheduler_names.to_vec(), ..self }
    }

    /// The plugin of this name.
    pub fn plugin(&self, name: &str) -> Option<PluginDoc> {
        self.plugins.iter().find(|doc| doc.name == name).copied()
    }

    /// The action of this name.
    pub fn action(&self, name: &str) -> Option<ActionDoc> {
        self.actions.iter().find(|doc| doc.name == name).copied()
    }
}

const MISSED: [Missed; 2] = [
    Missed {
        plugin: "gang",
        flag: Flag::JobReady,
        without: "pods of a PodGroup start one by one, whatever its minMember",
    },
    Missed {
        plugin: "predicates",
        flag: Flag::Predicate,
        without: "pods go to nodes that selectors, affinity, taints, cordons, ports or volumes rule out",
    },
];

/// Names of a table.
pub(crate) fn names(docs: &[Doc]) -> Vec<&'static str> {
    docs.iter().map(|doc| doc.name).collect()
}

/// Plugins that Volcano registers: a file that names one of them is not mistaken, only ahead of us.
pub(crate) const VOLCANO_PLUGINS: [&str; 24] = [
    "binpack",
    "capacity",
    "cdp",
    "conformance",
    "deviceshare",
    "drf",
    "extender",
    "gang",
    "network-topology-aware",
    "nodegroup",
    "nodeorder",
    "numa-aware",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
];

/// Actions that Volcano registers.
pub(crate) const VOLCANO_ACTIONS: [&str; 8] =
    ["enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"];

/// Arguments that Volcano, or an earlier version of it, reads, and that are not supported here though their plugin is.
const VOLCANO_ARGUMENTS: [(&str, &str); 4] = [
    ("plugin predicates", "predicate.GPUSharingEnable"),
    ("plugin predicates", "predicate.GPUNumberEnable"),
    ("plugin predicates", "predicate.ProportionalEnable"),
    ("plugin predicates", "predicate.resources"),
];

/// Whether Volcano gives this argument of a plugin a meaning, or once did; more words may follow, such as the
/// names of resources that follow `predicate.resources`.
pub(crate) fn is_volcanos(owner: &str, argument: &str) -> bool {
    VOLCANO_ARGUMENTS.iter().any(|(plugin, name)| {
        *plugin == owner
            && argument.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

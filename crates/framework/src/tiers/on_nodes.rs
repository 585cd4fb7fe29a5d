//! Filters and scorers of nodes: of the plugins of tiers, and of those of the profile of a class.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{TierPlugin, Tiers};
use crate::conf::Flag;
use crate::placement::{ExtraScores, ScopedClass};
use crate::plugin::{NodeRules, Plugin, TaskRules};
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{ClassId, NodeId, TaskId};

/// How one plugin scores nodes for one task.
pub struct PluginScorers {
    /// The plugin.
    pub name: &'static str,
    /// Its scorers; no filters.
    pub rules: NodeRules,
    /// Scores of single nodes.
    pub extra: Vec<(NodeId, f64)>,
}

impl PluginScorers {
    fn has_any(&self) -> bool {
        let NodeRules { scorers, resource_scorers, topology_scorers, hyper_node_scorers, .. } = &self.rules;
        !(scorers.is_empty()
            && resource_scorers.is_empty()
            && topology_scorers.is_empty()
            && hyper_node_scorers.is_empty()
            && self.extra.is_empty())
    }
}

impl Tiers {
    /// The profile of a class.
    fn profile_of(&self, cluster: &Cluster, class: ClassId) -> Option<usize> {
        let of = |name: &Arc<str>| {
            self.profiles.iter().position(|profile| profile.scheduler_name.as_str() == &**name)
        };
        cluster.classes[class]
            .constraints
            .scheduler
            .as_ref()
            .filter(|_| !self.profiles.is_empty())
            .and_then(of)
    }

    /// Whether a plugin filters and scores nodes for pods of a profile: those of the profile, and those of tiers in whose
    /// place it has none.
    fn serves(&self, entry: &TierPlugin, profile: Option<usize>) -> bool {
        let replaced = |at: usize| self.profiles[at].plugins.contains(&entry.name);
        match entry.profile {
            Some(own) => Some(own) == profile,
            None => !profile.is_some_and(replaced),
        }
    }

    /// The plugins for which a flag is on, and that filter and score nodes for a class.
    fn on_nodes(&self, cluster: &Cluster, class: ClassId, flag: Flag) -> impl Iterator<Item = &dyn Plugin> {
        let profile = self.profile_of(cluster, class);
        let on = self.plugins.iter().filter(move |entry| entry.is_on(Some(flag)));
        on.filter(move |entry| self.serves(entry, profile)).map(|entry| &*entry.plugin)
    }

    /// Whether the resource claims of a task are given devices when it is bound.
    pub fn give_devices(&self, cluster: &Cluster, task: TaskId) -> bool {
        self.on_nodes(cluster, cluster.tasks[task].class, Flag::Predicate).any(Plugin::gives_devices)
    }

    /// A task as placement sees it: its class and, where plugins have rules for single tasks, its scope.
    pub fn scoped_class(&self, cluster: &Cluster, task: TaskId) -> ScopedClass {
        ScopedClass::new(cluster.tasks[task].class, self.scope(cluster, task), task)
    }

    /// What the rules of a task depend on besides its class, as one hash; 0 when there is nothing.
    pub fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        self.hash_scopes(|rules| rules.scope(cluster, task))
    }

    /// The [`scope`](Self::scope) without what the task's own resource claims add.
    pub fn scope_without_claims(&self, cluster: &Cluster, task: TaskId) -> u64 {
        self.hash_scopes(|rules| rules.scope_without_claims(cluster, task))
    }

    fn hash_scopes(&self, scope_of: impl Fn(&dyn TaskRules) -> u64) -> u64 {
        let mut scope = 0;
        for index in &self.with_task_rules {
            let own = self.plugins[*index].plugin.task_rules().map_or(0, &scope_of);
            if own != 0 {
                let mut hasher = DefaultHasher::new();
                (scope, index, own).hash(&mut hasher);
                scope = hasher.finish().max(1);
            }
        }
        scope
    }

    /// The scores of single nodes for a task besides those of its rules.
    pub fn extra_scores(&self, cluster: &Cluster, task: TaskId) -> ExtraScores {
        let profile = self.profile_of(cluster, cluster.tasks[task].class);
        let entries = self.with_extra_scores.iter().map(|index| &self.plugins[*index]);
        let entries = entries.filter(|entry| self.serves(entry, profile));
        let mut scores = ExtraScores::default();
        for part in entries.filter_map(|entry| entry.plugin.extra_scores()) {
            scores.add(part.extra_node_scores(cluster, task));
        }
        scores
    }

    /// The filters and scorers of a class.
    pub fn rules(&self, cluster: &Cluster, class: ClassId) -> NodeRules {
        let mut rules = NodeRules::default();
        for plugin in self.on_nodes(cluster, class, Flag::Predicate) {
            plugin.filters(cluster, class, &mut rules);
        }
        for plugin in self.on_nodes(cluster, class, Flag::NodeOrder) {
            plugin.scorers(cluster, class, &mut rules);
        }
        rules
    }

    /// What each plugin that scores nodes says of them for a task.
    pub fn scorers(&self, cluster: &Cluster, task: TaskId) -> Vec<PluginScorers> {
        let scorers = |entry: &TierPlugin| {
            let (plugin, mut rules) = (&entry.plugin, NodeRules::default());
            plugin.scorers(cluster, cluster.tasks[task].class, &mut rules);
            if let Some(part) = plugin.task_rules() {
                part.task_scorers(cluster, task, &mut rules);
            }
            let extra = plugin.extra_scores().map(|part| part.extra_node_scores(cluster, task));
            PluginScorers { name: entry.name, rules, extra: extra.unwrap_or_default() }
        };
        let profile = self.profile_of(cluster, cluster.tasks[task].class);
        let on = self.plugins.iter().filter(|entry| entry.flags.on(Flag::NodeOrder));
        let on = on.filter(|entry| self.serves(entry, profile));
        on.map(scorers).filter(PluginScorers::has_any).collect()
    }

    /// The filters and scorers of a task: those of its class, and those that depend on more of the task.
    pub fn scoped_rules(&self, cluster: &Cluster, class: ClassId, task: TaskId) -> NodeRules {
        let mut rules = self.rules(cluster, class);
        for part in self.on_nodes(cluster, class, Flag::Predicate).filter_map(Plugin::task_rules) {
            part.task_filters(cluster, task, &mut rules);
        }
        for part in self.on_nodes(cluster, class, Flag::NodeOrder).filter_map(Plugin::task_rules) {
            part.task_scorers(cluster, task, &mut rules);
        }
        rules
    }
}

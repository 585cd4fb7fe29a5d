//! The plugins of a session in their tiers, and what is asked of them together: by rules that make one answer of many
//! (`combine`), about jobs and queues (`jobs`), and about nodes (`on_nodes`).
mod combine;
mod jobs;
mod on_nodes;

use std::sync::Arc;

use crate::conf::{Conf, Flag, Flags, PluginConf, Profile};
use crate::plugin::{Plugin, PluginContext, PluginDef, SessionInputs};
use crate::trace::{Stage, Trace};
pub use combine::TierVictims;
pub use on_nodes::PluginScorers;
use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, Status};

/// A plugin of a tier with its flags.
struct TierPlugin {
    name: &'static str,
    flags: Flags,
    plugin: Box<dyn Plugin>,
    /// It is of a profile, not of a tier.
    profile: Option<usize>,
}

/// A profile, whose plugins stand behind those of tiers.
struct OpenProfile {
    scheduler_name: String,
    /// The names of its plugins.
    plugins: Vec<&'static str>,
}

impl TierPlugin {
    /// Whether the hook of a flag is asked; without a flag every plugin is asked.
    fn is_on(&self, flag: Option<Flag>) -> bool {
        flag.is_none_or(|flag| self.flags.on(flag))
    }

    #[cold]
    fn ask_followed<T>(&self, trace: &dyn Trace, ask: impl FnOnce(&dyn Plugin) -> T) -> T {
        trace.asking();
        let answer = ask(&*self.plugin);
        trace.answered(self.name);
        answer
    }
}

/// The plugins of a session, by tier.
#[derive(Default)]
pub struct Tiers {
    plugins: Vec<TierPlugin>,
    /// By tier, the index in `plugins` behind its last plugin.
    ends: Vec<usize>,
    profiles: Vec<OpenProfile>,
    /// Indexes of plugins that listen to changes.
    listeners: Vec<usize>,
    /// Indexes of plugins with rules for single tasks.
    with_task_rules: Vec<usize>,
    /// Indexes of plugins with extra scores of nodes.
    with_extra_scores: Vec<usize>,
    /// Indexes of plugins with a remote policy.
    remote: Vec<usize>,
    /// The number of plugins that order jobs before broken gangs come before whole ones.
    before_repairs: usize,
    /// Told of the questions to plugins.
    followed: Option<Arc<dyn Trace>>,
}

/// Actions in which a job of higher rank evicts a job of lower rank of the same queue.
const PREEMPTING_ACTIONS: [&str; 2] = ["preempt", "gangpreempt"];

impl Tiers {
    /// Opens the plugins of scheduler.conf. A plugin that `table` does not name is skipped; the conf check reports it.
    pub fn open<'a>(
        table: &[PluginDef],
        conf: &Conf,
        cluster: &Cluster,
        inputs: impl Into<SessionInputs<'a>>,
    ) -> Self {
        let SessionInputs { now, before, extender, trace, .. } = inputs.into();
        let open = |row: &PluginConf, flags: Flags, profile| {
            let def = table.iter().find(|def| def.name == row.name)?;
            let args = &row.args;
            let plugin = (def.open)(PluginContext { cluster, args, flags, now, before, extender });
            trace.inspect(|trace| trace.ended(Stage::PluginOpened(def.name)));
            Some(TierPlugin { name: def.name, flags, plugin, profile })
        };
        let followed = trace.filter(|trace| trace.follows_questions()).cloned();
        let mut tiers = Self { followed, ..Self::default() };
        for tier in &conf.tiers {
            tier.plugins.iter().filter_map(|row| open(row, row.flags, None)).for_each(|it| tiers.push(it));
            tiers.ends.push(tiers.plugins.len());
        }
        for (at, Profile { scheduler_name, plugins, .. }) in conf.profiles.iter().enumerate() {
            let on_nodes = |row: &PluginConf| row.flags.only(&[Flag::Predicate, Flag::NodeOrder]);
            let opened: Vec<_> =
                plugins.iter().filter_map(|row| open(row, on_nodes(row), Some(at))).collect();
            let names = opened.iter().map(|entry| entry.name).collect();
            tiers.profiles.push(OpenProfile { scheduler_name: scheduler_name.clone(), plugins: names });
            for entry in opened {
                tiers.push(entry);
            }
        }
        if !PREEMPTING_ACTIONS.iter().any(|action| conf.has_action(action)) {
            tiers.before_repairs = 0;
        }
        tiers
    }

    fn push(&mut self, entry: TierPlugin) {
        let (flags, plugin) = (entry.flags, &entry.plugin);
        let index = self.plugins.len();
        if plugin.listens() {
            self.listeners.push(index);
        }
        if plugin.task_rules().is_some() && (flags.on(Flag::Predicate) || flags.on(Flag::NodeOrder)) {
            self.with_task_rules.push(index);
        }
        if plugin.extra_scores().is_some() && flags.on(Flag::NodeOrder) {
            self.with_extra_scores.push(index);
        }
        if plugin.remote().is_some() {
            self.remote.push(index);
        }
        if plugin.job_rank().is_some() && flags.on(Flag::JobOrder) {
            self.before_repairs = index + 1;
        }
        self.plugins.push(entry);
    }

    fn tiers(&self) -> impl Iterator<Item = &[TierPlugin]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let tier = &self.plugins[start..*end];
            start = *end;
            tier
        })
    }

    /// The plugins for which a flag is on, or all plugins without a flag, in the order of scheduler.conf.
    pub fn with(&self, flag: impl Into<Option<Flag>>) -> impl Iterator<Item = &dyn Plugin> {
        self.entries(flag.into()).map(|entry| &*entry.plugin)
    }

    /// All plugins, in the order of scheduler.conf.
    pub fn every(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(|entry| &*entry.plugin)
    }

    /// Asks a plugin. Questions that go by [`with`](Self::with) and [`every`](Self::every) are not followed.
    #[inline]
    fn ask<T>(&self, entry: &TierPlugin, ask: impl FnOnce(&dyn Plugin) -> T) -> T {
        match &self.followed {
            None => ask(&*entry.plugin),
            Some(trace) => entry.ask_followed(&**trace, ask),
        }
    }

    fn entries(&self, flag: Option<Flag>) -> impl Iterator<Item = &TierPlugin> {
        self.plugins.iter().filter(move |entry| entry.is_on(flag))
    }

    /// Closes the plugins: the session ends.
    pub fn close(&self, cluster: &Cluster, trace: Option<&Arc<dyn Trace>>) {
        for TierPlugin { name, plugin, .. } in &self.plugins {
            plugin.close(cluster);
            trace.inspect(|trace| trace.ended(Stage::PluginClosed(name)));
        }
    }

    /// Calls a hook that changes the plugin, for each plugin for which a flag is on.
    pub fn tell(&mut self, flag: Flag, mut told: impl FnMut(&mut dyn Plugin)) {
        for entry in self.plugins.iter_mut().filter(|entry| entry.flags.on(flag)) {
            told(&mut *entry.plugin);
        }
    }

    /// Tells the plugins that listen that the status of a task changed.
    pub fn changed(&mut self, cluster: &Cluster, task: TaskId, before: Status) {
        for index in &self.listeners {
            self.plugins[*index].plugin.on_change(cluster, task, before);
        }
    }
}

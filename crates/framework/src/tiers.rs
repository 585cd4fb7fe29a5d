//! Plugins in tiers, and the rules by which the opinions of plugins become one answer.
//!
//! Three rules follow the tiers of scheduler.conf: *first* (orders), *vote* (admission, pipelining) and *intersect*
//! (victims). Where tiers do not matter, *all*, *any* and *sum* ask every plugin. Source: Volcano's
//! `framework/session_plugins.go`, with the differences that docs/differences.md lists.
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::conf::{Conf, Flag, Flags, PluginConf, Profile};
use crate::extender::Endpoint;
use crate::placement::{ExtraScores, ScopedClass};
use crate::plugin::{
    EnqueueVote, Eviction, NodeRules, Plugin, PluginContext, PluginDef, QueueGuard, RemotePolicy,
    SessionInputs, TaskRules, Vote,
};
use crate::trace::{Stage, Trace};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, JobId, NodeId, QueueId, TaskId};
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

    /// Whether the plugin is asked about victims whichever tier decides. Within one queue (`preemptable`) it does not
    /// matter what queues may keep.
    fn guards_queues(&self, flag: Option<Flag>) -> bool {
        flag != Some(Flag::Preemptable) && self.is_on(flag) && self.plugin.queue_guard().is_some()
    }
}

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
        let NodeRules { scorers, resource_scorers, topology_scorers, .. } = &self.rules;
        !(scorers.is_empty()
            && resource_scorers.is_empty()
            && topology_scorers.is_empty()
            && self.extra.is_empty())
    }
}

/// Victims that the plugins of one tier agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierVictims {
    /// The tier, counted from 0.
    pub tier: usize,
    /// The victims, in the order of the potential victims.
    pub victims: Vec<TaskId>,
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

/// The rules by which opinions are combined.
impl Tiers {
    /// Rule *first*: the first answer that is not `Equal`.
    pub fn first(&self, flag: impl Into<Option<Flag>>, ask: impl Fn(&dyn Plugin) -> Ordering) -> Ordering {
        let mut answers = self.entries(flag.into()).map(|entry| self.ask(entry, &ask));
        answers.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Rule *vote*: no as soon as a plugin rejects; yes after the first tier in which a plugin permits, and also when
    /// all plugins abstain.
    pub fn vote(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vote) -> bool {
        let answer = |plugin: &dyn Plugin| match ask(plugin) {
            Vote::Reject => Err(()),
            Vote::Abstain => Ok(false),
            Vote::Permit => Ok(true),
        };
        self.vote_with_reason(flag, answer).is_ok()
    }

    /// Rule *vote* on whether a job may become Inqueue, with the reason of the reject.
    pub fn enqueue_vote(&self, ask: impl Fn(&dyn Plugin) -> EnqueueVote) -> Result<(), Refusal> {
        self.vote_with_reason(Flag::JobEnqueued, |plugin| match ask(plugin) {
            EnqueueVote::Reject(refusal) => Err(refusal),
            EnqueueVote::Abstain => Ok(false),
            EnqueueVote::Permit => Ok(true),
        })
    }

    /// Rule *vote*, where `Err` rejects, `Ok(true)` permits and `Ok(false)` abstains.
    fn vote_with_reason<E>(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Result<bool, E>) -> Result<(), E> {
        for tier in self.tiers() {
            let mut permitted = false;
            for entry in tier.iter().filter(|entry| entry.flags.on(flag)) {
                permitted |= self.ask(entry, &ask)?;
            }
            if permitted {
                break;
            }
        }
        Ok(())
    }

    /// Rule *intersect*, on potential victims in the order of eviction: each plugin of a tier is asked about the
    /// victims that the plugins before it left. The first tier with an opinion that leaves a victim decides; a tier
    /// that leaves none has no say, and the next tier is asked. With `only`, no other tier is asked. Plugins that guard
    /// queues are asked whichever tier decides, except with [`Flag::Preemptable`]. Without a flag every plugin is
    /// asked.
    pub fn intersect(
        &self,
        cluster: &Cluster,
        eviction: Eviction,
        only: Option<usize>,
        of: &[TaskId],
    ) -> Option<TierVictims> {
        let flag = eviction.flag();
        for (tier, plugins) in
            self.tiers().enumerate().filter(|(tier, _)| only.is_none_or(|only| only == *tier))
        {
            let mut left: Option<Vec<TaskId>> = None;
            for entry in plugins.iter().filter(|entry| entry.is_on(flag)) {
                let asked = left.as_deref().unwrap_or(of);
                if let Some(picked) = self.ask(entry, |it| it.evictable(cluster, eviction, asked)) {
                    left = Some(intersection(asked, picked));
                }
            }
            let Some(mut victims) = left else { continue };
            for entry in self.plugins.iter().filter(|entry| entry.guards_queues(flag)) {
                if let Some(picked) = self.ask(entry, |it| it.evictable(cluster, eviction, &victims)) {
                    victims = intersection(&victims, picked);
                }
            }
            if !victims.is_empty() {
                return Some(TierVictims { tier, victims });
            }
        }
        None
    }

    /// Whether [`intersect`](Self::intersect) could leave a victim in any order of the potential victims: some tier has
    /// an opinion, and each plugin of that tier, and each that guards queues, alone leaves a victim.
    pub fn any_victims(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> bool {
        let flag = eviction.flag();
        let picks = |entry: &TierPlugin| self.ask(entry, |it| it.evictable(cluster, eviction, of));
        let leaves = |entry: &TierPlugin| picks(entry).map(|picked| !picked.is_empty());
        let all_leave = |tier: &[TierPlugin]| {
            let mut opinions = tier.iter().filter(|entry| entry.is_on(flag)).filter_map(leaves).peekable();
            opinions.peek().is_some() && opinions.all(|leaves| leaves)
        };
        let mut guards = self.plugins.iter().filter(|entry| entry.guards_queues(flag));
        guards.all(|entry| leaves(entry) != Some(false)) && self.tiers().any(all_leave)
    }

    /// Rule *all*: the first reason with which a plugin says no.
    pub fn all<E>(
        &self,
        flag: impl Into<Option<Flag>>,
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), E>,
    ) -> Result<(), E> {
        self.entries(flag.into()).try_for_each(|entry| self.ask(entry, &mut ask))
    }

    /// Rule *all* by tiers: the first tier with an opinion decides, with yes if all opinions of the tier are yes; no
    /// where no plugin has an opinion.
    pub fn all_of_first_tier(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Option<bool>) -> bool {
        for tier in self.tiers() {
            let on = tier.iter().filter(|entry| entry.flags.on(flag));
            if let Some(all) = on.filter_map(|entry| self.ask(entry, &ask)).reduce(|a, b| a && b) {
                return all;
            }
        }
        false
    }

    /// Rule *any*: the first answer of a plugin that has one.
    pub fn any<T>(
        &self,
        flag: impl Into<Option<Flag>>,
        mut ask: impl FnMut(&dyn Plugin) -> Option<T>,
    ) -> Option<T> {
        self.entries(flag.into()).find_map(|entry| self.ask(entry, &mut ask))
    }

    /// Rule *sum* by tiers: all tasks that the plugins of a tier name, each once, in the order of the plugins; the
    /// first tier that names a task decides.
    pub fn sum_of_first_tier(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vec<TaskId>) -> Vec<TaskId> {
        for tier in self.tiers() {
            let mut seen = rustc_hash::FxHashSet::default();
            let on = tier.iter().filter(|entry| entry.flags.on(flag));
            let mut named: Vec<TaskId> = on.flat_map(|entry| self.ask(entry, &ask)).collect();
            named.retain(|task| seen.insert(*task));
            if !named.is_empty() {
                return named;
            }
        }
        Vec::new()
    }
}

/// The tasks of `of` that are in `picked`, in the order of `of`.
fn intersection(of: &[TaskId], picked: Vec<TaskId>) -> Vec<TaskId> {
    let mut rest = of.iter();
    if picked.iter().all(|task| rest.any(|other| other == task)) {
        return picked;
    }
    let picked: rustc_hash::FxHashSet<TaskId> = picked.into_iter().collect();
    of.iter().copied().filter(|task| picked.contains(task)).collect()
}

/// Jobs and queues.
impl Tiers {
    /// Which of two jobs is served first. A broken gang (started, then lost members) comes before whole jobs, for what
    /// the gang holds is of no use until it is repaired; but behind a job that outranks it and could evict its members,
    /// which would break it again.
    pub fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        let (ranking, others) = self.plugins.split_at(self.before_repairs);
        let first = |plugins: &[TierPlugin]| {
            let on = plugins.iter().filter(|entry| entry.flags.on(Flag::JobOrder));
            let mut answers = on.map(|entry| self.ask(entry, |it| it.job_order(cluster, a, b)));
            answers.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let whole = |job: JobId| !cluster.jobs[job].is_broken();
        first(ranking).then_with(|| whole(a).cmp(&whole(b))).then_with(|| first(others))
    }

    /// Whether broken gangs come before jobs that outrank them and keep their reservations against such jobs: where no
    /// configured action preempts by rank.
    pub fn repairs_go_first(&self) -> bool {
        self.before_repairs == 0
    }

    /// The plugins that say which of two jobs of equal priority gives way; `None` if the tier that `decided` on the
    /// victims contains such a plugin, which has given its opinion then.
    pub fn plugins_for_equal_priority(&self, flag: Option<Flag>, decided: usize) -> Option<Vec<&dyn Plugin>> {
        let ranks = |entry: &&TierPlugin| entry.is_on(flag) && entry.plugin.ranks_equal_priority(flag);
        let asked = self.tiers().nth(decided).is_some_and(|tier| tier.iter().any(|entry| ranks(&entry)));
        (!asked).then(|| self.plugins.iter().filter(ranks).map(|entry| &*entry.plugin).collect())
    }

    /// Whether a plugin says which of two jobs of equal priority gives way.
    pub fn ranks_equal_priority(&self, flag: Option<Flag>) -> bool {
        self.with(flag).any(|plugin| plugin.ranks_equal_priority(flag))
    }

    /// The parts of plugins that guard queues.
    pub fn queue_guards(&self, flag: impl Into<Option<Flag>>) -> impl Iterator<Item = &dyn QueueGuard> {
        self.with(flag).filter_map(Plugin::queue_guard)
    }

    /// What a queue holds above what it may keep, by each plugin that has such a figure.
    pub fn beyond_deserved<'a>(
        &'a self,
        cluster: &'a Cluster,
        flag: Option<Flag>,
        queue: QueueId,
    ) -> impl Iterator<Item = Amounts> + 'a {
        self.queue_guards(flag).filter_map(move |guard| guard.beyond_deserved(cluster, queue))
    }

    /// Whether a plugin guards queues.
    pub fn guard_queues(&self) -> bool {
        self.queue_guards(None::<Flag>).next().is_some()
    }

    /// Whether each question about victims is a request to another process.
    pub fn victims_are_judged_remotely(&self) -> bool {
        self.remote().any(RemotePolicy::judges_victims)
    }

    /// The server that binds a task instead of the API server.
    pub fn binder(&self, cluster: &Cluster, task: TaskId) -> Option<Arc<Endpoint>> {
        self.remote().find_map(|part| part.binder(cluster, task))
    }

    fn remote(&self) -> impl Iterator<Item = &dyn RemotePolicy> {
        self.remote.iter().filter_map(|index| self.plugins[*index].plugin.remote())
    }
}

/// Rules on nodes.
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

#[cfg(test)]
mod tests;

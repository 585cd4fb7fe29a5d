//! Plugins in tiers, and the rules by which their opinions become one answer.
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::conf::{Conf, Flag, Flags};
use crate::extender::Endpoint;
use crate::placement::{ExtraScores, ScopedClass};
use crate::plugin::{EnqueueVote, NodeRules, Plugin, PluginContext, PluginDef, SessionInputs, Vote};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, JobId, QueueId, TaskId};
use phalanx_cluster::{Status, World};

struct TierPlugin {
    flags: Flags,
    plugin: Box<dyn Plugin>,
}

impl TierPlugin {
    /// Whether it is asked about victims whichever tier decides. What queues may keep matters to nobody within one queue:
    /// `preemptable` is about something else then.
    fn guards(&self, flag: Option<Flag>) -> bool {
        flag != Some(Flag::Preemptable) && self.plugin.guards_queues()
    }
}

/// The plugins of a session.
#[derive(Default)]
pub struct Tiers {
    entries: Vec<TierPlugin>,
    /// Where each tier ends in `entries`.
    ends: Vec<usize>,
    /// Entries that want to hear of changes.
    listeners: Vec<usize>,
    /// Entries that give tasks a scope.
    scoping: Vec<usize>,
    /// Entries that give single nodes points.
    pointing: Vec<usize>,
    /// Entries that may bind tasks themselves.
    binding: Vec<usize>,
    /// So many entries order jobs before it counts that a gang is broken.
    ranking: usize,
}

/// Actions that let a more important job of a queue have the room of a lesser one.
const BY_RANK: [&str; 2] = ["preempt", "gangpreempt"];

impl Tiers {
    /// Opens the plugins of a configuration; names that are not in the table are passed over.
    pub fn open<'a>(
        table: &[PluginDef],
        conf: &Conf,
        world: &World,
        outside: impl Into<SessionInputs<'a>>,
    ) -> Self {
        let SessionInputs { now, before, extender, .. } = outside.into();
        let mut tiers = Self::default();
        for tier in &conf.tiers {
            for row in &tier.plugins {
                if let Some(def) = table.iter().find(|def| def.name == row.name) {
                    let plugin = (def.open)(PluginContext {
                        world,
                        args: &row.args,
                        flags: row.flags,
                        now,
                        before,
                        extender,
                    });
                    tiers.push(row.flags, plugin);
                }
            }
            tiers.ends.push(tiers.entries.len());
        }
        if !BY_RANK.iter().any(|action| conf.has_action(action)) {
            tiers.ranking = 0;
        }
        tiers
    }

    fn push(&mut self, flags: Flags, plugin: Box<dyn Plugin>) {
        if plugin.listens() {
            self.listeners.push(self.entries.len());
        }
        if plugin.has_scope() && (flags.on(Flag::Predicate) || flags.on(Flag::NodeOrder)) {
            self.scoping.push(self.entries.len());
        }
        if plugin.has_points() && flags.on(Flag::NodeOrder) {
            self.pointing.push(self.entries.len());
        }
        if plugin.has_binder() {
            self.binding.push(self.entries.len());
        }
        if plugin.has_ranks() && flags.on(Flag::JobOrder) {
            self.ranking = self.entries.len() + 1;
        }
        self.entries.push(TierPlugin { flags, plugin });
    }

    fn tiers(&self) -> impl Iterator<Item = &[TierPlugin]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let tier = &self.entries[start..*end];
            start = *end;
            tier
        })
    }

    /// The plugins for which a flag is on, in order.
    pub fn with(&self, flag: Flag) -> impl Iterator<Item = &dyn Plugin> {
        self.entries.iter().filter(move |entry| entry.flags.on(flag)).map(|entry| &*entry.plugin)
    }

    /// All plugins, in order.
    pub fn every(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.entries.iter().map(|entry| &*entry.plugin)
    }

    /// The plugins for which a flag is on, or all without one, in order.
    pub fn asked(&self, flag: Option<Flag>) -> impl Iterator<Item = &dyn Plugin> {
        let on = move |entry: &&TierPlugin| flag.is_none_or(|flag| entry.flags.on(flag));
        self.entries.iter().filter(on).map(|entry| &*entry.plugin)
    }

    /// All plugins for which a flag is on, to be told something.
    pub fn tell(&mut self, flag: Flag, mut told: impl FnMut(&mut dyn Plugin)) {
        for entry in self.entries.iter_mut().filter(|entry| entry.flags.on(flag)) {
            told(&mut *entry.plugin);
        }
    }

    /// A task as it asks for nodes: its class, and the scopes that plugins give it.
    pub fn scoped_class(&self, world: &World, task: TaskId) -> ScopedClass {
        ScopedClass::new(world.tasks[task].class, self.scope(world, task, true), task)
    }

    /// The scopes that plugins give a task, with or without its own claims, as one number; 0 when there are none.
    pub fn scope(&self, world: &World, task: TaskId, claims: bool) -> u64 {
        let mut scope = 0;
        for at in &self.scoping {
            let plugin = &self.entries[*at].plugin;
            let own =
                if claims { plugin.scope(world, task) } else { plugin.scope_beside_claims(world, task) };
            if own != 0 {
                let mut hasher = DefaultHasher::new();
                (scope, at, own).hash(&mut hasher);
                scope = hasher.finish().max(1);
            }
        }
        scope
    }

    /// Who binds a task instead of the API server.
    pub fn binder(&self, world: &World, task: TaskId) -> Option<Arc<Endpoint>> {
        self.binding.iter().find_map(|at| self.entries[*at].plugin.binder(world, task))
    }

    /// The points of single nodes for a task.
    pub fn points(&self, world: &World, task: TaskId) -> ExtraScores {
        let plugins = self.pointing.iter().map(|at| &self.entries[*at].plugin);
        plugins.flat_map(|plugin| plugin.points(world, task)).collect()
    }

    /// Tells the plugins that listen of a change.
    pub fn changed(&mut self, world: &World, task: TaskId, before: Status) {
        for at in &self.listeners {
            self.entries[*at].plugin.on_change(world, task, before);
        }
    }

    /// Which of two jobs goes first. A gang that started and lost members goes before others, for what it holds is of no use
    /// until it is whole again; but not before one that outranks it where that one could evict it: it would be broken anew.
    pub fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        let (ranking, others) = self.entries.split_at(self.ranking);
        let first = |entries: &[TierPlugin]| {
            let asked = entries.iter().filter(|entry| entry.flags.on(Flag::JobOrder));
            let mut answers = asked.map(|entry| entry.plugin.job_order(world, a, b));
            answers.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let whole = |job: JobId| !world.jobs[job].is_broken();
        first(ranking).then_with(|| whole(a).cmp(&whole(b))).then_with(|| first(others))
    }

    /// Whether a gang that started and lost members goes before one, and keeps its places against one, that outranks it.
    pub fn repairs_go_first(&self) -> bool {
        self.ranking == 0
    }

    /// Rule *first*: the first answer that is not Equal.
    pub fn first(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Ordering) -> Ordering {
        self.with(flag).map(ask).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Rule *vote*: no as soon as a plugin rejects; yes after the first tier in which a plugin permits; yes as well
    /// when all abstain.
    pub fn vote(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vote) -> bool {
        let verdict = |plugin: &dyn Plugin| match ask(plugin) {
            Vote::Reject => Err(()),
            Vote::Abstain => Ok(false),
            Vote::Permit => Ok(true),
        };
        self.ballot(flag, verdict).is_ok()
    }

    /// Rule *vote*, with the reason of the reject.
    pub fn verdict(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> EnqueueVote) -> Result<(), Refusal> {
        self.ballot(flag, |plugin| match ask(plugin) {
            EnqueueVote::Reject(refusal) => Err(refusal),
            EnqueueVote::Abstain => Ok(false),
            EnqueueVote::Permit => Ok(true),
        })
    }

    fn ballot<E>(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Result<bool, E>) -> Result<(), E> {
        for tier in self.tiers() {
            let mut permitted = false;
            for entry in tier.iter().filter(|entry| entry.flags.on(flag)) {
                permitted |= ask(&*entry.plugin)?;
            }
            if permitted {
                break;
            }
        }
        Ok(())
    }

    /// Rule *intersect*, on victims in the order in which they would go: a plugin is asked about those that the ones
    /// before it in its tier left; the first tier in which anybody has an opinion and that leaves somebody decides. An
    /// empty rest ends the tier's say, and the next tier is asked. With `only`, no other tier is. Plugins that guard
    /// queues are asked whichever tier decides, but for victims of the same queue.
    ///
    /// Returns the tier, and whom it leaves, in the same order. Without a flag every plugin is asked.
    pub fn victims(
        &self,
        flag: Option<Flag>,
        only: Option<usize>,
        of: &[TaskId],
        ask: impl Fn(&dyn Plugin, &[TaskId]) -> Option<Vec<TaskId>>,
    ) -> Option<(usize, Vec<TaskId>)> {
        let asked = |entry: &&TierPlugin| flag.is_none_or(|flag| entry.flags.on(flag));
        let guards = |entry: &&TierPlugin| asked(entry) && entry.guards(flag);
        for (at, tier) in self.tiers().enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at)) {
            let mut left: Option<Vec<TaskId>> = None;
            for entry in tier.iter().filter(asked) {
                if let Some(picked) = ask(&*entry.plugin, left.as_deref().unwrap_or(of)) {
                    left = Some(shared(left.as_deref().unwrap_or(of), picked));
                }
            }
            let Some(mut left) = left else { continue };
            for entry in self.entries.iter().filter(guards) {
                left =
                    ask(&*entry.plugin, &left).map_or_else(|| left.clone(), |picked| shared(&left, picked));
            }
            if !left.is_empty() {
                return Some((at, left));
            }
        }
        None
    }

    /// Plugins that say which of two jobs of equal priority gives way, unless there are any in the tier that decided: then
    /// they have said so.
    pub fn ranking(&self, flag: Option<Flag>, decided: usize) -> Option<Vec<&dyn Plugin>> {
        let ranks = |entry: &&TierPlugin| {
            flag.is_none_or(|flag| entry.flags.on(flag)) && entry.plugin.ranks_jobs(flag)
        };
        let asked = self.tiers().nth(decided).is_some_and(|tier| tier.iter().any(|entry| ranks(&entry)));
        (!asked).then(|| self.entries.iter().filter(ranks).map(|entry| &*entry.plugin).collect())
    }

    /// Whether any plugin says which of two jobs of equal priority gives way.
    pub fn rank(&self, flag: Option<Flag>) -> bool {
        self.ranking(flag, usize::MAX).is_some_and(|plugins| !plugins.is_empty())
    }

    /// What a queue has more of than it may keep, by each plugin that says so.
    pub fn surplus<'a>(
        &'a self,
        world: &'a World,
        flag: Option<Flag>,
        queue: QueueId,
    ) -> impl Iterator<Item = Amounts> + 'a {
        let asked = move |entry: &&TierPlugin| {
            flag.is_none_or(|flag| entry.flags.on(flag)) && entry.plugin.guards_queues()
        };
        self.entries.iter().filter(asked).filter_map(move |entry| entry.plugin.surplus(world, queue))
    }

    /// Whether any plugin says what queues may keep.
    pub fn guard_queues(&self) -> bool {
        self.every().any(Plugin::guards_queues)
    }

    /// Whether [`victims`](Self::victims) could leave anybody, in whatever order they are offered: in some tier there
    /// is an opinion, and each one alone leaves somebody.
    pub fn any_victims(
        &self,
        flag: Option<Flag>,
        of: &[TaskId],
        ask: impl Fn(&dyn Plugin, &[TaskId]) -> Option<Vec<TaskId>>,
    ) -> bool {
        let asked = |entry: &&TierPlugin| flag.is_none_or(|flag| entry.flags.on(flag));
        let all = |entries: &mut dyn Iterator<Item = &TierPlugin>| {
            let opinions = entries.filter(asked).filter_map(|entry| ask(&*entry.plugin, of));
            opinions.map(|picked| !picked.is_empty()).reduce(|a, b| a && b)
        };
        let guarded = all(&mut self.entries.iter().filter(|entry| entry.guards(flag)));
        guarded != Some(false) && self.tiers().any(|tier| all(&mut tier.iter()) == Some(true))
    }

    /// Rule *union*: all that the plugins of a tier name, in their order; the first tier that names anybody decides.
    pub fn union(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vec<TaskId>) -> Vec<TaskId> {
        for tier in self.tiers() {
            let mut seen = rustc_hash::FxHashSet::default();
            let mut named: Vec<TaskId> = tier
                .iter()
                .filter(|entry| entry.flags.on(flag))
                .flat_map(|entry| ask(&*entry.plugin))
                .collect();
            named.retain(|task| seen.insert(*task));
            if !named.is_empty() {
                return named;
            }
        }
        Vec::new()
    }

    /// The first tier in which somebody has an opinion decides, by all of its opinions; false when nobody has.
    pub fn first_tier_all(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Option<bool>) -> bool {
        for tier in self.tiers() {
            let opinions =
                tier.iter().filter(|entry| entry.flags.on(flag)).filter_map(|entry| ask(&*entry.plugin));
            if let Some(all) = opinions.reduce(|a, b| a && b) {
                return all;
            }
        }
        false
    }
}

/// Those of a list that were picked from it, in its order.
fn shared(of: &[TaskId], picked: Vec<TaskId>) -> Vec<TaskId> {
    let mut rest = of.iter();
    if picked.iter().all(|task| rest.any(|other| other == task)) {
        return picked;
    }
    let picked: rustc_hash::FxHashSet<TaskId> = picked.into_iter().collect();
    of.iter().copied().filter(|task| picked.contains(task)).collect()
}

impl Tiers {
    /// The filters and scorers of a class.
    pub fn rules(&self, world: &World, class: ClassId) -> NodeRules {
        let mut rules = NodeRules::default();
        for plugin in self.with(Flag::Predicate) {
            plugin.filters(world, class, &mut rules);
        }
        for plugin in self.with(Flag::NodeOrder) {
            plugin.scorers(world, class, &mut rules);
        }
        rules
    }

    /// The same of a task, with what plugins add that look at more than its class.
    pub fn scoped_rules(&self, world: &World, class: ClassId, task: TaskId) -> NodeRules {
        let mut rules = self.rules(world, class);
        for plugin in self.with(Flag::Predicate) {
            plugin.scoped_filters(world, task, &mut rules);
        }
        for plugin in self.with(Flag::NodeOrder) {
            plugin.scoped_scorers(world, task, &mut rules);
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::id::Id;

    /// A plugin that says what the test wants.
    struct Says {
        order: Ordering,
        vote: Vote,
        victims: Option<Vec<usize>>,
        guards: bool,
        starving: Option<bool>,
    }

    impl Default for Says {
        fn default() -> Self {
            Self { order: Ordering::Equal, vote: Vote::Abstain, victims: None, guards: false, starving: None }
        }
    }

    impl Plugin for Says {
        fn job_order(
            &self,
            _: &World,
            _: phalanx_cluster::id::JobId,
            _: phalanx_cluster::id::JobId,
        ) -> Ordering {
            self.order
        }
        fn job_pipelined(&self, _: &World, _: phalanx_cluster::id::JobId) -> Vote {
            self.vote
        }
        fn job_starving(&self, _: &World, _: phalanx_cluster::id::JobId) -> Option<bool> {
            self.starving
        }
        fn guards_queues(&self) -> bool {
            self.guards
        }
        fn victim_tasks(&self, world: &World, of: &[TaskId]) -> Vec<TaskId> {
            self.preemptable(world, TaskId::from_index(0), of).unwrap_or_default()
        }
        fn preemptable(&self, _: &World, _: TaskId, _: &[TaskId]) -> Option<Vec<TaskId>> {
            self.victims.as_ref().map(|list| list.iter().map(|task| TaskId::from_index(*task)).collect())
        }
    }

    fn tiers(plan: Vec<Vec<Says>>) -> Tiers {
        let mut tiers = Tiers::default();
        for tier in plan {
            for says in tier {
                tiers.push(Flags::default(), Box::new(says));
            }
            tiers.ends.push(tiers.entries.len());
        }
        tiers
    }

    fn world() -> World {
        World::new(phalanx_cluster::WorldOptions::default())
    }

    #[test]
    fn first_takes_the_first_answer_that_is_not_equal() {
        use Ordering::{Equal, Greater, Less};
        for (plan, expected) in [
            (vec![vec![Equal, Less], vec![Greater]], Less),
            (vec![vec![], vec![Greater]], Greater),
            (vec![vec![Equal]], Equal),
        ] {
            let says = |order: &Ordering| Says { order: *order, ..Says::default() };
            let tiers = tiers(plan.iter().map(|tier| tier.iter().map(says).collect()).collect());
            let (world, job) = (world(), phalanx_cluster::id::JobId::from_index(0));
            assert_eq!(tiers.first(Flag::JobOrder, |p| p.job_order(&world, job, job)), expected, "{plan:?}");
        }
    }

    #[test]
    fn a_reject_ends_a_vote_and_so_does_a_tier_with_a_permit() {
        use Vote::{Abstain, Permit, Reject};
        for (plan, expected) in [
            (vec![vec![]], true),
            (vec![vec![Abstain], vec![Abstain]], true),
            (vec![vec![Permit, Reject]], false),
            (vec![vec![Abstain, Permit], vec![Reject]], true),
            (vec![vec![Abstain], vec![Reject]], false),
        ] {
            let says = |vote: &Vote| Says { vote: *vote, ..Says::default() };
            let tiers = tiers(plan.iter().map(|tier| tier.iter().map(says).collect()).collect());
            let (world, job) = (world(), phalanx_cluster::id::JobId::from_index(0));
            assert_eq!(
                tiers.vote(Flag::JobPipelined, |p| p.job_pipelined(&world, job)),
                expected,
                "{plan:?}"
            );
        }
    }

    #[test]
    fn victims_are_those_a_tier_leaves_and_an_empty_rest_does_not_start_afresh() {
        type Plan = Vec<Vec<Option<Vec<usize>>>>;
        type Left = Option<(usize, Vec<usize>)>;
        let plans: Vec<(Plan, Option<usize>, Left)> = vec![
            (vec![vec![Some(vec![1, 2, 3]), None, Some(vec![3, 2])]], None, Some((0, vec![2, 3]))),
            (
                vec![vec![Some(vec![1]), Some(vec![2]), Some(vec![3])], vec![Some(vec![4])]],
                None,
                Some((1, vec![4])),
            ),
            (vec![vec![Some(vec![])], vec![Some(vec![4])]], None, Some((1, vec![4]))),
            (vec![vec![None], vec![Some(vec![5, 9])]], None, Some((1, vec![5]))),
            (vec![vec![Some(vec![1])], vec![Some(vec![2])]], Some(1), Some((1, vec![2]))),
            (vec![vec![Some(vec![1])], vec![None]], Some(1), None),
            (vec![vec![None]], None, None),
        ];
        let id = |task: usize| TaskId::from_index(task);
        let of: Vec<TaskId> = (0..6).map(id).collect();
        for (plan, only, expected) in plans {
            let says = |victims: &Option<Vec<usize>>| Says { victims: victims.clone(), ..Says::default() };
            let tiers = tiers(plan.iter().map(|tier| tier.iter().map(says).collect()).collect());
            let world = world();
            let ask = |plugin: &dyn Plugin, of: &[TaskId]| plugin.preemptable(&world, id(0), of);
            let victims = tiers.victims(Some(Flag::Preemptable), only, &of, ask);
            assert!(victims.is_none() || tiers.any_victims(Some(Flag::Preemptable), &of, ask), "{plan:?}");
            let expected = expected.map(|(tier, list)| (tier, list.into_iter().map(id).collect()));
            assert_eq!(victims, expected, "{plan:?}");
        }
    }

    #[test]
    fn who_guards_queues_is_asked_whichever_tier_decides_but_within_a_queue() {
        let says =
            |victims: &[usize], guards| Says { victims: Some(victims.to_vec()), guards, ..Says::default() };
        for (first, guard, expected) in [
            (&[1, 2][..], &[2, 3][..], Some((0, vec![2]))),
            (&[1], &[2, 3], Some((1, vec![2, 3]))),
            (&[1], &[], None),
        ] {
            let tiers = tiers(vec![vec![says(first, false)], vec![says(guard, true)]]);
            let of: Vec<TaskId> = (0..6).map(TaskId::from_index).collect();
            let ask =
                |plugin: &dyn Plugin, of: &[TaskId]| plugin.preemptable(&world(), TaskId::from_index(0), of);
            let index = |(tier, list): (usize, Vec<TaskId>)| {
                (tier, list.into_iter().map(Id::index).collect::<Vec<_>>())
            };
            let alone = Some((0, first.to_vec()));
            for (flag, expected) in
                [(None, &expected), (Some(Flag::Reclaimable), &expected), (Some(Flag::Preemptable), &alone)]
            {
                let victims = tiers.victims(flag, None, &of, ask).map(index);
                assert_eq!(&victims, expected, "{first:?}, guarded {guard:?}, {flag:?}");
                assert_eq!(
                    tiers.any_victims(flag, &of, ask),
                    expected.is_some(),
                    "{first:?}, {guard:?}, {flag:?}"
                );
            }
        }
    }

    #[test]
    fn a_tier_names_victims_together_and_the_first_that_names_any_decides() {
        let plan = [vec![None], vec![Some(vec![2, 1]), Some(vec![1, 3])], vec![Some(vec![4])]];
        let says = |victims: &Option<Vec<usize>>| Says { victims: victims.clone(), ..Says::default() };
        let tiers = tiers(plan.iter().map(|tier| tier.iter().map(says).collect()).collect());
        let named = tiers.union(Flag::Victim, |plugin| plugin.victim_tasks(&world(), &[]));
        assert_eq!(named.into_iter().map(Id::index).collect::<Vec<_>>(), [2, 1, 3]);
    }

    #[test]
    fn the_first_tier_with_an_opinion_decides_who_starves() {
        for (plan, expected) in [
            (vec![vec![None], vec![None]], false),
            (vec![vec![Some(true), Some(false)], vec![Some(true)]], false),
            (vec![vec![None], vec![Some(true)]], true),
        ] {
            let says = |starving: &Option<bool>| Says { starving: *starving, ..Says::default() };
            let tiers = tiers(plan.iter().map(|tier| tier.iter().map(says).collect()).collect());
            let (world, job) = (world(), phalanx_cluster::id::JobId::from_index(0));
            assert_eq!(
                tiers.first_tier_all(Flag::JobStarving, |p| p.job_starving(&world, job)),
                expected,
                "{plan:?}"
            );
        }
    }

    #[test]
    fn a_flag_that_is_off_silences_its_hook() {
        let mut flags = Flags::default();
        flags.set(Flag::JobPipelined, false);
        let mut tiers = Tiers::default();
        tiers.push(flags, Box::new(Says { vote: Vote::Reject, order: Ordering::Less, ..Says::default() }));
        tiers.ends.push(1);
        let (world, job) = (world(), phalanx_cluster::id::JobId::from_index(0));
        assert!(tiers.vote(Flag::JobPipelined, |p| p.job_pipelined(&world, job)));
        assert_eq!(tiers.first(Flag::JobOrder, |p| p.job_order(&world, job, job)), Ordering::Less);
    }
}

//! tdm (time division multiplexing): nodes that are lent for a part of the day.
//!
//! A node with the label `volcano.sh/revocable-zone` is lent while its zone's time of day lasts. Times are UTC, unless
//! `tdm.utc-offset` says otherwise; a zone whose end is not behind its beginning ends on the next day.
//! - On such a node, and only while its zone lasts, may be pods that are annotated `volcano.sh/revocable-zone: "*"` or
//!   `volcano.sh/preemptable: "true"`; they score 100 there.
//! - When a zone has ended its preemptable pods are evicted (action `shuffle`), once in `tdm.evict.period` so many of each
//!   job as its budget leaves: annotation `volcano.sh/jdb-max-unavailable` or `volcano.sh/jdb-min-available` of the
//!   PodGroup, a number or a percentage of its pods, rounded up; one without a budget. They leave whether there is a place
//!   for them elsewhere or not, for the node is lent no longer; where there is one, it is kept for those that come in their
//!   stead. PodDisruptionBudgets hold.
//! - Jobs that are not preemptable go first, starve while a task of them is pending, and may evict running preemptable pods
//!   from other nodes, within the same budgets; preemptable tasks evict nobody.
//! - A job is let wait for room that is being released only when its gang is whole.
//!
//! Source: Volcano's tdm plugin, which counts the period from when it was asked last, takes the time zone of its process, ends
//! a zone at midnight, and lets a pod go of a job that has fewer running than its budget wants.
mod budget;
#[cfg(test)]
mod tests;
mod zone;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use budget::within_budget;
use phalanx_cluster::annotation::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE};
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Job, Node, Status, Task, World};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Flag, Otherwise, Rule};
use phalanx_framework::plugin::{
    Attribute, NodeFilter, NodeRules, NodeScorer, ObjectField, Plugin, PluginContext, PluginDef, Rebalancer,
    TaskRules, Values, Vote,
};
use zone::{DAY_MS, MINUTE_MS, Zone, utc_offset};

const ZONE: &str = "tdm.revocable-zone.";
const PERIOD: &str = "tdm.evict.period";
const OFFSET: &str = "tdm.utc-offset";

const HOURS: Rule = Rule::new(
    Allowed::Form("times of a day such as 10:00-21:00", |text| Zone::parse(text).is_some()),
    Otherwise::Does("the nodes of the zone are never lent"),
);
const AHEAD: Rule = Rule::new(
    Allowed::Form("hours and minutes such as +08:00", |text| utc_offset(text).is_some()),
    Otherwise::Default,
);

const ARGS: &[ArgSpec] = &[
    ArgSpec {
        name: "tdm.revocable-zone.*",
        kind: ArgKind::Text(&[HOURS]),
        default: "",
        doc: "When the nodes of a zone are lent, such as `10:00-21:00`.",
    },
    ArgSpec {
        name: PERIOD,
        kind: ArgKind::Duration(&[Rule::at_least(1)]),
        default: "1m",
        doc: "How often pods are evicted from nodes whose zone has ended.",
    },
    ArgSpec {
        name: OFFSET,
        kind: ArgKind::Text(&[AHEAD]),
        default: "+00:00",
        doc: "What the times of zones are ahead of UTC, such as `+08:00`.",
    },
];

const READS: &[ObjectField] = &[
    ObjectField::new(
        REVOCABLE_ZONE,
        "label of a node",
        "not lent",
        "The zone by whose hours the node is lent.",
    ),
    ObjectField::new(
        REVOCABLE_ZONE,
        "annotation of a pod",
        "as `volcano.sh/preemptable`, as an annotation",
        "`*` lets the pod on lent nodes; any other value keeps it off.",
    ),
    ObjectField::new(
        "volcano.sh/preemptable",
        "annotation, else label, of a PodGroup or a pod",
        "`false` of a PodGroup, `true` of a pod",
        "Preemptable jobs go after the others, give way to them, and leave lent nodes when their time is over.",
    ),
    ObjectField::new(
        JDB_MAX_UNAVAILABLE,
        "annotation of a PodGroup",
        "1 pod at a time",
        "How many of its pods may be missing, a number or a percentage (rounded up); left out beside the next one.",
    ),
    ObjectField::new(
        JDB_MIN_AVAILABLE,
        "annotation of a PodGroup",
        "1 pod at a time",
        "How many of its pods must keep running, likewise. What is neither a number nor a percentage counts as 0.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "tdm",
    summary: "Preemptable pods use nodes that are lent for a part of the day, and leave them when it ends.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Tdm::open(opening)),
};

/// What a score reaches at most.
const MAX_SCORE: f64 = 100.0;

struct Tdm {
    /// Zones by name, and whether they last now.
    zones: BTreeMap<Arc<str>, (Zone, bool)>,
    now: Time,
    /// Milliseconds since the day began.
    time_of_day: i64,
    period: i64,
    /// It is time to evict.
    evicts: bool,
    scope: u64,
}

impl Tdm {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let offset = args.text(OFFSET).and_then(utc_offset).unwrap_or(0);
        let time_of_day = (opening.now.0 + offset).rem_euclid(DAY_MS);
        let zone = |(key, arg): (&String, &phalanx_framework::conf::Arg)| {
            let name = key.strip_prefix(ZONE)?;
            let phalanx_framework::conf::Value::Text(text) = &arg.value else { return None };
            let zone = Zone::parse(text)?;
            Some((Arc::from(name), (zone, zone.lasts(time_of_day))))
        };
        let zones: BTreeMap<Arc<str>, (Zone, bool)> = args.0.iter().filter_map(zone).collect();
        let mut hasher = DefaultHasher::new();
        zones.hash(&mut hasher);
        let period =
            Some(args.duration_ms(PERIOD, MINUTE_MS)).filter(|period| *period > 0).unwrap_or(MINUTE_MS);
        let (evicts, scope) = (opening.begins(period), hasher.finish().max(1));
        Self { zones, now: opening.now, time_of_day, period, evicts, scope }
    }

    /// When the next zone begins or ends.
    fn next_end(&self) -> Option<Time> {
        // A millisecond behind an end, which belongs to its zone.
        let ends = self.zones.values().flat_map(|(zone, _)| [zone.from, zone.to + 1]);
        let ahead = ends
            .map(|end| (end - self.time_of_day).rem_euclid(DAY_MS))
            .map(|ms| if ms == 0 { DAY_MS } else { ms });
        ahead.min().map(|ms| Time(self.now.0 + ms))
    }

    /// Running preemptable tasks on nodes of zones that have ended.
    fn overdue<'a>(&'a self, world: &'a World, of: &'a [TaskId]) -> impl Iterator<Item = TaskId> + 'a {
        of.iter().copied().filter(move |id| {
            let task = &world.tasks[*id];
            let zone = task.node.and_then(|node| world.nodes[node].label(REVOCABLE_ZONE));
            let ended = zone.and_then(|zone| self.zones.get(zone)).is_some_and(|(_, lasts)| !lasts);
            ended && leaves(task)
        })
    }
}

/// A pod is preemptable unless it says no.
fn is_preemptable(task: &Task) -> bool {
    task.preemptable != Some(false)
}

/// Whether a pod has to go when the zone of its node has ended.
fn leaves(task: &Task) -> bool {
    task.status == Status::Running && is_preemptable(task)
}

/// Whether a task may be evicted itself, or may use nodes that are lent.
fn gives_way(world: &World, task: TaskId) -> bool {
    world.class_of(task).constraints.revocable || is_preemptable(&world.tasks[task])
}

/// A job is preemptable only when it says so.
fn job_is_preemptable(job: &Job) -> bool {
    job.preemptable == Some(true)
}

impl Plugin for Tdm {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(self.next_end().unwrap_or(Time::NEVER))
    }

    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        job_is_preemptable(&world.jobs[a]).cmp(&job_is_preemptable(&world.jobs[b]))
    }

    fn job_pipelined(&self, world: &World, job: JobId) -> Vote {
        let job = &world.jobs[job];
        let placed = |counts: &phalanx_cluster::Counts| counts.ready() + counts.of(Status::Pipelined);
        let whole = placed(&job.counts) >= job.min_member && job.roles_satisfied(placed).is_ok();
        if whole { Vote::Permit } else { Vote::Reject }
    }

    fn job_starving(&self, world: &World, job: JobId) -> Option<bool> {
        let job = &world.jobs[job];
        Some(!job_is_preemptable(job) && job.counts.of(Status::Pending) > 0)
    }

    fn ranks_jobs(&self, flag: Option<Flag>) -> bool {
        flag.is_some()
    }

    fn keep_reason(&self, world: &World, by: TaskId, _: TaskId) -> Arc<str> {
        if gives_way(world, by) {
            return "that stay, since it may have to give way itself (plugin tdm)".into();
        }
        "that are not preemptable, or on nodes with a revocable zone (plugin tdm)".into()
    }

    fn preemptable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        if gives_way(world, by) {
            return Some(Vec::new());
        }
        let victim = |id: &TaskId| {
            let task = &world.tasks[*id];
            let lent = task.node.is_none_or(|node| zone_of(&world.nodes[node]).is_some());
            is_preemptable(task) && task.status == Status::Running && !lent
        };
        Some(within_budget(world, of.iter().copied().filter(victim)))
    }

    fn wake(&self, world: &World) -> Option<Time> {
        let mut any = false;
        for node in world.lent_nodes() {
            let Some((_, lasts)) = zone_of(node).and_then(|zone| self.zones.get(zone)) else { continue };
            if !lasts && node.tasks.iter().any(|task| leaves(&world.tasks[*task])) {
                return Some(Time((self.now.0.div_euclid(self.period) + 1) * self.period));
            }
            any = true;
        }
        if any { self.next_end() } else { None }
    }

    fn rebalancer(&self) -> Option<&dyn Rebalancer> {
        (self.evicts).then_some(self as &dyn Rebalancer)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        Some(self)
    }
}

impl Rebalancer for Tdm {
    fn victims(&self, world: &World, of: &[TaskId]) -> Vec<TaskId> {
        if !self.evicts {
            return Vec::new();
        }
        within_budget(world, self.overdue(world, of))
    }
}

impl TaskRules for Tdm {
    fn scope(&self, _: &World, _: TaskId) -> u64 {
        self.scope
    }

    fn task_filters(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
        let zones = self.zones.iter().map(|(name, (_, lasts))| (name.clone(), *lasts)).collect();
        rules.filters.push(Box::new(Lent { zones, revocable: world.class_of(task).constraints.revocable }));
    }

    fn task_scorers(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if world.class_of(task).constraints.revocable {
            rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
            rules.scorers.push(Box::new(OnLent));
        }
    }
}

/// The zone of a node that is lent.
fn zone_of(node: &Node) -> Option<&str> {
    node.zone()
}

struct Lent {
    /// Zones, and whether they last.
    zones: BTreeMap<Arc<str>, bool>,
    /// The pod may use nodes that are lent.
    revocable: bool,
}

impl NodeFilter for Lent {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let Some(zone) = zone_of(node) else { return Ok(()) };
        let refused = |text: String| Err(Unfit::Other(text.into()));
        match self.zones.get(zone) {
            None => refused(format!("node(s) were of revocable zone {zone}, which is not configured")),
            // By day and by night: to wait would not help.
            Some(_) if !self.revocable => refused(format!(
                "node(s) were of revocable zone {zone}, for pods with annotation {REVOCABLE_ZONE}: \"*\" only"
            )),
            Some(false) => refused(format!("node(s) were of revocable zone {zone}, which is not lent now")),
            Some(true) => Ok(()),
        }
    }
}

struct OnLent;

impl NodeScorer for OnLent {
    fn score(&self, node: &Node) -> f64 {
        if zone_of(node).is_some() { MAX_SCORE } else { 0.0 }
    }

    fn normalise(&self, _: &mut [f64]) {}
}

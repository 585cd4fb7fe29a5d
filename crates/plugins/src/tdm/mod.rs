//! tdm (time division multiplexing): preemptable pods use revocable nodes for a part of the day.
//!
//! A node with the label `volcano.sh/revocable-zone` is revocable: pods may use it during the hours of its zone. Hours
//! are in UTC, shifted by `tdm.utc-offset`; a zone whose end is not after its start ends on the next day.
//! - Pods with annotation `volcano.sh/revocable-zone: "*"` or `volcano.sh/preemptable: "true"` can run on a revocable
//!   node during its hours, and score 100 there. No other pods can, and no pod outside the hours.
//! - After the hours the preemptable pods of a zone are evicted (action `shuffle`): once in `tdm.evict.period`, of each
//!   job as many as its disruption budget permits. The budget is annotation `volcano.sh/jdb-max-unavailable` or
//!   `volcano.sh/jdb-min-available` of the PodGroup, a number or a percentage of its pods, rounded up; without a budget
//!   it is one pod. Pods are evicted also when they fit on no other node; where they fit, the nodes are reserved for
//!   their replacements. PodDisruptionBudgets are respected.
//! - Job order: jobs that are not preemptable first. Such a job is starving while it has a pending task, and its tasks
//!   may preempt running preemptable pods on nodes without a zone, within the same budgets. Preemptable tasks preempt
//!   no pods.
//! - A job is pipelined only when its gang is whole.
//!
//! Source: Volcano's tdm plugin. Differences: Volcano counts the period from the previous call, uses the time zone of
//! its process, ends zones at midnight, and evicts a pod of a job that already has fewer running pods than its budget
//! requires.
mod disruption_budget;
mod revocable_zone;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use disruption_budget::within_budget;
use phalanx_cluster::annotation::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE};
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Job, Node, Status, Task};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Flag, Otherwise, Rule};
use phalanx_framework::plugin::{
    Attribute, Eviction, EvictionKind, NodeRules, NodeScorer, ObjectField, Plugin, PluginContext, PluginDef,
    Rebalancer, TaskRules, Values, Vote,
};
use revocable_zone::{DAY_MS, MINUTE_MS, ZoneHours, utc_offset};

const ZONE: &str = "tdm.revocable-zone.";
const PERIOD: &str = "tdm.evict.period";
const OFFSET: &str = "tdm.utc-offset";

const HOURS: Rule = Rule::new(
    Allowed::Form("times of a day such as 10:00-21:00", |text| ZoneHours::parse(text).is_some()),
    Otherwise::Does("no pods may use the nodes of the zone"),
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
        doc: "The hours in which pods may use the nodes of a zone, such as `10:00-21:00`.",
    },
    ArgSpec {
        name: PERIOD,
        kind: ArgKind::Duration(&[Rule::at_least(1)]),
        default: "1m",
        doc: "How often pods are evicted from nodes after the hours of their zone.",
    },
    ArgSpec {
        name: OFFSET,
        kind: ArgKind::Text(&[AHEAD]),
        default: "+00:00",
        doc: "How far the hours of zones are ahead of UTC, such as `+08:00`.",
    },
];

const READS: &[ObjectField] = &[
    ObjectField::new(
        REVOCABLE_ZONE,
        "label of a node",
        "not revocable",
        "The zone whose hours apply to the node.",
    ),
    ObjectField::new(
        REVOCABLE_ZONE,
        "annotation of a pod",
        "as `volcano.sh/preemptable`, as an annotation",
        "`*` allows the pod on revocable nodes; any other value keeps it off.",
    ),
    ObjectField::new(
        "volcano.sh/preemptable",
        "annotation, else label, of a PodGroup or a pod",
        "`false` of a PodGroup, `true` of a pod",
        "Preemptable jobs go after the others, are preempted by them, and leave revocable nodes after the hours.",
    ),
    ObjectField::new(
        JDB_MAX_UNAVAILABLE,
        "annotation of a PodGroup",
        "1 pod at a time",
        "How many of its pods may be missing, a number or a percentage (rounded up); ignored beside `jdb-min-available`.",
    ),
    ObjectField::new(
        JDB_MIN_AVAILABLE,
        "annotation of a PodGroup",
        "1 pod at a time",
        "How many of its pods must keep running, likewise. A value that is neither a number nor a percentage counts as 0.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "tdm",
    summary: "Preemptable pods use revocable nodes for a part of the day, and are evicted from them afterwards.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Tdm::open(opening)),
};

/// The highest score.
const MAX_SCORE: f64 = 100.0;

struct Tdm {
    /// Zones by name.
    zones: BTreeMap<Arc<str>, RevocableZone>,
    now: Time,
    /// Milliseconds since midnight.
    time_of_day_ms: i64,
    period_ms: i64,
    /// Whether this cycle evicts: the first of a period.
    evicts: bool,
    scope: u64,
}

#[derive(Clone, Copy, Debug, Hash)]
struct RevocableZone {
    hours: ZoneHours,
    is_open: bool,
}

impl Tdm {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let offset = args.text(OFFSET).and_then(utc_offset).unwrap_or(0);
        let time_of_day_ms = (opening.now.0 + offset).rem_euclid(DAY_MS);
        let zone = |(key, arg): (&String, &phalanx_framework::conf::Arg)| {
            let name = key.strip_prefix(ZONE)?;
            let phalanx_framework::conf::Value::Text(text) = &arg.value else { return None };
            let hours = ZoneHours::parse(text)?;
            Some((Arc::from(name), RevocableZone { hours, is_open: hours.contains(time_of_day_ms) }))
        };
        let zones: BTreeMap<Arc<str>, RevocableZone> = args.0.iter().filter_map(zone).collect();
        let mut hasher = DefaultHasher::new();
        zones.hash(&mut hasher);
        let period =
            Some(args.duration_ms(PERIOD, MINUTE_MS)).filter(|period| *period > 0).unwrap_or(MINUTE_MS);
        let (evicts, scope) = (opening.begins(period), hasher.finish().max(1));
        Self { zones, now: opening.now, time_of_day_ms, period_ms: period, evicts, scope }
    }

    /// When the hours of a zone begin or end next.
    fn next_change(&self) -> Option<Time> {
        // The last millisecond belongs to the hours.
        let changes = self.zones.values().flat_map(|zone| [zone.hours.from_ms, zone.hours.to_ms + 1]);
        let ahead = changes
            .map(|change| (change - self.time_of_day_ms).rem_euclid(DAY_MS))
            .map(|ms| if ms == 0 { DAY_MS } else { ms });
        ahead.min().map(|ms| Time(self.now.0 + ms))
    }

    /// Running preemptable tasks on nodes of zones outside their hours.
    fn overdue<'a>(&'a self, cluster: &'a Cluster, of: &'a [TaskId]) -> impl Iterator<Item = TaskId> + 'a {
        of.iter().copied().filter(move |id| {
            let task = &cluster.tasks[*id];
            let zone = task.node.and_then(|node| cluster.nodes[node].label(REVOCABLE_ZONE));
            let is_closed = zone.and_then(|zone| self.zones.get(zone)).is_some_and(|zone| !zone.is_open);
            is_closed && must_leave(task)
        })
    }
}

/// A pod is preemptable unless its annotation is `false`.
fn is_preemptable(task: &Task) -> bool {
    task.details.preemptable != Some(false)
}

/// Whether a pod is evicted outside the hours of its node's zone.
fn must_leave(task: &Task) -> bool {
    task.status == Status::Running && is_preemptable(task)
}

/// Whether a task is preemptable, or may use revocable nodes; such a task preempts no pods.
fn is_revocable_or_preemptable(cluster: &Cluster, task: TaskId) -> bool {
    cluster.class_of(task).constraints.revocable || is_preemptable(&cluster.tasks[task])
}

/// A job is preemptable only when its annotation is `true`.
fn job_is_preemptable(job: &Job) -> bool {
    job.preemptable == Some(true)
}

impl Plugin for Tdm {
    fn refusal_holds_until(&self, _: &Cluster, _: JobId) -> Option<Time> {
        Some(self.next_change().unwrap_or(Time::NEVER))
    }

    fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        job_is_preemptable(&cluster.jobs[a]).cmp(&job_is_preemptable(&cluster.jobs[b]))
    }

    fn job_pipelined(&self, cluster: &Cluster, job: JobId) -> Vote {
        let job = &cluster.jobs[job];
        let placed = |counts: &phalanx_cluster::Counts| counts.ready() + counts.of(Status::Pipelined);
        let whole = placed(&job.counts) >= job.min_member && job.roles_satisfied(placed).is_ok();
        if whole { Vote::Permit } else { Vote::Reject }
    }

    fn job_starving(&self, cluster: &Cluster, job: JobId) -> Option<bool> {
        let job = &cluster.jobs[job];
        Some(!job_is_preemptable(job) && job.counts.of(Status::Pending) > 0)
    }

    fn ranks_equal_priority(&self, flag: Option<Flag>) -> bool {
        flag.is_some()
    }

    fn keep_reason(&self, cluster: &Cluster, by: TaskId, _: TaskId) -> Arc<str> {
        if is_revocable_or_preemptable(cluster, by) {
            return "that stay, since it may have to give way itself (plugin tdm)".into();
        }
        "that are not preemptable, or on nodes with a revocable zone (plugin tdm)".into()
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let Eviction { kind: EvictionKind::Preempt, by, whole_gangs: false } = eviction else { return None };
        if is_revocable_or_preemptable(cluster, by) {
            return Some(Vec::new());
        }
        let victim = |id: &TaskId| {
            let task = &cluster.tasks[*id];
            let lent = task.node.is_none_or(|node| cluster.nodes[node].zone().is_some());
            is_preemptable(task) && task.status == Status::Running && !lent
        };
        Some(within_budget(cluster, of.iter().copied().filter(victim)))
    }

    fn wake(&self, cluster: &Cluster) -> Option<Time> {
        let mut any = false;
        for node in cluster.lent_nodes() {
            let Some(zone) = node.zone().and_then(|zone| self.zones.get(zone)) else { continue };
            if !zone.is_open && node.tasks.iter().any(|task| must_leave(&cluster.tasks[*task])) {
                return Some(Time((self.now.0.div_euclid(self.period_ms) + 1) * self.period_ms));
            }
            any = true;
        }
        if any { self.next_change() } else { None }
    }

    fn rebalancer(&self) -> Option<&dyn Rebalancer> {
        self.evicts.then_some(self as &dyn Rebalancer)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        Some(self)
    }
}

impl Rebalancer for Tdm {
    fn victims(&self, cluster: &Cluster, of: &[TaskId]) -> Vec<TaskId> {
        if !self.evicts {
            return Vec::new();
        }
        within_budget(cluster, self.overdue(cluster, of))
    }
}

impl TaskRules for Tdm {
    fn scope(&self, _: &Cluster, _: TaskId) -> u64 {
        self.scope
    }

    fn task_filters(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
        let zones: BTreeMap<Arc<str>, bool> =
            self.zones.iter().map(|(name, zone)| (name.clone(), zone.is_open)).collect();
        let revocable = cluster.class_of(task).constraints.revocable;
        rules.filter(move |node| check_zone(&zones, revocable, node));
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if cluster.class_of(task).constraints.revocable {
            rules.reads.push((Attribute::Label(REVOCABLE_ZONE.into()), Values::All));
            rules.scorers.push(Box::new(RevocableZoneScorer));
        }
    }
}

/// Whether a pod may be on a node, by the zones and whether each is within its hours.
fn check_zone(zones: &BTreeMap<Arc<str>, bool>, revocable: bool, node: &Node) -> Result<(), Unfit> {
    let Some(zone) = node.zone() else { return Ok(()) };
    let refused = |text: String| Err(Unfit::Other(text.into()));
    match zones.get(zone) {
        None => refused(format!("node(s) were of revocable zone {zone}, which is not configured")),
        // This reason does not depend on the hour, since waiting would not help.
        Some(_) if !revocable => refused(format!(
            "node(s) were of revocable zone {zone}, for pods with annotation {REVOCABLE_ZONE}: \"*\" only"
        )),
        Some(false) => refused(format!("node(s) were of revocable zone {zone}, which is not lent now")),
        Some(true) => Ok(()),
    }
}

struct RevocableZoneScorer;

impl NodeScorer for RevocableZoneScorer {
    fn score(&self, node: &Node) -> f64 {
        if node.zone().is_some() { MAX_SCORE } else { 0.0 }
    }

    fn normalise(&self, _: &mut [f64]) {}
}

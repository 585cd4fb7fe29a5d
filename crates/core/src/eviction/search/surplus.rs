//! Strategy *surplus*: only members of gangs above their minimums, before a gang is broken.
//!
//! Guarantees: no gang is broken where the other strategies, choosing from surplus alone, find a plan that takes as few
//! pods and pods as unimportant. The actions of gangs have no such limits, for they take surplus first whatever its
//! priority.
use std::collections::BTreeMap;

use super::{Cluster, EvictionMode, JobId, Loss, Plan, TaskId, Victim, VictimSearch, is_surplus};

/// Steps that this strategy may take: a gang may be broken before the search costs too much.
const MOST_STEPS: u64 = 10_000;

/// What a plan that takes surplus may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pods: usize,
    priority: i32,
}

impl Limits {
    const NONE: Self = Self { pods: usize::MAX, priority: i32::MAX };

    /// The cost of a plan.
    pub(super) fn of(cluster: &Cluster, plan: &Plan) -> Self {
        let priority = |task: &TaskId| Some(cluster.jobs[cluster.tasks[*task].job?].priority);
        let highest = plan.victims.iter().filter_map(priority).max();
        Self { pods: plan.victims.len(), priority: highest.unwrap_or(i32::MIN) }
    }

    pub(super) fn is_within(self, most: Self) -> bool {
        self.pods <= most.pods && self.priority <= most.priority
    }
}

impl VictimSearch<'_, '_> {
    /// Whether a gang is whole no more by a plan. One that goes as a whole is not broken where pods are reclaimed one
    /// by one: it goes when its queue has to give, as a single pod does.
    pub(super) fn breaks_gang(&self, plan: &Plan) -> bool {
        let cluster = &*self.session.cluster;
        let mut lost: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for task in &plan.victims {
            if let Some(job) = cluster.tasks[*task].job.filter(|job| !cluster.jobs[*job].is_broken()) {
                lost.entry(job).or_default().push(*task);
            }
        }
        let breaks = |(job, lost): (&JobId, &Vec<TaskId>)| {
            let goes_whole = lost.len() as u32 >= cluster.jobs[*job].counts.ready();
            !(is_surplus(cluster, lost) || goes_whole && self.mode() == EvictionMode::Reclaim)
        };
        lost.iter().any(breaks)
    }

    /// A plan that takes only surplus, if one is found that costs no more than the given one.
    pub(super) fn surplus_instead(&mut self, offered: &[Victim], plan: &Plan) -> Option<Plan> {
        if self.mode() == EvictionMode::WithinJob || self.session.tiers.victims_are_judged_remotely() {
            return None;
        }
        let cluster = &*self.session.cluster;
        let is_one = |victim: &&Victim| is_surplus(cluster, [&victim.task]);
        let as_surplus = |victim: &Victim| Victim { loss: Loss::Surplus, ..*victim };
        let surplus: Vec<Victim> = offered.iter().filter(is_one).map(as_surplus).collect();
        self.steps.scan(offered.len() + 2 * cluster.nodes.len()).ok()?;
        let freed = surplus.iter().map(|victim| (victim.node, cluster.request_of(victim.task)));
        let ceiling = self.bound.with_evicted(freed);
        if surplus.is_empty() || !ceiling.may_fit() {
            return None;
        }
        self.surplus =
            Some(if self.mode().evicts_whole_gangs() { Limits::NONE } else { Limits::of(cluster, plan) });
        let aside = self.steps.set_aside(MOST_STEPS);
        let found = self.find(&surplus, &ceiling);
        self.steps.take_back(aside);
        found.ok()
    }
}

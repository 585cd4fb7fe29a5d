//! Priorities, budgets and annotations that keep pods from being evicted for a job, and actions that evict.
use std::collections::BTreeSet;

use phalanx_cluster::event::{Event, PdbInfo, PodGroupInfo, PodInfo, QueueInfo};
use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, Job, JobKind};

use super::fix::{Choice, Fix};
use super::{ConfAddition, TRIALS_MAX, Waiting, with_queue};

/// The PriorityClass of a job whose priority is raised.
const RAISED: &str = "explain-raised";

/// Actions that a configuration may lack.
const ACTIONS: [&str; 4] = ["allocate", "backfill", "preempt", "reclaim"];

/// Priorities that are tried.
const PRIORITIES_MAX: usize = 6;

/// The most further disruptions that a budget is given.
const DISRUPTIONS_MAX: usize = 64;

impl Waiting<'_> {
    /// What would let pods be evicted for the job.
    pub(super) fn evictions(&self) -> Vec<Choice<'_>> {
        let pdbs: Vec<PdbInfo> = self.cluster.pdb_infos().take(TRIALS_MAX).collect();
        vec![
            Choice::First(self.policy().into_iter().collect()),
            Choice::First(self.priorities()),
            Choice::Each(pdbs.into_iter().map(disruptions).collect()),
            Choice::First(self.preemptable()),
            Choice::First(self.reclaimable()),
            Choice::First(self.actions()),
        ]
    }

    fn policy(&self) -> Option<Fix<'_>> {
        let never = self.waiting_pods().any(|pod| pod.never_preempts);
        // A change of an existing pod's policy has no effect: the API server refuses it.
        let anew = |event: Event| match event {
            Event::Pod(pod) => vec![Event::PodGone(pod.pod.uid.clone()), Event::Pod(pod)],
            other => vec![other],
        };
        let edit = move |cluster: &Cluster| {
            let pods = self.with_pods(cluster, |pod| pod.never_preempts = false);
            pods.into_iter().flat_map(anew).collect()
        };
        never.then(|| Fix::new("with preemptionPolicy PreemptLowerPriority", edit))
    }

    /// Priorities above those of running jobs, the lowest first.
    fn priorities(&self) -> Vec<Fix<'_>> {
        let own = self.job.priority.value;
        let running = self.cluster.jobs.iter().map(|(_, job)| job);
        let running = running.filter(|job| job.counts.ready() > 0 && job.priority >= own);
        let values: BTreeSet<i32> = running.map(|job| job.priority.saturating_add(1)).collect();
        let fix = |value: i32| {
            let text = match self.missing_class() {
                Some(class) => format!("if PriorityClass {class} existed, with value {value} or more"),
                None => format!("with priority {value} or more"),
            };
            let raised = move |value: i32| move |cluster: &Cluster| self.raised(cluster, value);
            Fix::new(text, raised(value)).less(raised(value - 1))
        };
        values.into_iter().take(PRIORITIES_MAX).map(fix).collect()
    }

    fn missing_class(&self) -> Option<&str> {
        let class = self.group.as_ref().and_then(|group| group.priority_class.as_deref());
        class.filter(|class| !self.cluster.has_priority_class(class))
    }

    fn raised(&self, cluster: &Cluster, value: i32) -> Vec<Event> {
        let class = Event::PriorityClass { name: RAISED.into(), value, global_default: false };
        let group = self.with_group(cluster, |group| group.priority_class = Some(RAISED.into()));
        let pods = self.with_pods(cluster, |pod| {
            (pod.priority, pod.priority_class) = (Some(value), Some(RAISED.into()));
        });
        std::iter::once(class).chain(group).chain(pods).collect()
    }

    /// Running PodGroups, and pods without one, that are not preemptable.
    fn preemptable(&self) -> Vec<Fix<'_>> {
        let (no, tasks) = (Some(false), &self.cluster.tasks);
        let runs = |task: &TaskId| tasks[*task].node.is_some();
        let kept = |job: &Job| {
            let mut running = job.tasks.iter().filter(|task| runs(task)).peekable();
            let kept_by_group = running.peek().is_some() && job.preemptable == no;
            kept_by_group || running.any(|task| tasks[*task].details.preemptable == no)
        };
        let mut jobs: Vec<_> = self.cluster.jobs.iter().filter(|(_, job)| kept(job)).collect();
        jobs.sort_by_key(|(_, job)| (job.kind, &job.key));
        let fix = |(id, job): (_, &Job)| {
            let group = self.cluster.group_info(id);
            let group = group.map(|group| PodGroupInfo { preemptable: Some(true), ..group }.into());
            let pods = job.tasks.iter().filter(|task| runs(task)).map(|task| self.cluster.pod_info(*task));
            let pods = pods.map(|pod| PodInfo { preemptable: Some(true), ..pod }.into());
            let kind = if job.kind == JobKind::Group { "PodGroup" } else { "pod" };
            let text = format!("if {kind} {} were preemptable", job.key);
            Fix::events(text, group.into_iter().chain(pods).collect()).about(&job.key)
        };
        jobs.into_iter().take(TRIALS_MAX).map(fix).collect()
    }

    /// Other queues that are not reclaimable.
    fn reclaimable(&self) -> Vec<Fix<'_>> {
        let kept =
            self.queues().into_iter().filter(|queue| !queue.reclaimable && queue.name != self.job.queue);
        let fix = |QueueInfo { name, .. }: QueueInfo| {
            let text = format!("if queue {name} were reclaimable");
            Fix::new(text, move |cluster| with_queue(cluster, &name, |queue| queue.reclaimable = true))
        };
        kept.map(fix).collect()
    }

    /// Actions that the configuration lacks.
    fn actions(&self) -> Vec<Fix<'_>> {
        let lacks = |action: &&str| !self.conf.actions.iter().any(|known| known == action);
        ACTIONS.into_iter().filter(lacks).map(ConfAddition::Action).map(Fix::conf).collect()
    }
}

fn disruptions<'w>(pdb: PdbInfo) -> Fix<'w> {
    let key = pdb.key.clone();
    let text = format!("if PodDisruptionBudget {key} allowed");
    let text = move |more: usize| {
        let noun = if more == 1 { "disruption" } else { "disruptions" };
        format!("{text} {more} more {noun}")
    };
    let allowed = move |_: &Cluster, more: usize| {
        let allowed = pdb.allowed.saturating_add(more as u32);
        vec![Event::from(PdbInfo { allowed, ..pdb.clone() })]
    };
    Fix::counted(DISRUPTIONS_MAX, text, allowed).about(&key)
}

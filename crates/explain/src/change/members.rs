//! Members that a gang lacks or that may not start, and jobs before it in a fifo queue.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Dequeue, Event, PodGroupInfo, PodInfo, PodLife, PodPhase, PodRef, QueueGate};
use phalanx_cluster::{Cluster, Job, JobKind, Status};

use super::fix::{Choice, Fix};
use super::{Waiting, such_as};

fn is_of_job(group: &PodGroupInfo) -> bool {
    group.controller.as_ref().is_some_and(|owner| &*owner.kind == "Job")
}

impl Waiting<'_> {
    /// Members with which the job would run, or fewer that it needs.
    pub(super) fn missing_members(&self) -> Vec<Choice<'_>> {
        let fixes = [self.gates(), self.more_pods(), self.fewer_needed()];
        let fixes = Choice::Each(fixes.into_iter().flatten().collect());
        vec![fixes, Choice::First(self.no_sub_groups()), Choice::First(self.jobs_before())]
    }

    fn gates(&self) -> Option<Fix<'_>> {
        let gated: Vec<&PodInfo> =
            self.waiting_pods().filter(|pod| pod.gated && pod.queue_gate == QueueGate::None).collect();
        let which = such_as("pod", gated.len(), &gated.first()?.pod.name);
        let gates = if gated.len() == 1 { "has no scheduling gate" } else { "have no scheduling gates" };
        let edit = |cluster: &Cluster| self.with_pods(cluster, |pod| pod.gated = false);
        Some(Fix::new(format!("once {which} {gates}"), edit))
    }

    /// As many pods as the minimum of the gang, or of its tasks, asks for.
    fn more_pods(&self) -> Option<Fix<'_>> {
        let (group, like) = (self.group.as_ref()?, self.pods.first()?);
        let exist = self.pods.iter().filter(|pod| pod.life.phase != PodPhase::Failed && !pod.life.deleting);
        let mut found: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        exist.for_each(|pod| *found.entry(pod.role.clone()).or_default() += 1);
        let count_of = |role: &Arc<str>| found.get(role).copied().unwrap_or_default();
        let missing: Vec<(Arc<str>, u32)> = group
            .min_task_member
            .iter()
            .map(|(role, min)| (role.clone(), min.saturating_sub(count_of(role))))
            .filter(|(_, missing)| *missing > 0)
            .collect();
        if let Some((role, count)) = missing.first() {
            let noun = if *count == 1 { "pod" } else { "pods" };
            let text = format!("with {count} more {noun} of task {role}");
            let made = |less: u32| {
                let each = missing.iter().flat_map(|(role, count)| Self::made(like, role, count - less));
                each.collect::<Vec<Event>>()
            };
            let less = made(1);
            return Some(Fix::events(text, made(0)).less(move |_| less.clone()));
        }
        let count = group.min_member.saturating_sub(found.values().sum());
        let noun = if count == 1 { "pod" } else { "pods" };
        let made = |count: u32| Self::made(like, &like.role, count).collect::<Vec<Event>>();
        let less = made(count.saturating_sub(1));
        let text = format!("with {count} more {noun} like {}", like.pod.name);
        (count > 0).then(|| Fix::events(text, made(count)).less(move |_| less.clone()))
    }

    /// Pods like one that exists.
    fn made(like: &PodInfo, role: &Arc<str>, count: u32) -> impl Iterator<Item = Event> {
        (1..=count).map(move |number| {
            let name: Arc<str> = format!("{}-added-{role}-{number}", like.pod.name).into();
            let pod = PodRef { uid: name.clone(), name, namespace: like.pod.namespace.clone() }.into();
            let (role, life) = (role.clone(), PodLife::default());
            Event::from(PodInfo { pod, role, life, gated: false, index: None, ..like.clone() })
        })
    }

    fn fewer_needed(&self) -> Option<Fix<'_>> {
        let group = self.group.as_ref()?;
        let found = self.pods.iter().filter(|pod| pod.life.phase != PodPhase::Failed).count() as u32;
        let with = |min| move |cluster: &Cluster| self.with_group(cluster, |group| group.min_member = min);
        let fix = || Fix::new(format!("with minMember {found}"), with(found)).less(with(found + 1));
        (found > 0 && found < group.min_member).then(fix)
    }

    /// Without `minSubGroups` of one entry of `subGroupPolicy`, or of all.
    fn no_sub_groups(&self) -> Vec<Fix<'_>> {
        let Some(group) = &self.group else { return Vec::new() };
        let required = group.sub_groups.iter().enumerate().filter(|(_, policy)| policy.min > 0);
        let required: Vec<usize> = required.map(|(at, _)| at).collect();
        let each = required.iter().map(|at| vec![*at]);
        let all = Some(required.clone()).filter(|all| all.len() > 1);
        let without = |entries: Vec<usize>| {
            let names: Vec<&str> = entries.iter().map(|at| &*group.sub_groups[*at].name).collect();
            let text = format!("without minSubGroups of subGroupPolicy {}", names.join(" and "));
            Fix::new(text, move |cluster: &Cluster| {
                self.with_group(cluster, |group| entries.iter().for_each(|at| group.sub_groups[*at].min = 0))
            })
        };
        each.chain(all).map(without).collect()
    }

    /// `minResources` beyond what the pods request. Those of a Job are the sum of what its pods request.
    pub(super) fn no_minimum_of_resources(&self) -> Option<Fix<'_>> {
        self.group.as_ref().filter(|group| !is_of_job(group))?.min_resources.as_ref()?;
        let edit = |cluster: &Cluster| self.with_group(cluster, |group| group.min_resources = None);
        Some(Fix::new("without minResources", edit))
    }

    /// Jobs that wait in the same queue, where it is fifo.
    fn jobs_before(&self) -> Vec<Fix<'_>> {
        let Some(queue) = self.queue(&self.job.queue).filter(|queue| queue.dequeue == Dequeue::Fifo) else {
            return Vec::new();
        };
        let jobs = &self.cluster.jobs;
        let waits = |job: &Job| job.kind == JobKind::Group && job.waiting() > 0;
        let others = jobs.iter().filter(|(id, job)| *id != self.id && job.queue == jobs[self.id].queue);
        let mut others: Vec<&Job> = others.map(|(_, job)| job).filter(|job| waits(job)).collect();
        others.sort_by_key(|job| &job.key);
        let gone = |job: &Job| {
            let tasks = job.tasks.iter().map(|task| &self.cluster.tasks[*task]);
            let waiting = tasks.filter(|task| matches!(task.status, Status::Pending | Status::Pipelined));
            let pods = waiting.map(|task| Event::PodGone(task.pod.uid.clone()));
            let group = job.object.exists.then(|| Event::PodGroupGone(job.key.clone()));
            let text = format!("if PodGroup {} did not wait in queue {}", job.key, queue.name);
            Fix::events(text, group.into_iter().chain(pods).collect()).about(&job.key)
        };
        others.into_iter().map(gone).collect()
    }
}

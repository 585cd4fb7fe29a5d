//! Members that a gang lacks or that may not start, and jobs before it in a fifo queue.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Dequeue, Event, PodInfo, PodLife, PodPhase, PodRef, QueueGate};
use phalanx_cluster::{Job, JobKind, Status};

use super::{Fix, Remedy, Waiting, such_as};

impl Waiting<'_> {
    /// Members with which the job would run, or fewer that it needs.
    pub(super) fn missing_members(&self) -> Vec<Remedy> {
        let first = [self.gates(), self.more_pods(), self.fewer_needed()];
        let fixes = first.into_iter().flatten().chain(self.sub_groups());
        let mut found = self.helping(fixes);
        found.extend(self.first_helping(self.jobs_before()));
        found
    }

    fn gates(&self) -> Option<Fix> {
        let gated: Vec<&PodInfo> =
            self.waiting_pods().filter(|pod| pod.gated && pod.queue_gate == QueueGate::None).collect();
        let which = such_as("pod", gated.len(), &gated.first()?.pod.name);
        let events = self.with_pods(|pod| pod.gated = false);
        let gates = if gated.len() == 1 { "has no scheduling gate" } else { "have no scheduling gates" };
        Some(Fix::new(format!("once {which} {gates}"), events))
    }

    /// As many pods as the minimum of the gang, or of its tasks, asks for.
    fn more_pods(&self) -> Option<Fix> {
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
            let made = missing.iter().flat_map(|(role, count)| Self::made(like, role, *count));
            let noun = if *count == 1 { "pod" } else { "pods" };
            return Some(Fix::new(format!("with {count} more {noun} of task {role}"), made.collect()));
        }
        let count = group.min_member.saturating_sub(found.values().sum());
        let noun = if count == 1 { "pod" } else { "pods" };
        let events = Self::made(like, &like.role, count).collect();
        (count > 0).then(|| Fix::new(format!("with {count} more {noun} like {}", like.pod.name), events))
    }

    /// Pods like one that exists.
    fn made(like: &PodInfo, role: &Arc<str>, count: u32) -> impl Iterator<Item = Event> {
        (1..=count).map(move |number| {
            let name: Arc<str> = format!("{}-added-{role}-{number}", like.pod.name).into();
            let pod = PodRef { uid: name.clone(), name, namespace: like.pod.namespace.clone() };
            let (role, life) = (role.clone(), PodLife::default());
            Event::from(PodInfo { pod, role, life, gated: false, index: None, ..like.clone() })
        })
    }

    fn fewer_needed(&self) -> Option<Fix> {
        let group = self.group.as_ref()?;
        let found = self.pods.iter().filter(|pod| pod.life.phase != PodPhase::Failed).count() as u32;
        let events = self.with_group(|group| group.min_member = found);
        (found > 0 && found < group.min_member).then(|| Fix::new(format!("with minMember {found}"), events))
    }

    fn sub_groups(&self) -> Option<Fix> {
        let policy = self.group.as_ref()?.sub_groups.iter().find(|policy| policy.min > 0)?;
        let events = self.with_group(|group| group.sub_groups.iter_mut().for_each(|policy| policy.min = 0));
        Some(Fix::new(format!("without minSubGroups of subGroupPolicy {}", policy.name), events))
    }

    /// `minResources` beyond what the pods request.
    pub(super) fn no_minimum_of_resources(&self) -> Option<Fix> {
        self.group.as_ref()?.min_resources.as_ref()?;
        let events = self.with_group(|group| group.min_resources = None);
        Some(Fix::new("without minResources", events))
    }

    /// Jobs that wait in the same queue, where it is fifo.
    fn jobs_before(&self) -> Vec<Fix> {
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
            Fix::of(&job.key, text, group.into_iter().chain(pods).collect())
        };
        others.into_iter().map(gone).collect()
    }
}

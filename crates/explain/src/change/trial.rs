//! Trials: a change is made to a copy of the cluster, and a cycle of the core says whether the job runs then.
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, Phase, Time};
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, Hold, JobKind};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::Conf;

use super::search::Numbered;
use super::{Change, Waiting};

/// From one cycle to the next.
const PERIOD_MS: i64 = 1_000;

/// When the cycle after one begins.
pub(super) fn begin(last: Time) -> Time {
    Time(last.0.saturating_add(PERIOD_MS))
}

/// The cluster without the waiting pods of other jobs, and without their PodGroups where no pod has a node.
pub(super) fn without_other_waiting(of: &Cluster, id: JobId) -> Cluster {
    let mut cluster = of.clone();
    let (mut pods, mut groups): (Vec<Arc<str>>, Vec<Key>) = (Vec::new(), Vec::new());
    for (_, job) in of.jobs.iter().filter(|(other, _)| *other != id) {
        let tasks = job.tasks.iter().map(|task| &of.tasks[*task]);
        let waits = tasks.filter(|task| matches!(task.status.hold(), Hold::Nothing | Hold::Pipelined));
        pods.extend(waits.map(|task| task.pod.uid.clone()));
        if job.kind == JobKind::Group && job.counts.ready() == 0 {
            groups.push(job.key.clone());
        }
    }
    for event in pods.into_iter().map(Event::PodGone).chain(groups.into_iter().map(Event::PodGroupGone)) {
        cluster.apply(event);
    }
    cluster
}

impl Waiting<'_> {
    /// A copy of the cluster in which changes were made one after the other, and what they did.
    pub(super) fn applied(&self, fixes: &[Numbered<'_, '_>]) -> (Cluster, Change) {
        let (mut cluster, mut change) = (self.cluster.clone(), Change::default());
        for (fix, count) in fixes {
            for event in (fix.edit)(&cluster, *count) {
                change.events.push(event.clone());
                cluster.apply(event);
            }
            change.conf.extend(fix.conf);
        }
        (cluster, change)
    }

    /// Whether the job runs with changes. One that does nothing does not help, nor does any once the time is over.
    pub(super) fn helps(&self, fixes: &[Numbered<'_, '_>]) -> bool {
        self.cycle_with(fixes).is_some()
    }

    /// How many pods the job evicts when it runs with changes.
    pub(super) fn evicts(&self, fixes: &[Numbered<'_, '_>]) -> usize {
        let is_own = |one: &&Decision| match one {
            Decision::Evict { cause, .. } => cause.by.as_ref() == Some(&self.job.key),
            _ => false,
        };
        self.cycle_with(fixes).map_or(0, |decisions| decisions.iter().filter(is_own).count())
    }

    fn cycle_with(&self, fixes: &[Numbered<'_, '_>]) -> Option<Vec<Decision>> {
        if self.patience.is_over() {
            return None;
        }
        let (cluster, change) = self.applied(fixes);
        let mut conf: Conf = self.conf.clone();
        change.conf.iter().for_each(|addition| addition.add_to(&mut conf));
        if change == Change::default() { None } else { self.cycle_in(cluster, conf) }
    }

    /// Whether the job runs as things are.
    pub(super) fn runs(&self) -> bool {
        !self.patience.is_over() && self.cycle_in(self.cluster.clone(), self.conf.clone()).is_some()
    }

    /// What is decided in the cycle in which a pod of the job is bound or nominated, if there is one. A job without pods,
    /// which its controller makes once it is admitted, need only be admitted.
    fn cycle_in(&self, mut cluster: Cluster, conf: Conf) -> Option<Vec<Decision>> {
        let mut scheduler = Scheduler::new(conf, 0);
        let mut decisions = scheduler.run(&mut cluster, self.now).decisions;
        if !self.is_served(&cluster, &decisions) && self.is_admitted(&decisions) {
            if self.job.waiting == 0 {
                return Some(decisions);
            }
            // A job that was admitted after allocate gets its nodes in the next cycle.
            decisions = scheduler.run(&mut cluster, begin(self.now)).decisions;
        }
        self.is_served(&cluster, &decisions).then_some(decisions)
    }

    fn is_served(&self, cluster: &Cluster, decisions: &[Decision]) -> bool {
        let key = &self.job.key;
        let own = |uid: &str| {
            let job = cluster.task_of(uid).and_then(|task| cluster.tasks[task].job);
            job.is_some_and(|job| cluster.jobs[job].key == *key)
        };
        decisions.iter().any(|one| match one {
            Decision::Bind { job, .. } => job == key,
            Decision::Nominate { pod, node } => node.is_some() && own(&pod.uid),
            _ => false,
        })
    }

    fn is_admitted(&self, decisions: &[Decision]) -> bool {
        decisions.iter().any(|one| match one {
            Decision::PodGroupStatus { group, status, .. } => {
                *group == self.job.key && status.phase == Phase::Inqueue
            }
            _ => false,
        })
    }
}

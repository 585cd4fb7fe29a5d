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
        if self.patience.is_over() {
            return false;
        }
        let (cluster, change) = self.applied(fixes);
        let mut conf: Conf = self.conf.clone();
        change.conf.iter().for_each(|addition| addition.add_to(&mut conf));
        change != Change::default() && self.runs_in(cluster, conf)
    }

    /// Whether the job runs as things are.
    pub(super) fn runs(&self) -> bool {
        !self.patience.is_over() && self.runs_in(self.cluster.clone(), self.conf.clone())
    }

    /// Whether a pod of the job is bound or nominated. A job without pods, which its controller makes once it is
    /// admitted, need only be admitted.
    fn runs_in(&self, mut cluster: Cluster, conf: Conf) -> bool {
        let mut scheduler = Scheduler::new(conf, 0);
        let decisions = scheduler.run(&mut cluster, self.now).decisions;
        // A job that was admitted after allocate gets its nodes in the next cycle.
        self.is_served(&cluster, &decisions)
            || self.is_admitted(&decisions)
                && (self.job.waiting == 0 || {
                    let decisions = scheduler.run(&mut cluster, begin(self.now)).decisions;
                    self.is_served(&cluster, &decisions)
                })
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

//! What plugins say of jobs and queues together.
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::{TierPlugin, Tiers};
use crate::conf::Flag;
use crate::extender::Endpoint;
use crate::plugin::{Plugin, QueueGuard, RemotePolicy};
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{JobId, QueueId, TaskId};

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

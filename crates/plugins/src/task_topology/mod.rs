//! task-topology: roles of a gang that should run on one node, or on different nodes.
//!
//! Annotations of the PodGroup name roles: `volcano.sh/task-topology-affinity` and
//! `volcano.sh/task-topology-anti-affinity` hold lists of roles, `ps,worker;chief` (a list of one role concerns the
//! pods of that role), and `volcano.sh/task-topology-task-order` holds one list. A role that the gang does not have, or
//! that a list has twice, makes all three void, with a warning on the PodGroup; so do more than 64 roles in one of them.
//! - Pods of roles in a list are assigned to *buckets*: pods with a node to the bucket of that node; then each other
//!   pod to the bucket with the highest affinity (pods in an affinity list with it, less those in an anti-affinity
//!   list), of several to the one with the smallest requests, and to a new bucket when the affinity to all is below 0.
//! - Task order: by bucket, larger ones first, then by the task order; tasks without a bucket come last.
//! - Score of a node: the tasks of the bucket on it, less those on it in an anti-affinity list with the task, plus the
//!   waiting tasks of the bucket that would fit; in percent of the largest bucket, times the weight.
//!
//! Source: Volcano's task-topology plugin. Differences: Volcano takes random tasks out of a bucket that does not fit on
//! a node, and counts only pods placed in the running session for anti-affinity.
mod annotations;
mod buckets;

use std::cmp::{Ordering, Reverse};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use annotations::{AnnotationFault, TopologyRules};
use buckets::JobBuckets;
use phalanx_cluster::annotation::{
    TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER,
};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec};
use phalanx_framework::plugin::{
    ExtraNodeScores, NodeRules, ObjectField, Plugin, PluginContext, PluginDef, ResourceScorer, TaskRules,
    Warnings,
};

const WEIGHT: &str = "task-topology.weight";

const ARGS: &[ArgSpec] =
    &[ArgSpec { name: WEIGHT, kind: ArgKind::ANY_WEIGHT, default: "1", doc: "Weight of the score." }];

const READS: &[ObjectField] = &[
    ObjectField::new(
        TASK_TOPOLOGY_AFFINITY,
        "annotation of a PodGroup",
        "none",
        "Lists of roles that should run on one node: `ps,worker;chief`; a list of one role concerns the pods of that role.",
    ),
    ObjectField::new(
        TASK_TOPOLOGY_ANTI_AFFINITY,
        "annotation of a PodGroup",
        "none",
        "Lists of roles that should run on different nodes, likewise.",
    ),
    ObjectField::new(
        TASK_TOPOLOGY_TASK_ORDER,
        "annotation of a PodGroup",
        "none",
        "One list of roles, the first to be placed first. A role that the gang does not have, or that a list has twice, or more than 64 roles in one of the three void all three.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "task-topology",
    summary: "Puts roles of a gang on one node, or keeps them apart, as its annotations say.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(TaskTopology::open(opening)),
};

struct TaskTopology {
    weight: i64,
    buckets: FxHashMap<JobId, JobBuckets>,
}

impl TaskTopology {
    fn open(opening: PluginContext<'_>) -> Self {
        let cluster = opening.cluster;
        let buckets = |id| Some((id, JobBuckets::of(cluster, id)?));
        let jobs = cluster.pending_jobs().map(|(id, _)| id);
        Self { weight: opening.args.weight(WEIGHT, 1), buckets: jobs.filter_map(buckets).collect() }
    }

    fn buckets(&self, cluster: &Cluster, task: TaskId) -> Option<&JobBuckets> {
        self.buckets.get(&cluster.tasks[task].job?).filter(|buckets| buckets.of_task.contains_key(&task))
    }

    /// The score of one task of a bucket on a node.
    fn score_per_task(&self, buckets: &JobBuckets) -> f64 {
        self.weight as f64 * 100.0 / buckets.largest as f64
    }
}

impl Plugin for TaskTopology {
    fn refusal_holds_until(&self, cluster: &Cluster, job: JobId) -> Option<Time> {
        cluster.jobs[job].annotations.is_empty().then_some(Time::NEVER)
    }

    fn task_order(&self, cluster: &Cluster, a: TaskId, b: TaskId) -> Ordering {
        if cluster.tasks[a].job != cluster.tasks[b].job {
            return Ordering::Equal;
        }
        let Some(buckets) = cluster.tasks[a].job.and_then(|job| self.buckets.get(&job)) else {
            return Ordering::Equal;
        };
        let key = |task: TaskId| {
            let at = buckets.of_task.get(&task).copied();
            let waiting = at.map_or(0, |at| buckets.buckets[at].waiting);
            let rank = at.map(|_| buckets.rules.rank(cluster.tasks[task].role));
            (at.is_none(), Reverse(waiting), at, Reverse(rank))
        };
        key(a).cmp(&key(b))
    }

    fn warnings(&self) -> Option<&dyn Warnings> {
        Some(self)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        (self.weight != 0 && !self.buckets.is_empty()).then_some(self as &dyn TaskRules)
    }

    fn extra_scores(&self) -> Option<&dyn ExtraNodeScores> {
        (self.weight != 0 && !self.buckets.is_empty()).then_some(self as &dyn ExtraNodeScores)
    }
}

impl Warnings for TaskTopology {
    /// A role without pods is no fault while the gang lacks pods.
    fn job_warning(&self, cluster: &Cluster, job: JobId) -> Option<Arc<str>> {
        let job = &cluster.jobs[job];
        let fault = TopologyRules::of(job).err()?;
        let lacks_pods = job.counts.valid() < job.min_member;
        let warns = !(lacks_pods && matches!(fault, AnnotationFault::Unknown { .. }));
        warns.then(|| fault.text().into())
    }
}

impl TaskRules for TaskTopology {
    /// A hash of the requests of the bucket's waiting tasks, on which the score depends.
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        let Some(buckets) = self.buckets(cluster, task) else { return 0 };
        let others = buckets.others(cluster, task);
        if others.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.weight, buckets.largest).hash(&mut hasher);
        for other in others {
            cluster.request_of(other).hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let Some(buckets) = self.buckets(cluster, task) else { return };
        let others = buckets.others(cluster, task);
        if !others.is_empty() {
            let requests = others.into_iter().map(|other| cluster.request_of(other).clone()).collect();
            let request = cluster.request_of(task).clone();
            rules.resource_scorers.push(Box::new(BucketFitScorer {
                request,
                requests,
                score_per_task: self.score_per_task(buckets),
            }));
        }
    }
}

impl ExtraNodeScores for TaskTopology {
    fn extra_node_scores(&self, cluster: &Cluster, task: TaskId) -> Vec<(NodeId, f64)> {
        let Some(buckets) = self.buckets(cluster, task) else { return Vec::new() };
        let score_per_task = self.score_per_task(buckets);
        buckets
            .on_nodes(cluster, task)
            .into_iter()
            .map(|(node, count)| (node, count as f64 * score_per_task))
            .collect()
    }
}

/// Scores a node by how many waiting tasks of the bucket fit on it besides the task; the last tasks are left out first.
struct BucketFitScorer {
    request: Amounts,
    /// Of the other waiting tasks.
    requests: Vec<Amounts>,
    score_per_task: f64,
}

impl ResourceScorer for BucketFitScorer {
    fn score(&self, node: &Node) -> f64 {
        let mut future_idle = node.idle.clone();
        future_idle.add(&node.releasing);
        let mut all = self.request.clone();
        self.requests.iter().for_each(|request| all.add(request));
        let mut fitting = self.requests.len();
        while fitting > 0 && !all.fits(&future_idle) {
            fitting -= 1;
            all.sub(&self.requests[fitting]);
        }
        fitting as f64 * self.score_per_task
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{PodGroupInfo, PodInfo};
    use phalanx_framework::testing::{cluster_of, group, job_of, member, node, opened, running, task_of};

    fn of_role(role: &str, index: u32) -> PodInfo {
        PodInfo { role: role.into(), ..member("g", index, "cpu=1") }
    }

    fn annotated(annotations: &[(&str, &str)]) -> PodGroupInfo {
        let pairs = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        PodGroupInfo { annotations: pairs.collect(), ..group("g", 1) }
    }

    /// The pods in each bucket of a gang of two ps, four workers and a chief; the first ps runs on a node.
    fn buckets(annotations: &[(&str, &str)]) -> Option<Vec<Vec<String>>> {
        let roles = ["ps", "ps", "worker", "worker", "worker", "worker", "chief"];
        let mut cluster = cluster_of([node("a", "cpu=8"), node("b", "cpu=8")]);
        cluster.apply(annotated(annotations).into());
        for (index, role) in (0..).zip(roles) {
            let pod = of_role(role, index);
            let pod = if index == 0 { running(pod, "a") } else { pod };
            cluster.apply(pod.into());
        }
        let buckets = JobBuckets::of(&cluster, job_of(&cluster, "g"))?;
        let name = |task: &TaskId| cluster.tasks[*task].pod.name.to_string();
        Some(buckets.buckets.iter().map(|bucket| bucket.tasks.iter().map(name).collect()).collect())
    }

    /// Whether a gang of 70 roles may name so many of them in lists of this size.
    fn fault(named: usize, of_list: usize) -> Option<String> {
        let names: Vec<String> = (0..named).map(|at| format!("r{at}")).collect();
        let lists: Vec<String> = names.chunks(of_list).map(|list| list.join(",")).collect();
        let mut cluster = cluster_of([node("a", "cpu=8")]);
        cluster.apply(annotated(&[(TASK_TOPOLOGY_AFFINITY, &lists.join(";"))]).into());
        for at in 0..70 {
            cluster.apply(of_role(&format!("r{at}"), at).into());
        }
        TopologyRules::of(&cluster.jobs[job_of(&cluster, "g")]).err().map(AnnotationFault::text)
    }

    #[test]
    fn an_annotation_with_more_than_64_roles_is_void() {
        let expected = "annotation volcano.sh/task-topology-affinity names 65 roles, expected at most 64: plugin task-topology \
             ignores all its annotations";
        assert_eq!((fault(64, 64), fault(64, 2)), (None, None));
        assert_eq!((fault(65, 65).as_deref(), fault(65, 2).as_deref()), (Some(expected), Some(expected)));
    }

    #[test]
    fn annotations_assign_pods_to_buckets() {
        type Annotated = &'static [(&'static str, &'static str)];
        let cases: [(Annotated, Option<Vec<Vec<&str>>>); 7] = [
            (&[], None),
            (&[(TASK_TOPOLOGY_AFFINITY, "ps,missing")], None),
            (&[(TASK_TOPOLOGY_AFFINITY, "ps,ps")], None),
            (
                &[(TASK_TOPOLOGY_ANTI_AFFINITY, "worker")],
                Some(vec![vec!["g-2"], vec!["g-3"], vec!["g-4"], vec!["g-5"]]),
            ),
            (&[(TASK_TOPOLOGY_AFFINITY, "chief;ps")], Some(vec![vec!["g-0", "g-1", "g-6"]])),
            (
                &[(TASK_TOPOLOGY_ANTI_AFFINITY, "ps"), (TASK_TOPOLOGY_AFFINITY, "ps,worker")],
                Some(vec![vec!["g-0", "g-2", "g-3", "g-5"], vec!["g-1", "g-4"]]),
            ),
            (&[(TASK_TOPOLOGY_TASK_ORDER, "ps,worker")], None),
        ];
        for (annotations, expected) in cases {
            let found = buckets(annotations);
            let expected: Option<Vec<Vec<String>>> = expected.map(|list| {
                list.into_iter().map(|bucket| bucket.into_iter().map(str::to_owned).collect()).collect()
            });
            assert_eq!(found, expected, "{annotations:?}");
        }
    }

    #[test]
    fn tasks_are_ordered_by_bucket_then_task_order() {
        let mut cluster = cluster_of([node("a", "cpu=8")]);
        cluster.apply(
            annotated(&[(TASK_TOPOLOGY_AFFINITY, "ps,worker"), (TASK_TOPOLOGY_TASK_ORDER, "worker,ps")])
                .into(),
        );
        for (index, role) in (0..).zip(["free", "ps", "worker"]) {
            cluster.apply(of_role(role, index).into());
        }
        let plugin = opened(TaskTopology::open, &cluster, phalanx_cluster::event::Time(0), &[]);
        let mut tasks: Vec<TaskId> =
            ["g-0", "g-1", "g-2"].iter().map(|name| task_of(&cluster, name)).collect();
        tasks.sort_by(|a, b| plugin.task_order(&cluster, *a, *b));
        let names: Vec<&str> = tasks.iter().map(|task| &*cluster.tasks[*task].pod.name).collect();
        assert_eq!(names, ["g-2", "g-1", "g-0"]);
    }

    #[test]
    fn nodes_score_bucket_tasks_that_run_there_or_would_fit() {
        let mut cluster = cluster_of([node("a", "cpu=8"), node("b", "cpu=2")]);
        cluster.apply(
            annotated(&[(TASK_TOPOLOGY_AFFINITY, "ps,worker"), (TASK_TOPOLOGY_ANTI_AFFINITY, "worker")])
                .into(),
        );
        for (index, role) in (0..).zip(["ps", "worker", "worker"]) {
            let pod = of_role(role, index);
            cluster.apply(if index == 1 { running(pod, "a") } else { pod }.into());
        }
        let plugin =
            opened(TaskTopology::open, &cluster, phalanx_cluster::event::Time(0), &[(WEIGHT, 2.into())]);
        let points = |pod: &str| plugin.extra_node_scores(&cluster, task_of(&cluster, pod));
        let a = cluster.node_named("a").unwrap();
        assert_eq!(points("g-0"), [(a, 100.0)], "the worker on a is in the bucket of the ps, of two tasks");
        assert_eq!(points("g-2"), [(a, -100.0)], "anti-affinity to the worker on a");
        let fit = |cpu: &str| {
            let request = cluster.request_of(task_of(&cluster, "g-0")).clone();
            let requests = vec![request.clone(); 3];
            let info = cluster_of([node("n", cpu)]);
            BucketFitScorer { request, requests, score_per_task: 1.0 }
                .score(&info.nodes[info.node_named("n").unwrap()])
        };
        assert_eq!(["cpu=1", "cpu=2", "cpu=4", "cpu=9"].map(fit), [0.0, 1.0, 3.0, 3.0]);
    }
}

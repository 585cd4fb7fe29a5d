//! Rebuilds every index and sum of the Cluster and compares: the guard against drift.
use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use std::collections::BTreeSet;

use super::{Cluster, Counts, Hold, Job, Node, Part, Refused, Status, Sums, Task};
use crate::count::Count;
use crate::event::QueueGate;
use crate::id::{Id, JobId, NodeId, QueueId, Slots, TaskId};

/// Takes what a check compared: whether it is right, and what it is.
pub(crate) type Note<'a> = dyn FnMut(bool, String) + 'a;

/// Counts what a task takes of a node, out before a move and in after it.
type OnNode = fn(&mut Cluster, TaskId, NodeId, Hold, Count);
/// Counts a task from one status to another, after the move.
type OnStatus = fn(&mut Cluster, TaskId, Option<Status>, Option<Status>);

/// One index, and how it follows a move of a task.
pub(crate) struct Index<M> {
    name: &'static str,
    pub(crate) on_move: M,
    /// Rebuilds the index from the objects and compares.
    check: fn(&Cluster, &mut Note<'_>),
}

impl<M> Index<M> {
    const fn new(name: &'static str, on_move: M, check: fn(&Cluster, &mut Note<'_>)) -> Self {
        Self { name, on_move, check }
    }
}

/// Indexes of what tasks take of nodes. The lists are apart so that the compiler can call what a move asks for
/// directly.
pub(crate) const OF_NODES: [Index<OnNode>; 5] = [
    Index::new("terms", Cluster::count_terms, Cluster::check_terms),
    Index::new("node resources", Cluster::count_request, Cluster::check_node_resources),
    Index::new("devices", Cluster::count_device_claims, Cluster::check_devices),
    Index::new("volumes", Cluster::count_volumes, Cluster::check_volumes),
    Index::new("HyperNodes", Cluster::count_in_hyper_nodes, Cluster::check_hyper_nodes),
];

/// Indexes of tasks by status.
pub(crate) const OF_STATUSES: [Index<OnStatus>; 4] = [
    Index::new("jobs", Cluster::count_in_job, Cluster::check_jobs),
    Index::new("queue sums", Cluster::count_in_queue, Cluster::check_queues),
    Index::new("devices of queues", Cluster::count_in_device_use, Cluster::check_device_use),
    Index::new("node groups", Cluster::count_in_group, Cluster::check_groups),
];

/// Indexes that do not depend on where tasks are, or that the mover keeps itself.
const OTHERS: [Index<()>; 18] = [
    Index::new("host ports and disks", (), Cluster::check_ports_and_disks),
    Index::new("tasks by node", (), Cluster::check_tasks_by_node),
    Index::new("tasks by job", (), Cluster::check_tasks_by_job),
    Index::new("queue tree", (), Cluster::check_tree),
    Index::new("cluster sums", (), Cluster::check_totals),
    Index::new("names", (), Cluster::check_names),
    Index::new("classes", (), Cluster::check_classes),
    Index::new("images", (), Cluster::check_images),
    Index::new("queue gates", (), Cluster::check_queue_gates),
    Index::new("kept places", (), Cluster::check_placeholders),
    Index::new("marks", (), Cluster::check_marks),
    Index::new("running jobs", (), Cluster::check_running_jobs),
    Index::new("priorities", (), Cluster::check_priorities),
    Index::new("pod disruption budgets", (), |cluster, note| cluster.pdbs.check(note)),
    Index::new("inqueue requests", (), Cluster::check_inqueue),
    Index::new("usage figures", (), Cluster::check_usage),
    Index::new("refused evictions", (), Cluster::check_refused),
    Index::new("cooldowns", (), Cluster::check_cooling),
];

impl Cluster {
    /// What is wrong with the indexes, one line each; empty when all is well. Costs a pass over all objects for each
    /// index.
    pub fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let checks = OF_NODES.iter().map(|index| (index.name, index.check));
        let checks = checks.chain(OF_STATUSES.iter().map(|index| (index.name, index.check)));
        for (name, check) in checks.chain(OTHERS.iter().map(|index| (index.name, index.check))) {
            check(self, &mut |right, what| {
                if !right {
                    problems.push(format!("{name}: {what}"));
                }
            });
        }
        problems
    }

    fn check_node_resources(&self, note: &mut Note<'_>) {
        for (id, node) in self.nodes.iter() {
            let mut rebuilt = Node { idle: node.allocatable.clone(), ..Node::default() };
            for task in &node.tasks {
                let class = self.class_of(*task);
                rebuilt.count_request(class, self.tasks[*task].status.hold(), Count::In);
            }
            let of = |node: &Node| {
                (node.idle.clone(), node.releasing.clone(), node.pipelined.clone(), node.nonzero_used)
            };
            note(of(&rebuilt) == of(node), format!("resources of node {}", node.name));
            let newcomers = |usage: &super::Usage| usage.newcomers == self.rebuilt_newcomers(id);
            note(node.usage.as_ref().is_none_or(newcomers), format!("newcomers of node {}", node.name));
        }
    }

    /// Host ports and disks.
    fn check_ports_and_disks(&self, note: &mut Note<'_>) {
        for (_, node) in self.nodes.iter() {
            let mut rebuilt = Node::default();
            for task in &node.tasks {
                let (hold, class) = (self.tasks[*task].status.hold(), self.class_of(*task));
                rebuilt.count_ports_and_disks(&class.constraints, hold, Count::In);
            }
            note(rebuilt.ports == node.ports, format!("host ports of node {}", node.name));
            note(rebuilt.disks == node.disks, format!("disks of node {}", node.name));
        }
    }

    fn check_tasks_by_node(&self, note: &mut Note<'_>) {
        for (id, node) in self.nodes.iter() {
            let placed = |(slot, task): (usize, &TaskId)| {
                let task = &self.tasks[*task];
                task.node == Some(id) && task.node_slot as usize == slot
            };
            note(node.tasks.iter().enumerate().all(placed), format!("tasks of node {}", node.name));
            note(node.exists || !node.tasks.is_empty(), format!("node {} is kept for nothing", node.name));
        }
        for (id, task) in self.tasks.iter() {
            let listed = |node: NodeId| self.nodes[node].tasks.get(task.node_slot as usize) == Some(&id);
            note(task.node.is_none_or(listed), format!("node of task {}", task.pod));
        }
    }

    fn check_tasks_by_job(&self, note: &mut Note<'_>) {
        for (id, job) in self.jobs.iter() {
            let listed = |(slot, task): (usize, &TaskId)| {
                let task = &self.tasks[*task];
                task.job == Some(id) && task.job_slot as usize == slot
            };
            note(job.tasks.iter().enumerate().all(listed), format!("tasks of job {}", job.key));
        }
        for (id, task) in self.tasks.iter() {
            let member = |job: JobId| self.jobs[job].tasks.get(task.job_slot as usize) == Some(&id);
            note(task.job.is_none_or(member), format!("job of task {}", task.pod));
        }
    }

    /// Counts and sums of jobs, and counts of their roles.
    fn check_jobs(&self, note: &mut Note<'_>) {
        for (_, job) in self.jobs.iter() {
            let mut counts = Counts::default();
            let mut of_roles = vec![Counts::default(); job.roles.len()];
            let mut sums = Sums::default();
            for id in &job.tasks {
                let task = &self.tasks[*id];
                counts.moved(None, Some(task.status));
                of_roles[usize::from(task.role)].moved(None, Some(task.status));
                if let Some(part) = Part::of(task.status) {
                    sums.part(part).add(self.request_of(*id));
                }
            }
            note(counts == job.counts, format!("counts of job {}", job.key));
            let of_job = job.roles.iter().map(|role| role.counts);
            note(of_job.eq(of_roles), format!("counts of the roles of job {}", job.key));
            note(sums == job.sums, format!("sums of job {}", job.key));
        }
    }

    fn check_queues(&self, note: &mut Note<'_>) {
        for (id, queue) in self.queues.iter() {
            let mut own = Sums::default();
            let of_queue = |job: &&Job| job.queue == id;
            let jobs: Vec<&Job> = self.jobs.iter().map(|(_, job)| job).filter(of_queue).collect();
            for job in &jobs {
                own.each(&job.sums, Amounts::add);
            }
            for task in
                self.placeholders.iter().copied().filter(|task| self.tasks[*task].placeholder_in == Some(id))
            {
                if let Some(part) = Part::of(self.tasks[task].status) {
                    own.part(part).add(self.request_of(task));
                }
            }
            note(own == queue.own, format!("sums of queue {}", queue.name));
            note(jobs.len() == queue.jobs as usize, format!("number of jobs of queue {}", queue.name));
        }
    }

    fn check_tree(&self, note: &mut Note<'_>) {
        for (id, queue) in self.queues.iter() {
            let below = |other: &QueueId| self.queue_path(*other).any(|above| above == id);
            let mut sums = Sums::default();
            for other in self.queues.ids().filter(below) {
                sums.each(&self.queues[other].own, Amounts::add);
            }
            note(sums == queue.subtree, format!("sums of queue {} and those below", queue.name));
            let children = self.queues.iter().filter(|(_, child)| child.tree.parent_id == Some(id)).count();
            note(children == queue.tree.children as usize, format!("children of queue {}", queue.name));
            let named = if queue.object.exists && !queue.is_root() {
                self.queue_named(&queue.tree.parent)
            } else {
                None
            };
            note(named == queue.tree.parent_id, format!("parent of queue {}", queue.name));
            note(queue.tree.up.is_none_or(|up| Some(up) == named), format!("queue above {}", queue.name));
            let kept = queue.object.exists || queue.jobs > 0 || queue.tree.children > 0;
            note(kept, format!("queue {} is kept for nothing", queue.name));
        }
    }

    fn check_totals(&self, note: &mut Note<'_>) {
        let (mut total, mut used) = (Amounts::new(), Amounts::new());
        for (_, node) in self.nodes.iter().filter(|(_, node)| node.exists) {
            total.add(&node.allocatable);
            used.add(&node.allocatable);
            used.sub(&node.idle);
        }
        note(total == self.sums.allocatable && used == self.sums.used, "resources of all nodes".to_owned());
        let existing = self.nodes.iter().filter(|(_, node)| node.exists).count();
        note(existing == self.indexes.existing as usize, "number of nodes".to_owned());
    }

    fn check_names(&self, note: &mut Note<'_>) {
        let nodes = by_key(&self.nodes, |node| Some(node.name.clone()));
        note(nodes == self.ids.nodes, "nodes by name".to_owned());
        let tasks = by_key(&self.tasks, |task| task.is_pod().then(|| task.pod.uid.clone()));
        note(tasks == self.ids.tasks, "tasks by UID".to_owned());
        let jobs = by_key(&self.jobs, |job| Some((job.kind, job.key.clone())));
        note(jobs == self.ids.jobs, "jobs by name".to_owned());
        let queues = by_key(&self.queues, |queue| Some(queue.name.clone()));
        note(queues == self.ids.queues, "queues by name".to_owned());
        let classes = by_key(&self.classes, |class| Some(class.key()));
        note(classes == self.ids.classes, "classes by key".to_owned());
    }

    fn check_classes(&self, note: &mut Note<'_>) {
        let mut refs = vec![0; self.classes.bound()];
        for (_, task) in self.tasks.iter() {
            refs[task.class.index()] += 1;
        }
        note(
            self.classes.iter().all(|(id, class)| refs[id.index()] == class.refs),
            "tasks by class".to_owned(),
        );
    }

    fn check_images(&self, note: &mut Note<'_>) {
        for (id, nodes, asked) in self.images.iter() {
            let on = self.nodes.iter().filter(|(_, node)| node.image_size(id).is_some()).count();
            let classes = self.classes.iter().flat_map(|(_, class)| class.images.iter());
            let named = classes.filter(|image| **image == id).count();
            note((on, named) == (nodes as usize, asked as usize), format!("image {id:?}"));
            note(nodes + asked > 0, format!("image {id:?} is kept for nothing"));
        }
    }

    fn check_usage(&self, note: &mut Note<'_>) {
        let measured = |(id, node): (NodeId, &Node)| Some((node.usage.as_ref()?.time()?, id));
        let rebuilt: BTreeSet<_> = self.nodes.iter().filter_map(measured).collect();
        note(rebuilt == self.indexes.measured, "nodes by the time of their usage".to_owned());
    }

    fn check_refused(&self, note: &mut Note<'_>) {
        let is_refused = |(_, task): &(TaskId, &Task)| task.is_pod() && task.refused != Refused::No;
        let refused = self.tasks.iter().filter(is_refused).map(|(id, _)| id).collect();
        note(self.indexes.refused == refused, "tasks whose eviction was refused".to_owned());
    }

    fn check_queue_gates(&self, note: &mut Note<'_>) {
        let gated = |id: &TaskId| self.tasks[*id].written.queue_gate != QueueGate::None;
        let tasks = self.tasks.ids().filter(gated);
        note(
            self.indexes.queue_gates.iter().copied().eq(tasks),
            "tasks with a gate of their queue".to_owned(),
        );
    }

    fn check_placeholders(&self, note: &mut Note<'_>) {
        let kept = self.tasks.iter().filter(|(_, task)| !task.is_pod()).map(|(id, _)| id);
        let mut placeholders = self.placeholders.clone();
        placeholders.sort_unstable();
        note(kept.eq(placeholders), "tasks that keep the place of a moved pod".to_owned());
    }
}

/// The ids of all values with a key, by key.
fn by_key<I: Id, T, K: std::hash::Hash + Eq>(
    values: &Slots<I, T>,
    key: impl Fn(&T) -> Option<K>,
) -> FxHashMap<K, I> {
    values.iter().filter_map(|(id, value)| Some((key(value)?, id))).collect()
}

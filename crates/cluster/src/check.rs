//! Rebuilds every sum from the tasks and compares: the guard against drift.
use phalanx_resource::Amounts;

use super::{Cluster, Counts, Hold, Part, Sums};
use crate::id::{Id, NodeId, QueueId};

impl Cluster {
    /// What is wrong with the sums, one line each; empty when all is well. Costs a pass over all objects.
    pub fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |right: bool, what: String| {
            if !right {
                problems.push(what);
            }
        };
        for (id, node) in self.nodes.iter() {
            let rebuilt = self.rebuilt_room(id);
            note(
                rebuilt == (node.idle.clone(), node.releasing.clone(), node.pipelined.clone()),
                format!("room of node {}", node.name),
            );
            let newcomers = |usage: &super::Usage| usage.newcomers == self.rebuilt_newcomers(id);
            note(node.usage.as_ref().is_none_or(newcomers), format!("newcomers of node {}", node.name));
            let placed = |(slot, task): (usize, &crate::id::TaskId)| {
                let task = &self.tasks[*task];
                task.node == Some(id) && task.node_slot as usize == slot
            };
            note(node.tasks.iter().enumerate().all(placed), format!("tasks of node {}", node.name));
            note(node.exists || !node.tasks.is_empty(), format!("node {} is kept for nothing", node.name));
        }
        let kept = self.tasks.iter().filter(|(_, task)| !task.is_pod()).map(|(id, _)| id);
        let mut seats: Vec<_> = self.seats().collect();
        seats.sort_unstable();
        note(kept.eq(seats), "places that are kept".to_owned());
        for (id, task) in self.tasks.iter() {
            let listed = |node: NodeId| self.nodes[node].tasks.get(task.node_slot as usize) == Some(&id);
            note(task.node.is_none_or(listed), format!("node of task {}", task.pod));
            let member = |job| self.jobs[job].tasks.get(task.job_slot as usize) == Some(&id);
            note(task.job.is_none_or(member), format!("job of task {}", task.pod));
        }
        for (_, job) in self.jobs.iter() {
            let mut counts = Counts::default();
            let mut sums = Sums::default();
            for task in &job.tasks {
                let status = self.tasks[*task].status;
                counts.moved(None, Some(status));
                if let Some(part) = Part::of(status) {
                    sums.part(part).add(self.request_of(*task));
                }
            }
            note(counts == job.counts, format!("counts of job {}", job.key));
            note(sums == job.sums(), format!("sums of job {}", job.key));
        }
        let asks = |id: &crate::id::TaskId| self.tasks[*id].queue_gate != crate::event::QueueGate::None;
        note(self.queue_gates.iter().copied().eq(self.tasks.ids().filter(asks)), "gates of queues".into());
        self.check_marks(&mut note);
        self.check_givers(&mut note);
        self.check_priorities(&mut note);
        self.pdbs.check(&mut note);
        self.check_queues(&mut note);
        self.check_inqueue(&mut note);
        self.check_devices(&mut note);
        self.check_cluster(&mut note);
        self.check_volumes(&mut note);
        self.check_terms(&mut note);
        self.check_cooling(&mut note);
        self.check_groups(&mut note);
        problems
    }

    fn check_queues(&self, note: &mut impl FnMut(bool, String)) {
        for (id, queue) in self.queues.iter() {
            let mut own = Sums::default();
            let mut jobs = 0;
            for (_, job) in self.jobs.iter().filter(|(_, job)| job.queue == id) {
                jobs += 1;
                own.each(&job.sums(), Amounts::add);
            }
            for task in self.seats().filter(|task| self.tasks[*task].seat_in == Some(id)) {
                if let Some(part) = Part::of(self.tasks[task].status) {
                    own.part(part).add(self.request_of(task));
                }
            }
            note(own == queue.own && jobs == queue.jobs, format!("sums of queue {}", queue.name));
        }
        self.check_tree(note);
    }

    fn check_tree(&self, note: &mut impl FnMut(bool, String)) {
        for (id, queue) in self.queues.iter() {
            let below = |other: &QueueId| self.queue_path(*other).any(|above| above == id);
            let mut sums = Sums::default();
            for other in self.queues.ids().filter(below) {
                sums.each(&self.queues[other].own, Amounts::add);
            }
            note(sums == queue.subtree, format!("sums of queue {} and those below", queue.name));
            let children = self.queues.iter().filter(|(_, child)| child.parent_id == Some(id)).count();
            note(children == queue.children as usize, format!("children of queue {}", queue.name));
            let named = if queue.exists && !queue.is_root() { self.queue_named(&queue.parent) } else { None };
            note(named == queue.parent_id, format!("parent of queue {}", queue.name));
            note(queue.up.is_none_or(|up| Some(up) == named), format!("queue above {}", queue.name));
            let kept = queue.exists || queue.jobs > 0 || queue.children > 0;
            note(kept, format!("queue {} is kept for nothing", queue.name));
        }
    }

    fn check_cluster(&self, note: &mut impl FnMut(bool, String)) {
        let (mut total, mut used) = (Amounts::new(), Amounts::new());
        for (_, node) in self.nodes.iter().filter(|(_, node)| node.exists) {
            total.add(&node.allocatable);
            used.add(&node.allocatable);
            used.sub(&node.idle);
        }
        note(total == self.total && used == self.used, "sums of the cluster".to_owned());
        let mut refs = vec![0; self.classes.bound()];
        for (_, task) in self.tasks.iter() {
            refs[task.class.index()] += 1;
        }
        note(self.classes.iter().all(|(id, class)| refs[id.index()] == class.refs), "classes".to_owned());
        let existing = self.nodes.iter().filter(|(_, node)| node.exists).count();
        note(existing == self.existing as usize, "count of nodes".to_owned());
        for (id, nodes, asked) in self.images.iter() {
            let on = self.nodes.iter().filter(|(_, node)| node.image_size(id).is_some()).count();
            let classes = self.classes.iter().flat_map(|(_, class)| class.images.iter());
            let named = classes.filter(|image| **image == id).count();
            note((on, named) == (nodes as usize, asked as usize), format!("image {id:?}"));
            note(nodes + asked > 0, format!("image {id:?} is kept for nothing"));
        }
    }

    fn rebuilt_room(&self, id: NodeId) -> (Amounts, Amounts, Amounts) {
        let node = &self.nodes[id];
        let (mut idle, mut releasing, mut pipelined) =
            (node.allocatable.clone(), Amounts::new(), Amounts::new());
        for task in &node.tasks {
            let request = self.request_of(*task);
            match self.tasks[*task].status.hold() {
                Hold::Nothing => {}
                Hold::Used => idle.sub(request),
                Hold::Pipelined => pipelined.add(request),
                Hold::Releasing => {
                    idle.sub(request);
                    releasing.add(request);
                }
            }
        }
        (idle, releasing, pipelined)
    }
}

//! What terms read of tasks and nodes.
use std::sync::Arc;

use crate::event::Constraints;
use crate::id::{NodeId, ProfileId, TaskId};
use crate::label::Labels;
use crate::{Cluster, Task};

impl Cluster {
    /// Takes note of the terms of a class that is to come. When they read more than others did before, tasks that
    /// looked alike may not any more.
    pub(super) fn learn_terms(&mut self, constraints: &Constraints) {
        let Some(rules) = &constraints.pod_rules else { return };
        let Some(learned) = self.terms.learn(rules) else { return };
        let concerned = |(id, task): (TaskId, &Task)| learned.concerns(&task.labels).then_some(id);
        for id in self.tasks.iter().filter_map(concerned).collect::<Vec<_>>() {
            self.look_anew(id);
        }
    }

    fn look_anew(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        let class = &self.classes[task.class];
        let (request, constraints) = (class.request.clone(), class.constraints.clone());
        let (pod, labels) = (task.pod.clone(), task.labels.clone());
        let profile = self.profile_of(&pod.namespace, &labels);
        let class = self.class_of_key((request, constraints, profile));
        if self.tasks[id].class == class {
            return;
        }
        self.in_passing(|cluster| cluster.change_class(id, class));
    }

    pub(super) fn profile_of(&mut self, namespace: &Arc<str>, labels: &Labels) -> Option<ProfileId> {
        let look = self.terms.look(namespace, labels)?;
        Some(self.terms.profile(look))
    }

    /// Before a node's attributes change, its tasks count nowhere.
    pub(super) fn leave_domains(&mut self, id: NodeId) {
        self.count_tasks(id, -1);
    }

    /// When they have changed, its tasks count where it is now.
    pub(super) fn join_domains(&mut self, id: NodeId) {
        self.terms.move_node(id, &self.nodes[id]);
        self.count_tasks(id, 1);
    }

    fn count_tasks(&mut self, id: NodeId, sign: i32) {
        let Self { terms, tasks, classes, nodes, .. } = self;
        for task in &nodes[id].tasks {
            let task = &tasks[*task];
            terms.shift(&classes[task.class], id, task.status.hold(), sign);
        }
    }
}

//! Updates of affinity terms when classes, tasks and nodes change.
use std::sync::Arc;

use crate::class::ClassKey;
use crate::event::Constraints;
use crate::id::{NodeId, ProfileId, TaskId};
use crate::label::Labels;
use crate::terms::Learned;
use crate::{Cluster, Task};

impl Cluster {
    /// Takes in the terms of a new class. When they read labels that no term read before, tasks of one class may differ
    /// by these, and are put into new classes; and back once no term reads the labels any more.
    pub(super) fn learn_terms(&mut self, constraints: &Constraints) {
        let forgotten = self.terms.forget_unread(self.tasks.len());
        let learned = constraints.pod_rules.as_ref().and_then(|rules| self.terms.learn(rules));
        for changed in [forgotten, learned].into_iter().flatten() {
            self.reclassify_with(&changed);
        }
    }

    fn reclassify_with(&mut self, learned: &Learned) {
        let concerned = |(id, task): (TaskId, &Task)| learned.concerns(&task.details.labels).then_some(id);
        for id in self.tasks.iter().filter_map(concerned).collect::<Vec<_>>() {
            self.reclassify(id);
        }
    }

    fn reclassify(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        let class = &self.classes[task.class];
        let key = class.key();
        let (pod, labels) = (task.pod.clone(), task.details.labels.clone());
        let profile = self.profile_of(&pod.namespace, &labels);
        let class = self.class_of_key(ClassKey { profile, ..key });
        if self.tasks[id].class == class {
            return;
        }
        self.in_passing(|cluster| cluster.change_class(id, class));
    }

    pub(super) fn profile_of(&mut self, namespace: &Arc<str>, labels: &Labels) -> Option<ProfileId> {
        let look = self.terms.look(namespace, labels)?;
        Some(self.terms.profile(look))
    }

    /// Takes the tasks of a node out of their domains, before attributes of the node change.
    pub(super) fn leave_domains(&mut self, id: NodeId) {
        self.count_tasks(id, -1);
    }

    /// Counts the tasks of a node in its domains, after attributes of the node changed.
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

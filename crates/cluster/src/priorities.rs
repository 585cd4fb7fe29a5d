//! PriorityClasses, and the pods and PodGroups that name each: a change of a class concerns only these, unless it is
//! the default.
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Cluster, JobKind};
use crate::diagnosis::{Priority, Source};
use crate::id::{JobId, TaskId};
use crate::multi_map::MultiMap;

/// An object with the priority of a class: a pod without a number of its own, or a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Follower {
    Task(TaskId),
    Job(JobId),
}

/// All PriorityClasses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Priorities {
    /// Value, and `globalDefault`.
    classes: FxHashMap<Arc<str>, (i32, bool)>,
    /// The largest value of a default class.
    default: Option<i32>,
    /// Objects by the class that they name, whether it exists or not.
    followers: MultiMap<Arc<str>, Follower>,
}

impl Priorities {
    fn set(&mut self, name: Arc<str>, class: Option<(i32, bool)>) {
        match class {
            Some(class) => self.classes.insert(name, class),
            None => self.classes.remove(&name),
        };
        self.default = self.classes.values().filter(|(_, default)| *default).map(|(value, _)| *value).max();
    }

    /// All classes, with their values and whether they are a default, by name.
    pub(super) fn classes(&self) -> impl Iterator<Item = (&Arc<str>, &(i32, bool))> {
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_unstable();
        classes.into_iter()
    }

    pub(super) fn value(&self, name: &str) -> Option<i32> {
        // Kubernetes has these two built in.
        match name {
            "system-node-critical" => Some(2_000_001_000),
            "system-cluster-critical" => Some(2_000_000_000),
            _ => self.classes.get(name).map(|(value, _)| *value),
        }
    }
}

impl Cluster {
    /// The number a pod carries, or its class's value, or the global default's, or 0.
    pub(super) fn priority(&self, own: Option<i32>, class: Option<&str>) -> i32 {
        let of_class = || class.and_then(|name| self.indexes.priorities.value(name));
        own.or_else(of_class).or(self.indexes.priorities.default).unwrap_or(0)
    }

    /// A job's, and where it comes from.
    pub fn priority_of(&self, id: JobId) -> Priority {
        let job = &self.jobs[id];
        let first = job.tasks.first().map(|task| &self.tasks[*task]);
        let group = job.kind == JobKind::Group;
        let class =
            if group { job.priority_class.as_ref() } else { first.and_then(|it| it.priority_class.as_ref()) };
        let source = match class {
            Some(name) if self.indexes.priorities.value(name) == Some(job.priority) => {
                Source::Class(name.clone())
            }
            _ if !group && first.is_some_and(|task| task.own_priority) => Source::Pod,
            Some(name) => Source::NoSuchClass(name.clone()),
            None => Source::Nothing { group },
        };
        let pods_have_more = group && first.is_some_and(|task| task.priority > job.priority);
        Priority { value: job.priority, source, pods_have_more }
    }

    /// A PriorityClass was added, changed or removed. True when that gave anybody another priority.
    pub(super) fn set_priority_class(&mut self, name: &Arc<str>, class: Option<(i32, bool)>) -> bool {
        let known = &self.indexes.priorities;
        let before = (known.default, known.value(name));
        self.indexes.priorities.set(name.clone(), class);
        let known = &self.indexes.priorities;
        let concerned: Vec<Follower> = if known.default != before.0 {
            let jobs = self.jobs.ids().map(Follower::Job);
            self.tasks.ids().map(Follower::Task).chain(jobs).collect()
        } else if known.value(name) == before.1 {
            Vec::new()
        } else {
            known.followers.get(name).copied().collect()
        };
        concerned.into_iter().filter(|who| self.renew_priority(*who)).count() > 0
    }

    fn renew_priority(&mut self, who: Follower) -> bool {
        match who {
            Follower::Task(id) => {
                let task = &self.tasks[id];
                if task.own_priority {
                    return false;
                }
                let (job, priority) = (task.job, self.priority(None, task.priority_class.as_deref()));
                let changed = std::mem::replace(&mut self.tasks[id].priority, priority) != priority;
                if let Some(job) = job.filter(|_| changed) {
                    self.job_changed(job);
                    self.follow_priorities_of_pods(job);
                }
                changed
            }
            Follower::Job(id) => self.renew_job_priority(id),
        }
    }

    /// What the priority of a job is: of the class that its PodGroup names, else, without a PodGroup and while it is not
    /// known, the highest of its pods. So no pod is evicted for one of lower priority because its PodGroup is seen late.
    fn job_priority(&self, id: JobId) -> i32 {
        let job = &self.jobs[id];
        if job.has_pod_group() {
            return self.priority(None, job.priority_class.as_deref());
        }
        job.tasks.iter().map(|task| self.tasks[*task].priority).max().unwrap_or(0)
    }

    /// Gives a job without a PodGroup the priority of its pods, which have changed.
    pub(super) fn follow_priorities_of_pods(&mut self, id: JobId) {
        let job = &self.jobs[id];
        if !job.has_pod_group() && !job.tasks.is_empty() {
            self.renew_job_priority(id);
        }
    }

    /// Gives a job its priority. True when it had another one.
    fn renew_job_priority(&mut self, id: JobId) -> bool {
        let priority = self.job_priority(id);
        let changed = std::mem::replace(&mut self.jobs[id].priority, priority) != priority;
        if changed {
            self.job_changed(id);
            self.note_running(id);
            self.log_reserved_nodes(id);
        }
        changed
    }

    /// Adds an object to the followers of the class that it names, or removes it.
    pub(super) fn follow_class(&mut self, who: Follower, follows: bool) {
        let Some(name) = self.followed(who).cloned() else { return };
        let all = &mut self.indexes.priorities.followers;
        if follows { all.insert(name, who) } else { all.remove(&name, &who) }
    }

    fn followed(&self, who: Follower) -> Option<&Arc<str>> {
        match who {
            Follower::Task(id) => {
                let task = &self.tasks[id];
                task.priority_class.as_ref().filter(|_| !task.own_priority)
            }
            // A pod without a gang follows by itself.
            Follower::Job(id) => {
                let job = &self.jobs[id];
                job.priority_class.as_ref().filter(|_| job.kind == JobKind::Group)
            }
        }
    }

    /// Compares followers and priorities with the objects.
    pub(super) fn check_priorities(&self, note: &mut crate::check::Note<'_>) {
        let mut rebuilt = MultiMap::default();
        let all = self.tasks.ids().map(Follower::Task).chain(self.jobs.ids().map(Follower::Job));
        for who in all {
            if let Some(name) = self.followed(who) {
                rebuilt.insert(name.clone(), who);
            }
        }
        note(rebuilt == self.indexes.priorities.followers, "who names which PriorityClass".to_owned());
        for (_, task) in self.tasks.iter().filter(|(_, task)| !task.own_priority) {
            let right = self.priority(None, task.priority_class.as_deref()) == task.priority;
            note(right, format!("priority of task {}", task.pod));
        }
        for (id, job) in self.jobs.iter() {
            note(self.job_priority(id) == job.priority, format!("priority of job {}", job.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Cluster;
    use crate::event::{Event, Key, PodGroupInfo, PodInfo};
    use crate::testing::{cluster_of, group, job_of, member};

    fn class(name: &str, value: i32, global_default: bool) -> Event {
        Event::PriorityClass { name: name.into(), value, global_default }
    }

    fn gone(name: &str) -> Event {
        Event::PriorityClassGone(name.into())
    }

    /// Priorities of the gangs `named` and `plain`, and of the one pod of `named`.
    fn priorities(cluster: &Cluster) -> [i32; 3] {
        let named = &cluster.jobs[job_of(cluster, "named")];
        let plain = &cluster.jobs[job_of(cluster, "plain")];
        [named.priority, plain.priority, cluster.tasks[named.tasks[0]].priority]
    }

    #[test]
    fn a_priority_class_sets_pods_that_name_it_and_a_default_sets_the_others() {
        let named = PodGroupInfo { priority_class: Some("high".into()), ..group("named", 1) };
        let pod = PodInfo { priority_class: Some("high".into()), ..member("named", 0, "cpu=1") };
        let plain = PodInfo { priority: Some(3), ..member("plain", 0, "cpu=1") };
        let events: [Event; 4] = [named.clone().into(), group("plain", 1).into(), pod.into(), plain.into()];
        let mut cluster = cluster_of(events);
        assert_eq!(priorities(&cluster), [0, 0, 0]);
        let steps = [
            (class("other", 5, false), [0, 0, 0], false),
            (class("high", 9, false), [9, 0, 9], true),
            (class("high", 9, false), [9, 0, 9], false),
            (class("usual", 2, true), [9, 2, 9], true),
            (gone("high"), [2, 2, 2], true),
            (class("usual", 4, true), [4, 4, 4], true),
            (class("high", 7, false), [7, 4, 7], true),
            (gone("usual"), [7, 0, 7], true),
        ];
        for (event, expected, changes) in steps {
            assert_eq!(cluster.apply(event.clone()), changes, "{event:?}");
            assert_eq!(priorities(&cluster), expected, "{event:?}");
            assert_eq!(cluster.check(), [""; 0], "{event:?}");
        }
        cluster.apply(PodGroupInfo { priority_class: None, ..named }.into());
        cluster.apply(class("high", 8, false));
        assert_eq!(priorities(&cluster), [0, 0, 8], "the gang names none any more");
        cluster.apply(Event::PodGroupGone(Key { namespace: "ns".into(), name: "named".into() }));
        for (event, expected) in [
            (class("high", 9, false), 9),
            (class("high", 6, false), 6),
            (PodInfo { priority: Some(7), ..member("named", 1, "cpu=1") }.into(), 7),
            (Event::PodGone("named-1".into()), 6),
        ] {
            cluster.apply(event);
            assert_eq!(priorities(&cluster)[0], expected, "without its PodGroup, the highest of its pods");
            assert_eq!(cluster.check(), [""; 0]);
        }
        cluster.apply(Event::PodGone("named-0".into()));
        assert_eq!(cluster.check(), [""; 0]);
    }
}

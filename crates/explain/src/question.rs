//! What is asked about: a pod, a PodGroup, or an object that owns such.
use std::collections::BTreeSet;
use std::fmt;

use phalanx_api::names::KUBERNETES_POD_GROUP_PREFIX;
use phalanx_cluster::event::{Key, PodInfo};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, JobKind, Task};

use crate::facts::Evicted;
use crate::owners;

/// Evictions that are shown.
const EVICTIONS_SHOWN: usize = 10;

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A PodGroup.
    PodGroup,
    /// A pod.
    Pod,
    /// An object of this kind that owns PodGroups or pods.
    Owner(String),
}

impl Subject {
    /// The kind of this name, in the forms that kubectl takes: singular or plural, short, with its group behind it.
    pub fn named(kind: &str) -> Self {
        match owners::kind_of(kind).as_str() {
            "PodGroup" => Self::PodGroup,
            "Pod" => Self::Pod,
            other => Self::Owner(other.to_owned()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodGroup => "PodGroup",
            Self::Pod => "Pod",
            Self::Owner(kind) => kind,
        })
    }
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The kind of the object.
    pub subject: Subject,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Question {
    /// The namespaces that have an object of this kind and name.
    pub fn namespaces(&self, cluster: &Cluster) -> BTreeSet<String> {
        let groups = self.groups(cluster).map(|job| &cluster.jobs[job].key.namespace);
        let pods = self.pods(cluster).map(|task| &cluster.tasks[task].pod.namespace);
        groups.chain(pods).map(ToString::to_string).collect()
    }

    /// What else has this name in the namespace: a PodGroup, a pod, or a Job, the PodGroup of which has another name.
    pub fn other_kind(&self, cluster: &Cluster) -> Option<Subject> {
        let others = [Subject::PodGroup, Subject::Pod, Subject::named("job")];
        let others = others.into_iter().filter(|other| *other != self.subject);
        let mut others = others.map(|subject| Self { subject, ..self.clone() });
        let found = others.find(|other| other.namespaces(cluster).contains(&self.namespace));
        found.map(|other| other.subject)
    }

    /// The pods that are meant, of all namespaces.
    fn pods<'c>(&self, cluster: &'c Cluster) -> impl Iterator<Item = TaskId> + use<'c, '_> {
        let is = |task: &Task| match &self.subject {
            Subject::PodGroup => false,
            Subject::Pod => *task.pod.name == *self.name,
            Subject::Owner(kind) => {
                let own = owners::of(task.details.controller.as_deref(), &task.details.labels);
                own.into_iter().any(|(of, name)| owners::is_kind(&of, kind) && name == self.name)
            }
        };
        let pods = cluster.tasks.iter().filter(move |(_, task)| task.is_pod() && is(task));
        pods.map(|(id, _)| id)
    }

    /// The PodGroups that are meant, of all namespaces, without regard to their pods.
    fn groups<'c>(&self, cluster: &'c Cluster) -> impl Iterator<Item = JobId> + use<'c, '_> {
        let is = |key: &Key, job: JobId| match &self.subject {
            Subject::Pod => false,
            Subject::PodGroup => {
                let kubernetes = key.name.strip_prefix(KUBERNETES_POD_GROUP_PREFIX);
                *key.name == *self.name || kubernetes == Some(&self.name)
            }
            Subject::Owner(kind) => {
                let of = cluster.jobs[job].object.controller.as_deref();
                of.is_some_and(|of| owners::is_kind(&of.kind, kind) && *of.name == *self.name)
            }
        };
        let groups = cluster.jobs.iter().filter(|(_, job)| job.kind == JobKind::Group && job.object.exists);
        groups.filter(move |(id, job)| is(&job.key, *id)).map(|(id, _)| id)
    }

    /// The pod that is meant, or the pods of the owner.
    pub(crate) fn own_pods(&self, cluster: &Cluster) -> Vec<TaskId> {
        let here = |task: &TaskId| *cluster.tasks[*task].pod.namespace == *self.namespace;
        let mut pods: Vec<TaskId> = self.pods(cluster).filter(here).collect();
        pods.sort_by_key(|task| &cluster.tasks[*task].pod);
        pods
    }

    /// The PodGroups that are meant or that the pods which are meant are in, and pods of theirs without one, by name.
    pub(crate) fn own_jobs(&self, cluster: &Cluster, pods: &[TaskId]) -> Vec<JobId> {
        let here = |job: &JobId| *cluster.jobs[*job].key.namespace == *self.namespace;
        let of_pods = pods.iter().filter_map(|task| cluster.tasks[*task].job);
        let jobs: BTreeSet<JobId> = self.groups(cluster).filter(here).chain(of_pods).collect();
        let mut jobs: Vec<JobId> = jobs.into_iter().collect();
        jobs.sort_by_key(|id| (&cluster.jobs[*id].key, cluster.jobs[*id].kind));
        jobs
    }

    /// The last evictions of the object's pods, the newest first.
    pub(crate) fn evictions(
        &self,
        cluster: &Cluster,
        pods: &[TaskId],
        jobs: &[JobId],
        all: &[Evicted],
    ) -> Vec<Evicted> {
        let groups = match self.subject {
            Subject::Pod => &[],
            _ => jobs,
        };
        let groups: Vec<String> = groups.iter().map(|job| cluster.jobs[*job].key.to_string()).collect();
        let mut names: Vec<String> = pods.iter().map(|task| cluster.tasks[*task].pod.to_string()).collect();
        names.extend((self.subject == Subject::Pod).then(|| format!("{}/{}", self.namespace, self.name)));
        let is = |evicted: &&Evicted| {
            names.contains(&evicted.pod)
                || evicted.pod_group.as_ref().is_some_and(|group| groups.contains(group))
        };
        all.iter().rev().filter(is).take(EVICTIONS_SHOWN).cloned().collect()
    }

    /// Whether a pod that the scheduler does not know is meant, or one of its owners, whatever the namespace.
    pub fn means(&self, pod: &PodInfo) -> bool {
        match &self.subject {
            Subject::PodGroup => false,
            Subject::Pod => *pod.pod.name == *self.name,
            Subject::Owner(kind) => {
                let own = owners::of(pod.controller.as_deref(), &pod.labels);
                own.into_iter().any(|(of, name)| owners::is_kind(&of, kind) && name == self.name)
            }
        }
    }
}

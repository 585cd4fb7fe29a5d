//! Changes of objects that would let a waiting job run. Each is tried on a copy of the cluster, and told only if it helps.
//!
//! `remedy` looks for room; this module looks for what else may be in the way: objects that are missing or closed, members
//! that are missing, limits of queues and quotas, the state and labels of nodes, and who may be evicted. Rules of the job
//! itself are left out one by one only where nothing else helps.
mod eviction;
mod limits;
mod members;
mod missing;
mod nodes;
mod objects;
mod rules;

use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Constraints, Event, Key, PodGroupInfo, PodInfo, QueueInfo};
use phalanx_core::report::{GroupReport, Report as CoreReport};
use phalanx_framework::conf::Conf;

use crate::api_server::ApiServer;
pub(crate) use objects::Objects;

/// Objects of one kind that are tried at most.
const TRIALS_MAX: usize = 24;

/// A change, and what it does.
pub(crate) struct Fix {
    /// The change, in words that follow "It would run".
    text: String,
    events: Vec<Event>,
}

impl Fix {
    fn new(text: impl Into<String>, events: Vec<Event>) -> Self {
        Self { text: text.into(), events }
    }
}

/// Whether a pod of the job is placed once these things have happened, with this configuration or the one in force.
pub(crate) type Helps<'a> = dyn Fn(Option<&Conf>, Vec<Event>) -> bool + 'a;

/// A waiting job, and the objects around it.
pub(crate) struct Waiting<'a> {
    pub(crate) job: &'a GroupReport,
    pub(crate) core: &'a CoreReport,
    pub(crate) cluster: &'a Cluster,
    pub(crate) api_server: &'a ApiServer,
    pub(crate) objects: &'a Objects,
    pub(crate) conf: &'a Conf,
    pub(crate) helps: &'a Helps<'a>,
}

impl<'a> Waiting<'a> {
    /// Changes that help.
    pub(crate) fn fixes(&self) -> Vec<String> {
        let sources = [
            Self::missing_objects,
            Self::missing_members,
            Self::limits,
            Self::states_of_nodes,
            Self::evictions,
        ];
        sources.iter().flat_map(|source| source(self)).collect()
    }

    /// Rules of the job itself without which it would run.
    pub(crate) fn relaxations(&self) -> Vec<String> {
        self.rules()
    }

    /// The texts of the changes that help.
    fn helping(&self, fixes: impl IntoIterator<Item = Fix>) -> Vec<String> {
        fixes.into_iter().take(TRIALS_MAX).filter_map(|fix| self.tried(fix)).collect()
    }

    /// The text of the first change that helps.
    fn first_helping(&self, fixes: impl IntoIterator<Item = Fix>) -> Option<String> {
        fixes.into_iter().take(TRIALS_MAX).find_map(|fix| self.tried(fix))
    }

    fn tried(&self, Fix { text, events }: Fix) -> Option<String> {
        (!events.is_empty() && (self.helps)(None, events)).then_some(text)
    }

    /// The smallest number up to a limit with which a change helps.
    fn fewest(&self, most: usize, change: impl Fn(usize) -> Vec<Event>) -> Option<usize> {
        if most == 0 || !(self.helps)(None, change(most)) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if (self.helps)(None, change(middle)) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// The PodGroup of the job.
    fn group(&self) -> Option<&'a PodGroupInfo> {
        self.api_server.group(&self.job.key).filter(|_| !self.job.solo)
    }

    /// All pods of the job.
    fn pods(&self) -> Vec<&'a PodInfo> {
        let key = &self.job.key;
        let own = |pod: &&PodInfo| {
            pod.pod.namespace == key.namespace
                && if self.job.solo {
                    pod.group.is_none() && pod.pod.name == key.name
                } else {
                    pod.group.as_ref() == Some(&key.name)
                }
        };
        self.api_server.pods().filter(own).collect()
    }

    /// The pods of the job without a node.
    fn waiting_pods(&self) -> Vec<&'a PodInfo> {
        self.pods().into_iter().filter(|pod| pod.life.node.is_none()).collect()
    }

    /// The waiting pods with a change.
    fn with_pods(&self, change: impl Fn(&mut PodInfo)) -> Vec<Event> {
        let changed = |pod: &PodInfo| {
            let mut pod = pod.clone();
            change(&mut pod);
            Event::from(pod)
        };
        self.waiting_pods().into_iter().map(changed).collect()
    }

    /// The waiting pods with changed constraints.
    fn with_constraints(&self, change: impl Fn(&mut Constraints)) -> Vec<Event> {
        self.with_pods(|pod| {
            let mut constraints = Constraints::clone(&pod.constraints);
            change(&mut constraints);
            pod.constraints = Arc::new(constraints);
        })
    }

    /// A PodGroup with a change.
    fn with_group(&self, change: impl Fn(&mut PodGroupInfo)) -> Vec<Event> {
        let changed = |group: &PodGroupInfo| {
            let mut group = group.clone();
            change(&mut group);
            Event::from(group)
        };
        self.group().into_iter().map(changed).collect()
    }

    fn queue(&self, name: &str) -> Option<&'a QueueInfo> {
        self.api_server.queues().find(|queue| *queue.name == *name)
    }

    /// The queue of the job and those above it, as far as they exist.
    fn queue_path(&self) -> Vec<&'a QueueInfo> {
        let mut path: Vec<&QueueInfo> = self.queue(&self.job.queue).into_iter().collect();
        while let Some(parent) = path.last().and_then(|last| self.queue(&last.parent)) {
            if path.iter().any(|known| known.name == parent.name) {
                break;
            }
            path.push(parent);
        }
        path
    }
}

/// `node n1`, or `3 nodes, such as n1,`.
fn such_as(one: &str, count: usize, first: &str) -> String {
    if count == 1 { format!("{one} {first}") } else { format!("{count} {one}s, such as {first},") }
}

/// An event on each, of a list that begins with those that are the best to try.
fn key_of(namespace: &Arc<str>, name: &Arc<str>) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}

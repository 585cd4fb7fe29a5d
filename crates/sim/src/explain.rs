//! Why a job waits or a pod is where it is, by the snapshot of a simulation.
use std::collections::BTreeSet;

use jiff::Timestamp;
use phalanx_cluster::event::{Event, Key, PodInfo};
use phalanx_explain::{Evicted, Explanation, Patience, Question, Subject, of_other_scheduler};

use crate::simulation::Simulation;

/// The PodGroup of a pod.
fn group_of(event: &Event) -> Option<Key> {
    let Event::Pod(pod) = event else { return None };
    Some(Key::new(&pod.pod.namespace, pod.group.as_ref()?))
}

impl Simulation {
    /// What is told of an object; `None` if it does not exist.
    pub fn explain(&mut self, question: &Question) -> Option<Explanation> {
        self.deliver();
        let mut snapshot = self.scheduler().snapshot(self.cluster());
        let to_make = self.pods_once_admitted();
        for event in &to_make {
            snapshot.cluster.apply(event.clone());
        }
        let known = question.answer(&snapshot, &self.evictions(), &Patience::default());
        let known = known.map(|mut known| {
            known.tell_to_make(to_make.iter().filter_map(group_of));
            known
        });
        known.or_else(|| {
            let here = |pod: &&PodInfo| *pod.pod.namespace == *question.namespace && question.means(pod);
            let pod = self.api_server().pods().filter(here).min_by(|a, b| a.pod.uid.cmp(&b.pod.uid))?;
            Some(of_other_scheduler(&snapshot, pod.clone(), self.scheduler_name()))
        })
    }

    /// The evictions of the last cycles. No kubelet has acted, so the pods are still there.
    fn evictions(&self) -> Vec<Evicted> {
        let at = Timestamp::from_millisecond(self.now().0).unwrap_or(Timestamp::MAX);
        let evicted = self.api_server().evictions.iter().map(|(name, cause)| {
            let pod = self.api_server().pods().find(|pod| pod.pod.to_string() == *name);
            let group = pod.and_then(|pod| Some(format!("{}/{}", pod.pod.namespace, pod.group.as_ref()?)));
            Evicted {
                at,
                pod: name.clone(),
                pod_group: group,
                action: cause.action.to_owned(),
                by: cause.by.as_ref().map(ToString::to_string),
                reason: cause.reason.to_string(),
            }
        });
        evicted.collect()
    }

    /// What else has this name in the namespace.
    pub fn other_kind(&self, question: &Question) -> Option<Subject> {
        question.other_kind(self.cluster())
    }

    /// The namespaces that have an object of this kind and name.
    pub fn namespaces_of(&self, question: &Question) -> BTreeSet<String> {
        let pods = self.api_server().pods().filter(|pod| !pod.ours && question.means(pod));
        let foreign = pods.map(|pod| pod.pod.namespace.to_string());
        question.namespaces(self.cluster()).into_iter().chain(foreign).collect()
    }
}

//! Gangs of which no pod is bound yet. A bind of theirs that is given up takes the others with it, as long as none may
//! have been carried out: the gang is planned anew as a whole, instead of starting without that pod.
use std::sync::Arc;

use phalanx_cluster::event::{BindFailure, BindFault, Event, Key};
use phalanx_core::decision::Binding;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Outbox;
use super::reply::Reply;

/// Pods whose binds were decided together.
#[derive(Debug, Default)]
struct Gang {
    pods: Vec<Arc<str>>,
    in_flight: usize,
}

/// The gangs by name, and the gang of each pod.
#[derive(Debug, Default)]
pub(super) struct Unstarted {
    gangs: FxHashMap<Key, Gang>,
    gang_of: FxHashMap<Arc<str>, Key>,
}

impl Unstarted {
    /// Binds of a gang were decided.
    pub(super) fn decided(&mut self, gang: Key, pods: &[Binding]) {
        if pods.len() < 2 {
            return;
        }
        let uids = || pods.iter().map(|binding| Arc::clone(&binding.pod.uid));
        self.gang_of.extend(uids().map(|uid| (uid, gang.clone())));
        self.gangs.entry(gang).or_default().pods.extend(uids());
    }

    /// A request that binds a pod, or reads whether it is bound, is on its way.
    pub(super) fn sent(&mut self, pod: &str) {
        if let Some(gang) = self.gang_mut(pod) {
            gang.in_flight += 1;
        }
    }

    /// The request was answered.
    pub(super) fn answered(&mut self, pod: &str, reply: &Reply) {
        if let Some(gang) = self.gang_mut(pod) {
            gang.in_flight = gang.in_flight.saturating_sub(1);
        }
        if *reply == Reply::Done || reply.is_unknown() {
            self.take(pod);
        }
    }

    fn gang_mut(&mut self, pod: &str) -> Option<&mut Gang> {
        self.gangs.get_mut(self.gang_of.get(pod)?)
    }

    /// The pods of a gang with this one, unless one of them may be bound.
    fn given_up(&mut self, pod: &str) -> Vec<Arc<str>> {
        match self.gang_mut(pod) {
            Some(Gang { in_flight: 0, .. }) => self.take(pod),
            _ => Vec::new(),
        }
    }

    fn take(&mut self, pod: &str) -> Vec<Arc<str>> {
        let gang = self.gang_of.get(pod).and_then(|name| self.gangs.remove(name)).unwrap_or_default();
        for uid in &gang.pods {
            self.gang_of.remove(uid);
        }
        gang.pods
    }
}

impl Outbox {
    /// The other pods of the gangs of these, whose binds have ended without a node: they are not bound either, where no
    /// pod of the gang may have been.
    pub(super) fn give_up_others<'p>(&mut self, ended: impl Iterator<Item = &'p str>) -> Vec<Event> {
        let others: Vec<Arc<str>> = ended.flat_map(|uid| self.unstarted.given_up(uid)).collect();
        let others: Vec<Arc<str>> = others.into_iter().filter(|uid| self.writes.is_binding(uid)).collect();
        if !others.is_empty() {
            let set: FxHashSet<&Arc<str>> = others.iter().collect();
            let is_other = |binding: &Binding| set.contains(&binding.pod.uid);
            self.retain(|job| !job.work.binding().is_some_and(is_other));
            self.volumes.withdraw(is_other);
        }
        let message: Arc<str> = "another pod of its gang was not bound".into();
        let failure = || BindFailure { message: Arc::clone(&message), fault: BindFault::Place };
        for uid in &others {
            self.writes.bind_ended(uid, false);
        }
        others.into_iter().map(|uid| Event::BindFailed(uid, failure())).collect()
    }
}

//! Pods that wait until their claims are bound. There may be as many as the cluster has pods, and the thread that asks
//! for the next one also renews the lease: so no function goes over all of them, except on the deletion of a node.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::Key;
use phalanx_core::decision::Binding;
use rustc_hash::FxHashMap;

#[derive(Debug)]
struct Waiting {
    binding: Binding,
    until: Instant,
}

/// The waiting pods by number: the pod that began to wait first has the lowest number and the first deadline.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pods: BTreeMap<u64, Waiting>,
    of_claim: FxHashMap<Key, BTreeSet<u64>>,
    of_pod: FxHashMap<Arc<str>, u64>,
    last: u64,
}

impl Waits {
    /// A pod waits. Each waits as long as all others.
    pub(super) fn add(&mut self, binding: Binding, until: Instant) {
        self.pod_gone(&binding.pod.uid);
        self.last += 1;
        for (_, claim) in binding.volumes() {
            self.of_claim.entry(claim.claim.clone()).or_default().insert(self.last);
        }
        self.of_pod.insert(Arc::clone(&binding.pod.uid), self.last);
        self.pods.insert(self.last, Waiting { binding, until });
    }

    /// Takes those with this claim of which `which` is true, in their order.
    pub(super) fn take_of_claim(&mut self, claim: &Key, which: impl Fn(&Binding) -> bool) -> Vec<Binding> {
        let of_claim = self.of_claim.get(claim).into_iter().flatten().copied();
        let taken: Vec<u64> = of_claim.filter(|number| which(&self.pods[number].binding)).collect();
        taken.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// Takes the pods for which `which` is true, in their order. Goes over all pods.
    pub(super) fn take(&mut self, which: impl Fn(&Binding) -> bool) -> Vec<Binding> {
        let all = self.pods.iter().filter(|(_, waiting)| which(&waiting.binding));
        let taken: Vec<u64> = all.map(|(number, _)| *number).collect();
        taken.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        if let Some(number) = self.of_pod.get(uid) {
            self.remove(*number);
        }
    }

    /// Takes those whose time is over.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Binding> {
        let late = self.pods.iter().take_while(|(_, waiting)| waiting.until <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// When the time of the first is over.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.pods.first_key_value().map(|(_, waiting)| waiting.until)
    }

    fn remove(&mut self, number: u64) -> Option<Binding> {
        let Waiting { binding, .. } = self.pods.remove(&number)?;
        self.of_pod.remove(&binding.pod.uid);
        for (_, claim) in binding.volumes() {
            if let Some(numbers) = self.of_claim.get_mut(&claim.claim) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.of_claim.remove(&claim.claim);
                }
            }
        }
        Some(binding)
    }
}

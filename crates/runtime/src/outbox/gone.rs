//! Objects that are gone while something was to be written about them.
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::{BindFailure, BindFault, Event};
use rustc_hash::FxHashSet;

use super::{Job, Outbox, Target, failed_pods};

impl Outbox {
    /// Objects that are gone: nothing is written about them, no such pod is bound, and none to such a node.
    pub fn gone(&mut self, events: &[Event], now: Instant) -> Vec<Event> {
        let mut unclaimed = Vec::new();
        let (mut nodes, mut pods) = (FxHashSet::default(), FxHashSet::default());
        for event in events {
            match event {
                Event::NodeGone(name) => {
                    nodes.insert(&**name);
                }
                Event::PodGone(uid) => {
                    if self.writes.is_binding(uid) {
                        pods.insert(&**uid);
                    }
                    self.pod_gone(uid);
                }
                Event::PvcGone { claim, uid } => unclaimed.append(&mut self.volumes.claim_gone(claim, uid)),
                Event::VolumeGone { name, uid } => self.volumes.volume_gone(name, uid),
                Event::PodGroupGone(key) => {
                    self.lacking.forget(key);
                    self.writes.forget(&Target::PodGroup(key.clone()));
                }
                Event::QueueGone { name, uid } => self.writes.queue_gone(name, uid),
                _ => {}
            }
        }
        let mut failed = Vec::new();
        if !pods.is_empty() {
            self.retain(|job| job.work.binding().is_none_or(|binding| !pods.contains(&*binding.pod.uid)));
            failed = self.give_up_others(pods.into_iter());
        }
        failed.extend(self.fail(
            unclaimed,
            "a PersistentVolumeClaim of it was deleted",
            BindFault::Place,
            now,
        ));
        if !nodes.is_empty() {
            let waiting = self.volumes.withdraw(|binding| nodes.contains(&*binding.node));
            failed.extend(self.fail(
                waiting,
                "its node was deleted before the pod was bound",
                BindFault::Place,
                now,
            ));
            failed.extend(self.withdraw(&nodes));
        }
        failed
    }

    fn pod_gone(&mut self, uid: &Arc<str>) {
        self.denied.remove(uid);
        self.anew.remove(uid);
        self.volumes.pod_gone(uid);
        self.recorder.settled(uid);
        self.writes.forget(&Target::Pod(Arc::clone(uid)));
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Job) -> bool) {
        self.binds.retain(&mut keep);
        self.held.retain(|_, job| keep(job));
        self.retries.retain(keep);
    }

    fn withdraw(&mut self, nodes: &FxHashSet<&str>) -> Vec<Event> {
        let mut failed = Vec::new();
        self.retain(|job| match job.work.binding() {
            Some(binding) if nodes.contains(&*binding.node) => {
                let message = format!("node {} was deleted before the pod was bound", binding.node).into();
                failed.push(Event::BindFailed(
                    Arc::clone(&binding.pod.uid),
                    BindFailure { message, fault: BindFault::Place },
                ));
                false
            }
            _ => true,
        });
        for event in &failed {
            if let Event::BindFailed(uid, _) = event {
                self.writes.bind_ended(uid, false);
            }
        }
        let others = self.give_up_others(failed_pods(&failed));
        failed.extend(others);
        failed
    }
}

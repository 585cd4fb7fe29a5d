//! Volumes that have to be bound before their pod is: what to write, and the pods that wait for it.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{BindFault, Event, Key};
use phalanx_core::decision::{Binding, VolumeBinding};
use rustc_hash::{FxHashMap, FxHashSet};

use super::reply::Reply;
use super::{Job, Outbox, Then, Work};

/// What stands on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PvcSeen {
    /// Its UID.
    pub uid: Arc<str>,
    /// It has its volume.
    pub bound: bool,
    /// A node was selected for it.
    pub selected: bool,
}

/// A claim of a pod that is to be bound.
#[derive(Clone, Debug, PartialEq)]
pub struct PvcWrite {
    /// The pod and its node.
    pub binding: Binding,
    /// Which step before its bind.
    pub at: usize,
    /// The claim.
    pub claim: Arc<VolumeBinding>,
    /// The version of the volume that is given to the claim: nobody else may have taken it since.
    pub version: Option<Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    binding: Binding,
    until: Instant,
}

/// What is known of claims and volumes, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    seen: FxHashMap<Key, PvcSeen>,
    versions: FxHashMap<Arc<str>, Arc<str>>,
    waiting: Vec<Waiting>,
}

impl Volumes {
    /// The write for a claim of a pod; `None` behind the last.
    pub(super) fn write(&self, binding: Binding, from: usize) -> Result<PvcWrite, Binding> {
        let next = binding.volumes().find(|(at, claim)| *at >= from && !self.is_bound(claim));
        let Some((at, claim)) = next.map(|(at, claim)| (at, Arc::clone(claim))) else { return Err(binding) };
        let version = claim.volume.as_ref().and_then(|volume| self.versions.get(volume)).cloned();
        Ok(PvcWrite { binding, at, claim, version })
    }

    fn is_bound(&self, claim: &VolumeBinding) -> bool {
        self.seen.get(&claim.claim).is_some_and(|seen| seen.bound && seen.uid == claim.uid)
    }

    fn are_bound(&self, binding: &Binding) -> bool {
        binding.volumes().all(|(_, claim)| self.is_bound(claim))
    }

    /// A pod whose claims have been written; given back when nothing is left to wait for.
    pub(super) fn wait(&mut self, binding: Binding, until: Instant) -> Option<Binding> {
        if self.are_bound(&binding) {
            return Some(binding);
        }
        self.waiting.push(Waiting { binding, until });
        None
    }

    /// A claim was seen: pods that can be bound now, and those whose volume will not be made after all.
    pub(super) fn seen(&mut self, key: &Key, seen: PvcSeen) -> (Vec<Binding>, Vec<Binding>) {
        let concerns = |binding: &Binding| binding.volumes().any(|(_, claim)| claim.claim == *key);
        let (uid, bound, open) = (Arc::clone(&seen.uid), seen.bound, !seen.bound && !seen.selected);
        let before = self.seen.insert(key.clone(), seen);
        let given_up = open && before.is_some_and(|it| it.uid == uid && it.selected);
        if given_up {
            return (Vec::new(), self.take(concerns));
        }
        if !bound {
            return (Vec::new(), Vec::new());
        }
        let (ready, waiting): (Vec<Waiting>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|it: &Waiting| concerns(&it.binding) && self.are_bound(&it.binding));
        self.waiting = waiting;
        (ready.into_iter().map(|it| it.binding).collect(), Vec::new())
    }

    pub(super) fn volume_seen(&mut self, volume: Arc<str>, version: Arc<str>) {
        self.versions.insert(volume, version);
    }

    pub(super) fn claim_gone(&mut self, key: &Key) -> Vec<Binding> {
        self.seen.remove(key);
        self.take(|binding| binding.volumes().any(|(_, claim)| claim.claim == *key))
    }

    pub(super) fn volume_gone(&mut self, volume: &str) {
        self.versions.remove(volume);
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        self.waiting.retain(|waiting| *waiting.binding.pod.uid != *uid);
    }

    pub(super) fn nodes_gone(&mut self, nodes: &FxHashSet<&str>) -> Vec<Binding> {
        self.take(|binding| nodes.contains(&*binding.node))
    }

    /// Pods that waited too long.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Binding> {
        let late = |waiting: &mut Waiting| waiting.until <= now;
        self.waiting.extract_if(.., late).map(|waiting| waiting.binding).collect()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    fn take(&mut self, which: impl Fn(&Binding) -> bool) -> Vec<Binding> {
        let taken = self.waiting.extract_if(.., |waiting| which(&waiting.binding));
        taken.map(|waiting| waiting.binding).collect()
    }
}

/// Why a pod that waited for its claims goes back.
fn why_late(timeout: Duration) -> String {
    format!("its PersistentVolumeClaims were not bound within {} s", timeout.as_secs())
}

impl Outbox {
    /// Writes a pod's claims one after the other, waits until they are bound, and binds the pod.
    pub(super) fn bind_volumes(&mut self, binding: Binding, from: usize, now: Instant) {
        match self.volumes.write(binding, from) {
            Ok(write) => self.queue(Work::Pvc(write), now),
            Err(binding) => {
                if let Some(binding) = self.volumes.wait(binding, now + self.options.volumes_timeout) {
                    self.queue(Work::Bind(binding), now);
                }
            }
        }
    }

    /// What stands on a claim now.
    pub fn pvc_seen(&mut self, key: &Key, seen: PvcSeen, now: Instant) -> Vec<Event> {
        let (ready, failed) = self.volumes.seen(key, seen);
        for binding in ready {
            self.queue(Work::Bind(binding), now);
        }
        self.fail(failed, "its volume cannot be made for this node", BindFault::Place, now)
    }

    /// The version of a volume.
    pub fn volume_seen(&mut self, volume: Arc<str>, version: Arc<str>) {
        self.volumes.volume_seen(volume, version);
    }

    /// Pods whose claims were not bound in time go back.
    pub fn expire(&mut self, now: Instant) -> Vec<Event> {
        let late = self.volumes.expired(now);
        self.fail(late, &why_late(self.options.volumes_timeout), BindFault::Place, now)
    }

    /// A claim was written, or not. If its pod is gone by now, nothing comes of it.
    pub(super) fn claimed(
        &mut self,
        job: Job,
        write: &PvcWrite,
        reply: Reply,
        now: Instant,
    ) -> Option<Event> {
        if !self.writes.is_binding(&write.binding.pod.uid) {
            return None;
        }
        let (message, fault) = match reply {
            Reply::Done => {
                self.bind_volumes(write.binding.clone(), write.at + 1, now);
                return None;
            }
            // Somebody else has the volume, or the claim is another one.
            Reply::Gone(message) | Reply::Conflict(message) => (message, BindFault::Place),
            other => {
                let then = self.after(&write.binding, &other);
                let why = self.again(job, other, now)?;
                if then == Then::Bind {
                    self.settle(&write.binding, why, then, now);
                    return None;
                }
                (why, BindFault::Denied)
            }
        };
        self.fail(vec![write.binding.clone()], &message, fault, now).pop()
    }
}

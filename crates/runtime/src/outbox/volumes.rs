//! Volumes that have to be bound before their pod is: what to write, and the pods that wait for it.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{BindFault, Event, Key};
use phalanx_core::decision::{Binding, VolumeBinding};
use rustc_hash::FxHashMap;

use super::reply::Reply;
use super::waits::Waits;
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

/// A volume as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSeen {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its resourceVersion.
    pub version: Arc<str>,
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
    /// The version of the volume: a conflict means that another claim has taken the volume.
    pub version: Option<Arc<str>>,
}

/// Pods that need not wait for a claim any more.
#[derive(Default)]
pub(super) struct NoLongerWaiting {
    /// All claims of these are bound.
    ready: Vec<Binding>,
    /// The volumes of these will not be provisioned.
    failed: Vec<Binding>,
}

/// Claims and volumes as read, and the pods that wait for them.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    seen: FxHashMap<Key, PvcSeen>,
    volumes: FxHashMap<Arc<str>, VolumeSeen>,
    waits: Waits,
}

impl Volumes {
    /// The write for a claim of a pod; `None` behind the last.
    pub(super) fn write(&self, binding: Binding, from: usize) -> Result<PvcWrite, Binding> {
        let next = binding.volumes().find(|(at, claim)| *at >= from && !is_bound(&self.seen, claim));
        let Some((at, claim)) = next.map(|(at, claim)| (at, Arc::clone(claim))) else { return Err(binding) };
        let volume = claim.volume.as_ref().and_then(|volume| self.volumes.get(volume));
        let version = volume.map(|seen| Arc::clone(&seen.version));
        Ok(PvcWrite { binding, at, claim, version })
    }

    /// Adds a pod whose claims have been written; returns it if all are bound already.
    pub(super) fn wait(&mut self, binding: Binding, until: Instant) -> Option<Binding> {
        if are_bound(&self.seen, &binding) {
            return Some(binding);
        }
        self.waits.add(binding, until);
        None
    }

    /// A claim was read.
    pub(super) fn seen(&mut self, key: &Key, seen: PvcSeen) -> NoLongerWaiting {
        let (uid, bound, open) = (Arc::clone(&seen.uid), seen.bound, !seen.bound && !seen.selected);
        let before = self.seen.insert(key.clone(), seen);
        let given_up = open && before.is_some_and(|it| it.uid == uid && it.selected);
        if given_up {
            let failed = self.waits.take_of_claim(key, |_| true);
            return NoLongerWaiting { failed, ..NoLongerWaiting::default() };
        }
        if !bound {
            return NoLongerWaiting::default();
        }
        let seen = &self.seen;
        let ready = self.waits.take_of_claim(key, |binding| are_bound(seen, binding));
        NoLongerWaiting { ready, ..NoLongerWaiting::default() }
    }

    pub(super) fn volume_seen(&mut self, volume: Arc<str>, seen: VolumeSeen) {
        self.volumes.insert(volume, seen);
    }

    /// A new object of this name may have been read before the deletion of the old one is reported.
    pub(super) fn claim_gone(&mut self, key: &Key, uid: &str) -> Vec<Binding> {
        if self.seen.get(key).is_some_and(|seen| *seen.uid == *uid) {
            self.seen.remove(key);
        }
        let of_it =
            |binding: &Binding| binding.volumes().any(|(_, claim)| claim.claim == *key && *claim.uid == *uid);
        self.waits.take_of_claim(key, of_it)
    }

    pub(super) fn volume_gone(&mut self, volume: &str, uid: &str) {
        if self.volumes.get(volume).is_some_and(|seen| *seen.uid == *uid) {
            self.volumes.remove(volume);
        }
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        self.waits.pod_gone(uid);
    }

    /// Pods that wait no more.
    pub(super) fn withdraw(&mut self, which: impl Fn(&Binding) -> bool) -> Vec<Binding> {
        self.waits.take(which)
    }

    /// Pods that waited too long.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Binding> {
        self.waits.expired(now)
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.waits.wake()
    }
}

fn is_bound(seen: &FxHashMap<Key, PvcSeen>, claim: &VolumeBinding) -> bool {
    seen.get(&claim.claim).is_some_and(|seen| seen.bound && seen.uid == claim.uid)
}

fn are_bound(seen: &FxHashMap<Key, PvcSeen>, binding: &Binding) -> bool {
    binding.volumes().all(|(_, claim)| is_bound(seen, claim))
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

    /// A claim as read last.
    pub fn pvc_seen(&mut self, key: &Key, seen: PvcSeen, now: Instant) -> Vec<Event> {
        let NoLongerWaiting { ready, failed } = self.volumes.seen(key, seen);
        for binding in ready {
            self.queue(Work::Bind(binding), now);
        }
        self.fail(failed, "its volume cannot be made for this node", BindFault::Place, now)
    }

    /// A volume as read last.
    pub fn volume_seen(&mut self, volume: Arc<str>, seen: VolumeSeen) {
        self.volumes.volume_seen(volume, seen);
    }

    /// Pods whose claims were not bound in time go back.
    pub fn expire(&mut self, now: Instant) -> Vec<Event> {
        let late = self.volumes.expired(now);
        if late.is_empty() {
            return Vec::new();
        }
        self.fail(late, &why_late(self.options.volumes_timeout), BindFault::Place, now)
    }

    /// The outcome of the write of a claim. If its pod is gone, the outcome has no effect.
    pub(super) fn claimed(&mut self, job: Job, write: &PvcWrite, reply: Reply, now: Instant) -> Vec<Event> {
        if !self.writes.is_binding(&write.binding.pod.uid) {
            return Vec::new();
        }
        let (message, fault) = match reply {
            Reply::Done => {
                self.bind_volumes(write.binding.clone(), write.at + 1, now);
                return Vec::new();
            }
            // Another claim has the volume, or the claim is another object of this name.
            Reply::Gone(message) | Reply::Conflict(message) => (message, BindFault::Place),
            other => {
                let then = self.after(&write.binding, &other);
                let Some(why) = self.again(job, other, now) else { return Vec::new() };
                if then == Then::Bind {
                    self.settle(&write.binding, why, then, now);
                    return Vec::new();
                }
                (why, BindFault::Denied)
            }
        };
        self.fail(vec![write.binding.clone()], &message, fault, now)
    }
}

//! Pods that controllers create in place of evicted pods: a Deployment, ReplicaSet or Job at once and under a new
//! name, a StatefulSet under the same name once the old pod is gone. A Job creates its next pod when one has succeeded.
//!
//! Pods with claims from templates are not created again, because their claims would have to be created again too.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{PodPhase, PodRef, QueueGate, Time};

use crate::api_server::SimulatedPod;

/// The limit of replacements: this many times the number of pods of controllers, and at least a hundred.
const ROUNDS: u64 = 10;

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Kind, namespace and name, for messages.
    pub label: Arc<str>,
    /// Its name, with which the names of its pods begin.
    pub name: Arc<str>,
    /// Its pods keep their names (StatefulSet).
    pub keeps_names: bool,
    /// The number of pods that a Job creates as others succeed.
    pub later: u64,
}

/// The controllers.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    /// The number of pods that each controller has created.
    made: BTreeMap<Arc<str>, u64>,
    /// The sum of these.
    total: u64,
    /// The number of pods of each controller that have succeeded.
    succeeded: BTreeMap<Arc<str>, u64>,
    /// The number of replacements.
    pub(crate) again: u64,
}

impl Makers {
    /// Counts a pod of a controller.
    pub(crate) fn count(&mut self, pod: &SimulatedPod) {
        if let Some(maker) = &pod.maker {
            *self.made.entry(maker.label.clone()).or_default() += 1;
            self.total += 1;
        }
    }

    /// Whether the limit of replacements is reached.
    pub(crate) fn go_round(&self) -> bool {
        let pods = self.total - self.again;
        self.again > (ROUNDS * pods).max(100)
    }

    /// The replacement of a pod that is being evicted, or, with `gone`, of an evicted pod that is gone.
    pub(crate) fn replace(&mut self, pod: &SimulatedPod, gone: bool, now: Time) -> Option<SimulatedPod> {
        let maker = pod.maker.as_ref().filter(|maker| maker.keeps_names == gone)?;
        if matches!(pod.info.life.phase, PodPhase::Succeeded | PodPhase::Failed) {
            return None;
        }
        let new = self.copy(pod, maker, now)?;
        self.again += 1;
        Some(new)
    }

    /// The next pod of a Job when this one has succeeded. An evicted pod has been replaced already.
    pub(crate) fn follow(&mut self, pod: &SimulatedPod, now: Time) -> Option<SimulatedPod> {
        let maker = pod.maker.as_ref()?;
        let succeeded = self.succeeded.entry(maker.label.clone()).or_default();
        *succeeded += 1;
        if *succeeded > maker.later || pod.info.life.deleting {
            return None;
        }
        self.copy(pod, maker, now)
    }

    /// A new pod of the same controller.
    fn copy(&self, pod: &SimulatedPod, maker: &Maker, now: Time) -> Option<SimulatedPod> {
        let whole = pod.pvcs.is_empty() && pod.templates.is_empty() && pod.info.claims.is_none();
        let number = *self.made.get(&maker.label).filter(|_| whole)?;
        let mut new = pod.clone();
        let info = &mut new.info;
        let old = info.pod.clone();
        let mut name = old.name.clone();
        if !maker.keeps_names {
            name = format!("{}-{number}", maker.name).into();
            info.index =
                info.index.map(|index| if ends_with(&old.name, index) { number as u32 } else { index });
        }
        let uid = format!("{}/{number}", old.uid).into();
        info.pod = PodRef { uid, name, namespace: old.namespace.clone() }.into();
        (info.created, info.life.phase, info.life.deleting) = (now, PodPhase::Pending, false);
        (info.life.node, info.life.nominated, info.life.scheduled, info.life.unscheduled_message) =
            (None, None, None, None);
        if info.queue_gate == QueueGate::Open {
            (info.gated, info.queue_gate) = (true, QueueGate::Shut);
        }
        Some(new)
    }
}

fn ends_with(name: &str, index: u32) -> bool {
    name.rsplit_once('-').is_some_and(|(_, number)| number == index.to_string())
}

//! Pods that their controllers make in place of those that were evicted: a Deployment, ReplicaSet or Job at once and under a new
//! name, a StatefulSet under the same name when the old one is gone.
//!
//! Pods with claims that are made for them are not made again: their claims would have to be, too.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::event::{PodPhase, PodRef, QueueGate, Time};

use crate::cluster::SimulatedPod;

/// Pods are made again so many times as often as there are pods of controllers, and a hundred times in any case.
const ROUNDS: u64 = 10;

/// What makes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Kind, namespace and name, as they are told.
    pub label: Arc<str>,
    /// Its name: that of its pods begins with it.
    pub name: Arc<str>,
    /// Its pods keep their names (StatefulSet).
    pub keeps_names: bool,
}

/// The controllers.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    /// How many pods each has made.
    made: BTreeMap<Arc<str>, u64>,
    /// How many pods were made again.
    pub(crate) again: u64,
}

impl Makers {
    /// A pod is there that a controller made.
    pub(crate) fn count(&mut self, pod: &SimulatedPod) {
        if let Some(maker) = &pod.maker {
            *self.made.entry(maker.label.clone()).or_default() += 1;
        }
    }

    /// There is no end to it.
    pub(crate) fn go_round(&self) -> bool {
        let pods: u64 = self.made.values().sum::<u64>() - self.again;
        self.again > (ROUNDS * pods).max(100)
    }

    /// The one in place of a pod that is evicted, or, with `gone`, of one that was and is gone.
    pub(crate) fn replace(&mut self, pod: &SimulatedPod, gone: bool, now: Time) -> Option<SimulatedPod> {
        let maker = pod.maker.as_ref().filter(|maker| maker.keeps_names == gone)?;
        let whole = pod.pvcs.is_empty() && pod.templates.is_empty() && pod.info.claims.is_none();
        if !whole || matches!(pod.info.phase, PodPhase::Succeeded | PodPhase::Failed) {
            return None;
        }
        self.again += 1;
        let number = *self.made.get(&maker.label)?;
        let mut new = pod.clone();
        let info = &mut new.info;
        let old = info.pod.clone();
        if !maker.keeps_names {
            info.pod.name = format!("{}-{number}", maker.name).into();
            info.index =
                info.index.map(|index| if ends_with(&old.name, index) { number as u32 } else { index });
        }
        info.pod = PodRef { uid: format!("{}/{number}", old.uid).into(), ..info.pod.clone() };
        (info.created, info.phase, info.deleting) = (now, PodPhase::Pending, false);
        (info.node, info.nominated, info.scheduled, info.unscheduled_message) = (None, None, None, None);
        if info.queue_gate == QueueGate::Open {
            (info.gated, info.queue_gate) = (true, QueueGate::Shut);
        }
        Some(new)
    }
}

fn ends_with(name: &str, index: u32) -> bool {
    name.rsplit_once('-').is_some_and(|(_, number)| number == index.to_string())
}

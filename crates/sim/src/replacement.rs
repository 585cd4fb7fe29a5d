//! Pods that their controllers make in place of those that were evicted: a Deployment, ReplicaSet or Job at once and under a new
//! name, a StatefulSet under the same name when the old one is gone. A Job makes the next of its pods when one has succeeded.
//!
//! Pods with claims that are made for them are made once: their claims would have to be made again, too.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{PodPhase, PodRef, QueueGate, Time};

use crate::api_server::SimulatedPod;

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
    /// How many pods come one by one as others succeed (Job).
    pub later: u64,
}

/// The controllers.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    /// How many pods each has made.
    made: BTreeMap<Arc<str>, u64>,
    /// How many of its pods have succeeded.
    succeeded: BTreeMap<Arc<str>, u64>,
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
        if matches!(pod.info.life.phase, PodPhase::Succeeded | PodPhase::Failed) {
            return None;
        }
        let new = self.copy(pod, maker, now)?;
        self.again += 1;
        Some(new)
    }

    /// The one that a Job makes when this one has succeeded. In place of one that was evicted there is one already.
    pub(crate) fn follow(&mut self, pod: &SimulatedPod, now: Time) -> Option<SimulatedPod> {
        let maker = pod.maker.as_ref()?;
        let succeeded = self.succeeded.entry(maker.label.clone()).or_default();
        *succeeded += 1;
        if *succeeded > maker.later || pod.info.life.deleting {
            return None;
        }
        self.copy(pod, maker, now)
    }

    /// A new pod of the same maker.
    fn copy(&self, pod: &SimulatedPod, maker: &Maker, now: Time) -> Option<SimulatedPod> {
        let whole = pod.pvcs.is_empty() && pod.templates.is_empty() && pod.info.claims.is_none();
        let number = *self.made.get(&maker.label).filter(|_| whole)?;
        let mut new = pod.clone();
        let info = &mut new.info;
        let old = info.pod.clone();
        if !maker.keeps_names {
            info.pod.name = format!("{}-{number}", maker.name).into();
            info.index =
                info.index.map(|index| if ends_with(&old.name, index) { number as u32 } else { index });
        }
        info.pod = PodRef { uid: format!("{}/{number}", old.uid).into(), ..info.pod.clone() };
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

//! The steps of simulated kubelets: pods start, end, and are removed; volumes are detached.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PodInfo, PodPhase, Time};

use super::{ApiServer, SimulatedPod, after};
use crate::agenda::Step;
use crate::run_time::{AssumedEnd, Other};

/// The time from the end of the last pod of a volume to its detachment.
const DETACH_DELAY_MS: i64 = 1_000;

impl ApiServer {
    /// When the next step of a kubelet is due.
    pub(crate) fn next_step(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Whether a kubelet has a step to take for another pod than these, which stays.
    pub(crate) fn has_step_but_for(&self, pods: &BTreeSet<&Arc<str>>) -> bool {
        let stays = |uid| self.pods.get(uid).is_some_and(|pod| !pod.info.life.deleting);
        self.agenda.pods().any(|uid| !pods.contains(uid) && stays(uid))
    }

    /// Takes all steps of kubelets that are due.
    pub(crate) fn run_kubelets(&mut self, now: Time) {
        while let Some((at, step)) = self.agenda.due(now) {
            self.step(at, &step);
        }
    }

    fn step(&mut self, at: Time, step: &Step) {
        match step {
            Step::Start(pod) => self.start(pod, at),
            Step::Finish(pod) => self.finish(pod, at),
            Step::Detach { claim, node } => self.detach(claim, node),
            Step::Remove(pod) => self.remove(pod, at),
        }
        self.steps += 1;
    }

    fn start(&mut self, uid: &Arc<str>, at: Time) {
        let waits = |pod: &SimulatedPod| pod.info.life.phase == PodPhase::Pending && !pod.info.life.deleting;
        if let Some(run_ms) = self.pods.get(uid).filter(|pod| waits(pod)).map(|pod| pod.run_ms) {
            self.change(uid, |pod| {
                pod.info.life.phase = PodPhase::Running;
                pod.info.life.scheduled.get_or_insert(at);
            });
            self.plan_finish(uid, run_ms, at);
        }
    }

    fn finish(&mut self, uid: &Arc<str>, at: Time) {
        self.assumed_ends.extend(self.pods.get(uid).and_then(|pod| {
            let why = pod.assumed.clone()?;
            Some(AssumedEnd { at, of: Other::of(&pod.info), why })
        }));
        self.change(uid, |pod| {
            pod.info.life.phase = if pod.exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        });
        self.plan_detach(uid, at);
        self.watch_events.extend(self.claims.release(uid));
        if let Some(next) = self.pods.get(uid).and_then(|pod| self.makers.follow(pod, at)) {
            self.add_pod(next, at);
        }
    }

    /// Unless another pod on the node uses the volume.
    fn detach(&mut self, claim: &Key, node: &Arc<str>) {
        let has = |pod: &SimulatedPod| {
            let ended = matches!(pod.info.life.phase, PodPhase::Succeeded | PodPhase::Failed);
            let there = pod.info.life.node.as_ref() == Some(node) && !ended;
            there && pod.info.constraints.volumes.iter().any(|volume| volume.claim == *claim)
        };
        if !self.pods.values().any(|held| has(held)) {
            self.watch_events.extend(self.storage.detach(claim, node));
        }
    }

    fn remove(&mut self, uid: &Arc<str>, at: Time) {
        self.plan_detach(uid, at);
        let gone = self.pods.remove(uid);
        if let Some(held) = &gone {
            self.watch_events.settle(held);
        }
        self.nominated.remove(uid);
        self.watch_events.push(Event::PodGone(uid.clone()));
        self.watch_events.extend(self.claims.release(uid));
        if let Some(next) = gone.and_then(|pod| self.makers.replace(&pod, true, at)) {
            self.add_pod(next, at);
        }
    }

    /// Plans the end of a pod with a run time.
    pub(super) fn plan_finish(&mut self, pod: &Arc<str>, run_ms: Option<i64>, started: Time) {
        if let Some(run_ms) = run_ms {
            self.agenda.put(after(started, run_ms), Step::Finish(pod.clone()));
        }
    }

    /// Plans to detach the volumes of an ending pod that no other pod on the node uses.
    fn plan_detach(&mut self, uid: &Arc<str>, at: Time) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = &pod.info.life.node else { return };
        for volume in &pod.info.constraints.volumes {
            let step = Step::Detach { claim: volume.claim.clone(), node: node.clone() };
            self.agenda.put(after(at, DETACH_DELAY_MS), step);
        }
    }

    pub(super) fn has_kubelet(&self, pod: &PodInfo) -> bool {
        pod.life.node.as_ref().is_some_and(|node| self.ready.contains(node))
    }
}

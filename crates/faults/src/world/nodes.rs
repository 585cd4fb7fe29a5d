//! Kubelets, and the user who makes gangs.
use std::sync::Arc;

use phalanx_cache::slim;

use super::{BETWEEN_REPORTS, BETWEEN_SPARE, COLLECTED, FROM_KUBELETS, Happening, World};
use crate::gangs::{self, has_ended, member};
use crate::server::Server;
use crate::story::{CALM_AFTER, ENOUGH, FaultKind, Maker, Micros, SECOND};

impl World<'_> {
    pub(super) fn gang_arrives(&mut self, index: usize) {
        let (now, gang) = (self.now(), &self.story.gangs[index]);
        self.tell(|| format!("gang-{index} is created"));
        match gang.maker {
            Maker::Job(on_loss) => return gangs::job(&mut self.server, index, gang, on_loss, now),
            Maker::User => gangs::group(&mut self.server, index, gang, now),
            Maker::Owner => {}
        }
        for number in 0..gang.size {
            self.plan_in(1_000..2 * SECOND, Happening::PodArrives(index, number));
        }
    }

    /// A run in which little has happened goes on with more gangs; once faults are over with single pods, one after the
    /// other. Kubelets bring the last events.
    pub(super) fn spare(&mut self, index: usize) {
        let calm = self.now() >= CALM_AFTER;
        let index = if calm { index.max(self.story.first_single()) } else { index };
        let little_missing = calm && self.events + FROM_KUBELETS >= ENOUGH && !self.server.nodes.is_empty();
        let Some(gang) = self.story.gangs.get(index).filter(|_| !little_missing) else {
            return self.kubelets_report(index);
        };
        let waits = calm && self.server.pods.values().any(|pod| gangs::uses_node(pod));
        // What follows from the gangs that are there counts too.
        let enough = if calm { ENOUGH } else { ENOUGH / 3 };
        if !waits && gang.size > 0 && self.events < enough {
            self.gang_arrives(index);
        }
        self.plan(self.now() + BETWEEN_SPARE, Happening::Spare(if waits { index } else { index + 1 }));
    }

    /// Kubelets write the statuses of their nodes, until enough has happened.
    fn kubelets_report(&mut self, index: usize) {
        if self.events >= ENOUGH {
            return;
        }
        let there = |node: &usize| self.server.nodes.contains_key(&gangs::node_name(*node));
        for node in (0..self.story.nodes.len()).filter(there).collect::<Vec<_>>() {
            self.plan_in(0..BETWEEN_REPORTS, Happening::NodeReported(node));
        }
        self.plan(self.now() + BETWEEN_REPORTS, Happening::Spare(index));
    }

    /// The kubelet of a node writes its status, in which no condition has changed.
    pub(super) fn node_reported(&mut self, node: usize) {
        let name = gangs::node_name(node);
        self.tell(|| format!("the kubelet of {name} writes its status"));
        self.server.update_node(&name, |_| {});
    }

    pub(super) fn pod_arrives(&mut self, index: usize, number: usize) {
        let name = gangs::pod_name(index, number, Maker::User);
        if self.finished[index][number] || self.server.pods.get(&name).is_some_and(|pod| !has_ended(pod)) {
            return;
        }
        self.server.delete_pod(&name);
        let now = self.now();
        gangs::pod(&mut self.server, index, number, &self.story.gangs[index], now);
        self.tell(|| format!("pod {name} is created"));
    }

    /// A pod was bound: its kubelet sees it after a while.
    pub(super) fn bound(&mut self, name: &str) {
        if let Some(uid) = self.uid(name) {
            self.plan_in(50_000..SECOND, Happening::Starts(name.to_owned(), uid));
        }
    }

    fn uid(&self, name: &str) -> Option<String> {
        self.server.pods.get(name)?.metadata.uid.clone()
    }

    fn is(&self, name: &str, uid: &str) -> bool {
        self.server.pods.get(name).is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid))
    }

    /// A pod on a node that is gone is deleted, as the garbage collector of pods does.
    pub(super) fn starts(&mut self, name: &str, uid: &str) {
        let Some(pod) = self.server.pods.get(name).filter(|_| self.is(name, uid)) else { return };
        let node = pod.spec.node_name.clone().unwrap_or_default();
        if !self.server.nodes.contains_key(&node) {
            return self.plan_in(SECOND..3 * SECOND, Happening::Removed(name.to_owned(), uid.to_owned()));
        }
        let number = node.trim_start_matches("node-").parse().unwrap_or(0);
        if self.is_active(&FaultKind::KubeletRejects(number)) {
            self.tell(|| format!("the kubelet of {node} rejects pod {name}"));
            return self.fails(name);
        }
        self.set_phase(name, "Running");
        let runs = member(name).map_or(SECOND, |(gang, _)| self.story.gangs[gang].runs);
        let ends = self.now() + runs;
        self.busy_until = self.busy_until.max(ends);
        self.plan(ends, Happening::Finishes(name.to_owned(), uid.to_owned()));
    }

    fn fails(&mut self, name: &str) {
        self.set_phase(name, "Failed");
        let uid = self.uid(name).unwrap_or_default();
        let now = self.now();
        self.checks.lost(name, &uid, now);
        self.make_again(name);
    }

    fn set_phase(&mut self, name: &str, phase: &str) {
        self.tell(|| format!("pod {name} is {phase}"));
        self.server.update_pod(name, |pod: &mut slim::Pod| pod.status.phase = Some(phase.to_owned()));
    }

    pub(super) fn finishes(&mut self, name: &str, uid: &str) {
        let runs = |pod: &slim::Pod| !has_ended(pod) && pod.metadata.deletion_timestamp.is_none();
        if !self.is(name, uid) || !self.server.pods.get(name).is_some_and(|pod| runs(pod)) {
            return;
        }
        if let Some((gang, number)) = member(name) {
            self.finished[gang][number] = true;
        }
        self.set_phase(name, "Succeeded");
    }

    /// A pod that is evicted or deleted stops within two seconds; one without a node is gone at once.
    pub(super) fn stops(&mut self, name: &str) {
        let Some(pod) = self.server.pods.get(name) else { return };
        let (uid, runs) = (pod.metadata.uid.clone().unwrap_or_default(), gangs::uses_node(pod));
        self.tell(|| format!("pod {name} is to stop"));
        if !runs {
            return self.removed(name, &uid);
        }
        let deleted = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(gangs::wall(self.now()));
        self.server.update_pod(name, |pod| pod.metadata.deletion_timestamp = Some(deleted));
        self.plan_in(SECOND / 10..2 * SECOND, Happening::Removed(name.to_owned(), uid));
    }

    pub(super) fn removed(&mut self, name: &str, uid: &str) {
        if self.is(name, uid) {
            self.tell(|| format!("pod {name} is gone"));
            self.server.delete_pod(name);
            let now = self.now();
            self.checks.lost(name, uid, now);
            self.make_again(name);
        }
    }

    /// The user, or the owner, makes another pod in the place of one that was lost; the controllers make those of Jobs.
    fn make_again(&mut self, name: &str) {
        if let Some((gang, number)) = member(name)
            && matches!(self.story.gangs[gang].maker, Maker::User | Maker::Owner)
        {
            self.plan_in(SECOND / 2..3 * SECOND, Happening::PodArrives(gang, number));
        }
    }

    /// The user deletes a gang that is there, and makes no more pods of it.
    pub(super) fn delete_gang(&mut self, gang: usize) {
        let of_gang = |name: &String| gangs::gang_of(name) == Some(gang);
        let Server { jobs, groups, pods, .. } = &self.server;
        if !jobs.keys().chain(groups.keys()).chain(pods.keys()).any(of_gang) {
            return self.tell(|| format!("gang-{gang} is not there"));
        }
        self.finished[gang].fill(true);
        self.server.delete_job(&gangs::gang_name(gang));
        self.checks.gang_deleted(gang, self.clocks.now());
        self.collect(gang);
    }

    /// What is left of a deleted gang goes, also what controllers make that have not seen the deletion.
    pub(super) fn collect(&mut self, gang: usize) {
        let of_gang = |name: &&String| gangs::gang_of(name) == Some(gang);
        let groups: Vec<String> = self.server.groups.keys().filter(of_gang).cloned().collect();
        for name in groups {
            self.server.delete_group(&name);
        }
        let stay = |(_, pod): &(&String, &Arc<slim::Pod>)| pod.metadata.deletion_timestamp.is_none();
        let pods = self.server.pods.iter().filter(stay).map(|(name, _)| name);
        for name in pods.filter(of_gang).cloned().collect::<Vec<_>>() {
            self.stops(&name);
        }
        if self.now() < COLLECTED {
            self.plan_in(5 * SECOND..10 * SECOND, Happening::Collect(gang));
        }
    }

    pub(super) fn remove_now(&mut self, name: &str) {
        if let Some(uid) = self.uid(name) {
            self.removed(name, &uid);
        }
    }

    pub(super) fn node_dies(&mut self, node: usize) {
        let name = gangs::node_name(node);
        self.server.delete_node(&name);
        self.checks.node_gone(&name, self.clocks.now());
        let on_it = |pod: &&Arc<slim::Pod>| pod.spec.node_name.as_deref() == Some(&name) && !has_ended(pod);
        let pods: Vec<_> = self.server.pods.values().filter(on_it).map(|pod| pod.metadata.clone()).collect();
        for pod in pods {
            let (name, uid) = (pod.name.unwrap_or_default(), pod.uid.unwrap_or_default());
            self.plan_in(100_000..SECOND, Happening::Removed(name, uid));
        }
    }

    pub(super) fn node_returns(&mut self, node: usize) {
        let (now, ready) = (self.now(), !self.is_unready(node));
        if !self.server.nodes.contains_key(&gangs::node_name(node)) {
            gangs::node(&mut self.server, node, self.story.nodes[node], ready, now);
        }
    }

    pub(super) fn is_unready(&self, node: usize) -> bool {
        self.is_active(&FaultKind::NodeUnready(node))
    }

    pub(super) fn set_ready(&mut self, node: usize, ready: bool) {
        let name = gangs::node_name(node);
        self.server.update_node(&name, |node| gangs::set_ready(node, ready));
        if !ready {
            self.checks.node_closed(&name, self.clocks.now());
        }
    }

    /// The user cordons a node, or uncordons it.
    pub(super) fn cordon(&mut self, node: usize, cordoned: bool) {
        let name = gangs::node_name(node);
        self.server.update_node(&name, |node| node.spec.unschedulable = cordoned);
        if cordoned {
            self.checks.node_closed(&name, self.clocks.now());
        }
    }

    /// Until when the kubelet of a pod does not answer; nothing if it does, or if there is no such node any more.
    pub(super) fn silent_until(&self, pod: &str) -> Option<Micros> {
        let node = self.server.pods.get(pod)?.spec.node_name.as_ref()?;
        let is_of =
            |kind: &FaultKind| matches!(kind, FaultKind::NodeUnready(at) if gangs::node_name(*at) == *node);
        let faults = self.active.iter().map(|index| &self.story.faults[*index]);
        let ends = faults.filter(|fault| is_of(&fault.kind)).map(|fault| fault.at + fault.lasts).max();
        ends.filter(|_| self.server.nodes.contains_key(node))
    }
}

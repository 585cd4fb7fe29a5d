//! A simulated API server, which takes the decisions of the scheduler, and simulated kubelets.
mod kubelets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{
    AttachmentInfo, BindFailure, BindFault, Event, Key, NodeInfo, PdbInfo, PodGroupInfo, PodInfo, PodPhase,
    PodRef, PvcInfo, QueueGate, QueueInfo, QueueState, Resources, RunTime, StorageCapacityInfo,
    StorageClassInfo, Time, VolumeInfo,
};
use phalanx_core::decision::{Binding, Cause, Decision};

use crate::agenda::{Agenda, Step};
use crate::claims::Claims;
use crate::object::GRACE_SECONDS;
use crate::replacement::{Maker, Makers};
use crate::run_time::{AssumedEnd, Assumption};
use crate::storage::Storage;
use crate::watch_events::{Held, Pods, WatchEvents};

/// The time from a bind to running containers.
pub const START_DELAY_MS: i64 = 1_000;
/// A pod and the plans of its kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedPod {
    /// The object on the API server.
    pub info: PodInfo,
    /// The run time in milliseconds (`phalanx.sh/run-seconds`); without it the pod runs for ever.
    pub run_ms: Option<i64>,
    /// Why its end is known, in a run that assumes one.
    pub assumed: Option<Assumption>,
    /// The exit code of its containers (`phalanx.sh/exit-codes`); the pod fails unless it is 0.
    pub exit_code: i32,
    /// Claims of its ephemeral volumes.
    pub pvcs: Vec<PvcInfo>,
    /// The time from its deletion to its end in milliseconds (`terminationGracePeriodSeconds`).
    pub grace_ms: i64,
    /// Claims from templates: names in the pod, and templates.
    pub templates: Vec<(Arc<str>, Arc<str>)>,
    /// The controller that created the pod and replaces it after an eviction.
    pub maker: Option<Arc<Maker>>,
}

impl SimulatedPod {
    /// A pod of which only what the scheduler knows is known.
    pub(crate) fn known(info: PodInfo) -> Self {
        let run_ms = match info.run_time {
            Some(RunTime::Stated(seconds)) => Some(i64::from(seconds) * 1_000),
            Some(RunTime::Deadline(_) | RunTime::Ran(_)) | None => None,
        };
        Self {
            info,
            run_ms,
            assumed: None,
            exit_code: 0,
            pvcs: Vec::new(),
            grace_ms: GRACE_SECONDS * 1_000,
            templates: Vec::new(),
            maker: None,
        }
    }
}

/// The API server with its objects and the kubelets with their plans.
#[derive(Debug, Default)]
pub(crate) struct ApiServer {
    pods: Pods,
    groups: BTreeMap<Key, PodGroupInfo>,
    queues: BTreeMap<Arc<str>, QueueInfo>,
    pdbs: Vec<PdbInfo>,
    storage: Storage,
    /// Nodes whose kubelet is alive.
    ready: BTreeSet<Arc<str>>,
    agenda: Agenda,
    watch_events: WatchEvents,
    /// The number of binds, evictions and kubelet steps so far. Each happens once for a pod.
    pub(crate) steps: u64,
    /// Pods bound in this run and their nodes, in the order of the decisions.
    bound: Vec<(Arc<PodRef>, Arc<str>)>,
    /// Pods evicted in this run, in the order of the decisions.
    pub(crate) evictions: Vec<(String, Arc<Cause>)>,
    nominated: BTreeMap<Arc<str>, (String, String)>,
    pub(crate) claims: Claims,
    pub(crate) makers: Makers,
    /// The ends of pods that were assumed.
    pub(crate) assumed_ends: Vec<AssumedEnd>,
}

impl ApiServer {
    /// Adds the object to the API server and sends it to watches.
    pub(crate) fn add_node(&mut self, node: NodeInfo) {
        if node.ready {
            self.ready.insert(node.name.clone());
        }
        self.watch_events.push(Event::Node(node));
    }

    /// As `add_node`.
    pub(crate) fn add_queue(&mut self, queue: QueueInfo) {
        self.watch_events.push(Event::Queue(Box::new(queue.clone())));
        self.queues.insert(queue.name.clone(), queue);
    }

    /// As `add_node`.
    pub(crate) fn add_group(&mut self, group: PodGroupInfo) {
        self.watch_events.push(Event::PodGroup(Box::new(group.clone())));
        self.groups.insert(group.key.clone(), group);
    }

    /// As `add_node`. It allows as many disruptions as its status says, less the evictions of this run.
    pub(crate) fn add_pdb(&mut self, pdb: PdbInfo) {
        self.announce(pdb.clone().into());
        self.pdbs.push(pdb);
    }

    /// As `add_node`; the kubelet of a bound pod plans its steps.
    pub(crate) fn add_pod(&mut self, pod: impl Into<Box<SimulatedPod>>, now: Time) {
        let pod = pod.into();
        self.makers.count(&pod);
        let uid = pod.info.pod.uid.clone();
        if pod.info.life.deleting {
            self.agenda.put(after(now, pod.grace_ms), Step::Remove(uid.clone()));
        } else if pod.info.life.phase == PodPhase::Running {
            // A run time that is assumed began when the pod did.
            let since = pod.info.life.scheduled.filter(|_| pod.assumed.is_some());
            self.plan_finish(&uid, pod.run_ms, since.unwrap_or(now));
        } else if pod.info.life.phase == PodPhase::Pending && self.has_kubelet(&pod.info) {
            self.agenda.put(after(now, START_DELAY_MS), Step::Start(uid.clone()));
        }
        self.pods.insert(uid, Held::sent(pod, &mut self.watch_events));
    }

    /// As `add_node`.
    pub(crate) fn add_volume(&mut self, volume: VolumeInfo) {
        self.announce(volume.clone().into());
        self.storage.add_volume(volume);
    }

    /// As `add_node`.
    pub(crate) fn add_attachment(&mut self, attachment: AttachmentInfo) {
        self.announce(attachment.clone().into());
        self.storage.add_attachment(attachment);
    }

    /// As `add_node`, unless the claim exists.
    pub(crate) fn add_pvc(&mut self, claim: PvcInfo) {
        if self.storage.add_pvc(claim.clone()) {
            self.announce(claim.into());
        }
    }

    /// As `add_node`.
    pub(crate) fn add_storage_class(&mut self, class: StorageClassInfo) {
        self.announce(class.clone().into());
        self.storage.add_class(class);
    }

    /// As `add_node`.
    pub(crate) fn add_capacity(&mut self, capacity: StorageCapacityInfo) {
        self.announce(capacity.clone().into());
        self.storage.add_capacity(capacity);
    }

    /// An event for the watches only.
    pub(crate) fn announce(&mut self, event: Event) {
        self.watch_events.push(event);
    }

    /// The next event of the watches.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.watch_events.deliver(&self.pods)
    }

    /// Applies the decisions of the scheduler.
    pub(crate) fn carry_out(&mut self, decision: &Decision, now: Time) {
        match decision {
            Decision::Bind { pods, .. } => pods.iter().for_each(|binding| self.bind(binding, now)),
            Decision::Evict { pod, cause, .. } => self.evict(pod, cause, now),
            Decision::Nominate { pod, node } => self.nominate(pod, node.clone()),
            Decision::OpenGate { pod } => self.change(&pod.uid, |pod| {
                (pod.info.gated, pod.info.queue_gate) = (false, QueueGate::Open);
            }),
            Decision::PodGroupStatus { group, status, .. } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.status = status.clone();
                    self.watch_events.push(Event::PodGroup(Box::new(group.clone())));
                }
            }
            Decision::QueueStatus { queue, allocated } => {
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.allocated = quantities(allocated);
                    self.watch_events.push(Event::Queue(Box::new(queue.clone())));
                }
            }
            Decision::PodUnscheduled { pod, message, .. } => {
                self.change(&pod.uid, |pod| pod.info.life.unscheduled_message = Some(message.clone()));
            }
            // A Kubernetes event changes no object.
            Decision::PodUngrouped { .. }
            | Decision::PodGroupUnschedulable { .. }
            | Decision::PodGroupInvalid { .. }
            | Decision::HyperNodeInvalid { .. }
            | Decision::QueueInvalid { .. } => {}
        }
    }

    /// A controller deletes a pod.
    pub(crate) fn delete_pod(&mut self, uid: &Arc<str>, now: Time) {
        let Some(known) = self.pods.get(uid).filter(|known| !known.info.life.deleting) else { return };
        let ended = matches!(known.info.life.phase, PodPhase::Succeeded | PodPhase::Failed);
        let grace = if known.info.life.node.is_some() && !ended { known.grace_ms } else { 0 };
        self.steps += 1;
        self.nominated.remove(uid);
        self.change(uid, |pod| pod.info.life.deleting = true);
        self.agenda.put(after(now, grace), Step::Remove(uid.clone()));
    }

    /// A controller deletes a PodGroup.
    pub(crate) fn delete_group(&mut self, key: &Key) {
        if self.groups.remove(key).is_some() {
            self.watch_events.push(Event::PodGroupGone(key.clone()));
        }
    }

    /// A pod by its UID.
    pub(crate) fn pod(&self, uid: &str) -> Option<&SimulatedPod> {
        self.pods.get(uid).map(|held| &**held)
    }

    /// A PodGroup by its name.
    pub(crate) fn group(&self, key: &Key) -> Option<&PodGroupInfo> {
        self.groups.get(key)
    }

    /// Pods as they are now, in no order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.pods.values().map(|pod| &pod.info)
    }

    /// PodGroups as they are now.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &PodGroupInfo> {
        self.groups.values()
    }

    /// Queues as they are now.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueInfo> {
        self.queues.values()
    }

    /// The controller of queues opens or closes one.
    pub(crate) fn set_queue_state(&mut self, name: &str, state: QueueState) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.state = state;
            self.watch_events.push(Event::Queue(Box::new(queue.clone())));
        }
    }

    /// Binds of this run.
    pub(crate) fn binds(&self) -> usize {
        self.bound.len()
    }

    /// Pods bound in this run, `namespace/name` to node.
    pub(crate) fn bindings(&self) -> BTreeMap<String, String> {
        self.bound.iter().map(|(pod, node)| (pod.to_string(), node.to_string())).collect()
    }

    /// Pods with a nomination of this run that are not bound yet.
    pub(crate) fn nominations(&self) -> BTreeMap<String, String> {
        self.nominated.values().cloned().collect()
    }

    fn bind(&mut self, binding: &Binding, now: Time) {
        let uid = &binding.pod.uid;
        let node = binding.node.clone();
        let free =
            self.pods.get(uid).is_some_and(|pod| pod.info.life.node.is_none() && !pod.info.life.deleting);
        if !free {
            let failure =
                BindFailure { message: "the pod is gone or bound already".into(), fault: BindFault::Gone };
            return self.watch_events.push(Event::BindFailed(uid.clone(), failure));
        }
        self.steps += 1;
        self.watch_events.extend(binding.volumes().flat_map(|(_, claim)| self.storage.bind(claim)));
        self.nominated.remove(uid);
        self.bound.push((binding.pod.clone(), node.clone()));
        self.watch_events.extend(self.claims.prepare(&binding.prepare));
        self.watch_events.push(Event::Bound(uid.clone()));
        let started = self.ready.contains(&node);
        self.change(uid, |pod| {
            (pod.info.life.node, pod.info.life.scheduled) = (Some(node), Some(now));
            pod.info.life.nominated = None;
            pod.info.life.unscheduled_message = None;
        });
        if started {
            self.agenda.put(after(now, START_DELAY_MS), Step::Start(uid.clone()));
        }
    }

    fn evict(&mut self, pod: &PodRef, cause: &Arc<Cause>, now: Time) {
        let Some(known) = self.pods.get(&pod.uid).filter(|known| !known.info.life.deleting) else { return };
        let grace = if known.info.life.node.is_some() { known.grace_ms } else { 0 };
        if known.info.life.phase == PodPhase::Running {
            count_off(&mut self.pdbs, &known.info, &mut self.watch_events);
        }
        self.steps += 1;
        self.evictions.push((pod.to_string(), cause.clone()));
        self.nominated.remove(&pod.uid);
        let next = self.makers.replace(known, false, now);
        self.change(&pod.uid, |pod| pod.info.life.deleting = true);
        self.agenda.put(after(now, grace), Step::Remove(pod.uid.clone()));
        if let Some(next) = next {
            self.add_pod(next, now);
        }
    }

    fn nominate(&mut self, pod: &PodRef, node: Option<Arc<str>>) {
        match &node {
            Some(node) => {
                self.nominated.insert(pod.uid.clone(), (pod.to_string(), node.to_string()));
            }
            None => {
                self.nominated.remove(&pod.uid);
            }
        }
        self.change(&pod.uid, |pod| pod.info.life.nominated = node);
    }

    /// Changes a pod, if it still exists, and sends it to watches.
    fn change(&mut self, uid: &Arc<str>, how: impl FnOnce(&mut SimulatedPod)) {
        if let Some(pod) = self.pods.get_mut(uid) {
            self.watch_events.settle(pod);
            how(pod);
            self.watch_events.push_pod(pod);
        }
    }
}

/// An eviction of a running pod counts against its budgets, as in the eviction API, unless they let unready pods go.
fn count_off(pdbs: &mut [PdbInfo], pod: &PodInfo, watch_events: &mut WatchEvents) {
    let counts = |pdb: &&mut PdbInfo| !(pdb.frees_unready && pod.life.unready);
    for pdb in pdbs.iter_mut().filter(|pdb| pdb.key.namespace == pod.pod.namespace).filter(counts) {
        if pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels)) {
            pdb.allowed = pdb.allowed.saturating_sub(1);
            watch_events.push(pdb.clone().into());
        }
    }
}

fn after(now: Time, ms: i64) -> Time {
    Time(now.0.saturating_add(ms))
}

fn quantities(texts: &[(Arc<str>, String)]) -> Resources {
    texts.iter().filter_map(|(name, text)| Some((name.clone(), text.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn because(reason: &str) -> Arc<Cause> {
        Arc::new(Cause { reason: reason.into(), ..Cause::default() })
    }

    fn pod(name: &str, node: Option<&str>) -> SimulatedPod {
        let object =
            json!({"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"nodeName": node}});
        let names = phalanx_cache::Names::default();
        let pod = phalanx_cache::decode(&object).unwrap();
        let info = phalanx_cache::pod(&pod, &names, &mut phalanx_cache::Interner::default()).unwrap();
        SimulatedPod {
            info,
            run_ms: Some(5_000),
            assumed: None,
            exit_code: 0,
            pvcs: vec![],
            grace_ms: 30_000,
            templates: vec![],
            maker: None,
        }
    }

    fn api_server() -> ApiServer {
        let mut api_server = ApiServer::default();
        api_server.add_node(NodeInfo { name: "n".into(), ready: true, ..NodeInfo::default() });
        api_server.add_node(NodeInfo { name: "dead".into(), ..NodeInfo::default() });
        api_server
    }

    fn named(name: &str) -> Arc<PodRef> {
        Arc::new(PodRef { namespace: "a".into(), name: name.into(), uid: name.into() })
    }

    fn bind(api_server: &mut ApiServer, name: &str, node: &str) {
        let (pod, node) = (named(name), node.into());
        let binding = Binding { pod, created: Time(0), node, by: None, prepare: vec![] };
        let pods = vec![binding];
        api_server.carry_out(&Decision::Bind { job: Key::new("a", name), pods }, Time(0));
    }

    fn phase(api_server: &ApiServer, name: &str) -> Option<PodPhase> {
        api_server.pods.get(name).map(|pod| pod.info.life.phase)
    }

    #[test]
    fn a_bound_pod_starts_runs_and_succeeds() {
        let mut api_server = api_server();
        api_server.add_pod(pod("p", None), Time(0));
        assert_eq!(api_server.next_step(), None);
        bind(&mut api_server, "p", "n");
        assert_eq!(api_server.bindings()["a/p"], "n");
        assert!(
            api_server.pods().all(|pod| pod.life.scheduled == Some(Time(0))),
            "since when its cooldown counts"
        );
        for (now, expected) in [
            (999, PodPhase::Pending),
            (1_000, PodPhase::Running),
            (5_999, PodPhase::Running),
            (6_000, PodPhase::Succeeded),
        ] {
            api_server.run_kubelets(Time(now));
            assert_eq!(phase(&api_server, "p"), Some(expected), "{now} ms");
        }
        assert_eq!(api_server.next_step(), None);
    }

    #[test]
    fn an_evicted_pod_is_gone_after_its_grace() {
        let mut api_server = api_server();
        api_server.add_pod(pod("p", Some("n")), Time(0));
        api_server.run_kubelets(Time(1_000));
        let evict = Decision::Evict { pod: named("p"), group: None, cause: because("urgent") };
        api_server.carry_out(&evict, Time(2_000));
        api_server.carry_out(&evict, Time(2_000));
        assert_eq!(api_server.evictions, [("a/p".to_owned(), because("urgent"))]);
        api_server.run_kubelets(Time(31_999));
        assert_eq!(
            phase(&api_server, "p"),
            Some(PodPhase::Succeeded),
            "it may end while it is being deleted"
        );
        api_server.run_kubelets(Time(32_000));
        assert_eq!(phase(&api_server, "p"), None);
        assert!(
            matches!(std::iter::from_fn(|| api_server.next_event()).last(), Some(Event::PodGone(uid)) if *uid == *"p")
        );
    }

    fn made(name: &str, keeps_names: bool) -> SimulatedPod {
        let maker = Maker { label: "Kind a/p".into(), name: "p".into(), keeps_names, later: 0 };
        SimulatedPod { maker: Some(maker.into()), run_ms: None, ..pod(name, Some("n")) }
    }

    fn names(api_server: &ApiServer) -> Vec<String> {
        let mut names: Vec<String> = api_server.pods().map(|pod| pod.pod.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_pod_is_small_since_a_million_of_them_are_held() {
        assert!(size_of::<SimulatedPod>() <= 560, "{}", size_of::<SimulatedPod>());
    }

    #[test]
    fn controllers_create_evicted_pods_again() {
        let evict = |name: &str| Decision::Evict { pod: named(name), group: None, cause: because("") };
        let mut api_server = api_server();
        api_server.add_pod(made("p-0", false), Time(0));
        api_server.add_pod(made("p-1", false), Time(0));
        api_server.carry_out(&evict("p-0"), Time(2_000));
        assert_eq!(names(&api_server), ["p-0", "p-1", "p-2"], "a new name, at once");
        let new = api_server.pods().find(|pod| &*pod.pod.name == "p-2").unwrap();
        assert!(new.life.node.is_none() && !new.life.deleting && new.index == Some(2));
        api_server.run_kubelets(Time(40_000));
        assert_eq!(names(&api_server), ["p-1", "p-2"]);
        assert!(!api_server.makers.go_round());
    }

    #[test]
    fn a_job_creates_the_next_pod_when_one_has_succeeded() {
        let mut api_server = api_server();
        let job = |name: &str| {
            let maker =
                made(name, false).maker.map(|maker| Arc::new(Maker { later: 2, ..Maker::clone(&maker) }));
            SimulatedPod { maker, ..pod(name, Some("n")) }
        };
        api_server.add_pod(job("p-0"), Time(0));
        api_server.add_pod(job("p-1"), Time(0));
        api_server.run_kubelets(Time(1_000));
        let evict = Decision::Evict { pod: named("p-1"), group: None, cause: because("") };
        api_server.carry_out(&evict, Time(2_000));
        assert_eq!(names(&api_server), ["p-0", "p-1", "p-2"]);
        api_server.run_kubelets(Time(6_000));
        assert_eq!(
            names(&api_server),
            ["p-0", "p-1", "p-2", "p-3"],
            "one for p-0, none for p-1, which has p-2 already"
        );
        bind(&mut api_server, "p-1/2", "n");
        api_server.run_kubelets(Time(60_000));
        assert_eq!(names(&api_server), ["p-0", "p-2", "p-3"], "that was the last to come");
    }

    #[test]
    fn a_stateful_set_waits_until_the_old_pod_is_gone() {
        let mut api_server = api_server();
        api_server.add_pod(made("p-0", true), Time(0));
        api_server
            .carry_out(&Decision::Evict { pod: named("p-0"), group: None, cause: because("") }, Time(2_000));
        assert_eq!(api_server.pods().filter(|pod| pod.life.deleting).count(), 1);
        api_server.run_kubelets(Time(40_000));
        assert_eq!(names(&api_server), ["p-0"]);
        assert!(
            api_server
                .pods()
                .all(|pod| !pod.life.deleting && pod.life.node.is_none() && &*pod.pod.uid != "p-0")
        );
    }

    #[test]
    fn a_node_that_is_not_ready_has_no_kubelet() {
        let mut api_server = api_server();
        api_server.add_pod(pod("p", Some("dead")), Time(0));
        api_server.add_pod(pod("q", None), Time(0));
        bind(&mut api_server, "q", "dead");
        assert_eq!(api_server.next_step(), None);
    }

    #[test]
    fn a_second_bind_fails_with_a_conflict() {
        let mut api_server = api_server();
        api_server.add_pod(pod("p", None), Time(0));
        bind(&mut api_server, "p", "n");
        bind(&mut api_server, "p", "dead");
        assert_eq!(api_server.bindings()["a/p"], "n");
        assert!(
            matches!(std::iter::from_fn(|| api_server.next_event()).last(), Some(Event::BindFailed(_, failure)) if failure.fault == BindFault::Gone)
        );
    }

    #[test]
    fn a_nomination_lasts_until_it_is_removed_or_the_pod_is_bound() {
        let mut api_server = api_server();
        for name in ["p", "q"] {
            api_server.add_pod(pod(name, None), Time(0));
            api_server.carry_out(&Decision::Nominate { pod: named(name), node: Some("n".into()) }, Time(0));
        }
        assert_eq!(api_server.nominations().len(), 2);
        bind(&mut api_server, "p", "n");
        api_server.carry_out(&Decision::Nominate { pod: named("q"), node: None }, Time(0));
        assert!(api_server.nominations().is_empty());
        assert!(api_server.pods().all(|pod| pod.life.nominated.is_none()));
    }
}

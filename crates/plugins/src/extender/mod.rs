//! extender: asks policies of another process by HTTP.
//!
//! Each verb is a path below `extender.urlPrefix`; a verb without a path is not called. Volcano's verbs:
//! `onSessionOpen` sends the whole session, `onSessionClose` ends it; `predicate` and `prioritize` judge nodes, after
//! the filters of the plugins before this one; `preemptable`, `reclaimable`, `queueOverused`, `jobEnqueueable` and
//! `jobReady` answer the hooks of these names; `jobEnqueued`, `allocateFunc` and `deallocateFunc` are notifications.
//! kube-scheduler's verbs, under `extender.kube.`: `filter`, `prioritize` (0 to 10, times ten, times `weight`),
//! `preempt`, and `bind`, which binds pods in place of the scheduler.
//!
//! - Requests are sent only for pods that request one of `managedResources`, for all pods when none are named; queues
//!   and jobs are not restricted.
//! - A request that fails or takes longer than `httpTimeout` is ignored when the extender is `ignorable`; otherwise the
//!   failure counts as a refusal, with the failure as reason. Failures of `extender.kube.prioritize` are always
//!   ignored.
//! - `phalanx simulate` and `phalanx explain` call no extender, and say so.
//! - The extender judges nodes for a task once in a session: the nodes where the task fits, or all nodes when there are
//!   none.
//!
//! Source: Volcano's extender plugin; kube-scheduler's HTTP extender. Where a request fails, Volcano inverts some
//! answers: see docs/differences.md.
mod args;
mod nodes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use args::{ARGS, verbs};
use phalanx_cluster::diagnosis::{Overuse, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::conf::Flag;
use phalanx_framework::extender::{Endpoint, Extender, ExtenderRequest, ExtenderResponse};
use phalanx_framework::plugin::{
    EnqueueVote, Eviction, EvictionKind, NodeRules, Plugin, PluginContext, PluginDef, RemotePolicy,
    TaskRules, Vote,
};

const NAME: &str = "extender";

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Asks a policy in another process, by Volcano's or kube-scheduler's HTTP verbs.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(ExtenderPlugin::open(opening)),
};

struct ExtenderPlugin {
    extender: Option<Arc<dyn Extender>>,
    endpoint: Endpoint,
    verbs: BTreeMap<&'static str, Arc<str>>,
    ignorable: bool,
    managed: Vec<String>,
    weight: f64,
    now: Time,
    /// The failure of `onSessionOpen`: no verb is called, and everything is refused.
    session_failure: Option<Refusal>,
    /// Why `jobReady` refused jobs.
    not_ready: Mutex<FxHashMap<JobId, Refusal>>,
    /// Jobs for a task of which `allocateFunc` failed.
    allocate_failures: FxHashMap<JobId, Refusal>,
}

impl ExtenderPlugin {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let endpoint = Endpoint {
            url: args.text("extender.urlPrefix").unwrap_or_default().trim_end_matches('/').into(),
            timeout_ms: Some(args.duration_ms("extender.httpTimeout", 1_000))
                .filter(|ms| *ms > 0)
                .unwrap_or(1_000),
            knows_objects: args.bool("extender.kube.nodeCacheCapable", false),
        };
        let mut remote = Self {
            extender: opening.extender.cloned(),
            endpoint,
            verbs: verbs(args),
            ignorable: args.bool("extender.ignorable", false),
            managed: args.names("extender.managedResources"),
            weight: Some(args.int("extender.kube.weight", 1)).filter(|weight| *weight > 0).unwrap_or(1)
                as f64,
            now: opening.now,
            session_failure: None,
            not_ready: Mutex::default(),
            allocate_failures: FxHashMap::default(),
        };
        let told = remote.ask(opening.cluster, "onSessionOpen", &ExtenderRequest::SessionOpen);
        remote.session_failure = told.and_then(|told| remote.refusal(told.err()));
        remote
    }

    /// Calls a verb; `None` when the verb has no path, or extenders are not called (`simulate`).
    fn ask(
        &self,
        cluster: &Cluster,
        verb: &'static str,
        ask: &ExtenderRequest,
    ) -> Option<Result<ExtenderResponse, ExtenderFailure>> {
        let (path, extender) = (self.verbs.get(verb)?, self.extender.as_ref()?);
        let answer = extender.ask(&self.endpoint, path, cluster, ask);
        Some(answer.map_err(|text| ExtenderFailure { verb: path.clone(), text }))
    }

    /// The refusal that a failure counts as, unless the extender is `ignorable`.
    fn refusal(&self, failure: Option<ExtenderFailure>) -> Option<Refusal> {
        failure.filter(|_| !self.ignorable).map(ExtenderFailure::refusal)
    }

    fn has(&self, verb: &str) -> bool {
        self.verbs.contains_key(verb)
    }

    /// Whether a task requests a resource that the extender manages.
    fn manages(&self, cluster: &Cluster, task: TaskId) -> bool {
        let requests =
            |name: &String| cluster.dims.get(name).is_some_and(|dim| cluster.request_of(task).get(dim) > 0);
        self.managed.is_empty() || self.managed.iter().any(requests)
    }

    fn victims(
        &self,
        cluster: &Cluster,
        verb: &'static str,
        ask: &ExtenderRequest,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        match self.ask(cluster, verb, ask)? {
            Ok(ExtenderResponse::Victims(victims)) => {
                let victims: FxHashSet<TaskId> = victims.into_iter().collect();
                Some(of.iter().copied().filter(|task| victims.contains(task)).collect())
            }
            Ok(_) => None,
            Err(_) => (!self.ignorable).then(Vec::new),
        }
    }

    fn judge(
        &self,
        cluster: &Cluster,
        verb: &'static str,
        ask: &ExtenderRequest,
        by: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if !self.manages(cluster, by) || of.is_empty() {
            return None;
        }
        let own = self.victims(cluster, verb, ask, of);
        let of = own.as_deref().unwrap_or(of);
        self.victims(cluster, "kube.preempt", &ExtenderRequest::KubePreempt(by, of.to_vec()), of).or(own)
    }

    fn not_ready(&self) -> MutexGuard<'_, FxHashMap<JobId, Refusal>> {
        self.not_ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that failed.
struct ExtenderFailure {
    verb: Arc<str>,
    text: Arc<str>,
}

impl ExtenderFailure {
    fn text(&self) -> String {
        format!("extender, {}: {}", self.verb, self.text)
    }

    fn refusal(self) -> Refusal {
        Refusal::Extender { verb: self.verb, text: self.text }
    }
}

impl Plugin for ExtenderPlugin {
    /// The extender may answer otherwise at any time.
    fn refusal_holds_until(&self, _: &Cluster, _: JobId) -> Option<Time> {
        None
    }

    fn ranks_equal_priority(&self, flag: Option<Flag>) -> bool {
        match flag {
            Some(Flag::Preemptable) => self.has("preemptable") || self.has("kube.preempt"),
            Some(Flag::Reclaimable) => self.has("reclaimable"),
            _ => false,
        }
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let Eviction { kind, by, whole_gangs } = eviction;
        let (verb, ask) = match kind {
            _ if whole_gangs => return None,
            EvictionKind::Preempt => ("preemptable", ExtenderRequest::Preemptable(by, of.to_vec())),
            EvictionKind::Reclaim => ("reclaimable", ExtenderRequest::Reclaimable(by, of.to_vec())),
        };
        self.judge(cluster, verb, &ask, by, of)
    }

    fn overused(&self, cluster: &Cluster, queue: QueueId) -> Option<Refusal> {
        match self.ask(cluster, "queueOverused", &ExtenderRequest::QueueOverused(queue))? {
            Ok(ExtenderResponse::Flag(true)) => Some(Refusal::Overused {
                plugin: NAME,
                queue: cluster.queues[queue].name.clone(),
                why: Overuse::Full,
            }),
            Ok(_) => None,
            Err(failure) => self.refusal(Some(failure)),
        }
    }

    fn job_enqueueable(&self, cluster: &Cluster, job: JobId) -> EnqueueVote {
        if let Some(failure) = &self.session_failure {
            return EnqueueVote::Reject(failure.clone());
        }
        match self.ask(cluster, "jobEnqueueable", &ExtenderRequest::JobEnqueueable(job)) {
            Some(Ok(ExtenderResponse::Vote(vote))) if vote > 0 => EnqueueVote::Permit,
            Some(Ok(ExtenderResponse::Vote(vote))) if vote < 0 => {
                let verb = self.verbs["jobEnqueueable"].clone();
                EnqueueVote::Reject(Refusal::Extender { verb, text: "the job may not be admitted".into() })
            }
            Some(Err(failure)) => {
                self.refusal(Some(failure)).map_or(EnqueueVote::Abstain, EnqueueVote::Reject)
            }
            _ => EnqueueVote::Abstain,
        }
    }

    fn job_enqueued(&mut self, cluster: &Cluster, job: JobId) {
        let _ = self.ask(cluster, "jobEnqueued", &ExtenderRequest::JobEnqueued(job));
    }

    fn job_ready(&self, cluster: &Cluster, job: JobId) -> bool {
        if self.allocate_failures.contains_key(&job) {
            return false;
        }
        let refusal = match self.ask(cluster, "jobReady", &ExtenderRequest::JobReady(job)) {
            Some(Ok(ExtenderResponse::Flag(false))) => {
                let verb = self.verbs["jobReady"].clone();
                Some(Refusal::Extender { verb, text: "the job may not start".into() })
            }
            Some(Err(failure)) => self.refusal(Some(failure)),
            _ => None,
        };
        let ready = refusal.is_none();
        match refusal {
            Some(refusal) => self.not_ready().insert(job, refusal),
            None => self.not_ready().remove(&job),
        };
        ready
    }

    fn job_pipelined(&self, _: &Cluster, job: JobId) -> Vote {
        if self.allocate_failures.contains_key(&job) { Vote::Reject } else { Vote::Abstain }
    }

    fn close(&self, cluster: &Cluster) {
        let _ = self.ask(cluster, "onSessionClose", &ExtenderRequest::SessionClose);
    }

    fn listens(&self) -> bool {
        self.has("allocateFunc") || self.has("deallocateFunc")
    }

    fn on_change(&mut self, cluster: &Cluster, task: TaskId, before: Status) {
        let holds = |status: Status| status.is_allocated() || status == Status::Pipelined;
        let answer = match (holds(before), holds(cluster.tasks[task].status)) {
            _ if !self.manages(cluster, task) || !cluster.tasks[task].is_pod() => return,
            (false, true) => self.ask(cluster, "allocateFunc", &ExtenderRequest::Allocate(task)),
            (true, false) => self.ask(cluster, "deallocateFunc", &ExtenderRequest::Deallocate(task)),
            _ => return,
        };
        let failed = answer.and_then(|answer| self.refusal(answer.err()));
        if let (Some(refusal), Some(job)) = (failed, cluster.tasks[task].job) {
            self.allocate_failures.insert(job, refusal);
        }
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        self.judges_nodes().then_some(self as &dyn TaskRules)
    }

    fn remote(&self) -> Option<&dyn RemotePolicy> {
        Some(self)
    }
}

impl TaskRules for ExtenderPlugin {
    /// Answers hold for one task in one session.
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        if !self.manages(cluster, task) {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.now, task).hash(&mut hasher);
        hasher.finish().max(1)
    }

    fn task_filters(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if self.manages(cluster, task) {
            self.add_filters(cluster, task, rules);
        }
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if self.manages(cluster, task) && self.session_failure.is_none() {
            self.add_scorers(cluster, task, rules);
        }
    }
}

impl RemotePolicy for ExtenderPlugin {
    fn judges_victims(&self) -> bool {
        ["preemptable", "reclaimable", "kube.preempt"].iter().any(|verb| self.has(verb))
    }

    fn not_ready(&self, _: &Cluster, job: JobId) -> Option<Refusal> {
        self.allocate_failures
            .get(&job)
            .cloned()
            .or_else(|| ExtenderPlugin::not_ready(self).get(&job).cloned())
    }

    fn binder(&self, cluster: &Cluster, task: TaskId) -> Option<Arc<Endpoint>> {
        let verb = self.verbs.get("kube.bind")?;
        let url = format!("{}/{verb}", self.endpoint.url).into();
        self.manages(cluster, task).then(|| Arc::new(Endpoint { url, ..self.endpoint.clone() }))
    }
}

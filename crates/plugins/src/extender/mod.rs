//! extender: policies of another process, asked by HTTP.
//!
//! Each verb is a path below `extender.urlPrefix`; one that is not named is not asked. Volcano's: a session is told whole
//! when it opens (`onSessionOpen`) and closes; `predicate` and `prioritize` judge nodes, after the filters of the plugins
//! before this one; `preemptable`, `reclaimable`, `queueOverused`, `jobEnqueueable` and `jobReady` are asked as the hooks of
//! these names; `jobEnqueued`, `allocateFunc` and `deallocateFunc` are told. Those under `extender.kube.` are
//! kube-scheduler's: `filter`, `prioritize` (0 to 10, times ten, times `weight`), `preempt`, and `bind`, which binds pods
//! instead of the API server.
//!
//! - Only pods that request one of `managedResources` are asked about; all, when none are named. Queues and jobs always.
//! - A question that fails or takes longer than `httpTimeout` is passed over when the extender is `ignorable`; otherwise the
//!   answer counts as no, and what waits for it says why. Failures of `extender.kube.prioritize` are always passed over.
//! - `phalanx simulate` and `phalanx explain` ask no extender, and say so.
//! - Each task is asked for once in a session, about the nodes with room; about all, when there are none.
//!
//! Source: Volcano's extender plugin; kube-scheduler's HTTP extender. Where a question fails, Volcano's has turned some answers
//! round: see the table of differences.
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
use phalanx_cluster::{Status, World};
use phalanx_framework::conf::Flag;
use phalanx_framework::extender::{Endpoint, Extender, ExtenderRequest, ExtenderResponse};
use phalanx_framework::plugin::{
    EnqueueVote, NodeRules, Plugin, PluginContext, PluginDef, RemotePolicy, TaskRules, Vote,
};

const NAME: &str = "extender";

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Asks a policy in another process, by Volcano's or kube-scheduler's HTTP verbs.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Remote::open(opening)),
};

struct Remote {
    extender: Option<Arc<dyn Extender>>,
    endpoint: Endpoint,
    verbs: BTreeMap<&'static str, Arc<str>>,
    ignorable: bool,
    managed: Vec<String>,
    weight: f64,
    now: Time,
    /// The session could not be told: nothing is asked, everything is refused.
    dead: Option<Refusal>,
    /// Why jobs may not start.
    not_ready: Mutex<FxHashMap<JobId, Refusal>>,
    /// Jobs with a task that the extender would not have where it was put.
    unplaceable: FxHashMap<JobId, Refusal>,
}

impl Remote {
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
            dead: None,
            not_ready: Mutex::default(),
            unplaceable: FxHashMap::default(),
        };
        let told = remote.ask(opening.world, "onSessionOpen", &ExtenderRequest::SessionOpen);
        remote.dead = told.and_then(|told| remote.refusal(told.err()));
        remote
    }

    /// The answer, if the verb is named and somebody may be asked; an error with its verb.
    fn ask(
        &self,
        world: &World,
        verb: &'static str,
        ask: &ExtenderRequest,
    ) -> Option<Result<ExtenderResponse, Failure>> {
        let (path, extender) = (self.verbs.get(verb)?, self.extender.as_ref()?);
        let answer = extender.ask(&self.endpoint, path, world, ask);
        Some(answer.map_err(|text| Failure { verb: path.clone(), text }))
    }

    /// A failure that counts.
    fn refusal(&self, failure: Option<Failure>) -> Option<Refusal> {
        failure.filter(|_| !self.ignorable).map(Failure::refusal)
    }

    fn has(&self, verb: &str) -> bool {
        self.verbs.contains_key(verb)
    }

    /// Whether it manages something that a task requests.
    fn interested(&self, world: &World, task: TaskId) -> bool {
        let requests =
            |name: &String| world.dims.get(name).is_some_and(|dim| world.request_of(task).get(dim) > 0);
        self.managed.is_empty() || self.managed.iter().any(requests)
    }

    fn victims(
        &self,
        world: &World,
        verb: &'static str,
        ask: &ExtenderRequest,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        match self.ask(world, verb, ask)? {
            Ok(ExtenderResponse::Victims(victims)) => {
                let victims: FxHashSet<TaskId> = victims.into_iter().collect();
                Some(of.iter().copied().filter(|task| victims.contains(task)).collect())
            }
            Ok(_) => None,
            Err(_) => (!self.ignorable).then(Vec::new),
        }
    }

    fn evictable(
        &self,
        world: &World,
        verb: &'static str,
        ask: &ExtenderRequest,
        by: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if !self.interested(world, by) || of.is_empty() {
            return None;
        }
        let own = self.victims(world, verb, ask, of);
        let of = own.as_deref().unwrap_or(of);
        self.victims(world, "kube.preempt", &ExtenderRequest::KubePreempt(by, of.to_vec()), of).or(own)
    }

    fn not_ready(&self) -> MutexGuard<'_, FxHashMap<JobId, Refusal>> {
        self.not_ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that failed.
struct Failure {
    verb: Arc<str>,
    text: Arc<str>,
}

impl Failure {
    fn text(&self) -> String {
        format!("extender, {}: {}", self.verb, self.text)
    }

    fn refusal(self) -> Refusal {
        Refusal::Extender { verb: self.verb, text: self.text }
    }
}

impl Plugin for Remote {
    fn ranks_jobs(&self, flag: Option<Flag>) -> bool {
        match flag {
            Some(Flag::Preemptable) => self.has("preemptable") || self.has("kube.preempt"),
            Some(Flag::Reclaimable) => self.has("reclaimable"),
            _ => false,
        }
    }

    fn preemptable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        self.evictable(world, "preemptable", &ExtenderRequest::Preemptable(by, of.to_vec()), by, of)
    }

    fn reclaimable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        self.evictable(world, "reclaimable", &ExtenderRequest::Reclaimable(by, of.to_vec()), by, of)
    }

    fn overused(&self, world: &World, queue: QueueId) -> Option<Refusal> {
        match self.ask(world, "queueOverused", &ExtenderRequest::QueueOverused(queue))? {
            Ok(ExtenderResponse::Flag(true)) => Some(Refusal::Overused {
                plugin: NAME,
                queue: world.queues[queue].name.clone(),
                why: Overuse::Full,
            }),
            Ok(_) => None,
            Err(failure) => self.refusal(Some(failure)),
        }
    }

    fn job_enqueueable(&self, world: &World, job: JobId) -> EnqueueVote {
        if let Some(dead) = &self.dead {
            return EnqueueVote::Reject(dead.clone());
        }
        match self.ask(world, "jobEnqueueable", &ExtenderRequest::JobEnqueueable(job)) {
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

    fn job_enqueued(&mut self, world: &World, job: JobId) {
        let _ = self.ask(world, "jobEnqueued", &ExtenderRequest::JobEnqueued(job));
    }

    fn job_ready(&self, world: &World, job: JobId) -> bool {
        if self.unplaceable.contains_key(&job) {
            return false;
        }
        let refusal = match self.ask(world, "jobReady", &ExtenderRequest::JobReady(job)) {
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

    fn job_pipelined(&self, _: &World, job: JobId) -> Vote {
        if self.unplaceable.contains_key(&job) { Vote::Reject } else { Vote::Abstain }
    }

    fn close(&self, world: &World) {
        let _ = self.ask(world, "onSessionClose", &ExtenderRequest::SessionClose);
    }

    fn listens(&self) -> bool {
        self.has("allocateFunc") || self.has("deallocateFunc")
    }

    fn on_change(&mut self, world: &World, task: TaskId, before: Status) {
        let holds = |status: Status| status.is_allocated() || status == Status::Pipelined;
        let answer = match (holds(before), holds(world.tasks[task].status)) {
            _ if !self.interested(world, task) || !world.tasks[task].is_pod() => return,
            (false, true) => self.ask(world, "allocateFunc", &ExtenderRequest::Allocate(task)),
            (true, false) => self.ask(world, "deallocateFunc", &ExtenderRequest::Deallocate(task)),
            _ => return,
        };
        let failed = answer.and_then(|answer| self.refusal(answer.err()));
        if let (Some(refusal), Some(job)) = (failed, world.tasks[task].job) {
            self.unplaceable.insert(job, refusal);
        }
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        (self.judges_nodes()).then_some(self as &dyn TaskRules)
    }

    fn remote(&self) -> Option<&dyn RemotePolicy> {
        Some(self)
    }
}

impl TaskRules for Remote {
    /// Answers are for one task, and for this session.
    fn scope(&self, world: &World, task: TaskId) -> u64 {
        if !self.interested(world, task) {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.now, task).hash(&mut hasher);
        hasher.finish().max(1)
    }

    fn task_filters(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if self.interested(world, task) {
            self.add_filters(world, task, rules);
        }
    }

    fn task_scorers(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if self.interested(world, task) && self.dead.is_none() {
            self.add_scorers(world, task, rules);
        }
    }
}

impl RemotePolicy for Remote {
    fn judges_victims(&self) -> bool {
        ["preemptable", "reclaimable", "kube.preempt"].iter().any(|verb| self.has(verb))
    }

    fn not_ready(&self, _: &World, job: JobId) -> Option<Refusal> {
        self.unplaceable.get(&job).cloned().or_else(|| Remote::not_ready(self).get(&job).cloned())
    }

    fn binder(&self, world: &World, task: TaskId) -> Option<Arc<Endpoint>> {
        let verb = self.verbs.get("kube.bind")?;
        let url = format!("{}/{verb}", self.endpoint.url).into();
        self.interested(world, task).then(|| Arc::new(Endpoint { url, ..self.endpoint.clone() }))
    }
}

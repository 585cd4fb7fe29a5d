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
//! - Each task is asked for once in a session, about the nodes with room; about all, when there are none.
//!
//! Source: Volcano's extender plugin; kube-scheduler's HTTP extender.
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::conf::{ArgKind, ArgSpec, Args};
use crate::diagnosis::{Refusal, Unfit};
use crate::event::Time;
use crate::extender::{Answer, Ask, Endpoint, Extender};
use crate::id::{JobId, NodeId, QueueId, TaskId};
use crate::plugin::{
    Attribute, NodeFilter, NodeRules, NodeScorer, Opening, Plugin, PluginDef, Values, Verdict, Vote,
};
use crate::world::{Node, Status, World};

const NAME: &str = "extender";

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const fn verb(name: &'static str, doc: &'static str) -> ArgSpec {
    arg(name, ArgKind::Text, "", doc)
}

const ARGS: &[ArgSpec] = &[
    arg("extender.urlPrefix", ArgKind::Text, "", "Where it is, such as `http://127.0.0.1:8888`."),
    arg("extender.httpTimeout", ArgKind::Duration, "1s", "How long an answer may take."),
    arg("extender.ignorable", ArgKind::Bool, "false", "Questions that fail are passed over."),
    arg(
        "extender.managedResources",
        ArgKind::Names,
        "",
        "Only pods that request one of these are asked about; all, when there are none.",
    ),
    verb("extender.onSessionOpenVerb", "Told all that a session begins with."),
    verb("extender.onSessionCloseVerb", "Told that it ends."),
    verb("extender.predicateVerb", "Whether a node will do for a task; one request a node."),
    verb("extender.prioritizeVerb", "Scores of nodes for a task, as they are added."),
    verb("extender.preemptableVerb", "Which tasks may be evicted for one of their queue."),
    verb("extender.reclaimableVerb", "Which tasks may be evicted for one of another queue."),
    verb("extender.queueOverusedVerb", "Whether a queue has all it may have."),
    verb("extender.jobEnqueueableVerb", "Whether a job may be admitted."),
    verb("extender.jobEnqueuedVerb", "Told that it was."),
    verb("extender.jobReadyVerb", "Whether a job may start."),
    verb(
        "extender.allocateFuncVerb",
        "Told that a task was given a node; a failure keeps its job from starting.",
    ),
    verb("extender.deallocateFuncVerb", "Told that it lost it."),
    verb("extender.kube.filterVerb", "kube-scheduler's `filterVerb`."),
    verb("extender.kube.prioritizeVerb", "kube-scheduler's `prioritizeVerb`."),
    verb("extender.kube.preemptVerb", "kube-scheduler's `preemptVerb`."),
    verb("extender.kube.bindVerb", "kube-scheduler's `bindVerb`."),
    arg("extender.kube.weight", ArgKind::Int, "1", "kube-scheduler's `weight`, of `prioritize`."),
    arg(
        "extender.kube.nodeCacheCapable",
        ArgKind::Bool,
        "false",
        "kube-scheduler's `nodeCacheCapable`: names of nodes and UIDs of pods are enough.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Asks a policy in another process, by Volcano's or kube-scheduler's HTTP verbs.",
    args: ARGS,
    open: |opening| Box::new(Remote::open(opening)),
};

/// kube-scheduler's scores of extenders end at 10, its own at 100.
const KUBE_SCORE: f64 = 10.0;

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
    fn open(opening: Opening<'_>) -> Self {
        let args = opening.args;
        let endpoint = Endpoint {
            url: args.text("extender.urlPrefix").unwrap_or_default().trim_end_matches('/').into(),
            timeout_ms: Some(args.duration("extender.httpTimeout", 1_000))
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
        let told = remote.ask(opening.world, "onSessionOpen", &Ask::SessionOpen);
        remote.dead = told.and_then(|told| remote.refusal(told.err()));
        remote
    }

    /// The answer, if the verb is named and somebody may be asked; an error with its verb.
    fn ask(&self, world: &World, verb: &'static str, ask: &Ask) -> Option<Result<Answer, Failure>> {
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

    fn judges_nodes(&self) -> bool {
        let verbs = ["predicate", "prioritize", "kube.filter", "kube.prioritize"];
        self.dead.is_some() || verbs.iter().any(|verb| self.has(verb))
    }

    /// Asks a verb about nodes for a task, and adds a filter that refuses those it refuses, and those that were not asked.
    fn filter(&self, world: &World, verb: &'static str, ask: &Ask, nodes: &[NodeId], rules: &mut NodeRules) {
        let (refused, failed) = match self.ask(world, verb, ask) {
            None | Some(Ok(Answer::Nothing)) => return,
            Some(Ok(Answer::Nodes { refused, failed })) => (refused, failed),
            Some(Ok(other)) => return refuse_all(&unexpected(verb, &other), rules),
            Some(Err(failure)) => {
                if !self.ignorable {
                    refuse_all(&failure.text(), rules);
                }
                return;
            }
        };
        let failed = failed.into_iter().filter(|_| !self.ignorable);
        let name = |node: &NodeId| world.nodes[*node].name.clone();
        let asked: FxHashSet<Arc<str>> = nodes.iter().map(name).collect();
        let reasons = refused.into_iter().chain(failed).map(|(node, why)| (name(&node), why)).collect();
        rules.reads.push((Attribute::Name, Values::All));
        rules.filters.push(Box::new(Judged { asked, reasons }));
    }

    /// Asks a verb for scores of nodes, and adds a scorer with what it says.
    fn score(&self, world: &World, verb: &'static str, ask: &Ask, weight: f64, rules: &mut NodeRules) {
        match self.ask(world, verb, ask) {
            Some(Ok(Answer::Scores(scores))) => {
                let scores =
                    scores.iter().map(|(node, score)| (world.nodes[*node].name.clone(), score * weight));
                rules.reads.push((Attribute::Name, Values::All));
                rules.scorers.push(Box::new(Scored(scores.collect())));
            }
            Some(Err(failure)) if !self.ignorable && verb == "prioritize" => {
                refuse_all(&failure.text(), rules);
            }
            _ => {}
        }
    }

    fn victims(&self, world: &World, verb: &'static str, ask: &Ask, of: &[TaskId]) -> Option<Vec<TaskId>> {
        match self.ask(world, verb, ask)? {
            Ok(Answer::Victims(victims)) => {
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
        ask: &Ask,
        by: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if !self.interested(world, by) || of.is_empty() {
            return None;
        }
        let own = self.victims(world, verb, ask, of);
        let of = own.as_deref().unwrap_or(of);
        self.victims(world, "kube.preempt", &Ask::KubePreempt(by, of.to_vec()), of).or(own)
    }

    fn not_ready(&self) -> MutexGuard<'_, FxHashMap<JobId, Refusal>> {
        self.not_ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse_all(why: &str, rules: &mut NodeRules) {
    rules.filters.push(Box::new(RefuseAll(Unfit::Other(why.into()))));
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

fn unexpected(verb: &str, answer: &Answer) -> String {
    format!("extender, {verb}: the answer {answer:?} is not to the question")
}

/// The verbs that are named, by their short names.
fn verbs(args: &Args) -> BTreeMap<&'static str, Arc<str>> {
    let verb = |spec: &ArgSpec| {
        let short = spec.name.strip_prefix("extender.")?.strip_suffix("Verb")?;
        let path = args.text(spec.name).filter(|path| !path.is_empty())?;
        Some((short, Arc::from(path.trim_start_matches('/'))))
    };
    ARGS.iter().filter_map(verb).collect()
}

/// Nodes that the rules so far let a task on: those with room now or later, or, when there are none, all.
fn candidates(world: &World, task: TaskId, rules: &NodeRules) -> Vec<NodeId> {
    let request = world.request_of(task);
    let passes = |node: &Node| node.exists && rules.filters.iter().all(|filter| filter.check(node).is_ok());
    let all: Vec<NodeId> = world.nodes.iter().filter(|(_, node)| passes(node)).map(|(id, _)| id).collect();
    let has_room = |id: &NodeId| {
        let node = &world.nodes[*id];
        node.fits_later(request) && rules.room_filters.iter().all(|filter| filter.check(node, true).is_ok())
    };
    let with_room: Vec<NodeId> = all.iter().copied().filter(has_room).collect();
    if with_room.is_empty() { all } else { with_room }
}

impl Plugin for Remote {
    fn has_scope(&self) -> bool {
        self.judges_nodes()
    }

    /// Answers are for one task, and for this session.
    fn scope(&self, world: &World, task: TaskId) -> u64 {
        if !self.interested(world, task) {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.now, task).hash(&mut hasher);
        hasher.finish().max(1)
    }

    fn scoped_filters(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if !self.interested(world, task) {
            return;
        }
        if let Some(Refusal::Extender { verb, text }) = &self.dead {
            return refuse_all(&format!("extender, {verb}: {text}"), rules);
        }
        for (verb, ask) in [("predicate", Ask::Predicate as fn(_, _) -> _), ("kube.filter", Ask::KubeFilter)]
        {
            let nodes = if self.has(verb) { candidates(world, task, rules) } else { Vec::new() };
            if !nodes.is_empty() {
                self.filter(world, verb, &ask(task, nodes.clone()), &nodes, rules);
            }
        }
    }

    fn scoped_scorers(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if !self.interested(world, task) || self.dead.is_some() {
            return;
        }
        let asks = [
            ("prioritize", Ask::Prioritize as fn(_, _) -> _, 1.0),
            ("kube.prioritize", Ask::KubePrioritize, KUBE_SCORE * self.weight),
        ];
        for (verb, ask, weight) in asks {
            let nodes = if self.has(verb) { candidates(world, task, rules) } else { Vec::new() };
            // With one node there is nothing to choose.
            if nodes.len() > 1 {
                self.score(world, verb, &ask(task, nodes), weight, rules);
            }
        }
    }

    fn preemptable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        self.evictable(world, "preemptable", &Ask::Preemptable(by, of.to_vec()), by, of)
    }

    fn reclaimable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        self.evictable(world, "reclaimable", &Ask::Reclaimable(by, of.to_vec()), by, of)
    }

    fn overused(&self, world: &World, queue: QueueId) -> Option<Refusal> {
        match self.ask(world, "queueOverused", &Ask::QueueOverused(queue))? {
            Ok(Answer::Flag(true)) => {
                Some(Refusal::Overused { plugin: NAME, queue: world.queues[queue].name.clone() })
            }
            Ok(_) => None,
            Err(failure) => self.refusal(Some(failure)),
        }
    }

    fn job_enqueueable(&self, world: &World, job: JobId) -> Verdict {
        if let Some(dead) = &self.dead {
            return Verdict::Reject(dead.clone());
        }
        match self.ask(world, "jobEnqueueable", &Ask::JobEnqueueable(job)) {
            Some(Ok(Answer::Vote(vote))) if vote > 0 => Verdict::Permit,
            Some(Ok(Answer::Vote(vote))) if vote < 0 => {
                let verb = self.verbs["jobEnqueueable"].clone();
                Verdict::Reject(Refusal::Extender { verb, text: "the job may not be admitted".into() })
            }
            Some(Err(failure)) => self.refusal(Some(failure)).map_or(Verdict::Abstain, Verdict::Reject),
            _ => Verdict::Abstain,
        }
    }

    fn job_enqueued(&mut self, world: &World, job: JobId) {
        let _ = self.ask(world, "jobEnqueued", &Ask::JobEnqueued(job));
    }

    fn job_ready(&self, world: &World, job: JobId) -> bool {
        if self.unplaceable.contains_key(&job) {
            return false;
        }
        let refusal = match self.ask(world, "jobReady", &Ask::JobReady(job)) {
            Some(Ok(Answer::Flag(false))) => {
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

    fn not_ready(&self, _: &World, job: JobId) -> Option<Refusal> {
        self.unplaceable.get(&job).cloned().or_else(|| Remote::not_ready(self).get(&job).cloned())
    }

    fn binder(&self, world: &World, task: TaskId) -> Option<Arc<Endpoint>> {
        let verb = self.verbs.get("kube.bind")?;
        let url = format!("{}/{verb}", self.endpoint.url).into();
        self.interested(world, task).then(|| Arc::new(Endpoint { url, ..self.endpoint.clone() }))
    }

    fn close(&self, world: &World) {
        let _ = self.ask(world, "onSessionClose", &Ask::SessionClose);
    }

    fn listens(&self) -> bool {
        self.has("allocateFunc") || self.has("deallocateFunc")
    }

    fn on_change(&mut self, world: &World, task: TaskId, before: Status) {
        let holds = |status: Status| status.is_allocated() || status == Status::Pipelined;
        let answer = match (holds(before), holds(world.tasks[task].status)) {
            _ if !self.interested(world, task) => return,
            (false, true) => self.ask(world, "allocateFunc", &Ask::Allocate(task)),
            (true, false) => self.ask(world, "deallocateFunc", &Ask::Deallocate(task)),
            _ => return,
        };
        let failed = answer.and_then(|answer| self.refusal(answer.err()));
        if let (Some(refusal), Some(job)) = (failed, world.tasks[task].job) {
            self.unplaceable.insert(job, refusal);
        }
    }
}

/// What was said of each node.
struct Judged {
    asked: FxHashSet<Arc<str>>,
    reasons: FxHashMap<Arc<str>, Arc<str>>,
}

impl NodeFilter for Judged {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        match self.reasons.get(&node.name) {
            Some(why) => Err(Unfit::Other(why.clone())),
            None if !self.asked.contains(&node.name) => {
                Err(Unfit::Other("node(s) had no room when the extender was asked".into()))
            }
            None => Ok(()),
        }
    }
}

struct RefuseAll(Unfit);

impl NodeFilter for RefuseAll {
    fn check(&self, _: &Node) -> Result<(), Unfit> {
        Err(self.0.clone())
    }
}

struct Scored(FxHashMap<Arc<str>, f64>);

impl NodeScorer for Scored {
    fn score(&self, node: &Node) -> f64 {
        self.0.get(&node.name).copied().unwrap_or(0.0)
    }

    fn normalise(&self, _: &mut [f64]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::{Flags, Value};
    use crate::event::NodeInfo;
    use crate::testing::{args, group, job_of, member, node, queue_of, running, task_of, world_of};

    type Reply = Result<Answer, Arc<str>>;

    /// Answers with a function, and keeps what was asked.
    struct Scripted<F> {
        answer: F,
        asked: Mutex<Vec<(String, Ask)>>,
    }

    impl<F> std::fmt::Debug for Scripted<F> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Scripted")
        }
    }

    impl<F: Fn(&World, &Ask) -> Reply + Send + Sync> Extender for Scripted<F> {
        fn ask(&self, endpoint: &Endpoint, verb: &str, world: &World, ask: &Ask) -> Reply {
            assert_eq!((&*endpoint.url, endpoint.timeout_ms), ("http://x", 200));
            self.asked.lock().unwrap().push((verb.to_owned(), ask.clone()));
            (self.answer)(world, ask)
        }
    }

    fn scripted<F>(answer: F) -> Arc<Scripted<F>>
    where
        F: Fn(&World, &Ask) -> Reply + Send + Sync + 'static,
    {
        Arc::new(Scripted { answer, asked: Mutex::default() })
    }

    fn open<E: Extender + 'static>(world: &World, extender: Arc<E>, list: &[(&str, Value)]) -> Remote {
        let extender: Arc<dyn Extender> = extender;
        let mut all: Vec<(&str, Value)> =
            vec![("extender.urlPrefix", "http://x/".into()), ("extender.httpTimeout", "200ms".into())];
        all.extend(list.iter().cloned());
        let (args, flags) = (args(&all), Flags::default());
        Remote::open(Opening {
            world,
            args: &args,
            flags,
            now: Time(5),
            before: None,
            extender: Some(&extender),
        })
    }

    fn on() -> Value {
        true.into()
    }

    fn broken(_: &World, _: &Ask) -> Reply {
        Err("connection refused".into())
    }

    /// Three nodes, of which `c` is full, and the pod `g-0` of queue `default`.
    fn world() -> World {
        let mut world = world_of::<NodeInfo>([]);
        for name in ["a", "b", "c"] {
            world.apply(node(name, "cpu=4 nvidia.com/gpu=4").into());
        }
        world.apply(group("g", 1).into());
        world.apply(member("g", 0, "cpu=1").into());
        world.apply(running(member("full", 0, "cpu=4"), "c").into());
        world
    }

    fn node_of(world: &World, name: &str) -> NodeId {
        world.node_named(name).unwrap()
    }

    /// The nodes for `g-0`, with their scores, or why one will not do.
    fn judged(world: &World, plugin: &Remote) -> String {
        let (task, mut rules) = (task_of(world, "g-0"), NodeRules::default());
        plugin.scoped_filters(world, task, &mut rules);
        plugin.scoped_scorers(world, task, &mut rules);
        let of = |node: &Node| {
            let unfit = rules.filters.iter().find_map(|filter| filter.check(node).err());
            let score = rules.scorers.iter().fold(0.0, |sum, scorer| sum + scorer.score(node));
            unfit.map_or_else(
                || format!("{}={score}", node.name),
                |unfit| format!("{}: {}", node.name, unfit.text(&world.dims)),
            )
        };
        world.nodes.iter().map(|(_, node)| of(node)).collect::<Vec<_>>().join(", ")
    }

    const UNASKED: &str = "node(s) had no room when the extender was asked";

    #[test]
    fn nodes_are_judged_by_both_kinds_of_verbs() {
        let world = world();
        let refuse = |world: &World, ask: &Ask| match ask {
            Ask::Predicate(..) | Ask::KubeFilter(..) => Ok(Answer::Nodes {
                refused: vec![(node_of(world, "a"), "too old".into())],
                failed: vec![(node_of(world, "b"), "no answer".into())],
            }),
            _ => Ok(Answer::Scores(vec![(node_of(world, "b"), 3.0)])),
        };
        for verb in ["extender.predicateVerb", "extender.kube.filterVerb"] {
            let extender = scripted(refuse);
            let told = judged(&world, &open(&world, extender.clone(), &[(verb, "judge".into())]));
            assert_eq!(told, format!("a: too old, b: no answer, c: {UNASKED}"), "{verb}");
            let asked = extender.asked.lock().unwrap().clone();
            let nodes = vec![node_of(&world, "a"), node_of(&world, "b")];
            let task = task_of(&world, "g-0");
            assert!(matches!(&asked[..], [(path, Ask::Predicate(by, of) | Ask::KubeFilter(by, of))]
                if path == "judge" && *by == task && *of == nodes));
            let ignorable = [(verb, "judge".into()), ("extender.ignorable", on())];
            let told = judged(&world, &open(&world, scripted(refuse), &ignorable));
            assert_eq!(told, format!("a: too old, b=0, c: {UNASKED}"), "{verb}");
        }
        let scores = |list: &[(&str, Value)]| judged(&world, &open(&world, scripted(refuse), list));
        assert_eq!(scores(&[("extender.prioritizeVerb", "p".into())]), "a=0, b=3, c=0");
        let kube = ("extender.kube.prioritizeVerb", Value::from("p"));
        assert_eq!(scores(std::slice::from_ref(&kube)), "a=0, b=30, c=0");
        assert_eq!(scores(&[kube, ("extender.kube.weight", 5.into())]), "a=0, b=150, c=0");
    }

    #[test]
    fn nothing_is_asked_that_is_not_named_or_not_managed() {
        let world = world();
        let extender = scripted(broken);
        let plugin = open(&world, extender.clone(), &[]);
        assert!(!plugin.has_scope() && !plugin.listens());
        assert_eq!(judged(&world, &plugin), "a=0, b=0, c=0");
        let managed = |names: &str| {
            let list = [("extender.predicateVerb", "p".into()), ("extender.managedResources", names.into())];
            let plugin = open(&world, extender.clone(), &list);
            (plugin.scope(&world, task_of(&world, "g-0")) != 0, judged(&world, &plugin))
        };
        assert_eq!(managed("nvidia.com/gpu, amd.com/gpu"), (false, "a=0, b=0, c=0".to_owned()));
        assert!(extender.asked.lock().unwrap().is_empty());
        assert!(managed("nvidia.com/gpu,cpu").0);
        assert_eq!(extender.asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_failure_counts_as_no_unless_it_may_be_ignored() {
        let world = world();
        let (job, queue) = (job_of(&world, "g"), queue_of(&world, "default"));
        let verbs = ["predicate", "prioritize", "preemptable", "queueOverused", "jobEnqueueable", "jobReady"];
        let names: Vec<String> = verbs.iter().map(|verb| format!("extender.{verb}Verb")).collect();
        let named = |ignorable: bool| {
            let mut list: Vec<(&str, Value)> =
                names.iter().zip(verbs).map(|(name, verb)| (name.as_str(), verb.into())).collect();
            list.push(("extender.ignorable", ignorable.into()));
            open(&world, scripted(broken), &list)
        };
        let text = |refusal: Refusal| refusal.text(&world.dims);
        let (by, of) = (task_of(&world, "g-0"), [task_of(&world, "full-0")]);
        let strict = named(false);
        let why = "extender, predicate: connection refused";
        assert_eq!(judged(&world, &strict), format!("a: {why}, b: {why}, c: {why}"));
        assert_eq!(strict.preemptable(&world, by, &of), Some(vec![]));
        assert_eq!(
            strict.overused(&world, queue).map(text),
            Some("extender, queueOverused: connection refused".into())
        );
        assert!(matches!(strict.job_enqueueable(&world, job), Verdict::Reject(_)));
        assert!(!strict.job_ready(&world, job));
        let why = Plugin::not_ready(&strict, &world, job).map(text);
        assert_eq!(why, Some("extender, jobReady: connection refused".into()));
        let lenient = named(true);
        assert_eq!(judged(&world, &lenient), "a=0, b=0, c=0");
        assert_eq!((lenient.preemptable(&world, by, &of), lenient.overused(&world, queue)), (None, None));
        assert_eq!(lenient.job_enqueueable(&world, job), Verdict::Abstain);
        assert!(lenient.job_ready(&world, job));
        let prioritize = open(&world, scripted(broken), &[("extender.prioritizeVerb", "p".into())]);
        assert!(judged(&world, &prioritize).starts_with("a: extender, p: connection refused"));
        let kube = open(&world, scripted(broken), &[("extender.kube.prioritizeVerb", "p".into())]);
        assert_eq!(judged(&world, &kube), "a=0, b=0, c=0", "as kube-scheduler");
    }

    #[test]
    fn a_session_that_could_not_be_told_places_nothing() {
        let world = world();
        let list =
            [("extender.onSessionOpenVerb", "open".into()), ("extender.onSessionCloseVerb", "close".into())];
        let extender = scripted(broken);
        let plugin = open(&world, extender.clone(), &list);
        assert!(plugin.has_scope());
        assert!(judged(&world, &plugin).starts_with("a: extender, open: connection refused"));
        assert!(matches!(plugin.job_enqueueable(&world, job_of(&world, "g")), Verdict::Reject(_)));
        plugin.close(&world);
        let asked = extender.asked.lock().unwrap().clone();
        assert_eq!(asked, [("open".to_owned(), Ask::SessionOpen), ("close".to_owned(), Ask::SessionClose)]);
    }

    #[test]
    fn answers_on_jobs_and_queues_are_taken() {
        let world = world();
        let (job, queue) = (job_of(&world, "g"), queue_of(&world, "default"));
        let with = |verb: &str, answer: Answer| {
            let list = [(verb, "v".into())];
            open(&world, scripted(move |_: &World, _: &Ask| Ok(answer.clone())), &list)
        };
        for (vote, permit, reject) in [(1, true, false), (0, false, false), (-1, false, true)] {
            let verdict =
                with("extender.jobEnqueueableVerb", Answer::Vote(vote)).job_enqueueable(&world, job);
            assert_eq!(
                (verdict == Verdict::Permit, matches!(verdict, Verdict::Reject(_))),
                (permit, reject),
                "{vote}"
            );
        }
        for flag in [true, false] {
            assert_eq!(with("extender.jobReadyVerb", Answer::Flag(flag)).job_ready(&world, job), flag);
            let overused = with("extender.queueOverusedVerb", Answer::Flag(flag)).overused(&world, queue);
            assert_eq!(overused.is_some(), flag);
        }
        let victim = task_of(&world, "full-0");
        let by = task_of(&world, "g-0");
        for verb in ["extender.preemptableVerb", "extender.kube.preemptVerb"] {
            let plugin = with(verb, Answer::Victims(vec![victim]));
            assert_eq!(plugin.preemptable(&world, by, &[by, victim]), Some(vec![victim]), "{verb}");
            assert_eq!(with(verb, Answer::Nothing).preemptable(&world, by, &[victim]), None, "{verb}");
        }
        let plugin = with("extender.reclaimableVerb", Answer::Victims(vec![]));
        assert_eq!(plugin.reclaimable(&world, by, &[victim]), Some(vec![]));
    }

    #[test]
    fn a_task_that_may_not_be_allocated_keeps_its_job_from_starting() {
        let mut world = world();
        let list =
            [("extender.allocateFuncVerb", "take".into()), ("extender.deallocateFuncVerb", "give".into())];
        let extender = scripted(|_: &World, ask: &Ask| match ask {
            Ask::Allocate(_) => Err("no card left".into()),
            _ => Ok(Answer::Nothing),
        });
        let mut plugin = open(&world, extender.clone(), &list);
        let (task, job) = (task_of(&world, "g-0"), job_of(&world, "g"));
        assert!(plugin.job_ready(&world, job));
        for (status, before) in [
            (Status::Allocated, Status::Pending),
            (Status::Pipelined, Status::Allocated),
            (Status::Pending, Status::Pipelined),
        ] {
            let node = (status != Status::Pending).then(|| node_of(&world, "a"));
            world.place(task, status, node);
            plugin.on_change(&world, task, before);
        }
        let verbs: Vec<String> =
            extender.asked.lock().unwrap().iter().map(|(verb, _)| verb.clone()).collect();
        assert_eq!(verbs, ["take", "give"]);
        assert!(!plugin.job_ready(&world, job));
        assert_eq!(plugin.job_pipelined(&world, job), Vote::Reject);
        let why = Plugin::not_ready(&plugin, &world, job).unwrap().text(&world.dims);
        assert_eq!(why, "extender, take: no card left");
    }

    #[test]
    fn pods_it_manages_are_bound_by_it() {
        let world = world();
        let list = [("extender.kube.bindVerb", "bind".into()), ("extender.managedResources", "cpu".into())];
        let binder = |list: &[(&str, Value)]| {
            open(&world, scripted(broken), list).binder(&world, task_of(&world, "g-0"))
        };
        assert_eq!(&*binder(&list).unwrap().url, "http://x/bind");
        assert_eq!(binder(&[list[0].clone(), ("extender.managedResources", "fpga".into())]), None);
        assert_eq!(binder(&[]), None);
    }
}

//! The plugin with a scripted extender.
use super::*;
use phalanx_cluster::Node;
use phalanx_cluster::event::NodeInfo;
use phalanx_cluster::id::NodeId;
use phalanx_framework::conf::{Flags, Value};
use phalanx_framework::testing::{
    args, cluster_of, eviction, group, job_of, member, node, queue_of, running, task_of,
};

type Reply = Result<ExtenderResponse, Arc<str>>;

/// Answers with a function, and records the requests.
struct ScriptedExtender<F> {
    answer: F,
    asked: Mutex<Vec<(String, ExtenderRequest)>>,
}

impl<F> std::fmt::Debug for ScriptedExtender<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptedExtender")
    }
}

impl<F: Fn(&Cluster, &ExtenderRequest) -> Reply + Send + Sync> Extender for ScriptedExtender<F> {
    fn ask(&self, endpoint: &Endpoint, verb: &str, cluster: &Cluster, ask: &ExtenderRequest) -> Reply {
        assert_eq!((&*endpoint.url, endpoint.timeout_ms), ("http://x", 200));
        self.asked.lock().unwrap().push((verb.to_owned(), ask.clone()));
        (self.answer)(cluster, ask)
    }
}

fn scripted<F>(answer: F) -> Arc<ScriptedExtender<F>>
where
    F: Fn(&Cluster, &ExtenderRequest) -> Reply + Send + Sync + 'static,
{
    Arc::new(ScriptedExtender { answer, asked: Mutex::default() })
}

fn open<E: Extender + 'static>(
    cluster: &Cluster,
    extender: Arc<E>,
    list: &[(&str, Value)],
) -> ExtenderPlugin {
    let extender: Arc<dyn Extender> = extender;
    let mut all: Vec<(&str, Value)> =
        vec![("extender.urlPrefix", "http://x/".into()), ("extender.httpTimeout", "200ms".into())];
    all.extend(list.iter().cloned());
    let (args, flags) = (args(&all), Flags::default());
    ExtenderPlugin::open(PluginContext {
        cluster,
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

fn broken(_: &Cluster, _: &ExtenderRequest) -> Reply {
    Err("connection refused".into())
}

/// Three nodes, of which `c` is full, and the pod `g-0` of queue `default`.
fn cluster() -> Cluster {
    let mut cluster = cluster_of::<NodeInfo>([]);
    for name in ["a", "b", "c"] {
        cluster.apply(node(name, "cpu=4 nvidia.com/gpu=4").into());
    }
    cluster.apply(group("g", 1).into());
    cluster.apply(member("g", 0, "cpu=1").into());
    cluster.apply(running(member("full", 0, "cpu=4"), "c").into());
    cluster
}

fn node_of(cluster: &Cluster, name: &str) -> NodeId {
    cluster.node_named(name).unwrap()
}

/// The nodes for `g-0`, each with its score or why it is refused.
fn judged(cluster: &Cluster, plugin: &ExtenderPlugin) -> String {
    let (task, mut rules) = (task_of(cluster, "g-0"), NodeRules::default());
    plugin.task_filters(cluster, task, &mut rules);
    plugin.task_scorers(cluster, task, &mut rules);
    let of = |node: &Node| {
        let unfit = rules.filters.iter().find_map(|filter| filter(node).err());
        let score = rules.scorers.iter().fold(0.0, |sum, scorer| sum + scorer.score(node));
        unfit.map_or_else(
            || format!("{}={score}", node.name),
            |unfit| format!("{}: {}", node.name, unfit.text(&cluster.dims)),
        )
    };
    cluster.nodes.iter().map(|(_, node)| of(node)).collect::<Vec<_>>().join(", ")
}

const UNASKED: &str = "node(s) had no room when the extender was asked";

#[test]
fn volcano_and_kube_verbs_filter_and_score_nodes() {
    let cluster = cluster();
    let refuse = |cluster: &Cluster, ask: &ExtenderRequest| match ask {
        ExtenderRequest::Predicate(..) | ExtenderRequest::KubeFilter(..) => Ok(ExtenderResponse::Nodes {
            refused: vec![(node_of(cluster, "a"), "too old".into())],
            failed: vec![(node_of(cluster, "b"), "no answer".into())],
        }),
        _ => Ok(ExtenderResponse::Scores(vec![(node_of(cluster, "b"), 3.0)])),
    };
    for verb in ["extender.predicateVerb", "extender.kube.filterVerb"] {
        let extender = scripted(refuse);
        let told = judged(&cluster, &open(&cluster, extender.clone(), &[(verb, "judge".into())]));
        assert_eq!(told, format!("a: too old, b: no answer, c: {UNASKED}"), "{verb}");
        let asked = extender.asked.lock().unwrap().clone();
        let nodes = vec![node_of(&cluster, "a"), node_of(&cluster, "b")];
        let task = task_of(&cluster, "g-0");
        assert!(
            matches!(&asked[..], [(path, ExtenderRequest::Predicate(by, of) | ExtenderRequest::KubeFilter(by, of))]
            if path == "judge" && *by == task && *of == nodes)
        );
        let ignorable = [(verb, "judge".into()), ("extender.ignorable", on())];
        let told = judged(&cluster, &open(&cluster, scripted(refuse), &ignorable));
        assert_eq!(told, format!("a: too old, b=0, c: {UNASKED}"), "{verb}");
    }
    let scores = |list: &[(&str, Value)]| judged(&cluster, &open(&cluster, scripted(refuse), list));
    assert_eq!(scores(&[("extender.prioritizeVerb", "p".into())]), "a=0, b=3, c=0");
    let kube = ("extender.kube.prioritizeVerb", Value::from("p"));
    assert_eq!(scores(std::slice::from_ref(&kube)), "a=0, b=30, c=0");
    assert_eq!(scores(&[kube, ("extender.kube.weight", 5.into())]), "a=0, b=150, c=0");
}

#[test]
fn verbs_without_a_path_and_unmanaged_pods_cause_no_requests() {
    let cluster = cluster();
    let extender = scripted(broken);
    let plugin = open(&cluster, extender.clone(), &[]);
    assert!(plugin.task_rules().is_none() && !plugin.listens());
    assert_eq!(judged(&cluster, &plugin), "a=0, b=0, c=0");
    let managed = |names: &str| {
        let list = [("extender.predicateVerb", "p".into()), ("extender.managedResources", names.into())];
        let plugin = open(&cluster, extender.clone(), &list);
        (plugin.scope(&cluster, task_of(&cluster, "g-0")) != 0, judged(&cluster, &plugin))
    };
    assert_eq!(managed("nvidia.com/gpu, amd.com/gpu"), (false, "a=0, b=0, c=0".to_owned()));
    assert!(extender.asked.lock().unwrap().is_empty());
    assert!(managed("nvidia.com/gpu,cpu").0);
    assert_eq!(extender.asked.lock().unwrap().len(), 1);
}

#[test]
fn a_failed_request_counts_as_a_refusal_unless_ignorable() {
    let cluster = cluster();
    let (job, queue) = (job_of(&cluster, "g"), queue_of(&cluster, "default"));
    let verbs = ["predicate", "prioritize", "preemptable", "queueOverused", "jobEnqueueable", "jobReady"];
    let names: Vec<String> = verbs.iter().map(|verb| format!("extender.{verb}Verb")).collect();
    let named = |ignorable: bool| {
        let mut list: Vec<(&str, Value)> =
            names.iter().zip(verbs).map(|(name, verb)| (name.as_str(), verb.into())).collect();
        list.push(("extender.ignorable", ignorable.into()));
        open(&cluster, scripted(broken), &list)
    };
    let text = |refusal: Refusal| refusal.text(&cluster.dims);
    let (by, of) = (task_of(&cluster, "g-0"), [task_of(&cluster, "full-0")]);
    let strict = named(false);
    let why = "extender, predicate: connection refused";
    assert_eq!(judged(&cluster, &strict), format!("a: {why}, b: {why}, c: {why}"));
    assert_eq!(strict.evictable(&cluster, eviction(EvictionKind::Preempt, by), &of), Some(vec![]));
    assert_eq!(
        strict.overused(&cluster, queue).map(text),
        Some("extender, queueOverused: connection refused".into())
    );
    assert!(matches!(strict.job_enqueueable(&cluster, job), EnqueueVote::Reject(_)));
    assert!(!strict.job_ready(&cluster, job));
    let why = RemotePolicy::not_ready(&strict, &cluster, job).map(text);
    assert_eq!(why, Some("extender, jobReady: connection refused".into()));
    let lenient = named(true);
    assert_eq!(judged(&cluster, &lenient), "a=0, b=0, c=0");
    assert_eq!(
        (
            lenient.evictable(&cluster, eviction(EvictionKind::Preempt, by), &of),
            lenient.overused(&cluster, queue)
        ),
        (None, None)
    );
    assert_eq!(lenient.job_enqueueable(&cluster, job), EnqueueVote::Abstain);
    assert!(lenient.job_ready(&cluster, job));
    let prioritize = open(&cluster, scripted(broken), &[("extender.prioritizeVerb", "p".into())]);
    assert!(judged(&cluster, &prioritize).starts_with("a: extender, p: connection refused"));
    let kube = open(&cluster, scripted(broken), &[("extender.kube.prioritizeVerb", "p".into())]);
    assert_eq!(judged(&cluster, &kube), "a=0, b=0, c=0", "as kube-scheduler");
}

#[test]
fn a_failed_session_open_refuses_nodes_and_jobs() {
    let cluster = cluster();
    let list =
        [("extender.onSessionOpenVerb", "open".into()), ("extender.onSessionCloseVerb", "close".into())];
    let extender = scripted(broken);
    let plugin = open(&cluster, extender.clone(), &list);
    assert!(plugin.task_rules().is_some());
    assert!(judged(&cluster, &plugin).starts_with("a: extender, open: connection refused"));
    assert!(matches!(plugin.job_enqueueable(&cluster, job_of(&cluster, "g")), EnqueueVote::Reject(_)));
    plugin.close(&cluster);
    let asked = extender.asked.lock().unwrap().clone();
    assert_eq!(
        asked,
        [
            ("open".to_owned(), ExtenderRequest::SessionOpen),
            ("close".to_owned(), ExtenderRequest::SessionClose)
        ]
    );
}

#[test]
fn answers_about_jobs_and_queues_become_verdicts() {
    let cluster = cluster();
    let (job, queue) = (job_of(&cluster, "g"), queue_of(&cluster, "default"));
    let with = |verb: &str, answer: ExtenderResponse| {
        let list = [(verb, "v".into())];
        open(&cluster, scripted(move |_: &Cluster, _: &ExtenderRequest| Ok(answer.clone())), &list)
    };
    for (vote, permit, reject) in [(1, true, false), (0, false, false), (-1, false, true)] {
        let verdict =
            with("extender.jobEnqueueableVerb", ExtenderResponse::Vote(vote)).job_enqueueable(&cluster, job);
        assert_eq!(
            (verdict == EnqueueVote::Permit, matches!(verdict, EnqueueVote::Reject(_))),
            (permit, reject),
            "{vote}"
        );
    }
    for flag in [true, false] {
        assert_eq!(
            with("extender.jobReadyVerb", ExtenderResponse::Flag(flag)).job_ready(&cluster, job),
            flag
        );
        let overused =
            with("extender.queueOverusedVerb", ExtenderResponse::Flag(flag)).overused(&cluster, queue);
        assert_eq!(overused.is_some(), flag);
    }
    let victim = task_of(&cluster, "full-0");
    let by = task_of(&cluster, "g-0");
    for verb in ["extender.preemptableVerb", "extender.kube.preemptVerb"] {
        let plugin = with(verb, ExtenderResponse::Victims(vec![victim]));
        assert_eq!(
            plugin.evictable(&cluster, eviction(EvictionKind::Preempt, by), &[by, victim]),
            Some(vec![victim]),
            "{verb}"
        );
        assert_eq!(
            with(verb, ExtenderResponse::Nothing).evictable(
                &cluster,
                eviction(EvictionKind::Preempt, by),
                &[victim]
            ),
            None,
            "{verb}"
        );
    }
    let plugin = with("extender.reclaimableVerb", ExtenderResponse::Victims(vec![]));
    assert_eq!(plugin.evictable(&cluster, eviction(EvictionKind::Reclaim, by), &[victim]), Some(vec![]));
}

#[test]
fn a_failed_allocate_keeps_the_job_from_starting() {
    let mut cluster = cluster();
    let list = [("extender.allocateFuncVerb", "take".into()), ("extender.deallocateFuncVerb", "give".into())];
    let extender = scripted(|_: &Cluster, ask: &ExtenderRequest| match ask {
        ExtenderRequest::Allocate(_) => Err("no card left".into()),
        _ => Ok(ExtenderResponse::Nothing),
    });
    let mut plugin = open(&cluster, extender.clone(), &list);
    let (task, job) = (task_of(&cluster, "g-0"), job_of(&cluster, "g"));
    assert!(plugin.job_ready(&cluster, job));
    for (status, before) in [
        (Status::Allocated, Status::Pending),
        (Status::Pipelined, Status::Allocated),
        (Status::Pending, Status::Pipelined),
    ] {
        let node = (status != Status::Pending).then(|| node_of(&cluster, "a"));
        cluster.place(task, status, node);
        plugin.on_change(&cluster, task, before);
    }
    let verbs: Vec<String> = extender.asked.lock().unwrap().iter().map(|(verb, _)| verb.clone()).collect();
    assert_eq!(verbs, ["take", "give"]);
    assert!(!plugin.job_ready(&cluster, job));
    assert_eq!(plugin.job_pipelined(&cluster, job), Vote::Reject);
    let why = RemotePolicy::not_ready(&plugin, &cluster, job).unwrap().text(&cluster.dims);
    assert_eq!(why, "extender, take: no card left");
}

#[test]
fn managed_pods_are_bound_by_the_extender() {
    let cluster = cluster();
    let list = [("extender.kube.bindVerb", "bind".into()), ("extender.managedResources", "cpu".into())];
    let binder = |list: &[(&str, Value)]| {
        open(&cluster, scripted(broken), list).binder(&cluster, task_of(&cluster, "g-0"))
    };
    assert_eq!(&*binder(&list).unwrap().url, "http://x/bind");
    assert_eq!(binder(&[list[0].clone(), ("extender.managedResources", "fpga".into())]), None);
    assert_eq!(binder(&[]), None);
}

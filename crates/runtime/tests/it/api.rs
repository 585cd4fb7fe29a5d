//! The scheduler's own API: who is answered, and what.
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use phalanx_cluster::event::{Key, PodInfo, PodPhase, PodRef, RunTime, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::{Cause, Decision};
use phalanx_explain::{Explanation, PodState, Question, Subject};
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use phalanx_framework::testing::{group, member, node, queue, running};
use phalanx_runtime::api::client::{Asker, Place, SchedulerClient};
use phalanx_runtime::api::{Api, Evictions};
use phalanx_runtime::engine::{Input, Taken};
use phalanx_runtime::journal::Journal;
use phalanx_runtime::server::{Pages, serve};
use phalanx_sim::{AddedNodes, Changes, Comparison, WhatIf};
use serde_json::{Value, json};

use crate::fake::{Answer, Log, Seen, api as api_server, fails, ok};

/// Knows the tokens `ann` and `root`; ann may list PodGroups in namespace `ns`, root in all, and root may get all
/// paths.
fn reviews() -> (Client, Log) {
    api_server(|seen: &Seen| -> Answer {
        let mut body = seen.body.clone();
        let spec = &seen.body["spec"];
        body["status"] = match seen.path.as_str() {
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                let name = spec["token"].as_str().unwrap();
                let known = ["ann", "root"].contains(&name);
                json!({"authenticated": known, "user": {"username": name}})
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let of = &spec["resourceAttributes"];
                if of.is_null() {
                    assert_eq!(spec["nonResourceAttributes"]["verb"], "get");
                } else {
                    assert_eq!(
                        (&of["group"], &of["verb"]),
                        (&json!("scheduling.volcano.sh"), &json!("list"))
                    );
                }
                json!({"allowed": spec["user"] == "root" || of["namespace"] == "ns"})
            }
            path => return fails(404, path),
        };
        ok(body)
    })
}

/// Gang `old` of another namespace holds the node that gang `ns/new` waits for; one of its pods has ended.
fn cluster() -> (Cluster, Scheduler) {
    let plugin = |name: &&str| PluginConf { name: (*name).into(), ..PluginConf::default() };
    let plugins = ["priority", "gang", "predicates", "nodeorder"].iter().map(plugin).collect();
    let conf = Conf { actions: ["allocate".into()].into(), tiers: vec![Tier { plugins }], ..Conf::default() };
    let (mut cluster, mut scheduler) = (Cluster::new(ClusterOptions::default()), Scheduler::new(conf, 0));
    cluster.apply(queue("default", 1).into());
    cluster.apply(node("n1", "cpu=4").into());
    let mut old = group("old", 1);
    old.key = Key::new("other", "old");
    cluster.apply(old.into());
    let mut pod = running(member("old", 0, "cpu=3"), "n1");
    Arc::make_mut(&mut pod.pod).namespace = "other".into();
    let mut ended = PodInfo { run_time: Some(RunTime::Ran(300)), ..pod.clone() };
    ended.pod = Arc::new(PodRef { name: "old-1".into(), uid: "old-1".into(), ..(*ended.pod).clone() });
    ended.life.phase = PodPhase::Succeeded;
    cluster.apply(pod.into());
    cluster.apply(ended.into());
    cluster.apply(group("new", 1).into());
    cluster.apply(member("new", 0, "cpu=2").into());
    scheduler.run(&mut cluster, Time(1_000));
    (cluster, scheduler)
}

/// The API on a scheduling thread that only answers, and how many snapshots it made.
struct Running {
    api: Arc<Api>,
    evictions: Arc<Evictions>,
    snapshots: Arc<AtomicU32>,
    log: Log,
}

fn start(leads: bool) -> Running {
    let (client, log) = reviews();
    let (engine, inputs) = channel();
    let (evictions, snapshots) = (Arc::<Evictions>::default(), Arc::<AtomicU32>::default());
    let made = Arc::clone(&snapshots);
    std::thread::spawn(move || {
        let (cluster, scheduler) = cluster();
        while let Ok(input) = inputs.recv() {
            match input {
                Input::Snapshot(tell) => {
                    made.fetch_add(1, Ordering::Relaxed);
                    let snapshot = || Arc::new(scheduler.snapshot(&cluster));
                    let _ = tell.send(leads.then(|| Taken { snapshot: snapshot(), took: Duration::ZERO }));
                }
                Input::Journal(wanted, tell) => Journal::default().hand_out(wanted, tell),
                _ => {}
            }
        }
    });
    let api = Arc::new(Api::new(client, engine, Arc::clone(&evictions)));
    Running { api, evictions, snapshots, log }
}

impl Running {
    /// The status and the body of the answer to a GET.
    async fn get(&self, path: &str, token: Option<&str>) -> (u16, Value) {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let answer = self.api.respond(&Method::GET, &path.parse().unwrap(), &headers).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn what_a_journal_tells_is_for_who_may_list_podgroups_of_the_namespace() {
    let running = start(true);
    for (path, expected, said) in [
        ("pod/other/old-0", 403, "ann may not list podgroups.scheduling.volcano.sh in namespace other"),
        ("pod/ns/new-0", 404, "this scheduler writes no journal: start it with --journal-path"),
        ("pod/new-0", 404, "no such path: /api/v1/past/pod/new-0"),
    ] {
        let (status, body) = running.get(&format!("/api/v1/past/{path}"), Some("ann")).await;
        assert_eq!((status, body["message"].as_str()), (expected, Some(said)), "{path}");
    }
}

#[tokio::test]
async fn who_may_list_podgroups_is_answered_and_nobody_else() {
    let running = start(true);
    for (path, token, expected, said) in [
        ("/api/v1/explain/podgroup/ns/new", None, 401, "a bearer token is needed"),
        ("/api/v1/explain/podgroup/ns/new", Some("eve"), 401, "the API server does not know this token"),
        ("/api/v1/explain/podgroup/ns/new", Some("ann"), 200, ""),
        (
            "/api/v1/explain/podgroup/other/old",
            Some("ann"),
            403,
            "ann may not list podgroups.scheduling.volcano.sh in namespace other",
        ),
        (
            "/api/v1/explain/podgroup/other/none",
            Some("ann"),
            403,
            "ann may not list podgroups.scheduling.volcano.sh in namespace other",
        ),
        ("/api/v1/explain/podgroup/other/old", Some("root"), 200, ""),
        (
            "/api/v1/explain/podgroup/ns/none",
            Some("ann"),
            404,
            "PodGroup ns/none is not known to the scheduler",
        ),
        (
            "/api/v1/top",
            Some("ann"),
            403,
            "ann may not list podgroups.scheduling.volcano.sh in all namespaces",
        ),
        ("/api/v1/top?namespace=ns", Some("ann"), 200, ""),
        ("/api/v1/top", Some("root"), 200, ""),
        ("/api/v1/view", None, 401, "a bearer token is needed"),
        (
            "/api/v1/view",
            Some("ann"),
            403,
            "ann may not list podgroups.scheduling.volcano.sh in all namespaces",
        ),
        ("/api/v1/secrets", Some("root"), 404, "no such path: /api/v1/secrets"),
        ("/debug/capture", None, 401, "a bearer token is needed"),
        (
            "/debug/capture",
            Some("ann"),
            403,
            "ann may not get the path /debug/capture, which nonResourceURLs of a ClusterRole allow",
        ),
        (
            "/debug/capture",
            Some("root"),
            404,
            "this scheduler does not record what its cycles read: start it with --journal-path and --journal-inputs",
        ),
        (
            "/debug/pprof/profile",
            Some("root"),
            404,
            "no profiles are made: start the scheduler with --profiling",
        ),
    ] {
        let (status, body) = running.get(path, token).await;
        assert_eq!(status, expected, "{path} {token:?}: {body}");
        assert_eq!(body["message"].as_str().unwrap_or_default(), said, "{path} {token:?}");
    }
}

#[tokio::test]
async fn names_of_jobs_of_other_namespaces_are_for_who_may_list_them() {
    let running = start(true);
    let holders = async |token| {
        let (status, body) = running.get("/api/v1/explain/podgroup/ns/new", Some(token)).await;
        assert_eq!(status, 200, "{body}");
        let told: Explanation = serde_json::from_value(body).unwrap();
        let job = &told.jobs[0];
        let of = &job.why.holders[0];
        let names: Vec<String> =
            of.jobs.iter().map(|held| format!("{} {}", held.name, held.amount)).collect();
        let helps: Vec<String> = job.remedies.found.iter().map(ToString::to_string).collect();
        (of.resource.clone(), names, of.others, helps)
    };
    let nodes = "with 1 more node like n1".to_owned();
    let finished = "once PodGroup other/old has finished".to_owned();
    let root = ("cpu".to_owned(), vec!["other/old 3".to_owned()], 0, vec![finished, nodes.clone()]);
    assert_eq!(holders("root").await, root);
    assert_eq!(holders("ann").await, ("cpu".to_owned(), vec![], 1, vec![nodes]));
}

#[tokio::test]
async fn requests_that_come_together_share_a_snapshot() {
    let (running, begin) = (start(true), Instant::now());
    for _ in 0..5 {
        assert_eq!(running.get("/api/v1/top", Some("root")).await.0, 200);
    }
    let made = running.snapshots.load(Ordering::Relaxed);
    let (asked, passed) = (running.log.lock().unwrap().len() as u64, begin.elapsed().as_secs());
    assert!(u64::from(made) <= 1 + passed, "{made} snapshots in {passed} s");
    assert!(asked <= 2 * (1 + passed / 10), "the API server was asked {asked} times in {passed} s");
}

#[tokio::test]
async fn a_replica_that_does_not_lead_says_so() {
    let running = start(false);
    let (status, body) = running.get("/api/v1/top", Some("root")).await;
    assert_eq!(status, 503, "{body}");
    assert!(body["message"].as_str().unwrap().starts_with("this replica does not lead"), "{body}");
}

#[tokio::test]
async fn an_evicted_pod_is_explained_by_the_client_when_it_is_gone() {
    let running = start(true);
    let pod = PodRef { namespace: "ns".into(), name: "gone".into(), uid: "u".into() };
    let cause =
        Cause { action: "preempt", by: Some(Key::new("ns", "new")), reason: "preempted by ns/new".into() };
    let evict = Decision::Evict { pod: Arc::new(pod), group: None, cause: Arc::new(cause) };
    running.evictions.decided(&[evict], Timestamp::from_second(0).unwrap());
    let pages = Pages { api: Some(Arc::clone(&running.api)), ..Pages::default() };
    let address = serve("--api-address", "127.0.0.1:0", pages).await.unwrap();
    let client = client_of(address, "ann").await;
    let question = Question { subject: Subject::Pod, namespace: "ns".into(), name: "gone".into() };
    let told = client.explain(&question).await.unwrap();
    assert_eq!(told.pod.as_ref().unwrap().state, PodState::Gone);
    let text = "Pod ns/gone: does not exist any more\nEvicted\n  1970-01-01T00:00:00Z ns/gone: preempted by ns/new (preempt)\n";
    assert_eq!(told.to_string(), text);
    let refused = client_of(address, "eve").await;
    let error = refused.explain(&question).await.unwrap_err().to_string();
    assert_eq!(error, "the API server does not know this token");
}

/// A client that asks over a connection with a token.
async fn client_of(address: SocketAddr, token: &str) -> SchedulerClient {
    let asker = Asker { token: Some(token), ..Asker::default() };
    SchedulerClient::of(&Place::Url(format!("http://{address}")), asker).await.unwrap()
}

/// The answers of a client that asks over a connection.
async fn asked(running: &Running, token: &str, question: &WhatIf) -> Result<Comparison, String> {
    let pages = Pages { api: Some(Arc::clone(&running.api)), ..Pages::default() };
    let address = serve("--api-address", "127.0.0.1:0", pages).await.unwrap();
    let client = client_of(address, token).await;
    client.what_if(question).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn what_a_change_would_do_is_told_and_nothing_is_done() {
    let running = start(true);
    let added = AddedNodes { like: "n1".into(), count: 1 };
    let more = WhatIf { nodes: Changes { added: vec![added], ..Changes::default() }, ..WhatIf::default() };
    for _ in 0..2 {
        let told = asked(&running, "root", &more).await.unwrap();
        let of = &told.pod_groups["ns/new"];
        assert_eq!((of.before.placed, of.after.placed), (0, 1), "{told:?}");
        assert_eq!(of.after.nodes.keys().collect::<Vec<_>>(), ["n1-added-1"]);
    }
    let gang = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: small}\nspec: {minMember: 1}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: small-0, annotations: {scheduling.k8s.io/group-name: small}}\n\
         spec: {schedulerName: volcano, containers: [{name: main, resources: {requests: {cpu: 1}}}]}\n";
    let fits = WhatIf { with: vec![("new.yaml".into(), gang.into())], ..WhatIf::default() };
    let told = asked(&running, "root", &fits).await.unwrap();
    assert_eq!(told.pod_groups["default/small"].after.placed, 1, "{told:?}");
    assert_eq!(told.pod_groups.len(), 1, "{told:?}");
    let start = told.expected_starts["ns/new"].to_string();
    assert!(
        start.ends_with("if PodGroup other/old runs 5m, the mean of 1 finished pod of other/old"),
        "{start}"
    );
}

#[tokio::test]
async fn a_change_that_cannot_be_tried_is_refused_in_one_line() {
    let running = start(true);
    let drain = |node: &str| WhatIf {
        nodes: Changes { drained: vec![node.into()], ..Changes::default() },
        ..WhatIf::default()
    };
    let with = |text: String| WhatIf { with: vec![("new.yaml".into(), text)], ..WhatIf::default() };
    for (token, question, expected) in [
        ("ann", drain("n1"), "ann may not list podgroups.scheduling.volcano.sh in all namespaces"),
        ("root", drain("n9"), "there is no node n9"),
        ("root", with("kind: Pod".into()), "new.yaml:1"),
        ("root", with("#".repeat(2 << 20)), "the question is cut short, or larger than 1048576 bytes"),
        (
            "root",
            WhatIf { new_conf: Some("actions: \"none\"".into()), ..WhatIf::default() },
            "scheduler.conf:1",
        ),
    ] {
        let told = asked(&running, token, &question).await.unwrap_err();
        assert!(told.starts_with(expected), "{told}");
    }
}

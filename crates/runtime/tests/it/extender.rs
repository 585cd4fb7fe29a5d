//! Extenders on the loopback interface: their requests, and the effect of their answers on a cycle.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::report::Report;
use phalanx_framework::extender::{Extender, ExtenderRecorder, ExtenderReplay};
use phalanx_runtime::extender::{Clients, HttpExtender, LONGEST};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::fake::{api, fails, ok};
use crate::loopback::{Answer, Asked, Loopback};

/// The events of these manifests.
fn events() -> Vec<Event> {
    let mut interner = phalanx_cache::Interner::default();
    let names = phalanx_cache::Names::default();
    let mut events = Vec::new();
    let queue: phalanx_api::v1beta1::Queue =
        phalanx_cache::decode(&json!({"metadata": {"name": "default"}})).unwrap();
    events.push(Event::from(phalanx_cache::queue(&queue, &mut interner)));
    for name in ["n1", "n2", "n3"] {
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/card": "2"});
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}});
        let node: phalanx_cache::slim::Node = phalanx_cache::decode(&node).unwrap();
        events.push(Event::from(phalanx_cache::node(&node, &mut interner).unwrap()));
    }
    let group = json!({
        "metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 1, "minResources": {"cpu": "1"}},
    });
    let group: phalanx_api::v1beta1::PodGroup = phalanx_cache::decode(&group).unwrap();
    events.push(Event::from(phalanx_cache::pod_group(&group, &names, &mut interner)));
    let requests = json!({"cpu": "1", "example.com/card": "1"});
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", "labels": {"app": "x"},
            "annotations": {"scheduling.k8s.io/group-name": "g"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": requests}}]},
    });
    let pod: phalanx_cache::slim::Pod = phalanx_cache::decode(&pod).unwrap();
    events.push(Event::from(phalanx_cache::pod(&pod, &names, &mut interner).unwrap()));
    events
}

/// A cycle with the extender plugin beside gang, and what it reports.
fn cycle(arguments: &str, extender: Arc<dyn Extender>) -> (Vec<Decision>, Report) {
    let conf = format!(
        "actions: enqueue, allocate, backfill\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: extender\n    arguments: {{{arguments}}}\n"
    );
    let parsed = parse(&conf, &Known::builtin());
    assert_eq!(parsed.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{conf}");
    let mut scheduler = Scheduler::new(parsed.conf.unwrap(), 7);
    scheduler.set_extender(extender);
    let mut cluster = Cluster::new(ClusterOptions::default());
    for event in events() {
        cluster.apply(event);
    }
    let outcome = scheduler.run(&mut cluster, Time(1_000));
    assert_eq!(cluster.check(), Vec::<String>::new());
    (outcome.decisions, scheduler.report(&cluster))
}

fn http(runtime: &Runtime) -> Arc<dyn Extender> {
    Arc::new(HttpExtender::new(runtime.handle().clone(), Clients::default(), Arc::default()))
}

/// The node of the pod or the reason why it waits, and the requests.
fn outcome(server: &Loopback, arguments: &str) -> (Result<String, String>, Vec<Asked>) {
    let runtime = Runtime::new().unwrap();
    let (decisions, report) =
        cycle(&format!("extender.urlPrefix: '{}/v1/', {arguments}", server.url), http(&runtime));
    let bound = decisions.iter().find_map(|decision| match decision {
        Decision::Bind { pods, .. } => Some(pods[0].node.to_string()),
        _ => None,
    });
    (bound.ok_or_else(|| report.groups[0].reasons.join("; ")), server.log())
}

fn node_of(asked: &Asked) -> String {
    asked.body["node"]["Name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn volcano_verbs_are_sent_for_one_node_and_for_all_nodes() {
    let server = Loopback::new(|asked| match asked.target.as_str() {
        "/v1/predicate" if node_of(asked) == "n1" => Some((200, json!({"status": "", "code": 0}))),
        "/v1/predicate" if node_of(asked) == "n2" => Some((200, json!({"status": null}))),
        "/v1/predicate" => Some((200, json!({"status": "card is broken", "code": 2}))),
        "/v1/prioritize" => Some((200, json!({"nodeScore": {"n1": 1, "n2": 2.5}}))),
        _ => Some((404, json!({}))),
    });
    let verbs = "extender.predicateVerb: predicate, extender.prioritizeVerb: prioritize";
    let (bound, mut log) = outcome(&server, verbs);
    assert_eq!(bound, Ok("n2".to_owned()));
    log.sort_by_key(|asked| (asked.target.clone(), node_of(asked)));
    let asked: Vec<String> = log.iter().map(|asked| format!("{} {}", asked.target, node_of(asked))).collect();
    assert_eq!(asked, ["/v1/predicate n1", "/v1/predicate n2", "/v1/predicate n3", "/v1/prioritize "]);
    let task = &log[0].body["task"];
    assert_eq!((&task["UID"], &task["Job"], &task["Status"]), (&json!("uid-p"), &json!("ns/g"), &json!(1)));
    assert_eq!(task["Resreq"]["MilliCPU"], 1000);
    assert_eq!(task["Resreq"]["ScalarResources"]["example.com/card"], 1000);
    assert_eq!(task["Pod"]["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(task["Pod"]["spec"]["containers"][0]["resources"]["limits"], json!({"example.com/card": "1"}));
    assert_eq!(log[0].body["node"]["Idle"]["Memory"], 8_589_934_592_u64);
    assert_eq!(log[0].body["node"]["Node"]["status"]["allocatable"]["cpu"], "4");
    let ranked: Vec<&Value> =
        log[3].body["nodes"].as_array().unwrap().iter().map(|node| &node["Name"]).collect();
    assert_eq!(ranked, ["n1", "n2"], "those that passed");
}

#[test]
fn kubernetes_verbs_are_sent_once_for_all_nodes() {
    let answer = |asked: &Asked| -> Answer {
        Some((
            200,
            match asked.target.as_str() {
                "/v1/filter" => json!({
                    "NodeNames": ["n1", "n3"], "FailedNodes": {"n2": "no card"}, "Error": "",
                }),
                _ => json!([{"Host": "n1", "Score": 2}, {"Host": "n3", "Score": 7}]),
            },
        ))
    };
    let server = Loopback::new(answer);
    let verbs = "extender.kube.filterVerb: filter, extender.kube.prioritizeVerb: prioritize";
    let (bound, log) = outcome(&server, &format!("{verbs}, extender.kube.nodeCacheCapable: true"));
    assert_eq!(bound, Ok("n3".to_owned()));
    assert_eq!(
        log.iter().map(|asked| asked.target.as_str()).collect::<Vec<_>>(),
        ["/v1/filter", "/v1/prioritize"]
    );
    assert_eq!(
        (&log[0].body["Nodes"], &log[0].body["NodeNames"]),
        (&Value::Null, &json!(["n1", "n2", "n3"]))
    );
    assert_eq!(log[0].body["Pod"]["metadata"]["uid"], "uid-p");
    let server = Loopback::new(answer);
    let (_, log) = outcome(&server, verbs);
    assert_eq!(log[0].body["Nodes"]["items"][2]["metadata"]["name"], "n3");
    assert_eq!(log[0].body["NodeNames"], Value::Null);
}

#[test]
fn a_pod_that_the_extender_refuses_on_all_nodes_has_its_reason() {
    let server = Loopback::new(|_| {
        Some((200, json!({"nodes": {"items": []}, "failedNodes": {"n1": "no card", "n2": "no card"}})))
    });
    let (waits, _) = outcome(&server, "extender.kube.filterVerb: filter");
    let why = waits.unwrap_err();
    assert!(why.contains("2 no card, ") || why.contains("1 refused by an extender, 2 no card"), "{why}");
}

#[test]
fn pods_wait_for_a_failing_extender_unless_it_is_ignorable() {
    for (answer, problem) in [
        (Some((500, json!({}))), "status 500"),
        (Some((200, json!({"Error": "out of cards"}))), "out of cards"),
        (None, "no answer within 200ms"),
    ] {
        let server = Loopback::new(move |_| answer.clone());
        let verbs = "extender.kube.filterVerb: filter, extender.httpTimeout: 200ms";
        let begun = Instant::now();
        let (waits, _) = outcome(&server, verbs);
        let why = waits.unwrap_err();
        assert!(why.contains("extender, filter: ") && why.contains(problem), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(10), "the cycle goes on");
        let (bound, _) = outcome(&server, &format!("{verbs}, extender.ignorable: true"));
        assert!(bound.is_ok(), "{bound:?}");
    }
    let nobody = "extender.kube.filterVerb: filter, extender.ignorable: false";
    let server = Loopback::new(|_| None);
    let url = server.url.clone();
    drop(server);
    let runtime = Runtime::new().unwrap();
    let (decisions, _) = cycle(&format!("extender.urlPrefix: '{url}', {nobody}"), http(&runtime));
    assert!(!decisions.iter().any(|decision| matches!(decision, Decision::Bind { .. })));
}

#[test]
fn pods_without_managed_resources_are_not_sent_to_the_extender() {
    let server = Loopback::new(|_| Some((500, json!({}))));
    let managed = |names: &str| {
        outcome(&server, &format!("extender.kube.filterVerb: filter, extender.managedResources: {names}"))
    };
    let (bound, log) = managed("[example.com/other]");
    assert!(bound.is_ok() && log.is_empty(), "{bound:?}");
    let (waits, log) = managed("[example.com/card]");
    assert!(waits.is_err() && log.len() == 1);
}

#[test]
fn jobs_queues_and_sessions_are_sent_to_the_extender() {
    let server = Loopback::new(|asked| {
        Some((
            200,
            match asked.target.as_str() {
                "/v1/enqueueable" => json!({"status": 1}),
                "/v1/ready" => json!({"status": true}),
                "/v1/overused" => json!({"overused": false}),
                _ => json!({}),
            },
        ))
    });
    let verbs = "extender.onSessionOpenVerb: open, extender.onSessionCloseVerb: close, \
        extender.jobEnqueueableVerb: enqueueable, extender.jobEnqueuedVerb: enqueued, \
        extender.queueOverusedVerb: overused, extender.jobReadyVerb: ready, extender.allocateFuncVerb: allocate";
    let (bound, log) = outcome(&server, verbs);
    assert!(bound.is_ok(), "{bound:?}");
    let mut targets: Vec<&str> = log.iter().map(|asked| asked.target.trim_start_matches("/v1/")).collect();
    targets.dedup();
    assert_eq!(targets[..3], ["open", "enqueueable", "enqueued"]);
    assert_eq!(targets.last(), Some(&"close"));
    for verb in ["overused", "allocate", "ready"] {
        assert!(targets.contains(&verb), "{verb} in {targets:?}");
    }
    let session = &log[0].body;
    assert_eq!(session["NodeList"], json!(["n1", "n2", "n3"]));
    assert_eq!(session["Jobs"]["ns/g"]["Queue"], "default");
    assert_eq!(session["Queues"]["default"]["Queue"]["status"]["state"], "Open");
    let server = Loopback::new(|_| Some((200, json!({"status": -1}))));
    let (waits, _) = outcome(&server, "extender.jobEnqueueableVerb: enqueueable");
    assert_eq!(waits, Err("extender, enqueueable: the job may not be admitted".to_owned()));
}

/// Each question may wait for a minute, and there are several; here the cycle waits 0.3 s for all of them instead of 30.
#[test]
fn a_cycle_does_not_wait_for_ever_for_an_extender_that_does_not_answer() {
    let server = Loopback::new(|_| None);
    let verbs = "extender.queueOverusedVerb: overused, extender.jobEnqueueableVerb: enqueueable, \
        extender.predicateVerb: predicate, extender.ignorable: true";
    let arguments = format!("extender.urlPrefix: '{}', extender.httpTimeout: 1m, {verbs}", server.url);
    let runtime = Runtime::new().unwrap();
    let extender = HttpExtender::new(runtime.handle().clone(), Clients::default(), Arc::default());
    let started = Instant::now();
    let (decisions, _) = cycle(&arguments, Arc::new(extender.with_limit(Duration::from_millis(300))));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(LONGEST, Duration::from_secs(30));
    assert!(decisions.iter().any(|decision| matches!(decision, Decision::Bind { .. })), "{decisions:?}");
}

#[test]
fn a_cycle_with_recorded_answers_decides_the_same() {
    let server = Loopback::new(|_| {
        Some((200, json!({"NodeNames": ["n2"], "FailedNodes": {"n1": "no card", "n3": "no card"}})))
    });
    let arguments = format!("extender.urlPrefix: '{}', extender.kube.filterVerb: filter", server.url);
    let runtime = Runtime::new().unwrap();
    let recorder = Arc::new(ExtenderRecorder::new(http(&runtime)));
    let (decisions, _) = cycle(&arguments, recorder.clone());
    drop(server);
    let answers = recorder.take();
    assert_eq!(answers.len(), 1);
    let (again, _) = cycle(&arguments, Arc::new(ExtenderReplay::new(answers)));
    assert_eq!(again, decisions);
    let (empty, report) = cycle(&arguments, Arc::new(ExtenderReplay::new(Vec::new())));
    assert_ne!(empty, decisions);
    assert!(report.groups[0].reasons[0].contains("the record has no answer to filter"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_binds_instead_of_the_api_server() {
    let server = Loopback::new(|asked| {
        let error = if asked.body["Node"] == "n2" { "no card" } else { "" };
        Some((200, json!({"Error": error})))
    });
    let endpoint = phalanx_framework::extender::Endpoint {
        url: format!("{}/bind", server.url).into(),
        timeout_ms: 1_000,
        knows_objects: true,
    };
    let bind = |name: &str, node: &str| {
        let pod = crate::outbox::pod(name);
        let binding = phalanx_core::decision::Binding {
            pod,
            created: Time(0),
            node: node.into(),
            by: Some(Arc::new(endpoint.clone())),
            prepare: Vec::new(),
        };
        Decision::Bind { job: phalanx_cluster::event::Key::new("ns", name), pods: vec![binding] }
    };
    let (client, log) = api(|seen| match seen.path.as_str() {
        "/api/v1/namespaces/ns/pods/b" => ok(json!({"metadata": {"uid": "uid-b"}, "spec": {}})),
        _ => fails(500, "not asked"),
    });
    let told =
        crate::driver::run(client, vec![bind("a", "n1"), bind("b", "n2")], crate::driver::quick()).await;
    assert!(told.contains(&Event::Bound("uid-a".into())), "{told:?}");
    let failed = |event: &Event| matches!(event, Event::BindFailed(uid, why) if **uid == *"uid-b" && why.message.contains("no card"));
    assert!(told.iter().any(failed), "{told:?}");
    assert!(log.lock().unwrap().iter().all(|seen| !seen.path.ends_with("/binding")));
    let expected = json!({"PodName": "a", "PodNamespace": "ns", "PodUID": "uid-a", "Node": "n1"});
    assert!(server.log().iter().any(|asked| asked.body == expected), "{:?}", server.log());
}

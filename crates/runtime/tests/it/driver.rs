//! The outbox against an API server: its requests, and the meaning of answers.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use kube::Client;
use phalanx_cluster::event::{BindFault, Condition, Event, GroupStatus, Key, Phase, Time};
use phalanx_core::decision::Decision;
use phalanx_runtime::outbox::driver::{Driver, Input};
use phalanx_runtime::outbox::request::Context;
use phalanx_runtime::outbox::{Outbox, OutboxOptions};
use phalanx_runtime::wire::Wire;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fake::{Answer, Log, Seen, api, created, fails, ok};
use crate::outbox::{gang, pod};

/// Sends decisions and waits until all are done; returns the events for the Cluster.
pub(crate) async fn run(client: Client, decisions: Vec<Decision>, options: OutboxOptions) -> Vec<Event> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let driver = Driver {
        outbox: Outbox::new(options),
        context: Context {
            pod_group_status: false,
            controller: "volcano".to_owned(),
            instance: "host".to_owned(),
        },
        limiter: None,
        metrics: Arc::default(),
        clients: phalanx_runtime::extender::Clients::default(),
        clock: phalanx_runtime::clock::Clock::default(),
        report: move |events: Vec<Event>| tell.lock().unwrap().extend(events),
    };
    let (inputs, receive) = mpsc::unbounded_channel();
    inputs.send(Input::Decisions(decisions)).unwrap();
    inputs.send(Input::Finish(Instant::now() + Duration::from_secs(20))).unwrap();
    driver.run(client.into(), receive).await;
    let told = told.lock().unwrap();
    told.clone()
}

pub(crate) fn quick() -> OutboxOptions {
    OutboxOptions {
        deadline: Duration::from_millis(600),
        scheduled_events: false,
        ..OutboxOptions::default()
    }
}

pub(crate) fn asked(log: &Log, method: &Method) -> Vec<Seen> {
    log.lock().unwrap().iter().filter(|seen| seen.method == *method).cloned().collect()
}

#[tokio::test]
async fn a_bind_names_node_and_uid() {
    let (client, log) = api(|_| created());
    let events = run(client, vec![gang("a", 1)], quick()).await;
    assert_eq!(events, [Event::Bound("uid-a-0".into())]);
    let asked = asked(&log, &Method::POST);
    assert_eq!(asked[0].path, "/api/v1/namespaces/ns/pods/a-0/binding");
    assert_eq!(
        asked[0].body,
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": "ns", "name": "a-0", "uid": "uid-a-0"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        })
    );
}

/// Each answer to the bind, the pod afterwards, and the event for the Cluster.
#[tokio::test]
async fn each_answer_to_a_bind_gives_the_right_event() {
    let seen = |uid: &str, node: &str, deleted: bool| {
        let mut pod = json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        ok(pod)
    };
    let conflict = || fails(409, "pod a-0 is already assigned to node");
    let cases: Vec<(&str, Answer, Answer, Option<bool>)> = vec![
        ("created", created(), fails(500, "not asked"), None),
        ("a lost reply: bound where we wanted", conflict(), seen("uid-a-0", "n1", false), None),
        ("bound elsewhere", conflict(), seen("uid-a-0", "n2", false), Some(true)),
        ("another pod of the same name", conflict(), seen("uid-x", "n1", false), Some(true)),
        ("being deleted", conflict(), seen("uid-a-0", "", true), Some(true)),
        ("gone meanwhile", conflict(), fails(404, "not found"), Some(true)),
        ("not bound at all", conflict(), seen("uid-a-0", "", false), Some(false)),
        ("gone", fails(404, "pods \"a-0\" not found"), fails(500, "not asked"), Some(true)),
        ("forbidden", fails(403, "no"), fails(500, "not asked"), Some(false)),
    ];
    for (name, bind, pod, failure) in cases {
        let (client, _) =
            api(move |seen| if seen.method == Method::GET { pod.clone() } else { bind.clone() });
        let events = run(client, vec![gang("a", 1)], quick()).await;
        match (&events[..], failure) {
            ([Event::Bound(_)], None) => {}
            ([Event::BindFailed(_, found)], Some(gone)) => {
                assert_eq!(found.fault == BindFault::Gone, gone, "{name}");
            }
            (events, _) => panic!("{name}: {events:?}"),
        }
    }
}

#[tokio::test]
async fn after_transient_errors_each_write_is_done_once() {
    let count = AtomicUsize::new(0);
    let (client, log) = api(move |_| match count.fetch_add(1, Ordering::Relaxed) % 5 {
        0 => fails(500, "etcdserver: request timed out"),
        1 => fails(429, "too many requests"),
        2 => fails(503, "apiserver is shutting down"),
        _ => created(),
    });
    let options = OutboxOptions { deadline: Duration::from_secs(20), ..quick() };
    let mut events = run(client, vec![gang("a", 40)], options).await;
    events.sort_by_key(|event| format!("{event:?}"));
    events.dedup();
    assert_eq!(events.len(), 40);
    assert!(events.iter().all(|event| matches!(event, Event::Bound(_))), "{events:?}");
    assert!(asked(&log, &Method::POST).len() > 40);
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_transient_error() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let first = seen.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if first {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
            Ok(http::Response::builder().status(201).body(kube::client::Body::from(b"{}".to_vec())).unwrap())
        }
    });
    let events = run(Client::new(service, "default"), vec![gang("a", 1)], quick()).await;
    assert_eq!(events, [Event::Bound("uid-a-0".into())]);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_status_is_a_patch_of_the_fields_that_phalanx_owns() {
    let (client, log) = api(|_| ok(json!({})));
    let condition = Condition {
        kind: "Unschedulable".into(),
        status: true,
        reason: "NotEnoughResources".into(),
        message: "3/3 tasks in gang unschedulable".into(),
        transition: "c1".into(),
        since: Time(1_767_225_600_500),
    };
    let status =
        GroupStatus { phase: Phase::Inqueue, running: 2, conditions: vec![condition], ..Default::default() };
    let decisions = vec![
        Decision::PodGroupStatus {
            group: Key::new("ns", "g"),
            uid: "uid-g".into(),
            version: "".into(),
            status,
        },
        Decision::QueueStatus { queue: "q".into(), allocated: vec![("cpu".into(), "4".to_owned())] },
    ];
    run(client, decisions, quick()).await;
    let mut asked = asked(&log, &Method::PATCH);
    asked.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(asked[0].path, "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g");
    assert_eq!(asked[0].content, "application/merge-patch+json");
    assert_eq!(
        asked[0].body,
        json!({
            "metadata": {"uid": "uid-g"},
            "status": {
                "phase": "Inqueue", "running": 2, "succeeded": null, "failed": null,
                "conditions": [{
                    "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources",
                    "message": "3/3 tasks in gang unschedulable", "transitionID": "c1",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        })
    );
    assert_eq!(asked[1].path, "/apis/scheduling.volcano.sh/v1beta1/queues/q/status");
    assert_eq!(asked[1].body, json!({"status": {"allocated": {"cpu": "4"}}}));
}

#[tokio::test]
async fn a_scheduling_gate_is_removed_by_uid_and_again_after_an_error() {
    const PATH: &str = "/api/v1/namespaces/ns/pods/p";
    let opened = |answer: Answer| {
        let (client, log) = api(move |_| answer.clone());
        async move {
            let events = run(client, vec![Decision::OpenGate { pod: pod("p") }], quick()).await;
            (events, log)
        }
    };
    let (events, log) = opened(ok(json!({}))).await;
    assert_eq!(events, []);
    let patch = asked(&log, &Method::PATCH).remove(0);
    assert_eq!((patch.path.as_str(), patch.content.as_str()), (PATH, "application/merge-patch+json"));
    assert_eq!(patch.body, json!({"metadata": {"uid": "uid-p"}, "spec": {"schedulingGates": null}}));
    for (answer, expected) in [
        (fails(404, "not found"), vec![]),
        (fails(409, "another uid"), vec![]),
        (fails(403, "no"), vec![Event::GateFailed("uid-p".into())]),
        (fails(503, "starting"), vec![Event::GateFailed("uid-p".into())]),
    ] {
        assert_eq!(opened(answer.clone()).await.0, expected, "{answer:?}");
    }
}

/// Queues and HyperNodes belong to no namespace; events about them are in `default`.
#[tokio::test]
async fn a_problem_of_a_queue_or_hyper_node_is_an_event() {
    let message: Arc<str> = "what is wrong".into();
    let (name, uid): (Arc<str>, Arc<str>) = ("q".into(), "uid-q".into());
    let of_queue = Decision::QueueInvalid { queue: name.clone(), uid: uid.clone(), message: message.clone() };
    let of_hyper_node = Decision::HyperNodeInvalid { hyper_node: name, uid, message };
    for (decision, version, kind, reason) in [
        (of_queue, "scheduling.volcano.sh/v1beta1", "Queue", "QueueInvalid"),
        (of_hyper_node, "topology.volcano.sh/v1alpha1", "HyperNode", "Invalid"),
    ] {
        let (client, log) = api(|_| ok(json!({})));
        run(client, vec![decision], quick()).await;
        let event = asked(&log, &Method::POST).remove(0);
        assert_eq!(event.path, "/apis/events.k8s.io/v1/namespaces/default/events");
        let regarding =
            json!({"apiVersion": version, "kind": kind, "namespace": "", "name": "q", "uid": "uid-q"});
        assert_eq!(event.body["regarding"], regarding);
        let said = [&event.body["type"], &event.body["reason"], &event.body["note"]];
        assert_eq!(said, [&json!("Warning"), &json!(reason), &json!("what is wrong")]);
    }
}

/// Short time-outs, and a report channel that is dropped.
fn quick_driver() -> Driver<fn(Vec<Event>)> {
    quick_driver_with(quick())
}

pub(crate) fn quick_driver_with(options: OutboxOptions) -> Driver<fn(Vec<Event>)> {
    Driver {
        outbox: Outbox::new(options),
        context: Context { pod_group_status: true, controller: "volcano".into(), instance: "host".into() },
        limiter: None,
        metrics: Arc::default(),
        clients: phalanx_runtime::extender::Clients::default(),
        clock: phalanx_runtime::clock::Clock::default(),
        report: |_| {},
    }
}

/// Conditions are held back until they stay equal; a nomination is sent at once together with the condition.
#[tokio::test]
async fn the_status_of_a_pod_is_a_strategic_merge_patch_and_its_event_has_the_reason() {
    let (client, log) = api(|_| ok(json!({})));
    let driver = quick_driver();
    let (inputs, receive) = mpsc::unbounded_channel();
    let waits = "0/3 nodes are available: 3 Insufficient cpu.";
    let condition = Condition {
        kind: "Unschedulable".into(),
        status: true,
        message: waits.into(),
        ..Condition::default()
    };
    let status = GroupStatus { phase: Phase::Inqueue, conditions: vec![condition], ..GroupStatus::default() };
    let decisions = vec![
        Decision::PodUnscheduled { pod: pod("p"), reason: "Unschedulable", message: waits.into() },
        Decision::Nominate { pod: pod("p"), node: Some("n2".into()) },
        Decision::PodGroupStatus {
            group: Key::new("ns", "g"),
            uid: "uid-g".into(),
            version: "".into(),
            status,
        },
    ];
    inputs.send(Input::Decisions(decisions)).unwrap();
    let running = tokio::spawn(driver.run(client.into(), receive));
    while log.lock().unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    drop(inputs);
    running.await.unwrap();
    let patches = asked(&log, &Method::PATCH);
    let of_group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g/status";
    assert!(patches.iter().any(|patch| patch.path == of_group), "the subresource of a CRD that has one");
    let patch = patches.iter().find(|patch| patch.path != of_group).unwrap();
    assert_eq!(patch.path, "/api/v1/namespaces/ns/pods/p/status");
    assert_eq!(patch.content, "application/strategic-merge-patch+json");
    assert_eq!(patch.body["metadata"]["uid"], "uid-p");
    assert_eq!(patch.body["status"]["nominatedNodeName"], "n2");
    let condition = &patch.body["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["message"]), (&json!("PodScheduled"), &json!(waits)));
    let events = asked(&log, &Method::POST);
    let mut reasons: Vec<(&Value, &Value)> =
        events.iter().map(|event| (&event.body["reason"], &event.body["regarding"]["kind"])).collect();
    reasons.sort_by_key(|reason| reason.0.to_string());
    assert_eq!(
        reasons,
        [(&json!("FailedScheduling"), &json!("Pod")), (&json!("Unschedulable"), &json!("PodGroup"))]
    );
    assert!(events.iter().all(|event| event.path == "/apis/events.k8s.io/v1/namespaces/ns/events"));
    assert!(events.iter().all(|event| event.body["type"] == "Warning" && event.body["note"] == waits));
}

/// A conflict on a status: with another writer, it is sent again; with another object of the same name, it is not.
#[tokio::test]
async fn a_status_in_conflict_is_written_again_for_the_same_uid_only() {
    let status = GroupStatus { phase: Phase::Inqueue, ..GroupStatus::default() };
    let decision = Decision::PodGroupStatus {
        group: Key::new("ns", "g"),
        uid: "uid-g".into(),
        version: "".into(),
        status,
    };
    for (uid, writes) in [("uid-g", 2), ("uid-of-another", 1)] {
        let refused = AtomicUsize::new(0);
        let (client, log) = api(move |seen| match (&seen.method, refused.load(Ordering::Relaxed)) {
            (&Method::GET, _) => ok(json!({"metadata": {"uid": uid}})),
            (_, 0) => {
                refused.fetch_add(1, Ordering::Relaxed);
                fails(409, "the object has been modified")
            }
            _ => ok(json!({})),
        });
        run(client, vec![decision.clone()], quick()).await;
        assert_eq!(asked(&log, &Method::PATCH).len(), writes, "{uid}");
    }
}

/// A PodGroup as an API server keeps it, which answers patches and hands it out.
#[derive(Default)]
struct Kept {
    version: u32,
    conditions: Vec<Value>,
    conflicts: u32,
}

impl Kept {
    fn answer(&mut self, seen: &Seen) -> Answer {
        let wanted = seen.body["metadata"]["resourceVersion"].as_str();
        let other = wanted.is_some_and(|wanted| wanted.parse() != Ok(self.version));
        if seen.method == Method::PATCH && other {
            self.conflicts += 1;
            return fails(409, "the object has been modified");
        }
        if seen.method == Method::PATCH {
            self.version += 1;
            self.conditions.clone_from(seen.body["status"]["conditions"].as_array().unwrap());
        }
        let metadata = json!({"uid": "uid-g", "resourceVersion": self.version.to_string()});
        ok(json!({"metadata": metadata, "status": {"conditions": self.conditions}}))
    }

    fn kinds(&self) -> Vec<&str> {
        self.conditions.iter().map(|condition| condition["type"].as_str().unwrap()).collect()
    }
}

fn group_status(version: &str, phase: Phase, kinds: &[&str]) -> Decision {
    let condition = |kind: &&str| Condition { kind: (*kind).into(), status: true, ..Condition::default() };
    let conditions = kinds.iter().map(condition).collect();
    let status = GroupStatus { phase, conditions, ..GroupStatus::default() };
    Decision::PodGroupStatus {
        group: Key::new("ns", "g"),
        uid: "uid-g".into(),
        version: version.into(),
        status,
    }
}

/// Sends decisions one after the other, each once the one before is written.
async fn run_all(client: Client, decisions: Vec<Vec<Decision>>) {
    let metrics = Arc::<phalanx_runtime::metrics::Metrics>::default();
    let driver = Driver { metrics: Arc::clone(&metrics), ..quick_driver() };
    let (inputs, receive) = mpsc::unbounded_channel();
    let running = tokio::spawn(driver.run(client.into(), receive));
    for (before, some) in decisions.into_iter().enumerate() {
        inputs.send(Input::Decisions(some)).unwrap();
        while written(&metrics) <= before {
            tokio::task::yield_now().await;
        }
    }
    drop(inputs);
    running.await.unwrap();
}

/// Requests that were answered well.
fn written(metrics: &phalanx_runtime::metrics::Metrics) -> usize {
    let text = metrics.render();
    let counts = text.lines().filter(|line| line.starts_with("phalanx_requests_total"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

fn keeper(kept: Kept) -> (Client, Log, Arc<Mutex<Kept>>) {
    let kept = Arc::new(Mutex::new(kept));
    let shared = Arc::clone(&kept);
    let (client, log) = api(move |seen| shared.lock().unwrap().answer(seen));
    (client, log, kept)
}

/// Another writer wrote between the read and the write.
#[tokio::test]
async fn conditions_of_other_writers_are_not_lost() {
    let foreign = |kind: &str| json!({"type": kind, "status": "True", "extra": 1});
    let before =
        Kept { version: 7, conditions: vec![foreign("Theirs"), foreign("Unschedulable")], conflicts: 0 };
    let (client, log, kept) = keeper(before);
    // Read at version 5, when the object had another condition of the other writer.
    let decision = group_status("5", Phase::Running, &["Old", "Scheduled"]);
    run(client, vec![decision], quick()).await;
    let kept = kept.lock().unwrap();
    assert_eq!(kept.kinds(), ["Theirs", "Scheduled"]);
    assert_eq!(kept.conditions[0], foreign("Theirs"), "whatever fields it has");
    assert_eq!((kept.version, log.lock().unwrap().len()), (8, 3));
}

/// A write of this process is no conflict, although the watch has not shown it yet.
#[tokio::test]
async fn two_writes_in_a_row_are_two_requests() {
    let (client, log, kept) = keeper(Kept { version: 5, ..Kept::default() });
    let driver = quick_driver();
    let (inputs, receive) = mpsc::unbounded_channel();
    let running = tokio::spawn(driver.run(client.into(), receive));
    let steps =
        [("5", Phase::Inqueue), ("5", Phase::Running), ("6", Phase::Unknown), ("8", Phase::Completed)];
    for (written, (version, phase)) in steps.into_iter().enumerate() {
        inputs.send(Input::Decisions(vec![group_status(version, phase, &["Scheduled"])])).unwrap();
        while log.lock().unwrap().len() <= written {
            tokio::task::yield_now().await;
        }
        if written == 1 {
            // The answer to the first is known before the second is sent, the second's before the third.
            assert_eq!(kept.lock().unwrap().version, 7);
        }
    }
    drop(inputs);
    running.await.unwrap();
    let kept = kept.lock().unwrap();
    assert_eq!((kept.version, kept.conflicts), (9, 0));
}

/// Statuses decided before a condition of another writer was read do not overwrite it.
#[tokio::test]
async fn a_merged_status_keeps_conditions_of_other_writers() {
    let before = Kept { version: 7, conditions: vec![json!({"type": "Theirs"})], conflicts: 0 };
    let (client, _, kept) = keeper(before);
    let decided = |phase| group_status("5", phase, &["Scheduled"]);
    let driver =
        || run_all(client.clone(), vec![vec![decided(Phase::Running)], vec![decided(Phase::Unknown)]]);
    driver().await;
    let kept = kept.lock().unwrap();
    assert_eq!((kept.kinds(), kept.version, kept.conflicts), (vec!["Theirs", "Scheduled"], 9, 2));
}

/// The stack that a process uses, over loopback.
#[tokio::test]
async fn the_wire_carries_requests_with_the_configurations_address_and_token() {
    let server =
        crate::loopback::Loopback::new(|_| Some((201, json!({"kind": "Status", "status": "Success"}))));
    let mut config = kube::Config::new(format!("{}/behind", server.url).parse().unwrap());
    config.auth_info.token = Some("secret".to_owned().into());
    for http2 in [false, true] {
        let wire = Wire::new(&config, http2).unwrap();
        let request = http::Request::post("/api/v1/namespaces/ns/pods/p/binding").body("{}".into()).unwrap();
        let (status, _, body) = wire.send(request).await.unwrap();
        assert_eq!(status, 201);
        assert!(body.starts_with(b"{"), "{body:?}");
    }
    let asked = server.log();
    assert_eq!(asked[0].target, "/behind/api/v1/namespaces/ns/pods/p/binding");
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer secret"));
    assert_eq!(asked.len(), 2);
}

//! Watches against a scripted API server: the events for the scheduling thread, whatever happens to the connection.
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::resource::v1::DeviceClass;
use kube::Client;
use kube::client::Body;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::{Guarded, Names, Page, slim};
use phalanx_cluster::event::Event;
use phalanx_runtime::engine::Input;
use phalanx_runtime::faults::Faults;
use phalanx_runtime::outbox::driver;
use phalanx_runtime::watch::{NodeSelector, Sink, Watch, Watched, run};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The answer of the server to the next request.
enum Step {
    /// A list with these objects, at this version.
    List(Vec<Value>, u32),
    /// A watch from this version that delivers these events and then breaks off.
    Watch(u32, Vec<Value>),
    /// An answer with this status.
    Fails(u16),
}

/// Requests that do not follow the script, and what is left of it.
#[derive(Default)]
struct Script {
    steps: VecDeque<Step>,
    wrong: Vec<String>,
}

impl Script {
    fn answer(&mut self, request: &Request<Body>) -> (u16, Vec<Value>, bool) {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let watch = query.contains("watch=true");
        match self.steps.pop_front() {
            Some(Step::List(items, version)) if !watch => {
                let list = json!({"metadata": {"resourceVersion": version.to_string()}, "items": items});
                (200, vec![list], false)
            }
            Some(Step::Watch(version, events)) if query.contains(&format!("resourceVersion={version}")) => {
                (200, events, false)
            }
            Some(Step::Fails(status)) => {
                let body = json!({"kind": "Status", "status": "Failure", "code": status, "message": "no",
                    "reason": if status == 410 { "Expired" } else { "InternalError" }});
                (status, vec![body], false)
            }
            Some(_) => {
                self.wrong.push(query);
                (500, Vec::new(), false)
            }
            // The end of the script: a watch without events.
            None => (200, Vec::new(), true),
        }
    }
}

fn server(steps: Vec<Step>) -> (Client, Arc<Mutex<Script>>) {
    let script = Arc::new(Mutex::new(Script { steps: steps.into(), wrong: Vec::new() }));
    let shared = Arc::clone(&script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, lines, stays) = shared.lock().unwrap().answer(&request);
        let lines =
            lines.into_iter().map(|line| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{line}\n")))));
        let end = if stays { stream::pending().boxed() } else { stream::empty().boxed() };
        let body = StreamBody::new(stream::iter(lines).chain(end));
        async move { Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()) }
    });
    (Client::new(service, "default"), script)
}

struct Watching {
    inputs: mpsc::Receiver<Input>,
    outbox: UnboundedReceiver<driver::Input>,
    script: Arc<Mutex<Script>>,
    _task: tokio::task::JoinHandle<()>,
}

fn start<K: Watched>(steps: Vec<Step>, nodes: &[&str]) -> Watching {
    let (client, script) = server(steps);
    let (sink, inputs, outbox) = sink(nodes);
    Watching { inputs, outbox, script, _task: tokio::spawn(run::<K>(client, sink)) }
}

fn sink(nodes: &[&str]) -> (Sink, mpsc::Receiver<Input>, UnboundedReceiver<driver::Input>) {
    let (engine, inputs) = mpsc::channel();
    let (outbox, outputs) = unbounded_channel();
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let sink = Sink {
        engine,
        outbox,
        owners: unbounded_channel().0,
        metrics: Arc::default(),
        names: Arc::new(Names::default()),
        nodes: Arc::new(NodeSelector::parse(&nodes).unwrap()),
        faults: Arc::new(Faults::new("http://fake")),
    };
    (sink, inputs, outputs)
}

impl Watching {
    /// The next event on an object: its name and the text.
    async fn note(&mut self) -> String {
        match self.outbox.recv().await {
            Some(driver::Input::Note(note)) => format!("{}: {}", note.regarding.key.name, note.text),
            other => panic!("unexpected {other:?}"),
        }
    }

    /// All events until the end of the script, as text.
    async fn story(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            match self.inputs.try_recv() {
                Ok(Input::Events(events)) => told.extend(events.iter().map(describe)),
                Ok(Input::Synced(kind)) => told.push(format!("synced {kind}")),
                Ok(other) => panic!("unexpected {other:?}"),
                Err(_) if self.script.lock().unwrap().steps.is_empty() => {
                    // The last answer is out; what it leads to is on its way through ready tasks only.
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    let Ok(input) = self.inputs.try_recv() else { break };
                    let Input::Events(events) = input else { panic!("unexpected {input:?}") };
                    told.extend(events.iter().map(describe));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            assert!(std::time::Instant::now() < deadline, "the script does not end; so far {told:?}");
        }
        assert!(self.script.lock().unwrap().wrong.is_empty(), "{:?}", self.script.lock().unwrap().wrong);
        told
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Pod(pod) => format!("pod {} {}", pod.pod.name, pod.life.node.as_deref().unwrap_or("-")),
        Event::PodGone(uid) => format!("gone {uid}"),
        Event::Node(node) => format!("node {}", node.name),
        Event::NodeGone(name) => format!("gone {name}"),
        Event::PodGroup(group) => {
            let invalid = if group.invalid.is_some() { " invalid" } else { "" };
            format!("group {} {}{invalid}", group.key.name, group.min_member)
        }
        Event::DeviceClass(class) => format!("class {}", class.name),
        other => format!("{other:?}"),
    }
}

fn pod(name: &str, node: &str, version: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"schedulerName": "volcano", "nodeName": node, "containers": []},
        "status": {"phase": "Pending"},
    })
}

fn event(kind: &str, object: impl Into<Value>) -> Value {
    json!({"type": kind, "object": object.into()})
}

#[tokio::test]
async fn a_broken_watch_goes_on_at_its_last_version() {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "50"}});
    let steps = vec![
        Step::List(vec![pod("a", "", 1)], 5),
        Step::Watch(5, vec![event("ADDED", pod("b", "", 6)), event("MODIFIED", pod("a", "n1", 7))]),
        Step::Watch(7, vec![event("BOOKMARK", bookmark)]),
        Step::Watch(50, vec![event("DELETED", pod("b", "", 51))]),
        Step::Fails(500),
        Step::Fails(503),
        Step::Watch(51, vec![event("ADDED", pod("c", "", 52))]),
    ];
    let told = start::<slim::Pod>(steps, &[]).story().await;
    assert_eq!(told, ["pod a -", "synced pods", "pod b -", "pod a n1", "gone uid-b", "pod c -"]);
}

/// The version may expire in the answer or in the stream: only changes give events.
#[tokio::test]
async fn after_an_expired_version_a_new_list_gives_only_changes() {
    let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    for expired in [vec![Step::Fails(410)], vec![Step::Watch(5, vec![event("ERROR", gone)])]] {
        let mut steps = vec![Step::List(vec![pod("a", "", 1), pod("b", "", 2)], 5)];
        steps.extend(expired);
        steps.push(Step::Fails(500));
        steps.push(Step::List(vec![pod("b", "", 2), pod("c", "n2", 90)], 100));
        steps.push(Step::Watch(100, vec![event("MODIFIED", pod("b", "n1", 101))]));
        let told = start::<slim::Pod>(steps, &[]).story().await;
        assert_eq!(told, ["pod a -", "pod b -", "synced pods", "pod c n2", "gone uid-a", "pod b n1"]);
    }
}

/// Else a cycle between two pages would see new pods beside old ones that are gone.
#[test]
fn a_later_list_is_handed_on_as_a_whole() {
    let (sink, inputs, _outbox) = sink(&[]);
    let mut watch = Watch::<slim::Pod>::new(sink);
    let mut begins = true;
    let mut page = |pods: &[Value], more: &str| {
        if std::mem::replace(&mut begins, more.is_empty()) {
            watch.begin_list();
        }
        let read = |pod: &Value| Guarded::Read(serde_json::from_value(pod.clone()).unwrap());
        let items = pods.iter().map(read).collect();
        watch.page(Page { items, more: more.to_owned(), resource_version: "9".to_owned() }).unwrap();
        inputs
            .try_iter()
            .map(|input| match input {
                Input::Events(events) => events.iter().map(describe).collect(),
                _ => Vec::new(),
            })
            .collect::<Vec<Vec<String>>>()
            .concat()
    };
    assert_eq!(page(&[pod("a", "", 1)], "more"), ["pod a -"], "no cycle runs before the first list is whole");
    assert_eq!(page(&[pod("b", "", 2)], ""), ["pod b -"]);
    assert_eq!(page(&[pod("a", "n1", 3)], "more"), [""; 0]);
    assert_eq!(page(&[pod("c", "", 4)], ""), ["pod a n1", "pod c -", "gone uid-b"]);
}

#[tokio::test]
async fn other_objects_are_kept_when_one_cannot_be_read() {
    let group = |name: &str, members: Value| {
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
            "spec": {"minMember": members},
        })
    };
    let steps = vec![
        Step::List(vec![group("good", json!(2)), group("bad", json!("three"))], 5),
        Step::Watch(
            5,
            vec![event("MODIFIED", group("bad", json!(3))), event("ADDED", group("late", json!(1)))],
        ),
    ];
    let told = start::<PodGroup>(steps, &[]).story().await;
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[0], "group good 2");
    assert!(told[1].starts_with("group bad") && told[1].ends_with("invalid"), "{told:?}");
    assert_eq!(told[2..], ["synced podgroups", "group bad 3", "group late 1"]);
}

/// A DeviceClass of which `opaque.parameters` nests deeper than serde_json reads.
fn deep_class(name: &str, version: u32) -> Value {
    let parameters = (0..130).fold(json!({}), |inner, _| json!({ "a": inner }));
    let mut class = class(name, version);
    class["spec"]["config"] = json!([{"opaque": {"driver": "d", "parameters": parameters}}]);
    class
}

fn class(name: &str, version: u32) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {"selectors": [{"cel": {"expression": "true"}}]},
    })
}

/// The API server takes more levels of JSON than can be read here.
#[tokio::test]
async fn an_object_that_nests_too_deep_loses_no_other() {
    let steps = vec![
        Step::List(vec![class("a", 1), deep_class("deep", 2), class("b", 3)], 5),
        Step::Watch(5, vec![event("ADDED", deep_class("deeper", 6)), event("ADDED", class("c", 7))]),
        Step::Watch(7, vec![event("DELETED", deep_class("deep", 8)), event("ADDED", class("d", 9))]),
    ];
    let mut watching = start::<DeviceClass>(steps, &[]);
    let told = watching.story().await;
    assert_eq!(told, ["class a", "class b", "synced deviceclasses", "class c", "class d"]);
    for name in ["deep", "deeper"] {
        let note = watching.note().await;
        assert!(note.contains(name) && note.contains("levels"), "{note}");
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_loses_no_other() {
    let odd = |name: &str, version: u32| {
        let mut pod = pod(name, "", version);
        pod["spec"]["containers"] = json!("none");
        pod
    };
    let steps = vec![
        Step::List(vec![odd("a", 1), pod("b", "", 2)], 5),
        Step::Watch(5, vec![event("MODIFIED", odd("b", 6)), event("ADDED", pod("c", "", 7))]),
        Step::Watch(7, vec![event("DELETED", odd("b", 8)), event("MODIFIED", pod("a", "", 9))]),
    ];
    let mut watching = start::<slim::Pod>(steps, &[]);
    let told = watching.story().await;
    assert_eq!(told, ["pod b -", "synced pods", "pod c -", "gone uid-b", "pod a -"]);
    for name in ["a", "b"] {
        let note = watching.note().await;
        let expected = "spec.containers: found \"none\", expected a list";
        assert!(note.contains(name) && note.contains(expected), "{note}");
    }
}

#[tokio::test]
async fn nodes_that_the_selector_does_not_match_are_left_out() {
    let node = |name: &str, pool: &str| {
        json!({
            "metadata": {"name": name, "resourceVersion": "1", "labels": {"pool": pool}},
            "status": {"allocatable": {"cpu": "4"}},
        })
    };
    let steps = vec![
        Step::List(vec![node("a", "batch"), node("b", "web"), node("c", "ml")], 5),
        Step::Watch(5, vec![event("MODIFIED", node("a", "web")), event("MODIFIED", node("b", "ml"))]),
    ];
    let told = start::<slim::Node>(steps, &["pool:batch", "pool:ml"]).story().await;
    assert_eq!(told, ["node a", "node c", "synced nodes", "gone a", "node b"]);
}

#[tokio::test]
async fn the_outbox_gets_the_resources_in_the_status_of_a_queue() {
    let queue = json!({
        "metadata": {"name": "q", "uid": "q", "resourceVersion": "1"},
        "spec": {"weight": 1},
        "status": {"allocated": {"cpu": "4", "nvidia.com/gpu": "1"}},
    });
    let mut watching = start::<Queue>(vec![Step::List(vec![queue], 5)], &[]);
    watching.story().await;
    match watching.outbox.recv().await {
        Some(driver::Input::Queue(name, seen)) => {
            assert_eq!(&*name, "q");
            assert!(seen.stateless.is_some());
            assert_eq!(seen.names.iter().map(|name| &**name).collect::<Vec<_>>(), ["cpu", "nvidia.com/gpu"]);
        }
        other => panic!("unexpected {other:?}"),
    }
}

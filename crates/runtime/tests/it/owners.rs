//! Owners of pods with an annotation for a PodGroup that no controller creates.
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use phalanx_cache::{Names, slim};
use phalanx_runtime::owners::{Seen, follow, owner};
use phalanx_runtime::recorder::Note;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A waiting pod owned by a ReplicaSet, with these fields changed.
fn pod(changes: &[(&str, Value)]) -> slim::Pod {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": true});
    let mut pod = json!({
        "metadata": {"name": "web-0", "namespace": "ns", "ownerReferences": [owner]},
        "spec": {"schedulerName": "volcano"},
        "status": {"phase": "Pending"},
    });
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn seen(changes: &[(&str, Value)]) -> Option<Seen> {
    owner(&pod(changes), &Names::default())
}

#[test]
fn owners_are_read_of_pods_that_wait_without_a_pod_group() {
    const OWNER: &str = "/metadata/ownerReferences";
    let Some(Seen::Owner(owner)) = seen(&[]) else { panic!("no owner") };
    assert_eq!((&*owner.kind, &*owner.key.to_string(), &*owner.uid), ("ReplicaSet", "ns/web", "u-web"));
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
    assert!(seen(&[(OWNER, job)]).is_some());
    let volcano = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
    for (what, change) in [
        ("bound", ("/spec/nodeName", json!("n1"))),
        ("another scheduler's", ("/spec/schedulerName", json!("default-scheduler"))),
        ("a member", ("/metadata/annotations", json!({"scheduling.k8s.io/group-name": "g"}))),
        ("it ended", ("/status/phase", json!("Succeeded"))),
        ("no owner", (OWNER, json!([]))),
        ("a kind that the controller does not read", (OWNER, volcano)),
    ] {
        assert_eq!(seen(&[change]), None, "{what}");
    }
}

/// An API server with this answer, and its requests.
fn server(status: u16, answer: Value) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        log.lock().unwrap().push(request.uri().path().to_owned());
        let body = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()) }
    });
    (Client::new(service, "default"), asked)
}

fn metadata(uid: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "web", "namespace": "ns", "uid": uid, "annotations": annotations},
    })
}

/// Lets time pass until no work is due; returns the notes.
async fn told(notes: &mut UnboundedReceiver<Note>) -> Vec<String> {
    tokio::time::sleep(Duration::from_mins(1)).await;
    std::iter::from_fn(|| notes.try_recv().ok()).map(|note| note.text).collect()
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_read_once_and_gets_an_event_for_annotations_without_effect() {
    let minimum = json!({"scheduling.volcano.sh/group-min-member": "8"});
    for (uid, annotations, expected) in
        [("u-web", &minimum, 1), ("u-web", &json!({}), 0), ("another", &minimum, 0)]
    {
        let (client, asked) = server(200, metadata(uid, annotations));
        let ((send, seen_by), (tell, mut notes)) = (unbounded_channel(), unbounded_channel());
        tokio::spawn(follow(client, seen_by, move |note| tell.send(note).unwrap()));
        for _ in 0..8 {
            send.send(seen(&[]).unwrap()).unwrap();
        }
        let told = told(&mut notes).await;
        assert_eq!(*asked.lock().unwrap(), ["/apis/apps/v1/namespaces/ns/replicasets/web"]);
        assert_eq!(told.len(), expected, "{uid} {annotations}: {told:?}");
        let expected = "metadata.annotations.scheduling.volcano.sh/group-min-member: found \"8\", for which a \
                        PodGroup controller makes a PodGroup (phalanx controllers), and none was seen; each pod is a \
                        gang of one";
        assert!(told.iter().all(|text| text.starts_with(expected)), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_owner_is_read_where_a_pod_group_controller_runs() {
    let (client, asked) = server(200, metadata("u-web", &json!({})));
    let (send, seen_by) = unbounded_channel();
    let reader = tokio::spawn(follow(client, seen_by, |_| {}));
    send.send(seen(&[]).unwrap()).unwrap();
    tokio::task::yield_now().await;
    send.send(Seen::Controller).unwrap();
    reader.await.unwrap();
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_that_may_not_be_read_are_skipped() {
    let refusal =
        json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
    let (client, asked) = server(403, refusal);
    let ((send, seen_by), (tell, mut notes)) = (unbounded_channel(), unbounded_channel());
    tokio::spawn(follow(client, seen_by, move |note| tell.send(note).unwrap()));
    for uid in ["a", "b"] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": uid, "uid": uid, "controller": true}]);
        send.send(seen(&[("/metadata/ownerReferences", owner)]).unwrap()).unwrap();
    }
    assert!(told(&mut notes).await.is_empty());
    assert_eq!(asked.lock().unwrap().len(), 2, "what it owns may be granted later");
}

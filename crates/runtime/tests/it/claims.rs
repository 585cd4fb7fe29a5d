//! ResourceClaims are allocated before their pod is bound, against an API server that keeps a claim.
use std::sync::{Arc, Mutex};

use http::Method;
use phalanx_cluster::event::{BindFault, ClaimAllocation, DeviceName, Event, GivenDevice, Key, Time};
use phalanx_core::decision::{Binding, ClaimWrite, Decision, Prepare};
use serde_json::{Value, json};

use crate::driver::{quick, run};
use crate::fake::{Answer, Log, Seen, api, created, fails, ok};
use crate::outbox::pod;

const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c";
const STATUS: &str = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Keeps one claim as an API server does: a write with an old version is refused.
pub(crate) struct Store {
    pub(crate) claim: Value,
    /// The number of writes that fail because of a concurrent write.
    pub(crate) races: u32,
}

impl Store {
    pub(crate) fn answer(&mut self, seen: &Seen) -> Answer {
        match (&seen.method, seen.path.as_str()) {
            (&Method::GET, CLAIM) => ok(self.claim.clone()),
            (&Method::GET, path) if path.ends_with("/deviceclasses/gpu") => ok(
                json!({"spec": {"config": [{"opaque": {"driver": "gpu.x", "parameters": {"mode": "fast"}}}]}}),
            ),
            (&Method::PUT, CLAIM | STATUS) => self.put(seen),
            (&Method::POST, _) => created(),
            _ => fails(404, "not found"),
        }
    }

    fn put(&mut self, seen: &Seen) -> Answer {
        let version = self.claim["metadata"]["resourceVersion"].as_u64().unwrap();
        if self.races > 0 {
            self.races -= 1;
            self.claim["metadata"]["resourceVersion"] = (version + 1).into();
        }
        if seen.body["metadata"]["resourceVersion"] != self.claim["metadata"]["resourceVersion"] {
            return fails(409, "the object has been modified");
        }
        let part = if seen.path == STATUS { "status" } else { "metadata" };
        self.claim[part] = seen.body[part].clone();
        self.claim["metadata"]["resourceVersion"] = (version + 1).into();
        ok(self.claim.clone())
    }
}

pub(crate) fn fresh() -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": 1},
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    })
}

/// Pods of one claim; the bind of the first allocates the claim.
pub(crate) fn decision(pods: usize) -> Decision {
    let device = DeviceName { driver: "gpu.x".into(), pool: "n1".into(), device: "d0".into() };
    let given = ClaimAllocation { devices: vec![GivenDevice { request: "r".into(), device }], nodes: None };
    let given = Arc::new(given);
    let binding = |at: usize| {
        let pod = pod(&format!("p-{at}"));
        let write = ClaimWrite {
            key: Key::new("ns", "c"),
            uid: "u".into(),
            allocation: Some(Arc::clone(&given)),
            pod: Arc::clone(&pod),
        };
        let prepare = vec![Prepare::Claim(Arc::new(write))];
        Binding { pod, created: Time(0), node: "n1".into(), by: None, prepare }
    };
    Decision::Bind { job: Key::new("ns", "p"), pods: (0..pods).map(binding).collect() }
}

async fn bind(claim: Value, races: u32, pods: usize) -> (Vec<Event>, Value, Log) {
    let store = Arc::new(Mutex::new(Store { claim, races }));
    let served = Arc::clone(&store);
    let (client, log) = api(move |seen| served.lock().unwrap().answer(seen));
    let mut events = run(client, vec![decision(pods)], quick()).await;
    events.sort_by_key(|event| format!("{event:?}"));
    let claim = store.lock().unwrap().claim.clone();
    (events, claim, log)
}

fn all_bound(pods: usize) -> Vec<Event> {
    (0..pods).map(|at| Event::Bound(format!("uid-p-{at}").into())).collect()
}

fn reserved_for(claim: &Value) -> Vec<&str> {
    let list = claim["status"]["reservedFor"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut uids: Vec<&str> = list.iter().map(|one| one["uid"].as_str().unwrap()).collect();
    uids.sort_unstable();
    uids
}

#[tokio::test]
async fn finalizer_allocation_and_reservation_of_a_claim_are_written_before_the_bind() {
    let (events, claim, log) = bind(fresh(), 0, 1).await;
    assert_eq!(events, all_bound(1));
    assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        claim["status"]["allocation"],
        json!({"devices": {
            "results": [{"request": "r", "driver": "gpu.x", "pool": "n1", "device": "d0"}],
            "config": [{"opaque": {"driver": "gpu.x", "parameters": {"mode": "fast"}}, "source": "FromClass", "requests": ["r"]}],
        }})
    );
    assert_eq!(reserved_for(&claim), ["uid-p-0"]);
    let writes: Vec<String> = log
        .lock()
        .unwrap()
        .iter()
        .filter(|seen| seen.method != Method::GET)
        .map(|seen| seen.path.clone())
        .collect();
    assert_eq!(writes, [CLAIM, STATUS, "/api/v1/namespaces/ns/pods/p-0/binding"]);
}

#[tokio::test]
async fn pods_that_share_a_claim_keep_their_reservations() {
    let (events, claim, _) = bind(fresh(), 3, 4).await;
    assert_eq!(events, all_bound(4));
    assert_eq!(reserved_for(&claim), ["uid-p-0", "uid-p-1", "uid-p-2", "uid-p-3"]);
}

#[tokio::test]
async fn a_claim_that_was_written_before_is_not_written_again() {
    let (_, claim, _) = bind(fresh(), 0, 1).await;
    let (events, after, log) = bind(claim.clone(), 0, 1).await;
    assert_eq!((events, after), (all_bound(1), claim));
    assert!(log.lock().unwrap().iter().all(|seen| seen.method != Method::PUT));
}

#[tokio::test]
async fn a_pod_whose_claim_got_other_devices_is_not_bound() {
    let mut given = fresh();
    let device = json!({"request": "r", "driver": "gpu.x", "pool": "n1", "device": "d9"});
    given["status"]["allocation"] = json!({"devices": {"results": [device]}});
    let mut other = fresh();
    other["metadata"]["uid"] = "v".into();
    for (claim, races, expected) in [
        (given, 0, "ResourceClaim ns/c: it was given other devices"),
        (other, 0, "ResourceClaim ns/c: it is another one now"),
        (fresh(), u32::MAX, "ResourceClaim ns/c is written by others all the time"),
    ] {
        let (events, _, log) = bind(claim, races, 1).await;
        let [Event::BindFailed(uid, failure)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((&**uid, failure.fault), ("uid-p-0", BindFault::Denied));
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert!(log.lock().unwrap().iter().all(|seen| seen.method != Method::POST), "nothing is bound");
    }
}

//! Objects that the controllers read, in JSON.
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;
use phalanx_api::batch::{CronJob, Job};
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::Guarded;
use phalanx_controllers::podgroup::PlainPod;
use phalanx_runtime::controllers::{
    Answer, Came, Fact, Identity, Machine, MachineOptions, Seen, SeenPod, Watched,
};
use phalanx_runtime::outbox::request::Moment;

use serde_json::json;

use crate::choice;

/// Requests of the controllers that are looked at for each input.
const REQUESTS: usize = 64;

/// An object of the kind that the first byte chooses. The controllers see it, and whatever they ask the API server for is
/// refused.
pub fn controller_object(bytes: &[u8]) {
    let (kind, rest) = choice(bytes);
    KINDS[kind % KINDS.len()](rest);
}

const KINDS: &[fn(&[u8])] = &[
    seen::<Job>,
    seen::<CronJob>,
    seen::<JobFlow>,
    seen::<JobTemplate>,
    seen::<Command>,
    seen::<PodGroup>,
    seen::<Queue>,
    seen::<HyperNode>,
    pod_of_job,
    plain_pod,
];

fn seen<K: DeserializeOwned + Resource + Into<Fact>>(bytes: &[u8]) {
    if let Ok(Guarded::<K>::Read(object)) = serde_json::from_slice(bytes) {
        told([Seen { id: Identity::of(object.meta()), fact: object.into() }]);
    }
}

/// A pod beside a Job that runs, with the UID `u`.
fn pod_of_job(bytes: &[u8]) {
    let Ok(Guarded::<Pod>::Read(pod)) = serde_json::from_slice(bytes) else { return };
    let task = json!({"name": "t", "replicas": 1, "template": {"spec": {"containers": []}}});
    let job = json!({
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": {"tasks": [task], "policies": [{"event": "*", "action": "RestartJob", "timeout": "1s"}]},
        "status": {"state": {"phase": "Running"}},
    });
    let Ok(job) = serde_json::from_value::<Job>(job) else { return };
    let job = Seen { id: Identity::of(&job.metadata), fact: job.into() };
    told([job, Seen { id: Identity::of(&pod.metadata), fact: SeenPod::from(&pod).into() }]);
}

fn plain_pod(bytes: &[u8]) {
    if let Ok(Guarded::<Pod>::Read(pod)) = serde_json::from_slice(bytes) {
        told([Seen { id: Identity::of(&pod.metadata), fact: PlainPod::from(&pod).into() }]);
    }
}

fn told<const N: usize>(all: [Seen; N]) {
    let now = Moment { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let mut machine = Machine::new(MachineOptions::default());
    for kind in Watched::ALL {
        machine.listed(kind, now.instant);
    }
    for seen in all {
        machine.seen(seen, now.instant);
    }
    for _ in 0..REQUESTS {
        let Some(ticket) = machine.next(now) else { break };
        drop(format!("{ticket:?}"));
        machine.done(ticket, Came::Answer(Answer::Refused("no".to_owned())), now);
    }
}

//! Objects that the controllers read, in JSON.
use std::fmt::Debug;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;
use phalanx_api::batch::{CronJob, Job};
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::Guarded;
use phalanx_runtime::controllers::{Answer, Came, Fact, Identity, Machine, MachineOptions, Seen, Watched};
use phalanx_runtime::outbox::request::Moment;

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
];

fn seen<K: DeserializeOwned + Resource + Into<Fact> + Debug>(bytes: &[u8]) {
    let Ok(Guarded::<K>::Read(object)) = serde_json::from_slice(bytes) else { return };
    let now = Moment { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let mut machine = Machine::new(MachineOptions::default());
    for kind in Watched::ALL {
        machine.listed(kind, now.instant);
    }
    let id = Identity::of(object.meta());
    machine.seen(Seen { id, fact: object.into() }, now.instant);
    for _ in 0..REQUESTS {
        let Some(ticket) = machine.next(now) else { break };
        drop(format!("{ticket:?}"));
        machine.done(ticket, Came::Answer(Answer::Refused("no".to_owned())), now);
    }
}

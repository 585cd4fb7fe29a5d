//! The state machine of the controllers on pods without a PodGroup, against answers and events in every order.
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::v1beta1::PodGroup;
use phalanx_cache::decode;
use phalanx_controllers::podgroup::{Owner, OwnerTable, PlainPod};
use phalanx_controllers::{Change, Object};
use phalanx_runtime::controllers::{
    Answer, Ask, Brought, Came, Identity, Machine, MachineOptions, Seen, SeenOwner, Ticket, Watched,
};
use phalanx_runtime::outbox::request::Moment;
use serde_json::{Value, json};

/// Rows of the table that is built in.
const REPLICA_SET: usize = 0;
const JOB: usize = 3;
const JOB_SET: usize = 4;

struct World {
    machine: Machine,
    now: Moment,
    version: u64,
}

impl World {
    /// With complete lists, but for those of owners.
    fn new() -> Self {
        let wall = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = Moment { instant: Instant::now(), wall };
        let mut machine = Machine::new(MachineOptions::default());
        for kind in Watched::ALL {
            machine.listed(kind, now.instant);
        }
        Self { machine, now, version: 100 }
    }

    fn metadata(&mut self, name: &str, below: Option<(&str, &str, &str)>) -> Value {
        self.version += 1;
        let owner = |(api_version, kind, name): (&str, &str, &str)| json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("u-{name}"), "controller": true}]);
        json!({
            "name": name, "namespace": "ns", "uid": format!("u-{name}"), "resourceVersion": self.version.to_string(),
            "ownerReferences": below.map_or(json!([]), owner),
        })
    }

    fn pod(&mut self, name: &str, below: Option<(&str, &str, &str)>, group: Option<&str>) -> Identity {
        let mut metadata = self.metadata(name, below);
        if let Some(group) = group {
            metadata["annotations"] = json!({"scheduling.k8s.io/group-name": group});
        }
        let pod: Pod = decode(&json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        let id = Identity::of(&pod.metadata);
        self.machine.seen(Seen { id: id.clone(), fact: PlainPod::from(&pod).into() }, self.now.instant);
        id
    }

    fn owner(&mut self, row: usize, name: &str, minimum: Option<&str>, below: Option<(&str, &str, &str)>) {
        let mut metadata = self.metadata(name, below);
        if let Some(minimum) = minimum {
            metadata["annotations"] = json!({"scheduling.volcano.sh/group-min-member": minimum});
        }
        let metadata: ObjectMeta = decode(&metadata).unwrap();
        let owner = Owner::of(&metadata, &Value::Null, &OwnerTable::builtin().rows()[row]);
        let seen = Seen { id: Identity::of(&metadata), fact: SeenOwner { row, owner }.into() };
        self.machine.seen(seen, self.now.instant);
    }

    /// Carries out all that is asked for a while later, and says what that was.
    fn settle(&mut self) -> Vec<String> {
        let mut asked = Vec::new();
        self.now.instant += Duration::from_millis(10);
        while let Some(ticket) = self.machine.next(self.now) {
            let Ticket::For(_, Ask::Write(change)) = &ticket else { panic!("{ticket:?}") };
            let brought = match change {
                Change::Create(Object::PodGroup(group)) => {
                    asked.push(format!(
                        "create {} of {}",
                        group.metadata.name.clone().unwrap(),
                        group.spec.min_member
                    ));
                    self.version += 1;
                    let mut group = json!(**group);
                    group["metadata"]["uid"] = json!(format!("u{}", self.version));
                    group["metadata"]["resourceVersion"] = json!(self.version.to_string());
                    let group: PodGroup = decode(&group).unwrap();
                    let id = Identity::of(&group.metadata);
                    Brought::Seen(Box::new(Seen { id, fact: group.into() }))
                }
                Change::Join(pod, group) => {
                    asked.push(format!("{} joins {group}", pod.name));
                    Brought::Nothing
                }
                Change::Delete(target) => {
                    asked.push(format!("delete {}", target.name));
                    Brought::Nothing
                }
                other => panic!("{other:?}"),
            };
            self.machine.done(ticket, Came::Answer(Answer::Done(brought)), self.now);
            if asked.len() > 20 {
                break;
            }
        }
        asked
    }
}

const WEB: Option<(&str, &str, &str)> = Some(("apps/v1", "ReplicaSet", "web"));
const TRAIN: Option<(&str, &str, &str)> = Some(("batch/v1", "Job", "train"));
const SET: Option<(&str, &str, &str)> = Some(("jobset.x-k8s.io/v1alpha2", "JobSet", "set"));

#[test]
fn a_pod_without_a_controller_waits_for_no_owner() {
    let mut world = World::new();
    world.pod("alone", None, None);
    assert_eq!(world.settle()[..2], ["create podgroup-u-alone of 1", "alone joins podgroup-u-alone"]);
}

#[test]
fn a_pod_gets_its_podgroup_when_its_owner_is_seen() {
    let mut world = World::new();
    world.pod("web-0", WEB, None);
    assert!(world.settle().is_empty(), "its owner is not known");
    world.machine.listed(Watched::Owner(JOB), world.now.instant);
    assert!(world.settle().is_empty(), "another kind");
    world.owner(REPLICA_SET, "web", Some("2"), None);
    assert_eq!(world.settle()[..2], ["create podgroup-u-web of 2", "web-0 joins podgroup-u-web"]);
}

#[test]
fn a_kind_that_is_absent_holds_up_no_pod() {
    let mut world = World::new();
    world.owner(JOB, "train", Some("2"), SET);
    world.pod("train-0", TRAIN, None);
    assert!(world.settle().is_empty(), "the JobSet may state a minimum");
    world.machine.absent(Watched::Owner(JOB_SET), world.now.instant);
    assert_eq!(world.settle()[..2], ["create podgroup-u-train of 2", "train-0 joins podgroup-u-train"]);
}

#[test]
fn a_minimum_that_is_stated_later_moves_pods_that_have_no_podgroup() {
    let mut world = World::new();
    world.owner(JOB, "train", None, SET);
    world.pod("train-0", TRAIN, None);
    world.owner(JOB_SET, "set", Some("3"), None);
    assert_eq!(world.settle()[..2], ["create podgroup-u-set of 3", "train-0 joins podgroup-u-set"]);
}

#[test]
fn a_podgroup_that_is_refused_is_told_of_a_pod_that_waits_for_it() {
    let mut world = World::new();
    world.pod("alone", None, None);
    let creation = world.machine.next(world.now).unwrap();
    let refused = Answer::Refused("denied by a webhook".to_owned());
    world.machine.done(creation, Came::Answer(refused), world.now);
    let Some(Ticket::Post(event)) = world.machine.next(world.now) else { panic!("an event") };
    let event = format!("{event:?}");
    assert!(event.contains("denied by a webhook") && event.contains("\"Pod\""), "{event}");
}

#[test]
fn a_podgroup_is_deleted_after_its_last_pod_whatever_its_owner_says() {
    let mut world = World::new();
    world.owner(REPLICA_SET, "web", None, None);
    world.pod("web-0", WEB, None);
    world.pod("web-1", WEB, None);
    world.settle();
    let ids = ["web-0", "web-1"].map(|pod| world.pod(pod, WEB, Some("podgroup-u-web")));
    assert!(world.settle().is_empty());
    world.machine.absent(Watched::Owner(REPLICA_SET), world.now.instant);
    world.machine.deleted(Watched::PlainPod, &ids[0], world.now.instant);
    assert!(world.settle().is_empty(), "one is left");
    world.machine.deleted(Watched::PlainPod, &ids[1], world.now.instant);
    assert_eq!(world.settle(), ["delete podgroup-u-web"]);
}

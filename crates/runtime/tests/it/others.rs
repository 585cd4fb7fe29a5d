//! What somebody else made, and Commands for what is not there.
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use phalanx_api::batch::Job;
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::v1beta1::Queue;
use phalanx_cache::decode;
use phalanx_controllers::{Change, Object};
use phalanx_runtime::controllers::{
    Answer, Ask, Brought, Came, Fact, Identity, Machine, MachineOptions, Seen, Ticket, Watched,
};
use phalanx_runtime::outbox::request::Moment;
use serde_json::{Value, json};

/// A machine, and an API server that carries requests out.
struct World {
    machine: Machine,
    now: Moment,
    version: u64,
    /// What is there and belongs to somebody else: kind and name.
    others: Vec<&'static str>,
    /// The tickets that were carried out, in short; of events their texts.
    done: Vec<String>,
}

impl World {
    fn new(others: &[&'static str]) -> Self {
        let wall = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = Moment { instant: Instant::now(), wall };
        let mut machine = Machine::new(MachineOptions::default());
        for kind in Watched::ALL {
            machine.listed(kind, now.instant);
        }
        Self { machine, now, version: 100, others: others.to_vec(), done: Vec::new() }
    }

    fn see<T: serde::de::DeserializeOwned + Into<Fact>>(&mut self, object: Value) -> Identity {
        self.see_in::<T>("ns", object)
    }

    fn see_in<T: serde::de::DeserializeOwned + Into<Fact>>(
        &mut self,
        namespace: &str,
        mut object: Value,
    ) -> Identity {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["namespace"] = json!(namespace);
        let id = Identity::of(&decode(&object["metadata"]).unwrap());
        let fact = decode::<T>(&object).unwrap().into();
        self.machine.seen(Seen { id: id.clone(), fact }, self.now.instant);
        id
    }

    /// Carries out what is asked for within a while, in which the time passes; returns what that was.
    fn settle(&mut self, time: Duration) -> Vec<String> {
        let end = self.now.instant + time;
        loop {
            while let Some(ticket) = self.machine.next(self.now) {
                let answer = self.answer(&ticket);
                self.machine.done(ticket, Came::Answer(answer), self.now);
            }
            let Some(wake) = self.machine.wake().filter(|wake| *wake <= end) else { break };
            self.wait(wake.saturating_duration_since(self.now.instant));
        }
        self.wait(end.saturating_duration_since(self.now.instant));
        std::mem::take(&mut self.done)
    }

    fn wait(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
    }

    fn answer(&mut self, ticket: &Ticket) -> Answer {
        let place = |object: &Object| {
            format!("{:?} {}", object.kind(), object.metadata().name.clone().unwrap_or_default())
        };
        match ticket {
            Ticket::For(_, Ask::Write(Change::Create(object))) => {
                self.done.push(format!("create {}", place(object)));
                if self.others.contains(&&*place(object)) {
                    return Answer::Conflict(format!("{} already exists", place(object)));
                }
                Answer::Done(self.brought(object, None))
            }
            Ticket::For(_, Ask::Compare(object)) => Answer::Done(self.brought(object, Some("somebody"))),
            Ticket::For(_, Ask::Write(Change::Status { object, .. })) => {
                let state = object_state(object);
                self.done.push(format!("status {}{state}", place(object)));
                Answer::Done(self.brought(object, None))
            }
            Ticket::For(_, Ask::Write(Change::Delete(target))) => {
                self.done.push(format!("delete {:?} {}", target.kind, target.name));
                Answer::Done(Brought::Nothing)
            }
            Ticket::Post(posting) => {
                self.done.push(format!("{posting:?}"));
                Answer::Done(Brought::Nothing)
            }
            other @ Ticket::For(..) => panic!("{other:?}"),
        }
    }

    /// The object as the API server has it, of this owner if one is given.
    fn brought(&mut self, object: &Object, owner: Option<&str>) -> Brought {
        self.version += 1;
        let version = self.version.to_string();
        let stored = |mut value: Value| {
            value["metadata"]["resourceVersion"] = json!(version);
            if value["metadata"]["uid"].is_null() {
                value["metadata"]["uid"] = json!(format!("u{version}"));
            }
            if let Some(owner) = owner {
                value["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": true}]);
            }
            value
        };
        match object {
            Object::Job(job) => seen::<Job>(&stored(json!(job))),
            Object::JobFlow(flow) => seen::<JobFlow>(&stored(json!(flow))),
            Object::Queue(queue) => seen::<Queue>(&stored(json!(queue))),
            Object::PodGroup(group) => seen::<phalanx_api::v1beta1::PodGroup>(&stored(json!(group))),
            Object::Service(service) => {
                let service: Service = decode(&stored(json!(service))).unwrap();
                Brought::Made(Box::new(Object::Service(Box::new(service))))
            }
            Object::ConfigMap(map) => {
                let map: ConfigMap = decode(&stored(json!(map))).unwrap();
                Brought::Made(Box::new(Object::ConfigMap(Box::new(map))))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Of a queue, the state that its status tells.
fn object_state(object: &Object) -> String {
    let Object::Queue(queue) = object else { return String::new() };
    let state = queue.status.as_ref().and_then(|status| status.state.as_ref());
    state.map(|state| format!(" {state}")).unwrap_or_default()
}

fn seen<T: serde::de::DeserializeOwned + Into<Fact>>(value: &Value) -> Brought {
    let id = Identity::of(&decode(&value["metadata"]).unwrap());
    Brought::Seen(Box::new(Seen { id, fact: decode::<T>(value).unwrap().into() }))
}

const A_WHILE: Duration = Duration::from_millis(100);

fn has(done: &[String], text: &str) -> bool {
    done.iter().any(|one| one.contains(text))
}

fn job(more: &Value) -> Value {
    let task = json!({"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let mut job = json!({
        "metadata": {"name": "j", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"tasks": [task]},
    });
    for (key, value) in more.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

/// As in Volcano: an own Service of the job's name does for the pods, if it selects them.
#[test]
fn a_service_of_somebody_else_with_the_jobs_name_holds_nothing_up() {
    let mut world = World::new(&["Service j"]);
    world.see::<Job>(job(&json!({"plugins": {"svc": ["--disable-network-policy"]}})));
    let done = world.settle(A_WHILE);
    assert!(has(&done, "create PodGroup j-u"), "{done:?}");
    assert!(has(&done, "Service j is there already, and is not controlled by this object"), "{done:?}");
    assert_eq!(done.iter().filter(|one| *one == "create Service j").count(), 1, "{done:?}");
}

fn template(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("t-{name}")}, "spec": job(&json!({}))["spec"]})
}

#[test]
fn a_job_of_somebody_else_holds_up_its_own_step_of_a_jobflow_only() {
    let mut world = World::new(&["Job f-a"]);
    for name in ["a", "b"] {
        world.see::<JobTemplate>(template(name));
    }
    let flows = json!([{"name": "a"}, {"name": "b"}]);
    world.see::<JobFlow>(json!({"metadata": {"name": "f", "uid": "f"}, "spec": {"flows": flows}}));
    let done = world.settle(A_WHILE);
    assert!(has(&done, "create Job f-b") && has(&done, "created Job f-b"), "{done:?}");
    assert!(!has(&done, "created Job f-a"), "{done:?}");
    assert!(has(&done, "status JobFlow f"), "{done:?}");
    assert!(has(&done, "Job f-a is there already, and is not controlled by this object"), "{done:?}");
}

fn abort(target: &Value, created: &str) -> Value {
    json!({
        "metadata": {"name": "stop", "uid": "stop", "creationTimestamp": created},
        "action": "AbortJob", "target": target,
    })
}

fn vcjob(uid: &str) -> Value {
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": uid})
}

#[test]
fn a_command_for_what_is_not_there_is_deleted_after_a_minute_with_an_event() {
    for target in [
        vcjob(""),
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": ""}),
    ] {
        let mut world = World::new(&[]);
        world.see::<Command>(abort(&target, "2026-01-01T00:00:00Z"));
        assert_eq!(world.settle(Duration::from_secs(59)), Vec::<String>::new(), "its object may come yet");
        let done = world.settle(Duration::from_secs(2));
        assert!(has(&done, "delete Command stop"), "{done:?}");
        assert!(has(&done, "is not there, or is a later one"), "{done:?}");
    }
}

#[test]
fn a_command_is_for_no_later_object_of_the_name() {
    for (uid, created) in [("", "2025-12-31T23:59:00Z"), ("earlier", "2026-01-01T00:00:01Z")] {
        let mut world = World::new(&[]);
        world.see::<Command>(abort(&vcjob(uid), created));
        world.see::<Job>(job(&json!({})));
        let done = world.settle(Duration::from_mins(2));
        assert!(has(&done, "create PodGroup j-u"), "{uid} {created}: {done:?}");
        assert!(has(&done, "delete Command stop"), "{uid} {created}: {done:?}");
    }
}

#[test]
fn a_command_for_an_object_of_another_group_is_nothing_to_a_job() {
    let mut world = World::new(&[]);
    world.see::<Job>(job(&json!({})));
    let target = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": ""});
    world.see::<Command>(abort(&target, "2026-01-01T00:00:00Z"));
    let done = world.settle(Duration::from_mins(2));
    assert!(has(&done, "create PodGroup j-u") && !has(&done, "Command stop"), "{done:?}");
}

#[test]
fn a_command_that_came_before_its_job_was_seen_is_carried_out() {
    let mut world = World::new(&[]);
    world.see::<Command>(abort(&vcjob("u"), "2026-01-01T00:00:00Z"));
    world.settle(A_WHILE);
    world.see::<Job>(job(&json!({})));
    let done = world.settle(A_WHILE);
    assert!(has(&done, "Command stop: AbortJob"), "{done:?}");
}

/// A list is in the order of names.
#[test]
fn commands_of_one_list_are_carried_out_in_the_order_of_their_creation() {
    let mut world = World::new(&[]);
    let command = |name: &str, action: &str, created: &str| {
        let target =
            json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": "q"});
        json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": created},
            "action": action,
            "target": target,
        })
    };
    let queue = json!({
        "metadata": {"name": "q", "uid": "q", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"weight": 1, "parent": "root"},
        "status": {"state": "Open"},
    });
    world.see_in::<Queue>("", queue);
    world.settle(A_WHILE);
    world.machine.listing(Watched::Command);
    world.see::<Command>(command("a", "OpenQueue", "2026-01-01T00:00:02Z"));
    let done = world.settle(A_WHILE);
    assert!(!has(&done, "Command"), "{done:?}");
    world.see::<Command>(command("b", "CloseQueue", "2026-01-01T00:00:01Z"));
    world.machine.listed(Watched::Command, world.now.instant);
    let done = world.settle(A_WHILE);
    assert!(has(&done, "delete Command a") && has(&done, "delete Command b"), "{done:?}");
    assert!(!has(&done, "Clos"), "{done:?}");
}

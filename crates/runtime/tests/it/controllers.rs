//! The state machine of the controllers, against answers and events in every order.
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use phalanx_api::batch::Job;
use phalanx_api::v1beta1::PodGroup;
use phalanx_cache::decode;
use phalanx_controllers::{Change, Object};
use phalanx_runtime::controllers::{
    Answer, Ask, Brought, Came, Fact, Identity, Machine, MachineOptions, Seen, SeenPod, Ticket, Watched,
};
use phalanx_runtime::outbox::request::Moment;
use serde_json::{Value, json};

/// How long statuses that only count wait.
const HOLD: Duration = Duration::from_secs(2);

/// A machine, the time, and the versions that the API server gives out.
pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) now: Moment,
    version: u64,
}

impl World {
    /// With complete lists that are empty but for what was seen before.
    pub(crate) fn new() -> Self {
        let mut world = Self::before_lists();
        for kind in Watched::ALL {
            world.machine.listed(kind, world.now.instant);
        }
        world
    }

    fn before_lists() -> Self {
        let wall = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = Moment { instant: Instant::now(), wall };
        Self { machine: Machine::new(MachineOptions::default()), now, version: 100 }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
    }

    pub(crate) fn next(&mut self) -> Option<Ticket> {
        self.machine.next(self.now)
    }

    /// All requests that may be sent now.
    pub(crate) fn all(&mut self) -> Vec<Ticket> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The next request, after waits that are over by then.
    fn later(&mut self) -> Ticket {
        loop {
            if let Some(ticket) = self.next() {
                return ticket;
            }
            let wake = self.machine.wake().expect("something is to be done");
            self.wait(wake.saturating_duration_since(self.now.instant));
        }
    }

    pub(crate) fn seen(&mut self, seen: Seen) {
        self.machine.seen(seen, self.now.instant);
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.machine.done(ticket, Came::Answer(answer), self.now);
    }

    /// Carries a write out as the API server does.
    pub(crate) fn done(&mut self, ticket: Ticket) {
        let brought = self.carry_out(&ticket);
        self.answer(ticket, Answer::Done(brought));
    }

    fn carry_out(&mut self, ticket: &Ticket) -> Brought {
        self.version += 1;
        let version = self.version.to_string();
        let Ticket::For(_, Ask::Write(change)) = ticket else { return Brought::Nothing };
        let (Change::Create(object) | Change::Status { object, .. } | Change::Replace(object)) = change
        else {
            return Brought::Nothing;
        };
        let made = |value: Value| {
            let mut value = value;
            value["metadata"]["resourceVersion"] = json!(version);
            if value["metadata"]["uid"].is_null() {
                let name = value["metadata"]["name"].as_str().unwrap_or_default();
                value["metadata"]["uid"] = json!(format!("{name}-{version}"));
            }
            value
        };
        match object {
            Object::Job(job) => Brought::Seen(Box::new(job_of(&made(json!(job))))),
            Object::PodGroup(group) => Brought::Seen(Box::new(group_of(&made(json!(group))))),
            Object::Pod(pod) => Brought::Seen(Box::new(pod_of(&made(json!(pod))))),
            _ => Brought::Nothing,
        }
    }

    /// Goes on until a job has its PodGroup, and that has left Pending.
    fn admitted(job: Seen) -> Self {
        let mut world = Self::new();
        world.seen(job);
        let status = world.next().unwrap();
        world.done(status);
        let creation = world.next().unwrap();
        let Brought::Seen(group) = world.carry_out(&creation) else { panic!("{creation:?}") };
        world.answer(creation, Answer::Done(Brought::Seen(group.clone())));
        let Fact::PodGroup(group) = group.fact else { panic!("a PodGroup") };
        let mut group = json!(group);
        group["status"] = json!({"phase": "Inqueue"});
        world.version += 1;
        group["metadata"]["resourceVersion"] = json!(world.version.to_string());
        world.seen(group_of(&group));
        world
    }
}

pub(crate) fn identity(value: &Value) -> Identity {
    Identity::of(&decode(&value["metadata"]).unwrap())
}

pub(crate) fn job_of(value: &Value) -> Seen {
    Seen { id: identity(value), fact: decode::<Job>(value).unwrap().into() }
}

fn group_of(value: &Value) -> Seen {
    Seen { id: identity(value), fact: decode::<PodGroup>(value).unwrap().into() }
}

pub(crate) fn pod_of(value: &Value) -> Seen {
    Seen { id: identity(value), fact: SeenPod::from(&decode::<Pod>(value).unwrap()).into() }
}

/// A job of so many pods, as its user has made it.
fn job(replicas: u32) -> Seen {
    job_of(&json!({
        "metadata": {
            "name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "10",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"tasks": [{
            "name": "t", "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        }]},
    }))
}

/// What a ticket asks for, in short.
pub(crate) fn short(ticket: &Ticket) -> String {
    match ticket {
        Ticket::For(_, Ask::Write(change)) => match change {
            Change::Create(object) => format!("create {:?}", object.kind()),
            Change::Replace(object) => format!("replace {:?}", object.kind()),
            Change::Delete(target) => format!("delete {:?} {}", target.kind, target.name),
            Change::Status { object: Object::Job(job), .. } => {
                let status = job.status.clone().unwrap_or_default();
                format!("status {} pending={}", status.state.phase.unwrap_or_default(), status.pending)
            }
            Change::Status { object, .. } => format!("status {:?}", object.kind()),
            Change::Join(pod, group) => format!("join {} {group}", pod.name),
            Change::Note(_) => "note".to_owned(),
        },
        Ticket::For(_, Ask::Renew(kind, key)) => format!("renew {kind:?} {key}"),
        Ticket::For(_, Ask::Compare(object)) => format!("compare {:?}", object.kind()),
        Ticket::For(_, Ask::Read(_, kind, key)) => format!("read {kind:?} {key}"),
        Ticket::For(_, Ask::SshKey) => "key".to_owned(),
        Ticket::For(_, Ask::Probe(..)) => "probe".to_owned(),
        Ticket::Post(_) => "event".to_owned(),
    }
}

fn shorts(tickets: &[Ticket]) -> Vec<String> {
    tickets.iter().map(short).collect()
}

#[test]
fn nothing_is_written_before_all_first_lists_are_in() {
    let mut world = World::before_lists();
    world.seen(job(1));
    for kind in Watched::ALL {
        assert_eq!(world.next(), None, "without the list of {kind:?}");
        world.machine.listed(kind, world.now.instant);
    }
    assert_eq!(short(&world.next().unwrap()), "status Pending pending=0");
}

#[test]
fn a_subject_is_reconciled_again_only_after_the_answers_of_its_writes() {
    let mut world = World::new();
    world.seen(job(2));
    let status = world.next().unwrap();
    world.seen(job(3));
    assert_eq!(world.next(), None, "the status is on its way");
    world.done(status);
    assert_eq!(shorts(&world.all()), ["create PodGroup"]);
}

/// The watch is behind: its event shows the Job as it was before its status was written.
#[test]
fn an_event_that_is_older_than_an_answer_is_ignored() {
    let mut world = World::new();
    world.seen(job(1));
    let status = world.next().unwrap();
    world.done(status);
    world.seen(job(1));
    assert_eq!(shorts(&world.all()), ["create PodGroup"], "not the first status again");
}

#[test]
fn an_answer_that_comes_after_the_deletion_brings_no_ghost() {
    let mut world = World::admitted(job(1));
    let creation = world.next().unwrap();
    let Brought::Seen(pod) = world.carry_out(&creation) else { panic!("{creation:?}") };
    world.machine.deleted(Watched::Pod, &pod.id, world.now.instant);
    world.answer(creation, Answer::Done(Brought::Seen(pod)));
    assert_eq!(short(&world.later()), "create Pod", "it is missing");
}

#[test]
fn pods_are_made_in_parallel_and_other_changes_in_order() {
    let mut world = World::admitted(job(3));
    let creations = world.all();
    assert_eq!(shorts(&creations), ["create Pod"; 3]);
    for creation in creations {
        world.done(creation);
    }
    assert_eq!(shorts(&world.all()), Vec::<String>::new(), "the count waits");
}

/// Who may make pods in one namespace could break a job of another one.
#[test]
fn a_pod_of_another_namespace_that_names_the_job_as_its_controller_is_none_of_its_pods() {
    let Ticket::For(_, Ask::Write(Change::Create(Object::Pod(pod)))) = &World::admitted(job(2)).all()[0]
    else {
        panic!("a pod")
    };
    let mut forged = json!(pod);
    forged["metadata"]["namespace"] = json!("other");
    forged["metadata"]["uid"] = json!("forged");
    forged["metadata"]["resourceVersion"] = json!("1");
    forged["status"] = json!({"phase": "Failed"});
    let mut world = World::admitted(job(2));
    world.seen(pod_of(&forged));
    assert_eq!(shorts(&world.all()), ["create Pod", "create Pod"]);
}

#[test]
fn no_more_requests_are_in_flight_than_allowed() {
    let mut world = World::admitted(job(200));
    let creations = world.all();
    assert_eq!(creations.len(), 64);
    world.done(creations.into_iter().next().unwrap());
    assert_eq!(world.all().len(), 1);
}

#[test]
fn statuses_that_only_count_are_written_once_for_all_that_came_within_two_seconds() {
    let mut world = World::admitted(job(3));
    for creation in world.all() {
        world.done(creation);
        world.wait(HOLD / 4);
    }
    assert_eq!(shorts(&world.all()), Vec::<String>::new());
    let begin = world.now.instant;
    let status = world.later();
    assert_eq!(short(&status), "status Pending pending=3");
    assert!(world.now.instant - begin <= HOLD, "two seconds after the first of them");
    world.done(status);
    world.wait(HOLD * 2);
    assert_eq!(shorts(&world.all()), Vec::<String>::new());
}

#[test]
fn after_a_conflict_the_object_is_read_and_the_rest_dropped() {
    let mut world = World::new();
    world.seen(job(1));
    let status = world.next().unwrap();
    world.answer(status, Answer::Conflict("the object has been modified".to_owned()));
    let renewal = world.next().unwrap();
    assert_eq!(short(&renewal), "renew Job ns/j");
    let Seen { id, fact } = job(2);
    let newer = Seen { id: Identity { version: 11, ..id }, fact };
    world.answer(renewal, Answer::Done(Brought::Seen(Box::new(newer))));
    assert_eq!(world.next(), None, "after a wait");
    let again = world.later();
    let Ticket::For(_, Ask::Write(Change::Status { object: Object::Job(job), .. })) = &again else {
        panic!("{again:?}")
    };
    assert_eq!(job.spec.tasks[0].replicas, 2, "what was read");
}

/// A pod of this name is there: of the same Job, of another one, or of nobody.
#[test]
fn a_pod_that_is_there_already_is_as_good_if_the_same_job_controls_it() {
    for (owner, expected) in [(Some("u"), vec![]), (Some("v"), vec!["event"]), (None, vec!["event"])] {
        let mut world = World::admitted(job(1));
        let creation = world.next().unwrap();
        world.answer(creation, Answer::Conflict("pods \"j-t-0\" already exists".to_owned()));
        let comparison = world.next().unwrap();
        assert_eq!(short(&comparison), "compare Pod");
        let owners = owner.map(|uid| {
            json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": uid, "controller": true}])
        });
        let pod = pod_of(&json!({"metadata": {
            "name": "j-t-0", "namespace": "ns", "uid": "p", "resourceVersion": "50", "ownerReferences": owners,
            "annotations": {"volcano.sh/task-spec": "t"},
        }}));
        world.answer(comparison, Answer::Done(Brought::Seen(Box::new(pod))));
        assert_eq!(shorts(&world.all()), expected, "{owner:?}");
        let next = world.later();
        let wanted = if expected.is_empty() { "status Pending pending=1" } else { "create Pod" };
        assert_eq!(short(&next), wanted, "{owner:?}");
    }
}

#[test]
fn a_job_whose_writes_are_refused_is_tried_with_longer_waits_and_terminated_at_last() {
    let mut world = World::admitted(job(1));
    let mut waits = Vec::new();
    let mut ticket = world.next().unwrap();
    for attempt in 0..15 {
        assert_eq!(short(&ticket), "create Pod", "attempt {attempt}");
        world.answer(ticket, Answer::Refused("no".to_owned()));
        let before = world.now.instant;
        ticket = loop {
            match world.later() {
                post @ Ticket::Post(_) => world.answer(post, Answer::Done(Brought::Nothing)),
                other => break other,
            }
        };
        waits.push(world.now.instant - before);
    }
    assert_eq!(short(&ticket), "status Terminating pending=0");
    assert!(waits[0] <= Duration::from_millis(5) && waits[13] >= Duration::from_secs(20), "{waits:?}");
}

#[test]
fn a_server_that_does_not_answer_terminates_no_job() {
    let mut world = World::admitted(job(1));
    for _ in 0..30 {
        let ticket = world.next().unwrap_or_else(|| world.later());
        assert_eq!(short(&ticket), "create Pod");
        world.answer(ticket, Answer::Passing("no answer".to_owned(), None));
    }
}

#[test]
fn a_new_list_removes_what_it_lacks_but_for_what_was_made_meanwhile() {
    let mut world = World::admitted(job(2));
    let [first, second] = world.all().try_into().expect("two pods");
    world.done(first);
    world.machine.listing(Watched::Pod);
    world.done(second);
    world.machine.listed(Watched::Pod, world.now.instant);
    let missing = world.later();
    let Ticket::For(_, Ask::Write(Change::Create(object))) = &missing else { panic!("{missing:?}") };
    assert_eq!(object.metadata().name.as_deref(), Some("j-t-0"), "the other one is younger than the list");
}

#[test]
fn a_deletion_of_what_is_gone_already_is_done() {
    for answer in [
        Answer::NotFound("pods \"j-t-1\" not found".to_owned()),
        Answer::Conflict("the UID in the precondition does not match".to_owned()),
        Answer::Done(Brought::Nothing),
    ] {
        let mut world = World::admitted(job(2));
        for creation in world.all() {
            world.done(creation);
        }
        let Seen { id, fact } = job(1);
        let Fact::Job(mut smaller) = fact else { panic!("a Job") };
        let status = world.later();
        let Ticket::For(_, Ask::Write(Change::Status { object: Object::Job(known), .. })) = &status else {
            panic!("{status:?}")
        };
        smaller.status.clone_from(&known.status);
        world.done(status);
        let version = world.version + 1;
        world.version = version;
        world.seen(Seen { id: Identity { version, ..id }, fact: Fact::Job(smaller) });
        let fewer = world.later();
        assert_eq!(short(&fewer), "status Pending pending=1");
        world.done(fewer);
        let deletion = world.later();
        assert_eq!(short(&deletion), "delete Pod j-t-1");
        world.answer(deletion, answer.clone());
        let smaller_group = world.later();
        assert_eq!(short(&smaller_group), "replace PodGroup", "{answer:?}");
        world.done(smaller_group);
        assert_eq!(short(&world.later()), "status Pending pending=1", "{answer:?}");
    }
}

/// After a restart nobody knows what plugins have made: it is read before the Job is reconciled.
#[test]
fn what_plugins_made_for_a_job_that_was_begun_is_read_first() {
    let Seen { id, fact } = job(1);
    let Fact::Job(job) = fact else { panic!("a Job") };
    let mut begun = json!(job);
    begun["spec"]["plugins"] = json!({"svc": []});
    begun["status"] = json!({"state": {"phase": "Pending"}, "minAvailable": 1});
    let mut world = World::new();
    world.seen(Seen { id, ..job_of(&begun) });
    let reads = world.all();
    let expected = ["read ConfigMap ns/j-svc", "read Service ns/j", "read NetworkPolicy ns/j"];
    assert_eq!(shorts(&reads), expected);
    for read in reads {
        world.answer(read, Answer::NotFound("not found".to_owned()));
    }
    assert_eq!(short(&world.later()), "create ConfigMap");
}

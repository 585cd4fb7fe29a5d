//! What one namespace has the controllers do holds up no other.
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_cache::decode;
use phalanx_runtime::controllers::{Ask, Came, Seen, Ticket};
use serde_json::{Value, json};

use crate::controllers::{World, identity, job_of, pod_of, short};

fn metadata(namespace: &str, name: &str) -> Value {
    json!({
        "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "resourceVersion": "10",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    })
}

fn owned(mut metadata: Value, api_version: &str, kind: &str, owner: &str) -> Value {
    let uid = format!("many-{owner}");
    metadata["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": true}]);
    metadata
}

fn job(metadata: &Value, plugins: &Value) -> Seen {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let tasks = json!([{"name": "t", "replicas": 1, "template": template}]);
    job_of(&json!({"metadata": metadata, "spec": {"tasks": tasks, "plugins": plugins}}))
}

/// Of the requests that may be sent now, the place of the first one for the job of namespace `few`.
fn place_of_few(world: &mut World) -> usize {
    world.seen(job(&metadata("few", "j"), &json!({})));
    let of_few =
        |ticket: &Ticket| matches!(ticket, Ticket::For(subject, _) if &*subject.key.namespace == "few");
    let sent = world.all();
    let tickets: Vec<String> = sent.iter().map(short).collect();
    sent.iter().position(of_few).unwrap_or_else(|| panic!("nothing for the job of few: {tickets:?}"))
}

/// Answers as the API server does until nothing is left but key pairs and probes, which are not answered.
fn answer_all_writes(world: &mut World) -> Vec<String> {
    let mut left = Vec::new();
    loop {
        let tickets = world.all();
        if tickets.is_empty() {
            return left;
        }
        for ticket in tickets {
            match ticket {
                Ticket::For(_, Ask::SshKey | Ask::Probe(..)) => left.push(short(&ticket)),
                ticket => world.done(ticket),
            }
        }
    }
}

#[test]
fn a_namespace_with_very_many_objects_waits_in_turn_with_others() {
    let mut world = World::new();
    for at in 0..1_000 {
        world.seen(job(&metadata("many", &format!("j{at}")), &json!({})));
    }
    assert!(place_of_few(&mut world) < 2);
    // The same while the API server is slow with what it was asked first.
    let mut world = World::new();
    for at in 0..1_000 {
        world.seen(job(&metadata("many", &format!("j{at}")), &json!({})));
    }
    let sent = world.all();
    assert_eq!(sent.len(), 64);
    world.seen(job(&metadata("few", "j"), &json!({})));
    world.done(sent.into_iter().next().unwrap());
    let next = world.next().unwrap();
    assert!(matches!(&next, Ticket::For(subject, _) if &*subject.key.namespace == "few"), "{}", short(&next));
}

#[test]
fn very_many_steps_of_job_flows_hold_up_no_job_of_another_namespace() {
    let mut world = World::new();
    for at in 0..200 {
        let template = json!({"metadata": metadata("many", &format!("t{at}")), "spec": {"tasks": []}});
        let fact = decode::<JobTemplate>(&template).unwrap().into();
        world.seen(Seen { id: identity(&template), fact });
        let steps: Vec<Value> = (0..200).map(|step| json!({"name": format!("t{step}")})).collect();
        let flow = json!({"metadata": metadata("many", &format!("f{at}")), "spec": {"flows": steps}});
        world.seen(Seen { id: identity(&flow), fact: decode::<JobFlow>(&flow).unwrap().into() });
    }
    assert!(place_of_few(&mut world) < 2);
}

#[test]
fn key_pairs_are_generated_one_by_one_and_hold_up_no_write() {
    let mut world = World::new();
    for at in 0..200 {
        world.seen(job(&metadata("many", &format!("j{at}")), &json!({"ssh": []})));
    }
    assert_eq!(answer_all_writes(&mut world), ["key"], "the others wait");
    world.seen(job(&metadata("few", "k"), &json!({"ssh": []})));
    assert_eq!(answer_all_writes(&mut world), [""; 0]);
    assert!(place_of_few(&mut world) < 2);
}

/// Steps of JobFlows that wait until a port of a pod listens.
fn probing(world: &mut World, flows: usize) {
    let probe = json!({"tcpSocketList": [{"taskName": "t", "port": 80}]});
    for at in 0..flows {
        let (flow, first) = (format!("f{at}"), format!("f{at}-a"));
        let steps = json!([{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}]);
        let value = json!({"metadata": metadata("many", &flow), "spec": {"flows": steps}});
        let of_flow = owned(metadata("many", &first), "flow.volcano.sh/v1alpha1", "JobFlow", &flow);
        let mut of_job =
            owned(metadata("many", &format!("{first}-t-0")), "batch.volcano.sh/v1alpha1", "Job", &first);
        of_job["annotations"] = json!({"volcano.sh/task-spec": "t"});
        world.seen(job(&of_flow, &json!({})));
        world.seen(pod_of(
            &json!({"metadata": of_job, "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2"}}),
        ));
        world.seen(Seen { id: identity(&value), fact: decode::<JobFlow>(&value).unwrap().into() });
    }
}

#[test]
fn probes_that_are_not_answered_hold_up_no_write() {
    let mut world = World::new();
    probing(&mut world, 200);
    let probes = answer_all_writes(&mut world);
    assert_eq!(probes, ["probe"; 16]);
    assert!(place_of_few(&mut world) < 2);
}

#[test]
fn probes_and_key_pairs_that_wait_go_on_after_an_answer() {
    let mut world = World::new();
    probing(&mut world, 20);
    world.seen(job(&metadata("few", "one"), &json!({"ssh": []})));
    world.seen(job(&metadata("few", "two"), &json!({"ssh": []})));
    let mut asked = Vec::new();
    while asked.len() < 22 {
        let Some(ticket) = world.next() else { panic!("{asked:?}") };
        let came = match &ticket {
            Ticket::For(_, Ask::SshKey) => Came::SshKey(None),
            Ticket::For(_, Ask::Probe(..)) => Came::Probed(false),
            _ => {
                world.done(ticket);
                continue;
            }
        };
        asked.push(short(&ticket));
        world.machine.done(ticket, came, world.now);
    }
    assert_eq!(asked.iter().filter(|one| *one == "key").count(), 2, "{asked:?}");
}

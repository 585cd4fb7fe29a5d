//! The state machine of the controllers on HyperNodes.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use phalanx_api::topology::HyperNode;
use phalanx_cache::decode;
use phalanx_controllers::hyper_node::{Labels, Settings};
use phalanx_controllers::{Change, Object};
use phalanx_runtime::controllers::{
    Answer, Ask, Brought, Came, Fact, Identity, Machine, MachineOptions, Seen, Ticket, Watched,
};
use phalanx_runtime::outbox::request::Moment;
use phalanx_runtime::recorder::Posting;
use serde_json::json;

const CONF: &str = "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: \
                    {net: [{nodeLabel: rack}, {nodeLabel: host}]}}}]";

/// An API server that refuses names with these words.
struct World {
    machine: Machine,
    now: Moment,
    version: u64,
    refuses: &'static str,
}

impl World {
    fn new() -> Self {
        let wall = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = Moment { instant: Instant::now(), wall };
        let mut machine = Machine::new(MachineOptions::default());
        for kind in Watched::ALL {
            machine.listed(kind, now.instant);
        }
        Self { machine, now, version: 1, refuses: "none" }
    }

    fn see(&mut self, name: &str, fact: impl Into<Fact>) {
        self.version += 1;
        let metadata = json!({"name": name, "uid": name, "resourceVersion": self.version.to_string()});
        let id = Identity::of(&decode(&metadata).unwrap());
        self.machine.seen(Seen { id, fact: fact.into() }, self.now.instant);
    }

    fn node(&mut self, name: &str, rack: &str) {
        let labels: Labels = BTreeMap::from([("rack".to_owned(), rack.to_owned())]);
        self.see(name, labels);
    }

    fn settings(&mut self) {
        self.see("settings", Settings::read(CONF).0);
    }

    fn stored(&mut self, hyper_node: &HyperNode) -> Brought {
        self.version += 1;
        let mut object = json!(hyper_node);
        object["metadata"]["uid"] = object["metadata"]["name"].clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object: HyperNode = decode(&object).unwrap();
        let id = Identity::of(&object.metadata);
        Brought::Seen(Box::new(Seen { id, fact: object.into() }))
    }

    /// Carries out all that is asked for within some seconds, and says what that was, without names that end in digests.
    fn settle(&mut self) -> Vec<String> {
        let mut asked = Vec::new();
        for _ in 0..40 {
            self.now.instant += Duration::from_millis(100);
            while let Some(ticket) = self.machine.next(self.now) {
                let answer = match &ticket {
                    Ticket::For(_, Ask::Write(change)) => self.answer(change, &mut asked),
                    Ticket::For(_, other) => panic!("{other:?}"),
                    Ticket::Post(Posting::Create(_, note)) => {
                        let on = short(&note.regarding.key.name);
                        asked.push(format!("event on {on}: {}", note.text));
                        Answer::Done(Brought::Nothing)
                    }
                    Ticket::Post(Posting::Series { .. }) => Answer::Done(Brought::Nothing),
                };
                self.machine.done(ticket, Came::Answer(answer), self.now);
            }
        }
        asked.sort();
        asked.dedup();
        asked
    }

    fn answer(&mut self, change: &Change, asked: &mut Vec<String>) -> Answer {
        let (verb, hyper_node) = match change {
            Change::Create(Object::HyperNode(object)) => ("create", object),
            Change::Replace(Object::HyperNode(object)) => ("replace", object),
            Change::Status { object: Object::HyperNode(object), .. } => ("count", object),
            Change::Delete(target) => {
                asked.push(format!("delete {}", short(&target.name)));
                return Answer::Done(Brought::Nothing);
            }
            other => panic!("{other:?}"),
        };
        let labels = hyper_node.metadata.labels.clone().unwrap_or_default();
        if labels.values().any(|value| value.contains(self.refuses)) {
            return Answer::Refused("no such name".to_owned());
        }
        let name = short(hyper_node.metadata.name.as_deref().unwrap());
        let rack = labels.get("rack").cloned().unwrap_or_default();
        let count = hyper_node.status.as_ref().map_or(-1, |status| status.node_count);
        asked.push(if verb == "count" {
            format!("{name} {rack} has {count}")
        } else {
            format!("{verb} {name} {rack}")
        });
        Answer::Done(self.stored(hyper_node))
    }
}

fn short(name: &str) -> String {
    name.split("-tier").next().unwrap_or_default().to_owned()
}

#[test]
fn racks_are_made_counted_and_deleted_and_nothing_is_written_twice() {
    let mut world = World::new();
    world.node("n1", "r1");
    world.node("n2", "r2");
    assert_eq!(world.settle(), [""; 0], "nothing asks for HyperNodes");
    world.settings();
    assert_eq!(
        world.settle(),
        [
            "create hypernode-net r1",
            "create hypernode-net r2",
            "hypernode-net r1 has 1",
            "hypernode-net r2 has 1"
        ]
    );
    world.node("n2", "r2");
    assert_eq!(world.settle(), [""; 0], "the labels are the same");
    world.node("n2", "r1");
    assert_eq!(
        world.settle(),
        ["delete hypernode-net", "hypernode-net r1 has 2", "replace hypernode-net r1"]
    );
}

#[test]
fn a_hyper_node_that_is_refused_holds_up_no_other() {
    let mut world = World::new();
    world.refuses = "bad";
    world.node("n1", "a-bad-rack");
    world.node("n2", "good-rack");
    world.settings();
    let asked = world.settle();
    assert!(asked.contains(&"create hypernode-net good-rack".to_owned()), "{asked:?}");
    assert!(asked.iter().any(|line| line == "event on hypernode-net: no such name"), "{asked:?}");
}

/// They would all be deleted.
#[test]
fn without_nodes_to_read_nothing_is_done() {
    let mut world = World::new();
    world.settings();
    let labels = json!({"rack": "r1", "volcano.sh/network-topology-source": "label"});
    let made = json!({"metadata": {"name": "hypernode-net-tier1-a", "labels": labels}});
    let made: HyperNode = decode(&made).unwrap();
    world.machine.absent(Watched::Node, world.now.instant);
    world.see("hypernode-net-tier1-a", made);
    assert_eq!(world.settle(), [""; 0]);
    world.machine.listing(Watched::Node);
    world.node("n1", "r1");
    world.machine.listed(Watched::Node, world.now.instant);
    assert_eq!(world.settle(), ["hypernode-net r1 has 1", "replace hypernode-net r1"]);
}

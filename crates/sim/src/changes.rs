//! Changes to a cluster before it is simulated: what if nodes were drained or added, or objects were others?
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{Key, NodeInfo, PodInfo, PodLife, PodPhase};
use phalanx_framework::conf::Conf;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::budget::{self, Blocked};
use crate::manifests::{Manifests, Object};
use crate::simulation::{Options, Simulation, stopped_clock};

/// Cycles that place all that has room: the second one what the first one has admitted.
const PLACING_CYCLES: u32 = 2;

/// Changes of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Changes {
    /// Nodes that are cordoned, and whose pods of this scheduler wait again. Pods of other schedulers on them are gone;
    /// those of DaemonSets, and static pods, stay, as with `kubectl drain --ignore-daemonsets`.
    pub drained: Vec<String>,
    /// Nodes that are added.
    pub added: Vec<AddedNodes>,
}

/// Nodes that are added, empty and ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddedNodes {
    /// The node that they resemble in all but their names; they are in its HyperNodes.
    pub like: String,
    /// How many.
    pub count: u32,
}

/// What a drain does besides making pods wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Pods of other schedulers, which are gone: where these would place them is not known.
    pub foreign: Vec<String>,
    /// Budgets for which it would have to wait.
    pub blocked: Vec<Blocked>,
}

/// A node that is to be changed, and does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no node {0}")]
pub struct NoSuchNode(pub String);

impl Manifests {
    /// Changes nodes. What is drained is the cluster as the scheduler makes it of these manifests before the change, by
    /// a configuration. ResourceClaims and volumes of the pods of a drained node stay as they are.
    pub fn change(
        &mut self,
        changes: &Changes,
        (conf, before): (&Conf, &Manifests),
        options: &Options,
    ) -> Result<Drain, NoSuchNode> {
        for name in &changes.drained {
            self.node(name)?.unschedulable = true;
        }
        if !changes.drained.is_empty() {
            self.place(conf, before, options);
        }
        let drain = self.drain(&changes.drained);
        changes.added.iter().try_for_each(|added| self.add_nodes(added))?;
        Ok(drain)
    }

    /// Pods that wait have the nodes that they get in the first cycles of a run of other manifests. Those with
    /// ResourceClaims wait: their devices are not known here.
    fn place(&mut self, conf: &Conf, before: &Manifests, options: &Options) {
        let mut simulation = Simulation::new(before.clone(), conf.clone(), options);
        simulation.run_cycles(PLACING_CYCLES, &mut stopped_clock());
        let placed = simulation.api_server();
        let pods = before.objects.iter().filter_map(|object| match object {
            Object::Pod(pod) => Some((&pod.info.pod.uid, &pod.info)),
            _ => None,
        });
        let pods: BTreeMap<_, _> = pods.collect();
        let mut groups = BTreeSet::new();
        for object in &mut self.objects {
            let Object::Pod(pod) = object else { continue };
            let unchanged = pods.get(&pod.info.pod.uid).is_some_and(|info| **info == pod.info);
            let waits = unchanged && pod.info.life.node.is_none() && pod.info.claims.is_none();
            let found = placed.pod(&pod.info.pod.uid).filter(|_| waits).map(|found| &found.info);
            if let Some(found) = found.filter(|found| found.life.node.is_some() && !found.life.deleting) {
                (pod.info.gated, pod.info.queue_gate) = (found.gated, found.queue_gate);
                pod.info.life = found.life.clone();
                groups.extend(found.group.iter().map(|group| Key::new(&found.pod.namespace, group)));
            }
        }
        for object in &mut self.objects {
            if let Object::PodGroup(group) = object
                && let Some(found) = placed.group(&group.key).filter(|found| groups.contains(&found.key))
            {
                group.status = found.status.clone();
            }
        }
    }

    fn drain(&mut self, nodes: &[String]) -> Drain {
        let leaves = |pod: &PodInfo| {
            let ended = matches!(pod.life.phase, PodPhase::Succeeded | PodPhase::Failed);
            let on = |name: &str| nodes.iter().any(|node| node == name);
            !ended && !stays(pod) && pod.life.node.as_deref().is_some_and(on)
        };
        let pods = self.objects.iter().filter_map(|object| match object {
            Object::Pod(pod) => Some(&pod.info).filter(|pod| leaves(pod) && !pod.life.deleting),
            _ => None,
        });
        let evicted: Vec<PodInfo> = pods.cloned().collect();
        let blocked = budget::blocked(&self.objects, &evicted);
        self.objects.retain_mut(|object| {
            let Object::Pod(pod) = object else { return true };
            if !leaves(&pod.info) {
                return true;
            }
            let waits = pod.info.ours && !pod.info.life.deleting;
            pod.info.life = PodLife::default();
            waits
        });
        let foreign = evicted.iter().filter(|pod| !pod.ours).map(|pod| pod.pod.to_string());
        Drain { foreign: foreign.collect(), blocked }
    }

    fn add_nodes(&mut self, added: &AddedNodes) -> Result<(), NoSuchNode> {
        let like = self.node(&added.like)?.clone();
        let new: Vec<NodeInfo> = (1..=added.count).map(|number| like.alike(number)).collect();
        let names: Vec<Arc<str>> = new.iter().map(|node| node.name.clone()).collect();
        for object in &mut self.objects {
            if let Object::HyperNode(info) = object
                && let Some(joined) = info.with_nodes_beside(&like.name, &names)
            {
                **info = joined;
            }
        }
        self.objects.extend(new.into_iter().map(|node| Object::Node(Box::new(node))));
        Ok(())
    }

    fn node(&mut self, name: &str) -> Result<&mut NodeInfo, NoSuchNode> {
        let nodes = self.objects.iter_mut().filter_map(|object| match object {
            Object::Node(node) => Some(&mut **node),
            _ => None,
        });
        let mut named = nodes.filter(|node| *node.name == *name);
        named.next().ok_or_else(|| NoSuchNode(name.to_owned()))
    }
}

/// Whether a drain leaves a pod where it is: a DaemonSet would make it again at once, and the kubelet a static one.
fn stays(pod: &PodInfo) -> bool {
    pod.controller.as_ref().is_some_and(|of| matches!(&*of.kind, "DaemonSet" | "Node"))
}

/// Objects that stand in place of others of the same apiVersion, kind, namespace and name.
#[derive(Default)]
pub(crate) struct Replaced(BTreeSet<[String; 4]>);

impl Replaced {
    /// Adds an object, or the items of a list.
    pub(crate) fn add(&mut self, value: &Value) {
        visit(value, &mut |object| self.0.extend([identity(object)]));
    }

    /// Leaves out the objects that others stand in place of.
    pub(crate) fn leave_out(&self, value: &mut Value) {
        if !self.0.is_empty() {
            leave_out(value, &self.0);
        }
    }
}

fn visit(value: &Value, found: &mut dyn FnMut(&Value)) {
    match value["items"].as_array() {
        Some(items) => items.iter().for_each(|item| visit(item, found)),
        None => found(value),
    }
}

fn identity(value: &Value) -> [String; 4] {
    let metadata = &value["metadata"];
    let texts = [&value["apiVersion"], &value["kind"], &metadata["namespace"], &metadata["name"]];
    let [version, kind, mut namespace, name] = texts.map(|text| text.as_str().unwrap_or_default().to_owned());
    if namespace == "default" {
        namespace.clear();
    }
    [version, kind, namespace, name]
}

/// An object that is left out becomes a list of an empty list, so that the places of others in messages stay, and its
/// file does not count as empty.
fn leave_out(value: &mut Value, replaced: &BTreeSet<[String; 4]>) {
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            leave_out(item, replaced);
        }
    } else if replaced.contains(&identity(value)) {
        let empty = json!({"apiVersion": "v1", "kind": "List"});
        *value = json!({"apiVersion": "v1", "kind": "List", "items": [empty]});
    }
}

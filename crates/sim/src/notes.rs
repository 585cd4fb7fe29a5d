//! Notes beside the result or the problems: ignored objects and fields, and values with another effect than intended.
//! Each note covers all objects that it applies to.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_api::names::QUEUE_NAME_ANNOTATION;
use phalanx_cluster::event::{HyperNodeInfo, NodeInfo, PodPhase, SliceNodes};
use phalanx_cluster::{Cluster, ClusterOptions, HyperNodeFault};

use crate::bad_input::BadInput;
use crate::gang;
use crate::kind::{Kind, near};
use crate::manifests::Object;
use crate::place::Place;

/// The first object and the number of objects.
type Counted = (BadInput, usize);

/// The limit of different notes on one field.
const TEXTS_MAX: usize = 4;

/// Notes on one field: by text, and the number of further texts.
#[derive(Default)]
struct Texts {
    told: Vec<Counted>,
    others: usize,
}

impl Texts {
    /// The place is found once for each text, because that takes time.
    fn add(&mut self, objects: usize, problem: String, fault: impl FnOnce(String) -> BadInput) {
        if let Some((_, count)) = self.told.iter_mut().find(|(first, _)| first.problem == problem) {
            *count += objects;
        } else if self.told.len() < TEXTS_MAX {
            self.told.push((fault(problem), objects));
        } else {
            self.others += objects;
        }
    }

    fn notes(&self) -> Vec<BadInput> {
        let mut notes: Vec<BadInput> = self.told.iter().map(|(first, count)| note(first, *count)).collect();
        if let Some(last) = notes.last_mut().filter(|_| self.others > 0) {
            last.problem = format!("{} (and {} more with other values)", last.problem, self.others);
        }
        notes
    }
}

/// Whether an object of this kind and name exists.
type Known<'k> = dyn Fn(Kind, &str) -> bool + 'k;

/// An object that has an effect only with its node.
struct NodeUse {
    place: Place,
    label: String,
    field: &'static str,
    what: &'static str,
    /// The number of objects that name the node.
    objects: usize,
}

/// Members of a PodGroup with a queue of their own.
struct Members {
    place: Place,
    label: String,
    count: usize,
}

/// The queue in the spec of a PodGroup, and its members by the queues that they name.
#[derive(Default)]
struct Queues {
    own: Option<String>,
    named: BTreeMap<String, Members>,
}

/// A claim that names its volume.
struct Claiming {
    place: Place,
    label: String,
    claim: String,
    volume: String,
}

#[derive(Default)]
pub(crate) struct Notes {
    /// Ignored kinds.
    ignored: BTreeMap<String, Counted>,
    /// Remarks by kind and field, regardless of positions in lists.
    odd: BTreeMap<(Kind, String), Texts>,
    /// Named PriorityClasses, by kind of the object and class.
    classes: BTreeMap<(Kind, String), Counted>,
    /// The first object of a kind for each node.
    nodes: BTreeMap<(Kind, String), NodeUse>,
    /// Queues of members by namespace and name of the PodGroup.
    queues: BTreeMap<(String, String), Queues>,
    /// Claims by volume.
    volumes: BTreeMap<String, String>,
    claims: Vec<Claiming>,
    hyper_nodes: BTreeMap<Arc<str>, (Place, String, HyperNodeInfo)>,
    /// Names and labels of nodes, which members of HyperNodes select.
    labels: Vec<NodeInfo>,
}

impl Notes {
    /// Counts an object of an ignored kind.
    pub(crate) fn ignore(&mut self, place: &Place, kind: String) {
        self.ignored.entry(kind).or_insert_with(|| (place.fault("", "", ""), 0)).1 += 1;
    }

    /// Adds a remark on a field.
    pub(crate) fn odd(
        &mut self,
        kind: Kind,
        field: &str,
        problem: impl Into<String>,
        fault: impl FnOnce(String) -> BadInput,
    ) {
        self.odd.entry((kind, without_indices(field))).or_default().add(1, problem.into(), fault);
    }

    /// Adds a PriorityClass that an object names.
    pub(crate) fn class(&mut self, kind: Kind, class: &str, fault: impl FnOnce() -> BadInput) {
        self.classes.entry((kind, class.to_owned())).or_insert_with(|| (fault(), 0)).1 += 1;
    }

    /// Adds the node that an object names.
    pub(crate) fn node(&mut self, place: &Place, kind: Kind, label: &str, object: &Object) {
        let Some(NodeReference { node, field, if_missing }) = node_of(object) else { return };
        let first =
            || NodeUse { place: place.clone(), label: label.to_owned(), field, what: if_missing, objects: 0 };
        self.nodes.entry((kind, node.to_owned())).or_insert_with(first).objects += 1;
    }

    /// Adds the queue that a PodGroup or a member names.
    pub(crate) fn queue(&mut self, place: &Place, label: &str, object: &Object) {
        match object {
            Object::PodGroup(group) => {
                let key = (group.key.namespace.to_string(), group.key.name.to_string());
                self.queues.entry(key).or_default().own = Some(group.queue.to_string());
            }
            Object::Pod(pod) if pod.info.ours => {
                let (Some(group), Some(queue)) = (&pod.info.group, &pod.info.queue) else { return };
                let key = (pod.info.pod.namespace.to_string(), group.to_string());
                let first = || Members { place: place.clone(), label: label.to_owned(), count: 0 };
                let of_group = self.queues.entry(key).or_default();
                of_group.named.entry(queue.to_string()).or_insert_with(first).count += 1;
            }
            _ => {}
        }
    }

    /// Adds the claim that a volume names, or the volume that a claim names.
    pub(crate) fn volume(&mut self, place: &Place, label: &str, object: &Object) {
        match object {
            Object::Volume(volume) => {
                // A claimRef written by hand may lack the namespace.
                let claim = volume.claim.as_ref().filter(|(claim, _)| !claim.namespace.is_empty());
                let claim = claim.map(|(claim, _)| (volume.name.to_string(), claim.to_string()));
                self.volumes.extend(claim);
            }
            Object::Pvc(claim) | Object::UnclassedPvc(claim) => {
                let Some(volume) = &claim.volume else { return };
                let (claim, volume) = (claim.key.to_string(), volume.to_string());
                self.claims.push(Claiming { place: place.clone(), label: label.to_owned(), claim, volume });
            }
            _ => {}
        }
    }

    /// Adds a HyperNode, or a node that may be in one.
    pub(crate) fn hyper_node(&mut self, place: &Place, label: &str, object: &Object) {
        match object {
            Object::HyperNode(info) => {
                let first = (place.clone(), label.to_owned(), HyperNodeInfo::clone(info));
                self.hyper_nodes.insert(Arc::clone(&info.name), first);
            }
            Object::Node(node) => {
                let (name, labels) = (Arc::clone(&node.name), node.labels.clone());
                self.labels.push(NodeInfo { name, labels, ..NodeInfo::default() });
            }
            _ => {}
        }
    }

    /// What is wrong with HyperNodes for what others and nodes are.
    fn hyper_node_faults(&self) -> Vec<BadInput> {
        if self.hyper_nodes.is_empty() {
            return Vec::new();
        }
        let mut cluster = Cluster::new(ClusterOptions::default());
        for node in &self.labels {
            cluster.apply(node.clone().into());
        }
        for (_, _, info) in self.hyper_nodes.values() {
            cluster.apply(info.clone().into());
        }
        let mut texts = Texts::default();
        for HyperNodeFault { hyper_node, text, .. } in cluster.follow_hyper_nodes() {
            let Some((place, label, _)) = self.hyper_nodes.get(&hyper_node) else { continue };
            texts.add(1, text.to_string(), |problem| place.fault(label, "spec.members", problem));
        }
        texts.notes()
    }

    /// Claims whose volume names another claim. Such claims are never bound.
    fn claims_of_others(&self) -> Vec<BadInput> {
        let mut texts = Texts::default();
        for Claiming { place, label, claim, volume } in &self.claims {
            let Some(other) = self.volumes.get(volume).filter(|other| *other != claim) else { continue };
            let problem = format!(
                "found {volume:?}, which is for claim {other} by its claimRef; the claim counts as bound to it all the same, \
                 expected another volume"
            );
            texts.add(1, problem, |problem| place.fault(label, "spec.volumeName", problem));
        }
        texts.notes()
    }

    /// Members with another queue than their PodGroup.
    fn other_queues(&self) -> Vec<BadInput> {
        let mut texts = Texts::default();
        for Queues { own, named } in self.queues.values() {
            let Some(own) = own else { continue };
            for (queue, Members { place, label, count }) in named.iter().filter(|(queue, _)| *queue != own) {
                let problem =
                    format!("found {queue:?} on a member of a PodGroup, whose spec.queue counts: {own:?}");
                let field = format!("metadata.annotations.{QUEUE_NAME_ANNOTATION}");
                texts.add(*count, problem, |problem| place.fault(label, &field, problem));
            }
        }
        texts.notes()
    }

    /// All notes by file and line. Notes on missing objects are given only if all objects were read.
    pub(crate) fn lines(&self, known: Option<&Known<'_>>) -> Vec<String> {
        let ignored = self.ignored.iter().map(|(kind, (first, count))| ignored_note(kind, first, *count));
        let odd = self.odd.values().flat_map(Texts::notes);
        let missing = known.into_iter().flat_map(|known| self.missing(known));
        let mut notes: Vec<BadInput> = ignored.chain(odd).chain(missing).collect();
        notes.sort();
        notes.iter().map(ToString::to_string).collect()
    }

    /// Pods on missing nodes, as in the dump of a part of a cluster: they use no resources of the other nodes.
    fn missing(&self, known: &Known<'_>) -> Vec<BadInput> {
        let classes = self.classes.iter().filter(|((_, class), _)| !known(Kind::PriorityClass, class));
        let classes = classes.map(|(_, (first, count))| note(first, *count));
        let nodes = self.nodes.iter().filter(|((_, node), _)| !known(Kind::Node, node));
        let nodes = nodes.map(|((_, node), by)| {
            let problem = format!("node {node:?} is not in the input; {}", by.what);
            note(&by.place.fault(&by.label, by.field, problem), by.objects)
        });
        classes
            .chain(nodes)
            .chain(self.other_queues())
            .chain(self.claims_of_others())
            .chain(self.hyper_node_faults())
            .collect()
    }
}

/// The node that an object names.
struct NodeReference<'o> {
    node: &'o str,
    /// The field with the name.
    field: &'static str,
    /// The effect if there is no such node.
    if_missing: &'static str,
}

fn node_of(object: &Object) -> Option<NodeReference<'_>> {
    let named = |node, field, if_missing| Some(NodeReference { node, field, if_missing });
    match object {
        Object::Pod(pod) if !matches!(pod.info.life.phase, PodPhase::Succeeded | PodPhase::Failed) => {
            let node = pod.info.life.node.as_deref()?;
            named(node, "spec.nodeName", "the pod is kept and uses no known node")
        }
        Object::Slice(slice) => match &slice.nodes {
            SliceNodes::Node(node) => named(node, "spec.nodeName", "no pod can use these devices"),
            SliceNodes::Matching(_) | SliceNodes::All => None,
        },
        Object::Attachment(it) => named(&it.node, "spec.nodeName", "the volume counts for no node's limit"),
        Object::CsiNode(it) => named(&it.node, "metadata.name", "its limits have no effect"),
        Object::NodeUsage(it) => named(&it.node, "metadata.name", "its figures have no effect"),
        _ => None,
    }
}

/// `spec.containers.name` for `spec.containers[3].name`.
fn without_indices(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

fn note(first: &BadInput, count: usize) -> BadInput {
    let more = if count == 1 { String::new() } else { format!(" ({count} times in all)") };
    BadInput { problem: format!("{}{more}", first.problem), ..first.clone() }
}

fn ignored_note(kind: &str, first: &BadInput, count: usize) -> BadInput {
    let objects =
        if count == 1 { "1 object".to_owned() } else { format!("{count} objects, this the first,") };
    let problem = format!("ignored {objects} of kind {kind}, {}", why_ignored(kind));
    BadInput { problem, ..first.clone() }
}

/// For workloads whose pods can be simulated: their controller, and the objects to give instead. For other kinds, the
/// kind that was
/// probably meant.
fn why_ignored(kind: &str) -> String {
    let single = kind.replacen("List (", " (", 1);
    let made = ["DaemonSet (apps/", "CronJob (batch/", "ReplicationController (v1"];
    if made.iter().any(|made| single.starts_with(made)) {
        return "whose pods its controller makes, expected those: kubectl get pods -A -o yaml".to_owned();
    }
    if let Some((name, version)) = single.split_once(" (")
        && gang::states_minimum(name, version.strip_suffix(')').unwrap_or(version))
    {
        return "but for the minimum of its gang; its controller makes its pods, expected those: \
                kubectl get pods -A -o yaml"
            .to_owned();
    }
    let near = kind.split_once(" (").and_then(|(name, version)| near(name, version.strip_suffix(')')?));
    let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    format!("which scheduling does not read{hint}")
}

//! PodGroups for pods whose owner states a minimum, or that ask for a network topology: by the function of the live
//! controllers. All other pods are gangs of one, with a PodGroup as without.
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_api::names::{self, GROUP_NAME_ANNOTATION};
use phalanx_api::v1beta1::{API_VERSION, PodGroup};
use phalanx_cache::Names;
use phalanx_controllers::podgroup::{
    Gang, Link, Minimum, Observed, Owner, OwnerTable, PlainPod, gang, reconcile,
};
use phalanx_controllers::{Change, Object};
use serde_json::{Value, json};

use crate::kind::Sort;
use crate::workload;

const LEADER_WORKER_SET: &str = "LeaderWorkerSet";
/// What keys that it gives to pods begin with.
const SETS_PREFIX: &str = "leaderworkerset.sigs.k8s.io/";
const JOB_SET: &str = "JobSet";
/// The name of a JobSet, as a label of its pods.
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// By which a pod asks for a network topology.
const TOPOLOGIES: [&str; 4] = [
    names::NETWORK_TOPOLOGY_MODE,
    names::NETWORK_TOPOLOGY_HIGHEST_TIER,
    names::KUEUE_REQUIRED_TOPOLOGY,
    names::KUEUE_PREFERRED_TOPOLOGY,
];

/// The names of PodGroups by namespace and name of the pods that join them. `KIND/NAME` stands for the pods that are
/// made of a workload.
pub(crate) type Joins = BTreeMap<(String, String), String>;

/// Whether an object of this kind may state the minimum of a gang.
pub(crate) fn states_minimum(kind: &str, api_version: &str) -> bool {
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    OwnerTable::builtin().row_of(&OwnerReference { api_version, kind, ..OwnerReference::default() }).is_some()
}

/// Puts the pods of a workload into a PodGroup, which is returned, where the workload states a minimum. `reference` is
/// what its pods say of it.
pub(crate) fn of_workload(reference: &OwnerReference, workload: &Value, pods: &mut [Value]) -> Option<Value> {
    let table = OwnerTable::builtin();
    let row = &table.rows()[table.row_of(reference)?];
    let metadata: ObjectMeta = serde_json::from_value(workload["metadata"].clone()).ok()?;
    let owner = Owner::of(&metadata, workload, row);
    let members: Vec<PlainPod> = pods.iter().filter_map(|pod| plain(pod, Some(reference))).collect();
    let members: Vec<&PlainPod> = members.iter().collect();
    let find = |pod: &PlainPod| gang(pod, |_: &OwnerReference| Link::Owner(&owner, row));
    let mut joins = Joins::new();
    let group = made(namespace(workload), &members, &find, &mut joins);
    for pod in pods {
        join(pod, &joins);
    }
    group
}

/// Owners of kinds that the table lists, and pods of ours without a PodGroup: what PodGroups are made of for pods whose
/// owners stand in the documents too and state a minimum.
pub(crate) struct Gangs {
    table: OwnerTable,
    /// By UID.
    owners: BTreeMap<String, (usize, Owner)>,
    /// LeaderWorkerSets and JobSets by kind, namespace and name.
    sets: BTreeMap<(&'static str, String, String), OwnerReference>,
    /// By namespace and name.
    pods: BTreeMap<(String, String), PlainPod>,
    /// A pod asks for a network topology, for which a PodGroup is made too.
    any_topology: bool,
}

impl Default for Gangs {
    fn default() -> Self {
        Self {
            table: OwnerTable::builtin(),
            owners: BTreeMap::new(),
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            any_topology: false,
        }
    }
}

/// Puts the pods of a document into their PodGroups.
pub(crate) fn join_all(document: &mut Value, joins: &Joins) {
    if !joins.is_empty() {
        visit_mut(document, &mut |object| join(object, joins));
    }
}

impl Gangs {
    /// Adds the owners in a document.
    pub(crate) fn add_owner(&mut self, document: &Value) {
        visit(document, &mut |object| self.add_one_owner(object));
    }

    /// Whether an owner states a minimum, or a pod a network topology.
    pub(crate) fn any_stated(&self) -> bool {
        self.any_topology || self.owners.values().any(|(_, owner)| owner.minimum != Minimum::Unstated)
    }

    /// Adds the pods in a document.
    pub(crate) fn add_pods(&mut self, document: &Value, names: &Names) {
        visit(document, &mut |object| self.add_pod(object, names));
    }

    fn add_one_owner(&mut self, object: &Value) {
        if object["kind"] == "Pod" {
            let keys = object["metadata"]["annotations"].as_object().into_iter().flatten();
            self.any_topology |= keys.into_iter().any(|(key, _)| TOPOLOGIES.contains(&key.as_str()));
            if let Some(set) =
                set_of(object).filter(|set| !self.sets.contains_key(&key(LEADER_WORKER_SET, set)))
            {
                self.add_one_owner(&set);
            }
            return;
        }
        let object = &with_uid(object.clone());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = OwnerReference {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            name: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let Some(row) = self.table.row_of(&reference) else { return };
        let Ok(metadata) = serde_json::from_value::<ObjectMeta>(object["metadata"].clone()) else { return };
        let owner = Owner::of(&metadata, object, &self.table.rows()[row]);
        if let Some(kind) = [LEADER_WORKER_SET, JOB_SET].into_iter().find(|kind| *kind == reference.kind) {
            self.sets.insert(key(kind, object), reference);
        }
        self.owners.extend(metadata.uid.map(|uid| (uid, (row, owner))));
    }

    fn add_pod(&mut self, object: &Value, names: &Names) {
        let pod = if object["kind"] == "Pod" {
            with_uid(object.clone())
        } else {
            self.model(object).unwrap_or_default()
        };
        if names.is_ours(pod["spec"]["schedulerName"].as_str())
            && let Some(mut plain) = plain(&pod, None)
        {
            if let Some(set) = self.set_of_pod(&plain, namespace(object)) {
                plain.controller = Some(set.clone());
            }
            self.pods.insert((namespace(object).to_owned(), plain.name.clone()), plain);
        }
    }

    /// A pod that stands for those of a workload below an owner that is listed.
    fn model(&self, workload: &Value) -> Option<Value> {
        let metadata: ObjectMeta = serde_json::from_value(workload["metadata"].clone()).ok()?;
        let above =
            metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        self.owners.get(&above.uid)?;
        let text = |field: &str| workload[field].as_str().unwrap_or_default();
        let Sort::Workload(kind) = Sort::of(text("apiVersion"), text("kind")) else { return None };
        if !workload::has_pods(kind, workload) {
            return None;
        }
        let mut pod = workload["spec"]["template"].clone();
        pod["metadata"]["name"] = json!(workload_name(workload));
        pod["metadata"]["ownerReferences"] = json!([above]);
        Some(pod)
    }

    /// The LeaderWorkerSet or JobSet that a pod says it is of: the StatefulSets and Jobs between, which a live chain
    /// goes through, may stand in no document.
    fn set_of_pod(&self, pod: &PlainPod, namespace: &str) -> Option<&OwnerReference> {
        let named = |kind: &'static str, label: &str| {
            let name = pod.labels.get(label)?;
            self.sets.get(&(kind, namespace.to_owned(), name.clone()))
        };
        let known = pod.controller.as_ref().is_some_and(|owner| self.owners.contains_key(&owner.uid));
        let job_set = || named(JOB_SET, JOB_SET_NAME).filter(|_| !known);
        named(LEADER_WORKER_SET, &format!("{SETS_PREFIX}name")).or_else(job_set)
    }

    fn gang(&self, namespace: &str, pod: &PlainPod) -> Option<Gang> {
        gang(pod, |reference| {
            let owner = self.owners.get(&reference.uid);
            let owner = owner.map(|(row, owner)| Link::Owner(owner, &self.table.rows()[*row]));
            let pod = self.pods.get(&(namespace.to_owned(), reference.name.clone()));
            let pod = pod.filter(|_| reference.kind == "Pod").map(Link::Pod);
            owner.or(pod).unwrap_or(Link::Unlisted)
        })
    }

    /// The PodGroups, and which pods join them.
    pub(crate) fn groups(&self) -> (Vec<Value>, Joins) {
        let mut joins = Joins::new();
        let mut members: BTreeMap<(&str, String), Vec<&PlainPod>> = BTreeMap::new();
        for ((namespace, _), pod) in &self.pods {
            let name = self.gang(namespace, pod).map(|gang| gang.name).unwrap_or_default();
            members.entry((namespace, name)).or_default().push(pod);
        }
        let made = |((namespace, _), pods): (&(&str, String), &Vec<&PlainPod>)| {
            made(namespace, pods, &|pod| self.gang(namespace, pod), &mut joins)
        };
        let groups = members.iter().filter_map(made).collect();
        (groups, joins)
    }
}

/// The PodGroup of the members of one gang, where its owner states a minimum or its pods a network topology.
fn made(
    namespace: &str,
    members: &[&PlainPod],
    find: &dyn Fn(&PlainPod) -> Option<Gang>,
    joins: &mut Joins,
) -> Option<Value> {
    let Gang { name, minimum, .. } = find(members.first()?)?;
    let asks_topology = |pod: &&PlainPod| TOPOLOGIES.iter().any(|key| pod.annotations.contains_key(*key));
    if minimum == Minimum::Unstated && !members.iter().any(asks_topology) {
        return None;
    }
    let scheduler = "volcano";
    let seen = Observed { namespace, name: &name, members, gang: find, group: None, scheduler, queue: None };
    let mut made = None;
    for change in reconcile(&seen).changes {
        match change {
            Change::Create(Object::PodGroup(group)) => made = Some(manifest(&group)),
            Change::Join(pod, group) => {
                joins.insert((namespace.to_owned(), pod.name), group);
            }
            _ => {}
        }
    }
    made
}

/// Objects that were written by hand have no UID, by which PodGroups are named.
fn with_uid(mut object: Value) -> Value {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let text = |field: &str| metadata.and_then(|it| it.get(field)?.as_str());
    let uid = format!("{}-{}", text("namespace").unwrap_or("default"), text("name").unwrap_or_default());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("uid").or_insert(json!(uid));
    }
    object
}

fn join(object: &mut Value, joins: &Joins) {
    let is_pod = object["kind"] == "Pod";
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let name = if is_pod { name.to_owned() } else { workload_name(object) };
    if let Some(group) = joins.get(&(namespace(object).to_owned(), name)) {
        let pod = if is_pod { object } else { &mut object["spec"]["template"] };
        pod["metadata"]["annotations"][GROUP_NAME_ANNOTATION] = json!(group);
    }
}

fn workload_name(workload: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&workload["kind"]), text(&workload["metadata"]["name"]))
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn key(kind: &'static str, object: &Value) -> (&'static str, String, String) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (kind, namespace(object).to_owned(), name.to_owned())
}

fn said(from: &Value, key: &str) -> Option<String> {
    Some(from.get(format!("{SETS_PREFIX}{key}"))?.as_str()?.to_owned())
}

/// The LeaderWorkerSet of a leader, as far as the pod says what it is.
fn set_of(pod: &Value) -> Option<Value> {
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    let number = |key: &str| said(annotations, key)?.parse::<i32>().ok();
    let is_leader = said(labels, "worker-index").is_none_or(|index| index == "0");
    let name = said(labels, "name").filter(|_| is_leader)?;
    Some(json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": LEADER_WORKER_SET,
        "metadata": {"name": name, "namespace": namespace(pod), "uid": format!("{}-{name}", namespace(pod))},
        "spec": {"leaderWorkerTemplate": {
            "size": number("size"),
            "subGroupPolicy": {
                "subGroupSize": number("subgroup-size"),
                "subGroupPolicyType": said(annotations, "subgroup-policy-type"),
            },
            "workerTemplate": {"metadata": {"annotations": annotations}},
        }},
    }))
}

/// A pod without a PodGroup.
fn plain(pod: &Value, owner: Option<&OwnerReference>) -> Option<PlainPod> {
    let mut pod: Pod = serde_json::from_value(pod.clone()).ok()?;
    if let Some(owner) = owner {
        pod.metadata.owner_references = Some(vec![owner.clone()]);
    }
    Some(PlainPod::from(&pod)).filter(|pod| pod.group.is_none())
}

/// Looks at an object, or at the items of a list.
fn visit(value: &Value, look: &mut impl FnMut(&Value)) {
    match value["items"].as_array() {
        Some(items) => items.iter().for_each(|item| visit(item, look)),
        None => look(value),
    }
}

fn visit_mut(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    match value.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(|item| visit_mut(item, change)),
        None => change(value),
    }
}

fn manifest(group: &PodGroup) -> Value {
    let mut value = json!(group);
    value["apiVersion"] = json!(API_VERSION);
    value["kind"] = json!("PodGroup");
    value
}

//! Reads one object.
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup as KubernetesPodGroup;
use phalanx_api::names::{COOLDOWN_TIME, EXIT_CODES, JOB_RETRY_COUNT, RUN_SECONDS};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1;
use phalanx_cache::{Interner, Invalid, Names, decode, is_name, slim};
use phalanx_cluster::event::{Event, NodeUsage, PodInfo, PodPhase, PodRef, PvcInfo, Time};
use serde_json::{Value, json};

use crate::api_server::SimulatedPod;
use crate::budget::Budget;
use crate::defaults;
use crate::kind::Kind;
use crate::manifests::Object;
use crate::schema::YAML_BOOL;
use crate::{names_check, pod_check, pod_whole_check};

/// Kubernetes' default of `terminationGracePeriodSeconds`.
pub(crate) const GRACE_SECONDS: i64 = 30;

/// The longest run time and grace period: some 30,000 years.
const SECONDS_MAX: f64 = 1e12;

/// The rule for names.
pub(crate) const NAME: &str = "lower-case letters, digits, '-' and '.', at most 253";

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `namespace/name`, or the name alone; empty if either is invalid.
    pub(crate) key: String,
    /// The kind and the key, for messages.
    pub(crate) label: String,
    /// The object has a creation time.
    pub(crate) dated: bool,
    /// Problems of the name.
    pub(crate) wrong: Vec<Invalid>,
}

/// The replacement of an invalid name while the rest of the object is checked.
const UNNAMED: &str = "unnamed";

/// Finds the name of an object, and fills in the default namespace and replacements of invalid parts.
pub(crate) fn identify(object: &mut Value, kind: &str, namespaced: bool) -> Identity {
    let mut wrong = Vec::new();
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        if !metadata.is_null() {
            let problem = format!("found {}, expected a mapping", crate::reader::describe(metadata));
            wrong.push(invalid("metadata", &problem));
        }
        *metadata = json!({});
    }
    let name = name(&metadata["name"]).unwrap_or_else(|problem| {
        let missing = invalid("metadata.name", &problem);
        wrong.extend(Some(missing).filter(|_| wrong.is_empty()));
        UNNAMED.to_owned()
    });
    metadata["name"] = json!(name);
    let key = if namespaced {
        let namespace = namespace(&metadata["namespace"]).unwrap_or_else(|problem| {
            wrong.push(invalid("metadata.namespace", &problem));
            "default".to_owned()
        });
        metadata["namespace"] = json!(namespace);
        format!("{namespace}/{name}")
    } else {
        metadata.as_object_mut().and_then(|metadata| metadata.remove("namespace"));
        name
    };
    let dated = !metadata["creationTimestamp"].is_null();
    if wrong.is_empty() {
        return Identity { label: format!("{kind} {key}"), key, dated, wrong };
    }
    Identity { label: kind.to_owned(), key: String::new(), dated, wrong }
}

fn name(found: &Value) -> Result<String, String> {
    match found {
        Value::String(name) if is_name(name) => Ok(name.clone()),
        Value::Null => Err("missing, expected a name".to_owned()),
        other => {
            let hint = if other.is_boolean() { YAML_BOOL } else { "" };
            Err(format!("found {other}, expected {NAME}{hint}"))
        }
    }
}

fn namespace(found: &Value) -> Result<String, String> {
    match found {
        Value::String(namespace) if is_name(namespace) => Ok(namespace.clone()),
        Value::Null => Ok("default".to_owned()),
        other => Err(format!("found {other}, expected a name")),
    }
}

fn invalid(field: &str, problem: &str) -> Invalid {
    Invalid { field: field.to_owned(), problem: problem.to_owned() }
}

/// Problems of an object: that it cannot be read, or all that the API server would refuse.
#[derive(Debug)]
pub(crate) struct Faults(pub(crate) Vec<Invalid>);

impl From<Invalid> for Faults {
    fn from(invalid: Invalid) -> Self {
        Self(vec![invalid])
    }
}

/// No problems.
fn sound(found: Vec<Invalid>) -> Result<(), Faults> {
    if found.is_empty() { Ok(()) } else { Err(Faults(found)) }
}

/// Reads objects; equal values are shared.
pub(crate) struct Converter {
    names: Names,
    interner: Interner,
    /// Remarks on the object that was read last.
    pub(crate) remarks: Vec<Invalid>,
}

impl Converter {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, interner: Interner::default(), remarks: Vec::new() }
    }

    pub(crate) fn convert(&mut self, kind: Kind, value: &mut Value) -> Result<Object, Faults> {
        let interner = &mut self.interner;
        match kind {
            Kind::Node => {
                defaults::node(value);
                let node: slim::Node = decode(value)?;
                sound(names_check::taints(&node.spec.taints))?;
                self.remarks = odd_readiness(&node).into_iter().collect();
                Ok(Object::Node(Box::new(phalanx_cache::node(&node, interner)?)))
            }
            Kind::Pod => self.pod(value).map(|pod| Object::Pod(Box::new(pod))),
            Kind::PodGroup => {
                let group: v1beta1::PodGroup = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_group(&group);
                let group = phalanx_cache::sound_pod_group(&group, &self.names, interner);
                group.map(|group| Object::PodGroup(Box::new(group))).map_err(Faults)
            }
            Kind::KubernetesPodGroup => {
                let group: KubernetesPodGroup = decode(value)?;
                let group = phalanx_cache::kubernetes_pod_group(&group, &self.names, interner);
                Ok(Object::PodGroup(Box::new(group)))
            }
            Kind::Queue => {
                let queue: v1beta1::Queue = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_queue(&queue);
                let queue = phalanx_cache::sound_queue(&queue, interner);
                queue.map(|queue| Object::Queue(Box::new(queue))).map_err(Faults)
            }
            Kind::HyperNode => {
                let hyper_node: HyperNode = decode(value)?;
                self.remarks = phalanx_cache::faults_of_hyper_node(&hyper_node);
                Ok(Object::HyperNode(Box::new(phalanx_cache::hyper_node(&hyper_node, interner))))
            }
            Kind::PriorityClass => Ok(self.priority_class(value)?),
            Kind::ResourceQuota => {
                let quota: slim::ResourceQuota = decode(value)?;
                let read = phalanx_cache::quota(&quota, interner)?;
                Ok(read.map_or(Object::ScopedQuota, Object::Quota))
            }
            Kind::NodeMetrics => {
                let metrics: slim::NodeMetrics = decode(value)?;
                let usage = phalanx_cache::node_usage(&metrics, interner)?;
                // The usage includes pods that run in the manifests, and it does not expire.
                Ok(Object::NodeUsage(NodeUsage { since: Time(i64::MAX), at: None, ..usage }))
            }
            Kind::Namespace => {
                let namespace: slim::Namespace = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_namespace(&namespace);
                Ok(Object::Namespace(phalanx_cache::namespace(&namespace, interner)))
            }
            Kind::PodDisruptionBudget => Ok(self.budget(value)?),
            Kind::DeviceClass | Kind::ResourceSlice | Kind::ResourceClaim | Kind::ResourceClaimTemplate => {
                Ok(self.device(kind, value)?)
            }
            Kind::PersistentVolume
            | Kind::PersistentVolumeClaim
            | Kind::StorageClass
            | Kind::CSINode
            | Kind::VolumeAttachment
            | Kind::CSIDriver
            | Kind::CSIStorageCapacity => self.storage(kind, value),
        }
    }

    /// Volumes, claims and CSI objects.
    fn storage(&mut self, kind: Kind, value: &mut Value) -> Result<Object, Faults> {
        let interner = &mut self.interner;
        match kind {
            Kind::PersistentVolume => {
                let volume: slim::PersistentVolume = decode(value)?;
                Ok(Object::Volume(Box::new(phalanx_cache::volume(&volume, interner)?)))
            }
            Kind::PersistentVolumeClaim => {
                defaults::pvc(value);
                let claim = Box::new(self.pvc(value)?);
                let classed = value.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null());
                Ok(if classed { Object::Pvc(claim) } else { Object::UnclassedPvc(claim) })
            }
            Kind::StorageClass => {
                let class: slim::StorageClass = decode(value)?;
                let class = phalanx_cache::storage_class(&class, interner)?;
                let default = value.pointer("/metadata/annotations").is_some_and(is_default_class);
                Ok(if default { Object::DefaultStorageClass(class) } else { Object::StorageClass(class) })
            }
            Kind::CSINode => {
                let node: slim::CSINode = decode(value)?;
                Ok(Object::CsiNode(phalanx_cache::csi_node(&node, interner)))
            }
            Kind::VolumeAttachment => {
                Ok(Object::Attachment(phalanx_cache::attachment(&decode(value)?, interner)))
            }
            Kind::CSIDriver => Ok(Object::CsiDriver(phalanx_cache::csi_driver(&decode(value)?, interner))),
            _ => Ok(Object::StorageCapacity(phalanx_cache::storage_capacity(&decode(value)?, interner)?)),
        }
    }

    fn budget(&mut self, value: &Value) -> Result<Object, Invalid> {
        let pdb: slim::PodDisruptionBudget = decode(value)?;
        self.remarks = phalanx_cache::remarks_of_budget(&pdb);
        let info = phalanx_cache::pdb(&pdb, &mut self.interner)?;
        Ok(match Budget::of(value)? {
            Some(budget) => Object::Budget(info, budget),
            None => Object::Pdb(info),
        })
    }

    fn device(&mut self, kind: Kind, value: &Value) -> Result<Object, Invalid> {
        let interner = &mut self.interner;
        Ok(match kind {
            Kind::DeviceClass => {
                let class: DeviceClass = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_device_class(&class);
                Object::DeviceClass(phalanx_cache::device_class(&class, interner))
            }
            Kind::ResourceSlice => Object::Slice(phalanx_cache::resource_slice(&decode(value)?, interner)?),
            Kind::ResourceClaim => {
                let claim: ResourceClaim = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_claim("spec", &claim.spec);
                Object::Claim(Box::new(phalanx_cache::resource_claim(&claim, interner)?))
            }
            _ => {
                let template: ResourceClaimTemplate = decode(value)?;
                self.remarks = phalanx_cache::remarks_of_claim("spec.spec", &template.spec.spec);
                Object::ClaimTemplate(Box::new(phalanx_cache::claim_template(&template, interner)))
            }
        })
    }

    fn priority_class(&mut self, value: &Value) -> Result<Object, Invalid> {
        let never_preempts = value["preemptionPolicy"] == "Never";
        let class: slim::PriorityClass = decode(value)?;
        match phalanx_cache::priority_class(&class, &mut self.interner) {
            Event::PriorityClass { name, value, global_default } => {
                Ok(Object::PriorityClass { name, value, global_default, never_preempts })
            }
            other => Err(invalid("", &format!("found {other:?}, expected a PriorityClass"))),
        }
    }

    fn pvc(&mut self, value: &Value) -> Result<PvcInfo, Invalid> {
        let claim: slim::PersistentVolumeClaim = decode(value)?;
        phalanx_cache::pvc(&claim, &mut self.interner)
    }

    /// The claims that a controller creates for a pod's ephemeral volumes.
    fn pvcs_of(&mut self, pod: &Value, info: &PodInfo) -> Result<Vec<PvcInfo>, Invalid> {
        let volumes = pod["spec"]["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let PodRef { namespace, name, uid } = &*info.pod;
        let claim = |volume: &Value| {
            let spec = volume.pointer("/ephemeral/volumeClaimTemplate/spec")?;
            let name = format!("{name}-{}", volume["name"].as_str().unwrap_or_default());
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": &*info.pod.name, "uid": &**uid, "controller": true});
            let metadata = json!({"namespace": &**namespace, "name": name, "ownerReferences": [owner]});
            Some(json!({"metadata": metadata, "spec": spec}))
        };
        volumes.iter().filter_map(claim).map(|claim| self.pvc(&claim)).collect()
    }

    fn pod(&mut self, value: &Value) -> Result<SimulatedPod, Faults> {
        let pod: slim::Pod = decode(value)?;
        if pod.spec.containers.is_empty() {
            return Err(invalid("spec.containers", "found no container, expected at least one").into());
        }
        self.remarks = phalanx_cache::remarks_of_pod(&pod);
        self.remarks.extend(running_without_node(&pod));
        let info = phalanx_cache::pod(&pod, &self.names, &mut self.interner)?;
        self.remarks.extend(ageless(&pod, &info));
        let checks = [pod_check::check, pod_whole_check::check, names_check::pod];
        sound(checks.into_iter().flat_map(|check| check(&pod.spec)).collect())?;
        Ok(SimulatedPod {
            pvcs: self.pvcs_of(value, &info)?,
            info,
            run_ms: run_ms(&pod)?,
            assumed: None,
            exit_code: exit_code(&pod)?,
            grace_ms: grace_ms(value)?,
            templates: templates(&pod),
            maker: None,
        })
    }
}

/// Whether the annotations of a StorageClass make it the default one.
fn is_default_class(annotations: &Value) -> bool {
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
        .iter()
        .any(|key| annotations[*key] == "true")
}

/// Reports an unknown status of the condition Ready.
fn odd_readiness(node: &slim::Node) -> Option<Invalid> {
    let mut conditions = node.status.conditions.iter().enumerate();
    let (at, ready) = conditions.find(|(_, condition)| condition.type_ == "Ready")?;
    let known = ["True", "False", "Unknown"].contains(&ready.status.as_str());
    let problem =
        format!("found {:?}, expected True, False or Unknown; the node counts as not ready", ready.status);
    (!known).then(|| invalid(&format!("status.conditions[{at}].status"), &problem))
}

/// A Running pod without a node is not placed and uses no node.
fn running_without_node(pod: &slim::Pod) -> Option<Invalid> {
    let placed = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let running = pod.status.phase.as_deref() == Some("Running");
    let problem = "found Running without spec.nodeName; the pod is not placed and uses no node, expected both or neither";
    (running && !placed).then(|| invalid("status.phase", problem))
}

/// The cooldown of a running pod without a start time has no known end, so the pod is not protected.
fn ageless(pod: &slim::Pod, info: &PodInfo) -> Option<Invalid> {
    let field = |marks: &Option<BTreeMap<String, String>>| marks.as_ref()?.get(COOLDOWN_TIME).cloned();
    let labels = field(&pod.metadata.labels).map(|text| ("labels", text));
    let (marks, text) =
        labels.or_else(|| field(&pod.metadata.annotations).map(|text| ("annotations", text)))?;
    let problem = format!(
        "found {text:?} on a pod that runs and does not say since when, so it is not protected, expected status.startTime or a \
         condition PodScheduled with lastTransitionTime"
    );
    let known =
        info.life.scheduled.is_some() || info.life.phase != PodPhase::Running || info.life.node.is_none();
    (!known).then(|| invalid(&format!("metadata.{marks}.{COOLDOWN_TIME}"), &problem))
}

/// Claims of a pod from templates.
fn templates(pod: &slim::Pod) -> Vec<(Arc<str>, Arc<str>)> {
    let claims = pod.spec.resource_claims.iter();
    let of_template = claims.filter_map(|claim| {
        Some((claim.name.as_str().into(), claim.resource_claim_template_name.as_deref()?.into()))
    });
    of_template.collect()
}

fn run_ms(pod: &slim::Pod) -> Result<Option<i64>, Invalid> {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|annotations| annotations.get(RUN_SECONDS)) else {
        return Ok(None);
    };
    millis(RUN_SECONDS, text).map(Some)
}

/// The seconds of an annotation, in milliseconds.
pub(crate) fn millis(annotation: &str, text: &str) -> Result<i64, Invalid> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let field = format!("metadata.annotations.{annotation}");
    let problem = || format!("found {text:?}, expected a number of seconds from 0 to {SECONDS_MAX}");
    seconds.map(|seconds| (seconds * 1_000.0).round() as i64).ok_or_else(|| invalid(&field, &problem()))
}

/// How the pod ends, by the retry of its job that it was made in.
fn exit_code(pod: &slim::Pod) -> Result<i32, Invalid> {
    let text = |key| pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let Some(list) = text(EXIT_CODES) else { return Ok(0) };
    let codes: Result<Vec<i32>, _> =
        list.split(',').map(|code| code.trim().parse::<u8>().map(i32::from)).collect();
    let field = format!("metadata.annotations.{EXIT_CODES}");
    let codes = codes.map_err(|_| {
        invalid(&field, &format!("found {list:?}, expected numbers from 0 to 255 with commas"))
    })?;
    let retry = text(JOB_RETRY_COUNT).and_then(|retry| retry.parse::<usize>().ok()).unwrap_or(0);
    Ok(codes.get(retry).or(codes.last()).copied().unwrap_or(0))
}

fn grace_ms(pod: &Value) -> Result<i64, Invalid> {
    let seconds = match pod.pointer("/spec/terminationGracePeriodSeconds") {
        None | Some(Value::Null) => Ok(GRACE_SECONDS),
        Some(value) => {
            value.as_i64().filter(|seconds| (0..=SECONDS_MAX as i64).contains(seconds)).ok_or(value)
        }
    };
    let problem =
        |value: &Value| format!("found {value}, expected a number of seconds from 0 to {SECONDS_MAX}");
    seconds
        .map(|seconds| seconds * 1_000)
        .map_err(|value| invalid("spec.terminationGracePeriodSeconds", &problem(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_run_seconds_is_a_number_of_seconds() {
        let run = |text: &str| {
            let value = json!({"metadata": {"annotations": {RUN_SECONDS: text}}});
            run_ms(&decode(&value).unwrap()).map_err(|invalid| invalid.problem)
        };
        assert_eq!(run("30"), Ok(Some(30_000)));
        assert_eq!(run("0.25"), Ok(Some(250)));
        for bad in ["-1", "NaN", "inf", "1m", ""] {
            assert_eq!(
                run(bad),
                Err(format!("found {bad:?}, expected a number of seconds from 0 to {SECONDS_MAX}"))
            );
        }
    }
}

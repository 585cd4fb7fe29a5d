//! The PodGroup and the pods of an arrival.
use std::sync::Arc;

use phalanx_api::names::{GROUP_NAME_ANNOTATION, QUEUE_NAME_ANNOTATION};
use phalanx_api::v1beta1;
use phalanx_cache::{Interner, Invalid, Names, decode, is_name, slim};
use phalanx_cluster::event::{Key, PodGroupInfo, PodRef, Time};
use phalanx_resource::Quantity;
use serde_json::{Value, json};

use super::arrival::{Arrival, Labels};
use crate::api_server::SimulatedPod;
use crate::manifests::Object;
use crate::object::NAME;
use crate::replacement;

/// The longest time of a trace, in seconds: some 300 years.
const SECONDS_MAX: f64 = 1e10;

/// The most pods of a job.
const SIZE_MAX: u32 = 100_000;

/// How UIDs of the pods of a trace begin.
const UID: &str = "trace:";

/// A job that arrives.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// When, since the begin of the trace.
    pub(super) arrival: Time,
    pub(super) size: u32,
    pub(super) min_member: u32,
    pub(super) priority: Option<i32>,
    /// What a pod requests, by resource.
    pub(super) requests: Vec<(Arc<str>, Quantity)>,
    /// The values that labels of nodes may have.
    pub(super) selector: Arc<[(String, Labels)]>,
    /// The name of the job.
    pub(super) name: String,
    group: Option<PodGroupInfo>,
    pod: SimulatedPod,
}

impl Job {
    /// The queue that it names.
    pub(super) fn queue(&self) -> Option<&str> {
        match &self.group {
            Some(group) => Some(&*group.queue),
            None => self.pod.info.queue.as_deref(),
        }
    }

    /// The key of its PodGroup, or of its pod.
    pub(super) fn key(&self) -> Key {
        let pod = || Key::new(&self.pod.info.pod.namespace, &self.name);
        self.group_key().unwrap_or_else(pod)
    }

    /// The key of its PodGroup.
    pub(super) fn group_key(&self) -> Option<Key> {
        self.group.as_ref().map(|group| group.key.clone())
    }

    /// The objects of the job with this place in its trace, created at `now`.
    pub(super) fn objects(&self, place: usize, now: Time) -> Vec<Object> {
        let group = self.group.clone().map(|group| PodGroupInfo { created: now, ..group });
        let group = group.map(|group| Object::PodGroup(Box::new(group)));
        let pods = (0..self.size).map(|member| {
            let mut pod = self.pod.clone();
            let name = if self.group.is_some() {
                format!("{}-{member}", self.name).into()
            } else {
                self.name.as_str().into()
            };
            let uid = format!("{UID}{place}.{member}").into();
            pod.info.pod = PodRef { namespace: pod.info.pod.namespace.clone(), name, uid }.into();
            pod.info.index = self.group.is_some().then_some(member);
            pod.info.created = now;
            Object::Pod(Box::new(pod))
        });
        group.into_iter().chain(pods).collect()
    }
}

/// The place in its trace of the job of a pod.
pub(super) fn place_of(uid: &str) -> Option<usize> {
    uid.strip_prefix(UID)?.split('.').next()?.parse().ok()
}

/// The PriorityClass of a priority.
pub(super) fn class(priority: i32) -> String {
    format!("trace-priority-{priority}").replace("--", "-minus-")
}

/// Makes jobs; equal values are shared.
pub(super) struct Maker {
    names: Names,
    interner: Interner,
}

impl Maker {
    pub(super) fn new(names: &Names) -> Self {
        Self { names: names.clone(), interner: Interner::default() }
    }

    /// The job of an arrival, or what is wrong with it.
    pub(super) fn job(&mut self, of: &Arrival) -> Result<Job, Invalid> {
        let arrival = milliseconds("arrival", of.arrival)?;
        let run_ms = of.duration.map(|seconds| milliseconds("duration", seconds)).transpose()?;
        let min_member = check(of)?;
        let requests =
            of.requests.iter().map(|(name, text)| request(name, text)).collect::<Result<_, _>>()?;
        let namespace = of.namespace.as_deref().unwrap_or("default");
        let group = (of.size > 1).then(|| self.group(of, namespace, min_member)).transpose()?;
        let pod: slim::Pod = decode(&self.pod(of, namespace))?;
        let info = phalanx_cache::pod(&pod, &self.names, &mut self.interner)?;
        let label: Arc<str> = format!("job {namespace}/{}", of.name).into();
        let maker = replacement::Maker { label, name: of.name.as_str().into(), keeps_names: false, later: 0 };
        Ok(Job {
            arrival: Time(arrival),
            size: of.size,
            min_member,
            priority: of.priority,
            requests,
            selector: of.node_selector.iter().map(|(key, values)| (key.clone(), values.clone())).collect(),
            name: of.name.clone(),
            group,
            pod: SimulatedPod {
                info,
                run_ms,
                assumed: None,
                exit_code: 0,
                pvcs: Vec::new(),
                grace_ms: 0,
                templates: Vec::new(),
                maker: Some(maker.into()),
            },
        })
    }

    fn group(&mut self, of: &Arrival, namespace: &str, min_member: u32) -> Result<PodGroupInfo, Invalid> {
        let mut spec = json!({"minMember": min_member});
        if let Some(queue) = &of.queue {
            spec["queue"] = json!(queue);
        }
        if let Some(priority) = of.priority {
            spec["priorityClassName"] = json!(class(priority));
        }
        let metadata = json!({"namespace": namespace, "name": of.name, "uid": format!("{UID}{}", of.name)});
        let group: v1beta1::PodGroup = decode(&json!({"metadata": metadata, "spec": spec}))?;
        let read = phalanx_cache::sound_pod_group(&group, &self.names, &mut self.interner);
        read.map_err(|mut faults| faults.swap_remove(0))
    }

    fn pod(&self, of: &Arrival, namespace: &str) -> Value {
        let mut annotations = json!({});
        if of.size > 1 {
            annotations[GROUP_NAME_ANNOTATION] = json!(of.name);
        } else if let Some(queue) = &of.queue {
            annotations[QUEUE_NAME_ANNOTATION] = json!(queue);
        }
        let container = json!({"name": "main", "resources": {"requests": of.requests}});
        let scheduler = self.names.schedulers.first().map_or("volcano", String::as_str);
        let mut spec = json!({"schedulerName": scheduler, "containers": [container]});
        if let Some(priority) = of.priority {
            spec["priority"] = json!(priority);
            spec["priorityClassName"] = json!(class(priority));
        }
        if !of.node_selector.is_empty() {
            spec["affinity"] = affinity(of);
        }
        let metadata =
            json!({"namespace": namespace, "name": of.name, "uid": of.name, "annotations": annotations});
        json!({"metadata": metadata, "spec": spec})
    }
}

fn affinity(of: &Arrival) -> Value {
    let expression =
        |(key, labels): (&String, &Labels)| json!({"key": key, "operator": "In", "values": labels.values()});
    let term = json!({"matchExpressions": of.node_selector.iter().map(expression).collect::<Vec<_>>()});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
}

fn invalid(field: &str, problem: String) -> Invalid {
    Invalid { field: field.to_owned(), problem }
}

fn milliseconds(field: &str, seconds: f64) -> Result<i64, Invalid> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok((seconds * 1_000.0).round() as i64);
    }
    Err(invalid(field, format!("found {seconds}, expected seconds from 0 to {SECONDS_MAX}")))
}

/// The minimum of members of an arrival whose names and counts are good.
fn check(of: &Arrival) -> Result<u32, Invalid> {
    let named =
        [("name", Some(&of.name)), ("namespace", of.namespace.as_ref()), ("queue", of.queue.as_ref())];
    for (field, name) in named {
        if let Some(name) = name.filter(|name| !is_name(name)) {
            return Err(invalid(field, format!("found {name:?}, expected {NAME}")));
        }
    }
    if !(1..=SIZE_MAX).contains(&of.size) {
        return Err(invalid("size", format!("found {}, expected from 1 to {SIZE_MAX}", of.size)));
    }
    match of.min_member {
        Some(0) => Err(invalid("minMember", "found 0, expected at least 1".to_owned())),
        Some(least) if least > of.size => {
            Err(invalid("minMember", format!("found {least}, expected at most its size, {}", of.size)))
        }
        least => Ok(least.unwrap_or(of.size)),
    }
}

fn request(name: &str, text: &str) -> Result<(Arc<str>, Quantity), Invalid> {
    let amount = text.parse::<Quantity>().ok().filter(|amount| !amount.is_negative());
    let amount = amount.ok_or_else(|| {
        invalid(&format!("requests.{name}"), format!("found {text:?}, expected a quantity of at least 0"))
    })?;
    Ok((name.into(), amount))
}

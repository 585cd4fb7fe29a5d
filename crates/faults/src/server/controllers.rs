//! The requests of the controllers: objects are made, read, changed and deleted, and the status of Jobs is written.
use anyhow::Result;
use http::{Method, StatusCode};
use hyper::body::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use phalanx_api::batch::Job;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::slim;
use serde_json::{Value, json};

use super::{Answered, Effect, Object, Server, conflict, done, missing};
use crate::gangs::{HIGH, wall, whole_pod};

const OTHER_UID: &str = "the UID in the precondition does not match the UID in record";

impl Server {
    /// Carries out a request of the controllers; nothing where it is none that is simulated.
    pub(super) fn handle_controllers(
        &mut self,
        method: &Method,
        path: &[&str],
        body: &Bytes,
    ) -> Result<Option<Answered>> {
        let read = || serde_json::from_slice::<Value>(body);
        Ok(Some(match (method, path) {
            (&Method::POST, ["api", "v1", "namespaces", _, "pods"]) => self.create_pod(read()?)?,
            (&Method::DELETE, ["api", "v1", "namespaces", _, "pods", name]) => {
                self.delete_one_pod(name, &read()?)
            }
            (&Method::POST, [.., "podgroups"]) => self.create_group(read()?)?,
            (&Method::PUT, [.., "podgroups", name]) => self.replace_group(name, read()?)?,
            (&Method::DELETE, [.., "podgroups", name]) => self.delete_group(name, &read()?),
            (&Method::GET, [.., "jobs", name]) => self.read_job(name),
            (&Method::PUT, [.., "jobs", name, "status"]) => self.write_job(name, &read()?)?,
            (&Method::GET, [.., "queues", name]) => {
                self.queues.get(*name).map_or_else(|| missing(name), |queue| done(queue_body(queue)))
            }
            _ => return Ok(None),
        }))
    }

    /// What the API server sets in an object that is created.
    fn begin(&mut self, metadata: &mut ObjectMeta) {
        metadata.uid = Some(self.next_uid());
        metadata.creation_timestamp = Some(Time(wall(self.now)));
    }

    fn create_pod(&mut self, body: Value) -> Result<Answered> {
        let mut pod: slim::Pod = serde_json::from_value(body)?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        if self.pods.contains_key(&name) {
            return Ok(conflict(&format!("pods {name} already exists")));
        }
        self.begin(&mut pod.metadata);
        pod.status.phase = Some("Pending".to_owned());
        let (class, value) = HIGH;
        pod.spec.priority =
            Some(if pod.spec.priority_class_name.as_deref() == Some(class) { value } else { 0 });
        self.put(Object::Pod(pod));
        let pod = &self.pods[&name];
        Ok((StatusCode::CREATED, pod_body(pod), Effect::Other))
    }

    fn delete_one_pod(&mut self, name: &str, body: &Value) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if !names(body, &pod.metadata) {
            return conflict(OTHER_UID);
        }
        (StatusCode::OK, json!({"kind": "Status"}), Effect::Deleted(name.to_owned()))
    }

    fn create_group(&mut self, body: Value) -> Result<Answered> {
        let mut group: PodGroup = serde_json::from_value(body)?;
        let name = group.metadata.name.clone().unwrap_or_default();
        if self.groups.contains_key(&name) {
            return Ok(conflict(&format!("podgroups {name} already exists")));
        }
        self.begin(&mut group.metadata);
        group.status = None;
        self.put(Object::PodGroup(group));
        let group = &self.groups[&name];
        Ok((StatusCode::CREATED, group_body(group), Effect::Other))
    }

    fn replace_group(&mut self, name: &str, body: Value) -> Result<Answered> {
        let Some(old) = self.groups.get(name) else { return Ok(missing(name)) };
        let mut group: PodGroup = serde_json::from_value(body)?;
        if group.metadata.resource_version != old.metadata.resource_version {
            return Ok(conflict("the object has been modified"));
        }
        group.status.clone_from(&old.status);
        self.put(Object::PodGroup(group));
        Ok(done(group_body(&self.groups[name])))
    }

    fn delete_group(&mut self, name: &str, body: &Value) -> Answered {
        let Some(group) = self.groups.get(name) else { return missing(name) };
        if !names(body, &group.metadata) {
            return conflict(OTHER_UID);
        }
        if let Some(group) = self.groups.remove(name) {
            self.gone(Object::PodGroup(group));
        }
        done(json!({"kind": "Status"}))
    }

    fn read_job(&self, name: &str) -> Answered {
        self.jobs.get(name).map_or_else(|| missing(name), |job| done(job_body(job)))
    }

    fn write_job(&mut self, name: &str, body: &Value) -> Result<Answered> {
        let Some(mut job) = self.jobs.get(name).cloned() else { return Ok(missing(name)) };
        let meta = &body["metadata"];
        if meta["uid"].as_str() != job.metadata.uid.as_deref() {
            return Ok(conflict(OTHER_UID));
        }
        if meta["resourceVersion"].as_str() != job.metadata.resource_version.as_deref() {
            return Ok(conflict("the object has been modified"));
        }
        job.status = Some(serde_json::from_value(body["status"].clone())?);
        self.put(Object::Job(Box::new(job)));
        Ok(done(job_body(&self.jobs[name])))
    }
}

/// Whether the precondition of a deletion is the UID of this object.
fn names(body: &Value, metadata: &ObjectMeta) -> bool {
    body["preconditions"]["uid"].as_str() == metadata.uid.as_deref()
}

fn typed(mut object: Value, version: &str, kind: &str) -> Value {
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    object
}

pub(super) fn pod_body(pod: &slim::Pod) -> Value {
    typed(json!(whole_pod(pod)), "v1", "Pod")
}

pub(super) fn group_body(group: &PodGroup) -> Value {
    typed(json!(group), "scheduling.volcano.sh/v1beta1", "PodGroup")
}

pub(super) fn queue_body(queue: &Queue) -> Value {
    typed(json!(queue), "scheduling.volcano.sh/v1beta1", "Queue")
}

fn job_body(job: &Job) -> Value {
    typed(json!(job), "batch.volcano.sh/v1alpha1", "Job")
}

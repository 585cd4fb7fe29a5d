//! The requests of the controllers: objects are made, read, changed and deleted, and the status of Jobs is written.
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use http::{Method, StatusCode};
use hyper::body::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use phalanx_api::batch::JobStatus;
use phalanx_api::v1beta1::PodGroup;
use phalanx_cache::slim;
use serde::Deserialize;
use serde_json::json;

use super::{
    Answered, DeleteOptions, Effect, OTHER_UID, Object, Patch, Server, answer, conflict, done, missing, read,
};
use crate::gangs::{HIGH, wall, whole_pod};

impl Server {
    /// Carries out a request of the controllers; nothing where it is none that is simulated.
    pub(super) fn handle_controllers(
        &mut self,
        method: &Method,
        path: &[&str],
        body: &Bytes,
    ) -> Result<Option<Answered>> {
        Ok(Some(match (method, path) {
            (&Method::POST, ["api", "v1", "namespaces", _, "pods"]) => self.create_pod(read(body)?),
            (&Method::DELETE, ["api", "v1", "namespaces", _, "pods", name]) => {
                self.delete_one_pod(name, &read(body)?)
            }
            (&Method::PATCH, ["api", "v1", "namespaces", _, "pods", name]) => self.join(name, read(body)?),
            (&Method::POST, [.., "podgroups"]) => self.create_group(read(body)?),
            (&Method::PUT, [.., "podgroups", name]) => self.replace_group(name, read(body)?),
            (&Method::DELETE, [.., "podgroups", name]) => self.delete_one_group(name, &read(body)?),
            (&Method::DELETE, [.., "commands", name]) => self.delete_command(name, &read(body)?),
            (&Method::GET, [.., "jobs", name]) => self.read_job(name),
            (&Method::PUT, [.., "jobs", name, "status"]) => self.write_job(name, read(body)?),
            (&Method::GET, [.., "queues", name]) => {
                self.queues.get(*name).map_or_else(|| missing(name), |queue| done(&**queue))
            }
            _ => return Ok(None),
        }))
    }

    /// What the API server sets in an object that is created.
    fn begin(&mut self, metadata: &mut ObjectMeta) {
        metadata.uid = Some(self.next_uid());
        metadata.creation_timestamp = Some(Time(wall(self.now)));
    }

    fn create_pod(&mut self, mut pod: slim::Pod) -> Answered {
        let name = pod.metadata.name.clone().unwrap_or_default();
        if self.pods.contains_key(&name) {
            return conflict(&format!("pods {name} already exists"));
        }
        self.begin(&mut pod.metadata);
        pod.status.phase = Some("Pending".to_owned());
        let (class, value) = HIGH;
        pod.spec.priority =
            Some(if pod.spec.priority_class_name.as_deref() == Some(class) { value } else { 0 });
        self.put(Object::Pod(Arc::new(pod)));
        answer(StatusCode::CREATED, &whole_pod(&self.pods[&name]))
    }

    fn delete_one_pod(&mut self, name: &str, options: &DeleteOptions) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if options.preconditions.uid != pod.metadata.uid {
            return conflict(OTHER_UID);
        }
        // The answer is the pod, which terminates, also where it is gone at once.
        let mut pod = whole_pod(pod);
        pod.metadata.deletion_timestamp = Some(Time(wall(self.now)));
        let (status, body, _) = done(&pod);
        (status, body, Effect::Deleted(name.to_owned()))
    }

    /// The patch adds an annotation.
    fn join(&mut self, name: &str, patch: Joining) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if patch.metadata.uid != pod.metadata.uid {
            return conflict(OTHER_UID);
        }
        self.update_pod(name, |pod| {
            pod.metadata.annotations.get_or_insert_default().extend(patch.metadata.annotations);
        });
        done(&whole_pod(&self.pods[name]))
    }

    fn create_group(&mut self, mut group: PodGroup) -> Answered {
        let name = group.metadata.name.clone().unwrap_or_default();
        if self.groups.contains_key(&name) {
            return conflict(&format!("podgroups {name} already exists"));
        }
        self.begin(&mut group.metadata);
        group.status = None;
        self.put(Object::PodGroup(Arc::new(group)));
        answer(StatusCode::CREATED, &*self.groups[&name])
    }

    fn replace_group(&mut self, name: &str, mut group: PodGroup) -> Answered {
        let Some(old) = self.groups.get(name) else { return missing(name) };
        if group.metadata.resource_version != old.metadata.resource_version {
            return conflict("the object has been modified");
        }
        group.status.clone_from(&old.status);
        self.put(Object::PodGroup(Arc::new(group)));
        done(&*self.groups[name])
    }

    fn delete_one_group(&mut self, name: &str, options: &DeleteOptions) -> Answered {
        let Some(group) = self.groups.get(name) else { return missing(name) };
        if options.preconditions.uid != group.metadata.uid {
            return conflict(OTHER_UID);
        }
        self.delete_group(name);
        done(&json!({"kind": "Status"}))
    }

    fn delete_command(&mut self, name: &str, options: &DeleteOptions) -> Answered {
        let Some(command) = self.commands.get(name) else { return missing(name) };
        if options.preconditions.uid != command.metadata.uid {
            return conflict(OTHER_UID);
        }
        if let Some(command) = self.commands.remove(name) {
            self.gone(Object::Command(command));
        }
        done(&json!({"kind": "Status"}))
    }

    fn read_job(&self, name: &str) -> Answered {
        self.jobs.get(name).map_or_else(|| missing(name), |job| done(&**job))
    }

    fn write_job(&mut self, name: &str, written: Patch<JobStatus>) -> Answered {
        let Some(mut job) = self.jobs.get(name).cloned() else { return missing(name) };
        if written.metadata.uid != job.metadata.uid {
            return conflict(OTHER_UID);
        }
        if written.metadata.resource_version != job.metadata.resource_version {
            return conflict("the object has been modified");
        }
        Arc::make_mut(&mut job).status = Some(written.status);
        self.put(Object::Job(job));
        done(&*self.jobs[name])
    }
}

#[derive(Deserialize)]
struct Joining {
    metadata: JoiningMeta,
}

#[derive(Deserialize)]
struct JoiningMeta {
    uid: Option<String>,
    annotations: BTreeMap<String, String>,
}

//! Which subjects an object concerns.
use std::sync::Arc;

use phalanx_api::batch;
use phalanx_api::bus::Command;
use phalanx_api::flow::{self, CREATED_BY_JOB_TEMPLATE};
use phalanx_api::v1beta1::is_made_for_pods;
use phalanx_cluster::event::Key;
use phalanx_controllers::{Kind, command};

use super::hyper_nodes;
use super::queue::Subject;
use super::store::{Fact, Seen, Store};
use super::table::Identity;

impl Store {
    /// The subjects whose reconciliation reads the object.
    pub(super) fn concerned(&self, seen: &Seen) -> Vec<Subject> {
        let Seen { id, fact } = seen;
        let own = |kind| Subject { kind, key: id.key.clone() };
        let namespace = &id.key.namespace;
        match fact {
            Fact::Job(job) => {
                let template = job.metadata.labels.as_ref().and_then(|all| all.get(CREATED_BY_JOB_TEMPLATE));
                let template = template.and_then(|full| full.strip_prefix(&**namespace)?.strip_prefix('.'));
                let template = template.map(|name| Subject::new(Kind::JobTemplate, namespace, name));
                [own(Kind::Job)].into_iter().chain(controller(id)).chain(template).collect()
            }
            Fact::Pod(_) => controller(id).into_iter().collect(),
            Fact::PodGroup(group) => {
                let queue = Subject::new(Kind::Queue, "", &group.spec.queue);
                let made = is_made_for_pods(&group.metadata).then(|| own(Kind::PodGroup));
                controller(id).into_iter().chain([queue]).chain(made).collect()
            }
            Fact::Queue(_) => {
                let is_child = |parent: Option<&str>| parent == Some(&*id.key.name);
                let children = self.queues.iter().filter(|(_, queue)| is_child(queue.spec.parent.as_deref()));
                let of = |(key, _): (&Key, _)| Subject { kind: Kind::Queue, key: key.clone() };
                [own(Kind::Queue)].into_iter().chain(children.map(of)).collect()
            }
            Fact::Command(command) => target(namespace, command).into_iter().collect(),
            Fact::CronJob(_) => vec![own(Kind::CronJob)],
            Fact::JobFlow(_) => vec![own(Kind::JobFlow)],
            Fact::JobTemplate(_) => {
                let of = |(key, _): (&Key, _)| Subject { kind: Kind::JobFlow, key: key.clone() };
                let flows = self.flows.in_namespace(namespace).map(of);
                [own(Kind::JobTemplate)].into_iter().chain(flows).collect()
            }
            Fact::Claim(_) => {
                let with_volumes = |(key, job): (&Key, &batch::Job)| {
                    (!job.spec.volumes.is_empty()).then(|| Subject { kind: Kind::Job, key: key.clone() })
                };
                self.jobs.in_namespace(namespace).filter_map(with_volumes).collect()
            }
            // Kubelets write the status of nodes every few minutes.
            Fact::Node(labels) if self.nodes.get(&id.key) == Some(labels) => Vec::new(),
            Fact::HyperNode(_) | Fact::ConfigMap(_) | Fact::Node(_) => vec![hyper_nodes::all()],
            // Which PodGroups a pod or an owner concerns depends on the other owners.
            Fact::PlainPod(_) | Fact::Owner(_) | Fact::Namespace(_) | Fact::PriorityClass(_) => Vec::new(),
        }
    }
}

/// The object that controls it, where that is one of ours.
fn controller(id: &Identity) -> Option<Subject> {
    let owner = id.controller.as_ref()?;
    let group = owner.api_version.split('/').next().unwrap_or_default();
    let kind = match (group, owner.kind.as_str()) {
        (batch::GROUP, "Job") => Kind::Job,
        (batch::GROUP, "CronJob") => Kind::CronJob,
        (flow::GROUP, "JobFlow") => Kind::JobFlow,
        _ => return None,
    };
    let key = Key { namespace: Arc::clone(&id.key.namespace), name: owner.name.as_str().into() };
    Some(Subject { kind, key })
}

/// What a Command names.
pub(super) fn target(namespace: &str, command: &Command) -> Option<Subject> {
    let (kind, name) = command::target(command)?;
    Some(Subject::new(kind, if kind == Kind::Queue { "" } else { namespace }, name))
}

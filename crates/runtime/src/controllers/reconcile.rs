//! From a subject to its outcome: what was observed is handed to the pure functions.
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::Job;
use phalanx_api::bus::Command;
use phalanx_api::flow::CREATED_BY_JOB_TEMPLATE;
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase};
use phalanx_cluster::event::Key;
use phalanx_controllers::flow::ProbeRequest;
use phalanx_controllers::job::{JobPod, SshKey};
use phalanx_controllers::podgroup::PlainPod;
use phalanx_controllers::{Kind, Outcome, command, cron, flow, job, plugin, podgroup, queue};

use super::queue::Subject;
use super::store::Store;

/// What a reconciliation is given beside the objects.
#[derive(Debug)]
pub(super) struct Given<'a> {
    /// The scheduler of pods that name none, and of pods for which PodGroups are made.
    pub(super) scheduler_name: &'a str,
    /// A fresh key pair.
    pub(super) ssh_key: Option<SshKey>,
    /// Writes for the subject that were refused in a row.
    pub(super) failures: u32,
    /// Probes that were answered as wanted.
    pub(super) passed: &'a BTreeSet<ProbeRequest>,
}

/// What a subject needs.
#[derive(Debug)]
pub(super) enum Need {
    /// There is no such object.
    Nothing,
    /// What plugins made for the Job with this UID is not known yet: these are to be read first.
    Read(String, Vec<(Kind, Key)>),
    /// Changes.
    Changes(Outcome),
    /// The same for a JobFlow, whose pods are to be asked too.
    Probes(Outcome, BTreeSet<ProbeRequest>),
}

impl Store {
    pub(super) fn reconcile(&self, subject: &Subject, given: &Given<'_>, now: Timestamp) -> Need {
        let need = match subject.kind {
            Kind::Job => self.job(subject, given, now),
            Kind::Queue => self.queue(subject, now),
            Kind::CronJob => self.cron(&subject.key, now),
            Kind::JobFlow => self.flow(&subject.key, given, now),
            Kind::JobTemplate => self.template(&subject.key),
            Kind::PodGroup => self.pod_group(&subject.key, given),
            Kind::HyperNode => self.reconcile_hyper_nodes(),
            Kind::Pod
            | Kind::Service
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::NetworkPolicy
            | Kind::Claim
            | Kind::Command => None,
        };
        need.unwrap_or(Need::Nothing)
    }

    /// How many objects a reconciliation of the subject goes through.
    pub(super) fn size(&self, subject: &Subject) -> usize {
        match subject.kind {
            Kind::Job => {
                let pods = |uid| self.pods.controlled_by(&subject.key.namespace, uid);
                self.jobs.uid(&subject.key).map_or(0, |uid| pods(uid).count())
            }
            Kind::Queue => self.groups.len(),
            Kind::PodGroup => self.members.of(&subject.key).count(),
            Kind::HyperNode => self.nodes.len() + self.hyper_nodes.len(),
            _ => 0,
        }
    }

    fn job(&self, subject: &Subject, given: &Given<'_>, now: Timestamp) -> Option<Need> {
        let key = &subject.key;
        let (commands, stale) = self.commands(subject, self.jobs.get(key).map(|job| &job.metadata));
        let Some((job, uid)) = self.jobs.get(key).zip(self.jobs.uid(key)) else {
            return without_object(&stale, now);
        };
        let made = self.made.get(uid);
        let unknown = if made.is_none() { plugin::left(job) } else { Vec::new() };
        if !unknown.is_empty() {
            let named = unknown.into_iter().map(|(kind, name)| (kind, Key::new(&key.namespace, &name)));
            return Some(Need::Read(uid.to_owned(), named.collect()));
        }
        let pods: Vec<JobPod> =
            self.pods.controlled_by(&key.namespace, uid).map(|seen| seen.pod.clone()).collect();
        let queue = self.queues.get(&Key::new("", &job.spec.queue));
        let seen = job::Observed {
            job,
            pods: &pods,
            group: self.group(key, uid),
            commands: &commands,
            made: made.map_or(&[], Vec::as_slice),
            claims: &self.claims_of(job, &key.namespace),
            priorities: &self
                .classes
                .iter()
                .map(|(class, value)| (class.name.to_string(), value.0))
                .collect(),
            ssh_key: given.ssh_key.as_ref(),
            scheduler_name: given.scheduler_name,
            forwards: queue.is_some_and(|queue| !queue.spec.extend_clusters.is_empty()),
            failures: given.failures,
        };
        let mut outcome = job::reconcile(&seen, now);
        command::drop_stale(&stale, now, &mut outcome);
        Some(Need::Changes(outcome))
    }

    /// The PodGroup of a Job: `NAME-UID` or, made by Volcano before 1.5, `NAME`.
    fn group(&self, key: &Key, uid: &str) -> Option<&PodGroup> {
        let named = |name: &str| self.groups.get_of(&Key::new(&key.namespace, name), uid);
        named(&format!("{}-{uid}", key.name)).or_else(|| named(&key.name))
    }

    fn claims_of(&self, job: &Job, namespace: &str) -> BTreeSet<String> {
        if job.spec.volumes.is_empty() {
            return BTreeSet::new();
        }
        self.claims.in_namespace(namespace).map(|(key, _)| key.name.to_string()).collect()
    }

    /// Commands that name an object, in the order of their creation: those for it, and the others. None while a list of
    /// Commands is read, for it is not in that order.
    fn commands(&self, subject: &Subject, object: Option<&ObjectMeta>) -> (Vec<Command>, Vec<Command>) {
        let all: Vec<(&Key, &Command)> = if self.commands.is_listing() {
            Vec::new()
        } else if subject.kind == Kind::Queue {
            self.commands.iter().collect()
        } else {
            self.commands.in_namespace(&subject.key.namespace).collect()
        };
        let named = all.into_iter().filter(|(key, command)| {
            super::concern::target(&key.namespace, command).as_ref() == Some(subject)
        });
        let mut found: Vec<Command> = named.map(|(_, command)| command.clone()).collect();
        let order = |one: &Command| (one.metadata.creation_timestamp.clone(), one.metadata.name.clone());
        found.sort_by_cached_key(order);
        found.into_iter().partition(|one| object.is_some_and(|object| command::is_for(one, object)))
    }

    fn queue(&self, subject: &Subject, now: Timestamp) -> Option<Need> {
        let key = &subject.key;
        let (commands, stale) = self.commands(subject, self.queues.get(key).map(|queue| &queue.metadata));
        let Some(queue) = self.queues.get(key) else { return without_object(&stale, now) };
        let in_queue = self.groups.iter().filter(|(_, group)| group.spec.queue == *key.name);
        let phase = |group: &PodGroup| group.status.as_ref().and_then(|status| status.phase.clone());
        // A PodGroup that the scheduler has not seen yet is in no phase.
        let groups: Vec<PodGroupPhase> = in_queue
            .map(|(_, group)| phase(group).unwrap_or_else(|| PodGroupPhase::from(String::new())))
            .collect();
        let parent = queue.spec.parent.as_ref().and_then(|name| self.queues.get(&Key::new("", name)));
        let seen = queue::Observed { queue, parent, groups: &groups, commands: &commands };
        let mut outcome = queue::reconcile(&seen);
        command::drop_stale(&stale, now, &mut outcome);
        Some(Need::Changes(outcome))
    }

    fn cron(&self, key: &Key, now: Timestamp) -> Option<Need> {
        let (cron, uid) = (self.crons.get(key)?, self.crons.uid(key)?);
        let jobs: Vec<_> = self.jobs.controlled_by(&key.namespace, uid).cloned().collect();
        let seen = cron::Observed { cron, jobs: &jobs, zone: cron::zone(cron) };
        Some(Need::Changes(cron::reconcile(&seen, now)))
    }

    fn flow(&self, key: &Key, given: &Given<'_>, now: Timestamp) -> Option<Need> {
        let (flow, uid) = (self.flows.get(key)?, self.flows.uid(key)?);
        let jobs: Vec<_> = self.jobs.controlled_by(&key.namespace, uid).cloned().collect();
        let template = |name: &str| self.templates.get(&Key::new(&key.namespace, name)).cloned();
        let steps = flow.spec.flows.iter();
        let templates: BTreeMap<String, _> =
            steps.filter_map(|step| Some((step.name.clone(), template(&step.name)?))).collect();
        let seen = flow::Observed { flow, templates: &templates, jobs: &jobs, passed: given.passed };
        let flow::FlowOutcome { outcome, probes } = flow::reconcile(&seen, now);
        Some(Need::Probes(outcome, probes))
    }

    fn pod_group(&self, key: &Key, given: &Given<'_>) -> Option<Need> {
        let members: Vec<&PlainPod> = self.members.of(key).filter_map(|pod| self.plain.get(pod)).collect();
        let group = self.groups.get(key);
        if members.is_empty() && group.is_none() {
            return None;
        }
        let namespace = self.namespaces.get(&Key::new("", &key.namespace));
        let seen = podgroup::Observed {
            namespace: &key.namespace,
            name: &key.name,
            members: &members,
            gang: &|pod| self.gang(&key.namespace, pod),
            group,
            scheduler: given.scheduler_name,
            queue: namespace.and_then(|namespace| namespace.0.as_deref()),
        };
        Some(Need::Changes(podgroup::reconcile(&seen)))
    }

    fn template(&self, key: &Key) -> Option<Need> {
        let template = self.templates.get(key)?;
        let full = format!("{}.{}", key.namespace, key.name);
        let made_from_it = |job: &&Job| {
            let labels = job.metadata.labels.as_ref();
            labels.and_then(|all| all.get(CREATED_BY_JOB_TEMPLATE)) == Some(&full)
        };
        let jobs = self.jobs.in_namespace(&key.namespace).map(|(_, job)| job);
        let jobs: Vec<_> = jobs.filter(made_from_it).cloned().collect();
        Some(Need::Changes(flow::reconcile_template(template, &jobs)))
    }
}

/// Nothing is to be done without the object, but for Commands that name it.
fn without_object(stale: &[Command], now: Timestamp) -> Option<Need> {
    let mut outcome = Outcome::default();
    command::drop_stale(stale, now, &mut outcome);
    (!stale.is_empty()).then_some(Need::Changes(outcome))
}

//! Jobs and what belongs to them.
//!
//! A Job of the manifests that has a status comes from a cluster, with its pods and its PodGroup: these are read as
//! they are, and the Job is left alone, unless it waits for admission.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use phalanx_api::batch::{Job, JobStatus};
use phalanx_api::bus::Command;
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase, PodGroupStatus};
use phalanx_cache::Names;
use phalanx_cluster::event::{Event, Key, PodPhase as Phase, Time};
use phalanx_controllers::job::{JobPod, Observed, PodPhase, SshKey, is_finished, reconcile};
use phalanx_controllers::{Change, Kind as Made, Note, Object as Changed, Outcome, Target};
use serde_json::json;

use super::command::Commands;
use super::{ByKey, RECONCILIATIONS_MAX, key, meta_time, timestamp};
use crate::admission::Admission;
use crate::api_server::{ApiServer, SimulatedPod};
use crate::kind::Kind;
use crate::manifests::Object;
use crate::object::Converter;
use crate::report::{JobOutcome, PhaseChange, PodCounts};

/// Reasons of the events that say why a phase is entered.
const CAUSES: [&str; 2] = ["ExecuteAction", "CommandIssued"];

/// A Job and what belongs to it.
#[derive(Debug)]
struct VolcanoJob {
    job: Job,
    group: Option<PodGroup>,
    /// Pods by UID. Their phases are those of the API server.
    pods: BTreeMap<Arc<str>, JobPod>,
    made: Vec<Changed>,
    /// The phases it went through.
    history: Vec<PhaseChange>,
    /// The action that was noted last, until a phase is entered by it.
    cause: String,
    /// The last warning about it.
    warning: String,
    /// When to reconcile again.
    next: Option<Timestamp>,
}

/// The UID of a Job of this name.
pub(crate) fn simulated_uid(name: &str) -> String {
    format!("job-{name}")
}

/// All Jobs of Volcano, and their controller.
pub(crate) struct Jobs {
    jobs: ByKey<VolcanoJob>,
    /// What became of Jobs that are deleted since their time to live is over.
    expired: ByKey<JobOutcome>,
    begin: Time,
    admission: Admission,
    converter: Converter,
    names: Names,
    classes: BTreeMap<String, i32>,
    claims: BTreeSet<String>,
    /// The number of objects that were made, for their UIDs.
    count: u64,
}

impl Jobs {
    pub(crate) fn new(names: Names, admission: Admission, begin: Time) -> Self {
        Self {
            admission,
            jobs: BTreeMap::new(),
            expired: BTreeMap::new(),
            begin,
            converter: Converter::new(names.clone()),
            names,
            classes: BTreeMap::new(),
            claims: BTreeSet::new(),
            count: 0,
        }
    }

    pub(crate) fn add(&mut self, mut job: Job) {
        let key = key(&job.metadata);
        // The PodGroup of a Job of a cluster has its name from the UID.
        if job.status.is_none() {
            job.metadata.uid = job.metadata.name.as_deref().map(simulated_uid);
        }
        // Claims of the job are there: a claim that is missing is told of its pods.
        self.claims.extend(job.spec.volumes.iter().filter_map(|volume| volume.volume_claim_name.clone()));
        self.expired.remove(&key);
        self.jobs.insert(
            key,
            VolcanoJob {
                job,
                group: None,
                pods: BTreeMap::new(),
                made: Vec::new(),
                history: Vec::new(),
                cause: String::new(),
                warning: String::new(),
                next: None,
            },
        );
    }

    pub(crate) fn add_class(&mut self, name: &str, value: i32) {
        self.classes.insert(name.to_owned(), value);
    }

    /// When the controller has to reconcile again.
    pub(crate) fn next(&self) -> Option<Time> {
        let next = self.jobs.values().filter_map(|own| own.next).min()?;
        Some(Time(next.as_millisecond()))
    }

    /// A controller makes a Job.
    pub(crate) fn create(&mut self, mut job: Job, now: Time) {
        job.metadata.creation_timestamp = Some(meta_time(now));
        self.add(job);
    }

    /// Deletes a Job with all that belongs to it.
    pub(crate) fn delete(&mut self, key: &str, api_server: &mut ApiServer, now: Time) {
        let Some(own) = self.jobs.remove(key) else { return };
        own.pods.keys().for_each(|uid| api_server.delete_pod(uid, now));
        if let Some(group) = own.group {
            api_server.delete_group(&group_key(&group));
        }
    }

    /// The Jobs whose controller is the object with this UID.
    pub(crate) fn of(&self, owner: &str) -> Vec<Job> {
        self.owned(owner).map(|own| own.job.clone()).collect()
    }

    /// The UIDs of the pods of these Jobs.
    pub(crate) fn pods_of(&self, owner: &str) -> impl Iterator<Item = &Arc<str>> {
        self.owned(owner).flat_map(|own| own.pods.keys())
    }

    fn owned(&self, owner: &str) -> impl Iterator<Item = &VolcanoJob> {
        let is = move |own: &&VolcanoJob| {
            own.job.metadata.owner_references.iter().flatten().any(|one| one.uid == owner)
        };
        self.jobs.values().filter(is)
    }

    /// Whether all pods of a task run.
    pub(crate) fn runs(&self, key: &str, task: &str) -> bool {
        let Some(own) = self.jobs.get(key) else { return false };
        let Some(wanted) = own.job.spec.tasks.iter().find(|one| one.name == task) else { return false };
        let runs = |pod: &&JobPod| pod.task == task && pod.phase == PodPhase::Running;
        own.pods.values().filter(runs).count() >= usize::try_from(wanted.replicas).unwrap_or(0)
    }

    /// Reconciles all Jobs until nothing changes; returns whether anything did.
    pub(crate) fn run(&mut self, commands: &mut Commands, api_server: &mut ApiServer, now: Time) -> bool {
        let keys: Vec<String> = self.jobs.keys().cloned().collect();
        let mut worked = false;
        for key in keys {
            for _ in 0..RECONCILIATIONS_MAX {
                let outcome = self.reconcile(&key, commands, api_server, now);
                let only_notes = outcome.changes.iter().all(|change| matches!(change, Change::Note(_)));
                worked |= !only_notes;
                for change in outcome.changes {
                    match change {
                        Change::Delete(target) if target.kind == Made::Command => {
                            commands.delete(&target.uid);
                        }
                        change => self.apply(&key, change, api_server, now),
                    }
                }
                if only_notes {
                    break;
                }
            }
        }
        worked
    }

    /// What became of the Jobs.
    pub(crate) fn outcomes(&self) -> ByKey<JobOutcome> {
        let mut outcomes = self.expired.clone();
        outcomes.extend(self.jobs.iter().map(|(key, own)| (key.clone(), own.outcome())));
        outcomes
    }

    fn reconcile(&mut self, key: &str, commands: &Commands, api_server: &ApiServer, now: Time) -> Outcome {
        let Some(own) = self.jobs.get_mut(key) else { return Outcome::default() };
        own.observe(api_server, now);
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let commands = commands.for_job(namespace, name);
        let Some(own) = self.jobs.get(key) else { return Outcome::default() };
        let outcome = self.reconciled(own, own.group.as_ref(), &commands, now);
        if let Some(own) = self.jobs.get_mut(key) {
            own.next = outcome.next;
        }
        outcome
    }

    /// What the controller does with a Job if its PodGroup is this one.
    fn reconciled(
        &self,
        own: &VolcanoJob,
        group: Option<&PodGroup>,
        commands: &[Command],
        now: Time,
    ) -> Outcome {
        let pods: Vec<JobPod> = own.pods.values().cloned().collect();
        let ssh_key = SshKey { private: "simulated".to_owned(), public: "simulated".to_owned() };
        let seen = Observed {
            job: &own.job,
            pods: &pods,
            group,
            commands,
            made: &own.made,
            claims: &self.claims,
            priorities: &self.classes,
            ssh_key: Some(&ssh_key),
            scheduler_name: self.names.schedulers.first().map_or("volcano", String::as_str),
            forwards: false,
            failures: 0,
        };
        reconcile(&seen, timestamp(now))
    }

    /// The pods, with their claims, that Jobs without any make once their PodGroups are admitted.
    pub(crate) fn pods_once_admitted(&mut self, now: Time) -> Vec<Event> {
        let without_pods = self.jobs.values().filter(|own| own.pods.is_empty());
        let made = without_pods.flat_map(|own| self.made_once_admitted(own, now));
        let (made, count): (Vec<Pod>, u64) = (made.collect(), self.count);
        let pods = made.into_iter().zip(count + 1..).filter_map(|(mut pod, number)| {
            let simulated = self.read_pod(&mut pod, number, now)?;
            let claims = simulated.pvcs.into_iter().map(Event::from);
            Some(claims.chain([simulated.info.into()]).collect::<Vec<Event>>())
        });
        pods.flatten().collect()
    }

    /// How many pods these are, by PodGroup.
    pub(crate) fn to_make(&self, now: Time) -> BTreeMap<Key, u32> {
        let without_pods = self.jobs.values().filter(|own| own.pods.is_empty());
        let count = |own: &VolcanoJob| {
            let group = group_key(own.group.as_ref()?);
            Some((group, self.made_once_admitted(own, now).len() as u32))
        };
        without_pods.filter_map(count).collect()
    }

    fn made_once_admitted(&self, own: &VolcanoJob, now: Time) -> Vec<Pod> {
        let Some(mut group) = own.group.clone() else { return Vec::new() };
        let phase = Some(PodGroupPhase::Inqueue);
        group.status = Some(PodGroupStatus { phase, ..PodGroupStatus::default() });
        let changes = self.reconciled(own, Some(&group), &[], now).changes.into_iter();
        let pod = |change| match change {
            Change::Create(Changed::Pod(pod)) => Some(*pod),
            _ => None,
        };
        changes.filter_map(pod).collect()
    }

    /// A pod that the controller makes, as the API server has it; its UID and its time are filled in.
    fn read_pod(&mut self, pod: &mut Pod, number: u64, now: Time) -> Option<SimulatedPod> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.uid = Some(format!("{name}/{number}"));
        pod.metadata.creation_timestamp = Some(meta_time(now));
        let read = self.converter.convert(Kind::Pod, &mut json!(*pod)).ok();
        match self.admission.admitted(read) {
            Some(Object::Pod(simulated)) => Some(*simulated),
            _ => None,
        }
    }

    fn apply(&mut self, key: &str, change: Change, api_server: &mut ApiServer, now: Time) {
        if let Change::Create(Changed::Pod(mut pod)) = change {
            self.count += 1;
            let made = self.read_pod(&mut pod, self.count, now);
            if let (Some(own), Some(made)) = (self.jobs.get_mut(key), made) {
                own.create_pod(&pod, made, api_server, now);
            }
            return;
        }
        let Some(own) = self.jobs.get_mut(key) else { return };
        let seconds = (now.0 - self.begin.0) / 1_000;
        match change {
            // That of a Job of a cluster.
            Change::Create(Changed::PodGroup(group)) if api_server.group(&group_key(&group)).is_some() => {
                own.group = Some(*group);
            }
            Change::Create(Changed::PodGroup(group)) | Change::Replace(Changed::PodGroup(group)) => {
                let mut value = json!(*group);
                value["metadata"]["creationTimestamp"] = json!(meta_time(now));
                if let Ok(Object::PodGroup(info)) = self.converter.convert(Kind::PodGroup, &mut value) {
                    api_server.add_group(*info);
                    own.group = Some(*group);
                }
            }
            Change::Create(Changed::Claim(claim)) => {
                let made = self.converter.convert(Kind::PersistentVolumeClaim, &mut json!(*claim));
                if let Some(Object::Pvc(made) | Object::UnclassedPvc(made)) =
                    self.admission.admitted(made.ok())
                {
                    api_server.add_pvc(*made);
                }
                self.claims.extend(claim.metadata.name);
            }
            Change::Create(object) => own.made.push(object),
            Change::Replace(object) => {
                own.made.retain(|one| one.target() != object.target());
                own.made.push(object);
            }
            Change::Delete(target) if target.kind == Made::Job => {
                self.expired.insert(key.to_owned(), own.expired(seconds));
                self.delete(key, api_server, now);
            }
            Change::Delete(target) => own.delete(&target, api_server, now),
            Change::Status { object: Changed::Job(job), .. } => own.enter(job.status, seconds),
            Change::Note(note) => own.note(note),
            Change::Status { .. } | Change::Join(..) => {}
        }
    }
}

impl VolcanoJob {
    fn outcome(&self) -> JobOutcome {
        let status = self.job.status.clone().unwrap_or_default();
        let ended = status.state.phase.as_ref().is_some_and(is_finished);
        let message = if status.state.message.is_empty() && !ended {
            self.warning.clone()
        } else {
            status.state.message
        };
        JobOutcome {
            phase: status.state.phase.map(|phase| phase.to_string()).unwrap_or_default(),
            retries: status.retry_count,
            message,
            pods: PodCounts {
                pending: status.pending,
                running: status.running,
                succeeded: status.succeeded,
                failed: status.failed,
            },
            history: self.history.clone(),
        }
    }

    fn expired(&self, seconds: i64) -> JobOutcome {
        let message = format!("deleted after {seconds} s: ttlSecondsAfterFinished");
        JobOutcome { message, ..self.outcome() }
    }

    /// Takes a new status; what was noted before stands for its cause.
    fn enter(&mut self, status: Option<JobStatus>, seconds: i64) {
        let phase = |status: &Option<JobStatus>| status.as_ref()?.state.phase.clone();
        let (before, after) = (phase(&self.job.status), phase(&status));
        self.job.status = status;
        if let Some(after) = after.filter(|after| Some(after) != before.as_ref()) {
            let cause = std::mem::take(&mut self.cause);
            self.history.push(PhaseChange { seconds, phase: after.to_string(), cause });
        }
    }

    fn note(&mut self, note: Note) {
        if CAUSES.contains(&note.reason) {
            self.cause = note.message;
        } else if note.warning {
            self.warning = note.message;
        }
    }

    /// Reads off the API server what became of the pods and of the PodGroup.
    fn observe(&mut self, api_server: &ApiServer, now: Time) {
        let now = timestamp(now);
        self.pods.retain(|uid, _| api_server.pod(uid).is_some());
        for (uid, pod) in &mut self.pods {
            let Some(found) = api_server.pod(uid) else { continue };
            let life = &found.info.life;
            pod.phase = match life.phase {
                Phase::Pending => PodPhase::Pending,
                Phase::Running => PodPhase::Running,
                Phase::Succeeded => PodPhase::Succeeded,
                Phase::Failed => PodPhase::Failed,
                Phase::Unknown => PodPhase::Unknown,
            };
            pod.ready = pod.phase == PodPhase::Running;
            if life.deleting {
                pod.deleted_at.get_or_insert(now);
            }
            if pod.is_finished() {
                // What ends while it is being deleted did so before, or at once.
                pod.ended_at.get_or_insert(now);
                pod.exit_code = Some(found.exit_code);
            }
        }
        if let Some(group) = &mut self.group {
            let key = group_key(group);
            let phase =
                api_server.group(&key).map(|info| PodGroupPhase::from(info.status.phase.as_str().to_owned()));
            group.status = Some(PodGroupStatus { phase, ..PodGroupStatus::default() });
        }
    }

    fn create_pod(&mut self, pod: &Pod, simulated: SimulatedPod, api_server: &mut ApiServer, now: Time) {
        self.pods.insert(simulated.info.pod.uid.clone(), JobPod::from(pod));
        for claim in simulated.pvcs.clone() {
            api_server.add_pvc(claim);
        }
        api_server.steps += 1;
        api_server.add_pod(simulated, now);
    }

    fn delete(&mut self, target: &Target, api_server: &mut ApiServer, now: Time) {
        match target.kind {
            Made::Pod => api_server.delete_pod(&target.uid.as_str().into(), now),
            Made::PodGroup => {
                if let Some(group) = self.group.take() {
                    api_server.delete_group(&group_key(&group));
                }
            }
            _ => self.made.retain(|one| one.target() != *target),
        }
    }
}

fn group_key(group: &PodGroup) -> Key {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    Key::new(&text(&group.metadata.namespace), &text(&group.metadata.name))
}

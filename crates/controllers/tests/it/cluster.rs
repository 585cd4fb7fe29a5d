//! One Job and its objects, as an API server would keep them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use phalanx_api::batch::{Job, JobPhase, JobStatus};
use phalanx_api::bus::Command;
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase, PodGroupStatus};
use phalanx_controllers::job::{JobPod, Observed, SshKey, reconcile};
use phalanx_controllers::{Change, Kind, Object, Outcome};

/// A Job and its objects.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    pub(crate) job: Option<Job>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) group: Option<PodGroup>,
    pub(crate) commands: Vec<Command>,
    pub(crate) made: Vec<Object>,
    pub(crate) claims: BTreeSet<String>,
    pub(crate) priorities: BTreeMap<String, i32>,
    pub(crate) failures: u32,
    /// PodGroups are admitted at once.
    pub(crate) admits: bool,
    /// So many writes of a reconciliation are carried out, then the controller is killed.
    pub(crate) crash_after: usize,
    pub(crate) notes: Vec<String>,
    /// Pods that were made so far.
    pub(crate) created: usize,
    uids: usize,
}

impl Cluster {
    /// A job with this spec, in YAML.
    pub(crate) fn new(spec: &str) -> Self {
        let text = format!("metadata: {{name: train, namespace: vision, uid: j1}}\nspec:\n{}", indent(spec));
        let mut job: Job = serde_yaml::from_str(&text).unwrap();
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        job.metadata.creation_timestamp = Some(Time(now));
        Self {
            now,
            job: Some(job),
            pods: BTreeMap::new(),
            group: None,
            commands: Vec::new(),
            made: Vec::new(),
            claims: BTreeSet::new(),
            priorities: BTreeMap::new(),
            failures: 0,
            admits: true,
            crash_after: usize::MAX,
            notes: Vec::new(),
            created: 0,
            uids: 0,
        }
    }

    pub(crate) fn reconcile(&self) -> Outcome {
        let pods: Vec<JobPod> = self.pods.values().map(JobPod::from).collect();
        let key = SshKey { private: "PRIVATE".into(), public: "PUBLIC".into() };
        let Some(job) = &self.job else { return Outcome::default() };
        let seen = |ssh_key| Observed {
            job,
            pods: &pods,
            group: self.group.as_ref(),
            commands: &self.commands,
            made: &self.made,
            claims: &self.claims,
            priorities: &self.priorities,
            ssh_key,
            scheduler_name: "volcano",
            forwards: false,
            failures: self.failures,
        };
        let outcome = reconcile(&seen(None), self.now);
        if outcome.wants_ssh_key { reconcile(&seen(Some(&key)), self.now) } else { outcome }
    }

    /// Looks and writes until nothing changes; the kubelets remove what terminates.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            let outcome = self.reconcile();
            let quiet = outcome.changes.iter().all(|change| matches!(change, Change::Note(_)));
            let mut writes = 0;
            for change in outcome.changes {
                writes += usize::from(!matches!(change, Change::Note(_)));
                if writes <= self.crash_after {
                    self.apply(change);
                }
            }
            let admitted = self.admit();
            if quiet && !self.reap() && !admitted {
                return;
            }
        }
        panic!("the job does not settle: {:?}", self.reconcile());
    }

    fn admit(&mut self) -> bool {
        let Some(group) = self.group.as_mut().filter(|group| self.admits && group.status.is_none()) else {
            return false;
        };
        group.status =
            Some(PodGroupStatus { phase: Some(PodGroupPhase::Inqueue), ..PodGroupStatus::default() });
        true
    }

    /// Removes pods that terminate.
    pub(crate) fn reap(&mut self) -> bool {
        let before = self.pods.len();
        self.pods.retain(|_, pod| pod.metadata.deletion_timestamp.is_none());
        before != self.pods.len()
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Create(object) => self.create(object),
            Change::Replace(Object::PodGroup(group)) => self.group = Some(*group),
            Change::Replace(object) => {
                self.made.retain(|one| {
                    (one.kind(), &one.metadata().name) != (object.kind(), &object.metadata().name)
                });
                self.made.push(object);
            }
            Change::Delete(target) => self.delete(target.kind, &target.name, &target.uid),
            Change::Status { object: Object::Job(job), .. } => self.job.as_mut().unwrap().status = job.status,
            Change::Status { object, .. } => panic!("{object:?}"),
            Change::Join(..) => panic!("pods of a Job are made with their PodGroup"),
            Change::Note(note) => self.notes.push(format!("{}: {}", note.reason, note.message)),
        }
    }

    fn create(&mut self, object: Object) {
        self.uids += 1;
        let uid = Some(format!("u{}", self.uids));
        match object {
            Object::Pod(mut pod) => {
                pod.metadata.uid = uid;
                pod.metadata.creation_timestamp = Some(Time(self.now));
                let name = pod.metadata.name.clone().unwrap();
                assert!(self.pods.insert(name.clone(), *pod).is_none(), "{name} is made twice");
                self.created += 1;
            }
            Object::PodGroup(group) => {
                assert!(self.group.is_none(), "two PodGroups");
                self.group = Some(*group);
            }
            Object::Claim(claim) => {
                self.claims.insert(claim.metadata.name.unwrap());
            }
            object => self.made.push(object),
        }
    }

    fn delete(&mut self, kind: Kind, name: &str, uid: &str) {
        match kind {
            Kind::Pod => {
                let pod = self.pods.get_mut(name).unwrap();
                assert_eq!(pod.metadata.uid.as_deref(), Some(uid), "{name}");
                pod.metadata.deletion_timestamp = Some(Time(self.now));
            }
            Kind::PodGroup => self.group = None,
            Kind::Command => self.commands.retain(|command| command.metadata.name.as_deref() != Some(name)),
            Kind::Job => self.job = None,
            _ => self.made.retain(|one| one.kind() != kind || one.metadata().name.as_deref() != Some(name)),
        }
    }

    pub(crate) fn status(&self) -> JobStatus {
        self.job.as_ref().unwrap().status.clone().unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> JobPhase {
        self.status().state.phase.unwrap()
    }

    /// Names of pods without that of the job, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.pods.keys().map(|name| name.trim_start_matches("train-").to_owned()).collect()
    }

    pub(crate) fn pod(&self, name: &str) -> &Pod {
        &self.pods[&format!("train-{name}")]
    }

    fn pod_status(&mut self, name: &str) -> &mut PodStatus {
        let pod = self.pods.get_mut(&format!("train-{name}")).unwrap_or_else(|| panic!("no pod {name}"));
        pod.status.get_or_insert_default()
    }

    /// The pods are in this phase from now on.
    pub(crate) fn set(&mut self, names: &[&str], phase: &str) {
        for name in names {
            let container = ContainerStatus { ready: phase == "Running", ..ContainerStatus::default() };
            *self.pod_status(name) = PodStatus {
                phase: Some(phase.to_owned()),
                container_statuses: Some(vec![container]),
                ..PodStatus::default()
            };
        }
    }

    pub(crate) fn set_all(&mut self, phase: &str) {
        let names = self.names();
        self.set(&names.iter().map(String::as_str).collect::<Vec<_>>(), phase);
    }

    pub(crate) fn fail(&mut self, name: &str, exit_code: i32) {
        let now = self.now;
        self.set(&[name], "Failed");
        let end = ContainerStateTerminated {
            exit_code,
            finished_at: Some(Time(now)),
            ..ContainerStateTerminated::default()
        };
        let container = &mut self.pod_status(name).container_statuses.as_mut().unwrap()[0];
        container.state = Some(ContainerState { terminated: Some(end), ..ContainerState::default() });
    }

    pub(crate) fn restart_container(&mut self, name: &str, count: i32) {
        self.pod_status(name).container_statuses.as_mut().unwrap()[0].restart_count = count;
    }

    /// Somebody else deletes a pod; it terminates.
    pub(crate) fn evict(&mut self, name: &str) {
        let now = Time(self.now);
        self.pods.get_mut(&format!("train-{name}")).unwrap().metadata.deletion_timestamp = Some(now);
    }

    /// A pod is gone before the controller saw it terminate.
    pub(crate) fn vanish(&mut self, name: &str) {
        self.pods.remove(&format!("train-{name}")).unwrap();
    }

    pub(crate) fn command(&mut self, action: &str) {
        self.uids += 1;
        let name = format!("c{}", self.uids);
        let text = format!("metadata: {{name: {name}, namespace: vision, uid: {name}}}\naction: {action}");
        self.commands.push(serde_yaml::from_str(&text).unwrap());
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += seconds.seconds();
    }
}

fn indent(text: &str) -> String {
    text.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

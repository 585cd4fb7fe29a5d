//! What if: two runs of a cluster that a scheduler knows, as it is and changed.
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, Key, PodInfo, Time};
use phalanx_conf::{Known, Parsed, Severity};
use phalanx_core::report::Snapshot;
use phalanx_explain::Change;
use phalanx_framework::conf::Conf;
use serde::{Deserialize, Serialize};

use crate::api_server::SimulatedPod;
use crate::changes::{Changes, Drain};
use crate::manifests::{self, Manifests, Object, ReadOptions};
use crate::report::{Comparison, Report};
use crate::run_time::ExpectedStarts;
use crate::simulation::{Options, Restless, RunTimes, Simulation, stopped_clock};

/// Nodes that are added at most.
const NODES_MAX: u32 = 10_000;

/// A change of a cluster, as the API of a scheduler takes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WhatIf {
    /// Names and texts of manifests, whose objects are added or take the place of those of the same kind and name.
    pub with: Vec<(String, String)>,
    /// Changes of nodes.
    pub nodes: Changes,
    /// The scheduler.conf after the change.
    pub new_conf: Option<String>,
    /// So many cycles with no kubelet acting, instead of virtual time until nothing changes.
    pub cycles: Option<u32>,
    /// Decides among nodes of equal score.
    pub seed: u64,
}

impl WhatIf {
    /// What it would change, or why it cannot be told, in one line.
    pub fn answer(&self, snapshot: &Snapshot, names: &ReadOptions) -> Result<Comparison, String> {
        if self.nodes.added.iter().any(|added| added.count > NODES_MAX) {
            return Err(format!("found a larger number of nodes to add, expected at most {NODES_MAX}"));
        }
        let conf = match &self.new_conf {
            Some(text) => parsed(text)?,
            None => snapshot.conf.clone(),
        };
        let known = || Manifests::known(&snapshot.cluster, snapshot.now, names);
        let options = Options {
            default_queue: names.default_queue.as_str().into(),
            seed: self.seed,
            ..Options::default()
        };
        let (as_it_is, changed) = at_once(
            || self.run(snapshot.conf.clone(), known(), &options),
            || self.changed(&snapshot.conf, conf, known, &options),
        );
        let (before, after) = (as_it_is.map_err(|why| why.to_string())?, changed?);
        let compared = Comparison::of(&before, &after.report);
        Ok(Comparison { added: after.added, drain: after.drain, ..compared.with_starts(after.starts) })
    }

    /// The run of what the scheduler knows with the change.
    fn changed(
        &self,
        before: &Conf,
        conf: Conf,
        known: impl Fn() -> Manifests,
        options: &Options,
    ) -> Result<Changed, String> {
        let mut manifests = known();
        let added = manifests.put(&self.with)?;
        let unchanged = if self.nodes.drained.is_empty() { Manifests::default() } else { known() };
        let drain = manifests.change(&self.nodes, (before, &unchanged), options);
        let drain = drain.map_err(|missing| missing.to_string())?;
        let starts = || expected_starts(conf.clone(), manifests.clone(), options);
        let starts = if manifests.has_run_times() { starts() } else { ExpectedStarts::default() };
        let report = self.run(conf, manifests, options).map_err(|why| why.to_string())?;
        Ok(Changed { report, added, drain, starts })
    }

    fn run(&self, conf: Conf, manifests: Manifests, options: &Options) -> Result<Report, Restless> {
        let mut simulation = Simulation::new(manifests, conf, options);
        match self.cycles {
            Some(cycles) => simulation.run_cycles(cycles, &mut stopped_clock()),
            None => simulation.run_to_rest(&mut stopped_clock())?,
        }
        Ok(simulation.report_to_compare())
    }
}

/// What comes of a change.
struct Changed {
    report: Report,
    added: Vec<String>,
    drain: Drain,
    starts: ExpectedStarts,
}

/// Both at the same time, on threads of their own: a scheduler's cycles use the shared ones.
pub fn at_once<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        (a.join().unwrap_or_else(|panic| resume_unwind(panic)), b)
    })
}

/// When what waits at first would start, if pods run as long as is known or can be assumed. Nothing where such a run
/// does not come to rest.
pub fn expected_starts(conf: Conf, manifests: Manifests, options: &Options) -> ExpectedStarts {
    let options = Options { run_times: RunTimes::Assumed, ..options.clone() };
    let mut simulation = Simulation::new(manifests, conf, &options);
    let rests = simulation.run_to_rest(&mut stopped_clock());
    rests.map(|()| simulation.expected_starts()).unwrap_or_default()
}

fn parsed(text: &str) -> Result<Conf, String> {
    let Parsed { conf, problems } = phalanx_conf::parse(text, &Known::builtin());
    conf.ok_or_else(|| {
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        errors.map(|error| error.in_file("scheduler.conf")).collect::<Vec<_>>().join("; ")
    })
}

impl Manifests {
    /// The objects that a scheduler knows at a time.
    fn known(cluster: &Cluster, now: Time, names: &ReadOptions) -> Self {
        let objects = cluster.objects().into_iter().filter_map(object).collect();
        Self { objects, end: now, dated_until: now, names: names.clone(), ..Self::default() }
    }

    /// The objects that others do not have, by kind and name.
    pub fn added_to(&self, others: &Self) -> Vec<String> {
        let named = |it: &Self| it.objects.iter().filter_map(identity).collect::<BTreeSet<_>>();
        let (known, mine) = (named(others), named(self));
        mine.difference(&known).map(text).collect()
    }

    /// Applies a change that `explain` tells of, except to scheduler.conf. Pods keep what the scheduler does not know
    /// of them. That a pod may preempt is said by its PriorityClass.
    pub fn apply(&mut self, change: &Change) {
        for event in &change.events {
            if let Event::Pod(pod) = event {
                self.let_preempt(pod);
            }
            match event {
                Event::PodGone(uid) => self
                    .objects
                    .retain(|object| !matches!(object, Object::Pod(pod) if pod.info.pod.uid == *uid)),
                Event::PodGroupGone(key) => self
                    .objects
                    .retain(|object| !matches!(object, Object::PodGroup(group) if group.key == *key)),
                other => object(other.clone()).into_iter().for_each(|object| self.put_object(object)),
            }
        }
    }

    fn let_preempt(&mut self, pod: &PodInfo) {
        for object in &mut self.objects {
            if let Object::PriorityClass { name, never_preempts, .. } = object
                && Some(&*name) == pod.priority_class.as_ref()
            {
                *never_preempts &= pod.never_preempts;
            }
        }
    }

    fn put_object(&mut self, object: Object) {
        let of = identity(&object);
        let known = self.objects.iter_mut().find(|known| of.is_some() && identity(known) == of);
        match (known, object) {
            (Some(Object::Pod(known)), Object::Pod(pod)) => known.info = pod.info,
            (Some(known), object) => *known = object,
            (None, object) => self.objects.push(object),
        }
    }

    /// Adds objects of manifests, in place of those of the same kind and name. Those without a date are created now.
    fn put(&mut self, manifests: &[(String, String)]) -> Result<Vec<String>, String> {
        if manifests.is_empty() {
            return Ok(Vec::new());
        }
        let read = manifests::read_only(manifests, &self.names);
        let read = read.map_err(|refused| {
            refused.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })?;
        let mut new: BTreeSet<_> = read.objects.iter().filter_map(identity).collect();
        let instead = new.clone();
        self.objects.retain(|object| {
            let Some(known) = identity(object).filter(|known| instead.contains(known)) else { return true };
            new.remove(&known);
            false
        });
        for mut object in read.objects {
            if manifests::created(&object).is_some_and(|at| at > read.dated_until) {
                self.end.0 += 1;
                manifests::set_created(&mut object, self.end);
            }
            self.objects.push(object);
        }
        Ok(new.iter().map(text).collect())
    }
}

/// `PodGroup ml/train`, `Queue research`.
fn text((kind, key): &(&str, Key)) -> String {
    match (&*key.namespace, &*key.name) {
        ("", name) => format!("{kind} {name}"),
        _ => format!("{kind} {key}"),
    }
}

/// Kind and name.
fn identity(object: &Object) -> Option<(&'static str, Key)> {
    let name = |kind, name: &str| Some((kind, Key::new("", name)));
    match object {
        Object::Node(it) => name("Node", &it.name),
        Object::Queue(it) => name("Queue", &it.name),
        Object::HyperNode(it) => name("HyperNode", &it.name),
        Object::PriorityClass { name: it, .. } => name("PriorityClass", it),
        Object::Volume(it) => name("PersistentVolume", &it.name),
        Object::StorageClass(it) | Object::DefaultStorageClass(it) => name("StorageClass", &it.name),
        Object::CsiNode(it) => name("CSINode", &it.node),
        Object::CsiDriver(it) => name("CSIDriver", &it.name),
        Object::Attachment(it) => name("VolumeAttachment", &it.name),
        Object::Namespace(it) => name("Namespace", &it.name),
        Object::DeviceClass(it) => name("DeviceClass", &it.name),
        Object::Slice(it) => name("ResourceSlice", &it.name),
        Object::NodeUsage(it) => name("NodeMetrics", &it.node),
        Object::Pod(it) => Some(("Pod", Key::new(&it.info.pod.namespace, &it.info.pod.name))),
        Object::PodGroup(it) => Some(("PodGroup", it.key.clone())),
        Object::Quota(it) => Some(("ResourceQuota", it.key.clone())),
        Object::Pdb(it) | Object::Budget(it, _) => Some(("PodDisruptionBudget", it.key.clone())),
        Object::Pvc(it) | Object::UnclassedPvc(it) => Some(("PersistentVolumeClaim", it.key.clone())),
        Object::StorageCapacity(it) => Some(("CSIStorageCapacity", it.key.clone())),
        Object::Claim(it) => Some(("ResourceClaim", it.key.clone())),
        Object::Controlled(it) => {
            let metadata = it.metadata();
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            Some((it.kind(), Key::new(&text(&metadata.namespace), &text(&metadata.name))))
        }
        _ => None,
    }
}

/// What an event says that an object was added or changed.
fn object(event: Event) -> Option<Object> {
    Some(match event {
        Event::Node(it) => Object::Node(Box::new(it)),
        Event::Queue(it) => Object::Queue(it),
        Event::PodGroup(it) => Object::PodGroup(it),
        Event::PriorityClass { name, value, global_default } => {
            Object::PriorityClass { name, value, global_default, never_preempts: false }
        }
        Event::Pod(it) => Object::Pod(Box::new(SimulatedPod::known(*it))),
        Event::Quota(it) => Object::Quota(*it),
        Event::NodeUsage(it) => Object::NodeUsage(it),
        Event::Pdb(it) => Object::Pdb(*it),
        Event::Volume(it) => Object::Volume(it),
        Event::Pvc(it) => Object::Pvc(it),
        Event::StorageClass(it) => Object::StorageClass(*it),
        Event::CsiNode(it) => Object::CsiNode(it),
        Event::CsiDriver(it) => Object::CsiDriver(it),
        Event::Attachment(it) => Object::Attachment(it),
        Event::StorageCapacity(it) => Object::StorageCapacity(*it),
        Event::Namespace(it) => Object::Namespace(it),
        Event::DeviceClass(it) => Object::DeviceClass(*it),
        Event::Slice(it) => Object::Slice(*it),
        Event::Claim(it) => Object::Claim(it),
        Event::HyperNode(it) => Object::HyperNode(it),
        _ => return None,
    })
}

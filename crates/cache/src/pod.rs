//! Pods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::names;
use phalanx_cluster::annotation::{self, Annotations};
use phalanx_cluster::event::{
    Constraints, PodInfo, PodLife, PodPhase, PodRef, QueueGate, RunTime, Scoring, Strategy, Time,
};
use phalanx_framework::conf::parse_bool;

use crate::invalid::{At, Invalid};
use crate::{Identity, Interner, Kind, Names, constraints, device, requests, slim, volumes};

/// Volumes of claims of a pod that waits, for each of which a volume is looked for. Nodes take fewer of one driver.
const MAX_CLAIMS: usize = 128;

/// A pod as the Cluster sees it.
///
/// # Errors
/// A quantity or port that cannot be honoured; for a pod that waits for us to place it, an affinity
/// or toleration too.
pub fn pod(pod: &slim::Pod, names: &Names, interner: &mut Interner) -> Result<PodInfo, Invalid> {
    let identity = slim::Pod::identity(&pod.metadata, interner);
    reduce(pod, &identity, names, interner)
}

/// The same with an identity that is known already, so that its strings are held once.
pub(crate) fn reduce(
    pod: &slim::Pod,
    identity: &Identity,
    names: &Names,
    interner: &mut Interner,
) -> Result<PodInfo, Invalid> {
    let slim::Pod { metadata, spec, .. } = pod;
    let Identity { key, uid } = identity.clone();
    let marks = Marks(metadata);
    let ours = names.is_ours(spec.scheduler_name.as_deref());
    let group = group_of(spec, &marks);
    let group = group.as_deref();
    let queue = marks.annotation(names::QUEUE_NAME_ANNOTATION);
    Ok(PodInfo {
        pod: PodRef { namespace: key.namespace, name: key.name, uid }.into(),
        created: created(metadata),
        life: life(pod, interner),
        ours,
        group: group.map(|name| interner.string(name)),
        queue: queue.map(|name| interner.string(name)),
        role: interner.string(marks.either(names::TASK_SPEC).unwrap_or_default()),
        index: marks.index(),
        // Within its group only: it is the priority of the job of a pod without one, which anybody could raise.
        priority: group.and(marks.priority()).or(spec.priority),
        priority_class: spec.priority_class_name.as_deref().map(|name| interner.string(name)),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        preemptable: marks.preemptable(),
        gated: !spec.scheduling_gates.is_empty(),
        queue_gate: queue_gate(pod, &marks),
        requests: requests::of_pod(pod, interner)?,
        constraints: constraints_of(pod, identity, names, interner).at("spec")?,
        annotations: annotations(&marks, group, interner),
        labels: metadata.labels.as_ref().map(|labels| interner.labels(labels)).unwrap_or_default(),
        claims: device::claims_of(pod, interner),
        run_time: ran(&pod.status).or_else(|| run_time(spec, &marks)),
        controller: interner.controller(metadata),
    })
}

/// The PodGroup of a pod: Volcano's by annotation, or else Kubernetes' own.
fn group_of<'a>(spec: &'a slim::PodSpec, marks: &Marks<'a>) -> Option<Cow<'a, str>> {
    let own = || spec.scheduling_group.as_ref()?.pod_group_name.as_deref();
    marks
        .annotation(names::GROUP_NAME_ANNOTATION)
        .map(Cow::Borrowed)
        .or_else(|| own().map(|name| [names::KUBERNETES_POD_GROUP_PREFIX, name].concat().into()))
}

fn life(pod: &slim::Pod, interner: &mut Interner) -> PodLife {
    let slim::Pod { metadata, spec, status } = pod;
    let phase = phase(status.phase.as_deref());
    PodLife {
        phase,
        unready: unready(status, phase),
        deleting: metadata.deletion_timestamp.is_some(),
        node: spec.node_name.as_deref().map(|name| interner.string(name)),
        nominated: status.nominated_node_name.as_deref().map(|name| interner.string(name)),
        unscheduled_message: unscheduled(status).map(|message| interner.string(message)),
        scheduled: scheduled(status),
    }
}

/// A pod of this scheduler keeps its constraints when it is bound, so that its class stays equal. Only for a pending
/// pod are invalid constraints an error.
fn constraints_of(
    pod: &slim::Pod,
    identity: &Identity,
    names: &Names,
    interner: &mut Interner,
) -> Result<Arc<Constraints>, Invalid> {
    let slim::Pod { metadata, spec, status } = pod;
    let marks = Marks(metadata);
    let waits = phase(status.phase.as_deref()) == PodPhase::Pending && spec.node_name.is_none();
    let scheduler = spec.scheduler_name.as_deref();
    let ours = names.is_ours(scheduler);
    let constraints = match ours.then(|| constraints::all(spec, &marks, interner)) {
        Some(Ok(all)) => all,
        Some(Err(invalid)) if waits => return Err(invalid),
        _ => constraints::of_placed(spec, &marks, interner)?,
    };
    let scheduler = scheduler.filter(|_| ours && names.schedulers.len() > 1);
    let scheduler = scheduler.map(|name| interner.string(name));
    let volumes = volumes::of_pod(spec, identity);
    if waits && volumes.len() > MAX_CLAIMS {
        let problem = format!("found {} volumes of claims, expected at most {MAX_CLAIMS}", volumes.len());
        return Err(Invalid::new(problem)).at("volumes");
    }
    let disks = volumes::disks(spec, interner);
    Ok(interner.constraints(Constraints { volumes, disks, scheduler, ..constraints }))
}

/// How long a pod ran that succeeded.
fn ran(status: &slim::PodStatus) -> Option<RunTime> {
    let ended = |container: &slim::ContainerStatus| container.state.terminated.as_ref()?.finished_at.clone();
    let started =
        status.start_time.as_ref().filter(|_| phase(status.phase.as_deref()) == PodPhase::Succeeded)?;
    let last = status.container_statuses.iter().filter_map(ended).max()?;
    u32::try_from(last.0.duration_since(started.0).as_secs()).ok().map(RunTime::Ran)
}

/// How long a pod runs: as its annotation says, else until its deadline.
fn run_time(spec: &slim::PodSpec, marks: &Marks<'_>) -> Option<RunTime> {
    let stated = marks.annotation(names::RUN_SECONDS).and_then(|text| text.parse::<f64>().ok());
    let stated = stated.filter(|seconds| (0.0..=f64::from(u32::MAX)).contains(seconds));
    let deadline = spec.active_deadline_seconds.and_then(|seconds| u32::try_from(seconds).ok());
    let deadline = deadline.filter(|seconds| *seconds > 0).map(RunTime::Deadline);
    stated.map(|seconds| RunTime::Stated(seconds.round() as u32)).or(deadline)
}

/// A pod asks for the gate by annotation; Phalanx removes the gate when the pod has no other.
fn queue_gate(pod: &slim::Pod, marks: &Marks<'_>) -> QueueGate {
    let slim::Pod { metadata, spec, status } = pod;
    let waits = spec.node_name.is_none() && matches!(status.phase.as_deref(), None | Some("Pending"));
    let asks = marks.annotation(names::QUEUE_ALLOCATION_GATE) == Some("true");
    if !asks || !waits || metadata.deletion_timestamp.is_some() {
        return QueueGate::None;
    }
    match spec.scheduling_gates.as_slice() {
        [] => QueueGate::Open,
        [only] if only.name == names::QUEUE_ALLOCATION_GATE => QueueGate::Shut,
        _ => QueueGate::None,
    }
}

/// A pod without a group is its own group, annotations included.
fn annotations(marks: &Marks<'_>, group: Option<&str>, interner: &mut Interner) -> Annotations {
    let of_group = if group.is_none() { annotation::OF_GROUPS } else { &[] };
    marks.kept(&[annotation::OF_PODS, of_group], interner)
}

/// Terminal phases matter; one that is not known yet is that of a new pod.
fn phase(text: Option<&str>) -> PodPhase {
    match text {
        None | Some("Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some(_) => PodPhase::Unknown,
    }
}

fn unscheduled(status: &slim::PodStatus) -> Option<&str> {
    let scheduled = status.conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    if scheduled.status != "False" {
        return None;
    }
    Some(scheduled.message.as_deref().unwrap_or_default())
}

/// A pod that runs and says nothing of Ready is ready: manifests seldom do.
fn unready(status: &slim::PodStatus, phase: PodPhase) -> bool {
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    phase == PodPhase::Running && ready.is_some_and(|condition| condition.status != "True")
}

/// Since when the pod has its node, as its condition says; without one, since when its kubelet knows it, which is
/// hardly later.
fn scheduled(status: &slim::PodStatus) -> Option<Time> {
    let scheduled = status.conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    if scheduled.is_some_and(|condition| condition.status != "True") {
        return None;
    }
    let since = scheduled.and_then(|condition| condition.last_transition_time.as_ref());
    since.or(status.start_time.as_ref()).map(|since| Time(since.0.as_millisecond()))
}

/// When an object was created; 0 when it does not say.
pub(crate) fn created(metadata: &ObjectMeta) -> Time {
    Time(metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_millisecond()))
}

/// Values of annotations and labels. A value of a wrong type counts as missing, as in Volcano.
pub(crate) struct Marks<'a>(pub(crate) &'a ObjectMeta);

impl<'a> Marks<'a> {
    fn value(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
        map?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        Self::value(self.0.annotations.as_ref(), key)
    }

    /// A label's value, an empty one too.
    pub(crate) fn label(&self, key: &str) -> Option<&'a str> {
        self.0.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(crate) fn namespace(&self) -> &'a str {
        self.0.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    fn either(&self, key: &str) -> Option<&'a str> {
        self.annotation(key).or_else(|| Self::value(self.0.labels.as_ref(), key))
    }

    /// The annotations of these keys.
    pub(crate) fn kept(&self, keys: &[&[&str]], interner: &mut Interner) -> Annotations {
        let Some(all) = self.0.annotations.as_ref() else { return Annotations::default() };
        let kept = all.iter().filter(|(key, _)| keys.iter().any(|keys| keys.contains(&key.as_str())));
        kept.map(|(key, value)| (interner.string(key), interner.string(value))).collect()
    }

    /// `volcano.sh/preemptable`; a value that is no boolean means false.
    pub(crate) fn preemptable(&self) -> Option<bool> {
        self.either(names::PREEMPTABLE).map(is_true)
    }

    /// `volcano.sh/revocable-zone`, of which only `*` means something; without it, being preemptable by annotation.
    pub(crate) fn revocable(&self) -> bool {
        match self.annotation(names::REVOCABLE_ZONE) {
            Some(zone) => zone == "*",
            None => self.annotation(names::PREEMPTABLE).is_some_and(is_true),
        }
    }

    /// The annotations for the plugin resource-strategy-fit. Weights that are no JSON object of integers are none.
    pub(crate) fn strategy(&self, interner: &mut Interner) -> Option<Strategy> {
        let scoring = match self.annotation(names::RESOURCE_STRATEGY_SCORING_TYPE)? {
            "LeastAllocated" => Scoring::Least,
            "MostAllocated" => Scoring::Most,
            _ => Scoring::Unknown,
        };
        let weights = self.annotation(names::RESOURCE_STRATEGY_WEIGHT).unwrap_or_default();
        let weights: BTreeMap<String, i64> = serde_json::from_str(weights).unwrap_or_default();
        let weights = weights.into_iter().map(|(name, weight)| (interner.string(&name), weight)).collect();
        Some(Strategy { scoring, weights })
    }

    fn priority(&self) -> Option<i32> {
        self.annotation(names::TASK_PRIORITY)?.parse().ok()
    }

    /// The rank among the pods of the group: `volcano.sh/task-index`, else what another controller says, else the number
    /// behind the last dash of the name.
    fn index(&self) -> Option<u32> {
        let said = self.annotation(names::TASK_INDEX).and_then(|index| index.parse().ok());
        let said = said.or_else(|| self.rank());
        said.or_else(|| digits(self.0.name.as_deref()?.rsplit_once('-')?.1))
    }

    /// That of a LeaderWorkerSet; that within a Job, behind the pods of Jobs before it in a JobSet.
    fn rank(&self) -> Option<u32> {
        let number = |key: &str| self.either(key)?.parse::<u32>().ok();
        let within = number(names::LEADER_WORKER_INDEX).or_else(|| number(names::JOB_COMPLETION_INDEX));
        let Some(job) = number(names::JOB_SET_INDEX) else { return within };
        job.checked_mul(INDEXES_OF_A_JOB)?.checked_add(within.unwrap_or(0))
    }
}

/// Ranks of pods of a Job of a JobSet; no Job with larger ones is known.
const INDEXES_OF_A_JOB: u32 = 1 << 16;

fn is_true(text: &str) -> bool {
    parse_bool(text) == Some(true)
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

//! How long pods run, as far as their objects let guess it, and when a gang may be expected to start.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use phalanx_cluster::event::{Key, PodInfo, RunTime, Time};
use phalanx_explain::Explanation;
use serde::{Deserialize, Serialize};

use crate::api_server::SimulatedPod;
use crate::manifests::{Manifests, Object};

/// Pods whose end is told as an assumption.
const ASSUMPTIONS_MAX: usize = 3;

/// Why the end of a pod is assumed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// The annotation `phalanx.sh/run-seconds`.
    RunSeconds,
    /// It runs as long as pods named alike ran on average.
    AsOthers {
        /// How those are named.
        like: Arc<str>,
        /// How many have succeeded.
        pods: u32,
        /// The mean of their run times in milliseconds.
        ms: i64,
    },
    /// It runs until its deadline.
    Deadline,
}

/// A PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Other {
    /// A PodGroup.
    PodGroup(Key),
    /// A pod without a PodGroup.
    Pod(Key),
}

impl Other {
    pub(crate) fn of(pod: &PodInfo) -> Self {
        let key = |name: &Arc<str>| Key { namespace: pod.pod.namespace.clone(), name: name.clone() };
        pod.group.as_ref().map_or_else(|| Self::Pod(key(&pod.pod.name)), |group| Self::PodGroup(key(group)))
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGroup(key) => write!(f, "PodGroup {key}"),
            Self::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

/// The end of a pod that was assumed.
#[derive(Clone, Debug)]
pub(crate) struct AssumedEnd {
    pub(crate) at: Time,
    pub(crate) of: Other,
    pub(crate) why: Assumption,
}

/// When a gang starts, if pods end as assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedStart {
    /// Seconds from now.
    pub seconds: i64,
    /// What is assumed: the ends of the pods that end last before the start.
    pub assuming: Vec<String>,
}

/// When what waits at first would start, by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedStarts {
    /// PodGroups.
    pub pod_groups: BTreeMap<String, ExpectedStart>,
    /// Pods without a PodGroup.
    pub pods: BTreeMap<String, ExpectedStart>,
}

impl ExpectedStarts {
    /// Adds when jobs that wait would start to what is told of them.
    pub fn tell(&self, answer: &mut Explanation) {
        for job in answer.jobs.iter_mut().filter(|job| job.members.waiting > 0) {
            let starts = if job.solo { &self.pods } else { &self.pod_groups };
            job.expected_start = starts.get(&job.name).map(ToString::to_string);
        }
    }
}

impl fmt::Display for ExpectedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected start in {}", duration(self.seconds))?;
        if self.assuming.is_empty() { Ok(()) } else { write!(f, ", if {}", self.assuming.join(" and ")) }
    }
}

impl Manifests {
    /// Whether anything is known of how long any pod runs.
    pub fn has_run_times(&self) -> bool {
        let known = |pod: &SimulatedPod| pod.run_ms.is_some() || pod.info.run_time.is_some();
        self.objects.iter().filter_map(pod_of).any(known)
    }
}

/// Gives run times to pods that state none: the mean of pods named alike that succeeded, else the deadline.
pub(crate) fn assume(objects: &mut [Object]) {
    let mut ran: BTreeMap<Arc<str>, (i64, u32)> = BTreeMap::new();
    for pod in objects.iter().filter_map(pod_of) {
        if let Some(RunTime::Ran(seconds)) = pod.info.run_time {
            let (sum, count) = ran.entry(alike(&pod.info)).or_default();
            (*sum, *count) = (sum.saturating_add(i64::from(seconds)), *count + 1);
        }
    }
    for object in objects {
        if let Object::Pod(pod) = object
            && let Some((run_ms, why)) = assumed(pod, &ran)
        {
            (pod.run_ms, pod.assumed) = (Some(run_ms), Some(why));
        }
    }
}

/// How long a pod is assumed to run in milliseconds, and why; `ran` has the sum of seconds and the number of pods.
fn assumed(pod: &SimulatedPod, ran: &BTreeMap<Arc<str>, (i64, u32)>) -> Option<(i64, Assumption)> {
    if let Some(ms) = pod.run_ms {
        return Some((ms, Assumption::RunSeconds));
    }
    let like = alike(&pod.info);
    match (ran.get(&like), pod.info.run_time) {
        (Some((sum, pods)), _) => {
            let (ms, pods) = (sum.saturating_mul(1_000) / i64::from(*pods), *pods);
            Some((ms, Assumption::AsOthers { like, pods, ms }))
        }
        (None, Some(RunTime::Deadline(seconds))) => Some((i64::from(seconds) * 1_000, Assumption::Deadline)),
        (None, Some(RunTime::Stated(_) | RunTime::Ran(_)) | None) => None,
    }
}

fn pod_of(object: &Object) -> Option<&SimulatedPod> {
    match object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}

/// `namespace/train-*` for a pod of PodGroup `train-17`, or a pod without a PodGroup and of this name.
fn alike(pod: &PodInfo) -> Arc<str> {
    let name = pod.group.as_ref().unwrap_or(&pod.pod.name);
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let rest = if base.len() < name.len() { "*" } else { "" };
    format!("{}/{base}{rest}", pod.pod.namespace).into()
}

/// The ends that come last before a start, as assumptions.
pub(crate) fn assumptions(ends: &[AssumedEnd], start: Time) -> Vec<String> {
    let mut before: Vec<&AssumedEnd> = ends.iter().filter(|end| end.at <= start).collect();
    before.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.of.cmp(&b.of)));
    before.dedup_by(|a, b| a.of == b.of);
    let mut told: Vec<String> = Vec::new();
    for end in &before {
        if !told.iter().any(|known| known.starts_with(&format!("{} ", end.of))) {
            told.push(format!("{} {}", end.of, end.why));
        }
    }
    let others = told.len().saturating_sub(ASSUMPTIONS_MAX);
    told.truncate(ASSUMPTIONS_MAX);
    if others > 0 {
        told.push(format!("{others} more end as known or assumed"));
    }
    told
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunSeconds => f.write_str("ends after its phalanx.sh/run-seconds"),
            Self::Deadline => f.write_str("ends at its activeDeadlineSeconds"),
            Self::AsOthers { like, pods, ms } => {
                let (mean, noun) = (duration(ms / 1_000), if *pods == 1 { "pod" } else { "pods" });
                write!(f, "runs {mean}, the mean of {pods} finished {noun} of {like}")
            }
        }
    }
}

/// `2d3h`, `2h10m`, `5m20s` or `12s`.
pub(crate) fn duration(seconds: i64) -> String {
    let [days, hours, minutes] = [86_400, 3_600, 60].map(|unit| seconds / unit);
    let both = |large: i64, unit: &str, small: i64, of: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{of}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => both(minutes, "m", seconds % 60, "s"),
        (0, ..) => both(hours, "h", minutes % 60, "m"),
        _ => both(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let expected =
            [(0, "0s"), (59, "59s"), (60, "1m"), (80, "1m20s"), (7_800, "2h10m"), (90_000, "1d1h")];
        for (seconds, text) in expected {
            assert_eq!(duration(seconds), text);
        }
    }
}

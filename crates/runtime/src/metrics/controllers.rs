//! Metrics of the controllers.
use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_api::batch::{Job, JobPhase};
use phalanx_api::flow::{FlowPhase, JobFlow};
use phalanx_api::v1beta1::{Queue, QueueStatus};
use phalanx_cluster::event::Key;
use phalanx_controllers::{Change, Object};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets_range};

use super::{Answer, Register, SERIES_MAX, table, timing};
use crate::controllers::Watched;

/// Metrics of the controllers.
#[derive(Debug)]
pub struct ControllerMetrics {
    requests: Family<Answer, Counter>,
    creation: Histogram,
    series: Series,
}

/// How often a Job ended.
#[derive(Debug, Default)]
struct EndedJob {
    queue: String,
    completed: u64,
    failed: u64,
    /// The phase that was counted last, and when it began: it is written more than once.
    counted: Option<(JobPhase, String)>,
}

/// How many JobFlows of a namespace ended.
#[derive(Debug, Default)]
struct EndedFlows {
    succeeded: u64,
    failed: u64,
    /// The phases that were counted, by JobFlow.
    counted: BTreeMap<Arc<str>, FlowPhase>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<Key, QueueStatus>,
    jobs: BTreeMap<Key, EndedJob>,
    flows: BTreeMap<Arc<str>, EndedFlows>,
}

#[derive(Clone, Debug, Default)]
struct Series(Arc<Mutex<State>>);

impl Series {
    /// The state is consistent also after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            // Volcano's buckets, in milliseconds.
            creation: Histogram::new(exponential_buckets_range(50.0, 60_000.0, 30)),
            series: Series::default(),
        }
    }
}

/// The entry of a key, unless as many others have one as may.
fn entry<'a, K: Clone + Ord, V: Default>(map: &'a mut BTreeMap<K, V>, key: &K) -> Option<&'a mut V> {
    (map.len() < SERIES_MAX || map.contains_key(key)).then(|| map.entry(key.clone()).or_default())
}

impl ControllerMetrics {
    pub(super) fn register(&self, registry: &mut Register<'_>) {
        registry.add("phalanx_controller_requests_total", &self.requests);
        registry.add("volcano_controller_job_to_pod_creation_latency_milliseconds", &self.creation);
        registry.0.register_collector(Box::new(self.series.clone()));
    }

    /// A request was answered.
    pub fn request(&self, kind: &'static str, result: &'static str) {
        self.requests.get_or_create(&Answer { kind, result }).inc();
    }

    /// A pod of a Job was made so long after the Job.
    pub fn pod_made(&self, after: Duration) {
        self.creation.observe(timing(after));
    }

    /// A write was carried out.
    pub fn written(&self, key: &Key, change: &Change) {
        match change {
            Change::Status { object: Object::Job(job), .. } => self.job(key, job),
            Change::Status { object: Object::JobFlow(flow), .. } => self.flow(key, flow),
            _ => {}
        }
    }

    fn job(&self, key: &Key, job: &Job) {
        let Some(state) = job.status.as_ref().map(|status| &status.state) else { return };
        let Some(phase @ (JobPhase::Completed | JobPhase::Failed)) = &state.phase else { return };
        let since = state.last_transition_time.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
        let counted = Some((phase.clone(), since));
        let mut series = self.series.state();
        let Some(ended) = entry(&mut series.jobs, key) else { return };
        if ended.counted != counted {
            ended.completed += u64::from(*phase == JobPhase::Completed);
            ended.failed += u64::from(*phase == JobPhase::Failed);
            ended.queue.clone_from(&job.spec.queue);
            ended.counted = counted;
        }
    }

    fn flow(&self, key: &Key, flow: &JobFlow) {
        let Some(state) = flow.status.as_ref().map(|status| &status.state) else { return };
        let Some(phase @ (FlowPhase::Succeed | FlowPhase::Failed)) = &state.phase else { return };
        let mut series = self.series.state();
        let Some(ended) = entry(&mut series.flows, &key.namespace) else { return };
        if ended.counted.insert(key.name.clone(), phase.clone()).as_ref() != Some(phase) {
            ended.succeeded += u64::from(*phase == FlowPhase::Succeed);
            ended.failed += u64::from(*phase == FlowPhase::Failed);
        }
    }

    /// A Queue was added or changed.
    pub fn queue(&self, key: &Key, queue: &Queue) {
        if let Some(status) = entry(&mut self.series.state().queues, key) {
            *status = queue.status.clone().unwrap_or_default();
        }
    }

    /// Ends the series of the objects of a kind that do not exist any more.
    pub fn retain(&self, kind: Watched, mut exists: impl FnMut(&Key) -> bool) {
        let mut series = self.series.state();
        match kind {
            Watched::Queue => series.queues.retain(|key, _| exists(key)),
            Watched::Job => series.jobs.retain(|key, _| exists(key)),
            Watched::JobFlow => series.flows.iter_mut().for_each(|(namespace, flows)| {
                flows.counted.retain(|name, _| exists(&Key::new(namespace, name)));
            }),
            _ => {}
        }
    }

    /// Ends the series of an object that was deleted.
    pub fn forget(&self, kind: Watched, key: &Key) {
        let mut series = self.series.state();
        match kind {
            Watched::Queue => drop(series.queues.remove(key)),
            Watched::Job => drop(series.jobs.remove(key)),
            Watched::JobFlow => {
                drop(series.flows.get_mut(&key.namespace).map(|it| it.counted.remove(&key.name)));
            }
            _ => {}
        }
    }
}

/// The series of a figure of the status of queues.
type OfQueue = (&'static str, fn(&QueueStatus) -> i32);

const QUEUES: [OfQueue; 5] = [
    ("volcano_queue_pod_group_completed_count", |status| status.completed),
    ("volcano_queue_pod_group_inqueue_count", |status| status.inqueue),
    ("volcano_queue_pod_group_pending_count", |status| status.pending),
    ("volcano_queue_pod_group_running_count", |status| status.running),
    ("volcano_queue_pod_group_unknown_count", |status| status.unknown),
];

type OfJob = (&'static str, fn(&EndedJob) -> u64);

const JOBS: [OfJob; 2] = [
    ("volcano_job_completed_phase_count", |job| job.completed),
    ("volcano_job_failed_phase_count", |job| job.failed),
];

type OfFlows = (&'static str, fn(&EndedFlows) -> u64);

const FLOWS: [OfFlows; 2] = [
    ("volcano_jobflow_failed_phase_count", |flows| flows.failed),
    ("volcano_jobflow_succeed_phase_count", |flows| flows.succeeded),
];

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let state = self.state();
        for (name, figure) in QUEUES {
            let rows = state.queues.iter();
            let rows = rows.map(|(key, it)| (vec![("queue_name", key.name.to_string())], figure(it).into()));
            gauges(&mut encoder, name, rows)?;
        }
        for (name, figure) in JOBS {
            let labels = |key: &Key, job: &EndedJob| {
                let name = format!("{}/{}", key.namespace, key.name);
                vec![("job_name", name), ("queue_name", job.queue.clone())]
            };
            let rows = state.jobs.iter().filter(|(_, job)| figure(job) > 0);
            gauges(&mut encoder, name, rows.map(|(key, job)| (labels(key, job), figure(job) as i64)))?;
        }
        for (name, figure) in FLOWS {
            let rows = state.flows.iter().filter(|(_, flows)| figure(flows) > 0);
            let labels = |namespace: &Arc<str>| vec![("jobflow_namespace", namespace.to_string())];
            gauges(&mut encoder, name, rows.map(|(key, flows)| (labels(key), figure(flows) as i64)))?;
        }
        Ok(())
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    rows: impl Iterator<Item = (Vec<(&'static str, String)>, i64)>,
) -> Result<(), Error> {
    let def = table::def(name);
    let mut family = encoder.encode_descriptor(def.family(), def.help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

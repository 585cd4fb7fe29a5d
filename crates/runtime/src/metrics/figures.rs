//! Series of queues and PodGroups: made anew for each scrape, so those of what is gone go too.
use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_cluster::event::{Key, Time};
use phalanx_core::report::figures::{Figures, QueueFigures};
use phalanx_resource::DimId;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::table::{self, Type};

/// What jobs of a queue that started had waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waited {
    /// How many started.
    pub jobs: u64,
    /// Seconds from their creations to their starts.
    pub seconds: f64,
}

/// A PodGroup that started.
#[derive(Clone, Debug, PartialEq)]
pub struct StartedJob {
    /// Its name.
    pub key: Key,
    /// Its queue.
    pub queue: Arc<str>,
    /// When it was created.
    pub created: Time,
    /// When pods of it were last decided to be bound.
    pub last: Time,
}

/// A resource that nodes have.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarResource {
    /// In amounts.
    pub dim: DimId,
    /// Its name.
    pub name: Arc<str>,
    /// What amounts are multiplied by: Volcano counts bytes of all resources but memory in thousandths.
    pub factor: i64,
}

/// What the series are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Of queues.
    pub figures: Figures,
    /// Resources beside cpu and memory.
    pub resources: Vec<ScalarResource>,
    /// What jobs had waited, by queue.
    pub waited: Vec<(Arc<str>, Waited)>,
    /// PodGroups that started.
    pub jobs: Vec<StartedJob>,
    /// How many PodGroups that started are missing in `jobs`.
    pub jobs_left_out: usize,
    /// When it was taken.
    pub at: Time,
}

/// The last snapshot; none while this process does not lead.
#[derive(Clone, Debug, Default)]
pub(super) struct Series(Arc<Mutex<Option<Snapshot>>>);

impl Series {
    pub(super) fn set(&self, snapshot: Option<Snapshot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

impl Collector for Series {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(snapshot) => Writer { snapshot, encoder }.write(),
            None => Ok(()),
        }
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

struct Writer<'a, 'e> {
    snapshot: &'a Snapshot,
    encoder: DescriptorEncoder<'e>,
}

/// A figure of a queue for each resource, and the names of its series: cpu, memory and other resources.
type Amount = (fn(&QueueFigures, DimId) -> Option<i64>, [&'static str; 3]);

const AMOUNTS: [Amount; 6] = [
    (
        |queue, dim| Some(queue.allocated.get(dim)),
        [
            "volcano_queue_allocated_milli_cpu",
            "volcano_queue_allocated_memory_bytes",
            "volcano_queue_allocated_scalar_resources",
        ],
    ),
    (
        |queue, dim| Some(queue.request.get(dim)),
        [
            "volcano_queue_request_milli_cpu",
            "volcano_queue_request_memory_bytes",
            "volcano_queue_request_scalar_resources",
        ],
    ),
    (
        |queue, dim| Some(queue.waiting.inqueue.get(dim)),
        [
            "volcano_queue_inqueue_milli_cpu",
            "volcano_queue_inqueue_memory_bytes",
            "volcano_queue_inqueue_scalar_resources",
        ],
    ),
    (
        |queue, dim| Some(queue.attributes.as_ref()?.deserved.get(dim)),
        [
            "volcano_queue_deserved_milli_cpu",
            "volcano_queue_deserved_memory_bytes",
            "volcano_queue_deserved_scalar_resources",
        ],
    ),
    (
        |queue, dim| Some(queue.attributes.as_ref()?.real_capability.get(dim)),
        [
            "volcano_queue_real_capacity_milli_cpu",
            "volcano_queue_real_capacity_memory_bytes",
            "volcano_queue_real_capacity_scalar_resources",
        ],
    ),
    (
        |queue, dim| queue.capability.get(dim),
        [
            "volcano_queue_capacity_milli_cpu",
            "volcano_queue_capacity_memory_bytes",
            "volcano_queue_capacity_scalar_resources",
        ],
    ),
];

impl<'a> Writer<'a, '_> {
    fn write(mut self) -> Result<(), Error> {
        for amount in AMOUNTS {
            self.amounts(amount)?;
        }
        self.of_queues("volcano_queue_weight", |queue| Some(f64::from(queue.weight)))?;
        self.of_queues("volcano_queue_share", |queue| Some(queue.attributes.as_ref()?.share))?;
        self.of_queues("volcano_queue_overused", |queue| Some(f64::from(u8::from(queue.overused))))?;
        self.waits()?;
        self.jobs()?;
        self.unready()?;
        let left_out = [("queues", self.snapshot.figures.left_out), ("jobs", self.snapshot.jobs_left_out)];
        self.series("phalanx_series_left_out", left_out.map(|(of, count)| (vec![("of", of)], count as f64)))
    }

    fn amounts(&mut self, (amount, [cpu, memory, scalars]): Amount) -> Result<(), Error> {
        self.of_queues(cpu, |queue| Some(amount(queue, DimId::CPU)? as f64))?;
        self.of_queues(memory, |queue| Some(amount(queue, DimId::MEMORY)? as f64))?;
        let Snapshot { figures, resources, .. } = self.snapshot;
        let rows = figures.queues.iter().flat_map(|queue| {
            resources.iter().filter_map(move |resource| {
                let labels = vec![("queue_name", &*queue.name), ("resource", &*resource.name)];
                Some((labels, amount(queue, resource.dim)? as f64 * resource.factor as f64))
            })
        });
        self.series(scalars, rows)
    }

    fn waits(&mut self) -> Result<(), Error> {
        let at = self.snapshot.at;
        let age = |since: Time| at.0.saturating_sub(since.0).max(0) as f64 / 1000.0;
        self.of_queues("phalanx_queue_waiting_jobs", |queue| Some(f64::from(queue.waiting.jobs)))?;
        self.of_queues("phalanx_queue_waiting_pods", |queue| Some(f64::from(queue.waiting.pods)))?;
        self.of_queues("phalanx_queue_oldest_waiting_seconds", |queue| {
            Some(queue.waiting.since.map_or(0.0, age))
        })?;
        let waited = &self.snapshot.waited;
        let rows = |figure: fn(&Waited) -> f64| {
            waited.iter().map(move |(queue, waited)| (vec![("queue_name", &**queue)], figure(waited)))
        };
        self.series("phalanx_queue_jobs_started_total", rows(|waited| waited.jobs as f64))?;
        self.series("phalanx_queue_waited_seconds_total", rows(|waited| waited.seconds))
    }

    fn jobs(&mut self) -> Result<(), Error> {
        self.of_jobs("volcano_e2e_job_scheduling_duration", |job| (job.last.0 - job.created.0) as f64)?;
        let seconds = |time: Time| time.0.div_euclid(1000) as f64;
        self.of_jobs("volcano_e2e_job_scheduling_start_time", |job| seconds(job.created))?;
        self.of_jobs("volcano_e2e_job_scheduling_last_time", |job| seconds(job.last))
    }

    /// Without labels, for which a family would write empty braces.
    fn unready(&mut self) -> Result<(), Error> {
        let def = table::def("volcano_unschedule_job_count");
        let row = self.encoder.encode_descriptor(def.family(), def.help, None, MetricType::Gauge)?;
        ConstGauge::new(self.snapshot.figures.unready_jobs as i64).encode(row)
    }

    fn of_queues(&mut self, name: &str, figure: impl Fn(&QueueFigures) -> Option<f64>) -> Result<(), Error> {
        let queues = &self.snapshot.figures.queues;
        let rows = queues.iter().filter_map(|it| Some((vec![("queue_name", &*it.name)], figure(it)?)));
        self.series(name, rows)
    }

    fn of_jobs(&mut self, name: &str, figure: impl Fn(&StartedJob) -> f64) -> Result<(), Error> {
        let labels = |job: &'a StartedJob| {
            vec![("job_name", &*job.key.name), ("queue", &*job.queue), ("job_namespace", &*job.key.namespace)]
        };
        let rows = self.snapshot.jobs.iter().map(|job| (labels(job), figure(job)));
        self.series(name, rows)
    }

    fn series(&mut self, name: &str, rows: impl IntoIterator<Item = (Labels<'a>, f64)>) -> Result<(), Error> {
        let def = table::def(name);
        let counts = def.kind == Type::Counter;
        let kind = if counts { MetricType::Counter } else { MetricType::Gauge };
        let mut family = self.encoder.encode_descriptor(def.family(), def.help, None, kind)?;
        for (labels, value) in rows {
            let row = family.encode_family(&labels)?;
            if counts {
                ConstCounter::new(value).encode(row)?;
            } else {
                ConstGauge::new(value).encode(row)?;
            }
        }
        Ok(())
    }
}

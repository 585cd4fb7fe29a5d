//! What is measured of the scheduling thread: the stages of cycles, and what a scrape shows of queues and jobs.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::{Cluster, JobKind, Status};
use phalanx_core::decision::Decision;
use phalanx_core::{Outcome, Scheduler};
use phalanx_framework::trace::{Stage, Trace};
use phalanx_resource::DimId;
use rustc_hash::FxHashMap;
use tracing::{debug, warn};

use crate::metrics::{Metrics, SERIES_MAX, ScalarResource, Snapshot, StartedJob, Waited};
use crate::spans::{SlowCycle, Spans};

/// Stages shorter than this part of a slow cycle are not logged.
const SHORT: u32 = 50;

/// Figures of queues that are younger than this are not computed again: who asks more often gets the same.
const FRESH: Duration = Duration::from_secs(1);

/// Measures the stages of a cycle.
#[derive(Debug)]
struct StageClock(Mutex<Stages>);

#[derive(Debug)]
struct Stages {
    last: Instant,
    steps: Vec<Step>,
    /// What plugins took in the stage that goes on.
    answers: BTreeMap<&'static str, Duration>,
    /// When the question that goes on began.
    asked: Instant,
    /// The cycle before was slow.
    follows: bool,
}

/// A stage of a cycle.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The stage.
    pub(crate) stage: Stage,
    /// How long it took.
    pub(crate) took: Duration,
    /// How much of that plugins took to answer, where that was measured.
    pub(crate) answers: BTreeMap<&'static str, Duration>,
}

impl Default for StageClock {
    fn default() -> Self {
        let now = Instant::now();
        let stages =
            Stages { last: now, steps: Vec::new(), answers: BTreeMap::new(), asked: now, follows: false };
        Self(Mutex::new(stages))
    }
}

impl StageClock {
    /// The stages are consistent also after a panic.
    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut stages = self.stages();
        stages.steps.clear();
        stages.last = Instant::now();
    }
}

impl Trace for StageClock {
    fn ended(&self, stage: Stage) {
        let (now, mut stages) = (Instant::now(), self.stages());
        let took = now - std::mem::replace(&mut stages.last, now);
        let answers = std::mem::take(&mut stages.answers);
        stages.steps.push(Step { answers, ..Step::new(stage, took) });
    }

    fn follows_questions(&self) -> bool {
        self.stages().follows
    }

    fn asking(&self) {
        self.stages().asked = Instant::now();
    }

    fn answered(&self, plugin: &'static str) {
        let mut stages = self.stages();
        let took = stages.asked.elapsed();
        *stages.answers.entry(plugin).or_default() += took;
    }
}

/// What is told of slow cycles.
#[derive(Clone, Debug)]
pub struct SlowCycles {
    /// `--slow-cycle`: a cycle that takes so long is logged with its stages.
    pub threshold: Duration,
    /// Where its OpenTelemetry trace goes.
    pub spans: Option<Spans>,
}

impl Default for SlowCycles {
    fn default() -> Self {
        Self { threshold: Duration::from_secs(1), spans: None }
    }
}

/// The measures of the scheduling thread.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// Where they go.
    pub metrics: Arc<Metrics>,
    slow: SlowCycles,
    clock: Arc<StageClock>,
    /// In the current cycle: how many pods of a job were decided to be bound.
    bound: FxHashMap<Key, usize>,
    /// PodGroups that started; some of them may be gone.
    started: FxHashMap<Key, StartedJob>,
    waited: FxHashMap<Arc<str>, Waited>,
    /// When figures were computed last.
    figured: Option<Instant>,
}

impl Telemetry {
    /// Measures that go to these metrics.
    pub fn new(metrics: Arc<Metrics>, slow: SlowCycles) -> Self {
        // By `default` a registry would be made only to be dropped.
        Self {
            metrics,
            slow,
            clock: Arc::default(),
            bound: FxHashMap::default(),
            started: FxHashMap::default(),
            waited: FxHashMap::default(),
            figured: None,
        }
    }

    /// What is to be told of the stages of cycles.
    pub fn trace(&self) -> Arc<dyn Trace> {
        self.clock.clone()
    }

    /// A cycle begins.
    pub(crate) fn begin(&self) {
        self.clock.begin();
    }

    /// A cycle decided this.
    pub(crate) fn decided(&mut self, decisions: &[Decision]) {
        self.metrics.decided(decisions);
        for decision in decisions {
            if let Decision::Bind { job, pods } = decision {
                *self.bound.entry(job.clone()).or_default() += pods.len();
            }
        }
    }

    /// A cycle that began at `now` ended.
    pub(crate) fn ended(&mut self, cluster: &Cluster, outcome: &Outcome, now: Time, took: Duration) {
        for (action, times) in &outcome.victim_searches {
            self.metrics.searched(action, *times);
        }
        let mut stages = self.clock.stages();
        self.metrics.cycle(took, &stages.steps);
        stages.follows = took >= self.slow.threshold;
        if stages.follows {
            warn!(cycle = outcome.cycle, ?took, stages = long(&stages.steps, took), "slow cycle");
            if let Some(spans) = &self.slow.spans {
                let pods = self.bound.values().sum();
                let steps = stages.steps.clone();
                spans.send(SlowCycle { cycle: outcome.cycle, ended: SystemTime::now(), took, pods, steps });
            }
        }
        drop(stages);
        debug!(cycle = outcome.cycle, bound = self.bound.values().sum::<usize>(), ?took, "cycle");
        for (key, pods) in std::mem::take(&mut self.bound) {
            self.note_started(cluster, key, pods, now);
        }
        if self.started.len() > 2 * SERIES_MAX {
            self.forget_oldest();
        }
    }

    /// Pods of a job were decided to be bound; when these are all that it has, it starts.
    fn note_started(&mut self, cluster: &Cluster, key: Key, pods: usize, now: Time) {
        let named = |kind| cluster.job_named(kind, &key);
        let Some(id) = named(JobKind::Group).or_else(|| named(JobKind::Solo)) else { return };
        let job = &cluster.jobs[id];
        let queue = &cluster.queues[job.queue].name;
        if job.counts.ready() as usize <= pods {
            let after =
                |since: Time| Duration::from_millis(u64::try_from(now.0 - since.0).unwrap_or_default());
            self.metrics.started(after(job.created));
            // One that started before has run since its creation.
            let again = self.started.contains_key(&key).then(|| cluster.oldest_pod(id, Status::is_ready));
            let waited = after(again.flatten().unwrap_or(job.created));
            if self.waited.len() < SERIES_MAX || self.waited.contains_key(queue) {
                let sum = self.waited.entry(queue.clone()).or_default();
                sum.jobs += 1;
                sum.seconds += waited.as_secs_f64();
            }
        }
        if job.kind == JobKind::Group {
            let started =
                StartedJob { key: key.clone(), queue: queue.clone(), created: job.created, last: now };
            self.started.insert(key, started);
        }
    }

    /// Keeps as many jobs that started last as may have series.
    fn forget_oldest(&mut self) {
        let mut times: Vec<Time> = self.started.values().map(|job| job.last).collect();
        times.sort_unstable();
        let least = times[times.len() - SERIES_MAX];
        self.started.retain(|_, job| job.last > least);
    }

    /// Somebody reads the metrics: computes those of queues and jobs, unless that was done a moment ago.
    pub(crate) fn scraped(&mut self, scheduler: &Scheduler, cluster: &Cluster, now: Time) {
        if self.figured.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        self.started.retain(|key, _| cluster.job_named(JobKind::Group, key).is_some());
        self.waited.retain(|queue, _| cluster.queue_named(queue).is_some());
        let figures = scheduler.figures(cluster, SERIES_MAX);
        let mut jobs: Vec<StartedJob> = self.started.values().cloned().collect();
        jobs.sort_unstable_by(|a, b| b.last.cmp(&a.last).then_with(|| a.key.cmp(&b.key)));
        jobs.truncate(SERIES_MAX);
        let mut waited: Vec<_> = self.waited.iter().map(|(queue, waited)| (queue.clone(), *waited)).collect();
        waited.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.metrics.snapshot(Some(Snapshot {
            jobs_left_out: figures.started_groups.saturating_sub(jobs.len()),
            resources: scalar_resources(cluster),
            figures,
            waited,
            jobs,
            at: now,
        }));
        self.figured = Some(Instant::now());
    }
}

/// What nodes have beside cpu and memory. Names that only pods, queues or quotas use have no series: anybody may make
/// them up.
fn scalar_resources(cluster: &Cluster) -> Vec<ScalarResource> {
    let has = |dim| cluster.sums.allocatable.get(dim) > 0 && dim != DimId::CPU && dim != DimId::MEMORY;
    let resource = |(dim, name): (DimId, &str)| {
        let bytes = name == "ephemeral-storage" || name.starts_with("hugepages-");
        ScalarResource { dim, name: name.into(), factor: if bytes { 1000 } else { 1 } }
    };
    cluster.dims.iter().filter(|(dim, _)| has(*dim)).map(resource).collect()
}

/// The stages that took long, as text, with the plugins that did.
fn long(steps: &[Step], took: Duration) -> String {
    let is_long = |part: Duration| part * SHORT >= took;
    let text = |step: &Step| {
        let answers = step.answers.iter().filter(|(_, part)| is_long(**part));
        let answers: Vec<String> = answers.map(|(plugin, part)| format!("{plugin} {part:.1?}")).collect();
        let of =
            if answers.is_empty() { String::new() } else { format!(" (plugins {})", answers.join(", ")) };
        format!("{} {:.1?}{of}", step.name(), step.took)
    };
    steps.iter().filter(|step| is_long(step.took)).map(text).collect::<Vec<_>>().join(", ")
}

impl Step {
    pub(crate) fn new(stage: Stage, took: Duration) -> Self {
        Self { stage, took, answers: BTreeMap::new() }
    }

    pub(crate) fn name(&self) -> String {
        match self.stage {
            Stage::Begun => "begin".to_owned(),
            Stage::PluginOpened(plugin) => format!("open plugin {plugin}"),
            Stage::SessionOpened => "open session".to_owned(),
            Stage::Action(action) => format!("action {action}"),
            Stage::Statuses => "statuses".to_owned(),
            Stage::PluginClosed(plugin) => format!("close plugin {plugin}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_cluster::ClusterOptions;
    use phalanx_cluster::event::{PodGroupInfo, PodInfo};
    use phalanx_framework::testing::{group, member, node, running};

    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_slow_cycle_is_told_with_the_stages_and_plugins_that_took_long() {
        let step = |stage, took| Step::new(stage, ms(took));
        let answers = BTreeMap::from([("drf", ms(2)), ("gang", ms(400))]);
        let steps = [
            step(Stage::Begun, 1),
            step(Stage::PluginOpened("drf"), 30),
            Step { answers, ..step(Stage::Action("allocate"), 1250) },
            step(Stage::Statuses, 19),
        ];
        let expected = "open plugin drf 30.0ms, action allocate 1.2s (plugins gang 400.0ms)";
        assert_eq!(long(&steps, ms(1300)), expected);
    }

    #[test]
    fn a_job_that_starts_again_has_waited_since_its_new_pods_were_made() {
        let slow = SlowCycles { threshold: Duration::MAX, spans: None };
        let mut telemetry = Telemetry::new(Arc::default(), slow);
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(node("n1", "cpu=4").into());
        cluster.apply(PodGroupInfo { created: Time(1_000), ..group("g", 1) }.into());
        for (created, bound) in [(3_000, 11_000), (60_000, 64_000)] {
            let pod = PodInfo { created: Time(created), ..running(member("g", 0, "cpu=1"), "n1") };
            let uid = pod.pod.uid.clone();
            cluster.apply(pod.into());
            telemetry.note_started(&cluster, Key::new("ns", "g"), 1, Time(bound));
            cluster.apply(phalanx_cluster::event::Event::PodGone(uid));
        }
        let waited: Vec<f64> = telemetry.waited.values().map(|waited| waited.seconds).collect();
        assert_eq!(waited, [10.0 + 4.0]);
    }

    #[test]
    fn questions_to_plugins_are_measured_in_the_cycle_after_a_slow_one() {
        let slow = SlowCycles { threshold: Duration::ZERO, spans: None };
        let mut telemetry = Telemetry::new(Arc::default(), slow);
        let (cluster, trace) = (Cluster::new(ClusterOptions::default()), telemetry.trace());
        assert!(!trace.follows_questions());
        telemetry.ended(&cluster, &Outcome::default(), Time(0), ms(1));
        assert!(trace.follows_questions());
        telemetry.begin();
        trace.asking();
        trace.answered("gang");
        trace.ended(Stage::Action("allocate"));
        trace.ended(Stage::Action("preempt"));
        let asked: Vec<usize> =
            telemetry.clock.stages().steps.iter().map(|step| step.answers.len()).collect();
        assert_eq!(asked, [1, 0], "by action");
        telemetry.slow.threshold = ms(2);
        telemetry.ended(&cluster, &Outcome::default(), Time(0), ms(1));
        assert!(!trace.follows_questions());
    }
}

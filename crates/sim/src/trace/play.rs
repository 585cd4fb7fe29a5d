//! Plays a trace through the scheduler, in virtual time.
//!
//! Pods that are evicted are created again and run their whole time again; the other members of a gang go on. A job
//! whose pods have all succeeded is deleted.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PodPhase, Time};
use phalanx_core::decision::Decision;
use phalanx_core::report::GroupReport;
use phalanx_framework::conf::Conf;

use super::arrival::Trace;
use super::cards::Cards;
use super::fragments::Typical;
use super::job;
use super::plays::FIGURES;
use super::report::{Evictions, Fairness, FirstWait, Level, NeverStarted, Run, TraceReport, Waits};
use super::samples::{self, Counts, Samples};
use crate::api_server::ApiServer;
use crate::arrivals::Arrivals;
use crate::manifests::{Manifests, Object, builtin_queue};
use crate::outcome;
use crate::report::{PodOutcome, alike};
use crate::simulation::{Options, Restless, Simulation, stopped_clock};
use crate::watcher::Watcher;

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Jobs that have arrived.
    pub arrived: usize,
    /// Jobs that have finished.
    pub finished: usize,
    /// Jobs of the trace.
    pub jobs: usize,
    /// Virtual seconds so far.
    pub seconds: f64,
}

/// Plays a trace on the cluster of some manifests. `resource` is that of queues and fragments; without it, the device
/// that most pods of the trace request, or else cpu. `progress` is told from time to time.
pub fn play(
    trace: &Trace,
    mut manifests: Manifests,
    (name, conf): (&str, Conf),
    options: &Options,
    resource: Option<&str>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Run, Restless> {
    manifests.objects.extend(made_for(trace, &manifests));
    let mut simulation = Simulation::new(manifests, conf, options);
    let begin = simulation.now();
    let jobs = trace.jobs.clone();
    let batches = jobs.into_iter().enumerate().map(move |(place, job)| {
        let at = Time(begin.0 + job.arrival.0);
        (at, job.objects(place, at))
    });
    simulation.set_arrivals(Arrivals::of(batches));
    // Nodes are known before the first cycle.
    simulation.deliver();
    let resource: Arc<str> = resource.map_or_else(|| most_requested(trace), Into::into);
    let typical = Typical::of(trace, &resource, simulation.cluster());
    let cards = Cards::of(simulation.cluster(), &resource);
    let samples = Samples::new(resource.clone(), typical, begin, trace.end().0);
    let mut player = Player {
        trace,
        begin,
        jobs: vec![State::default(); trace.jobs.len()],
        arriving: Vec::new(),
        told: Progress { jobs: trace.jobs.len(), ..Progress::default() },
        started: 0,
        first_wait: None,
        evictions: Evictions::default(),
        cards,
        samples,
        progress,
    };
    simulation.run_watched(&mut stopped_clock(), &mut player)?;
    let end = simulation.now();
    player.samples.pass(&simulation, player.counts(), Time(end.0 + 1));
    Ok(player.run(name, &resource, &simulation))
}

/// The device that most pods of the trace request, or else cpu.
fn most_requested(trace: &Trace) -> Arc<str> {
    let mut pods: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
    for job in &trace.jobs {
        let devices = job.requests.iter().filter(|(name, amount)| name.contains('/') && amount.milli() > 0);
        devices.for_each(|(name, _)| *pods.entry(name).or_default() += u64::from(job.size));
    }
    let most = pods.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map_or_else(|| "cpu".into(), |(name, _)| (*name).clone())
}

/// Queues that the manifests lack, with weight 1, and the PriorityClasses of the trace.
fn made_for(trace: &Trace, manifests: &Manifests) -> Vec<Object> {
    let named = trace.queues();
    let missing = missing_queues(&named, manifests).map(|name| Object::Queue(Box::new(builtin_queue(name))));
    let priorities: BTreeSet<i32> = trace.jobs.iter().filter_map(|job| job.priority).collect();
    let classes = priorities.into_iter().map(|value| Object::PriorityClass {
        name: job::class(value).into(),
        value,
        global_default: false,
        never_preempts: false,
    });
    missing.chain(classes).collect()
}

fn missing_queues<'t>(
    named: &'t BTreeSet<&'t str>,
    manifests: &'t Manifests,
) -> impl Iterator<Item = &'t str> {
    let there: BTreeSet<&str> = manifests
        .objects
        .iter()
        .filter_map(|object| if let Object::Queue(queue) = object { Some(&*queue.name) } else { None })
        .collect();
    named.iter().copied().filter(move |name| !there.contains(name))
}

impl Trace {
    /// Queues that jobs name and the manifests lack. They are made with weight 1.
    pub fn queues_beyond(&self, manifests: &Manifests) -> Vec<String> {
        missing_queues(&self.queues(), manifests).map(ToOwned::to_owned).collect()
    }
}

impl TraceReport {
    /// The report on runs of a trace, or of several: for each configuration all that it played.
    pub fn of(plays: Vec<Vec<Run>>) -> Self {
        let count = plays.first().map_or(0, Vec::len);
        let runs: Vec<Run> = plays.into_iter().filter_map(with_spread).collect();
        let first = runs.first();
        Self {
            resource: first.map(|run| run.resource.clone()).unwrap_or_default(),
            capacity: first.map(|run| run.capacity.clone()).unwrap_or_default(),
            jobs: first.map(|run| run.jobs).unwrap_or_default(),
            plays: count,
            runs,
        }
    }
}

/// The first of several runs, with the figures of all.
fn with_spread(plays: Vec<Run>) -> Option<Run> {
    let several = FIGURES.iter().filter(|_| plays.len() > 1);
    let spread = several.filter_map(|figure| Some((figure.name, figure.over(&plays)?))).collect();
    Some(Run { spread, ..plays.into_iter().next()? })
}

/// What has become of a job.
#[derive(Clone, Default)]
struct State {
    bound: u32,
    /// Since the begin of the trace.
    started: Option<Time>,
    arrived: bool,
    ended: Vec<Arc<str>>,
    finished: bool,
}

struct Player<'t> {
    trace: &'t Trace,
    begin: Time,
    jobs: Vec<State>,
    /// Jobs that arrived before this cycle.
    arriving: Vec<usize>,
    told: Progress,
    started: usize,
    first_wait: Option<FirstWait>,
    evictions: Evictions,
    cards: Cards,
    samples: Samples,
    progress: &'t mut dyn FnMut(Progress),
}

impl Watcher for Player<'_> {
    fn wants_busiest(&self) -> bool {
        false
    }

    fn sees(&mut self, event: &Event, api_server: &mut ApiServer, now: Time) {
        let Event::Pod(pod) = event else { return };
        let Some(place) = job::place_of(&pod.pod.uid) else { return };
        let (Some(state), Some(job)) = (self.jobs.get_mut(place), self.trace.jobs.get(place)) else { return };
        if !state.arrived {
            state.arrived = true;
            self.told.arrived += 1;
            self.arriving.push(place);
        }
        if pod.life.phase != PodPhase::Succeeded || pod.life.deleting {
            return;
        }
        self.cards.gone(&pod.pod.uid);
        state.ended.push(pod.pod.uid.clone());
        if state.ended.len() == job.size as usize {
            state.finished = true;
            self.told.finished += 1;
            state.ended.iter().for_each(|uid| api_server.delete_pod(uid, now));
            if let Some(group) = job.group_key() {
                api_server.delete_group(&group);
            }
            state.ended = Vec::new();
        }
    }

    fn decided(&mut self, simulation: &Simulation, decisions: &[Decision]) {
        let now = Time(simulation.now().0 - self.begin.0);
        for decision in decisions {
            match decision {
                Decision::Bind { pods, .. } => {
                    for binding in pods {
                        self.bound(&binding.pod.uid, &binding.node, now);
                    }
                }
                Decision::Evict { pod, cause, .. } => {
                    *self.evictions.by_action.entry(cause.action).or_default() += 1;
                    self.evicted(&pod.uid, simulation);
                }
                _ => {}
            }
        }
        let arriving = std::mem::take(&mut self.arriving);
        let waits = arriving.into_iter().find(|place| self.jobs[*place].started.is_none());
        if let Some(place) = waits.filter(|_| self.first_wait.is_none()) {
            self.first_wait = Some(FirstWait {
                job: self.trace.jobs[place].name.clone(),
                arrived: place + 1,
                at: seconds(now),
                allocated: samples::used(simulation.cluster()),
            });
        }
    }

    fn passes(&mut self, simulation: &Simulation, then: Time) {
        self.samples.pass(simulation, self.counts(), then);
        self.told.seconds = seconds(Time(simulation.now().0 - self.begin.0));
        (self.progress)(self.told);
    }
}

impl Player<'_> {
    fn bound(&mut self, uid: &Arc<str>, node: &Arc<str>, now: Time) {
        let Some(place) = job::place_of(uid) else { return };
        let (Some(state), Some(job)) = (self.jobs.get_mut(place), self.trace.jobs.get(place)) else { return };
        state.bound += 1;
        self.cards.bound(uid, node, &job.requests);
        if state.bound >= job.min_member && state.started.is_none() {
            state.started = Some(now);
            self.started += 1;
        }
    }

    fn evicted(&mut self, uid: &str, simulation: &Simulation) {
        let Some(place) = job::place_of(uid) else { return };
        let Some(state) = self.jobs.get_mut(place) else { return };
        let bound = simulation.api_server().pod(uid).and_then(|pod| pod.info.life.scheduled);
        let Some(bound) = bound else { return };
        state.bound = state.bound.saturating_sub(1);
        self.cards.gone(uid);
        let hours = (simulation.now().0 - bound.0) as f64 / 3_600_000.0;
        for (name, amount) in &self.trace.jobs[place].requests {
            let lost = self.evictions.lost_hours.entry(name.clone()).or_default();
            *lost += amount.milli() as f64 / 1_000.0 * hours;
        }
    }

    fn counts(&self) -> Counts {
        Counts { waiting: self.told.arrived - self.started, evicted: self.evictions.pods() }
    }

    fn waits<K: Ord>(&self, key: &dyn Fn(&job::Job) -> K) -> BTreeMap<K, Waits> {
        let mut found: BTreeMap<K, (Vec<f64>, usize)> = BTreeMap::new();
        for (job, state) in self.trace.jobs.iter().zip(&self.jobs) {
            let (waits, never) = found.entry(key(job)).or_default();
            match state.started {
                Some(started) => waits.push(seconds(Time(started.0 - job.arrival.0))),
                None => *never += 1,
            }
        }
        found.into_iter().map(|(key, (waits, never))| (key, Waits::of(waits, never))).collect()
    }

    /// Why jobs never started, by kinds of reasons.
    fn never_started(&self, simulation: &Simulation) -> Vec<NeverStarted> {
        let report = simulation.core_report();
        let told: BTreeMap<(bool, &Key), &GroupReport> =
            report.groups.iter().map(|group| ((group.solo, &group.key), group)).collect();
        let jobs = self.trace.jobs.iter().zip(&self.jobs).filter(|(_, state)| state.started.is_none());
        let outcomes: BTreeMap<String, PodOutcome> = jobs
            .map(|(job, _)| {
                let told = told.get(&(job.size == 1, &job.key())).copied();
                // What a gang waits for besides follows from its first reason.
                let reason = told.and_then(|told| told.reasons.first());
                let reason = reason.map_or("no reason is known", |reason| without_pod(&job.name, reason));
                let reasons = vec![reason.to_owned()];
                (job.name.clone(), PodOutcome { reasons, lack: told.and_then(outcome::lack) })
            })
            .collect();
        let kinds = alike(&outcomes).into_iter().map(|kind| NeverStarted {
            jobs: kind.count,
            example: kind.example.0.to_owned(),
            reason: kind.example.1.to_owned(),
            lack: kind.lack.map(ToString::to_string),
        });
        kinds.collect()
    }

    fn run(mut self, name: &str, resource: &Arc<str>, simulation: &Simulation) -> Run {
        let capacity = samples::capacity(simulation.cluster());
        let samples = std::mem::take(&mut self.samples.taken);
        let last = seconds(self.trace.end());
        let while_arriving = samples.iter().take_while(|sample| sample.at <= last).count().max(1);
        let parts = capacity.iter().map(|(of, whole)| {
            let part =
                |sample: &samples::Sample| sample.allocated.get(of).copied().unwrap_or_default() / whole;
            (of.clone(), level(samples.iter().map(part), while_arriving))
        });
        let utilisation = parts.collect();
        let whole = capacity.get(resource).copied().unwrap_or(1.0);
        let fragments = level(samples.iter().map(|sample| sample.fragments / whole), while_arriving);
        let queues = fairness(&samples[..while_arriving.min(samples.len())]);
        let by_queue = |job: &job::Job| job.queue().unwrap_or("default").to_owned();
        let waits = self.waits(&|_| ()).into_values().next().unwrap_or_default();
        let waits_by_size = self.waits(&|job| up_to(job.size)).into_iter().map(sized).collect();
        let waits_by_queue = self.waits(&by_queue).into_iter().collect();
        Run {
            never_started: self.never_started(simulation),
            conf: name.to_owned(),
            started: self.started,
            finished: self.told.finished,
            seconds: seconds(Time(simulation.now().0 - self.begin.0)),
            cycles: simulation.cycles(),
            utilisation,
            fragments,
            first_wait: self.first_wait,
            waits,
            waits_by_size,
            waits_by_queue,
            queues,
            evictions: self.evictions,
            cards: Some(self.cards.told).filter(|cards| cards.bound > 0),
            spread: BTreeMap::new(),
            samples,
            capacity,
            resource: resource.clone(),
            jobs: self.trace.jobs.len(),
        }
    }
}

/// The reason of a gang may begin with the name of its first pod.
fn without_pod<'r>(job: &str, reason: &'r str) -> &'r str {
    let is_pod = |first: &str| first.strip_prefix(job).is_some_and(|rest| rest.starts_with('-'));
    reason.split_once(": ").filter(|(first, _)| is_pod(first)).map_or(reason, |(_, rest)| rest)
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1_000.0
}

fn level(parts: impl Iterator<Item = f64>, while_arriving: usize) -> Level {
    let (mut sum, mut peak) = (0.0, 0.0_f64);
    for (at, part) in parts.enumerate() {
        sum += if at < while_arriving { part } else { 0.0 };
        peak = peak.max(part);
    }
    Level { mean: sum / while_arriving as f64, peak }
}

fn fairness(samples: &[samples::Sample]) -> BTreeMap<Arc<str>, Fairness> {
    let mut queues: BTreeMap<Arc<str>, Fairness> = BTreeMap::new();
    let part = 1.0 / samples.len().max(1) as f64;
    for (name, queue) in samples.iter().flat_map(|sample| &sample.queues) {
        let mean = queues.entry(name.clone()).or_default();
        mean.allocated += queue.allocated * part;
        if let Some(deserved) = queue.deserved {
            *mean.deserved.get_or_insert_default() += deserved * part;
            *mean.short.get_or_insert_default() +=
                (deserved.min(queue.requested) - queue.allocated).max(0.0) * part;
        }
    }
    queues
}

/// The range of sizes that a size is counted in, by its upper end: 1, 4, 8, 16 and so on.
fn up_to(size: u32) -> u32 {
    if size <= 1 { 1 } else { size.max(4).next_power_of_two() }
}

fn sized((to, waits): (u32, Waits)) -> (String, Waits) {
    let range = match to {
        1 => "1".to_owned(),
        4 => "2-4".to_owned(),
        to => format!("{}-{to}", to / 2 + 1),
    };
    (range, waits)
}

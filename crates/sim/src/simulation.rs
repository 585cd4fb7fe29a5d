//! Runs the scheduler against a cluster in virtual time.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{Cluster, ClusterOptions, JobKind};
use phalanx_core::decision::Decision;
use phalanx_core::report::{GroupReport, Report as CoreReport};
use phalanx_core::{RetryLimits, Scheduler};
use phalanx_explain::Fragments;
use phalanx_framework::conf::Conf;
use phalanx_framework::placement::Sampling;
use phalanx_view::{Seen, View};
use thiserror::Error;

use crate::admission::Admission;
use crate::api_server::ApiServer;
use crate::arrivals::{self, Arrivals};
use crate::budget;
use crate::claims::Claims;
use crate::create::{Begin, add};
use crate::manifests::Manifests;
use crate::outcome;
use crate::past::{Busiest, Past};
use crate::quota;
use crate::report::{BusiestQueues, Report};
use crate::run_time::{self, ExpectedStart, ExpectedStarts, Other};
use crate::volcano::Controllers;
use crate::watcher::{SoFar, Telling, Unwatched, Watcher};

/// The period of cycles.
pub const PERIOD_MS: i64 = 1_000;

/// The gangs that wait whose fragments are told.
const FRAGMENTS_MAX: usize = 20;

/// The most cycles in a row that change nothing but statuses and nominations: more than two for each of [`WAKES_MAX`],
/// since a status may change with the time.
const IDLE_CYCLES_MAX: u32 = 300;

/// Up to this number of waiting jobs, each cycle tries all of them, so that the reasons shown are those of the last
/// cycle.
const LOOKED_AT: usize = 1000;

/// The most cycles in a row that run only because time has passed, and change nothing: rules by the time of day would
/// run cycles for ever.
const WAKES_MAX: u32 = 64;

/// How often in a row a reservation may end and begin again without an effect: this would go on for ever too.
const TURNS_MAX: u32 = 2;

/// Options of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed that breaks ties between nodes.
    pub seed: u64,
    /// The queue of jobs without a queue.
    pub default_queue: Arc<str>,
    /// The percentage of nodes that are scored.
    pub sampling: Option<Sampling>,
    /// Which run times count.
    pub run_times: RunTimes,
    /// Pods, PodGroups, Queues and Volcano's objects appear at their creation times.
    pub arrivals: bool,
}

/// The run times of pods that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunTimes {
    /// Those of the annotation `phalanx.sh/run-seconds`. Other pods run for ever.
    #[default]
    Stated,
    /// For other pods the mean of finished pods named alike, or `activeDeadlineSeconds`.
    Assumed,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            default_queue: "default".into(),
            sampling: None,
            run_times: RunTimes::Stated,
            arrivals: false,
        }
    }
}

/// The error of a simulation that does not end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the simulation does not come to rest: {why} (after {cycles} cycles; the last decision: {last}); --cycles N shows the \
     state after N cycles"
)]
pub struct Restless {
    /// The kind of repetition.
    pub why: String,
    /// The number of cycles so far.
    pub cycles: u32,
    /// The last decision.
    pub last: String,
}

/// A cluster and its scheduler.
pub struct Simulation {
    scheduler: Scheduler,
    cluster: Cluster,
    api_server: ApiServer,
    controllers: Controllers,
    /// The scheduler name that a pod gets.
    scheduler_name: String,
    arrivals: Arrivals,
    /// How often something arrived.
    arrived: u64,
    started: Time,
    now: Time,
    cycles: u32,
    pods: usize,
    session_seconds: f64,
    last: String,
    /// The time of the next cycle that the last one asked for.
    wake: Option<Time>,
    /// The time at which the reservation of a repair ends or begins again.
    turn: Option<Time>,
    past: Past,
}

impl Simulation {
    /// A cluster that holds these objects, before its first cycle.
    pub fn new(mut manifests: Manifests, conf: Conf, options: &Options) -> Self {
        let admission = Admission::admit_all(&mut manifests.objects);
        quota::count_used(&mut manifests.objects);
        budget::count_allowed(&mut manifests.objects);
        if options.run_times == RunTimes::Assumed {
            run_time::assume(&mut manifests.objects);
        }
        let (now, arrivals) = if options.arrivals {
            arrivals::split(&mut manifests)
        } else {
            (manifests.end, Arrivals::default())
        };
        let mut api_server = ApiServer::default();
        api_server.claims = Claims::of(&mut manifests.objects);
        let scheduler_name = manifests.names.schedulers.first().cloned().unwrap_or_default();
        let mut controllers = Controllers::new(manifests.names, admission, now);
        let mut begin = Begin::default();
        for object in manifests.objects {
            add(object, &mut api_server, &mut controllers, now, &mut begin);
        }
        for claim in begin.claims {
            api_server.add_pvc(claim);
        }
        for event in api_server.claims.events().chain(begin.last).collect::<Vec<_>>() {
            api_server.announce(event);
        }
        let mut scheduler = Scheduler::new(conf, options.seed);
        scheduler.set_sampling(options.sampling);
        scheduler.set_retry_limits(RetryLimits { all_up_to: LOOKED_AT, ..RetryLimits::default() });
        Self {
            scheduler,
            cluster: Cluster::new(ClusterOptions {
                default_queue: options.default_queue.clone(),
                ..ClusterOptions::default()
            }),
            api_server,
            controllers,
            scheduler_name,
            arrivals,
            arrived: 0,
            started: now,
            now,
            cycles: 0,
            pods: begin.pods,
            session_seconds: 0.0,
            last: "none".into(),
            wake: None,
            turn: None,
            past: Past::default(),
        }
    }

    /// Runs this many cycles, a period apart; no kubelet acts in between. `clock` gives seconds from any start.
    pub fn run_cycles(&mut self, cycles: u32, clock: &mut dyn FnMut() -> f64) {
        for cycle in 0..cycles {
            if cycle > 0 {
                self.now = later(self.now, PERIOD_MS);
            }
            self.cycle(clock);
        }
    }

    /// Runs until no cycle decides anything, no kubelet has anything left to do and nothing is still to come.
    pub fn run_to_rest(&mut self, clock: &mut dyn FnMut() -> f64) -> Result<(), Restless> {
        self.run_watched(clock, &mut Unwatched)
    }

    /// The same; after each cycle it is told how far the run has come.
    pub fn run_to_rest_telling(
        &mut self,
        clock: &mut dyn FnMut() -> f64,
        told: &mut dyn FnMut(SoFar),
    ) -> Result<(), Restless> {
        self.run_watched(clock, &mut Telling(told))
    }

    /// The same, and tells a watcher what happens.
    pub(crate) fn run_watched(
        &mut self,
        clock: &mut dyn FnMut() -> f64,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Restless> {
        let (mut idle, mut wakes, mut turns, mut steps) = (0, 0, 0, self.steps());
        loop {
            let decided = self.watched_cycle(clock, watcher);
            let next = later(self.now, PERIOD_MS);
            let wake = self.wake.filter(|_| wakes < WAKES_MAX);
            let step = self.controllers.next(&self.api_server).into_iter().chain(self.arrivals.next()).min();
            let waits = !decided && step.is_none() && wake.is_none();
            let turn = self.turn.filter(|_| waits && turns < TURNS_MAX);
            turns += u32::from(turn.is_some());
            let then = match (decided, step.into_iter().chain(wake).chain(turn).min()) {
                (true, _) => next,
                (false, Some(then)) => then.max(next),
                (false, None) => return Ok(()),
            };
            watcher.passes(self, then);
            self.now = then;
            wakes += u32::from(!decided && step.is_none());
            // Before pods change again, or the state of each would have to be kept until the next cycle.
            self.deliver_watched(watcher);
            self.api_server.run_kubelets(self.now);
            (idle, wakes, turns) = if self.steps() == steps { (idle + 1, wakes, turns) } else { (0, 0, 0) };
            steps = self.steps();
            if idle > IDLE_CYCLES_MAX {
                let why = format!("{IDLE_CYCLES_MAX} cycles in a row bound, evicted and ended nothing");
                return Err(Restless { why, cycles: self.cycles, last: self.last.clone() });
            }
            if self.api_server.makers.go_round() {
                let again = self.api_server.makers.again;
                let why =
                    format!("pods that were evicted were made again by their controllers {again} times");
                return Err(Restless { why, cycles: self.cycles, last: self.last.clone() });
            }
        }
    }

    /// Creates the objects whose time has come.
    fn arrive(&mut self) {
        let mut begin = Begin::default();
        while let Some(objects) = self.arrivals.due(self.now) {
            self.arrived += 1;
            for object in objects {
                add(object, &mut self.api_server, &mut self.controllers, self.now, &mut begin);
            }
        }
        self.pods += begin.pods;
        begin.claims.into_iter().for_each(|claim| self.api_server.add_pvc(claim));
    }

    /// What has happened so far. A schedule whose time comes is no repetition, even where no Job is made.
    fn steps(&self) -> u64 {
        self.api_server.steps + u64::from(self.controllers.ticks()) + self.arrived
    }

    /// The report so far.
    pub fn report(&self) -> Report {
        let core = self.core_report();
        let mut report = self.outcome(&core);
        self.tell_fragments(&core, &mut report);
        report
    }

    /// The same without what is free of resources that nodes lack, for comparisons.
    pub(crate) fn report_to_compare(&self) -> Report {
        self.outcome(&self.core_report())
    }

    fn outcome(&self, core: &CoreReport) -> Report {
        let mut report = outcome::report(core, &self.cluster, &self.api_server);
        report.busiest = self.busiest_if_idle(core).map(|busiest| BusiestQueues {
            seconds: self.seconds(busiest.at),
            queues: outcome::queues(&busiest.queues),
        });
        self.controllers.tell(&mut report, self.now);
        report.stats.cycles = self.cycles;
        report.stats.pods = self.pods;
        report.stats.session_seconds = self.session_seconds;
        report.stats.virtual_seconds = self.seconds(self.now);
        report
    }

    /// What is free of resources that nodes lack, beside the reasons of the first gangs that wait: it takes a look at all
    /// nodes for each.
    fn tell_fragments(&self, core: &CoreReport, report: &mut Report) {
        let waits = |job: &&GroupReport| !job.solo && job.lack.is_some();
        for job in core.groups.iter().filter(waits).take(FRAGMENTS_MAX) {
            let Some(id) = self.cluster.job_named(JobKind::Group, &job.key) else { continue };
            let excluded = self.scheduler.excluded_nodes(&self.cluster, id);
            let lines = excluded.into_iter().filter_map(|of| of.fragments).filter(|of| of.nodes > 1);
            if let Some(outcome) = report.pod_groups.get_mut(&job.key.to_string()) {
                outcome.fragments =
                    lines.map(|of| format!("{}: {}", of.resource.clone(), Fragments::from(of))).collect();
            }
        }
    }

    /// What the page shows so far.
    pub fn view(&self) -> View {
        let core = self.core_report();
        let (cluster, history, groups) = (&self.cluster, &self.past.history, &core.groups);
        let conf = self.scheduler.conf();
        let report = self.report();
        let mut view = View {
            title: "Phalanx simulation".to_owned(),
            begin: Some(self.started.0),
            summary: report.summary(),
            finished: report.finished(),
            ..View::of(Seen { cluster, conf, groups, history, now: self.now })
        };
        if let Some(busiest) = self.busiest_if_idle(&core) {
            view.state = busiest.state.clone();
        }
        view
    }

    /// The page of the run so far, which needs no other file.
    pub fn to_html(&self) -> String {
        phalanx_view::page(&self.view())
    }

    /// What was allocated at most, if nothing is any more.
    fn busiest_if_idle(&self, core: &CoreReport) -> Option<&Busiest> {
        let idle = core.queues.iter().all(|queue| queue.allocated.is_empty());
        self.past.busiest.as_ref().filter(|_| idle)
    }

    /// Seconds of virtual time since the begin.
    pub(crate) fn seconds(&self, at: Time) -> f64 {
        (at.0 - self.started.0) as f64 / 1_000.0
    }

    /// When what waited at first started, and which ends of pods were assumed.
    pub fn expected_starts(&self) -> ExpectedStarts {
        let mut starts: BTreeMap<Other, Time> = BTreeMap::new();
        for pod in self.api_server.pods().filter(|pod| pod.ours) {
            let since = later(self.started, PERIOD_MS);
            let Some(at) = pod.life.scheduled.filter(|at| *at > since) else { continue };
            let first = starts.entry(Other::of(pod)).or_insert(at);
            *first = at.min(*first);
        }
        let mut expected = ExpectedStarts::default();
        for (of, at) in starts {
            let assuming = run_time::assumptions(&self.api_server.assumed_ends, at);
            let start = ExpectedStart { seconds: (at.0 - self.started.0) / 1_000, assuming };
            match of {
                Other::PodGroup(key) => expected.pod_groups.insert(key.to_string(), start),
                Other::Pod(key) => expected.pods.insert(key.to_string(), start),
            };
        }
        expected
    }

    pub(crate) fn core_report(&self) -> CoreReport {
        self.scheduler.report(&self.cluster)
    }

    pub(crate) fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn cycles(&self) -> u32 {
        self.cycles
    }

    /// Sends what has happened so far to the scheduler.
    pub(crate) fn deliver(&mut self) {
        while let Some(event) = self.api_server.next_event() {
            self.cluster.apply(event);
        }
    }

    /// The pods, with their claims, that Jobs make once their PodGroups are admitted.
    pub(crate) fn pods_once_admitted(&mut self) -> Vec<Event> {
        self.controllers.pods_once_admitted(self.now)
    }

    fn deliver_watched(&mut self, watcher: &mut dyn Watcher) {
        while let Some(event) = self.api_server.next_event() {
            if watcher.wants_busiest() {
                self.past.before(&event, &self.scheduler, &self.cluster);
            }
            watcher.sees(&event, &mut self.api_server, self.now);
            self.cluster.apply(event);
        }
    }

    /// Objects that are still to come.
    pub(crate) fn set_arrivals(&mut self, arrivals: Arrivals) {
        self.arrivals = arrivals;
    }

    pub(crate) fn api_server(&self) -> &ApiServer {
        &self.api_server
    }

    /// Runs the controllers and one cycle; returns whether they decided anything.
    fn cycle(&mut self, clock: &mut dyn FnMut() -> f64) -> bool {
        self.watched_cycle(clock, &mut Unwatched)
    }

    fn watched_cycle(&mut self, clock: &mut dyn FnMut() -> f64, watcher: &mut dyn Watcher) -> bool {
        self.arrive();
        let worked = self.controllers.run(&mut self.api_server, self.now);
        self.deliver_watched(watcher);
        let begun = clock();
        let outcome = self.scheduler.run(&mut self.cluster, self.now);
        self.session_seconds += clock() - begun;
        self.cycles += 1;
        (self.wake, self.turn) = (outcome.wake, outcome.repair);
        self.past.note(&outcome.decisions, self.now);
        for decision in &outcome.decisions {
            self.api_server.carry_out(decision, self.now);
        }
        watcher.decided(self, &outcome.decisions);
        if let Some(last) = outcome.decisions.last() {
            self.last = describe(last);
        }
        worked || !outcome.decisions.is_empty()
    }
}

fn later(now: Time, ms: i64) -> Time {
    Time(now.0.saturating_add(ms))
}

fn describe(decision: &Decision) -> String {
    match decision {
        Decision::Bind { job, pods } => format!("bind {} pods of {job}", pods.len()),
        Decision::Evict { pod, .. } => format!("evict {pod}"),
        Decision::Nominate { pod, node: Some(node) } => format!("nominate {node} for {pod}"),
        Decision::Nominate { pod, node: None } => format!("end the nomination of {pod}"),
        Decision::OpenGate { pod } => format!("let pod {pod} into its queue"),
        Decision::PodGroupStatus { group, status, .. } => {
            format!("PodGroup {group} is {}", status.phase.as_str())
        }
        Decision::QueueStatus { queue, .. } => format!("status of queue {queue}"),
        Decision::PodUnscheduled { pod, message, .. } => format!("pod {pod} waits: {message}"),
        Decision::PodUngrouped { pod, message } => format!("pod {pod} has no PodGroup: {message}"),
        Decision::PodGroupUnschedulable { group, message, .. } => {
            format!("PodGroup {group} waits: {message}")
        }
        Decision::PodGroupInvalid { group, message, .. } => format!("PodGroup {group} is invalid: {message}"),
        Decision::HyperNodeInvalid { hyper_node, message, .. } => {
            format!("HyperNode {hyper_node} is invalid: {message}")
        }
        Decision::QueueInvalid { queue, message, .. } => format!("queue {queue} is invalid: {message}"),
    }
}

/// A clock that stands still, for runs whose times do not matter.
pub fn stopped_clock() -> impl FnMut() -> f64 {
    || 0.0
}

//! Volcano's controllers, in virtual time: Jobs, CronJobs, JobFlows, and Commands for Jobs and Queues.
//!
//! The functions are those of the live controllers.
mod command;
mod cron;
mod flow;
mod job;
mod queue;
mod read;
mod waiting;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use phalanx_cache::Names;
use phalanx_cluster::event::{Event, Time};

use crate::admission::Admission;
use crate::api_server::ApiServer;
use crate::manifests::ControlledObject;
use crate::report::Report;
use command::Commands;
use cron::Crons;
use flow::Flows;
use job::Jobs;
use queue::Queues;

pub(crate) use read::{numa_policies, read, samples};
pub(crate) use waiting::{keep_waiting, may_wait};

/// Objects that take more reconciliations than this at one time would never come to rest.
const RECONCILIATIONS_MAX: u32 = 100;

pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_millisecond(time.0).unwrap_or(Timestamp::MAX)
}

pub(crate) fn meta_time(time: Time) -> MetaTime {
    MetaTime(timestamp(time))
}

/// The time on an object.
pub(crate) fn time(of: Option<&MetaTime>) -> Option<Time> {
    of.map(|time| Time(time.0.as_millisecond()))
}

/// All controllers and their objects.
pub(crate) struct Controllers {
    jobs: Jobs,
    crons: Crons,
    flows: Flows,
    queues: Queues,
    commands: Commands,
}

impl Controllers {
    /// Commands are given from `begin` on.
    pub(crate) fn new(names: Names, admission: Admission, begin: Time) -> Self {
        Self {
            jobs: Jobs::new(names, admission, begin),
            crons: Crons::default(),
            flows: Flows::default(),
            queues: Queues::default(),
            commands: Commands::new(begin),
        }
    }

    pub(crate) fn add(&mut self, object: ControlledObject) {
        match object {
            ControlledObject::Job(job) => self.jobs.add(*job),
            ControlledObject::CronJob(cron) => self.crons.add(*cron),
            ControlledObject::JobFlow(flow) => self.flows.add(*flow),
            ControlledObject::JobTemplate(template) => self.flows.add_template(*template),
            ControlledObject::Command(command) => self.commands.add(*command),
        }
    }

    pub(crate) fn add_class(&mut self, name: &str, value: i32) {
        self.jobs.add_class(name, value);
    }

    /// The next time at which a kubelet takes a step, a controller has to reconcile again, or a Command is given.
    pub(crate) fn next(&self, api_server: &ApiServer) -> Option<Time> {
        let schedule = self.crons.next().filter(|_| self.schedules_count(api_server));
        let others = [api_server.next_step(), self.jobs.next(), self.commands.next(), schedule];
        others.into_iter().flatten().min()
    }

    /// Schedules have no end: CronJobs go on for a few times of their schedules and, after that, while anything else
    /// but their own Jobs does.
    fn schedules_count(&self, api_server: &ApiServer) -> bool {
        if self.crons.wait() {
            return true;
        }
        let own = self.crons.owners().flat_map(|owner| self.jobs.pods_of(owner)).collect();
        !self.crons.is_empty() && (self.commands.next().is_some() || api_server.has_step_but_for(&own))
    }

    /// How often the time of a schedule has come.
    pub(crate) fn ticks(&self) -> u32 {
        self.crons.ticks()
    }

    /// Reconciles all objects until nothing changes; returns whether anything did.
    pub(crate) fn run(&mut self, api_server: &mut ApiServer, now: Time) -> bool {
        self.commands.give(now);
        let starts = self.schedules_count(api_server);
        let mut worked = false;
        for _ in 0..RECONCILIATIONS_MAX {
            let mut changed = self.crons.run(&mut self.jobs, api_server, now, starts);
            changed |= self.flows.run(&mut self.jobs, api_server, now);
            changed |= self.queues.run(&mut self.commands, api_server);
            changed |= self.jobs.run(&mut self.commands, api_server, now);
            if !changed {
                break;
            }
            worked = true;
        }
        worked
    }

    /// The pods, with their claims, that Jobs without any make once their PodGroups are admitted.
    pub(crate) fn pods_once_admitted(&mut self, now: Time) -> Vec<Event> {
        self.jobs.pods_once_admitted(now)
    }

    /// Adds what became of the objects, and pods that wait to be made.
    pub(crate) fn tell(&self, report: &mut Report, now: Time) {
        for (group, pods) in self.jobs.to_make(now) {
            report.stats.pending += pods as usize;
            report.pod_groups.entry(group.to_string()).and_modify(|group| group.waiting += pods);
        }
        report.jobs = self.jobs.outcomes();
        report.cron_jobs = self.crons.outcomes();
        report.job_flows = self.flows.outcomes();
    }
}

/// `namespace/name`.
fn key(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

/// Objects by `namespace/name`.
type ByKey<T> = BTreeMap<String, T>;

//! CronJobs: their controller makes Jobs as virtual time passes.
use jiff::Timestamp;
use phalanx_api::batch::CronJob;
use phalanx_cluster::event::Time;
use phalanx_controllers::cron::{Observed, reconcile, zone};
use phalanx_controllers::{Change, Kind, Object};

use super::job::Jobs;
use super::{ByKey, key, timestamp};
use crate::api_server::ApiServer;
use crate::report::CronJobOutcome;

/// The simulation waits for so many times of each schedule.
const TICKS: u32 = 3;

/// The most times of a schedule that count, beside pods that run for years.
const TICKS_MAX: u32 = 1_000;

/// A CronJob.
#[derive(Debug)]
struct Cron {
    cron: CronJob,
    /// The next time of its schedule.
    next: Option<Timestamp>,
    /// How many times of its schedule have come.
    ticks: u32,
    /// How many Jobs were made.
    started: u32,
}

/// All CronJobs.
#[derive(Default)]
pub(crate) struct Crons(ByKey<Cron>);

impl Crons {
    pub(crate) fn add(&mut self, mut cron: CronJob) {
        let key = key(&cron.metadata);
        cron.metadata.uid = Some(format!("cronjob-{key}"));
        self.0.insert(key, Cron { cron, next: None, ticks: 0, started: 0 });
    }

    /// The next time of a schedule.
    pub(crate) fn next(&self) -> Option<Time> {
        let next = self.0.values().filter_map(|own| own.next).min()?;
        Some(Time(next.as_millisecond()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The UIDs of all.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.0.values().filter_map(|own| own.cron.metadata.uid.as_deref())
    }

    /// Whether the simulation waits for a schedule, whatever else happens.
    pub(crate) fn wait(&self) -> bool {
        self.0.values().any(|own| !own.cron.spec.suspend && own.ticks < TICKS)
    }

    pub(crate) fn ticks(&self) -> u32 {
        self.0.values().map(|own| own.ticks).sum()
    }

    /// Reconciles each CronJob, with no Job begun unless it `starts` them; returns whether a Job was made or deleted.
    pub(crate) fn run(
        &mut self,
        jobs: &mut Jobs,
        api_server: &mut ApiServer,
        now: Time,
        starts: bool,
    ) -> bool {
        let mut worked = false;
        for own in self.0.values_mut() {
            own.ticks += u32::from(own.next.is_some_and(|next| next <= timestamp(now)));
            let of = jobs.of(own.cron.metadata.uid.as_deref().unwrap_or_default());
            let mut cron = own.cron.clone();
            cron.spec.suspend |= !starts || own.ticks > TICKS_MAX;
            let seen = Observed { cron: &cron, jobs: &of, zone: zone(&cron) };
            let outcome = reconcile(&seen, timestamp(now));
            own.next = outcome.next;
            for change in outcome.changes {
                match change {
                    Change::Create(Object::Job(job)) => {
                        own.started += 1;
                        worked = true;
                        jobs.create(*job, now);
                    }
                    Change::Delete(target) if target.kind == Kind::Job => {
                        worked = true;
                        jobs.delete(&format!("{}/{}", target.namespace, target.name), api_server, now);
                    }
                    Change::Status { object: Object::CronJob(cron), .. } => own.cron.status = cron.status,
                    _ => {}
                }
            }
        }
        worked
    }

    /// What became of the CronJobs.
    pub(crate) fn outcomes(&self) -> ByKey<CronJobOutcome> {
        let outcome = |own: &Cron| {
            let status = own.cron.status.clone().unwrap_or_default();
            CronJobOutcome {
                started: own.started,
                active: status.active.len(),
                last: status.last_schedule_time.map(|time| time.0.to_string()),
            }
        };
        self.0.iter().map(|(key, own)| (key.clone(), outcome(own))).collect()
    }
}

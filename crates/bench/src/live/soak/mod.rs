//! `soak`: gangs and Jobs come and end for minutes while processes are killed and their connections are cut.
//!
//! The gangs are those of `churn`, and Jobs come beside them. Scheduler and controllers are killed now and then and
//! started again, and connections are cut and held up; then the processes stay. Memory and open files of each are
//! compared before and after further cuts and holds. What the API server holds is looked at meanwhile. In the end the
//! checkers of the simulation with faults look at it: while some gangs and Jobs run, and once these are deleted.
mod faults;
mod growth;
mod jobs;
mod sound;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use kube::Client;
use phalanx_e2e::{Link, PlaneOptions, fake};
use serde_json::{Map, Value, json};

use super::churn::{self, Ledger, Stream, lock};
use super::latency::Times;
use super::{Contestant, Setup, client};
use crate::machine;
use faults::Faults;
use growth::Usage;
use jobs::Jobs;
use sound::Sound;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods of gangs created in a second.
    #[arg(long, default_value_t = 100.0, value_parser = crate::above_0)]
    pods_per_second: f64,
    /// Jobs created in a second, of 1 to 16 pods.
    #[arg(long, default_value_t = 1.0, value_parser = crate::above_0)]
    jobs_per_second: f64,
    /// How long gangs and Jobs are created.
    #[arg(long, default_value_t = 10.0, value_parser = crate::above_0)]
    minutes: f64,
    /// Seconds after which a pod of a gang is deleted, and one of a Job succeeds.
    #[arg(long, default_value_t = 30, allow_negative_numbers = true, value_parser = crate::count)]
    runtime: usize,
    /// The seed of the faults and their times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

/// How long after the last pods of the stream may have ended all are deleted and all statuses are written.
const SETTLED: Duration = Duration::from_mins(3);
/// So many gangs, and so many Jobs, run while statuses are looked at.
const STAYING: usize = 20;
/// For so many seconds a pod of a Job that stays runs: longer than the checks take.
const STAYS: usize = 3600;

pub(super) async fn run(options: &Options) -> Result<Value> {
    // With the garbage collector of Kubernetes.
    let with = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let Setup { plane } = Setup::with(options.nodes, with).await?;
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    let mut faults = Faults::start(&plane, Link::to(&plane.url()).await?, options).await?;
    let _kubelet = fake::Kubelet::start(plane.client());
    let admin = plane.client();
    let (ledger, jobs) = (Arc::<Mutex<Ledger>>::default(), Arc::<Mutex<Jobs>>::default());
    let stream = options.stream(duration);
    let watcher = churn::watch(plane.client(), Arc::clone(&ledger), stream, Contestant::Phalanx);
    let helpers = [
        tokio::spawn(async { drop(watcher.await) }),
        tokio::spawn(jobs::clean(plane.client(), Arc::clone(&jobs))),
    ];
    let mut sound = Sound::default();
    let began = Instant::now();
    let end = began + duration;
    let (created, (), (), ()) = tokio::try_join!(
        churn::create(&admin, Contestant::Phalanx, stream, &ledger),
        jobs::create(&admin, &jobs, options.jobs_per_second, end, options.runtime),
        faults.run_stages(&plane, duration),
        sound.look_until(&admin, end),
    )?;
    let created_jobs = lock(&jobs).created;
    let staying = Staying::create(&admin, stream.gangs().len().max(created_jobs), &ledger).await?;
    let settled = sound.until_all_is_right(&admin, staying.pods, stream.runs + SETTLED).await?;
    staying.delete(&admin).await;
    let emptied = sound.until_all_is_right(&admin, 0, SETTLED).await?;
    helpers.iter().for_each(tokio::task::JoinHandle::abort);
    sound.violations.extend(lock(&jobs).problems());
    let usage = usage(&faults, began, duration, &mut sound)?;
    for violation in &sound.violations {
        say!("violation: {violation}");
    }
    let Options { nodes, pods_per_second, jobs_per_second, minutes, seed, .. } = options;
    let millis = std::mem::take(&mut lock(&ledger).millis);
    Ok(json!({
        "name": "soak", "nodes": nodes, "podsPerSecond": pods_per_second, "jobsPerSecond": jobs_per_second,
        "minutes": minutes, "seed": seed, "cores": machine::cores(), "created": created,
        "createdJobs": created_jobs, "completedJobs": lock(&jobs).completed.len(),
        "cuts": faults.cuts, "holds": faults.holds, "processes": usage, "latency": Times::new(millis).json(),
        "longestInPartSeconds": sound.longest.as_secs_f64(), "stayingPods": staying.pods,
        "secondsUntilStatusesAreRight": settled.as_secs_f64(), "secondsUntilAllIsDeleted": emptied.as_secs_f64(),
        "violations": sound.violations.len(), "seconds": began.elapsed().as_secs_f64(),
    }))
}

/// Fails where a promise was broken.
pub(super) fn check(figures: &Value) -> Result<()> {
    ensure!(figures["violations"] == 0, "{} violations, see above", figures["violations"]);
    Ok(())
}

/// How often each process was killed, and what it used; growth is a violation.
fn usage(
    faults: &Faults,
    began: Instant,
    duration: Duration,
    sound: &mut Sound,
) -> Result<Map<String, Value>> {
    let mut all = Map::new();
    for process in &faults.processes {
        let usage = Usage::of(&process.samples, began, duration);
        let usage = usage.context("no samples of memory and open files")?;
        sound.violations.extend(usage.violations(process.role.subcommand()));
        let figures = json!({"kills": process.kills, "use": usage.json()});
        all.insert(process.role.subcommand().to_owned(), figures);
    }
    Ok(all)
}

impl Options {
    fn stream(&self, duration: Duration) -> Stream {
        let pods = (self.pods_per_second * duration.as_secs_f64()) as usize;
        Stream { rate: self.pods_per_second, pods, runs: Duration::from_secs(self.runtime as u64) }
    }
}

/// Gangs and Jobs that run while statuses are looked at.
struct Staying {
    /// Of the gangs, and of the Jobs.
    numbers: std::ops::Range<usize>,
    /// Of all of them.
    pods: usize,
}

impl Staying {
    async fn create(admin: &Client, first: usize, ledger: &Arc<Mutex<Ledger>>) -> Result<Self> {
        let numbers = first..first + STAYING;
        let mut pods = 0;
        for number in numbers.clone() {
            churn::create_gang(admin, Contestant::Phalanx, number, ledger).await?;
            pods += churn::size_of(number) + jobs::create_one(admin, number, STAYS).await?;
        }
        Ok(Self { numbers, pods })
    }

    async fn delete(&self, admin: &Client) {
        for number in self.numbers.clone() {
            for index in 0..churn::size_of(number) {
                churn::delete(admin, client::pods_resource(), &client::pod_name(number, index)).await;
            }
            churn::delete(admin, client::groups_resource(), &client::gang_name(number)).await;
            jobs::remove(admin, &jobs::name(number)).await;
        }
    }
}

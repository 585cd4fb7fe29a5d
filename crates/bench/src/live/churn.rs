//! `churn`: gangs come and end at a steady rate, for minutes.
//!
//! The pods of a gang are created at once, gangs of 1 to 16 pods follow each other at the rate, and each pod is deleted
//! some time after it was seen bound, and the PodGroup after the last of its pods. kube-scheduler gets the same pods
//! without PodGroups.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject};
use serde_json::{Value, json};

use super::latency::{self, Times};
use super::usage::{cpu_seconds, round, rss};
use super::{Contestant, Groups, Load, Setup, client};
use crate::chart::{Chart, Panel};
use crate::{Size, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods created in a second.
    #[arg(long, default_value_t = 100.0, value_parser = crate::above_0)]
    rate: f64,
    /// How long pods are created, in seconds.
    #[arg(long, default_value_t = 600, allow_negative_numbers = true, value_parser = crate::count)]
    seconds: usize,
    /// How long a pod runs before it is deleted, in seconds.
    #[arg(long, default_value_t = 30, allow_negative_numbers = true, value_parser = crate::count)]
    runtime: usize,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

/// The largest gang.
const LARGEST: usize = 16;
/// The step between the sizes of consecutive gangs, so that each size is equally frequent.
const STRIDE: usize = 7;
/// How long after the last creation pods may still be bound.
const GRACE: Duration = Duration::from_secs(30);
/// Between two looks at the resident memory.
const MEMORY_EVERY: Duration = Duration::from_secs(10);

/// What a contestant came to.
struct Outcome {
    times: Times,
    created: usize,
    /// Pods without a node when the last pod had been created, and after the grace.
    backlog: usize,
    unbound: usize,
    /// Resident memory of the scheduler in bytes, every ten seconds.
    memory: Vec<u64>,
    cpu: f64,
}

impl Outcome {
    fn json(&self) -> Value {
        json!({
            "created": self.created, "backlogAtEnd": self.backlog, "unboundAfterGrace": self.unbound,
            "latency": self.times.json(), "rssBytes": self.memory,
            "cpuMillisPerPod": round(self.cpu * 1e3 / self.created.max(1) as f64),
        })
    }
}

/// Pods that were created and not seen bound yet, and how long the others took.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) created: HashMap<String, Instant>,
    /// Pods seen bound before the answer to their creation came.
    early: HashMap<String, Instant>,
    pub(super) millis: Vec<f64>,
}

/// The pods that come and end.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    /// Pods created in a second.
    pub(super) rate: f64,
    /// How many pods are created, the rest of the last gang apart.
    pub(super) pods: usize,
    /// How long a pod runs before it is deleted.
    pub(super) runs: Duration,
}

impl Ledger {
    fn created(&mut self, name: String, at: Instant) {
        match self.early.remove(&name) {
            Some(_) => self.millis.push(0.0),
            None => drop(self.created.insert(name, at)),
        }
    }

    fn bound(&mut self, name: String, at: Instant) {
        match self.created.remove(&name) {
            Some(created) => self.millis.push(at.saturating_duration_since(created).as_secs_f64() * 1e3),
            None => drop(self.early.insert(name, at)),
        }
    }
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let ours = one(Contestant::Phalanx, options).await?;
    let kube = if options.without_kube_scheduler {
        None
    } else {
        Some(one(Contestant::KubeScheduler, options).await?)
    };
    let of_kube = kube.as_ref().map(|kube| ("kube-scheduler, no gangs", &kube.times));
    let bars = latency::bars(("Phalanx, gangs", &ours.times), of_kube);
    let Options { nodes, rate, seconds, .. } = *options;
    let title = format!("{rate} pods a second in gangs of 1 to {LARGEST} for {seconds} s, {nodes} nodes");
    let chart = Chart { title, panels: vec![Panel::new("created to seen bound", "milliseconds", bars)] };
    Ok(json!({
        "name": "churn", "nodes": nodes, "rate": rate, "cores": machine::cores(),
        "seconds": seconds, "phalanx": ours.json(), "kubeScheduler": kube.map(|kube| kube.json()), "chart": chart,
    }))
}

async fn one(contestant: Contestant, options: &Options) -> Result<Outcome> {
    let Setup { plane } = Setup::new(options.nodes).await?;
    let running = contestant.start(&plane, &options.scheduler_args).await?;
    let pid = running.pid().context("a contestant without a process")?;
    let admin = plane.client();
    client::warm_up(&admin, contestant.scheduler_name()).await?;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let stream = Stream {
        rate: options.rate,
        pods: (options.rate * options.seconds as f64) as usize,
        runs: Duration::from_secs(options.runtime as u64),
    };
    let watcher = tokio::spawn(watch(plane.client(), ledger.clone(), stream, contestant));
    let memory = Arc::new(Mutex::new(Vec::new()));
    let sampler = tokio::spawn(sample(pid, memory.clone()));
    let cpu = cpu_seconds(pid);
    let created = create(&admin, contestant, stream, &ledger).await?;
    let backlog = lock(&ledger).created.len();
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && !lock(&ledger).created.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cpu = cpu_seconds(pid) - cpu;
    watcher.abort();
    sampler.abort();
    let (unbound, millis) = {
        let mut ledger = lock(&ledger);
        (ledger.created.len(), std::mem::take(&mut ledger.millis))
    };
    let memory = std::mem::take(&mut *lock(&memory));
    let outcome = Outcome { times: Times::new(millis), created, backlog, unbound, memory, cpu };
    say!("{:<16} {}", contestant.name(), outcome.json());
    Ok(outcome)
}

pub(super) fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Stream {
    /// The gangs, one after the other: the size of each, and when it comes after the begin.
    pub(super) fn gangs(&self) -> Vec<(usize, Duration)> {
        let (mut gangs, mut pods) = (Vec::new(), 0);
        while pods < self.pods {
            let size = size_of(gangs.len());
            gangs.push((size, Duration::from_secs_f64(pods as f64 / self.rate)));
            pods += size;
        }
        gangs
    }
}

/// The number of pods of a gang.
pub(super) fn size_of(gang: usize) -> usize {
    1 + gang * STRIDE % LARGEST
}

/// Creates gangs at the rate. Returns how many pods were created.
pub(super) async fn create(
    admin: &Client,
    contestant: Contestant,
    of: Stream,
    ledger: &Arc<Mutex<Ledger>>,
) -> Result<usize> {
    let started = Instant::now();
    let gangs = of.gangs();
    let pods = gangs.iter().map(|(size, _)| size).sum();
    stream::iter(gangs.into_iter().enumerate())
        .map(|(gang, (_, after))| async move {
            tokio::time::sleep_until((started + after).into()).await;
            create_gang(admin, contestant, gang, ledger).await
        })
        .buffered(512)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(pods)
}

pub(super) async fn create_gang(
    admin: &Client,
    contestant: Contestant,
    gang: usize,
    ledger: &Arc<Mutex<Ledger>>,
) -> Result<()> {
    let size = size_of(gang);
    let load =
        Load { size: Size { nodes: 0, gangs: 1, size }, groups: Groups::Gangs, in_flight: 1, rate: None };
    let grouped = contestant == Contestant::Phalanx;
    if grouped {
        let api = Api::namespaced_with(admin.clone(), client::NAMESPACE, &client::groups_resource());
        client::create_all(&api, std::iter::once(client::group(gang, size)), load).await?;
    }
    let api: &Api<DynamicObject> =
        &Api::namespaced_with(admin.clone(), client::NAMESPACE, &client::pods_resource());
    stream::iter(0..size)
        .map(|index| async move {
            let name = format!("gang-{gang}-{index}");
            let pod = client::pod(&name, contestant.scheduler_name(), grouped.then_some(gang));
            client::create_all(api, std::iter::once(pod), load).await?;
            lock(ledger).created(name, Instant::now());
            Ok(())
        })
        .buffer_unordered(LARGEST)
        .try_collect()
        .await
}

/// Notes when pods of gangs are seen bound, and deletes each of the stream when its time is over.
pub(super) async fn watch(
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    of: Stream,
    contestant: Contestant,
) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    let gangs = of.gangs().len();
    let left = Arc::new(Mutex::new(HashMap::new()));
    loop {
        let mut bound = client::Bound::watch_from_start(client.clone());
        while let Ok(Some((name, at))) = bound.next().await {
            let Some(gang) = gang_of(&name).filter(|_| seen.insert(name.clone())) else { continue };
            lock(&ledger).bound(name.clone(), at);
            if gang >= gangs {
                continue;
            }
            let (client, left) = (client.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                tokio::time::sleep(of.runs).await;
                delete(&client, client::pods_resource(), &name).await;
                let last = is_last(&mut lock(&left), gang);
                if last && contestant == Contestant::Phalanx {
                    delete(&client, client::groups_resource(), &client::gang_name(gang)).await;
                }
            });
        }
    }
}

/// The number of the gang of a pod `gang-7-3`.
fn gang_of(pod: &str) -> Option<usize> {
    pod.strip_prefix("gang-")?.split('-').next()?.parse().ok()
}

/// Counts a pod that was deleted; whether it was the last one of its gang.
fn is_last(left: &mut HashMap<usize, usize>, gang: usize) -> bool {
    let left = left.entry(gang).or_insert_with(|| size_of(gang));
    *left -= 1;
    *left == 0
}

/// Deletes an object at once. One that is gone already is no error.
pub(super) async fn delete(client: &Client, resource: ApiResource, name: &str) {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), client::NAMESPACE, &resource);
    drop(api.delete(name, &DeleteParams::default().grace_period(0)).await);
}

async fn sample(pid: u32, memory: Arc<Mutex<Vec<u64>>>) {
    loop {
        lock(&memory).push(rss(pid));
        tokio::time::sleep(MEMORY_EVERY).await;
    }
}

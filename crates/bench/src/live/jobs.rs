//! `jobs`: Volcano Jobs from submit to Completed, beside a bare client loop that creates the same pods.
//!
//! Scheduler and controllers are processes of their own; fake kubelets run and end the pods. Writes are counted at the
//! API server until nothing is written any more: those of pods (with their binds, statuses and events), of which the
//! kubelets send two, and all others but for the creation of the Jobs.
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use phalanx_e2e::{Phalanx, fake};
use serde_json::{Value, json};

use super::usage::{cpu_seconds, round, writes};
use super::{Contestant, Groups, Load, Setup, client};
use crate::chart::{Bar, Chart, Panel};
use crate::{Size, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 400, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Jobs.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    jobs: usize,
    /// Pods of a Job, of which all have to start together.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// How long a pod runs, in seconds.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    runtime: usize,
    /// Requests in flight of the client that creates the Jobs, and of the bare loop that creates pods.
    #[arg(long, default_value_t = 64, allow_negative_numbers = true, value_parser = crate::count)]
    in_flight: usize,
    /// Fail when all pods are there after more than so many times what the bare loop takes.
    #[arg(long, value_parser = crate::above_0)]
    max_ratio: Option<f64>,
    /// Fail when the controllers use more megabytes at their peak.
    #[arg(long, value_parser = crate::above_0)]
    max_megabytes: Option<f64>,
    /// Further arguments for `phalanx controllers`.
    #[arg(last = true)]
    controllers_args: Vec<String>,
}

/// How long the API server has to be without a write.
const QUIET: Duration = Duration::from_secs(3);
/// Between two looks at the number of pods.
const LOOK: Duration = Duration::from_millis(20);

/// The figures of a run: times from the first create, in seconds.
struct Measured {
    /// All pods are there.
    created: f64,
    /// All Jobs have completed.
    completed: f64,
    writes: BTreeMap<String, u64>,
    peak_rss: u64,
    cpu: f64,
    scheduler_cpu: f64,
}

impl Measured {
    /// Writes for pods, and all others but for the creation of the Jobs.
    fn writes(&self) -> (u64, u64) {
        let of_pods = |name: &str| name == "events" || name.split('/').next() == Some("pods");
        let sum = |pods: bool| {
            let counted = |(name, _): &(&String, &u64)| *name != "jobs" && of_pods(name) == pods;
            self.writes.iter().filter(counted).map(|(_, count)| count).sum()
        };
        (sum(true), sum(false))
    }
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let Options { nodes, jobs, size, runtime, .. } = *options;
    let pods = jobs * size;
    say!("{jobs} Jobs of {size} pods on {nodes} nodes; each pod runs for {runtime} s");
    let (measured, made) = measure(options).await?;
    let (of_pods, of_jobs) = measured.writes();
    let (a_pod, a_job) = (of_pods as f64 / pods as f64, of_jobs as f64 / jobs as f64);
    say!(
        "all pods are there after {:.2} s, all Jobs have completed after {:.2} s; {a_pod:.2} writes a pod, {a_job:.2} a \
         Job; the controllers use {} MB at their peak and {:.1} s of processor time",
        measured.created,
        measured.completed,
        measured.peak_rss / 1_000_000,
        measured.cpu
    );
    let bare = bare(made, options).await?;
    let ratio = measured.created / bare;
    say!("bare loop: all pods are there after {bare:.2} s; ratio {ratio:.2}");
    let bars = vec![Bar::other("bare loop", bare), Bar::ours("Phalanx", measured.created)];
    let chart = Chart {
        title: format!("{jobs} Jobs of {size} pods"),
        panels: vec![
            Panel::new("submit to the last pod created", "seconds", bars),
            Panel::new("submit to Completed", "seconds", vec![Bar::ours("Phalanx", measured.completed)]),
        ],
    };
    Ok(json!({
        "name": "jobs", "nodes": nodes, "jobs": jobs, "size": size, "pods": pods, "runtime": runtime,
        "cores": machine::cores(), "seconds": round(measured.completed),
        "createdAfterSeconds": round(measured.created), "bareCreatedAfterSeconds": round(bare),
        "createRatio": round(ratio), "writesPerPod": round(a_pod), "writesPerJob": round(a_job),
        "writes": measured.writes, "peakRssBytes": measured.peak_rss,
        "controllersCpuSeconds": round(measured.cpu), "schedulerCpuSeconds": round(measured.scheduler_cpu),
        "chart": chart,
    }))
}

/// Whether the measurement is within the limits of the command line.
pub(super) fn check(options: &Options, figures: &Value) -> Result<()> {
    let ratio = figures["createRatio"].as_f64().context("no createRatio")?;
    let megabytes = figures["peakRssBytes"].as_f64().context("no peakRssBytes")? / 1e6;
    if let Some(most) = options.max_ratio {
        ensure!(ratio <= most, "{ratio:.2} times the bare loop, more than --max-ratio {most}");
    }
    if let Some(most) = options.max_megabytes {
        ensure!(megabytes <= most, "{megabytes:.0} MB, more than --max-megabytes {most}");
    }
    Ok(())
}

/// Also returns the pods that were made.
async fn measure(options: &Options) -> Result<(Measured, Vec<Value>)> {
    let pods = options.jobs * options.size;
    let Setup { plane } = Setup::new(options.nodes).await?;
    let scheduler = Contestant::Phalanx.start(&plane, &[]).await?;
    let args: Vec<&str> = options.controllers_args.iter().map(String::as_str).collect();
    let controllers = Phalanx::start_controllers(&plane, &args).await?;
    let _kubelet = fake::Kubelet::start(plane.client());
    let admin = plane.client();
    client::warm_up(&admin, Contestant::Phalanx.scheduler_name()).await?;
    let written = settled(&admin).await?;
    let pid = scheduler.pid().context("a scheduler without a process")?;
    let (cpu, scheduler_cpu) = (cpu_seconds(controllers.pid()), cpu_seconds(pid));
    let created = tokio::spawn(seen_created(plane.client(), pods));
    let completed = tokio::spawn(seen_completed(plane.client(), options.jobs));
    let started = Instant::now();
    let jobs = (0..options.jobs).map(|number| job(number, options.size, options.runtime));
    client::create_all(&api(&admin, &jobs_resource()), jobs, options.load()).await?;
    let created = created.await.context("pods were counted no more")??;
    let completed = completed.await.context("the watch ended early")??;
    let mut all = settled(&admin).await?;
    for (name, count) in &mut all {
        *count -= written.get(name).copied().unwrap_or_default();
    }
    all.retain(|_, count| *count > 0);
    let measured = Measured {
        created: (created - started).as_secs_f64(),
        completed: (completed - started).as_secs_f64(),
        writes: all,
        peak_rss: machine::peak_rss(Some(controllers.pid())),
        cpu: cpu_seconds(controllers.pid()) - cpu,
        scheduler_cpu: cpu_seconds(pid) - scheduler_cpu,
    };
    let made = api(&admin, &client::pods_resource()).list(&ListParams::default()).await?.items;
    let made = made.into_iter().map(as_created).collect::<Result<Vec<Value>>>()?;
    Ok((measured, made))
}

/// The seconds that a plain client takes to create these pods on a control plane of its own.
async fn bare(pods: Vec<Value>, options: &Options) -> Result<f64> {
    let Setup { plane } = Setup::new(1).await?;
    let admin = plane.client();
    let created = tokio::spawn(seen_created(plane.client(), pods.len()));
    let started = Instant::now();
    client::create_all(&api(&admin, &client::pods_resource()), pods.into_iter(), options.load()).await?;
    let created = created.await.context("pods were counted no more")??;
    Ok((created - started).as_secs_f64())
}

impl Options {
    fn load(&self) -> Load {
        let size = Size { nodes: self.nodes, gangs: self.jobs, size: self.size };
        Load { size, groups: Groups::None, in_flight: self.in_flight, rate: None }
    }
}

pub(super) fn api(client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), client::NAMESPACE, resource)
}

pub(super) fn jobs_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("batch.volcano.sh", "v1alpha1", "Job"))
}

/// The name of a Job.
pub(super) fn name(number: usize) -> String {
    format!("job-{number}")
}

/// A Job whose pods are like those of the other benchmarks, and end after so many seconds.
pub(super) fn job(number: usize, size: usize, runtime: usize) -> Value {
    let mut template = client::pod("", Contestant::Phalanx.scheduler_name(), None);
    template["metadata"] = json!({"annotations": {fake::RUN_SECONDS: runtime.to_string()}});
    template["spec"]["restartPolicy"] = json!("Never");
    let task = json!({
        "name": "worker", "replicas": size,
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    });
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name(number), "namespace": client::NAMESPACE},
        "spec": {"tasks": [task]},
    })
}

/// A pod as its creator sends it.
fn as_created(pod: DynamicObject) -> Result<Value> {
    let mut pod = serde_json::to_value(pod)?;
    for (part, fields) in [
        ("metadata", &["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"][..]),
        ("spec", &["nodeName"][..]),
    ] {
        let part = pod[part].as_object_mut().context("a pod without metadata or spec")?;
        part.retain(|name, _| !fields.contains(&name.as_str()));
    }
    pod.as_object_mut().context("a pod that is no object")?.remove("status");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    Ok(pod)
}

/// Waits until there are so many pods.
async fn seen_created(client: Client, count: usize) -> Result<Instant> {
    let pods = api(&client, &client::pods_resource());
    loop {
        let some = pods.list(&ListParams::default().limit(1)).await?;
        let more = some.metadata.remaining_item_count.unwrap_or_default();
        if some.items.len() + usize::try_from(more).unwrap_or_default() >= count {
            return Ok(Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until so many Jobs have completed.
async fn seen_completed(client: Client, count: usize) -> Result<Instant> {
    let jobs = api(&client, &jobs_resource());
    let mut completed = HashSet::new();
    loop {
        // The server ends slow watches under load: list, then watch again from there.
        let list = jobs.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut events = jobs.watch(&WatchParams::default(), &version).await?.boxed();
        let mut seen = list.items;
        loop {
            for job in seen.drain(..) {
                let phase = job.data["status"]["state"]["phase"].as_str().unwrap_or_default();
                ensure!(!matches!(phase, "Failed" | "Terminated"), "{} is {phase}", job.name_any());
                if phase == "Completed" {
                    completed.insert(job.name_any());
                }
            }
            if completed.len() >= count {
                return Ok(Instant::now());
            }
            match events.try_next().await {
                Ok(Some(WatchEvent::Added(job) | WatchEvent::Modified(job))) => seen.push(job),
                Ok(Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_))) => {}
                Ok(Some(WatchEvent::Error(_)) | None) | Err(_) => break,
            }
        }
    }
}

/// The writes so far, once there are no more for a while: events and counts come late.
async fn settled(client: &Client) -> Result<BTreeMap<String, u64>> {
    let mut before = writes(client).await?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = writes(client).await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn figures_beyond_the_limits_fail() {
        let check = |args: &[&str]| {
            let options = Cli::parse_from(["jobs"].iter().chain(args)).options;
            let figures = json!({"createRatio": 1.25, "peakRssBytes": 150_000_000});
            super::check(&options, &figures).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["--max-ratio", "1.3", "--max-megabytes", "200"]), Ok(()));
        let told = "1.25 times the bare loop, more than --max-ratio 1.2";
        assert_eq!(check(&["--max-ratio", "1.2"]), Err(told.into()));
        let told = "150 MB, more than --max-megabytes 100";
        assert_eq!(check(&["--max-megabytes", "100"]), Err(told.into()));
    }

    #[test]
    fn writes_of_pods_and_of_jobs_are_told_apart() {
        let writes = [
            ("pods", 2),
            ("pods/binding", 2),
            ("events", 2),
            ("jobs", 1),
            ("jobs/status", 3),
            ("podgroups", 4),
        ];
        let measured = Measured {
            created: 0.0,
            completed: 0.0,
            writes: writes.map(|(name, count)| (name.to_owned(), count)).into(),
            peak_rss: 0,
            cpu: 0.0,
            scheduler_cpu: 0.0,
        };
        assert_eq!(measured.writes(), (6, 7));
    }
}

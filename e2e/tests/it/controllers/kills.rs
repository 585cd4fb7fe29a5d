//! Controllers are killed at steps drawn from a seed, again and again, while jobs live beside each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    ops::RangeInclusive,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, future::try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use phalanx_e2e::{Account, Phalanx, PlaneOptions, fake, wait};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use super::{Cluster, SOON, World, task};
use crate::scheduler::cluster::PodSpec;
use crate::scheduler::proxy::{Fate, Proxy, Write};

/// How many seeds are tried. Each is one life of all jobs, in which the controllers are killed some 60 times.
const SEEDS: &str = "PHALANX_E2E_SEEDS";
/// How many writes the controllers carry out at most before they are killed.
const WRITES_MAX: usize = 6;
/// The node of the jobs whose evicted pods get no place.
const CORDONED: &str = "closed-0";

/// What a user or a node does to a job, or waits for.
enum Step {
    Phase(&'static str),
    /// So many pods run, and are counted in the status.
    Runs(usize),
    /// It has so many pods, whatever the status says.
    Pods(usize),
    /// A Command.
    Command(&'static str),
    /// The replicas of its task.
    Scale(u32),
    /// The eviction of its pod `worker-0`, in whose place another is made.
    Evict,
    /// No eviction is remembered.
    Forgets,
    Cordon(bool),
    Retries(i32),
}

use Step::{Command, Cordon, Evict, Forgets, Phase, Pods, Retries, Runs, Scale};

/// A job from its creation to its end.
struct Story {
    name: &'static str,
    spec: fn() -> Value,
    steps: &'static [Step],
    phase: &'static str,
    retries: i32,
    /// How many pods of each name were made in all.
    made: &'static [(&'static str, RangeInclusive<usize>)],
    /// The pods that are left.
    left: &'static [&'static str],
}

const ONCE: RangeInclusive<usize> = 1..=1;
const TWICE: RangeInclusive<usize> = 2..=2;

const STORIES: [Story; 11] = [
    Story {
        name: "plain",
        spec: || {
            json!({
                "plugins": {"ssh": [], "svc": []},
                "tasks": [task("master", 1, Some("1"), "0"), task("worker", 2, Some("1"), "0")],
            })
        },
        steps: &[],
        phase: "Completed",
        retries: 0,
        made: &[("master-0", ONCE), ("worker-0", ONCE), ("worker-1", ONCE)],
        left: &["master-0", "worker-0", "worker-1"],
    },
    Story {
        name: "restart-job",
        spec: || with_policy("PodFailed", "RestartJob", &[task("worker", 3, Some("0.5"), "3,0")]),
        steps: &[],
        phase: "Completed",
        retries: 1,
        made: &[("worker-0", TWICE), ("worker-1", TWICE), ("worker-2", TWICE)],
        left: &["worker-0", "worker-1", "worker-2"],
    },
    Story {
        name: "restart-task",
        spec: || {
            let mut workers = task("worker", 2, Some("0.5"), "3,0");
            workers["policies"] = json!([
                {"event": "PodFailed", "action": "RestartTask"}, {"event": "TaskCompleted", "action": "CompleteJob"},
            ]);
            json!({"tasks": [task("server", 1, None, ""), workers]})
        },
        steps: &[],
        phase: "Completed",
        retries: 1,
        made: &[("server-0", ONCE), ("worker-0", TWICE), ("worker-1", TWICE)],
        left: &["worker-0", "worker-1"],
    },
    Story {
        name: "restart-pod",
        spec: || {
            let tasks = [task("frail", 1, Some("0.5"), "3,0"), task("worker", 2, Some("1"), "0")];
            with_policy("PodFailed", "RestartPod", &tasks)
        },
        steps: &[],
        phase: "Completed",
        retries: 1,
        made: &[("frail-0", TWICE), ("worker-0", ONCE), ("worker-1", ONCE)],
        left: &["frail-0", "worker-0", "worker-1"],
    },
    Story {
        name: "exhausted",
        spec: || {
            let mut spec = with_policy("PodFailed", "RestartJob", &[task("worker", 2, Some("0.5"), "3")]);
            spec["maxRetry"] = json!(3);
            spec
        },
        steps: &[],
        phase: "Failed",
        retries: 3,
        made: &[("worker-0", 3..=3), ("worker-1", 3..=3)],
        left: &["worker-0", "worker-1"],
    },
    Story {
        name: "aborted",
        spec: || json!({"plugins": {"svc": []}, "tasks": [task("worker", 2, None, "")]}),
        steps: &[
            Runs(2),
            Command("AbortJob"),
            Phase("Aborted"),
            Command("ResumeJob"),
            Runs(2),
            Phase("Running"),
            Command("CompleteJob"),
        ],
        phase: "Completed",
        retries: 1,
        made: &[("worker-0", TWICE), ("worker-1", TWICE)],
        left: &[],
    },
    Story {
        name: "commanded",
        spec: || json!({"tasks": [task("worker", 2, None, "")]}),
        steps: &[
            Runs(2),
            Command("RestartJob"),
            Retries(1),
            Runs(2),
            Phase("Running"),
            Command("TerminateJob"),
        ],
        phase: "Terminated",
        retries: 1,
        made: &[("worker-0", TWICE), ("worker-1", TWICE)],
        left: &[],
    },
    Story {
        name: "scaled",
        // Pods deleted by the controllers are not evicted.
        spec: || {
            let mut workers = task("worker", 3, None, "");
            workers["minAvailable"] = json!(1);
            let mut spec = with_policy("PodEvicted", "RestartJob", &[workers]);
            spec["minAvailable"] = json!(1);
            spec
        },
        steps: &[Runs(3), Scale(5), Runs(5), Scale(2), Pods(2), Scale(3), Runs(3), Command("CompleteJob")],
        phase: "Completed",
        retries: 0,
        made: &[
            ("worker-0", ONCE),
            ("worker-1", ONCE),
            ("worker-2", TWICE),
            ("worker-3", ONCE),
            ("worker-4", ONCE),
        ],
        left: &[],
    },
    Story {
        name: "partition",
        spec: || {
            let mut workers = task("worker", 4, None, "");
            workers["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 2});
            with_policy("PodEvicted", "RestartPartition", &[workers])
        },
        steps: &[Runs(4), Evict, Runs(4), Phase("Running"), Command("CompleteJob")],
        phase: "Completed",
        retries: 1,
        made: &[("worker-0", TWICE), ("worker-1", TWICE), ("worker-2", ONCE), ("worker-3", ONCE)],
        left: &[],
    },
    Story {
        name: "evicted",
        spec: || with_timeout("10m"),
        steps: &[Runs(2), Evict, Forgets, Runs(2), Command("CompleteJob")],
        phase: "Completed",
        retries: 0,
        made: &[("worker-0", TWICE), ("worker-1", ONCE)],
        left: &[],
    },
    Story {
        name: "evicted-for-long",
        spec: || {
            let mut spec = with_timeout("1s");
            spec["tasks"][0]["template"]["spec"]["nodeSelector"] = json!({"pool": "closed"});
            spec
        },
        steps: &[
            Runs(2),
            Cordon(true),
            Evict,
            Retries(1),
            Cordon(false),
            Runs(2),
            Phase("Running"),
            Command("CompleteJob"),
        ],
        phase: "Completed",
        retries: 1,
        // The restart may come before another pod was made in place of the evicted one.
        made: &[("worker-0", 2..=3), ("worker-1", TWICE)],
        left: &[],
    },
];

fn with_policy(event: &str, action: &str, tasks: &[Value]) -> Value {
    json!({"policies": [{"event": event, "action": action}], "tasks": tasks})
}

/// The job restarts if an evicted pod has no place for so long.
fn with_timeout(timeout: &str) -> Value {
    let mut spec = with_policy("PodEvicted", "RestartJob", &[task("worker", 2, None, "")]);
    spec["policies"][0]["timeout"] = json!(timeout);
    spec
}

impl World {
    async fn live(&self, story: &Story, job: &str) -> Result<()> {
        self.create("Job", job, (story.spec)()).await?;
        for step in story.steps {
            self.step(step, job).await?;
        }
        let status = self.until_job(job, story.phase).await?;
        ensure!(status["retryCount"] == story.retries, "{job}: {status}");
        Ok(())
    }

    async fn step(&self, step: &Step, job: &str) -> Result<()> {
        let until = async |what: &str, good: &dyn Fn(&Value) -> bool| {
            self.cluster.until_status("Job", job, what, good).await.map(drop)
        };
        match *step {
            Phase(phase) => self.until_job(job, phase).await.map(drop),
            Runs(count) => {
                self.until_pods(job, count, "Running").await?;
                let only = |status: &Value| {
                    status["running"] == count && status["terminating"].as_i64().unwrap_or(0) == 0
                };
                until("the count of pods that run", &only).await
            }
            Pods(count) => self.until_pods(job, count, "Running").await.map(drop),
            Command(action) => self.command(action, "Job", job).await,
            Scale(replicas) => self.scale(job, replicas, 1).await,
            Evict => self.evict(&format!("{job}-worker-0")).await,
            Forgets => {
                let evicted = format!("evicted.{job}-worker-0");
                until("no eviction", &|status| status["controlledResources"].get(&evicted).is_none()).await
            }
            Cordon(unschedulable) => self.cordon(CORDONED, unschedulable).await,
            Retries(count) => until("retries", &|status| status["retryCount"] == count).await,
        }
    }

    async fn evict(&self, pod: &str) -> Result<()> {
        let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
        let before = pods.get(pod).await?.uid();
        self.cluster.delete_pods(pod).await?;
        wait::until(SOON, &format!("another {pod}"), async || {
            ensure!(pods.get(pod).await?.uid() != before, "it is there");
            Ok(())
        })
        .await
    }
}

/// Runs the controllers for so many writes; what becomes of the next is the fate, and they are killed.
async fn run_and_kill(cluster: &Cluster, writes: usize, fate: Fate) -> Result<()> {
    let (reach, mut reached) = watch::channel(false);
    let count = AtomicUsize::new(0);
    let proxy = Proxy::start(cluster.plane.client_of(Account::Controllers).await?, move |write| {
        if *reach.borrow() {
            return Fate::IsLost;
        }
        if is_event(write) || count.fetch_add(1, Ordering::Relaxed) < writes {
            return Fate::Passes;
        }
        reach.send_replace(true);
        fate
    })
    .await?;
    let controllers = Phalanx::start_controllers(&cluster.plane, &[&proxy.flag()]).await?;
    reached.wait_for(|reached| *reached).await?;
    if fate == Fate::IsCarriedOut {
        proxy.until_carried_out().await?;
    }
    drop(controllers);
    Ok(())
}

fn is_event((_, path): &Write) -> bool {
    path.ends_with("/events")
}

/// Returns only if something goes wrong.
async fn kill_again_and_again(cluster: &Cluster, seed: u64, kills: &AtomicUsize) -> Result<Infallible> {
    let mut random = Pcg64::seed_from_u64(seed);
    loop {
        let fate = if random.random_bool(0.5) { Fate::IsLost } else { Fate::IsCarriedOut };
        run_and_kill(cluster, random.random_range(0..=WRITES_MAX), fate).await?;
        kills.fetch_add(1, Ordering::Relaxed);
    }
}

/// The UIDs of all pods that ever were, by name.
struct Births {
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    task: JoinHandle<()>,
}

impl Births {
    fn watch(cluster: &Cluster) -> Self {
        let seen = Arc::<Mutex<BTreeMap<String, BTreeSet<String>>>>::default();
        let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut pods =
                pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
            while let Some(pod) = pods.next().await {
                let Ok(pod) = pod else { continue };
                let mut seen = noted.lock().expect("no test panics here");
                seen.entry(pod.name_any()).or_default().insert(pod.uid().unwrap_or_default());
            }
        });
        Self { seen, task }
    }

    fn counts(&self) -> BTreeMap<String, usize> {
        let seen = self.seen.lock().expect("no test panics here");
        seen.iter().map(|(name, uids)| (name.clone(), uids.len())).collect()
    }

    /// All that were made before this.
    async fn until_now(&self, cluster: &Cluster, marker: &str) -> Result<BTreeMap<String, usize>> {
        cluster.create::<Pod>(PodSpec { scheduler: "nobody", ..PodSpec::cpu(0) }.single(marker)).await?;
        wait::until(SOON, "the watch of pods", async || self.counts().remove(marker).context("it is behind"))
            .await?;
        Ok(self.counts())
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until jobs that ended have nothing but pods.
async fn until_tidy(cluster: &Cluster) -> Result<()> {
    for kind in ["PodGroup", "Command"] {
        wait::until(SOON, &format!("no {kind}"), async || {
            let left = cluster.volcano(kind).list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn live_through_kills(world: &World, births: &Births, seed: u64) -> Result<()> {
    let kills = AtomicUsize::new(0);
    let name = |story: &Story| format!("{}-{seed}", story.name);
    let stories = STORIES.iter().map(async |story| world.live(story, &name(story)).await.context(story.name));
    tokio::select! {
        lived = try_join_all(stories) => drop(lived?),
        failed = kill_again_and_again(&world.cluster, seed, &kills) => drop(failed?),
    }
    eprintln!("seed {seed}: the controllers were killed {kills:?} times");
    let controllers = Phalanx::start_controllers(&world.cluster.plane, &[]).await?;
    until_tidy(&world.cluster).await.with_context(|| controllers.log_text())?;
    let made = births.until_now(&world.cluster, &format!("marker-{seed}")).await?;
    for story in &STORIES {
        check_made(story, &name(story), &made)?;
        world.until_pods_are(&name(story), story.left).await?;
    }
    Ok(())
}

/// No pod too many was made for a job, and none is missing.
fn check_made(story: &Story, job: &str, made: &BTreeMap<String, usize>) -> Result<()> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (pod, count) in made {
        let own = pod.strip_prefix(job).and_then(|rest| rest.strip_prefix('-'));
        found.extend(own.map(|pod| (pod, *count)));
    }
    let all =
        story.made.iter().all(|(pod, counts)| found.get(pod).is_some_and(|count| counts.contains(count)));
    ensure!(all && found.len() == story.made.len(), "{job}: how often pods were made: {found:?}");
    Ok(())
}

#[tokio::test]
async fn jobs_come_to_the_same_end_wherever_the_controllers_are_killed() -> Result<()> {
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(1).cpu("64"), &[]).await?;
    cluster.define_jobs().await?;
    fake::Nodes::new(1).prefix("closed").label("pool", "closed").create(&cluster.client).await?;
    let world = World { cluster, controllers: None };
    let births = Births::watch(&world.cluster);
    let seeds = std::env::var(SEEDS).ok();
    for seed in 1..=seeds.map_or(Ok(1), |text| text.parse()).context(SEEDS)? {
        live_through_kills(&world, &births, seed).await.with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

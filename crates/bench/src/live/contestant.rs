//! The contestants: the client itself, Phalanx, and kube-scheduler.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use phalanx_e2e::{Daemon, Phalanx, Plane, PlaneOptions, crds, fake};
use serde_json::{Value, json};

use super::client;
use super::latency::Times;
use super::usage::{Cpu, round, writes};
use crate::{Size, machine};

/// Cores of a node; a pod asks for one.
pub(super) const CORES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Floor,
    Phalanx,
    KubeScheduler,
}

/// What the pods belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Nothing.
    None,
    /// PodGroups of which each pod may start alone.
    Loose,
    /// PodGroups that start whole or not at all.
    Gangs,
}

/// The load of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) size: Size,
    pub(crate) groups: Groups,
    /// Requests in flight of the client that creates the pods, and of the bare loop that binds them.
    pub(crate) in_flight: usize,
    /// Requests a second of that client at most.
    pub(crate) rate: Option<f64>,
}

/// The figures of a run: times from the first create, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) created: f64,
    pub(crate) first_bind: f64,
    /// From a gang's last create to its last bind.
    pub(crate) gang_waits: Times,
    pub(crate) peak_rss: u64,
    pub(crate) cpu: Cpu,
    /// Writes by resource until the last bind, creation included.
    pub(crate) writes: BTreeMap<String, u64>,
    pub(crate) pods: usize,
}

impl Measured {
    pub(crate) fn writes_per_pod(&self) -> f64 {
        self.writes.values().sum::<u64>() as f64 / self.pods.max(1) as f64
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "seconds": round(self.seconds), "createdAfterSeconds": round(self.created),
            "firstBindAfterSeconds": round(self.first_bind), "lastCreateToLastBindOfAGang": self.gang_waits.json(),
            "peakRssBytes": self.peak_rss,
            "cpuSeconds": self.cpu.json(), "writes": self.writes, "writesPerPod": round(self.writes_per_pod()),
        })
    }
}

/// A control plane with its definitions and equal nodes of 32 cores.
pub(crate) struct Setup {
    pub(crate) plane: Plane,
}

impl Setup {
    pub(crate) async fn new(nodes: usize) -> Result<Self> {
        Self::with(nodes, PlaneOptions::default()).await
    }

    pub(crate) async fn with(nodes: usize, options: PlaneOptions) -> Result<Self> {
        let plane = Plane::start(options).await?;
        let admin = plane.client();
        crds::apply(&admin, &crds::dir()).await?;
        fake::Nodes::new(nodes).cpu(&CORES.to_string()).memory("256Gi").pods(110).create(&admin).await?;
        Ok(Self { plane })
    }
}

/// The scheduler's process, if there is one. It ends with its guard.
pub(crate) enum Running {
    Nobody,
    Ours(Phalanx),
    Kube(Daemon),
}

impl Contestant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Floor => "floor",
            Contestant::Phalanx => "phalanx",
            Contestant::KubeScheduler => "kube-scheduler",
        }
    }

    pub(crate) fn scheduler_name(self) -> &'static str {
        match self {
            // A scheduler name that no scheduler has: the bare loop binds these pods.
            Contestant::Floor => "nobody",
            Contestant::Phalanx => "volcano",
            Contestant::KubeScheduler => "default-scheduler",
        }
    }

    /// On a control plane of its own.
    pub(crate) async fn run(self, load: Load, args: &[String]) -> Result<Measured> {
        let Size { nodes, gangs, size } = load.size;
        ensure!(nodes * CORES >= gangs * size, "{nodes} nodes have no room for {} pods", gangs * size);
        let Setup { plane } = Setup::new(nodes).await?;
        let admin = plane.client();
        let running = self.start(&plane, args).await?;
        if self != Contestant::Floor {
            client::warm_up(&admin, self.scheduler_name()).await?;
        }
        let (pids, scheduler) = (plane.pids(), running.pid());
        let written = writes(&admin).await?;
        let seen = tokio::spawn(client::seen_bound(plane.client(), gangs * size));
        let (started, cpu) = (Instant::now(), Cpu::now(&pids, scheduler));
        let answered = client::create(&admin, load, self.scheduler_name()).await?;
        let created = started.elapsed();
        if self == Contestant::Floor {
            client::bind(&admin, load, CORES).await?;
        }
        let seen = seen.await.context("the watch ended early")??;
        let since = |at: Option<Instant>| at.map_or(0.0, |at| (at - started).as_secs_f64());
        let cpu = Cpu::now(&pids, scheduler).since(cpu);
        let mut all = writes(&admin).await?;
        for (name, count) in &mut all {
            *count -= written.get(name).copied().unwrap_or_default();
        }
        all.retain(|_, count| *count > 0);
        let measured = Measured {
            seconds: since(seen.last()),
            created: created.as_secs_f64(),
            first_bind: since(seen.first()),
            gang_waits: Times::new(seen.gang_waits(&answered, size)),
            peak_rss: scheduler.map_or(0, |pid| machine::peak_rss(Some(pid))),
            cpu,
            writes: all,
            pods: gangs * size,
        };
        self.tell(&measured)?;
        Ok(measured)
    }

    fn tell(self, measured: &Measured) -> Result<()> {
        say!(
            "{:<16} {:6.2} s (all created after {:.2} s, first bind after {:.2} s); a gang's last create to its last \
             bind p50 {:.2} s; processor time {}; {:.2} writes a pod",
            self.name(),
            measured.seconds,
            measured.created,
            measured.first_bind,
            measured.gang_waits.at(0.5) / 1e3,
            measured.cpu.json(),
            measured.writes_per_pod(),
        );
        Ok(())
    }

    pub(crate) async fn start(self, plane: &Plane, args: &[String]) -> Result<Running> {
        Ok(match self {
            Contestant::Floor => Running::Nobody,
            Contestant::Phalanx => Running::Ours(start_phalanx(plane, args).await?),
            Contestant::KubeScheduler => Running::Kube(plane.kube_scheduler().await?),
        })
    }
}

impl Running {
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Running::Nobody => None,
            Running::Ours(ours) => Some(ours.pid()),
            Running::Kube(daemon) => Some(daemon.pid()),
        }
    }
}

/// The flags of every run: the tiers Volcano's Helm chart installs unless other ones are given, and more flags.
pub(crate) fn scheduler_args(more: &[String]) -> Vec<String> {
    if more.iter().any(|arg| arg.starts_with("--scheduler-conf")) {
        return more.to_vec();
    }
    let conf = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/helm-default.yaml");
    let conf = format!("--scheduler-conf={}", conf.display());
    std::iter::once(conf).chain(more.iter().cloned()).collect()
}

async fn start_phalanx(plane: &Plane, more: &[String]) -> Result<Phalanx> {
    let args = scheduler_args(more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Phalanx::start(plane, &args).await
}

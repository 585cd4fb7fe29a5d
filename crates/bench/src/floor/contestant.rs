//! Who binds the pods: nobody but the client, Phalanx, or kube-scheduler.
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use phalanx_e2e::{Daemon, Plane, PlaneOptions, crds, fake};

use super::{Options, client};
use crate::{Size, machine};

/// Cores of a node; a pod asks for one.
const CORES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Floor,
    Phalanx,
    KubeScheduler,
}

/// Times from the first create, in seconds.
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) created: f64,
    pub(super) first_bind: f64,
    pub(super) peak_rss: u64,
}

/// The scheduler's process, if there is one.
enum Running {
    Nobody,
    Ours(Ours),
    Kube(Daemon),
}

/// A scheduler that ends with its guard.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        // It may be gone already; there is nothing else to do about it here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Contestant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Contestant::Floor => "floor",
            Contestant::Phalanx => "phalanx",
            Contestant::KubeScheduler => "kube-scheduler",
        }
    }

    fn scheduler_name(self) -> &'static str {
        match self {
            // Nobody's name: the bare loop binds these pods.
            Contestant::Floor => "nobody",
            Contestant::Phalanx => "volcano",
            Contestant::KubeScheduler => "default-scheduler",
        }
    }

    pub(super) async fn run(self, options: &Options) -> Result<Measured> {
        let Size { nodes, gangs, size } = options.size;
        ensure!(nodes * CORES >= gangs * size, "{nodes} nodes have no room for {} pods", gangs * size);
        let plane = Plane::start(PlaneOptions::default()).await?;
        let admin = plane.client();
        crds::apply(&admin, &crds::dir()).await?;
        fake::Nodes::new(nodes).cpu(&CORES.to_string()).memory("256Gi").pods(110).create(&admin).await?;
        let running = self.start(&plane, options).await?;
        let seen = tokio::spawn(client::seen_bound(plane.client(), gangs * size));
        let started = Instant::now();
        let with_groups = self == Contestant::Phalanx;
        client::create(&admin, options.size, self.scheduler_name(), with_groups, options.in_flight).await?;
        let created = started.elapsed();
        if self == Contestant::Floor {
            client::bind(&admin, options.size, CORES, options.in_flight).await?;
        }
        let (first, last) = seen.await.context("the watch ended early")??;
        Ok(Measured {
            seconds: (last - started).as_secs_f64(),
            created: created.as_secs_f64(),
            first_bind: (first - started).as_secs_f64(),
            peak_rss: running.pid().map_or(0, |pid| machine::peak_rss(Some(pid))),
        })
    }

    async fn start(self, plane: &Plane, options: &Options) -> Result<Running> {
        Ok(match self {
            Contestant::Floor => Running::Nobody,
            Contestant::Phalanx => Running::Ours(start_phalanx(plane, &options.scheduler_args)?),
            Contestant::KubeScheduler => Running::Kube(plane.kube_scheduler().await?),
        })
    }
}

impl Running {
    fn pid(&self) -> Option<u32> {
        match self {
            Running::Nobody => None,
            Running::Ours(ours) => Some(ours.0.id()),
            Running::Kube(daemon) => Some(daemon.pid()),
        }
    }
}

fn start_phalanx(plane: &Plane, args: &[String]) -> Result<Ours> {
    let conf = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/helm-default.yaml");
    let log = std::fs::File::create(plane.dir().join("phalanx.log"))?;
    let child = Command::new(phalanx()?)
        .arg("scheduler")
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .arg("--scheduler-conf")
        .arg(conf)
        .args(["--leader-elect=false", "--listen-address=127.0.0.1:0", "--healthz-address=127.0.0.1:0"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting phalanx scheduler")?;
    Ok(Ours(child))
}

/// The release build of the binary, made anew when its sources changed.
fn phalanx() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "--quiet", "-p", "phalanx"]).status()?;
    ensure!(built.success(), "building phalanx failed");
    let here = std::env::current_exe().context("finding the folder of this program")?;
    Ok(here.with_file_name("phalanx"))
}

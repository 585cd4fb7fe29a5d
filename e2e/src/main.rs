//! Builds the control plane for tests, or runs one to play with.

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use phalanx_e2e::{Daemon, Plane, PlaneOptions, crds, fake, plane};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(name = "phalanx-e2e", about = "A real control plane on this machine, without containers")]
enum Cli {
    /// Build the control plane, unless it is built already, and print its path
    Build,
    /// Run a control plane with fake nodes until ctrl-c
    Up(Up),
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
struct Up {
    /// How many fake nodes to create
    #[arg(long, default_value_t = 10)]
    nodes: usize,
    /// CPUs of each node, as a quantity
    #[arg(long, default_value = "32")]
    cpu: String,
    /// Memory of each node, as a quantity
    #[arg(long, default_value = "128Gi")]
    memory: String,
    /// nvidia.com/gpu of each node
    #[arg(long, default_value_t = 0)]
    gpus: u32,
    /// Run kube-scheduler too
    #[arg(long)]
    kube_scheduler: bool,
    /// Serve the native gangs of Kubernetes
    #[arg(long)]
    native_gangs: bool,
    /// Leave out kube-controller-manager: Deployments and Jobs get no pods
    #[arg(long)]
    no_controllers: bool,
    /// Leave out the fake kubelet: bound pods stay Pending
    #[arg(long)]
    no_kubelet: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse() {
        Cli::Build => println!("{}", plane::binary()?.display()),
        Cli::Up(up) => up.run().await?,
    }
    Ok(())
}

impl Up {
    async fn run(&self) -> Result<()> {
        let mut interrupted = signal(SignalKind::interrupt()).context("listening for ctrl-c")?;
        let mut terminated = signal(SignalKind::terminate()).context("listening for TERM")?;
        tokio::select! {
            outcome = self.serve() => return outcome,
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        eprintln!("stopped");
        Ok(())
    }

    /// Does not end by itself: dropping it stops everything.
    async fn serve(&self) -> Result<()> {
        let plane = Plane::start(self.options()).await?;
        let client = plane.client();
        for name in crds::apply(&client, &crds::dir()).await? {
            println!("definition: {name}");
        }
        self.fake_nodes().create(&client).await?;
        let _kubelet = (!self.no_kubelet).then(|| fake::Kubelet::start(client));
        let scheduler = if self.kube_scheduler { Some(plane.kube_scheduler().await?) } else { None };
        println!("server: {}", plane.url());
        println!("kubeconfig: {}", plane.kubeconfig().display());
        let pids = plane.pids().into_iter().chain(scheduler.as_ref().map(Daemon::pid));
        println!("processes: {}", pids.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" "));
        std::future::pending().await
    }

    fn options(&self) -> PlaneOptions {
        PlaneOptions {
            controllers: !self.no_controllers,
            native_gangs: self.native_gangs,
            ..PlaneOptions::default()
        }
    }

    fn fake_nodes(&self) -> fake::Nodes {
        let nodes = fake::Nodes::new(self.nodes).cpu(&self.cpu).memory(&self.memory);
        if self.gpus > 0 { nodes.extended("nvidia.com/gpu", &self.gpus.to_string()) } else { nodes }
    }
}

//! `simulate`: what a simulation of many pods takes, from manifests to the report in JSON, as `phalanx simulate -o
//! json` makes it. The manifests are made while they are read, so they take no memory of their own.
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use phalanx_sim::{Options as Simulated, ReadOptions, Simulation, Source};
use serde_json::{Value, json};

use crate::core::helm_conf;
use crate::{Size, machine};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Writes the manifests to a file instead, for phalanx simulate -f.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Fails where a pod takes more bytes of memory, at the peak.
    #[arg(long, value_parser = crate::above_0)]
    max_bytes_per_pod: Option<f64>,
}

/// Nodes, and gangs with all of their pods pending.
struct Cluster(Size);

impl Cluster {
    fn documents(&self) -> impl Iterator<Item = String> + use<> {
        let Size { nodes, gangs, size } = self.0;
        let of_gang =
            move |at| std::iter::once(group(at, size)).chain((0..size).map(move |index| pod(at, index)));
        (0..nodes).map(node).chain((0..gangs).flat_map(of_gang))
    }
}

impl Source for Cluster {
    fn name(&self) -> &'static str {
        "cluster.yaml"
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let documents = Documents { left: self.documents(), text: Vec::new(), at: 0 };
        Ok(Box::new(BufReader::new(documents)))
    }
}

/// Documents, of which one is held at a time.
struct Documents<I> {
    left: I,
    text: Vec<u8>,
    /// How much of the text was read.
    at: usize,
}

impl<I: Iterator<Item = String>> Read for Documents<I> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            (self.text, self.at) = (self.left.next().unwrap_or_default().into_bytes(), 0);
        }
        let read = (&self.text[self.at..]).read(to)?;
        self.at += read;
        Ok(read)
    }
}

fn node(at: usize) -> String {
    format!(
        "apiVersion: v1
kind: Node
metadata:
  name: node-{at:06}
  labels: {{kubernetes.io/hostname: node-{at:06}}}
status:
  allocatable: {{cpu: \"32\", memory: 256Gi, pods: \"110\"}}
  conditions: [{{type: Ready, status: \"True\"}}]
---
"
    )
}

fn group(at: usize, size: usize) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: gang-{at:06}, namespace: default}}
spec: {{minMember: {size}, queue: default}}
---
"
    )
}

fn pod(gang: usize, index: usize) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: gang-{gang:06}-{index}
  namespace: default
  labels: {{app: gang-{gang:06}}}
  annotations: {{scheduling.k8s.io/group-name: gang-{gang:06}}}
spec:
  schedulerName: volcano
  containers:
  - name: main
    image: train
    resources:
      requests: {{cpu: \"1\", memory: 4Gi}}
      limits: {{cpu: \"1\", memory: 4Gi}}
---
"
    )
}

fn write(cluster: &Cluster, path: &PathBuf) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    cluster.documents().try_for_each(|document| file.write_all(document.as_bytes()))?;
    Ok(file.flush()?)
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let cluster = Cluster(options.size);
    if let Some(path) = &options.write {
        write(&cluster, path).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(json!({"name": "simulate", "file": path}));
    }
    let begun = Instant::now();
    let manifests = phalanx_sim::read_with(&[&cluster], &[], &ReadOptions::default(), &mut |_| {});
    let manifests = manifests.map_err(|refused| anyhow!("{:?}", refused.faults))?;
    let read = begun.elapsed().as_secs_f64();
    let mut simulation = Simulation::new(manifests, helm_conf()?, &Simulated::default());
    simulation.run_to_rest(&mut || begun.elapsed().as_secs_f64())?;
    let report = simulation.report();
    let (pods, bound) = (gangs * size, report.stats.bound);
    ensure!(bound == pods, "{bound} of {pods} pods were placed: the cluster is too small");
    let text = report.to_json();
    let (seconds, peak) = (begun.elapsed().as_secs_f64(), machine::peak_rss(None));
    let per_pod = peak as f64 / pods as f64;
    say!(
        "{pods} pods on {nodes} nodes: {seconds:.1} s, {read:.1} s of them to read, {} MB",
        peak / 1_000_000
    );
    let most = options.max_bytes_per_pod.unwrap_or(f64::INFINITY);
    ensure!(per_pod <= most, "{per_pod:.0} bytes a pod, expected at most {most:.0}");
    Ok(json!({
        "name": "simulate", "nodes": nodes, "gangs": gangs, "size": size, "pods": pods, "seconds": seconds,
        "readSeconds": read, "outputBytes": text.len(), "bytesPerPod": per_pod, "peakRssBytes": peak,
        "cores": machine::cores(),
    }))
}

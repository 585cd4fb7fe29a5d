//! What a run used: processor time of each process, and writes of the API server.
use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

use crate::machine;

/// Ticks of /proc in a second, on every Linux there is.
const TICKS: f64 = 100.0;

/// User and system time of a process so far, in seconds; 0 where the system does not tell.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything; fields count from the bracket that closes it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// The resident set of a process now, in bytes; 0 where the system does not tell.
pub(crate) fn rss(pid: u32) -> u64 {
    machine::memory(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// How many files, sockets included, a process has open; 0 where the system does not tell.
pub(crate) fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Time that the machine's processors worked for anybody since it started, in seconds.
fn machine_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.filter_map(|ticks| ticks.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy = |at: &usize| !matches!(at, 3 | 4);
    (0..ticks.len().min(8)).filter(busy).map(|at| ticks[at]).sum::<f64>() / TICKS
}

/// Processor time of the processes of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// This program: it creates pods and watches, and binds in the floor.
    pub(crate) client: f64,
    /// The API server and etcd.
    pub(crate) plane: f64,
    /// The scheduler.
    pub(crate) scheduler: f64,
    /// The whole machine, so that others' share is seen.
    pub(crate) machine: f64,
}

impl Cpu {
    pub(crate) fn now(plane: &[u32], scheduler: Option<u32>) -> Self {
        Self {
            client: cpu_seconds(std::process::id()),
            plane: plane.iter().copied().map(cpu_seconds).sum(),
            scheduler: scheduler.map_or(0.0, cpu_seconds),
            machine: machine_seconds(),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            client: self.client - before.client,
            plane: self.plane - before.plane,
            scheduler: self.scheduler - before.scheduler,
            machine: self.machine - before.machine,
        }
    }

    /// All that belongs to the run.
    pub(crate) fn total(self) -> f64 {
        self.client + self.plane + self.scheduler
    }

    pub(crate) fn json(self) -> Value {
        json!({
            "client": round(self.client), "plane": round(self.plane), "scheduler": round(self.scheduler),
            "total": round(self.total()), "others": round((self.machine - self.total()).max(0.0)),
        })
    }
}

/// Hundredths are all that /proc knows.
pub(crate) fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Writes that the API server has answered, by resource, its own leases left out.
pub(crate) async fn writes(client: &Client) -> Result<BTreeMap<String, u64>> {
    let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let mut writes = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
        let Some((labels, count)) = line.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let value = labels.split(&format!("{name}=\"")).nth(1)?;
            value.split('"').next()
        };
        let written = matches!(label("verb"), Some("POST" | "PUT" | "PATCH" | "DELETE" | "APPLY"));
        let resource = label("resource").unwrap_or_default();
        if written && resource != "leases" {
            let subresource = label("subresource").filter(|name| !name.is_empty());
            let name = subresource
                .map_or_else(|| resource.to_owned(), |subresource| format!("{resource}/{subresource}"));
            *writes.entry(name).or_default() += count.parse::<f64>().unwrap_or_default() as u64;
        }
    }
    Ok(writes)
}

//! What has to hold of the objects on the API server.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use phalanx_cache::slim;
use serde_json::Value;

use super::super::churn::{gang_of, size_of};
use super::super::client::{NAMESPACE, gang_name};
use super::super::contestant::CORES;
use super::SETTLED;

/// Between two looks.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// How long a gang may be bound in part: longer than a process is down and starts, or a link is held.
const IN_PART_MAX: Duration = Duration::from_mins(1);

/// What was seen.
#[derive(Default)]
pub(super) struct Sound {
    /// Since when gangs are bound in part.
    in_part: BTreeMap<usize, Instant>,
    /// The longest time for which a gang was seen bound in part.
    pub(super) longest: Duration,
    pub(super) violations: Vec<String>,
}

/// Pods on the API server.
#[derive(Default)]
struct Seen {
    /// Pods with a node, by node; each asks for one core.
    nodes: BTreeMap<String, usize>,
    /// Pods with a node and without, by gang.
    gangs: BTreeMap<usize, (usize, usize)>,
}

impl Sound {
    /// No node holds more than it has, and no gang is bound in part for long.
    pub(super) async fn look(&mut self, admin: &Client) -> Result<()> {
        let (seen, now) = (Seen::of(admin).await?, Instant::now());
        let over = seen.nodes.iter().filter(|(_, pods)| **pods > CORES);
        self.violations
            .extend(over.map(|(node, pods)| format!("{node} holds {pods} pods, it has {CORES} cores")));
        let in_part: Vec<usize> = seen
            .gangs
            .iter()
            .filter(|(_, (bound, waiting))| *bound > 0 && *waiting > 0)
            .map(|it| *it.0)
            .collect();
        self.in_part.retain(|gang, _| in_part.contains(gang));
        for gang in in_part {
            let since = *self.in_part.entry(gang).or_insert(now);
            self.longest = self.longest.max(now - since);
            if now - since > IN_PART_MAX {
                let (bound, waiting) = seen.gangs[&gang];
                let name = gang_name(gang);
                self.violations
                    .push(format!("{name} is bound in part for long: {bound} bound, {waiting} wait"));
            }
        }
        Ok(())
    }

    /// All that was created is bound, for there is room.
    pub(super) async fn at_the_end(&mut self, admin: &Client, unbound: usize) -> Result<()> {
        self.look(admin).await?;
        if unbound > 0 {
            self.violations.push(format!("{unbound} pods are not bound, though there is room"));
        }
        let seen = Seen::of(admin).await?;
        for (gang, (bound, waiting)) in seen.gangs.iter().filter(|(_, (_, waiting))| *waiting > 0) {
            let (name, size) = (gang_name(*gang), size_of(*gang));
            self.violations.push(format!("{name} of {size} pods waits: {bound} bound, {waiting} wait"));
        }
        Ok(())
    }

    /// Once all pods are deleted, the queue counts nothing. Returns how long that took.
    pub(super) async fn until_nothing_is_counted(
        &mut self,
        admin: &Client,
        runs: Duration,
    ) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let (pods, counted) = (Seen::of(admin).await?.gangs.len(), counted(admin).await?);
            if pods == 0 && counted == "0" {
                return Ok(began.elapsed());
            }
            if began.elapsed() > runs + SETTLED {
                self.violations.push(format!("the queue counts {counted} cores, and {pods} gangs have pods"));
                return Ok(began.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

impl Seen {
    async fn of(admin: &Client) -> Result<Self> {
        let pods: Api<slim::Pod> = Api::namespaced(admin.clone(), NAMESPACE);
        let mut seen = Self::default();
        for pod in pods.list(&ListParams::default()).await.context("listing pods")? {
            let Some(gang) = gang_of(&pod.name_any()) else { continue };
            let (bound, waiting) = seen.gangs.entry(gang).or_default();
            match pod.spec.node_name {
                Some(node) => {
                    *bound += 1;
                    *seen.nodes.entry(node).or_default() += 1;
                }
                None => *waiting += 1,
            }
        }
        Ok(seen)
    }
}

/// The cores that the status of queue `default` counts.
async fn counted(admin: &Client) -> Result<String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "Queue"));
    let queues: Api<DynamicObject> = Api::all_with(admin.clone(), &resource);
    let queue = queues.get("default").await.context("reading queue default")?;
    let cpu = &queue.data["status"]["allocated"]["cpu"];
    Ok(match cpu {
        Value::String(text) => text.clone(),
        Value::Null => "0".to_owned(),
        other => other.to_string(),
    })
}

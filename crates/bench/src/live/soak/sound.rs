//! What has to hold of the objects on the API server.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use phalanx_api::batch::Job;
use phalanx_api::bus::Command;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::slim;
use phalanx_faults::checks::statuses::{overfull_nodes, problems};
use phalanx_faults::gangs::{named_group, uses_node};
use phalanx_faults::server::{Object, Server};
use serde::de::DeserializeOwned;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// How long a gang may be bound in part: longer than a process is down and starts, or a link is held.
const IN_PART_MAX: Duration = Duration::from_mins(1);
/// Between two looks until all is written.
const SOON: Duration = Duration::from_millis(500);
/// So many problems of the end are told.
const TOLD: usize = 20;

/// What was seen.
#[derive(Default)]
pub(super) struct Sound {
    /// Since when gangs are bound in part, by PodGroup.
    in_part: BTreeMap<String, Instant>,
    /// The longest time for which a gang was seen bound in part.
    pub(super) longest: Duration,
    pub(super) violations: Vec<String>,
}

impl Sound {
    /// Looks again and again.
    pub(super) async fn look_until(&mut self, admin: &Client, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.look(admin).await?;
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }

    /// No node holds more than it has, and no gang is bound in part for long.
    async fn look(&mut self, admin: &Client) -> Result<()> {
        let (mut server, now) = (Server::default(), Instant::now());
        read::<slim::Pod>(admin, &mut server, Object::Pod).await?;
        read::<slim::Node>(admin, &mut server, Object::Node).await?;
        self.violations.extend(overfull_nodes(&server));
        let in_part = in_part(&server);
        self.in_part.retain(|group, _| in_part.contains_key(group));
        for (group, (bound, waiting)) in in_part {
            let since = *self.in_part.entry(group.clone()).or_insert(now);
            self.longest = self.longest.max(now - since);
            if now - since > IN_PART_MAX {
                self.violations
                    .push(format!("{group} is bound in part for long: {bound} bound, {waiting} wait"));
            }
        }
        Ok(())
    }

    /// Waits until so many pods are left, all of them on nodes, and the checkers of the simulation find no problem in the
    /// objects; for so long at most. Returns how long that took.
    pub(super) async fn until_all_is_right(
        &mut self,
        admin: &Client,
        pods: usize,
        at_most: Duration,
    ) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let server = everything(admin).await?;
            let wrong: Vec<String> = left_over(&server, pods).into_iter().chain(problems(&server)).collect();
            if wrong.is_empty() || began.elapsed() > at_most {
                self.violations.extend(wrong.into_iter().take(TOLD));
                return Ok(began.elapsed());
            }
            tokio::time::sleep(SOON).await;
        }
    }
}

/// What is there beside so many pods on nodes; without pods no PodGroup and no Job is.
fn left_over(server: &Server, pods: usize) -> Vec<String> {
    let (placed, others): (Vec<_>, Vec<_>) = server.pods.iter().partition(|(_, pod)| uses_node(pod));
    let mut found: Vec<String> = others
        .into_iter()
        .map(|(name, _)| format!("pod {name} waits, or has ended and is not deleted"))
        .collect();
    if placed.len() != pods {
        found.push(format!("{} pods are on nodes, {pods} are to be", placed.len()));
    }
    if pods == 0 {
        found.extend(server.groups.keys().map(|name| format!("PodGroup {name} is left")));
        found.extend(server.jobs.keys().map(|name| format!("Job {name} is left")));
    }
    found
}

/// Gangs some of whose pods have a node while others wait: how many of both, by PodGroup.
fn in_part(server: &Server) -> BTreeMap<String, (usize, usize)> {
    let mut groups = BTreeMap::<String, (usize, usize)>::new();
    for pod in server.pods.values() {
        let Some(group) = named_group(pod) else { continue };
        let (bound, waiting) = groups.entry(group.clone()).or_default();
        *if pod.spec.node_name.is_some() { bound } else { waiting } += 1;
    }
    groups.retain(|_, (bound, waiting)| *bound > 0 && *waiting > 0);
    groups
}

/// All objects that the checkers look at.
async fn everything(admin: &Client) -> Result<Server> {
    let mut server = Server::default();
    read::<slim::Pod>(admin, &mut server, Object::Pod).await?;
    read::<slim::Node>(admin, &mut server, Object::Node).await?;
    read::<PodGroup>(admin, &mut server, Object::PodGroup).await?;
    read::<Queue>(admin, &mut server, Object::Queue).await?;
    read::<Job>(admin, &mut server, Object::Job).await?;
    read::<Command>(admin, &mut server, Object::Command).await?;
    Ok(server)
}

/// All objects of a kind, as the simulated API server holds them.
async fn read<K>(admin: &Client, server: &mut Server, object: impl Fn(Arc<K>) -> Object) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let all = Api::<K>::all(admin.clone()).list(&ListParams::default()).await;
    for one in all.with_context(|| format!("listing {}", K::plural(&())))? {
        server.put(object(Arc::new(one)));
    }
    Ok(())
}

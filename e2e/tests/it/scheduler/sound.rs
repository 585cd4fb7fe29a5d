//! What must hold after any fault.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};
use phalanx_e2e::wait;

use super::cluster::{Cluster, SOON};

const GROUP: &str = "scheduling.k8s.io/group-name";

/// Bound pods and pods that wait, of a gang whose pods are alike.
#[derive(Clone, Copy, Debug, Default)]
struct Gang {
    bound: u64,
    waiting: u64,
    cpu: u64,
}

impl Cluster {
    /// Waits until no gang is bound in part, none has lost a pod, none waits that fits, no node holds more than it has,
    /// and the queue counts what is bound.
    pub(super) async fn until_sound(&self) -> Result<()> {
        wait::until(SOON, "a sound cluster", async || {
            let free = self.free().await?;
            for (name, min) in self.min_members().await? {
                let gang = self.gang_of(&name).await?;
                let Gang { bound, waiting, cpu } = gang;
                ensure!(bound + waiting >= min, "{name} has lost pods: {gang:?} of {min}");
                ensure!(bound == 0 || bound >= min, "{name} is bound in part: {gang:?} of {min}");
                let places: u64 = free.values().map(|free| free / cpu.max(1)).sum();
                ensure!(bound > 0 || places < waiting, "{name} waits, though it fits: {free:?}");
            }
            Ok(())
        })
        .await?;
        self.until_allocated_is_bound().await
    }

    async fn min_members(&self) -> Result<Vec<(String, u64)>> {
        let groups = self.volcano("PodGroup").list(&ListParams::default()).await?;
        let min = |group: &kube::api::DynamicObject| group.data["spec"]["minMember"].as_u64();
        groups.iter().map(|group| Ok((group.name_any(), min(group).context("a minMember")?))).collect()
    }

    async fn gang_of(&self, group: &str) -> Result<Gang> {
        let mut gang = Gang::default();
        for pod in
            self.pods().await?.iter().filter(|pod| pod.annotations().get(GROUP).is_some_and(|of| of == group))
        {
            gang.cpu = cpu_of(pod)?;
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            if node.is_some() { gang.bound += 1 } else { gang.waiting += 1 }
        }
        Ok(gang)
    }

    /// CPUs that are left on each node.
    async fn free(&self) -> Result<BTreeMap<String, u64>> {
        let mut free = BTreeMap::new();
        for node in Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await? {
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
            let cpu = allocatable.and_then(|all| all.get("cpu")).context("allocatable CPUs")?;
            free.insert(node.name_any(), cpu.0.parse::<u64>()?);
        }
        for pod in self.pods().await? {
            let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else { continue };
            let left = free.get_mut(node).with_context(|| format!("{} is on no node", pod.name_any()))?;
            *left =
                left.checked_sub(cpu_of(&pod)?).with_context(|| format!("{node} holds more than it has"))?;
        }
        Ok(free)
    }
}

fn cpu_of(pod: &Pod) -> Result<u64> {
    let resources = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.resources.as_ref());
    let cpu = resources.and_then(|all| all.requests.as_ref()?.get("cpu")).context("a request of CPU")?;
    Ok(cpu.0.parse()?)
}

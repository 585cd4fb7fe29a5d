//! What keeps a network topology or sub-groups from having the effect that was probably meant, though no job waits
//! because of it.
use phalanx_cluster::event::NetworkTopology;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, Job};
use phalanx_framework::conf::{Conf, Flag};

/// The plugin that honours network topologies.
pub(crate) const NETWORK_TOPOLOGY_AWARE: &str = "network-topology-aware";
/// The faults of HyperNodes that are told.
const FAULTS_MAX: usize = 5;

/// A line each.
pub(crate) fn of(cluster: &Cluster, conf: &Conf, id: JobId) -> Vec<String> {
    let job = &cluster.jobs[id];
    let asks = job.asks_topology();
    let plugin = (asks_softly(job) && !honours(conf)).then(|| {
        format!(
            "networkTopology of mode soft has no effect without plugin {NETWORK_TOPOLOGY_AWARE} in scheduler.conf, with its \
             enabledHyperNodeGradient"
        )
    });
    // Where minSubGroups requires some, the job waits with that as the reason.
    let optional = job.sub_groups.iter().enumerate().filter(|(_, policy)| policy.min == 0);
    let empty = optional.filter_map(|(at, policy)| {
        let why = cluster.empty_policy(id, at)?;
        Some(format!("subGroupPolicy {} has no effect: {why}", policy.name))
    });
    let unread = cluster
        .hyper_nodes
        .objects()
        .filter_map(|it| Some(format!("HyperNode {}: {}", it.name, it.invalid.as_ref()?)));
    let faults = cluster.hyper_nodes.faults().map(|fault| fault.to_string()).chain(unread);
    plugin.into_iter().chain(empty).chain(faults.filter(|_| asks).take(FAULTS_MAX)).collect()
}

fn honours(conf: &Conf) -> bool {
    let mut plugins = conf.tiers.iter().flat_map(|tier| &tier.plugins);
    plugins.any(|plugin| plugin.name == NETWORK_TOPOLOGY_AWARE && plugin.flags.on(Flag::HyperNodeGradient))
}

fn asks_softly(job: &Job) -> bool {
    let of_sub_groups = job.sub_groups.iter().filter_map(|policy| policy.topology.as_ref());
    job.topology.iter().chain(of_sub_groups).any(|topology| *topology == NetworkTopology::Soft)
}

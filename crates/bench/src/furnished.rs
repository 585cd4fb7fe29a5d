//! A full cluster in which every plugin has something to look at.
use phalanx_cluster::annotation::{
    Annotations, COOLDOWN_TIME, NODEGROUP_NAME, REVOCABLE_ZONE, TASK_TOPOLOGY_AFFINITY,
};
use phalanx_cluster::event::{
    Event, GroupLimits, GroupStatus, Key, NodeGroups, NodeInfo, Phase, PodGroupInfo, PodInfo, PodLife,
    PodPhase, QueueInfo, QuotaInfo, Time,
};
use phalanx_framework::conf::{Arg, Conf, Flag, Flags, PluginConf, Position, Value};
use phalanx_plugins::PLUGINS;

use crate::generate::{self, resources};

/// Groups of nodes.
const GROUPS: usize = 10;
/// The name in the results for drf with `enableHierarchy`.
const HDRF: &str = "drf, enableHierarchy";

/// A queue with limits by node group, a quota, nodes in groups, some of them lent, and running pods. Each pod is a gang
/// of its own with minResources, a role with affinity to one node, and a cooldown.
pub(crate) fn cluster(nodes: usize, running: usize) -> impl Iterator<Item = Event> {
    let group = |at: usize| format!("g{at}").into();
    let limits = (0..GROUPS).map(|at| (group(at), resources(&[("cpu", "1000000")]))).collect();
    let required = (0..GROUPS).map(group).collect();
    let queue = QueueInfo {
        name: "default".into(),
        weight: 1,
        reclaimable: true,
        group_limits: GroupLimits::Each(limits),
        node_groups: Some(NodeGroups { required, ..NodeGroups::default() }),
        ..QueueInfo::default()
    };
    let key = Key { namespace: "default".into(), name: "quota".into() };
    let hard = resources(&[("cpu", "1000000")]);
    let quota = QuotaInfo { key, hard, used: resources(&[]) };
    let nodes_too = generate::nodes(nodes).enumerate().map(|(at, event)| match event {
        Event::Node(info) => Event::Node(labelled(at, info)),
        event => event,
    });
    [Event::Queue(Box::new(queue)), quota.into()]
        .into_iter()
        .chain(nodes_too)
        .chain((0..running).flat_map(move |at| member(at, nodes)))
}

fn labelled(at: usize, mut info: NodeInfo) -> NodeInfo {
    info.labels.push((NODEGROUP_NAME.into(), format!("g{}", at % GROUPS).into()));
    if at.is_multiple_of(GROUPS) {
        info.labels.push((REVOCABLE_ZONE.into(), "rz".into()));
    }
    info.labels.sort();
    info
}

fn member(at: usize, nodes: usize) -> [Event; 2] {
    let pod = generate::solo(at);
    let name = pod.pod.name.clone();
    let pairs = |key: &str, value: &str| Annotations::from_iter([(key.into(), value.into())]);
    let group = PodGroupInfo {
        key: Key { namespace: "default".into(), name: name.clone() },
        uid: name.clone(),
        min_member: 1,
        min_resources: Some(resources(&[("cpu", "1")])),
        annotations: pairs(TASK_TOPOLOGY_AFFINITY, "worker"),
        status: GroupStatus { phase: Phase::Running, ..GroupStatus::default() },
        ..PodGroupInfo::default()
    };
    let pod = PodInfo {
        group: Some(name),
        role: "worker".into(),
        preemptable: Some(false),
        annotations: pairs(COOLDOWN_TIME, "10m"),
        life: PodLife {
            phase: PodPhase::Running,
            node: Some(format!("node-{:06}", at % nodes).into()),
            scheduled: Some(Time(0)),
            ..pod.life
        },
        ..pod
    };
    [group.into(), pod.into()]
}

/// Helm's configuration with each plugin in turn.
pub(crate) fn confs(helm: &Conf) -> Vec<(&'static str, Conf)> {
    let names = PLUGINS.iter().map(|def| def.name).chain([HDRF]);
    names.map(|name| (name, with(helm.clone(), name))).collect()
}

fn with(mut conf: Conf, name: &'static str) -> Conf {
    let (mut flags, mut args) = (Flags::default(), phalanx_framework::conf::Args::default());
    flags.set(Flag::Hierarchy, name == HDRF);
    if name == "tdm" {
        let zone = Value::Text("10:00-21:00".to_owned());
        args.0.insert("tdm.revocable-zone.rz".to_owned(), Arg { value: zone, at: Position::default() });
    }
    let name = if name == HDRF { "drf" } else { name };
    for tier in &mut conf.tiers {
        tier.plugins.retain(|plugin| plugin.name != name);
    }
    let plugin = PluginConf { name: name.to_owned(), flags, args, at: Position::default() };
    conf.tiers.last_mut().expect("Helm's configuration has tiers").plugins.push(plugin);
    conf
}

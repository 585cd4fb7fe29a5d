//! nodegroup: queues are restricted to groups of nodes.
//!
//! The label `volcano.sh/nodegroup-name` of a node names its group; a queue names groups under `spec.affinity`.
//! - Pods of a queue can run on a node whose group is among the required, preferred or anti-preferred ones, and not on
//!   one whose group is anti-required and not also anti-preferred. Pods of a queue that names no groups can run only on
//!   nodes without a group, and only when `strict` is false.
//! - Score: 100 for a required group, 50 more for a preferred one (with `enablePreferredOrder` less the later in the
//!   list), -1 for an anti-preferred one.
//! - With the flag `enableHierarchy` a queue without `affinity` has that of its nearest ancestor with one.
//! - The annotation `volcano.sh/nodegroup-resource-limits` of a queue limits what its pods may hold of a group: JSON
//!   such as `{"a": {"cpu": "32"}}`. While it cannot be read, the queue's pods are kept off all nodes.
//!
//! Source: Volcano's nodegroup plugin.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::Ceilings;
use rustc_hash::FxHashMap;

use phalanx_cluster::annotation::NODEGROUP_NAME;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::{NodeGroups, Time};
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec, Flag};
use phalanx_framework::plugin::{
    Attribute, NodeRules, NodeScorer, ObjectField, Plugin, PluginContext, PluginDef, TaskRules, Values,
};

const ARGS: &[ArgSpec] = &[
    ArgSpec {
        name: "strict",
        kind: ArgKind::Bool,
        default: "true",
        doc: "No queue may use nodes without a group; when false, queues that name no groups may.",
    },
    ArgSpec {
        name: "enablePreferredOrder",
        kind: ArgKind::Bool,
        default: "false",
        doc: "Earlier preferred groups score higher.",
    },
];

const READS: &[ObjectField] = &[
    ObjectField::new(NODEGROUP_NAME, "label of a node", "in no group", "The group the node is in."),
    ObjectField::new(
        "spec.affinity",
        "field of a Queue",
        "names no groups",
        "`nodeGroupAffinity` and `nodeGroupAntiAffinity`, each with \
         `requiredDuringSchedulingIgnoredDuringExecution` and `preferredDuringSchedulingIgnoredDuringExecution`: lists \
         of groups.",
    ),
    ObjectField::new(
        "volcano.sh/nodegroup-resource-limits",
        "annotation of a Queue",
        "no limit",
        "What its pods may hold of a group: `{\"a\": {\"cpu\": \"32\"}}`. A value that cannot be read keeps them off all nodes.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "nodegroup",
    summary: "Queues use the node groups that they name, and no more of a group than their limit.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(NodeGroup::open(opening)),
};

struct NodeGroup {
    strict: bool,
    ordered: bool,
    /// The rules of each queue, with their hash.
    queues: FxHashMap<QueueId, (Arc<QueueNodeGroups>, u64)>,
}

/// The node groups and limits of a queue.
#[derive(Debug, PartialEq, Eq, Hash)]
struct QueueNodeGroups {
    /// `None` when the queue names no group.
    groups: Option<NodeGroups>,
    limits: Vec<(Arc<str>, Ceilings)>,
    unreadable: Option<Arc<str>>,
    strict: bool,
    ordered: bool,
}

impl NodeGroup {
    fn open(opening: PluginContext<'_>) -> Self {
        let (strict, ordered) =
            (opening.args.bool("strict", true), opening.args.bool("enablePreferredOrder", false));
        let mut plugin = Self { strict, ordered, queues: FxHashMap::default() };
        let inherits = opening.flags.on(Flag::Hierarchy);
        for id in opening.cluster.queues.ids() {
            let rules = plugin.rules(opening.cluster, id, inherits);
            let hash = hash_of(&rules);
            plugin.queues.insert(id, (Arc::new(rules), hash));
        }
        plugin
    }

    fn rules(&self, cluster: &Cluster, id: QueueId, inherits: bool) -> QueueNodeGroups {
        let queue = &cluster.queues[id];
        let of = |id: QueueId| cluster.queues[id].node_groups.as_ref();
        let named = if inherits { cluster.queue_path(id).find_map(of) } else { of(id) };
        QueueNodeGroups {
            groups: named.filter(|groups| **groups != NodeGroups::default()).cloned(),
            limits: queue.group_limits.clone(),
            unreadable: queue.group_limits_fault.clone(),
            strict: self.strict,
            ordered: self.ordered,
        }
    }

    fn rules_of(&self, cluster: &Cluster, task: TaskId) -> Option<(QueueId, &(Arc<QueueNodeGroups>, u64))> {
        let queue = cluster.jobs[cluster.tasks[task].job?].queue;
        Some((queue, self.queues.get(&queue)?))
    }

    /// The groups where the queue would exceed its limit with this task.
    fn full(cluster: &Cluster, task: TaskId, queue: QueueId, rules: &QueueNodeGroups) -> Vec<Arc<str>> {
        let full = |(at, (_, limit)): &(usize, &(Arc<str>, Ceilings))| {
            let mut held = cluster.group_held((queue, *at));
            // A task nominated to the group counts there already.
            if cluster.counted_in(task) != Some((queue, *at)) {
                held.add(cluster.request_of(task));
            }
            limit.exceeded_by(&held).is_some()
        };
        rules.limits.iter().enumerate().filter(full).map(|(_, (group, _))| group.clone()).collect()
    }
}

/// Never 0.
fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

impl Plugin for NodeGroup {
    /// With limits by group, a pod that leaves one node of a group may make a pod fit on another node of the group.
    fn refusal_holds_until(&self, cluster: &Cluster, job: JobId) -> Option<Time> {
        cluster.queues[cluster.jobs[job].queue].group_limits.is_empty().then_some(Time::NEVER)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        Some(self)
    }
}

impl TaskRules for NodeGroup {
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        let Some((queue, (rules, hash))) = self.rules_of(cluster, task) else { return 0 };
        if rules.limits.is_empty() {
            *hash
        } else {
            hash_of(&(hash, Self::full(cluster, task, queue, rules)))
        }
    }

    fn task_filters(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let Some((queue, (own, _))) = self.rules_of(cluster, task) else { return };
        rules.reads.push((Attribute::Label(NODEGROUP_NAME.into()), Values::All));
        let full = Self::full(cluster, task, queue, own);
        let own = own.clone();
        rules.filter(move |node| own.check(&full, node));
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let Some((_, (own, _))) = self.rules_of(cluster, task) else { return };
        if own.groups.is_some() {
            rules.reads.push((Attribute::Label(NODEGROUP_NAME.into()), Values::All));
            rules.scorers.push(Box::new(NodeGroupScorer(own.clone())));
        }
    }
}

impl QueueNodeGroups {
    /// Whether the queue may use a node; `full` are groups of whose nodes it has its limit.
    fn check(&self, full: &[Arc<str>], node: &Node) -> Result<(), Unfit> {
        if let Some(why) = &self.unreadable {
            return Err(Unfit::Other(format!("node(s) could not be judged: {why}").into()));
        }
        let refused = |text: &str| Err(Unfit::Other(text.into()));
        match (&self.groups, node.label(NODEGROUP_NAME)) {
            (None, None) if !self.strict => Ok(()),
            (_, None) => refused("node(s) were in no node group"),
            (None, Some(_)) => refused("node(s) were in a node group, and the queue names none"),
            (Some(groups), Some(group)) if !may_use(groups, group) => {
                refused("node(s) were in a node group that is not for the queue")
            }
            (Some(_), Some(group)) if full.iter().any(|full| **full == *group) => {
                refused("node(s) were in a node group of which the queue has its limit")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

fn may_use(groups: &NodeGroups, group: &str) -> bool {
    let among = |list: &[Arc<str>]| list.iter().any(|name| **name == *group);
    let wanted = among(&groups.required) || among(&groups.preferred);
    among(&groups.anti_preferred) || (wanted && !among(&groups.anti_required))
}

struct NodeGroupScorer(Arc<QueueNodeGroups>);

impl NodeScorer for NodeGroupScorer {
    fn score(&self, node: &Node) -> f64 {
        let (Some(groups), Some(group)) = (&self.0.groups, node.label(NODEGROUP_NAME)) else { return 0.0 };
        let position = |list: &[Arc<str>]| list.iter().position(|name| **name == *group);
        if position(&groups.anti_preferred).is_some() {
            return -1.0;
        }
        let required = if position(&groups.required).is_some() { 100.0 } else { 0.0 };
        let preferred = position(&groups.preferred).map_or(0.0, |at| {
            let count = groups.preferred.len();
            50.0 * if self.0.ordered { (count - at) as f64 / count as f64 } else { 1.0 }
        });
        required + preferred
    }

    fn normalise(&self, _: &mut [f64]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::Status;
    use phalanx_cluster::event::{Event, GroupLimits, NodeInfo, PodGroupInfo, PodInfo, QueueInfo, Time};
    use phalanx_framework::conf::Value;
    use phalanx_framework::testing::{
        cluster_of, group, member, node, opened, queue, resources, running, task_of,
    };

    fn groups(required: &str, preferred: &str, anti_required: &str, anti_preferred: &str) -> NodeGroups {
        let list = |text: &str| text.split_whitespace().map(Arc::from).collect();
        NodeGroups {
            required: list(required),
            preferred: list(preferred),
            anti_required: list(anti_required),
            anti_preferred: list(anti_preferred),
        }
    }

    /// A node of a group, or without one for `-`.
    fn of_group(group: &str) -> NodeInfo {
        let mut info = node(group, "cpu=10");
        if group != "-" {
            info.labels.push((NODEGROUP_NAME.into(), group.into()));
        }
        info
    }

    /// A cluster with these queues, node groups a to e, and a pod in queue `q`.
    fn cluster(queues: impl IntoIterator<Item = QueueInfo>) -> Cluster {
        let mut cluster = cluster_of(["a", "b", "c", "d", "e", "-"].map(of_group));
        for queue in queues {
            cluster.apply(queue.into());
        }
        add(&mut cluster, member("g", 0, "cpu=1"));
        cluster.apply(PodGroupInfo { queue: "q".into(), ..group("g", 1) }.into());
        cluster
    }

    fn add(cluster: &mut Cluster, event: impl Into<Event>) {
        cluster.apply(event.into());
    }

    fn open(cluster: &Cluster, list: &[(&str, Value)]) -> NodeGroup {
        opened(NodeGroup::open, cluster, Time(0), list)
    }

    fn rules(plugin: &NodeGroup, cluster: &Cluster) -> NodeRules {
        let (task, mut rules) = (task_of(cluster, "g-0"), NodeRules::default());
        plugin.task_filters(cluster, task, &mut rules);
        plugin.task_scorers(cluster, task, &mut rules);
        rules
    }

    /// The nodes where the pod can run, with their scores.
    fn usable(plugin: &NodeGroup, cluster: &Cluster) -> String {
        let rules = rules(plugin, cluster);
        let fits = |node: &&Node| rules.filters.iter().all(|filter| filter(node).is_ok());
        let score = |node: &Node| rules.scorers.iter().fold(0.0, |sum, scorer| sum + scorer.score(node));
        let nodes = cluster.nodes.iter().map(|(_, node)| node);
        let shown = nodes.filter(fits).map(|node| format!("{}={}", node.name, score(node)));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_run_in_the_node_groups_that_their_queue_names() {
        let on = || Value::from(true);
        for (named, list, expected) in [
            (Some(groups("a", "", "", "")), vec![], "a=100"),
            (Some(groups("a", "b", "", "")), vec![], "a=100 b=50"),
            (Some(groups("a", "a", "", "")), vec![], "a=150"),
            (Some(groups("a b", "", "b", "c")), vec![], "a=100 c=-1"),
            (Some(groups("a", "", "a", "a")), vec![], "a=-1"),
            (Some(groups("", "", "a", "")), vec![], ""),
            (Some(groups("", "b a", "", "")), vec![], "a=50 b=50"),
            (Some(groups("", "b a", "", "")), vec![("enablePreferredOrder", on())], "a=25 b=50"),
            (Some(groups("a", "", "", "")), vec![("strict", false.into())], "a=100"),
            (Some(NodeGroups::default()), vec![], ""),
            (Some(NodeGroups::default()), vec![("strict", false.into())], "-=0"),
            (None, vec![], ""),
            (None, vec![("strict", false.into())], "-=0"),
        ] {
            let cluster = cluster([QueueInfo { node_groups: named.clone(), ..queue("q", 1) }]);
            assert_eq!(usable(&open(&cluster, &list), &cluster), expected, "{named:?} {list:?}");
        }
    }

    #[test]
    fn a_queue_without_affinity_inherits_that_of_an_ancestor() {
        let queues = |own: Option<NodeGroups>| {
            [
                QueueInfo { node_groups: Some(groups("a", "", "", "")), ..queue("top", 1) },
                QueueInfo { parent: "top".into(), ..queue("middle", 1) },
                QueueInfo { parent: "middle".into(), node_groups: own, ..queue("q", 1) },
            ]
        };
        for (own, hierarchy, expected) in [
            (None, true, "a=100"),
            (None, false, ""),
            (Some(groups("b", "", "", "")), true, "b=100"),
            (Some(NodeGroups::default()), true, ""),
        ] {
            let cluster = cluster(queues(own.clone()));
            let mut flags = phalanx_framework::conf::Flags::default();
            flags.set(Flag::Hierarchy, hierarchy);
            let args = phalanx_framework::conf::Args::default();
            let plugin = NodeGroup::open(PluginContext {
                cluster: &cluster,
                args: &args,
                flags,
                now: Time(0),
                before: None,
                extender: None,
            });
            assert_eq!(usable(&plugin, &cluster), expected, "{own:?} {hierarchy}");
        }
    }

    #[test]
    fn a_queue_at_its_limit_of_a_group_gets_no_more_of_its_nodes() {
        let limits = GroupLimits::Each(vec![("a".into(), resources("cpu=2"))]);
        let with =
            QueueInfo { node_groups: Some(groups("a b", "", "", "")), group_limits: limits, ..queue("q", 1) };
        let mut cluster = cluster([with]);
        add(&mut cluster, running(member("g", 1, "cpu=1"), "a"));
        let plugin = open(&cluster, &[]);
        assert_eq!(usable(&plugin, &cluster), "a=100 b=100");
        let before = plugin.scope(&cluster, task_of(&cluster, "g-0"));
        add(&mut cluster, member("g", 2, "cpu=1"));
        let (task, node) = (task_of(&cluster, "g-2"), cluster.node_named("a"));
        cluster.place(task, Status::Allocated, node);
        assert_eq!(usable(&plugin, &cluster), "b=100");
        assert_ne!(plugin.scope(&cluster, task_of(&cluster, "g-0")), before);
        cluster.place(task, Status::Pending, None);
        assert_eq!(usable(&plugin, &cluster), "a=100 b=100");
        assert_eq!(plugin.scope(&cluster, task_of(&cluster, "g-0")), before);
        // Pods of other queues do not count.
        add(&mut cluster, PodInfo { queue: None, ..running(member("h", 0, "cpu=9"), "a") });
        assert_eq!(usable(&open(&cluster, &[]), &cluster), "a=100 b=100");
    }

    #[test]
    fn unreadable_limits_refuse_all_nodes_with_the_reason() {
        let limits = GroupLimits::Unreadable("metadata.annotations: no JSON".into());
        let with =
            QueueInfo { node_groups: Some(groups("a", "", "", "")), group_limits: limits, ..queue("q", 1) };
        let cluster = cluster([with]);
        let plugin = open(&cluster, &[]);
        assert_eq!(usable(&plugin, &cluster), "");
        let node = &cluster.nodes[cluster.node_named("a").unwrap()];
        let unfit = rules(&plugin, &cluster).filters[0](node).unwrap_err();
        assert_eq!(unfit.text(&cluster.dims), "node(s) could not be judged: metadata.annotations: no JSON");
    }
}

//! Random clusters in which every plugin has an effect, and configurations to run them with.
use std::sync::Arc;

use phalanx_cluster::annotation::{
    HIERARCHY, HIERARCHY_WEIGHTS, NODEGROUP_NAME, REVOCABLE_ZONE, SLA_WAITING_TIME, TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER,
};
use phalanx_cluster::event::{
    AccessModes, Constraints, Event, GroupLimits, HyperNodeInfo, HyperNodeMember, Key, Measure,
    NetworkTopology, NodeGroups, NodeInfo, NodeTerm, NodeUsage, Operator, PdbInfo, PodGroupInfo, PodInfo,
    PodVolume, PvcInfo, QueueInfo, QuotaInfo, Requirement, StorageClassInfo, SubGroupPolicy, TierLimit, Time,
    VolumeInfo,
};
use phalanx_cluster::label::Selector;
use phalanx_conf::Known;
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

use crate::TestCluster;
use crate::random::{Script, script};
use phalanx_framework::testing::resources;

/// A named configuration, which is parsed from a text as a user would write it.
#[derive(Clone)]
pub struct Named {
    /// The name in messages.
    pub name: String,
    /// The configuration.
    pub conf: Conf,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Reads a configuration; a problem in it fails the test.
pub fn named(name: &str, text: &str) -> Named {
    let parsed = phalanx_conf::parse(text, &Known::builtin());
    // A plugin without the action shuffle gets a warning, but its other hooks count.
    let mut slips =
        parsed.problems.iter().filter(|problem| !problem.what.ends_with(" without action shuffle"));
    assert!(slips.next().is_none(), "{name}: {:?}", parsed.problems);
    Named { name: name.into(), conf: parsed.conf.expect("a configuration without errors") }
}

/// Every file under `config/`.
fn shipped() -> Vec<Named> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config");
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).expect("config/").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    paths.sort();
    let name = |path: &std::path::Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| named(&name(path), &std::fs::read_to_string(path).expect("a file"))).collect()
}

/// One tier with a plugin that keeps sums or has an order of its own, before the plugins that every cluster needs.
fn around(plugin: &str) -> Named {
    let text = format!(
        "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: {plugin}\n- plugins:\n  - name: priority\n  \
         - name: gang\n  - name: conformance\n  - name: predicates\n  - name: nodeorder\n"
    );
    named(plugin.lines().next().unwrap_or_default(), &text)
}

/// A configuration with shuffle in each cycle, where places for successors expire.
fn moving() -> Named {
    let text = r#"
actions: "enqueue, allocate, backfill, shuffle"
configurations:
- name: shuffle
  arguments: {keepPlace: 2s}
tiers:
- plugins:
  - name: rescheduling
    arguments:
      interval: 1s
      strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 60}, targetThresholds: {cpu: 20}}}]
  - name: tdm
    arguments: {tdm.revocable-zone.day: 0:00-0:00, tdm.evict.period: 1s}
- plugins:
  - name: priority
  - name: gang
  - name: capacity
  - name: predicates
  - name: nodeorder
"#;
    named("moving", text)
}

/// A configuration without priority: jobs are ordered by age.
pub fn by_age() -> Named {
    let text = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n";
    named("by age", text)
}

/// The shipped configurations, and one for each plugin that none of them has.
pub fn confs() -> Vec<Named> {
    let plugins = [
        "capacity",
        "capacity\n    enableHierarchy: true\n    arguments:\n      ancestorReclaimLevel: 2",
        "drf\n    enableHierarchy: true",
        "nodegroup",
        "nodegroup\n    enableHierarchy: true\n    arguments:\n      strict: false",
        "sla\n    arguments:\n      sla-waiting-time: 5s",
        "tdm\n    arguments:\n      tdm.revocable-zone.day: 0:00-12:00\n      tdm.revocable-zone.night: 12:01-23:59",
        "task-topology",
        "network-topology-aware",
        "resource-strategy-fit",
        "resource-strategy-fit\n    arguments:\n      proportional:\n        enable: true\n        resources: memory\n        \
         resourceProportion: {memory.cpu: 0.0000002, memory.memory: 0}",
        "resourcequota",
        "rescheduling",
        "usage",
        "pdb",
        "cdp",
    ];
    shipped().into_iter().chain(plugins.map(around)).chain([moving(), by_age()]).collect()
}

/// Configurations with actions that evict, in several orders.
pub fn evicting() -> Vec<Named> {
    let actions = [
        "enqueue, allocate, backfill, preempt",
        "enqueue, allocate, preempt, reclaim, backfill",
        "reclaim, allocate, backfill",
        "allocate, gangpreempt, gangreclaim, backfill",
    ];
    let tiers = [
        "- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n  - name: drf\n  - name: predicates\n  \
         - name: proportion\n  - name: nodeorder\n",
        "- plugins:\n  - name: priority\n  - name: gang\n  - name: pdb\n  - name: predicates\n  - name: capacity\n",
    ];
    let text = |actions: &str, tiers: &str| format!("actions: \"{actions}\"\ntiers:\n{tiers}");
    let each = actions.iter().flat_map(|actions| tiers.map(|tiers| named(actions, &text(actions, tiers))));
    each.collect()
}

/// A cluster whose objects have fields and annotations for all plugins.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The configuration.
    pub conf: Named,
    /// The random cluster.
    pub script: Script,
    /// Numbers that pick fields and annotations of objects in turn; 0 is none.
    picks: Vec<usize>,
}

/// A script under any configuration.
pub fn setting() -> impl Strategy<Value = Setting> {
    let picks = prop::collection::vec(0usize..12, 16);
    (prop::sample::select(confs()), script(), picks).prop_map(|(conf, script, picks)| Setting {
        conf,
        script,
        picks,
    })
}

const ONCE: AccessModes = AccessModes(1);

fn requirement(key: &str, operator: Operator, value: &str) -> Requirement {
    Requirement { key: key.into(), operator, values: vec![value.into()] }
}

/// A list to pick from.
type Choice<'a> = &'a [&'a str];

impl Setting {
    /// The cluster before its first cycle.
    pub fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf.conf.clone());
        for event in self.besides() {
            test.add(event);
        }
        for (at, event) in self.script.events().into_iter().enumerate() {
            test.add(match event {
                Event::Queue(queue) => self.queue(at, *queue).into(),
                Event::Node(node) => self.node(at, node).into(),
                Event::PodGroup(group) => self.group(at, *group).into(),
                Event::Pod(pod) => self.pod(at, *pod).into(),
                event => event,
            });
        }
        test
    }

    /// Objects that are not in a script: storage, quotas, budgets, usage of nodes.
    fn besides(&self) -> Vec<Event> {
        let class = |name: &str, provisioner: Option<&str>| {
            let provisioner = provisioner.map(Arc::from);
            Event::from(StorageClassInfo {
                name: name.into(),
                provisioner,
                waits: true,
                topologies: Vec::new(),
            })
        };
        let quota =
            QuotaInfo { key: Key::new("ns", "quota"), hard: resources("cpu=9"), used: resources("cpu=1") };
        let labels = |app: &str| Selector(vec![requirement("app", Operator::In, app)]);
        let budget = PdbInfo {
            key: Key::new("ns", "budget"),
            selector: Some(labels("a")),
            allowed: 1,
            ..PdbInfo::default()
        };
        let hyper_node = |name: &str, tier, members: &[&str]| {
            let of = |name: &&str| match name.strip_prefix('s') {
                Some(_) => HyperNodeMember::HyperNode((*name).into()),
                None => HyperNodeMember::Node((*name).into()),
            };
            let members = members.iter().map(of).collect();
            Event::from(HyperNodeInfo { name: name.into(), tier, members, ..HyperNodeInfo::default() })
        };
        let mut events = vec![class("local", None), class("made", Some("csi")), quota.into(), budget.into()];
        events.push(hyper_node("s0", 1, &["n0", "n1"]));
        events.push(hyper_node("s1", 1, &["n2", "n3"]));
        events.push(hyper_node("s2", 2, &["s0", "s1"]));
        for at in 0..4 {
            events.push(self.volume(at).into());
            events.push(self.claim(at).into());
            let part = |field| Measure::Part(self.number(at, field) as u32 * 100_000);
            let node = format!("n{at}").into();
            events.push(Event::NodeUsage(NodeUsage {
                node,
                cpu: part(0),
                memory: part(1),
                since: Time(0),
                at: None,
            }));
        }
        events
    }

    /// A volume on one node.
    fn volume(&self, at: usize) -> VolumeInfo {
        let host =
            requirement("kubernetes.io/hostname", Operator::In, &format!("n{}", self.number(at, 1) % 5));
        VolumeInfo {
            name: format!("v{at}").into(),
            class: "local".into(),
            size: 1 + (self.number(at, 0) % 3) as i64,
            modes: ONCE,
            nodes: Some(vec![NodeTerm { labels: vec![host], ..NodeTerm::default() }]),
            available: true,
            ..VolumeInfo::default()
        }
    }

    fn claim(&self, at: usize) -> PvcInfo {
        PvcInfo {
            key: Key::new("ns", &format!("c{at}")),
            uid: format!("c{at}").into(),
            class: self.pick(at, 2, &["local", "local", "made"]).into(),
            modes: ONCE,
            size: 1 + (self.number(at, 3) % 2) as i64,
            ..PvcInfo::default()
        }
    }

    fn number(&self, object: usize, field: usize) -> usize {
        self.picks[(object * 7 + field * 3) % self.picks.len()]
    }

    fn pick<'a>(&self, object: usize, field: usize, from: Choice<'a>) -> &'a str {
        from[self.number(object, field) % from.len()]
    }

    fn queue(&self, at: usize, queue: QueueInfo) -> QueueInfo {
        let ways = ["", "root/a|1/1", "root/a/b|1/2/1", "root/a/c|1/2/3", "root/d|1/2"];
        let (way, weights) = self.pick(at, 0, &ways).split_once('|').unwrap_or_default();
        let pairs = [(HIERARCHY, way), (HIERARCHY_WEIGHTS, weights)];
        let groups = ["", "a", "b", "a b"];
        let list = |field| self.pick(at, field, &groups).split_whitespace().map(Arc::from).collect();
        let groups = NodeGroups { required: list(1), preferred: list(2), ..NodeGroups::default() };
        let limit = self.pick(at, 3, &["", "cpu=2", "cpu=1 memory=2Gi", "memory=3Gi"]);
        let limits = Some(("a".into(), resources(limit))).filter(|_| !limit.is_empty());
        // The parent is one of the first queues, which are added first.
        let parent = self.number(at, 4) % 4;
        QueueInfo {
            annotations: pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            node_groups: Some(groups).filter(|groups| *groups != NodeGroups::default()),
            group_limits: GroupLimits::Each(limits.into_iter().collect()),
            parent: if parent < at { format!("q{parent}").into() } else { "".into() },
            deserved: resources(self.pick(at, 5, &["", "cpu=1", "cpu=3", "memory=2Gi"])),
            ..queue
        }
    }

    fn node(&self, at: usize, node: NodeInfo) -> NodeInfo {
        let labels = [
            (NODEGROUP_NAME, self.pick(at, 0, &["", "a", "b"])),
            (REVOCABLE_ZONE, self.pick(at, 1, &["", "", "day", "night"])),
        ];
        let set = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let mut labels = node.labels;
        labels.extend(set.map(|(key, value)| (key.into(), value.into())));
        labels.sort();
        NodeInfo { labels, ..node }
    }

    fn group(&self, at: usize, group: PodGroupInfo) -> PodGroupInfo {
        let annotations = [
            (SLA_WAITING_TIME, self.pick(at, 0, &["", "1s", "2s", "1ms"])),
            (TASK_TOPOLOGY_AFFINITY, self.pick(at, 1, &["", "m", "m,w", "w;m"])),
            (TASK_TOPOLOGY_ANTI_AFFINITY, self.pick(at, 2, &["", "m", "m,w", "w"])),
            (TASK_TOPOLOGY_TASK_ORDER, self.pick(at, 3, &["", "m,w", "w,m"])),
        ];
        let with_sub_groups = self.honours_topology() && self.number(at, 6).is_multiple_of(3);
        let sub_groups = with_sub_groups.then(|| SubGroupPolicy {
            name: "p".into(),
            keys: vec!["app".into()],
            size: 1 + self.number(at, 7) as u32 % 3,
            min: self.number(at, 8) as u32 % 2,
            topology: self.topology(self.number(at, 9)),
            ..SubGroupPolicy::default()
        });
        PodGroupInfo {
            annotations: annotations.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            preemptable: [None, Some(true), Some(false)][self.number(at, 4) % 3],
            topology: self.topology(self.number(at, 5)),
            sub_groups: Vec::from_iter(sub_groups),
            ..group
        }
    }

    /// Under other configurations such groups would only wait.
    fn honours_topology(&self) -> bool {
        self.conf.name == "network-topology-aware"
    }

    fn topology(&self, number: usize) -> Option<NetworkTopology> {
        let hard = |tier| Some(NetworkTopology::Hard(TierLimit::Number(tier)));
        let all = [None, Some(NetworkTopology::Soft), hard(1), hard(2)];
        all[number % 4].clone().filter(|_| self.honours_topology())
    }

    fn pod(&self, at: usize, pod: PodInfo) -> PodInfo {
        let revocable = self.number(at, 0) % 2 == 1;
        let claims: [&[usize]; 6] = [&[], &[], &[0], &[1], &[0, 2], &[3]];
        let volumes = claims[self.number(at, 3) % 6]
            .iter()
            .map(|claim| PodVolume { claim: Key::new("ns", &format!("c{claim}")), owner: None });
        PodInfo {
            role: if pod.role.is_empty() { "w".into() } else { pod.role },
            preemptable: [None, Some(true), Some(false)][self.number(at, 1) % 3],
            priority: Some(self.number(at, 2) as i32 % 3),
            constraints: Arc::new(Constraints {
                revocable,
                volumes: volumes.chain(pod.constraints.volumes.iter().cloned()).collect(),
                ..Constraints::default()
            }),
            labels: [("app".into(), self.pick(at, 4, &["b", "a"]).into())].into_iter().collect(),
            ..pod
        }
    }
}

//! The HyperNode controller on nodes with labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_api::topology::HyperNode;
use phalanx_controllers::hyper_node::{Labels, Observed, Settings, reconcile};
use phalanx_controllers::{Change, Object};
use serde_json::{Value, json};

const TWO_TIERS: &str = "
networkTopologyDiscovery:
- source: label
  enabled: true
  interval: 10m
  config:
    networkTopologyTypes:
      Topology_A:
      - nodeLabel: net/spine
      - nodeLabel: net/rack
      - nodeLabel: kubernetes.io/hostname
";

/// Nodes and HyperNodes, on which the changes of the controller are carried out.
#[derive(Default)]
struct Cluster {
    nodes: BTreeMap<String, Labels>,
    hyper_nodes: BTreeMap<String, HyperNode>,
    counts: BTreeMap<Arc<str>, usize>,
    settings: Option<Settings>,
    writes: usize,
}

impl Cluster {
    fn new(conf: &str, nodes: &[(&str, &str, &str)]) -> Self {
        let (settings, faults) = Settings::read(conf);
        assert!(faults.is_empty(), "{faults:?}");
        let mut cluster = Self { settings, ..Self::default() };
        for (name, spine, rack) in nodes {
            cluster.node(name, spine, rack);
        }
        cluster.settle();
        cluster
    }

    /// A node; an empty label is none.
    fn node(&mut self, name: &str, spine: &str, rack: &str) {
        let labels = [("net/spine", spine), ("net/rack", rack), ("kubernetes.io/hostname", name)];
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.nodes.insert(name.to_owned(), labels);
    }

    fn hyper_node(&mut self, object: Value) {
        let object: HyperNode = serde_json::from_value(object).unwrap();
        self.hyper_nodes.insert(object.metadata.name.clone().unwrap(), object);
    }

    fn changes(&self) -> Vec<Change> {
        let hyper_nodes: Vec<&HyperNode> = self.hyper_nodes.values().collect();
        let nodes = self.nodes.iter().map(|(name, labels)| (name.as_str(), labels)).collect();
        let settings = self.settings.as_ref();
        let seen = Observed { hyper_nodes: &hyper_nodes, nodes: &nodes, counts: &self.counts, settings };
        reconcile(&seen).changes
    }

    fn settle(&mut self) {
        for change in self.changes() {
            self.writes += 1;
            match change {
                Change::Create(Object::HyperNode(object)) => {
                    let name = object.metadata.name.clone().unwrap();
                    assert!(self.hyper_nodes.insert(name, *object).is_none(), "it was there already");
                }
                Change::Replace(Object::HyperNode(object))
                | Change::Status { object: Object::HyperNode(object), .. } => {
                    let name = object.metadata.name.clone().unwrap();
                    assert!(self.hyper_nodes.insert(name, *object).is_some(), "it was there");
                }
                Change::Delete(target) => {
                    assert!(self.hyper_nodes.remove(&target.name).is_some(), "it was there");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.changes(), [], "what was written is not written again");
    }

    /// "tier label=value: members" of each HyperNode, with the labels of members that are HyperNodes.
    fn tree(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.hyper_nodes.values().map(|one| self.line(one)).collect();
        lines.sort();
        lines
    }

    fn line(&self, one: &HyperNode) -> String {
        let member = |name: &str| match self.hyper_nodes.get(name) {
            Some(below) => value(below),
            None => name.to_owned(),
        };
        let members =
            one.spec.members.iter().map(|it| member(&it.selector.exact_match.as_ref().unwrap().name));
        let mut members: Vec<String> = members.collect();
        members.sort();
        format!("{} {}: {}", one.spec.tier.unwrap(), value(one), members.join(" "))
    }
}

/// The value of the label that a HyperNode was made of.
fn value(one: &HyperNode) -> String {
    let labels = one.metadata.labels.clone().unwrap_or_default();
    labels.into_iter().find(|(key, _)| key.starts_with("net/")).map_or_else(String::new, |(_, value)| value)
}

const NODES: [(&str, &str, &str); 5] =
    [("n1", "s1", "r1"), ("n2", "s1", "r1"), ("n3", "s1", "r2"), ("n4", "s2", "r3"), ("n5", "", "r4")];

#[test]
fn labels_of_nodes_make_a_tree_with_the_names_of_volcano() {
    let cluster = Cluster::new(TWO_TIERS, &NODES);
    assert_eq!(
        cluster.tree(),
        ["1 r1: n1 n2", "1 r2: n3", "1 r3: n4", "1 r4: n5", "2 s1: r1 r2", "2 s2: r3"].map(str::to_owned),
        "n5 has no label of tier 2"
    );
    let (name, rack) = cluster.hyper_nodes.iter().find(|(_, one)| value(one) == "r1").unwrap();
    let suffix = name.strip_prefix("hypernode-topology-a-tier1-").unwrap();
    assert!(!suffix.is_empty() && suffix.chars().all(|char| char.is_ascii_alphanumeric()), "{name}");
    assert_eq!(rack.spec.tier_name.as_deref(), Some("net/rack"));
    let labels = serde_json::to_value(&rack.metadata.labels).unwrap();
    assert_eq!(
        labels,
        json!({"net/rack": "r1", "volcano.sh/network-topology-source": "label",
        "volcano.sh/network-topology-profile": "topology-a"})
    );
    let again = Cluster::new(TWO_TIERS, &NODES);
    assert_eq!(again.hyper_nodes, cluster.hyper_nodes, "names do not change from run to run");
}

/// Two generations of hardware: the older one has no level below the rack.
const TWO_PROFILES: &str = "
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      old:
        nodeSelector: {matchLabels: {model: old}}
        levels:
        - {nodeLabel: net/spine, tierName: spine}
        - {nodeLabel: net/rack, tierName: rack}
        - {nodeLabel: kubernetes.io/hostname}
      new:
        nodeSelector: {matchExpressions: [{key: model, operator: In, values: [new, newer]}]}
        levels:
        - {nodeLabel: net/spine, tierName: spine}
        - {nodeLabel: net/rack, tierName: rack}
        - {nodeLabel: net/nvlink}
        - {nodeLabel: kubernetes.io/hostname}
      rest: [{nodeLabel: net/rack}, {nodeLabel: kubernetes.io/hostname}]
";

#[test]
fn each_type_has_its_own_nodes_levels_and_names_of_tiers() {
    let mut cluster = Cluster::new(TWO_PROFILES, &[]);
    for (node, model) in [("n1", "old"), ("n2", "new"), ("n3", "newer"), ("n4", "none")] {
        let labels = [("model", model), ("net/spine", "s1"), ("net/rack", "r1"), ("net/nvlink", "v1")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        cluster.nodes.insert(node.to_owned(), labels);
    }
    cluster.settle();
    let line = |one: &HyperNode| {
        let profile = &one.metadata.labels.as_ref().unwrap()["volcano.sh/network-topology-profile"];
        let (tier, name) = (one.spec.tier.unwrap(), one.spec.tier_name.as_deref().unwrap());
        format!("{profile} {tier} {name}, {} members", one.spec.members.len())
    };
    let mut lines: Vec<String> = cluster.hyper_nodes.values().map(line).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "new 1 net/nvlink, 2 members",
            "new 2 rack, 1 members",
            "new 3 spine, 1 members",
            "old 1 rack, 1 members",
            "old 2 spine, 1 members",
            "rest 1 net/rack, 1 members",
        ],
        "equal labels of two types are two HyperNodes, and the rest has n4 only"
    );
}

#[test]
fn a_type_with_a_fault_stays_as_it_is_and_holds_up_no_other() {
    let mut cluster = Cluster::new(TWO_TIERS, &NODES);
    let of_a = cluster.hyper_nodes.clone();
    let (settings, faults) = Settings::read(
        "
networkTopologyDiscovery:
- source: [5]
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      Topology_A: {levels: [{nodeLabel: net/rack}]}
      b: [{nodeLabel: net/spine}, {nodeLabel: kubernetes.io/hostname}]
",
    );
    assert_eq!(faults.len(), 2, "{faults:?}");
    cluster.settings = settings;
    cluster.nodes.clear();
    cluster.node("n9", "s9", "");
    cluster.settle();
    let (kept, made): (BTreeMap<_, _>, BTreeMap<_, _>) =
        cluster.hyper_nodes.clone().into_iter().partition(|(name, _)| of_a.contains_key(name));
    assert_eq!(kept, of_a, "not even without their nodes are they deleted");
    assert_eq!(made.values().map(value).collect::<Vec<_>>(), ["s9"]);
}

#[test]
fn the_tree_follows_the_nodes() {
    let mut cluster = Cluster::new(TWO_TIERS, &NODES);
    cluster.node("n2", "s1", "r2");
    cluster.nodes.remove("n4");
    cluster.node("n5", "s1", "r4");
    cluster.settle();
    assert_eq!(
        cluster.tree(),
        ["1 r1: n1", "1 r2: n2 n3", "1 r4: n5", "2 s1: r1 r2 r4"].map(str::to_owned),
        "no node backs r3 and s2 any more"
    );
}

#[test]
fn hyper_nodes_made_by_hand_are_never_touched() {
    let mut cluster = Cluster::new(TWO_TIERS, &NODES);
    let name =
        cluster.hyper_nodes.values().find(|one| value(one) == "r1").unwrap().metadata.name.clone().unwrap();
    let by_hand =
        |name: &str| json!({"metadata": {"name": name, "labels": {"net/rack": "r1"}}, "spec": {"tier": 9}});
    cluster.hyper_nodes.clear();
    cluster.hyper_node(by_hand("by-hand"));
    cluster.hyper_node(by_hand(&name));
    cluster.settle();
    let kept: Vec<_> = cluster.hyper_nodes.values().filter(|one| one.spec.tier == Some(9)).collect();
    assert_eq!(kept.len(), 2, "one has even the name of one that is to be made: {kept:?}");
    cluster.nodes.clear();
    cluster.settle();
    assert_eq!(cluster.hyper_nodes.len(), 2);
}

#[test]
fn hyper_nodes_that_volcano_discovered_keep_their_names_and_what_others_wrote() {
    let mut cluster = Cluster::new(TWO_TIERS, &[]);
    cluster.hyper_node(json!({
        "metadata": {"name": "hypernode-topology-a-tier1-x7kq2", "annotations": {"team": "net"},
            "labels": {"net/rack": "r1", "volcano.sh/network-topology-source": "label", "own": "yes"}},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "gone"}}}]},
    }));
    cluster.node("n1", "", "r1");
    cluster.settle();
    assert_eq!(cluster.tree(), ["1 r1: n1"]);
    let one = &cluster.hyper_nodes["hypernode-topology-a-tier1-x7kq2"];
    assert_eq!(one.metadata.labels.as_ref().unwrap()["own"], "yes");
    assert_eq!(one.metadata.annotations.as_ref().unwrap()["team"], "net");
    assert_eq!(one.spec.tier_name.as_deref(), Some("net/rack"));
}

#[test]
fn without_discovery_what_was_discovered_stays() {
    let mut cluster = Cluster::new(TWO_TIERS, &NODES);
    let before = cluster.hyper_nodes.clone();
    cluster.settings = None;
    cluster.nodes.clear();
    cluster.settle();
    assert_eq!(cluster.hyper_nodes, before);
}

#[test]
fn a_count_is_written_when_it_changes() {
    let mut cluster = Cluster::default();
    cluster.hyper_node(json!({"metadata": {"name": "a"}, "spec": {"tier": 1}}));
    cluster.hyper_node(json!({"metadata": {"name": "b"}, "spec": {"tier": 2}, "status": {"nodeCount": 3}}));
    cluster.hyper_node(
        json!({"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"tier": 2}}),
    );
    cluster.counts = [("a", 0), ("b", 3), ("c", 5)].map(|(name, count)| (name.into(), count)).into();
    cluster.settle();
    let count = |name: &str| cluster.hyper_nodes[name].status.as_ref().map(|status| status.node_count);
    assert_eq!((count("a"), count("b"), count("c")), (Some(0), Some(3), None));
    assert_eq!(cluster.writes, 1, "0 is written once, so that it is known");
}

#[test]
fn a_fault_in_a_source_is_one_line_and_holds_up_no_other() {
    let source = |text: &str| format!("networkTopologyDiscovery: [{text}]");
    for (text, is_on, expected) in [
        (String::new(), false, ""),
        ("networkTopologyDiscovery:".to_owned(), false, ""),
        (source("{source: label, enabled: false}"), false, ""),
        (source("{source: label, enabled: true}"), true, ""),
        (
            source("{source: ufm, enabled: true}, {source: label, enabled: true}"),
            true,
            "[0].source: \"ufm\" is not supported, expected label",
        ),
        (
            source("{source: label, enabled: true}, {source: label, enabled: true}"),
            true,
            "[1].source: label is there already, ignored",
        ),
        (
            source("{source: label, enabled: maybe}"),
            false,
            "[0]: invalid type: string \"maybe\", expected a boolean",
        ),
        (
            source("{source: label, enabled: true, config: {networkTopologyTypes: [a]}}"),
            false,
            "[0].config: invalid type: sequence, expected a map",
        ),
    ] {
        let (settings, faults) = Settings::read(&text);
        let faults: Vec<&str> =
            faults.iter().filter_map(|fault| fault.strip_prefix("networkTopologyDiscovery")).collect();
        assert_eq!((settings.is_some(), faults.join("\n").as_str()), (is_on, expected), "{text}");
    }
    let (settings, faults) = Settings::read("networkTopologyDiscovery: {source: label}");
    assert!(settings.is_none() && faults[0].contains("networkTopologyDiscovery"), "{faults:?}");
}

#[test]
fn a_fault_in_a_type_is_one_line() {
    let last = "levels: expected a nodeLabel for each tier, and kubernetes.io/hostname without tierName as the last one";
    let leaf = "{nodeLabel: kubernetes.io/hostname}";
    for (types, expected) in [
        ("a: [{nodeLabel: x}, {nodeLabel: y}, {nodeLabel: x}]", "a: nodeLabel x is there twice"),
        ("a: [{label: x}]", "a: [0]: unknown field `label`, expected `nodeLabel` or `tierName`"),
        ("a: x", "a: expected a list of nodeLabel, or nodeSelector and levels"),
        ("a: {nodeLabels: []}", "a: unknown field `nodeLabels`, expected `nodeSelector` or `levels`"),
        (
            "a: {levels: [{nodeLabel: x, tierName: t}, {nodeLabel: y, tierName: t}, LEAF]}",
            "a: tierName t is there twice",
        ),
        ("a: {levels: [{nodeLabel: x}, {nodeLabel: y}]}", "a: LAST"),
        ("a: {levels: [LEAF]}", "a: LAST"),
        ("a: {levels: [{nodeLabel: x}, {nodeLabel: kubernetes.io/hostname, tierName: node}]}", "a: LAST"),
        ("a: {levels: [{nodeLabel: x}, {tierName: y}]}", "a: levels[1]: missing field `nodeLabel`"),
        (
            "a: {nodeSelector: {matchExpressions: [{key: k, operator: Near}]}, levels: [{nodeLabel: x}, LEAF]}",
            "a: nodeSelector: failed to parse value as expression: Invalid expression operator",
        ),
        (
            "abcdefghijklmnopqrstu: []",
            "abcdefghijklmnopqrstu: the name of the type has 21 characters, expected at most 20",
        ),
        (
            "-a: []",
            "-a: the name of the type cannot stand in names of objects, expected letters, digits and -",
        ),
        (
            "a_b: [], A-b: []",
            "A-b: another type counts as \"a-b\" too\na_b: another type counts as \"a-b\" too",
        ),
    ] {
        let config = format!("{{networkTopologyTypes: {{{}}}}}", types.replace("LEAF", leaf));
        let (settings, faults) = Settings::read(&format!(
            "networkTopologyDiscovery: [{{source: label, enabled: true, config: {config}}}]"
        ));
        assert!(settings.is_some_and(|settings| settings.types.is_empty()), "{types}");
        let field = "networkTopologyDiscovery[0].config.networkTopologyTypes.";
        let faults: Vec<&str> = faults.iter().filter_map(|fault| fault.strip_prefix(field)).collect();
        assert_eq!(faults.join("\n"), expected.replace("LAST", last), "{types}");
    }
}

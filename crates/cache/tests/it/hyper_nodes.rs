//! HyperNodes.

use phalanx_api::topology::HyperNode;
use phalanx_cache::{Interner, faults_of_hyper_node};
use phalanx_cluster::event::{HyperNodeInfo, HyperNodeMember};

use crate::object;

fn hyper_node(yaml: &str) -> HyperNodeInfo {
    let hyper_node: HyperNode = object(yaml);
    phalanx_cache::hyper_node(&hyper_node, &mut Interner::default())
}

#[test]
fn all_fields_of_a_hyper_node_are_read() {
    let info = hyper_node(
        "
metadata: {name: s1}
spec:
  tier: 2
  tierName: spine
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: Node, selector: {regexMatch: {pattern: '^n[2-4]$'}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}
  - {type: HyperNode, selector: {exactMatch: {name: rack-7}}}
status: {nodeCount: 9}",
    );
    assert_eq!((&*info.name, info.tier, info.tier_name.as_deref()), ("s1", 2, Some("spine")));
    assert_eq!(info.invalid, None);
    let [HyperNodeMember::Node(name), HyperNodeMember::NodePattern(pattern), labels, below] =
        &info.members[..]
    else {
        panic!("{:?}", info.members)
    };
    assert_eq!((&**name, &**pattern), ("n1", "^n[2-4]$"));
    let HyperNodeMember::NodeLabels(selector) = labels else { panic!("{labels:?}") };
    let matches = |rack: &str| selector.matches(&[("rack".into(), rack.into())].into_iter().collect());
    assert_eq!(["r1", "r2"].map(matches), [true, false]);
    assert_eq!(below, &HyperNodeMember::HyperNode("rack-7".into()));
}

/// Go clients leave it out.
#[test]
fn a_hyper_node_without_a_tier_has_tier_0() {
    let info = hyper_node("{metadata: {name: a}, spec: {members: []}}");
    assert_eq!((info.tier, info.tier_name, info.invalid), (0, None, None));
}

#[test]
fn a_member_that_cannot_be_read_is_named_and_the_others_are_kept() {
    let one_of = "expected exactly one of exactMatch, regexMatch and labelMatch";
    for (member, expected) in [
        ("{type: Node}", format!("selector: {one_of}")),
        (
            "{type: Node, selector: {exactMatch: {name: a}, regexMatch: {pattern: b}}}",
            format!("selector: {one_of}"),
        ),
        (
            "{type: Node, selector: {regexMatch: {pattern: 'n('}}}",
            "selector.regexMatch.pattern: \"n(\" is no regular expression (RE2)".to_owned(),
        ),
        (
            "{type: Node, selector: {regexMatch: {pattern: '(((a{1000}){1000}){1000})'}}}",
            "selector.regexMatch.pattern: the regular expression takes more than 1048576 bytes".to_owned(),
        ),
        (
            "{type: Node, selector: {labelMatch: {}}}",
            "selector.labelMatch: empty, which selects no node; expected matchLabels or matchExpressions"
                .to_owned(),
        ),
        (
            "{type: Node, selector: {labelMatch: {matchExpressions: [{key: a, operator: In}]}}}",
            "selector.labelMatch.matchExpressions[0].values: empty, expected at least one value".to_owned(),
        ),
        (
            "{type: HyperNode, selector: {regexMatch: {pattern: rack}}}",
            "selector: HyperNodes are named by exactMatch only".to_owned(),
        ),
        (
            "{type: Pod, selector: {exactMatch: {name: a}}}",
            "type: found \"Pod\", expected Node or HyperNode".to_owned(),
        ),
        ("{selector: {exactMatch: {name: a}}}", "type: missing, expected Node or HyperNode".to_owned()),
    ] {
        let good = "{type: Node, selector: {exactMatch: {name: good}}}";
        let yaml =
            format!("{{metadata: {{name: h}}, spec: {{tier: 1, members: [{good}, {member}, {good}]}}}}");
        let info = hyper_node(&yaml);
        let expected = format!("spec.members[1].{expected}");
        assert_eq!((info.members.len(), info.invalid.as_deref()), (2, Some(&*expected)), "{member}");
        let told: Vec<String> =
            faults_of_hyper_node(&object(&yaml)).iter().map(ToString::to_string).collect();
        assert_eq!(told, [expected], "the object is told the same");
    }
}

#[test]
fn a_tier_out_of_range_is_named() {
    for (tier, counts_as) in [("-1", 0), ("4294967296", u32::MAX)] {
        let info = hyper_node(&format!("{{metadata: {{name: a}}, spec: {{tier: {tier}}}}}"));
        let expected = format!("spec.tier: found {tier}, expected 0 to 4294967295");
        assert_eq!((info.tier, info.invalid.as_deref()), (counts_as, Some(&*expected)));
    }
}

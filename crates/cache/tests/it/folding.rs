//! Watches as events.

use std::collections::BTreeMap;

use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::{Fold, Folded, Interner, Kind, Names, WatchEvent, decode, slim};
use phalanx_cluster::event::Event;
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use crate::{object, value};

/// A fold with its names and interner.
struct Watch<K> {
    fold: Fold<K>,
    interner: Interner,
}

impl<K: Kind + DeserializeOwned> Watch<K> {
    fn new() -> Self {
        Self { fold: Fold::new(), interner: Interner::default() }
    }

    fn step(&mut self, event: WatchEvent<K>) -> Folded {
        self.fold.fold(event, &Names::default(), &mut self.interner)
    }

    fn apply(&mut self, yaml: &str) -> Vec<String> {
        told(&self.step(WatchEvent::Apply(object(yaml))))
    }

    fn delete(&mut self, yaml: &str) -> Vec<String> {
        told(&self.step(WatchEvent::Delete(object(yaml))))
    }

    /// A whole list; returns its events.
    fn list(&mut self, objects: &[&str]) -> Vec<String> {
        let mut all = told(&self.step(WatchEvent::Init));
        for yaml in objects {
            all.extend(told(&self.step(WatchEvent::InitApply(object(yaml)))));
        }
        all.extend(told(&self.step(WatchEvent::InitDone)));
        all
    }
}

/// Events in short.
fn told(folded: &Folded) -> Vec<String> {
    let events = folded.events.iter().map(|event| match event {
        Event::Pod(pod) => format!("+{}", pod.pod.uid),
        Event::PodGone(uid) => format!("-{uid}"),
        Event::Node(node) => format!("+{}", node.name),
        Event::NodeGone(name) | Event::PriorityClassGone(name) => format!("-{name}"),
        Event::PodGroup(group) => format!("+{}", group.key),
        Event::PodGroupGone(key) => format!("-{key}"),
        Event::PriorityClass { name, .. } => format!("+{name}"),
        other => panic!("{other:?}"),
    });
    let rejected = folded.rejected.iter().map(|one| format!("!{}: {}", one.identity.key, one.invalid));
    events.chain(rejected).collect()
}

fn pod(name: &str, uid: &str, rest: &str) -> String {
    format!(
        "{{metadata: {{name: {name}, namespace: a, uid: {uid}}}, spec: {{schedulerName: volcano, {rest}}}}}"
    )
}

const NOTHING: [&str; 0] = [];

#[test]
fn an_update_without_a_relevant_change_makes_no_event() {
    let mut watch = Watch::<slim::Pod>::new();
    let before = "{metadata: {name: p, uid: u, resourceVersion: '1'}, spec: {schedulerName: volcano}}";
    let after = "{metadata: {name: p, uid: u, resourceVersion: '2', annotations: {note: x}}, \
                 spec: {schedulerName: volcano}, status: {phase: Pending, podIP: 10.0.0.1}}";
    let bound = "{metadata: {name: p, uid: u}, spec: {schedulerName: volcano, nodeName: n1}}";
    assert_eq!(watch.apply(before), ["+u"]);
    assert_eq!(watch.apply(after), NOTHING);
    assert_eq!(watch.apply(bound), ["+u"]);
    assert_eq!(watch.apply(bound), NOTHING);
    assert_eq!(watch.delete(bound), ["-u"]);
    assert_eq!(watch.delete(bound), NOTHING);
    assert!(watch.fold.is_empty());
}

#[test]
fn a_heartbeat_of_a_node_makes_no_event() {
    let mut watch = Watch::<slim::Node>::new();
    let beat = |time: &str, ready: &str| {
        format!(
            "{{metadata: {{name: n}}, status: {{allocatable: {{cpu: 4}}, conditions: \
             [{{type: Ready, status: '{ready}', lastHeartbeatTime: '{time}'}}]}}}}"
        )
    };
    assert_eq!(watch.apply(&beat("2026-11-01T10:00:00Z", "True")), ["+n"]);
    assert_eq!(watch.apply(&beat("2026-11-01T10:00:10Z", "True")), NOTHING);
    assert_eq!(watch.apply(&beat("2026-11-01T10:00:20Z", "Unknown")), ["+n"]);
}

#[test]
fn an_object_that_a_new_list_lacks_is_gone() {
    let mut watch = Watch::<slim::Pod>::new();
    let (a, b, c) = (pod("a", "ua", ""), pod("b", "ub", ""), pod("c", "uc", ""));
    assert_eq!(watch.list(&[&a, &b]), ["+ua", "+ub"]);
    assert_eq!(watch.apply(&c), ["+uc"]);
    assert_eq!(watch.list(&[&c]), ["-ua", "-ub"]);
    assert_eq!(watch.list(&[]), ["-uc"]);
    assert_eq!(watch.list(&[]), NOTHING);
}

#[test]
fn a_list_that_breaks_off_removes_no_object() {
    let mut watch = Watch::<slim::Pod>::new();
    let (a, b) = (pod("a", "ua", ""), pod("b", "ub", ""));
    watch.list(&[&a, &b]);
    watch.step(WatchEvent::Init);
    watch.step(WatchEvent::InitApply(object(&a)));
    assert_eq!(watch.list(&[&b]), ["-ua"]);
}

#[test]
fn a_pod_with_the_name_of_a_deleted_pod_is_a_new_pod() {
    let mut watch = Watch::<slim::Pod>::new();
    let (old, new) = (pod("p", "old", ""), pod("p", "new", ""));
    assert_eq!(watch.apply(&old), ["+old"]);
    assert_eq!(watch.apply(&new), ["-old", "+new"]);
    assert_eq!(watch.delete(&old), NOTHING, "its deletion comes late");
    assert_eq!(watch.list(&[&old]), ["-new", "+old"]);
}

#[test]
fn a_group_with_the_name_of_a_deleted_group_replaces_it() {
    let mut watch = Watch::<PodGroup>::new();
    assert_eq!(watch.apply("metadata: {name: g, uid: u1}"), ["+default/g"]);
    assert_eq!(watch.apply("metadata: {name: g, uid: u2}"), ["+default/g"]);
    assert_eq!(
        watch.apply("metadata: {name: g, uid: u2, resourceVersion: '9'}"),
        ["+default/g"],
        "a status is written over a version"
    );
    assert_eq!(watch.apply("metadata: {name: g, uid: u2, resourceVersion: '9'}"), NOTHING);
    assert_eq!(watch.delete("metadata: {name: g, uid: u2}"), ["-default/g"]);
}

#[test]
fn pods_of_other_schedulers_count_while_they_use_a_node() {
    let mut watch = Watch::<slim::Pod>::new();
    let theirs = |node: &str, phase: &str, annotations: &str| {
        format!(
            "{{metadata: {{name: p, uid: u, annotations: {annotations}}}, spec: {{nodeName: {node}}}, \
             status: {{phase: {phase}}}}}"
        )
    };
    assert_eq!(watch.apply(&theirs("''", "Pending", "{}")), NOTHING);
    assert_eq!(watch.apply(&theirs("n1", "Pending", "{}")), ["+u"]);
    assert_eq!(watch.apply(&theirs("n1", "Running", "{}")), ["+u"]);
    assert_eq!(watch.apply(&theirs("n1", "Succeeded", "{}")), ["-u"]);
    assert_eq!(watch.delete(&theirs("n1", "Succeeded", "{}")), NOTHING);
    let member = "{scheduling.k8s.io/group-name: g}";
    assert_eq!(watch.apply(&theirs("n1", "Succeeded", member)), ["+u"], "its group counts it");
    assert_eq!(watch.apply(&theirs("''", "Pending", member)), ["-u"]);
    assert!(watch.fold.is_empty());
}

#[test]
fn an_invalid_pod_is_reported_once_and_its_last_valid_state_is_kept() {
    let mut watch = Watch::<slim::Pod>::new();
    let wrong = pod("p", "u", "overhead: {cpu: x}");
    let report =
        "!a/p: spec.overhead.cpu: quantity \"x\": expected a number such as \"2\", \"500m\" or \"1.5Gi\"";
    assert_eq!(watch.apply(&wrong), [report]);
    assert_eq!(watch.apply(&wrong), NOTHING);
    assert_eq!(watch.list(&[&wrong]), NOTHING);
    assert_eq!(watch.delete(&wrong), NOTHING, "the Cluster never knew it");
    let right = pod("p", "u", "");
    assert_eq!(watch.apply(&right), ["+u"]);
    assert_eq!(watch.apply(&wrong), [report]);
    assert_eq!(watch.list(&[&wrong]), NOTHING);
    assert_eq!(watch.apply(&right), ["+u"], "it is told again");
    watch.apply(&wrong);
    assert_eq!(watch.list(&[]), ["-u"]);
}

#[test]
fn without_a_list_no_object_is_gone() {
    let mut watch = Watch::<slim::PriorityClass>::new();
    assert_eq!(watch.apply("{metadata: {name: high}, value: 5}"), ["+high"]);
    assert_eq!(told(&watch.step(WatchEvent::InitDone)), NOTHING);
    assert_eq!(watch.delete("{metadata: {name: high}}"), ["-high"]);
}

/// The pods of the Cluster after the events: by UID, the node of each pod.
type Cluster = BTreeMap<String, Option<String>>;

fn tell(cluster: &mut Cluster, folded: &Folded) {
    for event in &folded.events {
        match event {
            Event::Pod(pod) => {
                cluster.insert(pod.pod.uid.to_string(), pod.life.node.as_deref().map(str::to_owned));
            }
            Event::PodGone(uid) => {
                assert!(cluster.remove(&**uid).is_some(), "{uid} ends without a beginning");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A pod by name (0..4), successor of that name (0..3) and node (0 is none, 3 is not valid).
type Small = (u8, u8, u8);

fn small() -> impl Strategy<Value = Small> {
    (0..4u8, 0..3u8, 0..4u8)
}

fn small_pod((name, life, node): Small) -> slim::Pod {
    let rest = match node {
        0 => String::new(),
        3 => "overhead: {cpu: bad}".to_owned(),
        node => format!("nodeName: n{node}"),
    };
    let yaml = pod(&format!("p{name}"), &format!("p{name}-{life}"), &rest);
    decode(&value(&yaml)).expect("a pod")
}

fn any_event() -> impl Strategy<Value = (u8, Small)> {
    (0..5u8, small())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn after_a_list_the_cluster_holds_exactly_the_objects_of_the_list(
        before in prop::collection::vec(any_event(), 0..30),
        last in prop::collection::btree_map(0..4u8, (0..3u8, 0..3u8), 0..4),
    ) {
        let mut watch = Watch::<slim::Pod>::new();
        let mut cluster = Cluster::new();
        for (what, which) in before {
            let pod = small_pod(which);
            let event = match what {
                0 => WatchEvent::Init,
                1 => WatchEvent::InitApply(pod),
                2 => WatchEvent::InitDone,
                3 => WatchEvent::Apply(pod),
                _ => WatchEvent::Delete(pod),
            };
            tell(&mut cluster, &watch.step(event));
        }
        tell(&mut cluster, &watch.step(WatchEvent::Init));
        for (&name, &(life, node)) in &last {
            tell(&mut cluster, &watch.step(WatchEvent::InitApply(small_pod((name, life, node)))));
        }
        tell(&mut cluster, &watch.step(WatchEvent::InitDone));
        let expected: Cluster = last
            .iter()
            .map(|(name, (life, node))| (format!("p{name}-{life}"), (*node > 0).then(|| format!("n{node}"))))
            .collect();
        prop_assert_eq!(cluster, expected);
        prop_assert_eq!(watch.fold.len(), last.len());
    }
}

#[test]
fn a_remark_on_an_object_is_made_once_until_the_object_is_mended() {
    let mut fold = Fold::<slim::Pod>::new();
    let (names, mut interner) = (Names::default(), Interner::default());
    let mut told = |preemptable: &str, node: &str| {
        let pod = object(&format!(
            "{{metadata: {{name: p, uid: u, annotations: {{volcano.sh/preemptable: '{preemptable}'}}}}, \
               spec: {{schedulerName: volcano{node}}}}}"
        ));
        let folded = fold.fold(WatchEvent::Apply(pod), &names, &mut interner);
        folded
            .remarks
            .iter()
            .map(|remark| format!("{} {}", remark.identity.key, remark.invalid))
            .collect::<Vec<_>>()
    };
    let odd = "default/p metadata.annotations.volcano.sh/preemptable: found \"maybe\", expected true or false; \
               it counts as false";
    assert_eq!(told("maybe", ""), [odd]);
    assert!(told("maybe", ", nodeName: n").is_empty(), "another change of the same pod");
    assert!(told("true", ", nodeName: n").is_empty());
    assert_eq!(told("maybe", ", nodeName: n"), [odd]);
}

#[test]
fn a_remark_is_made_on_a_change_that_makes_no_event() {
    let mut fold: Fold<Queue> = Fold::new();
    let (names, mut interner) = (Names::default(), Interner::default());
    let mut told = |annotations: &str, spec: &str| {
        let queue: Queue = object(&format!(
            "{{metadata: {{name: q, uid: u, annotations: {{{annotations}}}}}, spec: {{{spec}}}}}"
        ));
        let folded = fold.fold(WatchEvent::Apply(queue), &names, &mut interner);
        folded.remarks.iter().map(|remark| remark.invalid.to_string()).collect::<Vec<_>>()
    };
    assert!(told("", "weight: 1").is_empty());
    let key = "metadata.annotations.volcano.sh/hierarchi: unknown key, ignored (did you mean volcano.sh/hierarchy?)";
    assert_eq!(
        told("volcano.sh/hierarchi: a", "weight: 1"),
        [key],
        "a change that says nothing to the Cluster"
    );
    assert!(told("volcano.sh/hierarchi: b", "weight: 1").is_empty(), "it was told");
    let part = "spec.capability.a.b/gpu: found 500m, expected a whole number: pods have it whole";
    assert_eq!(told("volcano.sh/hierarchi: b", "capability: {a.b/gpu: 500m}"), [key, part]);
}

//! PodGroups for pods without one.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_api::v1beta1::PodGroup;
use phalanx_controllers::podgroup::{
    Gang, Link, Minimum, Observed, Owner, OwnerTable, PlainPod, gang, reconcile,
};
use phalanx_controllers::{Change, Object};
use serde_json::{Value, json};

/// Objects by which a chain of owners is found.
struct World {
    table: OwnerTable,
    owners: Vec<Value>,
    pods: Vec<PlainPod>,
    /// Kinds that the API server does not have.
    absent: Vec<&'static str>,
    queue: Option<&'static str>,
}

/// The reference to a controller: `KIND/NAME`, its UID is `u-NAME`.
fn by(owner: &str) -> Value {
    let (kind, name) = owner.split_once('/').unwrap();
    let api_version = match kind {
        "ReplicaSet" | "StatefulSet" | "Deployment" => "apps/v1",
        "Job" => "batch/v1",
        "JobSet" => "jobset.x-k8s.io/v1alpha2",
        "LeaderWorkerSet" => "leaderworkerset.x-k8s.io/v1",
        "PyTorchJob" => "kubeflow.org/v1",
        "TrainJob" => "trainer.kubeflow.org/v1alpha1",
        "Pod" => "v1",
        _ => "example.com/v1",
    };
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("u-{name}"), "controller": true}])
}

/// An owner `KIND/NAME` with annotations, below another one.
#[expect(clippy::needless_pass_by_value, reason = "the caller makes the value for it")]
fn owner(of: &str, annotations: Value, below: Option<&str>) -> Value {
    let reference = &by(of)[0];
    json!({
        "apiVersion": reference["apiVersion"], "kind": reference["kind"],
        "metadata": {
            "name": reference["name"], "uid": reference["uid"], "annotations": annotations,
            "ownerReferences": below.map_or(json!([]), by),
        },
    })
}

fn pod(name: &str, below: Option<&str>, change: Value) -> PlainPod {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": below.map_or(json!([]), by),
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}}}]},
    });
    merge(&mut pod, change);
    PlainPod::from(&serde_json::from_value::<Pod>(pod).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

const MIN: &str = "scheduling.volcano.sh/group-min-member";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";

fn min(value: &str) -> Value {
    json!({MIN: value})
}

impl World {
    fn new(owners: Vec<Value>) -> Self {
        Self { table: OwnerTable::builtin(), owners, pods: Vec::new(), absent: Vec::new(), queue: None }
    }

    fn gang(&self, pod: &PlainPod) -> Option<Gang> {
        let read: Vec<(usize, Owner)> = self.owners.iter().map(|owner| self.read(owner)).collect();
        gang(pod, |reference: &OwnerReference| {
            if let Some(pod) = self.pods.iter().find(|pod| pod.uid == reference.uid) {
                return Link::Pod(pod);
            }
            let row = self.table.row_of(reference).filter(|_| !self.absent.contains(&&*reference.kind));
            let Some(row) = row else { return Link::Unlisted };
            let known = read.iter().find(|(of, owner)| *of == row && owner.uid == reference.uid);
            known.map_or(Link::Awaited, |(_, owner)| Link::Owner(owner, &self.table.rows()[row]))
        })
    }

    fn read(&self, owner: &Value) -> (usize, Owner) {
        let reference = OwnerReference {
            api_version: owner["apiVersion"].as_str().unwrap().to_owned(),
            kind: owner["kind"].as_str().unwrap().to_owned(),
            ..OwnerReference::default()
        };
        let row = self.table.row_of(&reference).unwrap();
        let metadata: ObjectMeta = serde_json::from_value(owner["metadata"].clone()).unwrap();
        (row, Owner::of(&metadata, owner, &self.table.rows()[row]))
    }

    /// Reconciles the PodGroup to which the first pod belongs, with all pods as its members.
    fn reconcile(&self, pods: &[PlainPod], group: Option<&PodGroup>) -> Vec<Change> {
        let name = group.and_then(|group| group.metadata.name.clone());
        let name = name.or_else(|| Some(self.gang(pods.first()?)?.name)).unwrap_or_default();
        let members: Vec<&PlainPod> = pods.iter().collect();
        let gang = |pod: &PlainPod| self.gang(pod);
        let queue = self.queue;
        let seen = Observed {
            namespace: "ns",
            name: &name,
            members: &members,
            gang: &gang,
            group,
            scheduler: "volcano",
            queue,
        };
        reconcile(&seen).changes
    }

    /// The PodGroup that is made for the pods.
    fn made(&self, pods: &[PlainPod]) -> PodGroup {
        let changes = self.reconcile(pods, None);
        let Some(Change::Create(Object::PodGroup(group))) = changes.first() else { panic!("{changes:?}") };
        (**group).clone()
    }
}

/// In short: `create`, `replace 3` with its minimum, `delete`, `join POD`, `note`.
fn short(changes: &[Change]) -> Vec<String> {
    let one = |change: &Change| match change {
        Change::Create(object) => format!("create {}", object.metadata().name.clone().unwrap_or_default()),
        Change::Replace(Object::PodGroup(group)) => format!("replace {}", group.spec.min_member),
        Change::Delete(target) => format!("delete {}", target.name),
        Change::Join(target, group) => format!("{} joins {group}", target.name),
        Change::Note(note) => format!("{}: {}", note.on.name, note.message),
        other => panic!("{other:?}"),
    };
    changes.iter().map(one).collect()
}

#[test]
fn a_pod_belongs_to_the_highest_listed_owner_that_states_a_minimum() {
    let none = json!({});
    let web = "ReplicaSet/web";
    let chain = |set: Value, job: Value| {
        vec![owner("JobSet/set", set, None), owner("Job/job", job, Some("JobSet/set"))]
    };
    let torch = |available: Value| {
        let mut owner = owner("PyTorchJob/torch", json!({}), None);
        owner["spec"] = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": available}}});
        vec![owner]
    };
    let pods = |count| Minimum::Pods(count);
    let cases = [
        ("no controller", vec![], None, "podgroup-u-p", Minimum::Unstated),
        (
            "nothing stated",
            vec![owner(web, none.clone(), None)],
            Some(web),
            "podgroup-u-web",
            Minimum::Unstated,
        ),
        ("stated", vec![owner(web, min("2"), None)], Some(web), "podgroup-u-web", pods(2)),
        ("none is needed", vec![owner(web, min("0"), None)], Some(web), "podgroup-u-web", pods(0)),
        ("not listed", vec![], Some("CloneSet/web"), "podgroup-u-web", Minimum::Unstated),
        ("neither", chain(none.clone(), none.clone()), Some("Job/job"), "podgroup-u-job", Minimum::Unstated),
        ("the lower one", chain(none.clone(), min("3")), Some("Job/job"), "podgroup-u-job", pods(3)),
        ("the higher one", chain(min("8"), none.clone()), Some("Job/job"), "podgroup-u-set", pods(8)),
        ("both", chain(min("8"), min("3")), Some("Job/job"), "podgroup-u-set", pods(8)),
        ("a field", torch(json!(4)), Some("PyTorchJob/torch"), "podgroup-u-torch", pods(4)),
        ("no field", torch(Value::Null), Some("PyTorchJob/torch"), "podgroup-u-torch", Minimum::Unstated),
    ];
    for (case, owners, below, name, minimum) in cases {
        let gang = World::new(owners).gang(&pod("p", below, json!({}))).expect(case);
        assert_eq!((&*gang.name, &gang.minimum), (name, &minimum), "{case}");
        assert_eq!(gang.owner.controller, Some(true), "{case}");
    }
}

#[test]
fn a_pod_of_a_listed_kind_waits_for_its_owner_unless_the_api_server_has_no_such_kind() {
    let below = Some("JobSet/set");
    let mut world = World::new(vec![owner("Job/job", min("2"), below)]);
    let worker = pod("p", Some("Job/job"), json!({}));
    assert_eq!(world.gang(&worker), None);
    world.absent.push("JobSet");
    assert_eq!(world.gang(&worker).map(|gang| gang.name), Some("podgroup-u-job".to_owned()));
}

#[test]
fn the_chain_goes_through_pods_and_a_label_divides_an_owners_pods() {
    let world = World {
        pods: vec![pod("leader-0", Some("StatefulSet/leaders"), json!({}))],
        ..World::new(vec![
            owner("LeaderWorkerSet/lws", min("3"), None),
            owner("StatefulSet/leaders", json!({}), Some("LeaderWorkerSet/lws")),
            owner("StatefulSet/workers", json!({}), Some("Pod/leader-0")),
        ])
    };
    let worker = |index: &str| {
        let labels = json!({"leaderworkerset.sigs.k8s.io/group-index": index});
        let worker = pod("w", Some("StatefulSet/workers"), json!({"metadata": {"labels": labels}}));
        world.gang(&worker).unwrap().name
    };
    assert_eq!([worker("0"), worker("1")], ["podgroup-u-lws-0", "podgroup-u-lws-1"]);
    let odd = worker("Not_A.Name");
    assert!(odd.starts_with("podgroup-u-lws-") && !odd.contains('_'), "{odd}");
}

/// Name, size, labels of the pods, and the name of the tier of each sub-group.
fn in_short(group: &PodGroup) -> Vec<(String, i32, String, Option<String>)> {
    let policies = group.spec.sub_group_policy.iter().map(|policy| {
        let selected =
            policy.label_selector.iter().flat_map(|selector| selector.match_labels.iter().flatten());
        let selected = selected.map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = selected.chain(policy.match_label_keys.iter().cloned()).collect();
        let labels =
            labels.join(",").replace("leaderworkerset.sigs.k8s.io/", "").replace("jobset.sigs.k8s.io/", "");
        let tier = policy.network_topology.as_ref().map(|topology| {
            topology.highest_tier_name.clone().unwrap_or_else(|| format!("{:?}", topology.mode))
        });
        (policy.name.clone().unwrap_or_default(), policy.sub_group_size, labels, tier)
    });
    policies.collect()
}

fn expected(all: &[(&str, i32, &str, Option<&str>)]) -> Vec<(String, i32, String, Option<String>)> {
    let one = |(name, size, labels, tier): &(&str, i32, &str, Option<&str>)| {
        ((*name).to_owned(), *size, (*labels).to_owned(), tier.map(str::to_owned))
    };
    all.iter().map(one).collect()
}

#[test]
fn a_replica_of_a_leader_worker_set_is_a_gang_of_its_size_with_the_sub_groups_that_the_set_states() {
    let sub_groups = |size: i32, kind: &str| json!({"subGroupSize": size, "subGroupPolicyType": kind});
    let all = ("subgroup", 2, "subgroup-index", None);
    let with_leader = ("subgroup-with-leader", 3, "subgroup-index=0,subgroup-index", None);
    for (case, annotations, mut spec, minimum, groups) in [
        ("size", json!({}), json!({"size": 4}), 4, vec![]),
        ("annotation", min("2"), json!({"size": 4}), 2, vec![]),
        ("leader first", json!({}), json!({"size": 4, "startupPolicy": "LeaderReady"}), 1, vec![]),
        (
            "even",
            json!({}),
            json!({"size": 4, "subGroupPolicy": sub_groups(2, "LeaderWorker")}),
            4,
            vec![all],
        ),
        (
            "odd",
            json!({}),
            json!({"size": 5, "subGroupPolicy": sub_groups(2, "LeaderWorker")}),
            5,
            vec![with_leader, all],
        ),
        (
            "without",
            json!({}),
            json!({"size": 5, "subGroupPolicy": sub_groups(2, "LeaderExcluded")}),
            5,
            vec![all],
        ),
        ("nonsense", json!({}), json!({"size": 5, "subGroupPolicy": sub_groups(-2, "x")}), 5, vec![]),
    ] {
        let startup = spec.as_object_mut().unwrap().remove("startupPolicy");
        let mut set = owner("LeaderWorkerSet/lws", annotations, None);
        set["spec"] = json!({"leaderWorkerTemplate": spec, "startupPolicy": startup});
        let labels = json!({"leaderworkerset.sigs.k8s.io/group-index": "0"});
        let world = World::new(vec![set]);
        let group =
            world.made(&[pod("a", Some("LeaderWorkerSet/lws"), json!({"metadata": {"labels": labels}}))]);
        assert_eq!((group.spec.min_member, in_short(&group)), (minimum, expected(&groups)), "{case}");
        assert_eq!(group.metadata.name.as_deref(), Some("podgroup-u-lws-0"), "{case}");
    }
}

#[test]
fn each_job_of_a_job_set_with_a_minimum_is_a_sub_group() {
    let entry = |name: &str, replicas: i32, job: Value, annotations: Value| {
        let mut job = job;
        job["template"] = json!({"metadata": {"annotations": annotations}});
        json!({"name": name, "replicas": replicas, "template": {"spec": job}})
    };
    let key = |name: &str| format!("kueue.x-k8s.io/podset-{name}");
    let asks = |name: &str| json!({key(name): "rack"});
    let mut set = owner("JobSet/set", json!({}), Some("TrainJob/train"));
    set["spec"] = json!({"replicatedJobs": [
        entry("driver", 1, json!({}), json!({})),
        entry("plain", 2, json!({"parallelism": 4}), json!({})),
        entry("short", 2, json!({"parallelism": 4, "completions": 3}), json!({})),
        entry("slices", 2, json!({"parallelism": 4}), json!({key("slice-required-topology"): "rack", key("slice-size"): "4"})),
        entry("others", 2, json!({"parallelism": 4}), json!({key("slice-required-topology"): "rack", key("slice-size"): "2"})),
        entry("required", 2, json!({"parallelism": 4}), asks("required-topology")),
        entry("preferred", 2, json!({"parallelism": 4}), asks("preferred-topology")),
    ]});
    let below = |minimum| {
        vec![
            owner("TrainJob/train", minimum, None),
            set.clone(),
            owner("Job/job", json!({}), Some("JobSet/set")),
        ]
    };
    let pods = [pod("a", Some("Job/job"), json!({"metadata": {"annotations": asks("required-topology")}}))];
    let group = World::new(below(min("20"))).made(&pods);
    let job = |name: &str| format!("replicatedjob-name={name}");
    let each = |name: &str| format!("{},job-index", job(name));
    let all = [
        ("plain", 4, &*each("plain"), None),
        ("short", 3, &*each("short"), None),
        ("slices", 4, &*each("slices"), Some("rack")),
        ("others", 4, &*each("others"), None),
        ("required", 8, &*job("required"), Some("rack")),
        ("preferred", 8, &*job("preferred"), Some("Soft")),
    ];
    assert_eq!(in_short(&group), expected(&all), "those of an owner below that of the gang");
    assert_eq!(json!(group.spec.network_topology), Value::Null, "asked for the pods of a template");
    let alone = World::new(below(json!({}))).made(&pods);
    assert!(alone.spec.sub_group_policy.is_empty(), "no gang above a Job");
    assert_eq!(json!(alone.spec.network_topology), json!({"mode": "hard", "highestTierName": "rack"}));
}

#[test]
fn slices_of_the_only_template_are_sub_groups_in_the_topology_of_the_gang() {
    let key = |name: &str| format!("kueue.x-k8s.io/podset-{name}-topology");
    let both = json!({key("required"): "spine", key("slice-required"): "rack"});
    let template = json!({"metadata": {"annotations": both}});
    let mut set = owner("JobSet/set", min("6"), None);
    set["spec"] = json!({"replicatedJobs": [
        {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": template}}},
    ]});
    let mut replica = owner("LeaderWorkerSet/lws", json!({}), None);
    replica["spec"] = json!({"leaderWorkerTemplate": {
        "size": 6, "subGroupPolicy": {"subGroupSize": 3}, "workerTemplate": template,
    }});
    let labels = json!({"leaderworkerset.sigs.k8s.io/group-index": "0"});
    let spine = json!({"mode": "hard", "highestTierName": "spine"});
    for (of, sub_group) in [
        ("JobSet/set", ("worker", 3, "replicatedjob-name=worker,job-index", Some("rack"))),
        ("LeaderWorkerSet/lws", ("subgroup", 3, "subgroup-index", Some("rack"))),
    ] {
        let change = json!({"metadata": {"annotations": both, "labels": labels}});
        let group = World::new(vec![set.clone(), replica.clone()]).made(&[pod("a", Some(of), change)]);
        assert_eq!(json!(group.spec.network_topology), spine, "{of}");
        assert_eq!(in_short(&group), expected(&[sub_group]), "{of}");
    }
}

#[test]
fn kueues_annotations_ask_for_a_network_topology() {
    let hard = json!({"mode": "hard", "highestTierName": "rack"});
    for (required, preferred, others, expected) in [
        (Some("rack"), None, json!({}), hard.clone()),
        (None, Some("rack"), json!({}), json!({"mode": "soft"})),
        (Some("rack"), Some("rack"), json!({}), hard),
        (None, None, json!({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}), Value::Null),
        (Some(""), None, json!({}), Value::Null),
        (Some("rack"), None, json!({"kueue.x-k8s.io/workload": "w"}), Value::Null),
        (Some("rack"), None, json!({"volcano.sh/network-topology-mode": "soft"}), json!({"mode": "soft"})),
    ] {
        let mut annotations = others;
        for (name, label) in [("required", required), ("preferred", preferred)] {
            if let Some(label) = label {
                annotations[format!("kueue.x-k8s.io/podset-{name}-topology")] = json!(label);
            }
        }
        let world = World::new(vec![owner("Job/job", min("2"), None)]);
        let group =
            world.made(&[pod("a", Some("Job/job"), json!({"metadata": {"annotations": annotations}}))]);
        assert_eq!(json!(group.spec.network_topology), expected, "{annotations}");
    }
}

#[test]
fn owners_that_own_each_other_end_somewhere() {
    let circle = vec![owner("Job/a", json!({}), Some("Job/b")), owner("Job/b", min("2"), Some("Job/a"))];
    let gang = World::new(circle).gang(&pod("p", Some("Job/a"), json!({}))).unwrap();
    assert_eq!(gang.name, "podgroup-u-b");
}

#[test]
fn a_podgroup_is_made_for_the_pods_and_they_join_it() {
    let world = World::new(vec![owner("ReplicaSet/web", min("2"), None)]);
    let pods = ["a", "b"]
        .map(|name| pod(name, Some("ReplicaSet/web"), json!({"spec": {"priorityClassName": "high"}})));
    assert_eq!(
        short(&world.reconcile(&pods, None)),
        ["create podgroup-u-web", "a joins podgroup-u-web", "b joins podgroup-u-web"]
    );
    let group = world.made(&pods);
    let resources = group.spec.min_resources.clone().unwrap();
    let of = |name: &str| resources.get(name).map(|quantity| quantity.0.as_str());
    assert_eq!((of("cpu"), of("requests.cpu"), of("nvidia.com/gpu")), (Some("1"), Some("1"), Some("2")));
    assert_eq!((group.spec.min_member, &*group.spec.queue), (2, "default"));
    assert_eq!(group.spec.priority_class_name.as_deref(), Some("high"));
    let owner = &group.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.kind, &*owner.uid, owner.controller), ("ReplicaSet", "u-web", Some(true)));
}

#[test]
fn a_pod_that_names_a_podgroup_is_left_alone_and_one_that_ended_makes_none() {
    let world = World::new(vec![owner("ReplicaSet/web", json!({}), None)]);
    let below = Some("ReplicaSet/web");
    let named = pod(
        "a",
        below,
        json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-u-web"}}}),
    );
    let ended = pod("b", below, json!({"status": {"phase": "Succeeded"}}));
    let group = world.made(&[pod("c", below, json!({}))]);
    assert!(world.reconcile(&[named.clone(), ended.clone()], Some(&group)).is_empty());
    assert!(world.reconcile(&[ended], None).is_empty());
    assert_eq!(short(&world.reconcile(&[named], None)), ["create podgroup-u-web"], "somebody deleted it");
    let own = pod("d", below, json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}));
    assert!(world.reconcile(&[own], Some(&group)).is_empty(), "it names a PodGroup of Kubernetes");
}

#[test]
fn a_podgroup_is_deleted_when_no_pod_is_left_that_belongs_to_it() {
    let world = World::new(vec![owner("ReplicaSet/web", json!({}), None)]);
    let ours = world.made(&[pod("a", Some("ReplicaSet/web"), json!({}))]);
    assert_eq!(short(&world.reconcile(&[], Some(&ours))), ["delete podgroup-u-web"]);
    let mut others = ours.clone();
    others.metadata.owner_references = None;
    assert!(world.reconcile(&[], Some(&others)).is_empty(), "somebody else made it");
}

/// Volcano, or Phalanx for other schedulers, works beside: the pods of such a PodGroup are not seen here.
#[test]
fn a_podgroup_of_pods_of_another_scheduler_is_left_alone() {
    let world = World::new(vec![owner("ReplicaSet/web", json!({}), None)]);
    let pods = [pod("a", Some("ReplicaSet/web"), json!({}))];
    let ours = world.made(&pods);
    let mut volcanos = ours.clone();
    volcanos.metadata.annotations = None;
    assert!(world.reconcile(&[], Some(&volcanos)).is_empty(), "without a mark");
    let mut theirs = ours.clone();
    let marks = theirs.metadata.annotations.get_or_insert_default();
    marks.insert("phalanx.sh/managed-by".to_owned(), "another".to_owned());
    assert!(world.reconcile(&[], Some(&theirs)).is_empty(), "with the mark of another scheduler");
    // A PodGroup that Volcano made for pods of this scheduler is taken over.
    let changes = world.reconcile(&pods, Some(&volcanos));
    let Some(Change::Replace(Object::PodGroup(taken))) = changes.first() else { panic!("{changes:?}") };
    assert_eq!(short(&world.reconcile(&[], Some(taken))), ["delete podgroup-u-web"]);
}

#[test]
fn the_queue_is_that_of_the_pod_or_the_owner_or_the_namespace() {
    let below = Some("ReplicaSet/web");
    let own = || json!({"metadata": {"annotations": {QUEUE: "own"}}});
    for (case, of_pod, of_owner, of_namespace, queue) in [
        ("all", own(), json!({QUEUE: "theirs"}), Some("home"), "own"),
        ("owner", json!({}), json!({QUEUE: "theirs"}), Some("home"), "theirs"),
        ("namespace", json!({}), json!({}), Some("home"), "home"),
        ("none", json!({}), json!({}), None, "default"),
    ] {
        let owners = vec![owner("ReplicaSet/web", of_owner, None)];
        let world = World { queue: of_namespace, ..World::new(owners) };
        let group = world.made(&[pod("a", below, of_pod)]);
        assert_eq!(group.spec.queue, queue, "{case}");
        assert!(!group.metadata.annotations.unwrap_or_default().contains_key(QUEUE), "{case}");
    }
}

/// The owner of the gang goes before the others of the chain, and of these the nearest.
#[test]
fn an_owner_above_or_below_that_of_the_gang_may_name_the_queue() {
    let with_min = |queue: Option<&str>| queue.map_or(min("2"), |queue| json!({MIN: "2", QUEUE: queue}));
    let queue = |queue: Option<&str>| queue.map_or(json!({}), |queue| json!({QUEUE: queue}));
    for (case, of_set, of_job, expected) in [
        ("above", queue(Some("set")), queue(None), "set"),
        ("above a gang", queue(Some("set")), with_min(None), "set"),
        ("both", queue(Some("set")), with_min(Some("job")), "job"),
        ("below a gang", with_min(None), queue(Some("job")), "job"),
        ("both, the gang above", with_min(Some("set")), queue(Some("job")), "set"),
        ("none", with_min(None), queue(None), "default"),
    ] {
        let owners = vec![owner("JobSet/set", of_set, None), owner("Job/job", of_job, Some("JobSet/set"))];
        let group = World::new(owners).made(&[pod("a", Some("Job/job"), json!({}))]);
        assert_eq!(group.spec.queue, expected, "{case}");
    }
}

#[test]
fn annotations_of_the_pod_go_before_those_of_the_owner() {
    let inherited =
        json!({"volcano.sh/custom": "x", "volcano.sh/jdb-min-available": "2", "example.com/y": "z"});
    let world = World::new(vec![owner("ReplicaSet/web", inherited, None)]);
    let change = json!({"metadata": {
        "annotations": {
            "volcano.sh/jdb-min-available": "1", "volcano.sh/preemptable": "true",
            "volcano.sh/network-topology-mode": "SOFT", "volcano.sh/network-topology-highest-tier": "2",
        },
        "labels": {"volcano.sh/cooldown-time": "60s", "app": "web"},
    }});
    let group = world.made(&[pod("a", Some("ReplicaSet/web"), change)]);
    let expected = json!({
        "volcano.sh/custom": "x", "volcano.sh/jdb-min-available": "1", "volcano.sh/preemptable": "true",
        "phalanx.sh/managed-by": "volcano",
    });
    assert_eq!(json!(group.metadata.annotations), expected);
    assert_eq!(json!(group.metadata.labels), json!({"volcano.sh/cooldown-time": "60s"}));
    assert_eq!(json!(group.spec.network_topology), json!({"mode": "soft", "highestTierAllowed": 2}));
}

#[test]
fn a_podgroup_follows_its_owner_and_keeps_what_others_wrote() {
    let below = Some("StatefulSet/db");
    let mut world = World::new(vec![owner("StatefulSet/db", min("3"), None)]);
    let pods = [pod("a", below, json!({}))];
    let mut group = world.made(&pods);
    group.metadata.annotations.get_or_insert_default().insert("example.com/mine".into(), "x".into());
    group.spec.queue = "moved".to_owned();
    let joins = "a joins podgroup-u-db";
    assert_eq!(short(&world.reconcile(&pods, Some(&group))), [joins]);
    world.owners = vec![owner("StatefulSet/db", json!({MIN: "2", "volcano.sh/custom": "y"}), None)];
    let changes = world.reconcile(&pods, Some(&group));
    assert_eq!(short(&changes), ["replace 2", joins]);
    let Change::Replace(Object::PodGroup(changed)) = &changes[0] else { panic!("{changes:?}") };
    assert_eq!(changed.spec.queue, "moved");
    assert_eq!(
        json!(changed.metadata.annotations),
        json!({"example.com/mine": "x", "volcano.sh/custom": "y", "phalanx.sh/managed-by": "volcano"})
    );
}

#[test]
fn a_minimum_that_is_no_number_counts_as_one_and_is_told() {
    for bad in ["many", "-1", "99999999999"] {
        let world = World::new(vec![owner("ReplicaSet/web", min(bad), None)]);
        let pods = [pod("a", Some("ReplicaSet/web"), json!({}))];
        assert_eq!(world.made(&pods).spec.min_member, 1, "{bad}");
        let note = format!("a: ReplicaSet web: {MIN} is {bad:?}, not a number of pods, so minMember is 1");
        assert_eq!(short(&world.reconcile(&pods, None))[1], note);
    }
}

#[test]
fn a_table_is_extended_row_by_row_and_mistakes_are_told_by_row_and_field() {
    let row = |group: &str, kind: &str| {
        let reference = OwnerReference {
            api_version: format!("{group}/v9"),
            kind: kind.to_owned(),
            ..OwnerReference::default()
        };
        let table = OwnerTable::builtin().with(&json!([
            {"apiVersion": "example.com/v1", "kind": "Gang", "minMember": "spec.size"},
            {"apiVersion": "batch/v1", "kind": "Job", "minMember": "spec.parallelism"},
        ]));
        let table = table.unwrap();
        table.row_of(&reference).map(|row| table.rows()[row].clone())
    };
    assert_eq!(row("example.com", "Gang").unwrap().plural(), "gangs");
    assert_eq!(row("batch", "Job").unwrap().min_member.as_deref(), Some("spec.parallelism"));
    assert_eq!(row("example.com", "Job"), None);
    let wrong = json!([
        {"apiVersion": "a/b/c", "kind": "X"},
        {"apiVersion": "v1", "kind": ""},
        {"apiVersion": "v1", "kind": "X", "minMember": "spec..x"},
        {"apiVersion": "v1", "kind": "X", "minmember": "spec.x"},
        {"kind": "X"},
        {"apiVersion": "v1", "kind": "X", "per": ""},
    ]);
    let mistakes = OwnerTable::builtin().with(&wrong).unwrap_err();
    let fields = [
        "row 1: apiVersion",
        "row 2: kind",
        "row 3: minMember",
        "row 4: unknown field `minmember`",
        "row 5: missing field `apiVersion`",
        "row 6: per",
    ];
    assert_eq!(mistakes.len(), fields.len(), "{mistakes:?}");
    for (mistake, field) in mistakes.iter().zip(fields) {
        assert!(mistake.starts_with(field), "{mistake}: {field}");
    }
    assert!(OwnerTable::builtin().with(&json!({})).is_err());
}

/// The training operator serves MPIJob as v1, the MPI operator as v2beta1; a cluster has one of them.
#[test]
fn an_owner_is_read_in_the_version_of_the_reference_if_the_table_has_it() {
    let version = |api_version: &str, kind: &str| {
        let reference = OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..OwnerReference::default()
        };
        let table = OwnerTable::builtin();
        table.row_of(&reference).map(|row| table.rows()[row].api_version.clone())
    };
    for (of, kind, expected) in [
        ("kubeflow.org/v1", "MPIJob", Some("kubeflow.org/v1")),
        ("kubeflow.org/v2beta1", "MPIJob", Some("kubeflow.org/v2beta1")),
        ("ray.io/v1", "RayJob", Some("ray.io/v1")),
        ("batch/v9", "Job", Some("batch/v1")),
        ("example.com/v1", "MPIJob", None),
    ] {
        assert_eq!(version(of, kind).as_deref(), expected, "{of} {kind}");
    }
}

//! Whatever a tenant writes into a namespace, others get what they would get without.
use std::collections::BTreeMap;
use std::time::Instant;

use phalanx_conf::Known;
use phalanx_sim::{Manifests, Object, Options, ReadOptions, Report, Simulation, read};
use serde_json::{Value, json};

use crate::corpus::hostile;

/// Nodes of two pools, devices, and gangs that fit into the first pool.
fn ordinary() -> Vec<Value> {
    let node = |at: usize| {
        let pool = if at < 40 { "good" } else { "bad" };
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{at}"), "labels": {"pool": pool, "kubernetes.io/hostname": format!("n{at}")}},
            "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "8"}}})
    };
    let mut all: Vec<Value> = (0..48).map(node).collect();
    all.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.x'"}}]}}));
    for at in 0..48 {
        let devices: Vec<Value> = (0..4)
            .map(|device| json!({"name": format!("d{device}"), "attributes": {"model": {"string": "a"}}}))
            .collect();
        all.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("s{at}")},
            "spec": {"driver": "gpu.x", "nodeName": format!("n{at}"), "pool": {"name": format!("n{at}"), "generation": 1, "resourceSliceCount": 1}, "devices": devices}}));
    }
    for gang in 0..40 {
        let name = format!("g{gang}");
        all.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name, "namespace": "good"},
            "spec": {"minMember": 8, "minResources": {"cpu": "16", "nvidia.com/gpu": "4"}}}));
        for at in 0..8 {
            let pod = format!("{name}-{at}");
            let gpus = if at < 4 { "1" } else { "0" };
            let mut spec = json!({"schedulerName": "volcano", "nodeSelector": {"pool": "good"},
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}}]});
            if at == 0 {
                spec["resourceClaims"] = json!([{"name": "c", "resourceClaimName": pod}]);
                all.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": pod, "namespace": "good"},
                    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": format!("device.attributes['gpu.x'].model != 'm{}'", gang % 10)}}]}}]}}}));
            }
            all.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "good", "annotations": {"scheduling.k8s.io/group-name": name}}, "spec": spec}));
        }
    }
    all
}

fn read_all(objects: &[Value]) -> Result<Manifests, String> {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    read(&[("objects.json".to_owned(), text)], &ReadOptions::default()).map_err(|refused| format!("{:?}", refused.faults))
}

/// What the API server would not take is left out: each object is read alone.
fn hostile_objects() -> (Vec<Object>, usize) {
    let (mut taken, mut refused) = (Vec::new(), 0);
    for object in hostile() {
        let is_queue = object["kind"] == "Queue";
        match read_all(&[object]) {
            Ok(manifests) => {
                let plain = |object: &Object| is_queue || !matches!(object, Object::Queue(_));
                taken.extend(manifests.objects.into_iter().filter(plain));
            }
            Err(_) => refused += 1,
        }
    }
    (taken, refused)
}

/// What became of a cluster in some cycles, and how many seconds these took.
fn run(conf: &str, objects: &[Object], more: &[Object]) -> (Report, f64) {
    let conf = phalanx_conf::parse(conf, &Known::builtin()).conf.expect("a configuration");
    let objects = objects.iter().chain(more).cloned().collect();
    let mut simulation =
        Simulation::new(Manifests { objects, ..Manifests::default() }, conf, &Options::default());
    let begun = Instant::now();
    simulation.run_cycles(4, &mut || begun.elapsed().as_secs_f64());
    let report = simulation.report();
    let seconds = report.stats.session_seconds;
    (report, seconds)
}

/// What became of the ordinary objects.
fn of_good<T: Clone>(all: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    all.iter()
        .filter(|(name, _)| name.starts_with("good/"))
        .map(|(name, one)| (name.clone(), one.clone()))
        .collect()
}

#[test]
fn what_a_tenant_writes_changes_nothing_for_others() {
    let ordinary = read_all(&ordinary()).unwrap().objects;
    let (hostile, refused) = hostile_objects();
    assert!(
        hostile.len() >= 200 && hostile.len() + refused >= 800,
        "{} taken, {refused} refused",
        hostile.len()
    );
    let confs = [
        include_str!("../../../../config/helm-default.yaml"),
        include_str!("../../../../config/preempt-and-reclaim.yaml"),
        include_str!("../../../../config/queue-tree.yaml"),
    ];
    for conf in confs {
        let (expected, mut alone) = run(conf, &ordinary, &[]);
        assert_eq!(of_good(&expected.bindings).len(), 320, "all gangs start");
        // Of some runs the shortest: others on the machine may hold one up.
        let mut both = f64::MAX;
        for _ in 0..5 {
            let (found, seconds) = run(conf, &ordinary, &hostile);
            assert_eq!(of_good(&found.bindings), of_good(&expected.bindings));
            assert_eq!(of_good(&found.pod_groups), of_good(&expected.pod_groups));
            assert_eq!(found.evictions, [""; 0]);
            both = both.min(seconds);
            alone = alone.min(run(conf, &ordinary, &[]).1);
            if both <= 3.0 * alone {
                break;
            }
        }
        eprintln!("{alone:.4} s alone, {both:.4} s with {} hostile objects", hostile.len());
        assert!(both <= 3.0 * alone, "{both} s with hostile objects, {alone} s without");
    }
}

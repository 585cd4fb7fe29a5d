//! Plugins beyond the default ones, on manifests, with what else they read.
use serde_json::{Value, json};

use crate::run::{folder, node, phalanx_in, pod};

/// Simulates with these plugins in the first tier.
fn simulate_with(plugins: &str, actions: &str, manifests: &str) -> Value {
    let conf = format!(
        "actions: \"{actions}\"\ntiers:\n- plugins:\n{plugins}- plugins:\n  - name: gang\n  - name: predicates\n"
    );
    let folder = folder(&[("m.yaml", manifests), ("c.yaml", &conf)]);
    let args = ["simulate", "-f", "m.yaml", "--scheduler-conf", "c.yaml", "-o", "json"];
    let ran = phalanx_in(folder.path(), &args, "");
    assert_eq!(ran.stderr, "", "{conf}");
    ran.json()
}

fn waiting_group(name: &str, min_resources: &str) -> String {
    format!(
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\n\
         spec: {{minMember: 1, minResources: {min_resources}}}\n"
    )
}

#[test]
fn a_quota_without_a_status_counts_existing_pods() {
    let quota = |status: &str| {
        format!(
            "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q}}\nspec: {{hard: {{requests.cpu: 4}}}}\n{status}"
        )
    };
    let others = node("n1", 8) + &pod("a", 3, "", "") + &waiting_group("g", "{cpu: 2}");
    let plugins = "  - name: resourcequota\n";
    let report = simulate_with(plugins, "enqueue, allocate, backfill", &(quota("") + &others));
    assert_eq!(report["podGroups"]["default/g"]["phase"], "Pending");
    let reasons = &report["podGroups"]["default/g"]["reasons"];
    assert_eq!(
        *reasons,
        json!(["ResourceQuota default/q would be exceeded: cpu (1 more) (plugin resourcequota)"])
    );
    let told = quota("status: {hard: {requests.cpu: 4}, used: {requests.cpu: 1}}\n");
    let report = simulate_with(plugins, "enqueue, allocate, backfill", &(told + &others));
    assert_eq!(report["podGroups"]["default/g"]["phase"], "Inqueue");
}

#[test]
fn usage_reads_busy_nodes_from_node_metrics() {
    let metrics = |name: &str, cpu: &str| {
        format!(
            "---\napiVersion: metrics.k8s.io/v1beta1\nkind: NodeMetrics\nmetadata: {{name: {name}}}\n\
             timestamp: 2020-01-01T00:00:00Z\nwindow: 30s\nusage: {{cpu: {cpu}, memory: 1Gi}}\n"
        )
    };
    let nodes = node("idle", 8) + &node("busy", 8) + &metrics("busy", "7") + &metrics("idle", "100m");
    let pods: String = (0..3).map(|index| pod(&format!("p{index}"), 1, "", "")).collect();
    let report = simulate_with("  - name: usage\n", "enqueue, allocate, backfill", &(nodes.clone() + &pods));
    let expected = json!({"default/p0": "idle", "default/p1": "idle", "default/p2": "idle"});
    assert_eq!(report["bindings"], expected);
    let lenient = "  - name: usage\n    enablePredicate: false\n    arguments: {usage.weight: 0}\n";
    let full = (0..9).map(|index| pod(&format!("p{index}"), 1, "", "")).collect::<String>();
    let report = simulate_with(lenient, "enqueue, allocate, backfill", &(nodes + &full));
    assert_eq!(report["bindings"].as_object().unwrap().len(), 9, "the rest goes to the busy node");
}

#[test]
fn tdm_evicts_pods_from_revocable_nodes_after_their_hours() {
    let lent = node("lent", 8).replace(
        "metadata: {name: lent}",
        "metadata: {name: lent, labels: {volcano.sh/revocable-zone: day}}",
    );
    assert!(lent.contains("revocable-zone"), "{lent}");
    let guest = pod("guest", 1, "volcano.sh/revocable-zone: '*'", "");
    let plugins = "  - name: tdm\n    arguments: {tdm.revocable-zone.day: '10:00-21:00'}\n";
    // Virtual time begins at midnight.
    let report = simulate_with(plugins, "enqueue, allocate, backfill, shuffle", &(lent + &guest));
    assert_eq!(report["bindings"], json!({"default/guest": "lent"}), "at ten");
    assert_eq!(report["evictions"], json!(["default/guest"]), "at nine in the evening");
}

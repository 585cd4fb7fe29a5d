//! `phalanx simulate`: what is bound where, what waits and why, in virtual time.
use serde_json::{Value, json};

use crate::run::{count, folder, group, members, node, phalanx_in, pod, queue, simulate};

#[test]
fn stdout_is_one_json_object_with_the_documented_keys() {
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &group("g", 1) + &members("g", 1, 1)))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "--cycles", "1", "-o", "json"], "");
    let report = ran.json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["bindings", "evictionCauses", "evictions", "nominations", "podGroups", "pods", "queues", "stats"]
    );
    assert_eq!(report["bindings"], json!({"default/g-0": "n1"}));
    assert_eq!(report["evictions"], json!([]));
    assert_eq!(report["nominations"], json!({}));
    assert_eq!(report["podGroups"], json!({"default/g": {"phase": "Running", "reasons": []}}));
    assert_eq!(report["queues"]["default"]["allocated"]["cpu"], "1");
    assert_eq!(report["stats"]["cycles"], 1);
    assert!(report["stats"]["sessionSeconds"].is_f64());
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_gang_that_lacks_room_for_one_pod_binds_none() {
    let gang = group("g", 3) + &members("g", 3, 4);
    let report = simulate(&(node("n1", 8) + &gang), &[]);
    assert_eq!(report["bindings"], json!({}));
    assert_eq!(report["queues"]["default"]["allocated"], json!({}));
    assert_eq!(report["podGroups"]["default/g"]["phase"], "Inqueue");
    assert!(report["podGroups"]["default/g"]["reasons"].to_string().contains("Insufficient cpu"));
    let report = simulate(&(node("n1", 8) + &node("n2", 4) + &gang), &[]);
    assert_eq!(count(&report["bindings"]), 3);
}

#[test]
fn no_node_is_used_above_its_allocatable() {
    let nodes: String = (0..5).map(|index| node(&format!("n{index}"), 7)).collect();
    let gangs: String =
        (0..12).map(|index| group(&format!("g{index}"), 2) + &members(&format!("g{index}"), 3, 2)).collect();
    let report = simulate(&(nodes + &gangs), &[]);
    for index in 0..5 {
        let on_node = report["bindings"]
            .as_object()
            .unwrap()
            .values()
            .filter(|node| **node == format!("n{index}"))
            .count();
        assert!(on_node <= 3, "n{index} has {on_node} pods of 2 CPUs: {report}");
    }
    assert!(count(&report["bindings"]) >= 12, "{report}");
}

#[test]
fn finished_pods_make_room_for_waiting_pods() {
    let run = "phalanx.sh/run-seconds: \"60\"";
    let pods: String = (0..3).map(|index| pod(&format!("p-{index}"), 4, run, "")).collect();
    let report = simulate(&(node("n1", 4) + &pods), &[]);
    assert_eq!(count(&report["bindings"]), 3);
    assert_eq!(report["stats"]["pending"], 0);
    let seconds = report["stats"]["virtualSeconds"].as_f64().unwrap();
    assert!((183.0..240.0).contains(&seconds), "{seconds}");
}

#[test]
fn with_the_flag_cycles_no_kubelet_runs() {
    let run = "phalanx.sh/run-seconds: \"1\"";
    let pods: String = (0..2).map(|index| pod(&format!("p-{index}"), 4, run, "")).collect();
    let report = simulate(&(node("n1", 4) + &pods), &["--cycles", "20"]);
    assert_eq!(count(&report["bindings"]), 1);
    assert_eq!(count(&report["pods"]), 1);
    assert_eq!(report["stats"]["cycles"], 20);
}

#[test]
fn bound_pods_of_any_scheduler_use_their_node() {
    let other = pod("other", 3, "", "nodeName: n1").replace("volcano", "default-scheduler");
    let report = simulate(&(node("n1", 4) + &other + &pod("ours", 2, "", "")), &[]);
    assert_eq!(report["bindings"], json!({}));
    assert!(report["pods"]["default/ours"]["reasons"].to_string().contains("Insufficient cpu"), "{report}");
    let ours = pod("other", 3, "", "nodeName: n1");
    let report = simulate(&(node("n1", 8) + &ours + &pod("ours", 2, "", "")), &[]);
    assert_eq!(report["bindings"], json!({"default/ours": "n1"}), "only binds of this run are told");
}

#[test]
fn pending_pods_of_other_schedulers_are_not_bound() {
    let foreign = pod("p", 1, "", "").replace("volcano", "default-scheduler");
    let report = simulate(&(node("n1", 4) + &foreign), &[]);
    assert_eq!((&report["bindings"], &report["pods"]), (&json!({}), &json!({})));
    let report = simulate(&(node("n1", 4) + &foreign), &["--scheduler-name", "default-scheduler"]);
    assert_eq!(report["bindings"], json!({"default/p": "n1"}));
}

#[test]
fn notes_are_in_the_order_of_lines_and_pods_of_other_schedulers_get_none() {
    let other = members("g", 1, 1).replace("volcano", "other").replace("g-0", "other");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let odd = pod("p", 1, "", "oddity: 1");
    let text = node("n1", 4) + &odd + service + &group("g", 2) + &members("g", 1, 1) + &other;
    let folder = folder(&[("m.yaml", &text)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
    let notes: Vec<&str> = ran.stderr.lines().collect();
    assert!(notes[0].starts_with("note: m.yaml:10:") && notes[0].contains("oddity"), "{notes:?}");
    assert!(notes[1].starts_with("note: m.yaml:12:") && notes[1].contains("Service"), "{notes:?}");
    assert_eq!(
        notes[2..],
        ["note: 1 pod is left to schedulerName other; set schedulerName: volcano to have it scheduled"]
    );
    let row = ran.stdout.lines().find(|line| line.starts_with("default/g ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[3..], ["2", "0", "1"], "{row}");
    assert!(ran.stdout.contains("1 pod bound, 1 waiting"), "{}", ran.stdout);
}

#[test]
fn a_pod_whose_podgroup_is_missing_waits_with_that_reason() {
    let report = simulate(&(node("n1", 4) + &members("ghost", 1, 1)), &[]);
    assert_eq!(report["bindings"], json!({}));
    assert!(report["pods"]["default/ghost-0"]["reasons"].to_string().contains("PodGroup"), "{report}");
}

#[test]
fn the_pods_of_a_queue_count_in_its_figures_and_its_capability_holds() {
    let annotation = "scheduling.volcano.sh/queue-name: small";
    let pods: String = (0..4).map(|index| pod(&format!("p-{index}"), 1, annotation, "")).collect();
    let report = simulate(&(node("n1", 8) + &queue("small", "capability: {cpu: 2}") + &pods), &[]);
    assert_eq!(count(&report["bindings"]), 2);
    assert_eq!(report["queues"]["small"]["allocated"]["cpu"], "2");
    assert_eq!(count(&report["pods"]), 2);
    let report = simulate(&(node("n1", 8) + &pod("p", 1, "", "")), &["--default-queue", "batch"]);
    assert_eq!(report["queues"]["batch"]["allocated"]["cpu"], "1", "{report}");
}

#[test]
fn the_output_does_not_depend_on_the_order_of_files() {
    let nodes: String = (0..7).map(|index| node(&format!("n{index}"), 5)).collect();
    let gangs: String =
        (0..6).map(|index| group(&format!("g{index}"), 2) + &members(&format!("g{index}"), 4, 2)).collect();
    let folder =
        folder(&[("nodes.yaml", &nodes), ("gangs.yaml", &gangs), ("pods.yml", &pod("p", 1, "", ""))]);
    let orders = [
        vec!["-f", "nodes.yaml", "-f", "gangs.yaml", "-f", "pods.yml"],
        vec!["-f", "pods.yml", "-f", "gangs.yaml", "-f", "nodes.yaml"],
        vec!["-f", "gangs.yaml", "-f", "nodes.yaml", "-f", "pods.yml"],
    ];
    let run = |files: &[&str], seed: &str| {
        let args = [&["simulate", "-o", "json", "--seed", seed], files].concat();
        let text = phalanx_in(folder.path(), &args, "").text().to_owned();
        let timed = text.lines().filter(|line| line.contains("sessionSeconds")).count();
        assert_eq!(timed, 1);
        text.lines().filter(|line| !line.contains("sessionSeconds")).collect::<Vec<_>>().join("\n")
    };
    let first = run(&orders[0], "0");
    for order in &orders {
        assert_eq!(first, run(order, "0"));
    }
    let seeds: std::collections::BTreeSet<String> =
        (1..9).map(|seed| run(&orders[0], &seed.to_string())).collect();
    assert!(seeds.len() > 1, "the seed decides among equal nodes");
}

#[test]
fn the_table_and_the_page_show_the_same_outcome() {
    let manifest = node("n1", 4) + &group("g", 2) + &members("g", 2, 3);
    let folder = folder(&[("m.yaml", &manifest)]);
    let run = |format: &str| {
        phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", format], "").text().to_owned()
    };
    for (format, parts) in [
        ("text", ["PODGROUP", "default/g", "Insufficient cpu", "0 pods bound, 2 waiting"]),
        ("html", ["<!doctype html>", "default/g", "Insufficient cpu", "0 pods bound, 2 waiting"]),
    ] {
        let text = run(format);
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_deployment_s_pods_are_scheduled_like_plain_ones() {
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 2\n  \
        template: {spec: {schedulerName: volcano, containers: [{name: web}]}}\n";
    let report = simulate(&(node("n1", 4) + deployment), &[]);
    assert_eq!(report["bindings"], json!({"shop/web-0": "n1", "shop/web-1": "n1"}));
}

#[test]
fn numbers_and_lists_are_read_as_an_api_server_would() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": 2, "memory": "4Gi"}}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
         "spec": {"minMember": 1, "minResources": {"cpu": 1}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": null,
            "annotations": {"scheduling.k8s.io/group-name": "g"}},
         "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"limits": {"cpu": 0.5}}}]}}]});
    let report: Value = simulate(&list.to_string(), &[]);
    assert_eq!(report["bindings"], json!({"default/p": "n1"}));
    assert_eq!(report["queues"]["default"]["allocated"]["cpu"], "500m");
}

#[test]
fn pods_without_podgroups_share_by_weight() {
    let mut input = node("n1", 32) + &queue("research", "weight: 1") + &queue("production", "weight: 3");
    for name in ["research", "production"] {
        let annotation = format!("scheduling.volcano.sh/queue-name: {name}");
        input +=
            &(0..32).map(|index| pod(&format!("{name}-{index}"), 1, &annotation, "")).collect::<String>();
    }
    let report = simulate(&input, &[]);
    let of =
        |name: &str| report["bindings"].as_object().unwrap().keys().filter(|key| key.contains(name)).count();
    assert_eq!((of("research"), of("production")), (8, 24));
}

/// The report and what was noted beside it.
fn noted(manifest: &str) -> (Value, String) {
    let folder = folder(&[("m.yaml", manifest)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    (ran.json(), ran.stderr)
}

#[test]
fn a_pod_on_a_node_that_is_not_in_the_input_is_kept_with_a_note() {
    let lost = pod("lost", 3, "", "nodeName: n2") + &pod("lost-too", 3, "", "nodeName: n2");
    let (report, notes) = noted(&(node("n1", 4) + &lost + &pod("p", 4, "", "")));
    assert_eq!(report["bindings"], json!({"default/p": "n1"}), "{report}");
    let expected = "note: m.yaml:10:18: document 2: Pod default/lost: spec.nodeName: node \"n2\" is not in the input; \
        the pod is kept and uses no known node (2 times in all)\n";
    assert!(notes.ends_with(expected), "{notes}");
}

#[test]
fn the_wide_table_says_where_single_pods_are() {
    let folder = folder(&[("m.yaml", &(node("n1", 1) + &pod("p", 1, "", "") + &pod("q", 1, "", "")))]);
    let wide = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "wide"], "");
    assert!(wide.text().contains("POD        NODE\ndefault/p  n1\ndefault/q  waits\n"), "{wide:?}");
    assert!(!phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "").text().contains("default/p  n1"));
}

//! `phalanx explain`: facts and refusals, one a line.
use crate::run::{folder, group, group_in, members, node, phalanx_in, pod, queue};

#[test]
fn a_podgroup_that_waits_is_explained() {
    let manifest = node("n1", 4) + &group("g", 3) + &members("g", 3, 2) + &pod("single", 9, "", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let explain =
        |args: &[&str]| phalanx_in(folder.path(), &[&["explain"], args, &["-f", "m.yaml"]].concat(), "");
    let ran = explain(&["podgroup", "g"]);
    let lines: Vec<&str> = ran.text().lines().collect();
    assert_eq!(lines[0], "PodGroup default/g: Inqueue");
    assert_eq!(lines[1], "  members: 3 pods, 0 placed, 3 missing, 3 waiting; minMember 3");
    assert_eq!(lines[2], "  priority 0 (its PodGroup names no PriorityClass)");
    assert!(lines[3].starts_with("  queue default: weight 1; allocated nothing; deserved "), "{lines:?}");
    assert!(ran.text().contains("Insufficient cpu"), "{ran:?}");
    assert!(
        ran.text().contains("deserved cpu 4, pods 4; requested cpu 15"),
        "amounts as simulate writes them: {ran:?}"
    );
    let member = explain(&["pod", "g-1"]);
    assert!(
        member.text().starts_with("Pod default/g-1: waits\n  member of PodGroup default/g\n"),
        "{member:?}"
    );
    assert!(member.text().contains("Insufficient cpu"), "{member:?}");
    assert!(explain(&["pod", "single"]).text().contains("cpu"), "{ran:?}");
    for (kind, label) in [("podgroup", "PodGroup"), ("pod", "Pod")] {
        let missing = explain(&[kind, "none", "-n", "x"]);
        assert_eq!(
            (missing.code, missing.stderr),
            (2, format!("error: {label} x/none is not in the input\n"))
        );
    }
}

/// Pods bound in the first cycle use room that waiting pods cannot get.
#[test]
fn a_missing_podgroup_has_the_same_reason_as_in_a_simulation() {
    let manifest = node("n1", 8) + &group("big", 3) + &members("big", 3, 3) + &pod("small", 2, "", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let missing = |args: &[&str]| {
        let ran = phalanx_in(folder.path(), args, "");
        let line = ran.text().lines().find(|line| line.contains("least missing")).map(ToOwned::to_owned);
        line.unwrap_or_else(|| panic!("{ran:?}"))
    };
    let expected = "  least missing, on node n1: cpu 3";
    assert_eq!(missing(&["simulate", "-f", "m.yaml"]), expected);
    assert_eq!(missing(&["explain", "podgroup", "big", "-f", "m.yaml"]), expected);
}

#[test]
fn the_namespace_that_has_the_object_is_named() {
    let in_ml = group("g", 1).replace("{name: g}", "{name: g, namespace: ml}");
    let folder = folder(&[("m.yaml", &in_ml)]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let expected = "error: PodGroup default/g is not in the input; there is one in namespace ml (-n ml)\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (2, expected));
}

#[test]
fn a_job_with_a_network_topology_is_told_which_members_of_hyper_nodes_are_left_out() {
    let spine = "---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: s1}\n\
                 spec: {tier: 2, members: [{type: HyperNode, selector: {exactMatch: {name: r1}}}]}\n";
    let asks = "minMember: 1, networkTopology: {mode: hard, highestTierAllowed: 2}";
    let near = group("near", 1).replace("minMember: 1", asks);
    let manifest =
        node("n1", 4) + spine + &near + &members("near", 1, 2) + &group("any", 1) + &members("any", 1, 9);
    let folder = folder(&[("m.yaml", &manifest)]);
    let says = |name: &str| {
        let ran = phalanx_in(folder.path(), &["explain", "podgroup", name, "-f", "m.yaml"], "");
        ran.text().contains(
            "Faults of network topology and sub-groups:\n  HyperNode s1: member HyperNode r1 is left out: it does not exist\n",
        )
    };
    assert_eq!((says("near"), says("any")), (true, false));
}

#[test]
fn explain_of_a_placed_pod_names_its_node() {
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pod("p", 1, "", "")))]);
    let ran = phalanx_in(folder.path(), &["explain", "pod", "p", "-f", "m.yaml"], "");
    assert!(ran.text().starts_with("Pod default/p: on node n1\n"), "{ran:?}");
    assert!(!ran.text().contains("waits"), "{ran:?}");
}

/// A gang of failed pods waits for nothing, and has no members that run.
#[test]
fn explain_names_failed_members() {
    let failed = |name: &str| {
        let pod = pod(name, 1, "scheduling.k8s.io/group-name: g", "");
        pod.replacen("spec:", "status: {phase: Failed}\nspec:", 1)
    };
    let manifest = node("n1", 4) + &group("g", 2) + &failed("g-0") + &failed("g-1");
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let told = "PodGroup default/g: Completed\n  members: 2 pods, 0 placed, 2 failed, 0 missing, 0 waiting; minMember 2\n";
    assert!(ran.text().starts_with(told) && !ran.text().contains("waits"), "{ran:?}");
}

/// What `explain` says that would let PodGroup `g` run.
fn remedies(manifest: &str) -> Vec<String> {
    let folder = folder(&[("m.yaml", manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let lines = ran.text().lines().skip_while(|line| *line != "It would run").skip(1);
    lines.map(|line| line.trim().to_owned()).collect()
}

/// A Job, nodes that hold none of its pods, and a queue.
fn job_without_pods(queue_cpu: u32, pod_cpu: u32) -> String {
    let spec = format!("{{containers: [{{name: main, resources: {{requests: {{cpu: {pod_cpu}}}}}}}]}}");
    node("n1", 3)
        + &node("n2", 3)
        + &queue("q", &format!("capability: {{cpu: {queue_cpu}}}"))
        + "---\napiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\n"
        + &format!(
            "spec: {{queue: q, minAvailable: 2, tasks: [{{name: t, replicas: 2, template: {{spec: {spec}}}}}]}}\n"
        )
}

#[test]
fn a_job_whose_pods_are_not_made_is_told_with_which_changes_they_would_run() {
    for (queue_cpu, pod_cpu, expected) in [
        (5, 3, "if queue q had cpu 1 more in its capability"),
        // More nodes would let it be admitted, and its pods would fit none of them.
        (9, 4, "with 2 nodes like n2 that had cpu 1 more"),
    ] {
        let folder = folder(&[("m.yaml", &job_without_pods(queue_cpu, pod_cpu))]);
        let explain =
            |form| phalanx_in(folder.path(), &["explain", "vcjob", "train", "-f", "m.yaml", "-o", form], "");
        let text = explain("text");
        let head = "Job default/train: 2 pods, 0 placed, 2 waiting, 2 not made yet\nPodGroup default/train-job-train: Pending\n";
        assert!(text.text().starts_with(head), "{text:?}");
        for part in [
            "\n  2 of them do not exist yet: the controller of its Job makes them once the PodGroup is admitted\n",
            "\n  stopped at: enqueue\n",
            &format!("\nIt would run\n  {expected}\n"),
        ] {
            assert!(text.text().contains(part), "{part}: {text:?}");
        }
        assert!(!text.text().contains("be admitted\n") && !text.text().contains("minResources"), "{text:?}");
        let job = &explain("json").json()["jobs"][0];
        assert_eq!(
            (&job["members"]["toMake"], &job["members"]["waiting"]),
            (&2.into(), &2.into()),
            "{job:#}"
        );
        assert_eq!(job["remedies"]["found"][0]["text"], expected, "{job:#}");
        assert!(job["admission"].is_null(), "{job:#}");
    }
}

#[test]
fn of_pods_that_nobody_knows_admission_alone_is_told() {
    let waits = group("g", 2).replace("minMember: 2", "minMember: 2, minResources: {cpu: 80}");
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &waits))]);
    let explain =
        |form| phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml", "-o", form], "");
    let expected = "\nIt would be admitted\n  with 19 more nodes like n1\nWhether its pods would run then is not known: they do not exist yet\n";
    assert!(explain("text").text().ends_with(expected), "{:?}", explain("text"));
    let files_first = phalanx_in(folder.path(), &["explain", "-f", "m.yaml", "podgroup", "g"], "");
    assert_eq!(files_first.text(), explain("text").text(), "one file behind each -f");
    let job = &explain("json").json()["jobs"][0];
    assert_eq!(job["admission"]["found"][0]["text"], "with 19 more nodes like n1", "{job:#}");
    assert_eq!(
        (&job["remedies"]["tried"], &job["remedies"]["found"]),
        (&false.into(), &serde_json::json!([]))
    );
}

#[test]
fn of_an_admitted_gang_without_pods_it_is_said_who_knows_why() {
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &group("g", 2)))]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let line = "\nIts pods do not exist, or name another scheduler: events of its owner say why they were not made\n";
    assert!(ran.text().ends_with(line), "{ran:?}");
}

/// Those of the owner that is asked about end for none of its others.
#[test]
fn pods_of_the_same_owner_are_not_told_to_finish() {
    let web = |name: &str, node: &str| {
        let pod = owned(name, 2, ("ReplicaSet", "web-7d9"), "pod-template-hash: 7d9");
        if node.is_empty() {
            pod
        } else {
            pod.replace("spec: {sched", &format!("spec: {{nodeName: {node}, sched"))
        }
    };
    let manifest =
        node("n1", 4) + &web("web-7d9-a", "n1") + &bound("other", 1, 2, "n1") + &web("web-7d9-b", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "deployment/web", "-f", "m.yaml"], "");
    let expected = "It would run\n  once PodGroup default/other has finished\n  with 1 more node like n1\n";
    assert!(ran.text().ends_with(expected), "{ran:?}");
}

#[test]
fn only_nodes_that_the_network_topology_allows_are_compared_for_a_pod() {
    let conf = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: network-topology-aware}]\n";
    let nodes: String = (0..4).map(|at| node(&format!("n{at}"), 8)).collect();
    let rack = |name: &str, nodes: &str| {
        format!(
            "---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\n\
             spec: {{tier: 1, members: [{{type: Node, selector: {{regexMatch: {{pattern: '{nodes}'}}}}}}]}}\n"
        )
    };
    let racks = rack("r0", "n[01]") + &rack("r1", "n[23]");
    let gang = group("g", 2)
        .replace("minMember: 2", "minMember: 2, networkTopology: {mode: hard, highestTierAllowed: 1}");
    let manifest = nodes + &racks + &gang + &members("g", 2, 2);
    let folder = folder(&[("m.yaml", &manifest), ("c.conf", conf)]);
    let args = ["explain", "pod/g-1", "-f", "m.yaml", "--scheduler-conf", "c.conf"];
    let ran = phalanx_in(folder.path(), &args, "");
    assert!(ran.text().contains("2 feasible nodes, by score"), "{ran:?}");
}

#[test]
fn why_a_pod_is_on_its_node_is_told_by_the_scores_of_plugins() {
    let conf = "actions: allocate, backfill\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: binpack}, {name: nodeorder}]\n";
    let manifest = node("n1", 8) + &node("n2", 4) + &node("n3", 1) + &pod("p", 2, "", "");
    let folder = folder(&[("m.yaml", &manifest), ("c.conf", conf)]);
    let args = ["explain", "pod/p", "-f", "m.yaml", "--scheduler-conf", "c.conf"];
    let ran = phalanx_in(folder.path(), &args, "");
    let expected = "Pod default/p: on node n2\n  nodes for it as they are now, not as they were when it was placed: \
                    2 feasible nodes, by score; its node is number 1\n    n2 ";
    assert!(ran.text().starts_with(expected), "{ran:?}");
    let scores: Vec<&str> =
        ran.text().lines().filter(|line| line.starts_with("    n")).map(str::trim).collect();
    let parsed = |line: &str| {
        let (node, rest) = line.split_once(' ').unwrap();
        let (total, parts) = rest.split_once(" (").unwrap();
        let score = |name: &str| -> f64 {
            let part = parts.trim_end_matches(')').split(", ").find_map(|part| part.strip_prefix(name));
            part.unwrap_or_else(|| panic!("{name}: {line}")).trim().parse().unwrap()
        };
        (node.to_owned(), total.parse::<f64>().unwrap(), score("binpack"), score("nodeorder"))
    };
    let rows: Vec<_> = scores.into_iter().map(parsed).collect();
    assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["n2", "n1"], "{rows:?}");
    for (node, total, binpack, nodeorder) in &rows {
        assert!((total - binpack - nodeorder).abs() < 0.2, "{node}: {rows:?}");
    }
    assert!(rows[0].1 >= rows[1].1 && rows[0].2 > rows[1].2, "the fuller node is better: {rows:?}");
}

/// Each change alone would help another job first.
#[test]
fn where_others_wait_too_changes_are_told_that_would_help_without_them() {
    let first = group("first", 1) + &members("first", 1, 4);
    let manifest = node("n1", 4) + &bound("runs", 2, 2, "n1") + &first + &group("g", 1) + &members("g", 1, 4);
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let expected = "It would run, if no other job waited,\n  once PodGroup default/runs has finished\n  with 1 more node like n1\n";
    assert!(ran.text().ends_with(expected), "{ran:?}");
}

#[test]
fn nodes_are_named_with_what_is_free_on_them() {
    let nodes: String = (1..=7).map(|number| node(&format!("n{number}"), 4)).collect();
    let runs: String =
        (1..=7).map(|number| bound(&format!("r{number}"), 1, 3, &format!("n{number}"))).collect();
    let folder = folder(&[("m.yaml", &(nodes + &runs + &group("g", 1) + &members("g", 1, 2)))]);
    let ran = phalanx_in(folder.path(), &["explain", "podgroup", "g", "-f", "m.yaml"], "");
    let expected = "n1, n2, n3, n4, n5 and 2 more: Insufficient cpu (7 free in fragments on 7 nodes, at most 1 on one, n1; a pod needs 2)";
    assert!(ran.text().contains(expected), "{ran:?}");
}

fn bound(group_name: &str, count: u32, cpu: u32, node: &str) -> String {
    let pods =
        members(group_name, count, cpu).replace("spec: {sched", &format!("spec: {{nodeName: {node}, sched"));
    group(group_name, 1) + &pods
}

#[test]
fn the_smallest_changes_that_would_let_a_gang_run_are_named() {
    let gang = |count: u32, cpu: u32| group("g", count) + &members("g", count, cpu);
    let limited = |cpu: u32| queue("q", &format!("capability: {{cpu: {cpu}}}"));
    for (manifest, expected) in [
        (node("n1", 4) + &gang(3, 4), &["with 2 more nodes like n1"][..]),
        (node("n1", 4) + &node("n2", 8) + &gang(5, 4), &["with 1 more node like n2"]),
        (
            node("n1", 4) + &bound("other", 2, 2, "n1") + &gang(2, 2),
            &["once PodGroup default/other has finished", "with 1 more node like n1"],
        ),
        (
            node("n1", 9) + &bound("large", 3, 2, "n1") + &bound("small", 1, 3, "n1") + &gang(1, 3),
            &["once PodGroup default/small has finished", "with 1 more node like n1"],
        ),
        (
            node("n1", 8) + &limited(1) + &group_in("g", 2, "q") + &members("g", 2, 2),
            &["if queue q had cpu 3 more in its capability"],
        ),
        (
            node("n1", 4)
                + &node("n2", 4).replace("{name: n2}", "{name: n2, labels: {pool: b}}")
                + &group("g", 2)
                + &members("g", 2, 4).replace("spec: {sched", "spec: {nodeSelector: {pool: b}, sched"),
            &["if node n1 had label pool=b", "with 1 more node like n2"],
        ),
        (node("n1", 4) + &gang(2, 5), &["with 2 nodes like n1 that had cpu 1 more"]),
        // It runs.
        (node("n1", 4) + &gang(2, 2), &[]),
    ] {
        assert_eq!(remedies(&manifest), expected, "{manifest}");
    }
}

/// A pod with a controller and labels.
fn owned(name: &str, cpu: u32, owner: (&str, &str), labels: &str) -> String {
    let (kind, of) = owner;
    let owner = format!("[{{apiVersion: a/v1, kind: {kind}, name: {of}, uid: u, controller: true}}]");
    let metadata =
        format!("{{name: {name}, labels: {{{labels}}}, ownerReferences: {owner}, annotations: {{}}}}");
    pod(name, cpu, "", "").replace(&format!("{{name: {name}, annotations: {{}}}}"), &metadata)
}

#[test]
fn any_owner_of_pods_or_podgroups_is_explained() {
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5, selector: {matchLabels: {a: b}}, \
                      template: {metadata: {labels: {a: b}}, spec: {schedulerName: volcano, containers: [{name: main, resources: {requests: {cpu: 2}}}]}}}\n";
    let batch = deployment
        .replace("apps/v1", "batch/v1")
        .replace("Deployment", "Job")
        .replace("name: web", "name: train")
        .replace("replicas: 5, selector: {matchLabels: {a: b}}", "parallelism: 2");
    let group = group("pg-of-torch", 1).replace(
        "{name: pg-of-torch}",
        "{name: pg-of-torch, ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: torch, uid: u, controller: true}]}",
    );
    let hash = owned("hashed", 9, ("ReplicaSet", "api-7d9"), "pod-template-hash: 7d9");
    let ray = owned(
        "ray",
        9,
        ("RayCluster", "tune-x"),
        "ray.io/originated-from-crd: RayJob, ray.io/originated-from-cr-name: tune",
    );
    let set = owned("llm-0-1", 9, ("StatefulSet", "llm-0"), "leaderworkerset.sigs.k8s.io/name: llm");
    let manifest = [node("n1", 2), deployment.to_owned(), batch, group, hash, ray, set].concat();
    let folder = folder(&[("m.yaml", &manifest)]);
    let explain =
        |args: &[&str]| phalanx_in(folder.path(), &[&["explain"], args, &["-f", "m.yaml"]].concat(), "");
    for (args, head) in [
        (&["deploy", "web"][..], "Deployment default/web: 5 pods, "),
        (&["deployments.apps/web"], "Deployment default/web: 5 pods, "),
        (&["job", "train"], "Job default/train: 2 pods, "),
        (
            &["pytorchjob/torch"],
            "PyTorchJob default/torch: 0 pods, 0 placed, 0 waiting\nPodGroup default/pg-of-torch: ",
        ),
        (
            &["deployment/api"],
            "Deployment default/api: 1 pod, 0 placed, 1 waiting\nPod default/hashed: waits\n",
        ),
        (&["rayjob", "tune"], "RayJob default/tune: 1 pod, 0 placed, 1 waiting\n"),
        (&["raycluster", "tune-x"], "raycluster default/tune-x: 1 pod, "),
        (&["lws", "llm"], "LeaderWorkerSet default/llm: 1 pod, "),
        (&["podgroup/pg-of-torch"], "PodGroup default/pg-of-torch: "),
    ] {
        let ran = explain(args);
        assert!(ran.text().starts_with(head), "{args:?}: {ran:?}");
    }
    assert!(
        explain(&["deploy/web"])
            .text()
            .contains("\n1 more of its PodGroups, and pods without one, that wait, are not shown\n")
    );
    let none = explain(&["job/none"]);
    let expected = "error: Job default/none owns no PodGroup and no pod in the input\n";
    assert_eq!((none.code, none.stderr.as_str()), (2, expected));
    let other = explain(&["job/pg-of-torch"]);
    assert!(other.stderr.ends_with(" in the input; there is PodGroup default/pg-of-torch\n"), "{other:?}");
    let nameless = explain(&["job"]);
    assert_eq!(nameless.stderr, "error: found kind job without a name, expected KIND NAME\n");
}

#[test]
fn all_nodes_that_are_excluded_are_in_the_json_and_the_wide_text() {
    let nodes: String = (1..=7).map(|number| node(&format!("n{number}"), 1)).collect();
    let folder = folder(&[("m.yaml", &(nodes + &pod("p", 2, "", "")))]);
    let explain =
        |form: &str| phalanx_in(folder.path(), &["explain", "pod/p", "-f", "m.yaml", "-o", form], "");
    let names = explain("json").json()["jobs"][0]["why"]["constraints"][0]["names"].as_array().unwrap().len();
    assert_eq!(names, 7);
    assert!(explain("wide").text().contains("  n1, n2, n3, n4, n5, n6, n7: Insufficient cpu"));
    let text = explain("text");
    assert!(
        text.text().contains("Nodes that it cannot use, 7 of 7:\n  n1, n2, n3, n4, n5 and 2 more: "),
        "{text:?}"
    );
}

#[test]
fn where_no_change_helps_a_line_says_so() {
    let odd = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [none]}]}]}}}, hostNetwork: true";
    let manifest = node("n1", 4) + &pod("p", 9000, "", odd);
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "pod/p", "-f", "m.yaml"], "");
    let none = "\nNo change was found with which it would run: no single one; of two or three together not all were tried\n";
    assert!(ran.text().ends_with(none), "{ran:?}");
}

#[test]
fn the_expected_start_is_told_where_run_times_are_known() {
    let runs =
        bound("runs", 2, 2, "n1").replace("spec: {nodeName", "spec: {activeDeadlineSeconds: 7800, nodeName");
    let manifest = node("n1", 4) + &runs + &pod("p", 3, "", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["explain", "pod/p", "-f", "m.yaml"], "");
    let expected = "  expected start in 2h10m, if PodGroup default/runs ends at its activeDeadlineSeconds\n";
    assert!(ran.text().contains(expected), "{ran:?}");
}

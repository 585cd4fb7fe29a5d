//! `phalanx whatif`, and comparisons of two configurations: what differs, and nothing else.
use serde_json::json;

use crate::run::{folder, group, group_in, members, node, phalanx, phalanx_in, pod, queue, repository};

/// A cluster with one node, a gang that runs on it, and one that waits.
fn cluster() -> String {
    let bound = members("runs", 2, 2).replace("spec: {sched", "spec: {nodeName: n1, sched");
    node("n1", 4) + &group("runs", 2) + &bound + &group("waits", 2) + &members("waits", 2, 2)
}

#[test]
fn a_change_shows_what_would_run_and_where() {
    let new = node("n2", 8) + &group("new", 1) + &members("new", 1, 2);
    let files = [("m.yaml", cluster()), ("new.yaml", new)];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    for (flags, expected) in [
        (
            &["--add-nodes", "n1=1"][..],
            "default/waits  Inqueue, 0 placed, 2 waiting  Running, 2 placed  n1-added-1 (2)",
        ),
        (&["--drain", "n1"], "default/runs  Running, 2 placed  Inqueue, 0 placed, 2 waiting"),
        (&["--drain", "n1", "--add-nodes", "n1=1"], "default/runs  n1 (2)  n1-added-1 (2)"),
        (&["--with", "new.yaml"], "default/new  -  Running, 1 placed  n2 (1)"),
        (&["--with", "new.yaml"], "default/waits  Inqueue, 0 placed, 2 waiting  Running, 2 placed  n2 (2)"),
    ] {
        let args = [&["whatif", "-f", "m.yaml", "--cycles", "3"], flags].concat();
        let ran = phalanx_in(folder.path(), &args, "");
        let words = |line: &str| line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        let found = ran.text().lines().any(|line| words(line) == words(expected));
        assert!(found, "{flags:?}: {expected}\n{}", ran.stdout);
    }
}

#[test]
fn an_object_takes_the_place_of_that_of_its_name() {
    let limited = |cpu: u32| queue("q", &format!("capability: {{cpu: {cpu}}}"));
    let manifest = node("n1", 8) + &limited(1) + &group_in("g", 2, "q") + &members("g", 2, 2);
    let folder = folder(&[("m.yaml", &manifest), ("queue.yaml", &limited(4))]);
    let args = ["whatif", "-f", "m.yaml", "--with", "queue.yaml", "-o", "json"];
    let compared = phalanx_in(folder.path(), &args, "").json();
    let group = &compared["podGroups"]["default/g"];
    assert_eq!((&group["before"]["placed"], &group["after"]["placed"]), (&json!(0), &json!(2)), "{group:#}");
    assert_eq!(compared["added"], json!(null));
}

#[test]
fn an_added_object_is_named_and_a_replaced_file_is_not_called_empty() {
    let manifest = node("n1", 8) + &group_in("g", 2, "q") + &members("g", 2, 2);
    let files = [("m.yaml", manifest), ("q.yaml", queue("q", "weight: 1"))];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let misspelt = queue("gold", "weight: 2");
    let whatif = |with: &str| {
        phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "-f", "q.yaml", "--with", "-"], with)
    };
    let added = whatif(&misspelt);
    assert!(added.text().starts_with("Added: Queue gold\n"), "{added:?}");
    assert!(added.text().contains("No difference in what is placed"), "{added:?}");
    let replaced = whatif(&queue("q", "weight: 2"));
    assert!(replaced.text().starts_with("No difference"), "{replaced:?}");
    assert!(!replaced.stderr.contains("found no object"), "{replaced:?}");
}

#[test]
fn the_expected_start_is_told_with_what_it_assumes() {
    let other = queue("other", "weight: 1");
    let limited = cluster().replacen("spec: {nodeName", "spec: {activeDeadlineSeconds: 7800, nodeName", 2);
    let ended = |name: &str| {
        let pod = pod(name, 1, "scheduling.k8s.io/group-name: runs", "nodeName: n1");
        let times = "status: {phase: Succeeded, startTime: \"2026-01-01T00:00:00Z\", containerStatuses: [{name: main, image: i, \
                     imageID: i, ready: false, restartCount: 0, state: {terminated: {exitCode: 0, finishedAt: \"2026-01-01T00:05:00Z\"}}}]}\n";
        pod + times
    };
    let learned = cluster() + &ended("runs-old");
    for (manifest, expected) in [
        (limited, "expected start in 2h10m, if PodGroup default/runs ends at its activeDeadlineSeconds"),
        (
            learned,
            "expected start in 5m1s, if PodGroup default/runs runs 5m, the mean of 1 finished pod of default/runs",
        ),
    ] {
        let folder = folder(&[("m.yaml", &manifest), ("q.yaml", &other)]);
        let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--with", "q.yaml"], "");
        let line = format!("PodGroup default/waits: {expected}");
        assert!(ran.text().lines().any(|found| found == line), "{line}\n{ran:?}");
        let json =
            phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--with", "q.yaml", "-o", "json"], "")
                .json();
        assert!(json["expectedStarts"]["default/waits"]["seconds"].as_i64() >= Some(300), "{json:#}");
    }
}

#[test]
fn a_change_without_effect_is_said_to_have_none() {
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pod("p", 1, "", "nodeName: n1")))]);
    let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--add-nodes", "n1=1"], "");
    assert!(ran.text().starts_with("No difference in what is placed, waits or is evicted\nNOW: "), "{ran:?}");
}

#[test]
fn a_change_that_is_not_enough_tells_what_stands_in_the_way_next() {
    let limited = |cpu: u32| queue("q", &format!("capability: {{cpu: {cpu}}}"));
    let manifest = node("n1", 4) + &limited(1) + &group_in("g", 2, "q") + &members("g", 2, 3);
    let folder = folder(&[("m.yaml", &manifest), ("queue.yaml", &limited(8))]);
    let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--with", "queue.yaml"], "");
    let (head, next) = ("PodGroup default/g waits in AFTER for another reason:\n  ", "Insufficient cpu");
    let told = ran.text().split_once(head).map(|(_, reason)| reason.lines().next().unwrap().to_owned());
    assert!(told.is_some_and(|reason| reason.contains(next)), "{ran:?}");
}

#[test]
fn what_cannot_be_changed_is_said_in_one_line() {
    let folder = folder(&[("m.yaml", &node("n1", 4))]);
    for (flags, expected) in [
        (&[][..], "found no change, expected --with, --drain, --add-nodes or --new-conf"),
        (&["--drain", "n9"], "there is no node n9"),
        (&["--with", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
    ] {
        let ran = phalanx_in(folder.path(), &[&["whatif", "-f", "m.yaml"], flags].concat(), "");
        assert_eq!((ran.code, ran.stderr), (2, format!("error: {expected}\n")), "{flags:?}");
    }
}

/// A preemptor that one of two configurations lets preempt.
#[test]
fn two_configurations_are_compared_by_what_they_place_and_evict() {
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n";
    let high = group("high", 1).replace("minMember", "priorityClassName: high, minMember");
    let manifest = [
        node("n1", 4),
        "---\n".to_owned() + class,
        group("low", 1),
        members("low", 4, 1).replace("spec: {sched", "spec: {nodeName: n1, sched"),
        high,
        members("high", 1, 3).replace("spec: {sched", "spec: {priorityClassName: high, priority: 100, sched"),
    ];
    let conf = |actions: &str| {
        format!(
            "actions: \"{actions}\"\ntiers:\n- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]\n- plugins: [{{name: predicates}}]\n"
        )
    };
    let (calm, preempts) = (conf("enqueue, allocate"), conf("enqueue, allocate, preempt"));
    let folder = folder(&[("m.yaml", &manifest.concat()), ("a.conf", &calm), ("b.conf", &preempts)]);
    let compared = |args: &[&str]| phalanx_in(folder.path(), args, "");
    let confs = ["--scheduler-conf", "a.conf", "--scheduler-conf", "b.conf"];
    let json = compared(&[&["simulate", "-f", "m.yaml", "-o", "json"], &confs[..]].concat()).json();
    assert_eq!(json["podGroups"]["default/high"]["before"]["placed"], 0, "{json:#}");
    assert_eq!(json["podGroups"]["default/high"]["after"]["placed"], 1, "{json:#}");
    assert_eq!(json["evictions"]["before"], json!({}));
    assert_eq!(json["evictions"]["after"].as_object().map(serde_json::Map::len), Some(3), "{json:#}");
    let page = compared(&[&["simulate", "-f", "m.yaml", "-o", "html"], &confs[..]].concat());
    let first = page.text().find("2 PodGroups come to another end").unwrap();
    for part in ["3 pods are evicted in b.conf only", "default/high", "Evicted in", "preempted by"] {
        assert!(page.text()[first..].contains(part), "{part}: {page:?}");
    }
    let same = ["--scheduler-conf", "a.conf", "--new-conf", "b.conf"];
    let whatif = compared(&[&["whatif", "-f", "m.yaml", "-o", "json"], &same[..]].concat()).json();
    assert_eq!(whatif["podGroups"], json["podGroups"]);
    let diff = compared(&["conf", "diff", "a.conf", "b.conf", "-f", "m.yaml"]);
    assert!(diff.text().contains("default/high"), "{diff:?}");
    assert!(!compared(&["conf", "diff", "a.conf", "b.conf"]).text().contains("default/high"));
    let three = [&["simulate", "-f", "m.yaml"], &confs[..], &confs[..2]].concat();
    assert_eq!(compared(&three).code, 2);
}

#[test]
fn the_example_of_the_page_prints_what_the_page_shows() {
    let page = std::fs::read_to_string(repository().join("docs/how-to/what-if.md")).unwrap();
    let shown = page.lines().find(|line| line.starts_with("demo/big ")).unwrap();
    let ran = phalanx(&["whatif", "-f", "config/examples/too-small", "--add-nodes", "node-1=2"]);
    assert!(ran.text().lines().any(|line| line == shown), "{ran:?}");
    assert!(page.contains("phalanx whatif -f config/examples/too-small --add-nodes node-1=2 "));
}

#[test]
fn a_drain_tells_where_single_pods_go_which_pods_end_and_what_would_hold_it_up() {
    let on = |name: &str, labels: &str, scheduler: &str| {
        let pod = pod(name, 1, "", "nodeName: n1").replace("schedulerName: volcano", scheduler);
        pod.replace("annotations: {}", &format!("labels: {{{labels}}}"))
    };
    let daemon = on("agent", "", "schedulerName: default-scheduler").replace(
        "labels: {}",
        "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]",
    );
    let budget = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: keep}\nspec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\n";
    let manifest = [
        node("n1", 4),
        node("n2", 1),
        on("a", "app: web", "schedulerName: volcano"),
        on("b", "app: web", "schedulerName: volcano"),
        on("web", "", "schedulerName: default-scheduler"),
        daemon,
        budget.to_owned(),
    ];
    let folder = folder(&[("m.yaml", &manifest.concat())]);
    let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--drain", "n1"], "");
    let lines: Vec<String> =
        ran.text().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "POD WITHOUT A PODGROUP NOW AFTER",
        "default/a n1 n2",
        "default/b n1 waits",
        "Pods of other schedulers that the drain evicts, which are not placed again here: default/web",
        "PodDisruptionBudget default/keep allows 1 of the 2 pods that the drain evicts at once: it waits for others to be ready",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
    assert!(!ran.text().contains("No difference"), "{ran:?}");
    let json =
        phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--drain", "n1", "-o", "json"], "").json();
    assert_eq!(json["pods"]["default/a"], json!({"before": "n1", "after": "n2"}));
    assert_eq!(json["drain"]["foreign"], json!(["default/web"]));
    assert_eq!(json["drain"]["blocked"], json!([{"budget": "default/keep", "pods": 2, "allowed": 1}]));
}

#[test]
fn the_page_of_two_configurations_shows_where_single_pods_are() {
    let conf = |scores: &str| {
        format!(
            "actions: allocate, backfill\ntiers:\n- plugins: [{{name: gang}}, {{name: predicates}}, {{name: {scores}}}]\n"
        )
    };
    let manifest = node("n1", 4) + &node("n2", 4) + &pod("first", 1, "", "") + &pod("second", 1, "", "");
    let confs = [("m.yaml", manifest), ("spread.conf", conf("nodeorder")), ("pack.conf", conf("binpack"))];
    let folder = folder(&confs.each_ref().map(|(name, text)| (*name, text.as_str())));
    let simulate = |form: &str| {
        let confs = ["--scheduler-conf", "spread.conf", "--scheduler-conf", "pack.conf"];
        phalanx_in(folder.path(), &[&["simulate", "-f", "m.yaml", "-o", form][..], &confs].concat(), "")
    };
    let (table, page) = (simulate("text"), simulate("html"));
    let row: Vec<&str> = table.text().lines().nth(1).unwrap().split_whitespace().collect();
    let [name, spread, pack] = row[..] else { panic!("{table:?}") };
    assert_ne!(spread, pack, "{table:?}");
    let cells = [(name, "Pod"), (spread, "spread.conf"), (pack, "pack.conf")];
    for (cell, head) in cells {
        assert!(page.text().contains(&format!("data-head=\"{head}\">{cell}</td>")), "{cell}: {page:?}");
    }
}

/// Pods that have no node yet have one by the time of the drain, where there is room: others keep theirs.
#[test]
fn a_drain_begins_with_what_has_room_now() {
    let labelled = |name: &str| {
        node(name, 4)
            .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, labels: {{at: {name}}}}}"))
    };
    let prefers = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: \
                   {matchExpressions: [{key: at, operator: In, values: [a]}]}}]}}";
    // The first one is placed first, also on the other node.
    let manifest = labelled("a") + &labelled("b") + &pod("first", 3, "", prefers) + &pod("second", 3, "", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let whatif =
        |form: &str| phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--drain", "a", "-o", form], "");
    let json = whatif("json").json();
    assert_eq!(json["pods"], json!({"default/first": {"before": "a", "after": null}}), "{json:#}");
    let reason = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.";
    let told = json["waitingReasons"]["default/first"][0].as_str().unwrap();
    assert!(told.ends_with(reason), "{told}");
    let text = whatif("text");
    assert!(text.text().contains(&format!("\nIn AFTER default/first waits: {reason}\n")), "{text:?}");
    assert!(text.text().contains("waits\n\nQUEUE ALLOCATED "), "a blank line between tables: {text:?}");
}

#[test]
fn the_wide_table_names_all_nodes() {
    let nodes: String = (1..=6).map(|number| node(&format!("n{number}"), 1)).collect();
    let files = [("m.yaml", nodes + &group("g", 6)), ("new.yaml", members("g", 6, 1))];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let whatif = |form: &str| {
        phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--with", "new.yaml", "-o", form], "")
    };
    assert!(whatif("text").text().contains("6 nodes"));
    let wide = whatif("wide");
    assert!(wide.text().contains("n1 (1), n2 (1), n3 (1), n4 (1), n5 (1), n6 (1)"), "{wide:?}");
}

#[test]
fn single_pods_have_expected_starts() {
    let runs = pod("runs", 4, "", "activeDeadlineSeconds: 60, nodeName: n1");
    let files =
        [("m.yaml", node("n1", 4) + &runs + &pod("p", 4, "", "")), ("q.yaml", queue("q", "weight: 1"))];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--with", "q.yaml"], "");
    let expected =
        "Pod default/p: expected start in 1m1s, if pod default/runs ends at its activeDeadlineSeconds";
    assert!(ran.text().lines().any(|line| line == expected), "{ran:?}");
}

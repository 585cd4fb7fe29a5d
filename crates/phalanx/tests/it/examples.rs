//! The scenarios under config/examples show what their README says.
use serde_json::{Value, json};

use crate::run::{count, phalanx, phalanx_in, repository};

const CONF: &str = "config/helm-default.yaml";

fn example(name: &str, flags: &[&str]) -> Value {
    let folder = format!("config/examples/{name}");
    let args = [&["simulate", "-f", &folder, "--scheduler-conf", CONF, "-o", "json"], flags].concat();
    phalanx(&args).json()
}

#[test]
fn the_training_gang_runs_as_a_whole_on_the_nodes_it_selects() {
    let report = example("training-gang", &[]);
    let bindings = report["bindings"].as_object().unwrap();
    assert_eq!(bindings.len(), 5);
    assert_eq!(bindings["train/resnet-launcher-0"], "cpu-1");
    for worker in 0..4 {
        let node = bindings[&format!("train/resnet-worker-{worker}")].as_str().unwrap();
        assert!(["gpu-1", "gpu-2"].contains(&node), "{node}");
    }
    assert_eq!(report["podGroups"]["train/resnet"], json!({"phase": "Completed", "reasons": []}));
    assert!(report["stats"]["virtualSeconds"].as_f64().unwrap() >= 611.0);

    let first = example("training-gang", &["--cycles", "1"]);
    assert_eq!(first["bindings"], report["bindings"]);
    assert_eq!(first["podGroups"]["train/resnet"]["phase"], "Running");
    assert_eq!(first["stats"]["cycles"], 1);
}

#[test]
fn queues_of_weight_one_and_three_share_one_to_three() {
    let report = example("fair-queues", &[]);
    let of = |namespace: &str| {
        report["bindings"].as_object().unwrap().keys().filter(|pod| pod.starts_with(namespace)).count()
    };
    assert_eq!((of("research/"), of("production/")), (8, 24));
    assert_eq!(report["queues"]["research"]["allocated"]["cpu"], "8");
    assert_eq!(report["queues"]["production"]["deserved"]["cpu"], "24");
    let reasons = report["podGroups"]["production/inference"]["reasons"][0].as_str().unwrap();
    assert!(reasons.contains("production"), "{reasons}");
    assert_eq!(report["stats"]["pending"], 32);
}

#[test]
fn the_example_of_a_cluster_that_is_too_small_has_a_reason() {
    let report = example("too-small", &[]);
    assert_eq!(report["bindings"], json!({"demo/small": "node-1"}));
    let reason = |value: &Value| value["reasons"].to_string();
    let big = &report["podGroups"]["demo/big"];
    assert_eq!(big["phase"], "Inqueue");
    for part in ["0/2 nodes are available", "Insufficient cpu", "untolerated taint"] {
        assert!(reason(big).contains(part), "{big}");
    }
    let over = &report["podGroups"]["demo/over-quota"];
    assert_eq!(over["phase"], "Pending");
    assert!(reason(over).contains("resource quota of queue capped insufficient"), "{over}");
    assert!(reason(&report["pods"]["demo/needs-gpu"]).contains("nvidia.com/gpu"), "{report}");
    assert_eq!(count(&report["pods"]), 1);
}

/// How many pods of an example are bound, and the phase of its Job or PodGroup in the end.
#[test]
fn jobs_and_pods_of_operators_run_as_their_readme_says() {
    for (name, pods, pointer, phase) in [
        ("pytorch-job", 4, "/jobs/default~1pytorch", "Completed"),
        ("mpi-job", 4, "/jobs/default~1mpi", "Completed"),
        ("ray-job", 4, "/jobs/default~1ray", "Running"),
        ("kubeflow", 3, "/podGroups/default~1mnist", "Completed"),
        ("kuberay", 3, "/podGroups/default~1ray-demo-pg", "Running"),
        ("spark", 3, "/podGroups/default~1spark-pi-pg", "Completed"),
    ] {
        let report = example(name, &[]);
        assert_eq!(count(&report["bindings"]), pods, "{name}: {report}");
        let found = report.pointer(pointer).unwrap_or_else(|| panic!("{name}: {report}"));
        assert_eq!(found["phase"], phase, "{name}");
        assert_eq!(count(&report["pods"]), 0, "{name}: {report}");
    }
}

#[test]
fn the_flow_runs_its_jobs_one_after_the_other() {
    let report = example("job-flow", &[]);
    let completed = json!(["nightly-evaluate", "nightly-prepare", "nightly-train"]);
    assert_eq!(report["jobFlows"]["default/nightly"], json!({"phase": "Succeed", "completed": completed}));
    assert_eq!(count(&report["bindings"]), 7);
    assert!(report["stats"]["virtualSeconds"].as_f64().unwrap() >= 690.0, "{report}");
}

#[test]
fn the_cron_job_keeps_its_last_two_jobs() {
    let report = example("cron-job", &[]);
    let cron = json!({"started": 3, "active": 0, "last": "2000-01-01T01:30:00Z"});
    assert_eq!(report["cronJobs"]["default/report"], cron);
    assert_eq!((count(&report["jobs"]), count(&report["bindings"])), (2, 6));
}

#[test]
fn every_example_has_a_readme_whose_commands_run() {
    let examples = crate::run::repository().join("config/examples");
    let mut commands = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let readme = std::fs::read_to_string(entry.unwrap().path().join("README.md")).unwrap();
        for line in readme.lines().filter_map(|line| line.strip_prefix("phalanx ")) {
            let args: Vec<&str> = line.split_whitespace().collect();
            assert!(!phalanx(&args).text().is_empty(), "{line}");
            commands += 1;
        }
    }
    assert!(commands >= 3);
}

/// A block such as `$ cd FOLDER`, `$ phalanx ARGUMENTS` and lines of what that prints, where `...` stands for others.
#[test]
fn what_a_page_shows_of_a_run_is_what_it_prints() {
    let mut count = 0;
    for page in std::fs::read_dir(repository().join("docs/how-to")).unwrap() {
        let page = page.unwrap().path();
        let Some(text) = std::fs::read_to_string(&page).ok() else { continue };
        for block in text.split("```text\n$ cd ").skip(1) {
            let mut lines = block.split("```").next().unwrap().lines();
            let folder = repository().join(lines.next().unwrap());
            let words: Vec<&str> = lines.next().unwrap().split_whitespace().skip(2).collect();
            let printed = phalanx_in(&folder, &words, "").text().to_owned();
            let mut found = printed.lines();
            for line in lines.filter(|line| *line != "...") {
                assert!(found.any(|one| one == line), "{}: {line}\n{printed}", page.display());
            }
            count += 1;
        }
    }
    assert!(count > 0, "no block");
}

//! `phalanx simulate -o html`: the data of the page.
use std::path::Path;

use serde_json::{Value, json};

use crate::run::{phalanx_in, repository};

/// What a simulation prints in a folder of the repository.
fn simulate(folder: &str, args: &[&str]) -> String {
    let folder = repository().join(folder);
    phalanx_in(Path::new(&folder), &[&["simulate"], args].concat(), "").text().to_owned()
}

/// The data of a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_run_that_has_ended_shows_when_the_most_was_allocated() {
    let example = "config/examples/training-gang";
    let view = data(&simulate(example, &["-f", ".", "-o", "html"]));
    let gang = &view["gangs"]["list"][0];
    assert_eq!((&gang["name"], &gang["state"]), (&json!("train/resnet"), &json!("finished")), "{gang:#}");
    let at = |name: &str| gang["times"][name].as_i64().unwrap();
    assert!(at("created") <= at("bound") && at("bound") < at("finished"), "{gang:#}");
    let state = &view["state"];
    assert!(state["at"].as_i64() < view["now"].as_i64());
    let gpus = json!({"name": "nvidia.com/gpu", "unit": "milli", "allocatable": 24000, "used": 16000});
    assert_eq!(state["resources"][0], gpus);
    let queue = &state["queues"][0];
    assert_eq!((&queue["name"], &queue["allocated"][0]), (&json!("default"), &json!(16000)), "{queue:#}");
    let table = simulate(example, &["-f", "."]);
    for part in ["when the most was allocated", "nvidia.com/gpu 16", "SHARE: allocated of deserved"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn the_page_names_who_was_evicted_for_whom_and_why() {
    let scenario = "scenarios/eviction/an-eviction-names-action-and-preemptor";
    let args = ["-f", "cluster.yaml", "--scheduler-conf", "scheduler.conf", "-o"];
    let view = data(&simulate(scenario, &[&args[..], &["html"]].concat()));
    let report: Value = serde_json::from_str(&simulate(scenario, &[&args[..], &["json"]].concat())).unwrap();
    let told = report["evictionCauses"].as_array().unwrap();
    assert!(!told.is_empty());
    // The last comes first.
    for (cause, shown) in told.iter().rev().zip(view["evicted"]["list"].as_array().unwrap()) {
        for key in ["pod", "action", "by", "reason"] {
            assert_eq!(cause[key], shown[key], "{shown:#}");
        }
    }
    assert_eq!(view["evicted"]["total"], told.len());
}

#[test]
fn hyper_nodes_are_in_the_page_the_table_and_json() {
    let scenario = "scenarios/network-topology/a-higher-tier-where-the-lower-has-no-room";
    let args = ["-f", "cluster.yaml", "--scheduler-conf", "scheduler.conf", "-o"];
    let printed = |format: &str| simulate(scenario, &[&args[..], &[format]].concat());
    let report: Value = serde_json::from_str(&printed("json")).unwrap();
    let domain = report["podGroups"]["default/g"]["hyperNode"].as_str().unwrap();
    let hyper_node = &report["hyperNodes"][domain];
    assert_eq!((&hyper_node["tier"], &hyper_node["parent"]), (&json!(2), &json!("s6")), "{hyper_node:#}");
    assert_eq!(hyper_node["podGroups"], json!(["default/g"]));
    assert_eq!((&hyper_node["nodes"], &hyper_node["allocatable"]["cpu"]), (&json!(4), &json!("32")));
    let row = format!("  {domain}");
    let table = printed("text");
    let row = table.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("{table}"));
    assert!(row.contains(" of 32") && row.ends_with("default/g"), "{row}");
    let view = data(&printed("html"));
    let gang =
        view["gangs"]["list"].as_array().unwrap().iter().find(|gang| gang["name"] == "default/g").unwrap();
    let at = gang["domain"].as_u64().unwrap() as usize;
    assert_eq!(view["state"]["hyperNodes"]["list"][at]["name"], domain);
}

#[test]
fn explain_names_the_hyper_nodes_without_room() {
    let scenario = repository().join("scenarios/network-topology/a-hard-topology-waits");
    let args = [
        "explain",
        "podgroup",
        "g",
        "-n",
        "default",
        "-f",
        "cluster.yaml",
        "--scheduler-conf",
        "scheduler.conf",
    ];
    let told = phalanx_in(&scenario, &args, "").text().to_owned();
    for part in [
        "HyperNodes without room for it:",
        "  s3 (tier 1): room for 2 of 3 pods, lacks cpu 1",
        "  s0 (tier 1): room for 1",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

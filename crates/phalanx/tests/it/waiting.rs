//! Waiting jobs: `explain` names why each waits and what would let it run, and the first change that it names, applied,
//! lets it run.
//!
//! The scenarios whose `expect.yaml` has the key `explain` ([`crate::scenarios::Explain`]), with the change in
//! `remedy.yaml` (objects for `whatif --with`), `remedy.conf` (another scheduler.conf) or `remedy.args` (flags).
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use crate::run::{folder, phalanx_in};
use crate::scenarios::{Explain, cases, explain_of, name_of};

/// What the head of the lines with changes begins with: "It would run", "It would be admitted".
const HEAD: &str = "\nIt would ";

/// What is wrong with the answer of `explain`.
fn wrong_answer(case: &Path, explain: &Explain) -> Vec<String> {
    let mut args = vec!["explain"];
    args.extend(explain.of.split_whitespace());
    args.extend(["-f", "cluster.yaml"]);
    let conf = case.join("scheduler.conf").exists();
    args.extend(["--scheduler-conf", "scheduler.conf"].iter().filter(|_| conf));
    let ran = phalanx_in(case, &args, "");
    let (told, changes) = ran.stdout.split_once(HEAD).unwrap_or((&ran.stdout, ""));
    let changes: Vec<&str> = changes.lines().skip(1).map(str::trim).collect();
    let missing = explain.says.iter().filter(|text| !told.contains(text.as_str()));
    let mut wrong: Vec<String> = missing.map(|text| format!("  does not say {text:?}")).collect();
    if changes != explain.remedies {
        wrong.push(format!("  changes: expected {:?}, found {changes:?}", explain.remedies));
    }
    if !wrong.is_empty() {
        wrong.push(format!("{}{}", ran.stdout, ran.stderr));
    }
    wrong
}

/// What is wrong once the change is applied: what waited does not run.
fn wrong_end(case: &Path, explain: &Explain) -> Vec<String> {
    let more = fs::read_to_string(case.join("remedy.args")).unwrap_or_default();
    let mut args = vec!["whatif", "-f", "cluster.yaml", "-o", "json"];
    let files =
        [("scheduler.conf", "--scheduler-conf"), ("remedy.yaml", "--with"), ("remedy.conf", "--new-conf")];
    for (file, flag) in files.into_iter().filter(|(file, _)| case.join(file).exists()) {
        args.extend([flag, file]);
    }
    args.extend(more.split_whitespace());
    let ran = phalanx_in(case, &args, "");
    if ran.code != 0 {
        return vec![format!("  {args:?}: {}", ran.stderr)];
    }
    let compared = ran.json();
    let name = explain.of.split_whitespace().last().unwrap_or_default();
    let waited = [
        &compared["podGroups"][format!("default/{name}")],
        &compared["podGroups"]["default/train-job-train"],
    ];
    let started =
        |group: &&Value| group["before"]["placed"] == 0 && group["after"]["placed"].as_u64() > Some(0);
    let waits = |side: &str| {
        let pods = compared["waitingPods"][side].as_array().unwrap();
        pods.iter().any(|pod| *pod == format!("default/{name}"))
    };
    // A pod of another scheduler is not told as waiting.
    let queue = &compared["queues"]["default"];
    let took_it =
        explain.of.starts_with("pod ") && queue["before"]["pods"].is_null() && queue["after"]["pods"] == "1";
    let now_runs = waited.iter().any(started) || (waits("before") && !waits("after")) || took_it;
    if now_runs { Vec::new() } else { vec![format!("  with the change it does not run: {compared:#}")] }
}

#[test]
fn explain_names_the_cause_and_a_change_with_which_it_runs() {
    let explained: Vec<_> = cases().into_iter().filter_map(|case| Some((explain_of(&case)?, case))).collect();
    assert!(explained.len() >= 40, "{} scenarios with the key explain", explained.len());
    let (cases, wrong) = (Mutex::new(explained), Mutex::new(Vec::new()));
    let next = || cases.lock().unwrap().pop();
    let work = || {
        while let Some((explain, case)) = next() {
            let found = [wrong_answer(&case, &explain), wrong_end(&case, &explain)].concat();
            if !found.is_empty() {
                wrong.lock().unwrap().push(format!("{}\n{}", name_of(&case), found.join("\n")));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} scenarios differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pod_that_cannot_be_read_is_told_with_its_place_and_what_was_expected() {
    let pod = crate::run::pod("p", 1, "", "").replace("cpu: 1", "cpu: 1x");
    let folder = folder(&[("m.yaml", &pod)]);
    let ran = phalanx_in(folder.path(), &["explain", "pod", "p", "-f", "m.yaml"], "");
    let expected = "Pod default/p: spec.containers[0].resources.requests.cpu: quantity \"1x\": unknown suffix \"x\", expected none";
    assert!(
        ran.code == 2 && ran.stderr.starts_with("error: m.yaml:5:") && ran.stderr.contains(expected),
        "{ran:?}"
    );
}

//! `phalanx trace` and `simulate --trace`, and `simulate --arrivals`: jobs that appear as virtual time passes.
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::{Ran, count, folder, group_in, members, node, phalanx, phalanx_in, pod, queue, simulate};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn-1,8000,65536,2,T4\nn-2,8000,65536,2,V100\n";
const TASKS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
    t-0,1000,1024,1,500,,LS,Running,0,400,0\n\
    t-1,1000,1024,1,500,T4,LS,Running,10,200,10\n\
    t-2,1000,1024,2,1000,V100|T4,BE,Running,20,320,20\n\
    t-3,1000,1024,1,1000,V100,BE,Running,30,130,30\n";

/// A folder with a cluster of two nodes of 4 CPUs, configurations, and arrivals as JSON lines.
fn cluster(arrivals: &[Value]) -> TempDir {
    let lines = arrivals.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    let nodes = node("n1", 4) + &node("n2", 4);
    let conf = |actions: &str, scores: &str| {
        format!(
            "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n    enablePreemptable: false\n  - name: conformance\n- plugins:\n  \
             - name: predicates\n  - name: proportion\n  - name: nodeorder\n{scores}"
        )
    };
    let pack = "    arguments:\n      leastrequested.weight: 0\n      balancedresource.weight: 0\n  - name: binpack\n";
    folder(&[
        ("nodes.yaml", &nodes),
        ("jobs.jsonl", &lines),
        ("spread.conf", &conf("enqueue, allocate, backfill", "")),
        ("pack.conf", &conf("enqueue, allocate, backfill", pack)),
        ("preempt.conf", &conf("enqueue, allocate, preempt", "")),
    ])
}

fn job(name: &str, arrival: u32, duration: u32, cpu: u32, more: &Value) -> Value {
    let mut job =
        json!({"name": name, "arrival": arrival, "duration": duration, "requests": {"cpu": cpu.to_string()}});
    for (key, value) in more.as_object().into_iter().flatten() {
        job[key] = value.clone();
    }
    job
}

fn played(folder: &TempDir, flags: &[&str]) -> Ran {
    let args = [&["simulate", "-f", "nodes.yaml", "--trace", "jobs.jsonl"], flags].concat();
    phalanx_in(folder.path(), &args, "")
}

#[test]
fn a_trace_is_played_in_virtual_time_and_its_totals_add_up() {
    let folder = cluster(&[
        job("a", 0, 100, 4, &json!({})),
        job("b", 10, 100, 4, &json!({})),
        job("gang", 20, 50, 4, &json!({"size": 2, "queue": "q"})),
        job("never", 30, 50, 9, &json!({"queue": "q"})),
    ]);
    let ran = played(&folder, &["-o", "json"]);
    let report = ran.json();
    assert!(ran.stderr.contains("note: queue q of the trace is not in the manifests"), "{}", ran.stderr);
    let run = &report["runs"][0];
    assert_eq!(
        (&report["jobs"], &report["resource"], &report["capacity"]["cpu"]),
        (&json!(4), &json!("cpu"), &json!(8.0))
    );
    assert_eq!((&run["started"], &run["finished"]), (&json!(3), &json!(3)));
    assert_eq!(run["firstWait"]["job"], "gang");
    assert_eq!(
        (&run["firstWait"]["arrived"], &run["firstWait"]["allocated"]["cpu"]),
        (&json!(3), &json!(8.0))
    );
    let sizes = &run["waitsBySize"];
    assert_eq!(
        (&sizes["1"]["started"], &sizes["1"]["never"], &sizes["2-4"]["started"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(sizes["1"]["max"], 0.0, "both singles start as they arrive");
    let waited = sizes["2-4"]["max"].as_f64().unwrap();
    assert!((90.0..96.0).contains(&waited), "until the second single ends, 111 s after the begin: {waited}");
    assert_eq!(run["waitsByQueue"]["q"]["p50"], waited);
    assert_eq!(run["utilisation"]["cpu"]["peak"], 1.0);
    assert_eq!(run["evictions"]["byAction"], json!({}));
    let started: u64 = sizes.as_object().unwrap().values().map(|it| it["started"].as_u64().unwrap()).sum();
    assert_eq!(json!(started), run["waits"]["started"]);
}

#[test]
fn equal_input_gives_equal_bytes_in_each_form() {
    let generated = |seed: &str| {
        let flags = ["--jobs", "60", "--interarrival", "exp:20", "--size", "1=3,2=1", "--queue", "a=2,b=1"];
        let more = ["--requests", "cpu=2", "--duration", "lognormal:100,1", "--priority", "0=3,10=1"];
        let ran = phalanx(&[&["trace", "generate", "--seed", seed][..], &flags, &more].concat());
        ran.text().to_owned()
    };
    assert_eq!(generated("3"), generated("3"));
    assert_ne!(generated("3"), generated("4"));
    let folder = cluster(&[]);
    std::fs::write(folder.path().join("jobs.jsonl"), generated("3")).unwrap();
    for form in ["text", "json", "html"] {
        let once = played(&folder, &["-o", form, "--scheduler-conf", "preempt.conf"]);
        assert!(once.text().len() > 200, "{once:?}");
        assert_eq!(
            once.stdout,
            played(&folder, &["-o", form, "--scheduler-conf", "preempt.conf"]).stdout,
            "{form}"
        );
    }
}

#[test]
fn two_configurations_stand_side_by_side_and_differ_as_they_should() {
    // Four pods of one CPU, and a job that needs a node of its own.
    let mut jobs: Vec<Value> =
        (0..4).map(|at| job(&format!("small-{at}"), at, 1_000, 1, &json!({}))).collect();
    jobs.push(job("large", 10, 100, 4, &json!({})));
    let folder = cluster(&jobs);
    let confs = ["--scheduler-conf", "spread.conf", "--scheduler-conf", "pack.conf"];
    let report = played(&folder, &[&confs[..], &["-o", "json"]].concat()).json();
    let run = |at: usize| &report["runs"][at];
    assert_eq!((run(0)["conf"].as_str(), run(1)["conf"].as_str()), (Some("spread.conf"), Some("pack.conf")));
    assert!(run(0)["waits"]["max"].as_f64().unwrap() > 900.0, "spread over both nodes, none is free");
    assert_eq!(run(1)["waits"]["max"], 0.0);
    assert_eq!(run(0)["firstWait"]["job"], "large");
    assert_eq!(run(1)["firstWait"], Value::Null);
    let peak = |at: usize| run(at)["fragments"]["peak"].as_f64().unwrap();
    assert!(peak(0) > peak(1), "{} {}", peak(0), peak(1));
    let table = played(&folder, &confs).text().to_owned();
    for part in [
        "spread.conf",
        "pack.conf",
        "cpu in fragments",
        "the first job to wait is large, number 5 of 5",
        "no job had to wait",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn evicted_pods_start_again_and_their_work_is_lost() {
    let low = json!({"priority": 0});
    let folder = cluster(&[
        job("low-a", 0, 1_000, 4, &low),
        job("low-b", 0, 1_000, 4, &low),
        job("high", 100, 200, 4, &json!({"priority": 100})),
    ]);
    let report = played(&folder, &["--scheduler-conf", "preempt.conf", "-o", "json"]).json();
    let run = &report["runs"][0];
    assert_eq!(run["evictions"]["byAction"], json!({"preempt": 1}));
    let lost = run["evictions"]["lostHours"]["cpu"].as_f64().unwrap();
    assert!((lost - 4.0 * 100.0 / 3_600.0).abs() < 0.01, "4 CPUs for 100 s: {lost}");
    assert_eq!(run["finished"], 3);
    let seconds = run["seconds"].as_f64().unwrap();
    assert!((1_300.0..1_330.0).contains(&seconds), "100 s, 200 s of the high one, 1000 s again: {seconds}");
}

#[test]
fn the_page_of_a_trace_needs_no_other_file_and_has_a_line_for_each_configuration() {
    let folder = cluster(&[job("a", 0, 100, 4, &json!({"queue": "x"})), job("b", 10, 100, 4, &json!({}))]);
    let confs = ["--scheduler-conf", "spread.conf", "--scheduler-conf", "pack.conf", "-o", "html"];
    let page = played(&folder, &confs).text().to_owned();
    for part in
        ["<svg", "prefers-color-scheme: dark", "spread.conf", "pack.conf", "class=\"line c1\"", "x: cpu"]
    {
        assert!(page.contains(part), "{part}");
    }
    for part in ["Mean, peak (spread.conf)", "Mean, peak (pack.conf)", "cpu in fragments", "128Gi"] {
        assert!(page.contains(part), "as the table has it: {part}");
    }
    for part in ["<script", "http:", "https:", "src=", "NaN"] {
        assert!(!page.contains(part), "{part}");
    }
    let links = page.matches("href=").count();
    assert_eq!(links, page.matches("href=\"#").count(), "links lead to its own sections");
    for id in ["runs", "use", "waiting", "queues", "fragments", "evictions"] {
        assert!(page.contains(&format!("href=\"#{id}\"")) && page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn figures_of_several_seeds_and_traces_have_their_least_median_and_most() {
    let folder = cluster(&[job("a", 0, 100, 4, &json!({})), job("b", 10, 100, 4, &json!({}))]);
    let second = job("only", 0, 100, 4, &json!({})).to_string();
    std::fs::write(folder.path().join("second.jsonl"), second).unwrap();
    let flags = ["--trace", "second.jsonl", "--seeds", "3"];
    let report = played(&folder, &[&flags[..], &["-o", "json"]].concat()).json();
    assert_eq!((&report["plays"], &report["jobs"]), (&json!(6), &json!(2)));
    assert_eq!(
        report["runs"][0]["spread"]["started"],
        json!({"min": 1.0, "median": 1.0, "max": 2.0}),
        "of six plays the third"
    );
    let table = played(&folder, &flags).text().to_owned();
    assert!(table.contains("OF 6 PLAYS") && table.contains("use, peak"), "{table}");
    let once = played(&folder, &["-o", "json"]).json();
    assert_eq!(once["runs"][0]["spread"], Value::Null);
}

#[test]
fn openb_becomes_arrivals_and_a_cluster() {
    let folder = folder(&[("nodes.csv", NODES), ("pods.csv", TASKS)]);
    let from = ["trace", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv", "--cluster", "cluster.json"];
    let lines = phalanx_in(folder.path(), &from, "").text().to_owned();
    std::fs::write(folder.path().join("jobs.jsonl"), &lines).unwrap();
    let args = ["simulate", "-f", "cluster.json", "--trace", "jobs.jsonl", "-o", "json"];
    let ran = phalanx_in(folder.path(), &args, "");
    let report = ran.json();
    assert_eq!(ran.stderr, "", "all queues are in the cluster");
    assert_eq!(
        (&report["resource"], &report["capacity"]["nvidia.com/gpu"]),
        (&json!("nvidia.com/gpu"), &json!(4.0))
    );
    assert_eq!(report["runs"][0]["finished"], 4);
    let fill = phalanx_in(folder.path(), &[&from[..], &["--fill", "1"]].concat(), "").text().to_owned();
    assert_eq!(fill.lines().count(), 4);
    assert!(!fill.contains("duration"), "{fill}");
}

#[test]
fn jobs_that_never_start_are_told_with_their_reason_and_equal_reasons_once() {
    let folder = cluster(&[
        job("a", 0, 100, 4, &json!({})),
        job("large", 10, 50, 9, &json!({})),
        job("too-large", 20, 50, 9, &json!({"size": 2})),
    ]);
    let reason = "0/2 nodes are available: 2 Insufficient cpu.";
    let lack = "least missing, on node n2: cpu 5 (no node that it may use is large enough)";
    let conf = ["--scheduler-conf", "preempt.conf"];
    let played = |form| played(&folder, &[&conf[..], &["-o", form]].concat());
    let report = played("json").json();
    let expected = json!([{"jobs": 2, "example": "large", "reason": reason, "lack": lack}]);
    assert_eq!(report["runs"][0]["neverStarted"], expected);
    let line = format!("2              preempt.conf  large    {reason} {lack}");
    let table = played("text");
    assert!(table.text().lines().any(|found| found == line), "{line}\n{table:?}");
    let page = played("html").text().to_owned();
    assert!(
        page.contains(">Jobs that never started</h2>") && page.contains(&format!("{reason} {lack}")),
        "{page}"
    );
}

#[test]
fn what_no_job_of_a_trace_may_have_is_not_generated() {
    for (flags, expected) in [
        (["--requests", "cpu=abc"], "--requests.cpu: found \"abc\", expected a quantity of at least 0"),
        (["--requests", "memory=-1"], "--requests.memory: found \"-1\", expected a quantity of at least 0"),
        (["--size", "1=1,0=1"], "--size: found 0, expected from 1 to 100000"),
        (
            ["--queue", "A"],
            "--queue: found \"A\", expected lower-case letters, digits, '-' and '.', at most 253",
        ),
    ] {
        let ran = phalanx(&[&["trace", "generate"][..], &flags].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert_eq!(ran.stderr, format!("error: {expected}\n"));
    }
}

#[test]
fn amounts_of_memory_have_units() {
    let job = |name: &str, memory: &str| json!({"name": name, "arrival": 0, "duration": 10, "requests": {"memory": memory}});
    let folder = cluster(&[job("a", "17179869184"), job("b", "16Gi"), job("c", "1536Mi")]);
    let pods = phalanx_in(folder.path(), &["trace", "pods", "jobs.jsonl", "--resource", "memory"], "");
    let expected = "fragmentation.resource: memory\nfragmentation.pods:\n- {part: 2, requests: {memory: 16Gi}}\n\
                    - {part: 1, requests: {memory: 1536Mi}}\n";
    assert_eq!(pods.text(), expected);
    let table = played(&folder, &["--resource", "memory"]).text().to_owned();
    assert!(table.contains("default  built-in  33.5Gi") && !table.contains("0000"), "{table}");
}

#[test]
fn a_broken_trace_is_refused_with_its_line() {
    let folder = cluster(&[job("a", 0, 1, 1, &json!({})), json!({"name": "b", "arrival": 0})]);
    let ran = played(&folder, &[]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.starts_with("error: jobs.jsonl:2:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("missing field `requests`"), "{}", ran.stderr);
}

/// Objects that were created at this second of a minute.
fn at(second: u32, objects: &str) -> String {
    let time = format!("metadata: {{creationTimestamp: \"2026-11-22T00:00:{second:02}Z\", ");
    objects.replace("metadata: {", &time)
}

#[test]
fn with_arrivals_objects_appear_at_their_creation_times() {
    let run = "phalanx.sh/run-seconds: \"20\"";
    let manifests = node("n1", 4) + &at(40, &pod("late", 4, run, "")) + &at(10, &pod("early", 4, run, ""));
    let together = simulate(&manifests, &[]);
    let apart = simulate(&manifests, &["--arrivals"]);
    assert_eq!(count(&together["bindings"]), 2);
    assert_eq!(count(&apart["bindings"]), 2);
    let seconds = |report: &Value| report["stats"]["virtualSeconds"].as_f64().unwrap();
    assert!(
        (51.0..54.0).contains(&seconds(&apart)),
        "30 s until the second, which runs 20 s: {}",
        seconds(&apart)
    );
    assert!(seconds(&together) < 46.0, "one after the other: {}", seconds(&together));
}

#[test]
fn with_arrivals_reclaim_can_be_rehearsed() {
    let conf = "actions: \"enqueue, allocate, reclaim\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n\
                - plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n";
    let queues = queue("a", "weight: 1, reclaimable: true") + &queue("b", "weight: 1, reclaimable: true");
    let jobs = |queue: &str, count: u32| -> String {
        let name = |index| format!("{queue}{index}");
        (0..count).map(|index| group_in(&name(index), 1, queue) + &members(&name(index), 1, 2)).collect()
    };
    let (first, second) = (at(0, &jobs("a", 4)), at(30, &jobs("b", 2)));
    let manifests = node("n1", 4) + &node("n2", 4) + &queues + &first + &second;
    let folder = folder(&[("m.yaml", &manifests), ("c.conf", conf)]);
    let args = ["simulate", "-f", "m.yaml", "--scheduler-conf", "c.conf", "-o", "json"];
    let evicted = |flags: &[&str]| {
        let report = phalanx_in(folder.path(), &[&args[..], flags].concat(), "").json();
        report["evictions"].as_array().unwrap().len()
    };
    assert_eq!(evicted(&[]), 0, "all are there at once, and both queues get their half");
    assert_eq!(evicted(&["--arrivals"]), 2, "queue a takes all until queue b has jobs");
}

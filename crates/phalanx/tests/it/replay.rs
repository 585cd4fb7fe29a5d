//! `phalanx replay`, and `explain --journal`: journals in, what was decided out. With `WRITE_SAMPLE_JOURNAL=1`, the
//! journal in `config/examples` is written anew.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx_cluster::GroupWait;
use phalanx_cluster::event::{
    Event, Key, NodeInfo, PodGroupInfo, PodInfo, PodLife, PodPhase, PodRef, PodRequests, QueueGate,
    QueueInfo, Time,
};
use phalanx_runtime::journal::{Cycle, Line, Start};
use serde_json::Value;

use crate::run::{Ran, folder, phalanx, phalanx_in};

const CONF: &str = "actions: enqueue, allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n";

fn start(inputs: bool) -> Line<Value> {
    start_of(inputs, CONF)
}

fn start_of(inputs: bool, conf: &str) -> Line<Value> {
    Line::Start(Box::new(Start {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        inputs,
        seed: 0,
        default_queue: "default".into(),
        group_wait: GroupWait::Never,
        sampling: None,
        backoff: phalanx_runtime::scheduler::BackoffTimes::default(),
        conf: inputs.then(|| conf.into()),
    }))
}

fn pod(name: &str) -> PodInfo {
    pod_of("train", name)
}

fn pod_of(group: &str, name: &str) -> PodInfo {
    PodInfo {
        pod: PodRef { namespace: "ml".into(), name: name.into(), uid: name.into() }.into(),
        created: Time(1),
        life: PodLife::default(),
        ours: true,
        group: Some(group.into()),
        queue: None,
        role: "".into(),
        index: None,
        priority: None,
        priority_class: None,
        never_preempts: false,
        preemptable: None,
        gated: false,
        queue_gate: QueueGate::None,
        requests: PodRequests {
            containers: vec![vec![("cpu".into(), "1".parse().unwrap())]],
            ..PodRequests::default()
        }
        .into(),
        constraints: Arc::default(),
        claims: None,
        annotations: std::iter::empty().collect(),
        labels: std::iter::empty().collect(),
        run_time: None,
        controller: None,
    }
}

/// A gang of two, and a node for it.
fn events() -> Line<Value> {
    let allocatable =
        [("cpu", "4"), ("pods", "10")].map(|(name, amount)| (name.into(), amount.parse().unwrap()));
    let node =
        NodeInfo { name: "n1".into(), ready: true, allocatable: allocatable.into(), ..NodeInfo::default() };
    let queue = QueueInfo { name: "default".into(), weight: 1, reclaimable: true, ..QueueInfo::default() };
    let key = Key::new("ml", "train");
    let group = PodGroupInfo { key, uid: "u".into(), min_member: 2, ..PodGroupInfo::default() };
    let objects: [Event; 5] =
        [queue.into(), node.into(), group.into(), pod("train-0").into(), pod("train-1").into()];
    Line::Events(objects.into())
}

fn cycle(decisions: Vec<Value>) -> Line<Value> {
    let time = "2026-11-22T14:03:10Z".to_owned();
    let now = Time(1_795_356_190_000);
    Line::Cycle(Cycle { number: 1, time, now, decisions, stopwatch: Vec::new(), extenders: Vec::new() })
}

fn text(lines: &[Line<Value>]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

fn config(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config").join(path)
}

fn run(journal: &str, args: &[&str]) -> Ran {
    phalanx_in(folder(&[("journal", journal)]).path(), args, "")
}

/// A cycle as it is decided now.
fn decided() -> Vec<Value> {
    decided_last(&[start(true), events()])
}

/// What a cycle after these lines decides.
fn decided_last(lines: &[Line<Value>]) -> Vec<Value> {
    let journal = text(&[lines, &[cycle_after(lines, vec![])]].concat());
    let ran = run(&journal, &["replay", "journal", "-o", "json"]);
    let line: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    line["cycle"]["decisions"].as_array().unwrap().clone()
}

/// The cycle after these lines: a second after the one before it.
fn cycle_after(lines: &[Line<Value>], decisions: Vec<Value>) -> Line<Value> {
    let before = lines.iter().filter(|line| matches!(line, Line::Cycle(_))).count();
    let Line::Cycle(first) = cycle(decisions) else { return cycle(Vec::new()) };
    let time = first.time.replace("10Z", &format!("{}Z", 10 + before));
    let now = Time(first.now.0 + 1_000 * before as i64);
    Line::Cycle(Cycle { number: first.number + before as u64, time, now, ..first })
}

#[test]
fn cycles_that_decide_as_recorded_are_printed() {
    let journal = text(&[start(true), events(), cycle(decided())]);
    let table = run(&journal, &["replay", "journal"]);
    let bind = "2026-11-22T14:03:10Z  cycle 1  ml/train bound: train-0 on n1, train-1 on n1\n";
    assert!(table.text().contains(bind), "{table:?}");
    assert!(table.stderr.ends_with(" decisions replayed, all as recorded\n"), "{table:?}");
    let json = run(&journal, &["replay", "journal", "-o", "json"]);
    assert_eq!(json.text(), text(&[cycle(decided())]), "the cycles of the journal");
    let yaml = run(&journal, &["replay", "journal", "-o", "yaml"]);
    assert!(yaml.text().starts_with("---\n"), "{yaml:?}");
    let document: Value = serde_yaml::from_str(yaml.text()).unwrap();
    assert_eq!(document, serde_json::from_str::<Value>(json.text()).unwrap(), "a document for each cycle");
}

#[test]
fn the_first_decision_that_differs_is_named() {
    let mut decisions = decided();
    let bind = decisions.iter().position(|decision| decision["bind"].is_object()).unwrap();
    decisions[bind]["bind"]["pods"][1]["node"] = "n2".into();
    let ran = run(&text(&[start(true), events(), cycle(decisions)]), &["replay", "journal"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let expected =
        format!("error: cycle 1 (2026-11-22T14:03:10Z): decision {} differs: recorded {{", bind + 1);
    assert!(ran.stderr.starts_with(&expected) && ran.stderr.contains("\"node\":\"n2\""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
}

#[test]
fn a_journal_with_inputs_is_a_trace_of_its_jobs() {
    let ran = run(&text(&[start(true), events(), cycle(vec![])]), &["trace", "journal", "journal"]);
    let line = r#"{"arrival":0.0,"name":"train","namespace":"ml","size":2,"requests":{"cpu":"1"}}"#;
    assert_eq!(ran.text(), format!("{line}\n"));
    assert_eq!(ran.stderr, "note: 1 job not ended, without a duration\n");
    for journal in [text(&[start(false)]), text(&[start(true)]), text(&[cycle(vec![])])] {
        let ran = run(&journal, &["trace", "journal", "journal"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.starts_with("error: journal: found "), "{ran:?}");
    }
}

#[test]
fn journals_that_cannot_be_replayed_are_refused_with_the_reason() {
    let whole = || vec![start(true), events(), cycle(decided())];
    let with = |more: Vec<Line<Value>>| text(&[whole(), more].concat());
    for (journal, expected) in [
        (text(&[start(false), cycle(decided())]), "journal: the journal has no inputs: only one that is"),
        (text(&[events(), cycle(vec![])]), "journal: found no start of a scheduler"),
        ("kind: Pod\n".to_owned(), "journal: line 1: "),
        (
            with(vec![Line::Conf("actions: [".into())]),
            "journal: the recorded scheduler.conf cannot be used: ",
        ),
    ] {
        let ran = run(&journal, &["replay", "journal"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {expected}")), "{expected}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let missing = phalanx_in(folder(&[]).path(), &["replay", "none"], "");
    assert_eq!(
        (missing.code, &*missing.stderr),
        (2, "error: none: cannot be read: No such file or directory\n")
    );
}

#[test]
fn what_follows_half_a_line_is_replayed_from_the_next_start_on() {
    let whole = text(&[start(true), events(), cycle(decided())]);
    let ran = run(
        &(whole.clone() + "{\"cycle\":{\"num\n" + &text(&[cycle(vec![])]) + &whole),
        &["replay", "journal"],
    );
    assert_eq!(ran.text().matches("ml/train bound").count(), 2, "{ran:?}");
    let note = "note: journal: lines are missing after cycle 1 (1): what follows, up to the next start, is not replayed\n2 cycles ";
    assert!(ran.stderr.starts_with(note), "{ran:?}");
}

#[test]
fn a_journal_whose_first_files_are_gone_says_how_far_it_reaches_back() {
    let ran =
        run(&text(&[cycle(decided())]), &["explain", "--journal", "journal", "-n", "ml", "pod", "train-0"]);
    assert!(ran.text().contains("bound to node n1"), "{ran:?}");
    let note =
        "note: journal: it reaches back to 2026-11-22T14:03:10Z only; what was decided before is not told\n";
    assert_eq!(ran.stderr, note);
}

#[test]
fn explain_tells_what_a_journal_and_its_full_files_say_of_a_pod() {
    let evict = serde_json::json!({"evict": {"pod": {"namespace": "ml", "name": "train-0", "uid": "train-0"},
        "group": {"key": {"namespace": "ml", "name": "train"}, "uid": "u"},
        "cause": {"action": "reclaim", "by": {"namespace": "web", "name": "serving"}, "reason": "reclaimed"}}});
    let files = folder(&[
        ("journal.1", &text(&[start(false), cycle(decided())])),
        ("journal", &text(&[cycle(vec![evict])])),
    ]);
    let explain = |args: &[&str]| {
        phalanx_in(files.path(), &[&["explain", "--journal", "journal", "-n", "ml"], args].concat(), "")
    };
    let time = "2026-11-22T14:03:10Z  ";
    assert_eq!(
        explain(&["pod", "train-0"]).text(),
        format!(
            "{time}bound to node n1 with 1 other pod of PodGroup ml/train (cycle 1)\n\
             {time}evicted by action reclaim for web/serving: reclaimed (cycle 1)\n"
        )
    );
    assert_eq!(explain(&["pod", "train-0"]).stderr, "", "it reaches back to a start");
    let group = explain(&["podgroup", "train"]);
    assert!(group.text().contains("2 pods bound to n1 (cycle 1)\n"), "{group:?}");
    assert!(group.text().contains("pod ml/train-0 evicted by action reclaim for web/serving"), "{group:?}");
    let nobody = explain(&["pod", "other"]);
    let expected = "error: journal: nothing was decided about pod ml/other; the journal reaches from 2026-11-22T14:03:10Z \
                    to 2026-11-22T14:03:10Z\n";
    assert_eq!((nobody.code, &*nobody.stderr), (2, expected));
    assert_eq!(explain(&["job/train"]).text(), group.text(), "the PodGroup of the Job");
    let other = "error: --journal tells of pods, PodGroups and Jobs of Volcano, expected pod, podgroup or job in place of Deployment\n";
    assert_eq!(explain(&["deploy", "train"]).stderr, other);
}

/// A gang of low priority fills a node, until one of high priority takes two of its places.
fn sample() -> Vec<Line<Value>> {
    let class = |name: &str, value| Event::PriorityClass { name: name.into(), value, global_default: false };
    let gang = |name: &str, class: &str, pods| {
        let key = Key::new("ml", name);
        let class = Some(class.into());
        let group = PodGroupInfo {
            key,
            uid: name.into(),
            min_member: 2,
            priority_class: class,
            ..Default::default()
        };
        let pods = (0..pods).map(|index| Event::from(pod_of(name, &format!("{name}-{index}"))));
        std::iter::once(group.into()).chain(pods).collect::<Vec<Event>>()
    };
    let Line::Events(room) = events() else { return Vec::new() };
    let room = room.into_iter().take(2);
    let running = (0..4).map(|index| {
        let life = PodLife { node: Some("n1".into()), phase: PodPhase::Running, ..PodLife::default() };
        PodInfo { life, ..pod(&format!("train-{index}")) }.into()
    });
    let mut lines = vec![start_of(true, &fs::read_to_string(config("preempt-and-reclaim.yaml")).unwrap())];
    let conf = room.chain([class("low", 1), class("high", 10)]).chain(gang("train", "low", 4)).collect();
    let gone = (0..4).map(|index| Event::PodGone(format!("train-{index}").into()));
    for events in [conf, running.collect(), gang("urgent", "high", 2), gone.skip(2).collect()] {
        lines.push(Line::Events(events));
        let decisions = decided_last(&lines);
        lines.push(cycle_after(&lines, decisions));
    }
    lines
}

#[test]
fn the_journal_of_the_examples_is_replayed_and_explained() {
    let path = config("examples/preemption/journal");
    if std::env::var_os("WRITE_SAMPLE_JOURNAL").is_some() {
        fs::write(&path, text(&sample())).unwrap();
    }
    let path = path.to_str().unwrap();
    let replayed = phalanx(&["replay", path]);
    assert!(replayed.text().contains("ml/urgent bound: "), "{replayed:?}");
    assert!(replayed.stderr.ends_with(", all as recorded\n"), "{replayed:?}");
    let why = phalanx(&["explain", "pod", "train-3", "-n", "ml", "--journal", path]);
    assert!(why.text().contains("evicted by action preempt for ml/urgent: "), "{why:?}");
}

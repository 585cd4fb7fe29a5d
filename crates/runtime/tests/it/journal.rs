//! Journals that the scheduling thread writes: what they tell, and that their cycles can be run again.
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{BindFailure, BindFault, Event, Key, PodGroupInfo};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_explain::Question;
use phalanx_framework::extender::NoExtender;
use phalanx_framework::testing::{group, member, node, queue, running};
use phalanx_runtime::api::Notes;
use phalanx_runtime::clock::CycleClock;
use phalanx_runtime::engine::{Engine, Input, Pace, SnapshotRequests};
use phalanx_runtime::journal::{
    Journal, JournalOptions, Line, NoCapture, NoPast, Past, Reader, Recording, Replay, Start, Subject,
    Wanted, history,
};
use phalanx_runtime::metrics::Metrics;
use phalanx_runtime::outbox::driver;
use phalanx_runtime::telemetry::{SlowCycles, Telemetry};
use phalanx_testkit::random::{Script, script};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

const SEED: u64 = 7;

/// Counts cycles.
const CYCLES: &str = "volcano_e2e_scheduling_latency_milliseconds_count";

/// A scheduling thread that writes a journal.
struct Recorded {
    inputs: Sender<Input>,
    outbox: UnboundedReceiver<driver::Input>,
    metrics: Arc<Metrics>,
    thread: JoinHandle<()>,
    /// How many events came from this test.
    batches: usize,
}

impl Recorded {
    fn new(journal: JournalOptions, conf: &str) -> Self {
        let (inputs, receive) = channel();
        let (send, outbox) = unbounded_channel();
        let metrics = Arc::<Metrics>::default();
        let mut journal = Journal::open(journal, Arc::clone(&metrics)).unwrap();
        let parsed = parse(conf, &Known::builtin()).conf.unwrap();
        let mut scheduler = Scheduler::new(parsed, SEED);
        journal.equip(&mut scheduler, Arc::new(NoExtender));
        let options = ClusterOptions::default();
        journal.start(Start {
            version: "1".to_owned(),
            inputs: true,
            seed: SEED,
            default_queue: options.default_queue.clone(),
            group_wait: options.group_wait,
            sampling: None,
            backoff: phalanx_core::BackoffTimes::default(),
            conf: Some(conf.into()),
        });
        let engine = Engine {
            cluster: Cluster::new(options),
            scheduler,
            pace: Pace::new(Duration::from_millis(1), Duration::from_secs(1)),
            waits_for: BTreeSet::new(),
            inputs: receive,
            outbox: send,
            telemetry: Telemetry::new(Arc::clone(&metrics), SlowCycles::default()),
            health: Arc::default(),
            leads: false,
            clock: CycleClock::default(),
            journal,
            notes: Notes::default(),
            asked: SnapshotRequests::default(),
        };
        let thread = std::thread::spawn(move || engine.run());
        inputs.send(Input::Lead).unwrap();
        Self { inputs, outbox, metrics, thread, batches: 0 }
    }

    /// The number of cycles so far.
    fn cycles(&self) -> u64 {
        count(&self.metrics, CYCLES)
    }

    /// Sends events, waits for a cycle, and returns what was decided since the last call.
    fn cycle(&mut self, mut events: Vec<Event>) -> Vec<Decision> {
        let before = self.cycles();
        self.batches += 1;
        // A change for sure.
        events.push(node(&format!("other{}", self.batches), "cpu=1 pods=1").into());
        self.inputs.send(Input::Events(events)).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while self.cycles() == before {
            assert!(Instant::now() < until, "no cycle");
            std::thread::yield_now();
        }
        let mut decided = Vec::new();
        while let Ok(input) = self.outbox.try_recv() {
            if let driver::Input::Decisions(decisions) = input {
                decided.extend(decisions);
            }
        }
        decided
    }

    /// Sends events, and returns the decisions of an action one of which is asked for.
    fn until(&mut self, events: Vec<Event>, is_there: impl Fn(&Decision) -> bool) -> Vec<Decision> {
        self.inputs.send(Input::Events(events)).unwrap();
        loop {
            if let driver::Input::Decisions(decisions) = self.outbox.blocking_recv().unwrap()
                && decisions.iter().any(&is_there)
            {
                return decisions;
            }
        }
    }

    fn journal(&self, wanted: Wanted) -> Result<Recording, NoCapture> {
        let (tell, told) = oneshot::channel();
        self.inputs.send(Input::Journal(wanted, tell)).unwrap();
        told.blocking_recv().unwrap()
    }

    /// What a capture holds now.
    fn capture(&self) -> Result<Vec<u8>, NoCapture> {
        let mut lines = Vec::new();
        self.journal(Wanted::Replay)?.since_start()?.read_to_end(&mut lines).unwrap();
        Ok(lines)
    }

    /// What is told of a pod now.
    fn past(&self, name: &str) -> Result<Past, NoPast> {
        let journal = Reader::of_recording(self.journal(Wanted::Decisions).unwrap());
        let question =
            Question { subject: phalanx_explain::Subject::Pod, namespace: "ns".into(), name: name.into() };
        Past::of(journal, &question)
    }

    /// Waits until all is written.
    fn end(self) -> Arc<Metrics> {
        self.inputs.send(Input::Stop).unwrap();
        self.thread.join().unwrap();
        self.metrics
    }
}

/// The value of a metric.
fn count(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.render();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

fn options(folder: &Path) -> JournalOptions {
    JournalOptions { path: folder.join("journal"), max_bytes: 1 << 30, max_backups: 1, inputs: true }
}

fn lines(path: &Path) -> Vec<Line<Value>> {
    Reader::new(path).map(Result::unwrap).collect()
}

/// What the API server makes of decisions: some binds fail, evicted pods go or stay.
fn answers(decisions: &[Decision], fails: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for (at, decision) in decisions.iter().enumerate() {
        match decision {
            Decision::Bind { pods, .. } => {
                for binding in pods {
                    let uid = binding.pod.uid.clone();
                    let failure = BindFailure { message: "timeout".into(), fault: BindFault::Denied };
                    let fails = fails && at % 2 == 0;
                    events.push(if fails { Event::BindFailed(uid, failure) } else { Event::Bound(uid) });
                }
            }
            Decision::Evict { pod, .. } if fails => {
                events.push(Event::EvictFailed(pod.uid.clone(), "refused".into()));
            }
            Decision::Evict { pod, .. } => events.push(Event::PodGone(pod.uid.clone())),
            _ => {}
        }
    }
    events
}

/// A capture that was taken while a scheduler ran, and how many cycles had run.
struct Captured {
    lines: Vec<u8>,
    cycles: u64,
}

/// Runs a random cluster, with a reload of scheduler.conf in between; a capture is taken after so many cycles. Returns
/// it and the number of cycles.
fn record(script: &Script, conf: &str, journal: JournalOptions, capture_after: usize) -> (Captured, u64) {
    let mut recorded = Recorded::new(journal, conf);
    let mut captured = None;
    let mut decided = recorded.cycle(script.events());
    for (at, (_, fails)) in script.future.iter().enumerate() {
        if at == capture_after {
            captured = Some(taken(&recorded));
        }
        let mut events = answers(&decided, *fails);
        if let Some((name, room)) = script.nodes.get(at) {
            events.push(if *fails { Event::NodeGone(name.as_str().into()) } else { node(name, room).into() });
        }
        decided = recorded.cycle(events);
    }
    let new = Box::new(parse(conf, &Known::builtin()).conf.unwrap());
    recorded.inputs.send(Input::Conf(new, conf.into())).unwrap();
    recorded.cycle(answers(&decided, false));
    let captured = captured.unwrap_or_else(|| taken(&recorded));
    (captured, count(&recorded.end(), CYCLES))
}

fn taken(recorded: &Recorded) -> Captured {
    let cycles = recorded.cycles();
    Captured { lines: recorded.capture().unwrap(), cycles }
}

/// How many cycles these lines have; each is replayed and compared.
fn replayed(lines: impl IntoIterator<Item = Line<Value>>, name: &str) -> Result<u64, TestCaseError> {
    let (mut replay, mut cycles) = (Replay::default(), 0);
    for line in lines {
        if let Some(cycle) = replay.take_in(line).unwrap() {
            prop_assert_eq!(cycle.difference, None, "{}", name);
            cycles += 1;
        }
    }
    Ok(cycles)
}

/// Names and texts of the configurations in `config/`.
fn shipped() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let confs = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    confs.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn cycles_of_random_clusters_are_replayed_to_the_byte_with_all_shipped_confs() {
    let confs = shipped();
    assert!(confs.len() > 5, "{confs:?}");
    for (name, conf) in confs {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) };
        let one = |(script, capture_after): (Script, usize)| {
            let folder = tempfile::tempdir().unwrap();
            let (captured, cycles) = record(&script, &conf, options(folder.path()), capture_after);
            let journal = replayed(lines(&options(folder.path()).path), &name)?;
            prop_assert_eq!(journal, cycles, "each cycle is in the journal");
            let file = folder.path().join("capture");
            std::fs::write(&file, captured.lines).unwrap();
            let until_then = replayed(lines(&file), &name)?;
            prop_assert!((captured.cycles..=cycles).contains(&until_then), "{} cycles", until_then);
            Ok(())
        };
        TestRunner::new(config).run(&(script(), 0..4_usize), one).unwrap();
    }
}

#[test]
fn only_a_scheduler_that_records_inputs_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    let options = JournalOptions { inputs: false, ..options(folder.path()) };
    let mut recorded = Recorded::new(options, PREEMPT);
    recorded.until(preemption(), is_evict);
    assert_eq!(recorded.capture(), Err(NoCapture::NoInputs));
    recorded.end();
}

#[test]
fn a_running_scheduler_tells_what_its_journal_says_of_a_pod() {
    for inputs in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut recorded = Recorded::new(JournalOptions { inputs, ..options(folder.path()) }, PREEMPT);
        recorded.until(preemption(), is_evict);
        let past = recorded.past("old-0").unwrap();
        assert!(past.is_whole && past.lines.len() == 1, "{past:?}");
        assert!(past.lines[0].contains("  evicted by action preempt for ns/first: "), "{past:?}");
        let nothing = recorded.past("other").unwrap_err().to_string();
        assert!(nothing.starts_with("nothing was decided about pod ns/other; the journal reaches from 20"));
        recorded.end();
    }
}

/// A full node, and a gang that preempts those on it.
fn preemption() -> Vec<Event> {
    let class = Event::PriorityClass { name: "high".into(), value: 10, global_default: false };
    let mut events = vec![queue("default", 1).into(), class, node("full", "cpu=2 pods=9").into()];
    events.push(group("old", 0).into());
    events.extend((0..2).map(|index| Event::from(running(member("old", index, "cpu=1"), "full"))));
    let first = PodGroupInfo { priority_class: Some("high".into()), ..group("first", 1) };
    events.extend([first.into(), member("first", 0, "cpu=2").into()]);
    events
}

const PREEMPT: &str = "actions: allocate, preempt\ntiers: [{plugins: [{name: priority}, {name: gang}, \
    {name: predicates}, {name: nodeorder}]}]\n";

/// The journal of a preemption, up to the bind of the preemptor.
fn preempted(journal: JournalOptions) {
    let mut recorded = Recorded::new(journal, PREEMPT);
    let decided = recorded.until(preemption(), is_evict);
    recorded.until(answers(&decided, false), |decision| matches!(decision, Decision::Bind { .. }));
    recorded.end();
}

fn is_evict(decision: &Decision) -> bool {
    matches!(decision, Decision::Evict { .. })
}

#[test]
fn a_journal_tells_why_a_pod_was_evicted_and_when_its_preemptor_was_bound() {
    for inputs in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = JournalOptions { inputs, ..options(folder.path()) };
        preempted(options.clone());
        let told = |subject: &Subject| -> Vec<String> {
            let lines = lines(&options.path);
            lines.iter().flat_map(|line| history(line, subject)).map(|happened| happened.what).collect()
        };
        let why =
            "evicted by action preempt for ns/first: preempted by ns/first (priority 10) in queue default";
        assert_eq!(told(&Subject::Pod(Key::new("ns", "old-0"))), [why]);
        let first = told(&Subject::Pod(Key::new("ns", "first-0")));
        assert_eq!(first.last().map(String::as_str), Some("bound to node full for PodGroup ns/first"));
        let group = told(&Subject::PodGroup(Key::new("ns", "first")));
        assert!(group.contains(&"had pod ns/old-1 evicted by action preempt".to_owned()), "{group:?}");
        assert!(group.contains(&"1 pod bound to full".to_owned()), "{group:?}");
        let replayed = lines(&options.path).into_iter().map(|line| Replay::default().take_in(line));
        let refused = replayed.filter(Result::is_err).count();
        assert_eq!(refused, usize::from(!inputs), "without inputs nothing can be replayed");
    }
}

#[test]
fn a_decision_that_differs_from_the_recorded_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(folder.path()).path;
    preempted(options(folder.path()));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"node\":\"full\"}]", "\"node\":\"other\"}]")).unwrap();
    let mut replay = Replay::default();
    let cycles = lines(&path).into_iter().filter_map(|line| replay.take_in(line).unwrap());
    let different: Vec<_> = cycles.filter_map(|cycle| cycle.difference).collect();
    assert_eq!(different.len(), 1, "{different:?}");
    let node = |decision: &Option<Value>| decision.as_ref().unwrap()["bind"]["pods"][0]["node"].clone();
    assert_eq!((node(&different[0].recorded), node(&different[0].replayed)), ("other".into(), "full".into()));
}

#[test]
fn a_full_disk_delays_no_cycle_and_is_counted() {
    let options = JournalOptions { path: "/dev/full".into(), ..options(Path::new("/")) };
    let mut recorded = Recorded::new(options, PREEMPT);
    recorded.until(preemption(), is_evict);
    assert!(count(&recorded.end(), "phalanx_journal_dropped_total") > 0);
}

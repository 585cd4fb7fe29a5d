//! Budgets of searches in steps and time; jobs that do not wait for a search.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_cluster::event::{Event, PodGroupInfo, Time};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::Conf;

use phalanx_framework::testing::{group, member, node, running};
use phalanx_testkit::{TestCluster, helm};

/// A stopwatch that goes on with each reading.
#[derive(Debug)]
struct Ticking(AtomicU32);

impl Stopwatch for Ticking {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(10) * self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A stopwatch that goes on by `step` with each reading and records the decisions that were handed out by then.
#[derive(Debug)]
struct Watched {
    step: Duration,
    looks: AtomicU32,
    out: Arc<Mutex<Vec<&'static str>>>,
    seen: Mutex<Vec<Vec<&'static str>>>,
}

impl Watched {
    fn new(step: Duration) -> Arc<Self> {
        Arc::new(Self { step, looks: AtomicU32::new(0), out: Arc::default(), seen: Mutex::default() })
    }
}

impl Stopwatch for Watched {
    fn elapsed(&self) -> Duration {
        let out = self.out.lock().expect("a test fails in one place").clone();
        self.seen.lock().expect("a test fails in one place").push(out);
        self.step * self.looks.fetch_add(1, Ordering::Relaxed)
    }
}

fn name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Bind { .. } => "bind",
        Decision::Evict { .. } => "evict",
        Decision::PodGroupStatus { .. } => "status",
        _ => "other",
    }
}

fn urgent(name: &str, min: u32) -> PodGroupInfo {
    PodGroupInfo { priority_class: Some("high".into()), ..group(name, min) }
}

/// A full node, a gang that has to evict, and a gang that has room on another node.
fn contended() -> TestCluster {
    let conf = Conf { actions: ["enqueue", "allocate", "preempt"].map(Into::into).into(), ..helm() };
    let mut test = TestCluster::with(conf);
    test.add(Event::PriorityClass { name: "high".into(), value: 10, global_default: false });
    test.add(node("full", "cpu=4")).add(node("small", "cpu=1")).add(group("old", 1));
    for index in 0..4 {
        test.add(running(member("old", index, "cpu=1"), "full"));
    }
    test.gang(urgent("large", 1), 1, "cpu=4");
    test.gang(group("fits", 1), 1, "cpu=1");
    test
}

#[test]
fn binds_are_handed_out_before_victims_are_searched_for() {
    let mut test = contended();
    let watched = Watched::new(Duration::ZERO);
    test.set_stopwatch(watched.clone());
    let wake = test.hand_outs(|decisions| {
        watched.out.lock().unwrap().extend(decisions.iter().map(name).filter(|name| *name != "other"));
    });
    let seen = watched.seen.lock().unwrap();
    assert_eq!(seen.last().unwrap()[..], ["bind"], "while preempt looks for victims");
    let out = watched.out.lock().unwrap();
    assert_eq!(out[..5], ["bind", "evict", "evict", "evict", "evict"], "{out:?}");
    assert!(out[5..].iter().all(|name| *name == "status"), "{out:?}");
    assert_eq!(wake, None);
}

#[test]
fn a_search_that_takes_too_long_ends_with_a_reason_and_is_made_again() {
    let mut test = contended();
    test.set_stopwatch(Watched::new(Duration::from_secs(1)));
    let mut evicted = 0;
    let wake = test.hand_outs(|some| evicted += some.iter().filter(|it| name(it) == "evict").count());
    assert_eq!(evicted, 0);
    let told = "preempt: the search was ended after 50 ms (maxTime)";
    assert!(test.reasons("large").iter().any(|reason| reason == told), "{:?}", test.reasons("large"));
    assert_eq!(test.reasons("fits"), [""; 0], "others do not mind");
    assert_eq!(wake, Some(Time(6000)), "a hundred times as long later, though nothing happens");
    test.set_stopwatch(Watched::new(Duration::ZERO));
    assert_eq!(test.cycle().evicted.len(), 0, "the search backs off");
    test.now = Time(5000);
    assert_eq!(test.cycle().evicted.len(), 4);
}

/// Each turn of a search that is cut short is twice as long as the one before, up to a second.
#[test]
fn a_search_that_was_cut_short_gets_twice_as_long_in_its_next_turn() {
    let mut test = contended();
    test.set_stopwatch(Watched::new(Duration::from_secs(5)));
    let mut told = Vec::new();
    for _ in 0..7 {
        let wake = test.hand_outs(|_| {}).expect("the search has another turn");
        let prefix = "preempt: the search was ended after ";
        told.extend(test.reasons("large").iter().filter_map(|it| Some(it.strip_prefix(prefix)?.to_owned())));
        test.now = Time(wake.0 - 1000);
    }
    let ms = [50, 100, 200, 400, 800, 1000, 1000];
    assert_eq!(told, ms.map(|ms| format!("{ms} ms (maxTime)")));
}

/// A gang whose search uses up the time of the cycle, and after it a gang that needs a short search only.
#[test]
fn a_gang_without_a_search_in_one_cycle_is_first_in_the_next() {
    let mut conf = Conf { actions: ["enqueue", "allocate"].map(Into::into).into(), ..helm() };
    conf.tiers.iter_mut().for_each(|tier| tier.plugins.retain(|plugin| plugin.name != "binpack"));
    let mut test = TestCluster::with(conf);
    for (at, cards) in [5, 7, 8, 10, 11, 13].iter().enumerate() {
        test.add(node(&format!("card{at}"), &format!("example.com/card={cards}")));
    }
    test.add(node("small", "cpu=1")).add(node("large", "cpu=2"));
    test.add(group("hard", 20)).add(PodGroupInfo { created: Time(1), ..group("easy", 2) });
    for index in 0..20 {
        test.add(member("hard", index, &format!("example.com/card={}", 2 + index % 3)));
    }
    test.add(member("easy", 0, "cpu=1")).add(member("easy", 1, "cpu=2"));
    test.set_stopwatch(Arc::new(Ticking(AtomicU32::new(0))));
    let bound = [test.cycle().bound_of("easy"), test.cycle().bound_of("easy")];
    let told = "allocate: the search was ended after 50 ms";
    assert!(test.reasons("hard").iter().any(|reason| reason == told), "{:?}", test.reasons("hard"));
    assert_eq!(bound, [0, 2]);
}

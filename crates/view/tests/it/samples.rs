//! Views for tests of the page.
use phalanx_cluster::event::Time;
use phalanx_cluster::testing::{group, node, queue};
use phalanx_testkit::{TestCluster, helm, one_tier};
use phalanx_view::{EvictedPod, History, JobRow, Seen, View};

/// What browsers would run, were it not text.
pub(crate) const HOSTILE: &str = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>";

/// Nodes of 8 GPUs; gangs of four pods, of which every third is small enough for a node.
pub(crate) fn view(nodes: usize, gangs: usize) -> View {
    // Queues limit nothing, so that nodes alone decide who waits.
    let conf = one_tier(&["enqueue", "allocate"], &["priority", "gang", "predicates"]);
    let (mut test, mut history) = (TestCluster::with(conf), History::default());
    test.add(queue("research", 1)).add(queue("production", 3));
    for at in 0..nodes {
        test.add(node(&format!("node-{at:04}"), "cpu=64 memory=256Gi nvidia.com/gpu=8"));
    }
    for at in 0..gangs {
        let mut group = group(&format!("gang-{at:05}"), 4);
        group.queue = if at % 2 == 0 { "research" } else { "production" }.into();
        let gpus = [2, 16, 64][at % 3];
        test.gang(group, 4, &format!("cpu=1 nvidia.com/gpu={gpus}"));
    }
    let cycle = test.cycle();
    history.note(&cycle.decisions, test.now);
    for (pod, node) in &cycle.bound {
        test.start(pod, node);
    }
    let (groups, conf) = (test.groups(), helm());
    let seen =
        Seen { cluster: &test.cluster, conf: &conf, groups: &groups, history: &history, now: Time(61_000) };
    View { title: "Phalanx".into(), begin: Some(0), ..View::of(seen) }
}

/// A view whose texts all try to be more than text.
pub(crate) fn hostile() -> View {
    let mut view = view(3, 6);
    let text = || HOSTILE.to_owned();
    (view.title, view.summary) = (text(), text());
    view.state.resources.iter_mut().for_each(|resource| resource.name = text());
    view.state.nodes.list.iter_mut().for_each(|node| node.name = text());
    for queue in &mut view.state.queues {
        (queue.name, queue.problem) = (text(), Some(text()));
    }
    for gang in &mut view.gangs.list {
        (gang.name, gang.queue, gang.problem) = (text(), text(), Some(text()));
    }
    view.reasons.texts.iter_mut().for_each(|each| *each = text());
    view.reasons.kinds.iter_mut().for_each(|kind| kind.example = text());
    view.evicted.total = 1;
    view.evicted.list.push(EvictedPod {
        at: 0,
        pod: text(),
        group: Some(text()),
        action: "preempt",
        by: Some(text()),
        reason: text(),
    });
    for event in &mut view.events {
        (event.object, event.text) = (format!("podgroup={HOSTILE}"), text());
    }
    view.finished.jobs.push(JobRow {
        name: text(),
        phase: text(),
        history: vec![text()],
        ..JobRow::default()
    });
    view
}

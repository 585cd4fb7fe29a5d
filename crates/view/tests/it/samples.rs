//! Views for tests of the page.
use phalanx_cluster::event::{
    HyperNodeInfo, HyperNodeMember, NetworkTopology, PodGroupInfo, PodInfo, SubGroupPolicy, TierLimit, Time,
};
use phalanx_cluster::label::Labels;
use phalanx_cluster::testing::{group, member, node, queue};
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

const TOPOLOGY: [&str; 5] = ["priority", "gang", "predicates", "nodeorder", "network-topology-aware"];

/// Racks of nodes with 8 GPUs, two to a spine and all in one core, after a cycle.
pub(crate) struct Racks {
    pub(crate) test: TestCluster,
    history: History,
}

impl Racks {
    pub(crate) fn of(racks: usize, nodes: usize) -> Self {
        let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &TOPOLOGY));
        test.add(queue("research", 1)).add(queue("production", 2));
        let mut add = |name: String, tier: u32, members: Vec<HyperNodeMember>| {
            test.add(HyperNodeInfo {
                uid: name.as_str().into(),
                name: name.into(),
                tier,
                tier_name: None,
                members,
                invalid: None,
            });
        };
        let hyper_node = |name: String| HyperNodeMember::HyperNode(name.into());
        for rack in 0..racks {
            let names = (0..nodes).map(|at| HyperNodeMember::Node(format!("gpu-{rack}-{at}").into()));
            add(format!("rack-{rack}"), 1, names.collect());
        }
        let spines = racks.div_ceil(2);
        for spine in 0..spines {
            let below = (2 * spine..racks.min(2 * spine + 2)).map(|rack| hyper_node(format!("rack-{rack}")));
            add(format!("spine-{spine}"), 2, below.collect());
        }
        add("core".to_owned(), 3, (0..spines).map(|spine| hyper_node(format!("spine-{spine}"))).collect());
        for (rack, at) in (0..racks).flat_map(|rack| (0..nodes).map(move |at| (rack, at))) {
            test.add(node(&format!("gpu-{rack}-{at}"), "cpu=64 memory=512Gi nvidia.com/gpu=8"));
        }
        Self { test, history: History::default() }
    }

    /// Gangs of pods with 4 GPUs each, in one HyperNode of this tier or a lower one: name, queue, pods, tier.
    pub(crate) fn gangs(mut self, gangs: &[(&str, &str, u32, u32)]) -> Self {
        for (name, queue, pods, tier) in gangs {
            let topology = Some(NetworkTopology::Hard(TierLimit::Number(*tier)));
            let created = Time(self.test.now.0);
            let group = PodGroupInfo { topology, queue: (*queue).into(), created, ..group(name, *pods) };
            self.test.gang(group, *pods, "cpu=16 memory=100Gi nvidia.com/gpu=4");
        }
        let cycle = self.test.cycle();
        self.history.note(&cycle.decisions, self.test.now);
        for (pod, node) in &cycle.bound {
            self.test.start(pod, node);
        }
        self
    }

    /// A gang of sub-groups, each of which is in one rack; pods have 4 GPUs each.
    pub(crate) fn sub_groups(mut self, name: &str, count: u32, size: u32) -> Self {
        let policy = SubGroupPolicy {
            name: "replica".into(),
            keys: vec!["replica".into()],
            size,
            min: count,
            topology: Some(NetworkTopology::Hard(TierLimit::Number(1))),
            ..SubGroupPolicy::default()
        };
        self.test.add(PodGroupInfo { sub_groups: vec![policy], ..group(name, count * size) });
        for index in 0..count * size {
            let replica = (index / size).to_string();
            let labels = Labels::from_iter([("replica".into(), replica.into())]);
            let pod = member(name, index, "cpu=16 memory=100Gi nvidia.com/gpu=4");
            self.test.add(PodInfo { labels, ..pod });
        }
        self.gangs(&[])
    }

    /// What a live page shows of them.
    pub(crate) fn view(&self) -> View {
        let (groups, conf) = (self.test.groups(), helm());
        let (cluster, history) = (&self.test.cluster, &self.history);
        let seen = Seen { cluster, conf: &conf, groups: &groups, history, now: Time(61_000) };
        View { title: "Phalanx".into(), ..View::of(seen) }
    }
}

/// Two spines of two racks with eight nodes each: three gangs run, and one finds no rack with room.
pub(crate) fn racks() -> Racks {
    let gangs = [
        ("llm-70b", "research", 32, 2),
        ("diffusion", "production", 14, 1),
        ("speech", "production", 13, 1),
        ("vision", "research", 4, 1),
    ];
    Racks::of(4, 8).gangs(&gangs)
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

//! Random clusters and changes of them.
use std::collections::BTreeMap;

use phalanx_cluster::event::{
    BindFailure, BindFault, Event, PodGroupInfo, PodInfo, PodPhase, QueueGate, QueueInfo, QueueState, Time,
};
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

use crate::supply::{Supply, Wishes, supply, wish, wishes};
use crate::{TestCluster, helm};
use phalanx_framework::testing::{group, leaving, member, node, queue, resources, running};

/// A PodGroup and its pods.
#[derive(Clone, Debug)]
pub struct Gang {
    group: PodGroupInfo,
    pods: Vec<PodInfo>,
}

/// A change between cycles; the number picks the object.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    /// A pod is deleted and gone.
    Delete(usize),
    /// A pod is being deleted.
    Leave(usize),
    /// A pod succeeds.
    Finish(usize),
    /// A node is deleted.
    NodeGone(usize),
    /// A node is created, or has its first size again.
    NodeBack(usize),
    /// A PodGroup is deleted.
    GroupGone(usize),
    /// A node gets smaller.
    Shrink(usize),
    /// A queue is closed.
    Close(usize),
    /// A volume, claim or capacity object changes.
    Supply(usize),
}

/// A cluster before its first cycle, and its future.
#[derive(Clone, Debug)]
pub struct Script {
    /// The queues.
    pub queues: Vec<QueueInfo>,
    /// Names of nodes and what they can allocate.
    pub nodes: Vec<(String, String)>,
    /// The PodGroups and their pods.
    pub gangs: Vec<Gang>,
    supply: Supply,
    /// Happenings after each cycle, and whether its binds fail.
    pub future: Vec<(Vec<Happening>, bool)>,
}

fn amount(most: i64) -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.2, 0..most)
}

fn cores(amount: Option<i64>) -> phalanx_cluster::event::Resources {
    amount.map(|amount| resources(&format!("cpu={amount}"))).unwrap_or_default()
}

fn queues() -> impl Strategy<Value = Vec<QueueInfo>> {
    // How many, and of which figures.
    let devices = prop::option::weighted(0.3, (0u32..4, 1u8..8));
    let one = (1u32..4, amount(12), amount(4), 0i32..2, devices);
    prop::collection::vec(one, 1..4).prop_map(|list| {
        let devices = |quota: Option<(u32, u8)>, figure: u8| {
            let quota = quota.filter(|(_, which)| which & figure != 0);
            quota.map(|(count, _)| resources(&format!("deviceclass/any={count}"))).unwrap_or_default()
        };
        let queue = |(at, (weight, capability, guarantee, priority, quota))| QueueInfo {
            capability: [cores(capability), devices(quota, 1)].concat(),
            guarantee: [cores(guarantee), devices(quota, 2)].concat(),
            deserved: devices(quota, 4),
            priority,
            ..queue(&format!("q{at}"), weight)
        };
        list.into_iter().enumerate().map(queue).collect()
    })
}

fn nodes() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((0u32..8, 0u32..12, 1u32..9), 0..6).prop_map(|list| {
        let node = |(at, (cpu, memory, pods))| {
            (format!("n{at}"), format!("cpu={cpu} memory={memory}Gi pods={pods}"))
        };
        list.into_iter().enumerate().map(node).collect()
    })
}

#[derive(Clone, Copy, Debug)]
enum State {
    Pending,
    Gated,
    Asks(QueueGate),
    RunsOn(usize),
    LeavesFrom(usize),
    Finished(bool),
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        12 => Just(State::Pending),
        1 => Just(State::Gated),
        1 => prop::sample::select(vec![QueueGate::Shut, QueueGate::Open]).prop_map(State::Asks),
        2 => (0usize..5).prop_map(State::RunsOn),
        3 => (0usize..5).prop_map(State::LeavesFrom),
        1 => any::<bool>().prop_map(State::Finished),
    ]
}

fn pod(group: &str, index: usize, (state, request, role): (State, &'static str, &'static str)) -> PodInfo {
    let mut pod = PodInfo { role: role.into(), ..member(group, index as u32, request) };
    match state {
        State::Pending => {}
        State::Gated => pod.gated = true,
        State::Asks(gate) => (pod.gated, pod.queue_gate) = (gate == QueueGate::Shut, gate),
        State::RunsOn(node) => pod = running(pod, &format!("n{node}")),
        State::LeavesFrom(node) => pod = leaving(running(pod, &format!("n{node}"))),
        State::Finished(well) => {
            pod.life.node = Some("n0".into());
            pod.life.phase = if well { PodPhase::Succeeded } else { PodPhase::Failed };
        }
    }
    pod
}

/// minMember, minTaskMember of role `m`, queue, minResources in cores, creation.
type Spec = (u32, u32, usize, Option<i64>, i64);

fn gangs() -> impl Strategy<Value = Vec<Gang>> {
    let request = prop::sample::select(vec!["cpu=1", "cpu=2 memory=1Gi", "memory=3Gi", "", "cpu=500m"]);
    let pod_spec = (state(), request, prop::sample::select(vec!["", "m"]));
    let pods = prop::collection::vec((pod_spec, wishes()), 0..6);
    let queue = prop::sample::select(vec![0, 0, 0, 0, 1, 1, 1, 2, 3]);
    let spec = (0u32..4, 0u32..2, queue, prop::option::weighted(0.2, 0i64..6), 0i64..3);
    prop::collection::vec((spec, pods), 0..10).prop_map(|list| {
        let gang = |(at, (spec, pods)): (usize, (Spec, Vec<_>))| {
            let (min_member, of_master, queue, min, created) = spec;
            let name = format!("g{at}");
            let group = PodGroupInfo {
                queue: format!("q{queue}").into(),
                min_task_member: vec![("m".into(), of_master)],
                min_resources: min.map(|min| cores(Some(min))),
                created: Time(created),
                ..group(&name, min_member)
            };
            let pod = |(index, (spec, claims)): (usize, (_, Wishes))| wish(pod(&name, index, spec), claims);
            let pods = pods.into_iter().enumerate().map(pod).collect();
            Gang { group, pods }
        };
        list.into_iter().enumerate().map(gang).collect()
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    let at = || 0usize..50;
    prop_oneof![
        3 => at().prop_map(Happening::Delete),
        2 => at().prop_map(Happening::Leave),
        2 => at().prop_map(Happening::Finish),
        1 => at().prop_map(Happening::NodeGone),
        1 => at().prop_map(Happening::NodeBack),
        1 => at().prop_map(Happening::GroupGone),
        1 => at().prop_map(Happening::Shrink),
        1 => at().prop_map(Happening::Close),
        2 => at().prop_map(Happening::Supply),
    ]
}

/// A random cluster and its future.
pub fn script() -> impl Strategy<Value = Script> {
    let future = prop::collection::vec((prop::collection::vec(happening(), 0..6), any::<bool>()), 1..4);
    (queues(), nodes(), gangs(), supply(), future).prop_map(|(queues, nodes, gangs, supply, future)| Script {
        queues,
        nodes,
        gangs,
        supply,
        future,
    })
}

impl Script {
    /// All that exists before the first cycle.
    pub fn events(&self) -> Vec<Event> {
        let queues = self.queues.iter().cloned().map(Event::from);
        let nodes = self.nodes.iter().map(|(name, room)| Event::from(node(name, room)));
        let gangs = self.gangs.iter().flat_map(|gang| {
            std::iter::once(Event::from(gang.group.clone())).chain(gang.pods.iter().cloned().map(Event::from))
        });
        queues.chain(nodes).chain(gangs).chain(self.supply.events()).collect()
    }

    /// The cluster with the default configuration, before its first cycle.
    pub fn test(&self) -> TestCluster {
        self.cluster_of(helm())
    }

    /// The same with another configuration.
    pub fn cluster_of(&self, conf: Conf) -> TestCluster {
        let mut test = TestCluster::with(conf);
        for event in self.events() {
            test.add(event);
        }
        test
    }

    /// Reports the results of the binds of a cycle, and makes the changes of the script.
    pub fn go_on(
        &self,
        test: &mut TestCluster,
        bound: &BTreeMap<String, String>,
        happenings: &[Happening],
        fails: bool,
    ) {
        for (at, (pod, node)) in bound.iter().enumerate() {
            if fails && at % 2 == 0 {
                let failure = BindFailure { message: "timeout".into(), fault: BindFault::Denied };
                test.add(Event::BindFailed(pod.as_str().into(), failure));
            } else {
                test.start(pod, node);
            }
        }
        for happening in happenings {
            self.happen(test, *happening);
        }
    }

    fn happen(&self, test: &mut TestCluster, happening: Happening) {
        let names = test.pod_names();
        let pick = |at: usize| (!names.is_empty()).then(|| names[at % names.len()].as_str());
        let of_node = |at: usize| (!self.nodes.is_empty()).then(|| &self.nodes[at % self.nodes.len()]);
        let of_group = |at: usize| (!self.gangs.is_empty()).then(|| &self.gangs[at % self.gangs.len()].group);
        match happening {
            Happening::Supply(at) => self.supply.happen(at).map(|event| test.add(event)),
            Happening::Delete(at) => pick(at).map(|pod| test.gone(pod)),
            Happening::Leave(at) => pick(at).map(|pod| test.change(pod, |pod| pod.life.deleting = true)),
            Happening::Finish(at) => {
                pick(at).map(|pod| test.change(pod, |pod| pod.life.phase = PodPhase::Succeeded))
            }
            Happening::NodeGone(at) => {
                of_node(at).map(|(name, _)| test.add(Event::NodeGone(name.as_str().into())))
            }
            Happening::NodeBack(at) => of_node(at).map(|(name, room)| test.add(node(name, room))),
            Happening::GroupGone(at) => {
                of_group(at).map(|group| test.add(Event::PodGroupGone(group.key.clone())))
            }
            Happening::Shrink(at) => {
                of_node(at).map(|(name, _)| test.add(node(name, "cpu=1 memory=1Gi pods=1")))
            }
            Happening::Close(at) => {
                let queue = &self.queues[at % self.queues.len()];
                Some(test.add(QueueInfo { state: QueueState::Closed, ..queue.clone() }))
            }
        };
    }
}

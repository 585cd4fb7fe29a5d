//! At the end of a run, the Cluster of the scheduler that leads is what a scheduler would have that starts now.
use std::collections::BTreeMap;

use anyhow::Result;
use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, PodPhase};
use phalanx_core::RetryLimits;

use crate::process::{Part, Process, Start};
use crate::scheduler::Scheduler;
use crate::server::Server;
use crate::story::{Role, Watched};

/// What is wrong with the Cluster of the scheduler that leads.
pub(super) fn of_leader_differs<'a>(
    mut processes: impl Iterator<Item = &'a Process>,
    server: &Server,
) -> Option<String> {
    let leader = processes.find_map(|process| Some((process, leading(process)?)));
    let Some((process, scheduler)) = leader else { return Some("no scheduler leads".to_owned()) };
    let cluster = &scheduler.engine.cluster;
    let index = scheduler.engine.scheduler.check(cluster).into_iter().next();
    let problem = index.or_else(|| match read_anew(process, server) {
        Ok(anew) => differ(cluster, &anew),
        Err(error) => Some(format!("the objects cannot be read anew: {error:#}")),
    })?;
    Some(format!("process {}: {problem}", process.index))
}

fn leading(process: &Process) -> Option<&Scheduler> {
    match &process.part {
        Part::Scheduler(it) if it.engine.leads && process.elector.leads() => Some(it),
        _ => None,
    }
}

/// The Cluster of a scheduler that has just read all objects, as this one reads them.
fn read_anew(process: &Process, server: &Server) -> Result<Cluster> {
    let mut other = Process::start(&Start {
        index: process.index,
        role: Role::Scheduler,
        life: 0,
        seed: 0,
        nodes: server.nodes.len(),
        clocks: process.clocks.clone(),
        conf: 0,
        limits: RetryLimits::default(),
        bug: process.watches.bug(),
    })?;
    for kind in Watched::of(Role::Scheduler) {
        other.watches.first_page(*kind, server)?;
        other.watches.second_page(*kind, server)?;
    }
    other.step();
    match other.part {
        Part::Scheduler(scheduler) => Ok(scheduler.engine.cluster),
        Part::Controllers(_) => Ok(Cluster::default()),
    }
}

/// The first object that is another one in the two, or in one of them only, and the first field that differs.
fn differ(cluster: &Cluster, anew: &Cluster) -> Option<String> {
    let [known, real] = [cluster, anew].map(by_name);
    let mut names = known.keys().chain(real.keys());
    let name = names.find(|name| known.get(*name) != real.get(*name))?;
    let [known, real] = [known.get(name), real.get(name)].map(told);
    let mut fields = known.lines().zip(real.lines());
    let (known, real) = fields.find(|(known, real)| known != real).unwrap_or_default();
    Some(format!("{name} is in the Cluster `{}`, and read anew `{}`", known.trim(), real.trim()))
}

/// An object with a field in each line.
fn told(event: Option<&Event>) -> String {
    event.map_or("absent".to_owned(), |event| format!("{event:#?}"))
}

fn by_name(cluster: &Cluster) -> BTreeMap<String, Event> {
    let mut objects = cluster.objects();
    objects.iter_mut().for_each(forget_wait);
    objects.into_iter().map(|event| (name_of(&event), event)).collect()
}

/// Why a pod waits, and its nomination, mean nothing once the pod has a node or has ended.
fn forget_wait(event: &mut Event) {
    if let Event::Pod(pod) = event
        && (pod.life.node.is_some() || pod.life.phase != PodPhase::Pending)
    {
        (pod.life.unscheduled_message, pod.life.nominated) = (None, None);
    }
}

fn name_of(event: &Event) -> String {
    match event {
        Event::Node(node) => format!("Node {}", node.name),
        Event::Queue(queue) => format!("Queue {}", queue.name),
        Event::PodGroup(group) => format!("PodGroup {}", group.key),
        Event::Pod(pod) => format!("pod {} with UID {}", pod.pod, pod.pod.uid),
        other => format!("{other:?}"),
    }
}

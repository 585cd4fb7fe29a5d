//! The watches of a process: where each stands in the log of the simulated API server.
use std::sync::Arc;

use anyhow::Result;
use phalanx_api::bus::Action;
use phalanx_api::names::JOB_NAME;
use phalanx_api::v1beta1::{PodGroup, Queue, QueueState};
use phalanx_cache::{Change, Guarded, Page, slim};
use phalanx_cluster::event::Event;
use phalanx_controllers::podgroup::PlainPod;
use phalanx_runtime::controllers::{Fact, Identity, Input, Seen, SeenPod};
use phalanx_runtime::watch::{Sink, Watch};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use crate::controllers::kept;
use crate::gangs::{HIGH, set_ready, whole_pod};
use crate::planted::Planted;
use crate::server::{Object, Server};
use crate::story::{KINDS, Watched};

/// Where a watch stands.
#[derive(Debug, Default)]
struct Stream {
    /// All changes up to this version are known.
    version: u64,
    /// The second page of a list, and the version of the list.
    rest: Option<(Vec<Object>, u64)>,
    /// No list is complete, or the watch has broken off.
    broken: bool,
}

/// Who takes in what watches bring.
pub enum Reader {
    /// A scheduler.
    Scheduler(Box<SchedulerReader>),
    /// The controllers.
    Controllers(UnboundedSender<Input>),
}

/// The watches of the live scheduler.
pub struct SchedulerReader {
    pods: Watch<slim::Pod>,
    nodes: Watch<slim::Node>,
    groups: Watch<PodGroup>,
    queues: Watch<Queue>,
}

/// The watches of one process.
pub struct Watches {
    reader: Reader,
    streams: [Stream; KINDS],
    bug: Option<Planted>,
}

impl Watches {
    /// Of a process that has not read anything yet.
    pub fn new(reader: Reader, bug: Option<Planted>) -> Self {
        let streams = [(); KINDS].map(|()| Stream { broken: true, ..Stream::default() });
        Self { reader, streams, bug }
    }

    /// What is wrong with the process.
    pub fn bug(&self) -> Option<Planted> {
        self.bug
    }

    /// The connection of a watch is gone.
    pub fn break_off(&mut self, kind: Watched) {
        self.streams[kind as usize].broken = true;
    }

    /// Whether a watch that has broken off may go on where it ended: no list is on its way.
    pub fn can_resume(&self, kind: Watched) -> bool {
        let stream = &self.streams[kind as usize];
        stream.broken && stream.rest.is_none() && stream.version > 0
    }

    /// A watch goes on at its last version.
    pub fn resume(&mut self, kind: Watched, server: &Server) -> Result<()> {
        let stream = &mut self.streams[kind as usize];
        stream.broken = false;
        if self.bug == Some(Planted::MissedChanges) {
            stream.version = server.version();
        }
        self.follow(kind, server, server.version(), 1)
    }

    /// The first page of a list arrives; the rest is on its way.
    pub fn first_page(&mut self, kind: Watched, server: &Server) -> Result<()> {
        let mut items = server.list(kind);
        let rest = items.split_off(items.len() / 2);
        let stream = &mut self.streams[kind as usize];
        (stream.broken, stream.rest) = (true, Some((rest, server.version())));
        if self.bug != Some(Planted::RelistKeepsGone) {
            self.begin_list(kind);
        }
        self.page(kind, items, "more", server.version())
    }

    /// The second page arrives, and the watch begins.
    pub fn second_page(&mut self, kind: Watched, server: &Server) -> Result<()> {
        let Some((rest, version)) = self.streams[kind as usize].rest.take() else { return Ok(()) };
        self.page(kind, rest, "", version)?;
        let stream = &mut self.streams[kind as usize];
        (stream.broken, stream.version) = (false, version);
        self.follow(kind, server, server.version(), 1)
    }

    /// Changes up to a version arrive, each so many times.
    pub fn follow(&mut self, kind: Watched, server: &Server, until: u64, times: usize) -> Result<()> {
        let stream = &mut self.streams[kind as usize];
        if stream.broken || stream.version >= until {
            return Ok(());
        }
        let log = server.log(kind);
        let begin = log.partition_point(|logged| logged.version <= stream.version);
        let end = log.partition_point(|logged| logged.version <= until);
        stream.version = until;
        for logged in &log[begin..end] {
            for _ in 0..times {
                self.change(logged.object.clone(), logged.gone)?;
            }
        }
        Ok(())
    }

    fn begin_list(&mut self, kind: Watched) {
        self.reader.begin_list(kind);
    }

    fn page(&mut self, kind: Watched, items: Vec<Object>, more: &str, version: u64) -> Result<()> {
        let bug = self.bug_of_reader();
        let items = items.into_iter().map(|object| altered(object, bug));
        self.reader.page(kind, items, more, version)
    }

    /// The controllers have to know the state of queues, so that they keep it.
    fn bug_of_reader(&self) -> Option<Planted> {
        let reads = matches!(self.reader, Reader::Scheduler(_));
        self.bug.filter(|bug| reads || *bug != Planted::QueueStateLost)
    }

    fn change(&mut self, object: Object, gone: bool) -> Result<()> {
        match altered(object, self.bug_of_reader()) {
            Object::Pod(_) if gone && self.bug == Some(Planted::PodDeletionLost) => Ok(()),
            Object::Node(_) if gone && self.bug == Some(Planted::NodeDeletionLost) => Ok(()),
            Object::PodGroup(_) if gone && self.bug == Some(Planted::PodGroupDeletionLost) => Ok(()),
            object => self.reader.change(object, gone),
        }
    }
}

impl Reader {
    /// The watches of a scheduler, which deliver here.
    pub fn scheduler(sink: &Sink) -> Result<Self> {
        classes(sink)?;
        Ok(Self::Scheduler(Box::new(SchedulerReader {
            pods: Watch::new(sink.clone()),
            nodes: Watch::new(sink.clone()),
            groups: Watch::new(sink.clone()),
            queues: Watch::new(sink.clone()),
        })))
    }

    fn begin_list(&mut self, kind: Watched) {
        match (self, kind) {
            (Self::Scheduler(it), Watched::Pods) => it.pods.begin_list(),
            (Self::Scheduler(it), Watched::Nodes) => it.nodes.begin_list(),
            (Self::Scheduler(it), Watched::PodGroups) => it.groups.begin_list(),
            (Self::Scheduler(it), Watched::Queues) => it.queues.begin_list(),
            (Self::Scheduler(_), Watched::Jobs | Watched::Commands) => {}
            (Self::Controllers(to), kind) => {
                for kind in kept(kind) {
                    tell(to, Input::Listing(*kind));
                }
            }
        }
    }

    fn page(
        &mut self,
        kind: Watched,
        items: impl Iterator<Item = Object>,
        more: &str,
        version: u64,
    ) -> Result<()> {
        match (self, kind) {
            (Self::Scheduler(it), Watched::Pods) => page(&mut it.pods, items.filter_map(pod), more, version),
            (Self::Scheduler(it), Watched::Nodes) => {
                page(&mut it.nodes, items.filter_map(node), more, version)
            }
            (Self::Scheduler(it), Watched::PodGroups) => {
                page(&mut it.groups, items.filter_map(group), more, version)
            }
            (Self::Scheduler(it), Watched::Queues) => {
                page(&mut it.queues, items.filter_map(queue), more, version)
            }
            (Self::Scheduler(_), Watched::Jobs | Watched::Commands) => Ok(()),
            (Self::Controllers(to), kind) => {
                items.filter_map(seen).for_each(|seen| tell(to, Input::Seen(seen)));
                if more.is_empty() {
                    for kind in kept(kind) {
                        tell(to, Input::Listed(*kind));
                    }
                }
                Ok(())
            }
        }
    }

    fn change(&mut self, object: Object, gone: bool) -> Result<()> {
        match (self, object) {
            (Self::Scheduler(reader), Object::Pod(it)) => {
                change(&mut reader.pods, Arc::unwrap_or_clone(it), gone)
            }
            (Self::Scheduler(reader), Object::Node(it)) => {
                change(&mut reader.nodes, Arc::unwrap_or_clone(it), gone)
            }
            (Self::Scheduler(reader), Object::PodGroup(it)) => {
                change(&mut reader.groups, Arc::unwrap_or_clone(it), gone)
            }
            (Self::Scheduler(reader), Object::Queue(it)) => {
                change(&mut reader.queues, Arc::unwrap_or_clone(it), gone)
            }
            (Self::Scheduler(_), Object::Job(_) | Object::Command(_)) => Ok(()),
            (Self::Controllers(to), object) => {
                if let Some(Seen { id, fact }) = seen(object) {
                    let input = if gone {
                        Input::Deleted(fact.watched(), id)
                    } else {
                        Input::Seen(Seen { id, fact })
                    };
                    tell(to, input);
                }
                Ok(())
            }
        }
    }
}

fn tell(to: &UnboundedSender<Input>, input: Input) {
    // The controllers live as long as their process.
    let _ = to.send(input);
}

/// An object as the controllers read it.
fn seen(object: Object) -> Option<Seen> {
    let (id, fact) = match object {
        Object::Job(it) => (Identity::of(&it.metadata), Fact::Job(Box::new(Arc::unwrap_or_clone(it)))),
        Object::PodGroup(it) => (Identity::of(&it.metadata), Arc::unwrap_or_clone(it).into()),
        Object::Queue(it) => (Identity::of(&it.metadata), Arc::unwrap_or_clone(it).into()),
        Object::Command(it) => (Identity::of(&it.metadata), Arc::unwrap_or_clone(it).into()),
        Object::Pod(it) => {
            let of_job = it.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(JOB_NAME));
            let pod = whole_pod(&it);
            let fact = if of_job { SeenPod::from(&pod).into() } else { PlainPod::from(&pod).into() };
            (Identity::of(&it.metadata), fact)
        }
        Object::Node(_) => return None,
    };
    Some(Seen { id, fact })
}

/// The PriorityClasses, which do not change.
fn classes(sink: &Sink) -> Result<()> {
    let mut watch = Watch::<slim::PriorityClass>::new(sink.clone());
    let (name, value) = HIGH;
    let class = json!({"metadata": {"name": name, "uid": "class", "resourceVersion": "1"}, "value": value});
    watch.begin_list();
    page(&mut watch, std::iter::once(serde_json::from_value(class)?), "", 1)
}

fn page<K: phalanx_runtime::watch::Watched>(
    watch: &mut Watch<K>,
    items: impl Iterator<Item = K>,
    more: &str,
    version: u64,
) -> Result<()> {
    let items = items.map(Guarded::Read).collect();
    watch.page(Page { items, more: more.to_owned(), resource_version: version.to_string() })?;
    Ok(())
}

fn change<K: phalanx_runtime::watch::Watched>(watch: &mut Watch<K>, object: K, gone: bool) -> Result<()> {
    let object = Guarded::Read(object);
    let change = if gone { Change::Deleted(object) } else { Change::Applied(object) };
    let mut events = Vec::<Event>::new();
    watch.change(Ok(change), &mut String::new(), &mut events)?;
    watch.deliver(events);
    Ok(())
}

fn pod(object: Object) -> Option<slim::Pod> {
    if let Object::Pod(pod) = object { Some(Arc::unwrap_or_clone(pod)) } else { None }
}

fn node(object: Object) -> Option<slim::Node> {
    if let Object::Node(node) = object { Some(Arc::unwrap_or_clone(node)) } else { None }
}

fn group(object: Object) -> Option<PodGroup> {
    if let Object::PodGroup(group) = object { Some(Arc::unwrap_or_clone(group)) } else { None }
}

fn queue(object: Object) -> Option<Queue> {
    if let Object::Queue(queue) = object { Some(Arc::unwrap_or_clone(queue)) } else { None }
}

/// The object as a scheduler with this bug reads it.
fn altered(mut object: Object, bug: Option<Planted>) -> Object {
    match (&mut object, bug) {
        (Object::PodGroup(group), Some(Planted::MinMemberOffByOne)) => {
            let group = Arc::make_mut(group);
            group.spec.min_member = (group.spec.min_member - 1).max(1);
        }
        (Object::Job(job), Some(Planted::JobCompletedEarly)) => {
            Arc::make_mut(job).spec.min_success = Some(1);
        }
        (Object::Job(job), Some(Planted::ReplicasOffByOne)) => {
            Arc::make_mut(job).spec.tasks.iter_mut().for_each(|task| task.replicas += 1);
        }
        (Object::Node(node), Some(Planted::NodeOffByOne)) => {
            let allocatable = &mut Arc::make_mut(node).status.allocatable;
            allocatable.extend(one_more(allocatable));
        }
        (Object::Job(job), Some(Planted::RestartPodIsRestartTask)) => {
            let policies = &mut Arc::make_mut(job).spec.policies;
            let of_pods = policies.iter_mut().filter(|policy| policy.action == Some(Action::RestartPod));
            of_pods.for_each(|policy| policy.action = Some(Action::RestartTask));
        }
        (Object::Node(node), Some(Planted::CordonLost)) => Arc::make_mut(node).spec.unschedulable = false,
        (Object::Node(node), Some(Planted::ReadinessLost)) => set_ready(Arc::make_mut(node), true),
        (Object::Queue(queue), Some(Planted::QueueStateLost)) => {
            Arc::make_mut(queue).status.get_or_insert_default().state = Some(QueueState::Open);
        }
        (Object::Queue(queue), Some(Planted::CapabilityOffByOne)) => {
            if let Some(cpu) = Arc::make_mut(queue).spec.capability.get_mut("cpu") {
                let cores: u32 = cpu.0.parse().unwrap_or_default();
                cpu.0 = (cores + 1).to_string();
            }
        }
        _ => {}
    }
    object
}

fn one_more(amounts: &slim::ResourceList) -> slim::ResourceList {
    let cores = amounts.get("cpu").and_then(|amount| amount.0.as_ref().ok()?.to_string().parse().ok());
    serde_json::from_value(json!({"cpu": cores.unwrap_or(0) + 1})).unwrap_or_default()
}

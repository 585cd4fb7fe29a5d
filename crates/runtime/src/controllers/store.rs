//! What the controllers know: what the watches brought, and what answers of their own writes said.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use phalanx_api::batch::{CronJob, Job};
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cluster::event::Key;
use phalanx_controllers::hyper_node::{Labels, Settings};
use phalanx_controllers::job::JobPod;
use phalanx_controllers::podgroup::{Owner, OwnerTable, PlainPod};
use phalanx_controllers::{Kind, Object};

use super::concern;
use super::gangs::{Members, Owners};
use super::hyper_nodes;
use super::queue::Subject;
use super::table::{Gone, Identity, Table};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is named after its kind")]
pub enum Watched {
    Job,
    PodGroup,
    Queue,
    Command,
    CronJob,
    JobFlow,
    JobTemplate,
    Pod,
    Claim,
    PriorityClass,
    PlainPod,
    Namespace,
    HyperNode,
    Node,
    ConfigMap,
    /// Objects of a row of the table of owners.
    Owner(usize),
}

impl Watched {
    /// Those without which nothing is reconciled.
    pub const ALL: [Self; 15] = [
        Self::Job,
        Self::PodGroup,
        Self::Queue,
        Self::Command,
        Self::CronJob,
        Self::JobFlow,
        Self::JobTemplate,
        Self::Pod,
        Self::Claim,
        Self::PriorityClass,
        Self::PlainPod,
        Self::Namespace,
        Self::HyperNode,
        Self::Node,
        Self::ConfigMap,
    ];

    /// Its name in paths, logs and metrics.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::PodGroup => "podgroups",
            Self::Queue => "queues",
            Self::Command => "commands",
            Self::CronJob => "cronjobs",
            Self::JobFlow => "jobflows",
            Self::JobTemplate => "jobtemplates",
            Self::Pod => "pods",
            Self::Claim => "persistentvolumeclaims",
            Self::PriorityClass => "priorityclasses",
            Self::PlainPod => "plainpods",
            Self::Namespace => "namespaces",
            Self::HyperNode => "hypernodes",
            Self::Node => "nodes",
            Self::ConfigMap => "configmaps",
            Self::Owner(_) => "owners",
        }
    }

    /// The watched kinds of an object that a controller writes; what plugins make is not watched.
    pub(super) fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Pod => &[Self::Pod, Self::PlainPod],
            Kind::PodGroup => &[Self::PodGroup],
            Kind::Queue => &[Self::Queue],
            Kind::Job => &[Self::Job],
            Kind::CronJob => &[Self::CronJob],
            Kind::JobFlow => &[Self::JobFlow],
            Kind::JobTemplate => &[Self::JobTemplate],
            Kind::Claim => &[Self::Claim],
            Kind::Command => &[Self::Command],
            Kind::HyperNode => &[Self::HyperNode],
            // Of ConfigMaps, that with the settings is watched, which is not written.
            Kind::Service | Kind::Secret | Kind::ConfigMap | Kind::NetworkPolicy => &[],
        }
    }
}

/// A pod of a Job, and where it listens. Whole pods are not kept: a job may have tens of thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenPod {
    /// The pod.
    pub pod: JobPod,
    /// Its address.
    pub ip: Option<IpAddr>,
}

/// An object as it was observed.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is named after its kind")]
pub enum Fact {
    Job(Box<Job>),
    PodGroup(Box<PodGroup>),
    Queue(Box<Queue>),
    Command(Box<Command>),
    CronJob(Box<CronJob>),
    JobFlow(Box<JobFlow>),
    JobTemplate(Box<JobTemplate>),
    Pod(Box<SeenPod>),
    Claim(Claim),
    PriorityClass(ClassValue),
    PlainPod(Box<PlainPod>),
    Namespace(NamespaceQueue),
    HyperNode(Box<HyperNode>),
    Node(Labels),
    ConfigMap(Option<Settings>),
    Owner(Box<SeenOwner>),
}

/// The queue that the annotation of a Namespace names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceQueue(pub Option<String>);

/// An object of a row of the table of owners.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenOwner {
    /// The row.
    pub row: usize,
    /// The object.
    pub owner: Owner,
}

/// A PersistentVolumeClaim: all that counts is that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim;

/// The value of a PriorityClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassValue(pub i32);

macro_rules! facts {
    ($($kind:ident($object:ty),)+) => {
        $(impl From<$object> for Fact {
            fn from(object: $object) -> Self {
                Self::$kind(object.into())
            }
        })+
    };
}

facts! {
    Job(Job),
    PodGroup(PodGroup),
    Queue(Queue),
    Command(Command),
    CronJob(CronJob),
    JobFlow(JobFlow),
    JobTemplate(JobTemplate),
    Pod(SeenPod),
    Claim(Claim),
    PriorityClass(ClassValue),
    PlainPod(PlainPod),
    Namespace(NamespaceQueue),
    HyperNode(HyperNode),
    Node(Labels),
    ConfigMap(Option<Settings>),
    Owner(SeenOwner),
}

impl Fact {
    /// Its kind.
    pub fn watched(&self) -> Watched {
        match self {
            Self::Job(_) => Watched::Job,
            Self::PodGroup(_) => Watched::PodGroup,
            Self::Queue(_) => Watched::Queue,
            Self::Command(_) => Watched::Command,
            Self::CronJob(_) => Watched::CronJob,
            Self::JobFlow(_) => Watched::JobFlow,
            Self::JobTemplate(_) => Watched::JobTemplate,
            Self::Pod(_) => Watched::Pod,
            Self::Claim(_) => Watched::Claim,
            Self::PriorityClass(_) => Watched::PriorityClass,
            Self::PlainPod(_) => Watched::PlainPod,
            Self::Namespace(_) => Watched::Namespace,
            Self::HyperNode(_) => Watched::HyperNode,
            Self::Node(_) => Watched::Node,
            Self::ConfigMap(_) => Watched::ConfigMap,
            Self::Owner(seen) => Watched::Owner(seen.row),
        }
    }
}

/// An object of a watched kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Which one, in which version.
    pub id: Identity,
    /// What it says.
    pub fact: Fact,
}

impl Seen {
    /// Its deletion was asked for, and has not come to its end.
    pub(super) fn is_terminating(&self) -> bool {
        self.id.terminates
    }
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) jobs: Table<Job>,
    pub(super) groups: Table<PodGroup>,
    pub(super) queues: Table<Queue>,
    pub(super) commands: Table<Command>,
    pub(super) crons: Table<CronJob>,
    pub(super) flows: Table<JobFlow>,
    pub(super) templates: Table<JobTemplate>,
    pub(super) pods: Table<SeenPod>,
    pub(super) claims: Table<Claim>,
    pub(super) classes: Table<ClassValue>,
    /// Pods that no Job of Volcano made.
    pub(super) plain: Table<PlainPod>,
    pub(super) namespaces: Table<NamespaceQueue>,
    pub(super) hyper_nodes: Table<HyperNode>,
    pub(super) nodes: Table<Labels>,
    /// What the ConfigMap of the controllers says of the discovery of HyperNodes.
    pub(super) settings: Table<Option<Settings>>,
    /// Kinds that the API server does not have, or that may not be read.
    pub(super) absent: BTreeSet<Watched>,
    pub(super) owners: Owners,
    pub(super) members: Members,
    /// What plugins made for a job, by its UID. Absent until it was read.
    pub(super) made: BTreeMap<String, Vec<Object>>,
    gone: Gone,
}

/// The same for the table of a kind.
macro_rules! each_table {
    ($store:expr, $kind:expr, $table:ident => $do:expr) => {
        match $kind {
            Watched::Job => {
                let $table = &mut $store.jobs;
                $do
            }
            Watched::PodGroup => {
                let $table = &mut $store.groups;
                $do
            }
            Watched::Queue => {
                let $table = &mut $store.queues;
                $do
            }
            Watched::Command => {
                let $table = &mut $store.commands;
                $do
            }
            Watched::CronJob => {
                let $table = &mut $store.crons;
                $do
            }
            Watched::JobFlow => {
                let $table = &mut $store.flows;
                $do
            }
            Watched::JobTemplate => {
                let $table = &mut $store.templates;
                $do
            }
            Watched::Pod => {
                let $table = &mut $store.pods;
                $do
            }
            Watched::Claim => {
                let $table = &mut $store.claims;
                $do
            }
            Watched::PriorityClass => {
                let $table = &mut $store.classes;
                $do
            }
            Watched::PlainPod => {
                let $table = &mut $store.plain;
                $do
            }
            Watched::Namespace => {
                let $table = &mut $store.namespaces;
                $do
            }
            Watched::HyperNode => {
                let $table = &mut $store.hyper_nodes;
                $do
            }
            Watched::Node => {
                let $table = &mut $store.nodes;
                $do
            }
            Watched::ConfigMap => {
                let $table = &mut $store.settings;
                $do
            }
            Watched::Owner(row) => {
                let $table = $store.owners.of(row);
                $do
            }
        }
    };
}

impl Store {
    /// A store that knows nothing yet but the table of owners.
    pub(super) fn new(table: OwnerTable) -> Self {
        Self { owners: Owners::new(table), ..Self::default() }
    }

    /// Takes in an object, unless a newer version is known or it is gone; returns the subjects that it concerns.
    pub(super) fn take(&mut self, seen: Seen) -> Vec<Subject> {
        let mut concerned = self.concerned(&seen);
        let fresh = is_fresh_job(&seen);
        let (kind, key, uid) = (seen.fact.watched(), seen.id.key.clone(), seen.id.uid.clone());
        let news = self.is_news(&seen);
        let (Seen { id, fact }, gone) = (seen, &mut self.gone);
        let new = match fact {
            Fact::Job(job) => self.jobs.take(id, *job, gone),
            Fact::PodGroup(group) => self.groups.take(id, *group, gone),
            Fact::Queue(queue) => self.queues.take(id, *queue, gone),
            Fact::Command(command) => self.commands.take(id, *command, gone),
            Fact::CronJob(cron) => self.crons.take(id, *cron, gone),
            Fact::JobFlow(flow) => self.flows.take(id, *flow, gone),
            Fact::JobTemplate(template) => self.templates.take(id, *template, gone),
            Fact::Pod(pod) => self.pods.take(id, *pod, gone),
            Fact::Claim(claim) => self.claims.take(id, claim, gone),
            Fact::PriorityClass(value) => self.classes.take(id, value, gone),
            Fact::PlainPod(pod) => self.plain.take(id, *pod, gone),
            Fact::Namespace(queue) => self.namespaces.take(id, queue, gone),
            Fact::HyperNode(hyper_node) => self.hyper_nodes.take(id, *hyper_node, gone),
            Fact::Node(labels) => self.nodes.take(id, labels, gone),
            Fact::ConfigMap(settings) => self.settings.take(id, settings, gone),
            Fact::Owner(seen) => self.owners.of(seen.row).take(id, *seen, gone),
        };
        if !new {
            return Vec::new();
        }
        if fresh && self.jobs.uid(&key) == Some(&uid) {
            self.made.insert(uid.clone(), Vec::new());
        }
        if news {
            concerned.extend(self.regroup(kind, &key, &uid));
        }
        concerned
    }

    /// An object is gone; returns the subjects that it concerned. A later answer does not bring it back.
    pub(super) fn remove(&mut self, kind: Watched, key: &Key, uid: &str) -> Vec<Subject> {
        self.gone.add(uid);
        self.take_out(kind, key, Some(uid))
    }

    /// An object cannot be decoded: it is as if it were not there, until it can be.
    pub(super) fn cannot_read(&mut self, kind: Watched, key: &Key) {
        self.take_out(kind, key, None);
    }

    fn take_out(&mut self, kind: Watched, key: &Key, uid: Option<&str>) -> Vec<Subject> {
        let removed = each_table!(self, kind, table => {
            table.remove(key, uid).map(|(id, object)| Seen { id, fact: object.into() })
        });
        let Some(seen) = removed else { return Vec::new() };
        if kind == Watched::Job {
            self.made.remove(&seen.id.uid);
        }
        let mut concerned = self.concerned(&seen);
        concerned.extend(self.regroup(kind, key, &seen.id.uid));
        concerned
    }

    pub(super) fn begin_list(&mut self, kind: Watched) {
        each_table!(self, kind, table => table.begin_list());
    }

    /// Removes what the list has not brought.
    pub(super) fn end_list(&mut self, kind: Watched) -> Vec<Subject> {
        let gone: BTreeSet<Key> = each_table!(self, kind, table => table.end_list());
        let mut concerned = Vec::new();
        for key in gone {
            let uid = each_table!(self, kind, table => table.uid(&key).map(str::to_owned));
            concerned.extend(uid.map(|uid| self.remove(kind, &key, &uid)).unwrap_or_default());
        }
        concerned.extend(self.serves(kind, true));
        if kind == Watched::Command {
            let target = |(key, command): (&Key, &Command)| concern::target(&key.namespace, command);
            concerned.extend(self.commands.iter().filter_map(target));
        }
        concerned
    }

    /// The API server has a kind, or has it not; returns the subjects that this concerns.
    pub(super) fn serves(&mut self, kind: Watched, serves: bool) -> Vec<Subject> {
        let changed = if serves { self.absent.remove(&kind) } else { self.absent.insert(kind) };
        match kind {
            Watched::Owner(row) => self.serves_owner(row, serves),
            Watched::HyperNode | Watched::Node | Watched::ConfigMap if changed => vec![hyper_nodes::all()],
            _ => Vec::new(),
        }
    }

    pub(super) fn has(&mut self, kind: Watched, key: &Key) -> bool {
        each_table!(self, kind, table => table.get(key).is_some())
    }

    /// How many objects of a kind are known.
    pub(super) fn count(&mut self, kind: Watched) -> usize {
        if let Watched::Owner(_) = kind {
            return self.owners.count();
        }
        each_table!(self, kind, table => table.len())
    }

    /// Keeps what a plugin made for a job: as it was written, or read.
    pub(super) fn keep_made(&mut self, job: &str, object: Object) {
        let made = self.made.entry(job.to_owned()).or_default();
        let same =
            |one: &Object| one.kind() == object.kind() && one.metadata().name == object.metadata().name;
        match made.iter_mut().find(|one| same(one)) {
            Some(one) => *one = object,
            None => made.push(object),
        }
    }

    /// What a plugin made for a job is gone.
    pub(super) fn drop_made(&mut self, job: &str, kind: Kind, name: &str) {
        if let Some(made) = self.made.get_mut(job) {
            made.retain(|one| one.kind() != kind || one.metadata().name.as_deref() != Some(name));
        }
    }
}

/// A Job without a status: its plugins have made nothing yet, for that comes after the first status.
fn is_fresh_job(seen: &Seen) -> bool {
    let Fact::Job(job) = &seen.fact else { return false };
    let fresh = job.status.as_ref().is_none_or(|status| status.state.phase.is_none());
    fresh && !job.spec.plugins.is_empty()
}

impl Store {
    /// The UID of a subject.
    pub(super) fn uid(&self, subject: &Subject) -> Option<&str> {
        match subject.kind {
            Kind::Job => self.jobs.uid(&subject.key),
            Kind::Queue => self.queues.uid(&subject.key),
            Kind::CronJob => self.crons.uid(&subject.key),
            Kind::JobFlow => self.flows.uid(&subject.key),
            Kind::JobTemplate => self.templates.uid(&subject.key),
            Kind::PodGroup => self.groups.uid(&subject.key),
            Kind::HyperNode => self.hyper_nodes.uid(&subject.key),
            _ => None,
        }
    }
}

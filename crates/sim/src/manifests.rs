//! Manifests to objects: the objects of an API server after the manifests were applied to an empty cluster.
//!
//! Files are read in the order of their names, so the order in which they are given does not matter. An object without
//! a creation time was created now: after all that carry one, a millisecond after the one before it.
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{CronJob, Job};
use phalanx_api::bus::Command;
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_cache::Names;
use phalanx_cluster::event::{
    AttachmentInfo, ClaimInfo, CsiDriverInfo, CsiNodeInfo, DeviceClassInfo, HyperNodeInfo, NamespaceInfo,
    NodeInfo, NodeUsage, PdbInfo, PodGroupInfo, PvcInfo, QueueInfo, QuotaInfo, SliceInfo,
    StorageCapacityInfo, StorageClassInfo, Time, VolumeInfo,
};
use serde_json::Value;

use crate::api_server::SimulatedPod;
use crate::bad_input::{BadInput, Refused};
use crate::budget::Budget;
use crate::changes;
use crate::document::{self, Found};
use crate::gang::{self, Gangs, Joins};
use crate::printable::printable;
use crate::reader::{Read, Reader};
use crate::volcano;

/// The begin of the simulation of a cluster without any creation time: 2000-01-01T00:00:00Z.
const EPOCH: Time = Time(946_684_800_000);

/// An object that scheduling reads. What is large is boxed: a million pods stand in one list.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after the kinds")]
pub enum Object {
    Node(Box<NodeInfo>),
    Queue(Box<QueueInfo>),
    HyperNode(Box<HyperNodeInfo>),
    PodGroup(Box<PodGroupInfo>),
    PriorityClass {
        name: Arc<str>,
        value: i32,
        global_default: bool,
        never_preempts: bool,
    },
    Pod(Box<SimulatedPod>),
    Quota(QuotaInfo),
    /// A ResourceQuota with scopes, which is ignored.
    ScopedQuota,
    NodeUsage(NodeUsage),
    Pdb(PdbInfo),
    /// A PodDisruptionBudget without a status.
    Budget(PdbInfo, Budget),
    Volume(Box<VolumeInfo>),
    Pvc(Box<PvcInfo>),
    /// A claim without a storage class, which gets the default one.
    UnclassedPvc(Box<PvcInfo>),
    StorageClass(StorageClassInfo),
    /// The default storage class.
    DefaultStorageClass(StorageClassInfo),
    CsiNode(CsiNodeInfo),
    CsiDriver(CsiDriverInfo),
    Attachment(AttachmentInfo),
    StorageCapacity(StorageCapacityInfo),
    Namespace(NamespaceInfo),
    DeviceClass(DeviceClassInfo),
    Slice(SliceInfo),
    Claim(Box<ClaimInfo>),
    /// The template of a ResourceClaim.
    ClaimTemplate(Box<ClaimInfo>),
    /// An object of Volcano's controllers, which are simulated.
    Controlled(ControlledObject),
}

/// An object of Volcano's controllers.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after the kinds")]
pub enum ControlledObject {
    /// A Job without a status, or one that waits for admission.
    Job(Box<Job>),
    CronJob(Box<CronJob>),
    /// A JobFlow without a status.
    JobFlow(Box<JobFlow>),
    JobTemplate(Box<JobTemplate>),
    Command(Box<Command>),
}

impl ControlledObject {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "Job",
            Self::CronJob(_) => "CronJob",
            Self::JobFlow(_) => "JobFlow",
            Self::JobTemplate(_) => "JobTemplate",
            Self::Command(_) => "Command",
        }
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Job(object) => &object.metadata,
            Self::CronJob(object) => &object.metadata,
            Self::JobFlow(object) => &object.metadata,
            Self::JobTemplate(object) => &object.metadata,
            Self::Command(object) => &object.metadata,
        }
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Job(object) => &mut object.metadata,
            Self::CronJob(object) => &mut object.metadata,
            Self::JobFlow(object) => &mut object.metadata,
            Self::JobTemplate(object) => &mut object.metadata,
            Self::Command(object) => &mut object.metadata,
        }
    }
}

/// Options: the schedulerName of simulated pods, and the queue of jobs that name none.
pub type ReadOptions = Names;

/// The contents of manifests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    /// The objects, in the order of their documents.
    pub objects: Vec<Object>,
    /// Notes on ignored objects, a line each.
    pub notes: Vec<String>,
    /// Pods that wait for another scheduler, by its name.
    pub left: BTreeMap<String, usize>,
    /// A time after the creation of all objects.
    pub end: Time,
    /// Objects with a later creation time have it from no document.
    pub dated_until: Time,
    /// The names that they were read with.
    pub names: Names,
}

/// A file of manifests. It may be opened twice; each time, a document is parsed before the next one is read.
pub trait Source {
    /// The name, for messages.
    fn name(&self) -> &str;

    /// The bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    fn open(&self) -> io::Result<Box<dyn BufRead + '_>>;
}

/// A name and a text.
impl Source for (String, String) {
    fn name(&self) -> &str {
        &self.0
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.1.as_bytes()))
    }
}

/// Reads manifests, given as file name and text. Returns the objects, or all problems by file and line.
pub fn read(sources: &[(String, String)], options: &ReadOptions) -> Result<Manifests, Refused> {
    read_with(&as_sources(sources), &[], options, &mut |_| {})
}

fn as_sources(texts: &[(String, String)]) -> Vec<&dyn Source> {
    texts.iter().map(|text| text as &dyn Source).collect()
}

/// As [`read`], without the queues that the scheduler creates at its start.
pub(crate) fn read_only(sources: &[(String, String)], options: &ReadOptions) -> Result<Manifests, Refused> {
    read_all(&as_sources(sources), &[], options, &[], &mut |_| {})
}

/// As [`read`], with further manifests, whose objects come last: each in place of that of the same kind and name, or as
/// a new one. How many documents and items of lists were read so far is told.
pub fn read_with(
    sources: &[&dyn Source],
    instead: &[&dyn Source],
    options: &ReadOptions,
    told: &mut dyn FnMut(usize),
) -> Result<Manifests, Refused> {
    read_all(sources, instead, options, &["root", "default", &options.default_queue], told)
}

fn read_all(
    sources: &[&dyn Source],
    instead: &[&dyn Source],
    options: &ReadOptions,
    queues: &[&str],
    told: &mut dyn FnMut(usize),
) -> Result<Manifests, Refused> {
    let [sources, instead] = [sources, instead].map(|files| {
        let mut files = files.to_vec();
        files.sort_by_key(|file| file.name());
        files
    });
    let texts = Files { sources, instead };
    let (mut gangs, mut documents) = (Gangs::default(), 0);
    let mut look = |value: &Value| {
        gangs.add_owner(value);
        documents += 1;
        told(documents);
    };
    let mut read = texts.read(options, &mut look, &Joins::default(), Vec::new());
    if gangs.any_stated() {
        texts.each(&mut |found| {
            if let Ok((_, value)) = found {
                gangs.add_pods(&value, options);
            }
        });
        let (groups, joins) = gangs.groups();
        read = texts.read(options, &mut |_| {}, &joins, groups);
    }
    let (read, empty) = read;
    let read = read.map_err(|Refused { faults, notes }| Refused {
        faults,
        notes: empty.iter().cloned().chain(notes).collect(),
    });
    let Read { mut entries, notes, left } = read?;
    let notes = empty.into_iter().chain(notes).collect();
    add_queues(&mut entries, queues);
    let (dated_until, end) = settle_times(&mut entries);
    Ok(Manifests {
        objects: entries.into_iter().map(|entry| entry.object).collect(),
        notes,
        left,
        end,
        dated_until,
        names: options.clone(),
    })
}

/// Files by name.
struct Files<'a> {
    sources: Vec<&'a dyn Source>,
    /// Files whose objects replace others.
    instead: Vec<&'a dyn Source>,
}

impl Files<'_> {
    /// Reads all objects, each document before the next one is parsed. PodGroups that are made for gangs come first.
    /// Besides, a note for each file without objects.
    fn read(
        &self,
        options: &ReadOptions,
        look: &mut dyn FnMut(&Value),
        joins: &Joins,
        groups: Vec<Value>,
    ) -> (Result<Read, Refused>, Vec<String>) {
        let mut reader = Reader::new(options);
        let mut held = BTreeSet::new();
        let (mut any, mut groups) = (false, Some(groups));
        self.each(&mut |found| {
            any = true;
            let (document, mut value) = match found {
                Ok(found) => found,
                Err(fault) => {
                    held.insert(fault.file.clone());
                    return reader.fault(fault);
                }
            };
            look(&value);
            if (document.item.is_some() || !is_empty(&value)) && !held.contains(&*document.file) {
                held.insert(document.file.to_string());
            }
            // A PodGroup that is made stands in no document: what may be wrong with it is told of the first.
            groups.take().into_iter().flatten().for_each(|group| reader.document(document.clone(), group));
            gang::join_all(&mut value, joins);
            reader.document(document, value);
        });
        let files: Vec<&str> = self.sources.iter().chain(&self.instead).map(|file| file.name()).collect();
        if !any {
            return (Err(Refused { faults: vec![nothing_in(&files)], notes: Vec::new() }), Vec::new());
        }
        (reader.finish(), empty_ones(&files, &held))
    }

    /// Each document, or what is wrong with it.
    fn each(&self, found: &mut dyn FnMut(Found)) {
        let mut replaced = changes::Replaced::default();
        for file in &self.instead {
            documents(*file, &mut |found| {
                if let Ok((_, value)) = &found {
                    replaced.add(value);
                }
            });
        }
        for file in &self.sources {
            documents(*file, &mut |each| {
                found(each.map(|(document, mut value)| {
                    replaced.leave_out(&mut value);
                    (document, value)
                }));
            });
        }
        for file in &self.instead {
            documents(*file, found);
        }
    }
}

/// Each document of a file, or what is wrong with it.
fn documents(file: &dyn Source, found: &mut dyn FnMut(Found)) {
    match file.open() {
        Ok(mut from) => document::read(file.name(), &mut from, found),
        Err(error) => {
            let problem = format!("cannot be read: {error}");
            found(Err(BadInput { file: file.name().to_owned(), line: 1, problem, ..BadInput::default() }));
        }
    }
}

/// A note for each file without objects: a failed command before a pipe leaves an empty file.
fn empty_ones(files: &[&str], held: &BTreeSet<String>) -> Vec<String> {
    let empty: BTreeSet<&str> = files.iter().copied().filter(|file| !held.contains(*file)).collect();
    empty.into_iter().map(|file| format!("{}:1: found no object in it", printable(file))).collect()
}

/// `kubectl get` prints an empty list if it finds no objects.
fn is_empty(value: &Value) -> bool {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let items = &value["items"];
    value.is_null() || (is_list && (items.is_null() || items.as_array().is_some_and(Vec::is_empty)))
}

/// An empty file is probably the wrong file.
fn nothing_in(files: &[&str]) -> BadInput {
    let others = match files.len() {
        0 | 1 => String::new(),
        2 => " in it and in 1 more file".to_owned(),
        count => format!(" in it and in {} more files", count - 1),
    };
    BadInput {
        file: files.first().map_or_else(|| "no file".to_owned(), ToString::to_string),
        line: 1,
        problem: format!("found no object{others}, expected manifests in YAML or JSON"),
        ..BadInput::default()
    }
}

/// An object whose creation time is not determined yet.
pub(crate) struct Entry {
    pub(crate) object: Object,
    /// The object has a creation time.
    pub(crate) dated: bool,
}

/// Adds the queues that the scheduler creates at its start.
fn add_queues(entries: &mut Vec<Entry>, queues: &[&str]) {
    for name in queues.iter().copied() {
        let exists =
            entries.iter().any(|entry| matches!(&entry.object, Object::Queue(queue) if *queue.name == *name));
        if !exists {
            entries.push(Entry { object: Object::Queue(Box::new(builtin_queue(name))), dated: false });
        }
    }
}

pub(crate) fn builtin_queue(name: &str) -> QueueInfo {
    let is_root = name == "root";
    QueueInfo {
        name: name.into(),
        weight: 1,
        reclaimable: !is_root,
        parent: if is_root { "".into() } else { "root".into() },
        ..QueueInfo::default()
    }
}

/// Gives a creation time to every object without one; returns the last time in a document, and a time after all
/// creation times.
fn settle_times(entries: &mut [Entry]) -> (Time, Time) {
    let dated = entries.iter().filter(|entry| entry.dated).filter_map(|entry| created(&entry.object));
    let last =
        dated.chain(entries.iter().filter_map(|entry| scheduled(&entry.object))).max().unwrap_or(EPOCH);
    let mut now = last;
    for entry in entries.iter_mut().filter(|entry| !entry.dated) {
        now.0 += 1;
        set_created(&mut entry.object, now);
    }
    // A whole second, so that times in reports are easy to read.
    (last, Time((now.0 / 1_000 + 1) * 1_000))
}

/// A pod without a creation time may have the time of its bind, a CronJob that of its last Job: the simulation begins
/// after that.
fn scheduled(object: &Object) -> Option<Time> {
    match object {
        Object::Pod(pod) => pod.info.life.scheduled,
        Object::Controlled(ControlledObject::CronJob(cron)) => {
            volcano::time(cron.status.as_ref()?.last_schedule_time.as_ref())
        }
        _ => None,
    }
}

pub(crate) fn created(object: &Object) -> Option<Time> {
    match object {
        Object::Queue(queue) => Some(queue.created),
        Object::PodGroup(group) => Some(group.created),
        Object::Pod(pod) => Some(pod.info.created),
        Object::Controlled(object) => volcano::time(object.metadata().creation_timestamp.as_ref()),
        _ => None,
    }
}

pub(crate) fn set_created(object: &mut Object, time: Time) {
    match object {
        Object::Queue(queue) => queue.created = time,
        Object::PodGroup(group) => group.created = time,
        Object::Pod(pod) => pod.info.created = time,
        Object::Controlled(object) => {
            object.metadata_mut().creation_timestamp = Some(volcano::meta_time(time));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReadOptions {
        ReadOptions::default()
    }

    fn text(file: &str, text: &str) -> (String, String) {
        (file.to_owned(), text.to_owned())
    }

    fn pods(sources: &[(String, String)]) -> Vec<SimulatedPod> {
        let manifests = read(sources, &options()).unwrap();
        let pod = |object| match object {
            Object::Pod(pod) => Some(*pod),
            _ => None,
        };
        manifests.objects.into_iter().filter_map(pod).collect()
    }

    const POD: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: main}]}\n";

    fn pod(name: &str) -> String {
        POD.replace("NAME", name)
    }

    #[test]
    fn defaults_are_those_of_an_api_server() {
        let manifests = read(&[text("f", &pod("p"))], &options()).unwrap();
        let queues: Vec<&str> = manifests
            .objects
            .iter()
            .filter_map(|object| if let Object::Queue(queue) = object { Some(&*queue.name) } else { None })
            .collect();
        assert_eq!(queues, ["root", "default"]);
        let pods = pods(&[text("f", &pod("p"))]);
        assert_eq!(pods[0].info.pod.to_string(), "default/p");
        assert!(!pods[0].info.ours, "the API server names default-scheduler where nobody is named");
        assert_eq!((pods[0].grace_ms, pods[0].run_ms), (30_000, None));
        assert!(pods[0].info.created < manifests.end);
    }

    #[test]
    fn objects_without_a_date_are_created_last_in_the_order_of_files() {
        let dated = pod("old").replace("{name: old}", "{name: old, creationTimestamp: 2026-01-02T03:04:05Z}");
        let sources =
            [text("b", &format!("{}---\n{}", pod("b1"), pod("b2"))), text("c", &dated), text("a", &pod("a"))];
        let mut turned = sources.clone();
        turned.reverse();
        let mut read = pods(&sources);
        assert_eq!(read, pods(&turned), "the order of the files does not matter");
        read.sort_by_key(|pod| pod.info.created);
        let names: Vec<&str> = read.iter().map(|pod| &*pod.info.pod.name).collect();
        assert_eq!(names, ["old", "a", "b1", "b2"]);
    }

    #[test]
    fn a_simulation_begins_after_every_time_in_its_manifests() {
        let since = "status: {conditions: [{type: PodScheduled, status: \"True\", lastTransitionTime: \"2026-11-22T00:00:00Z\"}]}\n";
        let manifests = read(&[text("f", &(pod("p") + since))], &options()).unwrap();
        let Some(Object::Pod(pod)) = manifests.objects.first() else { panic!("{manifests:?}") };
        assert!(
            pod.info
                .life
                .scheduled
                .is_some_and(|time| time < manifests.end && manifests.end.0 - time.0 < 10_000)
        );
    }

    #[test]
    fn lists_and_templates_are_expanded_and_other_kinds_are_named() {
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "PodList", "items": [
                {"metadata": {"name": "p", "namespace": "x"}, "spec": {"containers": [{"name": "main"}]}}]},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
                "template": {"spec": {"containers": [{"name": "main"}]}}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}]}"#;
        let manifests = read(&[text("f", list)], &options()).unwrap();
        assert_eq!(
            manifests.notes,
            [
                "f:6:13: document 1: items[2]: ignored 1 object of kind Service (v1), which scheduling does not read"
            ]
        );
        let names: Vec<String> =
            pods(&[text("f", list)]).iter().map(|pod| pod.info.pod.to_string()).collect();
        assert_eq!(names, ["x/p", "default/web-0", "default/web-1"]);
    }

    #[test]
    fn ten_thousand_documents_give_as_many_objects() {
        let yaml: String = (0..10_000).map(|index| pod(&format!("p-{index}")) + "---\n").collect();
        assert_eq!(pods(&[text("f", &yaml)]).len(), 10_000);
    }
}

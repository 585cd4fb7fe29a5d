//! Reads objects from documents and collects problems.
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use phalanx_api::batch::Job;
use phalanx_cache::{Invalid, Names};
use phalanx_cluster::event::{Contradiction, ControllerRef, PodPhase, PodRef};
use serde_json::{Map, Value};

use crate::amounts_without_effect;
use crate::api_server::SimulatedPod;
use crate::bad_input::{BadInput, Refused};
use crate::document::Document;
use crate::gang;
use crate::kind::{Controlled, Kind, Sort};
use crate::list;
use crate::manifests::{ControlledObject, Entry, Object};
use crate::names_check;
use crate::notes::Notes;
use crate::object::{self, Converter, Identity};
use crate::object_check;
use crate::place::Place;
use crate::replacement::Maker;
use crate::schema::{Checked, Schemas, UnknownField};
use crate::volcano;
use crate::without_invalid;
use crate::workload::{self, Workload};

/// The number of problems after which reading ends: more would scroll the first out of sight.
pub(crate) const FAULTS_MAX: usize = 100;

/// The PriorityClass of a pod or a PodGroup.
const CLASS: &str = "spec.priorityClassName";

pub(crate) struct Reader {
    converter: Converter,
    entries: Vec<Entry>,
    /// The first place of each object, by kind and name; pods by UID too.
    seen: BTreeMap<(Kind, String), Spot>,
    uids: BTreeMap<Arc<str>, Arc<PodRef>>,
    schemas: Schemas,
    notes: Notes,
    /// Pods that wait for another scheduler, by its name.
    left: BTreeMap<String, usize>,
    /// The default PriorityClass and its place.
    default_class: Option<String>,
    faults: Vec<BadInput>,
    /// The place of each object of Volcano's controllers.
    controlled: BTreeMap<(Controlled, String), Spot>,
    /// Jobs with a status that may wait for admission.
    of_cluster: Vec<(String, Place)>,
    names: Names,
}

/// Where an object stands.
#[derive(Clone)]
struct Spot {
    document: usize,
    file: Rc<str>,
}

impl Spot {
    fn of(place: &Place) -> Self {
        Self { document: place.document.number, file: Rc::clone(&place.document.file) }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {} of {}", self.document, self.file)
    }
}

/// The objects and notes.
pub(crate) struct Read {
    pub(crate) entries: Vec<Entry>,
    /// Notes by file and line.
    pub(crate) notes: Vec<String>,
    /// Pods that wait for another scheduler, by its name.
    pub(crate) left: BTreeMap<String, usize>,
}

impl Reader {
    pub(crate) fn new(names: &Names) -> Self {
        Self {
            converter: Converter::new(names.clone()),
            entries: Vec::new(),
            seen: BTreeMap::new(),
            uids: BTreeMap::new(),
            schemas: Schemas::default(),
            notes: Notes::default(),
            left: BTreeMap::new(),
            default_class: None,
            faults: Vec::new(),
            controlled: BTreeMap::new(),
            of_cluster: Vec::new(),
            names: names.clone(),
        }
    }

    /// Adds a document that cannot be read.
    pub(crate) fn fault(&mut self, fault: BadInput) {
        self.faults.push(fault);
    }

    pub(crate) fn document(&mut self, document: Document, value: Value) {
        let (is_item, place) = (document.item.is_some(), Place::top(document));
        if is_item { self.item(&place, value) } else { self.read(&place, value) }
    }

    /// The objects and the notes, or all problems by file and line with the notes.
    pub(crate) fn finish(mut self) -> Result<Read, Refused> {
        let left = volcano::keep_waiting(&mut self.entries);
        for (key, place) in std::mem::take(&mut self.of_cluster) {
            if left.contains(&key) {
                self.leave_to_cluster(&place, Controlled::Job, &format!("Job {key}"));
            }
        }
        if self.faults.is_empty() {
            let known = |kind, name: &str| self.seen.contains_key(&(kind, name.to_owned()));
            let notes = self.notes.lines(Some(&known));
            return Ok(Read { entries: self.entries, notes, left: self.left });
        }
        self.faults.sort();
        let mut notes = self.notes.lines(None);
        if self.faults.len() >= FAULTS_MAX {
            notes.push(format!("reading ended after {} faults, there may be more", self.faults.len()));
        }
        Err(Refused { faults: self.faults, notes })
    }

    fn read(&mut self, place: &Place, value: Value) {
        if self.faults.len() < FAULTS_MAX
            && let Err(fault) = self.object(place, value)
        {
            self.faults.push(fault);
        }
    }

    /// An item of a list.
    fn item(&mut self, place: &Place, value: Value) {
        if !value.is_null() {
            return self.read(place, value);
        }
        let problem = "found nothing, expected an object with apiVersion and kind";
        self.faults.push(place.fault("List", "", problem));
    }

    /// One object, or a list of them.
    fn object(&mut self, place: &Place, value: Value) -> Result<(), BadInput> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => return Ok(()),
            other => {
                let problem =
                    format!("found {}, expected an object with apiVersion and kind", describe(&other));
                return Err(place.fault("", "", problem));
            }
        };
        let version = head(place, &map, "apiVersion")?;
        let kind = head(place, &map, "kind")?;
        match Sort::of(&version, &kind) {
            Sort::Plain(kind) => self.plain(place, kind, Value::Object(map)),
            Sort::Workload(workload) => self.workload(place, &kind, workload, Value::Object(map)),
            Sort::Controlled(kind) => self.controlled(place, kind, Value::Object(map)),
            Sort::List(_) => self.list(place, (&version, &kind), map)?,
            Sort::Unknown => self.notes.ignore(place, format!("{kind} ({version})")),
            Sort::Slip { version: meant, kind: name } if kind == name => {
                let problem = format!("found {version:?}, expected {meant:?} for kind {name}");
                return Err(place.fault("", "apiVersion", problem));
            }
            Sort::Slip { version, kind: name } => {
                let problem = format!("found {kind:?}, expected {name:?} with apiVersion {version:?}");
                return Err(place.fault("", "kind", problem));
            }
        }
        Ok(())
    }

    /// A list in a list, or one without items.
    fn list(
        &mut self,
        place: &Place,
        (version, kind): (&str, &str),
        mut map: Map<String, Value>,
    ) -> Result<(), BadInput> {
        match map.remove("items") {
            Some(Value::Array(items)) => {
                for (index, mut value) in items.into_iter().enumerate() {
                    list::inherit(version, kind, &mut value);
                    self.item(&place.inner(&format!("items[{index}].")), value);
                }
                Ok(())
            }
            None | Some(Value::Null) => Ok(()),
            Some(other) => {
                let problem = format!("found {}, expected a list of objects", describe(&other));
                Err(place.fault("List", "items", problem))
            }
        }
    }

    /// Ends at the first pod with a problem: the other pods have the same problem.
    fn workload(&mut self, place: &Place, kind: &str, workload: Workload, mut owner: Value) {
        let Identity { label, wrong, .. } = object::identify(&mut owner, kind, true);
        let maker = Arc::new(Maker {
            label: label.as_str().into(),
            name: owner["metadata"]["name"].as_str().unwrap_or_default().into(),
            keeps_names: kind == "StatefulSet",
            later: workload::later(workload, &owner),
        });
        for Invalid { field, problem } in workload::odd(workload, kind, &owner) {
            let key = format!("{kind} {field}");
            self.notes.odd(Kind::Pod, &key, problem, |problem| place.fault(&label, &field, problem));
        }
        let (mut pods, more) = workload::pods(workload, &owner);
        let mut wrong: Vec<Invalid> = wrong.into_iter().chain(more).collect();
        let Checked { unknown, invalid } = self.schemas.check_workload(kind, &owner);
        wrong.extend(
            invalid.into_iter().filter(|one| !without_invalid::follows(&wrong, one)).collect::<Vec<_>>(),
        );
        for unknown in &unknown {
            let key = format!("{kind} {}", unknown.path);
            let problem = format!("unknown field, ignored{}", unknown.hint());
            self.notes.odd(Kind::Pod, &key, problem, |problem| place.fault(&label, &unknown.path, problem));
        }
        let scheduler = owner.pointer("/spec/template/spec/schedulerName").and_then(Value::as_str);
        if wrong.is_empty()
            && self.names.is_ours(scheduler)
            && let Some(mut group) = gang::of_workload(&reference(kind, &owner), &owner, &mut pods)
        {
            let identity = object::identify(&mut group, "PodGroup", true);
            self.keep(place, Kind::PodGroup, group, Identity { label: label.clone(), ..identity });
        }
        self.tell(place, &label, wrong);
        let (before, template) = (self.entries.len(), place.inner("spec.template."));
        for mut pod in pods {
            let identity = object::identify(&mut pod, "Pod", true);
            if !self.keep(&template, Kind::Pod, pod, Identity { label: label.clone(), ..identity }) {
                break;
            }
        }
        let controller = Arc::new(ControllerRef { kind: kind.into(), name: maker.name.clone() });
        for entry in &mut self.entries[before..] {
            if let Object::Pod(pod) = &mut entry.object {
                pod.maker = Some(maker.clone());
                pod.info.controller = Some(Arc::clone(&controller));
            }
        }
    }

    /// An object of Volcano's controllers, and what is wrong with it or its templates.
    fn controlled(&mut self, place: &Place, kind: Controlled, mut value: Value) {
        let identity = object::identify(&mut value, kind.name(), true);
        let (label, key, dated) = (identity.label.clone(), identity.key.clone(), identity.dated);
        let of_cluster = matches!(kind, Controlled::Job | Controlled::JobFlow)
            && !value["status"]["state"]["phase"].is_null();
        if of_cluster && (kind == Controlled::JobFlow || !volcano::may_wait(&value["status"])) {
            return self.leave_to_cluster(place, kind, &label);
        }
        match self.read_controlled(place, kind, &value, identity) {
            Ok(object) => {
                self.entries.push(Entry { object: Object::Controlled(object), dated });
                self.of_cluster.extend(of_cluster.then(|| (key, place.clone())));
            }
            // What an API server has taken is no fault of the input.
            Err(_) if of_cluster => self.leave_to_cluster(place, kind, &label),
            Err((place, wrong)) => self.tell(&place, &label, wrong),
        }
    }

    fn read_controlled(
        &mut self,
        place: &Place,
        kind: Controlled,
        value: &Value,
        Identity { label, mut wrong, key, .. }: Identity,
    ) -> Result<ControlledObject, (Place, Vec<Invalid>)> {
        let before = self.controlled.insert((kind, key.clone()), Spot::of(place));
        if let Some(first) = before.filter(|_| !key.is_empty()) {
            let problem = format!("found {} {key} again, expected it once; it is in {first}", kind.name());
            wrong.push(Invalid { field: "metadata.name".to_owned(), problem });
        }
        // A Command names an object whose UID is not known yet.
        if kind != Controlled::Command {
            wrong.extend(self.schemas.check_controlled(kind, value).problems(kind.name()));
        }
        let read = wrong.is_empty().then(|| volcano::read(kind, value, &self.names));
        let object = read.and_then(|read| read.map_err(|one| wrong.push(one)).ok());
        if wrong.is_empty() {
            wrong.extend(self.schemas.broken_rules(kind, value));
        }
        for (path, pod) in volcano::samples(kind, value) {
            let template = place.inner(&path);
            self.examine(&template, Kind::Pod, &label, pod, Vec::new()).map_err(|more| (template, more))?;
        }
        let numa = volcano::numa_policies(kind, value).into_iter().filter(|_| wrong.is_empty());
        for path in numa {
            let problem =
                "not supported, ignored: the tasks of the job are placed without regard to NUMA nodes";
            self.notes.odd(Kind::Pod, &path, problem, |problem| place.fault(&label, &path, problem));
        }
        object.filter(|_| wrong.is_empty()).ok_or_else(|| (place.clone(), wrong))
    }

    /// An object with a status comes from a cluster, with what its controller made. Only Jobs that wait for admission
    /// go on from there.
    fn leave_to_cluster(&mut self, place: &Place, kind: Controlled, label: &str) {
        let problem = if kind == Controlled::Job {
            "found a status: the job's pods and PodGroup are read, and its controller is not simulated"
        } else {
            "found a status: the flow's Jobs are read, and its controller is not simulated"
        };
        let field = format!("{} status", kind.name());
        self.notes.odd(Kind::Pod, &field, problem, |problem| place.fault(label, "status", problem));
    }

    fn plain(&mut self, place: &Place, kind: Kind, mut value: Value) {
        let identity = object::identify(&mut value, kind.name(), kind.is_namespaced());
        self.keep(place, kind, value, identity);
    }

    fn tell(&mut self, place: &Place, label: &str, wrong: Vec<Invalid>) {
        // To find the place of a fault takes a look at the whole text.
        let open = FAULTS_MAX.saturating_sub(self.faults.len()).max(1);
        self.faults.extend(wrong.into_iter().take(open).map(|wrong| place.invalid(label, wrong)));
    }

    /// Adds an object, or its problems.
    fn keep(&mut self, place: &Place, kind: Kind, value: Value, identity: Identity) -> bool {
        let Identity { key, label, dated, wrong } = identity;
        let scheduler = value.pointer("/spec/schedulerName").and_then(Value::as_str).map(ToOwned::to_owned);
        let read = self.examine(place, kind, &label, value, wrong);
        let (object, mut wrong) = match read {
            Ok(object) => (Some(object), Vec::new()),
            Err(wrong) => (None, wrong),
        };
        let spot = Spot::of(place);
        let again = self.again(kind, &key, &spot);
        let is_new = again.is_none();
        wrong.extend(again);
        if let Some(object) = object.as_ref().filter(|_| is_new) {
            wrong.extend(self.beside_others(&label, &spot, object));
        }
        let Some(object) = object.filter(|_| wrong.is_empty()) else {
            self.tell(place, &label, wrong);
            return false;
        };
        self.check_class(place, &label, &object);
        self.note_contradictions(place, &label, &object);
        self.notes.node(place, kind, &label, &object);
        self.notes.queue(place, &label, &object);
        self.notes.volume(place, &label, &object);
        self.notes.hyper_node(place, &label, &object);
        match object {
            Object::ScopedQuota => self.notes.ignore(place, "ResourceQuota with scopes (v1)".to_owned()),
            object => {
                match &object {
                    Object::Pod(pod) => self.leave(pod, scheduler),
                    Object::Controlled(ControlledObject::Job(job)) => self.leave_job(job),
                    _ => {}
                }
                self.entries.push(Entry { object, dated });
            }
        }
        true
    }

    /// An object, or its problems without regard to other objects.
    fn examine(
        &mut self,
        place: &Place,
        kind: Kind,
        label: &str,
        value: Value,
        mut wrong: Vec<Invalid>,
    ) -> Result<Object, Vec<Invalid>> {
        let Checked { unknown, invalid } = self.schemas.check(kind, &value);
        wrong.extend(invalid);
        wrong.extend(
            names_check::metadata(&value)
                .into_iter()
                .filter(|one| !without_invalid::follows(&wrong, one))
                .collect::<Vec<_>>(),
        );
        wrong.extend(unknown.iter().filter_map(|unknown| self.unknown_field(place, kind, label, unknown)));
        for path in amounts_without_effect::find(kind, &value) {
            self.notes.odd(kind, &path, amounts_without_effect::problem(kind), |problem| {
                place.fault(label, &path, problem)
            });
        }
        if wrong.is_empty() {
            wrong.extend(self.schemas.broken_topology_rules(kind, &value));
        }
        let checked = object_check::check(kind, &value);
        wrong.extend(
            checked.into_iter().filter(|one| !without_invalid::follows(&wrong, one)).collect::<Vec<_>>(),
        );
        let refused: Vec<String> = wrong.iter().map(|one| one.field.clone()).collect();
        let read = self.converter.read(kind, value, wrong);
        let remarks = std::mem::take(&mut self.converter.remarks);
        let is_new = |one: &Invalid| !refused.iter().any(|field| one.field.starts_with(field));
        for Invalid { field, problem } in remarks.into_iter().filter(is_new) {
            self.notes.odd(kind, &field, problem, |problem| place.fault(label, &field, problem));
        }
        read
    }

    /// Reports a duplicate object.
    fn again(&mut self, kind: Kind, key: &str, spot: &Spot) -> Option<Invalid> {
        if key.is_empty() {
            return None;
        }
        let of = (kind, key.to_owned());
        if let Some(first) = self.seen.get(&of) {
            let problem = format!("found {} {key} again, expected it once; it is in {first}", kind.name());
            return Some(Invalid { field: "metadata.name".to_owned(), problem });
        }
        self.seen.insert(of, spot.clone());
        None
    }

    /// Reports a value that has to be unique among objects: the UID of a pod, or the default PriorityClass.
    fn beside_others(&mut self, label: &str, spot: &Spot, object: &Object) -> Option<Invalid> {
        match object {
            Object::Pod(pod) => {
                let pod = &pod.info.pod;
                if let Some(other) = self.uids.get(&pod.uid) {
                    let problem =
                        format!("found {:?}, expected another UID than that of Pod {other}", pod.uid);
                    return Some(Invalid { field: "metadata.uid".to_owned(), problem });
                }
                self.uids.insert(pod.uid.clone(), pod.clone());
                None
            }
            Object::PriorityClass { global_default: true, .. } => {
                let first = self.default_class.replace(format!("{label} in {spot}"))?;
                let problem = format!("found true, expected it of one class only; it is so of {first}");
                Some(Invalid { field: "globalDefault".to_owned(), problem })
            }
            _ => None,
        }
    }

    /// Counts a pod of another scheduler; without a schedulerName an API server fills in default-scheduler.
    fn leave(&mut self, pod: &SimulatedPod, scheduler: Option<String>) {
        let info = &pod.info;
        if !info.ours
            && info.life.node.is_none()
            && info.life.phase == PodPhase::Pending
            && !info.life.deleting
        {
            let scheduler = scheduler.filter(|name| !name.is_empty());
            *self.left.entry(scheduler.unwrap_or_else(|| "default-scheduler".to_owned())).or_default() += 1;
        }
    }

    /// Counts the pods that a Job gets for another scheduler.
    fn leave_job(&mut self, job: &Job) {
        let scheduler = &job.spec.scheduler_name;
        let pods: i32 = job.spec.tasks.iter().map(|task| task.replicas).sum();
        if job.status.is_none() && !self.names.is_ours(Some(scheduler)) {
            *self.left.entry(scheduler.clone()).or_default() += usize::try_from(pods).unwrap_or_default();
        }
    }

    /// Notes the PriorityClass of a priority.
    fn check_class(&mut self, place: &Place, label: &str, object: &Object) {
        let (kind, class) = match object {
            Object::Pod(pod) if pod.info.priority.is_none() => (Kind::Pod, pod.info.priority_class.as_ref()),
            Object::PodGroup(group) => (Kind::PodGroup, group.priority_class.as_ref()),
            _ => return,
        };
        let Some(class) = class.filter(|class| !class.starts_with("system-")) else { return };
        let problem =
            format!("PriorityClass {class:?} is not in the input; the global default counts, or else 0");
        self.notes.class(kind, class, || place.fault(label, CLASS, problem));
    }

    /// The reason of the queue says the same without a place.
    fn note_contradictions(&mut self, place: &Place, label: &str, object: &Object) {
        let Object::Queue(queue) = object else { return };
        for Contradiction { figure, resource, amount, fault } in queue.contradictions() {
            let list = if figure == "guarantee" { "guarantee.resource" } else { figure };
            let field = format!("spec.{list}.{resource}");
            // Amounts differ between queues.
            let problem = format!("found {amount}, {fault}; the queue's jobs wait");
            let key = format!("{label} {field}");
            self.notes.odd(Kind::Queue, &key, problem, |problem| place.fault(label, &field, problem));
        }
    }

    /// As with `kubectl apply`, an unknown field in the spec of an object of Volcano is an error. Other kinds may come
    /// from a cluster that is newer than their schemas here.
    fn unknown_field(
        &mut self,
        place: &Place,
        kind: Kind,
        label: &str,
        unknown: &UnknownField,
    ) -> Option<Invalid> {
        let path = &unknown.path;
        if matches!(kind, Kind::PodGroup | Kind::Queue | Kind::HyperNode) && path.starts_with("spec.") {
            return Some(unknown.refused(kind.name()));
        }
        let problem = format!("unknown field, ignored{}", unknown.hint());
        self.notes.odd(kind, path, problem, |problem| place.fault(label, path, problem));
        None
    }
}

/// apiVersion or kind of an object.
fn head(place: &Place, map: &Map<String, Value>, field: &str) -> Result<String, BadInput> {
    match map.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        None | Some(Value::Null) => Err(place.fault("", field, "missing, expected text")),
        Some(other) => Err(place.fault("", field, format!("found {}, expected text", describe(other)))),
    }
}

pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a mapping".into(),
        scalar => scalar.to_string(),
    }
}

/// How pods refer to their workload: a Deployment passes its annotations to a ReplicaSet, which has the pods.
fn reference(kind: &str, owner: &Value) -> OwnerReference {
    let kind = if kind == "Deployment" { "ReplicaSet" } else { kind };
    let name = owner["metadata"]["name"].as_str().unwrap_or_default();
    let uid = owner["metadata"]["uid"].as_str();
    OwnerReference {
        api_version: if kind == "Job" { "batch/v1" } else { "apps/v1" }.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.map_or_else(|| format!("{}-{name}", kind.to_lowercase()), str::to_owned),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

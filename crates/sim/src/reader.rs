//! Takes documents apart into objects, and collects what is wrong with them.
use std::collections::BTreeMap;

use phalanx_cache::{Invalid, Names};
use phalanx_core::event::PodPhase;
use serde_json::{Map, Value};

use crate::bad_input::BadInput;
use crate::cluster::SimulatedPod;
use crate::document::Document;
use crate::kind::{Kind, Sort};
use crate::manifests::{Entry, Object};
use crate::names_check;
use crate::nowhere;
use crate::object::{self, Converter, Identity};
use crate::object_check;
use crate::placing;
use crate::replacement::Maker;
use crate::schema::{Schemas, UnknownField};
use crate::workload::{self, Workload};

/// Faults after which the rest is not looked at: more would only scroll the first out of sight.
const FAULTS_MAX: usize = 100;

/// Names the PriorityClass of a pod or a PodGroup.
const CLASS: &str = "spec.priorityClassName";

/// A spot in a document: `path` stands before the fields of the object that is there.
#[derive(Clone)]
struct Place<'d> {
    document: &'d Document<'d>,
    path: String,
}

impl Place<'_> {
    fn inner(&self, path: &str) -> Self {
        Self { document: self.document, path: format!("{}{path}", self.path) }
    }

    fn fault(&self, label: &str, field: &str, problem: impl Into<String>) -> BadInput {
        let field = format!("{}{field}", self.path).trim_end_matches('.').to_owned();
        let fault = self.document.fault(&field, problem);
        BadInput { object: label.to_owned(), field, ..fault }
    }

    fn invalid(&self, label: &str, invalid: Invalid) -> BadInput {
        self.fault(label, &invalid.field, invalid.problem)
    }
}

/// A pod that names a node, for the check that the node exists.
struct NodeUse<'d> {
    place: Place<'d>,
    label: String,
    /// How many pods name the node.
    pods: usize,
}

pub(crate) struct Reader<'d> {
    converter: Converter,
    entries: Vec<Entry>,
    /// Where each object was first seen, by kind and name; pods by UID too.
    seen: BTreeMap<(Kind, String), String>,
    uids: BTreeMap<String, String>,
    /// The first pod on each node.
    used_nodes: BTreeMap<String, NodeUse<'d>>,
    /// Kinds that are not read: the first object, and how many there are.
    ignored: BTreeMap<String, (BadInput, usize)>,
    schemas: Schemas,
    /// Fields that a kind does not have, regardless of positions in lists: the first, and how many there are.
    unknown: BTreeMap<(Kind, String), (BadInput, usize)>,
    /// What is odd, by kind, field and, where it names one, class: the first, and how many there are.
    remarks: BTreeMap<(Kind, String, String), (BadInput, usize)>,
    /// Pods that wait for another scheduler, by its name.
    left: BTreeMap<String, usize>,
    /// The PriorityClass of pods that name none, and where it is.
    default_class: Option<String>,
    faults: Vec<BadInput>,
}

/// What was read.
pub(crate) struct Read {
    pub(crate) entries: Vec<Entry>,
    /// What was left out, a line each, by file and line.
    pub(crate) notes: Vec<String>,
    /// Pods that wait for another scheduler, by its name.
    pub(crate) left: BTreeMap<String, usize>,
}

impl<'d> Reader<'d> {
    /// `faults` are those that were found before there were documents.
    pub(crate) fn new(names: &Names, faults: Vec<BadInput>) -> Self {
        Self {
            converter: Converter::new(names.clone()),
            entries: Vec::new(),
            seen: BTreeMap::new(),
            uids: BTreeMap::new(),
            used_nodes: BTreeMap::new(),
            ignored: BTreeMap::new(),
            schemas: Schemas::default(),
            unknown: BTreeMap::new(),
            remarks: BTreeMap::new(),
            left: BTreeMap::new(),
            default_class: None,
            faults,
        }
    }

    pub(crate) fn document(&mut self, document: &'d Document<'d>, value: Value) {
        self.read(&Place { document, path: String::new() }, value, None);
    }

    /// The objects and the notes, or all faults by file and line.
    pub(crate) fn finish(mut self) -> Result<Read, Vec<BadInput>> {
        if self.faults.is_empty() {
            let notes = self.notes();
            return Ok(Read { entries: self.entries, notes, left: self.left });
        }
        self.faults.sort();
        Err(self.faults)
    }

    fn notes(&self) -> Vec<String> {
        let ignored = self.ignored.iter().map(|(kind, (first, count))| ignored_note(kind, first, *count));
        let unknown = self.unknown.values().map(|(first, count)| unknown_note(first, *count));
        let known = |class: &str| self.seen.contains_key(&(Kind::PriorityClass, class.to_owned()));
        let remarks = self.remarks.iter().filter(|((.., class), _)| class.is_empty() || !known(class));
        let remarks = remarks.map(|(_, (first, count))| unknown_note(first, *count));
        let mut notes: Vec<BadInput> =
            ignored.chain(unknown).chain(remarks).chain(self.missing_nodes()).collect();
        notes.sort();
        notes.iter().map(ToString::to_string).collect()
    }

    /// Part of a cluster was dumped, or a node is gone and its pods are not yet: they hold nothing that is left.
    fn missing_nodes(&self) -> impl Iterator<Item = BadInput> {
        let missing = self
            .used_nodes
            .iter()
            .filter(|(node, _)| !self.seen.contains_key(&(Kind::Node, (*node).clone())));
        missing.map(|(node, by)| {
            let problem =
                format!("node {node:?} is not in the input; the pod is kept and uses no known node");
            unknown_note(&by.place.fault(&by.label, "spec.nodeName", problem), by.pods)
        })
    }

    fn read(&mut self, place: &Place<'d>, value: Value, of_list: Option<(&str, &str)>) {
        if self.faults.len() < FAULTS_MAX
            && let Err(fault) = self.object(place, value, of_list)
        {
            self.faults.push(fault);
        }
    }

    /// One object, or a list of them; items of a typed list may leave their kind to it.
    fn object(
        &mut self,
        place: &Place<'d>,
        value: Value,
        of_list: Option<(&str, &str)>,
    ) -> Result<(), BadInput> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => return Ok(()),
            other => {
                let problem =
                    format!("found {}, expected an object with apiVersion and kind", describe(&other));
                return Err(place.fault("", "", problem));
            }
        };
        let version = head(place, &map, "apiVersion", of_list.map(|list| list.0))?;
        let kind = head(place, &map, "kind", of_list.map(|list| list.1))?;
        match Sort::of(&version, &kind) {
            Sort::Plain(kind) => self.plain(place, kind, Value::Object(map)),
            Sort::Workload(workload) => self.workload(place, &kind, workload, Value::Object(map)),
            Sort::List(item) => self.list(place, item.map(|item| (version.as_str(), item)), map),
            Sort::Unknown => {
                self.ignore(place, format!("{kind} ({version})"));
                Ok(())
            }
            Sort::Slip { version: meant, kind: name } if kind == name => {
                let problem = format!("found {version:?}, expected {meant:?} for kind {name}");
                Err(place.fault("", "apiVersion", problem))
            }
            Sort::Slip { version, kind: name } => {
                let problem = format!("found {kind:?}, expected {name:?} with apiVersion {version:?}");
                Err(place.fault("", "kind", problem))
            }
        }
    }

    fn ignore(&mut self, place: &Place<'_>, kind: String) {
        self.ignored.entry(kind).or_insert_with(|| (place.fault("", "", ""), 0)).1 += 1;
    }

    fn list(
        &mut self,
        place: &Place<'d>,
        item: Option<(&str, &str)>,
        mut map: Map<String, Value>,
    ) -> Result<(), BadInput> {
        match map.remove("items") {
            Some(Value::Array(items)) => {
                for (index, value) in items.into_iter().enumerate() {
                    self.read(&place.inner(&format!("items[{index}].")), value, item);
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

    /// Ends at the first fault: the other pods have the same.
    fn workload(
        &mut self,
        place: &Place<'d>,
        kind: &str,
        workload: Workload,
        mut owner: Value,
    ) -> Result<(), BadInput> {
        let label =
            object::identify(&mut owner, kind, true).map_err(|wrong| place.invalid(kind, wrong))?.label;
        let maker = Maker {
            label: label.as_str().into(),
            name: owner["metadata"]["name"].as_str().unwrap_or_default().into(),
            keeps_names: kind == "StatefulSet",
        };
        let before = self.entries.len();
        let pods = workload::pods(workload, &owner);
        let template = place.inner("spec.template.");
        for mut pod in pods.map_err(|(field, problem)| place.fault(&label, field, problem))? {
            let identity =
                object::identify(&mut pod, "Pod", true).map_err(|wrong| place.invalid(&label, wrong))?;
            self.keep(&template, Kind::Pod, pod, &Identity { label: label.clone(), ..identity })?;
        }
        for entry in &mut self.entries[before..] {
            if let Object::Pod(pod) = &mut entry.object {
                pod.maker = Some(maker.clone());
            }
        }
        Ok(())
    }

    fn plain(&mut self, place: &Place<'d>, kind: Kind, mut value: Value) -> Result<(), BadInput> {
        let identity = object::identify(&mut value, kind.name(), kind.is_namespaced())
            .map_err(|wrong| place.invalid(kind.name(), wrong))?;
        self.keep(place, kind, value, &identity)
    }

    fn keep(
        &mut self,
        place: &Place<'d>,
        kind: Kind,
        value: Value,
        identity: &Identity,
    ) -> Result<(), BadInput> {
        let Identity { key, label, dated } = identity;
        let mut wrong = names_check::metadata(&value);
        let unknown = match self.schemas.check(kind, &value) {
            Ok(unknown) => unknown,
            Err(types) => return self.refuse(place, label, [types, wrong].concat()),
        };
        for unknown in unknown {
            self.unknown_field(place, kind, label, &unknown)?;
        }
        for path in nowhere::find(kind, &value) {
            let first = || (place.fault(label, &path, nowhere::PROBLEM), 0);
            self.unknown.entry((kind, path.clone())).or_insert_with(first).1 += 1;
        }
        wrong.extend(object_check::check(kind, &value));
        let scheduler = value.pointer("/spec/schedulerName").and_then(Value::as_str).map(ToOwned::to_owned);
        let (object, unreadable) = match self.convert(kind, value, wrong) {
            Ok(converted) => converted,
            Err(wrong) => return self.refuse(place, label, wrong),
        };
        for fault in unreadable {
            self.remark((kind, without_indices(&fault.field), String::new()), place.invalid(label, fault));
        }
        for remark in std::mem::take(&mut self.converter.remarks) {
            let field = without_indices(&remark.field);
            self.remark((kind, field, String::new()), place.invalid(label, remark));
        }
        self.check_class(place, label, &object);
        let spot = || format!("document {} of {}", place.document.number, place.document.file);
        if let Some(first) = self.seen.get(&(kind, key.clone())) {
            let problem = format!("found {} {key} again, expected it once; it is in {first}", kind.name());
            return Err(place.fault(label, "metadata.name", problem));
        }
        self.seen.insert((kind, key.clone()), spot());
        if let Object::Pod(pod) = &object {
            self.check_pod(place, label, pod)?;
            self.leave(pod, scheduler);
        }
        if let Object::PriorityClass { global_default: true, .. } = &object
            && let Some(first) = self.default_class.replace(format!("{label} in {}", spot()))
        {
            let problem = format!("found true, expected it of one class only; it is so of {first}");
            return Err(place.fault(label, "globalDefault", problem));
        }
        if object == Object::ScopedQuota {
            self.ignore(place, "ResourceQuota with scopes (v1)".to_owned());
            return Ok(());
        }
        self.entries.push(Entry { object, dated: *dated });
        Ok(())
    }

    /// The object, and what of a pod's affinity and spread cannot be read; or all that is wrong.
    fn convert(
        &mut self,
        kind: Kind,
        value: Value,
        wrong: Vec<Invalid>,
    ) -> Result<(Object, Vec<Invalid>), Vec<Invalid>> {
        let bare = if kind == Kind::Pod { placing::without(&value) } else { None };
        let of_placing = |fault: &Invalid| bare.is_some() && placing::is_of(fault);
        let (mut unreadable, mut wrong): (Vec<_>, Vec<_>) = wrong.into_iter().partition(of_placing);
        let mut converted = self.converter.convert(kind, value);
        if let Err(faults) = &mut converted {
            unreadable.extend(faults.0.extract_if(.., |fault| of_placing(fault)));
        }
        if let Some(bare) = bare.filter(|_| !unreadable.is_empty()) {
            converted = self.converter.convert(kind, bare);
        }
        let mut object = match converted {
            Ok(object) if wrong.is_empty() => object,
            converted => {
                wrong.extend(converted.err().into_iter().flat_map(|faults| faults.0));
                wrong.extend(unreadable);
                return Err(wrong);
            }
        };
        if let (Object::Pod(pod), Some(first)) = (&mut object, unreadable.first()) {
            placing::hinder(&mut pod.info, first);
        }
        Ok((object, unreadable))
    }

    /// Counts a pod that another scheduler should bind; an API server names default-scheduler where nobody is named.
    fn leave(&mut self, pod: &SimulatedPod, scheduler: Option<String>) {
        let info = &pod.info;
        if !info.ours && info.node.is_none() && info.phase == PodPhase::Pending && !info.deleting {
            let scheduler = scheduler.filter(|name| !name.is_empty());
            *self.left.entry(scheduler.unwrap_or_else(|| "default-scheduler".to_owned())).or_default() += 1;
        }
    }

    /// Tells of all but the last, which ends the reading of the object.
    fn refuse(&mut self, place: &Place<'d>, label: &str, mut wrong: Vec<Invalid>) -> Result<(), BadInput> {
        let Some(last) = wrong.pop() else { return Ok(()) };
        self.faults.extend(wrong.into_iter().map(|wrong| place.invalid(label, wrong)));
        Err(place.invalid(label, last))
    }

    /// Notes something odd, once for all objects that have it.
    fn remark(&mut self, what: (Kind, String, String), fault: BadInput) {
        self.remarks.entry(what).or_insert((fault, 0)).1 += 1;
    }

    /// Notes the PriorityClass that a priority comes from.
    fn check_class(&mut self, place: &Place<'_>, label: &str, object: &Object) {
        let (kind, class) = match object {
            Object::Pod(pod) if pod.info.priority.is_none() => (Kind::Pod, pod.info.priority_class.as_ref()),
            Object::PodGroup(group) => (Kind::PodGroup, group.priority_class.as_ref()),
            _ => return,
        };
        let Some(class) = class.filter(|class| !class.starts_with("system-")) else { return };
        let problem =
            format!("PriorityClass {class:?} is not in the input; the global default counts, or else 0");
        let fault = place.fault(label, CLASS, problem);
        self.remark((kind, CLASS.to_owned(), class.to_string()), fault);
    }

    /// As `kubectl apply` has it, a slip in what a PodGroup or a Queue asks for is refused. Other kinds may come from a
    /// cluster that is newer than their schemas here.
    fn unknown_field(
        &mut self,
        place: &Place<'_>,
        kind: Kind,
        label: &str,
        unknown: &UnknownField,
    ) -> Result<(), BadInput> {
        let UnknownField { path, near } = unknown;
        let hint = near.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        if matches!(kind, Kind::PodGroup | Kind::Queue) && path.starts_with("spec.") {
            let problem = format!("unknown field, expected one that a {} has{hint}", kind.name());
            return Err(place.fault(label, path, problem));
        }
        let first = || (place.fault(label, path, format!("unknown field, ignored{hint}")), 0);
        self.unknown.entry((kind, without_indices(path))).or_insert_with(first).1 += 1;
        Ok(())
    }

    /// Notes what can only be checked against the other objects.
    fn check_pod(&mut self, place: &Place<'d>, label: &str, pod: &SimulatedPod) -> Result<(), BadInput> {
        let uid = pod.info.pod.uid.to_string();
        if let Some(other) = self.uids.get(&uid) {
            let problem = format!("found {uid:?}, expected another UID than that of {other}");
            return Err(place.fault(label, "metadata.uid", problem));
        }
        self.uids.insert(uid, label.to_owned());
        let ended = matches!(pod.info.phase, PodPhase::Succeeded | PodPhase::Failed);
        if let Some(node) = pod.info.node.as_ref().filter(|_| !ended) {
            let by = || NodeUse { place: place.clone(), label: label.to_owned(), pods: 0 };
            self.used_nodes.entry(node.to_string()).or_insert_with(by).pods += 1;
        }
        Ok(())
    }
}

/// apiVersion or kind of an object.
fn head(
    place: &Place<'_>,
    map: &Map<String, Value>,
    field: &str,
    inherited: Option<&str>,
) -> Result<String, BadInput> {
    match (map.get(field), inherited) {
        (Some(Value::String(text)), _) if !text.is_empty() => Ok(text.clone()),
        (None | Some(Value::Null), Some(inherited)) => Ok(inherited.to_owned()),
        (None | Some(Value::Null), None) => Err(place.fault("", field, "missing, expected text")),
        (Some(other), _) => Err(place.fault("", field, format!("found {}, expected text", describe(other)))),
    }
}

/// `spec.containers.name` for `spec.containers[3].name`.
fn without_indices(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

fn unknown_note(first: &BadInput, count: usize) -> BadInput {
    let more = if count == 1 { String::new() } else { format!(" ({count} times in all)") };
    BadInput { problem: format!("{}{more}", first.problem), ..first.clone() }
}

fn ignored_note(kind: &str, first: &BadInput, count: usize) -> BadInput {
    let objects =
        if count == 1 { "1 object".to_owned() } else { format!("{count} objects, this the first,") };
    let problem = format!("ignored {objects} of kind {kind}, which scheduling does not read");
    BadInput { problem, ..first.clone() }
}

pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a mapping".into(),
        scalar => scalar.to_string(),
    }
}

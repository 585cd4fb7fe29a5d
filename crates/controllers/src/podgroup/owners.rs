//! Owners of pods: the table of kinds that may state a minimum, and what is kept of an object of such a kind.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_api::names::{GROUP_MIN_MEMBER_ANNOTATION, INHERITED_PREFIX, QUEUE_NAME_ANNOTATION};
use phalanx_api::v1beta1::SubGroupPolicySpec;
use serde_json::Value;

use super::sub_groups;
use crate::meta::{annotation, controller_of, text};

/// A kind whose objects may be the owner of a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerRow {
    /// Its group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name in paths of the API server; unless it is given, as of most kinds.
    pub plural: Option<String>,
    /// The path of a field that states a minimum, with dots between the names.
    pub min_member: Option<String>,
    /// A label of pods: those of one owner with different values are different gangs.
    pub per: Option<String>,
}

/// The kinds whose objects may be the owner of a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerTable(Vec<OwnerRow>);

/// Rows with the annotation only.
const ANNOTATED: [(&str, &str); 9] = [
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    ("ray.io/v1", "RayCluster"),
    ("ray.io/v1", "RayJob"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
];

/// Jobs of Kubeflow's training operator, and of its MPI operator, whose definition of MPIJob has another version.
const KUBEFLOW: [(&str, &str); 7] = [
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"),
    ("kubeflow.org/v1", "XGBoostJob"),
    ("kubeflow.org/v1", "PaddleJob"),
    ("kubeflow.org/v1", "JAXJob"),
    ("kubeflow.org/v1", "MPIJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
];

impl OwnerTable {
    /// The rows that are built in.
    pub fn builtin() -> Self {
        let row = |(api_version, kind): (&str, &str)| OwnerRow {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..OwnerRow::default()
        };
        let field = "spec.runPolicy.schedulingPolicy.minAvailable";
        let kubeflow =
            KUBEFLOW.into_iter().map(|kind| OwnerRow { min_member: Some(field.to_owned()), ..row(kind) });
        let sets = OwnerRow {
            min_member: Some("spec.leaderWorkerTemplate.size".to_owned()),
            per: Some("leaderworkerset.sigs.k8s.io/group-index".to_owned()),
            ..row(("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"))
        };
        Self(ANNOTATED.into_iter().map(row).chain([sets]).chain(kubeflow).collect())
    }

    /// With the rows of a list beside; one of the same group and kind replaces that which was there.
    ///
    /// # Errors
    /// A line for each mistake: row and field.
    pub fn with(mut self, list: &Value) -> Result<Self, Vec<String>> {
        let Value::Array(rows) = list else { return Err(vec!["expected a list of rows".to_owned()]) };
        let mut mistakes = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            match read(row) {
                Ok(row) => {
                    self.0.retain(|other| (other.group(), &other.kind) != (row.group(), &row.kind));
                    self.0.push(row);
                }
                Err(mistake) => mistakes.push(format!("row {}: {mistake}", at + 1)),
            }
        }
        if mistakes.is_empty() { Ok(self) } else { Err(mistakes) }
    }

    /// Its rows.
    pub fn rows(&self) -> &[OwnerRow] {
        &self.0
    }

    /// The row of an owner: that of its version, or else of another one, for the API server offers an object in each
    /// version that it has.
    pub fn row_of(&self, owner: &OwnerReference) -> Option<usize> {
        let group = group_of(&owner.api_version);
        let is_same = |row: &OwnerRow| row.api_version == owner.api_version && row.kind == owner.kind;
        let same = self.0.iter().position(is_same);
        same.or_else(|| self.0.iter().position(|row| row.group() == group && row.kind == owner.kind))
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

impl OwnerRow {
    /// The group of the API.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// The version of the API.
    pub fn version(&self) -> &str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// The name in paths of the API server.
    pub fn plural(&self) -> String {
        self.plural.clone().unwrap_or_else(|| format!("{}s", self.kind.to_lowercase()))
    }
}

fn read(row: &Value) -> Result<OwnerRow, String> {
    let row: OwnerRow = serde_json::from_value(row.clone()).map_err(|error| error.to_string())?;
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
    };
    let version = row.api_version.split_once('/').map_or(row.api_version.as_str(), |(_, version)| version);
    if !is_name(version) || !(row.group().is_empty() || is_name(row.group())) {
        return Err(format!("apiVersion {:?}: expected GROUP/VERSION", row.api_version));
    }
    if !is_name(&row.kind) {
        return Err(format!("kind {:?}: expected the name of a kind", row.kind));
    }
    if row.plural.as_ref().is_some_and(|plural| !is_name(plural)) {
        return Err("plural: expected the name of the kind in paths, such as \"jobsets\"".to_owned());
    }
    if row.min_member.as_ref().is_some_and(|path| path.split('.').any(str::is_empty)) {
        return Err(
            "minMember: expected names of fields with dots between, such as \"spec.minAvailable\"".to_owned()
        );
    }
    if row.per.as_ref().is_some_and(String::is_empty) {
        return Err("per: expected the key of a label".to_owned());
    }
    Ok(row)
}

/// What an owner states as the minimum of its gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    /// Nothing.
    #[default]
    Unstated,
    /// So many pods.
    Pods(i32),
    /// Something that is no such number; why.
    Invalid(String),
}

impl Minimum {
    /// `minMember` of the PodGroup.
    pub fn members(&self) -> i32 {
        if let Self::Pods(count) = self { *count } else { 1 }
    }
}

/// An owner, as far as the controller reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owner {
    /// Its UID.
    pub uid: String,
    /// The object that controls it.
    pub controller: Option<OwnerReference>,
    /// Its annotations that the PodGroup inherits, and the one that names a queue.
    pub annotations: BTreeMap<String, String>,
    /// What it states as the minimum.
    pub minimum: Minimum,
    /// The groups within the gang.
    pub sub_groups: Vec<SubGroupPolicySpec>,
}

impl Owner {
    /// Of an object of the row: its metadata, and the whole object where the row names a field.
    pub fn of(metadata: &ObjectMeta, object: &Value, row: &OwnerRow) -> Self {
        let read = |key: &str| key.starts_with(INHERITED_PREFIX) || key == QUEUE_NAME_ANNOTATION;
        let annotations = metadata.annotations.iter().flatten().filter(|(key, _)| read(key));
        let minimum = match annotation(metadata, GROUP_MIN_MEMBER_ANNOTATION) {
            Some(value) => number(value.parse().ok(), GROUP_MIN_MEMBER_ANNOTATION, value),
            None if sub_groups::leader_goes_ahead(row, object) => Minimum::Pods(1),
            None => row.min_member.as_ref().map_or(Minimum::Unstated, |path| field(object, path)),
        };
        Self {
            uid: text(metadata.uid.as_ref()).to_owned(),
            controller: controller_of(metadata).cloned(),
            annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
            minimum,
            sub_groups: sub_groups::of(row, object),
        }
    }
}

fn field(object: &Value, path: &str) -> Minimum {
    match path.split('.').try_fold(object, |value, name| value.get(name)) {
        None | Some(Value::Null) => Minimum::Unstated,
        Some(value) => number(value.as_i64(), path, &value.to_string()),
    }
}

fn number(value: Option<i64>, place: &str, text: &str) -> Minimum {
    if let Some(number) = value.and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 0) {
        return Minimum::Pods(number);
    }
    let shown: String = text.chars().take(40).collect();
    Minimum::Invalid(format!("{place} is {shown:?}, not a number of pods"))
}

//! `--output`: tables with more columns, JSON and YAML.
use anyhow::Result;
use clap::ValueEnum;
use phalanx_sim::Detail;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::{print, print_table};

/// How a list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with more columns
    Wide,
    /// As the API server has it, as JSON
    Json,
    /// As the API server has it, as YAML
    Yaml,
}

impl Format {
    /// The form of the objects themselves; `None` for tables.
    pub(crate) fn data(self) -> Option<Data> {
        match self {
            Self::Wide => None,
            Self::Json => Some(Data::Json),
            Self::Yaml => Some(Data::Yaml),
        }
    }
}

/// How an object itself is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// As the API server has it, as JSON
    Json,
    /// As the API server has it, as YAML
    Yaml,
}

impl Data {
    /// One object, without its managed fields.
    pub(crate) fn one(self, object: Value) -> Result<String> {
        let object = readable(object);
        Ok(match self {
            Self::Json => serde_json::to_string_pretty(&object)? + "\n",
            Self::Yaml => serde_yaml::to_string(&object)?,
        })
    }

    /// Objects as a List, as kubectl has them.
    pub(crate) fn list(self, objects: Vec<Value>) -> Result<String> {
        let items: Vec<Value> = objects.into_iter().map(readable).collect();
        let metadata = json!({"resourceVersion": ""});
        self.one(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
    }
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[value(alias = "table")]
    Text,
    /// The same in full: exact amounts, all names, more columns
    Wide,
    /// One object for programs
    Json,
    /// The same object as YAML
    Yaml,
}

impl Form {
    /// Prints an answer: its object, or a text that tells so much.
    pub(crate) fn print(self, answer: &impl Serialize, text: impl FnOnce(Detail) -> String) -> Result<()> {
        match self {
            Self::Text => print_table(&text(Detail::Short)),
            Self::Wide => print_table(&text(Detail::Wide)),
            Self::Json => print(&(serde_json::to_string_pretty(answer)? + "\n")),
            Self::Yaml => print(&serde_yaml::to_string(&serde_json::to_value(answer)?)?),
        }
    }
}

fn readable(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_printed_without_managed_fields() {
        let object = json!({"kind": "Job", "metadata": {"name": "a", "managedFields": [1]}});
        assert_eq!(Data::Yaml.one(object.clone()).unwrap(), "kind: Job\nmetadata:\n  name: a\n");
        let list: Value = serde_json::from_str(&Data::Json.list(vec![object]).unwrap()).unwrap();
        assert_eq!(list["items"], json!([{"kind": "Job", "metadata": {"name": "a"}}]));
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("List"), &json!("v1")));
    }
}

//! Manifests: YAML files of objects that are created or deleted.
use std::fs;
use std::io::{self, Read as _};

use phalanx_runtime::objects::Kind;
use serde::Deserialize as _;
use serde_json::Value;

use crate::exit::plain;

/// The text of a file, or of standard input with `-`. The error is Go's: `open FILE: no such file or directory`.
pub(crate) fn text(file: &str) -> Result<String, String> {
    let read = match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        file => fs::read_to_string(file),
    };
    read.map_err(|error| {
        let mut why = plain(&error);
        if let Some(first) = why.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        format!("open {file}: {why}")
    })
}

/// The objects of the text of a file, which all have to be of one kind. Version and kind are filled in where they are not
/// said. The error names the file and the document.
pub(crate) fn objects<K: Kind>(file: &str, text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for (at, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let wrong = |why: String| format!("{file}, document {}: {why}", at + 1);
        let document = Value::deserialize(document).map_err(|error| wrong(error.to_string()))?;
        if !document.is_null() {
            objects.push(object::<K>(document).map_err(wrong)?);
        }
    }
    Ok(objects)
}

fn object<K: Kind>(mut object: Value) -> Result<Value, String> {
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    let Some(fields) = object.as_object_mut() else {
        return Err(format!("found no object, expected one of kind {kind}"));
    };
    for (field, expected) in [("apiVersion", &*version), ("kind", &*kind)] {
        let found = fields.entry(field).or_insert_with(|| expected.into());
        if found != expected {
            return Err(format!("{field}: found {found}, expected {expected:?}"));
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use phalanx_api::batch::Job;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_is_taken_as_it_is() {
        let [job] = &objects::<Job>("a.yaml", "metadata: {name: a}\nspec: {later: 1}\n---\n").unwrap()[..]
        else {
            panic!("one object");
        };
        assert_eq!((&job["kind"], &job["apiVersion"]), (&json!("Job"), &json!("batch.volcano.sh/v1alpha1")));
        assert_eq!(job["spec"], json!({"later": 1}), "unknown fields are left to the API server");
    }

    #[test]
    fn what_is_not_of_the_kind_is_refused() {
        for (text, expected) in [
            ("kind: Pod", "a.yaml, document 1: kind: found \"Pod\", expected \"Job\""),
            (
                "metadata: {name: a}\n---\n- a",
                "a.yaml, document 2: found no object, expected one of kind Job",
            ),
        ] {
            assert_eq!(objects::<Job>("a.yaml", text), Err(expected.to_owned()));
        }
        assert!(objects::<Job>("a.yaml", "a: [").unwrap_err().starts_with("a.yaml, document 1: "));
    }
}

//! Reads an object without its invalid fields, so that further problems are found.
use std::collections::BTreeSet;

use phalanx_cache::Invalid;
use serde_json::Value;

use crate::kind::Kind;
use crate::manifests::Object;
use crate::object::Converter;
use crate::placing;

impl Converter {
    /// Reads an object without the invalid fields `wrong`, or returns all problems. An invalid affinity or spread of a
    /// pod only keeps the pod from being placed; it is in the remarks.
    pub(crate) fn read(
        &mut self,
        kind: Kind,
        mut value: Value,
        mut wrong: Vec<Invalid>,
    ) -> Result<Object, Vec<Invalid>> {
        let (mut mended, mut missed) = (0, BTreeSet::new());
        let read = loop {
            strip(&mut value, &wrong[mended..]);
            mended = wrong.len();
            let faults = match self.convert(kind, &mut value) {
                Ok(object) => break Ok(object),
                Err(faults) => faults.0,
            };
            let (old, news): (Vec<_>, Vec<_>) = faults.into_iter().partition(|one| follows(&wrong, one));
            // A removed required field is replaced by a valid text.
            let missing = old.into_iter().filter(|one| missed.insert(one.field.clone()));
            let stand_ins = missing.filter(|one| replace(&mut value, &one.field, STAND_IN)).count();
            if news.is_empty() && stand_ins == 0 {
                break Err(());
            }
            wrong.extend(news);
        };
        if kind != Kind::Pod || !wrong.iter().all(placing::is_of) {
            return read.ok().filter(|_| wrong.is_empty()).ok_or(wrong);
        }
        let Some(first) = wrong.first().cloned() else { return read.map_err(|()| wrong) };
        placing::strip(&mut value);
        let mut object = self.convert(kind, &mut value).map_err(|faults| faults.0)?;
        if let Object::Pod(pod) = &mut object {
            placing::hinder(&mut pod.info, &first);
        }
        self.remarks.extend(wrong);
        Ok(object)
    }
}

/// A text that is a valid key, value and name.
const STAND_IN: &str = "x";

/// Removes each invalid field; for an item of a list the whole list, because other items would change their numbers.
fn strip(object: &mut Value, wrong: &[Invalid]) {
    for one in wrong {
        change(object, &one.field, None);
    }
}

/// Sets a text at a path if there is an object around it.
fn replace(object: &mut Value, path: &str, text: &str) -> bool {
    change(object, path, Some(text))
}

/// Whether a problem follows from a reported one: it is about the same field, or a field inside or around it.
pub(crate) fn follows(told: &[Invalid], fault: &Invalid) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| {
            outer.is_empty() || rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
        })
    };
    told.iter().any(|one| within(&one.field, &fault.field) || within(&fault.field, &one.field))
}

/// Removes the value at a path, or sets a text there. Returns whether the path exists.
fn change(value: &mut Value, path: &str, to: Option<&str>) -> bool {
    match value {
        Value::Object(map) => {
            let leads = |key: &&String| {
                path.strip_prefix(key.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
            };
            // Keys may contain dots: the longest matching key counts.
            let key = map.keys().filter(leads).max_by_key(|key| key.len()).cloned();
            let rest = key.as_ref().map(|key| path[key.len()..].trim_start_matches('.'));
            match (key, rest, to) {
                (Some(key), Some(rest), None) if rest.is_empty() || is_item(rest) => {
                    map.remove(&key).is_some()
                }
                (Some(key), Some(rest), to) if !rest.is_empty() => {
                    map.get_mut(&key).is_some_and(|inner| change(inner, rest, to))
                }
                (None, _, Some(text)) if !path.is_empty() && !path.contains(['.', '[']) => {
                    map.insert(path.to_owned(), text.into()).is_none()
                }
                _ => false,
            }
        }
        Value::Array(items) => {
            let Some((index, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
                return false;
            };
            let item = index.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            item.is_some_and(|item| change(item, rest.trim_start_matches('.'), to))
        }
        _ => false,
    }
}

/// `[3]`, and nothing after it.
fn is_item(path: &str) -> bool {
    path.starts_with('[') && path.find(']') == Some(path.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(field: &str) -> Invalid {
        Invalid { field: field.to_owned(), problem: String::new() }
    }

    #[test]
    fn invalid_fields_are_removed_by_their_path() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x", "a": {"b/c": "y"}}},
            "spec": {"list": [{"cpu": 1, "memory": 2}, {"cpu": 3}]}});
        for (field, gone, left) in [
            ("metadata.labels.a.b/c", "/metadata/labels/a.b~1c", "/metadata/labels/a"),
            ("spec.list[1].cpu", "/spec/list/1/cpu", "/spec/list/0/cpu"),
            ("spec.list[0]", "/spec/list", "/metadata"),
            ("spec", "/spec", "/metadata"),
            ("spec.none.x", "/spec/none", "/spec/list/1/cpu"),
            ("spec.list[7].cpu", "/spec/list/7", "/spec/list/1/cpu"),
            ("", "/none", "/spec"),
        ] {
            let mut mended = object.clone();
            strip(&mut mended, &[wrong(field)]);
            assert!(mended.pointer(gone).is_none() && mended.pointer(left).is_some(), "{field}: {mended}");
        }
    }

    #[test]
    fn a_removed_field_is_replaced_by_a_valid_text() {
        let mut object = json!({"spec": {"terms": [{"key": "!", "n": 1}]}});
        strip(&mut object, &[wrong("spec.terms[0].key")]);
        assert!(replace(&mut object, "spec.terms[0].key", STAND_IN));
        assert_eq!(object, json!({"spec": {"terms": [{"key": "x", "n": 1}]}}));
        for nowhere in ["spec.none.key", "spec.terms[4].key", "spec.terms[0].n", ""] {
            assert!(!replace(&mut object, nowhere, STAND_IN), "{nowhere}");
        }
    }

    #[test]
    fn problems_inside_or_around_an_invalid_field_follow_from_it() {
        for (told, fault, expected) in [
            ("spec.a", "spec.a", true),
            ("spec.a", "spec.a.b", true),
            ("spec.a[1].b", "spec.a", true),
            ("spec.a", "", true),
            ("spec.a", "spec.ab", false),
            ("spec.a[1]", "spec.a[10]", false),
        ] {
            assert_eq!(follows(&[wrong(told)], &wrong(fault)), expected, "{told} {fault}");
        }
        assert!(!follows(&[], &wrong("")));
    }
}

//! An object is read without the fields that are known to be wrong, so that what else is wrong with it is found.
use phalanx_cache::Invalid;
use serde_json::Value;

use crate::kind::Kind;
use crate::manifests::Object;
use crate::object::Converter;
use crate::placing;

impl Converter {
    /// Reads an object of which `wrong` is known to be wrong, or says all that is. What a pod asks of its place and cannot
    /// be read keeps only the pod from being placed; it is in the remarks.
    pub(crate) fn read(
        &mut self,
        kind: Kind,
        mut value: Value,
        mut wrong: Vec<Invalid>,
    ) -> Result<Object, Vec<Invalid>> {
        let mut mended = 0;
        let read = loop {
            strip(&mut value, &wrong[mended..]);
            mended = wrong.len();
            let faults = match self.convert(kind, &mut value) {
                Ok(object) => break Ok(object),
                Err(faults) => faults.0,
            };
            let news: Vec<Invalid> = faults.into_iter().filter(|one| !follows(&wrong, one)).collect();
            if news.is_empty() {
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

/// Takes out each field that is wrong; of an item of a list the whole list, for the others would get other numbers.
fn strip(object: &mut Value, wrong: &[Invalid]) {
    for one in wrong {
        remove(object, &one.field);
    }
}

/// Whether a fault follows from one that was told: it is about the same field, one in it or one around it.
pub(crate) fn follows(told: &[Invalid], fault: &Invalid) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| {
            outer.is_empty() || rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
        })
    };
    told.iter().any(|one| within(&one.field, &fault.field) || within(&fault.field, &one.field))
}

fn remove(value: &mut Value, path: &str) {
    match value {
        Value::Object(map) => {
            let leads = |key: &&String| {
                path.strip_prefix(key.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
            };
            // Keys have dots in them too: the longest that leads on.
            let Some(key) = map.keys().filter(leads).max_by_key(|key| key.len()).cloned() else { return };
            let rest = path[key.len()..].trim_start_matches('.');
            if rest.is_empty() || is_item(rest) {
                map.remove(&key);
            } else if let Some(inner) = map.get_mut(&key) {
                remove(inner, rest);
            }
        }
        Value::Array(items) => {
            let Some((index, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
                return;
            };
            if let Some(item) = index.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                remove(item, rest.trim_start_matches('.'));
            }
        }
        _ => {}
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
    fn fields_are_taken_out_by_their_path() {
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
    fn what_is_in_a_wrong_field_or_around_it_follows_from_it() {
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

//! Finds line and column of a field in its text. It is called only for problems, so the
//! ordinary way of reading pays nothing for positions.
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::list::{self, Language};

/// A parsed text with positions; JSON is read as YAML.
enum Node {
    Scalar,
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Node::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

/// Line and column (from 1) of the field at `path` (`spec.containers[0].image`), or of the innermost
/// field around it that exists; `None` when the text cannot be read.
pub(crate) fn position(text: &str, path: &str) -> Option<(usize, usize)> {
    let root = || serde_saphyr::from_str_with_options(text, crate::document::yaml_options()).ok();
    let (root, mut rest) = item(text, path).or_else(|| Some((root()?, path)))?;
    let mut node: &Spanned<Node> = &root;
    while let Some((inner, after)) = step(&node.value, rest) {
        (node, rest) = (inner, after);
    }
    Some((node.referenced.line() as usize, node.referenced.column() as usize))
}

/// The item of a list that a path leads to, and the rest of the path: other items of a long list are not kept.
fn item<'p>(text: &str, path: &'p str) -> Option<(Spanned<Node>, &'p str)> {
    let (index, rest) = path.strip_prefix("items[")?.split_once(']')?;
    let (only, mut found) = (index.parse().ok()?, None);
    list::items(text, Language::Yaml, Some(only), &mut |_, item| found = Some(item)).ok()?;
    Some((found?, rest))
}

/// Follows the first step of a path. Keys may contain dots (`nvidia.com/gpu`): the longest matching key counts.
fn step<'n, 'p>(node: &'n Node, path: &'p str) -> Option<(&'n Spanned<Node>, &'p str)> {
    match node {
        Node::Scalar => None,
        Node::List(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            Some((items.get(index.parse::<usize>().ok()?)?, rest))
        }
        Node::Map(entries) => entries
            .iter()
            .filter_map(|(key, value)| Some((value, after_key(path, &key.value)?)))
            .min_by_key(|(_, rest)| rest.len()),
    }
}

/// The rest of `path` after `key`, which is written `.key`, `key` or `[key]`.
fn after_key<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if let Some(bracketed) = path.strip_prefix('[') {
        let inner = bracketed.trim_start_matches('"');
        return inner.strip_prefix(key)?.trim_start_matches('"').strip_prefix(']');
    }
    let rest = path.strip_prefix('.').unwrap_or(path).strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
metadata:
  name: a
spec:
  containers:
  - name: main
    resources:
      requests: {cpu: 1x, nvidia.com/gpu: 2}
";

    #[test]
    fn a_field_has_the_line_and_column_at_which_it_is_written() {
        for (path, expected) in [
            ("", (1, 1)),
            ("metadata.name", (2, 9)),
            ("spec.containers[0].resources.requests.cpu", (7, 23)),
            ("spec.containers[0].resources.requests[nvidia.com/gpu]", (7, 43)),
            ("spec.containers[0].resources.requests.nvidia.com/gpu", (7, 43)),
            // A missing field has the place of the innermost existing field around it.
            ("metadata.namespace", (2, 3)),
            ("spec.containers[1].name", (5, 5)),
        ] {
            assert_eq!(position(TEXT, path), Some(expected), "{path}");
        }
        assert_eq!(position("{\"a\": {\n \"b\": 1}}", "a.b"), Some((2, 7)));
        assert_eq!(position("a: [", "a"), None);
    }
}

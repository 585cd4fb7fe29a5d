//! Events of the parser to nodes: anchors, merge keys, duplicate keys, and limits for hostile input.
use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx_framework::conf::{Position, Value};
use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag, options};

use super::{Content, Key, Node, Scalar, resolve};
use crate::problem::{Problem, Problems, START, quoted};
use crate::quote::{Blame, blame};

/// A ConfigMap holds no more than this, so no configuration is larger.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Collections inside each other; a configuration needs seven.
const DEPTH_MAX: usize = 32;
/// Nodes with aliases written out: what stops "billion laughs". A configuration has some hundreds.
const NODES_MAX: usize = 10_000;

/// What a text holds.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// The root of the first document, or `None` when the text has none.
    pub(crate) root: Option<Rc<Node>>,
    /// Where another document begins, which is not read.
    pub(crate) another: Option<Position>,
}

/// `Err` is what ended the reading.
pub(crate) fn compose(text: &str, problems: &mut Problems) -> Result<Documents, Problem> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("the file has {} bytes", text.len());
        return Err(Problem::error(START, what, format!("at most {TEXT_BYTES_MAX}, as in a ConfigMap")));
    }
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut composer = Composer { text, open: Vec::new(), anchors: BTreeMap::new(), root: None, problems };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(&error, text))?;
        if matches!(event, Event::DocumentStart(..)) && composer.root.is_some() {
            return Ok(Documents { root: composer.root, another: Some(position(span.start)) });
        }
        composer.event(event, &span)?;
    }
    Ok(Documents { root: composer.root, another: None })
}

fn position(mark: Marker) -> Position {
    Position { line: mark.line() as u32, column: mark.col() as u32 + 1 }
}

fn syntax(error: &ScanError, text: &str) -> Problem {
    let at = position(*error.marker());
    let said = error.info().replace('\n', ", ");
    let Blame { line, column, found, expected } = blame(text, (at.line as usize, at.column as usize), &said);
    let at = Position { line: line as u32, column: column as u32 };
    Problem::error(at, format!("not YAML: {found}"), expected.unwrap_or_else(|| "YAML".to_owned()))
}

struct Composer<'text, 'problems> {
    text: &'text str,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    problems: &'problems mut Problems,
}

/// A collection whose end has not been seen.
struct Open {
    at: Position,
    anchor: usize,
    weight: usize,
    height: usize,
    /// Of a mapping: keys and values in turn.
    children: Vec<Rc<Node>>,
}

impl Composer<'_, '_> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Problem> {
        let at = position(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let content = Content::Scalar(self.scalar(&text, style, tag.as_deref(), span));
                self.add(anchor, Node { at, content, weight: 1, height: 0 })
            }
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                self.open.push(Open { at, anchor, weight: 1, height: 0, children: Vec::new() });
                Ok(())
            }
            Event::SequenceEnd => self.close(|_, children| Content::List(children)),
            Event::MappingEnd => self.close(|problems, children| Content::Map(mapping(&children, problems))),
            _ => Ok(()),
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Scalar {
        let plain = || resolve(text);
        let quoted = || Value::Text(text.to_owned());
        let value = match tag.map(|tag| tag.core_suffix()) {
            None if style == ScalarStyle::Plain => plain(),
            None | Some(Some("str")) => quoted(),
            Some(Some("float")) => match plain() {
                Value::Int(number) => Value::Float(number as f64),
                other => other,
            },
            Some(Some("int" | "bool" | "null")) => plain(),
            Some(_) => {
                self.problems.error(
                    position(span.start),
                    "a tag that means nothing here",
                    "no tag, or one like !!str",
                );
                quoted()
            }
        };
        Scalar { value, text: text.to_owned(), text_at: self.text_at(text, style, span) }
    }

    /// Where the text starts, if each of its characters stands in the file as it is.
    fn text_at(&self, text: &str, style: ScalarStyle, span: &Span) -> Option<Position> {
        let at = position(span.start);
        let source = span.slice(self.text)?;
        match style {
            ScalarStyle::Plain if source == text => Some(at),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted
                if source.get(1..source.len().saturating_sub(1))? == text =>
            {
                Some(Position { column: at.column + 1, ..at })
            }
            _ => None,
        }
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), Problem> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Problem::error(
                at,
                "an alias inside what it stands for",
                "an alias of something complete",
            ));
        };
        self.put(node, at)
    }

    fn close(
        &mut self,
        content: impl FnOnce(&mut Problems, Vec<Rc<Node>>) -> Content,
    ) -> Result<(), Problem> {
        let Some(Open { at, anchor, weight, height, children }) = self.open.pop() else { return Ok(()) };
        let content = content(self.problems, children);
        self.add(anchor, Node { at, content, weight, height: height + 1 })
    }

    fn add(&mut self, anchor: usize, node: Node) -> Result<(), Problem> {
        let (at, node) = (node.at, Rc::new(node));
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put(node, at)
    }

    /// Puts a node, new or by alias, where the text has it.
    fn put(&mut self, node: Rc<Node>, at: Position) -> Result<(), Problem> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.weight += node.weight;
        parent.height = parent.height.max(node.height);
        parent.children.push(node);
        let (weight, depth) = (parent.weight, parent.height + self.open.len());
        if weight > NODES_MAX {
            return Err(Problem::error(
                at,
                "too many values",
                format!("at most {NODES_MAX}, aliases written out"),
            ));
        }
        if depth > DEPTH_MAX {
            return Err(Problem::error(
                at,
                "values nested too deeply",
                format!("at most {DEPTH_MAX} levels"),
            ));
        }
        Ok(())
    }
}

/// Entries in the order of the file; those that a merge key brings come last, and give way to those written out.
fn mapping(children: &[Rc<Node>], problems: &mut Problems) -> Vec<(Key, Rc<Node>)> {
    let mut entries = Entries::default();
    let mut merged = Vec::new();
    for pair in children.chunks_exact(2) {
        let (key, value) = (&pair[0], &pair[1]);
        match key.scalar() {
            Some(scalar) if scalar.text == "<<" && scalar.text_at == Some(key.at) => {
                merged.extend(merge_sources(key.at, value, problems));
            }
            Some(scalar) => entries.add(Key { text: scalar.text.clone(), at: key.at }, value, problems),
            None => problems.error(key.at, format!("{} as a key", key.describe()), "text"),
        }
    }
    for source in merged {
        if let Content::Map(more) = &source.content {
            for (key, value) in more {
                entries.add_missing(key, value);
            }
        }
    }
    entries.list
}

#[derive(Default)]
struct Entries {
    list: Vec<(Key, Rc<Node>)>,
    first: BTreeMap<String, Position>,
}

impl Entries {
    fn add(&mut self, key: Key, value: &Rc<Node>, problems: &mut Problems) {
        match self.first.get(&key.text) {
            Some(first) => {
                let what = format!("duplicate key {}", quoted(&key.text));
                problems.error(key.at, what, format!("each key once; the first is in line {}", first.line));
            }
            None => self.insert(key, value),
        }
    }

    fn add_missing(&mut self, key: &Key, value: &Rc<Node>) {
        if !self.first.contains_key(&key.text) {
            self.insert(key.clone(), value);
        }
    }

    fn insert(&mut self, key: Key, value: &Rc<Node>) {
        self.first.insert(key.text.clone(), key.at);
        self.list.push((key, Rc::clone(value)));
    }
}

/// The mappings behind `<<`: one, or a list of them where earlier ones win.
fn merge_sources(at: Position, value: &Rc<Node>, problems: &mut Problems) -> Vec<Rc<Node>> {
    let sources = match &value.content {
        Content::List(items) => items.clone(),
        _ => vec![Rc::clone(value)],
    };
    let (maps, others): (Vec<_>, Vec<_>) =
        sources.into_iter().partition(|source| matches!(source.content, Content::Map(_)));
    for other in &others {
        problems.error(
            at,
            format!("the merge key << has {}", other.describe()),
            "a mapping or a list of mappings",
        );
    }
    maps
}

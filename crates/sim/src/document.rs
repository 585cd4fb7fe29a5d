//! Splits a file into documents: YAML with `---`, JSON, or a sequence of JSON objects.
use std::io::BufRead;
use std::ops::{Deref, Range};
use std::rc::Rc;

use phalanx_conf::{Blame, blame};
use serde_json::Value;

use crate::bad_input::{BadInput, one_line};
use crate::chunks::{Chunk, Chunks};
use crate::json::Unambiguous;
use crate::list::{self, Head, Language, ListError};
use crate::locate;

/// Where a document is.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) file: Rc<str>,
    /// The number of the document, from 1, without empty documents.
    pub(crate) number: usize,
    text: Text,
    /// The place of the value in the list that the document is.
    pub(crate) item: Option<usize>,
}

/// The text of a document: a part of what was read at once.
#[derive(Clone, Debug)]
struct Text {
    /// The line of the file on which it begins, from 1.
    line: usize,
    whole: Rc<String>,
    part: Range<usize>,
}

impl Text {
    fn new(line: usize, text: String) -> Self {
        let part = 0..text.len();
        Self { line, whole: Rc::new(text), part }
    }

    /// A part of it, without blanks before it.
    fn part(&self, part: Range<usize>) -> Self {
        let text = &self[part.clone()];
        let blank = text.len() - text.trim_start().len();
        let start = part.start + blank;
        let line = self.line + newlines(&self[..start]);
        let from = self.part.start;
        Self { line, whole: Rc::clone(&self.whole), part: from + start..from + part.end }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.whole[self.part.clone()]
    }
}

/// A document or an item of one, or why it cannot be read.
pub(crate) type Found = Result<(Document, Value), BadInput>;

impl Document {
    /// A problem of a field of this document; `path` begins at the top of the document.
    pub(crate) fn fault(&self, path: &str, problem: impl Into<String>) -> BadInput {
        let (line, column) = locate::position(&self.text, path).unwrap_or((1, 0));
        BadInput {
            file: self.file.to_string(),
            line: self.text.line + line - 1,
            column,
            document: self.number,
            problem: problem.into(),
            ..BadInput::default()
        }
    }
}

/// Manifests are the user's own: limits against hostile YAML would only refuse large lists.
pub(crate) fn yaml_options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    options.budget = None;
    options
}

/// Reads every document of a file and every item of a list, each before the next is parsed: a file may hold a million.
/// A syntax error ends the reading of its document only.
pub(crate) fn read(file: &str, from: &mut dyn BufRead, found: &mut dyn FnMut(Found)) {
    let mut chunks = Chunks::new(file, from);
    let mut reader = Reader { file: file.into(), number: 0, found };
    loop {
        match chunks.next() {
            Ok(Some(chunk)) => reader.chunk(chunk),
            Ok(None) => break,
            Err(fault) => {
                (reader.found)(Err(fault));
                break;
            }
        }
    }
}

struct Reader<'f> {
    file: Rc<str>,
    number: usize,
    found: &'f mut dyn FnMut(Found),
}

impl Reader<'_> {
    /// Lines that end in a carriage return alone: documents are not told apart, and no editor of today writes them.
    fn old_line_ends(&self, text: &Text) -> Option<BadInput> {
        let alone = |(at, _): &(usize, &str)| !text[at + 1..].starts_with('\n');
        if text.contains('\n') || !text.trim_end().contains('\r') {
            return None;
        }
        let (at, _) = text.match_indices('\r').find(alone)?;
        Some(BadInput {
            file: self.file.to_string(),
            line: text.line,
            column: text[..at].chars().count() + 1,
            problem: "found a line that ends in a carriage return alone, expected a line feed at its end"
                .to_owned(),
            ..BadInput::default()
        })
    }

    fn chunk(&mut self, Chunk { line, text, goes_on }: Chunk) {
        if is_empty(&text) {
            return;
        }
        let text = &Text::new(line, text);
        if let Some(fault) = self.old_line_ends(text) {
            return (self.found)(Err(fault));
        }
        let is_json = text.trim_start().starts_with('{');
        let language = if is_json { Language::Json } else { Language::Yaml };
        if let Some(head) = Head::of(text, language) {
            self.list(text, language, &head);
        } else if !is_json {
            self.yaml(text, None);
        } else if let Some(fault) = self.json(text) {
            if goes_on {
                self.number += 1;
                return (self.found)(Err(fault));
            }
            // A flow mapping of YAML looks like JSON, so the text is parsed as YAML before a JSON error counts.
            self.yaml(text, Some(fault));
        }
    }

    /// The items of a list.
    fn list(&mut self, text: &Text, language: Language, head: &Head) {
        self.number += 1;
        let document = self.document(text.clone());
        let found = &mut *self.found;
        let read = match language {
            Language::Json => list::items(text, language, None, &mut |place, Unambiguous(mut item)| {
                head.complete(&mut item);
                found(Ok((Document { item: Some(place), ..document.clone() }, item)));
            }),
            Language::Yaml => list::items(text, language, None, &mut |place, mut item: Value| {
                head.complete(&mut item);
                found(Ok((Document { item: Some(place), ..document.clone() }, item)));
            }),
        };
        let fault = read.err().map(|error| match error {
            ListError::Json(error) => self.json_fault(text, &error),
            ListError::Yaml(error) => self.yaml_fault(text, &error),
        });
        if let Some(fault) = fault {
            (self.found)(Err(fault));
        }
    }

    /// A sequence of JSON objects. An error in the first of them is returned: the text may be YAML.
    fn json(&mut self, text: &Text) -> Option<BadInput> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Unambiguous>();
        let (mut at, before) = (0, self.number);
        while let Some(value) = values.next() {
            self.number += 1;
            match value {
                Ok(Unambiguous(value)) => {
                    let end = values.byte_offset();
                    self.keep(text.part(at..end), value);
                    at = end;
                }
                // A flow mapping of YAML with a comment after it.
                Err(_) if self.number == before + 2 && is_empty(&text[at..]) => {
                    self.number -= 1;
                    break;
                }
                Err(error) => {
                    let fault = self.json_fault(text, &error);
                    if self.number == before + 1 {
                        self.number = before;
                        return Some(fault);
                    }
                    (self.found)(Err(fault));
                    break;
                }
            }
        }
        None
    }

    fn yaml(&mut self, text: &Text, json_fault: Option<BadInput>) {
        self.number += 1;
        match serde_saphyr::from_str_with_options::<Value>(text, yaml_options()) {
            Ok(value) => self.keep(text.clone(), value),
            Err(error) => {
                let fault = json_fault.unwrap_or_else(|| self.yaml_fault(text, &error));
                (self.found)(Err(fault));
            }
        }
    }

    fn keep(&mut self, text: Text, value: Value) {
        let document = self.document(text);
        (self.found)(Ok((document, value)));
    }

    fn document(&self, text: Text) -> Document {
        Document { file: Rc::clone(&self.file), number: self.number, text, item: None }
    }

    fn json_fault(&self, text: &Text, error: &serde_json::Error) -> BadInput {
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or(&message);
        self.syntax_fault("JSON", text.line, blame(text, (error.line(), error.column()), what))
    }

    fn yaml_fault(&self, text: &Text, error: &serde_saphyr::Error) -> BadInput {
        let at = error.location().map_or((1, 0), |at| (at.line() as usize, at.column() as usize));
        self.syntax_fault("YAML", text.line, blame(text, at, &yaml_problem(error.without_snippet())))
    }

    /// `line` is that of the file on which the text begins.
    fn syntax_fault(&self, language: &str, line: usize, blame: Blame) -> BadInput {
        let expected = blame.expected.map(|expected| format!(", expected {expected}")).unwrap_or_default();
        BadInput {
            file: self.file.to_string(),
            line: line + blame.line - 1,
            column: blame.column,
            document: self.number,
            problem: format!("invalid {language}: {}{expected}", one_line(&blame.found)),
            ..BadInput::default()
        }
    }
}

/// The message of a syntax error in terms of manifests instead of the library.
fn yaml_problem(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("found key {key:?} again, expected it once")
        }
        Error::DuplicateMappingKey { key: None, .. } => "found a key again, expected it once".to_owned(),
        Error::MultipleDocuments { .. } => {
            "found a second document, expected --- at the beginning of a line between documents".to_owned()
        }
        other if other.to_string().starts_with("recursive references") => {
            "found an alias inside what it stands for, expected one of something complete".to_owned()
        }
        Error::NonFiniteFloat { value, .. } => format!("found {value}, expected a finite number"),
        other => {
            let message = other.to_string();
            message.split(" at line ").next().unwrap_or(&message).to_owned()
        }
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Whether the text has only blank lines, comments and directives, which kubectl does not take for a document.
fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with(['#', '%']) || line == "..."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut names = Vec::new();
        read("f", &mut text.as_bytes(), &mut |found| {
            names.push(match found {
                Ok((document, value)) => {
                    let fault = document.fault("a", "");
                    format!("{}@{}:{}={}", document.number, fault.line, fault.column, value["a"])
                }
                Err(fault) => fault.to_string(),
            });
        });
        names
    }

    #[test]
    fn documents_keep_their_number_and_line() {
        for (text, expected) in [
            ("a: 1\n", vec!["1@1:4=1"]),
            ("# licence\n---\na: 1\n---\n---\n# nothing\n---\n\na: 2\n", vec!["1@3:4=1", "2@9:4=2"]),
            ("--- # first\na: 1\n--- {a: 2}\n...\n", vec!["1@2:4=1", "2@3:6=2"]),
            ("%YAML 1.2\n---\na: 1\r\n---\r\na: 2\r\n", vec!["1@3:4=1", "2@5:4=2"]),
            ("{\"a\": 1}\n{\"a\": 2}\n\n{\n\"a\": 3}", vec!["1@1:7=1", "2@2:7=2", "3@5:6=3"]),
            ("a: 1\n---\n{\"a\": 2}{\"a\": 3}\n---\na: 4", vec!["1@1:4=1", "2@3:7=2", "3@3:7=3", "4@5:4=4"]),
            ("{a: 1}", vec!["1@1:5=1"]),
            ("{\"a\": 1} # one\n# and no more\n---\na: 2", vec!["1@1:7=1", "2@4:4=2"]),
            ("a: |\n  ---\n  x\n", vec!["1@2:3=\"---\\nx\\n\""]),
            ("", vec![]),
        ] {
            assert_eq!(names(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_line_feeds_end_a_line() {
        let expected =
            "f:1:5: found a line that ends in a carriage return alone, expected a line feed at its end";
        assert_eq!(names("a: 1\rb: 2\r"), [expected]);
        assert_eq!(names("a: 1\r---\ra: 2"), [expected]);
        assert_eq!(names("a: 1\r"), ["1@1:4=1"]);
        let two = names("a: 1\n...\nb: 2\n");
        assert!(two[0].contains("found a second document, expected --- "), "{two:?}");
    }

    #[test]
    fn syntax_errors_have_line_and_column_and_other_documents_are_read() {
        for (text, expected) in [
            ("a: 1\n---\na: [1\n---\na: 3\n", "f:3:"),
            ("{\"a\": 1}\n{\"a\": }\n", "f:2:7: document 2: invalid JSON: expected value"),
            ("a: 1\na: 2\n", "f:2:1: document 1: invalid YAML: "),
            ("a:\n\tb: 1\n", "f:2:1: document 1: invalid YAML: a tab as indentation, expected spaces"),
            ("a: &x [*x]\n", "f:1:8: document 1: invalid YAML: found an alias inside what it stands for"),
            (
                "x: 1\n---\n# it's\na: \"b\nc: \"d\"\n---\n",
                "f:4:4: document 2: invalid YAML: a text that opens with \" and",
            ),
            (
                "{\"a\": 1}\n{\"a\": \"b\n}\n",
                "f:2:7: document 2: invalid JSON: a text that opens with \" and has no end",
            ),
        ] {
            let found = names(text);
            assert!(found.iter().any(|line| line.starts_with(expected)), "{text:?}: {found:?}");
            assert!(found.iter().all(|line| !line.contains('\n')), "{found:?}");
        }
        assert_eq!(names("a: 1\n---\na: [1\n---\na: 3\n").len(), 3);
    }
}

//! Splits a text into documents: YAML with `---`, JSON, or a sequence of JSON objects.
use phalanx_conf::{Blame, blame};
use serde_json::Value;

use crate::bad_input::{BadInput, one_line};
use crate::json::Unambiguous;
use crate::list::{self, Head, Language, ListError};
use crate::locate;

/// Where a document is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    pub(crate) file: &'a str,
    /// The number of the document, from 1, without empty documents.
    pub(crate) number: usize,
    /// The line of the file on which `text` begins, from 1.
    line: usize,
    text: &'a str,
    /// The place of the value in the list that the document is.
    pub(crate) item: Option<usize>,
}

/// A document or an item of one, or why it cannot be read.
pub(crate) type Found<'a> = Result<(Document<'a>, Value), BadInput>;

impl Document<'_> {
    /// A problem of a field of this document; `path` begins at the top of the document.
    pub(crate) fn fault(&self, path: &str, problem: impl Into<String>) -> BadInput {
        let (line, column) = locate::position(self.text, path).unwrap_or((1, 0));
        BadInput {
            file: self.file.to_owned(),
            line: self.line + line - 1,
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
pub(crate) fn read<'a>(file: &'a str, text: &'a str, found: &mut dyn FnMut(Found<'a>)) {
    let mut reader = Reader { file, number: 0, found };
    if let Some(fault) = reader.old_line_ends(text) {
        return found(Err(fault));
    }
    for (line, part) in parts(text) {
        reader.part(line, part);
    }
}

struct Reader<'a, 'f> {
    file: &'a str,
    number: usize,
    found: &'f mut dyn FnMut(Found<'a>),
}

impl<'a> Reader<'a, '_> {
    /// Lines that end in a carriage return alone: documents are not told apart, and no editor of today writes them.
    fn old_line_ends(&self, text: &str) -> Option<BadInput> {
        let alone = |(at, _): &(usize, &str)| !text[at + 1..].starts_with('\n');
        if text.contains('\n') || !text.trim_end().contains('\r') {
            return None;
        }
        let (at, _) = text.match_indices('\r').find(alone)?;
        Some(BadInput {
            file: self.file.to_owned(),
            line: 1,
            column: text[..at].chars().count() + 1,
            problem: "found a line that ends in a carriage return alone, expected a line feed at its end"
                .to_owned(),
            ..BadInput::default()
        })
    }

    fn part(&mut self, line: usize, text: &'a str) {
        if is_empty(text) {
            return;
        }
        let is_json = text.trim_start().starts_with('{');
        let language = if is_json { Language::Json } else { Language::Yaml };
        if let Some(head) = Head::of(text, language) {
            self.list(line, text, language, &head);
        } else if !is_json {
            self.yaml(line, text, None);
        } else if let Some(fault) = self.json(line, text) {
            // A flow mapping of YAML looks like JSON, so the text is parsed as YAML before a JSON error counts.
            self.yaml(line, text, Some(fault));
        }
    }

    /// The items of a list.
    fn list(&mut self, line: usize, text: &'a str, language: Language, head: &Head) {
        self.number += 1;
        let document = Document { file: self.file, number: self.number, line, text, item: None };
        let found = &mut *self.found;
        let read = match language {
            Language::Json => list::items(text, language, None, &mut |place, Unambiguous(mut item)| {
                head.complete(&mut item);
                found(Ok((Document { item: Some(place), ..document }, item)));
            }),
            Language::Yaml => list::items(text, language, None, &mut |place, mut item: Value| {
                head.complete(&mut item);
                found(Ok((Document { item: Some(place), ..document }, item)));
            }),
        };
        let fault = read.err().map(|error| match error {
            ListError::Json(error) => self.json_fault(line, text, &error),
            ListError::Yaml(error) => self.yaml_fault(line, text, &error),
        });
        if let Some(fault) = fault {
            (self.found)(Err(fault));
        }
    }

    /// A sequence of JSON objects. An error in the first of them is returned: the text may be YAML.
    fn json(&mut self, line: usize, text: &'a str) -> Option<BadInput> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Unambiguous>();
        let (mut at, mut at_line, before) = (0, line, self.number);
        while let Some(value) = values.next() {
            self.number += 1;
            match value {
                Ok(Unambiguous(value)) => {
                    let end = values.byte_offset();
                    let slice = &text[at..end];
                    let blank = slice.len() - slice.trim_start().len();
                    let start_line = at_line + newlines(&slice[..blank]);
                    self.keep(start_line, &slice[blank..], value);
                    (at, at_line) = (end, at_line + newlines(slice));
                }
                // A flow mapping of YAML with a comment after it.
                Err(_) if self.number == before + 2 && is_empty(&text[at..]) => {
                    self.number -= 1;
                    break;
                }
                Err(error) => {
                    let fault = self.json_fault(line, text, &error);
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

    fn yaml(&mut self, line: usize, text: &'a str, json_fault: Option<BadInput>) {
        self.number += 1;
        match serde_saphyr::from_str_with_options::<Value>(text, yaml_options()) {
            Ok(value) => self.keep(line, text, value),
            Err(error) => {
                let fault = json_fault.unwrap_or_else(|| self.yaml_fault(line, text, &error));
                (self.found)(Err(fault));
            }
        }
    }

    fn keep(&mut self, line: usize, text: &'a str, value: Value) {
        (self.found)(Ok((Document { file: self.file, number: self.number, line, text, item: None }, value)));
    }

    fn json_fault(&self, line: usize, text: &str, error: &serde_json::Error) -> BadInput {
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or(&message);
        self.syntax_fault("JSON", line, blame(text, (error.line(), error.column()), what))
    }

    fn yaml_fault(&self, line: usize, text: &str, error: &serde_saphyr::Error) -> BadInput {
        let at = error.location().map_or((1, 0), |at| (at.line() as usize, at.column() as usize));
        self.syntax_fault("YAML", line, blame(text, at, &yaml_problem(error.without_snippet())))
    }

    /// `line` is that of the file on which the text begins.
    fn syntax_fault(&self, language: &str, line: usize, blame: Blame) -> BadInput {
        let expected = blame.expected.map(|expected| format!(", expected {expected}")).unwrap_or_default();
        BadInput {
            file: self.file.to_owned(),
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

/// The text between the lines that begin with `---`, each with the number of its first line.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            parts.push((start_line, &text[start..at]));
            // Text on the line of the dashes belongs to the document after them.
            (start, start_line) = (at + 3, index + 1);
        }
        at += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut names = Vec::new();
        read("f", text, &mut |found| {
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

//! A file in pieces that are parsed one after the other: a file may hold a million documents.
use std::io::{self, BufRead};

use crate::bad_input::BadInput;

/// What stands between lines that begin with `---`; of a sequence of JSON objects, the lines of one or more objects.
pub(crate) struct Chunk {
    /// The line of the file on which it begins, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// It follows an object in JSON, without a line that begins with `---`.
    pub(crate) goes_on: bool,
}

/// The pieces of a file.
pub(crate) struct Chunks<'a> {
    file: &'a str,
    from: &'a mut dyn BufRead,
    /// Lines that were read.
    lines: usize,
    /// The begin of the next piece, where a line was read that begins it.
    next: Option<Chunk>,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(file: &'a str, from: &'a mut dyn BufRead) -> Self {
        Self { file, from, lines: 0, next: Some(Chunk { line: 1, text: String::new(), goes_on: false }) }
    }

    /// The next piece, or why the rest of the file cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<Chunk>, BadInput> {
        let Some(mut chunk) = self.next.take() else { return Ok(None) };
        let mut json = Json::default();
        json.take(&chunk.text);
        while let Some(line) = self.line()? {
            if is_separator(&line) {
                // Text on the line of the dashes belongs to the document after them.
                self.next = Some(Chunk { line: self.lines, text: line[3..].to_owned(), goes_on: false });
                break;
            }
            if json.is_whole() && line.trim_start().starts_with('{') {
                self.next = Some(Chunk { line: self.lines, text: line, goes_on: true });
                break;
            }
            json.take(&line);
            // A list may stand in one line: it is not copied.
            if chunk.text.is_empty() { chunk.text = line } else { chunk.text.push_str(&line) }
        }
        Ok(Some(chunk))
    }

    /// The next line with its end.
    fn line(&mut self) -> Result<Option<String>, BadInput> {
        let mut bytes = Vec::new();
        let read = self.from.read_until(b'\n', &mut bytes).map_err(|error| self.unreadable(&error))?;
        self.lines += 1;
        let text = String::from_utf8(bytes)
            .map_err(|_| self.fault("found bytes that are not UTF-8, expected text".to_owned()))?;
        Ok((read > 0).then_some(text))
    }

    fn unreadable(&self, error: &io::Error) -> BadInput {
        BadInput { line: self.lines + 1, ..self.fault(format!("cannot be read: {error}")) }
    }

    fn fault(&self, problem: String) -> BadInput {
        BadInput { file: self.file.to_owned(), line: self.lines, problem, ..BadInput::default() }
    }
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether a text so far is whole objects in JSON. Of a text that only looks like JSON, such as a flow mapping of YAML,
/// it may say no until its end, and never yes within a text in double quotes.
#[derive(Default)]
struct Json {
    /// The first byte that is not blank.
    first: Option<u8>,
    open: usize,
    in_text: bool,
    escaped: bool,
}

impl Json {
    fn take(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.first.is_none() && !byte.is_ascii_whitespace() {
                self.first = Some(byte);
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.open += 1,
                b'}' | b']' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.first == Some(b'{') && self.open == 0 && !self.in_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<(usize, String)> {
        let mut from = text.as_bytes();
        let mut chunks = Chunks::new("f", &mut from);
        let mut found = Vec::new();
        while let Some(Chunk { line, text, .. }) = chunks.next().unwrap() {
            found.push((line, text));
        }
        found
    }

    #[test]
    fn documents_are_read_one_by_one() {
        for (text, expected) in [
            ("", vec![(1, "")]),
            ("a: 1\n---\na: 2\n", vec![(1, "a: 1\n"), (2, "\na: 2\n")]),
            (
                "{\"a\": 1}\n{\"a\": 2}\n\n{\n\"a\": 3}",
                vec![(1, "{\"a\": 1}\n"), (2, "{\"a\": 2}\n\n"), (4, "{\n\"a\": 3}")],
            ),
            ("{\"a\": \"}\\\"\n{\"}\n{}", vec![(1, "{\"a\": \"}\\\"\n{\"}\n"), (3, "{}")]),
            ("--- {\"a\": 1}\n{}", vec![(1, ""), (1, " {\"a\": 1}\n"), (2, "{}")]),
            ("{a: 1\n{b: 2\n", vec![(1, "{a: 1\n{b: 2\n")]),
            ("- {}\n{}", vec![(1, "- {}\n{}")]),
        ] {
            let found = chunks(text);
            let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told_by_their_line() {
        let mut from = &b"a: 1\nb: \xff\n"[..];
        let fault = Chunks::new("f", &mut from).next().err().unwrap();
        assert_eq!(fault.to_string(), "f:2: found bytes that are not UTF-8, expected text");
    }
}

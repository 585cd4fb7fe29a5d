//! Reads the files of a journal, oldest first.
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Take};
use std::path::{Path, PathBuf};

use phalanx_cluster::event::Time;
use serde_json::Value;

use super::capture::{Part, Recording};
use super::file::files;
use super::line::{Cycle, Line};
use crate::client::plain;

/// A journal that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {}", plain(error))]
    File {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A line is none of a journal.
    #[error("{path}: line {number}: {error}, expected a line of a journal")]
    Line {
        /// The file.
        path: String,
        /// The line.
        number: usize,
        /// Why.
        error: String,
    },
}

/// The lines of a journal. Half a line, which a killed scheduler or a full disk leaves, is read as one that was
/// dropped.
#[derive(Debug)]
pub struct Reader {
    files: std::vec::IntoIter<Unopened>,
    open: Option<(PathBuf, BufReader<Take<File>>)>,
    number: usize,
    /// Some line was read: so half a line is no file of another kind.
    known: bool,
    /// The name without which the decisions of a cycle need not be read.
    name: Option<String>,
}

/// A file that comes later.
#[derive(Debug)]
enum Unopened {
    Path(PathBuf),
    Part(Part),
}

impl Reader {
    /// Reads `PATH` and the full files before it, `PATH.1` and so on.
    pub fn new(path: &Path) -> Self {
        Self::of(files(path).into_iter().map(Unopened::Path).collect())
    }

    /// Reads what a running scheduler has handed out.
    pub fn of_recording(recording: Recording) -> Self {
        Self::of(recording.0.into_iter().map(Unopened::Part).collect())
    }

    fn of(files: Vec<Unopened>) -> Self {
        Self { files: files.into_iter(), open: None, number: 0, known: false, name: None }
    }

    /// The same lines, but without events, and without the decisions of cycles that do not mention this name: most of
    /// a journal is not taken apart.
    pub fn about(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    fn next_line(&mut self) -> Option<Result<Line<Value>, ReadError>> {
        loop {
            if self.open.is_none() {
                let (path, file) = match self.files.next()? {
                    Unopened::Part(Part { path, file, length }) => (path, file.take(length)),
                    Unopened::Path(path) => match File::open(&path) {
                        Ok(file) => (path, file.take(u64::MAX)),
                        Err(error) => return Some(Err(unreadable(&path, error))),
                    },
                };
                (self.open, self.number) = (Some((path, BufReader::new(file))), 0);
            }
            let (path, file) = self.open.as_mut()?;
            let mut text = Vec::new();
            match file.read_until(b'\n', &mut text) {
                Ok(0) => self.open = None,
                Ok(_) => {
                    self.number += 1;
                    let skimmed = self.name.as_ref().and_then(|name| skimmed(&text, name));
                    let line = skimmed.map_or_else(|| serde_json::from_slice(&text), Ok);
                    let (known, half) = (self.known, line.is_err());
                    self.known |= !half;
                    return Some(match line {
                        Err(_) if known => Ok(Line::Dropped(1)),
                        line => line.map_err(|error| ReadError::Line {
                            path: path.display().to_string(),
                            number: self.number,
                            error: error.to_string().split(" at line").next().unwrap_or_default().to_owned(),
                        }),
                    });
                }
                Err(error) => return Some(Err(unreadable(path, error))),
            }
        }
    }
}

/// A line that has nothing of what is looked for: no decision about this name.
fn skimmed(line: &[u8], name: &str) -> Option<Line<Value>> {
    if line.starts_with(b"{\"events\":") {
        return Some(Line::Events(Vec::new()));
    }
    let line = str::from_utf8(line).ok().filter(|line| line.starts_with("{\"cycle\":"))?;
    if line.contains(name) {
        return None;
    }
    let (_, time) = line.split_once("\"time\":\"")?;
    let (time, _) = time.split_once('"')?;
    let (number, now, time) = (0, Time(0), time.to_owned());
    let (decisions, stopwatch, extenders) = Default::default();
    Some(Line::Cycle(Cycle { number, time, now, decisions, stopwatch, extenders }))
}

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    ReadError::File { path: path.display().to_string(), error }
}

impl Iterator for Reader {
    type Item = Result<Line<Value>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line()
    }
}

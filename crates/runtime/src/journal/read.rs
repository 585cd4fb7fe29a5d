//! Reads the files of a journal, oldest first.
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file::files;
use super::line::Line;
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
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(PathBuf, BufReader<File>)>,
    number: usize,
    /// Some line was read: so half a line is no file of another kind.
    known: bool,
}

impl Reader {
    /// Reads `PATH` and the full files before it, `PATH.1` and so on.
    pub fn new(path: &Path) -> Self {
        Self { files: files(path).into_iter(), open: None, number: 0, known: false }
    }

    fn next_line(&mut self) -> Option<Result<Line<Value>, ReadError>> {
        loop {
            if self.open.is_none() {
                let path = self.files.next()?;
                match File::open(&path) {
                    Ok(file) => (self.open, self.number) = (Some((path, BufReader::new(file))), 0),
                    Err(error) => return Some(Err(unreadable(&path, error))),
                }
            }
            let (path, file) = self.open.as_mut()?;
            let mut text = Vec::new();
            match file.read_until(b'\n', &mut text) {
                Ok(0) => self.open = None,
                Ok(_) => {
                    self.number += 1;
                    let line = serde_json::from_slice(&text);
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

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    ReadError::File { path: path.display().to_string(), error }
}

impl Iterator for Reader {
    type Item = Result<Line<Value>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line()
    }
}

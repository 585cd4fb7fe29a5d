//! What the journal of a running scheduler holds: all of it, or a capture, which is what it holds since that scheduler
//! began.
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::file::files;

/// As much of a line as shows its kind.
const HEAD: u64 = 12;

/// What is wanted of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What was decided, as far as it is there.
    Decisions,
    /// All that cycles have read and decided, which can be replayed.
    Replay,
}

/// Why nothing is handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCapture {
    /// There is no journal.
    #[error("this scheduler writes no journal: start it with --journal-path")]
    NoJournal,
    /// The inputs of cycles are not recorded.
    #[error(
        "this scheduler does not record what its cycles read: start it with --journal-path and --journal-inputs"
    )]
    NoInputs,
    /// The file with the start of the scheduler is gone.
    #[error(
        "the journal does not reach back to the start of this scheduler: --journal-maxsize and --journal-maxbackup say \
         how much is kept"
    )]
    NoStart,
    /// Lines were dropped.
    #[error("lines are missing in the journal: the disk was full, or slower than decisions came")]
    Dropped,
    /// Too much waits to be written.
    #[error("the journal is not written yet: try again")]
    Busy,
    /// A file cannot be read.
    #[error("the journal cannot be read: {0}")]
    Unreadable(String),
}

impl From<io::Error> for NoCapture {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(crate::client::plain(&error))
    }
}

/// The files of a journal as they were at one time, oldest first: what is written or renamed later changes nothing.
#[derive(Debug)]
pub struct Recording(pub(super) Vec<Part>);

/// A file of a journal, up to its length at that time.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) length: u64,
}

/// Where a line begins.
#[derive(Clone, Copy)]
struct Position {
    file: usize,
    offset: u64,
}

/// What was found in the lines so far.
enum Found {
    Nothing,
    Start(Position),
    /// Lines are missing since the last start.
    Gap,
}

impl Recording {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let open = |path| {
            let file = File::open(&path)?;
            let length = file.metadata()?.len();
            Ok(Part { path, file, length })
        };
        files(path).into_iter().map(open).collect::<io::Result<_>>().map(Self)
    }

    /// The lines from the last start on, with which `phalanx replay` begins.
    pub fn since_start(self) -> Result<impl Read + Send, NoCapture> {
        let mut found = Found::Nothing;
        for (at, part) in self.0.iter().enumerate() {
            look_through(at, (&part.file).take(part.length), &mut found)?;
        }
        let start = match found {
            Found::Start(position) => position,
            Found::Nothing => return Err(NoCapture::NoStart),
            Found::Gap => return Err(NoCapture::Dropped),
        };
        let mut lines: Box<dyn Read + Send> = Box::new(io::empty());
        for (at, Part { mut file, length, .. }) in self.0.into_iter().enumerate().skip(start.file) {
            let begin = if at == start.file { start.offset } else { 0 };
            file.seek(SeekFrom::Start(begin))?;
            lines = Box::new(lines.chain(file.take(length - begin)));
        }
        Ok(lines)
    }
}

/// Looks for starts and gaps in a file. Its lines are skipped rather than read: the first ones are large.
fn look_through(file: usize, content: impl Read, found: &mut Found) -> io::Result<()> {
    let (mut content, mut offset) = (BufReader::new(content), 0);
    loop {
        let mut head = Vec::new();
        let mut length = content.by_ref().take(HEAD).read_until(b'\n', &mut head)?;
        if length == 0 {
            return Ok(());
        }
        if head.last() != Some(&b'\n') {
            length += content.skip_until(b'\n')?;
        }
        if head.starts_with(b"{\"start\":") {
            *found = Found::Start(Position { file, offset });
        } else if head.starts_with(b"{\"dropped\":") && matches!(found, Found::Start(_)) {
            *found = Found::Gap;
        }
        offset += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const START: &str = "{\"start\":{\"version\":\"1\"}}\n";
    const CYCLE: &str = "{\"cycle\":1}\n";
    const DROPPED: &str = "{\"dropped\":2}\n";

    /// What a capture of a journal with these files holds.
    fn captured(older: &[&str], newest: &[&str]) -> Result<String, NoCapture> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(folder.path().join("journal.1"), older.concat()).unwrap();
        fs::write(&path, newest.concat()).unwrap();
        let recording = Recording::of(&path).unwrap();
        // What is written and renamed from here on is not a part of it.
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, b"x"))
            .unwrap();
        fs::rename(&path, folder.path().join("journal.1")).unwrap();
        let mut text = String::new();
        recording.since_start()?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn a_capture_begins_with_the_last_start_whatever_file_that_is_in() {
        for (older, newest, expected) in [
            (&[CYCLE, START, CYCLE][..], &[CYCLE, CYCLE][..], vec![START, CYCLE, CYCLE, CYCLE]),
            (&[START, CYCLE], &[CYCLE, START, CYCLE], vec![START, CYCLE]),
            (&[START, DROPPED], &[DROPPED, START], vec![START]),
            (&[], &[START], vec![START]),
        ] {
            assert_eq!(captured(older, newest), Ok(expected.concat()));
        }
    }

    #[test]
    fn what_could_not_be_replayed_is_no_capture() {
        for (older, newest, expected) in [
            (&[CYCLE][..], &[CYCLE][..], NoCapture::NoStart),
            (&[], &[DROPPED], NoCapture::NoStart),
            (&[START, CYCLE, DROPPED], &[CYCLE], NoCapture::Dropped),
        ] {
            assert_eq!(captured(older, newest), Err(expected));
        }
    }
}

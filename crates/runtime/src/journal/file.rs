//! The file of a journal: written on a thread of its own, and replaced by a new one when it is full.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use phalanx_core::decision::Decision;
use tracing::{error, info, warn};

use super::capture::{NoCapture, Recording, Wanted};
use super::line::Line;
use super::{Order, Queued};
use crate::metrics::Metrics;

/// Where a journal is, and how large it may get.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// `--journal-path`.
    pub path: PathBuf,
    /// `--journal-maxsize`, in bytes.
    pub max_bytes: u64,
    /// `--journal-maxbackup`.
    pub max_backups: usize,
    /// `--journal-inputs`.
    pub inputs: bool,
}

/// A file of lines, and the full files before it: `PATH.1` is the newest of them.
#[derive(Debug)]
pub(super) struct Rotating {
    options: JournalOptions,
    file: File,
    bytes: u64,
    /// The last line was not written to its end.
    torn: bool,
    /// Files that were begun since this process began: the line with its start is as many files back.
    begun: usize,
}

impl Rotating {
    pub(super) fn open(options: JournalOptions) -> io::Result<Self> {
        let torn = ends_in_half_a_line(&options.path)?;
        let file = open(&options.path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { options, file, bytes, torn, begun: 0 })
    }

    /// Appends a line. A line that is larger than a whole file is refused.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let bytes = line.len() as u64 + 1;
        if bytes > self.options.max_bytes {
            return Err(io::Error::other(format!(
                "a line of {bytes} bytes is larger than --journal-maxsize"
            )));
        }
        if self.bytes + bytes > self.options.max_bytes {
            self.rotate()?;
        }
        let mut text = Vec::with_capacity(line.len() + 2);
        // What stands before may be half a line, of a full disk or a killed process.
        text.extend(self.torn.then_some(b'\n'));
        text.extend_from_slice(line);
        text.push(b'\n');
        self.torn = true;
        self.file.write_all(&text)?;
        self.torn = false;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let JournalOptions { path, max_backups, .. } = &self.options;
        for number in (1..*max_backups).rev() {
            rename(&backup(path, number), &backup(path, number + 1))?;
        }
        if *max_backups > 0 {
            rename(path, &backup(path, 1))?;
        } else {
            fs::remove_file(path)?;
        }
        self.file = open(path)?;
        (self.bytes, self.torn) = (0, false);
        self.begun += 1;
        if self.options.inputs && self.begun == self.options.max_backups + 1 {
            warn!(
                path = %self.options.path.display(),
                "the journal no longer reaches back to the start of this scheduler: phalanx replay and phalanx capture \
                 need a start; keep more (--journal-maxsize, --journal-maxbackup), or restart replicas one by one"
            );
        }
        Ok(())
    }
}

/// Only the user of the scheduler may read it: names of pods, and scheduler.conf, stand in it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn ends_in_half_a_line(path: &Path) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    // A device has no end.
    if !file.metadata()?.is_file() || file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn backup(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The files of a journal that exist, oldest first: one after the other they are what `phalanx replay` reads.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let backups = (1..).map(|number| backup(path, number)).take_while(|path| path.exists());
    let mut files: Vec<PathBuf> = backups.collect();
    files.reverse();
    files.push(path.to_owned());
    files
}

/// Carries out orders until all senders are gone. A line that cannot be written is dropped, and counted.
pub(super) fn write_all(
    mut file: Rotating,
    orders: &Receiver<Order>,
    queued: &Queued,
    metrics: &Arc<Metrics>,
) {
    let (path, mut failing, mut lost) = (file.options.path.display().to_string(), false, 0);
    let mut buffer = Vec::new();
    while let Ok(order) = orders.recv() {
        let line = match order {
            Order::Write(line) => line,
            Order::HandOut(wanted, tell) => {
                let is_complete = lost == 0 || wanted == Wanted::Decisions;
                let complete = if is_complete { Ok(()) } else { Err(NoCapture::Dropped) };
                // Who asked may have gone.
                let _ = tell.send(complete.and_then(|()| Ok(Recording::of(&file.options.path)?)));
                continue;
            }
        };
        queued.leave(&line);
        if lost > 0 && put(&mut file, &mut buffer, &Line::Dropped(lost)).is_ok() {
            lost = 0;
        }
        match put(&mut file, &mut buffer, &line) {
            Ok(()) if failing => info!(path, "the journal is written again"),
            Ok(()) => {}
            Err(error) => {
                lost += 1;
                metrics.journal_dropped(1);
                if !failing {
                    error!(path, "the journal cannot be written, lines are dropped: {error}");
                }
                failing = true;
                continue;
            }
        }
        failing = false;
    }
}

fn put(file: &mut Rotating, buffer: &mut Vec<u8>, line: &Line<Decision>) -> io::Result<()> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, line)?;
    file.write(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(folder: &Path, max_backups: usize) -> JournalOptions {
        JournalOptions { path: folder.join("journal"), max_bytes: 10, max_backups, inputs: false }
    }

    fn texts(path: &Path) -> Vec<String> {
        files(path).iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn full_files_are_kept_up_to_the_number_of_backups() {
        for (max_backups, expected) in [
            (0, vec!["ggg\n"]),
            (1, vec!["eee\nfff\n", "ggg\n"]),
            (9, vec!["aaa\nbbb\n", "ccc\nddd\n", "eee\nfff\n", "ggg\n"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut file = Rotating::open(options(folder.path(), max_backups)).unwrap();
            for letter in "abcdefg".chars() {
                file.write(letter.to_string().repeat(3).as_bytes()).unwrap();
            }
            assert_eq!(texts(&folder.path().join("journal")), expected, "{max_backups} backups");
        }
    }

    /// Replay and captures begin with a start.
    #[test]
    fn a_warning_says_once_when_the_file_with_the_start_is_gone() {
        for (inputs, max_backups, lines, expected) in
            [(true, 1, 4, 0), (true, 1, 5, 1), (true, 1, 12, 1), (true, 0, 3, 1), (false, 1, 12, 0)]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let log = tracing_subscriber::fmt().with_writer(Arc::new(File::create(&path).unwrap())).finish();
            tracing::subscriber::with_default(log, || {
                let options = JournalOptions { inputs, ..options(folder.path(), max_backups) };
                let mut file = Rotating::open(options).unwrap();
                (0..lines).for_each(|_| file.write(b"abc").unwrap());
            });
            let told = fs::read_to_string(path).unwrap();
            let warnings =
                told.matches("the journal no longer reaches back to the start of this scheduler").count();
            assert_eq!(warnings, expected, "{lines} lines, {max_backups} backups: {told}");
        }
    }

    #[test]
    fn a_line_after_half_a_line_begins_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), 1);
        fs::write(&options.path, "half").unwrap();
        let mut file = Rotating::open(options.clone()).unwrap();
        file.write(b"abc").unwrap();
        assert_eq!(texts(&options.path), ["half\nabc\n"]);
        drop(file);
        let mut file = Rotating::open(JournalOptions { max_bytes: 20, ..options.clone() }).unwrap();
        file.write(b"def").unwrap();
        assert_eq!(texts(&options.path), ["half\nabc\ndef\n"], "and no line is empty");
        assert!(file.write(&[b'x'; 20]).is_err());
    }
}

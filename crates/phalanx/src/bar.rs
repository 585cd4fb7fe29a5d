//! Progress of long work on standard error, if that is a terminal.
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use phalanx_sim::trace::Progress;

/// The time between two drawings, and before the first: short work draws nothing.
const PERIOD: Duration = Duration::from_millis(200);

/// The width of the bar.
const WIDTH: usize = 30;

/// A line that is drawn again and again, and removed at the end.
pub(crate) struct Bar {
    last: Instant,
    drawn: bool,
    terminal: bool,
}

impl Bar {
    /// Nothing is drawn yet.
    pub(crate) fn new() -> Self {
        Self { last: Instant::now(), drawn: false, terminal: io::stderr().is_terminal() }
    }

    /// Draws a line, unless one was drawn just now.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.terminal && self.last.elapsed() >= PERIOD {
            (self.last, self.drawn) = (Instant::now(), true);
            let _ = write!(io::stderr(), "\r\x1b[K{}", text());
        }
    }

    /// Draws how far a trace has come.
    pub(crate) fn show_trace(&mut self, name: &str, progress: Progress) {
        self.show(|| line(name, progress));
    }
}

/// Removes the line.
impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(name: &str, Progress { arrived, finished, jobs, seconds }: Progress) -> String {
    let full = if jobs == 0 { WIDTH } else { (arrived + finished) * WIDTH / (2 * jobs) };
    let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
    let days = seconds / 86_400.0;
    format!("{name} [{bar}] {arrived} of {jobs} jobs arrived, {finished} finished, {days:.1} days")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_once_all_jobs_have_finished() {
        let progress = |arrived, finished| Progress { arrived, finished, jobs: 4, seconds: 86_400.0 };
        assert!(line("a", progress(4, 4)).starts_with(&format!("a [{}] 4 of 4 jobs", "#".repeat(WIDTH))));
        assert!(line("a", progress(0, 0)).starts_with(&format!("a [{}] 0 of 4 jobs", ".".repeat(WIDTH))));
        assert!(line("a", progress(4, 0)).contains(&("#".repeat(WIDTH / 2) + &".".repeat(WIDTH / 2))));
    }
}

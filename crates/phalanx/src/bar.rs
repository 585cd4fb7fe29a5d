//! A progress bar on standard error, if that is a terminal.
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use phalanx_sim::trace::Progress;

/// The time between two drawings.
const PERIOD: Duration = Duration::from_millis(100);

/// The width of the bar.
const WIDTH: usize = 30;

pub(crate) struct Bar {
    name: String,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Bar {
    /// A bar with a name before it.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), drawn: None, terminal: io::stderr().is_terminal() }
    }

    /// Draws the bar, unless it was drawn just now.
    pub(crate) fn show(&mut self, progress: Progress) {
        if self.terminal && self.drawn.is_none_or(|drawn| drawn.elapsed() >= PERIOD) {
            self.drawn = Some(Instant::now());
            let _ = write!(io::stderr(), "\r\x1b[K{}", line(&self.name, progress));
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&mut self) {
        if self.drawn.take().is_some() {
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

//! scheduler.conf: read at the start, and again whenever its content changes.
//!
//! The content is compared rather than file events: a ConfigMap swaps symbolic links above the file, an editor renames
//! over it, a network file system sends no events; content is right in all cases.
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_conf::{Known, Parsed, Problem, Severity, builtin_default, diff, parse};
use phalanx_framework::conf::Conf;
use tracing::{error, info, warn};

use crate::client::plain;
use crate::metrics::Metrics;

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(1);

/// A scheduler.conf that must not take effect.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// It cannot be read.
    #[error("{path}: cannot be read: {}", plain(error))]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It has errors.
    #[error("{}", lines(path, problems))]
    Invalid {
        /// The file.
        path: String,
        /// All problems.
        problems: Vec<Problem>,
    },
}

fn lines(path: &str, problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| problem.in_file(path)).collect::<Vec<_>>().join("\n")
}

/// The conf file of a running scheduler.
#[derive(Debug)]
pub struct ConfFile {
    path: Option<PathBuf>,
    known: Known,
    text: String,
    conf: Conf,
    unreadable: bool,
}

impl ConfFile {
    /// Reads the file; without one, the built-in default is taken.
    pub fn open(path: Option<&Path>, known: Known) -> Result<Self, ConfError> {
        let name =
            path.map_or_else(|| "the built-in scheduler.conf".to_owned(), |path| path.display().to_string());
        let text = match path {
            None => builtin_default().to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| ConfError::Unreadable { path: name.clone(), error })?,
        };
        let conf = accept(&name, &text, &known)?;
        Ok(Self { path: path.map(Path::to_owned), known, text, conf, unreadable: false })
    }

    /// What is in effect.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// Looks at the file again: a new configuration comes back if the content changed and is good.
    pub fn poll(&mut self) -> Option<Result<Conf, ConfError>> {
        let path = self.path.clone()?;
        let name = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // Said once, not each second.
            Err(_) if self.unreadable => return None,
            Err(error) => {
                self.unreadable = true;
                return Some(Err(ConfError::Unreadable { path: name, error }));
            }
        };
        self.unreadable = false;
        if text == self.text {
            return None;
        }
        self.text = text;
        Some(accept(&name, &self.text, &self.known).inspect(|conf| self.adopt(conf)))
    }

    fn adopt(&mut self, conf: &Conf) {
        let changes = diff(&self.conf, conf);
        let path = self.path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        info!(path, changes = changes.join("; "), "scheduler.conf reloaded");
        self.conf = conf.clone();
    }

    /// Reads the file until the process ends and hands each new configuration over. A bad one changes nothing.
    pub async fn follow(mut self, metrics: &Metrics, mut apply: impl FnMut(Conf)) {
        if self.path.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            match self.poll() {
                None => {}
                Some(Ok(conf)) => {
                    metrics.reloaded(true);
                    apply(conf);
                }
                Some(Err(problem)) => {
                    metrics.reloaded(false);
                    for line in problem.to_string().lines() {
                        error!("{line}; the last good scheduler.conf stays in effect");
                    }
                }
            }
        }
    }
}

fn accept(name: &str, text: &str, known: &Known) -> Result<Conf, ConfError> {
    let Parsed { conf, problems } = parse(text, known);
    // Beside errors they would only hide them.
    for problem in problems.iter().filter(|_| conf.is_some()) {
        warn!("{}", problem.in_file(name));
    }
    conf.ok_or_else(|| ConfError::Invalid { path: name.to_owned(), problems })
}

//! scheduler.conf: read at the start, and again whenever its content changes.
//!
//! The content is compared rather than file events: a ConfigMap swaps symbolic links above the file, an editor renames
//! over it, a network file system sends no events; content is right in all cases.
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// The file has errors, or warnings in strict mode.
    #[error("{}", lines(path, problems))]
    Invalid {
        /// The file.
        path: String,
        /// The problems for which it is refused.
        problems: Vec<Problem>,
    },
}

fn lines(path: &str, problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.in_file(path)).collect::<Vec<_>>().join("\n")
}

/// Which configurations may take effect.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What they may name.
    pub known: Known,
    /// `--scheduler-conf-strict`: only those without any problem.
    pub strict: bool,
}

/// The configuration in force, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// SHA-256 of the file's bytes, in hexadecimal, as `sha256sum` prints it.
    pub sha256: String,
    /// Since when.
    pub since: jiff::Timestamp,
}

impl InForce {
    fn now(text: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let digits = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let sha256 = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        Self { sha256, since: jiff::Timestamp::now() }
    }
}

/// What came of a look at the file.
pub enum Reload {
    /// It is in force from now on.
    Taken {
        /// The configuration.
        conf: Box<Conf>,
        /// Its text.
        text: Arc<str>,
        /// What is different from the one before.
        changes: String,
    },
    /// It cannot be read or has errors.
    Refused(ConfError),
}

/// The conf file of a running scheduler.
pub struct ConfFile {
    path: Option<PathBuf>,
    rules: Rules,
    text: Arc<str>,
    conf: Conf,
    in_force: InForce,
    /// What the last reload changed.
    changes: String,
    unreadable: bool,
}

/// Without the text, in which a password may stand.
impl fmt::Debug for ConfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfFile")
            .field("path", &self.path)
            .field("in_force", &self.in_force)
            .finish_non_exhaustive()
    }
}

impl ConfFile {
    /// Reads the file; without one, the built-in default is taken.
    pub fn open(path: Option<&Path>, rules: Rules) -> Result<Self, ConfError> {
        let name =
            path.map_or_else(|| "the built-in scheduler.conf".to_owned(), |path| path.display().to_string());
        let text = match path {
            None => builtin_default().to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| ConfError::Unreadable { path: name.clone(), error })?,
        };
        let conf = accept(&name, &text, &rules)?;
        let in_force = InForce::now(&text);
        Ok(Self {
            path: path.map(Path::to_owned),
            rules,
            text: text.into(),
            conf,
            in_force,
            changes: String::new(),
            unreadable: false,
        })
    }

    /// What is in effect.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// Its text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The hash of the text, and since when it is in force.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Looks at the file again: a new configuration comes back if the content changed and is good, or if it can be read
    /// again.
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
        let was_unreadable = std::mem::take(&mut self.unreadable);
        if *text == *self.text && !was_unreadable {
            return None;
        }
        self.text = text.into();
        Some(accept(&name, &self.text, &self.rules).inspect(|conf| self.adopt(conf)))
    }

    fn adopt(&mut self, conf: &Conf) {
        self.changes = diff(&self.conf, conf, &self.rules.known).join("; ");
        let path = self.path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        self.in_force = InForce::now(&self.text);
        info!(path, sha256 = self.in_force.sha256, changes = self.changes, "scheduler.conf reloaded");
        self.conf = conf.clone();
    }

    /// Reads the file until the process ends, and tells what came of each new one. A bad one changes nothing.
    pub async fn follow(mut self, metrics: &Metrics, mut tell: impl FnMut(Reload)) {
        metrics.conf_in_force(&self.in_force);
        if self.path.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            match self.poll() {
                None => {}
                Some(Ok(conf)) => {
                    metrics.reloaded(true);
                    metrics.conf_in_force(&self.in_force);
                    let (conf, text, changes) =
                        (Box::new(conf), Arc::clone(&self.text), self.changes.clone());
                    tell(Reload::Taken { conf, text, changes });
                }
                Some(Err(problem)) => {
                    metrics.reloaded(false);
                    for line in problem.to_string().lines() {
                        error!("{line}; the last good scheduler.conf stays in effect");
                    }
                    tell(Reload::Refused(problem));
                }
            }
        }
    }
}

fn accept(name: &str, text: &str, rules: &Rules) -> Result<Conf, ConfError> {
    let parsed = parse(text, &rules.known);
    let Parsed { conf, mut problems } = if rules.strict { parsed.strict() } else { parsed };
    if let Some(conf) = conf {
        for problem in &problems {
            warn!("{}", problem.in_file(name));
        }
        return Ok(conf);
    }
    // Only errors are listed if there are any, unless warnings are refused too.
    problems.retain(|problem| rules.strict || problem.severity == Severity::Error);
    Err(ConfError::Invalid { path: name.to_owned(), problems })
}

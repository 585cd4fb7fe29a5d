//! scheduler.conf: text to configuration, with positions; and configurations as text.
//!
//! The format is Volcano's. Where Volcano silently drops or silently takes the last, a problem is reported.
mod args;
mod diff;
mod idle;
mod known;
mod metrics;
mod near;
mod problem;
mod profiles;
mod quote;
mod read;
mod reference;
mod render;
mod together;
mod yaml;

use phalanx_framework::conf::Conf;

pub use diff::diff;
pub use known::{ActionDoc, Doc, Known, Missed, PluginDoc};
pub use near::nearest;
pub use problem::{Problem, Severity};
pub use quote::{Blame, blame};
pub use reference::reference;
pub use render::{render, render_with_defaults};

/// The configuration of a file, and the problems of the file.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration; only when there is no error.
    pub conf: Option<Conf>,
    /// All problems, by position.
    pub problems: Vec<Problem>,
}

impl Parsed {
    /// The same text where a configuration with any problem must not take effect.
    pub fn strict(self) -> Self {
        let conf = self.conf.filter(|_| self.problems.is_empty());
        Self { conf, ..self }
    }
}

/// Reads a scheduler.conf. Never panics, whatever the text is.
pub fn parse(text: &str, known: &Known) -> Parsed {
    let mut problems = problem::Problems::default();
    let conf = match yaml::compose(text, &mut problems) {
        Ok(documents) => Some(read::Reader { known, problems: &mut problems }.conf(&documents)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    let problems = problems.sorted();
    let good = problems.iter().all(|problem| problem.severity != Severity::Error);
    Parsed { conf: conf.filter(|_| good), problems }
}

/// The configuration for when no file was given: Volcano's built-in default.
pub fn builtin_default() -> &'static str {
    include_str!("../../../config/default.yaml")
}

//! What a job's priority is, and where it comes from.
use std::fmt;
use std::sync::Arc;

/// Where a priority comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A PriorityClass.
    Class(Arc<str>),
    /// A PriorityClass is named that there is not.
    NoSuchClass(Arc<str>),
    /// The number on a pod without a PodGroup.
    Pod,
    /// No class is named: on a PodGroup, or on a pod without one.
    Nothing {
        /// On a PodGroup.
        group: bool,
    },
}

/// The priority of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority {
    /// What it is.
    pub value: i32,
    /// Where it comes from.
    pub source: Source,
    /// Its pods have a higher one, which counts among themselves only.
    pub pods_have_more: bool,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)?;
        let missing = match &self.source {
            Source::Class(name) => {
                write!(f, " of PriorityClass {name}")?;
                None
            }
            Source::NoSuchClass(name) => Some(format!("there is no PriorityClass {name}")),
            Source::Pod => Some("the pod's spec.priority".to_owned()),
            Source::Nothing { group: true } => Some("its PodGroup names no PriorityClass".to_owned()),
            Source::Nothing { group: false } => Some("the pod names no PriorityClass".to_owned()),
        };
        let pods = self.pods_have_more.then(|| "that of its pods counts among themselves only".to_owned());
        let remarks: Vec<String> = missing.into_iter().chain(pods).collect();
        if remarks.is_empty() { Ok(()) } else { write!(f, " ({})", remarks.join("; ")) }
    }
}

//! The priority of a job and its source.
use std::fmt;
use std::sync::Arc;

/// The source of a priority.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A PriorityClass.
    Class(Arc<str>),
    /// The named PriorityClass does not exist.
    NoSuchClass(Arc<str>),
    /// The number on a pod without a PodGroup.
    Pod,
    /// No class is named, on a PodGroup or on a pod without one.
    Nothing {
        /// Whether the object is a PodGroup.
        group: bool,
    },
}

/// The priority of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority {
    /// The value.
    pub value: i32,
    /// Its source.
    pub source: Source,
    /// Pods of the job have a higher priority, which counts within the job only.
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

//! Why each job waits, from the last cycle that looked at it.
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{Id, JobId};

/// Refusals by job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    of: Vec<Vec<Refusal>>,
}

impl Refusals {
    /// The refusals of a job, in the order in which they were added.
    pub(crate) fn of(&self, job: JobId) -> &[Refusal] {
        self.of.get(job.index()).map_or(&[], Vec::as_slice)
    }

    /// Adds a refusal, unless the job has it already.
    pub(crate) fn add(&mut self, job: JobId, refusal: Refusal) {
        if self.of.len() <= job.index() {
            self.of.resize_with(job.index() + 1, Vec::new);
        }
        let refusals = &mut self.of[job.index()];
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// Removes the refusals of a job.
    pub(crate) fn clear(&mut self, job: JobId) {
        self.retain(job, |_| false);
    }

    /// Keeps some refusals of a job.
    pub(crate) fn retain(&mut self, job: JobId, keep: impl FnMut(&Refusal) -> bool) {
        if let Some(refusals) = self.of.get_mut(job.index()) {
            refusals.retain(keep);
        }
    }
}

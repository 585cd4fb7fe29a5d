//! What the page shows of Jobs and their like.
use phalanx_view::{Finished, JobRow, OtherRow};

use super::{JobOutcome, Report};

impl Report {
    /// Jobs, CronJobs and JobFlows as rows of the page.
    pub(crate) fn finished(&self) -> Finished {
        let crons = self.cron_jobs.iter().map(|(name, cron)| {
            let last = cron.last.clone().unwrap_or_else(|| "-".to_owned());
            OtherRow {
                name: name.clone(),
                cells: vec![cron.started.to_string(), cron.active.to_string(), last],
            }
        });
        let flows = self.job_flows.iter().map(|(name, flow)| {
            let completed = format!("{}/{}", flow.completed.len(), flow.steps);
            OtherRow { name: name.clone(), cells: vec![flow.phase.clone(), completed, flow.message.clone()] }
        });
        Finished {
            jobs: self.jobs.iter().map(|(name, job)| row(name, job)).collect(),
            cron_jobs: crons.collect(),
            job_flows: flows.collect(),
        }
    }
}

fn row(name: &str, job: &JobOutcome) -> JobRow {
    let history = job.history.iter().map(ToString::to_string);
    let warning = Some(job.message.clone()).filter(|message| !message.is_empty());
    JobRow {
        name: name.to_owned(),
        phase: job.phase.clone(),
        retries: job.retries,
        pods: job.pods.in_order(),
        history: history.chain(warning).collect(),
    }
}

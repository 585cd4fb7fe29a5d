//! Jobs that come beside the gangs, run, and are deleted when they are Completed.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Client, ResourceExt as _};

use super::super::churn::{delete, lock, size_of};
use super::super::jobs::{api, job, jobs_resource};

pub(super) use super::super::jobs::name;

/// Between two looks for Jobs that have ended.
const LOOK: Duration = Duration::from_secs(2);

/// Jobs so far.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) created: usize,
    pub(super) completed: BTreeSet<String>,
    /// Jobs that ended in another way, or were restarted, with what they say of it.
    wrong: BTreeMap<String, String>,
}

impl Jobs {
    pub(super) fn problems(&self) -> Vec<String> {
        let left = self.created.saturating_sub(self.completed.len() + self.wrong.len());
        let left = (left > 0).then(|| format!("{left} Jobs have not ended, though there is room"));
        self.wrong.iter().map(|(name, what)| format!("Job {name} {what}")).chain(left).collect()
    }

    /// Notes how a Job has ended; false if it has not.
    fn note_end(&mut self, job: &DynamicObject) -> bool {
        let (name, status) = (job.name_any(), &job.data["status"]);
        let phase = status["state"]["phase"].as_str().unwrap_or_default();
        let retries = status["retryCount"].as_i64().unwrap_or_default();
        match phase {
            "Completed" if retries == 0 => drop(self.completed.insert(name)),
            "Completed" | "Failed" | "Terminated" => {
                let message = status["state"]["message"].as_str().unwrap_or_default();
                self.wrong.insert(name, format!("is {phase} after {retries} retries: {message}"));
            }
            _ => return false,
        }
        true
    }
}

/// Creates Jobs of 1 to 16 pods at a rate until the end; each pod runs for so many seconds.
pub(super) async fn create(
    admin: &Client,
    jobs: &Mutex<Jobs>,
    per_second: f64,
    end: Instant,
    seconds: usize,
) -> Result<()> {
    let began = Instant::now();
    for number in 0.. {
        let due = began + Duration::from_secs_f64(f64::from(number) / per_second);
        if due >= end {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        create_one(admin, number as usize, seconds).await?;
        lock(jobs).created += 1;
    }
    Ok(())
}

/// Creates a Job; returns how many pods it has.
pub(super) async fn create_one(admin: &Client, number: usize, seconds: usize) -> Result<usize> {
    let size = size_of(number);
    let object = serde_json::from_value(job(number, size, seconds))?;
    api(admin, &jobs_resource()).create(&PostParams::default(), &object).await.context("creating a Job")?;
    Ok(size)
}

/// Deletes Jobs that have ended, again and again while they are there; their pods are collected as garbage.
pub(super) async fn clean(admin: Client, jobs: Arc<Mutex<Jobs>>) {
    loop {
        let listed = api(&admin, &jobs_resource()).list(&ListParams::default()).await;
        for job in listed.into_iter().flatten() {
            if lock(&jobs).note_end(&job) {
                remove(&admin, &job.name_any()).await;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes a Job.
pub(super) async fn remove(admin: &Client, name: &str) {
    delete(admin, jobs_resource(), name).await;
}

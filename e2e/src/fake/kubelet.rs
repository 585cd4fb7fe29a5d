//! One kubelet for all fake nodes: runs, finishes and removes the pods bound to them.

mod report;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

/// Seconds, fractions allowed, after which a pod with this annotation succeeds; others run for ever.
pub const RUN_SECONDS: &str = "phalanx.sh/run-seconds";

/// How a pod with [`RUN_SECONDS`] ends, as exit codes with commas: the first for a pod of a Job that was not restarted
/// yet, and so on; the last for all after it. It fails unless the code is 0.
pub const EXIT_CODES: &str = "phalanx.sh/exit-codes";

/// How often the Job of a pod was restarted.
const RETRY_COUNT: &str = "volcano.sh/job-retry-count";

const IN_FLIGHT: usize = 32;
const RETRY: Duration = Duration::from_millis(200);

/// How the fake kubelet behaves.
#[derive(Clone, Debug, Default)]
pub struct KubeletOptions {
    /// How long a pod stays after its deletion was asked for; none by default.
    pub termination: Duration,
}

/// Sets bound pods Running, those with [`RUN_SECONDS`] Succeeded or Failed in the end, and removes the ones being
/// deleted. Works until it is dropped; another one takes over where this one ended.
#[derive(Debug)]
pub struct Kubelet {
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Begins to watch. Needs the Tokio runtime that it is called in.
    pub fn start(client: Client) -> Self {
        Self::start_with(client, KubeletOptions::default())
    }

    /// The same with options.
    pub fn start_with(client: Client, options: KubeletOptions) -> Self {
        let work = Work {
            shared: Arc::new(Shared::new(client, options)),
            steps: HashMap::new(),
            tasks: JoinSet::new(),
        };
        Self { task: tokio::spawn(work.run()) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a pod needs next, judged by the object alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Nothing,
    Run,
    Finish,
    Remove,
}

impl Step {
    fn of(pod: &Pod) -> Self {
        if pod.metadata.deletion_timestamp.is_some() {
            return Self::Remove;
        }
        match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            None | Some("Pending") => Self::Run,
            Some("Running") if run_time(pod).is_some() => Self::Finish,
            Some(_) => Self::Nothing,
        }
    }
}

/// How long the pod wants to run, if it ever ends.
fn run_time(pod: &Pod) -> Option<Duration> {
    let seconds: f64 = pod.annotations().get(RUN_SECONDS)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The code with which its containers end.
fn exit_code(pod: &Pod) -> i32 {
    let number = |text: &str| text.trim().parse().ok();
    let codes: Vec<i32> = pod
        .annotations()
        .get(EXIT_CODES)
        .map(|codes| codes.split(',').filter_map(number).collect())
        .unwrap_or_default();
    let retry = pod.annotations().get(RETRY_COUNT).and_then(|text| text.parse().ok()).unwrap_or(0_usize);
    codes.get(retry).or(codes.last()).copied().unwrap_or(0)
}

/// How long a pod that was found running has run already.
fn age(pod: &Pod, now: Timestamp) -> Duration {
    let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    start.and_then(|start| Duration::try_from(now.duration_since(start.0)).ok()).unwrap_or_default()
}

struct Work {
    shared: Arc<Shared>,
    /// The last step begun for each pod, by uid: its own status changes come back as events.
    steps: HashMap<String, Step>,
    tasks: JoinSet<()>,
}

impl Work {
    async fn run(mut self) {
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let pods: Api<Pod> = Api::all(self.shared.client.clone());
        let mut events = pin!(watcher(pods, bound).default_backoff());
        loop {
            tokio::select! {
                event = events.try_next() => match event {
                    Ok(Some(event)) => self.fold(event),
                    Ok(None) => return,
                    // The watcher goes on after its backoff.
                    Err(_) => {}
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn fold(&mut self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => self.begin(pod),
            Event::Delete(pod) => drop(self.steps.remove(&uid(&pod))),
            Event::Init => self.steps.clear(),
            Event::InitDone => {}
        }
    }

    fn begin(&mut self, pod: Pod) {
        let step = Step::of(&pod);
        let before = self.steps.insert(uid(&pod), step);
        if step == Step::Nothing || before == Some(step) {
            return;
        }
        let delay = match step {
            Step::Nothing | Step::Run => Duration::ZERO,
            Step::Remove => self.shared.options.termination,
            // Started a moment ago by us; its start time has lost the fraction of the second.
            Step::Finish if before == Some(Step::Run) => run_time(&pod).unwrap_or_default(),
            Step::Finish => run_time(&pod).unwrap_or_default().saturating_sub(age(&pod, Timestamp::now())),
        };
        self.tasks.spawn(Arc::clone(&self.shared).take(step, delay, pod));
    }
}

struct Shared {
    client: Client,
    options: KubeletOptions,
    permits: Semaphore,
}

impl Shared {
    fn new(client: Client, options: KubeletOptions) -> Self {
        Self { client, options, permits: Semaphore::new(IN_FLIGHT) }
    }

    /// Takes one step when it is due, again and again while the server cannot be reached.
    async fn take(self: Arc<Self>, step: Step, delay: Duration, pod: Pod) {
        tokio::time::sleep(delay).await;
        while let Err(error) = self.attempt(step, &pod).await {
            match error {
                kube::Error::Api(status) if matches!(status.code, 404 | 409) => return,
                kube::Error::Api(status) if status.code == 422 => {
                    eprintln!("fake kubelet: pod {}: {}", pod.name_any(), status.message);
                    return;
                }
                _ => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn attempt(&self, step: Step, pod: &Pod) -> kube::Result<()> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        match step {
            Step::Nothing => Ok(()),
            Step::Run => self.report(pod, &report::running(pod, Timestamp::now())).await,
            Step::Finish => self.report(pod, &report::ended(pod, exit_code(pod), Timestamp::now())).await,
            Step::Remove => self.remove(pod).await,
        }
    }

    async fn report(&self, pod: &Pod, status: &serde_json::Value) -> kube::Result<()> {
        // With the uid: a pod of the same name that came later is another one.
        let patch = serde_json::json!({ "metadata": { "uid": pod.uid() }, "status": status });
        let params = PatchParams::default();
        self.api(pod).patch_status(&pod.name_any(), &params, &Patch::Strategic(patch)).await?;
        Ok(())
    }

    async fn remove(&self, pod: &Pod) -> kube::Result<()> {
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions { uid: pod.uid(), resource_version: None });
        self.api(pod).delete(&pod.name_any(), &params).await?;
        Ok(())
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.namespace().as_deref().unwrap_or("default"))
    }
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const START: &str = "2026-01-01T00:00:00Z";

    fn pod(phase: &str, annotations: &serde_json::Value, deleted: bool) -> Pod {
        let deletion = deleted.then_some(START);
        serde_json::from_value(json!({
            "metadata": { "name": "p", "annotations": annotations, "deletionTimestamp": deletion },
            "status": { "phase": phase, "startTime": START },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_runs_and_finishes_after_its_run_time() {
        let cases = [
            ("Pending", json!({}), Step::Run),
            ("Running", json!({}), Step::Nothing),
            ("Running", json!({ RUN_SECONDS: "2" }), Step::Finish),
            ("Running", json!({ RUN_SECONDS: "0.5" }), Step::Finish),
            ("Running", json!({ RUN_SECONDS: "soon" }), Step::Nothing),
            ("Running", json!({ RUN_SECONDS: "-1" }), Step::Nothing),
            ("Succeeded", json!({ RUN_SECONDS: "2" }), Step::Nothing),
            ("Failed", json!({}), Step::Nothing),
        ];
        for (phase, annotations, step) in cases {
            assert_eq!(Step::of(&pod(phase, &annotations, false)), step, "{phase} {annotations}");
            assert_eq!(Step::of(&pod(phase, &annotations, true)), Step::Remove, "{phase}, being deleted");
        }
    }

    #[test]
    fn a_pod_ends_with_the_exit_code_of_its_retry() {
        let code = |codes: &str, retry: &str| {
            exit_code(&pod("Running", &json!({ EXIT_CODES: codes, RETRY_COUNT: retry }), false))
        };
        assert_eq!((code("3,0", "0"), code("3,0", "1"), code("3,0", "2")), (3, 0, 0));
        assert_eq!((code("", "0"), exit_code(&pod("Running", &json!({}), false))), (0, 0));
    }

    #[test]
    fn the_run_time_of_a_running_pod_counts_from_its_start() {
        let pod = pod("Running", &json!({ RUN_SECONDS: "10" }), false);
        assert_eq!(run_time(&pod), Some(Duration::from_secs(10)));
        assert_eq!(age(&pod, "2026-01-01T00:00:04Z".parse().unwrap()), Duration::from_secs(4));
        assert_eq!(age(&pod, "2025-12-31T23:59:59Z".parse().unwrap()), Duration::ZERO, "a clock behind");
    }
}

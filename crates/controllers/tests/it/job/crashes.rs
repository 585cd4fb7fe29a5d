//! A controller that is killed after any write, as often as one likes, comes to the same end.

use super::{running, spec};
use crate::cluster::Cluster;

/// Fields of a job, and what happens to it while it runs.
type Story = (&'static str, fn(&mut Cluster));

const STORIES: [Story; 8] = [
    ("policies: [{event: PodFailed, action: RestartJob}]", |cluster| cluster.fail("worker-0", 1)),
    ("policies: [{event: PodFailed, action: RestartTask}]", |cluster| cluster.fail("worker-0", 1)),
    ("policies: [{event: PodFailed, action: RestartPod}]", |cluster| {
        cluster.fail("worker-0", 1);
        cluster.fail("worker-1", 1);
    }),
    ("policies: [{event: PodEvicted, action: RestartJob}]", |cluster| cluster.vanish("worker-0")),
    ("policies: [{event: PodEvicted, action: RestartPod, timeout: 5m}]", |cluster| {
        cluster.vanish("worker-0");
        cluster.settle();
        cluster.wait(301);
    }),
    ("plugins: {svc: [], ssh: []}", |cluster| cluster.command("RestartJob")),
    ("", |cluster| {
        cluster.command("AbortJob");
        cluster.settle();
        cluster.command("ResumeJob");
    }),
    ("minSuccess: 1", |cluster| cluster.set(&["worker-0"], "Succeeded")),
];

/// What the end of a story is compared by.
fn end(cluster: &Cluster) -> String {
    let status = cluster.status();
    let counts = (status.retry_count, status.version, cluster.created);
    format!("{:?} {counts:?} {:?} {:?}", cluster.phase(), cluster.names(), status.controlled_resources)
}

#[test]
fn a_killed_controller_makes_no_pod_too_many_and_counts_retries_right() {
    for (more, happens) in STORIES {
        let tell = |crash_after: usize| {
            let mut cluster = Cluster::new(&spec(more));
            cluster.crash_after = crash_after;
            cluster.settle();
            cluster.set_all("Running");
            cluster.settle();
            happens(&mut cluster);
            cluster.settle();
            end(&cluster)
        };
        let whole = tell(usize::MAX);
        for crash_after in 1..6 {
            assert_eq!(
                tell(crash_after),
                whole,
                "{more}: killed after {crash_after} writes of each reconciliation"
            );
        }
    }
}

#[test]
fn a_repeated_reconciliation_gives_the_same_changes() {
    for (more, happens) in STORIES {
        let mut cluster = running(more);
        happens(&mut cluster);
        for _ in 0..30 {
            let outcome = cluster.reconcile();
            assert_eq!(cluster.reconcile(), outcome, "{more}");
            outcome.changes.into_iter().for_each(|change| cluster.apply(change));
        }
    }
}

#[test]
fn a_decision_is_one_write_of_the_status() {
    for (more, happens) in STORIES {
        let mut cluster = running(more);
        happens(&mut cluster);
        let changes = cluster.reconcile().changes;
        let decides = cluster.status().version;
        let bumps = changes.iter().any(|change| match change {
            phalanx_controllers::Change::Status { object: phalanx_controllers::Object::Job(job), .. } => {
                let status = job.status.clone().unwrap();
                status.version > decides || status.retry_count > cluster.status().retry_count
            }
            _ => false,
        });
        let writes =
            changes.iter().filter(|change| !matches!(change, phalanx_controllers::Change::Note(_))).count();
        assert!(!bumps || writes == 1, "{more}: {changes:?}");
    }
}

//! Commands.

use phalanx_api::batch::JobPhase;

use super::running;

/// What is done while the job is in a phase, and what becomes of it: phase, retries, version, pods.
#[test]
fn commands_lead_from_phase_to_phase() {
    for (actions, phase, retries, version, pods) in [
        (vec!["AbortJob"], JobPhase::Aborted, 0, 1, 1),
        (vec!["AbortJob", "ResumeJob"], JobPhase::Pending, 1, 2, 3),
        (vec!["RestartJob"], JobPhase::Pending, 1, 1, 3),
        (vec!["RestartJob", "RestartJob"], JobPhase::Pending, 2, 2, 3),
        (vec!["RestartJob", "RestartJob", "RestartJob"], JobPhase::Failed, 3, 3, 0),
        (vec!["TerminateJob"], JobPhase::Terminated, 0, 1, 1),
        (vec!["TerminateJob", "ResumeJob"], JobPhase::Terminated, 0, 1, 1),
        (vec!["CompleteJob"], JobPhase::Completed, 0, 1, 1),
        (vec!["ResumeJob"], JobPhase::Running, 0, 0, 3),
        (vec!["AbortJob", "RestartJob"], JobPhase::Aborted, 0, 1, 1),
    ] {
        let mut cluster = running("");
        cluster.set(&["worker-1"], "Succeeded");
        for action in &actions {
            cluster.command(action);
            cluster.settle();
            assert!(cluster.commands.is_empty(), "{actions:?}: Commands are deleted");
        }
        let status = cluster.status();
        let found = (cluster.phase(), status.retry_count, status.version, cluster.names().len());
        assert_eq!(found, (phase, retries, version, pods), "{actions:?}");
    }
}

#[test]
fn a_resumed_job_keeps_what_succeeded_and_a_restarted_one_does_not() {
    for (actions, kept) in [(vec!["AbortJob", "ResumeJob"], true), (vec!["RestartJob"], false)] {
        let mut cluster = running("");
        cluster.set(&["worker-1"], "Succeeded");
        let before = cluster.pod("worker-1").metadata.uid.clone();
        for action in actions {
            cluster.command(action);
            cluster.settle();
        }
        assert_eq!(cluster.pod("worker-1").metadata.uid == before, kept);
        let annotations = cluster.pod("worker-0").metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations["volcano.sh/job-retry-count"], "1");
    }
}

#[test]
fn a_restarted_job_is_queued_again() {
    let mut cluster = running("");
    cluster.admits = false;
    cluster.command("RestartJob");
    cluster.settle();
    assert_eq!(cluster.names().len(), 0, "pods wait for the PodGroup");
    assert!(cluster.group.as_ref().unwrap().status.is_none(), "a new PodGroup");
    cluster.admits = true;
    cluster.settle();
    assert_eq!(cluster.names().len(), 3);
}

#[test]
fn a_command_that_means_nothing_is_deleted_with_an_event() {
    for action in ["RestartPod", "OpenQueue", "Explode", "ResumeJob"] {
        let mut cluster = running("");
        cluster.command(action);
        cluster.settle();
        assert_eq!((cluster.phase(), cluster.commands.len()), (JobPhase::Running, 0));
        let note = cluster.notes.last().unwrap();
        assert!(note.contains(&format!("{action} has no effect on a job that is Running")), "{note}");
    }
}

/// Volcano forgets a Command that comes while a job restarts.
#[test]
fn a_job_that_restarts_can_be_aborted() {
    let mut cluster = running("");
    cluster.command("RestartJob");
    let decided = cluster.reconcile();
    decided.changes.into_iter().for_each(|change| cluster.apply(change));
    assert_eq!(cluster.phase(), JobPhase::Restarting);
    cluster.command("AbortJob");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Aborted, 0));
}

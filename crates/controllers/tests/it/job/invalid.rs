//! Jobs that slipped past the API server's checks.

use phalanx_api::batch::JobPhase;

use crate::cluster::Cluster;

#[test]
fn an_invalid_job_waits_and_says_why() {
    let long = "n".repeat(60);
    for (spec, message) in [
        ("queue: a".to_owned(), "spec.tasks: none given"),
        (
            "tasks: [{name: a, replicas: 2000000000}, {name: b, replicas: 2000000000}]".to_owned(),
            "spec.tasks: 4000000000 pods in all, expected at most 100000",
        ),
        (
            "tasks: [{name: a, replicas: 2147483647}, {name: b, replicas: -2147483648}]".to_owned(),
            "spec.tasks: 2147483647 pods in all, expected at most 100000",
        ),
        ("minAvailable: 3\ntasks: [{name: a, replicas: 2}]".to_owned(), "spec.minAvailable: 3 is more than the 2 replicas of all tasks"),
        ("tasks: [{name: a, replicas: 1, minAvailable: 2}]\nminAvailable: 1".to_owned(), "spec.tasks[0].minAvailable: 2 is more than the 1 replicas"),
        ("tasks: [{name: a, replicas: 1}, {name: a, replicas: 1}]".to_owned(), "spec.tasks[1].name: a is the name of another task too"),
        (format!("tasks: [{{name: {long}, replicas: 1}}]"), "of a pod is longer than 63 characters"),
        ("tasks: [{name: a, replicas: 1, dependsOn: {name: [b]}}]".to_owned(), "spec.tasks[0].dependsOn.name: there is no task b"),
        (
            "tasks: [{name: x, replicas: 1}, {name: a, replicas: 1, dependsOn: {name: [b]}}, {name: b, replicas: 1, dependsOn: {name: [a]}}]"
                .to_owned(),
            "spec.tasks[1].dependsOn: tasks wait for each other: a, b",
        ),
        ("tasks: [{name: a, replicas: 1}]\nplugins: {horovod: []}".to_owned(), "spec.plugins: horovod of job train is none of env, "),
        ("tasks: [{name: a, replicas: 1}]\nplugins: {mpi: []}".to_owned(), "spec.plugins.mpi: there is no master task master"),
        ("tasks: [{name: a, replicas: 1}]\nplugins: {ray: [--head=h]}".to_owned(), "spec.plugins.ray: there is no head task h"),
    ] {
        let mut cluster = Cluster::new(&spec);
        cluster.settle();
        let state = cluster.status().state;
        assert_eq!((state.phase, state.reason.as_str()), (Some(JobPhase::Pending), "InvalidJob"), "{spec}");
        assert!(state.message.contains(message), "{}", state.message);
        assert!(cluster.names().is_empty() && cluster.group.is_none(), "{spec}");
        assert_eq!(cluster.notes.len(), 1, "one event: {:?}", cluster.notes);
    }
}

#[test]
fn a_job_that_was_mended_goes_on() {
    let mut cluster = Cluster::new("minAvailable: 3\ntasks: [{name: a, replicas: 2}]");
    cluster.settle();
    cluster.job.as_mut().unwrap().spec.min_available = 2;
    cluster.settle();
    assert_eq!((cluster.names().len(), cluster.status().state.reason.as_str()), (2, ""));
}

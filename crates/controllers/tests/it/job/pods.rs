//! The pods of a job: their contents, scaling, dependencies, volumes.

use phalanx_api::batch::JobPhase;
use phalanx_controllers::Change;

use super::{running, spec};
use crate::cluster::Cluster;

#[test]
fn a_pod_has_the_labels_and_annotations_of_volcano() {
    let mut cluster = Cluster::new(
        "queue: gold\npriorityClassName: high\nschedulerName: mine\ntasks:\n- name: w\n  replicas: 4\n  topologyPolicy: \
         restricted\n  partitionPolicy: {totalPartitions: 2, partitionSize: 2}\n  template: {metadata: {labels: {own: l}, \
         annotations: {own: a}}, spec: {containers: [{name: c}]}}",
    );
    let job = cluster.job.as_mut().unwrap();
    let annotations =
        [("volcano.sh/preemptable", "true"), ("volcano.sh/jdb-min-available", "1"), ("other", "x")];
    job.metadata.annotations =
        Some(annotations.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    cluster.settle();
    let pod = cluster.pod("w-3");
    let text = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(
        text(&pod.metadata.annotations),
        [
            "own=a",
            "scheduling.k8s.io/group-name=train-j1",
            "volcano.sh/jdb-min-available=1",
            "volcano.sh/job-name=train",
            "volcano.sh/job-retry-count=0",
            "volcano.sh/job-version=0",
            "volcano.sh/numa-topology-policy=restricted",
            "volcano.sh/preemptable=true",
            "volcano.sh/queue-name=gold",
            "volcano.sh/task-index=3",
            "volcano.sh/task-spec=w",
            "volcano.sh/template-uid=train-w",
        ]
    );
    assert_eq!(
        text(&pod.metadata.labels),
        [
            "own=l",
            "volcano.sh/job-name=train",
            "volcano.sh/job-namespace=vision",
            "volcano.sh/partition-id=1",
            "volcano.sh/queue-name=gold",
            "volcano.sh/task-index=3",
            "volcano.sh/task-spec=w",
        ]
    );
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.scheduler_name.as_deref(), Some("mine"));
    assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Job", "j1", Some(true)));
}

#[test]
fn fields_of_the_template_go_before_those_of_the_job() {
    let mut cluster = Cluster::new(
        "priorityClassName: high\ntasks:\n- {replicas: 1, template: {spec: {schedulerName: own, priorityClassName: low, \
         hostNetwork: true, containers: []}}}",
    );
    cluster.settle();
    let spec = cluster.pod("default0-0").spec.as_ref().unwrap();
    assert_eq!(spec.scheduler_name.as_deref(), Some("own"));
    assert_eq!(spec.priority_class_name.as_deref(), Some("low"));
    assert_eq!(spec.dns_policy.as_deref(), Some("ClusterFirstWithHostNet"));
}

#[test]
fn a_job_scales_up_and_down() {
    let mut cluster = running("minAvailable: 1");
    for (replicas, expected) in [(4, 5), (0, 1), (2, 3)] {
        let job = cluster.job.as_mut().unwrap();
        (job.spec.tasks[1].replicas, job.spec.tasks[1].min_available) = (replicas, Some(0));
        cluster.settle();
        assert_eq!(cluster.names().len(), expected);
    }
    assert_eq!((cluster.phase(), cluster.status().retry_count), (JobPhase::Running, 0));
}

#[test]
fn surplus_pods_go_from_the_highest_index() {
    let mut cluster = running("minAvailable: 1");
    let job = cluster.job.as_mut().unwrap();
    (job.spec.tasks[1].replicas, job.spec.tasks[1].min_available) = (0, Some(0));
    // The status that counts them no more.
    cluster.reconcile().changes.into_iter().for_each(|change| cluster.apply(change));
    let changes = cluster.reconcile().changes;
    let deleted: Vec<_> = changes
        .iter()
        .filter_map(|change| match change {
            phalanx_controllers::Change::Delete(target) => Some(target.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, ["train-worker-1", "train-worker-0"]);
}

/// Pods beyond the replicas are deleted, so they say nothing about the pods that stay.
#[test]
fn surplus_pods_do_not_count_for_the_phase() {
    for (surplus, minimum) in [("Succeeded", 4), ("Failed", 4), ("Pending", 4), ("Succeeded", 2)] {
        let mut cluster =
            Cluster::new(&format!("minAvailable: {minimum}\ntasks: [{{name: w, replicas: 4}}]"));
        cluster.settle();
        cluster.set_all("Running");
        cluster.settle();
        let before = cluster.clone();
        cluster.set(&["w-2", "w-3"], surplus);
        let job = cluster.job.as_mut().unwrap();
        (job.spec.min_available, job.spec.tasks[0].replicas, job.spec.tasks[0].min_available) =
            (2, 2, Some(2));
        let case = format!("{surplus}, minAvailable was {minimum}");
        for change in cluster.reconcile().changes {
            cluster.apply(change);
        }
        assert_eq!(cluster.phase(), JobPhase::Running, "{case}: with the surplus pods still there");
        cluster.settle();
        assert_eq!((cluster.phase(), cluster.status().running), (JobPhase::Running, 2), "{case}");
        for name in ["w-0", "w-1"] {
            assert_eq!(cluster.pod(name).metadata.uid, before.pod(name).metadata.uid, "{case}: {name}");
        }
    }
}

/// The pods that the smaller job does not have were deleted by the controller, and not evicted: whether they are gone
/// when the job is scaled up, or still terminate.
#[test]
fn a_job_that_is_scaled_down_and_up_at_once_was_not_evicted() {
    for gone in [true, false] {
        scale_down_and_up(gone);
    }
}

fn scale_down_and_up(gone: bool) {
    let mut cluster = running("minAvailable: 1\npolicies: [{event: PodEvicted, action: AbortJob}]");
    let scale = |cluster: &mut Cluster, replicas| {
        let task = &mut cluster.job.as_mut().unwrap().spec.tasks[1];
        (task.replicas, task.min_available) = (replicas, Some(0));
        cluster.reconcile().changes.into_iter().for_each(|change| cluster.apply(change));
    };
    scale(&mut cluster, 0);
    scale(&mut cluster, 0);
    let terminating = |cluster: &Cluster| {
        cluster.pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count()
    };
    assert_eq!(terminating(&cluster), 2);
    if gone {
        cluster.reap();
    }
    scale(&mut cluster, 2);
    cluster.settle();
    let marks = &cluster.status().controlled_resources;
    assert!(!marks.keys().any(|key| key.starts_with("scaled.")), "{marks:?}");
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Running, 3));
}

/// The controller is killed after each write, and the job scaled up again as soon as the pods are gone.
#[test]
fn pods_that_a_killed_controller_deleted_were_not_evicted() {
    let mut cluster = running("minAvailable: 1\npolicies: [{event: PodEvicted, action: AbortJob}]");
    let scale = |cluster: &mut Cluster, replicas| {
        let task = &mut cluster.job.as_mut().unwrap().spec.tasks[1];
        (task.replicas, task.min_available) = (replicas, Some(0));
    };
    scale(&mut cluster, 0);
    while cluster.names() != ["master-0"] {
        let write = cluster.reconcile().changes.into_iter().next().unwrap();
        cluster.apply(write);
        cluster.reap();
    }
    scale(&mut cluster, 2);
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Running, 3));
}

/// Tasks a and b, and c that depends on them.
fn dependent(iteration: &str) -> Cluster {
    let mut cluster = Cluster::new(&format!(
        "tasks:\n- {{name: a, replicas: 2, minAvailable: 1}}\n- {{name: b, replicas: 1}}\n- {{name: c, replicas: 1, dependsOn: \
         {{name: [a, b]{iteration}}}}}"
    ));
    cluster.settle();
    cluster
}

#[test]
fn a_task_waits_for_those_it_depends_on() {
    for (iteration, steps) in [
        ("", [("a-0", "Running", false), ("b-0", "Running", true)]),
        (", iteration: all", [("b-0", "Succeeded", false), ("a-1", "Running", true)]),
        (", iteration: any", [("a-0", "Running", true), ("b-0", "Running", true)]),
        (", iteration: any", [("a-0", "Failed", false), ("b-0", "Succeeded", true)]),
    ] {
        let mut cluster = dependent(iteration);
        assert_eq!(cluster.names(), ["a-0", "a-1", "b-0"], "{iteration}");
        for (pod, phase, starts) in steps {
            cluster.set(&[pod], phase);
            cluster.settle();
            assert_eq!(cluster.names().contains(&"c-0".to_owned()), starts, "{iteration}: {pod} is {phase}");
        }
    }
}

#[test]
fn a_pod_that_runs_and_is_not_ready_does_not_count_for_dependencies() {
    let mut cluster = dependent("");
    cluster.set(&["a-0", "b-0"], "Running");
    cluster
        .pods
        .get_mut("train-b-0")
        .unwrap()
        .status
        .as_mut()
        .unwrap()
        .container_statuses
        .as_mut()
        .unwrap()[0]
        .ready = false;
    cluster.settle();
    assert_eq!(cluster.names().len(), 3);
}

#[test]
fn volumes_are_claimed_once_and_mounted_in_every_container() {
    let volumes = "volumes: [{mountPath: /in, volumeClaimName: data}, {mountPath: /out, volumeClaim: {storageClassName: s}}]";
    let mut cluster = Cluster::new(&spec(volumes));
    cluster.settle();
    assert_eq!(cluster.names().len(), 0, "the claim data is missing");
    let state = cluster.status().state;
    let message = "pvc data is not found, the job will be in the Pending state until the PVC is created";
    assert_eq!((state.reason.as_str(), state.message.as_str()), ("PVCError", message));
    cluster.claims.insert("data".to_owned());
    cluster.settle();
    assert_eq!((cluster.names().len(), cluster.claims.len()), (3, 2));
    assert_eq!(cluster.status().state.message, "");
    let made = cluster.claims.iter().find(|claim| claim.starts_with("train-pvc-")).unwrap();
    let spec = cluster.pod("worker-1").spec.as_ref().unwrap();
    let claims: Vec<_> =
        spec.volumes.iter().flatten().filter_map(|one| one.persistent_volume_claim.as_ref()).collect();
    assert_eq!(claims.iter().map(|one| &one.claim_name).collect::<Vec<_>>(), ["data", made]);
    let mounts: Vec<_> =
        spec.containers[0].volume_mounts.iter().flatten().map(|mount| &mount.mount_path).collect();
    assert_eq!(mounts, ["/in", "/out"]);
    assert_eq!(cluster.status().controlled_resources[&format!("volume-pvc-{made}")], *made);
}

#[test]
fn pods_that_volcano_marked_for_deletion_are_made_anew() {
    let mut cluster = running("");
    let pod = cluster.pods.get_mut("train-worker-0").unwrap();
    pod.metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("volcano.sh/controller-out-of-sync".into(), "true".into());
    let before = pod.metadata.uid.clone();
    cluster.settle();
    assert_ne!(cluster.pod("worker-0").metadata.uid, before);
    assert_eq!(cluster.status().retry_count, 0);
}

/// The objects of all pods of a large job would take much memory.
#[test]
fn pods_of_a_large_job_are_made_some_at_a_time() {
    for (bytes, replicas, at_once) in [(0, 8_500, 8_192), (1 << 20, 100, 63)] {
        let mut cluster = Cluster::new("minAvailable: 1\ntasks: [{name: a, replicas: 1}]");
        cluster.settle();
        let task = &mut cluster.job.as_mut().unwrap().spec.tasks[0];
        task.replicas = replicas;
        let metadata = task.template.metadata.get_or_insert_default();
        metadata.annotations = Some([("note".to_owned(), "x".repeat(bytes))].into());
        let changes = cluster.reconcile().changes;
        assert_eq!(changes.iter().filter(|change| matches!(change, Change::Create(_))).count(), at_once);
        cluster.settle();
        assert_eq!(cluster.names().len(), usize::try_from(replicas).unwrap());
    }
}

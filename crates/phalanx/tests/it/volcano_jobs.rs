//! `phalanx simulate` on Volcano's Jobs, CronJobs and JobFlows: what the API server refuses is refused with its place,
//! and what became of the objects is told.
use serde_json::json;

use crate::run::{Ran, folder, node, phalanx_in};

fn simulate(manifest: &str, flags: &[&str]) -> Ran {
    let folder = folder(&[("m.yaml", manifest)]);
    phalanx_in(folder.path(), &[&["simulate", "-f", "m.yaml"], flags].concat(), "")
}

/// A Job of one task of two pods, with these fields of its spec, its task and its template.
fn job(spec: &str, task: &str, template: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: j}}\n\
         spec: {{{spec} tasks: [{{{task} name: w, replicas: 2, template: {{{template} spec: {{restartPolicy: Never, \
         containers: [{{name: m, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}}}]}}\n"
    )
}

/// Annotations of pods that run ten seconds, and end with these codes, one for each retry.
fn ends(codes: &str) -> String {
    format!("metadata: {{annotations: {{phalanx.sh/run-seconds: '10', phalanx.sh/exit-codes: '{codes}'}}}},")
}

fn policy(policy: &str) -> String {
    format!("policies: [{policy}],")
}

/// A manifest, the field that is named, and what is said of it.
type Fault<'a> = (String, &'a str, &'a str);

fn are_refused(faults: &[Fault<'_>]) {
    for (manifest, field, problem) in faults {
        let ran = simulate(manifest, &[]);
        assert_eq!(ran.code, 2, "{field}: {ran:?}");
        let end = format!(" default/j: {field}: {problem}\n");
        assert!(ran.stderr.starts_with("error: m.yaml:4:") && ran.stderr.ends_with(&end), "{end}{ran:?}");
    }
}

fn flow(spec: &str) -> String {
    format!("apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {{name: j}}\nspec: {{{spec}}}\n")
}

#[test]
fn fields_are_checked_by_the_schemas_of_the_definitions() {
    let spec = |spec: &str| job(spec, "", "");
    let task = |task: &str| job("", task, "");
    let not_negative = "found -1, expected an integer from 0 to 2147483647";
    let event = "found \"PodFail\", expected one of *, PodPending, PodFailed, PodEvicted, Unknown, TaskCompleted, \
                 TaskFailed, JobUpdated";
    let unknown = |near: &str| format!("unknown field, expected one that a Job has (did you mean {near}?)");
    let numa = "found \"bogus\", expected one of none, best-effort, restricted, single-numa-node";
    are_refused(&[
        (spec("minAvailable: -1,"), "spec.minAvailable", not_negative),
        (spec("minSuccess: 0,"), "spec.minSuccess", "found 0, expected an integer from 1 to 2147483647"),
        (spec("ttlSecondsAfterFinished: -1,"), "spec.ttlSecondsAfterFinished", not_negative),
        (spec("minAvailble: 3,"), "spec.minAvailble", &unknown("minAvailable")),
        (task("replica: 3,"), "spec.tasks[0].replica", &unknown("replicas")),
        (task("minAvailable: -1,"), "spec.tasks[0].minAvailable", not_negative),
        (spec(&policy("{event: PodFail, action: AbortJob}")), "spec.policies[0].event", event),
        (task("topologyPolicy: bogus,"), "spec.tasks[0].topologyPolicy", numa),
        (
            flow("jobRetainPolicy: keep"),
            "spec.jobRetainPolicy",
            "found \"keep\", expected one of retain, delete",
        ),
    ]);
}

#[test]
fn objects_are_checked_by_the_rules_of_the_definitions() {
    let spec = |policies: &str| job(&policy(policies), "", "");
    let of_policy = "spec.policies[0]";
    let ring = "jobflow Flow is not DAG: vertex is not defined: dependsOn must name Jobs of the flow";
    are_refused(&[
        (
            spec("{event: PodFailed, exitCode: 3, action: AbortJob}"),
            of_policy,
            "must not specify event and exitCode simultaneously",
        ),
        (spec("{action: AbortJob}"), of_policy, "either event and exitCode should be specified"),
        (spec("{exitCode: 0, action: AbortJob}"), of_policy, "0 is not a valid error code"),
        (spec("{event: PodFailed}"), of_policy, "an event needs an action"),
        (
            spec("{event: '*', action: AbortJob}, {event: PodFailed, action: AbortJob}"),
            "spec.policies",
            "if there's * here, no other policy should be here",
        ),
        (
            job("", "partitionPolicy: {totalPartitions: 3, partitionSize: 2},", ""),
            "spec.tasks[0]",
            "replicas must equal totalPartitions * partitionSize",
        ),
        (
            job("volumes: [{mountPath: /o}],", "", ""),
            "spec.volumes[0]",
            "either VolumeClaim or VolumeClaimName must be specified",
        ),
        (flow("flows: [{name: a}, {name: a}]"), "spec", "names of flows must be unique"),
        (flow("flows: [{name: a, dependsOn: {targets: [b]}}]"), "spec", ring),
    ]);
}

#[test]
fn a_version_of_volcanos_kinds_that_does_not_exist_is_refused() {
    let ran = simulate(&job("", "", "").replace("v1alpha1", "v1beta1"), &[]);
    assert!(ran.stderr.contains("expected \"batch.volcano.sh/v1alpha1\" for kind Job"), "{ran:?}");
}

#[test]
fn the_way_of_a_job_is_told_with_times_and_causes() {
    let restarts = policy("{event: PodFailed, action: RestartJob}");
    let manifest = node("n1", 8) + "---\n" + &job(&format!("minAvailable: 2, {restarts}"), "", &ends("1,0"));
    let way = "Job default/j: 0 s Pending, 2 s Running, 12 s Restarting (RestartJob: PodFailed of j-w-0 (exit code 1)), 13 s Pending, \
               14 s Running, 24 s Completed\n";
    let table = simulate(&manifest, &[]);
    assert!(table.text().contains(way), "{table:?}");
    let json = simulate(&manifest, &["-o", "json"]).json();
    let job = &json["jobs"]["default/j"];
    assert_eq!(job["pods"], json!({"pending": 0, "running": 0, "succeeded": 2, "failed": 0}), "{job:#}");
    let third = json!({"seconds": 12, "phase": "Restarting", "cause": "RestartJob: PodFailed of j-w-0 (exit code 1)"});
    assert_eq!(job["history"][2], third, "{job:#}");
    let page = simulate(&manifest, &["-o", "html"]);
    assert!(
        page.text().contains("12 s Restarting (RestartJob: PodFailed of j-w-0 (exit code 1))"),
        "{page:?}"
    );
}

#[test]
fn a_job_whose_time_to_live_is_over_is_told_of_all_the_same() {
    let manifest = node("n1", 8) + "---\n" + &job("ttlSecondsAfterFinished: 30,", "", &ends("0"));
    let ran = simulate(&manifest, &["-o", "json"]).json();
    let job = &ran["jobs"]["default/j"];
    assert_eq!(job["phase"], "Completed", "{ran:#}");
    assert!(job["message"].as_str().unwrap().contains("ttlSecondsAfterFinished"), "{ran:#}");
}

#[test]
fn claims_that_a_job_makes_get_volumes() {
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: x\n\
        volumeBindingMode: WaitForFirstConsumer\n\
        metadata: {name: s, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}\n---\n";
    let claim = "volumes: [{mountPath: /o, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],";
    let ran = simulate(&(node("n1", 8) + class + &job(claim, "", "")), &[]);
    assert!(ran.text().contains("2 pods bound, 0 waiting"), "{ran:?}");
}

/// The pods that its controller makes once it is admitted wait too.
#[test]
fn a_job_that_is_not_admitted_counts_as_waiting() {
    let ran = simulate(&(node("n1", 1) + "---\n" + &job("minAvailable: 2,", "", "")), &[]);
    assert!(ran.text().contains("\n0 pods bound, 2 waiting, "), "{ran:?}");
    let row: Vec<&str> =
        ran.text().lines().find(|line| line.contains(" Pending  2 ")).unwrap().split_whitespace().collect();
    assert_eq!(row, ["default/j-job-j", "default", "Pending", "2", "0", "2"]);
    let ran = simulate(&node("n1", 1), &[]);
    assert!(ran.text().contains("\nno pod to bind, 0 evicted on 1 node; "), "{ran:?}");
}

/// Its controller goes on from there: a copy of a cluster has the Job, and no pods of it.
#[test]
fn a_job_of_a_copy_that_is_not_admitted_gets_its_pods_when_it_is() {
    let of_cluster = job("minAvailable: 2,", "", "").replace("{name: j}", "{name: j, uid: 6c1c}")
        + "status: {state: {phase: Pending}, minAvailable: 2}\n---\n";
    let owner = "[{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: 6c1c, controller: true}]";
    let group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nspec: {minMember: 2, minResources: {cpu: 2}}\n\
                 status: {phase: Pending}\n"
        .to_owned()
        + &format!("metadata: {{name: j-6c1c, ownerReferences: {owner}}}\n---\n");
    let manifest = node("n1", 1) + "---\n" + &of_cluster + &group;
    let folder = folder(&[("m.yaml", &manifest)]);
    let ran = phalanx_in(folder.path(), &["whatif", "-f", "m.yaml", "--add-nodes", "n1=1", "-o", "json"], "");
    assert_eq!(ran.stderr, "");
    let ends = &ran.json()["podGroups"]["default/j-6c1c"];
    assert_eq!((&ends["before"]["waiting"], &ends["after"]["placed"]), (&2.into(), &2.into()), "{ends:#}");
    let told = phalanx_in(folder.path(), &["explain", "job", "j", "-f", "m.yaml"], "");
    assert!(told.text().ends_with("It would run\n  with 1 more node like n1\n"), "{told:?}");
    // With a pod, it was admitted.
    let pod = crate::run::pod("j-t-0", 1, "scheduling.k8s.io/group-name: j-6c1c", "")
        .replace("annotations:", &format!("ownerReferences: {owner}, annotations:"));
    let ran = simulate(&(manifest + &pod), &[]);
    assert!(ran.stderr.contains("Job default/j: status: found a status: "), "{ran:?}");
    assert!(ran.text().contains("\n0 pods bound, 1 waiting, "), "{ran:?}");
}

#[test]
fn a_flow_that_waits_says_for_what_and_a_job_is_explained_by_its_name() {
    let flow = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\nspec: {flows: [{name: a}]}\n";
    let ran = simulate(flow, &[]);
    assert!(ran.text().contains("there is no JobTemplate a"), "{ran:?}");
    let manifest = node("n1", 1) + "---\n" + &job("minAvailable: 2,", "", "");
    let folder = folder(&[("m.yaml", &manifest)]);
    let told = phalanx_in(folder.path(), &["explain", "job", "j", "-f", "m.yaml"], "");
    let head =
        "Job default/j: 2 pods, 0 placed, 2 waiting, 2 not made yet\nPodGroup default/j-job-j: Pending\n";
    assert!(told.text().starts_with(head), "{told:?}");
    assert_eq!(phalanx_in(folder.path(), &["explain", "job", "k", "-f", "m.yaml"], "").code, 2);
}

#[test]
fn a_numa_policy_is_noted_as_without_effect() {
    let ran = simulate(&(node("n1", 8) + "---\n" + &job("", "topologyPolicy: single-numa-node,", "")), &[]);
    let note = "spec.tasks[0].topologyPolicy: not supported, ignored";
    assert!(ran.stderr.contains(note) && ran.code == 0, "{ran:?}");
}

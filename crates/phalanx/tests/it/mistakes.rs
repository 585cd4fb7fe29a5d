//! Mistakes in scheduler.conf, each of which `phalanx conf check` tells in one line; and files without one.
use crate::run::{folder, phalanx_in};

/// Without a problem, see the test.
const GOOD: &str = r#"actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: 1.5
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 2
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 5
  - name: sla
    arguments:
      sla-waiting-time: 1h
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: true
"#;

/// What stands in the file above, what somebody wrote instead, and the line that says so, with ... for what is left out.
const MISTAKES: [(&str, &str, &str); 0] = [];

fn problems(text: &str) -> Vec<String> {
    let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], text);
    let of_file = |line: &&str| !line.starts_with("<stdin>: ");
    ran.stdout.lines().filter(of_file).map(|line| line.replace("<stdin>:", "")).collect()
}

/// The policy of `deploy/` cannot ask the scheduler.
#[test]
fn the_policy_for_the_configmap_knows_all_actions_and_flags() {
    let policy = std::fs::read_to_string(repository().join("deploy/46-scheduler-conf.yaml")).unwrap();
    let actions = Known::builtin().actions.into_iter().map(|doc| doc.name);
    for name in actions.chain(Flag::ALL.map(|(_, key)| key)) {
        assert!(policy.contains(&format!("'{name}'")), "{name}");
    }
}

//! Invalid input: exit code 2, nothing on stdout, and one line with the place and the problem.
use crate::run::{folder, group, members, node, phalanx_in, pod, queue};

/// The one line of a run that was refused.
pub(crate) fn refused(files: &[(&str, &str)], args: &[&str]) -> String {
    let folder = folder(files);
    let ran = phalanx_in(folder.path(), args, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?}: {ran:?}");
    lines[0].to_owned()
}

fn manifest(text: &str) -> String {
    refused(&[("m.yaml", text)], &["simulate", "-f", "m.yaml", "-o", "json"])
}

/// Every text is refused with a line that begins like this.
fn all_refused(cases: &[(String, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .map(|(text, expected)| (manifest(text), expected))
        .filter(|(line, expected)| !line.starts_with(*expected))
        .map(|(line, expected)| format!("{line}\n{expected}"))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

#[test]
fn an_invalid_field_is_reported_with_file_line_object_and_expectation() {
    let two = node("n1", 4);
    all_refused(&[
        (
            pod("p", 1, "", "").replace("cpu: 1}", "cpu: 1x}"),
            "error: m.yaml:5:86: document 1: Pod default/p: spec.containers[0].resources.requests.cpu: ",
        ),
        (
            pod("p", 1, "", "").replace("name: p, ", ""),
            "error: m.yaml:4:11: document 1: Pod: metadata.name: missing, expected a name",
        ),
        (
            pod("P_1", 1, "", ""),
            "error: m.yaml:4:18: document 1: Pod: metadata.name: found \"P_1\", expected lower-case letters",
        ),
        (
            pod("p", 1, "", "").replace("{name: p, annotations: {}}", "[p]"),
            "error: m.yaml:4:11: document 1: Pod: metadata: found a list, expected a mapping",
        ),
        (
            two.clone() + &two,
            "error: m.yaml:9:18: document 2: Node n1: metadata.name: found Node n1 again, expected it once; it is in document 1 of m.yaml",
        ),
        (
            two.replace("status:", "spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: b}]}\nstatus:"),
            "error: m.yaml:5:53: document 1: Node n1: spec.taints[1].key: found \"a\" with effect NoSchedule again, expected it once",
        ),
        (
            group("g", 1).replace("minMember: 1", "minMember: one"),
            "error: m.yaml:5:19: document 1: PodGroup default/g: spec.minMember: found \"one\", expected an integer from 0 to 2147483647",
        ),
        (
            group("g", 1).replace("minMember: 1", "minMember: -1"),
            "error: m.yaml:5:19: document 1: PodGroup default/g: spec.minMember: found -1, expected an integer from 0 to 2147483647",
        ),
        (
            queue("q", "weight: 0"),
            "error: m.yaml:5:16: document 1: Queue q: spec.weight: found 0, expected an integer from 1 to 65535",
        ),
        (
            queue("q", "capability: {cpu: lots}"),
            "error: m.yaml:5:26: document 1: Queue q: spec.capability.cpu: ",
        ),
        (
            pod("p", 1, "phalanx.sh/run-seconds: soon", ""),
            "error: m.yaml:4:59: document 1: Pod default/p: metadata.annotations.phalanx.sh/run-seconds: found \"soon\", expected a number of seconds from 0 to 1000000000000",
        ),
        (
            pod("p", 1, "", "").replace("cpu: 1", "cpus: 1"),
            "error: m.yaml:5:87: document 1: Pod default/p: spec.containers[0].resources.requests.cpus: found resource \"cpus\", expected cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain",
        ),
        (
            group("g", 1).replace("minMember: 1", "minMembers: 1"),
            "error: m.yaml:5:20: document 1: PodGroup default/g: spec.minMembers: unknown field, expected one that a PodGroup has (did you mean minMember?)",
        ),
        (
            queue("q", "capabillity: {cpu: 1}"),
            "error: m.yaml:5:21: document 1: Queue q: spec.capabillity: unknown field, expected one that a Queue has (did you mean capability?)",
        ),
        (
            group("g", 1).replace("minMember: 1", "minMember: 99999999999"),
            "error: m.yaml:5:19: document 1: PodGroup default/g: spec.minMember: found 99999999999, expected an integer from 0 to 2147483647",
        ),
        (
            node("n1", 4).replace("cpu: 4", "cpu: [4]"),
            "error: m.yaml:5:29: document 1: Node n1: status.allocatable.cpu: ",
        ),
    ]);
}

#[test]
fn topologies_that_an_api_server_refuses_are_reported_with_line_and_column() {
    let hyper_node = |member: &str| {
        format!(
            "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: rack}}\nspec:\n  tier: 1\n  members:\n  - type: Node\n    selector: {member}\n"
        )
    };
    let asks =
        |topology: &str| group("g", 1).replace("spec: {", &format!("spec: {{networkTopology: {topology}, "));
    let selector = "error: m.yaml:8:15: document 1: HyperNode rack: spec.members[0].selector";
    all_refused(&[
        (
            asks("{mode: hard, highestTierAllowed: 1, highestTierName: rack}"),
            "error: m.yaml:5:25: document 1: PodGroup default/g: spec.networkTopology: highestTierAllowed and highestTierName exclude each other",
        ),
        (
            hyper_node("{regexMatch: {pattern: 'node-['}}"),
            "error: m.yaml:8:38: document 1: HyperNode rack: spec.members[0].selector.regexMatch.pattern: member regexMatch pattern is invalid, expected a regular expression (RE2)",
        ),
        (
            hyper_node("{exactMatch: {name: n1}, regexMatch: {pattern: n1}}"),
            &format!("{selector}: Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"),
        ),
        (
            hyper_node("{exactMatch: {name: n1}}").replace("tier: 1", "tier: 1\n  tierNam: rack"),
            "error: m.yaml:6:12: document 1: HyperNode rack: spec.tierNam: unknown field, expected one that a HyperNode has (did you mean tierName?)",
        ),
    ]);
}

#[test]
fn objects_that_an_api_server_refuses_are_reported_with_line_and_column() {
    let class = |name: &str| {
        format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 1\nglobalDefault: true\n"
        )
    };
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
        selector: {matchLabels: {app: db}}\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web}]}}\n";
    all_refused(&[
        (
            pod("p", 1, "", "") + "status: {phase: Weird}\n",
            "error: m.yaml:6:17: document 1: Pod default/p: status.phase: found \"Weird\", expected one of Pending, Running, Succeeded, Failed, Unknown",
        ),
        (
            pod("p", 1, "", "restartPolicy: Sometimes"),
            "error: m.yaml:5:23: document 1: Pod default/p: spec.restartPolicy: found \"Sometimes\", expected one of Always, OnFailure, Never",
        ),
        (
            pod("p", 1, "", "nodeName: n1, schedulingGates: [{name: a}]"),
            "error: m.yaml:5:18: document 1: Pod default/p: spec.nodeName: found \"n1\" beside schedulingGates, expected no node before they are gone",
        ),
        (
            pod("p", 1, "", "schedulingGates: [{name: a}, {name: a}]"),
            "error: m.yaml:5:44: document 1: Pod default/p: spec.schedulingGates[1].name: found \"a\" again, expected each gate once",
        ),
        (
            pod("p", 2, "", "resources: {requests: {cpu: 1}}"),
            "error: m.yaml:5:36: document 1: Pod default/p: spec.resources.requests.cpu: found 1, expected at least what its containers request, 2",
        ),
        (
            group("g", 1).replace("queue: default", "queue: A_b"),
            "error: m.yaml:5:29: document 1: PodGroup default/g: spec.queue: found \"A_b\", expected lower-case letters, digits, '-' and '.', at most 253",
        ),
        (
            queue("q", "parent: \"a\\e[31mb\""),
            "error: m.yaml:5:16: document 1: Queue q: spec.parent: found \"a\\u001b[31mb\", expected lower-case letters",
        ),
        (
            deployment.to_owned(),
            "error: m.yaml:5:27: document 1: Deployment default/web: spec.selector.matchLabels: found \"web\" for \"app\" in the labels of the template, expected \"db\"",
        ),
        (
            class("a") + &class("b"),
            "error: m.yaml:12:16: document 2: PriorityClass b: globalDefault: found true, expected it of one class only; it is so of PriorityClass a in document 1 of m.yaml",
        ),
        (
            node("n", 1),
            "error: m.yaml:4:18: document 1: Node: metadata.name: found false, expected lower-case letters, digits, '-' and '.', at most 253; without quotes YAML takes y, yes and on for true, and n, no and off for false",
        ),
        (
            queue("q", "").replace("name: q", "name: q, creationTimestamp: soon"),
            "error: m.yaml:4:40: document 1: Queue q: metadata.creationTimestamp: found \"soon\", expected a time such as 2026-01-31T08:00:00Z",
        ),
        (
            "a: 1\rb: 2\r".to_owned(),
            "error: m.yaml:1:5: found a line that ends in a carriage return alone, expected a line feed at its end",
        ),
    ]);
}

/// A manifest without a namespace, of this kind.
fn object(api: &str, kind: &str, body: &str) -> String {
    format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n{body}\n")
}

/// Each text is refused for the key or the value `a!!`, in this field.
fn refused_for_a_label(cases: &[(String, &str)]) {
    told_of_a_label(cases, manifest);
}

/// Each text has a note for the key or the value `a!!`, in this field, and its pod says so.
fn noted_for_a_label(cases: &[(String, &str)]) {
    told_of_a_label(cases, |text| {
        let folder = folder(&[("m.yaml", &(text.to_owned() + &node("n1", 4)))]);
        let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
        let reason = ran.json()["pods"]["default/p"]["reasons"][0].as_str().unwrap().to_owned();
        let line = ran.stderr.lines().next().unwrap().to_owned();
        let told = line.split_once("Pod default/p: ").unwrap().1;
        assert!(reason.contains(told), "{reason}\n{line}");
        line
    });
}

fn told_of_a_label(cases: &[(String, &str)], line: impl Fn(&str) -> String) {
    for (text, field) in cases {
        let line = line(text);
        let (before, told) = line.split_once(": found ").unwrap_or((&line, ""));
        assert!(before.ends_with(field), "{line}\n{field}");
        assert!(
            told.starts_with("\"a!!\", expected ") && told.contains("at most 63 letters, digits"),
            "{line}"
        );
    }
}

#[test]
fn rules_of_pods_on_impossible_labels_are_reported() {
    let of = |kind: &str, term: &str| {
        let required = format!("requiredDuringSchedulingIgnoredDuringExecution: {term}");
        pod("p", 1, "", &format!("affinity: {{{kind}: {{{required}}}}}"))
    };
    let near =
        |term: &str| of("podAffinity", &format!("[{{topologyKey: zone, labelSelector: {{}}, {term}}}]"));
    let apart =
        |labels: &str| of("podAntiAffinity", &format!("[{{topologyKey: zone, labelSelector: {labels}}}]"));
    noted_for_a_label(&[
        (of("podAffinity", "[{topologyKey: a!!, labelSelector: {}}]"), "[0].topologyKey"),
        (apart("{matchLabels: {a!!: b}}"), "[0].labelSelector.matchLabels"),
        (apart("{matchLabels: {b: a!!}}"), "[0].labelSelector.matchLabels"),
        (
            apart("{matchExpressions: [{key: a!!, operator: Exists}]}"),
            "[0].labelSelector.matchExpressions[0].key",
        ),
        (near("namespaceSelector: {matchLabels: {a!!: b}}"), "[0].namespaceSelector.matchLabels"),
        (near("matchLabelKeys: [b, a!!]"), "[0].matchLabelKeys[1]"),
        (
            of("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a!!, operator: Exists}]}]}"),
            "nodeSelectorTerms[0].matchExpressions[0].key",
        ),
        (
            pod(
                "p",
                1,
                "",
                "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a!!, whenUnsatisfiable: DoNotSchedule}]",
            ),
            "spec.topologySpreadConstraints[0].topologyKey",
        ),
    ]);
}

#[test]
fn rules_of_other_objects_on_impossible_labels_are_reported() {
    let selector = "selector: {matchLabels: {a!!: b}}";
    let claim = format!(
        "spec: {{accessModes: [ReadWriteOnce], {selector}, resources: {{requests: {{storage: 1Gi}}}}}}"
    );
    let terms = "nodeSelectorTerms: [{matchExpressions: [{key: a!!, operator: Exists}]}]";
    let volume = format!(
        "spec: {{accessModes: [ReadWriteOnce], capacity: {{storage: 1Gi}}, nodeAffinity: {{required: {{{terms}}}}}}}"
    );
    let class = "provisioner: x\nallowedTopologies: [{matchLabelExpressions: [{key: a!!, values: [b]}]}]";
    refused_for_a_label(&[
        (
            object("policy/v1", "PodDisruptionBudget", &format!("spec: {{{selector}, minAvailable: 1}}")),
            "spec.selector.matchLabels",
        ),
        (object("v1", "PersistentVolumeClaim", &claim), "spec.selector.matchLabels"),
        (object("v1", "PersistentVolume", &volume), "nodeSelectorTerms[0].matchExpressions[0].key"),
        (
            object("storage.k8s.io/v1", "StorageClass", class),
            "allowedTopologies[0].matchLabelExpressions[0].key",
        ),
    ]);
}

#[test]
fn storage_and_devices_that_an_api_server_refuses_are_reported() {
    let of = |api: &str, kind: &str, body: &str| {
        format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n{body}\n")
    };
    all_refused(&[
        (
            object("storage.k8s.io/v1", "StorageClass", "volumeBindingMode: Immediate"),
            "error: m.yaml:1:1: document 1: StorageClass x: provisioner: missing, expected text",
        ),
        (
            object("storage.k8s.io/v1", "StorageClass", "provisioner: p\nreclaimPolicy: Keep"),
            "error: m.yaml:5:16: document 1: StorageClass x: reclaimPolicy: found \"Keep\", expected one of Delete, Retain",
        ),
        (
            of(
                "storage.k8s.io/v1",
                "CSINode",
                "spec: {drivers: [{name: d, nodeID: m, allocatable: {count: -1}}]}",
            ),
            "error: m.yaml:4:60: document 1: CSINode x: spec.drivers[0].allocatable.count: found -1, expected 0 or more",
        ),
        (
            of(
                "v1",
                "PersistentVolumeClaim",
                "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}",
            ),
            "error: m.yaml:4:70: document 1: PersistentVolumeClaim default/x: spec.resources.requests.storage: found 0, expected more than 0",
        ),
        (
            object("resource.k8s.io/v1", "ResourceClaim", "spec: {devices: {requests: [{name: r}]}}"),
            "error: m.yaml:4:29: document 1: ResourceClaim default/x: spec.devices.requests[0]: expected one of exactly and firstAvailable",
        ),
        (
            of(
                "storage.k8s.io/v1",
                "VolumeAttachment",
                "spec: {attacher: d, source: {persistentVolumeName: v}}",
            ),
            "error: m.yaml:4:7: document 1: VolumeAttachment x: spec.nodeName: missing, expected text",
        ),
        (
            object("policy/v1", "PodDisruptionBudget", "spec: {minAvailable: \"150%\", selector: {}}"),
            "error: m.yaml:4:22: document 1: PodDisruptionBudget default/x: spec.minAvailable: found \"150%\", expected",
        ),
    ]);
}

#[test]
fn a_document_that_is_no_object_is_reported_with_its_line() {
    all_refused(&[
        ("kind: Pod\n".into(), "error: m.yaml:1:1: document 1: apiVersion: missing, expected text"),
        (
            "apiVersion: v1\nkind: [Pod]\n".into(),
            "error: m.yaml:2:7: document 1: kind: found a list, expected text",
        ),
        (
            "- a\n- b\n".into(),
            "error: m.yaml:1:1: document 1: found a list, expected an object with apiVersion and kind",
        ),
        ("# none\n---\nb: [1\n".into(), "error: m.yaml:3:4: document 1: invalid YAML: unclosed bracket"),
        (
            "a: 1\nb: \"x\nc: 1\n---\n".into(),
            "error: m.yaml:2:4: document 1: invalid YAML: a text that opens with \" and has no end before line 3, expected \" at its end",
        ),
        (
            "a: {b: 'x, c: 1}\nd: 'y'\n".into(),
            "error: m.yaml:2:5: document 1: invalid YAML: invalid trailing content after single-quoted scalar; the text before it opens with ' in line 1, expected ' at its end there",
        ),
        (
            "a: 1\na: 2\n".into(),
            "error: m.yaml:2:1: document 1: invalid YAML: found key \"a\" again, expected it once",
        ),
        (
            "a: .inf\n".into(),
            "error: m.yaml:1:4: document 1: invalid YAML: found .inf, expected a finite number",
        ),
        (
            group("g", 1).replace("v1beta1", "v1alpha9"),
            "error: m.yaml:2:13: document 1: apiVersion: found \"scheduling.volcano.sh/v1alpha9\", expected \"scheduling.volcano.sh/v1beta1\" for kind PodGroup",
        ),
        (
            queue("q", "").replace("kind: Queue", "kind: queue"),
            "error: m.yaml:3:7: document 1: kind: found \"queue\", expected \"Queue\" with apiVersion \"scheduling.volcano.sh/v1beta1\"",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n".into(),
            "error: m.yaml:4:7: document 1: Pod default/p: spec.containers: found no container, expected at least one",
        ),
    ]);
}

#[test]
fn problems_in_json_have_line_and_column() {
    let text = "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\"}}\n{\"apiVersion\": }\n";
    let line = refused(&[("m.json", text)], &["simulate", "-f", "m.json"]);
    assert_eq!(line, "error: m.json:2:16: document 2: invalid JSON: expected value");
}

#[test]
fn a_duplicate_key_in_json_is_reported() {
    let text =
        "{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"n1\", \"name\": \"n2\"}}";
    let line = refused(&[("m.json", text)], &["simulate", "-f", "m.json"]);
    assert_eq!(
        line,
        "error: m.json:2:34: document 1: invalid JSON: found key \"name\" again, expected it once"
    );
}

#[test]
fn an_item_of_a_list_and_a_template_are_named_by_their_path() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web}\n  spec:\n    \
        template:\n      spec:\n        containers:\n        - resources: {requests: {cpu: -1}}\n";
    let line = manifest(list);
    let expected = "error: m.yaml:11:39: document 1: Deployment default/web: \
        items[0].spec.template.spec.containers[0].resources.requests.cpu: -1 is negative, expected 0 or more";
    assert_eq!(line, expected);
}

#[test]
fn several_problems_are_a_line_each_in_the_order_of_the_file() {
    let bad = |name: &str| pod(name, 1, "", "").replace("cpu: 1}", "cpu: 1x}");
    let worse =
        pod("b", 1, "", "nodeSelector: {zone: a b}, tolerations: [{key: x, operator: Exists, value: z}]")
            .replace("{name: b,", "{name: b, labels: {app: -x},");
    let types =
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {a: 1}}\nspec: {unschedulable: 7}\n";
    let text = bad("a") + types + &members("g", 1, 1) + &worse + &bad("c");
    let folder = folder(&[("m.yaml", &text)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
    let field = |line: &str| line.split(": ").nth(4).unwrap_or_default().to_owned();
    let found: Vec<String> = ran.stderr.lines().map(field).collect();
    let expected = [
        "spec.containers[0].resources.requests.cpu",
        "metadata.labels.a",
        "spec.unschedulable",
        "metadata.labels.app",
        "spec.nodeSelector.zone",
        "spec.tolerations[0].value",
        "spec.containers[0].resources.requests.cpu",
    ];
    assert_eq!((ran.code, found), (2, expected.map(ToOwned::to_owned).to_vec()), "{}", ran.stderr);
    let line = manifest(&pod("p", 1, "", "tolerations: [{key: x, operator: Exists, value: z}]"));
    let expected = "error: m.yaml:5:56: document 1: Pod default/p: spec.tolerations[0].value: found \"z\", expected none";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let files = [("m.yaml", &*node("n1", 4)), ("empty/README.md", "nothing\n")];
    for (args, expected) in [
        (vec!["simulate", "-f", "none.yaml"], "error: none.yaml: cannot be read: No such file or directory"),
        (
            vec!["simulate", "-f", "empty"],
            "error: empty: found no manifests, expected *.yaml, *.yml or *.json in it",
        ),
        (
            vec!["simulate", "-f", "m.yaml", "--scheduler-conf", "none"],
            "error: none: cannot be read: No such file or directory",
        ),
        (vec!["conf", "check", "none"], "error: none: cannot be read: No such file or directory"),
    ] {
        assert_eq!(refused(&files, &args), expected);
    }
    let folder = folder(&[]);
    std::fs::write(folder.path().join("m.yaml"), b"a: 1\nb: \xff\n").unwrap();
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (2, "error: m.yaml:2: found bytes that are not UTF-8, expected text\n")
    );
}

#[test]
fn an_input_without_any_object_is_refused() {
    for text in ["", "\n", "# all of it\n# is a comment\n", "---\n---\n"] {
        let line = manifest(text);
        assert_eq!(line, "error: m.yaml:1: found no object, expected manifests in YAML or JSON", "{text:?}");
    }
    let line = refused(&[], &["simulate", "-f", "-"]);
    assert_eq!(line, "error: <stdin>:1: found no object, expected manifests in YAML or JSON");
    let line = refused(&[("a.yaml", ""), ("b.yaml", "")], &["simulate", "-f", "a.yaml", "-f", "b.yaml"]);
    assert!(line.starts_with("error: a.yaml:1: found no object in it and in 1 more file"), "{line}");
}

#[test]
fn a_conf_with_errors_is_refused_with_its_position() {
    let files = [
        ("m.yaml", node("n1", 1)),
        ("conf.yaml", "actions: \"enqueue, alocate\"\ntiers: [{plugins: [{name: gang}]}]\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let line = refused(&files, &["simulate", "-f", "m.yaml", "--scheduler-conf", "conf.yaml"]);
    assert!(line.starts_with("error: conf.yaml:1:"), "{line}");
    assert!(line.contains("alocate"), "{line}");
}

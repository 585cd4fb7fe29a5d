//! All problems of all files, objects and fields are reported together, with the notes.
use crate::run::{folder, group, node, phalanx_in, pod, queue};

/// The lines on stderr.
fn told(files: &[(&str, &str)], args: &[&str]) -> Vec<String> {
    let folder = folder(files);
    let ran = phalanx_in(folder.path(), args, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    ran.stderr.lines().map(ToOwned::to_owned).collect()
}

fn assert_begin(lines: &[String], expected: &[&str]) {
    let same = lines.iter().zip(expected).all(|(line, expected)| line.starts_with(expected));
    assert!(same && lines.len() == expected.len(), "\n{}\n\n{}", lines.join("\n"), expected.join("\n"));
}

#[test]
fn problems_of_other_files_are_reported_beside_an_unreadable_file() {
    let bad = pod("p", 1, "", "").replace("cpu: 1}", "cpu: 1x}");
    let files = [
        ("a/m.yaml", &*bad),
        ("a/n.yaml", "b: [1\n"),
        ("conf", "actions: alocate\ntiers: [{plugins: [{name: gang}]}]\n"),
    ];
    for command in [&["simulate"][..], &["explain", "pod", "p"]] {
        let args = ["-f", "none.yaml", "-f", "gone", "-f", "a", "--scheduler-conf", "conf"];
        let expected = [
            "error: conf:1:10: ",
            "error: none.yaml: cannot be read: No such file or directory",
            "error: gone: cannot be read: No such file or directory",
            "error: a/m.yaml:5:86: document 1: Pod default/p: spec.containers[0].resources.requests.cpu: ",
            "error: a/n.yaml:1:4: document 1: invalid YAML: unclosed bracket",
        ];
        assert_begin(&told(&files, &[command, &args].concat()), &expected);
    }
}

#[test]
fn all_problems_of_an_object_are_reported() {
    let group = group("G", 1).replace("minMember: 1, queue: default", "minMember: one, queue: Q!, qeue: a");
    let requests = |cpu: &str| format!("{{name: c, resources: {{requests: {{cpu: {cpu}, cpus: 2}}}}}}");
    let pod = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: {{a!: b}}, annotations: {{phalanx.sh/run-seconds: x}}}}\n\
         spec:\n  priority: high\n  tolerations: [{{key: x, operator: Exists, value: z}}]\n  containers:\n  - {}\n  - {}\n",
        requests("1x"),
        requests("-1")
    );
    let lines = told(&[("m.yaml", &(group + &pod))], &["simulate", "-f", "m.yaml"]);
    let field = |line: &String| line.split(": ").nth(4).unwrap_or_default().to_owned();
    let fields: Vec<String> = lines.iter().map(field).collect();
    let expected = [
        "metadata.name",
        "spec.minMember",
        "spec.queue",
        "spec.qeue",
        "metadata.labels.a!",
        "metadata.annotations.phalanx.sh/run-seconds",
        "spec.priority",
        "spec.tolerations[0].value",
        "spec.containers[0].resources.requests.cpu",
        "spec.containers[0].resources.requests.cpus",
        "spec.containers[1].name",
        "spec.containers[1].resources.requests.cpu",
        "spec.containers[1].resources.requests.cpus",
    ];
    assert_eq!(fields, expected, "{}", lines.join("\n"));
}

#[test]
fn each_problem_of_a_list_is_one_line() {
    let text = queue("q", "capability: {cpu: 4cores, memory: 4GB}")
        + &group("g", 1).replace("minMember: 1", "minMember: 1, minResources: {cpu: 2x, memory: 4GB}");
    let lines = told(&[("m.yaml", &text)], &["simulate", "-f", "m.yaml"]);
    let expected = [
        "error: m.yaml:5:26: document 1: Queue q: spec.capability.cpu: quantity \"4cores\": unknown suffix",
        "error: m.yaml:5:42: document 1: Queue q: spec.capability.memory: quantity \"4GB\": unknown suffix",
        "error: m.yaml:10:42: document 2: PodGroup default/g: spec.minResources.cpu: quantity \"2x\": unknown suffix",
        "error: m.yaml:10:54: document 2: PodGroup default/g: spec.minResources.memory: quantity \"4GB\": unknown suffix",
    ];
    assert_begin(&lines, &expected);
    assert!(lines.iter().all(|line| line.matches("unknown suffix").count() == 1), "{lines:?}");
}

#[test]
fn all_problems_of_a_rule_are_reported() {
    let term = "{topologyKey: '', labelSelector: {matchExpressions: [{key: a!, operator: Exists}, {key: b, operator: In}]}}";
    let rule =
        format!("affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}");
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pod("p", 1, "", &rule)))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let field = |line: &str| Some(line.split_once("[0].")?.1.split_once(": ")?.0.to_owned());
    let mut fields: Vec<String> = ran.stderr.lines().filter_map(field).collect();
    fields.sort();
    let of = "labelSelector.matchExpressions";
    let expected = [format!("{of}[0].key"), format!("{of}[1].values"), "topologyKey".to_owned()];
    assert_eq!(fields, expected, "{ran:?}");
    assert_eq!(ran.json()["stats"]["bound"], 0);
}

#[test]
fn problems_of_a_workload_and_of_its_template_are_reported_together() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: J}\nspec:\n  parallelism: -1\n  completions: many\n  suspend: maybe\n  \
        template:\n    spec: {containers: [{name: c, resources: {requests: {cpu: 1x}}}]}\n";
    let expected = [
        "error: m.yaml:3:18: document 1: Job: metadata.name: found \"J\", expected lower-case letters",
        "error: m.yaml:5:16: document 1: Job: spec.parallelism: found -1, expected an integer from 0 to 1000000",
        "error: m.yaml:6:16: document 1: Job: spec.completions: found \"many\", expected an integer from 0 to 1000000",
        "error: m.yaml:7:12: document 1: Job: spec.suspend: found \"maybe\", expected true or false",
        "error: m.yaml:9:63: document 1: Job: spec.template.spec.containers[0].resources.requests.cpu: ",
    ];
    assert_begin(&told(&[("m.yaml", job)], &["simulate", "-f", "m.yaml"]), &expected);
}

#[test]
fn all_contradictory_amounts_of_a_queue_are_reported() {
    let odd =
        "capability: {cpu: 2, memory: 1Gi}, deserved: {cpu: 3}, guarantee: {resource: {cpu: 4, memory: 2Gi}}";
    let text = node("n1", 4) + &queue("q", odd) + &queue("r", "capability: {cpu: 2}, deserved: {cpu: 3}");
    let folder = folder(&[("m.yaml", &text)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
    let notes: Vec<String> = ran.stderr.lines().map(ToOwned::to_owned).collect();
    let expected = [
        "note: m.yaml:10:59: document 2: Queue q: spec.deserved.cpu: found 3, more than capability 2; the queue's jobs wait",
        "note: m.yaml:10:91: document 2: Queue q: spec.guarantee.resource.cpu: found 4, more than deserved 3 and capability 2; ",
        "note: m.yaml:10:102: document 2: Queue q: spec.guarantee.resource.memory: found 2Gi, more than capability 1Gi; ",
        "note: m.yaml:15:46: document 3: Queue r: spec.deserved.cpu: found 3, more than capability 2; ",
        "note: Queue q and 1 more: deserved counts for nothing: the configuration has no plugin capacity",
    ];
    assert_begin(&notes, &expected);
    let told = "\nQueue q: guarantee of cpu is 4, more than deserved 3 and capability 2; deserved of cpu is 3, more than capability 2; \
        guarantee of memory is 2Gi, more than capability 1Gi\nQueue r: ";
    assert!(ran.text().contains(told), "{ran:?}");
}

#[test]
fn notes_are_printed_beside_errors_except_on_missing_objects() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let odd = pod("odd", 1, "", "shedulerName: x, nodeName: n2, priorityClassName: gold");
    let text = node("n1", 4).replace("cpu: 4", "cpu: four") + service + &odd;
    let expected = [
        "note: m.yaml:7:1: document 2: ignored 1 object of kind Service (v1), which scheduling does not read",
        "note: m.yaml:14:22: document 3: Pod default/odd: spec.shedulerName: unknown field, ignored (did you mean",
        "error: m.yaml:5:29: document 1: Node n1: status.allocatable.cpu: ",
    ];
    assert_begin(&told(&[("m.yaml", &text)], &["simulate", "-f", "m.yaml"]), &expected);
}

#[test]
fn a_note_says_that_reading_ended_after_100_problems() {
    let text: String = (0..150).map(|at| node(&format!("n-{at}"), 4).replace("cpu: 4", "cpu: x")).collect();
    let lines = told(&[("m.yaml", &text)], &["simulate", "-f", "m.yaml"]);
    assert_eq!(lines[0], "note: reading ended after 100 faults, there may be more");
    assert_eq!(lines.len(), 101);
}

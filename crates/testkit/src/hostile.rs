//! Hostile objects: what a user of a namespace who means harm, or makes mistakes, may write. All are in namespace
//! `bad`; their pods may use nodes of pool `bad` only.
mod jobs;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Map, Value, json};

const QUANTITIES: &[&str] = &[
    "1e400",
    "-1",
    "NaN",
    "9223372036854775807Ei",
    "1e-400",
    "0x10",
    "",
    "1Kii",
    "-9e18",
    "0.0000000000000000001",
    "9223372036854775808",
    ".",
    "+",
    "1E",
    "999999999999999999999999999999",
    "\u{663}",
    "1e2147483648",
    "-0",
];

const INTEGERS: &[i64] = &[2_147_483_647, -1, -2_147_483_648, 0, 2_147_483_648, i64::MAX, i64::MIN];

const TEXTS: &[&str] =
    &["", "NaN", "-1", "{", "[[", "\u{0}", "\u{202e}", "1e400", "100%", "-5%", "9999999999h", "*", "a/b/c"];

/// Annotations and labels that are read.
const MARKS: &[&str] = &[
    "volcano.sh/preemptable",
    "volcano.sh/task-priority",
    "volcano.sh/task-index",
    "volcano.sh/cooldown-time",
    "volcano.sh/numa-topology-policy",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/task-spec",
    "volcano.sh/sla-waiting-time",
    "sla-waiting-time",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-topology-task-order",
    "scheduling.volcano.sh/queue-allocation-gate",
    "volcano.sh/hierarchy",
    "volcano.sh/hierarchy-weights",
    "volcano.sh/resource-strategy-scoring-type",
];

/// A name that is another one for each number.
fn numbered(prefix: &str, at: usize) -> String {
    format!("{prefix}-{at}")
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "bad", "uid": name})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name), "spec": {
        "schedulerName": "volcano", "nodeSelector": {"pool": "bad"},
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}});
    merge(&mut pod["spec"], spec);
    pod
}

fn group(name: &str, spec: Value) -> Value {
    let mut group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": metadata(name), "spec": {"minMember": 1}});
    merge(&mut group["spec"], spec);
    group
}

/// A member of a group.
fn member(group: &str, at: usize, spec: Value) -> Value {
    let mut pod = pod(&numbered(group, at), spec);
    pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": group});
    pod
}

fn requests(list: &Value) -> Value {
    json!({"containers": [{"name": "main", "resources": {"requests": list}}]})
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

fn map(count: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(entry).collect::<Map<_, _>>())
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

/// All hostile objects of the scheduler by what is odd about them, the same each time.
pub fn hostile() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("amounts", amounts()),
        ("counts", counts()),
        ("sizes", sizes()),
        ("rules", rules()),
        ("names", names()),
        ("groups", groups()),
        ("cluster-wide", cluster_wide()),
        ("devices", devices()),
        ("others", others()),
        ("marks", marks()),
        ("roles", roles()),
        ("faults", faults()),
        ("terms", terms()),
        ("queue-names", queue_names()),
        ("counts-of-devices", counts_of_devices()),
        ("mutants", mutants("mutant", &hostile_kinds(), 300)),
    ]
}

/// The same of the objects of the controllers.
pub fn hostile_jobs() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("jobs", jobs::jobs()),
        ("cron-jobs", jobs::cron_jobs()),
        ("flows", jobs::flows()),
        ("commands", jobs::commands()),
        ("job-mutants", mutants("job-mutant", &jobs::kinds(), 200)),
    ]
}

fn amounts() -> Vec<Value> {
    let each = QUANTITIES.iter().enumerate().flat_map(|(at, amount)| {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(&numbered("amount", at)),
            "spec": {"hard": {"pods": amount}}, "status": {"hard": {"pods": amount}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(&numbered("amount", at)),
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}});
        [
            pod(&numbered("cpu", at), requests(&json!({"cpu": amount, "memory": amount}))),
            pod(&numbered("gpu", at), requests(&json!({"nvidia.com/gpu": amount, "hugepages-1Gi": amount}))),
            pod(&numbered("over", at), json!({"overhead": {"cpu": amount}, "resources": {"requests": {"cpu": amount}}})),
            group(&numbered("least", at), json!({"minResources": {"cpu": amount, "nvidia.com/gpu": amount, "deviceclass/x": amount}})),
            quota,
            claim,
        ]
    });
    each.collect()
}

fn counts() -> Vec<Value> {
    let each = INTEGERS.iter().enumerate().flat_map(|(at, count)| {
        let name = numbered("count", at);
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(&name),
            "spec": {"minAvailable": count, "selector": {}}});
        [
            group(&name, json!({"minMember": count, "minTaskMember": {"a": count, "b": count}})),
            member(&name, 0, json!({})),
            member(&name, 1, json!({"priority": count})),
            group(&numbered("roles", at), json!({"minMember": 1, "minTaskMember": map(200, |role| (numbered("r", role), json!(count)))})),
            budget,
        ]
    });
    each.collect()
}

fn sizes() -> Vec<Value> {
    let mut labels = pod("labels", json!({}));
    labels["metadata"]["labels"] =
        map(2_000, |at| (format!("l{at}/{}", "x".repeat(60)), json!("v".repeat(63))));
    let mut long = pod("long", json!({}));
    long["metadata"]["labels"] = json!({"app": "v".repeat(100_000)});
    let mut notes = pod("notes", json!({}));
    notes["metadata"]["annotations"] =
        map(200, |at| (numbered("volcano.sh/n", at), json!("x".repeat(1_000))));
    let containers = list(2_000, |at| {
        json!({"name": numbered("c", at), "image": numbered("image", at),
        "ports": [{"hostPort": at + 1, "containerPort": 1}], "resources": {"requests": {"cpu": "1m"}}})
    });
    let init = list(
        2_000,
        |at| json!({"name": numbered("i", at), "restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}}),
    );
    let volumes = list(
        1_000,
        |at| json!({"name": numbered("v", at), "persistentVolumeClaim": {"claimName": numbered("gone", at)}}),
    );
    let ephemeral = list(
        200,
        |at| json!({"name": numbered("e", at), "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1e400"}}}}}}),
    );
    vec![
        labels,
        long,
        notes,
        pod(&"n".repeat(253), json!({})),
        pod("containers", json!({"containers": containers})),
        pod("init", json!({"initContainers": init})),
        pod("volumes", json!({"volumes": volumes})),
        pod("ephemeral", json!({"volumes": ephemeral})),
        pod("gates", json!({"schedulingGates": list(500, |at| json!({"name": numbered("g", at)}))})),
    ]
}

fn rules() -> Vec<Value> {
    let values = list(10_000, |at| json!(numbered("v", at)));
    let expression = json!([{"key": "pool", "operator": "NotIn", "values": values}]);
    let term = |at: usize| json!({"topologyKey": numbered("t", at), "labelSelector": {"matchLabels": {"app": numbered("a", at)}}});
    let wide = |_: usize| json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}});
    let weighted = |at: usize| json!({"weight": 100, "podAffinityTerm": term(at)});
    let spread = |at: usize| {
        json!({"maxSkew": 1, "topologyKey": numbered("t", at), "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}})
    };
    let loose = |at: usize| json!({"maxSkew": 2_147_483_647_i64, "topologyKey": numbered("t", at), "whenUnsatisfiable": "ScheduleAnyway"});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let nodes = list(
        500,
        |at| json!({"matchExpressions": [{"key": numbered("k", at), "operator": "Gt", "values": ["-9223372036854775808"]}]}),
    );
    let namespaces = list(10_000, |at| json!(numbered("ns", at)));
    let specs = [
        json!({"tolerations": list(5_000, |at| json!({"key": numbered("k", at), "operator": "Exists"}))}),
        json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": expression}]}}}}),
        json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": nodes}}}}),
        json!({"affinity": {"nodeAffinity": {preferred: list(1_000, |at| json!({"weight": 100, "preference": {"matchExpressions": [{"key": numbered("k", at), "operator": "Exists"}]}}))}}}),
        json!({"affinity": {"podAffinity": {required: list(1_000, term)}}}),
        json!({"affinity": {"podAntiAffinity": {required: list(1_000, term)}}}),
        json!({"affinity": {"podAntiAffinity": {required: list(1_000, wide)}}}),
        json!({"affinity": {"podAffinity": {preferred: list(1_000, weighted)}}}),
        json!({"affinity": {"podAntiAffinity": {required: [{"topologyKey": "pool", "labelSelector": {}, "namespaces": namespaces}]}}}),
        json!({"affinity": {"podAffinity": {required: [{"topologyKey": "", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}}}),
        json!({"topologySpreadConstraints": list(1_000, spread)}),
        json!({"topologySpreadConstraints": list(1_000, loose)}),
        json!({"nodeSelector": map(5_000, |at| (numbered("k", at), json!("v")))}),
    ];
    specs.into_iter().enumerate().map(|(at, spec)| pod(&numbered("rule", at), spec)).collect()
}

/// A hundred thousand resources that nobody has.
fn names() -> Vec<Value> {
    let made_up = |of: usize| map(10_000, |at| (format!("example.com/r{}", of * 10_000 + at), json!("1")));
    let pods = (0..7).map(|of| pod(&numbered("names", of), requests(&made_up(of))));
    let groups = (0..3).flat_map(|of| {
        let name = numbered("named", of);
        let classes = map(1_000, |at| (format!("deviceclass/c{}", of * 1_000 + at), json!("1")));
        [
            group(&name, json!({"minResources": made_up(of + 10)})),
            member(&name, 0, json!({})),
            group(&numbered("classes", of), json!({"minResources": classes})),
        ]
    });
    pods.chain(groups).collect()
}

/// Groups that overlap, own each other, or name what there is not.
fn groups() -> Vec<Value> {
    let mut all = Vec::new();
    for at in 0..20 {
        let mut owned = group(&numbered("loop", at), json!({"minMember": 3, "queue": numbered("q", at % 7)}));
        let owner = numbered("loop", (at + 1) % 20);
        owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "name": owner, "uid": owner, "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}]);
        let mut torn = pod(&numbered("torn", at), json!({"priorityClassName": numbered("p", at % 6)}));
        torn["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": numbered("loop", at), "scheduling.volcano.sh/group-name": "loop-0"});
        torn["metadata"]["labels"] =
            json!({"scheduling.volcano.sh/group-name": "loop-1", "volcano.sh/task-spec": "x".repeat(1_000)});
        torn["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": numbered("torn", at), "uid": numbered("torn", at), "controller": true}]);
        all.extend([owned, torn]);
    }
    let policy = json!([{"subGroupSize": -1, "minSubGroups": 2_147_483_647, "labelSelector": {}}]);
    all.push(group("sub-groups", json!({"subGroupPolicy": policy, "minMember": 5})));
    all.push(group("topology", json!({"networkTopology": {"mode": "hard", "highestTierAllowed": -1}})));
    all.push(group("no-queue", json!({"queue": "x".repeat(10_000)})));
    all.push(member("no-such-group", 0, json!({})));
    all
}

/// Queues in circles and priorities at the extremes.
fn cluster_wide() -> Vec<Value> {
    let queue = |name: &str, spec: Value| json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec});
    let class = |name: &str, value: i64| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let circle = (0..7)
        .map(|at| queue(&numbered("q", at), json!({"parent": numbered("q", (at + 1) % 7), "weight": at})));
    let classes = INTEGERS.iter().enumerate().map(|(at, value)| class(&numbered("p", at), *value));
    let odd = [
        queue("self", json!({"parent": "self"})),
        queue("heavy", json!({"weight": 2_147_483_647, "parent": "root"})),
        queue("light", json!({"weight": -1})),
        queue(
            "odd",
            json!({"capability": {"cpu": "-1"}, "guarantee": {"resource": {"cpu": "1e400"}}, "deserved": {"memory": "NaN"}}),
        ),
    ];
    circle.chain(classes).chain(odd).chain(hyper_nodes()).collect()
}

/// HyperNodes in circles, of more members than there are nodes, and with members that say nothing.
fn hyper_nodes() -> Vec<Value> {
    let of = |name: &str, tier: i64, members: Value| {
        json!({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
            "metadata": {"name": name}, "spec": {"tier": tier, "members": members}})
    };
    let named = |kind: &str, name: String| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
    let below = |name: String| json!([named("HyperNode", name)]);
    let circle = (0..5).map(|at| of(&numbered("circle", at), 1, below(numbered("circle", (at + 1) % 5))));
    let deep = (1..100_u8)
        .map(|at| of(&format!("deep-{at}"), at.into(), below(format!("deep-{}", at.saturating_sub(1)))));
    let odd = [
        of("many", 2, list(10_000, |at| named("Node", numbered("n", at)))),
        of("below-zero", i64::MIN, json!([])),
        of("above-all", i64::MAX, json!([{"type": "Node", "selector": {"labelMatch": {}}}])),
        of(
            "slow",
            1,
            json!([{"type": "Node", "selector": {"regexMatch": {"pattern": "(((a{1000}){1000}){1000})"}}}]),
        ),
        of("torn", 1, json!([{"type": "Pod"}, {"selector": null}])),
    ];
    circle.chain(deep).chain(odd).collect()
}

fn devices() -> Vec<Value> {
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let chain = |part: &str, end: &str| format!("{}{end}", part.repeat((10_000 - end.len()) / part.len()));
    let mut selectors = vec![
        chain("true&&", "true"),
        chain("x||", "true"),
        chain("!", "true"),
        chain("(", "true"),
        chain("[", "1"),
        chain("1+", "1==1"),
        chain("true?true:", "true"),
        format!("device{}", ".a".repeat(4_000)),
        format!("cel.bind(x,false,{})", chain("x||", "x").get(..9_000).unwrap_or_default()),
        format!("{digits}.all(x,{digits}.all(y,!'a'.matches('(\\\\pL{{30}}){{2}}'+device.driver)))"),
        "'a'.matches('(((a{1000}){1000}){1000})')".to_owned(),
        "\u{0}".to_owned(),
        "1".to_owned(),
    ];
    selectors.extend((0..150).map(|at| format!("device.driver != 'x{at}'")));
    let claim = |at: usize, selector: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata(&numbered("claim", at)),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": selector}}]}}]}}})
    };
    let using = |at: usize| {
        pod(
            &numbered("claims", at),
            json!({"resourceClaims": [{"name": "c", "resourceClaimName": numbered("claim", at)}]}),
        )
    };
    let named =
        list(500, |at| json!({"name": numbered("c", at), "resourceClaimName": numbered("claim", at % 100)}));
    let mut all = vec![pod("all-claims", json!({"resourceClaims": named}))];
    for (at, selector) in selectors.iter().enumerate() {
        all.extend([claim(at, selector), using(at)]);
    }
    all
}

fn others() -> Vec<Value> {
    let budget = |name: &str, spec: Value| json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(name), "spec": spec});
    let values = list(10_000, |at| json!(numbered("v", at)));
    let expressions = json!([{"key": "app", "operator": "NotIn", "values": values}]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata("circle"),
        "spec": {"accessModes": ["ReadWriteOnce"], "dataSource": {"kind": "PersistentVolumeClaim", "name": "circle"},
            "volumeName": "no-such-volume", "storageClassName": "x".repeat(5_000), "resources": {"requests": {"storage": "1"}}}});
    let hard = map(2_000, |at| (format!("requests.example.com/q{at}"), json!("1")));
    vec![
        budget("percent", json!({"minAvailable": "101%", "selector": {}})),
        budget("negative", json!({"maxUnavailable": "-5%", "selector": {"matchLabels": {"a": "b"}}})),
        budget("both", json!({"minAvailable": 1, "maxUnavailable": 1, "selector": {}})),
        budget("wide", json!({"minAvailable": "50%", "selector": {"matchExpressions": expressions}})),
        volume,
        pod("circle", json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "circle"}}]})),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("many"), "spec": {"hard": hard}, "status": {"hard": hard}}),
        pod("placed", json!({"nodeName": "no-such-node"})),
        pod(
            "runtime",
            json!({"runtimeClassName": "x", "preemptionPolicy": "Sometimes", "priority": 2_147_483_647}),
        ),
    ]
}

fn marks() -> Vec<Value> {
    let each = MARKS.iter().enumerate().flat_map(|(at, mark)| {
        TEXTS.iter().enumerate().step_by(3).flat_map(move |(of, text)| {
            let name = format!("mark-{at}-{of}");
            let mut odd = pod(&name, json!({}));
            odd["metadata"]["annotations"] = json!({*mark: text});
            odd["metadata"]["labels"] = json!({*mark: text});
            let mut owner = group(&name, json!({}));
            owner["metadata"]["annotations"] = json!({*mark: text});
            [odd, owner]
        })
    });
    each.collect()
}

/// Groups of more roles than can be told apart, and pods that make up theirs.
fn roles() -> Vec<Value> {
    let mut all = Vec::new();
    for of in 0..3 {
        let name = numbered("many-roles", of);
        let names: Vec<String> = (0..1_000).map(|at| numbered("r", at)).collect();
        let mut owner =
            group(&name, json!({"minTaskMember": map(10_000, |at| (numbered("r", at), json!(1)))}));
        owner["metadata"]["annotations"] = json!({"volcano.sh/task-topology-affinity": names.join(","),
            "volcano.sh/task-topology-anti-affinity": (names.join(",") + ";").repeat(10),
            "volcano.sh/task-topology-task-order": names.join(",")});
        all.push(owner);
        all.extend((0..100).map(|at| {
            let mut pod = member(&name, at, json!({}));
            pod["metadata"]["labels"] = json!({"volcano.sh/task-spec": numbered("r", at * 20)});
            pod
        }));
    }
    all
}

/// A group with thousands of faults, each of which is long, and many conditions.
fn faults() -> Vec<Value> {
    let long = |at: usize| format!("{at}/{}", "n".repeat(400));
    let spec = json!({"minTaskMember": map(250, |at| (long(at), json!(-1))), "minResources": map(1_000, |at| (long(at), json!("-1")))});
    let mut odd = group("faults", spec);
    let conditions =
        list(50, |at| json!({"type": numbered("C", at), "status": "True", "message": "m".repeat(5_000)}));
    odd["status"] = json!({"phase": "Pending", "conditions": conditions});
    std::iter::once(odd).chain((0..100).map(|at| member("faults", at, json!({})))).collect()
}

/// As many rules as a pod may have, on pods of all namespaces.
fn terms() -> Vec<Value> {
    let topology = |at: usize| if at.is_multiple_of(2) { "kubernetes.io/hostname" } else { "pool" };
    let term = |of: usize, at: usize| {
        json!({"topologyKey": topology(at), "namespaceSelector": {},
        "labelSelector": {"matchLabels": {"app": format!("a{of}-{at}")}}})
    };
    let spread = |of: usize, at: usize| {
        json!({"maxSkew": 1, "topologyKey": "pool", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": format!("a{of}-{at}")}}})
    };
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let one = |of: usize| {
        let plain = list(64, |at| term(of, at));
        let weighted = list(64, |at| json!({"weight": 1, "podAffinityTerm": term(of, at)}));
        let spec = json!({"affinity": {"podAffinity": {preferred: weighted},
            "podAntiAffinity": {required: plain, preferred: weighted}}, "topologySpreadConstraints": list(64, |at| spread(of, at))});
        pod(&numbered("terms", of), spec)
    };
    (0..50).map(one).collect()
}

/// Pods without a group, each in a queue of its own that does not exist.
fn queue_names() -> Vec<Value> {
    let one = |at: usize| {
        let mut pod = pod(&numbered("queue", at), json!({}));
        pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": numbered("made-up", at)});
        pod
    };
    (0..5_000).map(one).collect()
}

/// Claims that ask for more devices than can be counted.
fn counts_of_devices() -> Vec<Value> {
    let each = (0..50).flat_map(|at| {
        let name = numbered("most", at);
        let request = |of: &str, count: u64| json!({"name": of, "exactly": {"deviceClassName": "gpu", "count": count}});
        let requests = json!([request("a", 4_294_967_295), request("b", 2 + at as u64 % 3)]);
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata(&name),
            "spec": {"devices": {"requests": requests}}});
        [claim, pod(&name, json!({"resourceClaims": [{"name": "c", "resourceClaimName": name}]}))]
    });
    each.collect()
}

/// Ordinary objects of which one value is another one.
fn mutants(prefix: &str, originals: &[Value], count: usize) -> Vec<Value> {
    let mut random = Pcg64::seed_from_u64(11);
    let odd: Vec<Value> = QUANTITIES
        .iter()
        .chain(TEXTS)
        .map(|text| json!(text))
        .chain(INTEGERS.iter().map(|number| json!(number)))
        .chain([
            json!(null),
            json!([]),
            json!({}),
            json!(true),
            json!(1.5),
            json!([[[]]]),
            json!({"a": {"b": null}}),
        ])
        .collect();
    let mutant = |at: usize| {
        let mut object = originals[at % originals.len()].clone();
        object["metadata"]["name"] = json!(numbered(prefix, at));
        object["metadata"]["uid"] = json!(numbered(prefix, at));
        let paths = leaves(&object["spec"], String::new());
        let path = format!("/spec{}", paths[random.random_range(0..paths.len())]);
        let value = odd[random.random_range(0..odd.len())].clone();
        if let Some(place) = object.pointer_mut(&path) {
            *place = value;
        }
        // Wherever else they go, they stay in their pool.
        let pods = [
            "/spec",
            "/spec/tasks/0/template/spec",
            "/spec/tasks/1/template/spec",
            "/spec/jobTemplate/spec/tasks/0/template/spec",
            "/spec/jobTemplate/spec/tasks/1/template/spec",
        ];
        for path in pods.iter().skip(usize::from(object["kind"] != "Pod")) {
            if let Some(Value::Object(spec)) = object.pointer_mut(path) {
                spec.insert("nodeSelector".to_owned(), json!({"pool": "bad"}));
                spec.insert("nodeName".to_owned(), Value::Null);
            }
        }
        object
    };
    (0..count).map(mutant).collect()
}

fn hostile_kinds() -> Vec<Value> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let full = json!({"priority": 1, "schedulerName": "volcano", "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}],
        "affinity": {"podAffinity": {required: [{"topologyKey": "pool", "labelSelector": {"matchLabels": {"a": "b"}}}]},
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["bad"]}]}]}}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "pool", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1, "labelSelector": {"matchLabels": {"a": "b"}}}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "overhead": {"cpu": "1"},
        "containers": [{"name": "main", "ports": [{"hostPort": 1, "protocol": "TCP", "hostIP": "0.0.0.0"}], "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata("m"),
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}});
    let devices = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata("m"),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount", "selectors": [{"cel": {"expression": "true"}}]}}]}}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("m"),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}});
    let group = group(
        "m",
        json!({"minMember": 2, "queue": "default", "priorityClassName": "p", "minTaskMember": {"a": 1}, "minResources": {"cpu": "1"}}),
    );
    vec![pod("m", full), group, claim, devices, budget]
}

fn leaves(value: &Value, path: String) -> Vec<String> {
    let below: Vec<String> = match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| leaves(value, format!("{path}/{}", key.replace('/', "~1"))))
            .collect(),
        Value::Array(list) => {
            list.iter().enumerate().flat_map(|(at, value)| leaves(value, format!("{path}/{at}"))).collect()
        }
        _ => Vec::new(),
    };
    below.into_iter().chain([path]).collect()
}

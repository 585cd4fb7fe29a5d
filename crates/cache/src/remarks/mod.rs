//! Fields of an object that count as something else than was probably meant: each is reported once, and no job waits
//! because of it.
mod annotations;

use k8s_openapi::api::resource::v1::{DeviceClass, DeviceSelector, ResourceClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::{names, v1beta1};
use phalanx_cel::{Budget, Expression};
use phalanx_resource::Quantity;

use self::annotations::{OF_GROUPS, OF_PODS, Of, PREEMPTABLE, odd};
use crate::pod::Marks;
use crate::{Invalid, keys, slim, slips};

/// Keys that a pod without a PodGroup has, and those that are read in their place: annotations.
const MEANT: [(&str, Of, &str); 6] = [
    (names::VOLCANO_GROUP_NAME_ANNOTATION, Of::Annotations, names::GROUP_NAME_ANNOTATION),
    (names::VOLCANO_GROUP_NAME_ANNOTATION, Of::Labels, names::GROUP_NAME_ANNOTATION),
    (names::GROUP_NAME_ANNOTATION, Of::Labels, names::GROUP_NAME_ANNOTATION),
    (names::JOB_QUEUE_NAME, Of::Annotations, names::QUEUE_NAME_ANNOTATION),
    (names::JOB_QUEUE_NAME, Of::Labels, names::QUEUE_NAME_ANNOTATION),
    (names::QUEUE_NAME_ANNOTATION, Of::Labels, names::QUEUE_NAME_ANNOTATION),
];

/// Of a pod.
pub fn of_pod(pod: &slim::Pod) -> Vec<Invalid> {
    let marks = Marks(&pod.metadata);
    let mut found = odd(OF_PODS, &pod.metadata);
    found.extend(keys::misspelt(&pod.metadata));
    if marks.annotation(names::GROUP_NAME_ANNOTATION).is_none() {
        found.extend(of_budgets(&pod.metadata));
        found.extend(of_no_group(&pod.metadata));
    }
    if marks.annotation(names::RESOURCE_STRATEGY_WEIGHT).is_some()
        && marks.annotation(names::RESOURCE_STRATEGY_SCORING_TYPE).is_none()
    {
        found.push(beside(
            names::RESOURCE_STRATEGY_WEIGHT,
            "found it without",
            names::RESOURCE_STRATEGY_SCORING_TYPE,
        ));
    }
    let gate = pod.spec.scheduling_gates.iter().any(|gate| gate.name == names::QUEUE_ALLOCATION_GATE);
    found.extend(slips::of_pod(&pod.spec));
    if gate && marks.annotation(names::QUEUE_ALLOCATION_GATE) != Some("true") {
        let problem = format!(
            "found {}, expected the annotation of this name too; the gate is not removed",
            names::QUEUE_ALLOCATION_GATE
        );
        found.push(Invalid { field: "spec.schedulingGates".to_owned(), problem });
    }
    found
}

/// For a pod without a PodGroup: fields that would put it into a PodGroup or a queue if they stood elsewhere.
fn of_no_group(metadata: &ObjectMeta) -> Vec<Invalid> {
    let marks = Marks(metadata);
    let elsewhere = MEANT.iter().filter(|(.., meant)| marks.annotation(meant).is_none());
    let told = |(key, of, meant): &(&str, Of, &str)| {
        let (field, text) = of.value(metadata, key)?;
        let problem = format!("found {text:?}, which is not read here, expected the annotation {meant}");
        Some(Invalid { field: format!("metadata.{field}.{key}"), problem })
    };
    let mut found: Vec<Invalid> = elsewhere.filter_map(told).collect();
    for key in [names::GROUP_MIN_MEMBER_ANNOTATION, names::GROUP_MIN_RESOURCES_ANNOTATION] {
        if let Some(text) = marks.annotation(key) {
            let problem = format!(
                "found {text:?}, which a PodGroup controller reads on the owner of pods, and nothing on a pod; the pod is a gang of \
                 one, expected a PodGroup, and {} with its name",
                names::GROUP_NAME_ANNOTATION
            );
            found.push(Invalid { field: format!("metadata.annotations.{key}"), problem });
        }
    }
    found
}

/// Of this least number of members on the owner of pods that are in no PodGroup, where no PodGroup controller is at
/// work.
pub fn of_owner(minimum: &str) -> Invalid {
    let problem = format!(
        "found {minimum:?}, for which a PodGroup controller makes a PodGroup (phalanx controllers), and none was seen; each pod is a \
         gang of one, expected a PodGroup, and {} with its name in the template",
        names::GROUP_NAME_ANNOTATION
    );
    Invalid { field: format!("metadata.annotations.{}", names::GROUP_MIN_MEMBER_ANNOTATION), problem }
}

/// Of a PodGroup.
pub fn of_group(group: &v1beta1::PodGroup) -> Vec<Invalid> {
    let mut found = odd(&[PREEMPTABLE], &group.metadata);
    found.extend(keys::misspelt(&group.metadata));
    found.extend(of_budgets(&group.metadata));
    found.extend(of_roles(group));
    found.extend(of_queue_names(group));
    if let Some(text) = Marks(&group.metadata).annotation(names::GROUP_MIN_MEMBER_ANNOTATION)
        && text.parse() != Ok(group.spec.min_member)
    {
        let problem = format!("found {text:?} on a PodGroup, of which spec.minMember counts");
        let field = format!("metadata.annotations.{}", names::GROUP_MIN_MEMBER_ANNOTATION);
        found.push(Invalid { field, problem });
    }
    found.extend(group.spec.min_resources.iter().flat_map(|list| broken("spec.minResources", list)));
    found
}

/// The queue of a PodGroup is in its spec only. Controllers copy marks of their objects to it beside that.
fn of_queue_names(group: &v1beta1::PodGroup) -> impl Iterator<Item = Invalid> {
    let places = [names::QUEUE_NAME_ANNOTATION, names::JOB_QUEUE_NAME]
        .into_iter()
        .flat_map(|key| [Of::Annotations, Of::Labels].map(|of| (key, of)));
    places.filter_map(|(key, of)| {
        let (field, queue) = of.value(&group.metadata, key)?;
        let problem = format!(
            "found {queue:?}, which is not read here, expected spec.queue, which is {:?}",
            group.spec.queue
        );
        (*queue != group.spec.queue).then(|| Invalid { field: format!("metadata.{field}.{key}"), problem })
    })
}

/// As in Volcano, minimums of roles count for a gang that has to have them all. Volcano's job controller writes the
/// number of pods where a task of a Job says none, so there it means nothing.
fn of_roles(group: &v1beta1::PodGroup) -> Option<Invalid> {
    let v1beta1::PodGroup { metadata, spec, .. } = group;
    let mut owners = metadata.owner_references.iter().flatten();
    if owners.any(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch.volcano.sh/")) {
        return None;
    }
    let sum: i64 = spec.min_task_member.values().map(|count| i64::from(*count)).sum();
    (sum > i64::from(spec.min_member)).then(|| {
        let problem = format!(
            "found {sum} in all, more than minMember {}, so it is not looked at, as in Volcano; expected a minMember of {sum} or more",
            spec.min_member
        );
        Invalid { field: "spec.minTaskMember".to_owned(), problem }
    })
}

/// Of a PodDisruptionBudget.
pub fn of_budget(budget: &slim::PodDisruptionBudget) -> Vec<Invalid> {
    let missing = budget.spec.selector.is_none();
    let problem = "missing, so it protects no pod, expected one such as matchLabels, or {} for all pods";
    let told = missing.then(|| Invalid { field: "spec.selector".to_owned(), problem: problem.to_owned() });
    told.into_iter().collect()
}

/// Of a Namespace: the queue that Volcano's admission webhook gives to PodGroups that name none.
pub fn of_namespace(namespace: &slim::Namespace) -> Vec<Invalid> {
    let queue = Marks(&namespace.metadata).annotation(names::QUEUE_NAME_ANNOTATION);
    let told = |queue: &str| Invalid {
        field: format!("metadata.annotations.{}", names::QUEUE_NAME_ANNOTATION),
        problem: format!(
            "found {queue:?}, which is not read here, expected it on pods, or spec.queue of PodGroups"
        ),
    };
    queue.map(told).into_iter().collect()
}

/// Of a queue.
pub fn of_queue(queue: &v1beta1::Queue) -> Vec<Invalid> {
    let v1beta1::QueueSpec { capability, deserved, guarantee, .. } = &queue.spec;
    let mut found = keys::misspelt(&queue.metadata);
    found.extend(broken("spec.capability", capability));
    found.extend(broken("spec.deserved", deserved));
    found.extend(broken("spec.guarantee.resource", &guarantee.resource));
    found
}

/// Requests for a part of a resource that is given as a whole only.
fn broken(place: &str, list: &v1beta1::ResourceList) -> Vec<Invalid> {
    let of_quotas = |name: &str| ["requests.", "limits.", "count/"].iter().any(|one| name.starts_with(one));
    let whole = |name: &str| name == "pods" || (name.contains('/') && !of_quotas(name));
    let parts = list.iter().filter_map(|(name, quantity)| {
        let amount = quantity.0.parse::<Quantity>().ok().filter(|_| whole(name))?;
        let problem = format!("found {}, expected a whole number: pods have it whole", quantity.0);
        (amount.milli() % 1_000 != 0).then(|| Invalid { field: format!("{place}.{name}"), problem })
    });
    parts.collect()
}

/// Of a device class: expressions that select nothing, for they cannot be read, and a resource by whose name its
/// devices are not given. Told though no claim names the class.
pub fn of_device_class(class: &DeviceClass) -> Vec<Invalid> {
    let mut budget = Budget::new(STEPS_MAX);
    let mut found =
        unreadable("spec", class.spec.selectors.as_deref(), "no device is of this class", &mut budget);
    found.extend(class.spec.extended_resource_name.as_ref().map(|name| Invalid {
        field: "spec.extendedResourceName".to_owned(),
        problem: format!(
            "found {name:?}, which is not read: pods that request it get no device of this class, expected claims"
        ),
    }));
    found
}

/// The same of what a claim asks for, at this place of the claim or of its template. Told though no pod names it.
pub fn of_claim(place: &str, spec: &ResourceClaimSpec) -> Vec<Invalid> {
    const WHY: &str = "no device is good for it";
    let requests = spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten()).enumerate();
    let lists = requests.flat_map(|(at, request)| {
        let place = format!("{place}.devices.requests[{at}]");
        let exactly =
            request.exactly.as_ref().map(|it| (format!("{place}.exactly"), it.selectors.as_deref()));
        let available = request.first_available.iter().flatten().enumerate();
        let available = available
            .map(move |(at, one)| (format!("{place}.firstAvailable[{at}]"), one.selectors.as_deref()));
        exactly.into_iter().chain(available)
    });
    let mut budget = Budget::new(STEPS_MAX);
    lists.flat_map(|(place, selectors)| unreadable(&place, selectors, WHY, &mut budget)).collect()
}

/// Steps in which expressions of one object are read for remarks, on the thread of all watches: some milliseconds.
const STEPS_MAX: u64 = 500_000;

fn unreadable(
    place: &str,
    selectors: Option<&[DeviceSelector]>,
    why: &str,
    budget: &mut Budget,
) -> Vec<Invalid> {
    let selectors = selectors.into_iter().flatten().enumerate();
    let unreadable = selectors.filter_map(|(at, selector)| {
        let text = &selector.cel.as_ref()?.expression;
        let error = if budget.left() > 0 { Expression::parse(text, budget).err()? } else { return None };
        let field = format!("{place}.selectors[{at}].cel.expression");
        Some(Invalid { field, problem: format!("{error}; {why}") })
    });
    unreadable.collect()
}

/// Remarks on `sla-waiting-time` and on the disruption budget of a job.
fn of_budgets(metadata: &ObjectMeta) -> Vec<Invalid> {
    let mut found = odd(OF_GROUPS, metadata);
    let marks = Marks(metadata);
    let has = |key| marks.annotation(key).is_some();
    if has(names::JDB_MIN_AVAILABLE) && has(names::JDB_MAX_UNAVAILABLE) {
        found.push(beside(names::JDB_MAX_UNAVAILABLE, "found it beside", names::JDB_MIN_AVAILABLE));
    }
    found
}

fn beside(key: &str, how: &str, other: &str) -> Invalid {
    Invalid {
        field: format!("metadata.annotations.{key}"),
        problem: format!("{how} {other}; it has no effect"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(metadata: &Value) -> Vec<String> {
        let pod: slim::Pod = crate::decode(&json!({"metadata": metadata})).expect("a pod");
        of_pod(&pod).iter().map(ToString::to_string).collect()
    }

    /// The annotation, and what an invalid value counts as; `None` where nothing is reported.
    #[test]
    fn a_remark_says_as_what_a_wrong_annotation_counts() {
        let scoring = names::RESOURCE_STRATEGY_SCORING_TYPE;
        for (key, value, expected) in [
            (names::PREEMPTABLE, "true", ""),
            (names::PREEMPTABLE, "maybe", "expected true or false; it counts as false"),
            (names::TASK_PRIORITY, "high", "expected an integer; spec.priority counts"),
            (names::TASK_INDEX, "7", ""),
            (names::TASK_INDEX, "-1", "the number behind the last dash of the pod's name counts"),
            (names::COOLDOWN_TIME, "10m", ""),
            (names::COOLDOWN_TIME, "0", ""),
            (names::COOLDOWN_TIME, "", ""),
            (names::COOLDOWN_TIME, "soon", "expected a duration such as 10m; the pod is not protected"),
            (names::COOLDOWN_TIME, "10", "expected a duration such as 10m; the pod is not protected"),
            (names::COOLDOWN_TIME, "-5s", "expected a duration such as 10m; the pod is not protected"),
            (names::REVOCABLE_ZONE, "*", ""),
            (names::REVOCABLE_ZONE, "rz1", "expected *; the pod is kept off nodes that are lent"),
            (scoring, "MostAllocated", ""),
            (scoring, "Most", "expected LeastAllocated or MostAllocated; all nodes are alike for the pod"),
            (names::QUEUE_ALLOCATION_GATE, "false", ""),
            (names::QUEUE_ALLOCATION_GATE, "yes", "expected true or false; it counts as false"),
            (names::NETWORK_TOPOLOGY_MODE, "Soft", ""),
            (names::NETWORK_TOPOLOGY_MODE, "sofft", "expected hard or soft; it counts as hard"),
            (names::NETWORK_TOPOLOGY_HIGHEST_TIER, "2", ""),
            (
                names::NETWORK_TOPOLOGY_HIGHEST_TIER,
                "rack",
                "it counts as missing, and the pods may be in any HyperNode",
            ),
            (names::SLA_WAITING_TIME, "1h30m", ""),
            (names::SLA_WAITING_TIME, "0s", "expected a duration above 0 such as 30m; it counts as missing"),
            (
                names::SLA_WAITING_TIME,
                "99999999999999h",
                "such as 30m, at most 2562047h; it counts as missing",
            ),
            (names::BARE_SLA_WAITING_TIME, "soon", "expected a duration above 0 such as 30m"),
            (names::JDB_MIN_AVAILABLE, "50%", ""),
            (names::JDB_MIN_AVAILABLE, "half", "it counts as 0"),
            (names::JDB_MAX_UNAVAILABLE, "-3", "it counts as 0"),
        ] {
            let found = of(&json!({"annotations": {key: value}}));
            let said = found.first().map(String::as_str).unwrap_or_default();
            let field = format!("metadata.annotations.{key}: found {value:?}, ");
            assert_eq!((said.is_empty(), found.len() < 2), (expected.is_empty(), true), "{key} {found:?}");
            assert!(said.is_empty() || said.starts_with(&field) && said.contains(expected), "{found:?}");
        }
    }

    #[test]
    fn weights_of_resources_are_integers_in_json_and_need_a_scoring_type() {
        let (scoring, weight) = (names::RESOURCE_STRATEGY_SCORING_TYPE, names::RESOURCE_STRATEGY_WEIGHT);
        let with = |text: &str| of(&json!({"annotations": {scoring: "LeastAllocated", weight: text}}));
        for good in ["{}", "{\"cpu\": 2, \"nvidia.com/gpu\": 5}", ""] {
            assert_eq!(with(good), [""; 0], "{good}");
        }
        for bad in ["{", "[1]", "{\"cpu\": \"2\"}", "{\"cpu\": 1.5}", "cpu=2"] {
            let expected = format!(
                "metadata.annotations.{weight}: found {bad:?}, expected a JSON object of integers; all nodes are alike for the pod"
            );
            assert_eq!(with(bad), [expected]);
        }
        let alone = of(&json!({"annotations": {weight: "{\"cpu\": 2}"}}));
        assert_eq!(
            alone,
            [format!("metadata.annotations.{weight}: found it without {scoring}; it has no effect")]
        );
    }

    #[test]
    fn of_a_label_and_an_annotation_the_one_that_counts_is_remarked_on() {
        let (cooldown, preemptable) = (names::COOLDOWN_TIME, names::PREEMPTABLE);
        for (labels, annotations, expected) in [
            (json!({cooldown: "soon"}), json!({cooldown: "1m"}), Some("metadata.labels.")),
            (json!({cooldown: "1m"}), json!({cooldown: "soon"}), None),
            (json!({cooldown: ""}), json!({cooldown: "soon"}), Some("metadata.annotations.")),
            (json!({preemptable: "maybe"}), json!({preemptable: "true"}), None),
            (json!({preemptable: "maybe"}), json!({}), Some("metadata.labels.")),
        ] {
            let found = of(&json!({"labels": labels, "annotations": annotations}));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(
                found.iter().all(|one| expected.is_some_and(|field| one.starts_with(field))),
                "{found:?}"
            );
        }
    }

    /// The annotations that a pod without a PodGroup may have in place of fields of the PodGroup, and what is reported
    /// of each.
    #[test]
    fn a_key_that_nothing_reads_is_remarked_on_with_the_key_that_is_read() {
        let group = "expected the annotation scheduling.k8s.io/group-name";
        let queue = "expected the annotation scheduling.volcano.sh/queue-name";
        for (field, key, expected) in [
            ("annotations", "scheduling.k8s.io/group-name", ""),
            ("labels", "scheduling.k8s.io/group-name", group),
            ("annotations", "scheduling.volcano.sh/group-name", group),
            ("annotations", "scheduling.volcano.sh/queue-name", ""),
            ("labels", "scheduling.volcano.sh/queue-name", queue),
            ("annotations", "volcano.sh/queue-name", queue),
            (
                "annotations",
                "scheduling.volcano.sh/group-min-member",
                "the pod is a gang of one, expected a PodGroup",
            ),
            ("annotations", "volcano.sh/preemtable", "(did you mean volcano.sh/preemptable?)"),
            ("labels", "volcano.sh/task-spc", "(did you mean volcano.sh/task-spec?)"),
            ("annotations", "volcano.sh/numa-topology-policy", "expected none; NUMA nodes are not looked at"),
        ] {
            let found = of(&json!({field: {key: "2"}}));
            let field = format!("metadata.{field}.{key}: ");
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
            assert!(found.iter().all(|one| one.starts_with(&field) && one.contains(expected)), "{found:?}");
        }
        let in_group = json!({"annotations": {"scheduling.k8s.io/group-name": "g", "volcano.sh/queue-name": "q"},
            "labels": {"scheduling.volcano.sh/group-name": "g"}});
        assert_eq!(of(&in_group), [""; 0], "Volcano's job controller writes these too");
    }

    #[test]
    fn fields_of_podgroups_and_queues_that_have_no_effect_are_remarked_on() {
        let group = |value: Value| {
            let group: v1beta1::PodGroup = crate::decode(&value).expect("a PodGroup");
            of_group(&group).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let roles = |owner: &str| {
            group(
                json!({"metadata": {"ownerReferences": [{"apiVersion": owner, "kind": "Job", "name": "j", "uid": "u"}]},
                "spec": {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 3}}}),
            )
        };
        let expected = "spec.minTaskMember: found 4 in all, more than minMember 3, so it is not looked at, as in Volcano; expected a minMember of 4 or more";
        assert_eq!(roles("batch/v1"), [expected]);
        assert_eq!(roles("batch.volcano.sh/v1alpha1"), [""; 0]);
        assert_eq!(
            group(json!({"spec": {"minMember": 4, "minTaskMember": {"ps": 1, "worker": 3}}})),
            [""; 0]
        );
        let named = |spec: Value| {
            let metadata = json!({"annotations": {"scheduling.volcano.sh/queue-name": "q"}, "labels": {"volcano.sh/queue-name": "q"}});
            group(json!({"metadata": metadata, "spec": spec}))
        };
        let expected = |field: &str| {
            format!(
                "metadata.{field}/queue-name: found \"q\", which is not read here, expected spec.queue, which is \"default\""
            )
        };
        assert_eq!(
            named(json!({})),
            ["annotations.scheduling.volcano.sh", "labels.volcano.sh"].map(expected)
        );
        assert_eq!(named(json!({"queue": "q"})), [""; 0], "a copy");
        let annotated = json!({"metadata": {"annotations": {"scheduling.volcano.sh/group-min-member": "3"}},
            "spec": {"minMember": 1, "minResources": {"cpu": "500m", "a.b/gpu": "1500m", "count/x.y": "500m"}}});
        let found = group(annotated);
        let expected = [
            "metadata.annotations.scheduling.volcano.sh/group-min-member: found \"3\" on a PodGroup, of which spec.minMember counts",
            "spec.minResources.a.b/gpu: found 1500m, expected a whole number: pods have it whole",
        ];
        assert_eq!(found, expected);
        let spec = json!({"capability": {"a.b/gpu": "500m", "cpu": "500m"}, "deserved": {"pods": "1.5"},
            "guarantee": {"resource": {"a.b/gpu": 1}}});
        let queue = json!({"metadata": {"annotations": {"volcano.sh/hierarchi": "a"}}, "spec": spec});
        let queue: v1beta1::Queue = crate::decode(&queue).expect("a queue");
        let found: Vec<String> = of_queue(&queue).iter().map(|one| one.field.clone()).collect();
        assert_eq!(
            found,
            ["metadata.annotations.volcano.sh/hierarchi", "spec.capability.a.b/gpu", "spec.deserved.pods"]
        );
    }

    #[test]
    fn a_device_class_whose_expression_cannot_be_read_is_remarked_on() {
        let of = |text: &str| {
            let class = json!({"spec": {"selectors": [{"cel": {"expression": "true"}}, {"cel": {"expression": text}}]}});
            let class: DeviceClass = crate::decode(&class).expect("a class");
            of_device_class(&class).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("device.driver == 'a'"), [""; 0]);
        let found = of("device.driver ==");
        assert!(
            found[0].starts_with("spec.selectors[1].cel.expression: ")
                && found[0].ends_with("; no device is of this class"),
            "{found:?}"
        );
    }

    #[test]
    fn jdb_max_unavailable_has_no_effect_beside_jdb_min_available() {
        let annotations = json!({names::JDB_MIN_AVAILABLE: "1", names::JDB_MAX_UNAVAILABLE: "1"});
        let found = of(&json!({"annotations": annotations}));
        let expected =
            "volcano.sh/jdb-max-unavailable: found it beside volcano.sh/jdb-min-available; it has no effect";
        assert_eq!(found, [format!("metadata.annotations.{expected}")]);
        let group = "scheduling.k8s.io/group-name";
        let mut annotations = annotations;
        annotations[group] = "g".into();
        assert_eq!(of(&json!({"annotations": annotations})), [""; 0], "they are read on the PodGroup then");
    }
}

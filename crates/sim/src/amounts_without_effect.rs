//! Amounts of resources that no node can have and no pod can request, which have no effect.
use serde_json::Value;

use crate::kind::Kind;

/// Fields with amounts of nodes, PodGroups and queues.
const LISTS: [(Kind, &str); 5] = [
    (Kind::Node, "status.allocatable"),
    (Kind::PodGroup, "spec.minResources"),
    (Kind::Queue, "spec.capability"),
    (Kind::Queue, "spec.deserved"),
    (Kind::Queue, "spec.guarantee.resource"),
];

/// The remark on each resource.
pub(crate) fn problem(kind: Kind) -> String {
    let nobody = if kind == Kind::Node { "pod can ask for" } else { "node can have" };
    format!(
        "ignored, for no {nobody} a resource of this name, expected cpu, memory, ephemeral-storage, pods, \
         hugepages-SIZE or a name with a domain, such as nvidia.com/gpu"
    )
}

/// The paths of such resources in an object.
pub(crate) fn find(kind: Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (_, list) in LISTS.iter().filter(|(of, _)| *of == kind) {
        let names = object.pointer(&format!("/{}", list.replace('.', "/"))).and_then(Value::as_object);
        let names = names.into_iter().flat_map(|names| names.keys());
        let counts = |name: &str| is_of_nodes(name) || (kind == Kind::PodGroup && is_of_quotas(name));
        let idle = names.filter(|name| !counts(name));
        found.extend(idle.map(|name| format!("{list}.{name}")));
    }
    found
}

fn is_of_nodes(name: &str) -> bool {
    let basic = matches!(name, "cpu" | "memory" | "pods" | "ephemeral-storage");
    basic || ((name.contains('/') || is_counted(name)) && !is_of_quotas(name))
}

fn is_counted(name: &str) -> bool {
    ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Volcano's job controller writes resource names of ResourceQuotas into minResources.
fn is_of_quotas(name: &str) -> bool {
    ["requests.", "limits.", "count/"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_names_that_no_node_can_have_are_found() {
        for (kind, spec, expected) in [
            (
                Kind::PodGroup,
                json!({"minResources": {"cpu": 1, "nvidia.com/gpu": 1, "requests.cpu": 1, "count/pods": 1, "gpu": 1}}),
                vec!["spec.minResources.gpu"],
            ),
            (
                Kind::Queue,
                json!({"capability": {"pods": 1, "hugepages-2Mi": 1, "gpu": 3, "foo bar": 2},
                    "deserved": {"requests.cpu": 1}, "guarantee": {"resource": {"mem": 1, "a.b/c": 1}}}),
                vec![
                    "spec.capability.foo bar",
                    "spec.capability.gpu",
                    "spec.deserved.requests.cpu",
                    "spec.guarantee.resource.mem",
                ],
            ),
            (Kind::Queue, json!({"capability": null}), vec![]),
            (Kind::Node, json!({}), vec!["status.allocatable.cpus"]),
            (Kind::Pod, json!({"minResources": {"gpu": 1}}), vec![]),
        ] {
            assert_eq!(
                find(kind, &json!({"spec": spec, "status": {"allocatable": {"cpus": 4, "pods": 1}}})),
                expected,
                "{spec}"
            );
        }
    }
}

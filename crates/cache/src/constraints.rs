//! Where a pod may run.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};
use phalanx_cluster::event::{
    Constraints, HostPort, NodeTerm, Operator, Requirement, TaintEffect, Toleration, TolerationOperator,
};

use crate::intern::Interner;
use crate::invalid::{At, Invalid};
use crate::pod::Marks;
use crate::qualified::check_key;
use crate::{pod_rules, slim};

/// The only field that Kubernetes lets a node affinity select on.
const NODE_NAME_FIELD: &str = "metadata.name";

/// All that restricts or prefers nodes for a pending pod, except its claims.
pub(crate) fn all(
    spec: &slim::PodSpec,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Constraints, Invalid> {
    let affinity = &spec.affinity.node_affinity;
    Ok(Constraints {
        node_selector: pairs(&spec.node_selector, interner),
        node_affinity: required(affinity, interner).at("affinity.nodeAffinity")?,
        preferred_nodes: preferred(affinity, interner).at("affinity.nodeAffinity")?,
        tolerations: tolerations(spec, interner).at("tolerations")?,
        host_ports: host_ports(spec, interner)?,
        pod_rules: pod_rules::all(spec, marks, interner)?,
        strategy: marks.strategy(interner),
        images: images(spec, interner),
        volumes: Vec::new(),
        disks: Vec::new(),
        revocable: marks.revocable(),
        scheduler: None,
        unreadable: None,
    })
}

/// The image of each container as nodes list it: an image without a tag has the tag `latest`. Empty when no container
/// has one.
fn images(spec: &slim::PodSpec, interner: &mut Interner) -> Vec<Arc<str>> {
    let containers = || spec.init_containers.iter().chain(&spec.containers);
    if containers().all(|container| container.image.is_none()) {
        return Vec::new();
    }
    let name = |container: &slim::Container| match container.image.as_deref() {
        Some(name) if name.rfind(':') <= name.rfind('/') => interner.string(&format!("{name}:latest")),
        name => interner.string(name.unwrap_or_default()),
    };
    let mut images: Vec<_> = containers().map(name).collect();
    images.sort_unstable();
    images
}

/// What matters of a pod that another scheduler places, or that has a node: its host ports and its pod affinity.
pub(crate) fn of_placed(
    spec: &slim::PodSpec,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Constraints, Invalid> {
    let host_ports = host_ports(spec, interner)?;
    Ok(Constraints {
        host_ports,
        pod_rules: pod_rules::of_placed(spec, marks, interner),
        ..Constraints::default()
    })
}

/// Sorted by key, as the map is.
pub(crate) fn pairs(
    map: &std::collections::BTreeMap<String, String>,
    interner: &mut Interner,
) -> Vec<(Arc<str>, Arc<str>)> {
    map.iter().map(|(key, value)| (interner.string(key), interner.string(value))).collect()
}

pub(crate) fn taint_effect(text: &str) -> Result<TaintEffect, Invalid> {
    match text {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Ok(TaintEffect::PreferNoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        _ => unexpected(text, "NoSchedule, PreferNoSchedule or NoExecute").at("effect"),
    }
}

pub(crate) fn unexpected<T>(found: &str, expected: &str) -> Result<T, Invalid> {
    Err(Invalid::new(format!("{found:?} is unknown, expected {expected}")))
}

fn required(affinity: &NodeAffinity, interner: &mut Interner) -> Result<Option<Vec<NodeTerm>>, Invalid> {
    let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution else {
        return Ok(None);
    };
    let terms = terms(&selector.node_selector_terms, interner);
    terms.at("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms").map(Some)
}

pub(crate) fn terms(list: &[NodeSelectorTerm], interner: &mut Interner) -> Result<Vec<NodeTerm>, Invalid> {
    if list.is_empty() {
        return Err(Invalid::new("found none, which matches no node, expected at least one term"));
    }
    list.iter().enumerate().map(|(i, one)| term(one, interner).item(i)).collect()
}

fn preferred(affinity: &NodeAffinity, interner: &mut Interner) -> Result<Vec<(i32, NodeTerm)>, Invalid> {
    let terms = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    let terms: Result<Vec<_>, _> = terms
        .enumerate()
        .map(|(i, one)| {
            let weight = weight(one.weight).at("weight").item(i)?;
            Ok((weight, term(&one.preference, interner).at("preference").item(i)?))
        })
        .collect();
    terms.at("preferredDuringSchedulingIgnoredDuringExecution")
}

pub(crate) fn weight(weight: i32) -> Result<i32, Invalid> {
    if (1..=100).contains(&weight) {
        return Ok(weight);
    }
    Err(Invalid::new(format!("{weight} is out of range, expected 1 to 100")))
}

pub(crate) fn term(term: &NodeSelectorTerm, interner: &mut Interner) -> Result<NodeTerm, Invalid> {
    let labels = term.match_expressions.iter().flatten().enumerate();
    let labels = labels.map(|(i, one)| requirement(one, interner).item(i));
    let labels = labels.collect::<Result<_, _>>().at("matchExpressions")?;
    let fields = term.match_fields.iter().flatten().enumerate();
    let fields = fields.map(|(i, one)| field_requirement(one, interner).item(i));
    Ok(NodeTerm { labels, fields: fields.collect::<Result<_, _>>().at("matchFields")? })
}

fn field_requirement(
    from: &NodeSelectorRequirement,
    interner: &mut Interner,
) -> Result<Requirement, Invalid> {
    if from.key != NODE_NAME_FIELD {
        return unexpected(&from.key, NODE_NAME_FIELD).at("key");
    }
    let requirement = requirement(from, interner)?;
    match (requirement.operator, requirement.values.len()) {
        (Operator::In | Operator::NotIn, 1) => Ok(requirement),
        (Operator::In | Operator::NotIn, _) => Err(Invalid::new("expected one value")).at("values"),
        _ => unexpected(&from.operator, "In or NotIn").at("operator"),
    }
}

fn requirement(from: &NodeSelectorRequirement, interner: &mut Interner) -> Result<Requirement, Invalid> {
    check_key(&from.key).at("key")?;
    let operator = operator(&from.operator).at("operator")?;
    let values = from.values.as_deref().unwrap_or_default();
    check_values(operator, values).at("values")?;
    Ok(Requirement {
        key: interner.string(&from.key),
        operator,
        values: values.iter().map(|value| interner.string(value)).collect(),
    })
}

fn operator(text: &str) -> Result<Operator, Invalid> {
    Ok(match text {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return unexpected(text, "In, NotIn, Exists, DoesNotExist, Gt or Lt"),
    })
}

/// The API server's rules on the number of values. Whether a bound is an integer is checked where the term is matched.
fn check_values(operator: Operator, values: &[String]) -> Result<(), Invalid> {
    let problem = match (operator, values) {
        (Operator::In | Operator::NotIn, []) => "empty, expected at least one value".to_owned(),
        (Operator::Exists | Operator::DoesNotExist, [_, ..]) => "expected no values".to_owned(),
        (Operator::Gt | Operator::Lt, values) if values.len() != 1 => "expected one integer".to_owned(),
        _ => return Ok(()),
    };
    Err(Invalid::new(problem))
}

fn tolerations(spec: &slim::PodSpec, interner: &mut Interner) -> Result<Vec<Toleration>, Invalid> {
    spec.tolerations.iter().enumerate().map(|(i, one)| toleration(one, interner).item(i)).collect()
}

fn toleration(
    from: &k8s_openapi::api::core::v1::Toleration,
    interner: &mut Interner,
) -> Result<Toleration, Invalid> {
    let operator = match from.operator.as_deref().unwrap_or_default() {
        "Exists" => TolerationOperator::Exists,
        "" | "Equal" => TolerationOperator::Equal,
        "Gt" => TolerationOperator::Gt,
        "Lt" => TolerationOperator::Lt,
        other => return unexpected(other, "Equal, Exists, Gt or Lt").at("operator"),
    };
    let key = from.key.as_deref().unwrap_or_default();
    if key.is_empty() && operator != TolerationOperator::Exists {
        return Err(Invalid::new("without a key it must be Exists")).at("operator");
    }
    let effect = from.effect.as_deref().filter(|effect| !effect.is_empty());
    Ok(Toleration {
        key: interner.string(key),
        operator,
        value: interner.string(from.value.as_deref().unwrap_or_default()),
        effect: effect.map(taint_effect).transpose()?,
    })
}

/// Ports of the node that containers and sidecars take, sorted, none twice.
fn host_ports(spec: &slim::PodSpec, interner: &mut Interner) -> Result<Vec<HostPort>, Invalid> {
    let mut ports = Vec::new();
    for (i, container) in spec.containers.iter().enumerate() {
        take_ports(container, spec.host_network, &mut ports, interner).item(i).at("containers")?;
    }
    let sidecars = spec.init_containers.iter().enumerate().filter(|(_, init)| init.is_sidecar());
    for (i, container) in sidecars {
        take_ports(container, spec.host_network, &mut ports, interner).item(i).at("initContainers")?;
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

fn take_ports(
    container: &slim::Container,
    host_network: bool,
    ports: &mut Vec<HostPort>,
    interner: &mut Interner,
) -> Result<(), Invalid> {
    for (i, port) in container.ports.iter().enumerate() {
        ports.extend(host_port(port, host_network, interner).item(i).at("ports")?);
    }
    Ok(())
}

fn host_port(
    from: &slim::ContainerPort,
    host_network: bool,
    interner: &mut Interner,
) -> Result<Option<HostPort>, Invalid> {
    // As the API server defaults it: on the host's network every container port is the host's.
    let (field, port) = match from.host_port {
        0 if host_network => ("containerPort", from.container_port),
        0 => return Ok(None),
        port => ("hostPort", port),
    };
    let Some(port) = u16::try_from(port).ok().filter(|port| *port > 0) else {
        return Err(Invalid::new(format!("{port} is no port, expected 1 to 65535"))).at(field);
    };
    let protocol = from.protocol.as_deref().unwrap_or("TCP");
    if !["TCP", "UDP", "SCTP"].contains(&protocol) {
        return unexpected(protocol, "TCP, UDP or SCTP").at("protocol");
    }
    let ip = from.host_ip.as_deref().unwrap_or("0.0.0.0");
    Ok(Some(HostPort { ip: interner.string(ip), protocol: interner.string(protocol), port }))
}

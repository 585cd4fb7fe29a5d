//! The requests of a pod, with the defaults of the API server.

use std::sync::Arc;

use phalanx_cluster::event::{PodRequests, Resources};
use phalanx_resource::{Quantity, QuantityError};

use crate::intern::Interner;
use crate::invalid::{At, Invalid};
use crate::slim;

/// The amounts of a list; none may be negative.
pub(crate) fn resources(list: &slim::ResourceList, interner: &mut Interner) -> Result<Resources, Invalid> {
    list.iter().map(|(name, amount)| entry(name, amount.0.clone(), interner)).collect()
}

/// One amount by name.
pub(crate) fn entry(
    name: &str,
    parsed: Result<Quantity, QuantityError>,
    interner: &mut Interner,
) -> Result<(Arc<str>, Quantity), Invalid> {
    let quantity = parsed.map_err(|error| Invalid::new(error.to_string())).at(name)?;
    if quantity.is_negative() {
        return Err(Invalid::new(format!("{quantity} is negative, expected 0 or more"))).at(name);
    }
    Ok((interner.string(name), quantity))
}

/// The requests of a pod by container; limits stand in for missing requests, and a container that
/// is being resized counts with the most it may have.
pub(crate) fn of_pod(pod: &slim::Pod, interner: &mut Interner) -> Result<Arc<PodRequests>, Invalid> {
    let slim::Pod { spec, status, .. } = pod;
    let mut requests = PodRequests {
        overhead: resources(&spec.overhead, interner).at("spec.overhead")?,
        ..PodRequests::default()
    };
    let resize = Resize { refused: is_refused(status), statuses: &status.container_statuses };
    for (i, container) in spec.containers.iter().enumerate() {
        let own = of_container(container, interner).item(i).at("spec.containers")?;
        requests.containers.push(resize.apply(container, own, interner).at("status")?);
    }
    let resize = Resize { statuses: &status.init_container_statuses, ..resize };
    for (i, container) in spec.init_containers.iter().enumerate() {
        let mut own = of_container(container, interner).item(i).at("spec.initContainers")?;
        if container.is_sidecar() {
            own = resize.apply(container, own, interner).at("status")?;
        }
        requests.init.push((own, container.is_sidecar()));
    }
    requests.pod_level = pod_level(spec, &requests, interner).at("spec.resources")?;
    for (i, container) in spec.containers.iter().enumerate() {
        requests.limits.extend(limits(container, interner).item(i).at("spec.containers")?);
    }
    Ok(interner.requests(requests))
}

/// The measured limits of a container; `None` for a container without limits.
fn limits(container: &slim::Container, interner: &mut Interner) -> Result<Option<Resources>, Invalid> {
    let measured =
        container.resources.limits.iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    let limits: Result<Resources, Invalid> =
        measured.map(|(name, limit)| entry(name, limit.0.clone(), interner)).collect();
    Ok(Some(limits.at("resources.limits")?).filter(|limits| !limits.is_empty()))
}

fn of_container(container: &slim::Container, interner: &mut Interner) -> Result<Resources, Invalid> {
    with_limits(&container.resources, |_| true, interner).at("resources")
}

/// The requests, and those limits that have none and for which `defaults` holds.
fn with_limits(
    from: &slim::Resources,
    defaults: impl Fn(&str) -> bool,
    interner: &mut Interner,
) -> Result<Resources, Invalid> {
    let mut all = resources(&from.requests, interner).at("requests")?;
    for (name, limit) in &from.limits {
        if !from.requests.contains_key(name) && defaults(name) {
            all.push(entry(name, limit.0.clone(), interner).at("limits")?);
        }
    }
    Ok(all)
}

/// Requests of the pod as a whole. Its limits count only for what no container asks for: otherwise
/// the API server takes the containers' sum, which is what a missing entry means too.
fn pod_level(
    spec: &slim::PodSpec,
    containers: &PodRequests,
    interner: &mut Interner,
) -> Result<Option<Resources>, Invalid> {
    let Some(whole) = &spec.resources else { return Ok(None) };
    let asked = |name: &str| {
        let init = containers.init.iter().map(|(own, _)| own);
        containers.containers.iter().chain(init).flatten().any(|(asked, _)| &**asked == name)
    };
    let mut all = with_limits(whole, |name| !asked(name), interner)?;
    all.retain(|(name, _)| is_pod_level(name));
    Ok(Some(all).filter(|all| !all.is_empty()))
}

/// The resources that Kubernetes takes for a pod as a whole (KEP-2837).
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Containers whose resources change in place, by kube-scheduler's rules: until the kubelet has
/// done it, what was asked for, granted and given all count.
struct Resize<'a> {
    /// The node cannot resize the pod.
    refused: bool,
    statuses: &'a [slim::ContainerStatus],
}

fn is_refused(status: &slim::PodStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions
        .any(|one| one.type_ == "PodResizePending" && one.status == "True" && one.reason == "Infeasible")
}

impl Resize<'_> {
    fn apply(
        &self,
        container: &slim::Container,
        asked: Resources,
        interner: &mut Interner,
    ) -> Result<Resources, Invalid> {
        let status = self.statuses.iter().find(|status| status.name == container.name);
        let Some((status, given)) = status.and_then(|status| Some((status, status.resources.as_ref()?)))
        else {
            return Ok(asked);
        };
        let mut most = if self.refused { Resources::new() } else { asked };
        for list in [&status.allocated_resources, &given.requests] {
            raise(&mut most, resources(list, interner).at("containerStatuses")?);
        }
        Ok(most)
    }
}

/// Sets each amount to the larger of both.
fn raise(most: &mut Resources, to: Resources) {
    for (name, quantity) in to {
        match most.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = quantity.max(*known),
            None => most.push((name, quantity)),
        }
    }
}

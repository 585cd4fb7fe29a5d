//! What a pod asks for, with the defaults that the API server fills in.

use phalanx_core::event::{PodRequests, Resources};
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
) -> Result<(std::sync::Arc<str>, Quantity), Invalid> {
    let quantity = parsed.map_err(|error| Invalid::new(error.to_string())).at(name)?;
    if quantity.is_negative() {
        return Err(Invalid::new(format!("{quantity} is negative, expected 0 or more"))).at(name);
    }
    Ok((interner.string(name), quantity))
}

/// The requests of a pod by container; limits stand in for missing requests.
pub(crate) fn requests(spec: &slim::PodSpec, interner: &mut Interner) -> Result<PodRequests, Invalid> {
    let mut requests = PodRequests {
        overhead: resources(&spec.overhead, interner).at("overhead")?,
        ..PodRequests::default()
    };
    for (i, container) in spec.containers.iter().enumerate() {
        let own = of_container(container, interner).item(i).at("containers")?;
        requests.containers.push(own);
    }
    for (i, container) in spec.init_containers.iter().enumerate() {
        let own = of_container(container, interner).item(i).at("initContainers")?;
        requests.init.push((own, container.is_sidecar()));
    }
    requests.pod_level = pod_level(spec, &requests, interner)?;
    Ok(requests)
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
    let all = with_limits(whole, |name| !asked(name), interner).at("resources")?;
    Ok(Some(all).filter(|all| !all.is_empty()))
}

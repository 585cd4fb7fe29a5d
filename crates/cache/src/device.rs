//! Devices and claims to them: resource.k8s.io/v1.

use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    AllocationResult, Device, DeviceAttribute, DeviceClass, DeviceRequest, DeviceSelector, ResourceClaim,
    ResourceClaimSpec, ResourceClaimTemplate, ResourceSlice,
};
use phalanx_cluster::event::{
    ClaimAllocation, ClaimInfo, ClaimRequest, DeviceClassInfo, DeviceInfo, DeviceName, DeviceValue, Event,
    GivenDevice, LeftOut, NodeTerm, PodClaim, SliceInfo, SliceNodes,
};

use phalanx_resource::Quantity;

use crate::invalid::{At, Invalid};
use crate::{Identity, Interner, Kind, Names, constraints, remarks, slim};

/// A DeviceClass as the Cluster sees it.
pub fn device_class(class: &DeviceClass, interner: &mut Interner) -> DeviceClassInfo {
    let name = interner.string(class.metadata.name.as_deref().unwrap_or_default());
    DeviceClassInfo { name, selectors: selectors(class.spec.selectors.as_deref(), interner) }
}

fn selectors(list: Option<&[DeviceSelector]>, interner: &mut Interner) -> Vec<Arc<str>> {
    let list = list.unwrap_or_default().iter().filter_map(|selector| selector.cel.as_ref());
    list.map(|cel| interner.string(&cel.expression)).collect()
}

/// A ResourceSlice as the Cluster sees it.
///
/// # Errors
/// A node selector or a capacity that cannot be honoured.
pub fn resource_slice(slice: &ResourceSlice, interner: &mut Interner) -> Result<SliceInfo, Invalid> {
    let spec = &slice.spec;
    let apart = spec.per_device_node_selection.unwrap_or(false);
    let nodes = match (&spec.node_name, &spec.node_selector) {
        (Some(name), _) if !name.is_empty() => SliceNodes::Node(interner.string(name)),
        (_, Some(selector)) => SliceNodes::Matching(terms(selector, interner).at("spec.nodeSelector")?),
        _ => SliceNodes::All,
    };
    let devices = spec.devices.iter().flatten().enumerate();
    let devices = devices.map(|(at, one)| device(one, apart, interner).item(at)).collect::<Result<_, _>>();
    Ok(SliceInfo {
        name: interner.string(slice.metadata.name.as_deref().unwrap_or_default()),
        driver: interner.string(&spec.driver),
        pool: interner.string(&spec.pool.name),
        generation: spec.pool.generation,
        nodes,
        devices: devices.at("spec.devices")?,
    })
}

fn terms(selector: &NodeSelector, interner: &mut Interner) -> Result<Vec<NodeTerm>, Invalid> {
    let terms = selector.node_selector_terms.iter().enumerate();
    let terms: Result<_, _> = terms.map(|(at, one)| constraints::term(one, interner).item(at)).collect();
    terms.at("nodeSelectorTerms")
}

fn device(from: &Device, apart: bool, interner: &mut Interner) -> Result<DeviceInfo, Invalid> {
    let attributes = from.attributes.iter().flatten();
    let attributes = attributes
        .filter_map(|(name, value)| Some((interner.string(name), attribute(value, interner)?)))
        .collect();
    let mut capacity = Vec::new();
    for (name, amount) in from.capacity.iter().flatten() {
        let quantity = amount.value.0.parse::<Quantity>().map_err(|error| Invalid::new(error.to_string()));
        capacity.push((interner.string(name), quantity.at("value").at(name).at("capacity")?));
    }
    let left_out = left_out(from, apart);
    Ok(DeviceInfo { name: interner.string(&from.name), attributes, capacity, left_out })
}

/// Why a device is left out: a field that is not supported, or a taint.
fn left_out(from: &Device, apart: bool) -> Option<LeftOut> {
    let keeps_away = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    let tainted = from.taints.iter().flatten().any(|taint| keeps_away(&taint.effect));
    let several = from.allow_multiple_allocations.unwrap_or(false);
    let counted = from.consumes_counters.as_ref().is_some_and(|list| !list.is_empty());
    let bound_late = from.binding_conditions.as_ref().is_some_and(|list| !list.is_empty());
    let is = [
        (tainted, LeftOut::Tainted),
        (counted, LeftOut::Counted),
        (several, LeftOut::Several),
        (bound_late, LeftOut::BoundLate),
        (from.binds_to_node == Some(true), LeftOut::BindsToNode),
        (apart, LeftOut::OwnNodes),
    ];
    is.into_iter().find_map(|(is, why)| is.then_some(why))
}

/// Lists are not read.
fn attribute(from: &DeviceAttribute, interner: &mut Interner) -> Option<DeviceValue> {
    let text = from.string.as_ref().map(|text| DeviceValue::Text(interner.string(text)));
    let version = || from.version.as_ref().map(|text| DeviceValue::Version(interner.string(text)));
    let plain = from.bool.map(DeviceValue::Bool).or(from.int.map(DeviceValue::Int));
    plain.or(text).or_else(version)
}

/// A ResourceClaim as the Cluster sees it.
///
/// # Errors
/// A node selector of its allocation that cannot be honoured.
pub fn resource_claim(claim: &ResourceClaim, interner: &mut Interner) -> Result<ClaimInfo, Invalid> {
    let identity = ResourceClaim::identity(&claim.metadata, interner);
    reduce(claim, &identity, interner)
}

pub(crate) fn reduce(
    claim: &ResourceClaim,
    identity: &Identity,
    interner: &mut Interner,
) -> Result<ClaimInfo, Invalid> {
    let status = claim.status.as_ref();
    let given = status.and_then(|status| status.allocation.as_ref());
    let reserved = status.and_then(|status| status.reserved_for.as_deref()).unwrap_or_default();
    let of_pods = reserved.iter().filter(|one| one.resource == "pods");
    Ok(ClaimInfo {
        key: identity.key.clone(),
        uid: identity.uid.clone(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        allocation: given.map(|given| allocation(given, interner)).transpose().at("status.allocation")?,
        reserved: of_pods.map(|one| Arc::from(one.uid.as_str())).collect(),
        ..claim_spec(&claim.spec, interner)
    })
}

/// The most devices that a claim can be given. Source: resource.k8s.io/v1 `AllocationResultsMaxSize`.
const DEVICES_MAX: u32 = 32;

/// The device requests of a claim, without the rest of the object.
fn claim_spec(spec: &ResourceClaimSpec, interner: &mut Interner) -> ClaimInfo {
    let mut info = ClaimInfo::default();
    let Some(devices) = &spec.devices else { return info };
    let mut unsupported = None;
    for request in devices.requests.iter().flatten() {
        let asked: u32 = info.requests.iter().map(|request| request.count).sum();
        match claim_request(request, DEVICES_MAX - asked, interner) {
            Ok(request) => info.requests.push(request),
            Err(feature) => {
                unsupported = unsupported.or(Some(format!("request {}: {feature}", request.name)));
            }
        }
    }
    if devices.constraints.as_ref().is_some_and(|list| !list.is_empty()) {
        unsupported = unsupported.or(Some("constraints".to_owned()));
    }
    info.unsupported = unsupported.map(Arc::from);
    info
}

/// A request of a claim, which may ask for at most so many devices.
fn claim_request(
    from: &DeviceRequest,
    most: u32,
    interner: &mut Interner,
) -> Result<ClaimRequest, &'static str> {
    let exactly = from.exactly.as_ref().ok_or("firstAvailable")?;
    if exactly.admin_access == Some(true) {
        return Err("adminAccess");
    }
    if !matches!(exactly.allocation_mode.as_deref(), None | Some("" | "ExactCount")) {
        return Err("an allocationMode other than ExactCount");
    }
    if exactly.capacity.is_some() {
        return Err("capacity");
    }
    // As the API server defaults it.
    let count = match exactly.count.unwrap_or_default() {
        0 => 1,
        count => u32::try_from(count.max(0)).unwrap_or(u32::MAX),
    };
    if count == 0 {
        return Err("a count below 1");
    }
    if count > most {
        return Err("more than 32 devices in a claim");
    }
    Ok(ClaimRequest {
        name: interner.string(&from.name),
        class: interner.string(&exactly.device_class_name),
        selectors: selectors(exactly.selectors.as_deref(), interner),
        count,
    })
}

/// Devices allocated with `adminAccess` or shared are in exclusive use of no claim.
fn allocation(from: &AllocationResult, interner: &mut Interner) -> Result<ClaimAllocation, Invalid> {
    let results = from.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    let own = results.filter(|result| result.admin_access != Some(true) && result.share_id.is_none());
    let devices = own.map(|result| GivenDevice {
        request: interner.string(&result.request),
        device: DeviceName {
            driver: interner.string(&result.driver),
            pool: interner.string(&result.pool),
            device: interner.string(&result.device),
        },
    });
    let devices = devices.collect();
    let nodes = from.node_selector.as_ref().map(|selector| terms(selector, interner));
    Ok(ClaimAllocation { devices, nodes: nodes.transpose().at("nodeSelector")? })
}

/// The device requests of claims made from a template; the name is the template's.
pub fn claim_template(template: &ResourceClaimTemplate, interner: &mut Interner) -> ClaimInfo {
    let identity = ResourceClaimTemplate::identity(&template.metadata, interner);
    ClaimInfo { key: identity.key, ..claim_spec(&template.spec.spec, interner) }
}

/// The claims of a pod: named in the spec, or made from a template and named in the status.
pub(crate) fn claims_of(pod: &slim::Pod, interner: &mut Interner) -> Option<Arc<[PodClaim]>> {
    if pod.spec.resource_claims.is_empty() {
        return None;
    }
    let statuses = &pod.status.resource_claim_statuses;
    let one = |claim: &slim::PodResourceClaim| {
        let made = statuses.iter().find(|status| status.name == claim.name);
        // A status without a name says that the template makes no claim for this pod.
        if claim.resource_claim_name.is_none() && made.is_some_and(|made| made.resource_claim_name.is_none())
        {
            return None;
        }
        let name = claim.resource_claim_name.as_ref();
        let name = name.or_else(|| made.and_then(|made| made.resource_claim_name.as_ref()));
        let name = name.map(|name| interner.string(name));
        Some(PodClaim { name: interner.string(&claim.name), claim: name })
    };
    Some(pod.spec.resource_claims.iter().filter_map(one).collect())
}

impl Kind for DeviceClass {
    const NAMESPACED: bool = false;
    const COSTLY_REMARKS: bool = true;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(device_class(self, interner).into()))
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_device_class(self)
    }

    fn gone(identity: &Identity) -> Event {
        Event::DeviceClassGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for ResourceSlice {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        resource_slice(self, interner).map(|slice| Some(slice.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::SliceGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for ResourceClaim {
    const NAMESPACED: bool = true;
    const COSTLY_REMARKS: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        reduce(self, identity, interner).map(|claim| Some(claim.into()))
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_claim("spec", &self.spec)
    }

    fn gone(identity: &Identity) -> Event {
        Event::ClaimGone(identity.key.clone())
    }
}

/// Never watched: Kubernetes makes the claims. Manifests need its identity.
impl Kind for ResourceClaimTemplate {
    const NAMESPACED: bool = true;

    fn event(&self, _: &Identity, _: &Names, _: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(None)
    }

    fn gone(identity: &Identity) -> Event {
        Event::ClaimGone(identity.key.clone())
    }
}

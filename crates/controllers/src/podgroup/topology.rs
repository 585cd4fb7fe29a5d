//! Network topologies that annotations of pods ask for: Volcano's, and Kueue's where they say the same.

use phalanx_api::names;
use phalanx_api::v1beta1::{NetworkTopologyMode, NetworkTopologySpec};

/// As Volcano reads its annotations: an unknown mode counts as `hard`, and a tier that is no number as missing; so does a
/// negative one, with which no PodGroup can be made. The scheduler tells of such values.
pub(super) fn volcanos<'a>(read: impl Fn(&str) -> Option<&'a str>) -> Option<NetworkTopologySpec> {
    let mode = read(names::NETWORK_TOPOLOGY_MODE).map(str::to_lowercase);
    let tier = read(names::NETWORK_TOPOLOGY_HIGHEST_TIER);
    (mode.is_some() || tier.is_some()).then(|| NetworkTopologySpec {
        mode: if mode.as_deref() == Some("soft") {
            NetworkTopologyMode::Soft
        } else {
            NetworkTopologyMode::Hard
        },
        highest_tier_allowed: tier.and_then(|tier| tier.parse().ok()).filter(|tier| *tier >= 0),
        ..NetworkTopologySpec::default()
    })
}

/// Of the pods of a template. Where Kueue has admitted them, it has chosen their nodes too.
pub(super) fn kueues<'a>(read: impl Fn(&str) -> Option<&'a str>) -> Option<NetworkTopologySpec> {
    let asked = |key| read(key).filter(|label| !label.is_empty());
    if asked(names::KUEUE_WORKLOAD).is_some() {
        return None;
    }
    let soft = || NetworkTopologySpec { mode: NetworkTopologyMode::Soft, ..NetworkTopologySpec::default() };
    let required = asked(names::KUEUE_REQUIRED_TOPOLOGY).map(hard);
    required.or_else(|| asked(names::KUEUE_PREFERRED_TOPOLOGY).map(|_| soft()))
}

/// Of slices of the pods of a template, where these are of the given size.
pub(super) fn of_slices<'a>(
    read: impl Fn(&str) -> Option<&'a str>,
    size: i32,
) -> Option<NetworkTopologySpec> {
    let of_size = |stated: &str| stated.parse() == Ok(size);
    if read(names::KUEUE_WORKLOAD).is_some() || !read(names::KUEUE_SLICE_SIZE).is_none_or(of_size) {
        return None;
    }
    read(names::KUEUE_SLICE_REQUIRED_TOPOLOGY).filter(|label| !label.is_empty()).map(hard)
}

/// HyperNodes that are made of a label have its key as the name of their tier.
fn hard(label: &str) -> NetworkTopologySpec {
    NetworkTopologySpec {
        mode: NetworkTopologyMode::Hard,
        highest_tier_name: Some(label.to_owned()),
        ..NetworkTopologySpec::default()
    }
}

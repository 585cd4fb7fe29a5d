//! What pods request, as `minResources` of a PodGroup names it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use phalanx_api::v1beta1::ResourceList;
use phalanx_resource::{Amounts, Dims, InitContainer, PodResources, Quantity};

type List = BTreeMap<String, Text>;

/// Requests and limits of pods, summed up.
pub(crate) struct Requests {
    dims: Dims,
    sums: [Amounts; 2],
}

impl Default for Requests {
    fn default() -> Self {
        Self { dims: Dims::new(), sums: [Amounts::new(), Amounts::new()] }
    }
}

impl Requests {
    /// Adds those of so many pods.
    pub(crate) fn add(&mut self, spec: Option<&PodSpec>, count: i32) {
        for (sum, limits) in self.sums.iter_mut().zip([false, true]) {
            let one = pod(spec, limits, &mut self.dims);
            (0..count).for_each(|_| sum.add(&one));
        }
    }

    pub(crate) fn named(&self) -> ResourceList {
        named(&self.dims, &self.sums)
    }
}

/// So many times the list of one pod.
pub(crate) fn times(list: &ResourceList, count: i32) -> ResourceList {
    let mut dims = Dims::new();
    let mut product = |(name, text): (&String, &Text)| {
        let resource = ["requests.", "limits.", "count/"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let dim = dims.intern(resource.unwrap_or(name));
        let amount = dims.amount(dim, text.0.parse().ok()?).saturating_mul(count.into());
        Some((name.clone(), Text(dims.format(dim, amount))))
    };
    list.iter().filter_map(&mut product).collect()
}

/// What one pod requests, or its limits.
fn pod(spec: Option<&PodSpec>, limits: bool, dims: &mut Dims) -> Amounts {
    let Some(spec) = spec else { return Amounts::new() };
    let containers = spec.containers.iter().map(|container| of(container, limits, dims)).collect();
    let init = spec.init_containers.iter().flatten().map(|container| InitContainer {
        request: of(container, limits, dims),
        sidecar: container.restart_policy.as_deref() == Some("Always"),
    });
    let init = init.collect();
    let whole =
        spec.resources.as_ref().map(|resources| if limits { &resources.limits } else { &resources.requests });
    let pod_level = whole.and_then(|list| list.as_ref().map(|list| amounts([Some(list), None], dims)));
    let overhead = amounts([spec.overhead.as_ref(), None], dims);
    PodResources { containers, init, overhead, pod_level }.total()
}

/// Limits stand for requests that are missing.
fn of(container: &Container, limits: bool, dims: &mut Dims) -> Amounts {
    let Some(resources) = &container.resources else { return Amounts::new() };
    let requests = if limits { None } else { resources.requests.as_ref() };
    amounts([resources.limits.as_ref(), requests], dims)
}

/// The amounts of the lists; later ones go before earlier ones. What is no quantity is left out.
fn amounts(lists: [Option<&List>; 2], dims: &mut Dims) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, text) in lists.into_iter().flatten().flatten() {
        if let Ok(quantity) = text.0.parse::<Quantity>() {
            let dim = dims.intern(name);
            amounts.set(dim, dims.amount(dim, quantity));
        }
    }
    amounts
}

/// As quotas name them: `cpu` and `requests.cpu`, `limits.cpu`, `pods` and `count/pods`.
fn named(dims: &Dims, [requests, limits]: &[Amounts; 2]) -> ResourceList {
    let mut list = ResourceList::new();
    let native = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    for (dim, amount) in requests.iter() {
        let (name, text) = (dims.name(dim), Text(dims.format(dim, amount)));
        if native(name) {
            list.insert(format!("requests.{name}"), text.clone());
        } else if name == "pods" {
            list.insert("count/pods".to_owned(), text.clone());
        }
        list.insert(name.to_owned(), text);
    }
    for (dim, amount) in limits.iter().filter(|(dim, amount)| *amount > 0 && native(dims.name(*dim))) {
        list.insert(format!("limits.{}", dims.name(dim)), Text(dims.format(dim, amount)));
    }
    list
}

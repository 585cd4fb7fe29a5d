//! `proportional`: pods leave cpu and memory idle for the idle scarce resources of a node.
use std::sync::Arc;

use phalanx_resource::DimId;

use phalanx_cluster::Node;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_framework::conf::Args;
use phalanx_framework::placement::Fit;

/// The cores and gigabytes that stay idle for each idle unit of a resource.
pub(super) struct ProportionalRate {
    pub(super) name: String,
    pub(super) cpu: f64,
    pub(super) memory: f64,
}

pub(super) fn proportions(args: &Args) -> Vec<ProportionalRate> {
    if !args.bool("enable", false) {
        return Vec::new();
    }
    let rates = args.section("resourceProportion");
    let rate = |key: String| Some(rates.float(&key, 1.0)).filter(|rate| *rate >= 0.0).unwrap_or(1.0);
    let one = |name: String| ProportionalRate {
        cpu: rate(format!("{name}.cpu")),
        memory: rate(format!("{name}.memory")),
        name,
    };
    args.names("resources").into_iter().map(one).collect()
}

/// A scarce resource, and what a pod leaves idle for it.
pub(super) struct ScarceResource {
    pub(super) scarce: DimId,
    /// Cpu and memory for each thousandth of a unit: millicores and bytes.
    pub(super) rates: [f64; 2],
    pub(super) request: [f64; 2],
    pub(super) text: Arc<str>,
}

impl ScarceResource {
    /// Whether enough cpu and memory stays idle on a node for its idle units of the resource.
    pub(super) fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if node.allocatable.get(self.scarce) == 0 {
            return Ok(());
        }
        let amounts = if fit == Fit::Idle { &node.idle } else { &node.future_idle() };
        let idle = [DimId::CPU, DimId::MEMORY].map(|dim| amounts.get(dim) as f64);
        let scarce = amounts.get(self.scarce) as f64;
        let enough = (0..2).all(|at| idle[at] - self.request[at] >= scarce * self.rates[at]);
        if enough { Ok(()) } else { Err(Unfit::Beside(self.text.clone())) }
    }
}

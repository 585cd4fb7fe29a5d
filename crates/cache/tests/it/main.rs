//! Objects of manifests and of the API server as events for the Cluster.

mod budgets;
mod decoding;
mod devices;
mod folding;
mod groups;
mod hyper_nodes;
mod nodes;
mod pod_rules;
mod pods;
mod protobuf;
mod quotas;
mod requests;
mod volumes;

use phalanx_cache::{Interner, Invalid, Names, decode, slim};
use phalanx_cluster::event::{PodInfo, Resources};
use serde::de::DeserializeOwned;

fn value(yaml: &str) -> serde_json::Value {
    serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn object<T: DeserializeOwned>(yaml: &str) -> T {
    decode(&value(yaml)).unwrap_or_else(|invalid| panic!("{invalid}\n{yaml}"))
}

fn try_pod(yaml: &str) -> Result<PodInfo, Invalid> {
    let pod: slim::Pod = decode(&value(yaml))?;
    phalanx_cache::pod(&pod, &Names::default(), &mut Interner::default())
}

fn pod(yaml: &str) -> PodInfo {
    try_pod(yaml).unwrap_or_else(|invalid| panic!("{invalid}\n{yaml}"))
}

/// A pod of ours with these lines in its spec.
fn pod_spec(spec: &str) -> String {
    format!("metadata: {{name: p}}\nspec:\n  schedulerName: volcano\n{}", indent(spec))
}

fn indent(lines: &str) -> String {
    format!("  {}\n", lines.trim_end().replace('\n', "\n  "))
}

/// `cpu=500m memory=1Gi`, sorted.
fn shown(resources: &Resources) -> String {
    let mut all: Vec<_> = resources.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
    all.sort();
    all.join(" ")
}

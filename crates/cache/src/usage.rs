//! Measured use of nodes.

use phalanx_cluster::duration::parse_duration;
use phalanx_cluster::event::{Measure, NodeUsage, Time};
use phalanx_resource::Quantity;

use crate::invalid::{At, Invalid};
use crate::{Interner, slim};

/// The metrics API's figures of a node as the Cluster sees them. Without a window they are taken for those of a moment.
///
/// # Errors
/// A figure or a time that is missing or wrong.
pub fn node_usage(metrics: &slim::NodeMetrics, interner: &mut Interner) -> Result<NodeUsage, Invalid> {
    let at = metrics.timestamp.as_ref().map(|time| time.0.as_millisecond());
    let at = at.ok_or_else(|| Invalid::new("missing, expected a time")).at("timestamp")?;
    let window = match metrics.window.as_str() {
        "" => 0,
        text => parse_duration(text)
            .ok_or_else(|| Invalid::new(format!("{text:?} is no duration, expected one such as 30s")))
            .at("window")?,
    };
    Ok(NodeUsage {
        node: interner.string(metrics.metadata.name.as_deref().unwrap_or_default()),
        cpu: Measure::Amount(figure(metrics, "cpu").at("usage")?),
        memory: Measure::Amount(figure(metrics, "memory").at("usage")?),
        since: Time(at - window),
        at: Some(Time(at)),
    })
}

fn figure(metrics: &slim::NodeMetrics, name: &str) -> Result<Quantity, Invalid> {
    let amount =
        metrics.usage.get(name).ok_or_else(|| Invalid::new("missing, expected a quantity")).at(name)?;
    amount.0.clone().map_err(|error| Invalid::new(error.to_string())).at(name)
}

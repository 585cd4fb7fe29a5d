//! Contradictory amounts of one queue.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use phalanx_resource::{Dims, Quantity};

use super::QueueInfo;

/// An invalid amount of a queue. `Display` gives the reason: `deserved of cpu is 4, more than capability
/// 2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// `guarantee`, `deserved` or `capability`.
    pub figure: &'static str,
    /// The resource.
    pub resource: Arc<str>,
    /// The amount.
    pub amount: String,
    /// The problem: `expected 0 or more`, `more than deserved 3 and capability 2`.
    pub fault: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} is {}, {}", self.figure, self.resource, self.amount, self.fault)
    }
}

impl QueueInfo {
    /// Each amount that is below 0 or above an amount that it must not exceed, by resource: `guarantee ≤ deserved ≤
    /// capability`, where both are given. Source: Volcano's admission of queues, which also requires a deserved amount
    /// beside each guarantee.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let lists =
            [("guarantee", &self.guarantee), ("deserved", &self.deserved), ("capability", &self.capability)];
        let mut by_resource: BTreeMap<&Arc<str>, Vec<(&'static str, Quantity)>> = BTreeMap::new();
        for (figure, list) in lists {
            for (resource, amount) in list {
                by_resource.entry(resource).or_default().push((figure, *amount));
            }
        }
        by_resource.into_iter().flat_map(|(resource, figures)| of_resource(resource, &figures)).collect()
    }
}

/// Amounts, beginning with the one that must be the smallest.
fn of_resource(resource: &Arc<str>, figures: &[(&'static str, Quantity)]) -> Vec<Contradiction> {
    let one = |(at, (figure, amount)): (usize, &(&'static str, Quantity))| {
        let fault = fault(resource, *amount, &figures[at + 1..])?;
        Some(Contradiction { figure, resource: resource.clone(), amount: shown(resource, *amount), fault })
    };
    figures.iter().enumerate().filter_map(one).collect()
}

fn fault(resource: &str, amount: Quantity, above: &[(&'static str, Quantity)]) -> Option<String> {
    if amount.is_negative() {
        return Some("expected 0 or more".to_owned());
    }
    let less = above.iter().filter(|(_, most)| amount > *most && !most.is_negative());
    let less: Vec<String> = less.map(|(other, most)| format!("{other} {}", shown(resource, *most))).collect();
    (!less.is_empty()).then(|| format!("more than {}", less.join(" and ")))
}

fn shown(resource: &str, amount: Quantity) -> String {
    let mut dims = Dims::new();
    let dim = dims.intern(resource);
    dims.format(dim, dims.amount(dim, amount))
}

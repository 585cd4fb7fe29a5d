//! Disruptions that the disruption controller would allow.
use phalanx_cache::Invalid;
use phalanx_cluster::event::{PdbInfo, PodInfo, PodPhase};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifests::Object;

/// The numbers in the spec of a PodDisruptionBudget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// `minAvailable`.
    Keep(Amount),
    /// `maxUnavailable`.
    Lose(Amount),
}

/// A number or a percentage of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Pods(u64),
    /// A percentage, rounded up.
    Percent(u64),
}

impl Budget {
    /// The budget of an object without a status; `None` where the object has one. Without a number no disruption is
    /// allowed. Source: the disruption controller.
    pub(crate) fn of(pdb: &Value) -> Result<Option<Self>, Invalid> {
        if pdb.get("status").is_some_and(|status| !status.is_null()) {
            return Ok(None);
        }
        let field = |name: &str| pdb["spec"].get(name).filter(|value| !value.is_null());
        let lose = field("maxUnavailable").map(|value| Amount::read("spec.maxUnavailable", value));
        match field("minAvailable").map(|value| Amount::read("spec.minAvailable", value)) {
            Some(_) if lose.is_some() => Err(Invalid {
                field: "spec.maxUnavailable".to_owned(),
                problem: "found it beside minAvailable, expected one of them".to_owned(),
            }),
            Some(keep) => Ok(Some(Self::Keep(keep?))),
            None => Ok(Some(Self::Lose(lose.unwrap_or(Ok(Amount::Pods(0)))?))),
        }
    }

    /// The disruptions that are allowed if `healthy` of `pods` are healthy.
    fn allowed(self, pods: u64, healthy: u64) -> u64 {
        healthy.saturating_sub(self.needed(pods))
    }

    /// The number of `pods` that have to be healthy.
    fn needed(self, pods: u64) -> u64 {
        match self {
            Budget::Keep(amount) => amount.of(pods),
            Budget::Lose(amount) => pods.saturating_sub(amount.of(pods)),
        }
    }
}

impl Amount {
    fn read(field: &str, value: &Value) -> Result<Self, Invalid> {
        let percent = |text: &str| {
            let percent = text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100);
            percent.map(Amount::Percent)
        };
        let amount = value.as_u64().map(Amount::Pods).or_else(|| percent(value.as_str()?));
        amount.ok_or_else(|| Invalid {
            field: field.to_owned(),
            problem: format!("found {value}, expected a number of pods such as 2, or a part such as \"50%\""),
        })
    }

    fn of(self, pods: u64) -> u64 {
        match self {
            Amount::Pods(count) => count,
            Amount::Percent(percent) => pods.saturating_mul(percent).div_ceil(100),
        }
    }
}

/// Evaluates budgets without a status from their pods in the input: a pod with a node is healthy unless its condition
/// Ready is False.
pub(crate) fn count_allowed(objects: &mut [Object]) {
    let budgets = objects.iter().enumerate().filter_map(|(at, object)| match object {
        Object::Budget(pdb, budget) => Some((at, status_of(pdb, *budget, objects))),
        _ => None,
    });
    for (at, status) in budgets.collect::<Vec<_>>() {
        if let Object::Budget(pdb, _) = &mut objects[at] {
            pdb.allowed = status.allowed;
            pdb.frees_unready |= status.is_healthy;
        }
    }
}

/// A PodDisruptionBudget that does not allow to evict at once all pods that a drain evicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// Namespace and name of the budget.
    pub budget: String,
    /// How many of its pods are evicted.
    pub pods: u32,
    /// How many disruptions it allows.
    pub allowed: u32,
}

/// The budgets on which the eviction of these pods stops: a pod that is not ready is not counted where the budget lets
/// it go.
pub(crate) fn blocked(objects: &[Object], evicted: &[PodInfo]) -> Vec<Blocked> {
    let blocked = |pdb: &PdbInfo, allowed: u32| {
        let counts = |pod: &&PodInfo| {
            pod.pod.namespace == pdb.key.namespace
                && !(pdb.frees_unready && pod.life.unready)
                && pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        };
        let pods = evicted.iter().filter(counts).count() as u32;
        (pods > allowed).then(|| Blocked { budget: pdb.key.to_string(), pods, allowed })
    };
    let each = objects.iter().filter_map(|object| match object {
        Object::Pdb(pdb) => blocked(pdb, pdb.allowed),
        Object::Budget(pdb, budget) => blocked(pdb, status_of(pdb, *budget, objects).allowed),
        _ => None,
    });
    each.collect()
}

/// The status of a budget as its pods give it.
struct BudgetStatus {
    /// The allowed disruptions.
    allowed: u32,
    /// Whether as many pods are healthy as have to be.
    is_healthy: bool,
}

fn status_of(pdb: &PdbInfo, budget: Budget, objects: &[Object]) -> BudgetStatus {
    let meant = |pod: &&PodInfo| {
        pod.pod.namespace == pdb.key.namespace
            && !matches!(pod.life.phase, PodPhase::Succeeded | PodPhase::Failed)
            && pdb.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    };
    let pods = objects.iter().filter_map(|object| match object {
        Object::Pod(pod) => Some(&pod.info),
        _ => None,
    });
    let (mut count, mut healthy) = (0, 0);
    for pod in pods.filter(meant) {
        count += 1;
        healthy += u64::from(pod.life.node.is_some() && !pod.life.deleting && !pod.life.unready);
    }
    let needed = budget.needed(count);
    let allowed = u32::try_from(budget.allowed(count, healthy)).unwrap_or(u32::MAX);
    BudgetStatus { allowed, is_healthy: needed > 0 && healthy >= needed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_percentages_count_as_in_the_disruption_controller() {
        for (spec, pods, healthy, expected) in [
            (json!({"minAvailable": 2}), 3, 3, 1),
            (json!({"minAvailable": 2}), 3, 1, 0),
            (json!({"minAvailable": "50%"}), 3, 3, 1),
            (json!({"minAvailable": "100%"}), 3, 3, 0),
            (json!({"maxUnavailable": 1}), 3, 3, 1),
            (json!({"maxUnavailable": 1}), 3, 2, 0),
            (json!({"maxUnavailable": "30%"}), 10, 10, 3),
            (json!({"maxUnavailable": 0}), 3, 3, 0),
            (json!({}), 3, 3, 0),
            (json!({"minAvailable": 1}), 0, 0, 0),
        ] {
            let budget = Budget::of(&json!({"spec": spec})).unwrap().unwrap();
            assert_eq!(budget.allowed(pods, healthy), expected, "{spec} of {pods}, {healthy} healthy");
        }
        assert_eq!(Budget::of(&json!({"status": {"disruptionsAllowed": 1}})), Ok(None));
        for bad in [
            json!({"minAvailable": "half"}),
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            json!({"maxUnavailable": -1}),
        ] {
            assert!(Budget::of(&json!({"spec": bad})).is_err(), "{bad}");
        }
    }
}

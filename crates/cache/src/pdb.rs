//! PodDisruptionBudgets.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use phalanx_cluster::event::{Operator, PdbInfo, Requirement};
use phalanx_cluster::label::Selector;

use crate::constraints::unexpected;
use crate::invalid::{At, Invalid};
use crate::qualified::{check_key, check_value};
use crate::{Identity, Interner, Kind, slim};

/// A PodDisruptionBudget as the Cluster sees it.
///
/// # Errors
/// A selector that cannot be honoured.
pub fn pdb(pdb: &slim::PodDisruptionBudget, interner: &mut Interner) -> Result<PdbInfo, Invalid> {
    let identity = slim::PodDisruptionBudget::identity(&pdb.metadata, interner);
    reduce(pdb, &identity, interner)
}

/// The same with an identity that is known already.
pub(crate) fn reduce(
    pdb: &slim::PodDisruptionBudget,
    identity: &Identity,
    interner: &mut Interner,
) -> Result<PdbInfo, Invalid> {
    let selector = pdb.spec.selector.as_ref().map(|from| selector(from, interner));
    // As in the eviction API, a budget whose newest generation its controller has not seen allows no disruption.
    let seen = pdb.status.observed_generation >= pdb.metadata.generation.unwrap_or_default();
    let allowed = u32::try_from(pdb.status.disruptions_allowed).unwrap_or_default();
    Ok(PdbInfo {
        key: identity.key.clone(),
        selector: selector.transpose().at("spec.selector")?,
        allowed: if seen { allowed } else { 0 },
        frees_unready: frees_unready(pdb).at("spec.unhealthyPodEvictionPolicy")?,
    })
}

/// Whether the eviction API lets a pod go that is not ready. Source: Kubernetes' eviction subresource.
fn frees_unready(pdb: &slim::PodDisruptionBudget) -> Result<bool, Invalid> {
    let slim::PodDisruptionBudgetStatus { current_healthy, desired_healthy, .. } = pdb.status;
    match pdb.spec.unhealthy_pod_eviction_policy.as_deref() {
        Some("AlwaysAllow") => Ok(true),
        None | Some("IfHealthyBudget") => Ok(desired_healthy > 0 && current_healthy >= desired_healthy),
        Some(other) => unexpected(other, "AlwaysAllow or IfHealthyBudget"),
    }
}

/// A label selector; one without anything in it matches everything.
///
/// # Errors
/// A key or a value that no label has, an operator that is unknown, or values that do not go with it.
pub(crate) fn selector(from: &LabelSelector, interner: &mut Interner) -> Result<Selector, Invalid> {
    let mut list = Vec::new();
    for (key, value) in from.match_labels.iter().flatten() {
        check_key(key).and_then(|()| check_value(value)).at("matchLabels")?;
        let values = vec![interner.string(value)];
        list.push(Requirement { key: interner.string(key), operator: Operator::In, values });
    }
    for (at, one) in from.match_expressions.iter().flatten().enumerate() {
        let values = one.values.as_deref().unwrap_or_default();
        let operator = expression(one, values).item(at).at("matchExpressions")?;
        let values = values.iter().map(|value| interner.string(value)).collect();
        list.push(Requirement { key: interner.string(&one.key), operator, values });
    }
    list.sort_unstable();
    Ok(Selector(list))
}

fn expression(one: &LabelSelectorRequirement, values: &[String]) -> Result<Operator, Invalid> {
    check_key(&one.key).at("key")?;
    values.iter().try_for_each(|value| check_value(value)).at("values")?;
    operator(&one.operator, values.len())
}

fn operator(text: &str, values: usize) -> Result<Operator, Invalid> {
    match (text, values) {
        ("In" | "NotIn", 0) => Err(Invalid::new("empty, expected at least one value")).at("values"),
        ("In", _) => Ok(Operator::In),
        ("NotIn", _) => Ok(Operator::NotIn),
        ("Exists", 0) => Ok(Operator::Exists),
        ("DoesNotExist", 0) => Ok(Operator::DoesNotExist),
        ("Exists" | "DoesNotExist", _) => Err(Invalid::new("expected no values")).at("values"),
        _ => Err(Invalid::new(format!("{text:?} is unknown, expected In, NotIn, Exists or DoesNotExist")))
            .at("operator"),
    }
}

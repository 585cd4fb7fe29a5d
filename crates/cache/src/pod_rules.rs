//! Pod affinity, anti-affinity and topology spread.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use phalanx_cluster::event::{Operator, PodRules, PodSelector, PodTerm, Requirement, Spread};
use phalanx_cluster::label::Selector;

use crate::constraints::{unexpected, weight};
use crate::intern::Interner;
use crate::invalid::{At, Invalid};
use crate::pdb::selector;
use crate::pod::Marks;
use crate::qualified::check_key;
use crate::slim;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Terms of one list of a pod: each costs a look at its domain for each node. The API server has no bound.
const MAX_TERMS: usize = 64;

/// Labels, their values and namespaces that the selectors of a pod name.
const MAX_NAMES: usize = 1_024;

/// The rules of a pending pod.
pub(crate) fn all(
    spec: &slim::PodSpec,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Option<Arc<PodRules>>, Invalid> {
    let mut rules = affinity(spec, marks, interner).at("affinity")?;
    rules.spread = spreads(spec, marks, interner).at("topologySpreadConstraints")?;
    let found: usize = rules.selectors().map(names).sum();
    if found > MAX_NAMES {
        let problem = format!(
            "found {found} labels, values and namespaces in rules on other pods, expected at most {MAX_NAMES}"
        );
        return Err(Invalid::new(problem)).at("affinity");
    }
    Ok(some(rules))
}

/// What matters of a pod that has a node: its pod affinity and anti-affinity towards other pods. Terms that cannot be
/// read, or are too many, are left out: the others still keep pods away.
pub(crate) fn of_placed(
    spec: &slim::PodSpec,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Option<Arc<PodRules>> {
    let (near, apart) = (&spec.affinity.pod_affinity, &spec.affinity.pod_anti_affinity);
    let mut left = MAX_NAMES;
    let mut read = |from: &PodAffinityTerm| {
        let term = term(from, marks, interner).ok()?;
        left = left.checked_sub(names(&term.pods))?;
        Some(term)
    };
    let required = [
        &apart.required_during_scheduling_ignored_during_execution,
        &near.required_during_scheduling_ignored_during_execution,
    ];
    let [anti_affinity, affinity] =
        required.map(|list| list.iter().flatten().take(MAX_TERMS).filter_map(&mut read).collect());
    let mut preferred = Vec::new();
    for (sign, list) in [
        (1, &near.preferred_during_scheduling_ignored_during_execution),
        (-1, &apart.preferred_during_scheduling_ignored_during_execution),
    ] {
        let weighted = |one: &WeightedPodAffinityTerm| {
            let weight = weight(one.weight).ok()?;
            Some((sign * weight, read(&one.pod_affinity_term)?))
        };
        preferred.extend(list.iter().flatten().take(MAX_TERMS).filter_map(weighted));
    }
    some(PodRules { affinity, anti_affinity, preferred, spread: Vec::new() })
}

/// How many labels, values and namespaces a selector names.
fn names(pods: &PodSelector) -> usize {
    let selectors = pods.labels.iter().chain(&pods.namespace_selector);
    let requirements = selectors.flat_map(|selector| &selector.0);
    pods.namespaces.len() + requirements.map(|requirement| 1 + requirement.values.len()).sum::<usize>()
}

fn some(rules: PodRules) -> Option<Arc<PodRules>> {
    (!rules.is_empty()).then(|| Arc::new(rules))
}

fn affinity(spec: &slim::PodSpec, marks: &Marks<'_>, interner: &mut Interner) -> Result<PodRules, Invalid> {
    let (near, apart) = (&spec.affinity.pod_affinity, &spec.affinity.pod_anti_affinity);
    let required = near.required_during_scheduling_ignored_during_execution.as_deref();
    let affinity = terms(required, marks, interner).at("podAffinity")?;
    let required = apart.required_during_scheduling_ignored_during_execution.as_deref();
    let anti_affinity = terms(required, marks, interner).at("podAntiAffinity")?;
    let preferred_near = near.preferred_during_scheduling_ignored_during_execution.as_deref();
    let mut preferred = weighted(preferred_near, 1, marks, interner).at("podAffinity")?;
    let preferred_apart = apart.preferred_during_scheduling_ignored_during_execution.as_deref();
    preferred.extend(weighted(preferred_apart, -1, marks, interner).at("podAntiAffinity")?);
    Ok(PodRules { affinity, anti_affinity, preferred, spread: Vec::new() })
}

fn spreads(spec: &slim::PodSpec, marks: &Marks<'_>, interner: &mut Interner) -> Result<Vec<Spread>, Invalid> {
    let constraints = bounded(&spec.topology_spread_constraints)?.iter().enumerate();
    constraints.map(|(i, one)| spread_of(one, marks, interner).item(i)).collect()
}

fn bounded<T>(list: &[T]) -> Result<&[T], Invalid> {
    if list.len() > MAX_TERMS {
        return Err(Invalid::new(format!("found {} items, expected at most {MAX_TERMS}", list.len())));
    }
    Ok(list)
}

fn terms(
    list: Option<&[PodAffinityTerm]>,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Vec<PodTerm>, Invalid> {
    let terms = bounded(list.unwrap_or_default()).at(REQUIRED)?.iter().enumerate();
    terms.map(|(i, one)| term(one, marks, interner).item(i)).collect::<Result<_, _>>().at(REQUIRED)
}

fn weighted(
    list: Option<&[WeightedPodAffinityTerm]>,
    sign: i32,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Vec<(i32, PodTerm)>, Invalid> {
    let one = |one: &WeightedPodAffinityTerm, interner: &mut Interner| {
        let weight = weight(one.weight).at("weight")?;
        Ok((sign * weight, term(&one.pod_affinity_term, marks, interner).at("podAffinityTerm")?))
    };
    let terms = bounded(list.unwrap_or_default()).at(PREFERRED)?.iter().enumerate();
    terms.map(|(i, each)| one(each, interner).item(i)).collect::<Result<_, _>>().at(PREFERRED)
}

fn term(from: &PodAffinityTerm, marks: &Marks<'_>, interner: &mut Interner) -> Result<PodTerm, Invalid> {
    let topology_key = key(&from.topology_key, interner)?;
    let by_labels = from.namespace_selector.as_ref().map(|from| selector(from, interner));
    let mut namespaces: Vec<Arc<str>> =
        from.namespaces.iter().flatten().map(|name| interner.string(name)).collect();
    if namespaces.is_empty() && by_labels.is_none() {
        namespaces.push(interner.string(marks.namespace()));
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut labels = labels(from.label_selector.as_ref(), interner)?;
    let both = |key: &&String| from.mismatch_label_keys.iter().flatten().any(|other| other == *key);
    if let Some(key) = from.match_label_keys.iter().flatten().find(both) {
        return Err(Invalid::new(format!("found {key:?} in matchLabelKeys too, expected it in one of them")))
            .at("mismatchLabelKeys");
    }
    let keys = [
        ("matchLabelKeys", &from.match_label_keys, Operator::In),
        ("mismatchLabelKeys", &from.mismatch_label_keys, Operator::NotIn),
    ];
    for (field, keys, operator) in keys {
        add_keys(&mut labels, keys.as_deref(), operator, marks, interner).at(field)?;
    }
    let namespace_selector = by_labels.transpose().at("namespaceSelector")?;
    Ok(PodTerm { topology_key, pods: PodSelector { namespaces, namespace_selector, labels } })
}

fn key(text: &str, interner: &mut Interner) -> Result<Arc<str>, Invalid> {
    if text.is_empty() {
        return Err(Invalid::new("empty, expected a label of nodes")).at("topologyKey");
    }
    check_key(text).at("topologyKey")?;
    Ok(interner.string(text))
}

fn labels(from: Option<&LabelSelector>, interner: &mut Interner) -> Result<Option<Selector>, Invalid> {
    from.map(|from| selector(from, interner)).transpose().at("labelSelector")
}

/// The pod's own values of these labels; labels that the pod lacks add no requirement.
fn add_keys(
    labels: &mut Option<Selector>,
    keys: Option<&[String]>,
    operator: Operator,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<(), Invalid> {
    let Some(keys) = keys.filter(|keys| !keys.is_empty()) else { return Ok(()) };
    let Some(Selector(list)) = labels else {
        return Err(Invalid::new("expected only with a labelSelector"));
    };
    for (at, key) in keys.iter().enumerate() {
        check_key(key).item(at)?;
        if let Some(value) = marks.label(key) {
            let values = vec![interner.string(value)];
            list.push(Requirement { key: interner.string(key), operator, values });
        }
    }
    // The API server may have added them to the selector already.
    list.sort_unstable();
    list.dedup();
    Ok(())
}

fn spread_of(
    from: &TopologySpreadConstraint,
    marks: &Marks<'_>,
    interner: &mut Interner,
) -> Result<Spread, Invalid> {
    let required = match from.when_unsatisfiable.as_str() {
        "" | "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => return unexpected(other, "DoNotSchedule or ScheduleAnyway").at("whenUnsatisfiable"),
    };
    let mut labels = labels(from.label_selector.as_ref(), interner)?;
    add_keys(&mut labels, from.match_label_keys.as_deref(), Operator::In, marks, interner)
        .at("matchLabelKeys")?;
    let pods = PodSelector {
        namespaces: vec![interner.string(marks.namespace())],
        namespace_selector: None,
        labels,
    };
    let min_domains = positive(from.min_domains.unwrap_or(1)).at("minDomains")?;
    if from.min_domains.is_some() && !required {
        return Err(Invalid::new("expected only with whenUnsatisfiable DoNotSchedule")).at("minDomains");
    }
    Ok(Spread {
        term: PodTerm { topology_key: key(&from.topology_key, interner)?, pods },
        max_skew: positive(from.max_skew).at("maxSkew")?,
        required,
        min_domains,
        honor_affinity: honors(from.node_affinity_policy.as_deref(), true).at("nodeAffinityPolicy")?,
        honor_taints: honors(from.node_taints_policy.as_deref(), false).at("nodeTaintsPolicy")?,
    })
}

fn positive(number: i32) -> Result<u32, Invalid> {
    let positive = u32::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| Invalid::new(format!("{number} is out of range, expected 1 or more")))
}

fn honors(policy: Option<&str>, default: bool) -> Result<bool, Invalid> {
    match policy {
        None => Ok(default),
        Some("Honor") => Ok(true),
        Some("Ignore") => Ok(false),
        Some(other) => unexpected(other, "Honor or Ignore"),
    }
}

//! Quotas of one queue that contradict each other.
use std::sync::Arc;

use phalanx_resource::{Ceilings, DimId, Dims};

use super::Queue;

/// A figure that is below 0, or above another that it must not exceed: `guarantee ≤ deserved ≤ capability`, where both are
/// given. Source: Volcano's admission of queues, which also wants a deserved amount beside each guarantee.
pub(super) fn contradiction(queue: &Queue, dims: &Dims) -> Option<Arc<str>> {
    let guarantee: Ceilings = queue.guarantee.iter().collect();
    let lists = [("guarantee", &guarantee), ("deserved", &queue.deserved), ("capability", &queue.capability)];
    let all = dims.iter().map(|(dim, _)| dim);
    let first =
        all.into_iter().find_map(|dim| negative(dim, &lists, dims).or_else(|| excess(dim, &lists, dims)))?;
    Some(first.into())
}

type Lists<'a> = [(&'static str, &'a Ceilings); 3];

fn negative(dim: DimId, lists: &Lists<'_>, dims: &Dims) -> Option<String> {
    let (name, amount) =
        lists.iter().find_map(|(name, list)| Some((name, list.get(dim).filter(|it| *it < 0)?)))?;
    Some(format!("{name} of {} is {}, expected 0 or more", dims.name(dim), dims.format(dim, amount)))
}

fn excess(dim: DimId, lists: &Lists<'_>, dims: &Dims) -> Option<String> {
    let given = lists.iter().filter_map(|(name, list)| Some((name, list.get(dim)?)));
    let given: smallvec::SmallVec<[_; 3]> = given.collect();
    let pair = given.windows(2).find(|pair| pair[0].1 > pair[1].1)?;
    let [(low, least), (high, most)] = [pair[0], pair[1]];
    let (least, most) = (dims.format(dim, least), dims.format(dim, most));
    Some(format!("{low} of {} is {least}, more than {high} {most}", dims.name(dim)))
}

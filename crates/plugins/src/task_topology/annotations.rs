//! The annotations of a PodGroup: lists of roles for affinity, anti-affinity and order.
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use phalanx_cluster::Job;
use phalanx_cluster::annotation::{
    TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER,
};

/// The index of a role in its job.
pub(super) type RoleId = u16;
/// Ordered pairs of roles; a role is paired with itself for a list of one role.
type RolePairs = FxHashSet<(RoleId, RoleId)>;

/// The number of roles that an annotation may name in all: each is paired with each.
const ROLES_MAX: usize = 64;

/// The rules in the annotations of a PodGroup.
#[derive(Debug, Default)]
pub(super) struct TopologyRules {
    affinity: RolePairs,
    anti_affinity: RolePairs,
    /// By role; larger for roles that come earlier in the task order.
    order: FxHashMap<RoleId, usize>,
    /// By role in a list; larger for lists that are harder to satisfy, whose tasks go first.
    pub(super) weight: FxHashMap<RoleId, u8>,
}

impl TopologyRules {
    /// `None` for a PodGroup without affinity and anti-affinity lists.
    pub(super) fn of(job: &Job) -> Result<Option<Self>, AnnotationFault<'_>> {
        let mut rules = Self::default();
        for list in lists(job, TASK_TOPOLOGY_AFFINITY)? {
            let weight = if list.len() == 1 { 2 } else { 3 };
            rules.add_list(&list, weight, |rules| &mut rules.affinity);
        }
        for list in lists(job, TASK_TOPOLOGY_ANTI_AFFINITY)? {
            let weight = if list.len() == 1 { 4 } else { 1 };
            rules.add_list(&list, weight, |rules| &mut rules.anti_affinity);
        }
        let order = bounded(job, TASK_TOPOLOGY_TASK_ORDER)?.unwrap_or_default();
        let order = list(job, TASK_TOPOLOGY_TASK_ORDER, order)?;
        rules.order = order.iter().rev().enumerate().map(|(at, role)| (*role, at + 1)).collect();
        Ok((!rules.weight.is_empty()).then_some(rules))
    }

    fn add_list(&mut self, list: &[RoleId], weight: u8, pairs: impl Fn(&mut Self) -> &mut RolePairs) {
        for (at, role) in list.iter().enumerate() {
            let known = self.weight.entry(*role).or_default();
            *known = weight.max(*known);
            let with = if list.len() == 1 { list } else { &list[..at] };
            pairs(self).extend(with.iter().flat_map(|other| [(*role, *other), (*other, *role)]));
        }
    }

    /// The affinity of a role to pods, counted by role: those in an affinity list with it, less those in an
    /// anti-affinity list.
    pub(super) fn affinity_to(&self, role: RoleId, pods: &BTreeMap<RoleId, i64>) -> i64 {
        let one = |(other, count): (&RoleId, &i64)| {
            let affinity = i64::from(self.affinity.contains(&(role, *other)));
            (affinity - i64::from(self.anti_affinity.contains(&(role, *other)))) * count
        };
        pods.iter().map(one).sum()
    }

    /// How many of these pods, counted by role, are in an anti-affinity list with a role.
    pub(super) fn anti_affinity_to(&self, role: RoleId, pods: &BTreeMap<RoleId, i64>) -> i64 {
        pods.iter()
            .filter(|(other, _)| self.anti_affinity.contains(&(role, **other)))
            .map(|(_, count)| count)
            .sum()
    }

    /// The place of a role in the task order; larger goes first.
    pub(super) fn rank(&self, role: RoleId) -> impl Ord {
        (self.order.get(&role).copied().unwrap_or(0), self.weight.get(&role).copied().unwrap_or(0))
    }
}

/// A fault that makes all annotations of a PodGroup void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnotationFault<'a> {
    /// No pod of the gang is of this role.
    Unknown { key: &'static str, role: &'a str },
    /// The role is in one list twice.
    Twice { key: &'static str, role: &'a str },
    /// It names so many roles.
    Many { key: &'static str, found: usize },
}

impl AnnotationFault<'_> {
    pub(super) fn text(self) -> String {
        let (key, what) = match self {
            AnnotationFault::Unknown { key, role } => {
                (key, format!("role {role:?}, which no pod of the gang has"))
            }
            AnnotationFault::Twice { key, role } => (key, format!("role {role:?}, twice in one list")),
            AnnotationFault::Many { key, found } => {
                (key, format!("{found} roles, expected at most {ROLES_MAX}"))
            }
        };
        format!("annotation {key} names {what}: plugin task-topology ignores all its annotations")
    }
}

/// An annotation, unless it names too many roles.
fn bounded<'a>(job: &'a Job, key: &'static str) -> Result<Option<&'a str>, AnnotationFault<'a>> {
    let text = job.annotations.get(key);
    let found = text.unwrap_or_default().split([',', ';']).filter(|name| !name.trim().is_empty()).count();
    if found > ROLES_MAX { Err(AnnotationFault::Many { key, found }) } else { Ok(text) }
}

/// Lists of roles, separated by `;`.
fn lists<'a>(job: &'a Job, key: &'static str) -> Result<Vec<Vec<RoleId>>, AnnotationFault<'a>> {
    let text = bounded(job, key)?;
    text.into_iter().flat_map(|text| text.split(';')).map(|part| list(job, key, part)).collect()
}

fn list<'a>(job: &'a Job, key: &'static str, text: &'a str) -> Result<Vec<RoleId>, AnnotationFault<'a>> {
    let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
    if let Some((_, role)) = names().enumerate().find(|(at, name)| names().take(*at).any(|it| it == *name)) {
        return Err(AnnotationFault::Twice { key, role });
    }
    let id = |name: &'a str| {
        let has_pods = |role: &phalanx_cluster::Role| *role.name == *name && role.counts.total() > 0;
        let found = job.roles.iter().position(has_pods).map(|role| role as RoleId);
        found.ok_or(AnnotationFault::Unknown { key, role: name })
    };
    names().map(id).collect()
}

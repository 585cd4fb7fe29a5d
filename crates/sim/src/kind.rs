//! The kinds of objects that are read.
use crate::workload::Workload;

/// A kind that scheduling reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Node,
    Pod,
    PodGroup,
    Queue,
    PriorityClass,
    ResourceQuota,
    NodeMetrics,
    PodDisruptionBudget,
    Namespace,
    DeviceClass,
    ResourceSlice,
    ResourceClaim,
    ResourceClaimTemplate,
}

impl Kind {
    const ALL: [(&str, Kind); 13] = [
        ("v1", Kind::Node),
        ("v1", Kind::Pod),
        ("scheduling.volcano.sh/v1beta1", Kind::PodGroup),
        ("scheduling.volcano.sh/v1beta1", Kind::Queue),
        ("scheduling.k8s.io/v1", Kind::PriorityClass),
        ("v1", Kind::ResourceQuota),
        ("metrics.k8s.io/v1beta1", Kind::NodeMetrics),
        ("policy/v1", Kind::PodDisruptionBudget),
        ("v1", Kind::Namespace),
        ("resource.k8s.io/v1", Kind::DeviceClass),
        ("resource.k8s.io/v1", Kind::ResourceSlice),
        ("resource.k8s.io/v1", Kind::ResourceClaim),
        ("resource.k8s.io/v1", Kind::ResourceClaimTemplate),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Node => "Node",
            Kind::Pod => "Pod",
            Kind::PodGroup => "PodGroup",
            Kind::Queue => "Queue",
            Kind::PriorityClass => "PriorityClass",
            Kind::ResourceQuota => "ResourceQuota",
            Kind::NodeMetrics => "NodeMetrics",
            Kind::PodDisruptionBudget => "PodDisruptionBudget",
            Kind::Namespace => "Namespace",
            Kind::DeviceClass => "DeviceClass",
            Kind::ResourceSlice => "ResourceSlice",
            Kind::ResourceClaim => "ResourceClaim",
            Kind::ResourceClaimTemplate => "ResourceClaimTemplate",
        }
    }

    pub(crate) fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Kind::Node
                | Kind::Queue
                | Kind::PriorityClass
                | Kind::NodeMetrics
                | Kind::DeviceClass
                | Kind::ResourceSlice
        )
    }
}

/// What to do with an object, by its apiVersion and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort<'a> {
    /// Read it.
    Plain(Kind),
    /// Make pods of it.
    Workload(Workload),
    /// Read its items; the kind of those that do not name one.
    List(Option<&'a str>),
    /// Leave it.
    Unknown,
}

impl<'a> Sort<'a> {
    pub(crate) fn of(version: &str, kind: &'a str) -> Self {
        if let Some((_, kind)) =
            Kind::ALL.iter().find(|(known, each)| *known == version && each.name() == kind)
        {
            return Sort::Plain(*kind);
        }
        match (version, kind) {
            ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") => Sort::Workload(Workload::Replicated),
            ("batch/v1", "Job") => Sort::Workload(Workload::Job),
            ("v1", "List") => Sort::List(None),
            (version, kind) => match kind.strip_suffix("List").map(|item| (item, Sort::of(version, item))) {
                Some((item, Sort::Plain(_) | Sort::Workload(_))) => Sort::List(Some(item)),
                _ => Sort::Unknown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart_by_group_too() {
        for (version, kind, expected) in [
            ("v1", "Pod", Sort::Plain(Kind::Pod)),
            ("v1", "PodList", Sort::List(Some("Pod"))),
            ("v1", "List", Sort::List(None)),
            ("v1", "Service", Sort::Unknown),
            ("v1", "ServiceList", Sort::Unknown),
            ("scheduling.volcano.sh/v1beta1", "PodGroup", Sort::Plain(Kind::PodGroup)),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup", Sort::Unknown),
            ("batch/v1", "Job", Sort::Workload(Workload::Job)),
            ("batch/v1", "JobList", Sort::List(Some("Job"))),
            ("batch.volcano.sh/v1alpha1", "Job", Sort::Unknown),
            ("apps/v1", "StatefulSet", Sort::Workload(Workload::Replicated)),
        ] {
            assert_eq!(Sort::of(version, kind), expected, "{version} {kind}");
        }
    }
}

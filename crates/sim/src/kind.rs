//! Kinds of objects.
use crate::workload::Workload;

/// A kind that scheduling reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Node,
    Pod,
    PodGroup,
    KubernetesPodGroup,
    Queue,
    HyperNode,
    PriorityClass,
    ResourceQuota,
    NodeMetrics,
    PodDisruptionBudget,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    VolumeAttachment,
    CSIDriver,
    CSIStorageCapacity,
    Namespace,
    DeviceClass,
    ResourceSlice,
    ResourceClaim,
    ResourceClaimTemplate,
}

impl Kind {
    const ALL: [(&str, Kind); 22] = [
        ("v1", Kind::Node),
        ("v1", Kind::Pod),
        ("scheduling.volcano.sh/v1beta1", Kind::PodGroup),
        ("scheduling.k8s.io/v1alpha2", Kind::KubernetesPodGroup),
        ("scheduling.volcano.sh/v1beta1", Kind::Queue),
        (phalanx_api::topology::API_VERSION, Kind::HyperNode),
        ("scheduling.k8s.io/v1", Kind::PriorityClass),
        ("v1", Kind::ResourceQuota),
        ("metrics.k8s.io/v1beta1", Kind::NodeMetrics),
        ("policy/v1", Kind::PodDisruptionBudget),
        ("v1", Kind::PersistentVolume),
        ("v1", Kind::PersistentVolumeClaim),
        ("storage.k8s.io/v1", Kind::StorageClass),
        ("storage.k8s.io/v1", Kind::CSINode),
        ("storage.k8s.io/v1", Kind::VolumeAttachment),
        ("storage.k8s.io/v1", Kind::CSIDriver),
        ("storage.k8s.io/v1", Kind::CSIStorageCapacity),
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
            Kind::PodGroup | Kind::KubernetesPodGroup => "PodGroup",
            Kind::Queue => "Queue",
            Kind::HyperNode => "HyperNode",
            Kind::PriorityClass => "PriorityClass",
            Kind::ResourceQuota => "ResourceQuota",
            Kind::NodeMetrics => "NodeMetrics",
            Kind::PodDisruptionBudget => "PodDisruptionBudget",
            Kind::PersistentVolume => "PersistentVolume",
            Kind::PersistentVolumeClaim => "PersistentVolumeClaim",
            Kind::StorageClass => "StorageClass",
            Kind::CSINode => "CSINode",
            Kind::VolumeAttachment => "VolumeAttachment",
            Kind::CSIDriver => "CSIDriver",
            Kind::CSIStorageCapacity => "CSIStorageCapacity",
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
                | Kind::Namespace
                | Kind::Queue
                | Kind::HyperNode
                | Kind::PriorityClass
                | Kind::NodeMetrics
                | Kind::PersistentVolume
                | Kind::StorageClass
                | Kind::CSINode
                | Kind::VolumeAttachment
                | Kind::CSIDriver
                | Kind::DeviceClass
                | Kind::ResourceSlice
        )
    }
}

/// How an object is treated, by its apiVersion and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort<'a> {
    /// The object is read.
    Plain(Kind),
    /// Its pods are created.
    Workload(Workload),
    /// The controller of this kind is simulated.
    Controlled(Controlled),
    /// A list: its items are read; with the kind of items that do not name one.
    List(Option<&'a str>),
    /// The object is ignored.
    Unknown,
    /// The object is an error; the kind that was probably meant.
    Slip { version: &'static str, kind: &'static str },
}

impl<'a> Sort<'a> {
    pub(crate) fn of(version: &str, kind: &'a str) -> Self {
        if let Some((_, kind)) =
            Kind::ALL.iter().find(|(known, each)| *known == version && each.name() == kind)
        {
            return Sort::Plain(*kind);
        }
        if let Some((.., workload)) =
            WORKLOADS.iter().find(|(known, each, _)| (*known, *each) == (version, kind))
        {
            return Sort::Workload(*workload);
        }
        if let Some((.., controlled)) =
            CONTROLLED.iter().find(|(known, each, _)| (*known, *each) == (version, kind))
        {
            return Sort::Controlled(*controlled);
        }
        match (version, kind) {
            ("v1", "List") => Sort::List(None),
            (version, kind) => match kind.strip_suffix("List").map(|item| (item, Sort::of(version, item))) {
                Some((item, Sort::Plain(_) | Sort::Workload(_) | Sort::Controlled(_))) => {
                    Sort::List(Some(item))
                }
                _ => slip(version, kind).unwrap_or(Sort::Unknown),
            },
        }
    }
}

/// A misspelt kind: the name of a known kind in other letters, or a known kind with a version of its group, or with
/// no group, that does not exist.
fn slip<'a>(version: &str, kind: &str) -> Option<Sort<'a>> {
    let group = |version: &'static str| version.rsplit_once('/').map_or("", |(group, _)| group);
    let written = version.rsplit_once('/').map_or("", |(group, _)| group);
    known()
        .filter(|(known, name)| name.eq_ignore_ascii_case(kind) && [group(known), ""].contains(&written))
        .map(|(version, kind)| Sort::Slip { version, kind })
        .next()
}

/// All known kinds, by apiVersion and kind.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = Kind::ALL.iter().map(|(version, kind)| (*version, kind.name()));
    plain
        .chain(WORKLOADS.iter().map(|(version, kind, _)| (*version, *kind)))
        .chain(CONTROLLED.iter().map(|(version, kind, _)| (*version, *kind)))
}

/// The known kind of the same apiVersion that was probably meant.
pub(crate) fn near(kind: &str, version: &str) -> Option<&'static str> {
    let names: Vec<&str> = known().filter(|(known, _)| *known == version).map(|(_, name)| name).collect();
    phalanx_conf::nearest(&names, kind)
}

/// The kinds of objects that a copy of a cluster needs, by apiVersion and kind. Workloads such as Deployments are none
/// of them: their pods are.
pub fn kinds_of_a_copy() -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = Kind::ALL.iter().map(|(version, kind)| (*version, kind.name()));
    plain.chain(CONTROLLED.iter().map(|(version, kind, _)| (*version, *kind)))
}

/// A kind that controllers of Volcano read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controlled {
    Job,
    CronJob,
    JobFlow,
    JobTemplate,
    Command,
}

impl Controlled {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Controlled::Job => "Job",
            Controlled::CronJob => "CronJob",
            Controlled::JobFlow => "JobFlow",
            Controlled::JobTemplate => "JobTemplate",
            Controlled::Command => "Command",
        }
    }
}

const CONTROLLED: [(&str, &str, Controlled); 5] = [
    (phalanx_api::batch::API_VERSION, "Job", Controlled::Job),
    (phalanx_api::batch::API_VERSION, "CronJob", Controlled::CronJob),
    ("flow.volcano.sh/v1alpha1", "JobFlow", Controlled::JobFlow),
    ("flow.volcano.sh/v1alpha1", "JobTemplate", Controlled::JobTemplate),
    ("bus.volcano.sh/v1alpha1", "Command", Controlled::Command),
];

/// The kinds with a pod template.
const WORKLOADS: [(&str, &str, Workload); 4] = [
    ("apps/v1", "Deployment", Workload::Replicated),
    ("apps/v1", "ReplicaSet", Workload::Replicated),
    ("apps/v1", "StatefulSet", Workload::Replicated),
    ("batch/v1", "Job", Workload::Job),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_like(kind: &'static str) -> Sort<'static> {
        Sort::Slip { version: "scheduling.volcano.sh/v1beta1", kind }
    }

    #[test]
    fn a_suggested_kind_has_the_same_version() {
        for (version, kind, expected) in [
            ("v1", "Pods", Some("Pod")),
            ("v1", "PodGrup", None),
            ("scheduling.volcano.sh/v1beta1", "PodGrup", Some("PodGroup")),
            ("v1", "Service", None),
            ("v1", "ConfigMap", None),
            ("v1", "Secret", None),
            ("v1", "Event", None),
            ("v1", "Endpoints", None),
            ("v1", "ServiceAccount", None),
            ("v1", "LimitRange", None),
            ("v1", "PodTemplate", None),
            ("v1", "Binding", None),
            ("apps/v1", "ControllerRevision", None),
            ("batch/v1", "CronJob", None),
        ] {
            assert_eq!(near(kind, version), expected, "{kind}");
        }
    }

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
            ("batch.volcano.sh/v1alpha1", "Job", Sort::Controlled(Controlled::Job)),
            ("batch.volcano.sh/v1alpha1", "CronJob", Sort::Controlled(Controlled::CronJob)),
            ("batch/v1", "CronJob", Sort::Unknown),
            ("bus.volcano.sh/v1alpha1", "CommandList", Sort::List(Some("Command"))),
            ("batch.volcano.sh/v1alpha1", "JobList", Sort::List(Some("Job"))),
            ("apps/v1", "StatefulSet", Sort::Workload(Workload::Replicated)),
            ("scheduling.volcano.sh/v1alpha9", "PodGroup", queue_like("PodGroup")),
            ("v1", "PodGroup", queue_like("PodGroup")),
            ("scheduling.volcano.sh/v1beta1", "Podgroup", queue_like("PodGroup")),
            ("scheduling.volcano.sh/v1beta1", "queue", queue_like("Queue")),
            ("v2", "Pod", Sort::Slip { version: "v1", kind: "Pod" }),
            ("v1", "Deployment", Sort::Slip { version: "apps/v1", kind: "Deployment" }),
            ("apps/v1", "Pod", Sort::Unknown),
        ] {
            assert_eq!(Sort::of(version, kind), expected, "{version} {kind}");
        }
    }
}

//! Kinds of objects that own PodGroups or pods, and which objects own a pod.
use phalanx_cluster::event::ControllerRef;
use phalanx_cluster::label::Labels;

/// Kinds, and the short names that people type.
const KINDS: [(&str, &str); 11] = [
    ("PodGroup", "pg"),
    ("Pod", "po"),
    ("Job", "vcjob"),
    ("Deployment", "deploy"),
    ("ReplicaSet", "rs"),
    ("StatefulSet", "sts"),
    ("DaemonSet", "ds"),
    ("LeaderWorkerSet", "lws"),
    ("JobSet", "js"),
    ("PyTorchJob", "pj"),
    ("RayJob", "rj"),
];

/// Labels of pods by which an owner above their controller is known: the label with its name, and its kind.
const BY_LABEL: [(&str, &str); 5] = [
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("ray.io/cluster", "RayCluster"),
    ("sparkoperator.k8s.io/app-name", "SparkApplication"),
    ("volcano.sh/job-name", "Job"),
];

/// Labels of pods of a RayCluster that another object made: its kind and its name.
const RAY_MAKER: (&str, &str) = ("ray.io/originated-from-crd", "ray.io/originated-from-cr-name");

/// The label of pods of a Deployment, whose ReplicaSets are named by it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The kind that a text means: without its group, and in full where it is short.
pub(crate) fn kind_of(text: &str) -> String {
    let text = text.split('.').next().unwrap_or(text);
    let known = KINDS.iter().find(|(kind, short)| is_kind(kind, text) || is_kind(short, text));
    known.map_or(text, |(kind, _)| kind).to_owned()
}

/// Whether a kind is the one that a text means, whatever its case, and in the plural too.
pub(crate) fn is_kind(kind: &str, text: &str) -> bool {
    kind.eq_ignore_ascii_case(text)
        || text.strip_suffix(['s', 'S']).is_some_and(|one| kind.eq_ignore_ascii_case(one))
}

/// Kinds and names of what owns a pod: its controller, and owners above that which its labels name.
pub(crate) fn of(controller: Option<&ControllerRef>, labels: &Labels) -> Vec<(String, String)> {
    let mut owners = Vec::new();
    if let Some(ControllerRef { kind, name }) = controller {
        owners.push((kind.to_string(), name.to_string()));
        let hash = labels.get(TEMPLATE_HASH).filter(|_| **kind == *"ReplicaSet");
        let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        owners.extend(deployment.map(|name| ("Deployment".to_owned(), name.to_owned())));
    }
    let labelled = |(label, kind): &(&str, &str)| Some(((*kind).to_owned(), labels.get(label)?.to_owned()));
    owners.extend(BY_LABEL.iter().filter_map(labelled));
    if let (Some(kind), Some(name)) = (labels.get(RAY_MAKER.0), labels.get(RAY_MAKER.1)) {
        owners.push((kind.to_owned(), name.to_owned()));
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_what_kubectl_takes() {
        for (text, kind) in [
            ("vcjob", "Job"),
            ("jobs.batch.volcano.sh", "Job"),
            ("deploy", "Deployment"),
            ("Pods", "Pod"),
            ("pytorchjobs.kubeflow.org", "PyTorchJob"),
            ("TFJobs", "TFJobs"),
        ] {
            assert_eq!(kind_of(text), kind, "{text}");
        }
        assert!(is_kind("TFJob", "tfjobs") && is_kind("TFJob", "TFJob") && !is_kind("TFJob", "MPIJob"));
    }

    #[test]
    fn a_pod_is_of_its_controller_and_of_what_its_labels_name() {
        let owners = |kind: &str, name: &str, labels: &[(&str, &str)]| {
            let labels: Labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let names = of(Some(&ControllerRef { kind: kind.into(), name: name.into() }), &labels);
            names.into_iter().map(|(kind, name)| format!("{kind}/{name}")).collect::<Vec<_>>()
        };
        assert_eq!(
            owners("ReplicaSet", "web-5d4f", &[("pod-template-hash", "5d4f")]),
            ["ReplicaSet/web-5d4f", "Deployment/web"]
        );
        assert_eq!(owners("ReplicaSet", "web", &[]), ["ReplicaSet/web"]);
        let ray = [("ray.io/originated-from-crd", "RayJob"), ("ray.io/originated-from-cr-name", "tune")];
        assert_eq!(owners("RayCluster", "tune-abc", &ray), ["RayCluster/tune-abc", "RayJob/tune"]);
        let set = [("leaderworkerset.sigs.k8s.io/name", "llm")];
        assert_eq!(owners("StatefulSet", "llm-1", &set), ["StatefulSet/llm-1", "LeaderWorkerSet/llm"]);
    }
}

//! The use of ResourceQuotas as an API server counts it.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::Event;
use phalanx_cluster::{Cluster, ClusterOptions, Status};
use phalanx_resource::Amounts;

use crate::manifests::Object;

/// Fills in the use of quotas without a status: the requests of pods in the namespace that have not ended.
pub(crate) fn count_used(objects: &mut [Object]) {
    let counts = |object: &Object| matches!(object, Object::Quota(quota) if quota.used.is_empty());
    if !objects.iter().any(counts) {
        return;
    }
    let (cluster, sums) = requests_by_namespace(objects);
    for object in objects {
        let Object::Quota(quota) = object else { continue };
        if let Some(sum) = sums.get(&quota.key.namespace).filter(|_| quota.used.is_empty()) {
            let parsed = |(name, text): (Arc<str>, String)| Some((name, text.parse().ok()?));
            quota.used = cluster.render(sum).into_iter().filter_map(parsed).collect();
        }
    }
}

fn requests_by_namespace(objects: &[Object]) -> (Cluster, BTreeMap<Arc<str>, Amounts>) {
    let mut cluster = Cluster::new(ClusterOptions::default());
    for object in objects {
        if let Object::Pod(pod) = object {
            cluster.apply(Event::Pod(Box::new(pod.info.clone())));
        }
    }
    let mut sums = BTreeMap::<Arc<str>, Amounts>::new();
    for (_, task) in cluster.tasks.iter() {
        if !matches!(task.status, Status::Succeeded | Status::Failed) {
            let request = &cluster.classes[task.class].request;
            sums.entry(task.pod.namespace.clone()).or_default().add(request);
        }
    }
    (cluster, sums)
}

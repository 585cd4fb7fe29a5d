//! Fields and annotations of objects that only certain plugins read, if the configuration has none of these plugins.
use phalanx_cluster::annotation::{
    BARE_SLA_WAITING_TIME, COOLDOWN_TIME, SLA_WAITING_TIME, TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
};
use phalanx_cluster::event::QueueInfo;
use phalanx_framework::conf::Conf;

use crate::manifests::{Manifests, Object};

/// A field or annotation with the plugins that read it.
struct Wish {
    what: &'static str,
    plugins: &'static [&'static str],
    asks: fn(&Object) -> bool,
}

const WISHES: [Wish; 7] = [
    Wish {
        what: "affinity",
        plugins: &["nodegroup"],
        asks: |it| queue(it).is_some_and(|it| it.node_groups.is_some()),
    },
    Wish {
        what: "capability",
        plugins: &["capacity", "proportion"],
        asks: |it| queue(it).is_some_and(|it| !it.capability.is_empty()),
    },
    Wish {
        what: "deserved",
        plugins: &["capacity"],
        asks: |it| queue(it).is_some_and(|it| !it.deserved.is_empty()),
    },
    Wish {
        what: "guarantee",
        plugins: &["capacity", "proportion"],
        asks: |it| queue(it).is_some_and(|it| !it.guarantee.is_empty()),
    },
    Wish { what: COOLDOWN_TIME, plugins: &["cdp"], asks: |it| has(it, &[COOLDOWN_TIME]) },
    Wish {
        what: SLA_WAITING_TIME,
        plugins: &["sla"],
        asks: |it| has(it, &[SLA_WAITING_TIME, BARE_SLA_WAITING_TIME]),
    },
    Wish {
        what: "volcano.sh/task-topology-*",
        plugins: &["task-topology"],
        asks: |it| has(it, &[TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY]),
    },
];

fn queue(object: &Object) -> Option<&QueueInfo> {
    match object {
        Object::Queue(queue) => Some(queue),
        _ => None,
    }
}

fn has(object: &Object, keys: &[&str]) -> bool {
    let annotations = match object {
        Object::PodGroup(group) => &group.annotations,
        Object::Pod(pod) => &pod.info.annotations,
        _ => return false,
    };
    keys.iter().any(|key| annotations.get(key).is_some())
}

/// The kind and the name of an object.
fn name(object: &Object) -> Option<String> {
    match object {
        Object::Queue(queue) => Some(format!("Queue {}", queue.name)),
        Object::PodGroup(group) => Some(format!("PodGroup {}", group.key)),
        Object::Pod(pod) => Some(format!("Pod {}/{}", pod.info.pod.namespace, pod.info.pod.name)),
        _ => None,
    }
}

/// A note for each, with the first object that has it.
pub(crate) fn unread(conf: &Conf, manifests: &Manifests) -> Vec<String> {
    let has = |name: &&str| conf.plugins().any(|plugin| plugin.name == **name);
    let idle = WISHES.iter().filter(|wish| !wish.plugins.iter().any(&has));
    idle.filter_map(|wish| told(wish, manifests)).collect()
}

fn told(wish: &Wish, manifests: &Manifests) -> Option<String> {
    let mut asking = manifests.objects.iter().filter(|object| (wish.asks)(object)).filter_map(name);
    let first = asking.next()?;
    let more = match asking.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let plugins = wish.plugins.join(" or ");
    Some(format!(
        "{first}{more}: {} counts for nothing: the configuration has no plugin {plugins}",
        wish.what
    ))
}

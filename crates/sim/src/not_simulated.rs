//! Notes on extenders, metrics and quotas: a simulation calls no extender, no source of metrics and no API server.
use phalanx_framework::conf::{Conf, PluginConf};

use crate::manifests::{Manifests, Object};
use crate::unread_fields::unread;

/// Plugins that read measured usage.
const READ_USE: [&str; 2] = ["usage", "rescheduling"];

/// A note for each such part.
pub fn not_simulated(conf: &Conf, manifests: &Manifests) -> Vec<String> {
    let plugins = || conf.plugins();
    let readers: Vec<&str> =
        READ_USE.into_iter().filter(|name| plugins().any(|plugin| plugin.name == *name)).collect();
    let extenders = plugins().filter(|plugin| plugin.name == "extender").map(extender);
    let quotas = quotas(plugins().any(|plugin| plugin.name == "resourcequota"), manifests);
    extenders
        .chain(use_of_nodes(&readers, conf, manifests))
        .chain(quotas)
        .chain(unread(conf, manifests))
        .collect()
}

/// On a cluster the API server refuses pods beyond a quota on creation.
fn quotas(counted: bool, manifests: &Manifests) -> Option<String> {
    let quotas = manifests.objects.iter().filter(|object| matches!(object, Object::Quota(_))).count();
    (quotas > 0 && !counted).then(|| {
        "ResourceQuotas keep no pod out here: no API server is asked, and the configuration has no plugin resourcequota".to_owned()
    })
}

fn extender(plugin: &PluginConf) -> String {
    let url = plugin.args.text("extender.urlPrefix").unwrap_or("without extender.urlPrefix");
    format!("plugin extender ({url}) is not asked: what it would refuse, prefer or bind is not in the result")
}

fn use_of_nodes(readers: &[&str], conf: &Conf, manifests: &Manifests) -> Option<String> {
    let figures = manifests.objects.iter().any(|object| matches!(object, Object::NodeUsage(_)));
    let source = conf.metrics.get("type").map(|source| format!("metrics ({source}) is not asked: "));
    let readers = match readers {
        [] => return None,
        readers => readers.join(" and "),
    };
    match (source, figures) {
        (None, true) => None,
        (source, true) => Some(format!(
            "{}plugin {readers} goes by the NodeMetrics of the input",
            source.unwrap_or_default()
        )),
        (source, false) => Some(format!(
            "{}the input has no NodeMetrics (metrics.k8s.io/v1beta1), so plugin {readers} knows no use of any node",
            source.unwrap_or_default()
        )),
    }
}

//! Metrics of scheduler.conf.
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Register;
use crate::reload::InForce;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConfHash {
    sha256: String,
}

/// Which scheduler.conf is in force.
#[derive(Debug)]
pub(super) struct ConfMetrics {
    reloads: Family<ReloadLabels, Counter>,
    info: Family<ConfHash, Gauge>,
    loaded: Gauge,
    good: Gauge,
}

impl Default for ConfMetrics {
    fn default() -> Self {
        let good = Gauge::default();
        good.set(1);
        Self { reloads: Family::default(), info: Family::default(), loaded: Gauge::default(), good }
    }
}

impl ConfMetrics {
    pub(super) fn register(&self, registry: &mut Register<'_>) {
        registry.add("phalanx_conf_reloads_total", &self.reloads);
        registry.add("phalanx_conf_info", &self.info);
        registry.add("phalanx_conf_loaded_timestamp_seconds", &self.loaded);
        registry.add("phalanx_conf_last_reload_successful", &self.good);
    }

    pub(super) fn reloaded(&self, good: bool) {
        let result = if good { "success" } else { "error" };
        self.reloads.get_or_create(&ReloadLabels { result }).inc();
        self.good.set(i64::from(good));
    }

    pub(super) fn in_force(&self, conf: &InForce) {
        self.info.clear();
        self.info.get_or_create(&ConfHash { sha256: conf.sha256.clone() }).set(1);
        self.loaded.set(conf.since.as_second());
    }
}

//! Settings that have little effect without another setting of the file.
use phalanx_framework::conf::{Conf, PluginConf, Position};

use crate::known::Known;
use crate::problem::Problems;

/// Actions that evict for the more important.
const PREEMPTING: [&str; 2] = ["preempt", "gangpreempt"];

/// Plugins that choose the victims of the action shuffle.
const SHUFFLING: [&str; 2] = ["rescheduling", "tdm"];

/// Warns of each such setting; `at` is the position of the actions. That there is no plugin at all is reported
/// elsewhere.
pub(crate) fn check(conf: &Conf, known: &Known, at: Position, problems: &mut Problems) {
    if conf.tiers.iter().all(|tier| tier.plugins.is_empty()) {
        return;
    }
    let plugin = |name: &str| conf.tiers.iter().flat_map(|tier| &tier.plugins).find(|it| it.name == name);
    let action = |name: &str| known.action(name).is_some() && conf.actions.iter().any(|it| it == name);
    if let Some(at) = plugin("rescheduling").filter(|_| !action("shuffle")).map(|plugin| plugin.at) {
        problems.warning(
            at,
            "plugin rescheduling moves no pods without action shuffle",
            "shuffle among the actions",
        );
    }
    if action("shuffle") && SHUFFLING.iter().all(|name| plugin(name).is_none()) {
        let what = format!("action shuffle evicts no pod without plugin {}", SHUFFLING.join(" or "));
        problems.warning(at, what, "one of them among the plugins");
    }
    if let Some(name) = PREEMPTING.iter().find(|name| action(name) && plugin("priority").is_none()) {
        let what = format!("no plugin priority, so {name} serves jobs whatever their priority");
        problems.warning(at, what, "priority among the plugins");
    }
    if let Some(at) = plugin("extender").and_then(unaddressed) {
        problems.warning(
            at,
            "plugin extender without extender.urlPrefix has no server to ask",
            "its address",
        );
    }
}

fn unaddressed(extender: &PluginConf) -> Option<Position> {
    let address = extender.args.text("extender.urlPrefix").filter(|text| !text.is_empty());
    address.is_none().then_some(extender.at)
}

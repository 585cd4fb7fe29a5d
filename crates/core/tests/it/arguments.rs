//! Arguments of actions and plugins.
use phalanx_core::actions::ACTIONS;
use phalanx_framework::conf::{ArgKind, ArgSpec, Value};
use phalanx_plugins::PLUGINS;

#[test]
fn defaults_of_arguments_pass_their_own_checks() {
    let all = ACTIONS.iter().map(|def| def.args).chain(PLUGINS.iter().map(|def| def.args));
    let mut specs: Vec<&ArgSpec> = all.flatten().collect();
    let mut ruled = 0;
    while let Some(spec) = specs.pop() {
        if let ArgKind::Section(inner) | ArgKind::Sections(inner) = spec.kind {
            specs.extend(inner);
        }
        if spec.default.is_empty() || spec.kind.rules().is_empty() {
            continue;
        }
        let number = spec.default.parse().map(Value::Float);
        let value = number.unwrap_or_else(|_| Value::Text(spec.default.into()));
        assert!(spec.broken(&value).is_none(), "{spec:?}");
        ruled += 1;
    }
    assert!(ruled > 40, "{ruled}");
}

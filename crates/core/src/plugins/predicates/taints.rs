//! Taints and tolerations. Source: Kubernetes' documentation of tolerations.
use std::cmp::Ordering;

use crate::event::{Taint, Toleration, TolerationOperator};

/// Whether any of the tolerations covers the taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && (toleration.key.is_empty() || toleration.key == taint.key)
            && covers_value(toleration, &taint.value)
    })
}

fn covers_value(toleration: &Toleration, value: &str) -> bool {
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => *toleration.value == *value,
        TolerationOperator::Gt => compared(value, &toleration.value) == Some(Ordering::Greater),
        TolerationOperator::Lt => compared(value, &toleration.value) == Some(Ordering::Less),
    }
}

/// What is no integer is neither larger nor smaller. Source: Kubernetes' feature gate
/// TaintTolerationComparisonOperators.
fn compared(left: &str, right: &str) -> Option<Ordering> {
    Some(left.parse::<i64>().ok()?.cmp(&right.parse::<i64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaintEffect::{self, NoExecute, NoSchedule};

    #[test]
    fn a_toleration_covers_by_key_value_and_effect() {
        let taint = |value: &str| Taint { key: "gpu".into(), value: value.into(), effect: NoSchedule };
        let toleration = |key: &str, exists: bool, value: &str, effect: Option<TaintEffect>| Toleration {
            key: key.into(),
            operator: if exists { TolerationOperator::Exists } else { TolerationOperator::Equal },
            value: value.into(),
            effect,
        };
        for (toleration, expected) in [
            (toleration("gpu", true, "", None), true),
            (toleration("gpu", false, "a", Some(NoSchedule)), true),
            (toleration("gpu", false, "b", None), false),
            (toleration("", true, "", None), true),
            (toleration("gpu", true, "", Some(NoExecute)), false),
            (toleration("cpu", true, "", None), false),
        ] {
            assert_eq!(tolerates(std::slice::from_ref(&toleration), &taint("a")), expected, "{toleration:?}");
        }
        assert!(!tolerates(&[], &taint("a")));
    }

    #[test]
    fn integers_are_compared_as_such() {
        for (taint, operator, value, expected) in [
            ("950", TolerationOperator::Gt, "900", true),
            ("900", TolerationOperator::Gt, "900", false),
            ("1000", TolerationOperator::Lt, "900", false),
            ("-5", TolerationOperator::Lt, "0", true),
            ("high", TolerationOperator::Gt, "0", false),
            ("5", TolerationOperator::Lt, "many", false),
            ("", TolerationOperator::Lt, "1", false),
        ] {
            let taint = Taint { key: "sla".into(), value: taint.into(), effect: NoSchedule };
            let toleration = Toleration { key: "sla".into(), operator, value: value.into(), effect: None };
            let covered = tolerates(std::slice::from_ref(&toleration), &taint);
            assert_eq!(covered, expected, "{taint:?} {toleration:?}");
        }
    }
}

//! Taints and tolerations. Source: Kubernetes' documentation of tolerations.
use crate::event::{Taint, Toleration};

/// Whether any of the tolerations covers the taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && (toleration.key.is_empty() || toleration.key == taint.key)
            && (toleration.exists || toleration.value == taint.value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaintEffect::{self, NoExecute, NoSchedule};

    #[test]
    fn a_toleration_covers_by_key_value_and_effect() {
        let taint = |value: &str| Taint { key: "gpu".into(), value: value.into(), effect: NoSchedule };
        let toleration = |key: &str, exists, value: &str, effect: Option<TaintEffect>| Toleration {
            key: key.into(),
            exists,
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
}

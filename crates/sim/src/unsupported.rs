//! Constraints of pods that the scheduler does not honour yet: pods are placed as if they were not there.
use serde_json::Value;

use crate::kind::Kind;

/// A constraint, for people, and whether a pod's spec has it.
type Constraint = (&'static str, fn(&Value) -> bool);

const CONSTRAINTS: [Constraint; 1] = [("volumes of PersistentVolumeClaims", has_claims)];

/// Which of the constraints an object has.
pub(crate) fn of(kind: Kind, object: &Value) -> [bool; CONSTRAINTS.len()] {
    let spec = &object["spec"];
    CONSTRAINTS.map(|(_, has)| kind == Kind::Pod && has(spec))
}

fn items<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_claims(spec: &Value) -> bool {
    let claims =
        |volume: &Value| !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null();
    items(spec, "volumes").iter().any(claims)
}

/// How many pods have each of the constraints.
#[derive(Debug, Default)]
pub(crate) struct Unsupported([usize; CONSTRAINTS.len()]);

impl Unsupported {
    pub(crate) fn count(&mut self, has: [bool; CONSTRAINTS.len()]) {
        for (count, has) in self.0.iter_mut().zip(has) {
            *count += usize::from(has);
        }
    }

    /// A line for each that any pod has.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let met = CONSTRAINTS.iter().zip(&self.0).filter(|(_, count)| **count > 0);
        met.map(|((what, _), count)| {
            let (pods, are) = if *count == 1 { ("pod has", "it is") } else { ("pods have", "they are") };
            format!("{count} {pods} {what}, not honoured yet: {are} placed as if there were none")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_count_and_other_volumes_do_not() {
        for (spec, expected) in [
            (json!({}), None),
            (json!({"volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "a"}}]}), Some(0)),
            (json!({"volumes": [{"ephemeral": {}}]}), Some(0)),
            (json!({"volumes": [{"emptyDir": {}}]}), None),
            (json!({"resourceClaims": [{"name": "gpu"}]}), None),
        ] {
            let found = of(Kind::Pod, &json!({ "spec": spec }));
            let found: Vec<usize> = (0..CONSTRAINTS.len()).filter(|at| found[*at]).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{spec}");
        }
    }
}

//! The CEL rules of JobFlow.

use serde_json::{Value, json};

use crate::ring::Steps;

const STEPS: Steps = Steps {
    list: "self.flows",
    is_named: "has(s.name)",
    waits: "has(s.dependsOn) && has(s.dependsOn.targets)",
    after: "s.dependsOn.targets",
};

/// On the spec of a flow.
pub(crate) fn flows() -> Value {
    json!([
        {
            "rule": "!has(self.flows) || self.flows.all(f, self.flows.exists_one(o, o.name == f.name))",
            "message": "names of flows must be unique",
            "fieldPath": ".flows",
        },
        {
            "rule": STEPS.are_known(),
            "message": "jobflow Flow is not DAG: vertex is not defined: dependsOn must name Jobs of the flow",
            "fieldPath": ".flows",
        },
        {
            "rule": STEPS.have_no_ring(),
            "message": "jobflow Flow is not DAG: Jobs must not wait for each other",
            "fieldPath": ".flows",
        },
    ])
}

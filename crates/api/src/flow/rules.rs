//! The CEL rules of JobFlow. That the Jobs do not wait for each other in a ring is checked by the controller.

use serde_json::{Value, json};

/// On the spec of a flow.
pub(crate) fn flows() -> Value {
    json!([
        {
            "rule": "!has(self.flows) || self.flows.all(f, self.flows.exists_one(o, o.name == f.name))",
            "message": "names of flows must be unique",
            "fieldPath": ".flows",
        },
        {
            "rule": "!has(self.flows) || self.flows.all(f, !has(f.dependsOn) || !has(f.dependsOn.targets) \
                     || !(f.name in f.dependsOn.targets))",
            "message": "a Job cannot depend on itself",
            "fieldPath": ".flows",
        },
    ])
}

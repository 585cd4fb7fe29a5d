//! The CEL rules of the schemas: what Volcano's default admission refuses, and nothing more.
//!
//! A rule sees one object. What depends on others (children fit in their parent) and what an operator
//! may want to switch off (root protection) is said by the policies of `deploy/45-admission.yaml`.
//! Changes to a stored object that breaks a rule pass as long as that part is untouched (validation
//! ratcheting).
//!
//! The API server bounds the estimated cost of a rule, and before Kubernetes 1.34 estimates a
//! quantity as long as a whole request. Hence amounts are compared for the resources listed here,
//! not for any name.

use serde_json::{Value, json};

/// Resources whose amounts are compared across fields.
const COMPARED: [&str; 13] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
];

/// Of [`COMPARED`], those that Kubernetes counts in whole numbers.
const WHOLE: [&str; 8] = [
    "pods",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
];

/// On a resource list: whole numbers of what cannot be divided.
pub(super) fn whole_numbers() -> Value {
    let names = list(&WHOLE);
    let broken = "n in self && type(self[n]) == string && \
                  double(int(quantity(self[n]).asApproximateFloat())) != quantity(self[n]).asApproximateFloat()";
    json!({
        "rule": format!("{names}.all(n, !({broken}))"),
        "message": "pods and devices are counted in whole numbers",
    })
}

/// On a network topology: one way only to say the highest tier.
pub(crate) fn one_highest_tier() -> Value {
    json!([{
        "rule": "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
        "message": "highestTierAllowed and highestTierName exclude each other",
        "fieldPath": ".highestTierName",
    }])
}

/// On a queue's spec: guarantee <= deserved <= capability, where both are given.
///
/// Volcano since January 2026 also wants a deserved amount beside each guarantee. Queues written for
/// the proportion plugin have none, so that is not asked here.
pub(super) fn queue_amounts() -> Value {
    ORDERS.iter().flat_map(|order| COMPARED.map(|resource| order.rule(resource))).collect()
}

/// On a queue: it is not its own parent. Root may say that it is: Volcano lets that pass.
///
/// At the root nothing is ratcheted, since the metadata always changes; so what is stored already is
/// let pass here, or the status of such a queue could not be written.
pub(super) fn not_own_parent() -> Value {
    json!([{
        "rule": "!has(self.spec) || !has(self.spec.parent) || self.spec.parent == 'root' \
                 || self.spec.parent != self.metadata.name \
                 || oldSelf.?spec.?parent.orValue('') == self.spec.parent",
        "optionalOldSelf": true,
        "message": "a queue cannot be its own parent",
        "fieldPath": ".spec.parent",
    }])
}

/// A resource list in a queue's spec.
struct Amounts {
    path: &'static str,
    /// Whether the list is there.
    present: &'static str,
}

const GUARANTEE: Amounts =
    Amounts { path: "guarantee.resource", present: "has(self.guarantee) && has(self.guarantee.resource)" };
const DESERVED: Amounts = Amounts { path: "deserved", present: "has(self.deserved)" };
const CAPABILITY: Amounts = Amounts { path: "capability", present: "has(self.capability)" };

impl Amounts {
    fn has(&self, resource: &str) -> String {
        format!("{} && '{resource}' in self.{}", self.present, self.path)
    }

    /// The quantity, which may stand there as text or as a number.
    fn quantity(&self, resource: &str) -> String {
        let value = format!("self.{}['{resource}']", self.path);
        format!("(type({value}) == string ? quantity({value}) : quantity('0').add({value}))")
    }
}

/// Two lists of which the first must not exceed the second.
struct Order {
    low: Amounts,
    high: Amounts,
    /// The list at which the error is shown.
    at: &'static str,
    /// The words of Volcano's webhook, which Volcano's tools look for.
    words: &'static str,
}

const ORDERS: [Order; 3] = [
    Order { low: GUARANTEE, high: DESERVED, at: "deserved", words: "must be >= guarantee" },
    Order { low: GUARANTEE, high: CAPABILITY, at: "guarantee.resource", words: "must be <= capability" },
    Order { low: DESERVED, high: CAPABILITY, at: "deserved", words: "must be <= capability" },
];

impl Order {
    /// One rule a resource, so that the error names it.
    fn rule(&self, resource: &str) -> Value {
        let Self { low, high, at, words } = self;
        let (has_low, has_high) = (low.has(resource), high.has(resource));
        let (least, most) = (low.quantity(resource), high.quantity(resource));
        json!({
            "rule": format!("!({has_low} && {has_high}) || !{least}.isGreaterThan({most})"),
            "message": format!("{at} of {resource} {words}"),
            "fieldPath": format!(".{at}['{resource}']"),
        })
    }
}

fn list(names: &[&str]) -> String {
    format!("['{}']", names.join("', '"))
}

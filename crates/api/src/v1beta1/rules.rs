//! The CEL rules of the schemas: what Volcano's default admission refuses, and nothing more.
//!
//! A rule sees one object, so what depends on others (the parent exists, children fit in their
//! parent) stays with the admission webhook; so does what an operator may switch off there (root
//! protection). Changes to a stored object that breaks a rule pass as long as that part is untouched
//! (validation ratcheting).
//!
//! The API server bounds the estimated cost of a rule, and before Kubernetes 1.34 estimates a
//! quantity as long as a whole request. Hence amounts are compared for the resources listed here,
//! not for any name.

use serde_json::{Value, json};

/// Resources whose amounts are compared across fields: 13 is about what the cost limit admits.
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

/// On a quantity: not below zero.
pub(super) fn not_negative() -> Value {
    json!({
        "rule": "type(self) == string ? !self.startsWith('-') : self >= 0",
        "message": "must not be negative",
    })
}

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
pub(super) fn one_highest_tier() -> Value {
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
    let guarantee = ("guarantee.resource", "has(self.guarantee) && has(self.guarantee.resource)");
    let deserved = ("deserved", "has(self.deserved)");
    let capability = ("capability", "has(self.capability)");
    json!([at_most(guarantee, deserved), at_most(guarantee, capability), at_most(deserved, capability),])
}

/// On a queue: it is not its own parent. Root may say that it is: Volcano lets that pass.
pub(super) fn not_own_parent() -> Value {
    json!([{
        "rule": "!has(self.spec) || !has(self.spec.parent) || self.spec.parent == 'root' \
                 || self.spec.parent != self.metadata.name",
        "message": "a queue cannot be its own parent",
        "fieldPath": ".spec.parent",
    }])
}

/// A field as (path, condition that it is there).
type Field = (&'static str, &'static str);

fn at_most((low, has_low): Field, (high, has_high): Field) -> Value {
    let names = list(&COMPARED);
    let (a, b) = (format!("self.{low}"), format!("self.{high}"));
    let exceeds = format!(
        "n in {a} && n in {b} && {}.isGreaterThan({})",
        amount(&format!("{a}[n]")),
        amount(&format!("{b}[n]")),
    );
    json!({
        "rule": format!("!({has_low} && {has_high}) || !{names}.exists(n, {exceeds})"),
        "messageExpression": format!("'{low} exceeds {high}: ' + {names}.filter(n, {exceeds}).join(', ')"),
        "message": format!("{low} must not exceed {high}"),
        "fieldPath": format!(".{low}"),
    })
}

/// A quantity given as text or as a number.
fn amount(path: &str) -> String {
    format!("(type({path}) == string ? quantity({path}) : quantity('0').add({path}))")
}

fn list(names: &[&str]) -> String {
    format!("['{}']", names.join("', '"))
}

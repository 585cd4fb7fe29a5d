//! `topology.volcano.sh/v1alpha1`: [`HyperNode`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedded;
use crate::lenient::{is_default, non_empty, null_is_default, open_enum};
use crate::v1beta1::schema;

/// The API group.
pub const GROUP: &str = "topology.volcano.sh";
/// The only version.
pub const VERSION: &str = "v1alpha1";
/// Group and version as they stand in `apiVersion`.
pub const API_VERSION: &str = "topology.volcano.sh/v1alpha1";

/// Nodes that are near to each other in the network; cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HyperNode {
    /// Name, labels, annotations.
    pub metadata: ObjectMeta,
    /// What it consists of.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: HyperNodeSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<HyperNodeStatus>,
}

/// What a HyperNode consists of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["tier", "members"]))]
pub struct HyperNodeSpec {
    /// Nodes of a lower tier are nearer to each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::tier")]
    pub tier: Option<i64>,
    /// A name for the tier, by which PodGroups may ask for it.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub tier_name: Option<String>,
    /// Nodes, or HyperNodes of lower tiers.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16384))]
    pub members: Vec<MemberSpec>,
}

/// Nodes, or a HyperNode of a lower tier.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["type", "selector"]))]
pub struct MemberSpec {
    /// Of which kind the members are.
    #[serde(rename = "type", deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MemberType")]
    pub type_: Option<MemberType>,
    /// Which ones.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    pub selector: MemberSelector,
}

open_enum! {
    /// The kind of the members of a HyperNode.
    MemberType {
        /// Nodes.
        Node = "Node",
        /// HyperNodes of lower tiers.
        HyperNode = "HyperNode",
    }
}

/// Which nodes or HyperNodes are members: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = one_match()))]
pub struct MemberSelector {
    /// The one of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExactMatch")]
    pub exact_match: Option<ExactMatch>,
    /// Nodes by their names; not for HyperNodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RegexMatch")]
    pub regex_match: Option<RegexMatch>,
    /// Nodes by their labels; not for HyperNodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector", extend("x-kubernetes-map-type" = "atomic"))]
    pub label_match: Option<LabelSelector>,
}

/// The messages are those of Volcano's definition.
fn one_match() -> Value {
    let has = ["exactMatch", "regexMatch", "labelMatch"].map(|field| format!("has(self.{field})"));
    let count = has.each_ref().map(|has| format!("({has} ? 1 : 0)"));
    json!([
        {
            "rule": has.join(" || "),
            "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
        },
        {
            "rule": format!("{} <= 1", count.join(" + ")),
            "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        },
    ])
}

/// The node or HyperNode of a name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name"]))]
pub struct ExactMatch {
    /// The name.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::SOME_NAME))]
    pub name: String,
}

/// Nodes whose names match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["pattern"]))]
pub struct RegexMatch {
    /// A regular expression (RE2) that matches a part of the name.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512), extend("x-kubernetes-validations" = is_pattern()))]
    pub pattern: String,
}

/// CEL has no function that tells a regular expression, but a rule that cannot be evaluated refuses the object, with the
/// error before the message. The limits on lengths keep what the API server expects of its cost below its limit.
fn is_pattern() -> Value {
    json!([{
        "rule": "''.matches(self) in [true, false]",
        "message": "member regexMatch pattern is invalid, expected a regular expression (RE2)",
    }])
}

/// What was observed of a HyperNode.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HyperNodeStatus {
    /// Conditions; nobody writes any.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embedded::conditions")]
    pub conditions: Vec<Condition>,
    // Written even when zero, so that it can be told from a HyperNode that was not counted yet.
    /// Members that it names itself: nodes, and HyperNodes as one each.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub node_count: i64,
}
